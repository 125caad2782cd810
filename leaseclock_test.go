package snowflake

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// timed has a worker's store tell the time.
func timed(k *worker) { k.store = timedLink{k.link} }

func TestClockIsComparedWithTheStoresAtAcquire(t *testing.T) {
	for name, test := range map[string]struct {
		off time.Duration
		ok  bool
	}{
		"ahead, within":   {5 * time.Second, true},
		"ahead, beyond":   {5*time.Second + time.Millisecond, false},
		"behind, within":  {-5 * time.Second, true},
		"behind, beyond":  {-5*time.Second - time.Millisecond, false},
		"years ahead":     {10 * 365 * 24 * time.Hour, false},
		"before long ago": {-4 * 365 * 24 * time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				k := w.worker(func(k *worker) {
					timed(k)
					k.clock.step(test.off)
				})
				err := k.acquire(w.Context())
				if test.ok {
					require.NoError(w, err)
					return
				}
				require.ErrorIs(w, err, ErrClockSkew)
				require.True(w, Retryable(err))
				require.Empty(w, w.store.list(0), "nothing was written")
			})
		})
	}
	t.Run("a slow answer is no skew", func(t *testing.T) {
		inWorld(t, func(w *world) {
			k := w.worker(func(k *worker) {
				timed(k)
				k.cfg.MaxClockSkew = time.Second
				k.next("time", fault{delay: 3 * time.Second})
			})
			require.NoError(w, k.acquire(w.Context()))
		})
	})
}

func TestClockIsComparedWithTheStoresAtRenewal(t *testing.T) {
	for name, step := range map[string]time.Duration{"ahead": 6 * time.Second, "behind": -6 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				k := w.holder(timed)
				g := k.generator()
				before := mustNext(w, g)
				w.pass(time.Minute)
				require.NotNil(w, k.grant())
				k.clock.step(step)
				w.pass(20 * time.Second)
				require.Nil(w, k.grant())
				require.ErrorIs(w, k.lease.Load().Err(), ErrLeaseLost)
				require.ErrorIs(w, k.lease.Load().Err(), ErrClockSkew)
				require.True(w, Retryable(k.lease.Load().Err()))
				require.Len(w, k.lost, 1)
				_, err := g.Next()
				require.ErrorIs(w, err, ErrClockSkew)
				w.pass(10 * time.Minute)
				require.Nil(w, k.grant(), "as long as it is off")
				require.Len(w, k.lost, 1)

				k.clock.step(-step)
				w.pass(5 * time.Second)
				require.NotNil(w, k.grant(), "it heals")
				require.NoError(w, k.lease.Load().Err())
				require.Greater(w, mustNext(w, g), before)
				require.Less(w, len(w.store.list(0)), 4, "the layout and at most one more code")
			})
		})
	}
}

// The store's clock was the wrong one: everybody is suspended, and keeps its code.
func TestTheStoresTimeIsOff(t *testing.T) {
	for name, step := range map[string]time.Duration{"ahead": 6 * time.Second, "behind": -6 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				k := w.holder(timed)
				w.clock.step(step)
				w.pass(5 * time.Minute)
				require.Nil(w, k.grant())
				require.ErrorIs(w, k.lease.Load().Err(), ErrClockSkew)
				w.clock.step(-step)
				w.pass(5 * time.Second)
				require.EqualValues(w, 1, k.grant().Token)
				require.EqualValues(w, 1, k.stats().Acquisitions)
				require.Len(w, k.lost, 1)
			})
		})
	}
}

// aheadOf counts the codes whose ceiling is too far ahead for a right clock.
func (w *world) aheadOf() (codes int) {
	for _, r := range w.store.list(0) {
		if r.Ceiling.After(w.clock.Now().Add(10 * time.Minute)) {
			codes++
		}
	}
	return codes
}

// peers returns workers with right clocks, and generators on them.
func (w *world) peers(n int, change func(*worker)) (ks []*worker, gs []*Generator) {
	for range n {
		k := w.holder(change)
		ks, gs = append(ks, k), append(gs, k.generator())
	}
	return ks, gs
}

func eightCodes(k *worker) { k.cfg.Layout = codesOf(3) }

// Without the store's time, one bad clock costs one code until living peers have
// renewed. Then it is refused for as long as it is off, and takes no more.
func TestClockAheadOfLivingPeers(t *testing.T) {
	for name, off := range map[string]time.Duration{"an hour": time.Hour, "ten years": 10 * 365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				good, gs := w.peers(5, eightCodes)
				w.pass(30 * time.Second)
				bad := w.worker(func(k *worker) {
					eightCodes(k)
					k.clock.step(off)
				})
				if bad.acquire(w.Context()) == nil {
					w.pass(45 * time.Second)
					for range 100 {
						require.Nil(w, bad.grant())
						require.ErrorIs(w, bad.lease.Load().Err(), ErrClockSkew)
						require.LessOrEqual(w, w.aheadOf(), 1)
						w.pass(20 * time.Second)
					}
				}
				for i, k := range good {
					require.NotNil(w, k.grant())
					require.LessOrEqual(w, k.stats().Losses, uint64(1), "the code that the bad clock took")
					mustNext(w, gs[i])
				}
				bad.clock.step(-off)
				w.pass(30 * time.Second)
				require.NotNil(w, bad.grant(), "corrected, it is good at once")
			})
		})
	}
}

// The same for a clock that was right and is stepped: it costs no code at all.
func TestClockStepsAheadOfLivingPeers(t *testing.T) {
	for name, off := range map[string]time.Duration{"an hour": time.Hour, "ten years": 10 * 365 * 24 * time.Hour} {
		for after, age := range map[string]time.Duration{"soon": time.Minute, "later": 2 * time.Hour} {
			t.Run(name+" "+after, func(t *testing.T) {
				inWorld(t, func(w *world) {
					good, gs := w.peers(5, eightCodes)
					bad := w.holder(eightCodes)
					g := bad.generator()
					w.pass(age)
					bad.clock.step(off)
					_, err := g.Next()
					require.Error(w, err)
					w.pass(time.Second)
					require.Nil(w, bad.grant())
					require.Len(w, bad.lost, 1)
					require.ErrorIs(w, bad.lost[0], ErrClockSkew)
					for range 60 {
						w.pass(20 * time.Second)
						require.Nil(w, bad.grant())
						require.Zero(w, w.aheadOf(), "it does not reach a ceiling")
					}
					for i, k := range good {
						require.Zero(w, k.stats().Losses)
						mustNext(w, gs[i])
					}
					bad.clock.step(-off)
					w.pass(10 * time.Second)
					require.NotNil(w, bad.grant())
					mustNext(w, g)
				})
			})
		}
	}
}

// A clock that was behind and is corrected does not have to wait for anything.
func TestClockIsCorrectedForward(t *testing.T) {
	for name, peers := range map[string]int{"alone": 0, "among peers": 3} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				_, _ = w.peers(peers, eightCodes)
				k := w.holder(func(k *worker) {
					eightCodes(k)
					k.clock.step(-time.Hour)
				})
				g := k.generator()
				w.pass(5 * time.Minute)
				k.clock.step(time.Hour)
				_, _ = g.Next()
				w.pass(2 * time.Second)
				require.NotNil(w, k.grant())
				require.EqualValues(w, 2, k.stats().Acquisitions, "it ended the grant, and acquired anew")
				mustNext(w, g)
			})
		})
	}
}

// With the store's time a step never reaches a ceiling: not straight, not by acquiring,
// and not when it comes while the store is being asked.
func TestClockStepsWithTheStoresTime(t *testing.T) {
	for name, during := range map[string]string{"between renewals": "", "during time": "time", "during swap": "swap"} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				k := w.holder(timed)
				w.pass(time.Minute)
				if during != "" {
					k.next(during, fault{slow: 2 * time.Second})
					before := k.count(during)
					for k.count(during) == before {
						w.pass(250 * time.Millisecond)
					}
				}
				k.clock.step(time.Hour)
				for range 100 {
					w.pass(time.Second)
					require.Zero(w, w.aheadOf())
				}
				require.Nil(w, k.grant())
				k.clock.step(-time.Hour)
				w.pass(10 * time.Second)
				require.NotNil(w, k.grant())
			})
		})
	}
}

// One peer whose clock is slow does not stop the others.
func TestOneSlowPeerStopsNobody(t *testing.T) {
	for _, others := range []int{2, 2, 2, 2, 2, 6} {
		inWorld(t, func(w *world) {
			eight := func(k *worker) { k.cfg.Layout = codesOf(4) }
			slow := w.holder(func(k *worker) {
				eight(k)
				k.clock.step(-time.Hour)
			})
			w.pass(time.Minute)
			good, gs := w.peers(others, eight)
			for range 60 {
				w.pass(10 * time.Second)
				for _, k := range good {
					require.NotNil(w, k.grant())
					require.Zero(w, k.stats().Losses)
				}
			}
			for range 5 { // newcomers and restarts, too
				k := w.holder(eight)
				w.pass(50 * time.Second)
				require.Zero(w, k.stats().Losses)
				require.NoError(w, k.close())
			}
			require.NotNil(w, slow.grant())
			for _, g := range gs {
				mustNext(w, g)
			}
		})
	}
}

// Ceilings that have not been renewed, releases, and ceilings in the far future do not
// say what time it is.
func TestRecordsThatProveNothing(t *testing.T) {
	past := noon.Add(-time.Hour)
	for name, write := range map[string]func(w *world, k *worker, round int){
		"expired": func(*world, *worker, int) {},
		"released again and again": func(w *world, _ *worker, round int) {
			w.store.put(Record{Worker: 1, Token: uint64(round), Ceiling: past, Released: true})
		},
		"far ahead, and renewed": func(w *world, _ *worker, round int) {
			w.store.put(Record{Worker: 2, Token: 1, Ceiling: noon.AddDate(10, 0, round)})
		},
		"lower than before": func(w *world, _ *worker, _ int) {
			w.store.forget(1, Record{Worker: 1, Token: 1, Version: 1, Ceiling: past, Nonce: "n"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.store.put(Record{Worker: 1, Token: 1, Version: 3, Ceiling: past, Nonce: "n"})
				w.store.put(Record{Worker: 2, Token: 1, Ceiling: noon.AddDate(10, 0, 0)})
				// The code is known, so that the lease takes no other.
				k := w.holder(func(k *worker) { k.cfg.Layout = codesOf(8) })
				for round := range 20 {
					w.pass(10 * time.Second)
					if k.code() != 1 {
						write(w, k, round)
					}
				}
				require.Zero(w, k.stats().Losses)
				require.NotNil(w, k.grant())
			})
		})
	}
	for name, ceiling := range map[string]func(int) time.Time{
		"far ahead":                func(round int) time.Time { return noon.AddDate(10, 0, round) },
		"ahead, and does not move": func(int) time.Time { return noon.Add(3 * time.Hour) },
	} {
		t.Run(name+" does not outvote a living peer", func(t *testing.T) {
			inWorld(t, func(w *world) {
				good, _ := w.peers(1, nil)
				bad := w.worker(func(k *worker) { k.clock.step(time.Hour) })
				far := (good[0].code() + 1) % 256
				w.store.put(Record{Worker: far, Token: 1, Ceiling: ceiling(0)})
				require.NoError(w, bad.acquire(w.Context()))
				for round := range 60 {
					w.store.put(Record{Worker: far, Token: 1, Ceiling: ceiling(round)})
					w.pass(time.Second)
				}
				require.Nil(w, bad.grant())
			})
		})
	}
}

// The one peer that disagreed is gone: nobody is left who could be harmed, or say who
// was right.
func TestALivingPeerProvesAsLongAsItLives(t *testing.T) {
	inWorld(t, func(w *world) {
		peer := w.holder(nil)
		k := w.holder(func(k *worker) { k.clock.step(time.Hour) })
		w.pass(time.Minute)
		if peer.code() == k.code() {
			return
		}
		require.Nil(w, k.grant())
		w.pass(10 * time.Minute)
		require.Nil(w, k.grant())
		peer.kill()
		w.pass(time.Minute)
		require.Nil(w, k.grant())
		w.pass(2 * time.Minute)
		require.NotNil(w, k.grant())
	})
}

// A peer renewed after the last look and died: its ceiling is long past, and says
// nothing against the local clock.
func TestADeadPeerProvesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		peer := w.holder(nil)
		k := w.holder(nil)
		w.pass(3 * time.Minute)
		peer.kill()
		w.pass(time.Hour)
		taken := k.stored()
		taken.Nonce, taken.Token = "somebody else's nonce", 2
		w.store.put(taken)
		w.pass(21 * time.Second)
		require.Len(w, k.acquired, 2)
		w.pass(5 * time.Minute)
		require.NotNil(w, k.grant())
		require.EqualValues(w, 1, k.stats().Losses)
	})
}

// The lease's own records are no witnesses: not the one it lost, not its orphans.
func TestOwnRecordsProveNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.holder(func(k *worker) { k.clock.step(-time.Hour) })
		w.pass(5 * time.Minute)
		k.next("swap", fault{late: 20 * time.Second})
		k.clock.step(time.Hour)
		k.lease.Load().renewSoon()
		w.pass(30 * time.Second)
		require.NotNil(w, k.grant(), "alone, it has nobody to disagree with")
		w.pass(5 * time.Minute)
		require.NotNil(w, k.grant())
		require.EqualValues(w, 1, k.stats().Losses)
	})
}

// bareStore is the world's store for more than one lease.
type bareStore struct{ store *fakeStore }

func (s bareStore) Records(_ context.Context, region int) ([]Record, error) {
	return s.store.list(region), nil
}

func (s bareStore) Swap(_ context.Context, old, new Record) (Record, error) {
	s.store.attempt(new)
	stored, err := s.store.swap(old, new)
	if err == nil {
		s.store.acknowledge(stored)
	}
	return stored, err
}

// A pool has one clock, however many leases: were they taken for each other's witnesses,
// one bad clock would outvote the rest of the region.
func TestMembersOfAPoolAreNoWitnesses(t *testing.T) {
	inWorld(t, func(w *world) {
		w.holder(nil)
		w.holder(nil)
		odd := w.worker(func(k *worker) { k.clock.step(time.Hour) })
		cfg := odd.cfg
		cfg.Hooks, cfg.Clock = nil, odd.clock
		pool, err := NewPool(w.Context(), PoolConfig{Store: bareStore{w.store}, Size: 4, Lease: cfg})
		require.NoError(w, err)
		w.pass(5 * time.Minute)
		_, err = pool.Next()
		require.ErrorIs(w, err, ErrClockSkew)
		require.NoError(w, pool.Close(w.Context()))
	})
}
