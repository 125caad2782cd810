package snowflaketest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/snowfence/snowflake"
	"github.com/stretchr/testify/require"
)

// The cases in which AcquireLease uses the store: what the contract is for.

func acquireAtOnce(tb testing.TB, s handles) {
	tb.Helper()
	const starts, region = 200, 1
	ctx, cancel := context.WithTimeout(tb.Context(), 2*time.Minute)
	defer cancel()
	leases := make([]*snowflake.WorkerLease, starts)
	gate := make(chan struct{})
	var group sync.WaitGroup
	for i := range starts {
		group.Go(func() {
			<-gate
			var err error
			leases[i], err = snowflake.AcquireLease(ctx, []snowflake.LeaseStore{s.a, s.b}[i%2], snowflake.LeaseConfig{
				Region: region, Owner: fmt.Sprint("start ", i), Settle: -1,
			})
			if err != nil {
				tb.Errorf("start %d: %v", i, err)
			}
		})
	}
	began := time.Now()
	close(gate)
	group.Wait()
	tb.Logf("%d codes in %v", starts, time.Since(began).Round(time.Millisecond))
	defer func() {
		began := time.Now()
		closeAll(tb, leases)
		tb.Logf("%d releases in %v", starts, time.Since(began).Round(time.Millisecond))
		if !tb.Failed() {
			for _, r := range s.records(region) {
				require.Equal(tb, r.Worker >= 0, r.Released, "worker %d", r.Worker)
			}
		}
	}()
	owners := make(map[int]int)
	for i, l := range leases {
		if l == nil {
			continue // was reported
		}
		g := l.Grant()
		require.NotNil(tb, g, "start %d", i)
		other, taken := owners[g.Code]
		require.False(tb, taken, "code %d was given to start %d and to start %d", g.Code, other, i)
		owners[g.Code] = i
	}
	all := s.records(region)
	require.Len(tb, all, len(owners)+1, "with the layout record")
	require.Equal(tb, -1, all[0].Worker)
	for _, r := range all[1:] {
		i, ok := owners[region<<8|r.Worker]
		require.True(tb, ok, "a record of worker %d, which nobody was given", r.Worker)
		require.Equal(tb, fmt.Sprint("start ", i), r.Owner)
		require.EqualValues(tb, 1, r.Token)
		require.False(tb, r.Ceiling.Before(leases[i].Grant().Ceiling), "the ceiling is durable before it is granted")
	}
}

// closeAll gives up leases, at once.
func closeAll(tb testing.TB, leases []*snowflake.WorkerLease) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), time.Minute)
	defer cancel()
	var group sync.WaitGroup
	for _, l := range leases {
		if l != nil {
			group.Go(func() {
				if err := l.Close(ctx); err != nil {
					tb.Errorf("close: %v", err)
				}
			})
		}
	}
	group.Wait()
}

var errLost = errors.New("snowflaketest: no answer")

// lossyStore loses requests and answers. It has the two methods only, so that nothing
// compares its store's time with an injected clock.
type lossyStore struct {
	store snowflake.LeaseStore
	late  *sync.WaitGroup // requests that are still under way
}

func (s lossyStore) Records(ctx context.Context, region int) ([]snowflake.Record, error) {
	all, err := s.store.Records(ctx, region)
	if rand.IntN(10) == 0 {
		return nil, errLost
	}
	return all, err
}

func (s lossyStore) Swap(ctx context.Context, old, new snowflake.Record) (snowflake.Record, error) {
	time.Sleep(rand.N(5 * time.Millisecond)) // others may be faster
	switch rand.IntN(6) {
	case 0: // the request is lost
		return snowflake.Record{}, errLost
	case 1, 2: // the answer is lost
		_, _ = s.store.Swap(ctx, old, new)
		return snowflake.Record{}, errLost
	case 3: // the request arrives after its sender has given up
		s.late.Go(func() {
			time.Sleep(rand.N(30 * time.Millisecond))
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			_, _ = s.store.Swap(ctx, old, new)
		})
		return snowflake.Record{}, errLost
	}
	return s.store.Swap(ctx, old, new)
}

// holding is one owner's rectangle of a code: the ticks that it may have used.
type holding struct {
	code        int
	token       uint64
	floor, ends time.Time
	owner       string
}

func acquireThroughLosses(tb testing.TB, s handles) {
	tb.Helper()
	const owners, turns = 12, 4
	layout := snowflake.DefaultLayout()
	layout.WorkerBits, layout.SequenceBits = 4, 16 // 16 codes: they change hands, and many want the same
	ctx, cancel := context.WithTimeout(tb.Context(), 3*time.Minute)
	defer cancel()

	// Time goes five times as fast as it does, so that codes are soon free again.
	clock := NewClock(noon)
	stop := make(chan struct{})
	var ticking, late sync.WaitGroup
	ticking.Go(func() {
		for last := time.Now(); ; {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				now := time.Now()
				clock.Add(5 * now.Sub(last))
				last = now
			}
		}
	})
	defer late.Wait()
	defer ticking.Wait()
	defer close(stop)

	var mu sync.Mutex
	var held []holding
	var group sync.WaitGroup
	for owner := range owners {
		group.Go(func() {
			store := lossyStore{[]snowflake.LeaseStore{s.a, s.b}[owner%2], &late}
			for turn := range turns {
				name := fmt.Sprintf("owner %d turn %d", owner, turn)
				l, err := snowflake.AcquireLease(ctx, store, snowflake.LeaseConfig{
					Region: 1, Layout: layout, Owner: name, TTL: 6 * time.Second, Settle: -1, Clock: clock,
				})
				if err != nil {
					tb.Errorf("%s: %v", name, err)
					return
				}
				mine := hold(l, name, rand.N(100*time.Millisecond))
				unused := time.Time{}
				if g := l.Grant(); g != nil && rand.IntN(2) == 0 && len(mine) > 0 {
					if last := &mine[len(mine)-1]; last.code == g.Code && last.token == g.Token {
						unused = g.Floor.Add(rand.N(g.Ceiling.Sub(g.Floor))).Truncate(time.Millisecond)
						last.ends = unused
					}
				}
				_ = l.Release(ctx, unused) // may be lost: then the code is free a little later
				mu.Lock()
				held = append(held, mine...)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	require.GreaterOrEqual(tb, len(held), owners, "grants")
	slices.SortFunc(held, func(a, b holding) int {
		if a.code != b.code {
			return a.code - b.code
		}
		return a.floor.Compare(b.floor)
	})
	for i, next := range held[1:] {
		if last := held[i]; last.code == next.code {
			require.False(tb, next.floor.Before(last.ends), "code %d: %s may have used it up to %v, and %s from %v on",
				last.code, last.owner, last.ends, next.owner, next.floor)
			require.Greater(tb, next.token, last.token, "code %d: tokens of %s and %s", last.code, last.owner, next.owner)
		}
	}
}

// hold watches a lease for some time and returns all that it granted.
func hold(l *snowflake.WorkerLease, owner string, d time.Duration) []holding {
	var mine []holding
	for end := time.Now().Add(d); ; time.Sleep(time.Millisecond) {
		if g := l.Grant(); g != nil {
			h := holding{g.Code, g.Token, g.Floor, g.Ceiling, owner}
			if n := len(mine); n > 0 && mine[n-1].code == h.code && mine[n-1].token == h.token {
				mine[n-1] = h
			} else {
				mine = append(mine, h)
			}
		}
		if time.Now().After(end) {
			return mine
		}
	}
}

// cutStore can be cut off from its users.
type cutStore struct {
	store snowflake.LeaseStore
	cut   atomic.Bool
}

func (s *cutStore) Records(ctx context.Context, region int) ([]snowflake.Record, error) {
	if s.cut.Load() {
		return nil, errLost
	}
	return s.store.Records(ctx, region)
}

func (s *cutStore) Swap(ctx context.Context, old, new snowflake.Record) (snowflake.Record, error) {
	if s.cut.Load() {
		return snowflake.Record{}, errLost
	}
	return s.store.Swap(ctx, old, new)
}

func cutOffAndReturn(tb testing.TB, s handles) {
	tb.Helper()
	const ttl = 12 * time.Second
	store := &cutStore{store: s.a}
	clock := NewClock(noon)
	l, err := snowflake.AcquireLease(tb.Context(), store, snowflake.LeaseConfig{TTL: ttl, Settle: -1, Clock: clock})
	require.NoError(tb, err)
	defer closeAll(tb, []*snowflake.WorkerLease{l})
	store.cut.Store(true)
	first := *l.Grant()
	for clock.Now().Add(100 * time.Millisecond).Before(first.Deadline) {
		require.NotNil(tb, l.Grant(), "an outage of the store stops nobody before the deadline")
		require.NoError(tb, clock.BlockUntil(tb.Context(), 1))
		clock.Add(100 * time.Millisecond)
	}
	clock.Set(first.Deadline)
	require.Eventually(tb, func() bool { return l.Grant() == nil }, 10*time.Second, time.Millisecond, "suspended")
	require.ErrorIs(tb, l.Err(), snowflake.ErrLeaseLost)
	all := s.records(0)
	require.Len(tb, all, 2, "the layout and the code")
	require.Equal(tb, normal(snowflake.Record{Ceiling: first.Ceiling}).Ceiling, all[1].Ceiling, "nothing above it was used")

	store.cut.Store(false)
	require.Eventually(tb, func() bool {
		clock.Add(20 * time.Millisecond)
		return l.Grant() != nil
	}, 30*time.Second, 5*time.Millisecond, "it heals by itself")
	healed := *l.Grant()
	require.Equal(tb, first.Code, healed.Code, "nobody has taken the code")
	require.Equal(tb, first.Token, healed.Token)
	require.Equal(tb, first.Floor, healed.Floor)
	require.True(tb, healed.Ceiling.After(first.Ceiling))
	require.NoError(tb, l.Err())
}
