package main

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake"
)

// However small the memory, the same entries come out, in order.
func TestSorterSorts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 2, 3, 4, 5, 63, 64, 65, 300} {
		for _, buffer := range []int{2, 3, 7, 100, 1000} {
			s, err := newSorter(t.TempDir(), int64(buffer)*entrySize)
			require.NoError(t, err)
			s.fanIn = 3
			want := make([]entry, n)
			for i := range want {
				want[i] = entry{snowflake.ID(random.Int64N(int64(n)*2) + 1), int64(i)}
				if i%10 == 0 {
					want[i].id = snowflake.ID(random.Uint64() >> 1)
				}
				require.NoError(t, s.add(want[i]))
				require.LessOrEqual(t, cap(s.buffer), buffer)
			}
			for _, level := range s.levels {
				require.Less(t, len(level), s.fanIn)
			}
			slices.SortFunc(want, entry.compare)
			got := make([]entry, 0, n)
			require.NoError(t, s.each(func(e entry) error {
				got = append(got, e)
				return nil
			}))
			require.Equal(t, want, got)
			require.NoError(t, s.close())
			require.NoDirExists(t, s.dir)
		}
	}
}

func TestSorterTellsOfTheDisk(t *testing.T) {
	spilled := func() *sorter {
		s, err := newSorter(t.TempDir(), 2*entrySize)
		require.NoError(t, err)
		for i := range 9 {
			require.NoError(t, s.add(entry{snowflake.ID(100 - i), int64(1000 + i)}))
		}
		return s
	}
	ignore := func(entry) error { return nil }

	cut := spilled()
	require.NoError(t, os.Truncate(cut.levels[0][1], 2))
	require.ErrorIs(t, cut.each(ignore), io.ErrUnexpectedEOF)

	gone := spilled()
	require.NoError(t, os.Remove(gone.levels[0][0]))
	require.ErrorIs(t, gone.each(ignore), os.ErrNotExist)

	full := spilled()
	require.NoError(t, full.close())
	require.Error(t, full.spill())

	stop := errors.New("stop")
	require.ErrorIs(t, spilled().each(func(entry) error { return stop }), stop)
	_, err := newSorter("/does/not/exist", 0)
	require.Error(t, err)
}
