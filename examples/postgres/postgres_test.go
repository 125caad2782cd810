package main

import (
	"context"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/internal/servers"
	"github.com/snowfence/snowflake/internal/servers/servertest"
)

const runMain = "POSTGRES_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// database starts a server, and skips the test if none is installed.
func database(t *testing.T) (*servers.Server, *sql.DB) {
	t.Helper()
	server := servertest.Need(t, func() (*servers.Server, error) { return servers.Postgres() })
	t.Cleanup(server.Stop)
	db, err := sql.Open("pgx", server.DSN())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	_, err = db.ExecContext(t.Context(), schema)
	require.NoError(t, err)
	return server, db
}

// One command, without a server; it cleans up. With one, and again in the same tables.
func TestProgram(t *testing.T) {
	server, db := database(t)
	self, err := os.Executable()
	require.NoError(t, err)
	for _, args := range [][]string{{"-orders", "90"}, {"-orders", "90", "-dsn", server.DSN()}, {"-orders", "90", "-dsn", server.DSN()}} {
		temporary, err := os.MkdirTemp("", "") // not t.TempDir, which the server's user may not enter
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, os.RemoveAll(temporary)) })
		require.NoError(t, os.Chmod(temporary, 0o755))
		cmd := exec.CommandContext(t.Context(), self, args...)
		cmd.Env = append(os.Environ(), runMain+"=1", "TMPDIR="+temporary)
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		require.NoError(t, err)
		require.Regexp(t, `orders +90 +of 90\nitems +270 +of 270\n`, string(out))
		require.Contains(t, string(out), "service 1", "which was replaced")
		require.Contains(t, string(out), "service 4", "which replaced it")
		require.Contains(t, string(out), "no key repeats, nothing is missing")
		left, err := filepath.Glob(filepath.Join(temporary, "*"))
		require.NoError(t, err)
		require.Empty(t, left, "it cleans up")
	}
	var held int
	require.NoError(t, db.QueryRow("SELECT count(*) FROM "+leasePrefix+"lease WHERE worker >= 0 AND NOT released").Scan(&held))
	require.Zero(t, held, "every code was given back")
}

func TestTheConstraintIsTheLastLine(t *testing.T) {
	_, db := database(t)
	s, err := openService(t.Context(), db, 0, "test")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.close(context.Background())) })
	require.NoError(t, s.ready())

	id, err := s.place(t.Context(), order{"first", []string{"pen", "ink"}})
	require.NoError(t, err)
	again, err := s.place(t.Context(), order{"first", []string{"pen", "ink"}})
	require.NoError(t, err, "as after a lost answer")
	require.Equal(t, id, again)
	require.Zero(t, s.gen.Stats().Duplicates, "a retry is no duplicate")

	// Somebody makes the same key: what no generator does, inside the limits of the promise.
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = s.insert(t.Context(), tx, id, "INSERT INTO example_order (id, reference) VALUES ($1, $2) ON CONFLICT (reference) DO NOTHING", "second")
	require.ErrorContains(t, err, "example_order_pkey")
	require.False(t, snowflake.Retryable(err))
	require.NoError(t, tx.Rollback())
	require.EqualValues(t, 1, s.gen.Stats().Duplicates, "it is told, for an alert")
	var reference string
	require.NoError(t, db.QueryRow("SELECT reference FROM example_order WHERE id = $1", id).Scan(&reference))
	require.Equal(t, "first", reference, "and nothing is overwritten")

	// Other constraints are the service's own business.
	_, err = db.ExecContext(t.Context(), "INSERT INTO example_order (id, reference) VALUES (1, 'first')")
	require.Error(t, err)
	require.False(t, keyRepeats(err))
}

func TestMissingServerIsExplained(t *testing.T) {
	err := howToGoOn(&servers.MissingError{Program: "initdb", Package: "postgresql"})
	require.ErrorContains(t, err, "Debian package postgresql")
	require.ErrorContains(t, err, "-dsn")
}
