package snowflaketest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/snowfence/snowflake"
	"github.com/stretchr/testify/require"
)

// TestLeaseStore checks that a store keeps the contract of snowflake.LeaseStore. open
// is called once for each case, must return a store without any records, and may
// register what to do at the end with t.Cleanup. If the store has Time, it must tell
// the time of this machine within some minutes.
func TestLeaseStore(t *testing.T, open func(t *testing.T) snowflake.LeaseStore) {
	t.Helper()
	TestLeaseStoreShared(t, func(t *testing.T) (a, b snowflake.LeaseStore) {
		t.Helper()
		s := open(t)
		return s, s
	})
}

// TestLeaseStoreShared is TestLeaseStore for a store of which open returns two handles:
// what is written through one is read through the other, and both are in use at once,
// as two processes would use them.
func TestLeaseStoreShared(t *testing.T, open func(t *testing.T) (a, b snowflake.LeaseStore)) {
	t.Helper()
	for _, c := range leaseCases {
		t.Run(c.name, func(t *testing.T) {
			a, b := open(t)
			c.run(t, handles{t, a, b})
		})
	}
}

// leaseCase checks one rule, which is its name.
type leaseCase struct {
	name string
	run  func(tb testing.TB, s handles)
}

var leaseCases = []leaseCase{
	{"a region without records is an empty list", emptyRegion},
	{"the store sets the version, higher with every write", versionsRise},
	{"what Swap acknowledged Records shows from then on, through every handle", readsAreCurrent},
	{"what was returned is the caller's own", returnsCopies},
	{"Swap needs the stored version and nonce, else ErrConflict, and writes nothing", conflictsWriteNothing},
	{"nonces are compared byte by byte", noncesAreExact},
	{"every field comes back exactly as it was written", fieldsAreExact},
	{"regions and workers do not mix", recordsDoNotMix},
	{"after the end of its context a call returns the context's error, and writes nothing", endedContext},
	{"Time, if the store has it, is the present", timeIsThePresent},
	{"of many first writers one succeeds, and the others get ErrConflict", oneFirstWriter},
	{"of many writers each succeeds once, one after the other", eachWriterOnce},
	{"any history of calls, of which some are cut short, is linearizable", linearizable},
	{"200 acquisitions at one instant get 200 codes", acquireAtOnce},
	{"no requests and answers that are lost or late give a code to two owners", acquireThroughLosses},
	{"cut off, a lease is suspended at its deadline, and heals on the code that it had", cutOffAndReturn},
}

// handles is a storage without records: what is written to a is read from b.
type handles struct {
	tb   testing.TB
	a, b snowflake.LeaseStore
}

// swap writes through a.
func (s handles) swap(old, new snowflake.Record) snowflake.Record {
	s.tb.Helper()
	stored, err := s.a.Swap(s.tb.Context(), old, new)
	require.NoError(s.tb, err)
	return normal(stored)
}

// records reads through b, in the order of workers.
func (s handles) records(region int) []snowflake.Record {
	s.tb.Helper()
	all, err := s.b.Records(s.tb.Context(), region)
	require.NoError(s.tb, err)
	all = append([]snowflake.Record{}, all...)
	for i := range all {
		all[i] = normal(all[i])
	}
	slices.SortFunc(all, func(a, b snowflake.Record) int { return a.Worker - b.Worker })
	return all
}

// normal makes equal records look equal: the zone of an instant is nobody's business.
func normal(r snowflake.Record) snowflake.Record {
	r.Ceiling = r.Ceiling.Round(0).UTC()
	return r
}

// nonce returns one as AcquireLease makes them, different for each n.
func nonce(n int) string { return fmt.Sprintf("%032x", n+1) }

var (
	noon        = time.Date(2030, time.June, 1, 12, 0, 0, 0, time.UTC)
	layoutText  = snowflake.DefaultLayout().String()
	someRecord  = snowflake.Record{Worker: 3, Owner: "host/17", Nonce: nonce(0), Token: 1, Ceiling: noon, Layout: layoutText}
	absentThree = snowflake.Record{Worker: 3}
)

func emptyRegion(tb testing.TB, s handles) {
	tb.Helper()
	require.Empty(tb, s.records(0))
	require.Empty(tb, s.records(3))
}

func versionsRise(tb testing.TB, s handles) {
	tb.Helper()
	mine := someRecord
	mine.Version = 1 << 40 // is the store's to set
	old := absentThree
	for i := range 20 {
		mine.Token, mine.Nonce = uint64(i), nonce(i/3) // a renewal keeps the nonce
		got := s.swap(old, mine)
		require.Greater(tb, got.Version, old.Version)
		require.LessOrEqual(tb, got.Version, uint64(math.MaxInt64))
		require.NotEqual(tb, mine.Version, got.Version, "the version is the store's, not the caller's")
		want := mine
		want.Version = got.Version
		require.Equal(tb, want, got, "the record as stored")
		require.Equal(tb, []snowflake.Record{got}, s.records(0), "Records tells the version that Swap told")
		old = got
	}
}

func readsAreCurrent(tb testing.TB, s handles) {
	tb.Helper()
	old := absentThree
	for i := range 100 {
		next := someRecord
		next.Token = uint64(i)
		old = s.swap(old, next)
		require.Equal(tb, []snowflake.Record{old}, s.records(0), "write %d", i)
		s.a, s.b = s.b, s.a
	}
}

func returnsCopies(tb testing.TB, s handles) {
	tb.Helper()
	s.swap(absentThree, someRecord)
	all, err := s.b.Records(tb.Context(), 0)
	require.NoError(tb, err)
	require.Len(tb, all, 1)
	all[0].Nonce = "changed"
	require.Equal(tb, someRecord.Nonce, s.records(0)[0].Nonce)
}

func conflictsWriteNothing(tb testing.TB, s handles) {
	tb.Helper()
	first := s.swap(absentThree, someRecord)
	renewed := someRecord
	renewed.Ceiling = noon.Add(time.Minute)
	second := s.swap(first, renewed)
	taken := renewed
	taken.Nonce, taken.Token = nonce(1), 2
	now := s.swap(second, taken)

	present := func(worker int, version uint64, nonce string) snowflake.Record {
		return snowflake.Record{Worker: worker, Version: version, Nonce: nonce}
	}
	for name, old := range map[string]snowflake.Record{
		"as if there were none":                         absentThree,
		"the record before":                             second,
		"the record before that":                        first,
		"the version before, with the nonce":            present(3, second.Version, now.Nonce),
		"the version to come, with the nonce":           present(3, now.Version+1, now.Nonce),
		"the first version, with the nonce":             present(3, 1, now.Nonce),
		"no version, with the nonce":                    present(3, 0, now.Nonce),
		"the version, with the nonce of the one before": present(3, now.Version, second.Nonce),
		"the version, with another nonce":               present(3, now.Version, nonce(99)),
		"the version, without a nonce":                  present(3, now.Version, ""),
		"a record where there is none":                  present(4, now.Version, now.Nonce),
		"a nonce where there is no record":              present(4, 0, now.Nonce),
		"a version where there is no record":            present(4, 1, ""),
	} {
		next := taken
		next.Worker, next.Nonce, next.Token, next.Owner = old.Worker, nonce(2), 3, "stale"
		_, err := s.a.Swap(tb.Context(), old, next)
		require.ErrorIs(tb, err, snowflake.ErrConflict, name)
		require.Equal(tb, []snowflake.Record{now}, s.records(0), "%s: nothing was written", name)
	}
	s.swap(now, taken) // and the record can still be written by its owner
}

func noncesAreExact(tb testing.TB, s handles) {
	tb.Helper()
	mine := someRecord
	mine.Nonce = "abcdef0123456789"
	now := s.swap(absentThree, mine)
	for _, other := range []string{
		"ABCDEF0123456789", "Abcdef0123456789", "abcdef0123456789 ", " abcdef0123456789", "abcdef012345678", "abcdef01234567890",
		"abcdef0123456789\n", "%", "abcdef%", "________________", "*", "' or 'a'='a",
	} {
		old := now
		old.Nonce = other
		_, err := s.a.Swap(tb.Context(), old, someRecord)
		require.ErrorIs(tb, err, snowflake.ErrConflict, "%q", other)
	}
	require.Equal(tb, []snowflake.Record{now}, s.records(0))
}

func fieldsAreExact(tb testing.TB, s handles) {
	tb.Helper()
	const widest = 1<<30 - 1 // region and worker have at most 30 bits together
	farLayout := snowflake.Layout{
		Epoch: time.Date(2261, 12, 31, 23, 59, 59, 999999999, time.UTC), Tick: 999999999,
		TimeBits: 22, RegionBits: 11, WorkerBits: 11, SequenceBits: 19,
	}
	for name, r := range map[string]snowflake.Record{
		"nothing but a nonce":          {},
		"the layout record":            {Region: 2, Worker: -1, Owner: "me", Layout: layoutText},
		"the longest layout":           {Layout: farLayout.String()},
		"highest region":               {Region: widest},
		"highest worker":               {Worker: widest},
		"highest token":                {Token: math.MaxInt64},
		"a token beyond 2^53":          {Token: 1<<53 + 1},
		"released":                     {Released: true, Token: 1},
		"a longest owner":              {Owner: strings.Repeat("x", 255)},
		"a longest owner not in ASCII": {Owner: strings.Repeat("\U0001f600", 63) + "é"},
		"quotes":                       {Owner: `"a" 'b' ` + "`c`" + ` \ \\ \n \x00 %s %d $1 ? ; -- /* {{.}} <a> &amp; ` + `"`},
		"all of it quoted":             {Owner: `"host/17"`},
		"line breaks":                  {Owner: "\na\r\nb\tc\r"},
		"control characters":           {Owner: "\x00 \x01 \x1b[31m \x7f"},
		"spaces":                       {Owner: "  a  "},
		"not ASCII":                    {Owner: "größe 漢字 \u2028 \u202e \ufffd \ufeff e\u0301 \U0001f600"},
		"a separator or two":           {Owner: "a|b,c;d:e=f/g\x1fh"},
		"numbers and words":            {Owner: "null"},
		"nanoseconds":                  {Ceiling: noon.Add(123456789)},
		"almost a second":              {Ceiling: noon.Add(999999999)},
		"half a microsecond":           {Ceiling: noon.Add(500)},
		"a tick of 3 ns past 2^53":     {Ceiling: time.Unix(0, 1<<61+1)},
		"the start of 1970":            {Ceiling: time.Unix(0, 0)},
		"one ns after that":            {Ceiling: time.Unix(0, 1)},
		"the last instant there is":    {Ceiling: time.Date(2261, 12, 31, 23, 59, 59, 999999999, time.UTC)},
		"an hour that a zone repeats":  {Ceiling: time.Date(2030, 10, 27, 0, 30, 0, 1e6, time.UTC)},
		"an hour that a zone skips":    {Ceiling: time.Date(2030, 3, 31, 2, 30, 0, 1e6, time.UTC)},
		"in another zone":              {Ceiling: noon.In(time.FixedZone("far", 14*3600))},
		"with a monotonic reading":     {Ceiling: time.Now()},
	} {
		r.Nonce = nonce(0)
		old := snowflake.Record{Region: r.Region, Worker: r.Worker}
		for _, now := range s.records(r.Region) { // of a row before
			if now.Worker == r.Worker {
				old = now
			}
		}
		got := s.swap(old, r)
		require.True(tb, r.Ceiling.Equal(got.Ceiling), "%s: %v", name, got.Ceiling)
		require.Equal(tb, r.Ceiling.IsZero(), got.Ceiling.IsZero(), name)
		want := normal(r)
		want.Version = got.Version
		require.Equal(tb, want, got, "%s: as Swap returns it", name)
		require.Contains(tb, s.records(r.Region), want, "%s: as Records returns it", name)
		// And so once more in place of a record, which may be another statement.
		got = s.swap(got, r)
		want.Version = got.Version
		require.Equal(tb, want, got, "%s: as Swap returns it over another", name)
		require.Contains(tb, s.records(r.Region), want, "%s: as Records returns it over another", name)
	}
	// An owner may be any bytes; it is for people, and need not come back as bytes. All
	// else does.
	r := someRecord
	r.Worker, r.Owner = 77, "\xff\xfe\x80 \xed\xa0\x80"
	got := s.swap(snowflake.Record{Worker: 77}, r)
	for _, shown := range append(s.records(0), got) {
		if shown.Worker == 77 {
			r.Owner, r.Version = shown.Owner, got.Version
			require.Equal(tb, r, shown)
		}
	}
}

func recordsDoNotMix(tb testing.TB, s handles) {
	tb.Helper()
	regions, workers := []int{0, 1, 2, 10, 11, 111}, []int{-1, 0, 1, 2, 9, 10, 11, 111, 1000}
	want := make(map[int][]snowflake.Record)
	for i, region := range regions {
		for j, worker := range slices.Backward(workers) {
			want[region] = append(want[region], s.swap(
				snowflake.Record{Region: region, Worker: worker},
				snowflake.Record{Region: region, Worker: worker, Nonce: nonce(i*100 + j)},
			))
		}
		slices.Reverse(want[region])
	}
	for _, region := range regions {
		require.Equal(tb, want[region], s.records(region), "region %d", region)
	}
	require.Empty(tb, s.records(3))
	require.Empty(tb, s.records(1111))

	// A write changes its own record only.
	next := want[1][2]
	next.Owner = "me"
	want[1][2] = s.swap(next, next)
	for _, region := range regions {
		require.Equal(tb, want[region], s.records(region), "region %d", region)
	}
}

func endedContext(tb testing.TB, s handles) {
	tb.Helper()
	cancelled, cancel := context.WithCancel(tb.Context())
	cancel()
	late, cancel := context.WithDeadline(tb.Context(), time.Now().Add(-time.Second))
	defer cancel()
	check := func(old, new snowflake.Record, want []snowflake.Record) {
		tb.Helper()
		for ended, reason := range map[context.Context]error{cancelled: context.Canceled, late: context.DeadlineExceeded} {
			_, err := s.a.Swap(ended, old, new)
			require.ErrorIs(tb, err, reason)
			require.NotErrorIs(tb, err, snowflake.ErrConflict)
			_, err = s.a.Records(ended, 0)
			require.ErrorIs(tb, err, reason)
			require.Equal(tb, want, s.records(0), "nothing was written")
		}
	}
	check(absentThree, someRecord, []snowflake.Record{})
	now := s.swap(absentThree, someRecord)
	next := now
	next.Token++
	check(now, next, []snowflake.Record{now})
}

func timeIsThePresent(tb testing.TB, s handles) {
	tb.Helper()
	const tolerance = 10 * time.Minute // less than any zone's offset, or mistaken unit
	for _, h := range []snowflake.LeaseStore{s.a, s.b} {
		store, tells := h.(interface {
			Time(ctx context.Context) (time.Time, error)
		})
		if !tells {
			continue
		}
		before := time.Now()
		first, err := store.Time(tb.Context())
		require.NoError(tb, err)
		require.WithinDuration(tb, before, first, tolerance)
		time.Sleep(20 * time.Millisecond) // the resolution may be a few of them
		second, err := store.Time(tb.Context())
		require.NoError(tb, err)
		passed := time.Since(before)
		require.True(tb, second.After(first), "it moves: %v, %v", first, second)
		require.LessOrEqual(tb, second.Sub(first), passed+time.Second, "no faster than time")
		ended, cancel := context.WithCancel(tb.Context())
		cancel()
		_, err = store.Time(ended)
		require.ErrorIs(tb, err, context.Canceled)
	}
}

func oneFirstWriter(tb testing.TB, s handles) {
	tb.Helper()
	const writers = 50
	var group sync.WaitGroup
	won := make(chan snowflake.Record, writers)
	for i := range writers {
		group.Go(func() {
			store := []snowflake.LeaseStore{s.a, s.b}[i%2]
			r, err := store.Swap(tb.Context(), absentThree, snowflake.Record{Worker: 3, Nonce: nonce(i)})
			switch {
			case err == nil:
				won <- normal(r)
			case !errors.Is(err, snowflake.ErrConflict):
				tb.Errorf("writer %d: %v", i, err)
			}
		})
	}
	group.Wait()
	require.Len(tb, won, 1, "successes")
	require.Equal(tb, []snowflake.Record{<-won}, s.records(0))
}

func eachWriterOnce(tb testing.TB, s handles) {
	tb.Helper()
	const writers = 24
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			store := []snowflake.LeaseStore{s.a, s.b}[i%2]
			if err := countUp(tb.Context(), store, nonce(i)); err != nil {
				tb.Errorf("writer %d: %v", i, err)
			}
		})
	}
	group.Wait()
	all := s.records(0)
	require.Len(tb, all, 1)
	require.EqualValues(tb, writers, all[0].Token, "each write was made on top of the one before")
}

// countUp adds one to the token of worker 3, whatever others do.
func countUp(ctx context.Context, s snowflake.LeaseStore, nonce string) error {
	for {
		all, err := s.Records(ctx, 0)
		if err != nil {
			return err
		}
		old := absentThree
		for _, r := range all {
			if r.Worker == old.Worker {
				old = r
			}
		}
		_, err = s.Swap(ctx, old, snowflake.Record{Worker: old.Worker, Nonce: nonce, Token: old.Token + 1})
		if !errors.Is(err, snowflake.ErrConflict) {
			return err
		}
	}
}
