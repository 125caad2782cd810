package snowflake

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// handPool is a pool on leases and a clock that tests move by hand. A tick of each
// generator holds 16 IDs.
type handPool struct {
	*Pool
	clock  *handClock
	leases []*handLease
}

func newHandPool(t testing.TB, size int, cfg Config) *handPool {
	t.Helper()
	cfg.Layout = DefaultLayout()
	cfg.Layout.WorkerBits, cfg.Layout.SequenceBits = 16, 4
	p := &handPool{Pool: newPool(size, cfg.Hooks), clock: newHandClock()}
	cfg.Clock, cfg.Hooks = p.clock, p.memberHooks()
	for i := range size {
		lease := newHandLease(day(i))
		cfg.Lease = lease
		g, err := New(context.Background(), cfg)
		require.NoError(t, err)
		p.generators, p.leases = append(p.generators, g), append(p.leases, lease)
	}
	t.Cleanup(func() { require.NoError(t, p.Close(context.Background())) })
	return p
}

// codes counts, by worker code, IDs that must be new to the ledger.
func (p *handPool) codes(t testing.TB, l *ledger, ids ...ID) map[int]int {
	t.Helper()
	l.add(t, "the pool", ids...)
	by := make(map[int]int)
	for _, id := range ids {
		by[mustUnpack(t, p.Layout(), id).Worker]++
	}
	return by
}

func (p *handPool) mint(t testing.TB, n int) []ID {
	t.Helper()
	ids := make([]ID, n)
	for i := range ids {
		var err error
		ids[i], err = p.Next()
		require.NoError(t, err)
	}
	return ids
}

// A tick of the pool holds what the ticks of its generators hold, for one goroutine as
// for many, and is over then.
func TestPoolMintsAsMuchAsItsGenerators(t *testing.T) {
	for _, callers := range []int{1, 6} {
		t.Run(fmt.Sprint(callers, " callers"), func(t *testing.T) {
			p := newHandPool(t, 3, Config{MaxWait: -1})
			l := newLedger()
			for tick := range 50 {
				var running sync.WaitGroup
				for range callers {
					running.Go(func() {
						for range 3 * 16 / callers {
							id, err := p.Next()
							if err != nil {
								t.Error(err)
								return
							}
							l.add(t, "the pool", id)
						}
					})
				}
				running.Wait()
				_, err := p.Next()
				require.ErrorIs(t, err, ErrSaturated, "tick %d", tick)
				p.clock.Add(time.Millisecond)
			}
			require.Len(t, l.seen, 50*3*16)
			stats := p.Stats()
			require.EqualValues(t, 50*3*16, stats.IDs)
			require.EqualValues(t, 50, stats.Errors.Saturated, "one for each call that was refused")
			require.EqualValues(t, 50*3, stats.Exhausted)
		})
	}
}

// Whoever meets another caller at a generator goes to the next, and stays there.
func TestPoolDoesNotQueueBehindABusyGenerator(t *testing.T) {
	p := newHandPool(t, 2, Config{})
	met := 10                // by then the stack has grown to where it stays
	for i := range 2 * met { // each call from the same place on it
		if i == met {
			p.clock.Add(time.Millisecond)
			p.allAtHome()
			p.generators[0].mu.Lock()
		}
		id, err := p.Next()
		if i == met {
			p.generators[0].mu.Unlock()
		}
		require.NoError(t, err)
		if i >= met {
			require.Equal(t, 1, mustUnpack(t, p.Layout(), id).Worker)
		}
	}
}

// Nobody waits at a full generator while another has room: at 16 IDs a tick, one that
// was used before is full first.
func TestPoolWaitsWhereRoomIsSoonest(t *testing.T) {
	p := newHandPool(t, 2, Config{MaxWait: time.Second})
	l := newLedger()
	_, err := p.generators[0].Fill(t.Context(), make([]ID, 16))
	require.NoError(t, err)
	require.Equal(t, map[int]int{1: 16}, p.codes(t, l, p.mint(t, 16)...))

	// Both are full. A queue of 16 at the first makes the second the one to wait at.
	waiting := make(chan error, 17)
	for range 16 {
		go func() {
			_, err := p.generators[0].Next()
			waiting <- err
		}()
	}
	p.clock.awaitWaiting(t, 16)
	p.allAtHome()
	served := make(chan ID, 1)
	go func() {
		id, err := p.Next()
		waiting <- err
		served <- id
	}()
	p.clock.awaitWaiting(t, 17)
	p.clock.Add(time.Millisecond)
	for range 17 {
		require.NoError(t, <-waiting)
	}
	require.Equal(t, map[int]int{1: 1}, p.codes(t, l, <-served))
}

// allAtHome has every goroutine begin at generator 0.
func (p *handPool) allAtHome() {
	for i := range p.homes {
		p.homes[i].Store(0)
	}
}

func TestPoolFillTakesFromAll(t *testing.T) {
	p := newHandPool(t, 3, Config{})
	l := newLedger()
	ids := make([]ID, 3*16)
	n, err := p.Fill(t.Context(), ids)
	require.NoError(t, err)
	require.Equal(t, len(ids), n)
	require.Equal(t, map[int]int{0: 16, 1: 16, 2: 16}, p.codes(t, l, ids...))
	for i := range ids {
		if i%16 > 0 {
			require.Greater(t, ids[i], ids[i-1], "a run ascends")
		}
	}

	// Past the tick it waits, however short MaxWait is, until ctx ends.
	ctx, cancel := context.WithCancel(t.Context())
	ids = make([]ID, 3*16+1)
	filled := make(chan int, 1)
	go func() {
		n, err := p.Fill(ctx, ids)
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		filled <- n
	}()
	p.clock.awaitWaiting(t, 1)
	p.clock.Add(time.Millisecond)
	p.clock.awaitWaiting(t, 1)
	cancel()
	n = <-filled
	require.Equal(t, map[int]int{0: 16, 1: 16, 2: 16}, p.codes(t, l, ids[:n]...))
}

// A lost lease takes its generator out, and nothing else; it comes back by itself.
func TestPoolServesWhenALeaseIsLost(t *testing.T) {
	p := newHandPool(t, 2, Config{MaxWait: -1})
	l := newLedger()
	p.allAtHome()
	grant := p.leases[0].grant.Swap(nil)
	require.Equal(t, map[int]int{1: 16}, p.codes(t, l, p.mint(t, 16)...))
	require.NoError(t, p.Health(), "it can issue")
	stats := p.Generators()
	require.ErrorIs(t, stats[0].Health, ErrLeaseLost)
	require.NoError(t, stats[1].Health)
	require.NoError(t, p.Stats().Health)
	require.Zero(t, p.Stats().Errors, "no call was refused")
	p.allAtHome()
	_, err := p.Next()
	require.ErrorIs(t, err, ErrSaturated, "the tick of the other is full, which says more than the loss")

	p.leases[1].grant.Store(nil)
	_, err = p.Next()
	require.ErrorIs(t, err, ErrLeaseLost)
	require.ErrorContains(t, err, "none of 2 generators")
	require.True(t, Retryable(err))
	require.ErrorIs(t, p.Health(), ErrLeaseLost)

	p.leases[0].grant.Store(grant)
	require.Equal(t, map[int]int{0: 5}, p.codes(t, l, p.mint(t, 5)...))
	require.NoError(t, p.Health())
}

// HealthChanged tells of the pool, on the path of Next: when the last generator is lost,
// and when any is back.
func TestPoolTellsItsHealth(t *testing.T) {
	for back := range 3 {
		var told []error
		p := newHandPool(t, 3, Config{Hooks: &Hooks{HealthChanged: func(err error) { told = append(told, err) }}})
		var grants []*Grant
		for i, lease := range p.leases {
			require.Empty(t, told)
			grants = append(grants, lease.grant.Swap(nil))
			p.allAtHome()
			_, err := p.Next()
			require.Equal(t, i == 2, err != nil)
		}
		require.Len(t, told, 1)
		require.ErrorIs(t, told[0], ErrLeaseLost)
		p.leases[back].grant.Store(grants[back])
		p.mint(t, 1)
		require.Len(t, told, 2)
		require.NoError(t, told[1])
		p.leases[back].grant.Store(nil)
		p.allAtHome()
		_, err := p.Next()
		require.ErrorIs(t, err, ErrLeaseLost)
		require.Len(t, told, 3)
	}
}

// What is heard when nobody can issue is what helps most: what passes before what does
// not, and of that the one that names a code.
func TestPoolTellsTheMostTellingError(t *testing.T) {
	closed := fmt.Errorf("%w: %w", ErrLeaseLost, ErrClosed)
	named := &LeaseError{Region: 0, Worker: 7, Err: ErrLeaseLost}
	for name, c := range map[string]struct {
		refusals []error
		want     error
	}{
		"what passes":       {[]error{ErrTimeOverflow, ErrLeaseLost, ErrConflict}, ErrLeaseLost},
		"who holds it":      {[]error{ErrLeaseLost, named, ErrTimeOverflow}, named},
		"that it is closed": {[]error{ErrLeaseLost, named, closed}, closed},
	} {
		t.Run(name, func(t *testing.T) {
			best := -1
			var most error
			for _, err := range c.refusals {
				if r := rank(claim{}, err); r > best {
					best, most = r, err
				}
			}
			require.Equal(t, c.want, most)
		})
	}
	require.Greater(t, rank(claim{wait: 1}, ErrSaturated), rank(claim{}, closed))
}

// A caller whose generator loses its lease while it waits is served by another.
func TestPoolSendsWaitersOn(t *testing.T) {
	p := newHandPool(t, 2, Config{MaxWait: 10 * time.Second})
	l := newLedger()
	p.codes(t, l, p.mint(t, 2*16)...)
	served := make(chan ID, 1)
	go func() {
		id, err := p.Next()
		if err != nil {
			t.Error(err)
		}
		served <- id
	}()
	p.clock.awaitWaiting(t, 1)
	at := 0 // where it waits
	if p.generators[1].state.sequence == 0 {
		at = 1
	}
	p.leases[at].grant.Store(nil)
	p.clock.Add(time.Millisecond)
	require.Equal(t, map[int]int{1 - at: 1}, p.codes(t, l, <-served))
}

// Close ends every wait and every generator, once.
func TestPoolCloseDuringNext(t *testing.T) {
	p := newHandPool(t, 3, Config{MaxWait: time.Minute})
	p.mint(t, 3*16)
	failed := make(chan error, 20)
	for range cap(failed) {
		go func() {
			_, err := p.Next()
			failed <- err
		}()
	}
	p.clock.awaitWaiting(t, cap(failed))
	require.NoError(t, p.Close(t.Context()))
	require.NoError(t, p.Close(t.Context()), "again")
	for range cap(failed) {
		require.ErrorIs(t, <-failed, ErrClosed)
	}
	_, err := p.Next()
	require.ErrorIs(t, err, ErrClosed)
	_, err = p.Fill(t.Context(), make([]ID, 1))
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, p.Health(), ErrClosed)
	for _, lease := range p.leases {
		require.Len(t, lease.released, 1)
	}
}

func TestPoolNextContext(t *testing.T) {
	p := newHandPool(t, 2, Config{MaxWait: time.Minute})
	id, err := p.NextContext(t.Context())
	require.NoError(t, err)
	p.codes(t, newLedger(), id)
	p.mint(t, 2*16-1)

	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := p.NextContext(ctx)
		failed <- err
	}()
	p.clock.awaitWaiting(t, 1)
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	_, err = p.NextContext(ctx)
	require.ErrorIs(t, err, context.Canceled, "before it asks")
	require.EqualValues(t, 2, p.Stats().Errors.Canceled)

	short, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-short.Done()
	_, err = p.NextContext(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// The counters of a pool are those of its generators together.
func TestPoolStats(t *testing.T) {
	p := newHandPool(t, 2, Config{})
	p.mint(t, 2*16)
	p.clock.Add(-time.Minute)
	_, err := p.Next()
	require.ErrorIs(t, err, ErrClockBehind)
	p.ReportDuplicate(1)
	s := p.Stats()
	require.EqualValues(t, 32, s.IDs)
	require.EqualValues(t, 32, s.Waits[0])
	require.EqualValues(t, 1, s.Rollbacks, "both saw the same step")
	require.Equal(t, time.Minute, s.LastRollback)
	require.Equal(t, time.Minute, s.LargestRollback)
	require.Equal(t, time.Minute, s.Ahead)
	require.EqualValues(t, 1, s.Errors.ClockBehind)
	require.EqualValues(t, 1, s.Duplicates)
	require.Equal(t, noon, s.Last)
	require.Equal(t, -1, s.Code)
	require.ErrorIs(t, s.Health, ErrClockBehind)
	require.Len(t, p.Generators(), 2)
	require.Equal(t, 1, p.Generators()[1].Code)
}

func TestNewPoolRefuses(t *testing.T) {
	for _, size := range []int{-1, 0, 65} {
		_, err := NewPool(t.Context(), PoolConfig{Store: NewMemoryStore(), Size: size})
		require.ErrorContains(t, err, fmt.Sprintf("PoolConfig.Size is %d, must be 1 to 64", size))
	}
	_, err := NewPool(t.Context(), PoolConfig{Size: 1})
	require.ErrorContains(t, err, "store is nil")
	_, err = NewPool(t.Context(), PoolConfig{Store: NewMemoryStore(), Size: 1, MaxAhead: -1})
	require.ErrorContains(t, err, "Config.MaxAhead")
}

// A pool that cannot be whole gives back all that it had: codes are free at once.
func TestNewPoolGivesBackWhatItHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemoryStore()
		cfg := PoolConfig{Store: store, Size: 3, Lease: LeaseConfig{Layout: codesOf(1), Clock: newBubbleClock()}}
		_, err := NewPool(t.Context(), cfg)
		require.ErrorIs(t, err, ErrNoWorkerCode)
		require.ErrorContains(t, err, "generator 3 of 3")

		cfg.Size, cfg.MaxAhead = 2, -1 // refused by New, which has a lease then
		_, err = NewPool(t.Context(), cfg)
		require.ErrorContains(t, err, "generator 1 of 2")

		cfg.MaxAhead = 0
		p, err := NewPool(t.Context(), cfg)
		require.NoError(t, err)
		require.NoError(t, p.Health())
		require.NoError(t, p.Close(t.Context()))
	})
}

// The real lease of one generator is taken by another owner, and no code is free: the
// other goes on, and the first comes back when one is.
func TestPoolOnRealLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk, store := newBubbleClock(), NewMemoryStore()
		p, err := NewPool(t.Context(), PoolConfig{
			Store: store, Size: 2, MaxWait: -1, Lease: LeaseConfig{Layout: codesOf(1), Clock: clk},
		})
		require.NoError(t, err)
		l := newLedger()
		mint := func(n int) {
			for range n {
				id, err := p.Next()
				require.NoError(t, err)
				l.add(t, "the pool", id)
			}
		}
		mint(100)

		records, err := store.Records(t.Context(), 0)
		require.NoError(t, err)
		old := records[len(records)-1]
		thief := old
		thief.Nonce, thief.Owner, thief.Token = newNonce(), "thief", old.Token+1
		thief.Ceiling = clk.Now().Add(time.Hour).Truncate(time.Millisecond)
		_, err = store.Swap(t.Context(), old, thief)
		require.NoError(t, err)

		for range 600 {
			time.Sleep(time.Second)
			mint(100)
		}
		healthy := 0
		for _, s := range p.Generators() {
			if s.Health == nil {
				healthy++
			}
		}
		require.Equal(t, 1, healthy)

		time.Sleep(time.Hour)
		synctest.Wait()
		mint(100)
		for _, s := range p.Generators() {
			require.NoError(t, s.Health)
		}
		require.NoError(t, p.Close(t.Context()))
	})
}

// Many goroutines on the system clock, with the race detector: no ID twice, and nothing
// is lost between generators.
func TestPoolIsUniqueUnderLoad(t *testing.T) {
	p, err := NewPool(t.Context(), PoolConfig{Store: NewMemoryStore(), Size: 4, MaxWait: 10 * time.Second})
	require.NoError(t, err)
	const callers, each = 32, 2000
	all := make([][]ID, callers)
	var running sync.WaitGroup
	for c := range callers {
		running.Go(func() {
			for i := range each {
				if i%10 == 0 {
					batch := make([]ID, 100)
					n, err := p.Fill(t.Context(), batch)
					if err != nil {
						t.Error(err)
					}
					all[c] = append(all[c], batch[:n]...)
				}
				id, err := p.Next()
				if err != nil {
					t.Error(err)
					return
				}
				all[c] = append(all[c], id)
			}
		})
	}
	running.Wait()
	l := newLedger()
	for _, ids := range all {
		l.add(t, "the pool", ids...)
	}
	require.EqualValues(t, callers*(each+each/10*100), p.Stats().IDs)
	require.NoError(t, p.Close(t.Context()))
}
