//go:build unix

package main

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake/internal/servers"
)

// Every store that the tool names works, on a real server. Those of etcd are in etcdtest,
// a module of its own.
func TestEveryStore(t *testing.T) {
	for name, start := range map[string]func() (*servers.Server, error){
		"PostgreSQL": func() (*servers.Server, error) { return servers.Postgres() },
		"MariaDB":    servers.MariaDB,
		"Redis":      func() (*servers.Server, error) { return servers.Redis("appendonly=yes", "appendfsync=always") },
	} {
		t.Run(name, func(t *testing.T) {
			server, err := start()
			if missing := (*servers.MissingError)(nil); errors.As(err, &missing) {
				t.Skip(missing)
			}
			require.NoError(t, err)
			t.Cleanup(server.Stop)
			address := server.DSN()
			if name == "MariaDB" { // the driver's own form
				user, rest, _ := strings.Cut(address, "@tcp(")
				host, rest, _ := strings.Cut(rest, ")/")
				database, _, _ := strings.Cut(rest, "?")
				address = "mysql://" + user + "@" + host + "/" + database
			}
			tool := func(status int, args ...string) string {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), "snowflake", args...)
				cmd.Env = append(cmd.Environ(), storeVariable+"="+address)
				output, _ := cmd.CombinedOutput()
				require.Equal(t, status, cmd.ProcessState.ExitCode(), string(output))
				return string(output)
			}
			require.Contains(t, tool(0, "leases", "list", "--region", "2"), "region 2 was never used")
			require.Contains(t, tool(0, "next", "--json", "--region", "2"), `"region":2`)
			require.Contains(t, tool(0, "leases", "list", "--region", "2", "--json"), `"token":1,`)
			require.Contains(t, tool(0, "leases", "release", "--region", "2"), "0 codes released")
			small := "epoch=2026-01-01T00:00:00Z tick=1ms bits=41+2+1+19"
			require.Contains(t, tool(0, "leases", "fence", "--region", "1", "--layout", small, "--yes"), "2 codes of region 1 fenced")
			require.Contains(t, tool(exitError, "next", "--region", "1", "--layout", small, "--timeout", "1s"), "all 2 of the region are held")
			require.Contains(t, tool(exitError, "next", "--region", "1"), "layout differs")
		})
	}
}

func TestAddressesOfStores(t *testing.T) {
	dsn, err := mysqlAddress("mysql://user:p%40ss@db.example/ids")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(dsn, "user:p@ss@tcp(db.example:3306)/ids?"), dsn)
	dsn, err = mysqlAddress("mysql://user@/ids?socket=/run/mysqld.sock")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(dsn, "user@unix(/run/mysqld.sock)/ids?"), dsn)

	// No error tells a password.
	for _, address := range []string{
		"mysql://user:secret@host:port/ids", "postgres://user:secret@host:port/ids", "redis://user:secret@host:port/0",
		"etcd://user:secret@", "etcd://user:secret%zz@host/x",
	} {
		f := storeFlag{address: address}
		_, _, err := f.open(t.Context())
		require.Error(t, err)
		require.NotContains(t, err.Error(), "secret")
	}
}
