//go:build unix

package main

import (
	"bytes"
	"context"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/internal/servers"
	"github.com/snowfence/snowflake/internal/servers/servertest"
	"github.com/snowfence/snowflake/stores/sqlstore"
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
			server := servertest.Need(t, start)
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
			if name != "Redis" {
				testColumn(t, address, tool)
			}
		})
	}
}

// testColumn audits a column of a database and, where that is PostgreSQL, makes UUIDs of it
// as the guide does.
func testColumn(t *testing.T, address string, tool func(int, ...string) string) {
	t.Helper()
	db, dialect, err := openDatabase(address, "")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	for _, statement := range []string{
		"CREATE TABLE orders (id BIGINT, created_at TIMESTAMP NULL)",
		"INSERT INTO orders VALUES (26091926323200001, '2026-03-14 00:00:01'), (9223372036854775807, '2026-03-14 00:00:02')",
	} {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	column := []string{"audit", "--json", "--db", address, "--table", "orders", "--time-column", "created_at", "--store", address}
	report := tool(exitFound, column...)
	require.Contains(t, report, `"ids":2,`)
	require.Contains(t, report, `"repeats":0,"out_of_range":0,"future":1,"unexplained":2,"after_insert":1,"out_of_order":0,`)
	_, err = db.ExecContext(t.Context(), "INSERT INTO orders VALUES (26091926323200001, NULL), (NULL, NULL)")
	require.NoError(t, err)
	report = tool(exitRepeat, "audit", "--json", "--db", address, "--table", "orders", "--bad", "skip")
	require.Contains(t, report, `"ids":3,"skipped":1,`)
	require.Contains(t, report, `"repeats":1,`)
	if dialect != sqlstore.Postgres {
		return
	}
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "migration.md"))
	require.NoError(t, err)
	function := regexp.MustCompile("(?s)```sql\n(.*?)```").FindSubmatch(guide)
	_, err = db.ExecContext(t.Context(), string(function[1]))
	require.NoError(t, err)
	for _, id := range []snowflake.ID{1, 4095, 26091926323200001, 0x0123456789abcdef, 0x5aaaaaaaaaaaaaaa, 1<<63 - 1} {
		want, err := uuid7(snowflake.Formats{{Layout: snowflake.DefaultLayout()}}, id)
		require.NoError(t, err)
		var got string
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT snowflake_uuid($1)::text", id).Scan(&got))
		require.Equal(t, want, got)
	}
}

func TestAddressesOfStores(t *testing.T) {
	dsn, err := mysqlAddress("mysql://user:p%40ss@db.example/ids")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(dsn, "user:p@ss@tcp(db.example:3306)/ids?"), dsn)
	dsn, err = mysqlAddress("mysql://user@/ids?socket=/run/mysqld.sock")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(dsn, "user@unix(/run/mysqld.sock)/ids?"), dsn)
}

// No error tells a password, or a part of one, wherever its characters put it.
func TestErrorsTellNoPassword(t *testing.T) {
	addresses := []string{
		"mysql://user:Kw7Qz9@host:port/ids", "postgres://user:Kw7Qz9@host:port/ids", "redis://user:Kw7Qz9@host:port/0",
		"etcd://user:Kw7Qz9@", "etcd://user:Kw7Qz9%zz@host/x", "password=Kw7Qz9 host=db", "Kw7Qz9", "Kw7:Qz9",
		"postgres://ids:12/Kw7Qz9@127.0.0.1:1/x", "postgres:password=Kw7#Qz9 host=127.0.0.1",
	}
	for _, scheme := range []string{"mysql", "postgres", "postgresql", "redis", "rediss", "etcd"} {
		for _, character := range []string{"#", "/", "@", "%", "?", ":", " ", "\x01"} {
			if scheme == "etcd" && character == "?" {
				break // the rest is all the same to it
			}
			addresses = append(addresses, scheme+"://user:Kw7"+character+"Qz9@nowhere.invalid:1/ids")
		}
	}
	for _, address := range addresses {
		t.Run(address, func(t *testing.T) {
			t.Parallel() // etcd's client takes 5 s to give up
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			store, closer, err := (&storeFlag{address: address}).open(ctx)
			if err == nil { // etcd is not asked yet
				_, err = store.Records(ctx, 0)
				require.NoError(t, closer())
			}
			require.Error(t, err)
			_, _, dbErr := openDatabase(address, "")
			for _, err := range []error{err, dbErr} {
				if err != nil {
					require.NotContains(t, err.Error(), "Kw7")
					require.NotContains(t, err.Error(), "Qz9")
				}
			}
		})
	}
}

// MySQL's own: IDs without a sign, and a TIMESTAMP, which it tells in the session's zone.
func TestColumnsOfMySQL(t *testing.T) {
	server := servertest.Need(t, servers.MariaDB)
	t.Cleanup(server.Stop)
	db, err := sql.Open("mysql", server.DSN())
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	for _, statement := range []string{
		"SET GLOBAL time_zone = '-05:00'",
		"CREATE TABLE orders (id BIGINT UNSIGNED, created_at TIMESTAMP NULL)",
		"SET time_zone = '+00:00'",
		"INSERT INTO orders VALUES (26091926323200001, '2026-03-14 00:00:01'), (18446744073709551615, '2026-03-14 00:00:01')",
	} {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	user, rest, _ := strings.Cut(server.DSN(), "@tcp(")
	host, rest, _ := strings.Cut(rest, ")/")
	database, _, _ := strings.Cut(rest, "?")
	var out, errs bytes.Buffer
	status := run(t.Context(), []string{
		"audit", "--json", "--bad", "skip", "--db", "mysql://" + user + "@" + host + "/" + database,
		"--query", "SELECT id, created_at FROM orders; ", "--time-column", "created_at",
	}, nil, &out, &errs)
	require.Equal(t, exitError, status, out.String()+errs.String())
	require.Contains(t, out.String(), `"ids":1,"skipped":1,`)
	require.Contains(t, out.String(), `"after_insert":0,`)
	require.Contains(t, errs.String(), "18446744073709551615")
}
