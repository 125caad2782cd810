package redisstore

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/snowflaketest"
	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake/internal/servers/servertest"
)

func TestLeaseStore(t *testing.T) {
	t.Run("one server", func(t *testing.T) {
		snowflaketest.TestLeaseStoreShared(t, func(t *testing.T) (a, b snowflake.LeaseStore) {
			prefix := newPrefix()
			return openOn(t, connect(t, servertest.Need(t, safe), nil), prefix), openOn(t, connect(t, servertest.Need(t, safe), nil), prefix)
		})
	})
	t.Run("RESP2", func(t *testing.T) {
		snowflaketest.TestLeaseStore(t, func(t *testing.T) snowflake.LeaseStore {
			return openOn(t, connect(t, servertest.Need(t, safe), func(o *redis.Options) { o.Protocol = 2 }), newPrefix())
		})
	})
	t.Run("cluster whose client reads from replicas", func(t *testing.T) {
		snowflaketest.TestLeaseStore(t, func(t *testing.T) snowflake.LeaseStore {
			all, _, _ := cluster(t)
			s, err := New(t.Context(), all, newPrefix(), Options{MayForget: true, Warn: func(error) {}})
			require.NoError(t, err)
			return s
		})
	})
}
