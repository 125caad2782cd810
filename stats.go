package snowflake

import (
	"errors"
	"math"
	"time"
)

// Stats is a snapshot of a generator's counters and gauges. Taking one costs a
// moment of its mutex; keeping them costs nothing to those who do not look.
type Stats struct {
	IDs    uint64     // handed out
	Errors ErrorStats // calls that returned an error, by reason

	// Waits counts IDs by how long they waited for their tick: Waits[i] those that
	// waited at most WaitBounds[i] and more than the bound before; the last, those
	// above all bounds. An ID that did not wait is in Waits[0].
	Waits   [len(waitBounds) + 1]uint64
	WaitSum time.Duration // over all IDs

	// Rollbacks counts the times that the clock went back below a reading
	// already seen; the last and the largest tell how far.
	Rollbacks       uint64
	LastRollback    time.Duration
	LargestRollback time.Duration
	// Exhausted counts ticks in which more IDs were asked for than it holds.
	Exhausted uint64
	// Ahead is how far the last claimed tick begins after the clock, 0 if it
	// does not.
	Ahead time.Duration

	Code    int       // worker code of the grant, -1: none yet
	Token   uint64    // of the grant
	Floor   time.Time // first tick that may be claimed; zero: no grant yet
	Ceiling time.Time // first tick that may not be claimed, by lease and mark; zero: none
	// Room is how far Ceiling lies after the clock: how long IDs can be had if no
	// renewal succeeds any more. Negative: the clock is past it. 0 without a ceiling.
	Room time.Duration
	Last time.Time // start of the last claimed tick; zero: none yet

	// MarkFailures counts attempts to advance the high-water mark that failed.
	MarkFailures uint64
	// EpochRemaining is how long the layout lasts by the clock.
	EpochRemaining time.Duration
	// Duplicates counts calls of ReportDuplicate.
	Duplicates uint64
	// Health is what Generator.Health returns.
	Health error
}

// ErrorStats counts calls that returned an error.
type ErrorStats struct {
	ClockBehind, Saturated, LeaseLost, HighWater, TimeOverflow, Canceled, Closed uint64
}

// waitBounds are chosen around the default MaxWait of 5 ms.
var waitBounds = [...]time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond, time.Second,
}

// WaitBounds returns the upper bounds of Stats.Waits, ascending.
func WaitBounds() []time.Duration { return append([]time.Duration(nil), waitBounds[:]...) }

// counters are protected by the generator's mutex.
type counters struct {
	ids     uint64 // handed out: a claim that waits is counted when that is over, so that no counter falls
	errors  ErrorStats
	waits   [len(waitBounds) + 1]uint64 // but for those that did not wait
	waitSum time.Duration

	rollbacks                     uint64
	lastRollback, largestRollback time.Duration
	exhausted, duplicates         uint64
	markFailures                  uint64
}

// issued counts a claim that is handed out.
func (c *counters) issued(made claim) {
	n := uint64(made.count)
	c.ids += n
	if made.wait > 0 {
		wait := time.Duration(made.wait)
		i := 0
		for i < len(waitBounds) && wait > waitBounds[i] {
			i++
		}
		c.waits[i] += n
		if sum := c.waitSum + wait*time.Duration(n); sum > c.waitSum {
			c.waitSum = sum
		} else {
			c.waitSum = math.MaxInt64 // ends there, and does not wrap
		}
	}
}

// steppedBack counts a step of the clock, which now reads lag below the highest
// reading.
func (c *counters) steppedBack(lag int64) {
	c.rollbacks++
	c.lastRollback = time.Duration(lag)
	c.largestRollback = max(c.largestRollback, c.lastRollback)
}

// refused counts an error.
func (c *counters) refused(err error) {
	e := &c.errors
	switch {
	case errors.Is(err, ErrClosed):
		e.Closed++
	case errors.Is(err, ErrClockBehind):
		e.ClockBehind++
	case errors.Is(err, ErrSaturated):
		e.Saturated++
	case errors.Is(err, ErrTimeOverflow):
		e.TimeOverflow++
	case errors.Is(err, ErrHighWater):
		e.HighWater++
	case errors.Is(err, ErrLeaseLost):
		e.LeaseLost++
	default:
		e.Canceled++
	}
}

// Stats returns a snapshot.
func (g *Generator) Stats() Stats {
	health := g.Health()
	g.mu.Lock()
	defer g.mu.Unlock()
	s, now := &g.state, g.now()
	s.note()
	c := &s.counters
	stats := Stats{
		IDs: c.ids, Errors: c.errors, Waits: c.waits, WaitSum: c.waitSum,
		Rollbacks: c.rollbacks, LastRollback: c.lastRollback, LargestRollback: c.largestRollback,
		Exhausted: c.exhausted, Duplicates: c.duplicates, MarkFailures: c.markFailures, Code: -1,
		EpochRemaining: max(time.Duration(g.frame.start(g.frame.lastTick+1)-now), 0),
		Health:         health,
	}
	var waited uint64
	for _, n := range c.waits {
		waited += n
	}
	stats.Waits[0] += c.ids - waited
	if s.tick > 0 {
		stats.Last = g.frame.time(s.tick)
		stats.Ahead = max(time.Duration(g.frame.start(s.tick)-now), 0)
	}
	if s.grant != nil {
		stats.Code, stats.Token = s.grant.Code, s.grant.Token
		stats.Floor = g.frame.time(s.floor)
		if limit := min(s.ceiling, s.mark); limit <= g.frame.lastTick {
			stats.Ceiling = g.frame.time(limit)
			stats.Room = time.Duration(g.frame.start(limit) - now)
		}
	}
	return stats
}

// ReportDuplicate tells the generator that the service's unique constraint has
// refused id as a duplicate. It counts, and calls the DuplicateReported hook with the
// ID's fields. A duplicate says that one of the limits of the promise was crossed (two
// spaces in one column, a forgetful store, a cloned machine): stop the worker code, and
// do not retry silently. An ID that does not unpack is counted and told with zero Parts.
func (g *Generator) ReportDuplicate(id ID) {
	parts, _ := g.layout.Unpack(id) // zero Parts say enough
	g.mu.Lock()
	g.state.counters.duplicates++
	g.mu.Unlock()
	g.hooks.DuplicateReported(id, parts)
}
