//go:build unix

package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake/internal/servers"
	"github.com/snowfence/snowflake/internal/servers/servertest"
)

// A PostgreSQL primary is lost, and its replica promoted.
func TestPostgresFailover(t *testing.T) {
	t.Parallel()
	// The replica has everything that was acknowledged: nothing is lost.
	t.Run("synchronous replica", func(t *testing.T) {
		t.Parallel()
		f, primary, replica, _, network := replicated(t, Plan{WorkerBits: 3}, "synchronous_standby_names=replica")
		workers := f.starts(5)
		promoted := f.failOver(primary, replica, network)
		f.allMint(workers)
		healed := time.Since(promoted)
		workers = append(workers, f.starts(2)...)
		silence := f.longestSilence(workers)
		f.leave(workers)
		results.add(result{
			order: 90, fault: "primary lost, synchronous replica promoted", store: PostgreSQL, ids: f.audit(), stopped: silence, healed: healed,
			note: "promised: no acknowledged write is lost",
		})
	})
	// The replica lacks the last seconds, and the store was declared as one that may forget.
	t.Run("asynchronous replica, MayForget", func(t *testing.T) {
		t.Parallel()
		f, workers, promoted := losesCommits(t, forgetful(4), 10, true)
		f.allMint(workers)
		healed := time.Since(promoted)
		silence := f.longestSilence(workers)
		f.leave(workers)
		results.add(result{
			order: 91, fault: "primary lost with its last commits, asynchronous replica promoted, MayForget", store: PostgreSQL,
			ids: f.checked(), stopped: silence, healed: healed,
			note: fmt.Sprintf("promised while clocks agree within MaxClockSkew: every grant begins TTL + MaxClockSkew (%v) after it was taken", f.plan.TTL+f.plan.MaxClockSkew),
		})
	})
	// The same, and nobody has said so. This is what is not promised.
	t.Run("asynchronous replica, not declared", func(t *testing.T) {
		t.Parallel()
		f, workers, _ := losesCommits(t, forgetful(3), 5, false)
		time.Sleep(f.plan.TTL)
		for _, w := range workers {
			w.wants()
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		results.add(result{
			order: 92, fault: "the same, MayForget not declared", store: PostgreSQL, ids: f.ledger.Len(), repeats: f.repeats,
			note: "**not promised**: lost acquires put two owners on a code until the first reads back; the store must not forget, or be declared",
		})
	})
}

// forgetful is a plan in which seconds pass before a worker finds out that it was forgotten.
func forgetful(bits int) Plan {
	return Plan{WorkerBits: bits, TTL: 12 * time.Second, Renew: 4 * time.Second, MaxClockSkew: time.Second}
}

// replicated starts a primary with a replica, and a fleet that reaches them through a proxy.
// The replica follows through a proxy as well.
func replicated(t *testing.T, plan Plan, settings ...string) (f *fleet, primary, replica *servers.Server, replication, network *proxy) {
	t.Helper()
	primary = servertest.Need(t, func() (*servers.Server, error) { return servers.Postgres(settings...) })
	t.Cleanup(primary.Stop)
	replication = newProxy(t, loopback, primary.Address())
	replica = servertest.Need(t, func() (*servers.Server, error) { return servers.PostgresReplica(replication.port()) })
	t.Cleanup(replica.Stop)
	network = newProxy(t, loopback, primary.Address())
	store := postgresBackend.open(t, nil, network.address())
	return newFleet(t, store, plan), primary, replica, replication, network
}

// failOver kills the primary and promotes the replica.
func (f *fleet) failOver(primary, replica *servers.Server, network *proxy) time.Time {
	f.t.Helper()
	network.cut()
	require.NoError(f.t, primary.Kill())
	require.NoError(f.t, replica.Promote())
	network.mend(replica.Address())
	return time.Now()
}

// losesCommits has a replica stop following, two of five workers acquire and all renew
// after that, and the replica promoted: the store has never heard of those two. Then others
// take codes that seem free.
func losesCommits(t *testing.T, plan Plan, others int, declared bool) (f *fleet, workers []*worker, promoted time.Time) {
	t.Helper()
	f, primary, replica, replication, network := replicated(t, plan)
	f.plan.Store.MayForget, f.forgive = declared, !declared
	workers = f.starts(3)
	replication.hold()
	workers = append(workers, f.starts(2)...)
	for _, w := range workers {
		ceiling := w.grant().Ceiling
		f.eventually("it renews", func() bool { return f.held(w).Ceiling.After(ceiling) })
	}
	promoted = f.failOver(primary, replica, network)
	for range others {
		workers = append(workers, f.start(nil, ""))
	}
	return f, workers, promoted
}
