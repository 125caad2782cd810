package snowflake

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStaticLeaseHoldsItsCodeForEver(t *testing.T) {
	l := StaticLease(7)
	require.Equal(t, Grant{Code: 7}, *l.Grant())
	first := l.Grant()
	require.Same(t, first, l.Grant(), "the same pointer until something changes")
}

func TestLeaseConfigRefuses(t *testing.T) {
	bad := DefaultLayout()
	bad.TimeBits++
	early := newHandClock()
	early.Set(time.Date(2025, 12, 31, 0, 0, 0, 0, time.UTC))
	late := newHandClock()
	late.Set(DefaultLayout().End())
	for name, test := range map[string]struct {
		cfg  LeaseConfig
		is   error
		says []string // field, value, bound
	}{
		"region negative":     {cfg: LeaseConfig{Region: -1}, says: []string{"LeaseConfig.Region is -1", "0 to 3"}},
		"region too high":     {cfg: LeaseConfig{Region: 4}, says: []string{"LeaseConfig.Region is 4", "0 to 3", "2 bits"}},
		"TTL negative":        {cfg: LeaseConfig{TTL: -1}, says: []string{"LeaseConfig.TTL is -1ns"}},
		"TTL below 3 ticks":   {cfg: LeaseConfig{TTL: 2 * time.Millisecond}, says: []string{"LeaseConfig.TTL is 2ms", "3ms"}},
		"TTL above a day":     {cfg: LeaseConfig{TTL: 25 * time.Hour}, says: []string{"LeaseConfig.TTL is 25h0m0s", "24h0m0s"}},
		"Renew negative":      {cfg: LeaseConfig{Renew: -1}, says: []string{"LeaseConfig.Renew is -1ns", "40s"}},
		"Renew above TTL/3":   {cfg: LeaseConfig{TTL: 30 * time.Second, Renew: 10*time.Second + 1}, says: []string{"LeaseConfig.Renew is 10.000000001s", "TTL/3 = 10s"}},
		"skew negative":       {cfg: LeaseConfig{MaxClockSkew: -1}, says: []string{"LeaseConfig.MaxClockSkew is -1ns", "above 0"}},
		"skew without bound":  {cfg: LeaseConfig{MaxClockSkew: 1<<63 - 1}, says: []string{"LeaseConfig.MaxClockSkew is 2562047h", "24h0m0s"}},
		"settle too long":     {cfg: LeaseConfig{Settle: 48*time.Hour + 1}, says: []string{"LeaseConfig.Settle is 48h0m0.000000001s", "48h0m0s"}},
		"owner too long":      {cfg: LeaseConfig{Owner: strings.Repeat("x", 256)}, says: []string{"LeaseConfig.Owner has 256 bytes", "255"}},
		"layout":              {cfg: LeaseConfig{Layout: bad}, says: []string{"64", "63"}},
		"clock before epoch":  {cfg: LeaseConfig{Clock: early}, is: ErrBeforeEpoch, says: []string{"2025-12-31T00:00:00Z", "2026-01-01T00:00:00Z"}},
		"clock after the end": {cfg: LeaseConfig{Clock: late}, is: ErrTimeOverflow, says: []string{"2095"}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.cfg.Clock == nil {
				test.cfg.Clock = newHandClock()
			}
			l, err := AcquireLease(t.Context(), newFakeStore(t).link(), test.cfg)
			require.Error(t, err)
			require.Nil(t, l)
			if test.is != nil {
				require.ErrorIs(t, err, test.is)
			}
			for _, part := range test.says {
				require.ErrorContains(t, err, part)
			}
		})
	}
	_, err := AcquireLease(t.Context(), nil, LeaseConfig{})
	require.ErrorContains(t, err, "store is nil")
}

func TestLeaseConfigDefaults(t *testing.T) {
	plain := newFakeStore(t).link()
	c, err := LeaseConfig{}.filled(plain)
	require.NoError(t, err)
	require.Equal(t, 2*time.Minute, c.TTL)
	require.Equal(t, 20*time.Second, c.Renew)
	require.Equal(t, 5*time.Second, c.MaxClockSkew)
	require.Zero(t, c.Settle)
	require.Equal(t, DefaultLayout(), c.Layout)
	require.Equal(t, SystemClock(), c.Clock)
	require.NotEmpty(t, c.Owner)
	require.LessOrEqual(t, len(c.Owner), 255)

	c, err = LeaseConfig{TTL: time.Minute}.filled(plain)
	require.NoError(t, err)
	require.Equal(t, 10*time.Second, c.Renew, "a sixth of TTL")
	for name, test := range map[string]struct {
		store  LeaseStore
		cfg    LeaseConfig
		settle time.Duration
	}{
		"a store that may forget":     {forgetfulLink{plain}, LeaseConfig{}, 2*time.Minute + 5*time.Second},
		"the same, explicit":          {forgetfulLink{plain}, LeaseConfig{Settle: time.Second}, time.Second},
		"the same, off":               {forgetfulLink{plain}, LeaseConfig{Settle: -1}, 0},
		"the same, the longest":       {forgetfulLink{plain}, LeaseConfig{TTL: 24 * time.Hour, MaxClockSkew: 24 * time.Hour}, 48 * time.Hour},
		"one that does not, explicit": {plain, LeaseConfig{Settle: time.Second}, time.Second},
	} {
		c, err := test.cfg.filled(test.store)
		require.NoError(t, err, name)
		require.Equal(t, test.settle, c.Settle, name)
	}
}

func TestReleaseClampsTheCeiling(t *testing.T) {
	floor := noon.Add(-time.Hour)
	for name, test := range map[string]struct {
		unused, ceiling time.Time
	}{
		"in between":          {noon.Add(time.Second), noon.Add(time.Second)},
		"rounded up":          {noon.Add(time.Second + 1), noon.Add(time.Second + time.Millisecond)},
		"never below floor":   {floor.Add(-time.Minute), floor},
		"before the epoch":    {time.Unix(0, 0), floor},
		"never above ceiling": {noon.AddDate(1, 0, 0), noon.Add(2 * time.Minute)},
		"beyond all layouts":  {noon.AddDate(1000, 0, 0), noon.Add(2 * time.Minute)},
		"unknown":             {time.Time{}, noon.Add(2 * time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.store.put(Record{Worker: 0, Token: 4, Ceiling: floor, Released: true})
				k := w.holder(func(k *worker) { k.cfg.Layout = codesOf(0) })
				require.Equal(w, floor, k.grant().Floor)
				require.NoError(w, k.release(test.unused))
				stored := w.store.record(0)
				require.True(w, stored.Released)
				require.Equal(w, test.ceiling, stored.Ceiling)
				require.EqualValues(w, 5, stored.Token)
			})
		})
	}
}

func TestReleaseIsFinal(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.holder(nil)
		l := k.lease.Load()
		require.NoError(w, l.Release(w.Context(), noon.Add(time.Second)))
		code, swaps, lists := k.code(), k.count("swap"), k.count("records")
		released := w.store.record(code)
		check := func() {
			require.Nil(w, l.Grant())
			require.ErrorIs(w, l.Err(), ErrClosed)
			require.False(w, l.Stats().Held)
			require.Equal(w, released, w.store.record(code))
			require.Equal(w, swaps, k.count("swap"))
			require.Equal(w, lists, k.count("records"))
		}
		check()
		require.NoError(w, l.Release(w.Context(), noon.Add(time.Minute)), "again")
		require.NoError(w, l.Close(w.Context()), "Close after Release")
		l.renewSoon()
		w.pass(10 * time.Minute)
		check()
		require.Empty(w, k.lost, "a release is no loss")
		_, err := New(w.Context(), Config{Lease: l, Clock: k.clock})
		require.ErrorIs(w, err, ErrClosed)
		require.False(w, Retryable(err))
	})
}

// The answer to a renewal comes at the very moment of the release: it is not revealed
// any more.
func TestReleaseAtTheMomentOfAnAnswer(t *testing.T) {
	inWorld(t, func(w *world) {
		clock := &watchedClock{bubbleClock: newBubbleClock()}
		k := w.holder(func(k *worker) { k.clock, k.cfg.Clock = clock.bubbleClock, clock })
		l := k.lease.Load()
		var released sync.WaitGroup
		k.set(func(k *link) {
			k.plan = func(op string, _ Record) fault {
				if op == "swap" {
					clock.onNow(func() { // the next reading is for the grant
						released.Go(func() { _ = l.Release(w.Context(), noon) })
						for l.Err() == nil {
							time.Sleep(time.Microsecond)
						}
					})
				}
				return fault{}
			}
		})
		w.pass(21 * time.Second)
		released.Wait()
		require.ErrorIs(w, l.Err(), ErrClosed)
		require.Nil(w, l.Grant())
		require.Len(w, k.acquired, 1)
	})
}

// watchedClock calls a function once, at its next reading.
type watchedClock struct {
	*bubbleClock
	mu   sync.Mutex
	call func()
}

func (c *watchedClock) onNow(call func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.call = call
}

func (c *watchedClock) Now() time.Time {
	c.mu.Lock()
	call := c.call
	c.call = nil
	c.mu.Unlock()
	if call != nil {
		call()
	}
	return c.bubbleClock.Now()
}

func TestReleasedCodeIsReusedAboveWhatWasClaimed(t *testing.T) {
	inWorld(t, func(w *world) {
		one := func(k *worker) { k.cfg.Layout = codesOf(0) }
		k := w.holder(one)
		g := k.generator()
		w.pass(10 * time.Second)
		id := mustNext(t, g)
		last := mustUnpack(t, g.Layout(), id).Time
		require.NoError(w, g.Close(w.Context()))
		require.Equal(w, last.Add(time.Millisecond), w.store.record(0).Ceiling)

		w.pass(time.Millisecond)
		next := w.holder(one)
		require.Equal(w, last.Add(time.Millisecond), next.grant().Floor, "at once, because clocks have passed it")
		require.EqualValues(w, 2, next.grant().Token)
		require.Greater(w, mustNext(t, next.generator()), id)
	})
}

func TestReleaseWhileARenewalIsOnItsWay(t *testing.T) {
	for name, f := range map[string]fault{
		"it lands before":        {late: time.Millisecond},
		"it lands after":         {late: time.Minute},
		"it has landed":          {silent: true},
		"its answer is late":     {slow: 3 * time.Second},
		"and nobody looks at it": {slow: 3 * time.Second, deaf: true},
		"it lands late and deaf": {delay: 3 * time.Second, deaf: true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				k := w.holder(nil)
				code := k.code()
				k.next("swap", f)
				for k.count("swap") < 3 { // the layout, the code, and this one
					w.pass(250 * time.Millisecond)
				}
				unused := k.clock.Now()
				began := time.Now()
				require.NoError(w, k.release(unused))
				require.Less(w, time.Since(began), 5*time.Second)
				w.pass(2 * time.Minute)
				stored := w.store.record(code)
				require.True(w, stored.Released)
				require.Equal(w, unused.Truncate(time.Millisecond), stored.Ceiling.Truncate(time.Millisecond))
			})
		})
	}
}

func TestReleaseFindsOutWhatBecameOfIt(t *testing.T) {
	for name, faults := range map[string][]fault{
		"refused":               {{err: errDown}},
		"lost":                  {{lost: true}},
		"done, not answered":    {{silent: true}},
		"done, broken":          {{broken: true}},
		"done twice":            {{twice: true}},
		"done later":            {{late: time.Second}},
		"conflict out of order": {{err: ErrConflict}},
		"all of them":           {{err: errDown}, {late: 300 * time.Millisecond}, {err: ErrConflict}, {broken: true}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				k := w.holder(nil)
				code := k.code()
				k.next("swap", faults...)
				require.NoError(w, k.release(noon.Add(time.Second)))
				w.pass(time.Minute)
				require.True(w, w.store.record(code).Released)
				require.Equal(w, noon.Add(time.Second), w.store.record(code).Ceiling)
			})
		})
	}
}

func TestReleaseEndsWithTheStoreDown(t *testing.T) {
	for name, test := range map[string]struct {
		ctx  time.Duration // 0: Background
		f    fault
		most time.Duration
	}{
		"refusing, until the context ends": {time.Second, fault{err: errDown}, time.Second},
		"refusing, for ever":               {0, fault{err: errDown}, 10 * time.Second},
		"silent, until the context ends":   {time.Second, fault{lost: true}, time.Second},
		"silent, for ever":                 {0, fault{lost: true}, 10 * time.Second},
		"deaf, until the context ends":     {time.Second, fault{delay: 30 * time.Minute, deaf: true}, time.Second},
		"deaf, for ever":                   {0, fault{delay: 30 * time.Minute, deaf: true}, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				k := w.holder(nil)
				l, code := k.lease.Load(), k.code()
				k.set(func(k *link) { k.plan = func(string, Record) fault { return test.f } })
				w.pass(30 * time.Second) // a renewal is on its way, too
				ctx, cancel := context.Background(), context.CancelFunc(func() {})
				if test.ctx > 0 {
					ctx, cancel = context.WithTimeout(ctx, test.ctx)
				}
				defer cancel()
				began := time.Now()
				err := l.Release(ctx, noon.Add(time.Minute))
				require.ErrorIs(w, err, context.DeadlineExceeded)
				require.LessOrEqual(w, time.Since(began), test.most)
				require.Nil(w, l.Grant())
				require.NoError(w, l.Close(w.Context()))
				require.Equal(w, noon.Add(2*time.Minute), w.store.record(code).Ceiling, "it stays reserved")
				k.lease.Store(nil)
			})
		})
	}
}

func TestReleaseOfALeaseThatHoldsNothing(t *testing.T) {
	t.Run("taken by another", func(t *testing.T) {
		inWorld(t, func(w *world) {
			k := w.holder(nil)
			taken := k.stored()
			taken.Nonce, taken.Token = "somebody else's nonce", 2
			w.store.put(taken)
			code := k.code()
			taken = w.store.record(code)
			require.NoError(w, k.release(noon))
			require.Equal(w, taken, w.store.record(code), "not ours to change")
		})
	})
	t.Run("acquiring in the background", func(t *testing.T) {
		inWorld(t, func(w *world) {
			k := w.holder(nil)
			code := k.code()
			k.set(func(k *link) {
				k.plan = func(op string, new Record) fault {
					if op == "swap" && new.Worker != code {
						return fault{late: 5 * time.Second} // each lands as an orphan
					}
					return fault{}
				}
			})
			taken := k.stored()
			taken.Nonce, taken.Token = "somebody else's nonce", 2
			w.store.put(taken)
			w.pass(25 * time.Second)
			require.Nil(w, k.grant())
			began := time.Now()
			require.NoError(w, k.release(k.clock.Now()))
			require.Less(w, time.Since(began), time.Second)
			w.pass(time.Minute)
			require.Nil(w, k.grant())
		})
	})
}

// A store that forgot renewals shows a ceiling below what was claimed. The release must
// not leave it there: the next owner would start inside.
func TestReleaseToAStoreThatForgot(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.holder(nil)
		code, first := k.code(), k.stored()
		w.pass(3 * time.Minute)
		w.store.forget(code, first)
		unused := k.clock.Now()
		require.True(w, first.Ceiling.Before(unused))
		require.NoError(w, k.release(unused))
		require.Equal(w, unused, w.store.record(code).Ceiling)
		require.Len(w, k.forgot, 1)
		require.EqualValues(w, 1, k.stats().Forgotten)
	})
	t.Run("the record", func(t *testing.T) {
		inWorld(t, func(w *world) {
			k := w.holder(nil)
			w.store.forget(k.code(), Record{})
			began := time.Now()
			require.ErrorIs(w, k.release(noon), ErrLeaseLost)
			require.Less(w, time.Since(began), time.Second, "there is nothing to wait for")
			require.Len(w, k.forgot, 1)
		})
	})
}

func TestLeaseServesOneGenerator(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.holder(nil)
		cfg := Config{Lease: k.lease.Load(), Clock: k.clock, MaxAhead: -1}
		_, err := New(w.Context(), cfg)
		require.ErrorContains(w, err, "MaxAhead")
		ended, cancel := context.WithCancel(w.Context())
		cancel()
		cfg.MaxAhead = 0
		_, err = New(ended, cfg)
		require.ErrorIs(w, err, context.Canceled)

		g, err := New(w.Context(), cfg)
		require.NoError(w, err, "the lease is given back when New fails")
		_, err = New(w.Context(), cfg)
		require.ErrorIs(w, err, ErrCodeInUse)
		mustNext(t, g)
		require.NoError(w, g.Close(w.Context()))
		_, err = New(w.Context(), cfg)
		require.Error(w, err, "it went with its generator")
	})
}

func TestLeaseStats(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.holder(func(k *worker) { k.cfg.Region = 2 })
		g := k.grant()
		require.Equal(w, LeaseStats{
			Region: 2, Worker: g.Code - 2<<8, Token: 1, Held: true, Floor: DefaultLayout().Epoch,
			Ceiling: noon.Add(2 * time.Minute), Acquisitions: 1,
		}, k.stats())

		for k.stats().Renewals < 3 {
			w.pass(250 * time.Millisecond)
		}
		k.next("swap", fault{err: ErrConflict})
		w.pass(time.Minute)
		stats := k.stats()
		require.EqualValues(w, 1, stats.Conflicts)
		require.EqualValues(w, 1, stats.RenewalFailures)
		require.Zero(w, stats.Losses)

		before := w.store.list(2)
		k.cut(true)
		w.pass(3 * time.Minute)
		stats = k.stats()
		require.False(w, stats.Held)
		require.EqualValues(w, 1, stats.Losses)
		require.Equal(w, g.Code-2<<8, stats.Worker, "suspended, the record is still its own")
		require.ElementsMatch(w, before, w.store.list(2))
		require.EqualValues(w, len(k.failed), stats.RenewalFailures)

		k.cut(false)
		w.pass(10 * time.Second)
		require.True(w, k.stats().Held)
		require.EqualValues(w, 1, k.stats().Acquisitions)
	})
}

// Leases and generators live and die on a store and on clocks that do all they can, on
// fewer codes than there are processes. The world checks all that must always hold.
func TestLeasesUnderRandomFaults(t *testing.T) {
	seeds := uint64(30)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inWorld(t, func(w *world) { randomLives(w, seed) })
		})
	}
}

func randomLives(w *world, seed uint64) {
	const processes, length = 7, 4 * time.Minute
	var lives sync.WaitGroup
	var mu sync.Mutex
	ids := newLedger()
	perLife := make(map[string][]ID)
	ended := time.Now().Add(length)
	for p := range processes {
		random := rand.New(rand.NewPCG(seed, uint64(p)))
		lives.Go(func() {
			for life := 0; time.Now().Before(ended); life++ {
				got := randomLife(w, random, ended)
				mu.Lock()
				perLife[fmt.Sprint("process ", p, " life ", life)] = got
				mu.Unlock()
				time.Sleep(time.Duration(random.Int64N(int64(5 * time.Second))))
			}
		})
	}
	for time.Now().Before(ended) {
		w.pass(50 * time.Millisecond)
	}
	lives.Wait()
	total := 0
	for who, got := range perLife {
		ids.add(w, who, got...)
		for i := range got[min(1, len(got)):] {
			if got[i] >= got[i+1] {
				w.Errorf("%s: %d after %d", who, got[i+1], got[i])
			}
		}
		total += len(got)
	}
	require.Greater(w, total, 1000, "the test must get somewhere")
}

// randomLife is that of one process: it acquires a lease, mints, and is closed or
// killed. It returns its IDs.
func randomLife(w *world, random *rand.Rand, ended time.Time) (ids []ID) {
	k := w.worker(func(k *worker) {
		k.cfg.Layout, k.cfg.TTL, k.cfg.Renew = codesOf(2), 9*time.Second, 3*time.Second
		k.clock.step(time.Duration(random.Int64N(int64(4*time.Second))) - 2*time.Second)
		k.user = fmt.Sprint("process ", random.Uint32())
		switch random.IntN(6) {
		case 0:
			k.cfg.Clock = plainClock{k.clock}
		case 1:
			k.store = timedLink{k.link}
		case 2:
			k.cfg.Settle = 2 * time.Second
		}
		bad := random.IntN(3) * 15 // per cent
		var guard sync.Mutex       // of random
		plans := rand.New(rand.NewPCG(random.Uint64(), 1))
		k.plan = func(_ string, _ Record) fault {
			guard.Lock()
			defer guard.Unlock()
			if plans.IntN(100) >= bad {
				return fault{}
			}
			d := 1 + time.Duration(plans.Int64N(int64(4*time.Second)))
			return []fault{
				{err: errDown}, {lost: true}, {late: 1 + 5*d}, {twice: true}, {silent: true}, {broken: true},
				{slow: d}, {slow: d, deaf: true}, {delay: d, deaf: true}, {delay: d / 8}, {err: ErrConflict},
			}[plans.IntN(11)]
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if k.acquire(ctx) != nil {
		return nil
	}
	g, err := New(ctx, Config{Lease: k.lease.Load(), Clock: k.cfg.Clock, MaxWait: -1, MaxAhead: time.Duration(random.Int64N(2)) * time.Second})
	if err != nil {
		_ = k.close()
		k.lease.Store(nil)
		return nil
	}
	end := time.Now().Add(time.Duration(random.Int64N(int64(time.Minute))))
	for time.Now().Before(end) && time.Now().Before(ended) {
		time.Sleep(time.Duration(random.Int64N(int64(200 * time.Millisecond))))
		switch random.IntN(200) {
		case 0:
			k.clock.step(time.Duration(random.Int64N(int64(40*time.Second))) - 20*time.Second)
		case 1:
			k.cut(true)
		case 2, 3, 4:
			k.cut(false)
		case 5:
			k.clock.suspend(time.Duration(random.Int64N(int64(20 * time.Second))))
		}
		if id, err := g.Next(); err == nil {
			ids = append(ids, id)
		}
	}
	if random.IntN(3) == 0 {
		k.kill()
		return ids
	}
	_ = g.Close(context.Background())
	synctest.Wait()
	k.lease.Store(nil)
	return ids
}
