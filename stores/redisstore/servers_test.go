package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake/internal/servers"
	"github.com/snowfence/snowflake/internal/servers/servertest"
)

// Servers that tests share: each is started by the first test that needs it.
var (
	// safe is a server as it must be set.
	safe = servertest.Share(&group, func() (*servers.Server, error) { return servers.Redis(safely...) })
	// primary and replica are a cluster.
	primary = servertest.Share(&group, clusterNode)
	replica = servertest.Share(&group, clusterNode)

	safely = []string{"appendonly=yes", "appendfsync=always"}

	group servertest.Group
)

func TestMain(m *testing.M) {
	code := m.Run()
	group.Stop()
	os.Exit(code)
}

// own starts a server for one test.
func own(t *testing.T, settings ...string) *servers.Server {
	t.Helper()
	s := servertest.Need(t, func() (*servers.Server, error) { return servers.Redis(settings...) })
	t.Cleanup(s.Stop)
	return s
}

func clusterNode() (*servers.Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, bus, err := net.SplitHostPort(l.Addr().String())
	if err := errors.Join(err, l.Close()); err != nil {
		return nil, err
	}
	return servers.Redis("cluster-enabled=yes", "cluster-port="+bus, "cluster-node-timeout=2000", "cluster-replica-no-failover=yes", "repl-diskless-sync-delay=0")
}

// cluster returns a client of a cluster of a primary and a replica, which reads from any
// of them where it may, and one client of each.
func cluster(t *testing.T) (all *redis.ClusterClient, one, other *redis.Client) {
	t.Helper()
	one, other = connect(t, servertest.Need(t, primary), nil), connect(t, servertest.Need(t, replica), nil)
	if shards, err := one.ClusterShards(t.Context()).Result(); err != nil || len(shards) != 1 || len(shards[0].Slots) == 0 {
		require.NoError(t, one.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
		host, port, _ := net.SplitHostPort(servertest.Need(t, primary).Address())
		bus, err := one.ConfigGet(t.Context(), "cluster-port").Result()
		require.NoError(t, err)
		require.NoError(t, other.Do(t.Context(), "cluster", "meet", host, port, bus["cluster-port"]).Err())
		id, err := one.Do(t.Context(), "cluster", "myid").Text()
		require.NoError(t, err)
		eventually(t, func() error { return other.ClusterReplicate(t.Context(), id).Err() })
	}
	eventually(t, func() error {
		shards, err := one.ClusterShards(t.Context()).Result()
		if err == nil && (len(shards) != 1 || len(shards[0].Nodes) != 2) {
			err = fmt.Errorf("shards: %v", shards)
		}
		state, down := one.ClusterInfo(t.Context()).Result()
		if !strings.Contains(state, "cluster_state:ok") {
			down = errors.Join(down, errors.New(state))
		}
		return errors.Join(err, down, infoHas(t.Context(), other, "master_link_status:up"))
	})
	all = redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{servertest.Need(t, primary).Address(), servertest.Need(t, replica).Address()}, ReadOnly: true, RouteRandomly: true,
	})
	t.Cleanup(func() { require.NoError(t, all.Close()) })
	eventually(t, func() error { return all.Ping(t.Context()).Err() })
	return all, one, other
}

// connect returns a client of a server.
func connect(t *testing.T, s *servers.Server, change func(o *redis.Options)) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(s.DSN())
	require.NoError(t, err)
	if change != nil {
		change(o)
	}
	client := redis.NewClient(o)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

var lastPrefix atomic.Int32

// newPrefix is one that no other test uses.
func newPrefix() string { return "test" + strconv.Itoa(int(lastPrefix.Add(1))) + ":" }

// open opens a store on the safe server, under keys of its own.
func open(t *testing.T) (*Store, *redis.Client) {
	t.Helper()
	client := connect(t, servertest.Need(t, safe), nil)
	return openOn(t, client, newPrefix()), client
}

func openOn(t *testing.T, client redis.UniversalClient, prefix string) *Store {
	t.Helper()
	s, err := New(t.Context(), client, prefix, Options{})
	require.NoError(t, err)
	return s
}

// eventually waits until call returns nil.
func eventually(t *testing.T, call func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err = call(); err == nil {
			return
		}
	}
	require.NoError(t, err)
}

// infoHas says whether INFO has a line.
func infoHas(ctx context.Context, client redis.UniversalClient, line string) error {
	fields, untold, err := info(ctx, client)
	if err != nil || untold != "" {
		return fmt.Errorf("INFO: %s %w", untold, err)
	}
	for name, value := range fields {
		if name+":"+value == line {
			return nil
		}
	}
	return errors.New("not yet " + line)
}
