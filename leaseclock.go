package snowflake

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// clockWitness finds out whether the local clock can be right. Uniqueness does not
// need it: a clock that is ahead writes ceilings that keep codes from everybody for as
// long as it is ahead, so one bad clock could use up a region. It belongs to one
// goroutine.
type clockWitness struct {
	lease *WorkerLease
	store storeClock    // nil: the store tells no time
	wall  time.Time     // at the last call of present,
	since time.Duration // and what had elapsed then

	// Where the store tells no time: what was seen in the region's records.
	peers  map[int]peer  // by worker
	kin    *kin          // who is no witness
	began  time.Duration // when the first look was,
	looked time.Duration // and the last; 0: none yet
}

// kin are the leases that one clock keeps, a single one or those of a pool: what they
// write says nothing about it.
type kin struct {
	mu sync.Mutex
	// mu protects the fields below.
	nonces map[int]string // of the last attempt to acquire each worker's code
}

func newKin() *kin { return &kin{nonces: make(map[int]string)} }

// attempt notes an acquisition before it is sent.
func (k *kin) attempt(r Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.nonces[r.Worker] = r.Nonce
}

func (k *kin) wrote(r Record) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return ownerNonce(r.Nonce) == k.nonces[r.Worker]
}

// peer is somebody else's record as of the last look.
type peer struct {
	version uint64
	ceiling time.Time
	moved   time.Duration // the last look that found another version

	// The owner was seen to write a ceiling, between the looks at from and to.
	living   bool
	from, to time.Duration
	wrote    time.Time
	raised   bool // it was lower before
}

func newClockWitness(l *WorkerLease) clockWitness {
	w := clockWitness{
		lease: l, peers: make(map[int]peer), kin: l.cfg.kin,
		wall: l.cfg.Clock.Now().Round(0), since: l.elapsed.Elapsed(),
	}
	w.store, _ = l.store.(storeClock)
	return w
}

// present reads the local clock, and compares its way since the last call with the time
// that has elapsed: a step forward is an error. It is told once.
func (w *clockWitness) present() (time.Time, error) {
	wall, elapsed := w.lease.cfg.Clock.Now().Round(0), w.lease.elapsed.Elapsed()
	step := wall.Sub(w.wall) - (elapsed - w.since)
	w.wall, w.since = wall, elapsed
	if step > w.lease.cfg.MaxClockSkew {
		return wall, fmt.Errorf("%w: it stepped forward by %v, more than MaxClockSkew = %v", ErrClockSkew, step, w.lease.cfg.MaxClockSkew)
	}
	return wall, nil
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
// tells no time. A peer that wrote a ceiling between two looks, up to an instant that
// had passed by the local clock before the first of them, has a clock far behind the
// local one. It may itself be the wrong one; unless as many others wrote ceilings still
// to come, the local clock is taken to be ahead.
//
// What was seen counts until the peer writes again or is gone: so it does not help to
// try again at once, and a clock that is corrected is good at once. A ceiling that is
// still to come and has not moved proves nothing, and neither does a release. heard
// says that a peer agreed or disagreed.
func (w *clockWitness) askPeers(records []Record) (heard bool, err error) {
	if w.store != nil {
		return false, nil
	}
	now, elapsed := w.lease.cfg.Clock.Now(), w.lease.elapsed.Elapsed()
	w.look(records, elapsed)
	if elapsed-w.began <= w.lease.cfg.Renew {
		return false, nil // not all had their turn: perhaps only one that is wrong
	}
	limit := w.lease.cfg.MaxClockSkew
	var agree, disagree int
	var worst time.Duration
	for _, p := range w.peers {
		if !p.living {
			continue
		}
		past := now.Add(p.from - elapsed).Sub(p.wrote)
		left := p.wrote.Sub(now.Add(p.to - elapsed))
		switch {
		case past > limit:
			disagree++
			worst = max(worst, past)
		case p.raised && left >= -limit && left <= maxAheadLimit+limit:
			agree++
		}
	}
	if disagree > agree {
		err = fmt.Errorf("%w: %d living workers of region %d renew up to instants as much as %v before it, and %d after: it is ahead by more than MaxClockSkew = %v",
			ErrClockSkew, disagree, w.lease.cfg.Region, worst, agree, limit)
	}
	return agree+disagree > 0, err
}

// look takes in the records: who has written one since the last look, and who has not
// for so long that it is gone.
func (w *clockWitness) look(records []Record, elapsed time.Duration) {
	first, ttl := w.looked == 0, w.lease.cfg.TTL
	if first {
		w.began = elapsed
	}
	for _, r := range records {
		p := w.peers[r.Worker]
		switch {
		case r.Worker == layoutWorker:
			continue
		case r.Version == p.version:
			p.living = p.living && elapsed-p.moved <= ttl
		case first || r.Version < p.version || r.Released || w.kin.wrote(r):
			p = peer{}
		case p.living && elapsed-w.looked > ttl:
			// After so long, what was known tells more than what could be learned.
			p.moved = elapsed
		default:
			p.living, p.from, p.to, p.moved = true, w.looked, elapsed, elapsed
			p.wrote, p.raised = r.Ceiling, r.Ceiling.After(p.ceiling)
		}
		p.version, p.ceiling = r.Version, r.Ceiling
		w.peers[r.Worker] = p
	}
	w.looked = max(elapsed, 1)
}
