//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake"
)

// The main job, for real: processes, signals, a database.
func TestQuickstart(t *testing.T) {
	run, dir := quickstart(t)
	out, err := run.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
	for _, part := range []string{
		"rows in the table  4641  of 4641 lines", "distinct keys      4641", "killed (SIGKILL)", "stopped (SIGSTOP) past its lease",
		"of the killed", "its replacement", "acquired again at", "the stopped worker     resumed, refused:", "oldest key", "newest key",
		"no key repeats, no line is missing, and every key lies inside its owner's grant",
	} {
		require.Contains(t, string(out), part)
	}
	require.Empty(t, matches(t, dir, "snowflake-quickstart-*"), "it cleans up")
}

// Ctrl-C leaves nothing behind.
func TestInterrupt(t *testing.T) {
	run, dir := quickstart(t)
	var out strings.Builder
	run.Stdout, run.Stderr = &out, &out
	require.NoError(t, run.Start())
	require.Eventually(t, func() bool {
		return len(matches(t, dir, "snowflake-quickstart-*/leases/region-0/worker-*.lease")) == workers
	}, 30*time.Second, 10*time.Millisecond, "the workers have codes")
	require.NoError(t, run.Process.Signal(os.Interrupt))
	var exit *exec.ExitError
	require.ErrorAs(t, run.Wait(), &exit)
	require.Equal(t, 1, exit.ExitCode())
	require.Contains(t, out.String(), "interrupted")
	require.Empty(t, matches(t, dir, "snowflake-quickstart-*"), "it cleans up")
}

// quickstart builds the program. dir is where it makes its temporary folder. Wait fails
// if a worker outlives the program: all of them hold its standard error open.
func quickstart(t *testing.T) (run *exec.Cmd, dir string) {
	t.Helper()
	dir = t.TempDir()
	program := filepath.Join(dir, "quickstart")
	out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	run = exec.CommandContext(t.Context(), program)
	run.Env = append(os.Environ(), "TMPDIR="+dir)
	run.WaitDelay = 5 * time.Second
	return run, dir
}

func matches(t *testing.T, dir, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	require.NoError(t, err)
	return found
}

func TestInput(t *testing.T) {
	rows, err := readRows(tzdata)
	require.NoError(t, err)
	require.Len(t, rows, 4641)
	chunks := inChunks(rows, chunkRows)
	require.Equal(t, 1, chunks[0].Number)
	require.Equal(t, 4641, chunks[len(chunks)-1].Rows[len(chunks[len(chunks)-1].Rows)-1].Line)
	_, err = readRows("R fine\nwhat is this\n")
	require.ErrorContains(t, err, "line 2")
}

// The ledger must be able to fail.
func TestLedger(t *testing.T) {
	start := time.Date(2026, time.December, 1, 0, 0, 0, 0, time.UTC)
	id := func(code int, at time.Time, sequence int) snowflake.ID {
		id, err := layout().Pack(snowflake.Parts{Time: at, Worker: code, Sequence: sequence})
		require.NoError(t, err)
		return id
	}
	a, b := new(process), new(process)
	l := newLedger()
	l.grant(a, grant{Code: 1, Token: 1, Floor: start, Ceiling: start.Add(time.Second)})
	require.NoError(t, l.minted(a, []snowflake.ID{id(1, start, 0), id(1, start, 1)}))
	require.ErrorContains(t, l.minted(a, []snowflake.ID{id(1, start, 1)}), "minted twice")
	require.ErrorContains(t, l.minted(b, []snowflake.ID{id(1, start, 2)}), "outside every grant", "another owner's")
	require.ErrorContains(t, l.minted(a, []snowflake.ID{id(2, start, 0)}), "outside every grant", "another code")
	require.ErrorContains(t, l.minted(a, []snowflake.ID{id(1, start.Add(-time.Millisecond), 0)}), "outside every grant", "below the floor")
	require.ErrorContains(t, l.minted(a, []snowflake.ID{id(1, start.Add(time.Second), 0)}), "outside every grant", "at the ceiling")
	l.grant(a, grant{Code: 1, Token: 1, Floor: start, Ceiling: start.Add(2 * time.Second)})
	require.NoError(t, l.minted(a, []snowflake.ID{id(1, start.Add(time.Second), 1)}), "renewed")
	l.grant(b, grant{Code: 1, Token: 2, Floor: start.Add(2 * time.Second), Ceiling: start.Add(3 * time.Second)})
	a.grants = []grant{{Code: 1, Token: 1}}
	require.Equal(t, b, l.after(a).owner)
}
