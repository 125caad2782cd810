// Package redisstore keeps worker leases in a Redis, or Valkey, that a service already
// has, through go-redis.
//
//	client := redis.NewClient(&redis.Options{Addr: "…", ContextTimeoutEnabled: true})
//	store, err := redisstore.New(ctx, client, "snowflake:", redisstore.Options{})
//	lease, err := snowflake.AcquireLease(ctx, store, snowflake.LeaseConfig{Region: 2})
//	gen, err := snowflake.New(ctx, snowflake.Config{Lease: lease})
//
// Every region has its own server, or shares one with others under one prefix or
// several: records carry their region. What must not happen is that one region has two.
//
// # What is stored
//
// One hash for each region, prefix{2} for region 2, with a field for each worker: the
// record as a line of text, with a format number and a checksum.
//
//	HGETALL snowflake:{2}
//
// The braces have a cluster place the keys of one region in one slot, whatever the
// prefix. Never delete the key or a field, never let the key expire, and never restore it
// from a backup under running services: a record that is gone is a code that was never
// used. A record that cannot be understood, or that a newer release wrote, is
// snowflake.ErrDamaged.
//
// # Why this is safe
//
// A write is one script. It compares the version and the nonce, as text, with those that
// the stored record begins with, and Redis runs nothing else meanwhile. A version is a
// number of 63 bits, and numbers in a script have 53: so the client counts, not the script.
//
// A command that was resent after its answer was lost would find its own write, and be
// told of a conflict that there was not. So the script is sent once, whatever the
// client's MaxRetries: without an answer the outcome is unknown, and the lease reads
// back. Reads are resent as the client likes.
//
// Reads are a script too, and both scripts contain a command that writes, and so run on a
// primary only: a client that reads from replicas (ReadOnly, RouteByLatency, RouteRandomly)
// sends them to the primary, and a replica refuses them. A redis.Ring is refused: it takes the next
// shard when one does not answer, and a region would have two stores.
//
// # What the server must be set to
//
// A lease rests on writes that stay. Redis as it is installed does not give that. New asks
// the server, and refuses settings under which it may forget what it has acknowledged, with
// ErrForgetful. What is needed, in the server's configuration file:
//
//	appendonly yes
//	appendfsync always
//	no-appendfsync-on-rewrite no
//	maxmemory-policy noeviction       # or one of volatile-…
//
// and one server alone: no replica, no Sentinel, no cluster. Replication in Redis is
// asynchronous, so a replica that is promoted may lack the last writes. WAIT does not
// change that: it tells that replicas have received a write, and neither that they have it
// on disk nor that one of those is promoted. It is no proof, and not used here.
//
// Options.MayForget accepts all other settings. Leases then settle: a code is used only
// after TTL + MaxClockSkew, some two minutes by default (see
// snowflake.LeaseConfig.Settle). That covers a server that forgot anything up to
// everything, as far as the clocks of the machines agree within MaxClockSkew.
//
//   - Sentinel, cluster, or any replica: set MayForget.
//   - appendfsync everysec, or snapshots (save) alone: set MayForget.
//   - allkeys-… policies: set MayForget, and better give leases a server of their own.
//   - A managed Redis that does not tell its settings, because CONFIG is not permitted:
//     set MayForget.
//
// The server is asked once, in New. Who changes its settings afterwards, turns appendonly
// on by CONFIG SET but not in the file, or promotes a replica that was not connected at
// the time, takes the promise away unseen. And a disk that says it has synced when it has
// not breaks it for Redis as for everybody.
//
// # What the client must be allowed
//
// EVAL, HGET, HSET, HGETALL, PERSIST and TIME on the keys of the prefix, and INFO and
// CONFIG GET for New to find the settings safe.
//
// Every call returns when its context ends. A connection that does not answer stays in use
// until the client's ReadTimeout; set ContextTimeoutEnabled, and it is freed at once.
package redisstore
