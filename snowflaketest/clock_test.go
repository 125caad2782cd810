package snowflaketest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/snowfence/snowflake"
	"github.com/stretchr/testify/require"
)

func fired(c <-chan time.Time) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestClock(t *testing.T) {
	for name, row := range map[string]struct {
		move          func(*Clock)
		wall, elapsed time.Duration // since the start
	}{
		"stands still":     {func(*Clock) {}, 0, 0},
		"time passes":      {func(c *Clock) { c.Add(time.Second) }, time.Second, time.Second},
		"step forward":     {func(c *Clock) { c.Step(time.Hour) }, time.Hour, 0},
		"step back":        {func(c *Clock) { c.Step(-time.Hour) }, -time.Hour, 0},
		"set forward":      {func(c *Clock) { c.Set(noon.Add(time.Minute)) }, time.Minute, time.Minute},
		"set back":         {func(c *Clock) { c.Set(noon.Add(-time.Minute)) }, -time.Minute, 0},
		"frozen":           {func(c *Clock) { c.Freeze(true); c.Add(time.Second) }, 0, time.Second},
		"frozen and set":   {func(c *Clock) { c.Freeze(true); c.Set(noon.Add(time.Second)) }, time.Second, time.Second},
		"no longer frozen": {func(c *Clock) { c.Freeze(true); c.Add(time.Second); c.Freeze(false); c.Add(time.Minute) }, time.Minute, time.Second + time.Minute},
	} {
		c := NewClock(noon)
		row.move(c)
		require.Equal(t, noon.Add(row.wall), c.Now(), name)
		require.Equal(t, row.elapsed, c.Elapsed(), name)
	}
	require.Panics(t, func() { NewClock(noon).Add(-1) })
	started := NewClock(time.Now())
	require.Equal(t, started.Now().Round(0), started.Now(), "no monotonic reading, which would not move")
}

func TestClockAfter(t *testing.T) {
	c := NewClock(noon)
	require.True(t, fired(c.After(0)))
	require.True(t, fired(c.After(-1)))
	second, minute, never := c.After(time.Second), c.After(time.Minute), c.After(1<<63-1)
	require.Equal(t, 3, c.Waiting())
	c.Step(time.Hour)
	c.Add(time.Second - 1)
	require.False(t, fired(second), "a step is not time")
	c.Add(1)
	require.True(t, fired(second))
	require.False(t, fired(minute))
	require.Equal(t, 2, c.Waiting())
	c.Freeze(true)
	c.Add(time.Hour)
	require.True(t, fired(minute), "time passes on a frozen clock")
	c.Add(1000 * time.Hour)
	require.False(t, fired(never))
}

func TestClockBlockUntil(t *testing.T) {
	c := NewClock(noon)
	require.NoError(t, c.BlockUntil(t.Context(), 0))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.BlockUntil(ended, 1), context.Canceled)
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() { <-c.After(time.Second) })
	}
	require.NoError(t, c.BlockUntil(t.Context(), 10))
	c.Add(time.Second)
	group.Wait()
	require.Zero(t, c.Waiting())
}

// A generator on a Clock does what it does on a real one.
func TestGeneratorOnClock(t *testing.T) {
	c := NewClock(noon)
	l, err := snowflake.AcquireLease(t.Context(), snowflake.NewMemoryStore(), snowflake.LeaseConfig{Clock: c})
	require.NoError(t, err)
	g, err := snowflake.New(t.Context(), snowflake.Config{Lease: l, Clock: c})
	require.NoError(t, err)
	first, err := g.Next()
	require.NoError(t, err)
	c.Step(-2 * time.Second)
	_, err = g.Next()
	require.ErrorIs(t, err, snowflake.ErrClockBehind)
	c.Add(2 * time.Second)
	second, err := g.Next()
	require.NoError(t, err)
	require.Equal(t, first+1, second)
	require.NoError(t, g.Close(t.Context()))
}
