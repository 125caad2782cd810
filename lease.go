package snowflake

import (
	"context"
	"time"
)

// Grant is a rectangle of the ID space: one worker code times the ticks from
// Floor up to, but not including, Ceiling. Whoever holds it may put only these
// timestamps, with only that code, into IDs. Grants never overlap, which is why
// IDs cannot repeat.
//
// A Grant is immutable. A change, such as a higher ceiling, is a new Grant with a
// new address.
type Grant struct {
	// Code joins region and worker, see Layout.Code.
	Code int
	// Token rises with every change of owner of the code. It fences stale
	// owners off the store; it is not part of an ID.
	Token uint64
	// Floor and Ceiling are whole ticks: the first that may be used, and the
	// first that may not. A zero Floor is none. A zero Ceiling is none either,
	// and asks for a HighWaterStore.
	Floor, Ceiling time.Time
	// Deadline is when the holder stops for want of a renewal. Zero: never. It
	// bounds how soon the code is used again; uniqueness does not rest on it.
	Deadline time.Time

	// expires is Deadline on the scale of the clock's Elapsed, where a
	// WorkerLease knows it exactly: 0 where it does not.
	expires time.Duration
}

// Lease gives a generator the right to use a worker code. The ordinary ones are
// *WorkerLease, from AcquireLease, and StaticLease.
//
// Grant returns what is held now, or nil. It is called for every ID under the
// generator's mutex: it must not block, and must return the same pointer until
// something changes.
//
// A Lease may also have
//
//	Layout() Layout
//	Release(ctx context.Context, unused time.Time) error
//
// Release gives the code back. The generator's Close calls it once; nothing at or
// above unused was claimed (zero: unknown).
type Lease interface {
	Grant() *Grant
}

// StaticLease returns a lease of one code for ever, without a store behind it.
// That two processes never use the same code is then the operator's promise, and
// Config.HighWater must remember how far the code was used.
func StaticLease(code int) Lease {
	return &staticLease{grant: Grant{Code: code}}
}

type staticLease struct{ grant Grant }

func (l *staticLease) Grant() *Grant { return &l.grant }

// Record is what a LeaseStore keeps for one worker code of a region. A record is
// never deleted and never expires.
type Record struct {
	Region int
	Worker int    // -1: the region's layout record, which holds no code
	Owner  string // for people; nothing compares it
	Nonce  string // new with every write; its part before a "." is its owner's, and new with every attempt to acquire
	Token  uint64 // rises with every change of owner; at most 2^63-1
	// Version is set by the store, rises with every write, and is at most
	// 2^63-1. 0: there is no record.
	Version  uint64
	Ceiling  time.Time // a whole tick of the layout; the store keeps it exactly
	Released bool      // the owner stopped and said so
	Layout   string    // Layout.String of whoever wrote it
}

// LeaseStore keeps the records of worker codes. It knows nothing about leases: all
// it does is compare and swap. Most programs use NewMemoryStore, DirStore or one of
// the modules under stores/, and hand it to AcquireLease. One who writes another
// must pass the conformance suite in snowflaketest.
//
// Both methods are called from many goroutines, and must return when ctx ends.
//
// Records returns every record of the region as of now: a write that was
// acknowledged before the call must be in it. One that was not may be, and may be lost
// afterwards: leases rest on what Swap has acknowledged alone.
//
// Swap writes new if the stored record of that region and worker has old.Version
// and old.Nonce; for a worker without a record both are zero in old. The store
// sets Version itself, higher than before, and returns the record as stored, after it
// and all that was seen of this record before have become durable. ErrConflict says that
// the stored record differs and that nothing was or will be written. Any other error says
// that the outcome is unknown: the write may have happened or may still happen.
//
// A LeaseStore may also have
//
//	Time(ctx context.Context) (time.Time, error)
//	MayForget() bool
//
// Time tells the store's wall clock, which local clocks are compared with.
// MayForget says that an acknowledged write can be lost, in a failover for example;
// see LeaseConfig.Settle.
type LeaseStore interface {
	Records(ctx context.Context, region int) ([]Record, error)
	Swap(ctx context.Context, old, new Record) (Record, error)
}

type storeClock interface {
	Time(ctx context.Context) (time.Time, error)
}

type forgetful interface{ MayForget() bool }

// LeaseConfig says how AcquireLease takes and keeps a code. Only Region must be
// thought about: two regions with the same number and separate stores make equal
// IDs.
type LeaseConfig struct {
	// Region is the number of the deployment's region, part of every code.
	Region int
	// Layout is pinned by the region's first user. Zero: DefaultLayout.
	Layout Layout
	// Owner is shown to people who list the records. "": host name and process.
	Owner string
	// TTL is how far ahead of now a renewal sets the ceiling. 0: 2 min. A longer
	// one rides out longer outages of the store and keeps the codes of crashed
	// processes for longer.
	TTL time.Duration
	// Renew is how often, 0 < Renew <= TTL/3. 0: TTL/6.
	Renew time.Duration
	// Settle keeps a fresh code unused for that much longer, against stores that
	// may forget acknowledged writes. 0: TTL + MaxClockSkew for a store that says
	// MayForget, else none. Negative: none even then.
	Settle time.Duration
	// MaxClockSkew is how far the local clock may be off, at most 24 h. 0: 5 s.
	MaxClockSkew time.Duration
	// Clock is SystemClock if nil. Give the generator the same one.
	Clock Clock
	// Hooks are told of acquisitions, failed renewals and losses.
	Hooks *Hooks

	kin *kin // of the leases of a pool
}
