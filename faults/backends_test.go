//go:build unix

package faults

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/snowfence/snowflake/internal/servers"
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
)

// backends are all; remote are those behind a network.
func backends() []backend {
	return append([]backend{dirBackend, sqliteBackend}, remote()...)
}

func remote() []backend {
	return []backend{postgresBackend, mariaBackend}
}

// served completes a backend whose server is of package servers.
func served(b backend, start func() (*servers.Server, error)) backend {
	b.start = func() (server, error) { return start() }
	b.share = sync.OnceValues(func() (server, error) {
		s, err := b.start()
		if err == nil {
			running.add(s)
		}
		return s, err
	})
	return b
}

// shared returns the store on the server that tests share.
func (b backend) shared(t *testing.T) Store {
	t.Helper()
	if b.share == nil {
		return b.open(t, nil, "")
	}
	s := need(t, b.share)
	return b.open(t, s, s.Address())
}

// own returns a server of the test's own.
func (b backend) own(t *testing.T) server {
	t.Helper()
	s := need(t, b.start)
	t.Cleanup(s.Stop)
	return s
}

// behind returns the store on the shared server, seen through a proxy.
func (b backend) behind(t *testing.T) (Store, *proxy) {
	t.Helper()
	s := need(t, b.share)
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
