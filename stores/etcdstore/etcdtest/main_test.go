package etcdtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/internal/etcdserver"
	"github.com/snowfence/snowflake/snowflaketest"
	"github.com/snowfence/snowflake/stores/etcdstore"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// servers is a cluster that the first test that needs it starts, in which prefixes tell the
// tests apart.
type servers struct {
	cluster func() (*etcdserver.Cluster, error)
}

var (
	folder  string
	one     = shared(1)
	three   = shared(3)
	started []*etcdserver.Cluster
)

func shared(nodes int) servers {
	return servers{sync.OnceValues(func() (*etcdserver.Cluster, error) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		c, err := etcdserver.Start(ctx, nodes, filepath.Join(folder, fmt.Sprint("of-", nodes)))
		if err == nil {
			started = append(started, c)
		}
		return c, err
	})}
}

func TestMain(m *testing.M) {
	etcdserver.Main()
	var err error
	if folder, err = os.MkdirTemp("", "etcdtest"); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	code := m.Run()
	for _, c := range started {
		c.Stop()
	}
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

func (s servers) start(t *testing.T) *etcdserver.Cluster {
	t.Helper()
	c, err := s.cluster()
	require.NoError(t, err)
	return c
}

// connect returns a client of its own.
func connect(t *testing.T, endpoints []string, options ...grpc.DialOption) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		Logger: zap.NewNop(), DialOptions: options,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

var lastPrefix atomic.Int32

func newPrefix() string { return fmt.Sprint("test", lastPrefix.Add(1)) }

func store(t *testing.T, client *clientv3.Client, prefix string) *etcdstore.Store {
	t.Helper()
	s, err := etcdstore.New(client, prefix)
	require.NoError(t, err)
	return s
}

func swap(t *testing.T, s snowflake.LeaseStore, old, new snowflake.Record) snowflake.Record {
	t.Helper()
	stored, err := s.Swap(t.Context(), old, new)
	require.NoError(t, err)
	return stored
}

func records(t *testing.T, s snowflake.LeaseStore, region int) []snowflake.Record {
	t.Helper()
	all, err := s.Records(t.Context(), region)
	require.NoError(t, err)
	return all
}

func someRecord(worker int) snowflake.Record {
	return snowflake.Record{
		Region: 2, Worker: worker, Owner: "host/17", Nonce: "0123456789abcdef", Token: 7,
		Ceiling: time.Date(2030, time.June, 1, 12, 0, 1, 5e8, time.UTC), Layout: snowflake.DefaultLayout().String(),
	}
}

func TestLeaseStore(t *testing.T) {
	for name, s := range map[string]servers{"one node": one, "three nodes": three} {
		t.Run(name, func(t *testing.T) {
			endpoints := s.start(t).Endpoints()
			a, b := connect(t, endpoints), connect(t, endpoints) // as two processes have
			snowflaketest.TestLeaseStoreShared(t, func(t *testing.T) (snowflake.LeaseStore, snowflake.LeaseStore) {
				prefix := newPrefix()
				return store(t, a, prefix), store(t, b, prefix)
			})
		})
	}
}
