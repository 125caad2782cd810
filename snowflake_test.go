package snowflake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/require"
)

// The clocks that tests of services use are Clocks as they are.
var (
	_ Clock = clock.New()
	_ Clock = clock.NewMock()
)

func TestNewRefuses(t *testing.T) {
	huge := DefaultLayout()
	huge.SequenceBits++
	future := DefaultLayout()
	future.Epoch = noon.Add(time.Second)
	past := DefaultLayout()
	past.Epoch = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	past.TimeBits, past.SequenceBits = 35, 18 // a year
	ceiling := day(1)
	high := day(1024)
	for name, test := range map[string]struct {
		cfg  Config
		is   error
		says []string
	}{
		"no lease":                 {cfg: Config{}, says: []string{"Config.Lease is nil"}},
		"typed nil lease":          {cfg: Config{Lease: (*WorkerLease)(nil)}, says: []string{"Config.Lease is nil"}},
		"static without a mark":    {cfg: Config{Lease: StaticLease(1)}, says: []string{"Config.HighWater is required"}},
		"code too high":            {cfg: Config{Lease: StaticLease(1024), HighWater: NoHighWater()}, says: []string{"1024", "0 to 1023"}},
		"code negative":            {cfg: Config{Lease: StaticLease(-1), HighWater: NoHighWater()}, says: []string{"-1", "0 to 1023"}},
		"code of a lease too high": {cfg: Config{Lease: newHandLease(high)}, says: []string{"1024", "0 to 1023"}},
		"mark beside a ceiling":    {cfg: Config{Lease: newHandLease(ceiling), HighWater: newMemoryMarks()}, says: []string{"Config.HighWater", "leave it nil"}},
		"MaxAhead with no mark":    {cfg: Config{Lease: StaticLease(1), HighWater: NoHighWater(), MaxAhead: 1}, says: []string{"Config.MaxAhead is 1ns", "must be 0"}},
		"MaxAhead negative":        {cfg: Config{Lease: newHandLease(ceiling), MaxAhead: -1}, says: []string{"Config.MaxAhead is -1ns", "0 to 24h"}},
		"MaxAhead too long":        {cfg: Config{Lease: newHandLease(ceiling), MaxAhead: 25 * time.Hour}, says: []string{"Config.MaxAhead is 25h", "0 to 24h"}},
		"Window too short":         {cfg: Config{Lease: newHandLease(ceiling), Window: time.Millisecond}, says: []string{"Config.Window is 1ms", "10ms"}},
		"Window negative":          {cfg: Config{Lease: newHandLease(ceiling), Window: -1}, says: []string{"Config.Window is -1ns"}},
		"layout":                   {cfg: Config{Lease: newHandLease(ceiling), Layout: huge}, says: []string{"64", "63"}},
		"epoch in the future":      {cfg: Config{Lease: newHandLease(ceiling), Layout: future}, is: ErrBeforeEpoch, says: []string{"2030-06-01T12:00:01Z"}},
		"layout has ended":         {cfg: Config{Lease: newHandLease(ceiling), Layout: past}, is: ErrTimeOverflow, says: []string{"1971"}},
		"nothing held":             {cfg: Config{Lease: &handLease{}}, is: ErrLeaseLost},
	} {
		t.Run(name, func(t *testing.T) {
			test.cfg.Clock = newHandClock()
			g, err := New(t.Context(), test.cfg)
			require.Error(t, err)
			require.Nil(t, g)
			if test.is != nil {
				require.ErrorIs(t, err, test.is)
			}
			for _, part := range test.says {
				require.ErrorContains(t, err, part)
			}
		})
	}
	t.Run("ended context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := New(ctx, Config{Lease: newHandLease(ceiling), Clock: newHandClock()})
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestLayoutComesFromTheLease(t *testing.T) {
	clk := newHandClock()
	layout := smallLayout()
	acquire := func() *WorkerLease {
		l, err := AcquireLease(t.Context(), NewMemoryStore(), LeaseConfig{Layout: layout, Clock: clk})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, l.Close(context.Background())) })
		return l
	}
	g := newTestGenerator(t, Config{Lease: acquire(), Clock: clk})
	require.Equal(t, layout.String(), g.Layout().String())
	_, err := New(t.Context(), Config{Lease: acquire(), Clock: clk, Layout: DefaultLayout()})
	require.ErrorIs(t, err, ErrLayoutMismatch)
	require.Equal(t, DefaultLayout().String(), newTestGenerator(t, Config{}).Layout().String())
}

func TestTwoLayoutsInOneProcess(t *testing.T) {
	a, b := newTestGenerator(t, Config{}), newTestGenerator(t, Config{Layout: smallLayout(), MaxAhead: time.Hour})
	var both sync.WaitGroup
	for _, g := range []*Generator{a, b} {
		both.Go(func() {
			for range 1000 {
				id, err := g.Next()
				if err != nil {
					t.Error(err)
					return
				}
				p, err := g.Layout().Unpack(id)
				if err != nil || p.Worker != 7 || p.Time.Before(noon) {
					t.Errorf("%+v: %v", p, err)
				}
			}
		})
	}
	both.Wait()
}

func TestOneGeneratorForEachCode(t *testing.T) {
	layout := DefaultLayout()
	layout.Epoch = layout.Epoch.Add(time.Hour) // a space of this test's own
	cfg := Config{Lease: StaticLease(5), HighWater: NoHighWater(), Layout: layout, MaxWait: time.Second}
	g, err := New(t.Context(), cfg)
	require.NoError(t, err)
	_, err = New(t.Context(), cfg)
	require.ErrorIs(t, err, ErrCodeInUse)
	require.False(t, Retryable(err))

	other := cfg
	other.Lease = StaticLease(6)
	h, err := New(t.Context(), other)
	require.NoError(t, err, "another code is free")
	require.NoError(t, h.Close(t.Context()))

	// After Close the next one goes on above what was claimed, without a mark.
	ids := newLedger()
	for range 20 {
		ids.add(t, "closed", fill(t, g, 4096)...)
		last := g.Stats().Last
		require.NoError(t, g.Close(t.Context()))
		g, err = New(t.Context(), cfg)
		require.NoError(t, err)
		first := mustNext(t, g)
		ids.add(t, "reopened", first)
		require.True(t, mustUnpack(t, layout, first).Time.After(last))
	}
	require.NoError(t, g.Close(t.Context()))

	t.Run("a failed New gives the code back", func(t *testing.T) {
		marks := newMemoryMarks()
		marks.setFail(errors.New("disk full"))
		cfg.HighWater = marks
		_, err := New(t.Context(), cfg)
		require.ErrorIs(t, err, ErrHighWater)
		require.ErrorContains(t, err, "disk full")
		marks.setFail(nil)
		g, err := New(t.Context(), cfg)
		require.NoError(t, err)
		require.NoError(t, g.Close(t.Context()))
	})
	t.Run("an injected clock is another timeline", func(t *testing.T) {
		cfg.HighWater, cfg.Clock = NoHighWater(), newHandClock()
		a, err := New(t.Context(), cfg)
		require.NoError(t, err)
		b, err := New(t.Context(), cfg)
		require.NoError(t, err)
		require.NoError(t, errors.Join(a.Close(t.Context()), b.Close(t.Context())))
	})
}

func TestOneGeneratorForEachLease(t *testing.T) {
	clk := newHandClock()
	lease, err := AcquireLease(t.Context(), NewMemoryStore(), LeaseConfig{Clock: clk})
	require.NoError(t, err)
	_, err = New(t.Context(), Config{Lease: lease, Clock: clk, HighWater: newMemoryMarks()})
	require.Error(t, err, "refused, so the lease stays the caller's")
	newTestGenerator(t, Config{Lease: lease, Clock: clk})
	_, err = New(t.Context(), Config{Lease: lease, Clock: clk})
	require.ErrorIs(t, err, ErrCodeInUse)
}

func TestClose(t *testing.T) {
	clk := newHandClock()
	lease := newHandLease(day(7))
	g, err := New(t.Context(), Config{Lease: lease, Clock: clk})
	require.NoError(t, err)
	mustNext(t, g)
	require.NoError(t, g.Close(t.Context()))
	require.Equal(t, noon.Add(time.Millisecond), <-lease.released, "just above the last tick that was claimed")
	require.NoError(t, g.Close(t.Context()), "again: no effect")
	require.Empty(t, lease.released)
	_, err = g.Next()
	require.ErrorIs(t, err, ErrClosed)
	_, err = g.NextContext(t.Context())
	require.ErrorIs(t, err, ErrClosed)
	n, err := g.Fill(t.Context(), make([]ID, 3))
	require.ErrorIs(t, err, ErrClosed)
	require.Zero(t, n)
	require.ErrorIs(t, g.Health(), ErrClosed)
	require.EqualValues(t, 3, g.Stats().Errors.Closed)

	t.Run("though its lease never ends, and its tick has room", func(t *testing.T) {
		g, err := New(t.Context(), static(NoHighWater(), clk))
		require.NoError(t, err)
		mustNext(t, g)
		mustNext(t, g)
		require.NoError(t, g.Close(t.Context()))
		_, err = g.Next()
		require.ErrorIs(t, err, ErrClosed)
	})
	t.Run("nothing claimed", func(t *testing.T) {
		lease := newHandLease(day(7))
		g, err := New(t.Context(), Config{Lease: lease, Clock: clk})
		require.NoError(t, err)
		require.NoError(t, g.Close(t.Context()))
		require.False(t, (<-lease.released).After(noon), "the lease clamps it to its floor")
	})
	t.Run("waiting callers get ErrClosed", func(t *testing.T) {
		g, err := New(t.Context(), Config{Lease: newHandLease(day(7)), Clock: clk, MaxWait: time.Hour})
		require.NoError(t, err)
		fill(t, g, 4096)
		before := clk.waiting()
		refused := make(chan error)
		for range 3 {
			go func() {
				_, err := g.Next()
				refused <- err
			}()
		}
		clk.awaitWaiting(t, before+3)
		require.NoError(t, g.Close(t.Context()))
		for range 3 {
			require.ErrorIs(t, <-refused, ErrClosed)
		}
		require.EqualValues(t, 4096, g.Stats().IDs, "claimed, but not handed out")
	})
	t.Run("ends with its context though the lease does not", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			lease := hangingLease{newHandLease(day(7)), make(chan struct{})}
			g, err := New(context.Background(), Config{Lease: lease, Clock: newHandClock()})
			require.NoError(t, err)
			began := time.Now()
			require.ErrorIs(t, g.Close(context.Background()), context.DeadlineExceeded)
			require.InDelta(t, closeLimit.Seconds(), time.Since(began).Seconds(), 0.1)
			close(lease.answer)
		})
	})
}

type hangingLease struct {
	*handLease
	answer chan struct{}
}

func (l hangingLease) Release(context.Context, time.Time) error {
	<-l.answer
	return nil
}

func TestWaitsAreCancellable(t *testing.T) {
	for name, cfg := range map[string]Config{
		"injected clock": {MaxWait: time.Hour, Clock: newHandClock()},
		"system clock":   {MaxWait: time.Hour, Lease: newHandLease(Grant{Code: 1, Floor: time.Now().Add(time.Hour), Ceiling: time.Now().Add(2 * time.Hour)}), Clock: SystemClock()},
	} {
		t.Run(name, func(t *testing.T) {
			g := newTestGenerator(t, cfg)
			if name == "injected clock" {
				fill(t, g, 4096)
			}
			g.maxWait = 2 * time.Hour
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() {
				_, err := g.NextContext(ctx)
				done <- err
			}()
			require.Eventually(t, func() bool { return g.Stats().Ahead > 0 }, 10*time.Second, time.Millisecond)
			cancel()
			require.ErrorIs(t, <-done, context.Canceled)
			require.EqualValues(t, 1, g.Stats().Errors.Canceled)
			_, err := g.NextContext(ctx)
			require.ErrorIs(t, err, context.Canceled, "an ended context claims nothing")
		})
	}
}

// A clock that never fires: the call ends within its budget of real time.
func TestClockThatNeverMoves(t *testing.T) {
	for name, c := range map[string]Clock{
		"never fires":   newHandClock(),
		"mock":          mockAt(noon),
		"fires at once": eagerClock{newHandClock()},
	} {
		t.Run(name, func(t *testing.T) {
			g := newTestGenerator(t, Config{Clock: c})
			fill(t, g, 4096)
			began := time.Now()
			_, err := g.Next()
			require.ErrorIs(t, err, ErrClockBehind)
			require.ErrorIs(t, err, ErrSaturated)
			require.True(t, Retryable(err))
			require.Less(t, time.Since(began), 5*time.Second)
			n, err := g.Fill(t.Context(), make([]ID, 10))
			require.ErrorIs(t, err, ErrClockBehind)
			require.Zero(t, n)
		})
	}
}

func mockAt(now time.Time) *clock.Mock {
	m := clock.NewMock()
	m.Set(now)
	return m
}

// eagerClock fires at once, but does not move: nothing may spin on it.
type eagerClock struct{ *handClock }

func (eagerClock) After(time.Duration) <-chan time.Time {
	c := make(chan time.Time, 1)
	c <- time.Time{}
	return c
}

func TestClockStepsWhileWaiting(t *testing.T) {
	start := func(t *testing.T, maxWait time.Duration) (*handClock, *Generator, chan error) {
		clk := newHandClock()
		g := newTestGenerator(t, Config{Clock: clk, MaxWait: maxWait})
		fill(t, g, 4096)
		done := make(chan error, 1)
		go func() {
			_, err := g.Next()
			done <- err
		}()
		clk.awaitWaiting(t, 1)
		return clk, g, done
	}
	t.Run("back, within the budget: waited out", func(t *testing.T) {
		clk, _, done := start(t, time.Hour)
		clk.fireAt(noon.Add(time.Millisecond), noon.Add(-time.Second))
		clk.awaitWaiting(t, 1)
		clk.Set(noon.Add(time.Millisecond))
		require.NoError(t, <-done)
	})
	t.Run("back, beyond the budget: an error, and a gap", func(t *testing.T) {
		clk, g, done := start(t, 500*time.Millisecond)
		clk.fireAt(noon.Add(time.Millisecond), noon.Add(-time.Hour))
		err := <-done
		require.ErrorIs(t, err, ErrClockBehind)
		require.NotErrorIs(t, err, ErrSaturated)
		clk.Set(noon.Add(time.Millisecond))
		require.Equal(t, 1, mustUnpack(t, g.layout, mustNext(t, g)).Sequence, "the slot of the other is lost")
	})
	t.Run("the grant goes meanwhile", func(t *testing.T) {
		for name, next := range map[string]*Grant{"to nobody": nil, "to another token": {Code: 7, Token: 2, Ceiling: noon.Add(time.Hour)}} {
			clk, g, done := start(t, time.Hour)
			g.lease.(*handLease).grant.Store(next)
			clk.Add(time.Millisecond)
			require.ErrorIs(t, <-done, ErrLeaseLost, name)
		}
	})
}

// fireAt fires what is due at fire, on a clock that then reads now.
func (c *handClock) fireAt(fire, now time.Time) {
	c.mu.Lock()
	for i := range c.alarms {
		if !c.alarms[i].at.After(fire) {
			c.alarms[i].c <- now
			c.alarms[i].at = fire.Add(1000 * time.Hour)
		}
	}
	c.alarms = nil
	c.now = now
	c.mu.Unlock()
}

func TestFill(t *testing.T) {
	clk := newHandClock()
	g := newTestGenerator(t, Config{Clock: clk, MaxWait: -1})
	ids := newLedger()
	ids.add(t, "fill", fill(t, g, 100)...)
	n, err := g.Fill(t.Context(), nil)
	require.NoError(t, err)
	require.Zero(t, n)

	// Over ticks, whatever MaxWait is.
	many := make([]ID, 10_000)
	done := make(chan error)
	go func() {
		_, err := g.Fill(context.Background(), many)
		done <- err
	}()
	for range 2 {
		clk.awaitWaiting(t, 1)
		clk.Add(time.Millisecond)
	}
	require.NoError(t, <-done)
	ids.add(t, "fill", many...)
	for i := range many[1:] {
		require.Greater(t, many[i+1], many[i])
	}

	// A filled prefix is valid.
	part := make([]ID, 10_000)
	ctx, cancel := context.WithCancel(t.Context())
	type result struct {
		n   int
		err error
	}
	filled := make(chan result)
	go func() {
		n, err := g.Fill(ctx, part)
		filled <- result{n, err}
	}()
	clk.awaitWaiting(t, 1)
	cancel()
	r := <-filled
	require.ErrorIs(t, r.err, context.Canceled)
	require.Equal(t, 3*4096-10_100, r.n)
	ids.add(t, "prefix", part[:r.n]...)

	clk.Add(-time.Second)
	n, err = g.Fill(t.Context(), part)
	require.ErrorIs(t, err, ErrClockBehind, "a clock that went back is not waited for")
	require.Zero(t, n)
}

func TestSystemClock(t *testing.T) {
	layout := DefaultLayout()
	layout.Epoch = layout.Epoch.Add(2 * time.Hour)
	layout.WorkerBits, layout.SequenceBits = 14, 6 // ticks that are soon full
	g, err := New(t.Context(), Config{Lease: StaticLease(9), HighWater: NoHighWater(), Layout: layout, MaxWait: time.Second})
	require.NoError(t, err)
	before := runtime.NumGoroutine()
	ids := newLedger()
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			batch := make([]ID, 0, 512)
			for range cap(batch) {
				id, err := g.Next()
				if err != nil {
					t.Error(err)
					return
				}
				batch = append(batch, id)
			}
			ids.add(t, "system", batch...)
		})
	}
	callers.Wait()
	require.Len(t, ids.seen, 8*512)
	p := mustUnpack(t, layout, mustNext(t, g))
	require.WithinDuration(t, time.Now(), p.Time, 5*time.Second)
	require.Positive(t, g.Stats().Exhausted)
	awaitGoroutines(t, before) // nothing runs while nobody waits
	require.NoError(t, g.Close(t.Context()))
}

// awaitGoroutines returns once no more than n goroutines run.
func awaitGoroutines(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, want %d:\n%s", runtime.NumGoroutine(), n, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// The twins of one clock tell the same.
func TestWallClockTwins(t *testing.T) {
	for range 1000 {
		low := time.Now().UnixNano()
		fast := wallNanos()
		high := portableWallNanos()
		// The vDSO's microseconds are cut off.
		if fast < low-int64(time.Microsecond) || fast > high+int64(time.Microsecond) {
			if high >= low { // else the clock was stepped
				t.Fatalf("%d is not between %d and %d", fast, low, high)
			}
		}
	}
	first := SystemClock().(elapser).Elapsed()
	require.GreaterOrEqual(t, SystemClock().(elapser).Elapsed(), first)
	require.Positive(t, first)
}

func TestPreciseTimer(t *testing.T) {
	timer := newPreciseTimer()
	defer timer.close()
	for _, d := range []time.Duration{1, time.Microsecond, 300 * time.Microsecond, 2 * time.Millisecond} {
		began := time.Now()
		timer.sleep(d)
		require.GreaterOrEqual(t, time.Since(began), d)
	}
}

func TestWaitRoom(t *testing.T) {
	r := newWaitRoom()
	a, b := r.join(100, time.Hour), r.join(50, time.Hour)
	require.Equal(t, a, r.join(100, time.Hour), "callers of one tick share a wakeup")
	require.NotEqual(t, a, b)
	<-r.join(1, time.Millisecond) // an earlier one comes first
	<-r.join(1, 0)
	r.stop()
	require.False(t, r.sleeping)
}

func TestHealthAndStats(t *testing.T) {
	clk := newHandClock()
	var health []error
	var saturated []time.Duration
	g := newTestGenerator(t, Config{Clock: clk, MaxAhead: 2 * time.Millisecond, MaxWait: -1, Hooks: &Hooks{
		HealthChanged: func(err error) { health = append(health, err) },
		Saturated:     func(d time.Duration) { saturated = append(saturated, d) },
	}})
	empty := g.Stats()
	require.Equal(t, 7, empty.Code)
	require.Zero(t, empty.Last)
	fill(t, g, 3*4096) // this tick and the two that may be borrowed
	_, err := g.Next()
	require.ErrorIs(t, err, ErrSaturated)
	require.NoError(t, g.Health())
	require.Empty(t, health)
	require.Len(t, saturated, 1)

	stats := g.Stats()
	require.EqualValues(t, 3*4096, stats.IDs)
	require.EqualValues(t, 3*4096, stats.Waits[0], "none has waited")
	require.EqualValues(t, 3, stats.Exhausted)
	require.Equal(t, 2*time.Millisecond, stats.Ahead)
	require.Equal(t, 7, stats.Code)
	require.EqualValues(t, 1, stats.Token)
	require.Equal(t, noon, stats.Floor)
	require.Equal(t, noon.Add(24*time.Hour), stats.Ceiling)
	require.Equal(t, 24*time.Hour, stats.Room)
	require.Equal(t, noon.Add(2*time.Millisecond), stats.Last)
	require.Equal(t, DefaultLayout().End().Sub(noon), stats.EpochRemaining)
	require.Equal(t, ErrorStats{Saturated: 1}, stats.Errors)
	require.NoError(t, stats.Health)

	// Health looks for itself, and tells, though nobody asks for IDs.
	clk.Set(noon.Add(24 * time.Hour))
	require.ErrorIs(t, g.Health(), ErrLeaseLost)
	require.Len(t, health, 1)
	require.ErrorIs(t, g.Stats().Health, ErrLeaseLost)
	require.Len(t, health, 1)
	clk.Set(noon.Add(25 * time.Hour))
	require.Equal(t, -time.Hour, g.Stats().Room)
	clk.Set(noon.Add(time.Hour))
	require.NoError(t, g.Health(), "the clock was wrong, and no ID came of it")
	require.Len(t, health, 2)
	require.EqualValues(t, 1, g.Stats().Rollbacks)
	fill(t, g, 3*4096)
	_, err = g.Next()
	require.ErrorIs(t, err, ErrSaturated, "not the clock's fault, though it was once ahead")
	require.NoError(t, g.Health())
}

func TestWaitsAreCounted(t *testing.T) {
	clk := newHandClock()
	g := newTestGenerator(t, Config{Clock: clk, MaxWait: time.Hour})
	fill(t, g, 4096)
	done := make(chan error)
	go func() {
		_, err := g.Next()
		done <- err
	}()
	clk.awaitWaiting(t, 1)
	clk.Add(time.Millisecond)
	require.NoError(t, <-done)
	stats := g.Stats()
	require.EqualValues(t, 4096, stats.Waits[0])
	require.EqualValues(t, 1, stats.Waits[3])
	require.Equal(t, time.Millisecond, WaitBounds()[3])
	require.Equal(t, time.Millisecond, stats.WaitSum)
}

func TestReportDuplicate(t *testing.T) {
	var reported []ID
	var parts []Parts
	g := newTestGenerator(t, Config{Hooks: &Hooks{DuplicateReported: func(id ID, p Parts) {
		reported, parts = append(reported, id), append(parts, p)
	}}})
	id := mustNext(t, g)
	g.ReportDuplicate(id)
	g.ReportDuplicate(-1)
	require.Equal(t, []ID{id, -1}, reported)
	require.Equal(t, []Parts{{Time: noon, Worker: 7}, {}}, parts)
	require.EqualValues(t, 2, g.Stats().Duplicates)
}

func TestLogHooks(t *testing.T) {
	var log bytes.Buffer
	h := LogHooks(slog.New(slog.NewTextHandler(&log, nil))).filled()
	lease := &LeaseError{Region: 1, Worker: 2, Holder: "host/1", Until: noon, Err: ErrLeaseLost}
	h.ClockBehind(&ClockError{Behind: time.Second, MaxWait: time.Millisecond})
	h.Saturated(time.Millisecond)
	h.Saturated(time.Millisecond)
	h.HealthChanged(ErrLeaseLost)
	h.HealthChanged(nil)
	h.LeaseAcquired(day(7))
	h.RenewFailed(errCut)
	h.LeaseLost(lease)
	h.StoreForgot(lease)
	h.MarkFailed(errCut)
	h.EpochEnding(time.Hour)
	h.DuplicateReported(5, Parts{Worker: 3})
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 11, "saturation once a second")
	for i, want := range []string{
		"clock behind\" behind=1s max_wait=1ms", "saturated\" wait=1ms", "unhealthy\" error=", "healthy\"", "lease acquired\" code=7 token=1 floor=",
		"lease renewal failed\" error=\"cut off\"", "lease lost\" region=1 worker=2 holder=host/1 until=2030", "forgot an acknowledged write\" region=1",
		"mark not advanced\" error=", "epoch ending\" left=1h0m0s", "duplicate key reported\" id=5 minted=",
	} {
		require.Contains(t, lines[i], want)
	}
	require.NotNil(t, LogHooks(nil))
}

// A reader of JSON gets the digits of the ID, and no key twice: "time" is the record's.
func TestLogHooksInJSON(t *testing.T) {
	const id = ID(1<<53 + 1)
	var log bytes.Buffer
	h := LogHooks(slog.New(slog.NewJSONHandler(&log, nil)))
	h.DuplicateReported(id, Parts{Time: noon, Region: 1, Worker: 2, Sequence: 3})
	require.Equal(t, 1, strings.Count(log.String(), `"time":`))
	var line map[string]any
	require.NoError(t, json.Unmarshal(log.Bytes(), &line))
	delete(line, "time")
	require.Equal(t, map[string]any{
		"level": "ERROR", "msg": "snowflake: duplicate key reported", "id": id.String(), "minted": noon.Format(time.RFC3339Nano),
		"region": 1.0, "worker": 2.0, "sequence": 3.0,
	}, line)
}

func TestSizeOfGenerator(t *testing.T) {
	const channel = 112
	size := unsafe.Sizeof(Generator{}) + unsafe.Sizeof(waitRoom{}) + channel
	require.LessOrEqual(t, size, uintptr(1024))
}
