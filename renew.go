package snowflake

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// renew raises the ceiling of the record that the lease owns, and reveals it. On an
// error l.held is nil if the record is another owner's now, or not to be trusted;
// else it is still the lease's own, and is to be tried again.
func (l *WorkerLease) renew(ctx context.Context) error {
	h := l.held
	h.lastAttempt = l.elapsed.Elapsed()
	if _, err := l.present(); err != nil {
		return err
	}
	if err := l.checkClock(ctx); err != nil {
		if errors.Is(err, ErrClockSkew) {
			h.suspended = true
			l.withdraw(l.leaseError(h.record, fmt.Errorf("%w: suspended: %w", ErrLeaseLost, err)))
		}
		return err
	}
	err := l.raise(ctx)
	if errors.Is(err, errMoved) {
		err = l.raise(ctx)
	}
	return err
}

// present returns the time, or drops the lease if the clock was stepped forward: that must
// not get into a ceiling, and acquiring anew compares the clock with others.
func (l *WorkerLease) present() (time.Time, error) {
	now, err := l.clocks.present()
	if err != nil {
		l.drop(l.leaseError(l.held.record, fmt.Errorf("%w: %w", ErrLeaseLost, err)))
	}
	return now, err
}

// raise sends one write of a higher ceiling, and reveals what is acknowledged.
func (l *WorkerLease) raise(ctx context.Context) error {
	h := l.held
	sent := l.elapsed.Elapsed()
	now, err := l.present()
	if err != nil {
		return err
	}
	next := h.seen
	next.Released, next.Nonce = false, l.nonce(next)
	next.Ceiling = l.frame.time(max(
		l.frame.ceilTick(nanos(h.seen.Ceiling)),
		l.frame.floorTick(nanos(now.Add(l.cfg.TTL)))))
	stored, err := l.swap(ctx, h.seen, next)
	if err != nil {
		return l.settle(ctx, err)
	}
	if !l.renewed(stored, sent) {
		return errAnsweredLate
	}
	return nil
}

// errMoved says that an earlier write of the lease's own has landed meanwhile.
var errMoved = errors.New("snowflake: lease store: an earlier write has landed, and was not acknowledged")

var errAnsweredLate = errors.New("snowflake: lease store: the answer came after what it grants had ended")

// checkClock compares the local clock with the store's or, until they have confirmed it
// once for each code, with living peers.
func (l *WorkerLease) checkClock(ctx context.Context) error {
	h := l.held
	if err := l.clocks.askStore(ctx); err != nil || l.clocks.store != nil || h.checked {
		return err
	}
	records, err := l.records(ctx)
	if err != nil {
		return err
	}
	heard, err := l.clocks.askPeers(records)
	h.checked = heard && err == nil
	return err
}

// renewed takes in a write that was acknowledged, and returns false if that came too late.
// The deadline counts from before the request was sent.
func (l *WorkerLease) renewed(stored Record, sent time.Duration) bool {
	h := l.held
	if now := l.cfg.Clock.Now(); l.cfg.Settle > 0 && !now.Add(min(l.cfg.MaxClockSkew, l.cfg.TTL/3)).Before(h.record.Ceiling) {
		// By somebody's clock the code was free. The store may have given it away, and have
		// forgotten that: it settles as if it were acquired.
		h.floor = max(h.floor, l.frame.ceilTick(nanos(now.Add(l.cfg.Settle))))
	}
	h.record, h.seen = stored, stored
	h.deadline = sent + l.cfg.TTL
	l.count(func(s *LeaseStats) { s.Renewals++ })
	return l.reveal()
}

// settle finds out, after a swap did not succeed, what became of the record. What it reads
// is no proof of anything but of another owner: see WorkerLease.
func (l *WorkerLease) settle(ctx context.Context, err error) error {
	h := l.held
	current, found, readErr := l.readBack(ctx)
	switch {
	case readErr != nil:
		return errors.Join(err, readErr)
	case !found || l.lost(current):
		return l.forgot(current, found)
	case !sameOwner(current, h.record):
		lost := l.leaseError(current, fmt.Errorf("%w: another owner has taken the code", ErrLeaseLost))
		l.drop(lost)
		return lost
	case current.Version != h.seen.Version || current.Nonce != h.seen.Nonce:
		h.seen = current
		return errors.Join(errMoved, err)
	}
	return err // nothing has happened yet; that write may still land, or never
}

// lost tells that the store does not have a version any more that it had acknowledged.
func (l *WorkerLease) lost(current Record) bool {
	r := l.held.record
	return current.Version < r.Version || current.Version == r.Version && current.Nonce != r.Nonce
}

// readBack returns the record of the code that is held.
func (l *WorkerLease) readBack(ctx context.Context) (current Record, found bool, err error) {
	records, err := l.records(ctx)
	for _, r := range records {
		if r.Worker == l.held.record.Worker {
			return r, true, err
		}
	}
	return Record{}, false, err
}

// forgot ends the grant because the store has lost a write that it had acknowledged:
// another owner may have been given ticks below our ceiling. From now on codes settle.
func (l *WorkerLease) forgot(current Record, found bool) error {
	lost := l.forgotten(current, found)
	l.cfg.Settle = max(l.cfg.Settle, l.cfg.TTL+l.cfg.MaxClockSkew)
	l.drop(lost)
	l.hooks.StoreForgot(lost)
	return lost
}

// forgotten counts that the store has lost a write of the record that is held.
func (l *WorkerLease) forgotten(current Record, found bool) *LeaseError {
	h := l.held
	l.count(func(s *LeaseStats) { s.Forgotten++ })
	seen := "has no record any more"
	if found {
		seen = fmt.Sprintf("shows version %d", current.Version)
	}
	return l.leaseError(h.record, fmt.Errorf("%w: the store had acknowledged version %d and %s: raise the ceilings of the region (fence) if it was restored from a backup",
		ErrLeaseLost, h.record.Version, seen))
}
