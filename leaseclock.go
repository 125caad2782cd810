package snowflake

import (
	"context"
	"fmt"
	"time"
)

// clockWitness finds out whether the local clock can be right. Uniqueness does not
// need it: a clock that is ahead writes ceilings that keep codes from everybody for as
// long as it is ahead, so one bad clock could use up a region. It belongs to one
// goroutine.
type clockWitness struct {
	lease *WorkerLease
	store storeClock    // nil: the store tells no time
	seen  map[int]peer  // at the last look
	wall  time.Time     // at the last look,
	since time.Duration // and what had elapsed then
}

type peer struct {
	version uint64
	ceiling time.Time
}

func newClockWitness(l *WorkerLease) clockWitness {
	w := clockWitness{lease: l, seen: make(map[int]peer), wall: l.cfg.Clock.Now().Round(0), since: l.elapsed.Elapsed()}
	w.store, _ = l.store.(storeClock)
	return w
}

// rebase takes the clock as it is now: it was compared with others.
func (w *clockWitness) rebase() { _ = w.askElapsed() }

// askElapsed compares the way of the wall clock since the last look with the time that
// has elapsed: a step forward is an error. It is told once.
func (w *clockWitness) askElapsed() error {
	wall, elapsed := w.lease.cfg.Clock.Now().Round(0), w.lease.elapsed.Elapsed()
	step := wall.Sub(w.wall) - (elapsed - w.since)
	w.wall, w.since = wall, elapsed
	if step > w.lease.cfg.MaxClockSkew {
		return fmt.Errorf("%w: it stepped forward by %v, more than MaxClockSkew = %v", ErrClockSkew, step, w.lease.cfg.MaxClockSkew)
	}
	return nil
}

// askStore compares the local clock with the store's, where that tells its time.
func (w *clockWitness) askStore(ctx context.Context) error {
	if w.store == nil {
		return nil
	}
	before := w.lease.cfg.Clock.Now()
	theirs, err := ask(ctx, w.lease, w.store.Time)
	if err != nil {
		return err
	}
	after := w.lease.cfg.Clock.Now()
	// The store read its clock somewhere in between.
	ahead, behind := before.Sub(theirs), theirs.Sub(after)
	limit := w.lease.cfg.MaxClockSkew
	switch {
	case ahead > limit:
		return fmt.Errorf("%w: it is %v ahead of the lease store's, more than MaxClockSkew = %v", ErrClockSkew, ahead, limit)
	case behind > limit:
		return fmt.Errorf("%w: it is %v behind the lease store's, more than MaxClockSkew = %v", ErrClockSkew, behind, limit)
	}
	return nil
}

// askPeers compares the local clock with the region's living workers, where the store
// tells no time. A peer that has raised its ceiling since the last look, to an instant
// that is long past by the local clock, has a clock far behind the local one. One such
// peer may itself be wrong; unless as many others have raised theirs to instants still
// to come, the local clock is taken to be the one that is ahead. A ceiling that is still
// to come and has not moved proves nothing, and neither does a release, which lowers.
func (w *clockWitness) askPeers(records []Record) error {
	if w.store != nil {
		return nil
	}
	now := w.lease.cfg.Clock.Now()
	limit := w.lease.cfg.MaxClockSkew
	var disagree, agree int
	var worst time.Duration
	for _, r := range records {
		last, known := w.seen[r.Worker]
		w.seen[r.Worker] = peer{r.Version, r.Ceiling}
		own := w.lease.held != nil && w.lease.held.record.Worker == r.Worker && w.lease.held.record.Nonce == r.Nonce
		if !known || own || r.Worker == layoutWorker || r.Released || r.Version <= last.version {
			continue
		}
		if past := now.Sub(r.Ceiling); past > limit {
			disagree++
			worst = max(worst, past)
		} else if r.Ceiling.After(last.ceiling) {
			agree++
		}
	}
	if disagree > 0 && disagree >= agree {
		return fmt.Errorf("%w: %d living workers of region %d renew up to instants as much as %v before it, and %d after: it is ahead by more than MaxClockSkew = %v",
			ErrClockSkew, disagree, w.lease.cfg.Region, worst, agree, limit)
	}
	return nil
}
