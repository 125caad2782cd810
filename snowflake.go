package snowflake

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Config says how a generator works. Only Lease is required, and HighWater for a
// lease without ceilings.
type Config struct {
	// Lease gives the worker code. Once New succeeds, the generator owns it and
	// releases it in Close.
	Lease Lease
	// HighWater remembers how far a static code was used. It is required for a
	// lease without ceilings, and refused for one that has them: they serve the
	// same end.
	HighWater HighWaterStore
	// Window is how far ahead of the clock, beyond MaxAhead, the mark is kept:
	// at least 10 ms. A crash costs a restart at most MaxAhead + Window of
	// waiting. 0: 3 s.
	Window time.Duration
	// Layout is that of the lease if zero, else DefaultLayout.
	Layout Layout
	// Clock is SystemClock if nil.
	Clock Clock
	// MaxWait is the longest that Next may wait for a tick: a fresh one, or one
	// that the clock has to reach again after it went back. 0: 5 ms. Negative:
	// never wait.
	MaxWait time.Duration
	// MaxAhead is how far IDs may run ahead of the clock. 0 is strict: wait or
	// refuse. Above 0, a burst borrows from the next ticks, and a step back
	// within it is ridden through; order is then by that logical time. It is
	// safe after a crash, because the ceiling or mark was durable first. At
	// most 24 h.
	MaxAhead time.Duration
	// Hooks are told what happens; nil: nobody.
	Hooks *Hooks
}

const (
	defaultMaxWait = 5 * time.Millisecond
	defaultWindow  = 3 * time.Second
	minWindow      = 10 * time.Millisecond
	maxAheadLimit  = 24 * time.Hour
	closeLimit     = 10 * time.Second
)

// Generator mints IDs. All its methods may be called from many goroutines; share
// one generator instead of making several.
type Generator struct {
	mu sync.Mutex
	// mu protects state, markErr, and the calls of lease.Grant.
	state   claimState
	markErr error // why the mark was not advanced at the last attempt

	// Immutable after New.
	frame     frame
	layout    Layout
	lease     Lease
	clock     Clock
	system    bool    // clock is SystemClock
	elapsed   elapser // clock, if it can tell
	maxWait   time.Duration
	maxAhead  int64 // nanoseconds
	hooks     *Hooks
	highWater HighWaterStore
	markCode  int // the code that mark and registry are for; -1: the lease has ceilings
	marks     *markKeeper
	registry  codeKey // zero: not registered
	room      *waitRoom
	closing   chan struct{} // closed by Close
}

// New returns a generator on a lease that holds a code. It refuses settings that
// cannot work with an error that names the field, its value and its bound.
//
// For a static code, New opens the high-water mark and waits until the clock has
// reached it: at most MaxAhead + Window after a crash, not at all after a Close.
// Where the wait would be longer, it returns ErrHighWater at once. ctx bounds New
// only. When New fails, the lease still belongs to the caller.
func New(ctx context.Context, cfg Config) (*Generator, error) {
	g, window, err := configure(cfg)
	if err != nil {
		return nil, err
	}
	if l, ok := cfg.Lease.(interface {
		serve() error
		unserve()
	}); ok {
		if err := l.serve(); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				l.unserve()
			}
		}()
	}
	if err = g.start(ctx, window); err != nil {
		return nil, err
	}
	return g, nil
}

// configure checks a Config and builds a generator that has not started.
func configure(cfg Config) (*Generator, time.Duration, error) {
	refuse := func(format string, args ...any) (*Generator, time.Duration, error) {
		return nil, 0, fmt.Errorf("snowflake: "+format, args...)
	}
	if l, ok := cfg.Lease.(*WorkerLease); cfg.Lease == nil || ok && l == nil {
		return refuse("Config.Lease is nil: use AcquireLease or StaticLease")
	}
	if cfg.Window == 0 {
		cfg.Window = defaultWindow
	}
	if cfg.MaxWait == 0 {
		cfg.MaxWait = defaultMaxWait
	}
	if cfg.Window < minWindow || cfg.Window > maxAheadLimit {
		return refuse("Config.Window is %v, must be %v to %v", cfg.Window, minWindow, maxAheadLimit)
	}
	if cfg.MaxAhead < 0 || cfg.MaxAhead > maxAheadLimit {
		return refuse("Config.MaxAhead is %v, must be 0 to %v", cfg.MaxAhead, maxAheadLimit)
	}
	layout, err := layoutOf(cfg)
	if err != nil {
		return nil, 0, err
	}
	g := &Generator{
		frame: newFrame(layout), layout: layout, lease: cfg.Lease, clock: cfg.Clock,
		maxWait: max(cfg.MaxWait, 0), maxAhead: int64(cfg.MaxAhead), hooks: cfg.Hooks.filled(),
		highWater: cfg.HighWater, markCode: -1, room: newWaitRoom(), closing: make(chan struct{}),
	}
	if g.clock == nil {
		g.clock = SystemClock()
	}
	_, g.system = g.clock.(systemClock)
	g.elapsed, _ = g.clock.(elapser)
	// Before the first claim the last tick is a full tick 0, so that tick 0 is
	// never claimed.
	g.state = claimState{code: -1, sequence: g.frame.maxSequence, noted: g.frame.maxSequence, mark: noMarkTick}
	return g, cfg.Window, nil
}

// layoutOf returns the layout that Config and lease agree on.
func layoutOf(cfg Config) (Layout, error) {
	layout := cfg.Layout
	if l, ok := cfg.Lease.(interface{ Layout() Layout }); ok {
		leased := l.Layout()
		if layout == (Layout{}) {
			layout = leased
		}
		if layout.String() != leased.String() {
			return Layout{}, fmt.Errorf("%w: Config.Layout is %v, the lease's is %v", ErrLayoutMismatch, layout, leased)
		}
	}
	if layout == (Layout{}) {
		layout = DefaultLayout()
	}
	return layout.normal(), layout.Validate()
}

// checkPresent refuses a clock outside the layout.
func (f *frame) checkPresent(now int64) error {
	stamp := func(at int64) string { return time.Unix(0, at).UTC().Format(time.RFC3339Nano) }
	if now < f.epoch {
		return fmt.Errorf("%w: the clock reads %s, the epoch is %s: correct the clock, or choose an epoch in the past",
			ErrBeforeEpoch, stamp(now), stamp(f.epoch))
	}
	if end := f.start(f.lastTick + 1); now >= end {
		return fmt.Errorf("%w: the clock reads %s, the layout ended at %s: correct the clock, or plan a new layout",
			ErrTimeOverflow, stamp(now), stamp(end))
	}
	return nil
}

// start takes what the generator needs: its first grant, the code within the
// process, and the mark.
func (g *Generator) start(ctx context.Context, window time.Duration) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("snowflake: New: %w", err)
	}
	now := g.now()
	if err := g.frame.checkPresent(now); err != nil {
		return err
	}
	grant := g.lease.Grant()
	if grant == nil {
		return g.noGrant()
	}
	if grant.Ceiling.IsZero() {
		g.markCode = grant.Code
	}
	if err := g.usable(grant); err != nil {
		return fmt.Errorf("snowflake: %w", err)
	}
	if g.markCode >= 0 {
		if err := g.startStatic(ctx, window); err != nil {
			return err
		}
	}
	if g.state.highest = g.now(); g.state.highest >= g.state.warnDue {
		g.warn(g.state.highest)
	}
	g.tell(g.takeEvents())
	return nil
}

func (g *Generator) startStatic(ctx context.Context, window time.Duration) error {
	if g.system {
		key := codeKey{layout: g.layout.String(), code: g.markCode}
		floor, err := codes.take(key)
		if err != nil {
			return err
		}
		g.registry, g.state.markFloor = key, floor
	}
	floor := g.state.markFloor
	g.state.mark = 0 // nothing is permitted yet
	if err := g.openMark(ctx, g.highWater, window); err != nil {
		if g.registry != (codeKey{}) {
			codes.give(g.registry, floor)
		}
		return err
	}
	g.state.markFloor = max(g.state.markFloor, floor)
	return nil
}

// now reads the clock, in nanoseconds since 1970.
func (g *Generator) now() int64 {
	if g.system {
		return wallNanos()
	}
	return nanos(g.clock.Now())
}

// Next returns a new ID, greater than every ID that this generator returned before
// the call began. It waits at most MaxWait, and only where the current tick is full
// or the clock went back. Every error is typed; Retryable tells those that pass:
//
//   - ErrSaturated: more IDs were asked for than fit within MaxWait
//   - ErrClockBehind: the clock went back by more than can be waited out
//   - ErrLeaseLost: no grant is held, or its ceiling is reached
//   - ErrHighWater: the mark is reached and could not be advanced in time
//   - ErrTimeOverflow: the layout has ended
//   - ErrClosed: Close was called
func (g *Generator) Next() (ID, error) {
	g.mu.Lock()
	now := g.now()
	if id, ok := g.again(now); ok {
		g.mu.Unlock()
		return id, nil
	}
	return g.one(g.take(context.Background(), budget{wait: g.maxWait}, 1, now))
}

// NextContext is Next that also ends when ctx does. A deadline can only shorten the
// wait: a call whose context has less time left than the wait needs is refused at
// once and costs nothing. A call that is cancelled while it waits returns ctx's
// error, and its ID is lost.
func (g *Generator) NextContext(ctx context.Context) (ID, error) {
	if err := ctx.Err(); err != nil {
		return 0, g.canceled(err)
	}
	g.mu.Lock()
	now := g.now()
	if id, ok := g.again(now); ok {
		g.mu.Unlock()
		return id, nil
	}
	deadline, _ := ctx.Deadline()
	return g.one(g.take(ctx, budget{wait: g.maxWait, deadline: deadline}, 1, now))
}

// Fill fills ids with new IDs, ascending, and returns how many it filled. It takes
// as many as it can at once, and waits for fresh ticks until ctx ends, whatever
// MaxWait is; for a clock that went back it waits at most MaxWait, like Next. With an
// error, the IDs up to the returned count are valid.
func (g *Generator) Fill(ctx context.Context, ids []ID) (int, error) {
	deadline, _ := ctx.Deadline()
	filled := 0
	for filled < len(ids) {
		if err := ctx.Err(); err != nil {
			return filled, g.canceled(err)
		}
		g.mu.Lock()
		c, err := g.take(ctx, budget{wait: g.maxWait, deadline: deadline, pace: true}, len(ids)-filled, g.now())
		if err != nil {
			return filled, err
		}
		for i := range ids[filled : filled+c.count] {
			ids[filled+i] = c.base + ID(i)
		}
		filled += c.count
	}
	return filled, nil
}

// again claims the next sequence number if the clock is still inside the last tick
// and nothing else has changed: the path of nearly every ID under load. Requires
// g.mu.
func (g *Generator) again(now int64) (ID, bool) {
	s := &g.state
	if now >= s.openUntil || now < s.openFrom || s.sequence >= g.frame.maxSequence || g.lease.Grant() != s.grant {
		return 0, false
	}
	s.openFrom = now
	s.sequence++
	return s.base | ID(s.sequence), true
}

func (g *Generator) one(c claim, err error) (ID, error) { return c.base, err }

// take claims, and waits until the claim may be handed out. Requires g.mu, and
// releases it.
func (g *Generator) take(ctx context.Context, b budget, want int, now int64) (claim, error) {
	c, err := g.nextID(now, b, want)
	pending := g.takeEvents()
	g.mu.Unlock()
	g.tell(pending)
	if err == nil && c.wait > 0 {
		if err = g.await(ctx, c); err != nil {
			g.mu.Lock()
			g.state.counters.abandoned += uint64(c.count)
			g.state.counters.refused(err)
			g.mu.Unlock()
		}
	}
	if err != nil {
		return claim{}, err
	}
	return c, nil
}

func (g *Generator) canceled(err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state.counters.refused(err)
	return fmt.Errorf("snowflake: %w", err)
}

// await waits until the clock has reached a claim's tick, and checks that the claim
// still stands. An error loses the claim: a gap.
func (g *Generator) await(ctx context.Context, c claim) error {
	limit := time.Duration(min(c.limit, c.wait+int64(max(g.maxWait, defaultMaxWait))))
	began := monotonic()
	wait := time.Duration(c.wait)
	for round := 0; ; round++ {
		if err := g.pass(ctx, c, wait, limit-(monotonic()-began)); err != nil {
			return err
		}
		left, err := g.recheck(c)
		if err != nil || left <= 0 {
			return err
		}
		// The clock was stepped back meanwhile, or an injected one has not moved:
		// then After may fire at once, and must not be asked for ever.
		wait = time.Duration(left)
		if spent := monotonic() - began; round == maxRounds || spent+wait > limit {
			return &ClockError{Behind: wait, MaxWait: limit}
		}
	}
}

const maxRounds = 8

// pass lets wait pass on the clock, at most patience of real time on an injected
// one.
func (g *Generator) pass(ctx context.Context, c claim, wait, patience time.Duration) error {
	if g.system {
		select {
		case <-g.room.join(g.frame.start(c.tick)-g.maxAhead, wait):
		case <-ctx.Done():
			return fmt.Errorf("snowflake: waiting for a tick: %w", ctx.Err())
		case <-g.closing:
			return ErrClosed
		}
		return nil
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-g.clock.After(wait):
	case <-timer.C:
	case <-ctx.Done():
		return fmt.Errorf("snowflake: waiting for a tick: %w", ctx.Err())
	case <-g.closing:
		return ErrClosed
	}
	return nil
}

// recheck looks at the world after a wait: how long the clock still needs to the
// claim's tick, in nanoseconds, and whether its grant still stands.
func (g *Generator) recheck(c claim) (left int64, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state.closed {
		return 0, ErrClosed
	}
	grant := g.lease.Grant()
	if grant == nil {
		return 0, g.noGrant()
	}
	if grant.Code != c.code || grant.Token != c.token {
		return 0, g.leaseError(grant, time.Time{}, "its grant changed while the caller waited")
	}
	now := g.now()
	g.observe(now)
	return g.frame.start(c.tick) - g.maxAhead - now, nil
}

// takeEvents returns what the hooks are to be told. Requires g.mu.
func (g *Generator) takeEvents() events {
	pending := g.state.pending
	g.state.pending = events{}
	if pending.health {
		pending.sick = g.state.sick
	}
	return pending
}

// tell calls the hooks, and has leases and marks renewed that a claim has run into.
// Requires that g.mu is not held.
func (g *Generator) tell(e events) {
	if e == (events{}) {
		return
	}
	if e.clockBehind != nil {
		g.hooks.ClockBehind(e.clockBehind)
	}
	if e.saturated > 0 {
		g.hooks.Saturated(e.saturated)
	}
	if e.health {
		g.hooks.HealthChanged(e.sick)
	}
	if e.epochEnding > 0 {
		g.hooks.EpochEnding(e.epochEnding)
	}
	if e.leaseRanOut {
		if l, ok := g.lease.(interface{ renewSoon() }); ok {
			l.renewSoon()
		}
	}
	if e.markRanOut && g.marks != nil {
		g.marks.advanceSoon()
	}
}

// Health returns nil if Next can be expected to succeed, else the error that it
// would return. It looks at clock, grant and mark at the call; saturation is not
// unhealthy. It is what a readiness probe should ask.
func (g *Generator) Health() error {
	g.mu.Lock()
	now := g.now()
	g.observe(now)
	_, _, err := g.decide(now, budget{wait: g.maxWait})
	if errors.Is(err, ErrSaturated) {
		err = nil
	}
	g.judge(err)
	pending := g.takeEvents()
	g.mu.Unlock()
	g.tell(pending)
	return err
}

// Layout returns the layout that IDs are minted with.
func (g *Generator) Layout() Layout { return g.layout }

// Close stops the generator, for good, and gives back what it holds: the lease, just
// above the last tick that was claimed, or the mark. Callers that wait get ErrClosed,
// as does Next from now on. It ends when ctx does, and in any case after about 10 s;
// an error then says what could not be given back, which costs nothing but the time
// until its ceiling has passed. Another Close does nothing and returns nil.
func (g *Generator) Close(ctx context.Context) error {
	g.mu.Lock()
	if g.state.closed {
		g.mu.Unlock()
		return nil
	}
	g.state.closed, g.state.openUntil = true, 0
	unused := g.state.tick + 1 // nothing at or above it was, or will be, claimed
	g.mu.Unlock()
	close(g.closing)
	g.room.stop()

	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	var markErr, leaseErr error
	if g.marks != nil {
		markErr = bounded(ctx, func() error { return g.marks.close(ctx, g.frame.time(unused)) })
	}
	if l, ok := g.lease.(interface {
		Release(context.Context, time.Time) error
	}); ok {
		leaseErr = bounded(ctx, func() error { return l.Release(ctx, g.frame.time(unused)) })
	}
	if g.registry != (codeKey{}) {
		codes.give(g.registry, unused)
	}
	return errors.Join(markErr, leaseErr)
}

// bounded calls f, and returns when ctx ends even if f does not look at it.
func bounded(ctx context.Context, f func() error) error {
	result := make(chan error, 1)
	go func() { result <- f() }()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		select {
		case err := <-result:
			return err
		case <-time.After(10 * time.Millisecond): // one that looks at ctx gets to say more
			return fmt.Errorf("snowflake: closing: %w", ctx.Err())
		}
	}
}
