package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/internal/etcdserver"
)

func TestMain(m *testing.M) {
	etcdserver.Main()
	regionMain()
	os.Exit(m.Run())
}

// A small fleet for a moment: real processes, real leases, every ID checked.
func TestFleet(t *testing.T) {
	var out strings.Builder
	p := Plan{Regions: 2, Workers: 20, Rate: 200_000, Burst: 3000, Duration: 3 * time.Second}
	require.NoError(t, run(t.Context(), &out, p))
	t.Log("\n" + out.String())
	require.Contains(t, out.String(), "checked "+group(p.asked())+" IDs")
	require.Contains(t, out.String(), "repeats 0\n")
}

// What the fleet's IDs are held against must be able to fail.
func TestLedgerFindsEveryRepeat(t *testing.T) {
	for name, c := range map[string]struct {
		ids  []snowflake.ID
		want int64
	}{
		"none":                        {[]snowflake.ID{1, 2, 3, 7, 8, 5}, 0},
		"one, at once":                {[]snowflake.ID{1, 2, 2, 3}, 1},
		"one, inside a run":           {[]snowflake.ID{10, 11, 12, 13, 14, 12}, 1},
		"the end of a run":            {[]snowflake.ID{10, 11, 12, 20, 12}, 1},
		"the begin of a run":          {[]snowflake.ID{10, 11, 12, 20, 10}, 1},
		"a whole run, longer":         {[]snowflake.ID{10, 11, 12, 9, 10, 11, 12, 13}, 3},
		"three times":                 {[]snowflake.ID{5, 9, 5, 9, 5}, 3},
		"within a run that covers it": {[]snowflake.ID{1, 2, 3, 4, 5, 6, 2, 3, 5}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			var l Ledger
			for _, id := range c.ids {
				l.note(id)
			}
			require.Equal(t, len(c.ids), l.count())
			require.Equal(t, c.want, l.repeats())
		})
	}
}

func TestPlanIsChecked(t *testing.T) {
	good := Plan{Regions: 4, Workers: 200, Rate: 2_000_000, Burst: 3000, Duration: time.Minute}
	require.NoError(t, good.check())
	require.Equal(t, 6*time.Millisecond, good.every())
	require.Equal(t, 120_000_000, good.asked())
	for name, spoil := range map[string]func(*Plan){
		"regions": func(p *Plan) { p.Regions = 5 }, "workers": func(p *Plan) { p.Workers = 257 },
		"burst": func(p *Plan) { p.Burst = 4097 }, "rate": func(p *Plan) { p.Rate = 0 },
		"duration": func(p *Plan) { p.Duration = time.Millisecond },
	} {
		p := good
		spoil(&p)
		require.ErrorContains(t, p.check(), "-"+name)
	}
}
