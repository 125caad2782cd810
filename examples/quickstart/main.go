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
	err := run(ctx)
	stop()
	if err != nil {
		log.Fatalf("quickstart: %v", err)
	}
}

func run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "snowflake-quickstart-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	rows, err := readRows(tzdata)
	if err != nil {
		return err
	}
	db, err := createTable(filepath.Join(dir, databaseName))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	f := newFleet(dir, inChunks(rows, chunkRows))
	defer f.killAll()
	fmt.Printf("%d lines, %d worker processes, %d worker codes, leases of %v\n", len(rows), workers, codes, ttl)
	if err := f.story(ctx, len(rows)); err != nil {
		return err
	}
	return f.report(ctx, db, rows)
}

// story is what happens to the workers while they work.
func (f *fleet) story(ctx context.Context, total int) error {
	bar := newBar(total)
	defer bar.Close() //nolint:errcheck // nothing is lost with a bar
	progress := func() error { return bar.Set(total * f.done / len(f.chunks)) }
	until := func(what string, happened func() bool) error { return f.workUntil(ctx, progress, what, happened) }
	share := func(percent int) func() bool { return func() bool { return f.done*100 >= len(f.chunks)*percent } }

	for range workers {
		if err := f.start(); err != nil {
			return err
		}
	}
	if err := until("a fifth of the lines is in", share(20)); err != nil {
		return err
	}
	f.killed = f.busy()
	f.kill(f.killed) // SIGKILL: it gives nothing back
	var err error
	if f.replacement, err = f.startAndWait(until); err != nil { // another code, at once
		return err
	}
	if err := until("two fifths are in", share(40)); err != nil {
		return err
	}
	f.stopped = f.busy()
	if err := f.stop(f.stopped); err != nil {
		return err
	}
	lapsed := f.stopped.grant().Ceiling.Add(ttl / 4)
	if err := until("its lease has run out", func() bool { return time.Now().After(lapsed) }); err != nil {
		return err
	}
	if err := f.takeOver(until); err != nil {
		return err
	}
	f.signal(f.stopped, syscall.SIGCONT)
	if err := until("the stopped worker is well again", func() bool { return f.stopped.healed }); err != nil {
		return err
	}
	if err := until("all lines are in", share(100)); err != nil {
		return err
	}
	f.closeAll()
	return until("all workers are gone", func() bool { return f.alive() == 0 })
}

// newBar draws on a terminal; in a log a bar would be noise.
func newBar(total int) *progressbar.ProgressBar {
	info, err := os.Stderr.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	if !terminal {
		fmt.Println("inserting ... (some 10 seconds)")
	}
	return progressbar.NewOptions(total, progressbar.OptionSetDescription("inserting"), progressbar.OptionShowCount(),
		progressbar.OptionSetWriter(os.Stderr), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetVisibility(terminal))
}

// takeOver starts successors until the codes of the killed and of the stopped worker are in
// other hands. Those that got another code are sent away.
func (f *fleet) takeOver(until func(string, func() bool) error) error {
	var successors []*process
	for !f.successor(f.killed) || !f.successor(f.stopped) {
		if len(successors) > codes {
			return errors.New("nobody got the codes of the killed and the stopped worker")
		}
		p, err := f.startAndWait(until)
		if err != nil {
			return err
		}
		successors = append(successors, p)
	}
	for _, p := range successors {
		if code := p.grant().Code; code != f.killed.grant().Code && code != f.stopped.oldGrant().Code {
			f.close(p)
		}
	}
	return nil
}

// workUntil keeps the work going until something has happened.
func (f *fleet) workUntil(ctx context.Context, progress func() error, what string, happened func() bool) error {
	deadline := time.After(time.Minute)
	for !happened() {
		select {
		case <-ctx.Done():
			return errors.New("interrupted")
		case <-deadline:
			return fmt.Errorf("waited a minute until %s", what)
		case e := <-f.events:
			if err := errors.Join(f.handle(e), progress()); err != nil {
				return err
			}
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}
