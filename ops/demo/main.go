// Demo is a small service that is watched: a generator under load, /metrics, /readyz and /livez,
// and a switch for faults, so that alerts and dashboard can be seen at work.
//
//	go run ./ops/demo -listen 127.0.0.1:8080
//	curl -X POST localhost:8080/faults/clock      # the clock goes back 8 s
//	curl -X POST localhost:8080/faults/store      # the lease store is unreachable
//	curl -X DELETE localhost:8080/faults/store    # … and is back
//
// The faults are clock, store, load (more IDs than fit), codes (every worker code is held)
// and duplicate (the database refused a key; DELETE restarts the generator). Its lease has a
// TTL of 6 s and its layout 256 IDs in a millisecond, so that things happen while one watches. It
// listens on the loopback address unless told otherwise: whoever reaches it can break it.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *listen)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx ends. The first line that it prints is its address.
func run(ctx context.Context, address string) error {
	s, err := newService(ctx)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = server.Shutdown(closing) // connections that stay open do not matter any more
	return s.close(closing)
}
