package snowflaketest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/snowfence/snowflake"
	"github.com/stretchr/testify/require"
)

// The stores of the root package pass.

func TestMemoryStore(t *testing.T) {
	TestLeaseStore(t, func(*testing.T) snowflake.LeaseStore { return snowflake.NewMemoryStore() })
}

func TestDirStore(t *testing.T) {
	needFlock(t)
	TestLeaseStoreShared(t, func(t *testing.T) (a, b snowflake.LeaseStore) {
		dir := t.TempDir()
		a, err := snowflake.DirStore(dir)
		require.NoError(t, err)
		b, err = snowflake.DirStore(dir)
		require.NoError(t, err)
		return a, b
	})
}

func TestFileHighWater(t *testing.T) {
	needFlock(t)
	TestHighWaterStoreShared(t, func(t *testing.T) (a, b snowflake.HighWaterStore) {
		dir := t.TempDir()
		one, err := snowflake.FileHighWater(dir)
		require.NoError(t, err)
		other, err := snowflake.FileHighWater(dir)
		require.NoError(t, err)
		return markFolder{one, dir}, markFolder{other, dir}
	})
}

// markFolder supersedes an owner by what must never be done to its lock file.
type markFolder struct {
	snowflake.HighWaterStore
	dir string
}

var _ Superseder = markFolder{}

func (f markFolder) Supersede(_ context.Context, code int) error {
	return os.Remove(filepath.Join(f.dir, fmt.Sprintf("code-%d.lock", code)))
}

func needFlock(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("DirStore and FileHighWater are not for windows")
	}
}
