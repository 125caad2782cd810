package snowflake

import (
	"context"
	"fmt"
	"time"
)

// This file waits. What was claimed is the caller's whatever happens here; all that a
// wait can do to uniqueness is to hand an ID out before its time, which is order, or not
// at all, which is a gap.

// await waits until the clock has reached a claim's tick, and checks that the claim
// still stands. An error loses the claim: a gap.
func (g *Generator) await(ctx context.Context, c claim) error {
	// Fill has no limit of its own; a clock that stands still must not hold it for ever.
	limit := time.Duration(c.wait + min(c.limit-c.wait, int64(max(g.maxWait, time.Second)))) // cannot overflow
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
			return g.stalled(c, wait, limit)
		}
	}
}

const maxRounds = 8

// stalled says that the clock did not get to a claim's tick within the budget: it went
// back, or it stands still. The latter is a full tick as well.
func (g *Generator) stalled(c claim, behind, limit time.Duration) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := &ClockError{Behind: behind, MaxWait: limit}
	if c.behind == 0 && g.state.lag == 0 {
		return fmt.Errorf("%w, and the clock does not get to the next tick: %w", ErrSaturated, err)
	}
	if g.state.untold && g.state.lag > 0 {
		g.state.untold = false
		g.state.pending.clockBehind = err
	}
	return err
}

// pass lets wait pass on the clock, at most patience of real time on an injected
// one.
func (g *Generator) pass(ctx context.Context, c claim, wait, patience time.Duration) error {
	if g.system {
		woken := g.room.join(g.due(c, wait)) // closed by Close as well: recheck tells
		if ctx.Done() == nil {
			<-woken // a third of the price of a select
			return nil
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return fmt.Errorf("snowflake: waiting for a tick: %w", ctx.Err())
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
	case <-g.room.stopped:
		return ErrClosed
	}
	return nil
}

// due returns the reading of the clock that a claim waits for on the system clock, and how
// long that takes. Whoever may run ahead and has used that up is woken for several ticks
// at once, at a multiple of a quarter of MaxAhead, if that is within its limit: a wakeup
// costs as much as dozens of IDs, and the ticks that pass meanwhile are not lost.
func (g *Generator) due(c claim, wait time.Duration) (at int64, in time.Duration) {
	at = g.frame.start(c.tick) - g.maxAhead
	step := min(g.maxAhead/4, int64(longestStep))
	if step <= g.frame.tick || c.behind > 0 {
		return at, wait
	}
	later := step - 1 - (at-1)%step
	if int64(wait)+later > c.limit {
		return at, wait
	}
	return at + later, wait + time.Duration(later)
}

// longestStep bounds what Fill, which has no limit, waits longer than it must.
const longestStep = 5 * time.Millisecond

// recheck looks at the world after a wait: how long the clock still needs to the
// claim's tick, in nanoseconds, and whether its grant still stands.
func (g *Generator) recheck(c claim) (left int64, err error) {
	if !g.mu.TryLock() {
		g.queue()
	}
	defer g.mu.Unlock()
	if g.state.closed {
		return 0, ErrClosed
	}
	grant := g.lease.Grant()
	if grant == nil {
		err := g.noGrant()
		g.judge(err)
		return 0, err
	}
	if grant.Code != c.code || grant.Token != c.token {
		return 0, g.leaseError(grant, time.Time{}, "its grant changed while the caller waited")
	}
	now := g.now()
	g.observe(now)
	if left = g.frame.start(c.tick) - g.maxAhead - now; left <= 0 {
		g.state.counters.issued(c)
	}
	return left, nil
}
