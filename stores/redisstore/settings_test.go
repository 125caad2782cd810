package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/snowfence/snowflake"
	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake/internal/servers/servertest"
)

// refused checks that New refuses with why, and that it warns of it if it may forget.
func refused(t *testing.T, client redis.UniversalClient, why ...string) {
	t.Helper()
	prefix := newPrefix()
	_, err := New(t.Context(), client, prefix, Options{})
	require.ErrorIs(t, err, ErrForgetful)
	require.ErrorContains(t, err, "Options.MayForget")
	var warned error
	s, accepted := New(t.Context(), client, prefix, Options{MayForget: true, Warn: func(why error) { warned = why }})
	require.NoError(t, accepted)
	require.True(t, s.MayForget())
	require.ErrorIs(t, warned, ErrForgetful)
	for _, part := range why {
		require.ErrorContains(t, err, part)
		require.ErrorContains(t, warned, part)
	}
}

func TestForgetfulSettingsAreRefused(t *testing.T) {
	server := own(t, safely...)
	client := connect(t, server, nil)
	s := openOn(t, client, newPrefix())
	require.False(t, s.MayForget())
	for name, setting := range map[string]struct{ name, bad, good string }{
		"no append-only file":               {"appendonly", "no", "yes"},
		"synced every second":               {"appendfsync", "everysec", "always"},
		"synced when the system likes":      {"appendfsync", "no", "always"},
		"not synced during a rewrite":       {"no-appendfsync-on-rewrite", "yes", "no"},
		"the least recently used may go":    {"maxmemory-policy", "allkeys-lru", "noeviction"},
		"any key may go":                    {"maxmemory-policy", "allkeys-random", "volatile-lru"},
		"the least frequently used may go":  {"maxmemory-policy", "allkeys-lfu", "volatile-ttl"},
		"keys may go, if memory ever lacks": {"maxmemory-policy", "allkeys-lru", "volatile-random"},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, client.ConfigSet(t.Context(), setting.name, setting.bad).Err())
			refused(t, client, setting.name+" is "+setting.bad+", must be ")
			require.NoError(t, client.ConfigSet(t.Context(), setting.name, setting.good).Err())
			eventually(t, func() error { return infoHas(t.Context(), client, "aof_rewrite_in_progress:0") })
			openOn(t, client, newPrefix())
		})
	}
	t.Run("as installed", func(t *testing.T) {
		refused(t, connect(t, own(t), nil), "appendonly is no, must be yes", "appendfsync is everysec, must be always")
	})
	t.Run("the operator knows more", func(t *testing.T) {
		s, err := New(t.Context(), client, newPrefix(), Options{MayForget: true, Warn: func(why error) { t.Error(why) }})
		require.NoError(t, err)
		require.True(t, s.MayForget())
	})
}

// Until the first rewrite is done, a restart would not find the file.
func TestAFileThatHasJustBegunIsNotTrusted(t *testing.T) {
	client := connect(t, own(t, "appendfsync=always"), nil)
	require.NoError(t, client.Set(t.Context(), "key", "value", 0).Err())
	require.NoError(t, client.ConfigSet(t.Context(), "rdb-key-save-delay", "3000000").Err()) // microseconds
	require.NoError(t, client.ConfigSet(t.Context(), "appendonly", "yes").Err())
	refused(t, client, "the append-only file was just turned on")
	eventually(t, func() error {
		_, err := New(t.Context(), client, newPrefix(), Options{})
		return err
	})
}

func TestWarningsAreLogged(t *testing.T) {
	var logged strings.Builder
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	_, err := New(t.Context(), connect(t, own(t), nil), newPrefix(), Options{MayForget: true})
	require.NoError(t, err)
	require.Contains(t, logged.String(), "level=WARN")
	require.Contains(t, logged.String(), "appendonly is no, must be yes")
}

// A managed Redis tells little.
func TestWhatIsNotToldIsNotTrusted(t *testing.T) {
	client := connect(t, own(t, safely...), nil)
	as := func(t *testing.T, rights ...string) *redis.Client {
		t.Helper()
		args := []any{"acl", "setuser", "someone", "reset", "on", ">secret", "~test*"}
		for _, right := range rights {
			args = append(args, right)
		}
		require.NoError(t, client.Do(t.Context(), args...).Err())
		o := *client.Options()
		o.Username, o.Password = "someone", "secret"
		someone := redis.NewClient(&o)
		t.Cleanup(func() { require.NoError(t, someone.Close()) })
		return someone
	}
	t.Run("settings", func(t *testing.T) {
		refused(t, as(t, "+@all", "-config"), "CONFIG GET is refused", "NOPERM")
	})
	t.Run("replicas", func(t *testing.T) {
		refused(t, as(t, "+@all", "-info"), "INFO is refused", "NOPERM")
	})
	t.Run("and the documentation tells what is needed", func(t *testing.T) {
		s := openOn(t, as(t, "+eval", "+hget", "+hset", "+hgetall", "+persist", "+time", "+info", "+config|get"), newPrefix())
		l, err := snowflake.AcquireLease(t.Context(), s, snowflake.LeaseConfig{})
		require.NoError(t, err)
		require.NoError(t, l.Close(t.Context()))
	})
	t.Run("no right to run scripts", func(t *testing.T) {
		_, err := New(t.Context(), as(t, "+@all", "-eval"), newPrefix(), Options{MayForget: true})
		require.ErrorContains(t, err, "NOPERM")
		require.NotErrorIs(t, err, ErrForgetful)
	})
	t.Run("another's keys", func(t *testing.T) {
		_, err := New(t.Context(), as(t, "+@all"), "other:", Options{MayForget: true})
		require.ErrorContains(t, err, "NOPERM")
	})
}

func TestReplicasAreNotBelieved(t *testing.T) {
	server, first := own(t), own(t, append([]string{"repl-diskless-sync-delay=0"}, safely...)...)
	client, leader := connect(t, server, nil), connect(t, first, nil)
	s, err := New(t.Context(), client, newPrefix(), Options{MayForget: true, Warn: func(error) {}})
	require.NoError(t, err)
	now := swap(t, s, snowflake.Record{}, someRecord(17))
	host, port, err := net.SplitHostPort(first.Address())
	require.NoError(t, err)
	require.NoError(t, client.ReplicaOf(t.Context(), host, port).Err())
	eventually(t, func() error { return infoHas(t.Context(), client, "master_link_status:up") })

	_, err = s.Records(t.Context(), 2)
	require.ErrorContains(t, err, "READONLY")
	_, err = s.Swap(t.Context(), now, someRecord(17))
	require.ErrorContains(t, err, "READONLY")
	require.NotErrorIs(t, err, snowflake.ErrConflict)
	_, err = New(t.Context(), client, newPrefix(), Options{MayForget: true})
	require.ErrorContains(t, err, "READONLY")
	require.NoError(t, client.ConfigSet(t.Context(), "replica-read-only", "no").Err())
	_, err = New(t.Context(), client, newPrefix(), Options{MayForget: true})
	require.ErrorContains(t, err, `role is "slave"`)

	eventually(t, func() error { return infoHas(t.Context(), leader, "connected_slaves:1") })
	refused(t, leader, `connected_slaves is "1", must be 0`)
}

func TestClustersMayForget(t *testing.T) {
	all, one, other := cluster(t)
	refused(t, all, "it is a cluster")
	refused(t, one, `cluster_enabled is "1", must be 0`, `connected_slaves is "1", must be 0`)

	// A client that reads from replicas reads leases from the primary.
	require.NoError(t, other.ConfigResetStat(t.Context()).Err())
	s, err := New(t.Context(), all, newPrefix(), Options{MayForget: true, Warn: func(error) {}})
	require.NoError(t, err)
	var now snowflake.Record
	for range 50 {
		now = swap(t, s, now, someRecord(17))
		require.Equal(t, []snowflake.Record{now}, records(t, s, 2))
	}
	text, err := other.Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	require.NotContains(t, text, "cmdstat_eval")

	// One region, one slot, whatever the prefix.
	for _, prefix := range []string{"a", "a:b:", "größe "} {
		slot, err := one.ClusterKeySlot(t.Context(), (&Store{prefix: prefix}).key(3)).Result()
		require.NoError(t, err)
		want, err := one.ClusterKeySlot(t.Context(), "3").Result()
		require.NoError(t, err)
		require.Equal(t, want, slot, prefix)
	}
}

func TestSentinelMayForget(t *testing.T) {
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: "main", SentinelAddrs: []string{"127.0.0.1:1"},
		Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no Sentinel here") },
	})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	require.Contains(t, strings.Join(foundBy(client), ""), "it is found through Sentinel")
	require.Empty(t, foundBy(connect(t, servertest.Need(t, safe), nil)))
}

// Only policies that spare keys without an expiry are accepted: the others lose records.
func TestEviction(t *testing.T) {
	client := connect(t, own(t, "maxmemory=4mb", "maxmemory-samples=10"), nil)
	s, err := New(t.Context(), client, newPrefix(), Options{MayForget: true, Warn: func(error) {}})
	require.NoError(t, err)
	now := swap(t, s, snowflake.Record{}, someRecord(17))
	fill := func(expiry time.Duration) (err error) {
		_, err = client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for i := range 200 {
				p.Set(t.Context(), fmt.Sprintf("%d:%d", time.Now().UnixNano(), i), strings.Repeat("x", 1024), expiry)
			}
			return nil
		})
		return err
	}
	t.Run("volatile-ttl", func(t *testing.T) {
		require.NoError(t, client.ConfigSet(t.Context(), "maxmemory-policy", "volatile-ttl").Err())
		for range 100 { // 20 MB
			require.NoError(t, fill(time.Hour))
		}
		require.Equal(t, []snowflake.Record{now}, records(t, s, 2))
	})
	t.Run("noeviction", func(t *testing.T) {
		require.NoError(t, client.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err())
		require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
		// Once a script has written, which PERSIST counts as, Redis lets it go on.
		now = swap(t, s, now, someRecord(17))
		require.Equal(t, []snowflake.Record{now}, records(t, s, 2))
		require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "4mb").Err())
	})
	t.Run("allkeys-random, which is refused for this", func(t *testing.T) {
		require.NoError(t, client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-random").Err())
		eventually(t, func() error {
			if left, err := client.Exists(t.Context(), s.key(2)).Result(); err != nil || left == 0 {
				return err
			}
			return errors.Join(fill(0), errors.New("it is still there"))
		})
		require.Empty(t, records(t, s, 2))
	})
}
