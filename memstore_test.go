package snowflake

import (
	"context"
	"errors"
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMemoryStore(t *testing.T) {
	testLeaseStore(t, func(*testing.T) LeaseStore { return NewMemoryStore() })
}

// testLeaseStore checks what LeaseStore says, for the stores of this package.
func testLeaseStore(t *testing.T, open func(*testing.T) LeaseStore) {
	swap := func(t *testing.T, s LeaseStore, old, new Record) Record {
		t.Helper()
		stored, err := s.Swap(t.Context(), old, new)
		require.NoError(t, err)
		return stored
	}
	records := func(t *testing.T, s LeaseStore, region int) []Record {
		t.Helper()
		all, err := s.Records(t.Context(), region)
		require.NoError(t, err)
		return all
	}
	at := time.Date(2030, time.June, 1, 12, 0, 0, 0, time.UTC)
	first := Record{Worker: 3, Owner: "me", Nonce: "n1", Token: 1, Ceiling: at, Layout: "L"}

	t.Run("tells no time and does not forget", func(t *testing.T) {
		s := open(t)
		_, tells := s.(storeClock)
		require.False(t, tells)
		_, forgets := s.(forgetful)
		require.False(t, forgets)
	})
	t.Run("a region without records", func(t *testing.T) {
		require.Empty(t, records(t, open(t), 3))
	})
	t.Run("the version is the store's", func(t *testing.T) {
		s := open(t)
		mine := first
		mine.Version = 99
		got := swap(t, s, Record{Worker: 3}, mine)
		want := first
		want.Version = 1
		require.Equal(t, want, got)
		require.Equal(t, []Record{want}, records(t, s, 0))

		mine.Nonce, mine.Version = "n2", 0
		got = swap(t, s, got, mine)
		require.EqualValues(t, 2, got.Version)
		require.Equal(t, []Record{got}, records(t, s, 0))
	})
	t.Run("every record of the region and no other", func(t *testing.T) {
		s := open(t)
		var want []Record
		for _, region := range []int{0, 1, 10} {
			for _, worker := range []int{255, 2, -1, 10, 0} {
				r := swap(t, s, Record{Region: region, Worker: worker}, Record{Region: region, Worker: worker, Nonce: "n"})
				if region == 1 {
					want = append(want, r)
				}
			}
		}
		require.ElementsMatch(t, want, records(t, s, 1))
	})
	t.Run("what was returned is a copy", func(t *testing.T) {
		s := open(t)
		swap(t, s, Record{Worker: 3}, first)
		records(t, s, 0)[0].Nonce = "changed"
		require.Equal(t, "n1", records(t, s, 0)[0].Nonce)
	})
	t.Run("conflicts change nothing", func(t *testing.T) {
		s := open(t)
		old := swap(t, s, Record{Worker: 3}, first)
		now := swap(t, s, old, first)
		for name, stale := range map[string]Record{
			"no record":                  {Worker: 3},
			"older version":              old,
			"version to come":            {Worker: 3, Version: now.Version + 1, Nonce: now.Nonce},
			"another nonce":              {Worker: 3, Version: now.Version, Nonce: "n2"},
			"no nonce":                   {Worker: 3, Version: now.Version},
			"no version":                 {Worker: 3, Nonce: now.Nonce},
			"of a worker without record": {Worker: 4, Version: now.Version, Nonce: now.Nonce},
			"nonce without record":       {Worker: 4, Nonce: now.Nonce},
			"version beyond all":         {Worker: 3, Version: math.MaxUint64, Nonce: now.Nonce},
		} {
			got, err := s.Swap(t.Context(), stale, Record{Worker: stale.Worker, Nonce: "n3"})
			require.ErrorIs(t, err, ErrConflict, name)
			require.Zero(t, got, name)
		}
		require.Equal(t, []Record{now}, records(t, s, 0))
	})
	t.Run("values at their extremes", func(t *testing.T) {
		layout := DefaultLayout().String()
		for name, r := range map[string]Record{
			"zero":         {},
			"highest":      {Region: math.MaxInt32, Worker: math.MaxInt32, Token: math.MaxInt64, Released: true},
			"layout":       {Worker: -1, Nonce: "n", Layout: layout},
			"line breaks":  {Owner: "a\nb\r\n\x00\"'`\\", Nonce: "\n", Layout: "\"\n"},
			"bytes":        {Owner: "\xff\xfe\x80", Nonce: "\xc0\x80", Layout: "\xed\xa0\x80"},
			"not ASCII":    {Owner: "größe \u2028 \ufffd \U0001f600", Nonce: "\u202e", Layout: "é"},
			"spaces":       {Owner: "  a  ", Nonce: " ", Layout: "\t"},
			"long":         {Owner: string(make([]byte, 4096))},
			"nanoseconds":  {Ceiling: at.Add(123456789)},
			"year 9999":    {Ceiling: time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)},
			"before 1970":  {Ceiling: time.Date(1969, 12, 31, 23, 59, 59, 1, time.UTC)},
			"another zone": {Ceiling: at.In(time.FixedZone("far", 14*3600))},
			"monotonic":    {Ceiling: time.Now()},
		} {
			s := open(t)
			got := swap(t, s, Record{Region: r.Region, Worker: r.Worker}, r)
			require.True(t, r.Ceiling.Equal(got.Ceiling), "%s: %v", name, got.Ceiling)
			require.Equal(t, r.Ceiling.IsZero(), got.Ceiling.IsZero(), name)
			r.Version, r.Ceiling = 1, got.Ceiling
			require.Equal(t, r, got, name)
			require.Equal(t, []Record{r}, records(t, s, r.Region), name)
		}
	})
	t.Run("no record needs no name", func(t *testing.T) {
		s := open(t)
		got := swap(t, s, Record{}, Record{Region: 2, Worker: 5, Nonce: "n"})
		require.Equal(t, []Record{got}, records(t, s, 2))
	})
	t.Run("what cannot be is refused", func(t *testing.T) {
		s := open(t)
		for name, row := range map[string]struct{ old, new Record }{
			"negative region":  {Record{Region: -1}, Record{Region: -1}},
			"negative worker":  {Record{Worker: -2}, Record{Worker: -2}},
			"other region":     {Record{Region: 1, Version: 1, Nonce: "n"}, Record{}},
			"other worker":     {Record{Worker: 1, Version: 1, Nonce: "n"}, Record{}},
			"token beyond all": {Record{}, Record{Token: math.MaxInt64 + 1}},
		} {
			got, err := s.Swap(t.Context(), row.old, row.new)
			require.Error(t, err, name)
			require.NotErrorIs(t, err, ErrConflict, name)
			require.Zero(t, got, name)
		}
		require.Empty(t, records(t, s, 0))
		_, err := s.Records(t.Context(), -1)
		require.Error(t, err)
	})
	t.Run("a context that has ended", func(t *testing.T) {
		s := open(t)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.Swap(ended, Record{Worker: 3}, first)
		require.ErrorIs(t, err, context.Canceled)
		_, err = s.Records(ended, 0)
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, records(t, s, 0), "nothing was written")
	})
	t.Run("of 50 at once each gets a turn", func(t *testing.T) {
		s := open(t)
		var group sync.WaitGroup
		for i := range 50 {
			group.Go(func() {
				if err := countUp(t.Context(), s, 3, strconv.Itoa(i)); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		require.EqualValues(t, 50, records(t, s, 0)[0].Token)
		require.EqualValues(t, 50, records(t, s, 0)[0].Version)
	})
	t.Run("of 50 first ones at once one succeeds", func(t *testing.T) {
		s := open(t)
		var group sync.WaitGroup
		won := make(chan Record, 50)
		for i := range 50 {
			group.Go(func() {
				if r, err := s.Swap(t.Context(), Record{Worker: 3}, Record{Worker: 3, Nonce: strconv.Itoa(i)}); err == nil {
					won <- r
				}
			})
		}
		group.Wait()
		require.Len(t, won, 1)
		require.Equal(t, []Record{<-won}, records(t, s, 0))
	})
}

// countUp adds one to the token of a record of region 0, whatever others do.
func countUp(ctx context.Context, s LeaseStore, worker int, nonce string) error {
	for {
		all, err := s.Records(ctx, 0)
		if err != nil {
			return err
		}
		old := Record{Worker: worker}
		for _, r := range all {
			if r.Worker == worker {
				old = r
			}
		}
		_, err = s.Swap(ctx, old, Record{Worker: worker, Nonce: nonce, Token: old.Token + 1})
		if !errors.Is(err, ErrConflict) {
			return err
		}
	}
}

func TestVersionsDoNotWrap(t *testing.T) {
	stored := Record{Worker: 3, Nonce: "n", Version: math.MaxInt64 - 1}
	next, err := compareAndSwap(stored, stored, Record{Worker: 3, Nonce: "n"})
	require.NoError(t, err)
	require.Equal(t, uint64(math.MaxInt64), next.Version)
	_, err = compareAndSwap(next, next, Record{Worker: 3, Nonce: "n"})
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrConflict)
}
