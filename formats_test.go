package snowflake

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	newYear28 = time.Date(2028, time.January, 1, 0, 0, 0, 0, time.UTC)
	bwmarrin  = Layout{Epoch: time.UnixMilli(1288834974657), TimeBits: 41, WorkerBits: 10, SequenceBits: 12}
	sonyflake = Format{
		Layout: Layout{
			Epoch: time.Date(2014, time.September, 1, 0, 0, 0, 0, time.UTC), Tick: 10 * time.Millisecond,
			TimeBits: 39, WorkerBits: 16, SequenceBits: 8,
		},
		WorkerLast: true,
	}
)

// widths is a layout without an epoch.
func layoutWidths(tick time.Duration, time, region, worker, sequence int) Layout {
	return Layout{Tick: tick, TimeBits: time, RegionBits: region, WorkerBits: worker, SequenceBits: sequence}
}

func TestAppendPutsEveryNewIDAboveEveryOldOne(t *testing.T) {
	ms := time.Millisecond
	for name, test := range map[string]struct {
		old    Format
		layout Layout
		epoch  string // of the new layout
	}{
		"a fifth region":           {Format{Layout: DefaultLayout()}, layoutWidths(ms, 40, 3, 8, 12), "2027-01-01T00:00:00Z"},
		"300 workers a region":     {Format{Layout: DefaultLayout()}, layoutWidths(ms, 40, 2, 9, 12), "2027-01-01T00:00:00Z"},
		"5,000 in a millisecond":   {Format{Layout: DefaultLayout()}, layoutWidths(ms, 40, 2, 8, 13), "2027-01-01T00:00:00Z"},
		"a fifth region at 2 ms":   {Format{Layout: DefaultLayout()}, layoutWidths(2*ms, 40, 3, 8, 12), "2026-01-01T00:00:00Z"},
		"more time bits":           {Format{Layout: DefaultLayout()}, layoutWidths(ms, 42, 2, 8, 11), "2024-01-02T00:00:00Z"},
		"the same time bits":       {Format{Layout: DefaultLayout()}, layoutWidths(ms, 41, 3, 8, 11), "2026-01-01T00:00:00Z"},
		"from bwmarrin/snowflake":  {Format{Layout: bwmarrin}, layoutWidths(0, 41, 2, 8, 12), "2010-11-04T01:42:54.657Z"},
		"bwmarrin, a fifth region": {Format{Layout: bwmarrin}, layoutWidths(0, 40, 3, 8, 12), "2019-06-03T12:51:27.329Z"},
		"from sony/sonyflake":      {sonyflake, layoutWidths(ms, 41, 2, 8, 12), "2022-09-01T00:00:00Z"},
		"sonyflake's tick":         {sonyflake, layoutWidths(10*ms, 39, 2, 10, 12), "2014-09-01T00:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			formats, err := Formats{test.old}.Append(test.layout, newYear28)
			require.NoError(t, err)
			require.Len(t, formats, 2)
			next := formats[1]
			require.Equal(t, test.epoch, next.Layout.Epoch.Format(time.RFC3339Nano))
			require.Less(t, next.Start().Sub(newYear28), 10*time.Millisecond)
			require.False(t, next.Start().Before(newYear28))
			requireOrder(t, formats, newYear28)
		})
	}
}

// requireOrder holds the numbers on both sides of the last format's start against each
// other. No ID of the format before has a time at or past start.
func requireOrder(t testing.TB, formats Formats, start time.Time) {
	t.Helper()
	old, next := formats[len(formats)-2], formats[len(formats)-1]
	tick := old.Layout.normal().Tick
	lastOld, err := old.Layout.MaxID(start.Add(-1))
	require.NoError(t, err)
	firstNew, err := next.Layout.MinID(next.Start())
	require.NoError(t, err)
	require.Greater(t, firstNew, lastOld)
	require.GreaterOrEqual(t, firstNew, next.From, "the writers' first number is in the range")
	require.Greater(t, next.From, lastOld)

	// Between start and Start no number is lost to the wrong format.
	require.False(t, old.end(next.From).Before(start.Add(-tick)))
	parts, err := formats.Unpack(lastOld)
	require.NoError(t, err)
	require.True(t, parts.Time.Before(start))
	parts, err = formats.Unpack(firstNew | 1)
	require.NoError(t, err)
	require.Equal(t, next.Start(), parts.Time)
	require.Equal(t, Parts{Time: next.Start(), Sequence: 1}, parts)
}

func TestAppendGoesOn(t *testing.T) {
	formats := Formats{{Layout: DefaultLayout()}}
	start := newYear28
	for _, layout := range []Layout{
		layoutWidths(0, 40, 3, 8, 12), layoutWidths(0, 40, 3, 9, 11), layoutWidths(0, 41, 3, 9, 10), layoutWidths(10*time.Millisecond, 38, 3, 8, 14),
	} {
		next, err := formats.Append(layout, start)
		require.NoError(t, err)
		requireOrder(t, next, start)
		require.Len(t, formats, len(next)-1, "the formats before are as they were")
		formats, start = next, start.AddDate(0, 0, 1)
	}
	data, err := json.Marshal(formats)
	require.NoError(t, err)
	var read Formats
	require.NoError(t, json.Unmarshal(data, &read))
	require.Equal(t, formats, read)
}

func TestAppendRefuses(t *testing.T) {
	year70 := Layout{Epoch: time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC), TimeBits: 41, RegionBits: 2, WorkerBits: 8, SequenceBits: 12}
	for name, test := range map[string]struct {
		formats Formats
		layout  Layout
		start   time.Time
		says    string
	}{
		"no formats":          {nil, DefaultLayout(), newYear28, "must be at least one"},
		"an invalid layout":   {Formats{{Layout: DefaultLayout()}}, layoutWidths(0, 41, 2, 8, 13), newYear28, "must be 63"},
		"before the start":    {Formats{{Layout: DefaultLayout()}}, layoutWidths(0, 40, 3, 8, 12), DefaultLayout().Epoch, "must be after 2026-01-01"},
		"after the end":       {Formats{{Layout: DefaultLayout()}}, layoutWidths(0, 40, 3, 8, 12), DefaultLayout().End(), "past the end"},
		"in the last tick":    {Formats{{Layout: DefaultLayout()}}, layoutWidths(0, 40, 3, 8, 12), DefaultLayout().End().Add(-1), "past the end"},
		"no change":           {Formats{{Layout: DefaultLayout()}}, DefaultLayout(), newYear28, "is that of number 0"},
		"an epoch before '70": {Formats{{Layout: year70}}, layoutWidths(0, 42, 2, 8, 11), newYear28, "shorter tick or fewer time bits"},
		"centuries before":    {Formats{{Layout: year70}}, layoutWidths(time.Second, 42, 2, 8, 11), newYear28, "before 1970"},
		"January '70":         {Formats{{Layout: year70}}, layoutWidths(0, 41, 3, 8, 11), newYear28.Add(time.Microsecond), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := test.formats.Append(test.layout, test.start)
			if test.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.says)
		})
	}
}

func TestFormatsValidate(t *testing.T) {
	first := Format{Layout: DefaultLayout()}
	good, err := Formats{first}.Append(layoutWidths(0, 40, 3, 8, 12), newYear28)
	require.NoError(t, err)
	second := good[1]
	early := second
	early.Layout.Epoch = early.Layout.Epoch.Add(-time.Millisecond)
	low := Format{Layout: early.Layout}
	for name, test := range map[string]struct {
		formats Formats
		says    string
	}{
		"good":                 {good, ""},
		"none":                 {Formats{}, "there are none"},
		"an invalid layout":    {Formats{{}}, "number 0: snowflake: layout: TimeBits is 0"},
		"a negative number":    {Formats{{From: -1, Layout: first.Layout}}, "number 0: From is -1"},
		"the same layout":      {Formats{first, {From: 1, Layout: first.Layout}}, "number 1: its layout"},
		"in the wrong order":   {Formats{second, first}, "number 1: From is 0, must be above"},
		"numbers that are low": {Formats{first, low}, "number 1: From is 0"},
		"times that go back":   {Formats{first, {From: second.From, Layout: early.Layout}}, "number 1: it starts at 2027-12-31T23:59:59.999Z"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.says == "" {
				require.NoError(t, test.formats.Validate())
				return
			}
			require.ErrorContains(t, test.formats.Validate(), test.says)
		})
	}
}

func TestFormatsUnpackByValue(t *testing.T) {
	formats, err := Formats{sonyflake}.Append(layoutWidths(0, 41, 2, 8, 12), newYear28)
	require.NoError(t, err)

	// An ID of sonyflake: time, then sequence, then machine.
	at := sonyflake.Layout.Epoch.Add(123456789 * 10 * time.Millisecond)
	parts, err := formats.Unpack(123456789<<24 | 200<<16 | 4711)
	require.NoError(t, err)
	require.Equal(t, Parts{Time: at, Worker: 4711, Sequence: 200}, parts)

	last := Parts{Time: newYear28.Add(time.Hour), Region: 3, Worker: 255, Sequence: 4095}
	id, err := formats[1].Layout.Pack(last)
	require.NoError(t, err)
	parts, err = formats.Unpack(id)
	require.NoError(t, err)
	require.Equal(t, last, parts)

	for _, none := range []ID{0, -1, math.MinInt64} {
		_, err = formats.Unpack(none)
		require.ErrorIs(t, err, ErrInvalidID)
	}
	_, err = formats[1:].Of(formats[1].From - 1)
	require.ErrorIs(t, err, ErrInvalidID)
	format, err := formats.Of(formats[1].From)
	require.NoError(t, err)
	require.Equal(t, formats[1], format)
}

// A span of time is a span of numbers, on both sides of a change and over it.
func TestFormatsRange(t *testing.T) {
	for name, layout := range map[string]Layout{
		"fewer time bits": layoutWidths(0, 40, 3, 8, 12), "more time bits": layoutWidths(0, 42, 2, 8, 11), "coarse": layoutWidths(time.Second, 30, 5, 8, 20),
	} {
		t.Run(name, func(t *testing.T) {
			formats, err := Formats{{Layout: DefaultLayout()}}.Append(layout, newYear28)
			require.NoError(t, err)
			before := ID(0)
			start := formats[1].Start()
			for at := start.Add(-3 * time.Second); at.Before(start.Add(3 * time.Second)); at = at.Add(500 * time.Microsecond) {
				low, err := formats.MinID(at)
				require.NoError(t, err)
				high, err := formats.MaxID(at)
				require.NoError(t, err)
				require.GreaterOrEqual(t, low, before, at)
				require.GreaterOrEqual(t, high+1, low, at)
				before = low
				parts, err := formats.Unpack(low)
				require.NoError(t, err)
				if of, _ := formats.Of(low); of != formats[1] || !at.Before(start) {
					require.False(t, parts.Time.After(at), at)
				}
			}
		})
	}
	_, err := Formats{{Layout: DefaultLayout()}}.MinID(time.Unix(0, 0))
	require.ErrorIs(t, err, ErrBeforeEpoch)
	_, err = Formats{{Layout: DefaultLayout()}}.MaxID(DefaultLayout().End())
	require.ErrorIs(t, err, ErrTimeOverflow)
	_, err = Formats{}.MinID(newYear28)
	require.ErrorContains(t, err, "there are none")
}

// layoutLease is a lease that tells its layout, as a WorkerLease does.
type layoutLease struct {
	*handLease
	layout Layout
}

func (l layoutLease) Layout() Layout { return l.layout }

func grantAround(start time.Time, code int) *handLease {
	return newHandLease(Grant{Code: code, Token: 1, Floor: start.Add(-time.Hour), Ceiling: start.Add(time.Hour)})
}

// At the switch the old writer ends and the new one begins, by whatever clock.
func TestWritersStayInTheirFormat(t *testing.T) {
	formats, err := Formats{{Layout: DefaultLayout()}}.Append(layoutWidths(0, 40, 3, 8, 12), newYear28)
	require.NoError(t, err)
	start := formats[1].Start()
	oldClock, newClock := newHandClock(), newHandClock()
	writer := func(clock *handClock, format Format) *Generator {
		clock.Set(start.Add(-time.Millisecond))
		lease, err := formats.Lease(layoutLease{grantAround(start, 7), format.Layout})
		require.NoError(t, err)
		first := lease.Grant()
		require.Same(t, first, lease.Grant(), "until something changes")
		return newTestGenerator(t, Config{Lease: lease, Clock: clock, MaxWait: -1, MaxAhead: 0})
	}
	old, next := writer(oldClock, formats[0]), writer(newClock, formats[1])

	last := mustNext(t, old)
	for last < formats[1].From {
		id, err := old.Next()
		if err != nil {
			break
		}
		last = id
	}
	require.Less(t, last, formats[1].From)
	_, err = next.Next()
	require.ErrorIs(t, err, ErrClockBehind)
	require.ErrorIs(t, next.Health(), ErrClockBehind)

	oldClock.Set(start)
	newClock.Set(start)
	_, err = old.Next()
	require.ErrorIs(t, err, ErrLeaseLost)
	first := mustNext(t, next)
	require.Greater(t, first, last)
	require.NoError(t, next.Health())
	require.Equal(t, start, mustUnpack(t, formats[1].Layout, first).Time)

	newClock.Set(start.Add(-time.Second)) // a step back
	_, err = next.Next()
	require.ErrorIs(t, err, ErrClockBehind)
}

// Far ahead of the format a lease does not reach it yet.
func TestAFormatThatIsFarAwayIsNoGrant(t *testing.T) {
	formats, err := Formats{{Layout: DefaultLayout()}}.Append(layoutWidths(0, 40, 3, 8, 12), noon.AddDate(1, 0, 0))
	require.NoError(t, err)
	lease, err := formats.Lease(layoutLease{newHandLease(day(7)), formats[1].Layout})
	require.NoError(t, err)
	g := newTestGenerator(t, Config{Lease: lease})
	_, err = g.Next()
	require.ErrorIs(t, err, ErrLeaseLost)
	require.True(t, Retryable(err))
}

func TestWorkerLeasesServeFormats(t *testing.T) {
	clock := newHandClock()
	formats, err := Formats{{Layout: bwmarrin}}.Append(layoutWidths(0, 41, 2, 8, 12), noon)
	require.NoError(t, err)
	held, err := AcquireLease(t.Context(), NewMemoryStore(), LeaseConfig{Layout: formats[1].Layout, Clock: clock})
	require.NoError(t, err)
	lease, err := formats.Lease(held)
	require.NoError(t, err)
	g, err := New(t.Context(), Config{Lease: lease, Clock: clock})
	require.NoError(t, err)
	require.Equal(t, formats[1].Layout, g.Layout())
	require.GreaterOrEqual(t, mustNext(t, g), formats[1].From)
	_, err = New(t.Context(), Config{Lease: lease, Clock: clock})
	require.ErrorIs(t, err, ErrCodeInUse, "one generator for a lease, here too")
	require.NoError(t, g.Close(t.Context()))
	require.ErrorIs(t, held.Err(), ErrClosed, "Close gives the lease back")
	require.Nil(t, lease.Grant())
	_, err = New(t.Context(), Config{Lease: lease, Clock: clock})
	require.ErrorIs(t, err, ErrClosed)
}

func TestStaticCodesServeTheLastFormat(t *testing.T) {
	clock := newHandClock()
	formats, err := Formats{sonyflake}.Append(layoutWidths(0, 41, 2, 8, 12), noon.Add(time.Second))
	require.NoError(t, err)
	lease, err := formats.Lease(StaticLease(7))
	require.NoError(t, err)
	g := newTestGenerator(t, Config{Lease: lease, Clock: clock, HighWater: newMemoryMarks()})
	_, err = g.Next()
	require.ErrorIs(t, err, ErrClockBehind)
	clock.Add(time.Second)
	require.Equal(t, formats[1].From|7<<12, mustNext(t, g))
}

func TestFormatsLeaseRefuses(t *testing.T) {
	formats, err := Formats{{Layout: bwmarrin}}.Append(layoutWidths(0, 41, 2, 8, 12), noon)
	require.NoError(t, err)
	_, err = formats.Lease(nil)
	require.ErrorContains(t, err, "lease is nil")
	_, err = formats.Lease((*WorkerLease)(nil))
	require.ErrorContains(t, err, "lease is nil")
	_, err = formats.Lease(layoutLease{newHandLease(day(7)), DefaultLayout()})
	require.ErrorIs(t, err, ErrLayoutMismatch)
	_, err = Formats{sonyflake}.Lease(StaticLease(7))
	require.ErrorContains(t, err, "WorkerLast")
	_, err = Formats{}.Lease(StaticLease(7))
	require.ErrorContains(t, err, "there are none")
	_, err = formats.Lease(layoutLease{newHandLease(Grant{Code: 7}), bwmarrin})
	require.ErrorContains(t, err, "code 7 has no ceiling")

	// Nor later, when it has become one.
	hand := newHandLease(day(7))
	lease, err := formats.Lease(layoutLease{hand, bwmarrin})
	require.NoError(t, err)
	hand.grant.Store(&Grant{Code: 7})
	require.Nil(t, lease.Grant())
}

func TestParseLayoutReadsWhatStringWrites(t *testing.T) {
	for _, layout := range edgeLayouts {
		parsed, err := ParseLayout(layout.String())
		require.NoError(t, err, layout)
		require.Equal(t, layout.normal(), parsed)
	}
	parsed, err := ParseLayout("epoch=2026-01-01T01:00:00+01:00 bits=41+2+8+12")
	require.NoError(t, err)
	require.Equal(t, DefaultLayout(), parsed)
	for text, says := range map[string]string{
		"":                                    "it must have",
		"epoch=2026-01-01T00:00:00Z":          "it must have",
		"epoch=2026-01-01T00:00:00Z tick=1ms": `"tick=1ms" must begin with "bits="`,
		"epoch=2026-01-01T00:00:00Z tick=0 bits=41+2+8+12":            "the tick is 0",
		"tick=1ms bits=41+2+8+12":                                     `"tick=1ms" must begin with "epoch="`,
		"epoch=2026-01-01T00:00:00Z bits=41+2+8+12 tick=1ms":          `must begin with "tick="`,
		"epoch=2026-01-01T00:00:00Z bits=41+2+8+12+0":                 "the bits are",
		"epoch=2026-01-01T00:00:00Z bits=41+2+8":                      "unexpected EOF",
		"epoch=2026-01-01T00:00:00Z bits=+41+2+8+12":                  "the bits are",
		"epoch=2026-01-01T00:00:00Z bits=41+2+8+13":                   "must be 63",
		"epoch=2026-01-01 bits=41+2+8+12":                             "2026-01-01",
		"epoch=2026-01-01T00:00:00Z tick=1ms tick=1ms bits=41+2+8+12": "it must have",
		"epoch=2026-01-01T00:00:00Z tick=1 bits=41+2+8+12":            "missing unit",
		"epoch=2026-01-01T00:00:00Z tick=2s bits=41+2+8+12":           "Tick is 2s",
	} {
		_, err := ParseLayout(text)
		require.ErrorContains(t, err, says, text)
		require.ErrorContains(t, err, "snowflake: layout", text)
	}
}

func FuzzFormats(f *testing.F) {
	f.Add(newYear28.Unix(), int64(0), int64(time.Millisecond), 41, 2, 8, int64(time.Millisecond), 40, 3, 8)
	f.Add(newYear28.Unix(), int64(1), int64(10*time.Millisecond), 39, 0, 16, int64(time.Millisecond), 41, 2, 8)
	f.Add(newYear28.Unix(), int64(999_999_999), int64(time.Second), 62, 0, 0, int64(1), 33, 0, 30)
	f.Add(int64(epochLimit), int64(7), int64(time.Second), 33, 0, 0, int64(time.Second), 62, 0, 0)
	f.Fuzz(func(t *testing.T, seconds, nanos, oldTick int64, oldTime, oldRegion, oldWorker int, newTick int64, newTime, newRegion, newWorker int) {
		shape := func(tick int64, time_, region, worker int) Layout {
			return Layout{
				Epoch: DefaultLayout().Epoch, Tick: time.Duration(tick),
				TimeBits: time_, RegionBits: region, WorkerBits: worker, SequenceBits: valueBits - time_ - region - worker,
			}
		}
		old := shape(oldTick, oldTime, oldRegion, oldWorker)
		start := time.Unix(seconds, nanos)
		formats, err := Formats{{Layout: old}}.Append(shape(newTick, newTime, newRegion, newWorker), start)
		if err != nil {
			return
		}
		requireOrder(t, formats, start)
		data, err := json.Marshal(formats)
		require.NoError(t, err)
		var read Formats
		require.NoError(t, json.Unmarshal(data, &read))
		require.NoError(t, read.Validate())
		again, err := json.Marshal(read)
		require.NoError(t, err)
		require.Equal(t, data, again)
	})
}

func FuzzParseLayout(f *testing.F) {
	for _, layout := range edgeLayouts {
		f.Add(layout.String())
	}
	f.Fuzz(func(t *testing.T, text string) {
		layout, err := ParseLayout(text)
		if err != nil {
			return
		}
		require.NoError(t, layout.Validate())
		again, err := ParseLayout(layout.String())
		require.NoError(t, err)
		require.Equal(t, layout, again)
	})
}

// A pool of writers begins and ends with its format as a single one does.
func TestPoolKeepsToItsFormat(t *testing.T) {
	f, err := Formats{{Layout: DefaultLayout()}}.Append(
		Layout{TimeBits: 40, RegionBits: 3, WorkerBits: 8, SequenceBits: 12}, time.Now().Add(time.Hour))
	require.NoError(t, err)
	for i, mints := range []bool{true, false} {
		pool, err := NewPool(t.Context(), PoolConfig{Store: NewMemoryStore(), Size: 2, Lease: LeaseConfig{Layout: f[i].Layout}, Formats: f})
		require.NoError(t, err)
		id, err := pool.Next()
		if mints {
			require.NoError(t, err)
			require.Less(t, id, f[1].From)
		} else {
			require.Error(t, err, "its format begins in an hour")
			require.True(t, Retryable(err))
		}
		require.NoError(t, pool.Close(t.Context()))
	}
	_, err = NewPool(t.Context(), PoolConfig{Store: NewMemoryStore(), Size: 2, Lease: LeaseConfig{Layout: codesOf(3)}, Formats: f})
	require.ErrorIs(t, err, ErrLayoutMismatch)
}
