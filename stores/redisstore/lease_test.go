package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/snowfence/snowflake"
	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake/internal/servers"
	"github.com/snowfence/snowflake/internal/servers/servertest"
)

// proxy stands before a server.
type proxy struct {
	address string
	server  atomic.Pointer[servers.Server]
	swaps   atomic.Int32 // that the server was sent
	cut     atomic.Int32 // so many of the answers to them do not come back: the connection ends
	mute    atomic.Bool  // no answer comes back, and no connection ends
}

func newProxy(t *testing.T, s *servers.Server) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{address: l.Addr().String()}
	p.server.Store(s)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(conn)
		}
	}()
	return p
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.server.Load().Address())
	if err != nil {
		_ = client.Close()
		return
	}
	var swapping atomic.Bool
	var group sync.WaitGroup
	pass := func(from, to net.Conn, look func(said []byte) bool) {
		defer func() { _, _ = client.Close(), server.Close() }()
		said := make([]byte, 1<<16)
		for {
			n, err := from.Read(said)
			if err != nil {
				return
			}
			if look(said[:n]) {
				if _, err := to.Write(said[:n]); err != nil {
					return
				}
			}
		}
	}
	group.Go(func() {
		pass(client, server, func(said []byte) bool {
			if bytes.Contains(said, []byte("'HSET'")) {
				p.swaps.Add(1)
				swapping.Store(true)
			}
			return true
		})
	})
	group.Go(func() {
		pass(server, client, func([]byte) bool {
			if swapping.Swap(false) && p.cut.Add(-1) >= 0 {
				_, _ = client.Close(), server.Close()
				return false
			}
			return !p.mute.Load()
		})
	})
	group.Wait()
}

// through opens a store whose client resends, as clients do unless told otherwise.
func (p *proxy) through(t *testing.T, change func(o *redis.Options)) *Store {
	t.Helper()
	return openOn(t, connect(t, servertest.Need(t, safe), func(o *redis.Options) {
		o.Addr = p.address
		if change != nil {
			change(o)
		}
	}), newPrefix())
}

// A write whose answer was lost has an unknown outcome. Resent, it would find its own
// write and be told of a conflict, which says that nothing was written.
func TestALostAnswerIsNoConflict(t *testing.T) {
	p := newProxy(t, servertest.Need(t, safe))
	s := p.through(t, nil)
	old := snowflake.Record{}
	for i := range 3 {
		p.cut.Store(1)
		p.swaps.Store(0)
		next := someRecord(17)
		next.Token = uint64(i)
		_, err := s.Swap(t.Context(), old, next)
		require.Error(t, err)
		require.NotErrorIs(t, err, snowflake.ErrConflict)
		require.EqualValues(t, 1, p.swaps.Load(), "it was sent once")
		next.Version = uint64(i + 1)
		require.Equal(t, []snowflake.Record{next}, records(t, s, 2), "it was written")
		old = next
	}
}

func TestALeaseGoesOnThroughLostAnswers(t *testing.T) {
	p := newProxy(t, servertest.Need(t, safe))
	s := p.through(t, nil)
	p.cut.Store(2) // those of the layout and of the code
	l, err := snowflake.AcquireLease(t.Context(), s, snowflake.LeaseConfig{Renew: 20 * time.Millisecond})
	require.NoError(t, err)
	require.Len(t, records(t, s, 0), 2, "the layout and one code: none was taken in vain")
	code := l.Grant().Code
	p.cut.Store(10)
	eventually(t, func() error {
		if p.cut.Load() > -5 {
			return errors.New("no 15 renewals yet")
		}
		return nil
	})
	require.Equal(t, code, l.Grant().Code)
	stats := l.Stats()
	require.Zero(t, stats.Conflicts)
	require.Zero(t, stats.Losses)
	require.Zero(t, stats.Forgotten)
	require.NoError(t, l.Close(t.Context()))
	require.Len(t, records(t, s, 0), 2)
}

func TestALostAnswerFromAClusterIsNoConflict(t *testing.T) {
	_, _, _ = cluster(t) // it is there
	server := servertest.Need(t, primary)
	p := newProxy(t, server)
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{server.Address()},
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == server.Address() {
				address = p.address
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	s, err := New(t.Context(), client, newPrefix(), Options{MayForget: true, Warn: func(error) {}})
	require.NoError(t, err)
	p.cut.Store(1)
	next := someRecord(17)
	_, err = s.Swap(t.Context(), snowflake.Record{}, next)
	require.Error(t, err)
	require.NotErrorIs(t, err, snowflake.ErrConflict)
	require.EqualValues(t, 1, p.swaps.Load(), "it was sent once")
	next.Version = 1
	require.Equal(t, []snowflake.Record{next}, records(t, s, 2), "it was written")
}

// Also when the client makes a copy of the command.
func TestCopiesAreSentOnceToo(t *testing.T) {
	cmd := once{redis.NewCmd(t.Context(), "eval", swapScript)}
	require.True(t, cmd.NoRetry())
	require.True(t, cmd.Clone().NoRetry())
	require.Equal(t, cmd.Args(), cmd.Clone().Args())
}

// The client alone would wait for its ReadTimeout.
func TestCallsEndWithTheirContext(t *testing.T) {
	p := newProxy(t, servertest.Need(t, safe))
	s := p.through(t, func(o *redis.Options) { o.ReadTimeout = time.Hour })
	now := swap(t, s, snowflake.Record{}, someRecord(17))
	p.mute.Store(true)
	for name, call := range map[string]func(ctx context.Context) error{
		"Swap":    func(ctx context.Context) error { _, err := s.Swap(ctx, now, someRecord(17)); return err },
		"Records": func(ctx context.Context) error { _, err := s.Records(ctx, 2); return err },
		"Time":    func(ctx context.Context) error { _, err := s.Time(ctx); return err },
		"New":     func(ctx context.Context) error { _, err := New(ctx, s.client, s.prefix, Options{}); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		began := time.Now()
		require.ErrorIs(t, call(ctx), context.DeadlineExceeded, name)
		cancel()
		require.Less(t, time.Since(began), 30*time.Second, name)
	}
}

func TestScriptsNeedNotBeKnown(t *testing.T) {
	s, client := open(t)
	now := swap(t, s, snowflake.Record{}, someRecord(17))
	require.NoError(t, client.ScriptFlush(t.Context()).Err())
	now = swap(t, s, now, someRecord(17))
	require.NoError(t, client.ScriptFlush(t.Context()).Err())
	require.Equal(t, []snowflake.Record{now}, records(t, s, 2))
}

// A key that expires would be codes that were never used.
func TestRecordsDoNotExpire(t *testing.T) {
	s, client := open(t)
	swap(t, s, snowflake.Record{}, someRecord(17))
	require.NoError(t, client.Expire(t.Context(), s.key(2), time.Hour).Err())
	require.Len(t, records(t, s, 2), 1)
	left, err := client.TTL(t.Context(), s.key(2)).Result()
	require.NoError(t, err)
	require.Negative(t, left)
}

// What Swap has acknowledged survives kill -9, also while the append-only file is being
// rewritten, under the settings that New finds safe.
func TestNothingAcknowledgedIsForgotten(t *testing.T) {
	server := own(t, append([]string{"auto-aof-rewrite-percentage=1", "auto-aof-rewrite-min-size=16kb"}, safely...)...)
	s := openOn(t, connect(t, server, nil), newPrefix())
	const writers = 8
	acknowledged := make([]snowflake.Record, writers)
	for round := range 5 {
		var group sync.WaitGroup
		var writes atomic.Int32
		for worker := range writers {
			group.Go(func() {
				for { // until the server is gone
					next := someRecord(worker)
					next.Token = uint64(round)
					stored, err := s.Swap(t.Context(), acknowledged[worker], next)
					if err != nil {
						if errors.Is(err, snowflake.ErrConflict) {
							t.Errorf("worker %d: %v", worker, err)
						}
						return
					}
					acknowledged[worker] = stored
					writes.Add(1)
				}
			})
		}
		eventually(t, func() error {
			if n := writes.Load(); n < 500 {
				return fmt.Errorf("%d writes", n)
			}
			return nil
		})
		require.NoError(t, server.Kill())
		group.Wait()
		require.NoError(t, server.Restart())
		all := records(t, s, 2)
		require.Len(t, all, writers)
		for worker, now := range all {
			require.GreaterOrEqual(t, now.Version, acknowledged[worker].Version, "worker %d", worker)
			require.LessOrEqual(t, now.Version, acknowledged[worker].Version+1, "one write was in flight")
			acknowledged[worker] = now
		}
	}
}

// Without an append-only file a killed server forgets everything. MayForget says so, and
// the next owner of a code begins above all that the last one can have used.
func TestAForgetfulServerRepeatsNoID(t *testing.T) {
	server := own(t)
	p, prefix := newProxy(t, server), newPrefix()
	store := func(change func(o *redis.Options)) *Store {
		s, err := New(t.Context(), connect(t, server, change), prefix, Options{MayForget: true, Warn: func(error) {}})
		require.NoError(t, err)
		require.True(t, s.MayForget())
		return s
	}
	s, cutOff := store(nil), store(func(o *redis.Options) { o.Addr = p.address })
	layout := snowflake.DefaultLayout()
	layout.WorkerBits, layout.SequenceBits = 0, 20 // one code, for all that come
	acquire := func(s *Store, settle time.Duration) *snowflake.WorkerLease {
		l, err := snowflake.AcquireLease(t.Context(), s, snowflake.LeaseConfig{
			Layout: layout, TTL: 3 * time.Second, Renew: 500 * time.Millisecond, MaxClockSkew: 500 * time.Millisecond, Settle: settle,
		})
		require.NoError(t, err)
		return l
	}
	forget := func() {
		require.NoError(t, server.Kill())
		require.NoError(t, server.Restart())
		require.Empty(t, records(t, s, 0), "it has forgotten")
	}
	first, err := snowflake.New(t.Context(), snowflake.Config{Lease: acquire(cutOff, -1)})
	require.NoError(t, err)
	p.mute.Store(true) // from here on it knows only what it was granted
	used := make(map[snowflake.ID]bool)
	var latest snowflake.ID
	mint := func(gen *snowflake.Generator) error {
		id, err := gen.Next()
		if err == nil {
			require.False(t, used[id], "%d was made twice", id)
			used[id], latest = true, max(latest, id)
		}
		return err
	}
	require.NoError(t, mint(first))

	forget()
	careless := acquire(s, -1)
	parts, err := layout.Unpack(latest)
	require.NoError(t, err)
	require.False(t, careless.Grant().Floor.After(parts.Time), "what would happen without: IDs that were made may be made again")
	require.NoError(t, careless.Close(t.Context()))

	forget()
	began := time.Now()
	second, err := snowflake.New(t.Context(), snowflake.Config{Lease: acquire(s, 0)})
	require.NoError(t, err)
	eventually(t, func() error {
		_ = mint(first) // as long as it goes on
		return mint(second)
	})
	require.GreaterOrEqual(t, time.Since(began), 3*time.Second, "it has settled")
	for range 1000 {
		eventually(t, func() error { return mint(second) })
	}
	p.mute.Store(false)
	require.NoError(t, errors.Join(first.Close(t.Context()), second.Close(t.Context())))
}

// A replica that is promoted without the last writes has forgotten them. The owner sees it,
// and goes on above all that it had been granted.
func TestAFailoverThatLosesWritesIsNoticed(t *testing.T) {
	first := own(t, "repl-diskless-sync-delay=0")
	second := own(t) // without an append-only file: one that it had to begin anew would keep it from ending
	leader, follower := connect(t, first, nil), connect(t, second, nil)
	host, port, err := net.SplitHostPort(first.Address())
	require.NoError(t, err)
	require.NoError(t, follower.ReplicaOf(t.Context(), host, port).Err())
	eventually(t, func() error { return infoHas(t.Context(), follower, "master_link_status:up") })

	p := newProxy(t, first)
	client := connect(t, first, func(o *redis.Options) { o.Addr = p.address })
	s, err := New(t.Context(), client, newPrefix(), Options{MayForget: true, Warn: func(error) {}})
	require.NoError(t, err)
	forgot := make(chan *snowflake.LeaseError, 8)
	l, err := snowflake.AcquireLease(t.Context(), s, snowflake.LeaseConfig{
		Renew: 20 * time.Millisecond, Hooks: &snowflake.Hooks{StoreForgot: func(e *snowflake.LeaseError) { forgot <- e }},
	})
	require.NoError(t, err)
	versionOn := func(client *redis.Client) uint64 {
		text, err := client.HGet(t.Context(), s.key(0), strconv.Itoa(l.Stats().Worker)).Result()
		if err != nil {
			return 0
		}
		r, err := parse(text)
		require.NoError(t, err)
		return r.Version
	}
	eventually(t, func() error {
		if versionOn(follower) == 0 {
			return errors.New("the replica has not got the record yet")
		}
		return nil
	})
	require.NoError(t, follower.ReplicaOf(t.Context(), "no", "one").Err()) // it is cut off from here on
	eventually(t, func() error {
		if versionOn(leader) <= versionOn(follower) {
			return errors.New("no renewal yet that the replica lacks")
		}
		return nil
	})
	p.server.Store(second)
	require.NoError(t, first.Kill())

	lost := <-forgot
	require.ErrorContains(t, lost, "the store had acknowledged version")
	eventually(t, func() error { return l.Err() })
	require.GreaterOrEqual(t, l.Grant().Floor.Sub(lost.Until), time.Duration(0), "above the ceiling that was forgotten")
	require.NoError(t, l.Close(t.Context()))
}
