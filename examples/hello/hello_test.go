//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake"
)

const runMain = "HELLO_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// Two runs, one after the other, print different IDs of the present, and both give
// their code back.
func TestHelloPrintsAnIDOfNow(t *testing.T) {
	dir := t.TempDir()
	first, second := hello(t, dir), hello(t, dir)
	assert.NotEqual(t, first, second)

	records, err := filepath.Glob(filepath.Join(dir, "leases", "region-0", "worker-*.lease"))
	require.NoError(t, err)
	require.NotEmpty(t, records)
	for _, name := range records {
		record, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.Contains(t, string(record), "released true")
	}
}

func hello(t *testing.T, dir string) snowflake.ID {
	t.Helper()
	began := time.Now()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), runMain+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)

	line := regexp.MustCompile(`^(\d+) minted at .* UTC by worker (\d+)\n$`).FindSubmatch(out)
	require.NotNil(t, line, "%s", out)
	id, err := snowflake.ParseID(string(line[1]))
	require.NoError(t, err)
	parts, err := snowflake.DefaultLayout().Unpack(id)
	require.NoError(t, err)
	assert.WithinRange(t, parts.Time, began.Truncate(time.Millisecond), time.Now())
	assert.Equal(t, strconv.Itoa(parts.Worker), string(line[2]))
	return id
}
