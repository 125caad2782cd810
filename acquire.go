package snowflake

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"strconv"
	"strings"
	"time"
)

const (
	layoutWorker    = -1 // the record that pins the region's layout
	maxStored       = math.MaxInt64
	conflictsToList = 3
	maxUnused       = 1024 // codes that were never used, to choose from
	firstBackoff    = 10 * time.Millisecond
)

// acquire takes a code and reveals its grant. It tries until ctx ends, or one error is
// final, or every code is held for longer.
func (l *WorkerLease) acquire(ctx context.Context) error {
	began := monotonic()
	patience := l.cfg.TTL + l.cfg.MaxClockSkew
	for failures := 0; ; {
		outrun, err := l.tryAcquire(ctx)
		switch {
		case l.held != nil:
			l.late = 0
			l.count(func(s *LeaseStats) { s.Acquisitions++ })
			l.reveal()
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("snowflake: acquiring a worker code of region %d: %w", l.cfg.Region, errors.Join(ctx.Err(), err))
		case final(err):
			return err
		case errors.Is(err, ErrNoWorkerCode):
			if none := l.awaitFree(ctx, err, patience-(monotonic()-began)); none != nil {
				return none
			}
			l.attempted(err)
			continue
		case monotonic()-began > patience:
			return fmt.Errorf("snowflake: acquiring a worker code of region %d: given up after %v: %w", l.cfg.Region, patience, err)
		}
		failures++
		if !outrun {
			l.attempted(err)
		}
		if !outrun || failures > 1 { // looking again once costs little, and somebody got on
			sleep(ctx, jitter(min(l.cfg.Renew, attemptLimit), failures))
		}
	}
}

// attempted tells of a failed attempt after which another follows. Of those that
// AcquireLease makes its caller hears, of the last one.
func (l *WorkerLease) attempted(err error) {
	if l.background {
		l.failed(err)
	}
}

// final says which errors trying again cannot cure.
func final(err error) bool {
	return errors.Is(err, ErrLayoutMismatch) || errors.Is(err, ErrDamaged) || errors.Is(err, ErrClockSkew) ||
		errors.Is(err, ErrBeforeEpoch) || errors.Is(err, ErrTimeOverflow)
}

// tryAcquire lists the region and tries a few of its free codes. It sets l.held if it
// got one. outrun says that it did not because others were faster.
func (l *WorkerLease) tryAcquire(ctx context.Context) (outrun bool, err error) {
	_, _ = l.clocks.present() // from here on it must not step: it is compared with others
	records, err := l.list(ctx)
	if err != nil {
		return false, err
	}
	pinned, err := l.pinLayout(ctx, records)
	if err != nil || !pinned {
		return errors.Is(err, ErrConflict), err
	}
	now, err := l.clocks.present()
	if err != nil {
		return false, err
	}
	if err := l.frame.checkPresent(nanos(now)); err != nil {
		return false, err
	}
	free, earliest := l.free(records, nanos(now))
	if len(free) == 0 {
		return false, &LeaseError{
			Region: l.cfg.Region, Worker: -1, Until: earliest,
			Err: fmt.Errorf("%w: all %d of the region are held: stop workers, wait, or plan a layout with more", ErrNoWorkerCode, 1<<l.layout.WorkerBits),
		}
	}
	// At random, so that many starts at one instant do not race for one code.
	mathrand.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	for _, old := range free[:min(len(free), conflictsToList)] {
		if err = l.take(ctx, old, now); !errors.Is(err, ErrConflict) {
			return false, err
		}
	}
	return true, err
}

// list returns the region's records, after the local clock was found to agree with
// them.
func (l *WorkerLease) list(ctx context.Context) ([]Record, error) {
	if err := l.clocks.askStore(ctx); err != nil {
		return nil, err
	}
	records, err := l.records(ctx)
	if err != nil {
		return nil, err
	}
	_, err = l.clocks.askPeers(records)
	return records, err
}

// pinLayout makes sure that the region is for this layout, before any code of it is
// taken.
func (l *WorkerLease) pinLayout(ctx context.Context, records []Record) (pinned bool, err error) {
	mine := l.layout.String()
	for _, r := range records {
		if r.Worker == layoutWorker {
			pinned = true
		}
		if r.Layout != mine && (r.Layout != "" || r.Worker == layoutWorker) {
			return false, l.leaseError(r, fmt.Errorf("%w: the region has %q, this process %q", ErrLayoutMismatch, r.Layout, mine))
		}
	}
	if pinned {
		return true, nil
	}
	_, err = l.swap(ctx, Record{Region: l.cfg.Region, Worker: layoutWorker}, Record{
		Region: l.cfg.Region, Worker: layoutWorker, Owner: l.cfg.Owner, Nonce: newNonce(), Layout: mine,
	})
	return err == nil, err
}

// free returns the records of the codes that may be taken (version 0 for those that
// have none), and when the next of the others will be.
func (l *WorkerLease) free(records []Record, now int64) (free []Record, earliest time.Time) {
	codes := 1 << l.layout.WorkerBits
	seen := make(map[int]bool, len(records))
	for _, r := range records {
		if r.Worker < 0 || r.Worker >= codes {
			continue
		}
		seen[r.Worker] = true
		switch {
		case r.Token >= maxStored || r.Version >= maxStored:
		case nanos(r.Ceiling) <= now:
			free = append(free, r)
		case earliest.IsZero() || r.Ceiling.Before(earliest):
			earliest = r.Ceiling
		}
	}
	// From a random one on, because a wide layout has too many to list them all.
	first, unused := mathrand.IntN(codes), 0
	for i := 0; i < codes && unused < maxUnused; i++ {
		if worker := (first + i) % codes; !seen[worker] {
			free = append(free, Record{Region: l.cfg.Region, Worker: worker})
			unused++
		}
	}
	return free, earliest
}

// take tries to become the owner of a code, and sets l.held if it did. Floor and
// ceiling are computed from the record whose version is presented.
func (l *WorkerLease) take(ctx context.Context, old Record, now time.Time) error {
	stored := l.frame.ceilTick(nanos(old.Ceiling))
	ceiling := max(stored, l.frame.floorTick(nanos(now.Add(l.cfg.TTL))))
	sent := l.elapsed.Elapsed()
	mine := Record{
		Region: l.cfg.Region, Worker: old.Worker, Owner: l.cfg.Owner, Nonce: newNonce(), Token: old.Token + 1,
		Ceiling: l.frame.time(ceiling), Layout: l.layout.String(),
	}
	l.clocks.kin.attempt(mine)
	got, err := l.swap(ctx, old, mine)
	if err != nil && !errors.Is(err, ErrConflict) {
		got, err = l.confirm(ctx, mine, err)
	}
	if err != nil {
		return err
	}
	if l.elapsed.Elapsed()-sent >= l.cfg.TTL {
		return errAnsweredLate // an orphan, whose ceiling has passed
	}
	floor := stored
	if l.cfg.Settle > 0 {
		// From after the answer: what a pause before the request let others do counts too.
		floor = l.frame.ceilTick(nanos(later(later(old.Ceiling, now), l.cfg.Clock.Now()).Add(l.cfg.Settle)))
	}
	l.held = &holding{record: got, seen: got, floor: floor, deadline: sent + l.cfg.TTL, lastAttempt: sent}
	return nil
}

// confirm finds out what became of an acquisition whose outcome is unknown, and writes it
// once more if it has happened, since only a write that is acknowledged proves anything. If
// it has not happened it still may, as an orphan that nobody uses: the next attempt has
// another nonce.
func (l *WorkerLease) confirm(ctx context.Context, mine Record, unknown error) (Record, error) {
	records, err := l.records(ctx)
	if err != nil {
		return Record{}, errors.Join(unknown, err)
	}
	for _, r := range records {
		if r.Worker == mine.Worker && r.Nonce == mine.Nonce {
			next := r
			next.Nonce = l.nonce(r)
			return l.swap(ctx, r, next)
		}
	}
	return Record{}, unknown
}

// awaitFree waits until a code may have become free, if that is before ctx and patience
// end. none is what is returned if it is not.
func (l *WorkerLease) awaitFree(ctx context.Context, none error, patience time.Duration) error {
	var e *LeaseError
	if !errors.As(none, &e) || e.Until.IsZero() {
		return none
	}
	wait := e.Until.Sub(l.cfg.Clock.Now())
	if deadline, ok := ctx.Deadline(); ok {
		patience = time.Until(deadline)
	}
	if wait > patience {
		return none
	}
	// Another may be released earlier: look again every now and then.
	timer := time.NewTimer(min(l.cfg.Renew, max(patience, 0)))
	defer timer.Stop()
	select {
	case <-l.cfg.Clock.After(max(wait, firstBackoff)):
		if l.cfg.Clock.Now().Before(e.Until) {
			rest(ctx)
		}
	case <-timer.C:
	case <-ctx.Done():
		return errors.Join(none, ctx.Err())
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// A nonce is 128 random bits for the acquisition, which make the owner known, and for each
// later write of that owner a number of its own. So no two writes share a nonce, whatever
// version they present; and an owner knows all of its writes again.

// nonce returns one for another write of r's owner.
func (l *WorkerLease) nonce(r Record) string {
	l.writes++
	return ownerNonce(r.Nonce) + "." + strconv.FormatUint(l.writes, 16)
}

// ownerNonce returns the part of a nonce that is the same in all of an owner's.
func ownerNonce(nonce string) string {
	owner, _, _ := strings.Cut(nonce, ".")
	return owner
}

func sameOwner(a, b Record) bool { return ownerNonce(a.Nonce) == ownerNonce(b.Nonce) }

// newNonce returns 128 random bits: no two attempts to acquire share them.
func newNonce() string {
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // never fails
	return hex.EncodeToString(nonce[:])
}

// jitter returns how long to back off after so many failures: at random up to a bound
// that doubles until it is limit.
func jitter(limit time.Duration, failures int) time.Duration {
	bound := firstBackoff << min(failures-1, 16)
	return randomUpTo(min(bound, limit))
}

func randomUpTo(d time.Duration) time.Duration { return time.Duration(mathrand.Int64N(int64(d) + 1)) }
