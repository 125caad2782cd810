package snowflake

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// static returns a Config for code 3 on marks and a clock set by hand.
func static(marks HighWaterStore, clk Clock) Config {
	return Config{Lease: StaticLease(3), HighWater: marks, Clock: clk}
}

func TestMarkIsAheadOfUse(t *testing.T) {
	marks, clk := newMemoryMarks(), newHandClock()
	g := newTestGenerator(t, static(marks, clk))
	require.Equal(t, noon.Add(3*time.Second), marks.mark(3), "durable before New returns")
	// Idle or not, every half window.
	for range 10 {
		clk.awaitWaiting(t, 1)
		clk.Add(1500 * time.Millisecond)
		require.Eventually(t, func() bool { return marks.mark(3).Equal(clk.Now().Add(3 * time.Second)) }, 10*time.Second, time.Millisecond)
		id := mustNext(t, g)
		require.True(t, mustUnpack(t, g.layout, id).Time.Before(marks.mark(3)))
	}
}

func TestMarkCannotBeAdvanced(t *testing.T) {
	marks, clk := newMemoryMarks(), newHandClock()
	cfg := static(marks, clk)
	var failed atomic.Int32
	cfg.Hooks = &Hooks{MarkFailed: func(error) { failed.Add(1) }}
	g := newTestGenerator(t, cfg)
	errFull := errors.New("disk full")
	marks.setFail(errFull)
	mark := marks.mark(3)
	clk.awaitWaiting(t, 1)
	clk.Set(mark.Add(-time.Millisecond))
	mustNext(t, g) // the last tick below the mark
	clk.Set(mark)
	require.Eventually(t, func() bool { return failed.Load() > 0 }, 10*time.Second, time.Millisecond)
	_, err := g.Next()
	require.ErrorIs(t, err, ErrHighWater)
	require.ErrorIs(t, err, errFull)
	require.True(t, Retryable(err))
	require.ErrorIs(t, g.Health(), ErrHighWater)
	require.Positive(t, g.Stats().MarkFailures)
	require.Equal(t, mark, marks.mark(3))

	marks.setFail(nil)
	require.Eventually(t, func() bool {
		clk.Add(100 * time.Millisecond)
		return g.Health() == nil
	}, 10*time.Second, time.Millisecond)
	mustNext(t, g)
}

// After a suspend or a step the first claim finds the mark in the past, and does not
// wait for half a window.
func TestMarkIsAdvancedWhenClaimsRunIntoIt(t *testing.T) {
	marks, clk := newMemoryMarks(), newHandClock()
	c := &lazyClock{clk}
	cfg := static(marks, c)
	g := newTestGenerator(t, cfg)
	clk.Add(time.Hour)
	require.Eventually(t, func() bool {
		_, err := g.Next()
		return err == nil
	}, 10*time.Second, time.Millisecond)
	require.Equal(t, clk.Now().Add(3*time.Second), marks.mark(3))
}

// lazyClock never fires by itself.
type lazyClock struct{ *handClock }

func (*lazyClock) After(time.Duration) <-chan time.Time { return make(chan time.Time) }

func TestMarkRestart(t *testing.T) {
	start := func(ctx context.Context, marks *memoryMarks, clk *handClock, window time.Duration) (*Generator, error) {
		cfg := static(marks, clk)
		cfg.Window = window
		return New(ctx, cfg)
	}
	t.Run("a clean close costs nothing", func(t *testing.T) {
		marks, clk := newMemoryMarks(), newHandClock()
		g, err := start(t.Context(), marks, clk, 0)
		require.NoError(t, err)
		last := mustNext(t, g)
		require.NoError(t, g.Close(t.Context()))
		require.Equal(t, noon.Add(time.Millisecond), marks.mark(3), "just above the last tick that was claimed")
		clk.Add(time.Millisecond)
		g, err = start(t.Context(), marks, clk, 0)
		require.NoError(t, err)
		require.Greater(t, mustNext(t, g), last)
		require.NoError(t, g.Close(t.Context()))
	})
	t.Run("a close without a claim leaves the mark as it was opened", func(t *testing.T) {
		marks, clk := newMemoryMarks(), newHandClock()
		marks.marks[3] = noon.Add(-time.Hour)
		g, err := start(t.Context(), marks, clk, 0)
		require.NoError(t, err)
		require.NoError(t, g.Close(t.Context()))
		require.Equal(t, noon.Add(-time.Hour), marks.mark(3))
	})
	t.Run("a crash costs at most MaxAhead + Window", func(t *testing.T) {
		marks, clk := newMemoryMarks(), newHandClock()
		marks.marks[3] = noon.Add(3 * time.Second)
		done := make(chan error)
		go func() {
			g, err := start(context.Background(), marks, clk, 0)
			if err == nil {
				_, err = g.Next()
				err = errors.Join(err, g.Close(context.Background()))
			}
			done <- err
		}()
		clk.awaitWaiting(t, 1)
		clk.Add(3 * time.Second)
		require.NoError(t, <-done)
	})
	t.Run("ten minutes behind is refused at once", func(t *testing.T) {
		marks, clk := newMemoryMarks(), newHandClock()
		marks.marks[3] = noon.Add(10 * time.Minute)
		g, err := start(t.Context(), marks, clk, 0)
		require.Nil(t, g)
		require.ErrorIs(t, err, ErrHighWater)
		require.True(t, Retryable(err))
		require.ErrorContains(t, err, "10m0s ahead of the clock, more than MaxAhead + Window = 3s")
		require.Empty(t, marks.owners, "and the code is free again")
		require.Equal(t, noon.Add(10*time.Minute), marks.mark(3))
	})
	t.Run("its context ends first", func(t *testing.T) {
		marks, clk := newMemoryMarks(), newHandClock()
		marks.marks[3] = noon.Add(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := start(ctx, marks, clk, 0)
		require.ErrorIs(t, err, ErrHighWater)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, marks.owners)
	})
	t.Run("a clock that stands still", func(t *testing.T) {
		marks, clk := newMemoryMarks(), newHandClock()
		marks.marks[3] = noon.Add(20 * time.Millisecond)
		_, err := start(t.Context(), marks, clk, 20*time.Millisecond)
		require.ErrorIs(t, err, ErrHighWater)
		require.ErrorContains(t, err, "does not get there")
	})
	t.Run("in use", func(t *testing.T) {
		marks, clk := newMemoryMarks(), newHandClock()
		newTestGenerator(t, static(marks, clk))
		_, err := start(t.Context(), marks, clk, 0)
		require.ErrorIs(t, err, ErrCodeInUse)
	})
}

// An owner that was superseded has room up to its own mark, which the next owner begins
// at; then it stops for good.
func TestMarkSuperseded(t *testing.T) {
	marks, clk := newMemoryMarks(), newHandClock()
	cfg := static(marks, clk)
	conflicts := make(chan error, 10)
	cfg.Hooks = &Hooks{MarkFailed: func(err error) { conflicts <- err }}
	g, err := New(t.Context(), cfg)
	require.NoError(t, err)
	ids := newLedger()
	ids.add(t, "old", fill(t, g, 10)...)
	mark := marks.mark(3)
	clk.awaitWaiting(t, 1)
	marks.kill(3)
	other := newHandClock()
	other.Set(mark)
	successor := newTestGenerator(t, static(marks, other))
	ids.add(t, "new", fill(t, successor, 10)...)
	clk.Add(2 * time.Second)
	require.ErrorIs(t, <-conflicts, ErrConflict)
	ids.add(t, "old", fill(t, g, 10)...)
	clk.Set(mark)
	_, err = g.Next()
	require.ErrorIs(t, err, ErrHighWater)
	require.ErrorIs(t, err, ErrConflict)
	require.False(t, Retryable(err))
	require.ErrorIs(t, g.Close(t.Context()), ErrConflict)
	require.False(t, marks.mark(3).Before(mark))
}

func TestNoHighWater(t *testing.T) {
	before := runtime.NumGoroutine()
	g := newTestGenerator(t, static(NoHighWater(), newHandClock()))
	require.Equal(t, 3, mustUnpack(t, g.layout, mustNext(t, g)).Worker)
	require.True(t, g.Stats().Ceiling.IsZero())
	awaitGoroutines(t, before)

	// Beside a ceiling it does nothing.
	ceiling := newTestGenerator(t, Config{HighWater: NoHighWater(), MaxAhead: time.Second})
	mustNext(t, ceiling)
}

func TestMarkKeeperEndsWithClose(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 10 {
		g, err := New(t.Context(), static(newMemoryMarks(), newHandClock()))
		require.NoError(t, err)
		require.NoError(t, g.Close(t.Context()))
	}
	awaitGoroutines(t, before)
}
