package sqlstore

import (
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake/internal/servers"
)

// Servers that tests share: each is started by the first test that needs it.
var (
	postgres  = shared(func() (*servers.Server, error) { return servers.Postgres() })
	mariaDB   = shared(servers.MariaDB)
	pgBouncer = shared(func() (*servers.Server, error) {
		database, err := postgres()
		if err != nil {
			return nil, err
		}
		return servers.PgBouncer(database)
	})

	runningMu sync.Mutex
	running   []*servers.Server
)

func TestMain(m *testing.M) {
	code := m.Run()
	for i := len(running) - 1; i >= 0; i-- {
		running[i].Stop()
	}
	os.Exit(code)
}

func shared(start func() (*servers.Server, error)) func() (*servers.Server, error) {
	return sync.OnceValues(func() (*servers.Server, error) {
		s, err := start()
		if err != nil {
			return nil, err
		}
		runningMu.Lock()
		defer runningMu.Unlock()
		running = append(running, s)
		return s, nil
	})
}

// need starts a server, and skips the test if it is not installed.
func need(t *testing.T, start func() (*servers.Server, error)) *servers.Server {
	t.Helper()
	s, err := start()
	var missing *servers.MissingError
	if errors.As(err, &missing) {
		t.Skip(missing)
	}
	require.NoError(t, err)
	return s
}
