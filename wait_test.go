package snowflake

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The goroutine that sleeps for the callers lingers, so that one serves many ticks, and is
// then gone.
func TestWaitRoomLingers(t *testing.T) {
	r := newWaitRoom()
	running := func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.sleeping
	}
	for range 3 {
		<-r.join(1, time.Millisecond)
		require.Eventually(t, func() bool { return !running() }, 10*time.Second, time.Millisecond)
		r.ended.Wait()
	}
	<-r.join(2, time.Millisecond)
	r.stop()
	require.False(t, running())
}

// stop wakes who waits, and who comes later does not wait.
func TestWaitRoomStopWakesAll(*testing.T) {
	r := newWaitRoom()
	soon, late := r.join(1, 5*time.Millisecond), r.join(2, time.Hour)
	r.stop()
	<-soon
	<-late
	<-r.join(3, time.Hour)
}

// A call without a context is woken by Close like one that has one.
func TestCloseWakesWhoeverWaitsOnTheSystemClock(t *testing.T) {
	for _, ctx := range []context.Context{context.Background(), t.Context()} {
		g := newTestGenerator(t, Config{Clock: SystemClock(), MaxWait: time.Hour, Lease: newHandLease(Grant{
			Code: 1, Token: 1, Floor: time.Now().Add(time.Minute), Ceiling: time.Now().Add(time.Hour),
		})})
		failed := make(chan error, 1)
		go func() {
			_, err := g.NextContext(ctx)
			failed <- err
		}()
		require.Eventually(t, func() bool {
			g.room.mu.Lock()
			defer g.room.mu.Unlock()
			return len(g.room.queue) == 1
		}, 10*time.Second, time.Millisecond)
		require.NoError(t, g.Close(t.Context()))
		require.ErrorIs(t, <-failed, ErrClosed)
	}
}

// Who has used MaxAhead up is woken for several ticks at once, never for longer than it may
// wait; who waits for a clock that went back, or may not run ahead, at once.
func TestDueGathersTicks(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		ahead  time.Duration
		tick   time.Duration // of the claim, after noon
		behind time.Duration
		limit  time.Duration
		want   time.Duration // of the wakeup, after noon
	}{
		"strict":                       {0, 1 * ms, 0, time.Hour, 1 * ms},
		"a quarter of MaxAhead":        {10 * ms, 11 * ms, 0, time.Hour, 2500 * time.Microsecond},
		"on the spot":                  {8 * ms, 12 * ms, 0, time.Hour, 4 * ms},
		"the clock went back":          {10 * ms, 11 * ms, ms, time.Hour, 1 * ms},
		"no longer than it may":        {10 * ms, 11 * ms, 0, 2 * ms, 1 * ms},
		"exactly as long as it may":    {10 * ms, 11 * ms, 0, 2500 * time.Microsecond, 2500 * time.Microsecond},
		"a quarter is a tick":          {4 * ms, 5 * ms, 0, time.Hour, 1 * ms},
		"a day ahead: not by hours":    {24 * time.Hour, 24*time.Hour + ms, 0, time.Hour, 5 * ms},
		"a day ahead: nor by a little": {24 * time.Hour, 24*time.Hour + 6*ms, 0, time.Hour, 10 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			lease := day(7)
			lease.Ceiling = noon.Add(72 * time.Hour)
			g := newTestGenerator(t, Config{MaxAhead: c.ahead, Lease: newHandLease(lease)})
			wait := c.tick - c.ahead // it is noon
			at, in := g.due(claim{
				tick: g.frame.floorTick(nanos(noon.Add(c.tick))), wait: int64(wait), limit: int64(c.limit), behind: int64(c.behind),
			}, wait)
			require.Equal(t, c.want, in)
			require.Equal(t, nanos(noon.Add(c.want)), at)
		})
	}
}

// A claim that waits is no ID yet. Counters that go back look to a monitoring system like a
// restart.
func TestCountersNeverFall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newHandClock()
		g, err := New(t.Context(), Config{Lease: StaticLease(1), HighWater: NoHighWater(), Clock: clock, MaxWait: time.Minute})
		require.NoError(t, err)
		for range 4096 {
			mustNext(t, g)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		wait := func(ctx context.Context) {
			_, err := g.NextContext(ctx)
			ended <- err
		}
		waited := func() (n uint64) {
			stats := g.Stats()
			for _, count := range stats.Waits[1:] {
				n += count
			}
			return n
		}
		go wait(ctx)
		synctest.Wait()
		require.EqualValues(t, 4096, g.Stats().IDs, "somebody waits")
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.EqualValues(t, 4096, g.Stats().IDs)
		require.Zero(t, waited())

		go wait(t.Context())
		synctest.Wait()
		clock.Set(noon.Add(time.Millisecond))
		require.NoError(t, <-ended)
		require.EqualValues(t, 4097, g.Stats().IDs)
		require.EqualValues(t, 1, waited())
	})
}
