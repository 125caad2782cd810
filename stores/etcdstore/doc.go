// Package etcdstore keeps worker leases in etcd, through go.etcd.io/etcd/client/v3.
//
//	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"etcd-0:2379", "etcd-1:2379", "etcd-2:2379"}})
//	store, err := etcdstore.New(client, "snowflake")
//	lease, err := snowflake.AcquireLease(ctx, store, snowflake.LeaseConfig{Region: 2})
//	gen, err := snowflake.New(ctx, snowflake.Config{Lease: lease})
//
// Every region has its own cluster, or shares one with others, under one prefix or several.
// What must not happen is that one region has two.
//
// # Keys
//
// The record of worker 17 of region 2 is the key snowflake/2/17; the layout that the region
// is pinned to is snowflake/2/-1. Values are lines of text for people to read:
//
//	etcdctl get --prefix --print-value-only snowflake/2/
//
// A user needs the permission readwrite for the prefix snowflake/ and nothing else. Never
// delete or edit a key: one that is gone is a code that was never used. The owner of a key
// that was deleted or taken notices when it renews next, writes nothing over it, tells its
// hooks, and goes on with a fresh code; until then, Renew (20 s) at most, another process
// that has started meanwhile can have been given the same code. A value that was edited, or
// written by a newer release, is ErrDamaged for the whole region, because nobody knows any
// more how far a code was used.
//
// # Why this is safe
//
// A write is one transaction. It compares the revision at which the key was written last,
// and the nonce in its value, and is decided by the log that a majority of the members has
// agreed on and synced. That revision is the record's Version: it rises with every write to
// the cluster, and no cluster lives long enough to reach 2^63, which takes 292,000 years at
// a million writes a second. A read asks a majority whether it is up to date. Leases, locks
// and watches of etcd have no part in it: a session that is thought dead, or lives on
// without its owner's knowledge, decides nothing.
//
// The client repeats reads by itself. It repeats a transaction only where it takes it for not
// sent or not served: there was no connection, or the token of its user had expired, or the
// answer was Canceled or DeadlineExceeded though ctx has not ended, which a server or proxy
// may say of a request that was served (retry.go and retry_interceptor.go of client/v3). A
// repeated transaction finds the record that the first has written. Swap sees that, and
// returns an error that is not ErrConflict, as for every answer that was lost: the outcome is
// unknown, and the lease reads back.
//
// After a call that failed the next one has the client connect at once. gRPC by itself waits
// longer after each refused connection, up to two minutes, and a lease could run out on a
// cluster that had long come back.
//
// Nothing here has a time-out of its own: ctx ends a call. Leases end each after 4 s and
// try again. A member that hangs takes calls until the client notices; let it notice, with
// DialKeepAliveTime and DialKeepAliveTimeout of clientv3.Config, 10 s and 3 s for example.
//
// # What etcd must be set to
//
//   - It must be 3.4.21, 3.5.5 or later. A cluster of one member answered before it had
//     synced what it acknowledged, in earlier releases, and a crash could lose it
//     (etcd-io/etcd#14370). Members of 3.5.0 to 3.5.2 could come to hold different data
//     after a crash (etcd-io/etcd#13766). Nothing here asks which release it is.
//   - It must sync: not --unsafe-no-fsync, and no disk that only pretends to. Else a crash
//     forgets, and nothing tells: set LeaseConfig.Settle to TTL + MaxClockSkew, 125 s
//     by default.
//   - A cluster restored from a snapshot, started with --force-new-cluster, or made anew has
//     forgotten what came after. Before workers reach it, raise every ceiling of its regions
//     (fence). Leases that go on notice by themselves if their record is gone or its revision
//     lower; --bump-revision of etcdutl hides that from them.
//   - It must compact its history: --auto-compaction-retention, which is off by default. Every
//     renewal adds a revision, 800 workers some 40 a second. At --quota-backend-bytes, 2 GiB by
//     default, etcd refuses writes, and leases are suspended.
//   - etcd tells nobody the time. Local clocks are compared with what living peers write, see
//     LeaseConfig.MaxClockSkew.
//
// With three members one may fail, and the others elect a new leader within seconds. Without
// a majority nothing is read or written, and leases go on inside what they were granted.
package etcdstore
