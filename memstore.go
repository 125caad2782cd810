package snowflake

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
)

// NewMemoryStore returns a LeaseStore in this process' memory, for tests and for
// programs that are one process in all and whose IDs need not outlive it: it forgets
// everything when the process ends. It tells no time.
func NewMemoryStore() LeaseStore { return &memoryStore{records: make(map[recordKey]Record)} }

type memoryStore struct {
	mu sync.Mutex
	// mu protects records.
	records map[recordKey]Record
}

type recordKey struct{ region, worker int }

var _ LeaseStore = (*memoryStore)(nil)

// Records returns the region's records.
func (s *memoryStore) Records(ctx context.Context, region int) ([]Record, error) {
	if err := checkRecords(ctx, region); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	records := slices.Collect(maps.Values(s.records))
	records = slices.DeleteFunc(records, func(r Record) bool { return r.Region != region })
	sortRecords(records)
	return records, nil
}

// Swap compares and swaps one record.
func (s *memoryStore) Swap(ctx context.Context, old, new Record) (Record, error) {
	if err := checkSwap(ctx, old, new); err != nil {
		return Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := recordKey{new.Region, new.Worker}
	next, err := compareAndSwap(s.records[key], old, new)
	if err == nil {
		s.records[key] = next
	}
	return next, err
}

// What follows is the part of the LeaseStore contract that every store of this package
// shares.

func checkRecords(ctx context.Context, region int) error {
	if region < 0 {
		return fmt.Errorf("snowflake: lease store: region is %d, must not be negative", region)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("snowflake: lease store: nothing was read: %w", err)
	}
	return nil
}

func checkSwap(ctx context.Context, old, new Record) error {
	switch {
	case new.Region < 0:
		return fmt.Errorf("snowflake: lease store: region is %d, must not be negative", new.Region)
	case new.Worker < layoutWorker:
		return fmt.Errorf("snowflake: lease store: worker is %d, must be at least %d", new.Worker, layoutWorker)
	case (old.Version != 0 || old.Nonce != "") && (old.Region != new.Region || old.Worker != new.Worker):
		return fmt.Errorf("snowflake: lease store: old is worker %d of region %d, new is worker %d of region %d, must be the same",
			old.Worker, old.Region, new.Worker, new.Region)
	case new.Token > math.MaxInt64:
		return fmt.Errorf("snowflake: lease store: token is %d, must be at most %d", new.Token, int64(math.MaxInt64))
	case ctx.Err() != nil:
		return fmt.Errorf("snowflake: lease store: nothing was written: %w", ctx.Err())
	}
	return nil
}

// compareAndSwap returns new as it is to be stored in place of stored, which is the
// zero Record where there is none. Version is set, and never wraps.
func compareAndSwap(stored, old, new Record) (Record, error) {
	if stored.Version != old.Version || stored.Nonce != old.Nonce {
		return Record{}, &LeaseError{Region: new.Region, Worker: new.Worker, Holder: stored.Owner, Err: ErrConflict}
	}
	if stored.Version >= math.MaxInt64 {
		return Record{}, &LeaseError{Region: new.Region, Worker: new.Worker, Holder: stored.Owner,
			Err: fmt.Errorf("snowflake: lease store: the record has the last version there is, %d", stored.Version)}
	}
	new.Version = stored.Version + 1
	new.Ceiling = new.Ceiling.Round(0).UTC()
	return new, nil
}

func sortRecords(records []Record) {
	slices.SortFunc(records, func(a, b Record) int { return a.Worker - b.Worker })
}
