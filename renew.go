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
	sent := l.elapsed.Elapsed()
	h.lastAttempt = sent
	now, stepped := l.clocks.present()
	if stepped == nil {
		if err := l.checkClock(ctx); err != nil {
			if errors.Is(err, ErrClockSkew) {
				h.suspended = true
				l.withdraw(l.leaseError(h.record, fmt.Errorf("%w: suspended: %w", ErrLeaseLost, err)))
			}
			return err
		}
		now, stepped = l.clocks.present() // asking took a while
	}
	if stepped != nil {
		// Not into a ceiling: acquiring anew compares the clock with others.
		l.drop(l.leaseError(h.record, fmt.Errorf("%w: %w", ErrLeaseLost, stepped)))
		return stepped
	}
	next := h.record
	next.Released = false
	next.Ceiling = l.frame.time(max(
		l.frame.ceilTick(nanos(h.record.Ceiling)),
		l.frame.floorTick(nanos(now.Add(l.cfg.TTL)))))
	if h.unanswered == 0 {
		h.unanswered = max(sent, 1)
	}
	stored, err := l.swap(ctx, h.record, next)
	if err != nil {
		return l.settle(ctx, err)
	}
	if !l.renewed(stored, sent) {
		return errAnsweredLate
	}
	return nil
}

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

// renewed takes in the record as the store has it, and returns false if it came too
// late. The deadline counts from before the request that was granted was sent.
func (l *WorkerLease) renewed(stored Record, sent time.Duration) bool {
	h := l.held
	if now := l.cfg.Clock.Now(); l.cfg.Settle > 0 && !now.Add(min(l.cfg.MaxClockSkew, l.cfg.TTL/3)).Before(h.record.Ceiling) {
		// By somebody's clock the code was free. The store may have given it away, and have
		// forgotten that: it settles as if it were acquired.
		h.floor = max(h.floor, l.frame.ceilTick(nanos(now.Add(l.cfg.Settle))))
	}
	h.record, h.unanswered = stored, 0
	h.deadline = max(h.deadline, sent+l.cfg.TTL)
	l.count(func(s *LeaseStats) { s.Renewals++ })
	return l.reveal()
}

// settle finds out, after a swap did not succeed, what became of the record.
func (l *WorkerLease) settle(ctx context.Context, err error) error {
	h := l.held
	current, found, readErr := l.readBack(ctx)
	switch {
	case readErr != nil:
		return errors.Join(err, readErr)
	case !found || current.Version < h.record.Version:
		return l.forgot(current, found)
	case current.Nonce != h.record.Nonce:
		lost := l.leaseError(current, fmt.Errorf("%w: another owner has taken the code", ErrLeaseLost))
		l.drop(lost)
		return lost
	case current.Version > h.record.Version:
		// A request of ours has landed, nobody knows which: it counts from the first.
		if !l.renewed(current, h.unanswered) {
			return l.renew(ctx) // that one is too long ago
		}
		return nil
	}
	return err // nothing has happened yet; that write may still land, or never
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
