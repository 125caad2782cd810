package snowflake

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A caller that has claimed joins the wait room while Close waits for it to end:
// "sync: WaitGroup is reused before previous Wait has returned", a panic in Close.
func TestAttackJoinDuringStop(*testing.T) {
	end := time.Now().Add(time.Second)
	for round := 0; round < 3000 && time.Now().Before(end); round++ {
		r := newWaitRoom()
		r.join(1, time.Millisecond)
		halt := make(chan struct{})
		var callers sync.WaitGroup
		for i := range runtime.GOMAXPROCS(0) {
			callers.Go(func() {
				for n := int64(0); ; n++ {
					select {
					case <-halt:
						return
					default:
						r.join(int64(i+2)<<32+n, time.Microsecond)
					}
				}
			})
		}
		r.stop()
		close(halt)
		callers.Wait()
	}
}

func TestAttackMaxWaitWithoutEnd(t *testing.T) {
	for range 20 {
		clk := newHandClock()
		g := newTestGenerator(t, Config{Clock: clk, MaxWait: math.MaxInt64})
		fill(t, g, 4096)
		done := make(chan error, 1)
		go func() {
			_, err := g.Next()
			done <- err
		}()
		select {
		case err := <-done:
			require.NoError(t, err, "refused at once, although it may wait for ever")
		case <-time.After(20 * time.Millisecond):
		}
		clk.Add(time.Millisecond)
		require.NoError(t, <-done)
	}
}

// Close with a context that has ended never closes the mark: the code stays locked as
// long as the process lives.
func TestAttackCloseWithEndedContextGivesTheMarkUp(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for range 20 { // a race between two ready channels
		store, err := FileHighWater(t.TempDir())
		require.NoError(t, err)
		g, err := New(t.Context(), Config{Lease: StaticLease(3), HighWater: store, Clock: newHandClock()})
		require.NoError(t, err)
		_ = g.Close(ended)
		var mark HighWater
		require.Eventually(t, func() bool {
			mark, err = store.Open(context.Background(), 3, g.layout)
			return err == nil
		}, 2*time.Second, 5*time.Millisecond, "still locked")
		require.NoError(t, mark.Close(context.Background(), time.Time{}))
	}
}

// The same, with a store that answers only after Close has ended.
func TestAttackCloseWhileAdvanceHangs(t *testing.T) {
	marks, clk := newMemoryMarks(), newHandClock()
	hang := &hangingMarks{memoryMarks: marks, entered: make(chan struct{}), release: make(chan struct{})}
	g, err := New(t.Context(), Config{Lease: StaticLease(3), HighWater: hang, Clock: clk})
	require.NoError(t, err)
	hang.armed.Store(true)
	clk.awaitWaiting(t, 1)
	clk.Add(2 * time.Second)
	<-hang.entered
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.Error(t, g.Close(ctx))
	close(hang.release)
	require.Eventually(t, func() bool {
		marks.mu.Lock()
		defer marks.mu.Unlock()
		return marks.owners[3] == nil
	}, 2*time.Second, 5*time.Millisecond, "the code was never given up")
}

type hangingMarks struct {
	*memoryMarks
	armed            atomic.Bool
	entered, release chan struct{}
}

type hangingMark struct {
	HighWater
	s *hangingMarks
}

func (s *hangingMarks) Open(ctx context.Context, code int, l Layout) (HighWater, error) {
	m, err := s.memoryMarks.Open(ctx, code, l)
	return &hangingMark{m, s}, err
}

func (m *hangingMark) Advance(ctx context.Context, mark time.Time) error {
	if m.s.armed.CompareAndSwap(true, false) {
		close(m.s.entered)
		<-m.s.release
	}
	return m.HighWater.Advance(ctx, mark)
}

func longTicks(tick time.Duration) Layout {
	l := DefaultLayout()
	l.Tick = tick
	return l
}

// A mark is rounded up to a tick, so that it may lie MaxAhead + Window + one tick ahead.
func TestAttackRestartWithLongTicks(t *testing.T) {
	for _, clean := range []bool{false, true} {
		marks, clk := newMemoryMarks(), newHandClock()
		clk.Add(time.Millisecond)
		cfg := Config{Lease: StaticLease(3), HighWater: marks, Clock: clk, Layout: longTicks(time.Second), Window: 100 * time.Millisecond}
		g, err := New(t.Context(), cfg)
		require.NoError(t, err)
		mustNext(t, g)
		if clean {
			require.NoError(t, g.Close(t.Context()))
		} else {
			marks.kill(3)
			t.Cleanup(func() { _ = g.Close(context.Background()) })
		}
		before := clk.waiting()
		done := make(chan error, 1)
		var again *Generator
		go func() {
			var err error
			again, err = New(t.Context(), cfg)
			done <- err
		}()
		require.Eventually(t, func() bool { return clk.waiting() > before || len(done) > 0 }, 5*time.Second, time.Millisecond)
		if len(done) == 0 {
			clk.Add(time.Second)
		}
		require.NoError(t, <-done, "clean %v", clean)
		require.NoError(t, again.Close(t.Context()))
	}
}

// fireClock stands still, and its After fires at once.
type fireClock struct {
	handClock
	asked atomic.Int64
}

func (c *fireClock) After(time.Duration) <-chan time.Time {
	c.asked.Add(1)
	fired := make(chan time.Time, 1)
	fired <- c.Now()
	return fired
}

// Nothing spins on an injected clock.
func TestAttackNothingSpins(t *testing.T) {
	t.Run("keeper", func(t *testing.T) {
		clk := &fireClock{handClock: handClock{now: noon}}
		newTestGenerator(t, Config{Lease: StaticLease(3), HighWater: newMemoryMarks(), Clock: clk})
		time.Sleep(100 * time.Millisecond)
		require.Less(t, clk.asked.Load(), int64(1000))
	})
	t.Run("failing keeper", func(t *testing.T) {
		clk, marks := &fireClock{handClock: handClock{now: noon}}, newMemoryMarks()
		newTestGenerator(t, Config{Lease: StaticLease(3), HighWater: marks, Clock: clk})
		marks.setFail(errors.New("disk"))
		before := clk.asked.Load()
		time.Sleep(100 * time.Millisecond)
		require.Less(t, clk.asked.Load()-before, int64(1000))
	})
	t.Run("New", func(t *testing.T) {
		clk, marks := &fireClock{handClock: handClock{now: noon}}, newMemoryMarks()
		marks.marks[3] = noon.Add(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := New(ctx, Config{Lease: StaticLease(3), HighWater: marks, Clock: clk})
		require.ErrorIs(t, err, ErrHighWater)
		require.Less(t, clk.asked.Load(), int64(1000))
	})
}

// The last thing that HealthChanged hears must be how things are.
func TestAttackHealthIsToldInOrder(t *testing.T) {
	var mu sync.Mutex
	var told []error
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	clk := newHandClock()
	g := newTestGenerator(t, Config{Clock: clk, Hooks: &Hooks{
		ClockBehind: func(*ClockError) {
			once.Do(func() { close(entered); <-release })
		},
		HealthChanged: func(err error) { mu.Lock(); told = append(told, err); mu.Unlock() },
	}})
	mustNext(t, g)
	clk.Set(noon.Add(-time.Second))
	done := make(chan error, 1)
	go func() { _, err := g.Next(); done <- err }()
	<-entered
	clk.Set(noon.Add(time.Second))
	mustNext(t, g)
	close(release)
	require.ErrorIs(t, <-done, ErrClockBehind)
	require.NoError(t, g.Health())
	mu.Lock()
	defer mu.Unlock()
	if len(told) > 0 {
		require.NoError(t, told[len(told)-1])
	}
}

// A waiter that finds its lease lost or its clock behind tells nobody.
func TestAttackWaiterTellsHealth(t *testing.T) {
	var sick atomic.Int32
	clk := newHandClock()
	g := newTestGenerator(t, Config{Clock: clk, MaxWait: time.Hour, Hooks: &Hooks{HealthChanged: func(error) { sick.Add(1) }}})
	fill(t, g, 4096)
	done := make(chan error, 1)
	go func() { _, err := g.Next(); done <- err }()
	clk.awaitWaiting(t, 1)
	g.lease.(*handLease).grant.Store(nil)
	clk.Add(time.Millisecond)
	require.ErrorIs(t, <-done, ErrLeaseLost)
	require.EqualValues(t, 1, sick.Load())
}

// 26 days of full ticks.
func TestAttackWaitSumDoesNotWrap(t *testing.T) {
	var c counters
	for range 10 {
		c.issued(claim{count: 1 << 30, wait: int64(time.Second)})
	}
	require.Positive(t, c.waitSum)
}

// The clock is stepped forward while a Fill waits: a later caller of the same tick must
// not wait for the Fill's alarm.
func TestAttackJoinAfterAStepForward(t *testing.T) {
	r := newWaitRoom()
	defer r.stop()
	r.join(1, time.Second)
	began := time.Now()
	<-r.join(1, time.Millisecond)
	require.Less(t, time.Since(began), 500*time.Millisecond)
}

// Through the public API: saturated callers while Close runs.
func TestAttackCloseWhileSaturated(t *testing.T) {
	layout := DefaultLayout()
	layout.SequenceBits = 1
	layout.TimeBits = 52
	layout.Tick = 20 * time.Microsecond
	end := time.Now().Add(time.Second)
	n := 0
	for time.Now().Before(end) {
		n++
		g, err := New(context.Background(), Config{Lease: newHandLease(Grant{Code: 1, Token: 1, Ceiling: time.Now().Add(time.Hour)}), Layout: layout, MaxWait: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 * runtime.GOMAXPROCS(0) {
			wg.Go(func() {
				for {
					if _, err := g.Next(); err != nil {
						return
					}
				}
			})
		}
		time.Sleep(500 * time.Microsecond)
		_ = g.Close(context.Background())
		wg.Wait()
	}
	require.Positive(t, n)
}
