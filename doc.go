// Package snowflake mints primary keys: positive 64-bit integers that no other call,
// process, machine or region of the same ID space has got or will get, roughly ordered
// by time, without a network request for each.
//
//	store, err := snowflake.DirStore("leases") // or a database: see stores/
//	lease, err := snowflake.AcquireLease(ctx, store, snowflake.LeaseConfig{Region: 0})
//	gen, err := snowflake.New(ctx, snowflake.Config{Lease: lease})
//	defer gen.Close(context.Background())
//	id, err := gen.Next()
//
// # The promise
//
// Unique means never twice, deterministically: across goroutines, processes, restarts,
// steps of the clock, pauses, partitions and lost leases. An ID space is one Layout (its
// epoch and all widths) with one lease store for each region number. Two stores for one
// region, or a region number left at zero in two regions, are two spaces, and their IDs
// collide: nothing in this package can see that.
//
// Ordered means that each ID of one generator is greater than any that it returned before
// the call began. Between generators IDs are as well ordered as the machines' clocks, and
// no better: it is not an order of commits, and a reader that asks for "id > cursor" can
// miss rows that come late. Gaps are normal. An ID tells its time and worker to everybody
// who sees it: it is not a secret and no access check; where that matters, show a random
// identifier that is stored beside it.
//
// When uniqueness cannot be proved, the generator stops with a typed error, tells its
// Hooks, turns its Health, and goes on by itself when the proof is back. Retryable says
// which errors pass.
//
// # How it is kept
//
// A worker code is leased for a window of timestamps, a Grant, whose end was made durable
// before it is used. The next owner of the code starts where the window ends. So a
// process that was paused, cut off, or has a wrong clock either still has room below its
// own end, which nobody else will ever use, or stops. Time-outs and clocks decide only how
// soon a code is used again, never whether two owners collide.
//
// A code that is fixed by deployment, StaticLease, has no lease record; a
// HighWaterStore remembers how far it was used.
//
// # What breaks it
//
//   - a lease store that forgets acknowledged writes: an asynchronous failover, a restored
//     backup. LeaseConfig.Settle covers it as far as clocks agree; after a restore raise
//     every ceiling of the region before workers reach it;
//   - lease records or mark files that somebody deleted;
//   - two running clones of one virtual machine's snapshot, inside one grant;
//   - two processes given the same static code without a shared mark;
//   - separate stores for one region, or one region number for two regions.
//
// In all of these the database's unique constraint is the last line: when it fires, call
// ReportDuplicate.
//
// # Waiting
//
// Next decides under one mutex, which is never held over I/O or a wait. It waits, outside
// of it, only for a fresh tick or for a clock that went back, at most MaxWait; a call that
// would have to wait longer is refused at once. MaxAhead lets IDs run ahead of the clock
// instead, by a bounded amount.
//
// # More than one code
//
// One generator for each process is enough for nearly all: it serves any number of
// goroutines. NewPool is for the process that mints more than a code holds, or on more
// cores than one mutex serves; order then holds for each of its generators only.
//
// # In tests
//
// Inside a testing/synctest bubble use an injected Clock: SystemClock reads the machine's
// clock, which a bubble does not fake.
package snowflake
