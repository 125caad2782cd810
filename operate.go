package snowflake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// What an operator does to records is what a worker does, and needs no rule of its own.
// A fence is an acquisition of every code, from the stored ceiling up to Until, by an owner
// that mints nothing; a release of an expired code is one of an empty range. Both write a
// fresh nonce and never lower a ceiling, against the version and nonce of the record that
// was read. So whoever held the code before can mint up to the ceiling that it was shown,
// and never again beyond it.

// Fence says which codes FenceLeases takes from everybody, and for how long.
type Fence struct {
	Region int
	// Until is what every ceiling of the region is raised to: no code is used below it
	// again, and none is free before. It is rounded up to a whole tick, and is at most
	// the layout's End, which retires the region for good.
	Until time.Time
	// Layout is needed only for a region that has no records left, and pins it. Zero:
	// the one that the region is pinned to.
	Layout Layout
	// Owner is shown to people who list the records. "": "fence".
	Owner string
}

// Fenced is what FenceLeases has done.
type Fenced struct {
	Codes int // that were fenced: all of the region, unless there was an error
	// Highest is the latest ceiling that was found: no ID of the region made from these
	// records has a time at or past it. A code that an earlier fence has raised counts
	// with that. Zero: no code was used.
	Highest time.Time
}

// FenceLeases raises every ceiling of a region to at least f.Until and replaces every
// nonce, for codes that have no record too. It is for a store that has forgotten writes,
// such as one that was restored from a backup, before workers reach it: nor may a request
// that was waiting meanwhile, in a pooler or a proxy, get through to it first. Until must lie
// past every ceiling that may have been lost, which is the last moment at which the lost
// store was written, plus the workers' TTL and MaxClockSkew. Workers that still run go on
// up to the ceilings that they were shown, cannot renew, and wait for Until like all others.
//
// It writes one record for each code of the layout, 2^WorkerBits, at most 2^20, and tries
// again after errors for as long as it gets on. An error tells how far it got; calling it
// again completes it. ErrLayoutMismatch: the region has another layout than f.Layout.
func FenceLeases(ctx context.Context, store LeaseStore, f Fence) (Fenced, error) {
	if f.Owner == "" {
		f.Owner = "fence"
	}
	layout, err := f.pin(ctx, store)
	if err != nil {
		return Fenced{}, fmt.Errorf("snowflake: fencing region %d: %w", f.Region, err)
	}
	frame := newFrame(layout)
	f.Layout, f.Until = layout, frame.time(frame.ceilTick(nanos(f.Until)))
	w := fencing{Fence: f, store: store, acknowledged: make(map[int]string, 1<<layout.WorkerBits), unknown: make(map[string]bool)}
	for most, failures := 0, 0; ; failures++ {
		err = w.round(ctx)
		if w.done.Codes > most { // however many codes there are, and failures among them
			most, failures = w.done.Codes, 0
		}
		switch {
		case err == nil && w.done.Codes == 1<<layout.WorkerBits:
			return w.done, nil
		case ctx.Err() != nil || failures == operateTries || errors.Is(err, ErrDamaged):
			return w.done, fmt.Errorf("snowflake: fencing region %d: %d of %d codes are fenced: %w",
				f.Region, w.done.Codes, 1<<layout.WorkerBits, errors.Join(err, ctx.Err(), errIncomplete))
		}
		sleep(ctx, jitter(attemptLimit, failures+1))
	}
}

// fencing is a fence at work.
type fencing struct {
	Fence // of the region's layout, until a whole tick
	store LeaseStore
	done  Fenced

	// Nonces of what was written: by worker, what was acknowledged and so cannot be lost
	// any more; and what became of the others nobody knows.
	acknowledged map[int]string
	unknown      map[string]bool
}

// round looks at every code and raises those that are not fenced yet. What another writer
// was faster at is left to the next round, which reads it again.
func (w *fencing) round(ctx context.Context) error {
	records, err := recordsByWorker(ctx, w.store, w.Region)
	if err != nil {
		return err
	}
	w.done.Codes = 0
	for worker := range 1 << w.Layout.WorkerBits {
		old, found := records[worker]
		if nonce, ok := w.acknowledged[worker]; found && ok && old.Nonce == nonce {
			w.done.Codes++
			continue
		}
		if !found {
			old = Record{Region: w.Region, Worker: worker}
		} else if old.Ceiling.After(w.done.Highest) && !w.unknown[old.Nonce] {
			w.done.Highest = old.Ceiling
		}
		if old.Version >= maxStored { // the last version: nobody writes it again
			w.done.Codes++
			continue
		}
		next := Record{
			Region: w.Region, Worker: worker, Owner: w.Owner, Nonce: newNonce(), Token: min(old.Token+1, maxStored),
			Ceiling: later(old.Ceiling, w.Until), Released: true, Layout: w.Layout.String(),
		}
		switch _, err := swapOnce(ctx, w.store, old, next); {
		case err == nil:
			w.acknowledged[worker] = next.Nonce
			w.done.Codes++
		case !errors.Is(err, ErrConflict):
			w.unknown[next.Nonce] = true
			return err
		}
	}
	return nil
}

const (
	operateTries  = 10
	maxFencedBits = 20
)

var errIncomplete = errors.New("call it again to complete it")

// pin returns the layout of the region, and pins it if the region has none.
func (f Fence) pin(ctx context.Context, store LeaseStore) (Layout, error) {
	records, err := recordsByWorker(ctx, store, f.Region)
	if err != nil {
		return Layout{}, err
	}
	pinned, found := records[layoutWorker]
	switch {
	case !found && f.Layout == (Layout{}):
		return Layout{}, errors.New("the region has no layout record: it was never used, or its records are lost: set Layout to the one of its workers")
	case !found:
		if err := f.check(f.Layout); err != nil { // before it is pinned, which lasts
			return Layout{}, err
		}
		none := Record{Region: f.Region, Worker: layoutWorker}
		pinned = Record{Region: f.Region, Worker: layoutWorker, Owner: f.Owner, Nonce: newNonce(), Layout: f.Layout.String()}
		if _, err := swapOnce(ctx, store, none, pinned); err != nil {
			return Layout{}, err
		}
	case f.Layout != (Layout{}) && f.Layout.String() != pinned.Layout:
		return Layout{}, fmt.Errorf("%w: the region has %q, Layout is %q", ErrLayoutMismatch, pinned.Layout, f.Layout)
	}
	layout, err := ParseLayout(pinned.Layout)
	if err != nil {
		return Layout{}, fmt.Errorf("%w: the region's layout record: %w", ErrDamaged, err)
	}
	return layout, f.check(layout)
}

// check says what is wrong with a fence of a region with this layout.
func (f Fence) check(layout Layout) error {
	if err := layout.Validate(); err != nil {
		return err
	}
	last := 1<<layout.RegionBits - 1
	switch {
	case f.Region > last:
		return fmt.Errorf("the region must be 0 to %d for layout %v", last, layout)
	case layout.WorkerBits > maxFencedBits:
		return fmt.Errorf("the region has 2^%d codes, must have at most 2^%d: use LeaseConfig.Settle", layout.WorkerBits, maxFencedBits)
	case f.Until.Before(layout.Epoch) || f.Until.After(layout.End()):
		return fmt.Errorf("Until is %s, must be %s to %s", f.Until.UTC().Format(time.RFC3339Nano),
			layout.Epoch.Format(time.RFC3339Nano), layout.End().Format(time.RFC3339Nano))
	}
	return nil
}

// ReleaseExpired takes codes of a region from owners that have gone without giving them
// back: those of the given workers, or all, whose ceiling has passed by more than 5 s. An
// expired code is free for the next worker in any case; released, it can no longer be
// revived by the owner that had it, such as a process that is stopped, and is not counted
// as lost. Ceilings stay as they are.
//
// It returns the records as they are stored now. For a given worker whose ceiling has not
// passed, or that has no record, nothing is written and the error is a *LeaseError that
// wraps ErrCodeInUse or ErrNoWorkerCode; the others are released all the same. The time is
// the store's, or the local clock's if the store tells none: a wrong one costs a living
// worker its code, and nothing else.
func ReleaseExpired(ctx context.Context, store LeaseStore, region int, workers ...int) ([]Record, error) {
	now := time.Now()
	if clock, ok := store.(storeClock); ok {
		var err error
		if now, err = clock.Time(ctx); err != nil {
			return nil, fmt.Errorf("snowflake: releasing codes of region %d: %w", region, err)
		}
	}
	records, err := recordsByWorker(ctx, store, region)
	if err != nil {
		return nil, fmt.Errorf("snowflake: releasing codes of region %d: %w", region, err)
	}
	asked := workers != nil
	if !asked {
		workers = slices.Collect(maps.Keys(records))
	}
	var released []Record
	var refused []error
	for i, worker := range workers {
		r, found := records[worker]
		if asked && slices.Contains(workers[:i], worker) {
			continue // named twice
		}
		problem := &LeaseError{Region: region, Worker: worker, Holder: r.Owner, Until: r.Ceiling}
		switch {
		case !found || worker == layoutWorker:
			problem.Err = fmt.Errorf("%w: it has no record", ErrNoWorkerCode)
		case r.Released:
			continue
		case now.Sub(r.Ceiling) < defaultMaxSkew:
			problem.Err = fmt.Errorf("%w: its ceiling has not passed", ErrCodeInUse)
		default:
			next := r
			next.Nonce, next.Token, next.Released = newNonce(), min(r.Token+1, maxStored), true
			stored, err := swapOnce(ctx, store, r, next)
			if err == nil {
				released = append(released, stored)
				continue
			}
			if errors.Is(err, ErrConflict) {
				err = fmt.Errorf("%w: its owner is back: %w", ErrCodeInUse, err)
			}
			refused = append(refused, err)
			continue
		}
		if asked {
			refused = append(refused, problem)
		}
	}
	sortRecords(released)
	return released, errors.Join(refused...)
}

func recordsByWorker(ctx context.Context, store LeaseStore, region int) (map[int]Record, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptLimit)
	defer cancel()
	records, err := store.Records(ctx, region)
	if err != nil {
		return nil, err
	}
	byWorker := make(map[int]Record, len(records))
	for _, r := range records {
		byWorker[r.Worker] = r
	}
	return byWorker, nil
}

func swapOnce(ctx context.Context, store LeaseStore, old, next Record) (Record, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptLimit)
	defer cancel()
	return store.Swap(ctx, old, next)
}
