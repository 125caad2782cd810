package snowflaketest

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/snowfence/snowflake"
	"github.com/stretchr/testify/require"
)

func newLedger(t *testing.T) *Ledger {
	t.Helper()
	l, err := NewLedger(snowflake.DefaultLayout())
	require.NoError(t, err)
	return l
}

func idAt(t *testing.T, ms, worker, sequence int) snowflake.ID {
	t.Helper()
	id, err := snowflake.DefaultLayout().Pack(snowflake.Parts{
		Time: noon.Add(time.Duration(ms) * time.Millisecond), Worker: worker, Sequence: sequence,
	})
	require.NoError(t, err)
	return id
}

func TestLedgerFindsRepeats(t *testing.T) {
	_, err := NewLedger(snowflake.Layout{})
	require.Error(t, err)
	l := newLedger(t)
	for _, sequence := range []int{5, 7, 6, 0, 4095, 8, 4} {
		require.NoError(t, l.Add("one", idAt(t, 0, 1, sequence)))
	}
	require.NoError(t, l.Add("two", idAt(t, 1, 1, 5), idAt(t, 0, 2, 5), idAt(t, 0, 1, 9)))
	require.Equal(t, 10, l.Len())
	require.NoError(t, l.Err())
	for _, sequence := range []int{0, 4, 5, 6, 7, 8, 4095} {
		id := idAt(t, 0, 1, sequence)
		require.EqualError(t, l.Add("three", id), fmt.Sprintf("snowflaketest: %d of three was given to one before", id))
	}
	require.ErrorContains(t, l.Add("three", idAt(t, 0, 1, 9)), "given to two")
	require.ErrorContains(t, l.Add("three", idAt(t, 0, 1, 10), idAt(t, 0, 1, 10)), "given to three")
	require.ErrorContains(t, l.Err(), idAt(t, 0, 1, 0).String(), "the first")
	for _, id := range []snowflake.ID{0, -1} {
		require.ErrorIs(t, l.Add("three", id), snowflake.ErrInvalidID)
	}
	require.Equal(t, 11, l.Len())
}

func TestLedgerFindsWhatWasNotGranted(t *testing.T) {
	grant := snowflake.Grant{Code: 1, Floor: noon, Ceiling: noon.Add(10 * time.Millisecond)}
	l := newLedger(t)
	require.NoError(t, l.AddGranted("me", grant, idAt(t, 0, 1, 0), idAt(t, 9, 1, 4095)))
	require.ErrorContains(t, l.AddGranted("me", grant, idAt(t, -1, 1, 4095)), "the floor 2030-06-01T12:00:00Z")
	require.ErrorContains(t, l.AddGranted("me", grant, idAt(t, 10, 1, 0)), "the ceiling 2030-06-01T12:00:00.01Z")
	require.ErrorContains(t, l.AddGranted("me", grant, idAt(t, 5, 2, 0)), "its code is 2, not 1")
	require.ErrorContains(t, l.AddGranted("me", grant, idAt(t, 0, 1, 0)), "was given to me before")
	require.ErrorContains(t, l.Err(), "the floor")
	require.NoError(t, l.AddGranted("me", snowflake.Grant{Code: 2}, idAt(t, 5, 2, 0)), "no floor and no ceiling")
	require.Equal(t, 3, l.Len())
}

// What the ledger says is what a plain set says.
func TestLedgerAgreesWithASet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	l := newLedger(t)
	set := make(map[snowflake.ID]bool)
	for range 20000 {
		id := idAt(t, random.IntN(3), random.IntN(2), random.IntN(4096))
		err := l.Add(strconv.Itoa(random.IntN(2)), id)
		require.Equal(t, set[id], err != nil, id)
		set[id] = true
	}
	require.Equal(t, len(set), l.Len())
}

func TestLedgerIsSafeForConcurrentUse(t *testing.T) {
	l := newLedger(t)
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for sequence := range 2000 {
				_ = l.Add("me", idAt(t, 0, worker%4, sequence)) // one of two gets an error
			}
		})
	}
	group.Wait()
	require.Equal(t, 4*2000, l.Len())
	require.Error(t, l.Err())
}

func TestLedgerIsCompact(t *testing.T) {
	const ticks = 1000
	memory := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := memory()
	l := newLedger(t)
	ids := make([]snowflake.ID, 4096)
	for ms := range ticks {
		first := idAt(t, ms, 1, 0)
		for i := range ids {
			ids[i] = first + snowflake.ID(i)
		}
		require.NoError(t, l.Add("me", ids...))
	}
	used := memory() - before
	require.Equal(t, ticks*4096, l.Len())
	require.Less(t, used, uint64(ticks*200), "bytes for %d IDs", l.Len())
	runtime.KeepAlive(l)
}
