package snowflake

import (
	"fmt"
	"math"
	"math/big"
	"math/rand"
	"reflect"
	"regexp"
	"strconv"
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/require"
)

const year = 8766 * time.Hour // 365.25 days

func TestPlanLayoutFits(t *testing.T) {
	designed := Needs{Lifetime: 60 * year, Regions: 4, WorkersPerRegion: 200, BurstPerTick: 3000}
	with := func(change func(*Needs)) Needs { n := designed; change(&n); return n }
	for _, row := range []struct {
		name  string
		needs Needs
		want  Layout
	}{
		{"the design's", designed, DefaultLayout()},
		{"spare codes within the last bit", with(func(n *Needs) { n.SpareCodes = 56 }), DefaultLayout()},
		{"one spare code more, of a shorter life", with(func(n *Needs) { n.SpareCodes, n.Lifetime = 57, 30*year }), withBits(40, 2, 9, 12)},
		{"burst of exactly 12 bits", with(func(n *Needs) { n.BurstPerTick = 4096 }), DefaultLayout()},
		{"burst of one more, of a shorter life", with(func(n *Needs) { n.BurstPerTick, n.Lifetime = 4097, 30*year }), withBits(40, 2, 8, 13)},
		{"lifetime of exactly 2^41 ticks", with(func(n *Needs) { n.Lifetime = 1 << 41 * time.Millisecond }), DefaultLayout()},
		{"time gets what is left", with(func(n *Needs) { n.Lifetime = time.Hour }), DefaultLayout()},
		{"one region", with(func(n *Needs) { n.Regions = 1 }), withBits(43, 0, 8, 12)},
		{"three regions", with(func(n *Needs) { n.Regions = 3 }), DefaultLayout()},
		{"nothing but one of each", Needs{Lifetime: 1, Regions: 1, WorkersPerRegion: 1, BurstPerTick: 1}, withBits(62, 0, 0, 1)},
		{"30 bits of codes and of sequence", Needs{Lifetime: 8, Tick: 1, Regions: 1 << 10, WorkersPerRegion: 1 << 20, BurstPerTick: 1 << 30},
			withTick(withBits(3, 10, 20, 30), 1)},
		{"longest life there is", Needs{Lifetime: time.Unix(epochLimit, 0).Sub(DefaultLayout().Epoch), Regions: 4, WorkersPerRegion: 200, BurstPerTick: 512},
			withBits(44, 2, 8, 9)},
		{"ticks of 10 ms", with(func(n *Needs) { n.Tick, n.BurstPerTick = 10*time.Millisecond, 30_000 }),
			withTick(withBits(38, 2, 8, 15), 10*time.Millisecond)},
		{"own epoch, in some zone", with(func(n *Needs) { n.Epoch = time.Unix(1_288_834_974, 1).In(time.FixedZone("", 3600)) }),
			withEpoch(DefaultLayout(), time.Unix(1_288_834_974, 1).UTC())},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := PlanLayout(row.needs)
			require.NoError(t, err)
			require.Equal(t, row.want, got)
			requireHolds(t, row.needs, got)
		})
	}
}

// requireHolds checks a layout against the needs that it was planned for.
func requireHolds(t *testing.T, needs Needs, l Layout) {
	t.Helper()
	require.NoError(t, l.Validate())
	require.False(t, l.End().Before(l.Epoch.Add(needs.Lifetime)), "%v ends too early for %+v", l, needs)
	require.GreaterOrEqual(t, uint64(1)<<l.RegionBits, uint64(needs.Regions))
	require.GreaterOrEqual(t, uint64(1)<<l.WorkerBits, uint64(needs.WorkersPerRegion)+uint64(needs.SpareCodes))
	require.GreaterOrEqual(t, uint64(1)<<l.SequenceBits, uint64(needs.BurstPerTick))
	// And gives no field a bit that time could have.
	if l.RegionBits > 0 {
		require.Less(t, uint64(1)<<(l.RegionBits-1), uint64(needs.Regions))
	}
	if l.WorkerBits > 0 {
		require.Less(t, uint64(1)<<(l.WorkerBits-1), uint64(needs.WorkersPerRegion)+uint64(needs.SpareCodes))
	}
	if l.SequenceBits > 1 {
		require.Less(t, uint64(1)<<(l.SequenceBits-1), uint64(needs.BurstPerTick))
	}
}

func TestPlanLayoutRefusesFields(t *testing.T) {
	good := Needs{Lifetime: 60 * year, Regions: 4, WorkersPerRegion: 200, BurstPerTick: 3000}
	for _, row := range []struct {
		name   string
		change func(*Needs)
		says   string
	}{
		{"nothing given", func(n *Needs) { *n = Needs{} }, "Lifetime is 0s, must be 1ns to"},
		{"no lifetime", func(n *Needs) { n.Lifetime = 0 }, "Lifetime is 0s, must be 1ns to"},
		{"negative lifetime", func(n *Needs) { n.Lifetime = math.MinInt64 }, "Lifetime is -"},
		{"past 2261", func(n *Needs) { n.Lifetime = 237 * year }, "(236.0 years): from 2026-01-01T00:00:00Z to the end of 2261"},
		{"longest Duration", func(n *Needs) { n.Lifetime = math.MaxInt64 }, "must be 1ns to"},
		{"negative tick", func(n *Needs) { n.Tick = -time.Millisecond }, "Tick is -1ms, must be 1ns to 1s"},
		{"long tick", func(n *Needs) { n.Tick = 2 * time.Second }, "Tick is 2s, must be 1ns to 1s"},
		{"no region", func(n *Needs) { n.Regions = 0 }, "Regions is 0, must be at least 1"},
		{"negative regions", func(n *Needs) { n.Regions = math.MinInt }, "Regions is -"},
		{"no worker, but spare codes", func(n *Needs) { n.WorkersPerRegion, n.SpareCodes = 0, 10 }, "WorkersPerRegion is 0, must be at least 1"},
		{"negative spare codes", func(n *Needs) { n.SpareCodes = -1 }, "SpareCodes is -1, must be at least 0"},
		{"no burst", func(n *Needs) { n.BurstPerTick = 0 }, "BurstPerTick is 0, must be at least 1"},
		{"epoch of seconds as milliseconds", func(n *Needs) { n.Epoch = time.UnixMilli(1_767_225_600) }, "Epoch is 1970-01-21"},
		{"epoch of milliseconds as seconds", func(n *Needs) { n.Epoch = time.Unix(1_767_225_600_000, 0) }, "must be before 2262"},
	} {
		t.Run(row.name, func(t *testing.T) {
			needs := good
			row.change(&needs)
			got, err := PlanLayout(needs)
			require.ErrorContains(t, err, row.says)
			require.Zero(t, got)
		})
	}
}

func TestPlanLayoutSaysWhatWouldFit(t *testing.T) {
	for _, row := range []struct {
		name  string
		needs Needs
		says  string
	}{
		{
			"one bit over", Needs{Lifetime: 60 * year, Regions: 4, WorkersPerRegion: 200, SpareCodes: 57, BurstPerTick: 3000},
			"snowflake: plan: Lifetime 525960h0m0s (60.0 years) takes 41 bits, Regions 4 takes 2, WorkersPerRegion+SpareCodes 257 takes 9, BurstPerTick 3000 takes 12; " +
				"all: 64 of 63 bits, 1 over; what fits while the others stay: Lifetime up to 305419h53m47.776s (34.8 years), " +
				"Regions up to 2, WorkersPerRegion up to 199, SpareCodes up to 56, BurstPerTick up to 2048",
		},
		{
			"nothing alone helps", Needs{Lifetime: 200 * year, Tick: time.Microsecond, Regions: 1000, WorkersPerRegion: 1 << 20, BurstPerTick: 1 << 20},
			"all: 103 of 63 bits, 40 over; what fits while the others stay: Lifetime up to 8.192ms, " +
				"Regions none, WorkersPerRegion none, SpareCodes none, BurstPerTick none",
		},
		{
			"codes above 30 bits", Needs{Lifetime: time.Hour, Regions: 1 << 11, WorkersPerRegion: 1 << 20, BurstPerTick: 2},
			"regions and codes: 31 of 30 bits, 1 over; what fits while the others stay: Lifetime none, " +
				"Regions up to 1024, WorkersPerRegion up to 524288, SpareCodes none, BurstPerTick none",
		},
		{
			"burst above 30 bits", Needs{Lifetime: time.Hour, Regions: 1, WorkersPerRegion: 1, BurstPerTick: 1<<30 + 1},
			"the burst: 31 of 30 bits, 1 over; what fits while the others stay: Lifetime none, " +
				"Regions none, WorkersPerRegion none, SpareCodes none, BurstPerTick up to 1073741824",
		},
		{
			"a tick takes a bit", Needs{Lifetime: time.Millisecond, Regions: 1, WorkersPerRegion: 1, BurstPerTick: 1<<30 + 1},
			"Lifetime 1ms takes 1 bits, Regions 1 takes 0, WorkersPerRegion+SpareCodes 1 takes 0, BurstPerTick 1073741825 takes 31;",
		},
		{
			"sums that overflow an int", Needs{Lifetime: time.Hour, Regions: 1, WorkersPerRegion: math.MaxInt, SpareCodes: math.MaxInt, BurstPerTick: 1},
			fmt.Sprintf("WorkersPerRegion+SpareCodes %d takes %d", uint64(math.MaxInt)*2, strconv.IntSize),
		},
		{
			"sequence without a bit", Needs{Lifetime: 1 << 60, Tick: 1, Regions: 4, WorkersPerRegion: 2, BurstPerTick: 1},
			"all: 64 of 63 bits, 1 over; what fits while the others stay: Lifetime up to 160127h59m12.303423488s (18.3 years), " +
				"Regions up to 2, WorkersPerRegion up to 1, SpareCodes none, BurstPerTick none",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := PlanLayout(row.needs)
			require.ErrorContains(t, err, row.says)
			require.Zero(t, got)
		})
	}
}

// scaledNeeds generates valid needs of every size, from fitting with ease to
// hopeless.
type scaledNeeds Needs

func (scaledNeeds) Generate(r *rand.Rand, _ int) reflect.Value {
	scaled := func(maxBits int) int { return 1 + r.Intn(1<<r.Intn(maxBits)) }
	return reflect.ValueOf(scaledNeeds{
		Tick:             time.Duration(1 + r.Int63n(int64(math.Pow10(1+r.Intn(9))))),
		Lifetime:         time.Duration(1 + r.Int63n(1<<(1+r.Intn(62)))),
		Regions:          scaled(12),
		WorkersPerRegion: scaled(20),
		SpareCodes:       scaled(20) - 1,
		BurstPerTick:     scaled(30),
	})
}

// What the error offers is true and cannot be bettered: PlanLayout takes it, and
// refuses one more. Where it offers nothing, the least value is refused.
func TestPlanLayoutOffersTheLargestThatFits(t *testing.T) {
	offers := regexp.MustCompile(`what fits while the others stay: Lifetime (?:up to (\S+)(?: \([0-9.]+ years\))?|none), ` +
		`Regions (?:up to (\d+)|none), WorkersPerRegion (?:up to (\d+)|none), SpareCodes (?:up to (\d+)|none), BurstPerTick (?:up to (\d+)|none)$`)
	fields := []struct {
		least int64
		set   func(*Needs, int64)
	}{
		{1, func(n *Needs, v int64) { n.Lifetime = time.Duration(v) }},
		{1, func(n *Needs, v int64) { n.Regions = int(v) }},
		{1, func(n *Needs, v int64) { n.WorkersPerRegion = int(v) }},
		{0, func(n *Needs, v int64) { n.SpareCodes = int(v) }},
		{1, func(n *Needs, v int64) { n.BurstPerTick = int(v) }},
	}
	fitted, offered, hopeless := 0, 0, 0
	check := func(scaled scaledNeeds) bool {
		needs := Needs(scaled)
		layout, err := PlanLayout(needs)
		if err == nil {
			fitted++
			requireHolds(t, needs, layout)
			return true
		}
		match := offers.FindStringSubmatch(err.Error())
		require.NotNil(t, match, err.Error())
		for i, field := range fields {
			change := needs
			if match[i+1] == "" {
				hopeless++
				field.set(&change, field.least)
				_, err := PlanLayout(change)
				require.Error(t, err, "%+v", change)
				continue
			}
			offered++
			var largest int64
			if i == 0 {
				lifetime, err := time.ParseDuration(match[1])
				require.NoError(t, err)
				largest = int64(lifetime)
			} else {
				largest, err = strconv.ParseInt(match[i+1], 10, 64)
				require.NoError(t, err)
			}
			field.set(&change, largest)
			layout, err := PlanLayout(change)
			require.NoError(t, err, "%+v", change)
			requireHolds(t, change, layout)
			field.set(&change, largest+1)
			_, err = PlanLayout(change)
			require.Error(t, err, "%+v", change)
		}
		return true
	}
	require.NoError(t, quick.Check(check, seeded(3000)))
	require.Greater(t, fitted, 100)
	require.Greater(t, offered, 100)
	require.Greater(t, hopeless, 100)
}

func TestBitsFor(t *testing.T) {
	for count, want := range map[uint64]int{1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 1 << 30: 30, 1<<30 + 1: 31, math.MaxUint64: 64} {
		require.Equal(t, want, bitsFor(count), count)
	}
	check := func(count uint64) bool {
		count = max(count, 1)
		have := new(big.Int).Lsh(big.NewInt(1), uint(bitsFor(count)))
		return have.Cmp(new(big.Int).SetUint64(count)) >= 0
	}
	require.NoError(t, quick.Check(check, seeded(1000)))
}
