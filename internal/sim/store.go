package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/snowfence/snowflake"
)

// store is a region's lease store as all workers share it. It keeps every record that it
// ever had.
type store struct {
	mu       sync.Mutex
	current  map[int]snowflake.Record
	history  map[int][]entry // by worker number, oldest first
	cutUntil time.Time
	closed   bool // to workers

	written, durable int // writes, in their order: how many there were, and the last that somebody was told of
}

// entry is a record, and when it was written.
type entry struct {
	snowflake.Record
	at time.Time
	n  int // in the order of all writes
}

func newStore() *store {
	return &store{current: make(map[int]snowflake.Record), history: make(map[int][]entry)}
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

func (s *store) swap(old, next snowflake.Record, operator bool) (entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed && !operator { // what was on its way does not get in either
		return entry{}, errReset
	}
	stored := s.current[next.Worker]
	if stored.Version != old.Version || stored.Nonce != old.Nonce {
		return entry{}, snowflake.ErrConflict
	}
	next.Version = stored.Version + 1
	s.current[next.Worker] = next
	s.written++
	e := entry{next, time.Now(), s.written}
	s.history[next.Worker] = append(s.history[next.Worker], e)
	return e, nil
}

// acknowledge makes a write durable, and all before it, because somebody is told of it. It
// returns false if it is gone.
func (s *store) acknowledge(e entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := slices.ContainsFunc(s.history[e.Worker], func(o entry) bool { return o.n == e.n })
	if there {
		s.durable = max(s.durable, e.n)
	}
	return there
}

// failOver loses the last writes, of which nobody was told, though all have been seen.
func (s *store) failOver(random *rand.Rand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.durable + random.IntN(s.written-s.durable+1)
	s.cutBack(func(e entry) bool { return e.n > last })
}

// forget brings back what was durable d ago, as a failover to a replica does.
func (s *store) forget(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := time.Now().Add(-d)
	s.cutBack(func(e entry) bool { return e.at.After(since) })
}

// cutBack takes the last writes back.
func (s *store) cutBack(gone func(entry) bool) {
	for worker, history := range s.history {
		for len(history) > 0 && gone(history[len(history)-1]) {
			history = history[:len(history)-1]
		}
		s.history[worker] = slices.Clip(history)
		delete(s.current, worker)
		if len(history) > 0 {
			s.current[worker] = history[len(history)-1].Record
		}
	}
}

// cut takes the store from everybody for d.
func (s *store) cut(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cutUntil = time.Now().Add(d)
}

// setClosed takes the store from workers, or gives it back to them.
func (s *store) setClosed(closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = closed
}

func (s *store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *store) isCut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.cutUntil)
}

// held returns how many codes have a ceiling above an instant.
func (s *store) held(at time.Time) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for worker, r := range s.current {
		if worker >= 0 && r.Ceiling.After(at) {
			n++
		}
	}
	return n
}

// titles adds what the history shows each owner to have had, by code, or returns what is
// wrong with it.
func (s *store) titles(w *world, region int, all map[int]title) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for worker, history := range s.history {
		if worker < 0 {
			continue
		}
		spans, err := spansOf(w, history)
		if err != nil {
			return fmt.Errorf("worker %d of region %d: %w", worker, region, err)
		}
		all[region<<w.shape.layout.WorkerBits|worker] = newTitle(spans)
	}
	return nil
}

// spansOf checks what one record went through. An owner's floor is the ceiling of the
// record before its own; what it may use is below a ceiling that the store had at the time.
func spansOf(w *world, history []entry) (list []*span, err error) {
	nonces := make(map[string]bool)
	var before snowflake.Record
	for _, r := range history {
		fresh := ownerOf(r.Nonce) != ownerOf(before.Nonce)
		ceiling := w.shape.tick(r.Ceiling)
		switch {
		case nonces[r.Nonce], fresh && nonces[ownerOf(r.Nonce)]:
			return nil, errors.New("a nonce came back")
		case fresh && r.Token != before.Token+1:
			return nil, fmt.Errorf("token went from %d to %d", before.Token, r.Token)
		case !fresh && r.Token != before.Token:
			return nil, fmt.Errorf("token went from %d to %d with one owner", before.Token, r.Token)
		case r.Ceiling.Before(before.Ceiling) && (fresh || !r.Released):
			return nil, fmt.Errorf("ceiling lowered from %v to %v without a release", before.Ceiling, r.Ceiling)
		case !fresh && before.Released:
			return nil, fmt.Errorf("%s wrote after its release", r.Owner)
		}
		if fresh {
			list = append(list, &span{owner: w.ownerNumber(r.Owner), token: r.Token, floor: w.shape.tick(before.Ceiling), final: noTick, byHand: r.Released})
		}
		last := list[len(list)-1]
		last.levels = append(last.levels, level{r.at, ceiling})
		if r.Released {
			if ceiling < last.floor {
				return nil, errors.New("released below its floor")
			}
			last.final = ceiling
			last.lowered = r.Ceiling.Before(before.Ceiling)
		}
		nonces[r.Nonce], nonces[ownerOf(r.Nonce)], before = true, true, r.Record
	}
	return list, nil
}

// ownerOf returns the part of a nonce that all writes of one owner have.
func ownerOf(nonce string) string {
	owner, _, _ := strings.Cut(nonce, ".")
	return owner
}
