package snowflake

import (
	"fmt"
	"sync"
)

// codes remembers which static codes generators of this process use on the system
// clock, and how far a closed one went: leases and marks exclude other processes,
// but a StaticLease with NoHighWater has neither. It grows by one small entry for
// each code that the process ever used.
var codes = codeRegistry{entries: make(map[codeKey]*codeEntry)}

type codeRegistry struct {
	mu sync.Mutex
	// mu protects entries and what they point to.
	entries map[codeKey]*codeEntry
}

type codeKey struct {
	layout string
	code   int
}

type codeEntry struct {
	inUse bool
	floor int64 // the tick after the last one claimed
}

// take takes a code and returns the first tick that may be used, or ErrCodeInUse.
func (r *codeRegistry) take(key codeKey) (floor int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	entry := r.entries[key]
	if entry == nil {
		entry = new(codeEntry)
		r.entries[key] = entry
	}
	if entry.inUse {
		return 0, fmt.Errorf("%w: another generator of this process has code %d: share one generator, its methods may be called from many goroutines", ErrCodeInUse, key.code)
	}
	entry.inUse = true
	return entry.floor, nil
}

// give gives a code back. Nothing at or above floor was claimed.
func (r *codeRegistry) give(key codeKey, floor int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	entry := r.entries[key]
	entry.inUse = false
	entry.floor = max(entry.floor, floor)
}
