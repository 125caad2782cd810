package snowflake

import (
	"context"
	"fmt"
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
)

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
		highWater: cfg.HighWater, markCode: -1, room: newWaitRoom(),
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
