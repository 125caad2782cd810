// Kubernetes is the service that the manifests beside it deploy: it leases a worker code,
// tells probes whether it can make keys, and gives the code back when it is told to end.
//
//	POST /keys   a new key
//	GET /ready   200 while keys can be made, else 503 and why: the readiness probe
//	GET /live    200: the startup and the liveness probe
//
// SNOWFLAKE_REGION is the number of the cluster's region and has no default. DATABASE_URL
// is the region's PostgreSQL, POD_NAME is for people.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/stores/sqlstore"
)

const (
	regionEnv   = "SNOWFLAKE_REGION"
	databaseEnv = "DATABASE_URL"
	podEnv      = "POD_NAME"
	address     = ":8080"
)

// pace is how long the steps to the end may take. Together they must stay below
// terminationGracePeriodSeconds: a pod that is killed keeps its code for up to TTL.
type pace struct {
	leave time.Duration // unready, but serving: until the cluster has stopped sending requests
	drain time.Duration // those that are under way
	close time.Duration // giving the code back
}

var inOrder = pace{leave: 5 * time.Second, drain: 10 * time.Second, close: 10 * time.Second}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	region, err := parseRegion(os.Getenv(regionEnv), snowflake.DefaultLayout())
	if err != nil {
		return err
	}
	db, err := sql.Open("pgx", os.Getenv(databaseEnv))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	store, err := sqlstore.Open(ctx, db, sqlstore.Postgres, sqlstore.Options{})
	if err != nil {
		return err
	}
	gen, err := lease(ctx, store, region, os.Getenv(podEnv))
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return errors.Join(err, gen.Close(context.Background()))
	}
	return serve(ctx, gen, listener, inOrder)
}

// parseRegion takes no default and no spelling but one: a region that is guessed is a
// region that two clusters have.
func parseRegion(text string, layout snowflake.Layout) (int, error) {
	n, err := strconv.Atoi(text)
	if last := 1<<layout.RegionBits - 1; err != nil || strconv.Itoa(n) != text || n < 0 || n > last {
		return 0, fmt.Errorf("%s is %q, must be the cluster's own number, 0 to %d", regionEnv, text, last)
	}
	return n, nil
}

func lease(ctx context.Context, store snowflake.LeaseStore, region int, owner string) (*snowflake.Generator, error) {
	hooks := snowflake.LogHooks(nil)
	lease, err := snowflake.AcquireLease(ctx, store, snowflake.LeaseConfig{Region: region, Owner: owner, Hooks: hooks})
	if err != nil {
		return nil, err
	}
	gen, err := snowflake.New(ctx, snowflake.Config{Lease: lease, Hooks: hooks})
	if err != nil {
		return nil, errors.Join(err, lease.Close(context.Background()))
	}
	return gen, nil
}

// serve serves until ctx ends, and then ends in order.
func serve(ctx context.Context, gen *snowflake.Generator, listener net.Listener, p pace) error {
	var leaving atomic.Bool
	server := &http.Server{Handler: handler(gen, &leaving), ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return errors.Join(err, gen.Close(context.Background()))
	case <-ctx.Done():
	}
	leaving.Store(true)
	time.Sleep(p.leave)
	drain, cancel := context.WithTimeout(context.Background(), p.drain)
	err := server.Shutdown(drain)
	cancel()
	closing, cancel := context.WithTimeout(context.Background(), p.close)
	defer cancel()
	return errors.Join(err, gen.Close(closing))
}

func handler(gen *snowflake.Generator, leaving *atomic.Bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /live", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		err := gen.Health()
		if leaving.Load() {
			err = errors.New("ending")
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("POST /keys", func(w http.ResponseWriter, r *http.Request) {
		id, err := gen.NextContext(r.Context())
		switch {
		case snowflake.Retryable(err):
			w.Header().Set("Retry-After", "1")
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			_ = json.NewEncoder(w).Encode(map[string]snowflake.ID{"id": id}) // the client is gone, or not
		}
	})
	return mux
}
