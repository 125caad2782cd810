package snowflake

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// These fakes live in a synctest bubble: a fakeStore that checks every write, a worker
// with a clock and a way to the store of its own, and a world that lets time pass and
// looks at every grant on the way. What must hold always is checked here, in every
// test; the tests say what must happen.

// bubbleStart is when a bubble's time begins.
var bubbleStart = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// bubbleClock is one machine's clock. Its wall clock begins at noon and can be stepped.
type bubbleClock struct {
	offset atomic.Int64 // of the wall clock
	asleep atomic.Int64 // how long the machine was suspended
}

func newBubbleClock() *bubbleClock {
	c := &bubbleClock{}
	c.step(noon.Sub(bubbleStart))
	return c
}

func (c *bubbleClock) Now() time.Time {
	return time.Now().Round(0).UTC().Add(time.Duration(c.offset.Load() + c.asleep.Load()))
}

func (c *bubbleClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

func (c *bubbleClock) Elapsed() time.Duration {
	return time.Since(bubbleStart) + time.Duration(c.asleep.Load()) + time.Second
}

func (c *bubbleClock) step(d time.Duration)    { c.offset.Add(int64(d)) }
func (c *bubbleClock) suspend(d time.Duration) { c.asleep.Add(int64(d)) }

// plainClock is a Clock without Elapsed.
type plainClock struct{ Clock }

var (
	errDown = errors.New("the store is down")
	errLost = errors.New("the connection was lost")
)

// fakeStore keeps records in memory, and all that was ever written.
type fakeStore struct {
	t testing.TB

	mu       sync.Mutex
	records  map[[2]int]Record // by region and worker
	history  []Record
	acked    map[[2]int]Record    // as last acknowledged: all that is durable for certain
	attempts map[string]bool      // nonces that somebody tried to write
	floors   map[string]time.Time // by owner's nonce: the ceiling that the acquisition found
	released map[string]bool      // nonces of owners that have released
	forgets  bool                 // forget was called: grants may overlap
	operated bool                 // an operator takes codes and releases them in one
	revealed map[[2]int]map[uint64]rectangle
}

// rectangle is what was revealed of one owner's grants.
type rectangle struct {
	floor, ceiling time.Time
	released       bool // ceiling is the one that the owner went back to
}

func newFakeStore(t testing.TB) *fakeStore {
	return &fakeStore{
		t: t, records: make(map[[2]int]Record), acked: make(map[[2]int]Record), attempts: make(map[string]bool),
		floors: make(map[string]time.Time), released: make(map[string]bool), revealed: make(map[[2]int]map[uint64]rectangle),
	}
}

func (s *fakeStore) list(region int) []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	var records []Record
	for key, r := range s.records {
		if key[0] == region {
			records = append(records, r)
		}
	}
	slices.SortFunc(records, func(a, b Record) int { return a.Worker - b.Worker })
	return records
}

func (s *fakeStore) record(worker int) Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[[2]int{0, worker}]
}

// put writes a record as somebody else would.
func (s *fakeStore) put(r Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Worker != layoutWorker && r.Nonce == "" {
		r.Nonce = newNonce()
	}
	r.Version = max(r.Version, s.records[[2]int{r.Region, r.Worker}].Version+1)
	s.records[[2]int{r.Region, r.Worker}], s.acked[[2]int{r.Region, r.Worker}] = r, r
	s.floors[ownerNonce(r.Nonce)] = r.Ceiling
}

// forget takes a code back to an earlier record; a zero one: to none.
func (s *fakeStore) forget(worker int, earlier Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgets = true
	s.records[[2]int{0, worker}] = earlier
	if earlier.Version == 0 {
		delete(s.records, [2]int{0, worker})
	}
}

// swap is what a LeaseStore's Swap must do.
func (s *fakeStore) swap(old, new Record) (Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := [2]int{new.Region, new.Worker}
	stored := s.records[key]
	if stored.Version != old.Version || stored.Nonce != old.Nonce {
		return Record{}, ErrConflict
	}
	new.Version = stored.Version + 1
	s.check(stored, new)
	s.records[key] = new
	s.history = append(s.history, new)
	return new, nil
}

// check holds a write against the rules. Requires s.mu.
func (s *fakeStore) check(stored, new Record) {
	owner := ownerNonce(new.Nonce)
	complain := func(what string) { s.t.Errorf("%s: from %+v to %+v", what, stored, new) }
	switch {
	case new.Worker == layoutWorker:
		if stored.Version != 0 {
			complain("the layout record was written twice")
		}
		return
	case !sameOwner(new, stored):
		if new.Token != stored.Token+1 {
			complain("an acquisition must raise the token by one")
		}
		if new.Ceiling.Before(stored.Ceiling) {
			complain("an acquisition lowered the ceiling")
		}
		if new.Released && !s.operated {
			complain("an acquisition that is released")
		}
		if _, repeated := s.floors[owner]; repeated {
			complain("a nonce came back")
		}
		s.floors[owner] = stored.Ceiling
	case new.Token != stored.Token:
		complain("an owner changed its token")
	case stored.Released && !new.Released && s.released[owner]:
		complain("a renewal after the release")
	case new.Ceiling.Before(stored.Ceiling):
		if !new.Released {
			complain("a renewal lowered the ceiling")
		}
		if new.Ceiling.Before(s.floors[owner]) {
			complain("a release went below the floor")
		}
	}
	if !new.Ceiling.Equal(new.Ceiling.Truncate(time.Millisecond)) {
		complain("a ceiling is not a whole tick")
	}
	if new.Released {
		s.released[owner] = true
		code := [2]int{new.Region, new.Worker}
		if r, ok := s.revealed[code][new.Token]; ok && new.Ceiling.Before(r.ceiling) {
			r.ceiling, r.released = new.Ceiling, true
			s.revealed[code][new.Token] = r
		}
	}
}

// attempt holds a request against the rules, whether it arrives or not.
func (s *fakeStore) attempt(new Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempts[new.Nonce] || len(new.Nonce) < 16 {
		s.t.Errorf("two writes with the nonce %q", new.Nonce)
	}
	s.attempts[new.Nonce] = true
}

// acknowledge notes what a user was told.
func (s *fakeStore) acknowledge(r Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key := [2]int{r.Region, r.Worker}; r.Version > s.acked[key].Version {
		s.acked[key] = r
	}
}

// failOver brings back what was acknowledged last, as a replica has it that the primary
// waits for: writes that were seen, and not acknowledged, are gone.
func (s *fakeStore) failOver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.records {
		if r, durable := s.acked[key]; durable {
			s.records[key] = r
		} else {
			delete(s.records, key)
		}
	}
}

// see holds a grant against what is durable now, and against the grants of others.
func (s *fakeStore) see(region, worker int, g *Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forgets {
		return
	}
	code := [2]int{region, worker}
	if s.revealed[code] == nil {
		s.revealed[code] = make(map[uint64]rectangle)
	}
	durable := s.acked[code]
	switch {
	case g.Token > durable.Token:
		s.t.Errorf("a grant with token %d, the store has acknowledged %+v", g.Token, durable)
	case g.Token == durable.Token && !durable.Released && g.Ceiling.After(durable.Ceiling):
		s.t.Errorf("a ceiling was revealed that is not durable: %+v, the store has acknowledged %+v", *g, durable)
	}
	mine := s.revealed[code][g.Token]
	if mine.floor.IsZero() || g.Floor.Before(mine.floor) {
		mine.floor = g.Floor
	}
	if g.Ceiling.After(mine.ceiling) && !mine.released {
		mine.ceiling = g.Ceiling
	}
	s.revealed[code][g.Token] = mine
	for token, other := range s.revealed[code] {
		if token != g.Token && mine.floor.Before(other.ceiling) && other.floor.Before(mine.ceiling) {
			s.t.Errorf("grants of code %d overlap: token %d from %v to %v, token %d from %v to %v",
				worker, g.Token, mine.floor, mine.ceiling, token, other.floor, other.ceiling)
		}
	}
}

// fault is what happens to one request. The zero fault is none.
type fault struct {
	err    error         // the answer, and nothing was done
	delay  time.Duration // of the request
	lost   bool          // the request never arrives, nothing is answered
	late   time.Duration // the same for its user, but it arrives after so long
	twice  bool          // the request is delivered twice, the second is answered
	silent bool          // done, but nothing is answered
	broken bool          // done, but the answer is an error
	slow   time.Duration // the answer's delay
	deaf   bool          // ctx is not looked at
}

// link is one worker's way to the store.
type link struct {
	store *fakeStore
	user  string

	mu     sync.Mutex
	down   bool
	script map[string][]fault                // by operation, for the next ones
	plan   func(op string, new Record) fault // for all others
	before func(op string)                   // called first
	calls  map[string]int                    // by operation
	asked  []time.Time                       // of swaps
	flying int

	now func() time.Time // the store's clock
}

func (k *link) set(change func(*link)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change(k)
}

// next says what happens to the next requests of a kind: "records", "swap", "time".
func (k *link) next(op string, faults ...fault) {
	k.set(func(k *link) { k.script[op] = append(k.script[op], faults...) })
}

func (k *link) count(op string) (n int) {
	k.set(func(k *link) { n = k.calls[op] })
	return n
}

// begin notes a request, and returns its fate.
func (k *link) begin(op string, new Record) (f fault) {
	var before func(string)
	k.set(func(k *link) { before = k.before })
	if before != nil {
		before(op)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls[op]++
	if k.flying++; k.flying > 1 {
		k.store.t.Errorf("%s has %d requests in flight", k.user, k.flying)
	}
	switch script := k.script[op]; {
	case len(script) > 0:
		f, k.script[op] = script[0], script[1:]
	case k.down:
		f = fault{err: errDown}
	case k.plan != nil:
		f = k.plan(op, new)
	}
	return f
}

func (k *link) end() { k.set(func(k *link) { k.flying-- }) }

func (f fault) wait(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	if f.deaf {
		time.Sleep(d)
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func call[T any](ctx context.Context, k *link, f fault, do func() (T, error)) (T, error) {
	defer k.end()
	var none T
	if f.err != nil {
		return none, f.err
	}
	if err := f.wait(ctx, f.delay); err != nil {
		return none, err
	}
	if f.late > 0 {
		go func() {
			time.Sleep(f.late)
			_, _ = do()
		}()
	}
	if f.lost || f.late > 0 {
		<-ctx.Done()
		return none, ctx.Err()
	}
	value, err := do()
	if f.twice {
		value, err = do()
	}
	if f.silent {
		<-ctx.Done()
		return none, ctx.Err()
	}
	if f.broken {
		return none, errLost
	}
	if err := f.wait(ctx, f.slow); err != nil {
		return none, err
	}
	return value, err
}

func (k *link) Records(ctx context.Context, region int) ([]Record, error) {
	f := k.begin("records", Record{})
	return call(ctx, k, f, func() ([]Record, error) { return k.store.list(region), nil })
}

func (k *link) Swap(ctx context.Context, old, new Record) (Record, error) {
	k.store.attempt(new)
	k.set(func(k *link) { k.asked = append(k.asked, time.Now()) })
	f := k.begin("swap", new)
	stored, err := call(ctx, k, f, func() (Record, error) { return k.store.swap(old, new) })
	if err == nil {
		k.store.acknowledge(stored)
	}
	return stored, err
}

func (k *link) storeTime(ctx context.Context) (time.Time, error) {
	f := k.begin("time", Record{})
	return call(ctx, k, f, func() (time.Time, error) { return k.now(), nil })
}

// timedLink is a way to a store that tells the time.
type timedLink struct{ *link }

func (k timedLink) Time(ctx context.Context) (time.Time, error) { return k.storeTime(ctx) }

// forgetfulLink is a way to a store that says it may forget.
type forgetfulLink struct{ *link }

func (forgetfulLink) MayForget() bool { return true }

// worker is a process with one lease.
type worker struct {
	*link
	world *world
	clock *bubbleClock
	store LeaseStore // nil: the link, without time
	cfg   LeaseConfig
	lease atomic.Pointer[WorkerLease]

	told         sync.Mutex
	acquired     []Grant
	lost, forgot []*LeaseError
	failed       []error
}

// world is what a test has.
type world struct {
	*testing.T
	store   *fakeStore
	clock   *bubbleClock // a right one
	mu      sync.Mutex
	workers []*worker
}

// inWorld runs a test in a bubble. At the end every lease is closed, and no goroutine
// may be left.
func inWorld(t *testing.T, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, store: newFakeStore(t), clock: newBubbleClock()}
		defer func() {
			for _, k := range w.workers {
				if l := k.lease.Load(); l != nil {
					k.set(func(k *link) { k.down, k.script, k.plan, k.before = false, nil, nil, nil })
					_ = l.Close(context.Background())
				}
			}
			time.Sleep(2 * time.Hour) // for what is late, or does not look at its context
		}()
		test(w)
		w.look()
	})
}

// codesOf is a layout for 1<<bits workers.
func codesOf(bits int) Layout {
	l := DefaultLayout()
	l.WorkerBits, l.SequenceBits = bits, 20-bits
	return l
}

// worker returns one that has no lease yet. change may be nil.
func (w *world) worker(change func(*worker)) *worker {
	k := &worker{world: w, clock: newBubbleClock()}
	k.link = w.store.link()
	k.now = w.clock.Now
	k.store = k.link
	k.cfg = LeaseConfig{Clock: k.clock, Hooks: &Hooks{
		LeaseAcquired: func(g Grant) { k.note(func() { k.acquired = append(k.acquired, g) }) },
		LeaseLost:     func(e *LeaseError) { k.note(func() { k.lost = append(k.lost, e) }) },
		StoreForgot:   func(e *LeaseError) { k.note(func() { k.forgot = append(k.forgot, e) }) },
		RenewFailed:   func(e error) { k.note(func() { k.failed = append(k.failed, e) }) },
	}}
	if change != nil {
		change(k)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.workers = append(w.workers, k)
	return k
}

func (k *worker) note(change func()) {
	k.told.Lock()
	defer k.told.Unlock()
	change()
}

func (k *worker) acquire(ctx context.Context) error {
	l, err := AcquireLease(ctx, k.store, k.cfg)
	if err == nil {
		k.lease.Store(l)
		k.world.look()
	}
	return err
}

// holder returns a worker with a lease.
func (w *world) holder(change func(*worker)) *worker {
	w.Helper()
	k := w.worker(change)
	require.NoError(w, k.acquire(w.Context()))
	return k
}

func (k *worker) grant() *Grant     { return k.lease.Load().Grant() }
func (k *worker) stats() LeaseStats { return k.lease.Load().Stats() }
func (k *worker) code() int         { return k.stats().Worker }
func (k *worker) stored() Record    { return k.world.store.record(k.code()) }
func (k *worker) close() error      { return k.release(time.Time{}) }
func (k *worker) cut(down bool)     { k.set(func(k *link) { k.down = down }) }

func (k *worker) release(unused time.Time) error {
	return k.lease.Load().Release(k.world.Context(), unused)
}

// kill ends the process: nothing of it reaches the store any more, but for what is on
// its way.
func (k *worker) kill() {
	l := k.lease.Swap(nil)
	k.cut(true)
	l.cancel()
	<-l.finished
}

// pass lets time pass, and looks at every grant on the way.
func (w *world) pass(d time.Duration) {
	for d > 0 {
		step := min(d, 250*time.Millisecond)
		time.Sleep(step)
		synctest.Wait()
		w.look()
		d -= step
	}
}

// look holds every grant against what is durable, and against the others.
func (w *world) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.workers {
		l := k.lease.Load()
		if l == nil {
			continue
		}
		g := l.Grant()
		if g == nil {
			continue
		}
		bits := l.layout.WorkerBits
		w.store.see(g.Code>>bits, g.Code&(1<<bits-1), g)
		if _, ok := k.cfg.Clock.(elapser); ok && k.clock.asleep.Load() == 0 && g.expires < k.clock.Elapsed() {
			w.Errorf("a grant is held %v after its deadline", k.clock.Elapsed()-g.expires)
		}
	}
}

// generator returns one on the worker's lease.
func (k *worker) generator() *Generator {
	k.world.Helper()
	g, err := New(k.world.Context(), Config{Lease: k.lease.Load(), Clock: k.cfg.Clock, MaxWait: -1})
	require.NoError(k.world, err)
	return g
}

// link returns a way to the store.
func (s *fakeStore) link() *link {
	return &link{store: s, script: make(map[string][]fault), calls: make(map[string]int)}
}
