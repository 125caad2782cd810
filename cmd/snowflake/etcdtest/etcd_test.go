//go:build unix

package etcdtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake/internal/etcdserver"
)

func TestMain(m *testing.M) {
	etcdserver.Main()
	os.Exit(m.Run())
}

func TestToolOnEtcd(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "snowflake")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".")
	build.Dir = ".."
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))
	cluster, err := etcdserver.Start(t.Context(), 1, filepath.Join(dir, "etcd"))
	require.NoError(t, err)
	t.Cleanup(cluster.Stop)

	hosts := strings.ReplaceAll(strings.Join(cluster.Endpoints(), ","), "http://", "")
	tool := func(status int, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), path, args...)
		cmd.Env = append(cmd.Environ(), "SNOWFLAKE_STORE=etcd://"+hosts+"/ids")
		output, _ := cmd.CombinedOutput()
		require.Equal(t, status, cmd.ProcessState.ExitCode(), string(output))
		return string(output)
	}
	require.Contains(t, tool(0, "leases", "list", "--region", "2"), "region 2 was never used")
	require.Contains(t, tool(0, "next", "--json", "--region", "2"), `"region":2`)
	require.Contains(t, tool(0, "leases", "list", "--region", "2", "--json"), `"token":1,`)
	require.Contains(t, tool(0, "leases", "fence", "--region", "2", "--yes"), "256 codes of region 2 fenced")
	require.Contains(t, tool(1, "next", "--region", "2", "--timeout", "2s"), "all 256 of the region are held")
	require.Contains(t, tool(0, "leases", "list", "--region", "2", "--store", "etcd://"+hosts+"/other"), "never used")
}
