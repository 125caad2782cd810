package snowflake

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// noon is when most tests begin: a whole millisecond, years after the epoch.
var noon = time.Date(2030, time.June, 1, 12, 0, 0, 0, time.UTC)

// handClock is a clock that moves only by hand, in any direction. After fires when a
// Set has passed its time.
type handClock struct {
	mu     sync.Mutex
	now    time.Time
	alarms []alarm
}

type alarm struct {
	at time.Time
	c  chan time.Time
}

func newHandClock() *handClock { return &handClock{now: noon} }

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	fired := make(chan time.Time, 1)
	c.alarms = append(c.alarms, alarm{c.now.Add(d), fired})
	return fired
}

func (c *handClock) Set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
	left := c.alarms[:0]
	for _, a := range c.alarms {
		if a.at.After(now) {
			left = append(left, a)
			continue
		}
		a.c <- now
	}
	c.alarms = left
}

func (c *handClock) Add(d time.Duration) { c.Set(c.Now().Add(d)) }

// waiting returns how many wait on After.
func (c *handClock) waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.alarms)
}

// awaitWaiting returns once n wait on After.
func (c *handClock) awaitWaiting(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return c.waiting() >= n }, 10*time.Second, time.Millisecond)
}

// handLease is a lease whose grant tests set.
type handLease struct {
	grant    atomic.Pointer[Grant]
	released chan time.Time
}

func newHandLease(g Grant) *handLease {
	l := &handLease{released: make(chan time.Time, 1)}
	l.grant.Store(&g)
	return l
}

func (l *handLease) Grant() *Grant { return l.grant.Load() }

func (l *handLease) Release(_ context.Context, unused time.Time) error {
	l.grant.Store(nil)
	l.released <- unused
	return nil
}

// day is a grant of a code from the clock's start for a day.
func day(code int) Grant {
	return Grant{Code: code, Token: 1, Floor: noon, Ceiling: noon.Add(24 * time.Hour)}
}

// newTestGenerator returns a generator, closed with the test. Lease and clock may be
// left out.
func newTestGenerator(t testing.TB, cfg Config) *Generator {
	t.Helper()
	if cfg.Clock == nil {
		cfg.Clock = newHandClock()
	}
	if cfg.Lease == nil {
		cfg.Lease = newHandLease(day(7))
	}
	g, err := New(context.Background(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close(context.Background())) })
	return g
}

// ledger fails the test on the first ID that repeats.
type ledger struct {
	mu   sync.Mutex
	seen map[ID]string
}

func newLedger() *ledger { return &ledger{seen: make(map[ID]string)} }

func (l *ledger) add(t testing.TB, who string, ids ...ID) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if before, ok := l.seen[id]; ok {
			t.Fatalf("%d of %s was given to %s before", id, who, before)
		}
		if id <= 0 {
			t.Fatalf("%d of %s is not positive", id, who)
		}
		l.seen[id] = who
	}
}

func mustNext(t testing.TB, g *Generator) ID {
	t.Helper()
	id, err := g.Next()
	require.NoError(t, err)
	return id
}

func mustUnpack(t testing.TB, l Layout, id ID) Parts {
	t.Helper()
	p, err := l.Unpack(id)
	require.NoError(t, err)
	return p
}

// fill returns n IDs, which must come without an error.
func fill(t testing.TB, g *Generator, n int) []ID {
	t.Helper()
	ids := make([]ID, n)
	got, err := g.Fill(t.Context(), ids)
	require.NoError(t, err)
	require.Equal(t, n, got)
	return ids
}

// memoryMarks is a HighWaterStore that survives "crashes" of its users: kill takes
// the code from its owner as the end of a process does.
type memoryMarks struct {
	mu     sync.Mutex
	marks  map[int]time.Time
	owners map[int]*memoryMark
	fail   error // of Advance
}

type memoryMark struct {
	store  *memoryMarks
	code   int
	opened time.Time
}

func newMemoryMarks() *memoryMarks {
	return &memoryMarks{marks: make(map[int]time.Time), owners: make(map[int]*memoryMark)}
}

func (s *memoryMarks) Open(_ context.Context, code int, _ Layout) (HighWater, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owners[code] != nil {
		return nil, fmt.Errorf("%w: code %d", ErrCodeInUse, code)
	}
	m := &memoryMark{s, code, s.marks[code]}
	s.owners[code] = m
	return m, nil
}

func (s *memoryMarks) kill(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.owners, code)
}

func (s *memoryMarks) setFail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func (s *memoryMarks) mark(code int) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.marks[code]
}

func (m *memoryMark) Mark() time.Time { return m.opened }

func (m *memoryMark) Advance(_ context.Context, mark time.Time) error {
	m.store.mu.Lock()
	defer m.store.mu.Unlock()
	if m.store.owners[m.code] != m {
		return ErrConflict
	}
	if m.store.fail != nil {
		return m.store.fail
	}
	if mark.After(m.store.marks[m.code]) {
		m.store.marks[m.code] = mark
	}
	return nil
}

func (m *memoryMark) Close(_ context.Context, unused time.Time) error {
	m.store.mu.Lock()
	defer m.store.mu.Unlock()
	if m.store.owners[m.code] != m {
		return ErrConflict
	}
	delete(m.store.owners, m.code)
	if !unused.IsZero() {
		m.store.marks[m.code] = m.opened
		if unused.After(m.opened) {
			m.store.marks[m.code] = unused
		}
	}
	return nil
}
