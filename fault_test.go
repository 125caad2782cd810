package snowflake

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The seven faults that the design was made for. Clocks and leases are injected: no
// test waits for real time to pass.

func TestFaultFrozenTick(t *testing.T) {
	for name, maxWait := range map[string]time.Duration{"refused": -1, "waits": time.Hour} {
		t.Run(name, func(t *testing.T) {
			clk := newHandClock()
			g := newTestGenerator(t, Config{Clock: clk, MaxWait: maxWait})
			ids := newLedger()
			for sequence := range 4096 {
				id := mustNext(t, g)
				ids.add(t, "frozen", id)
				require.Equal(t, Parts{Time: noon, Worker: 7, Sequence: sequence}, mustUnpack(t, g.Layout(), id))
			}
			if name == "refused" {
				_, err := g.Next()
				require.ErrorIs(t, err, ErrSaturated)
				require.NotErrorIs(t, err, ErrClockBehind)
				require.NoError(t, g.Health(), "saturation is not unhealthy")
				require.EqualValues(t, 1, g.Stats().Exhausted)
				clk.Add(time.Millisecond)
				last := mustNext(t, g)
				require.Equal(t, Parts{Time: noon.Add(time.Millisecond), Worker: 7}, mustUnpack(t, g.Layout(), last))
				return
			}
			done := make(chan ID)
			go func() {
				id, _ := g.Next()
				done <- id
			}()
			clk.awaitWaiting(t, 1)
			clk.Add(time.Millisecond)
			last := <-done
			ids.add(t, "frozen", last)
			require.Equal(t, Parts{Time: noon.Add(time.Millisecond), Worker: 7}, mustUnpack(t, g.Layout(), last))
		})
	}
}

func TestFaultConcurrentCallers(t *testing.T) {
	const callers, each = 16, 2000
	clk := newHandClock()
	g := newTestGenerator(t, Config{Clock: clk, MaxWait: time.Hour})
	ids := newLedger()
	var calls sync.WaitGroup
	for range callers {
		calls.Go(func() {
			var last ID
			for range each {
				id, err := g.Next()
				if err != nil || id <= last {
					t.Errorf("%v after %v: %v", id, last, err)
					return
				}
				ids.add(t, "caller", id)
				last = id
			}
		})
	}
	done := make(chan struct{})
	go func() { calls.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
			clk.Add(time.Millisecond)
		}
	}
	require.Len(t, ids.seen, callers*each)
	require.EqualValues(t, callers*each, g.Stats().IDs)
}

func TestFaultClockBack(t *testing.T) {
	t.Run("1ms is waited out", func(t *testing.T) {
		clk := newHandClock()
		g := newTestGenerator(t, Config{Clock: clk, MaxWait: time.Hour}) // real time for a busy machine
		first := mustNext(t, g)
		clk.Add(-time.Millisecond)
		done := make(chan ID)
		go func() {
			id, err := g.NextContext(context.Background())
			if err != nil {
				t.Error(err)
			}
			done <- id
		}()
		clk.awaitWaiting(t, 1)
		clk.Add(time.Millisecond)
		second := <-done
		require.Greater(t, second, first)
		require.EqualValues(t, 1, g.Stats().Rollbacks)
		require.Equal(t, time.Millisecond, g.Stats().LargestRollback)
	})
	t.Run("exactly MaxWait is waited out, a full tick on top is refused", func(t *testing.T) {
		clk := newHandClock()
		g := newTestGenerator(t, Config{Clock: clk, MaxWait: 5 * time.Millisecond})
		mustNext(t, g)
		clk.Add(-5 * time.Millisecond)
		g.mu.Lock()
		c, _, err := g.decide(g.now(), budget{wait: g.maxWait})
		g.mu.Unlock()
		require.NoError(t, err)
		require.EqualValues(t, 5*time.Millisecond, c.wait)

		clk.Set(noon)
		fill(t, g, 4095)
		clk.Add(-5 * time.Millisecond)
		_, err = g.Next()
		require.ErrorIs(t, err, ErrClockBehind)
		var e *ClockError
		require.ErrorAs(t, err, &e)
		require.Equal(t, ClockError{Behind: 5 * time.Millisecond, MaxWait: 5 * time.Millisecond}, *e)
	})
	t.Run("5ms with 2ms of context left is refused at once", func(t *testing.T) {
		clk := newHandClock()
		g := newTestGenerator(t, Config{Clock: clk})
		first := mustNext(t, g)
		clk.Add(-5 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
		defer cancel()
		_, err := g.NextContext(ctx)
		if !errors.Is(err, context.DeadlineExceeded) { // a slow machine has used it up before
			require.ErrorIs(t, err, ErrClockBehind)
			require.True(t, Retryable(err))
		}
		require.Zero(t, clk.waiting(), "nothing waited")
		clk.Set(noon)
		require.Equal(t, first+1, mustNext(t, g), "the refused call cost no slot")
		require.NoError(t, g.Health())
	})
	t.Run("2000ms is refused, unhealthy, and told", func(t *testing.T) {
		clk := newHandClock()
		var behind []ClockError
		var health []error
		g := newTestGenerator(t, Config{Clock: clk, Hooks: &Hooks{
			ClockBehind:   func(e *ClockError) { behind = append(behind, *e) },
			HealthChanged: func(err error) { health = append(health, err) },
		}})
		first := mustNext(t, g)
		clk.Add(-2 * time.Second)
		for range 3 {
			_, err := g.Next()
			require.ErrorIs(t, err, ErrClockBehind)
			require.NotErrorIs(t, err, ErrSaturated)
		}
		require.ErrorIs(t, g.Health(), ErrClockBehind)
		require.Equal(t, []ClockError{{Behind: 2 * time.Second, MaxWait: 5 * time.Millisecond}}, behind, "once for each step")
		require.Len(t, health, 1)
		require.ErrorIs(t, health[0], ErrClockBehind)

		clk.Add(2 * time.Second)
		require.Equal(t, first+1, mustNext(t, g), "heals, and no slot was lost")
		require.Len(t, health, 2)
		require.NoError(t, health[1])
		require.NoError(t, g.Health())
		stats := g.Stats()
		require.EqualValues(t, 3, stats.Errors.ClockBehind)
		require.EqualValues(t, 1, stats.Rollbacks)
		require.Equal(t, 2*time.Second, stats.LastRollback)
	})
}

func TestFaultPausedOwner(t *testing.T) {
	const ttl = 6 * time.Second
	store := NewMemoryStore()
	layout := DefaultLayout()
	layout.WorkerBits, layout.SequenceBits = 0, 20 // one code: the successor must take it
	lease := func(clk Clock) *WorkerLease {
		l, err := AcquireLease(t.Context(), store, LeaseConfig{Layout: layout, TTL: ttl, Clock: clk})
		require.NoError(t, err)
		return l
	}
	ids := newLedger()
	paused := newHandClock() // the paused owner sees no time pass, and renews nothing
	old := newTestGenerator(t, Config{Lease: lease(paused), Clock: paused})
	ceiling := old.lease.Grant().Ceiling
	ids.add(t, "owner", fill(t, old, 1000)...)

	// The lease expires; a successor takes the code and works.
	clk := newHandClock()
	clk.Set(ceiling)
	successor := newTestGenerator(t, Config{Lease: lease(clk), Clock: clk})
	require.Equal(t, ceiling, successor.lease.Grant().Floor)
	require.EqualValues(t, 2, successor.lease.Grant().Token)
	ids.add(t, "successor", fill(t, successor, 1000)...)

	// The old owner goes on, on its old clock: below its ceiling, nobody else's.
	rest := fill(t, old, 1000)
	ids.add(t, "owner", rest...)
	require.True(t, mustUnpack(t, layout, rest[999]).Time.Before(ceiling))

	// Its clock comes to the present: it stops, and its renewal finds the successor.
	paused.Set(ceiling)
	_, err := old.Next()
	require.ErrorIs(t, err, ErrLeaseLost)
	require.True(t, Retryable(err))
	require.ErrorIs(t, old.Health(), ErrLeaseLost)
	require.Eventually(t, func() bool { return old.lease.Grant() == nil }, 10*time.Second, time.Millisecond)
	_, err = old.Next()
	require.ErrorIs(t, err, ErrLeaseLost)
	records, err := store.Records(t.Context(), 0)
	require.NoError(t, err)
	for _, r := range records {
		if r.Worker == 0 {
			require.EqualValues(t, 2, r.Token, "the stale owner changed nothing")
		}
	}
	ids.add(t, "successor", fill(t, successor, 1000)...)
}

func TestFaultWholeFleetInOneMillisecond(t *testing.T) {
	const regions, workers, each = 4, 200, 25
	layout := DefaultLayout()
	clk := newHandClock()
	ids := newLedger()
	for region := range regions {
		store := NewMemoryStore() // one for each region
		for range workers {
			l, err := AcquireLease(t.Context(), store, LeaseConfig{Region: region, Clock: clk})
			require.NoError(t, err)
			g := newTestGenerator(t, Config{Lease: l, Clock: clk})
			worker := -1
			for sequence, id := range fill(t, g, each) {
				ids.add(t, "fleet", id)
				p := mustUnpack(t, layout, id)
				if worker < 0 {
					worker = p.Worker
				}
				require.Equal(t, Parts{Time: noon, Region: region, Worker: worker, Sequence: sequence}, p)
				require.Less(t, p.Worker, 256)
			}
		}
	}
	require.Len(t, ids.seen, regions*workers*each)
}

// cutStore is a LeaseStore that can be cut off from its users.
type cutStore struct {
	LeaseStore
	cut atomic.Bool
}

var errCut = errors.New("cut off")

func (s *cutStore) Records(ctx context.Context, region int) ([]Record, error) {
	if s.cut.Load() {
		return nil, errCut
	}
	return s.LeaseStore.Records(ctx, region)
}

func (s *cutStore) Swap(ctx context.Context, old, new Record) (Record, error) {
	if s.cut.Load() {
		return Record{}, errCut
	}
	return s.LeaseStore.Swap(ctx, old, new)
}

func TestFaultStoreCutOff(t *testing.T) {
	const ttl = 12 * time.Second
	store := &cutStore{LeaseStore: NewMemoryStore()}
	clk := newHandClock()
	var lost, failed atomic.Int32
	lease, err := AcquireLease(t.Context(), store, LeaseConfig{TTL: ttl, Clock: clk, Hooks: &Hooks{
		LeaseLost:   func(*LeaseError) { lost.Add(1) },
		RenewFailed: func(error) { failed.Add(1) },
	}})
	require.NoError(t, err)
	g := newTestGenerator(t, Config{Lease: lease, Clock: clk})
	ids := newLedger()
	code, ceiling := lease.Grant().Code, lease.Grant().Ceiling

	store.cut.Store(true)
	for clk.Now().Add(100 * time.Millisecond).Before(ceiling) {
		clk.awaitWaiting(t, 1)
		clk.Add(100 * time.Millisecond)
		ids.add(t, "inside the safe interval", mustNext(t, g))
	}
	clk.Set(ceiling)
	_, err = g.Next()
	require.ErrorIs(t, err, ErrLeaseLost)
	require.ErrorIs(t, g.Health(), ErrLeaseLost)
	require.Eventually(t, func() bool { return lost.Load() == 1 && lease.Grant() == nil }, 10*time.Second, time.Millisecond)
	require.NotZero(t, failed.Load())
	require.ErrorIs(t, lease.Err(), ErrLeaseLost)

	store.cut.Store(false)
	require.Eventually(t, func() bool {
		clk.Add(100 * time.Millisecond)
		return g.Health() == nil
	}, 10*time.Second, time.Millisecond)
	ids.add(t, "healed", mustNext(t, g))
	require.Equal(t, code, lease.Grant().Code, "on the code it had: nobody took it")
	require.NoError(t, lease.Err())
}

func TestFaultEndOfTime(t *testing.T) {
	layout := DefaultLayout()
	end := layout.End()
	require.Equal(t, layout.Epoch.Add(1<<41*time.Millisecond), end)
	clk := newHandClock()
	var left []time.Duration
	lease := newHandLease(Grant{Code: 1023, Token: 1, Floor: noon, Ceiling: end.AddDate(1, 0, 0)})
	g := newTestGenerator(t, Config{Lease: lease, Clock: clk, Hooks: &Hooks{
		EpochEnding: func(d time.Duration) { left = append(left, d) },
	}})
	years := 365 * 24 * time.Hour
	clk.Set(end.Add(-5*years - time.Second))
	mustNext(t, g)
	require.Empty(t, left)
	clk.Set(end.Add(-5 * years))
	mustNext(t, g)
	mustNext(t, g)
	require.Equal(t, []time.Duration{5 * years}, left, "five years before, once a day")
	clk.Add(24 * time.Hour)
	mustNext(t, g)
	require.Len(t, left, 2)

	clk.Set(end.Add(-time.Millisecond)) // tick 2^41-1
	ids := fill(t, g, 4096)
	require.Equal(t, ID(math.MaxInt64), ids[4095])
	_, err := g.Next()
	require.ErrorIs(t, err, ErrTimeOverflow, "no tick is left to wait for")
	clk.Set(end) // one beyond
	_, err = g.Next()
	require.ErrorIs(t, err, ErrTimeOverflow)
	require.False(t, Retryable(err))
	require.ErrorIs(t, g.Health(), ErrTimeOverflow)
	_, err = New(t.Context(), Config{Lease: newHandLease(day(1)), Clock: clk})
	require.ErrorIs(t, err, ErrTimeOverflow)
	require.Zero(t, g.Stats().EpochRemaining)
}

// The persistent logical clock: what MaxAhead borrows is below a durable mark before it
// is used, so a crash in the middle of it repeats nothing.
func TestLogicalClockSurvivesKill(t *testing.T) {
	const ahead = 2 * time.Second
	marks := newMemoryMarks()
	ids := newLedger()
	clk := newHandClock()
	start := func(ctx context.Context) (*Generator, error) {
		return New(ctx, Config{Lease: StaticLease(3), HighWater: marks, MaxAhead: ahead, Clock: clk})
	}
	g, err := start(t.Context())
	require.NoError(t, err)
	ids.add(t, "first", fill(t, g, 4096-100)...)
	clk.Add(-ahead)
	more := fill(t, g, 100) // ridden through
	ids.add(t, "first", more...)
	require.Greater(t, more[0], ID(0))
	require.Equal(t, ahead, g.Stats().Ahead)

	// kill -9: nothing is closed. Restart behind.
	marks.kill(3)
	clk.Set(noon.Add(-ahead))
	_, err = start(t.Context())
	require.ErrorIs(t, err, ErrHighWater, "the mark is 7 s ahead: more than MaxAhead + Window")
	require.True(t, Retryable(err))

	clk.Set(noon)
	restarted := make(chan *Generator)
	go func() {
		g, err := start(context.Background())
		if err != nil {
			t.Error(err)
		}
		restarted <- g
	}()
	clk.awaitWaiting(t, 2) // the dead one's keeper, and New
	clk.Set(marks.mark(3))
	g = <-restarted
	after := fill(t, g, 5000)
	ids.add(t, "restarted", after...)
	require.Greater(t, after[0], more[99])
	require.NoError(t, g.Close(t.Context()))
}

// Random steps of up to 5 s either way, a million IDs.
func TestRandomClockSteps(t *testing.T) {
	random := rand.New(rand.NewPCG(2026, 0))
	want := 1_000_000
	if testing.Short() {
		want = 100_000
	}
	clk := newHandClock()
	g := newTestGenerator(t, Config{Clock: clk, MaxWait: -1, MaxAhead: time.Second})
	seen := make(map[ID]struct{}, want)
	var last ID
	for len(seen) < want {
		clk.Add(time.Duration(random.Int64N(int64(10*time.Second))) - 5*time.Second)
		if clk.Now().Before(noon) {
			clk.Set(noon)
		}
		for range random.IntN(6000) {
			id, err := g.Next()
			if err != nil {
				require.True(t, errors.Is(err, ErrClockBehind) || errors.Is(err, ErrSaturated), "%v", err)
				break
			}
			if _, ok := seen[id]; ok || id <= last {
				t.Fatalf("%d after %d, seen before: %v", id, last, ok)
			}
			seen[id], last = struct{}{}, id
		}
	}
}

// A hook is told of each step back once, however often the lease is renewed meanwhile.
func TestAStepBackIsToldOnce(t *testing.T) {
	told := 0
	clk, lease := newHandClock(), newHandLease(day(7))
	g := newTestGenerator(t, Config{
		Lease: lease, Clock: clk, MaxWait: -1,
		Hooks: &Hooks{ClockBehind: func(*ClockError) { told++ }},
	})
	mustNext(t, g)
	clk.Add(-time.Minute)
	for range 3 {
		_, err := g.Next()
		require.ErrorIs(t, err, ErrClockBehind)
		renewed := *lease.Grant()
		renewed.Ceiling = renewed.Ceiling.Add(time.Hour)
		lease.grant.Store(&renewed)
	}
	require.Equal(t, 1, told)
	clk.Add(-time.Minute)
	_, _ = g.Next()
	require.Equal(t, 2, told, "a further step")
}
