package snowflake

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// WorkerLease is a lease of one worker code of a region, kept in a LeaseStore. It
// renews itself in the background and, if another owner has taken the code, acquires
// a fresh one; a generator on it adopts what comes. It serves one generator.
//
// Why two owners cannot collide, whatever clocks and networks do: the code that a
// record names may be used up to the ceiling in the record, and the only way to the
// next range is a compare-and-swap of version and nonce. So
//
//   - a ceiling is revealed only after the store has acknowledged its write: it is
//     durable. What a store shows need not be: a primary that lost its replica may
//     show a commit that it will lose in a failover. So what is read back tells which
//     version to present, and nothing else; the next write, once acknowledged, came
//     after all that was shown, and proves it durable;
//   - an acquisition starts at the ceiling of the record whose version it presents:
//     everything below it was the owners' before;
//   - every write has a nonce of its own, in which its owner knows itself again. A
//     write that lands late finds its version gone, also where a version that was
//     lost has come again, and changes nothing;
//   - only the owner itself lowers a ceiling, after it has stopped for good, and
//     never below its floor or what it has claimed.
//
// Clocks and deadlines decide only how soon a code is used again.
type WorkerLease struct {
	store    LeaseStore
	cfg      LeaseConfig // filled in
	layout   Layout
	frame    frame
	elapsed  stopwatch
	hooks    *Hooks
	pending  chan struct{} // holds an element while a request is in flight
	soon     chan struct{} // a claim has run into the ceiling
	finished chan struct{} // closed when run has ended
	cancel   context.CancelFunc

	grant   atomic.Pointer[Grant] // nil: nothing is held
	serving atomic.Bool           // a generator has the lease

	mu sync.Mutex
	// mu protects the fields below, and stores to grant.
	err      error
	released bool
	stats    LeaseStats

	// Of run, and of Release once run has ended.
	held       *holding // nil: a code is being acquired
	writes     uint64   // nonces that were made for writes of what is held
	background bool     // AcquireLease has returned
	late       int      // requests given up on since it is
	lapse      <-chan time.Time
	clocks     clockWitness
}

// holding is what is known of the record that the lease owns.
type holding struct {
	record      Record // as last acknowledged by the store, and durable: what is revealed
	seen        Record // as last acknowledged or shown: what the next write presents
	floor       int64  // tick
	deadline    time.Duration
	lastAttempt time.Duration
	checked     bool // the clock was compared with living peers once
	suspended   bool
}

// LeaseStats is a snapshot of a lease's counters and gauges.
type LeaseStats struct {
	Region, Worker  int // Worker is -1 while nothing is held
	Token           uint64
	Held            bool      // Grant is not nil
	Floor, Ceiling  time.Time // of the record, also while suspended
	Acquisitions    uint64    // codes taken
	Renewals        uint64    // ceilings raised
	RenewalFailures uint64    // attempts to renew, or to acquire in the background, that failed
	Conflicts       uint64    // swaps that found another version
	Losses          uint64    // times that a held grant ended: suspended, taken, or the clock stepped
	Forgotten       uint64    // times that the store had lost an acknowledged write
}

const (
	defaultTTL     = 2 * time.Minute
	defaultMaxSkew = 5 * time.Second
	attemptLimit   = 4 * time.Second
	maxOwner       = 255
)

// AcquireLease takes a worker code of cfg.Region in store and keeps it until Release
// or Close. ctx bounds the acquisition only.
//
// The code is a random one that was never used or whose ceiling has passed. If none
// is free but one will be before ctx ends, AcquireLease waits for it; else the error is
// ErrNoWorkerCode and tells the earliest time. Further errors: ErrLayoutMismatch if the
// region was begun with another layout, ErrClockSkew if the local clock is off,
// ErrBeforeEpoch, ErrTimeOverflow, ErrDamaged, ctx's, and what the store returns. Without
// a deadline in ctx it gives up after about TTL.
func AcquireLease(ctx context.Context, store LeaseStore, cfg LeaseConfig) (*WorkerLease, error) {
	cfg, err := cfg.filled(store)
	if err != nil {
		return nil, err
	}
	l := &WorkerLease{
		store: store, cfg: cfg, layout: cfg.Layout, frame: newFrame(cfg.Layout),
		elapsed: newStopwatch(cfg.Clock), hooks: cfg.Hooks.filled(),
		pending: make(chan struct{}, 1), soon: make(chan struct{}, 1), finished: make(chan struct{}),
		err: ErrLeaseLost,
	}
	if err := l.frame.checkPresent(nanos(cfg.Clock.Now())); err != nil {
		return nil, err
	}
	l.clocks = newClockWitness(l)
	l.stats.Region, l.stats.Worker = cfg.Region, -1
	if err := l.acquire(ctx); err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.Background())
	l.cancel, l.background = cancel, true
	go l.run(running)
	return l, nil
}

// filled checks a LeaseConfig and fills in its defaults.
func (c LeaseConfig) filled(store LeaseStore) (LeaseConfig, error) {
	if store == nil {
		return c, errors.New("snowflake: AcquireLease: store is nil: use DirStore, or a module of stores/ for more than one machine")
	}
	if c.Layout == (Layout{}) {
		c.Layout = DefaultLayout()
	}
	c.Layout = c.Layout.normal()
	if c.TTL == 0 {
		c.TTL = defaultTTL
	}
	if c.Renew == 0 {
		c.Renew = c.TTL / 6
	}
	if c.MaxClockSkew == 0 {
		c.MaxClockSkew = defaultMaxSkew
	}
	if c.Clock == nil {
		c.Clock = SystemClock()
	}
	if c.Owner == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown host"
		}
		c.Owner = fmt.Sprintf("%.200s/%d", host, os.Getpid())
	}
	if s, ok := store.(forgetful); ok && c.Settle == 0 && s.MayForget() {
		c.Settle = c.TTL + c.MaxClockSkew
	}
	c.Settle = max(c.Settle, 0)
	if c.kin == nil {
		c.kin = newKin()
	}
	return c, c.check()
}

// check refuses what cannot work.
func (c LeaseConfig) check() error {
	if err := c.Layout.Validate(); err != nil {
		return err
	}
	refuse := func(format string, args ...any) error { return fmt.Errorf("snowflake: LeaseConfig."+format, args...) }
	switch lastRegion := 1<<c.Layout.RegionBits - 1; {
	case c.Region < 0 || c.Region > lastRegion:
		return refuse("Region is %d, must be 0 to %d (%d bits)", c.Region, lastRegion, c.Layout.RegionBits)
	case c.TTL < 3*c.Layout.Tick || c.TTL > maxAheadLimit:
		return refuse("TTL is %v, must be %v (three ticks) to %v", c.TTL, 3*c.Layout.Tick, maxAheadLimit)
	case c.Renew <= 0 || c.Renew > c.TTL/3:
		return refuse("Renew is %v, must be above 0 and at most TTL/3 = %v", c.Renew, c.TTL/3)
	case c.MaxClockSkew < 0 || c.MaxClockSkew > maxAheadLimit:
		return refuse("MaxClockSkew is %v, must be above 0 and at most %v", c.MaxClockSkew, maxAheadLimit)
	case c.Settle > 2*maxAheadLimit: // the longest TTL + MaxClockSkew
		return refuse("Settle is %v, must be at most %v", c.Settle, 2*maxAheadLimit)
	case len(c.Owner) > maxOwner:
		return refuse("Owner has %d bytes, must have at most %d", len(c.Owner), maxOwner)
	}
	return nil
}

// Grant returns what is held now, nil if nothing is. It never blocks.
func (l *WorkerLease) Grant() *Grant { return l.grant.Load() }

// Layout returns the layout of the region.
func (l *WorkerLease) Layout() Layout { return l.layout }

// Err returns nil while a code is held, else why none is: a *LeaseError that wraps
// ErrLeaseLost, or ErrClosed.
func (l *WorkerLease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Stats returns a snapshot.
func (l *WorkerLease) Stats() LeaseStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	stats := l.stats
	stats.Held = l.grant.Load() != nil
	return stats
}

// serve reserves the lease for one generator.
func (l *WorkerLease) serve() error {
	if errors.Is(l.Err(), ErrClosed) {
		return fmt.Errorf("%w: the lease was released: acquire another", ErrClosed)
	}
	if !l.serving.CompareAndSwap(false, true) {
		return fmt.Errorf("%w: the lease already serves another generator: share that one, or acquire a lease for each", ErrCodeInUse)
	}
	return nil
}

func (l *WorkerLease) unserve() { l.serving.Store(false) }

// renewSoon has the lease renewed at once: a claim has run into its ceiling, as it
// does after a suspend or a step of the clock.
func (l *WorkerLease) renewSoon() {
	select {
	case l.soon <- struct{}{}:
	default:
	}
}

// run keeps the lease until ctx ends.
func (l *WorkerLease) run(ctx context.Context) {
	defer close(l.finished)
	for failures := 0; ctx.Err() == nil; {
		var err error
		acquiring := l.held == nil
		if acquiring {
			err = l.acquire(ctx)
		} else {
			l.pause(ctx, failures)
			err = l.renew(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			failures = 0
			continue
		}
		failures++
		l.failed(err)
		if acquiring { // renewals have a pause of their own, and a loss needs none
			sleep(ctx, jitter(min(l.cfg.Renew, attemptLimit), failures))
		}
	}
}

// failed tells of an attempt that failed in the background.
func (l *WorkerLease) failed(err error) {
	l.count(func(s *LeaseStats) { s.RenewalFailures++ })
	l.hooks.RenewFailed(err)
}

// pause waits until the next renewal is due: Renew, shortened at random so that the
// workers of a region do not march in step, or less after failures.
func (l *WorkerLease) pause(ctx context.Context, failures int) {
	wait := l.cfg.Renew - l.cfg.Renew/4 + randomUpTo(l.cfg.Renew/4)
	if failures > 0 {
		wait = jitter(min(l.cfg.Renew, attemptLimit), failures)
	}
	due := l.cfg.Clock.After(wait)
	sooner := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-due:
			return
		case <-l.lapse:
			l.checkLapse()
		case <-l.soon:
			// Asked for by every claim that is refused: not more often than
			// makes sense, but not forgotten either.
			early := min(l.cfg.Renew/8, time.Second) - (l.elapsed.Elapsed() - l.held.lastAttempt)
			if early <= 0 {
				return
			}
			if failures == 0 && !sooner {
				sooner = true
				due = l.cfg.Clock.After(early)
			}
		}
	}
}

// sleep waits in real time: contention and outages are not on an injected clock.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// attempt is how long a request may take. A renewal must leave time for others before the
// deadline. An acquisition gives the store up to four times as long: if a crowd that starts at one
// instant gave up on every answer and asked anew, a slow store would serve none of it.
func (l *WorkerLease) attempt() time.Duration {
	limit := attemptLimit
	if l.held == nil {
		limit <<= min(l.late, 2)
	}
	return min(l.cfg.Renew, limit)
}

// ask sends one request and waits for the answer, at most for one attempt. One is in
// flight at a time: one that was given up on holds the place until it has ended, and
// its answer is dropped.
func ask[T any](ctx context.Context, l *WorkerLease, request func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	ctx, cancel := context.WithTimeout(ctx, l.attempt())
	defer cancel()
	for mine := false; !mine; {
		select {
		case l.pending <- struct{}{}:
			mine = true
		case <-ctx.Done():
			return none, fmt.Errorf("snowflake: lease store: an earlier request has not ended: %w", ctx.Err())
		case <-l.lapse:
			l.checkLapse()
		}
	}
	answers := make(chan answer, 1)
	go func() {
		defer func() { <-l.pending }()
		value, err := request(ctx)
		answers <- answer{value, err}
	}()
	for {
		select {
		case a := <-answers:
			return a.value, a.err
		case <-ctx.Done():
			l.late++
			return none, fmt.Errorf("snowflake: lease store: no answer: %w", ctx.Err())
		case <-l.lapse:
			l.checkLapse()
		}
	}
}

func (l *WorkerLease) swap(ctx context.Context, old, new Record) (Record, error) {
	stored, err := ask(ctx, l, func(ctx context.Context) (Record, error) { return l.store.Swap(ctx, old, new) })
	if errors.Is(err, ErrConflict) {
		l.count(func(s *LeaseStats) { s.Conflicts++ })
	}
	if err == nil && (stored.Nonce != new.Nonce || stored.Worker != new.Worker || stored.Version <= old.Version) {
		err = fmt.Errorf("snowflake: lease store: Swap returned version %d of worker %d, which is not what was written", stored.Version, stored.Worker)
	}
	return stored, err
}

func (l *WorkerLease) records(ctx context.Context) ([]Record, error) {
	return ask(ctx, l, func(ctx context.Context) ([]Record, error) { return l.store.Records(ctx, l.cfg.Region) })
}

// reveal publishes what the record allows, and returns false if its deadline has
// passed. The record must be durable.
func (l *WorkerLease) reveal() bool {
	h := l.held
	left := h.deadline - l.elapsed.Elapsed()
	if left <= 0 {
		return false
	}
	grant := &Grant{
		Code:     l.cfg.Region<<l.layout.WorkerBits | h.record.Worker,
		Token:    h.record.Token,
		Floor:    l.frame.time(h.floor),
		Ceiling:  h.record.Ceiling,
		Deadline: l.cfg.Clock.Now().Add(left),
	}
	if _, ok := l.cfg.Clock.(elapser); ok {
		grant.expires = h.deadline
	}
	l.lapse = l.cfg.Clock.After(left)
	l.mu.Lock()
	if l.released {
		l.mu.Unlock()
		return true
	}
	fresh := l.grant.Load() == nil
	l.grant.Store(grant)
	l.err = nil
	l.stats.Worker, l.stats.Token = h.record.Worker, h.record.Token
	l.stats.Floor, l.stats.Ceiling = grant.Floor, grant.Ceiling
	l.mu.Unlock()
	h.suspended = false
	if fresh {
		l.hooks.LeaseAcquired(*grant)
	}
	return true
}

// withdraw ends the grant, and says why.
func (l *WorkerLease) withdraw(why *LeaseError) {
	l.lapse = nil
	l.mu.Lock()
	if l.released {
		l.mu.Unlock()
		return
	}
	held := l.grant.Swap(nil) != nil
	l.err = why
	if held {
		l.stats.Losses++
	}
	l.mu.Unlock()
	if held {
		l.hooks.LeaseLost(why)
	}
}

// drop withdraws the grant for ever: the next thing is to acquire a fresh code.
func (l *WorkerLease) drop(why *LeaseError) {
	l.withdraw(why)
	l.held = nil
	l.count(func(s *LeaseStats) { s.Worker = -1 })
}

// checkLapse suspends the grant if its deadline has passed. The record stays the
// lease's own: a renewal that succeeds restores it.
func (l *WorkerLease) checkLapse() {
	h := l.held
	l.lapse = nil
	if h == nil || h.suspended {
		return
	}
	if left := h.deadline - l.elapsed.Elapsed(); left > 0 {
		l.lapse = l.cfg.Clock.After(left)
		return
	}
	h.suspended = true
	l.withdraw(l.leaseError(h.record, fmt.Errorf("%w: suspended, no renewal has succeeded for %v", ErrLeaseLost, l.cfg.TTL)))
}

func (l *WorkerLease) leaseError(r Record, err error) *LeaseError {
	return &LeaseError{Region: r.Region, Worker: r.Worker, Holder: r.Owner, Until: r.Ceiling, Err: err}
}

func (l *WorkerLease) count(change func(*LeaseStats)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.stats)
}

// Release stops the lease for good and gives the code back: it can be used again as
// soon as clocks have passed unused, the first tick that was not claimed (zero:
// unknown, then its ceiling). It ends when ctx does, and in any case after about 10 s;
// an error says that the code stays reserved up to its ceiling, which costs nothing
// else. A lease that holds nothing, and a second call, have nothing to do. A generator
// on the lease calls it in Close.
func (l *WorkerLease) Release(ctx context.Context, unused time.Time) error {
	l.mu.Lock()
	if l.released {
		l.mu.Unlock()
		return nil
	}
	l.released = true
	l.err = ErrClosed
	l.grant.Store(nil)
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	l.cancel()
	select {
	case <-l.finished:
	case <-ctx.Done():
		return fmt.Errorf("snowflake: releasing a lease: the store has not answered: %w", ctx.Err())
	}
	if l.held == nil {
		return nil
	}
	l.lapse = nil
	return l.giveBack(ctx, unused)
}

// Close is Release with unused unknown: the code stays reserved up to its ceiling.
func (l *WorkerLease) Close(ctx context.Context) error { return l.Release(ctx, time.Time{}) }

// giveBack writes the release, once the lease has stopped.
func (l *WorkerLease) giveBack(ctx context.Context, unused time.Time) error {
	h := l.held
	for failures := 0; ; failures++ {
		next := h.seen
		next.Released, next.Nonce = true, l.nonce(next)
		if !unused.IsZero() {
			tick := max(h.floor, l.frame.ceilTick(nanos(unused)))
			tick = min(tick, l.frame.floorTick(nanos(h.seen.Ceiling)))
			next.Ceiling = l.frame.time(tick)
		}
		_, err := l.swap(ctx, h.seen, next)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			var current Record
			var found bool
			var readErr error
			current, found, readErr = l.readBack(ctx)
			switch {
			case readErr != nil:
			case !found:
				lost := l.forgotten(current, found)
				l.hooks.StoreForgot(lost)
				return fmt.Errorf("snowflake: releasing a lease: %w", lost)
			case !sameOwner(current, h.record) || current.Released && current.Version > h.record.Version:
				// Another owner's, or the release has landed. If that is lost, the code stays
				// reserved up to the ceiling before, and that is all.
				return nil
			case l.lost(current):
				// What was claimed lies below the ceiling that is lost: it must not
				// be given back lower.
				l.hooks.StoreForgot(l.forgotten(current, found))
				current.Ceiling = later(current.Ceiling, h.record.Ceiling)
				h.record, h.seen = current, current
			default:
				h.seen = current
			}
			sleep(ctx, jitter(min(l.cfg.Renew, attemptLimit), failures+1))
		}
		if ctx.Err() != nil {
			return fmt.Errorf("snowflake: releasing worker %d of region %d: it stays reserved until %s: %w",
				h.record.Worker, h.record.Region, h.record.Ceiling.Format(time.RFC3339Nano), errors.Join(err, ctx.Err()))
		}
	}
}
