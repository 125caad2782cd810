//go:build unix

package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/snowfence/snowflake/internal/etcdserver"
	"github.com/snowfence/snowflake/internal/servers"
	"github.com/snowfence/snowflake/internal/servers/servertest"
)

// backend is a kind of store.
type backend struct {
	kind      string
	tellsTime bool // it is a snowflake.LeaseStore with Time
	// start starts a server of its own, nil: the store needs none.
	start func() (server, error)
	// share returns the server that tests share.
	share func() (server, error)
	// open says where the store is, given that its server is reached at an address.
	open func(t *testing.T, s server, address string) Store
}

// server is what workers connect to.
type server interface {
	Address() string
	Kill() error    // as a crash does
	Restart() error // on the data it had
	Stop()
}

const sqliteSettings = "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)"

var (
	dirBackend = backend{kind: Dir, open: func(t *testing.T, _ server, _ string) Store {
		t.Helper()
		return Store{Kind: Dir, Address: t.TempDir()}
	}}
	sqliteBackend = backend{kind: SQLite, open: func(t *testing.T, _ server, _ string) Store {
		t.Helper()
		return Store{Kind: SQLite, Address: "file:" + filepath.Join(t.TempDir(), "leases.db") + sqliteSettings}
	}}
	postgresBackend = served(backend{kind: PostgreSQL, tellsTime: true, open: func(_ *testing.T, _ server, address string) Store {
		return Store{Kind: PostgreSQL, Address: "postgres://snowflake@" + address + "/postgres?sslmode=disable&connect_timeout=2"}
	}}, func() (*servers.Server, error) { return servers.Postgres() })
	mariaBackend = served(backend{kind: MariaDB, tellsTime: true, open: func(_ *testing.T, _ server, address string) Store {
		return Store{Kind: MariaDB, Address: fmt.Sprintf("root@tcp(%s)/snowflake?timeout=%v", address, dialTimeout)}
	}}, servers.MariaDB)
	redisBackend = served(backend{kind: Redis, tellsTime: true, open: func(_ *testing.T, _ server, address string) Store {
		return Store{Kind: Redis, Address: address}
	}}, func() (*servers.Server, error) { return servers.Redis("appendonly=yes", "appendfsync=always") })
	etcdBackend = served(backend{kind: Etcd, open: func(_ *testing.T, _ server, address string) Store {
		return Store{Kind: Etcd, Address: address}
	}}, func() (*etcd, error) { return startEtcd(1) })
)

// etcd is a cluster, whose address is that of all nodes, separated by commas.
type etcd struct {
	*etcdserver.Cluster
	dir string
}

func startEtcd(nodes int) (*etcd, error) {
	dir, err := os.MkdirTemp("", "etcd")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	cluster, err := etcdserver.Start(ctx, nodes, dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &etcd{cluster, dir}, nil
}

func (e *etcd) Address() string { return strings.Join(e.Endpoints(), ",") }
func (e *etcd) Kill() error     { return e.Cluster.Kill(0) }
func (e *etcd) Restart() error  { return e.Cluster.Restart(0) }

func (e *etcd) Stop() {
	e.Cluster.Stop()
	_ = os.RemoveAll(e.dir)
}

// backends are all; remote are those behind a network.
func backends() []backend {
	return append([]backend{dirBackend, sqliteBackend}, remote()...)
}

func remote() []backend {
	return []backend{postgresBackend, mariaBackend, etcdBackend, redisBackend}
}

// served completes a backend that needs a server.
func served[S server](b backend, start func() (S, error)) backend {
	b.start = func() (server, error) { return start() }
	b.share = servertest.Share(&running, b.start)
	return b
}

// shared returns the store on the server that tests share.
func (b backend) shared(t *testing.T) Store {
	t.Helper()
	if b.share == nil {
		return b.open(t, nil, "")
	}
	s := servertest.Need(t, b.share)
	return b.open(t, s, s.Address())
}

// own returns a server of the test's own.
func (b backend) own(t *testing.T) server {
	t.Helper()
	s := servertest.Need(t, b.start)
	t.Cleanup(s.Stop)
	return s
}

// behind returns the store on the shared server, seen through a proxy.
func (b backend) behind(t *testing.T) (Store, *proxy) {
	t.Helper()
	s := servertest.Need(t, b.share)
	p := newProxy(t, loopback, s.Address())
	return b.open(t, s, p.address()), p
}

const loopback = "127.0.0.1"

var prefixes atomic.Int32

// newPrefix keeps tests apart that share a server.
func newPrefix() string { return fmt.Sprintf("faults%d_", prefixes.Add(1)) }

// onEach runs a test on each backend, side by side.
func onEach(t *testing.T, list []backend, test func(t *testing.T, b backend)) {
	t.Helper()
	t.Parallel()
	for _, b := range list {
		t.Run(b.kind, func(t *testing.T) {
			t.Parallel()
			test(t, b)
		})
	}
}
