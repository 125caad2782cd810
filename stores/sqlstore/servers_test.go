package sqlstore

import (
	"os"
	"testing"

	"github.com/snowfence/snowflake/internal/servers"
	"github.com/snowfence/snowflake/internal/servers/servertest"
)

// Servers that tests share: each is started by the first test that needs it.
var (
	postgres  = servertest.Share(&group, func() (*servers.Server, error) { return servers.Postgres() })
	mariaDB   = servertest.Share(&group, servers.MariaDB)
	pgBouncer = servertest.Share(&group, func() (*servers.Server, error) {
		database, err := postgres()
		if err != nil {
			return nil, err
		}
		return servers.PgBouncer(database)
	})

	group servertest.Group
)

func TestMain(m *testing.M) {
	code := m.Run()
	group.Stop()
	os.Exit(code)
}
