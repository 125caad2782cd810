package sqlstore

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/internal/servers"
	"github.com/snowfence/snowflake/internal/servers/servertest"
	"github.com/stretchr/testify/require"
)

// A PostgreSQL whose synchronous replica is gone answers no write, but shows it as soon as
// its connection ends: it has committed, and the replica does not have it. After the failover
// nobody has. So what is shown must be neither minted nor counted, only what is acknowledged.

// synchronous is a primary, its synchronous replica, and what is asked of the primary.
type synchronous struct {
	primary, replica *servers.Server
	db               *sql.DB
	store            Store
}

func startSynchronous(t *testing.T) *synchronous {
	t.Helper()
	var p synchronous
	p.primary = servertest.Need(t, func() (*servers.Server, error) { return servers.Postgres("synchronous_standby_names=replica") })
	t.Cleanup(p.primary.Stop)
	p.replica = servertest.Need(t, func() (*servers.Server, error) { return servers.PostgresReplica(p.primary.Port()) })
	t.Cleanup(p.replica.Stop)
	p.db = onPostgres.connect(t, p.primary.DSN())
	var err error
	p.store, err = Open(t.Context(), p.db, Postgres, Options{})
	require.NoError(t, err)
	return &p
}

// lose takes the replica away, and returns when no write can reach it any more.
func (p *synchronous) lose(t *testing.T) {
	t.Helper()
	require.NoError(t, p.replica.Kill())
	require.Eventually(t, func() bool {
		var replicas int
		err := p.db.QueryRow("SELECT count(*) FROM pg_stat_replication").Scan(&replicas)
		return err == nil && replicas == 0
	}, 10*time.Second, 10*time.Millisecond)
}

// shown ends the connections of writes that wait for the replica until it has been shown so
// many records of code 0 that were not there before, or ended says that there will be no
// more. It returns the last one.
func (p *synchronous) shown(t *testing.T, writes int, ended func() bool) (last snowflake.Record) {
	t.Helper()
	last = recordOf(t, p.store)
	for deadline := time.Now().Add(15 * time.Second); writes > 0 && !ended(); time.Sleep(10 * time.Millisecond) {
		_, err := p.db.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
		require.NoError(t, err)
		if now := recordOf(t, p.store); now.Nonce != last.Nonce {
			last = now
			writes--
		}
		require.True(t, time.Now().Before(deadline), "%d writes are missing", writes)
	}
	return last
}

// failOver makes the replica the primary, and returns what it has of code 0.
func (p *synchronous) failOver(t *testing.T) snowflake.Record {
	t.Helper()
	require.NoError(t, p.primary.Kill())
	require.NoError(t, p.replica.Restart())
	require.NoError(t, p.replica.Promote())
	promoted, err := Open(t.Context(), onPostgres.connect(t, p.replica.DSN()), Postgres, Options{})
	require.NoError(t, err)
	return recordOf(t, promoted)
}

func recordOf(t *testing.T, s Store) snowflake.Record {
	t.Helper()
	records, err := s.Records(t.Context(), 0)
	require.NoError(t, err)
	for _, r := range records {
		if r.Worker == 0 {
			return r
		}
	}
	t.Fatal("code 0 has no record")
	return snowflake.Record{}
}

// oneCode is a layout in which every lease has code 0.
func oneCode() snowflake.Layout {
	layout := snowflake.DefaultLayout()
	layout.RegionBits, layout.WorkerBits = 10, 0
	return layout
}

// A lease must not use what the next owner of its code may be given after the failover.
func TestLeaseUsesNothingThatAFailoverLoses(t *testing.T) {
	t.Parallel()
	p := startSynchronous(t)
	lease, err := snowflake.AcquireLease(t.Context(), p.store, snowflake.LeaseConfig{Layout: oneCode(), TTL: time.Minute, Renew: time.Second})
	require.NoError(t, err)
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		require.Error(t, lease.Close(ctx), "its store is gone")
	}()
	p.lose(t)
	// The second write names the version of the first, which it can only have read.
	last := p.shown(t, 2, func() bool { return false })
	left := p.failOver(t)
	require.True(t, left.Ceiling.Before(last.Ceiling), "the writes are lost")
	require.True(t, lease.Stats().Held)
	require.False(t, lease.Stats().Ceiling.After(left.Ceiling), "it uses up to %v, and the next owner from %v", lease.Stats().Ceiling, left.Ceiling)
}

// A fence that is said to be complete must still be there after the failover.
func TestFenceIsNotDoneIfAFailoverLosesIt(t *testing.T) {
	t.Parallel()
	p := startSynchronous(t)
	lease, err := snowflake.AcquireLease(t.Context(), p.store, snowflake.LeaseConfig{Layout: oneCode()})
	require.NoError(t, err)
	require.NoError(t, lease.Close(t.Context()))
	p.lose(t)

	until := time.Now().Add(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	var failed error
	go func() {
		defer close(done)
		_, failed = snowflake.FenceLeases(ctx, p.store, snowflake.Fence{Until: until})
	}()
	last := p.shown(t, 2, func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	require.False(t, last.Ceiling.Before(until), "the database shows the fence")
	cancel()
	<-done
	require.True(t, p.failOver(t).Ceiling.Before(until), "the fence is lost")
	require.ErrorIs(t, failed, context.Canceled)
}

// Some drivers send a request to cancel when a ctx ends, and then take whatever is answered:
// lib/pq always, pgx if it is told to. PostgreSQL answers a commit whose wait was cancelled
// with success.
func TestAnswersToACancelledWaitAreNoAcknowledgement(t *testing.T) {
	t.Parallel()
	p := startSynchronous(t)
	config, err := pgx.ParseConfig(p.primary.DSN())
	require.NoError(t, err)
	config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: 10 * time.Second}
	}
	db := stdlib.OpenDB(*config)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	s, err := Open(t.Context(), db, Postgres, Options{})
	require.NoError(t, err)
	now := swap(t, s, snowflake.Record{}, someRecord(17))
	m, err := s.HighWater().Open(t.Context(), 5, snowflake.DefaultLayout())
	require.NoError(t, err)
	p.lose(t)
	for name, call := range map[string]func(ctx context.Context) error{
		"Swap":    func(ctx context.Context) error { _, err := s.Swap(ctx, now, someRecord(17)); return err },
		"Advance": func(ctx context.Context) error { return m.Advance(ctx, noon) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		err := call(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
		require.NotErrorIs(t, err, snowflake.ErrConflict, name)
	}
	var version int64
	require.NoError(t, db.QueryRow("SELECT version FROM snowflake_lease WHERE worker = 17").Scan(&version))
	require.EqualValues(t, now.Version+1, version, "the database has answered that it is written")
}
