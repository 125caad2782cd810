package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/internal/etcdserver"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// within is how long an election, and what waits for one, may take on a machine that has
// other things to do.
const within = time.Minute

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	t.Cleanup(cancel)
	return ctx
}

// kill kills a node, which lives again for the next test, however this one ends.
func kill(t *testing.T, cluster *etcdserver.Cluster, i int) {
	t.Helper()
	require.NoError(t, cluster.Kill(i))
	t.Cleanup(func() { _ = cluster.Restart(i) }) // an error if it runs
}

func pause(t *testing.T, cluster *etcdserver.Cluster, i int) {
	t.Helper()
	require.NoError(t, cluster.Pause(i))
	t.Cleanup(func() { require.NoError(t, cluster.Resume(i)) })
}

// chain has many writers put one record on top of the other until stop is closed, each
// with the token of the one before plus one. So no token can be acknowledged twice.
type chain struct {
	acknowledged sync.Map // token to the record that was acknowledged with it
	count        atomic.Int64
	unknown      atomic.Int64
}

func (c *chain) write(ctx context.Context, t *testing.T, s snowflake.LeaseStore, writer int, stop <-chan struct{}) {
	for turn := 0; ; turn++ {
		select {
		case <-stop:
			return
		default:
		}
		one, cancel := context.WithTimeout(ctx, 2*time.Second)
		all, err := s.Records(one, 2)
		if err == nil {
			old := snowflake.Record{Region: 2, Worker: 17}
			if len(all) > 0 {
				old = all[0]
			}
			next := someRecord(17)
			next.Nonce, next.Token = fmt.Sprint(writer, "-", turn), old.Token+1
			var stored snowflake.Record
			stored, err = s.Swap(one, old, next)
			if err == nil {
				if other, twice := c.acknowledged.LoadOrStore(stored.Token, stored); twice {
					t.Errorf("two writes on one record: %v and %v", other, stored)
				}
				c.count.Add(1)
			} else if !errors.Is(err, snowflake.ErrConflict) {
				c.unknown.Add(1)
			}
		}
		cancel()
	}
}

func (c *chain) wait(ctx context.Context, t *testing.T, more int64) {
	t.Helper()
	for goal := c.count.Load() + more; c.count.Load() < goal; {
		select {
		case <-ctx.Done():
			require.FailNow(t, "writes do not go on")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestLosingNodesLosesNoWrite(t *testing.T) {
	cluster, ctx := three.start(t), limited(t)
	prefix := newPrefix()
	var c chain
	stop := make(chan struct{})
	var group sync.WaitGroup
	for writer := range 6 {
		s := store(t, connect(t, cluster.Endpoints()), prefix)
		group.Go(func() { c.write(ctx, t, s, writer, stop) })
	}
	c.wait(ctx, t, 20)
	leader, err := cluster.Leader(ctx)
	require.NoError(t, err)
	kill(t, cluster, leader)
	c.wait(ctx, t, 50) // an election later
	next, err := cluster.Leader(ctx)
	require.NoError(t, err)
	require.NotEqual(t, leader, next)
	require.NoError(t, cluster.Restart(leader))
	c.wait(ctx, t, 20)

	// Of two that are lost, nothing goes on, and nobody is told anything wrong.
	kill(t, cluster, leader)
	kill(t, cluster, next)
	survivor := store(t, connect(t, cluster.Endpoints()), prefix)
	short, cancel := context.WithTimeout(ctx, time.Second)
	_, err = survivor.Records(short, 2)
	cancel()
	require.Error(t, err)
	require.NoError(t, cluster.Restart(next))
	require.NoError(t, cluster.Restart(leader))
	c.wait(ctx, t, 20)
	close(stop)
	group.Wait()

	all := records(t, survivor, 2)
	require.Len(t, all, 1)
	highest := int64(all[0].Token)
	require.GreaterOrEqual(t, highest, c.count.Load(), "no acknowledged write is lost")
	require.LessOrEqual(t, highest, c.count.Load()+c.unknown.Load(), "no write happened twice")
	var last uint64
	for token := range uint64(highest) {
		if r, ok := c.acknowledged.Load(token + 1); ok {
			require.Greater(t, r.(snowflake.Record).Version, last, "versions rise with tokens")
			last = r.(snowflake.Record).Version
		}
	}
	t.Logf("%d writes acknowledged, %d unknown, %d happened", c.count.Load(), c.unknown.Load(), highest)
}

func TestFiftyStartsWhileTheLeaderDies(t *testing.T) {
	const starts = 50
	cluster, ctx := three.start(t), limited(t)
	prefix := newPrefix()
	leader, err := cluster.Leader(ctx)
	require.NoError(t, err)
	leases := make([]*snowflake.WorkerLease, starts)
	var group sync.WaitGroup
	for i := range leases {
		s := store(t, connect(t, cluster.Endpoints()), prefix)
		group.Go(func() {
			var err error
			if leases[i], err = snowflake.AcquireLease(ctx, s, snowflake.LeaseConfig{Region: 2}); err != nil {
				t.Errorf("start %d: %v", i, err)
			}
		})
	}
	kill(t, cluster, leader)
	group.Wait()
	require.NoError(t, cluster.Restart(leader))
	require.False(t, t.Failed())
	codes := make(map[int]bool)
	for _, l := range leases {
		codes[l.Grant().Code] = true
		group.Go(func() {
			if err := l.Close(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.Len(t, codes, starts)
}

// A leader that was stopped wakes up and still believes that it leads.
func TestPausedLeader(t *testing.T) {
	cluster, ctx := three.start(t), limited(t)
	prefix := newPrefix()
	everywhere := connect(t, cluster.Endpoints())
	s := store(t, everywhere, prefix)
	l, err := snowflake.AcquireLease(ctx, s, snowflake.LeaseConfig{TTL: 40 * time.Second, Renew: time.Second})
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close(ctx)) }()
	now := swap(t, s, snowflake.Record{}, someRecord(17))
	leader, err := cluster.Leader(ctx)
	require.NoError(t, err)
	old := store(t, connect(t, cluster.Endpoints()[leader:leader+1]), prefix)
	require.Equal(t, []snowflake.Record{now}, records(t, old, 2))

	pause(t, cluster, leader)
	var others []string
	for i, address := range cluster.Endpoints() {
		if i != leader {
			others = append(others, address)
		}
	}
	rest := store(t, connect(t, others), prefix)
	renewals := l.Stats().Renewals
	next := someRecord(17)
	next.Token++
	for {
		one, cancel := context.WithTimeout(ctx, 2*time.Second)
		stored, err := rest.Swap(one, now, next)
		cancel()
		if err == nil {
			next = stored
			break
		}
		// It may have happened. If so it shows, once there is a leader again.
		all, err := rest.Records(ctx, 2)
		require.NoError(t, err)
		if all[0].Token == next.Token {
			next = all[0]
			break
		}
	}
	require.Eventually(t, func() bool { return l.Stats().Renewals > renewals }, within, 10*time.Millisecond, "renewals go on")
	require.NotNil(t, l.Grant())
	require.NoError(t, cluster.Resume(leader))
	require.Equal(t, []snowflake.Record{next}, records(t, old, 2), "it does not answer from what it knew")
	_, err = old.Swap(ctx, now, someRecord(17))
	require.ErrorIs(t, err, snowflake.ErrConflict)
}

// Whatever somebody else does to the key, the owner notices, and writes nothing over it.
func TestKeyChangedFromOutside(t *testing.T) {
	client := connect(t, one.start(t).Endpoints())
	another := someRecord(0)
	another.Nonce, another.Region = "another", 1
	for name, change := range map[string]func(t *testing.T, s snowflake.LeaseStore, held snowflake.Record, key string){
		"deleted": func(t *testing.T, _ snowflake.LeaseStore, _ snowflake.Record, key string) {
			_, err := client.Delete(t.Context(), key)
			require.NoError(t, err)
		},
		"deleted, and made again by another": func(t *testing.T, s snowflake.LeaseStore, held snowflake.Record, key string) {
			_, err := client.Delete(t.Context(), key)
			require.NoError(t, err)
			another.Worker = held.Worker
			swap(t, s, snowflake.Record{}, another)
		},
		"taken by another": func(t *testing.T, s snowflake.LeaseStore, held snowflake.Record, _ string) {
			another.Worker = held.Worker
			for {
				for _, r := range records(t, s, held.Region) {
					if r.Worker == held.Worker {
						held = r // it renews all the time
					}
				}
				if _, err := s.Swap(t.Context(), held, another); err == nil {
					return
				}
			}
		},
		"gone with a lease of etcd that was revoked": func(t *testing.T, _ snowflake.LeaseStore, _ snowflake.Record, key string) {
			for {
				found, err := client.Get(t.Context(), key)
				require.NoError(t, err)
				if len(found.Kvs) == 0 {
					return
				}
				granted, err := client.Grant(t.Context(), 60)
				require.NoError(t, err)
				_, err = client.Put(t.Context(), key, "", clientv3.WithIgnoreValue(), clientv3.WithLease(granted.ID))
				require.NoError(t, err)
				_, err = client.Revoke(t.Context(), granted.ID)
				require.NoError(t, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, prefix := limited(t), newPrefix()
			s := store(t, client, prefix)
			var mu sync.Mutex
			var lost []error
			var fresh []snowflake.Grant
			l, err := snowflake.AcquireLease(ctx, s, snowflake.LeaseConfig{
				Region: 1, TTL: 30 * time.Second, Renew: 100 * time.Millisecond, Settle: -1,
				Hooks: &snowflake.Hooks{
					LeaseLost: func(err *snowflake.LeaseError) {
						mu.Lock()
						defer mu.Unlock()
						lost = append(lost, err)
					},
					LeaseAcquired: func(g snowflake.Grant) {
						mu.Lock()
						defer mu.Unlock()
						fresh = append(fresh, g)
					},
				},
			})
			require.NoError(t, err)
			gen, err := snowflake.New(ctx, snowflake.Config{Lease: l})
			require.NoError(t, err)
			defer func() { require.NoError(t, gen.Close(ctx)) }()
			first, err := gen.Next()
			require.NoError(t, err)
			worker := l.Stats().Worker
			var held snowflake.Record
			for _, r := range records(t, s, 1) {
				if r.Worker == worker {
					held = r
				}
			}
			change(t, s, held, fmt.Sprintf("%s/1/%d", prefix, worker))
			require.Eventually(t, func() bool { return l.Stats().Losses > 0 }, within, time.Millisecond, "noticed")
			_, err = s.Swap(ctx, held, held)
			require.ErrorIs(t, err, snowflake.ErrConflict, "what it knew is worth nothing any more")
			require.Eventually(t, func() bool { return l.Grant() != nil && l.Err() == nil }, within, time.Millisecond, "a fresh code")
			mu.Lock()
			require.NotEmpty(t, lost)
			require.ErrorIs(t, lost[0], snowflake.ErrLeaseLost)
			require.Len(t, fresh, 2)
			mu.Unlock()
			for _, r := range records(t, s, 1) {
				if r.Worker == worker && r.Nonce == another.Nonce {
					require.Equal(t, another.Token, r.Token, "the other one's record is untouched")
					require.NotEqual(t, worker, l.Stats().Worker, "and its code is its own")
				}
			}
			require.NotEqual(t, held.Nonce, nonceOf(t, s, l.Stats().Worker))
			require.NotZero(t, first)
		})
	}
}

func nonceOf(t *testing.T, s snowflake.LeaseStore, worker int) string {
	t.Helper()
	for _, r := range records(t, s, 1) {
		if r.Worker == worker {
			return r.Nonce
		}
	}
	return ""
}
