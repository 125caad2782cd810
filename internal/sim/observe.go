package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/snowfence/snowflake"
)

// look notes how the clock stood to an ID that was just handed out.
func (p *process) look(id snowflake.ID) {
	parts, err := p.world.shape.layout.Unpack(id)
	if err != nil {
		return
	}
	now := p.clock.peek()
	p.told.Lock()
	defer p.told.Unlock()
	code := parts.Region<<p.world.shape.layout.WorkerBits | parts.Worker
	if p.code != code && p.last != 0 {
		p.world.hit("a generator changed its code")
	}
	p.code = code
	ahead := parts.Time.After(now)
	switch {
	case p.told.behind:
		p.world.hit("step back: waited out")
	case p.told.full:
		p.world.hit("full tick: waited")
	case ahead && now.Before(p.highest):
		p.world.hit("step back: ridden through by MaxAhead")
	case ahead:
		p.world.hit("MaxAhead: borrowed")
	}
	if now.After(p.highest) {
		p.highest = now
	}
}

// note counts what a caller got instead of an ID.
func (p *process) note(err error) {
	kind := "other: " + err.Error()
	for _, known := range []error{
		snowflake.ErrClockBehind, snowflake.ErrSaturated, snowflake.ErrClockSkew, snowflake.ErrNoWorkerCode, snowflake.ErrConflict,
		snowflake.ErrLeaseLost, snowflake.ErrCodeInUse, snowflake.ErrHighWater, context.DeadlineExceeded, context.Canceled, errReset,
	} {
		if errors.Is(err, known) {
			kind = known.Error()
			break
		}
	}
	p.world.stateMu.Lock()
	p.world.report.Errors[kind]++
	p.world.stateMu.Unlock()
	p.noteClock(err)
	text := err.Error()
	for _, state := range refusals {
		if strings.Contains(text, state.text) && errors.Is(err, state.is) {
			p.world.hit(state.name)
		}
	}
	p.told.Lock()
	floor := p.told.floor
	p.told.Unlock()
	if errors.Is(err, snowflake.ErrClockBehind) && p.clock.peek().Add(p.maxAhead).Before(floor) {
		p.world.hit("refused before the floor")
	}
	if errors.Is(err, snowflake.ErrSaturated) && p.maxAhead > 0 {
		p.world.hit("MaxAhead: refused beyond")
	}
}

// refusals are the states that a refusal tells.
var refusals = []struct {
	is         error
	text, name string
}{
	{snowflake.ErrClockBehind, "", "step back: refused"},
	{snowflake.ErrSaturated, "", "full tick: refused"},
	{context.Canceled, "waiting for a tick", "cancelled during a wait"},
	{snowflake.ErrLeaseLost, "its ceiling is reached", "refused at the ceiling"},
	{snowflake.ErrLeaseLost, "before its floor", "empty until its floor: settling"},
	{snowflake.ErrLeaseLost, "its grant changed", "the grant changed during a wait"},
	{snowflake.ErrLeaseLost, "suspended", "refused while nothing is held"},
	{snowflake.ErrLeaseLost, "stepped forward", "a step forward ended the grant"},
	{snowflake.ErrHighWater, "ahead of the clock, more than", "mark: refused, too far ahead"},
	{snowflake.ErrHighWater, "reached at", "mark: reached"},
}

// noteClock notes that a lease was refused for its clock.
func (p *process) noteClock(err error) {
	if !errors.Is(err, snowflake.ErrClockSkew) {
		return
	}
	switch text := err.Error(); {
	case strings.Contains(text, "living workers"):
		p.world.hit("refused for the peers' clocks")
	case strings.Contains(text, "lease store's"):
		p.world.hit("refused for the store's clock")
	}
}

// recover waits, when all faults are over, until the process mints again.
func (p *process) recover() {
	p.net.setCut(false)
	p.clock.right()
	var err error
	stuck := 0 // for how many rounds it has had no excuse
	for began := time.Now(); stuck < patience && (stuck > 0 || time.Since(began) < settling); time.Sleep(renew) {
		var id snowflake.ID
		if id, err = p.g.Next(); err == nil {
			p.world.mint(p.number, p.last, []snowflake.ID{id})
			p.last = id
			p.proven = true
			return
		}
		if p.g.Stats().Last.After(rightTime().Add(ttl)) {
			return // it has minted so far ahead that it would keep its code from others
		}
		if p.lease == nil && errors.Is(err, snowflake.ErrConflict) {
			return // superseded, which is final: another process is to follow
		}
		stuck++
		if time.Since(p.world.quietAt) < echo || p.excused(err) {
			stuck = 0
		}
	}
	if stuck > 0 {
		p.world.fail(errStuck(p.owner, fmt.Errorf("%w; %s", err, p.plight())))
	}
}

// plight tells what a process that is stuck has met.
func (p *process) plight() string {
	p.told.Lock()
	defer p.told.Unlock()
	var text strings.Builder
	fmt.Fprintf(&text, "at %s, by its clock %s, its lease says %v; the store has", rightTime().Format(time.TimeOnly), p.clock.peek().Format(time.TimeOnly), p.told.failure)
	for _, r := range p.world.stores[p.region].records() {
		fmt.Fprintf(&text, " %d: %s until %s,", r.Worker, r.Owner, r.Ceiling.Format(time.TimeOnly))
	}
	return text.String()
}

type stuckError struct {
	owner string
	err   error
}

func errStuck(owner string, err error) error { return &stuckError{owner, err} }

func (e *stuckError) Error() string { return e.owner + " does not recover: " + e.err.Error() }
func (e *stuckError) Unwrap() error { return e.err }

// excused tells why a worker with a right clock and a reachable store need not mint: it, or
// the owner of its code before it, has minted ahead of the right time; or clocks that were
// ahead hold every code.
func (p *process) excused(err error) bool {
	if p.g == nil {
		return p.world.spoiled(p.region, p.worker)
	}
	now, stats := rightTime(), p.g.Stats()
	if stats.Last.After(now) || stats.Floor.After(now) {
		return true
	}
	return p.lease != nil && errors.Is(err, snowflake.ErrLeaseLost) && p.world.spoiled(p.region, p.worker)
}
