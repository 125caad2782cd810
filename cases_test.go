package snowflake

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Failures that users of other generators reported, as far as no other file has them.

// Three readings of 100, one of 99, three of 100, and no time to wait a millisecond out.
func TestCaseOneReadingGoesBack(t *testing.T) {
	clk := newHandClock()
	g := newTestGenerator(t, Config{Clock: clk, MaxWait: 999 * time.Microsecond})
	ids := newLedger()
	failed := 0
	for _, reading := range []int{100, 100, 100, 99, 100, 100, 100} {
		clk.Set(noon.Add(time.Duration(reading) * time.Millisecond))
		id, err := g.Next()
		if err != nil {
			require.ErrorIs(t, err, ErrClockBehind)
			failed++
			continue
		}
		ids.add(t, "steps", id)
	}
	require.Len(t, ids.seen, 6)
	require.Equal(t, 1, failed)
}

// A saturated generator sleeps: its ticks are short of numbers, not of time. Meanwhile
// callers can be cancelled.
func TestCaseSaturatedForASecond(t *testing.T) {
	layout := DefaultLayout()
	layout.Epoch = layout.Epoch.Add(3 * time.Hour)
	layout.WorkerBits, layout.SequenceBits = 16, 4 // 16 in a tick: little work, much waiting
	g, err := New(t.Context(), Config{Lease: StaticLease(1), HighWater: NoHighWater(), Layout: layout, MaxWait: time.Minute})
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Close(context.Background())) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var callers sync.WaitGroup
	used, began := cpuTime(), time.Now()
	for range 4 {
		callers.Go(func() {
			for ctx.Err() == nil {
				_, _ = g.NextContext(ctx) // the last ones are cancelled
			}
		})
	}
	callers.Wait()
	took := time.Since(began)
	used = cpuTime() - used
	require.Less(t, took, 10*time.Second)
	require.Positive(t, g.Stats().IDs)
	require.Positive(t, g.Stats().Exhausted)
	require.Less(t, used.Seconds()/took.Seconds(), 0.8, "share of a core; spinning would use them all")
}

// Fifty starts at one instant on a folder of leases: fifty codes, fifty distinct first IDs.
func TestCaseFiftyStarts(t *testing.T) {
	if !flockSupported {
		return
	}
	store, err := DirStore(t.TempDir())
	require.NoError(t, err)
	ids := newLedger()
	codes := make(chan int, 50)
	clk := newHandClock() // all of them in one millisecond
	var starts sync.WaitGroup
	for range cap(codes) {
		starts.Go(func() {
			l, err := AcquireLease(t.Context(), store, LeaseConfig{Clock: clk})
			if err != nil {
				t.Error(err)
				return
			}
			g, err := New(t.Context(), Config{Lease: l, Clock: clk})
			if err != nil {
				t.Error(err)
				return
			}
			id, err := g.Next()
			if err != nil {
				t.Error(err)
			}
			ids.add(t, "start", id)
			codes <- l.Grant().Code
			if err := g.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	starts.Wait()
	close(codes)
	seen := make(map[int]bool)
	for code := range codes {
		require.False(t, seen[code], "code %d twice", code)
		seen[code] = true
	}
	require.Len(t, seen, 50)
}

// A batch insert through a hook that sees each row: distinct keys, a preset one is kept,
// and a row that the hook has missed cannot be stored as 0.
func TestCaseBatchInsert(t *testing.T) {
	type row struct{ ID ID }
	g := newTestGenerator(t, Config{})
	rows := make([]row, 100)
	rows[41].ID = 4711
	beforeInsert := func(r *row) {
		if r.ID.IsZero() {
			r.ID = mustNext(t, g)
		}
	}
	_, err := rows[0].ID.Value()
	require.ErrorIs(t, err, ErrInvalidID, "the hook was not called yet")
	ids := newLedger()
	for i := range rows {
		beforeInsert(&rows[i])
		stored, err := rows[i].ID.Value()
		require.NoError(t, err)
		require.NotZero(t, stored)
		ids.add(t, "row", rows[i].ID)
	}
	require.Equal(t, ID(4711), rows[41].ID)
	require.Len(t, ids.seen, 100)
}
