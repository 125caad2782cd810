package snowflake

import (
	"math"
	"math/rand"
	"reflect"
	"sync"
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/require"
)

// seeded makes a quick check try the same values every time.
func seeded(count int) *quick.Config {
	return &quick.Config{MaxCount: count, Rand: rand.New(rand.NewSource(1))}
}

// validLayout generates layouts over everything that Validate accepts.
type validLayout struct{ Layout }

func (validLayout) Generate(r *rand.Rand, _ int) reflect.Value {
	sequence, code := 1+r.Intn(maxFieldBits), r.Intn(maxFieldBits+1)
	region := r.Intn(code + 1)
	firstEpoch := int64(31 * 24 * 3600)
	return reflect.ValueOf(validLayout{Layout{
		Epoch:        time.Unix(firstEpoch+r.Int63n(epochLimit-firstEpoch), r.Int63n(int64(time.Second))),
		Tick:         time.Duration(1 + r.Int63n(int64(math.Pow10(r.Intn(10))))),
		TimeBits:     valueBits - sequence - code,
		RegionBits:   region,
		WorkerBits:   code - region,
		SequenceBits: sequence,
	}})
}

func withBits(timeBits, regionBits, workerBits, sequenceBits int) Layout {
	l := DefaultLayout()
	l.TimeBits, l.RegionBits, l.WorkerBits, l.SequenceBits = timeBits, regionBits, workerBits, sequenceBits
	return l
}

func withTick(l Layout, tick time.Duration) Layout { l.Tick = tick; return l }

func withEpoch(l Layout, epoch time.Time) Layout { l.Epoch = epoch; return l }

func TestLayoutDefaultIsTheOneDesigned(t *testing.T) {
	l := DefaultLayout()
	require.NoError(t, l.Validate())
	require.Equal(t, "epoch=2026-01-01T00:00:00Z tick=1ms bits=41+2+8+12", l.String())
	require.Equal(t, time.Date(2095, time.September, 7, 15, 47, 35, 552e6, time.UTC), l.End())
}

func TestLayoutRefusesWidths(t *testing.T) {
	for _, row := range []struct {
		name   string
		layout Layout
		says   string
	}{
		{"zero value", Layout{}, "TimeBits is 0"},
		{"sum 62", withBits(40, 2, 8, 12), "TimeBits 40 + RegionBits 2 + WorkerBits 8 + SequenceBits 12 is 62, must be 63"},
		{"sum 64", withBits(42, 2, 8, 12), "is 64, must be 63"},
		{"no time bits", withBits(0, 30, 3, 30), "TimeBits is 0, must be 1 to 62"},
		{"63 time bits", withBits(63, 0, 0, 0), "TimeBits is 63, must be 1 to 62"},
		{"no sequence bits", withBits(43, 10, 10, 0), "SequenceBits is 0, must be 1 to 30"},
		{"31 sequence bits", withBits(22, 2, 8, 31), "SequenceBits is 31, must be 1 to 30"},
		{"negative time bits", withBits(-1, 30, 4, 30), "TimeBits is -1"},
		{"negative region bits, right sum", withBits(44, -1, 8, 12), "RegionBits is -1, must be 0 to 30"},
		{"negative worker bits, right sum", withBits(50, 2, -1, 12), "WorkerBits is -1, must be 0 to 30"},
		{"negative sequence bits, right sum", withBits(54, 2, 8, -1), "SequenceBits is -1"},
		{"31 region bits", withBits(20, 31, 0, 12), "RegionBits is 31, must be 0 to 30"},
		{"31 worker bits", withBits(20, 0, 31, 12), "WorkerBits is 31, must be 0 to 30"},
		{"31 code bits", withBits(20, 15, 16, 12), "RegionBits+WorkerBits is 31, must be 0 to 30"},
		{"widths that overflow an int", withBits(41, math.MaxInt, math.MaxInt, 12), "RegionBits is"},
		{"widths that overflow to the right sum", withBits(43, math.MinInt, math.MinInt, 20), "RegionBits is"},
		{"negative tick", withTick(DefaultLayout(), -1), "Tick is -1ns, must be 1ns to 1s"},
		{"tick above a second", withTick(DefaultLayout(), time.Second+1), "Tick is 1.000000001s, must be 1ns to 1s"},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.ErrorContains(t, row.layout.Validate(), row.says)
			requireUnusable(t, row.layout)
		})
	}
}

func TestLayoutRefusesEpochs(t *testing.T) {
	const seconds = 1_767_225_600 // 2026-01-01, as a number from somewhere else
	for _, row := range []struct {
		name  string
		epoch time.Time
		says  string
	}{
		{"unset", time.Time{}, "Epoch is unset: give a fixed instant"},
		{"unset, in another zone", time.Time{}.In(time.FixedZone("", 3600)), "Epoch is unset"},
		{"before 1970", time.Unix(-1, 0), "must not be before 1970"},
		{"a nanosecond before 1970", time.Unix(0, -1), "must not be before 1970"},
		{"year 1", time.Unix(-62135596800, 1), "must not be before 1970"},
		{"earliest of all", time.Unix(math.MinInt64, 0), "must not be before 1970"},
		{"seconds as milliseconds", time.UnixMilli(seconds), "were seconds taken for a smaller unit?"},
		{"seconds of 1973 as milliseconds", time.UnixMilli(94_694_400), "were seconds taken for a smaller unit?"},
		{"seconds of 2050 as milliseconds", time.UnixMilli(2_524_608_000), "were seconds taken for a smaller unit?"},
		{"seconds as microseconds", time.UnixMicro(seconds), "were seconds taken for a smaller unit?"},
		{"seconds as nanoseconds", time.Unix(0, seconds), "were seconds taken for a smaller unit?"},
		{"milliseconds as microseconds", time.UnixMicro(seconds * 1e3), "were seconds taken for a smaller unit?"},
		{"milliseconds as nanoseconds", time.Unix(0, seconds*1e3), "were seconds taken for a smaller unit?"},
		{"whole seconds into 1970", time.Unix(1767, 0), "were seconds taken for a smaller unit?"},
		{"less than a second into 1970", time.Unix(0, 1767), "were seconds taken for a smaller unit?"},
		{"milliseconds as seconds", time.Unix(seconds*1e3, 0), "were milliseconds taken for seconds?"},
		{"microseconds as seconds", time.Unix(seconds*1e6, 0), "were milliseconds taken for seconds?"},
		{"first of 2262", time.Unix(epochLimit, 0), "must be before 2262"},
		{"latest of all", time.Unix(math.MaxInt64, 0), "must be before 2262"},
		// 2^32+61: the year 61 in an int of 32 bits.
		{"a year above 32 bits", time.Unix(135_536_016_567_225_600, 0), "must be before 2262"},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := withEpoch(DefaultLayout(), row.epoch)
			require.ErrorContains(t, l.Validate(), row.says)
			requireUnusable(t, l)
		})
	}
}

// requireUnusable checks that no method of an invalid layout makes an ID.
func requireUnusable(t *testing.T, l Layout) {
	t.Helper()
	now := time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)
	_, err := l.Code(0, 0)
	require.Error(t, err)
	_, err = l.Pack(Parts{Time: now, Sequence: 1})
	require.Error(t, err)
	_, err = l.Unpack(1 << 40)
	require.Error(t, err)
	_, err = l.MinID(now)
	require.Error(t, err)
	_, err = l.MaxID(now)
	require.Error(t, err)
	require.True(t, l.End().IsZero())
	require.NotEmpty(t, l.String())
}

func TestLayoutAcceptsEpochs(t *testing.T) {
	for _, row := range []struct {
		name  string
		epoch time.Time
	}{
		{"1970", time.Unix(0, 0)},
		{"1970 by the clocks of Kathmandu's zone, west", time.Unix(5*3600+45*60, 0)},
		{"February 1970", time.Unix(31*24*3600, 0)},
		{"Twitter's", time.UnixMilli(1_288_834_974_657)},
		{"one nanosecond past a second", time.Unix(1_767_225_600, 1)},
		{"last of 2261", time.Unix(epochLimit-1, 999_999_999)},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := withEpoch(DefaultLayout(), row.epoch)
			require.NoError(t, l.Validate())
			id, err := l.MinID(row.epoch)
			require.NoError(t, err)
			require.Zero(t, id)
		})
	}
}

func TestLayoutStringIsEqualExactlyForEqualLayouts(t *testing.T) {
	l := DefaultLayout()
	require.Equal(t, l.String(), withTick(l, 0).String(), "0 means 1 ms")
	require.Equal(t, l.String(), withEpoch(l, l.Epoch.In(time.FixedZone("east", 7200))).String(), "an epoch needs no time zone")

	seen := map[string]string{l.String(): "default"}
	for name, other := range map[string]Layout{
		"epoch one second later":     withEpoch(l, l.Epoch.Add(time.Second)),
		"epoch one nanosecond later": withEpoch(l, l.Epoch.Add(1)),
		"longer tick":                withTick(l, 10*time.Millisecond),
		"shorter tick":               withTick(l, time.Microsecond),
		"more time":                  withBits(42, 1, 8, 12),
		"regions for workers":        withBits(41, 1, 9, 12),
		"workers for sequence":       withBits(41, 2, 9, 11),
	} {
		require.NotContains(t, seen, other.String(), name)
		seen[other.String()] = name
	}
}

func TestLayoutNeverCutsOffAField(t *testing.T) {
	l := DefaultLayout()
	for _, row := range []struct {
		name                     string
		region, worker, sequence int
		says                     string // empty: accepted
	}{
		{"all zero", 0, 0, 0, ""},
		{"all at their maximum", 3, 255, 4095, ""},
		{"region one above", 4, 0, 0, "region is 4, must be 0 to 3 (2 bits)"},
		{"region negative", -1, 0, 0, "region is -1"},
		{"region greatest", math.MaxInt, 0, 0, "region is"},
		{"worker one above", 0, 256, 0, "worker is 256, must be 0 to 255 (8 bits)"},
		{"worker negative", 0, -1, 0, "worker is -1"},
		{"worker least", 0, math.MinInt, 0, "worker is"},
		{"sequence one above", 0, 0, 4096, "sequence is 4096, must be 0 to 4095 (12 bits)"},
		{"sequence negative", 0, 0, -1, "sequence is -1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			parts := Parts{Time: l.Epoch.Add(time.Hour), Region: row.region, Worker: row.worker, Sequence: row.sequence}
			id, err := l.Pack(parts)
			if row.says != "" {
				require.ErrorContains(t, err, row.says)
				require.Zero(t, id)
				return
			}
			require.NoError(t, err)
			back, err := l.Unpack(id)
			require.NoError(t, err)
			require.Equal(t, parts, back)
		})
	}

	for _, row := range []struct {
		name           string
		region, worker int
		code           int // -1: refused
	}{
		{"first", 0, 0, 0},
		{"last of the first region", 0, 255, 255},
		{"first of the second region", 1, 0, 256},
		{"last", 3, 255, 1023},
		{"region one above", 4, 0, -1},
		{"worker one above, of a region that is not the last", 0, 256, -1},
		{"negative", -1, -1, -1},
	} {
		t.Run("code: "+row.name, func(t *testing.T) {
			code, err := l.Code(row.region, row.worker)
			if row.code < 0 {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.code, code)
		})
	}

	t.Run("a field without bits takes only 0", func(t *testing.T) {
		l := withBits(62, 0, 0, 1)
		_, err := l.Code(1, 0)
		require.ErrorContains(t, err, "region is 1, must be 0 to 0")
		_, err = l.Code(0, 1)
		require.ErrorContains(t, err, "worker is 1, must be 0 to 0")
	})
}

// edgeLayouts are valid layouts at the bounds of what Validate accepts.
var edgeLayouts = map[string]Layout{
	"default":                       DefaultLayout(),
	"tick unset":                    withTick(DefaultLayout(), 0),
	"3+30+0+30":                     withBits(3, 30, 0, 30),
	"3+0+30+30":                     withBits(3, 0, 30, 30),
	"62 time bits, ticks of 1 s":    withTick(withBits(62, 0, 0, 1), time.Second),
	"62 time bits, ticks of 1 ns":   withTick(withBits(62, 0, 0, 1), 1),
	"33 time bits":                  withBits(33, 0, 0, 30),
	"until after 2262":              withTick(DefaultLayout(), 10*time.Millisecond),
	"until far after 2262":          withBits(54, 0, 1, 8),
	"epoch at the end of 2261":      withEpoch(DefaultLayout(), time.Unix(epochLimit-1, 999_999_999)),
	"epoch 1970, ticks of 1 s":      withTick(withEpoch(DefaultLayout(), time.Unix(0, 0)), time.Second),
	"epoch between microseconds":    withEpoch(DefaultLayout(), time.Unix(1_767_225_600, 123_456_789)),
	"epoch and tick incommensurate": withTick(withEpoch(DefaultLayout(), time.Unix(1_767_225_600, 999_999_999)), 7),
	"a tick short of a second by 1": withTick(withEpoch(DefaultLayout(), time.Unix(1_767_225_600, 1)), time.Second-1),
	"epoch in another zone":         withEpoch(DefaultLayout(), time.Unix(1_767_225_600, 0).In(time.FixedZone("west", -5*3600))),
}

func TestLayoutFieldsAtTheirMaximumMakeTheGreatestID(t *testing.T) {
	for name, l := range edgeLayouts {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, l.Validate())
			parts := Parts{
				Time:     l.End().Add(-l.normal().Tick),
				Region:   1<<l.RegionBits - 1,
				Worker:   1<<l.WorkerBits - 1,
				Sequence: 1<<l.SequenceBits - 1,
			}
			id, err := l.Pack(parts)
			require.NoError(t, err)
			require.Equal(t, ID(math.MaxInt64), id)
			back, err := l.Unpack(id)
			require.NoError(t, err)
			require.Equal(t, parts, back)
		})
	}
}

func TestLayoutBeginsAndEndsWhereItSays(t *testing.T) {
	for name, l := range edgeLayouts {
		t.Run(name, func(t *testing.T) {
			perTick := ID(1) << (valueBits - l.TimeBits)
			tick := l.normal().Tick
			for _, row := range []struct {
				name string
				at   time.Time
				tick ID
				err  error
			}{
				{"long before the epoch", time.Time{}, 0, ErrBeforeEpoch},
				{"just before the epoch", l.Epoch.Add(-1), 0, ErrBeforeEpoch},
				{"epoch", l.Epoch, 0, nil},
				{"end of the epoch's tick", l.Epoch.Add(tick - 1), 0, nil},
				{"second tick", l.Epoch.Add(tick), 1, nil},
				{"last tick", l.End().Add(-tick), 1<<l.TimeBits - 1, nil},
				{"end of the last tick", l.End().Add(-1), 1<<l.TimeBits - 1, nil},
				{"end", l.End(), 0, ErrTimeOverflow},
				{"a second past the end", l.End().Add(time.Second), 0, ErrTimeOverflow},
			} {
				least, err := l.MinID(row.at)
				require.ErrorIs(t, err, row.err, row.name)
				greatest, err := l.MaxID(row.at)
				require.ErrorIs(t, err, row.err, row.name)
				id, err := l.Pack(Parts{Time: row.at, Sequence: 1})
				require.ErrorIs(t, err, row.err, row.name)
				if row.err != nil {
					require.Zero(t, least, row.name)
					require.Zero(t, greatest, row.name)
					require.Zero(t, id, row.name)
					continue
				}
				require.Equal(t, row.tick*perTick, least, row.name)
				require.Equal(t, row.tick*perTick+(perTick-1), greatest, row.name)
				require.Equal(t, least+1, id, row.name)
			}
		})
	}
}

// The nanoseconds since the epoch are 2^64 exactly, one tick before that and one
// after.
func TestLayoutCountsPast64Bits(t *testing.T) {
	l := edgeLayouts["62 time bits, ticks of 1 s"]
	wraps := time.Unix(l.Epoch.Unix()+18_446_744_073, 709_551_616)
	for offset := range ID(3) {
		id, err := l.MinID(wraps.Add(time.Duration(offset-1) * time.Second))
		require.NoError(t, err)
		require.Equal(t, (18_446_744_072+offset)<<1, id)
	}
}

func TestLayoutNeverMakesOrReadsZero(t *testing.T) {
	l := DefaultLayout()
	_, err := l.Pack(Parts{Time: l.Epoch})
	require.ErrorIs(t, err, ErrInvalidID)
	for _, id := range []ID{0, -1, math.MinInt64} {
		_, err := l.Unpack(id)
		require.ErrorIs(t, err, ErrInvalidID)
	}
}

func TestLayoutUnpackUndoesPack(t *testing.T) {
	check := func(l validLayout, number int64) bool {
		id := ID(number & math.MaxInt64)
		if id == 0 {
			return true
		}
		parts, err := l.Unpack(id)
		if err != nil {
			t.Log(err)
			return false
		}
		again, err := l.Pack(parts)
		late := parts
		late.Time = late.Time.Add(l.Tick - 1) // anywhere in a tick is in the tick
		lateAgain, lateErr := l.Pack(late)
		return err == nil && again == id && lateErr == nil && lateAgain == id
	}
	require.NoError(t, quick.Check(check, seeded(20_000)))
}

func TestLayoutPackUndoesUnpack(t *testing.T) {
	check := func(l validLayout, tick uint64, region, worker, sequence uint32) bool {
		parts := Parts{
			Time:     l.timeAt(tick & (1<<l.TimeBits - 1)),
			Region:   int(region & (1<<l.RegionBits - 1)),
			Worker:   int(worker & (1<<l.WorkerBits - 1)),
			Sequence: int(sequence & (1<<l.SequenceBits - 1)),
		}
		id, err := l.Pack(parts)
		if err != nil {
			t.Log(err)
			return false
		}
		back, err := l.Unpack(id)
		return err == nil && back == parts
	}
	require.NoError(t, quick.Check(check, seeded(20_000)))
}

func TestLayoutRangesOfTicksAdjoin(t *testing.T) {
	check := func(l validLayout, number int64) bool {
		id := ID(number & math.MaxInt64)
		if id == 0 {
			return true
		}
		parts, err := l.Unpack(id)
		if err != nil {
			return false
		}
		least, err1 := l.MinID(parts.Time)
		greatest, err2 := l.MaxID(parts.Time)
		if err1 != nil || err2 != nil || least > id || id > greatest {
			return false
		}
		next, err := l.MinID(parts.Time.Add(l.Tick))
		return err == nil && next == greatest+1 || greatest == math.MaxInt64
	}
	require.NoError(t, quick.Check(check, seeded(20_000)))
}

// Two layouts at once share nothing: run with -race.
func TestLayoutsAreIndependent(t *testing.T) {
	layouts := []Layout{
		DefaultLayout(),
		withEpoch(withTick(withBits(39, 0, 16, 8), 10*time.Millisecond), time.Unix(1_409_529_600, 0)),
	}
	var wg sync.WaitGroup
	for i := range 8 {
		l := layouts[i%len(layouts)]
		wg.Go(func() {
			for n := range 500 {
				want := Parts{Time: l.Epoch.Add(time.Duration(n) * time.Second).UTC(), Worker: n % 256, Sequence: 255}
				id, err := l.Pack(want)
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := l.Unpack(id); err != nil || got != want {
					t.Errorf("unpacked %+v, %v, want %+v", got, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestFrameCountsAsTheLayoutDoes(t *testing.T) {
	const claimable = int64(epochLimit) * int64(time.Second)
	check := func(l validLayout, offset uint64) bool {
		f := newFrame(l.Layout)
		start := f.epoch + int64(offset%uint64(claimable-f.epoch))
		at := time.Unix(0, start)
		tick, err := l.tickAt(at)
		if err != nil { // past the end
			return f.floorTick(start) == f.lastTick+1 && f.ceilTick(start) == f.lastTick+1
		}
		floor, ceil := f.floorTick(start), f.ceilTick(start)
		exact := f.start(floor) == start
		return floor == tick && f.time(tick).Equal(l.timeAt(uint64(tick))) &&
			(exact && ceil == floor || !exact && ceil == floor+1)
	}
	require.NoError(t, quick.Check(check, seeded(20_000)))
}

func TestFrameHoldsAtItsEnds(t *testing.T) {
	for name, l := range edgeLayouts {
		t.Run(name, func(t *testing.T) {
			f := newFrame(l)
			require.Positive(t, f.lastTick)
			require.Less(t, f.lastTick, int64(1)<<l.TimeBits)
			for _, at := range []int64{math.MinInt64, -1, 0, f.epoch - 1, f.epoch} {
				require.Zero(t, f.floorTick(at))
				require.Zero(t, f.ceilTick(at))
			}
			require.Equal(t, int64(0), f.floorTick(f.epoch+f.tick-1))
			require.Equal(t, int64(1), f.ceilTick(f.epoch+1))
			require.Equal(t, f.lastTick, f.floorTick(f.start(f.lastTick)))
			require.Greater(t, f.start(f.lastTick+1), f.start(f.lastTick), "the end of the last tick overflows")
			require.Equal(t, f.lastTick, f.ceilTick(f.start(f.lastTick)))
			require.Equal(t, f.lastTick+1, f.ceilTick(f.start(f.lastTick)+1))
			require.Equal(t, f.lastTick+1, f.floorTick(math.MaxInt64))
			require.Equal(t, f.lastTick+1, f.ceilTick(math.MaxInt64))
		})
	}
}

func TestNanosHoldsAtItsEnds(t *testing.T) {
	for _, row := range []struct {
		name string
		at   time.Time
		want int64
	}{
		{"zero time", time.Time{}, 0},
		{"earliest of all", time.Unix(math.MinInt64, 0), 0},
		{"before 1970", time.Unix(0, -1), 0},
		{"1970", time.Unix(0, 0), 0},
		{"a nanosecond later", time.Unix(0, 1), 1},
		{"2026 and a nanosecond", time.Unix(1_767_225_600, 1), 1_767_225_600_000_000_001},
		{"end of int64", time.Unix(math.MaxInt64/1_000_000_000, 0), math.MaxInt64},
		{"long after", time.Unix(1<<50, 0), math.MaxInt64},
	} {
		require.Equal(t, row.want, nanos(row.at), row.name)
	}
}
