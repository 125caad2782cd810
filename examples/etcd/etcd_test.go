package main

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/internal/etcdserver"
)

func TestMain(m *testing.M) {
	etcdserver.Main()
	os.Exit(m.Run())
}

// Each region mints IDs of its own number, whatever becomes of another one; and what is cut
// off stops, and comes back.
func TestRegionsDoNotDisturbOneAnother(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	began := time.Now()
	var out strings.Builder
	require.NoError(t, run(ctx, &out, nil))
	text := out.String()
	t.Log("\n" + text)

	rows := regexp.MustCompile(`(?m)^(\w+) +snowflake-example/(\w+)/(\d)/… +\d+, \d+, \d+ +(\d+) .* (\d) +(\d+)$`).FindAllStringSubmatch(text, -1)
	require.Len(t, rows, len(names))
	for number, row := range rows {
		require.Equal(t, names[number], row[1])
		require.Equal(t, names[number], row[2], "the prefix")
		id, err := snowflake.ParseID(row[4])
		require.NoError(t, err)
		parts, err := snowflake.DefaultLayout().Unpack(id)
		require.NoError(t, err)
		require.Equal(t, number, parts.Region)
		require.WithinRange(t, parts.Time, began.Truncate(time.Millisecond), time.Now())
	}
	for _, line := range []string{
		`while all is well +3000 +3000 +3000 +3000`,
		`asia is cut off, and has its grants +3000 +3000 +3000 +3000`,
		`asia is cut off, and they have run out +3000 +3000 +refused +3000`,
		`asia is back +3000 +3000 +3000 +3000`,
		`45004 IDs, none of them twice`,
		`asia was refused with: .*no worker code is held`,
		`Retryable says true`,
	} {
		require.Regexp(t, line, text)
	}
}

func TestGivenServersAreUsed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cluster, err := etcdserver.Start(ctx, 1, t.TempDir())
	require.NoError(t, err)
	defer cluster.Stop()
	r, err := open(ctx, 3, "africa", cluster.Endpoints())
	require.NoError(t, err)
	again, err := open(ctx, 3, "africa", cluster.Endpoints())
	require.NoError(t, err)
	seen := make(map[snowflake.ID]bool)
	for _, m := range mintAll([]*region{r, again}) {
		require.NoError(t, m.err)
		for _, id := range m.ids {
			require.False(t, seen[id], "six services share the region's codes, not a code")
			seen[id] = true
		}
	}
	require.NoError(t, r.close())
	require.NoError(t, again.close())
}
