package snowflake

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// untilRenewal lets time pass until the next swap is asked for, and returns when the
// request began, by the worker's clock.
func (k *worker) untilRenewal() time.Time {
	k.world.Helper()
	before := k.count("swap")
	for range 4 * 60 * 60 {
		if k.count("swap") > before {
			var at time.Time
			k.set(func(k *link) { at = k.asked[len(k.asked)-1] })
			return k.clock.Now().Add(-time.Since(at))
		}
		k.world.pass(250 * time.Millisecond)
	}
	k.world.Fatal("no renewal for an hour")
	return time.Time{}
}

func TestRenewRaisesCeilingAndDeadline(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.holder(nil)
		first := k.grant()
		last := noon
		for range 50 {
			sent := k.untilRenewal()
			require.GreaterOrEqual(w, sent.Sub(last), 15*time.Second, "jitter shortens by a quarter at most")
			require.LessOrEqual(w, sent.Sub(last), 20*time.Second, "and only shortens")
			g := k.grant()
			require.Equal(w, sent.Add(2*time.Minute).Truncate(time.Millisecond), g.Ceiling)
			require.WithinDuration(w, sent.Add(2*time.Minute), g.Deadline, 0)
			require.Equal(w, [2]any{first.Code, first.Token}, [2]any{g.Code, g.Token})
			require.Equal(w, first.Floor, g.Floor)
			require.Equal(w, k.stored().Ceiling, g.Ceiling)
			last = sent
		}
		require.Len(w, k.acquired, 1, "a renewal is no acquisition")
		require.Equal(w, noon.Add(2*time.Minute), first.Ceiling, "a grant does not change")
	})
}

// The grant is not touched by a renewal that was not acknowledged: the next one is sent at
// once, on top of whatever a read-back shows.
func TestRenewFindsOutWhatBecameOfIt(t *testing.T) {
	for name, test := range map[string]struct {
		f            fault
		acknowledged bool
		failures     int
	}{
		"refused":            {fault{err: errDown}, false, 1},
		"lost":               {fault{lost: true}, false, 1},
		"spurious conflict":  {fault{err: ErrConflict}, false, 1},
		"delivered twice":    {fault{twice: true}, false, 0},
		"done, not answered": {fault{silent: true}, false, 0},
		"done, broken":       {fault{broken: true}, false, 0},
		"answered slowly":    {fault{slow: 3 * time.Second}, true, 0},
		"answered late":      {fault{slow: 10 * time.Second}, false, 0},
		"answered late deaf": {fault{slow: 6 * time.Second, deaf: true}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				k := w.holder(nil)
				k.next("swap", test.f)
				sent := k.untilRenewal()
				w.pass(9 * time.Second)
				g := k.grant()
				require.Equal(w, k.stored().Ceiling, g.Ceiling)
				if test.acknowledged {
					require.Equal(w, sent.Add(2*time.Minute).Truncate(time.Millisecond), g.Ceiling)
					require.WithinDuration(w, sent.Add(2*time.Minute), g.Deadline, 0)
				} else {
					require.False(w, g.Ceiling.Before(sent.Add(2*time.Minute).Truncate(time.Millisecond)), "tried again soon")
					require.Equal(w, g.Deadline.Truncate(time.Millisecond), g.Ceiling, "both of the request that was acknowledged")
				}
				require.EqualValues(w, test.failures, k.stats().RenewalFailures)
				require.Len(w, k.failed, test.failures)
				w.pass(5 * time.Minute)
				require.Zero(w, k.stats().Losses)
				require.EqualValues(w, 1, k.grant().Token)
			})
		})
	}
}

// A primary that has lost its replica shows commits that it never acknowledges, and a
// failover takes them away. Nothing may have been made of them.
func TestWhatIsShownIsNotWhatIsDurable(t *testing.T) {
	unanswered := func(k *worker) {
		k.set(func(k *link) {
			k.plan = func(op string, _ Record) fault { return fault{silent: op == "swap"} }
		})
	}
	t.Run("a renewal", func(t *testing.T) {
		inWorld(t, func(w *world) {
			k := w.holder(oneCode)
			g := k.generator()
			w.pass(time.Minute)
			unanswered(k)
			w.pass(time.Minute)
			before := *k.grant()
			require.Greater(w, k.stored().Ceiling.Sub(before.Ceiling), 30*time.Second, "it has been seen")

			w.store.failOver()
			require.Equal(w, before.Ceiling, k.stored().Ceiling, "all that was revealed is there")
			k.set(func(k *link) { k.plan = nil })
			w.pass(30 * time.Second)
			require.Greater(w, k.grant().Ceiling.Sub(before.Ceiling), time.Minute, "it goes on from what was left")
			require.Zero(w, k.stats().Losses)
			require.Zero(w, k.stats().Forgotten, "nothing was lost that had been acknowledged")
			mustNext(w, g)
		})
	})
	t.Run("an acquisition", func(t *testing.T) {
		inWorld(t, func(w *world) {
			k := w.worker(oneCode)
			k.next("swap", fault{})
			unanswered(k)
			ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
			defer cancel()
			require.Error(w, k.acquire(ctx), "the store shows it, and that is no lease")
			w.store.failOver()
			other := w.worker(oneCode)
			require.NoError(w, other.acquire(w.Context()))
			require.EqualValues(w, 1, other.grant().Token)
		})
	})
	t.Run("a fence", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.holder(oneCode)
			way := w.operator()
			way.plan = func(op string, _ Record) fault { return fault{silent: op == "swap"} }
			done, err := FenceLeases(w.Context(), way, Fence{Until: w.clock.Now().Add(time.Hour)})
			require.Error(w, err)
			require.Zero(w, done.Codes)
		})
	})
}

// B reads a record that A has written and was not told of; a failover loses it; A renews,
// and so the version comes again. What B read is another record for all that, and B must
// not get the code with it: its floor would lie in the middle of what A has.
func TestALostVersionComesAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.holder(oneCode)
		w.pass(time.Minute)
		a.next("swap", fault{silent: true})
		a.next("records", fault{lost: true})
		a.untilRenewal()
		w.pass(10 * time.Millisecond)
		shown := a.stored() // to B
		a.set(func(k *link) { k.plan = func(string, Record) fault { return fault{lost: true} } })
		w.pass(5 * time.Minute)
		w.store.failOver()
		a.set(func(k *link) { k.plan = nil })
		w.pass(10 * time.Second)
		require.NotNil(w, a.grant())
		again := a.stored()
		for again.Version < shown.Version {
			w.pass(time.Second)
			again = a.stored()
		}
		require.Equal(w, shown.Version, again.Version)
		_, err := w.store.swap(shown, Record{Nonce: newNonce(), Token: shown.Token + 1, Ceiling: shown.Ceiling})
		require.ErrorIs(w, err, ErrConflict)
	})
}

// A write that lands long after its user gave up finds its version gone, or is adopted.
func TestRenewLandsLate(t *testing.T) {
	for _, late := range []time.Duration{time.Second, 5 * time.Second, 8100 * time.Millisecond, time.Minute, time.Hour} {
		t.Run(late.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				k := w.holder(nil)
				k.next("swap", fault{late: late}, fault{late: late / 2}, fault{late: late})
				w.pass(10 * time.Minute)
				require.Zero(w, k.stats().Losses)
				require.NotNil(w, k.grant())
				require.WithinDuration(w, k.clock.Now().Add(2*time.Minute), k.grant().Ceiling, 21*time.Second)
			})
		})
	}
}

func TestRenewSuspendsAtTheDeadlineAndRestores(t *testing.T) {
	for name, f := range map[string]fault{
		"a store that refuses": {err: errDown},
		"one that is silent":   {lost: true},
		// With the request before still in flight, too, the deadline is kept.
		"one that hangs": {delay: 5 * time.Minute, deaf: true},
	} {
		t.Run(name, func(t *testing.T) {
			for range 4 { // where in its attempts the deadline finds it is chance
				inWorld(t, func(w *world) { suspendAndRestore(w, f) })
			}
		})
	}
}

func suspendAndRestore(w *world, f fault) {
	k := w.holder(nil)
	g := k.generator()
	w.pass(time.Minute)
	before := mustNext(w, g)
	deadline := k.grant().Deadline
	k.set(func(k *link) { k.plan = func(string, Record) fault { return f } })
	w.pass(deadline.Sub(k.clock.Now()) - time.Millisecond)
	require.NotNil(w, k.grant())
	require.Equal(w, deadline, k.grant().Deadline)
	mustNext(w, g)
	w.pass(time.Millisecond)
	require.Nil(w, k.grant())
	err := k.lease.Load().Err()
	require.ErrorIs(w, err, ErrLeaseLost)
	require.True(w, Retryable(err))
	require.ErrorContains(w, err, "suspended")
	_, err = g.Next()
	require.ErrorIs(w, err, ErrLeaseLost)
	require.Len(w, k.lost, 1)
	require.Equal(w, k.code(), k.lost[0].Worker)
	require.Equal(w, k.stored().Ceiling, k.lost[0].Until)

	w.pass(10 * time.Minute)
	require.Nil(w, k.grant())
	require.Len(w, k.lost, 1, "told once")
	k.set(func(k *link) { k.plan = nil })
	w.pass(5*time.Minute + 10*time.Second)
	require.EqualValues(w, 1, k.grant().Token, "the same: nobody took it")
	require.NoError(w, k.lease.Load().Err())
	require.Len(w, k.acquired, 2)
	require.EqualValues(w, 1, k.stats().Losses)
	require.Greater(w, mustNext(w, g), before)
}

// Somebody took the record of a suspended lease for a dead one's, and released it. Its
// ceiling was left alone; the owner goes on below it, and renews.
func TestRenewAfterAnOperatorsRelease(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.holder(nil)
		k.cut(true)
		w.pass(10 * time.Minute)
		r := k.stored()
		r.Released = true
		w.store.put(r)
		k.cut(false)
		w.pass(10 * time.Second)
		require.EqualValues(w, 1, k.grant().Token)
		require.Equal(w, k.stored().Ceiling, k.grant().Ceiling)
		w.pass(time.Minute)
		require.False(w, k.stored().Released)
	})
}

// An ordinary failover, up to TTL - Renew - 8 s, stops nobody.
func TestRenewRidesOutAnOutage(t *testing.T) {
	for name, f := range map[string]fault{"refusing": {err: errDown}, "silent": {lost: true}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				k := w.holder(nil)
				for range 5 {
					k.set(func(k *link) { k.plan = func(string, Record) fault { return f } })
					w.pass(92 * time.Second)
					k.set(func(k *link) { k.plan = nil })
					w.pass(time.Minute)
				}
				require.Zero(w, k.stats().Losses)
			})
		})
	}
}

// Once its ceiling may have passed by another's clock, a lease on a store that may forget
// settles before it goes on: somebody may have been given the code, and the store may know
// nothing of it. Within that it does not, nor on any other store.
func TestRenewPastTheCeilingWhereTheStoreForgets(t *testing.T) {
	for name, test := range map[string]struct {
		settle time.Duration
		outage time.Duration
		lands  bool // what is sent meanwhile, though nothing is answered
		fresh  bool
	}{
		"past it":                         {time.Minute, 3 * time.Minute, false, true},
		"past it, by an unanswered write": {time.Minute, 3 * time.Minute, true, true},
		"well within it":                  {time.Minute, 90 * time.Second, false, false},
		"a store that does not forget":    {0, 3 * time.Minute, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				k := w.holder(func(k *worker) {
					oneCode(k)
					k.cfg.Settle = test.settle
				})
				g := k.generator()
				w.pass(3 * time.Minute)
				mustNext(w, g)
				k.set(func(k *link) {
					k.plan = func(op string, _ Record) fault {
						if test.lands && op == "swap" && time.Since(bubbleStart) > 5*time.Minute {
							return fault{silent: true}
						}
						return fault{lost: true}
					}
				})
				w.pass(test.outage)
				k.set(func(k *link) { k.plan = nil })
				back := k.clock.Now()
				w.pass(10 * time.Second)
				g2 := k.grant()
				require.NotNil(w, g2)
				if !test.fresh {
					require.EqualValues(w, 1, g2.Token)
					mustNext(w, g)
					return
				}
				require.EqualValues(w, 1, g2.Token)
				require.False(w, g2.Floor.Before(back.Add(test.settle)), "it settles")
				_, err := g.Next()
				require.Error(w, err)
				w.pass(test.settle + 2*time.Minute)
				require.False(w, mustUnpack(w, g.Layout(), mustNext(w, g)).Time.Before(g2.Floor))
			})
		})
	}
}

func TestRenewBacksOff(t *testing.T) {
	for name, down := range map[string]func(*worker){
		"the store is down": func(k *worker) { k.cut(true) },
		"the clock is off":  func(k *worker) { k.clock.step(-time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				k := w.holder(func(k *worker) { k.store = timedLink{k.link} })
				down(k)
				asked := k.count("time")
				w.pass(10 * time.Minute)
				tries := k.count("time") - asked
				require.Greater(w, tries, 10*60/5)
				require.Less(w, tries, 10*60)
			})
		})
	}
}

func TestRenewFindsTheCodeTaken(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.holder(func(k *worker) { k.cfg.Layout = codesOf(1) })
		g := k.generator()
		first := mustNext(w, g)
		code := k.code()
		// Somebody whose clock is ahead takes it.
		other := w.worker(func(k *worker) {
			k.cfg.Layout = codesOf(1)
			k.clock.step(time.Hour)
		})
		w.store.put(Record{Worker: 1 - code, Token: 7, Ceiling: noon.Add(2 * time.Hour)})
		require.NoError(w, other.acquire(w.Context()))
		require.Equal(w, code, other.code())
		w.store.put(Record{Worker: 1 - code, Token: 7, Ceiling: noon.Add(-time.Hour)})

		for len(k.lost) == 0 {
			id, err := g.Next()
			require.NoError(w, err, "below its ceiling it goes on")
			require.Greater(w, id, first)
			first = id
			w.pass(time.Second)
		}
		require.ErrorIs(w, k.lost[0], ErrLeaseLost)
		require.ErrorContains(w, k.lost[0], "another owner")
		require.Equal(w, code, k.lost[0].Worker)
		require.Equal(w, other.cfgOwner(), k.lost[0].Holder)
		w.pass(5 * time.Second)
		require.Equal(w, 1-code, k.code(), "a fresh one, in the background")
		require.EqualValues(w, 8, k.grant().Token)
		require.EqualValues(w, 2, k.stats().Acquisitions)
		require.EqualValues(w, 1, k.stats().Losses)
		require.Greater(w, mustNext(w, g), first)
		require.EqualValues(w, 2, w.store.record(code).Token, "nothing was changed of it")
	})
}

func (k *worker) cfgOwner() string { return k.lease.Load().cfg.Owner }

// A process is stopped past its lease, or cut off: somebody else has the code when it
// goes on.
func TestRenewOfAZombieIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		zombie := w.holder(oneCode)
		g := zombie.generator()
		ids := newLedger()
		// Its renewal is on its way for five minutes; the process does not see it.
		zombie.next("swap", fault{late: 5 * time.Minute}, fault{late: 5 * time.Minute})
		zombie.untilRenewal()
		zombie.cut(true)
		w.pass(20 * time.Second)
		ids.add(w, "zombie", fill(w, g, 100)...)
		ceiling := zombie.grant().Ceiling

		next := w.worker(oneCode)
		require.NoError(w, next.acquire(w.Context()))
		require.Equal(w, ceiling, next.grant().Floor)
		successor := next.generator()
		for range 600 {
			w.pass(time.Second)
			ids.add(w, "successor", fill(w, successor, 10)...)
			_, err := g.Next()
			require.ErrorIs(w, err, ErrLeaseLost)
		}
		zombie.cut(false)
		w.pass(time.Minute)
		require.Nil(w, zombie.grant())
		require.EqualValues(w, 2, w.store.record(0).Token)
		require.Zero(w, next.stats().Conflicts)
		require.NoError(w, g.Close(w.Context()))
		require.False(w, w.store.record(0).Released)
	})
}

// Deadlines are kept by the time that has elapsed, whatever the wall clock says.
func TestRenewDeadlineDoesNotMoveWithTheWallClock(t *testing.T) {
	for name, step := range map[string]time.Duration{"back": -time.Hour, "forward": 4 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				k := w.holder(nil)
				g := k.generator()
				began := time.Now()
				k.cut(true)
				k.clock.step(step)
				w.pass(2*time.Minute - 5*time.Second)
				require.NotNil(w, k.grant())
				w.pass(5*time.Second - time.Millisecond - time.Since(began) + 2*time.Minute - 5*time.Second)
				require.NotNil(w, k.grant())
				w.pass(time.Millisecond)
				require.Nil(w, k.grant())
				_, err := g.Next()
				require.ErrorIs(w, err, ErrLeaseLost)
			})
		})
	}
}

// A clock without Elapsed is followed by what it shows.
func TestRenewOnAPlainClock(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.holder(func(k *worker) { k.cfg.Clock = plainClock{k.clock} })
		g := k.generator()
		w.pass(10 * time.Minute)
		mustNext(w, g)
		k.cut(true)
		w.pass(2 * time.Minute)
		require.Nil(w, k.grant())
		k.cut(false)
		w.pass(10 * time.Second)
		mustNext(w, g)
	})
}

// While the machine is suspended nothing runs, not even timers. When it wakes up, a
// claim runs into the ceiling, and the lease is renewed at once.
func TestRenewSoonAfterASuspend(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.holder(oneCode)
		g := k.generator()
		w.pass(time.Minute)
		before := mustNext(w, g)
		k.clock.suspend(time.Hour)
		_, err := g.Next()
		require.ErrorIs(w, err, ErrLeaseLost)
		w.pass(time.Millisecond)
		require.EqualValues(w, 1, k.grant().Token)
		require.Greater(w, mustNext(w, g), before)
		require.Equal(w, k.clock.Now().Add(2*time.Minute-time.Millisecond), k.grant().Ceiling)
	})
}

// It asked for a renewal just after one: it is put off for as long as makes sense, not
// forgotten, and not done for each of a thousand that ask.
func TestRenewSoonIsPutOffNotLost(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.holder(nil)
		k.untilRenewal()
		l, swaps := k.lease.Load(), k.count("swap")
		l.renewSoon()
		w.pass(1250 * time.Millisecond)
		require.Equal(w, swaps+1, k.count("swap"))
		for range 1000 {
			l.renewSoon()
			time.Sleep(10 * time.Millisecond)
		}
		require.LessOrEqual(w, k.count("swap"), swaps+12)
		require.GreaterOrEqual(w, k.count("swap"), swaps+10)
	})
}

// The answer is so late, after a suspend, that what it grants has ended. It is asked
// for again at once, not after a whole Renew.
func TestRenewAnsweredTooLate(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.holder(nil)
		k.next("swap", fault{slow: 2 * time.Second})
		k.untilRenewal()
		k.clock.suspend(time.Hour)
		w.pass(2500 * time.Millisecond)
		require.NotNil(w, k.grant())
		require.Greater(w, k.grant().expires, k.clock.Elapsed())
		require.True(w, k.grant().Ceiling.After(k.clock.Now()))
	})
}

func TestRenewNoticesThatTheStoreForgot(t *testing.T) {
	for name, missing := range map[string]bool{"a lower version": false, "the record": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				k := w.holder(oneCode)
				g := k.generator()
				earlier := k.stored()
				w.pass(5 * time.Minute)
				last := mustNext(w, g)
				if missing {
					earlier = Record{}
				}
				w.store.forget(0, earlier)
				k.untilRenewal()
				w.pass(time.Second)
				require.Len(w, k.forgot, 1)
				require.ErrorIs(w, k.forgot[0], ErrLeaseLost)
				require.ErrorContains(w, k.forgot[0], "fence")
				require.EqualValues(w, 1, k.stats().Forgotten)
				require.Len(w, k.lost, 1)
				// A fresh code, which settles, although this store never said that it forgets.
				w.pass(10 * time.Second)
				require.NotNil(w, k.grant())
				settled := k.acquired[1].Floor
				require.WithinDuration(w, k.clock.Now().Add(2*time.Minute+5*time.Second), settled, 15*time.Second)
				_, err := g.Next()
				require.ErrorIs(w, err, ErrLeaseLost)
				for k.clock.Now().Before(settled) {
					w.pass(time.Second)
				}
				require.Greater(w, mustNext(w, g), last)
			})
		})
	}
}

// The generator stops before anybody is told: hooks take their time.
func TestRenewStopsBeforeItTells(t *testing.T) {
	inWorld(t, func(w *world) {
		var k *worker
		held := true
		k = w.holder(func(k *worker) {
			k.cfg.Hooks.StoreForgot = func(*LeaseError) { held = k.grant() != nil }
		})
		w.store.forget(k.code(), Record{})
		k.untilRenewal()
		w.pass(time.Second)
		require.False(w, held)
	})
}

// A store that hangs and does not look at its context gets one request at a time, and
// the lease goes on once it answers. (The link complains about a second one.)
func TestRenewSendsOneRequestAtATime(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.holder(nil)
		k.set(func(k *link) {
			k.plan = func(string, Record) fault { return fault{delay: 7 * time.Second, deaf: true} }
		})
		w.pass(10 * time.Minute)
		k.set(func(k *link) { k.plan = nil })
		w.pass(30 * time.Second)
		require.NotNil(w, k.grant())
		require.EqualValues(w, 1, k.grant().Token)
	})
}

// Claims go on while renewals, suspends, losses and readers of every kind do.
func TestLeaseIsReadWhileItChanges(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.holder(func(k *worker) {
			k.cfg.TTL = 3 * time.Second
			k.plan = func(_ string, _ Record) fault { return fault{slow: 100 * time.Millisecond} }
		})
		g := k.generator()
		end := time.Now().Add(20 * time.Second)
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() {
				for time.Now().Before(end) {
					_, _ = g.Next()
					_ = g.Health()
					_ = k.lease.Load().Err()
					_ = k.stats()
					k.lease.Load().renewSoon()
					time.Sleep(7 * time.Millisecond)
				}
			})
		}
		time.Sleep(5 * time.Second)
		k.clock.step(30 * time.Second)
		time.Sleep(5 * time.Second)
		k.clock.suspend(time.Minute)
		readers.Wait()
		synctest.Wait()
		require.NoError(w, g.Close(w.Context()))
	})
}
