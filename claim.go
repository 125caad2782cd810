package snowflake

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// This file decides. A generator's IDs cannot repeat because
//
//   - grants never overlap (workerlease.go argues that), and a claim lies inside
//     the grant that was read for it: floor <= tick < min(ceiling, mark);
//   - within one generator the pair (tick, sequence) only rises: the tick never
//     goes below the last one, the sequence never wraps inside a tick, a change of
//     code goes on in the next tick;
//   - all of it is read and written in one critical section, and a refusal writes
//     none of it.
//
// No clock appears in this argument. Clocks decide how long a caller waits.

// claimState is what a generator knows between two claims. Its methods require the
// generator's mutex; none of them blocks.
type claimState struct {
	// The last claim, as the next one continues it.
	tick, sequence int64
	code           int // -1: none yet
	base           ID  // tick and code, joined

	// The window of the last tick: while the clock reads from openFrom to before
	// openUntil, and the grant is the same, the next claim is the next sequence
	// number, without a wait. Such a claim moves openFrom up to its reading, and
	// nothing else: sequence has then run ahead of noted, until note. The window
	// is closed (openUntil 0) whenever anything else has to be looked at.
	openFrom, openUntil int64
	noted               int64

	// The clock, as seen: the highest reading, how far the last one was below
	// it, and the highest that a claim was made at.
	highest, lag, reached int64

	// The grant that was adopted, in ticks. floor is at least 1: tick 0 is never
	// claimed, because the number 0 is no ID.
	grant          *Grant
	floor, ceiling int64
	deadline       int64 // on the scale of now(); noDeadline: none

	// The high-water mark, in ticks: claims stay below mark, from markFloor on.
	// Without a mark: noMarkTick and 0.
	mark, markFloor int64

	sick    error // why the last claim was refused, if that is unhealthy
	closed  bool
	warnDue int64 // when EpochEnding is due next

	// So that each is told or counted once: whether there is a step back, or a
	// floor, that the hooks were not told of; the last tick whose end was waited
	// for; the last tick that was full (0: none).
	untold                  bool
	saturatedTick, fullTick int64

	counters counters
	pending  events
}

const (
	noDeadline = math.MaxInt64
	noMarkTick = math.MaxInt64
)

// events are told to the hooks after the mutex is released.
type events struct {
	clockBehind *ClockError
	saturated   time.Duration
	epochEnding time.Duration
	health      bool // health has changed
	leaseRanOut bool // a claim has run into the ceiling
	markRanOut  bool // a claim has run into the mark
}

// budget is how long a caller may wait.
type budget struct {
	wait     time.Duration // at most
	deadline time.Time     // of the caller's context, in real time; zero: none
	pace     bool          // Fill: fresh ticks are waited for until the deadline
}

// limit returns the longest wait, in nanoseconds. Real time is never compared with
// an injected clock: what is left of the context is a duration like any other.
func (b budget) limit(saturated bool) int64 {
	limit := int64(b.wait)
	if b.pace && saturated {
		limit = math.MaxInt64
	}
	if !b.deadline.IsZero() {
		limit = min(limit, int64(max(time.Until(b.deadline), 0)))
	}
	return limit
}

// claim is a run of IDs that belong to one caller: base, base+1, … base+count-1.
type claim struct {
	base  ID
	count int
	tick  int64
	// wait is how long the clock needs to reach the tick, in nanoseconds; 0 or
	// less: it has. limit is the longest that the caller may.
	wait, limit int64
	behind      int64 // how far the clock is behind, if that is why; 0: the tick is full
	code        int
	token       uint64
}

// nextID claims up to want IDs of one tick, for a clock that reads now. Either it
// returns a claim, which nobody else can get any more, or an error, and then tick,
// sequence and code are as before.
func (g *Generator) nextID(now int64, b budget, want int) (claim, error) {
	s := &g.state
	g.observe(now)
	g.noteFull(now)
	c, sequence, err := g.decide(now, b)
	if c.wait > 0 {
		g.noteWait(c)
	}
	if err == nil || c.wait == 0 || c.wait > int64(g.maxWait) {
		g.judge(err) // else only this caller's context was too short
	}
	if err != nil {
		s.counters.refused(err)
		return claim{}, err
	}
	c.count = int(min(int64(want), g.frame.maxSequence-sequence+1))
	s.reached = max(s.reached, now)
	s.tick, s.sequence, s.code = c.tick, sequence+int64(c.count)-1, c.code
	s.noted = s.sequence
	s.base = ID(c.tick<<g.frame.timeShift | int64(c.code)<<g.frame.sequenceBits)
	c.base = s.base | ID(sequence)
	if c.wait <= 0 {
		s.counters.issued(c)
	}
	if s.lag == 0 {
		s.openFrom, s.openUntil = max(now, g.frame.start(c.tick)-g.maxAhead), g.frame.start(c.tick+1)
	}
	if now >= s.warnDue {
		g.warn(now)
	}
	return c, nil
}

// note catches up with the claims that were made through the window.
func (s *claimState) note() {
	if s.sequence > s.noted {
		s.counters.ids += uint64(s.sequence - s.noted)
		s.noted = s.sequence
		s.reached = max(s.reached, s.openFrom)
		s.highest = max(s.highest, s.openFrom)
	}
}

// observe notes a reading of the clock. The clock went back if it is below the
// highest reading; each further drop is a step of its own.
func (g *Generator) observe(now int64) {
	s := &g.state
	s.note()
	lag := max(s.highest-now, 0)
	if lag > s.lag {
		s.counters.steppedBack(lag)
		s.untold = true
	}
	if lag != 0 {
		s.openUntil = 0
	}
	s.highest, s.lag = max(s.highest, now), lag
	s.openFrom = max(s.openFrom, s.highest)
}

// noteFull counts a tick that had no room for what was asked.
func (g *Generator) noteFull(now int64) {
	s := &g.state
	if s.sequence >= g.frame.maxSequence && now >= s.reached && g.frame.floorTick(now) <= s.tick && s.tick != s.fullTick {
		s.fullTick = s.tick
		s.counters.exhausted++
	}
}

// noteWait has the hooks told of a wait, or of a refusal for want of time, once for
// each step back or full tick.
func (g *Generator) noteWait(c claim) {
	s := &g.state
	switch {
	case c.behind > 0 && s.untold:
		s.untold = false
		s.pending.clockBehind = c.clockError()
	case c.behind == 0 && s.saturatedTick != c.tick:
		s.saturatedTick = c.tick
		s.pending.saturated = time.Duration(c.wait)
	}
}

// decide returns the next claim and its sequence number, or why there is none: for want
// of time along with the claim that it would have been, else with none. It changes
// nothing but what is known of the grant.
func (g *Generator) decide(now int64, b budget) (claim, int64, error) {
	s, f := &g.state, &g.frame
	if s.closed {
		return claim{}, 0, ErrClosed
	}
	grant := g.lease.Grant()
	if grant == nil {
		return claim{}, 0, g.noGrant()
	}
	if grant != s.grant {
		if err := g.adopt(grant, now); err != nil {
			return claim{}, 0, err
		}
	}
	tick, sequence := s.tick, s.sequence+1
	switch current := f.floorTick(now); {
	case current > tick:
		tick, sequence = current, 0
	case sequence > f.maxSequence, grant.Code != s.code:
		// A new code goes on in the next tick: in the same one its IDs could be
		// lower than those before.
		tick, sequence = tick+1, 0
	}
	belowFloor := tick < s.floor
	if belowFloor {
		tick, sequence = s.floor, 0
	}
	if tick > f.lastTick {
		return claim{}, 0, fmt.Errorf("%w: it ended at %s", ErrTimeOverflow, f.time(f.lastTick+1).Format(time.RFC3339Nano))
	}
	if s.floor >= s.ceiling {
		s.pending.leaseRanOut = true
		return claim{}, 0, g.leaseError(grant, grant.Floor, "it may not be used before its floor, and its ceiling is not above that yet")
	}
	c := claim{tick: tick, code: grant.Code, token: grant.Token, wait: f.start(tick) - now - g.maxAhead}
	if c.wait > 0 {
		c.behind = max(s.reached-now, 0) // 0: the ticks up to the last are full
		if belowFloor {
			c.behind = max(c.behind, f.start(s.floor)-now)
		}
		if c.limit = b.limit(c.behind == 0); c.wait > c.limit {
			return c, 0, c.refusal()
		}
	}
	if err := g.checkBounds(grant, tick, now); err != nil {
		return claim{}, 0, err
	}
	return c, sequence, nil
}

// refusal tells a clock that is behind from a tick that is full.
func (c claim) refusal() error {
	if c.behind > 0 {
		return c.clockError()
	}
	return &saturationError{wait: time.Duration(c.wait), limit: time.Duration(c.limit)}
}

func (c claim) clockError() *ClockError {
	return &ClockError{Behind: time.Duration(c.behind), MaxWait: time.Duration(c.limit)}
}

// checkBounds keeps a tick below the ceiling and the mark, which rise only by a write
// to their store: it is asked for at once.
func (g *Generator) checkBounds(grant *Grant, tick, now int64) error {
	s := &g.state
	switch {
	case tick >= s.ceiling:
		s.pending.leaseRanOut = true
		return g.leaseError(grant, grant.Ceiling, "its ceiling is reached")
	case tick >= s.mark:
		s.pending.markRanOut = true
		return g.markError()
	case tick != s.tick && g.expired(now):
		s.pending.leaseRanOut = true
		return g.leaseError(grant, grant.Deadline, "its deadline has passed without a renewal")
	}
	return nil
}

// adopt takes in a grant with a new address, unless it cannot be used here.
func (g *Generator) adopt(grant *Grant, now int64) error {
	s, f := &g.state, &g.frame
	if err := g.usable(grant); err != nil {
		return fmt.Errorf("%w: the lease's grant cannot be used: %w", ErrLeaseLost, err)
	}
	s.grant, s.openUntil = grant, 0
	floor := max(s.markFloor, 1)
	if !grant.Floor.IsZero() {
		floor = max(floor, f.ceilTick(nanos(grant.Floor)))
	}
	if floor != s.floor { // a renewal keeps it, and is nothing new to tell of
		s.floor, s.untold = floor, true
	}
	s.ceiling = f.lastTick + 1
	if !grant.Ceiling.IsZero() {
		s.ceiling = f.floorTick(nanos(grant.Ceiling))
	}
	s.deadline = g.deadlineOf(grant, now)
	return nil
}

// usable says what is wrong with a grant.
func (g *Generator) usable(grant *Grant) error {
	if code := int64(grant.Code); code < 0 || code > g.frame.maxCode {
		return fmt.Errorf("the worker code of the lease is %d, must be 0 to %d for layout %v", code, g.frame.maxCode, g.layout)
	}
	switch {
	case grant.Ceiling.IsZero() && g.highWater == nil:
		return errors.New("Config.HighWater is required for a lease without ceilings: use FileHighWater, or NoHighWater to do without")
	case grant.Ceiling.IsZero() && grant.Code != g.markCode:
		return fmt.Errorf("Grant.Code is %d without a ceiling, must stay %d, which the mark was opened for", grant.Code, g.markCode)
	case !grant.Ceiling.IsZero() && g.highWater != nil && g.highWater != NoHighWater():
		return errors.New("Config.HighWater is set for a lease with ceilings, which need no mark: leave it nil")
	case grant.Ceiling.IsZero() && g.highWater == NoHighWater() && g.maxAhead > 0:
		return fmt.Errorf("Config.MaxAhead is %v, must be 0 with NoHighWater: nothing durable would bound how far IDs run ahead", time.Duration(g.maxAhead))
	}
	return nil
}

// deadlineOf returns a grant's Deadline on the scale that expired compares.
func (g *Generator) deadlineOf(grant *Grant, now int64) int64 {
	switch {
	case grant.Deadline.IsZero():
		return noDeadline
	case g.elapsed == nil:
		return nanos(grant.Deadline)
	case grant.expires != 0:
		return int64(grant.expires)
	}
	return int64(g.elapsed.Elapsed()) + nanos(grant.Deadline) - now
}

func (g *Generator) expired(now int64) bool {
	switch {
	case g.state.deadline == noDeadline:
		return false
	case g.elapsed == nil:
		return now >= g.state.deadline
	}
	return int64(g.elapsed.Elapsed()) >= g.state.deadline
}

func (g *Generator) noGrant() error {
	err := ErrLeaseLost
	if l, ok := g.lease.(interface{ Err() error }); ok {
		if why := l.Err(); why != nil {
			err = why
		}
	}
	if errors.Is(err, ErrLeaseLost) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrLeaseLost, err)
}

func (g *Generator) leaseError(grant *Grant, until time.Time, why string) error {
	return &LeaseError{
		Region: grant.Code >> g.layout.WorkerBits,
		Worker: grant.Code & (1<<g.layout.WorkerBits - 1),
		Until:  until,
		Err:    fmt.Errorf("%w: %s", ErrLeaseLost, why),
	}
}

// judge notes whether the generator can serve. Saturation is not unhealthy, and
// neither is a closed generator news.
func (g *Generator) judge(err error) {
	s := &g.state
	if errors.Is(err, ErrSaturated) || errors.Is(err, ErrClosed) {
		return
	}
	if (err == nil) != (s.sick == nil) {
		s.pending.health = true
	}
	s.sick = err
	if err != nil {
		s.openUntil = 0 // so that the next claim is judged again
	}
}

const (
	warnBefore = 5 * 365 * 24 * time.Hour
	warnEvery  = 24 * time.Hour
)

// warn notes that the layout ends soon, and when to look again.
func (g *Generator) warn(now int64) {
	left := g.frame.start(g.frame.lastTick+1) - now
	if due := now + left - int64(warnBefore); due > now {
		g.state.warnDue = due
		return
	}
	g.state.pending.epochEnding = max(time.Duration(left), 1)
	g.state.warnDue = now + int64(warnEvery)
}
