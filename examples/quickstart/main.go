//go:build unix

// Quickstart shows the main job on real input, without a server: worker processes lease
// their codes from one folder, mint a key for each line of a real file with gen.Next(),
// and insert the lines into one SQLite database under these keys. In the middle one
// worker is killed, and another is stopped past its lease and resumed. The run fails if
// a key repeats, if a line is missing, or if a key lies outside its owner's grant.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/snowfence/snowflake"
)

// A small region and short leases, so that codes change hands while you watch. A service
// would leave all of this at its defaults.
const (
	workers   = 5
	codes     = 8
	chunkRows = 20
	ttl       = 2 * time.Second
	renew     = ttl / 4
)

func layout() snowflake.Layout {
	l := snowflake.DefaultLayout()
	l.WorkerBits = 3 // 8 codes
	l.TimeBits = 46
	return l
}

func main() {
	log.SetFlags(0)
	if dir := os.Getenv(workerEnv); dir != "" {
		if err := work(dir); err != nil {
			log.Fatalf("worker %d: %v", os.Getpid(), err)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatalf("quickstart: %v", err)
	}
}

func run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "snowflake-quickstart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	rows, err := readRows(tzdata)
	if err != nil {
		return err
	}
	db, err := createTable(filepath.Join(dir, databaseName))
	if err != nil {
		return err
	}
	defer db.Close()

	f := newFleet(dir, inChunks(rows, chunkRows))
	defer f.killAll()
	fmt.Printf("%d lines, %d worker processes, %d worker codes, leases of %v\n", len(rows), workers, codes, ttl)
	if err := f.story(ctx, len(rows)); err != nil {
		return err
	}
	return f.report(ctx, db, len(rows))
}

// story is what happens to the workers while they work.
func (f *fleet) story(ctx context.Context, total int) error {
	bar := progressbar.NewOptions(total, progressbar.OptionSetDescription("inserting"), progressbar.OptionShowCount(),
		progressbar.OptionSetWriter(os.Stderr), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	defer bar.Close() //nolint:errcheck // nothing is lost with a bar
	// waitFor keeps the work going until something has happened.
	waitFor := func(what string, happened func() bool) error {
		deadline := time.After(time.Minute)
		for !happened() {
			select {
			case <-ctx.Done():
				return errors.New("interrupted")
			case <-deadline:
				return fmt.Errorf("waited a minute until %s", what)
			case e := <-f.events:
				if err := f.handle(e); err != nil {
					return err
				}
				if err := bar.Set(total * f.done / len(f.chunks)); err != nil {
					return err
				}
			case <-time.After(10 * time.Millisecond):
			}
		}
		return nil
	}
	share := func(percent int) func() bool { return func() bool { return f.done*100 >= len(f.chunks)*percent } }

	for range workers {
		if err := f.start(); err != nil {
			return err
		}
	}
	if err := waitFor("a fifth of the lines is in", share(20)); err != nil {
		return err
	}

	// One is killed: SIGKILL, so that nothing is given back. A new process takes over.
	f.killed = f.busy()
	f.kill(f.killed)
	if err := f.start(); err != nil {
		return err
	}
	if err := waitFor("two fifths are in", share(40)); err != nil {
		return err
	}

	// One is stopped, as by a debugger or a host that hangs, for longer than its lease.
	f.stopped = f.busy()
	f.signal(f.stopped, syscall.SIGSTOP)
	if err := waitFor("its lease has run out", func() bool { return time.Now().After(f.stopped.grant().Ceiling.Add(ttl / 4)) }); err != nil {
		return err
	}
	// Successors come, until both codes are in other hands; those that got another code
	// are sent away.
	for !f.successor(f.killed) || !f.successor(f.stopped) {
		p, err := f.startAndWait(waitFor)
		if err != nil {
			return err
		}
		f.visitors = append(f.visitors, p)
		if len(f.visitors) > codes {
			return errors.New("nobody got the codes of the killed and the stopped worker")
		}
	}
	for _, p := range f.visitors {
		if code := p.grant().Code; code != f.killed.grant().Code && code != f.stopped.oldGrant().Code {
			f.close(p)
		}
	}
	f.signal(f.stopped, syscall.SIGCONT)
	if err := waitFor("the stopped worker is well again", func() bool { return f.stopped.healed }); err != nil {
		return err
	}
	if err := waitFor("all lines are in", share(100)); err != nil {
		return err
	}
	f.closeAll()
	return waitFor("all workers are gone", func() bool { return f.alive() == 0 })
}
