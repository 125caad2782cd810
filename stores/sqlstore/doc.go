// Package sqlstore keeps worker leases and high-water marks in a database that a
// service already has: PostgreSQL, MySQL or MariaDB, or SQLite, through database/sql.
//
//	db, err := sql.Open("pgx", "postgres://...")
//	store, err := sqlstore.Open(ctx, db, sqlstore.Postgres, sqlstore.Options{})
//	lease, err := snowflake.AcquireLease(ctx, store, snowflake.LeaseConfig{Region: 2})
//	gen, err := snowflake.New(ctx, snowflake.Config{Lease: lease})
//
// Every region has its own database, or shares one with others: records carry their
// region. What must not happen is that one region has two.
//
// # Tables
//
// Open makes two tables if they are not there; Schema tells how, for those who migrate
// by hand or whose services must not.
//
//	SELECT region, worker, owner, ceiling, released FROM snowflake_lease ORDER BY region, worker;
//	SELECT code, owner, mark, session = '' AS closed FROM snowflake_mark ORDER BY code;
//
// ceiling and mark are ceiling_ns and mark_ns, nanoseconds since 1970, for people to
// read: only the integers are exact in every database, and a row in which the two differ
// is ErrDamaged. Never delete rows, and never restore them from a backup under running
// services: a row that is gone is a code that was never used.
//
// # Why this is safe
//
// A write is one statement that names the version and the nonce that it replaces, and
// the number of rows that it has changed says whether it did. The database runs
// statements on one row one after the other, at any isolation level. There is no session lock,
// no transaction that outlives a call, and nothing prepared: it works through
// connection poolers and fail-overs, as far as these keep what was acknowledged. Records
// is one SELECT, and refuses to answer from a replica.
//
// A write is acknowledged when it is committed. In MySQL a connection need not commit by
// itself (autocommit may be off, for the server, a user or a connection), so that a COMMIT
// follows each write, and surrounds each read, which would else show an old snapshot. It
// also ends what somebody else has begun on a connection of the pool and left open.
//
// Reads may be old, as through a proxy that sends them to replicas which it has not made
// read-only: nothing is decided by what is read, because the write names it and is compared
// where the row is. An old read costs a conflict; or a lease that is shown less than was
// acknowledged to it takes the store for one that forgets, gives its code up, and settles.
// Writes must all go to one primary, or to a cluster that certifies them: of two primaries
// that copy to one another later each gives the same codes away.
//
// # What the database must be set to
//
// A lease rests on commits that stay. Open asks the database, and refuses settings under
// which a crash may undo what was acknowledged; Options.MayForget accepts them, and
// leases then settle (see snowflake.LeaseConfig.Settle). What is set for a connection is
// seen to with each write, in all connections of the pool; what is set for the server is
// asked for once, by Open: nobody may lower it afterwards. So is the kind of the tables,
// where somebody else has made them: those that are UNLOGGED or temporary, or of another
// engine than InnoDB, are refused.
//
//   - PostgreSQL: fsync and synchronous_commit must not be off. Without MayForget each write
//     sets synchronous_commit to on for its own transaction if it is neither that nor
//     remote_apply, whatever a role, a database or a connection has been set to. Behind
//     PgBouncer in transaction mode tell the driver not to name prepared statements, with
//     default_query_exec_mode=exec in the address of pgx. Nor must full_page_writes be off,
//     unless the storage writes whole pages or none, which Open cannot ask. A failover to an
//     asynchronous replica loses commits and no setting tells: set MayForget. One to a
//     synchronous replica loses none, but for the limit below.
//   - MySQL, MariaDB: innodb_flush_log_at_trx_commit=1, and sync_binlog=1 where there is a
//     binary log; innodb_doublewrite as full_page_writes above. In Galera set
//     wsrep_sync_wait=1, else a member may show what was there before the writes that others
//     have acknowledged: an old read, as above. A failover to an asynchronous or
//     semi-synchronous replica may lose commits: set MayForget.
//   - SQLite, for the processes of one machine: WAL with synchronous=FULL, or
//     synchronous=EXTRA, in every connection, else it writes nothing; and a busy_timeout,
//     without which writers get errors from one another. With modernc.org/sqlite:
//     file:ids.db?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)
//
// # A limit of PostgreSQL's synchronous replicas
//
// A commit that waits for a synchronous replica has been made on the primary already. If
// the wait is cancelled, PostgreSQL answers with success and a warning, and database/sql
// does not hand warnings on: the write is acknowledged, and a failover loses it. The wait
// can be cancelled by
//
//   - an administrator, or anyone with the same role, with pg_cancel_backend (not with
//     pg_terminate_backend: that ends the connection, and the write is an error);
//   - anyone who empties synchronous_standby_names or takes the replica out of it, and then
//     promotes that replica all the same;
//   - a pooler that hands one client's request to cancel to another client's statement, as
//     PgBouncer could before 1.18 (pgbouncer/pgbouncer#717). Drivers send such requests
//     when a ctx ends, as many do while the replica is gone.
//
// A ctx that ends does no harm by itself: whatever the driver returns after that is an error
// here (lib/pq returns success for a wait that it has had cancelled), and leases rely on
// nothing that was not acknowledged. Where one of these can happen before a failover, set
// MayForget; or, if it has happened, fence the region (snowflake.FenceLeases) before
// workers reach the promoted replica. For marks of static codes there is no such remedy.
package sqlstore
