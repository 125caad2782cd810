package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/snowfence/snowflake"
)

// store is a region's lease store as all workers share it. It keeps every record that it
// ever had.
type store struct {
	mu      sync.Mutex
	current map[int]snowflake.Record
	history map[int][]snowflake.Record // by worker number, oldest first
}

func newStore() *store {
	return &store{current: make(map[int]snowflake.Record), history: make(map[int][]snowflake.Record)}
}

func (s *store) records() []snowflake.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	records := make([]snowflake.Record, 0, len(s.current))
	for _, r := range s.current {
		records = append(records, r)
	}
	return records
}

func (s *store) swap(old, next snowflake.Record) (snowflake.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored := s.current[next.Worker]
	if stored.Version != old.Version || stored.Nonce != old.Nonce {
		return snowflake.Record{}, snowflake.ErrConflict
	}
	next.Version = stored.Version + 1
	s.current[next.Worker] = next
	s.history[next.Worker] = append(s.history[next.Worker], next)
	return next, nil
}

// free returns how many codes a right clock finds free.
func (s *store) free() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := codes
	for worker, r := range s.current {
		if worker >= 0 && r.Ceiling.After(rightTime()) {
			free--
		}
	}
	return free
}

// span is what one owner had of one code, by the store's history.
type span struct {
	owner          string
	floor, ceiling time.Time
}

// spans returns them by worker number. An owner's floor is the ceiling of the record
// before its own; its ceiling is the highest that the store ever had for it.
func (s *store) spans() (map[int][]span, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[int][]span)
	for worker, history := range s.history {
		nonces := make(map[string]bool)
		var before snowflake.Record
		for _, r := range history {
			list := all[worker]
			switch {
			case r.Nonce != before.Nonce && nonces[r.Nonce]:
				return nil, fmt.Errorf("worker %d: a nonce came back", worker)
			case r.Nonce != before.Nonce && worker >= 0 && r.Token != before.Token+1:
				return nil, fmt.Errorf("worker %d: token went from %d to %d", worker, before.Token, r.Token)
			case r.Ceiling.Before(before.Ceiling) && (!r.Released || r.Nonce != before.Nonce):
				return nil, fmt.Errorf("worker %d: ceiling lowered from %v to %v without a release", worker, before.Ceiling, r.Ceiling)
			case r.Nonce != before.Nonce:
				list = append(list, span{owner: r.Owner, floor: before.Ceiling, ceiling: r.Ceiling})
			default:
				last := &list[len(list)-1]
				if r.Ceiling.Before(last.floor) {
					return nil, fmt.Errorf("worker %d: released below its floor", worker)
				}
				if r.Ceiling.After(last.ceiling) {
					last.ceiling = r.Ceiling
				}
			}
			all[worker], nonces[r.Nonce], before = list, true, r
		}
	}
	return all, nil
}

// link is one process' way to its region's store.
type link struct {
	store *store
	world *world
	gate  *gate

	mu     sync.Mutex
	random *rand.Rand
	cut    bool
	dead   bool // the process was killed: what it sent may still land
}

var (
	errReset = errors.New("sim: connection reset")
	errDead  = errors.New("sim: the process is dead")
)

func (l *link) Records(ctx context.Context, _ int) ([]snowflake.Record, error) {
	return call(ctx, l, false, func() ([]snowflake.Record, error) { return l.store.records(), nil })
}

func (l *link) Swap(ctx context.Context, old, next snowflake.Record) (snowflake.Record, error) {
	return call(ctx, l, true, func() (snowflake.Record, error) { return l.store.swap(old, next) })
}

// fate is what the network does to one request.
type fate struct {
	there, back time.Duration
	name        string
}

func (l *link) draw(write bool) fate {
	l.mu.Lock()
	defer l.mu.Unlock()
	ms := func(n int) time.Duration { return time.Duration(1+l.random.IntN(n)) * time.Millisecond }
	f := fate{there: ms(5), back: ms(5)}
	if l.dead {
		f.name = "dead"
		return f
	}
	if l.world.calm() {
		return f
	}
	switch n := l.random.IntN(100); {
	case l.cut && n < 50:
		f.name = "black hole"
	case l.cut:
		f.name = "refused"
	case n < 4:
		f.name = "request lost"
	case n < 8:
		f.name = "answer lost"
	case n < 11:
		f.name = "reset after the write"
	case n < 14:
		f.name, f.there = "slow request", ms(3000)
	case n < 17:
		f.name, f.back = "slow answer", ms(3000)
	case n < 20 && write:
		f.name = "doubled"
	case n < 25 && write:
		f.name, f.there = "lands late", ms(30_000)
	}
	if f.name != "" {
		l.world.count(f.name)
	}
	return f
}

func call[T any](ctx context.Context, l *link, write bool, apply func() (T, error)) (T, error) {
	var none T
	f := l.draw(write)
	wait := func(d time.Duration) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		}
	}
	never := func() (T, error) {
		<-ctx.Done()
		return none, ctx.Err()
	}
	switch f.name {
	case "dead":
		return none, errDead
	case "refused":
		return none, errReset
	case "black hole", "request lost":
		return never()
	case "lands late":
		l.world.later.Go(func() {
			time.Sleep(f.there)
			_, _ = apply()
		})
		return never()
	}
	if err := wait(f.there); err != nil {
		return none, err
	}
	value, err := apply()
	switch f.name {
	case "answer lost":
		return never()
	case "reset after the write":
		return none, errReset
	case "doubled":
		_, _ = apply()
	}
	if err := wait(f.back); err != nil {
		return none, err
	}
	l.gate.pass() // a process that stands still hears nothing
	return value, err
}
