// Command worker is a service in small: it leases a worker code, mints IDs until its
// standard input ends, and prints every one. The fault suite runs it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/faults"
)

const (
	patience = 10 * time.Second // for one attempt to open the store, or to acquire
	retry    = 50 * time.Millisecond
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

func run() error {
	var plan faults.Plan
	if err := json.Unmarshal([]byte(os.Getenv(faults.PlanEnv)), &plan); err != nil {
		return fmt.Errorf("%s: %w", faults.PlanEnv, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		}
	}()
	w := worker{plan: plan, out: json.NewEncoder(os.Stdout)}
	return w.work(ctx)
}

type worker struct {
	plan faults.Plan
	out  *json.Encoder
	seen string // the last refusal that was told
}

func (w *worker) work(ctx context.Context) error {
	store, closeStore, err := await(ctx, w, func(ctx context.Context) (opened, error) {
		s, c, err := w.plan.Store.Open(ctx)
		return opened{s, c}, err
	}).values()
	if err != nil {
		return err
	}
	defer func() { _ = closeStore() }()
	cfg := snowflake.LeaseConfig{
		Region: w.plan.Region, Layout: w.plan.Layout(), Owner: w.plan.Owner, TTL: w.plan.TTL, Renew: w.plan.Renew,
		Settle: w.plan.Settle, MaxClockSkew: w.plan.MaxClockSkew, Clock: w.clock(),
	}
	lease := await(ctx, w, func(ctx context.Context) (*snowflake.WorkerLease, error) {
		return snowflake.AcquireLease(ctx, store, cfg)
	})
	if lease == nil {
		return nil // told to end
	}
	watched := &watchedLease{WorkerLease: lease}
	gen, err := snowflake.New(ctx, snowflake.Config{Lease: watched, Clock: cfg.Clock})
	if err != nil {
		return errors.Join(err, lease.Close(context.WithoutCancel(ctx)))
	}
	if err := w.say(faults.Message{Acquired: grant(lease.Grant())}); err != nil {
		return err
	}
	if err := w.mint(ctx, gen, watched); err != nil {
		return err
	}
	if err := gen.Close(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	return w.say(faults.Message{Closed: true})
}

// mint mints and tells until ctx ends.
func (w *worker) mint(ctx context.Context, gen *snowflake.Generator, lease *watchedLease) error {
	tick := time.NewTicker(w.plan.Pace)
	defer tick.Stop()
	for ctx.Err() == nil {
		var said faults.Message
		for range w.plan.Batch {
			id, err := gen.Next()
			if err != nil {
				if err := w.refused(err); err != nil {
					return err
				}
				break
			}
			w.seen = ""
			g := grant(lease.last.Load())
			if said.Grant == nil || *said.Grant != *g {
				if err := w.tell(said); err != nil {
					return err
				}
				said = faults.Message{Grant: g}
			}
			said.Runs = add(said.Runs, int64(id))
		}
		if err := w.tell(said); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return nil
}

func add(runs [][2]int64, id int64) [][2]int64 {
	if n := len(runs); n > 0 && runs[n-1][0]+runs[n-1][1]+1 == id {
		runs[n-1][1]++
		return runs
	}
	return append(runs, [2]int64{id, 0})
}

func (w *worker) tell(m faults.Message) error {
	if m.Grant == nil {
		return nil
	}
	return w.say(m)
}

// refused tells of a refusal, once until an ID was minted again. Only those that pass by
// themselves may happen.
func (w *worker) refused(err error) error {
	if w.seen != "" {
		return nil
	}
	w.seen = err.Error()
	return w.say(faults.Message{Refused: w.seen})
}

func (w *worker) say(m faults.Message) error { return w.out.Encode(m) }

type opened struct {
	store snowflake.LeaseStore
	close func() error
}

func (o opened) values() (snowflake.LeaseStore, func() error, error) {
	if o.store == nil {
		return nil, nil, errors.New("told to end before the store opened")
	}
	return o.store, o.close, nil
}

// await tries again until it succeeds, or the zero value when ctx has ended: a service
// would crash and be started again, which takes longer and shows the same.
func await[T any](ctx context.Context, w *worker, try func(context.Context) (T, error)) (got T) {
	for ctx.Err() == nil {
		attempt, cancel := context.WithTimeout(ctx, patience)
		got, err := try(attempt)
		cancel()
		if err == nil {
			w.seen = ""
			return got
		}
		_ = w.refused(err)
		time.Sleep(retry)
	}
	return got
}

// watchedLease remembers the grant that the generator saw last: the one that the ID which
// Next has just returned was claimed under.
type watchedLease struct {
	*snowflake.WorkerLease
	last atomic.Pointer[snowflake.Grant]
}

func (l *watchedLease) Grant() *snowflake.Grant {
	g := l.WorkerLease.Grant()
	if g != nil {
		l.last.Store(g)
	}
	return g
}

func grant(g *snowflake.Grant) *faults.Grant {
	if g == nil {
		return nil
	}
	return &faults.Grant{Code: g.Code, Token: g.Token, Floor: g.Floor, Ceiling: g.Ceiling}
}
