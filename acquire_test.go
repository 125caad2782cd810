package snowflake

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// oneCode gives a worker a layout with a single code.
func oneCode(k *worker) { k.cfg.Layout = codesOf(0) }

func TestAcquireACodeThatWasNeverUsed(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.holder(func(k *worker) { k.cfg.Region, k.cfg.Owner = 3, "somebody" })
		g := *k.grant()
		require.Equal(w, 3, g.Code>>8)
		require.EqualValues(w, 1, g.Token)
		require.Equal(w, DefaultLayout().Epoch, g.Floor)
		require.Equal(w, noon.Add(2*time.Minute), g.Ceiling)
		require.Equal(w, noon.Add(2*time.Minute), g.Deadline)
		require.NoError(w, k.lease.Load().Err())
		require.Equal(w, DefaultLayout(), k.lease.Load().Layout())
		require.Len(w, k.acquired, 1)
		require.Equal(w, g.Ceiling, k.acquired[0].Ceiling)
		records := w.store.list(3)
		require.Len(w, records, 2, "the layout's and the code's")
		for _, r := range records {
			require.Equal(w, "somebody", r.Owner)
			require.Equal(w, DefaultLayout().String(), r.Layout)
			require.False(w, r.Released)
		}
	})
}

// The floor is the ceiling that was stored, not the clock: the last owner's may be ahead.
func TestAcquireBeginsAtTheStoredCeiling(t *testing.T) {
	for name, stored := range map[string]time.Time{
		"long ago":            noon.Add(-time.Hour),
		"just passed":         noon,
		"in between of ticks": noon.Add(-time.Nanosecond),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.store.put(Record{Worker: 0, Token: 41, Ceiling: stored})
				k := w.holder(oneCode)
				require.False(w, k.grant().Floor.Before(stored))
				require.Less(w, k.grant().Floor.Sub(stored), time.Millisecond)
				require.EqualValues(w, 42, k.grant().Token)
				require.Equal(w, noon.Add(2*time.Minute), k.grant().Ceiling)
			})
		})
	}
}

func TestAcquirePinsTheLayoutOnce(t *testing.T) {
	for name, test := range map[string]struct {
		other Layout
		both  bool
	}{
		"the same layout":   {codesOf(8), true},
		"different layouts": {codesOf(9), false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				a := w.worker(func(k *worker) { k.cfg.Layout = codesOf(8) })
				b := w.worker(func(k *worker) { k.cfg.Layout = test.other })
				// Both have seen an empty region before either writes.
				a.next("swap", fault{delay: time.Second})
				b.next("swap", fault{delay: 2 * time.Second})
				var errA, errB error
				var both sync.WaitGroup
				both.Go(func() { errA = a.acquire(w.Context()) })
				both.Go(func() { errB = b.acquire(w.Context()) })
				both.Wait()
				require.NoError(w, errA)
				if test.both {
					require.NoError(w, errB)
					require.NotEqual(w, a.code(), b.code())
					return
				}
				require.ErrorIs(w, errB, ErrLayoutMismatch)
				require.False(w, Retryable(errB))
				require.ErrorContains(w, errB, codesOf(8).String())
				require.ErrorContains(w, errB, codesOf(9).String())
				require.Len(w, w.store.list(0), 2, "it has taken no code")
			})
		})
	}
}

func TestAcquireRefusesAnotherLayout(t *testing.T) {
	other := DefaultLayout()
	other.Epoch = other.Epoch.Add(time.Millisecond)
	for name, r := range map[string]Record{
		"pinned":               {Worker: layoutWorker, Layout: other.String()},
		"pinned to nothing":    {Worker: layoutWorker},
		"only a code's record": {Worker: 9, Token: 1, Layout: other.String()},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.store.put(r)
				k := w.worker(nil)
				require.ErrorIs(w, k.acquire(w.Context()), ErrLayoutMismatch)
				require.Zero(w, k.count("swap"))
			})
		})
	}
}

func TestAcquireByManyAtOnce(t *testing.T) {
	for name, used := range map[string]int{"codes never used": 0, "codes used before": 256} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) { acquireManyAtOnce(w, used) })
		})
	}
}

func acquireManyAtOnce(w *world, used int) {
	for worker := range used {
		w.store.put(Record{Worker: worker, Token: 1, Ceiling: noon.Add(-time.Hour)})
	}
	var starts sync.WaitGroup
	var failed atomic.Int32
	for range 200 {
		k := w.worker(nil)
		k.plan = func(string, Record) fault { return fault{delay: time.Millisecond} }
		starts.Go(func() {
			if k.acquire(w.Context()) != nil {
				failed.Add(1)
			}
		})
	}
	began := time.Now()
	starts.Wait()
	require.Zero(w, failed.Load())
	require.Less(w, time.Since(began), 3*time.Second)
	codes := make(map[int]bool)
	for _, k := range w.workers {
		codes[k.grant().Code] = true
	}
	require.Len(w, codes, 200)
	conflicts := uint64(0)
	for _, k := range w.workers {
		conflicts += k.stats().Conflicts
	}
	require.Less(w, conflicts, uint64(600), "they do not all race for the same ones")
}

// full has all 256 codes held: code i until noon plus a minute and i seconds.
func full(w *world) {
	w.store.put(Record{Worker: layoutWorker, Layout: DefaultLayout().String()})
	for i := range 256 {
		w.store.put(Record{Worker: i, Token: 1, Ceiling: noon.Add(time.Minute + time.Duration(i)*time.Second)})
	}
}

func TestAcquireWithEveryCodeHeld(t *testing.T) {
	t.Run("a context too short", func(t *testing.T) {
		inWorld(t, func(w *world) {
			full(w)
			ctx, cancel := context.WithTimeout(w.Context(), 59*time.Second)
			defer cancel()
			began := time.Now()
			err := w.worker(nil).acquire(ctx)
			require.ErrorIs(w, err, ErrNoWorkerCode)
			require.True(w, Retryable(err))
			var e *LeaseError
			require.ErrorAs(w, err, &e)
			require.Equal(w, noon.Add(time.Minute), e.Until)
			require.Equal(w, -1, e.Worker)
			require.Zero(w, time.Since(began), "it says so at once")
		})
	})
	t.Run("one is free in time", func(t *testing.T) {
		inWorld(t, func(w *world) {
			full(w)
			ctx, cancel := context.WithTimeout(w.Context(), 61*time.Second)
			defer cancel()
			began := time.Now()
			k := w.worker(nil)
			require.NoError(w, k.acquire(ctx))
			require.Equal(w, time.Minute, time.Since(began))
			require.Equal(w, 0, k.code())
			require.Less(w, k.count("records"), 12)
		})
	})
	t.Run("one is released earlier", func(t *testing.T) {
		inWorld(t, func(w *world) {
			full(w)
			k := w.worker(nil)
			var err error
			var start sync.WaitGroup
			start.Go(func() { err = k.acquire(w.Context()) })
			w.pass(30 * time.Second)
			w.store.put(Record{Worker: 77, Token: 1, Ceiling: noon.Add(5 * time.Second), Released: true})
			w.pass(20 * time.Second)
			start.Wait()
			require.NoError(w, err)
			require.Equal(w, 77, k.code())
			require.Equal(w, noon.Add(5*time.Second), k.grant().Floor)
		})
	})
	t.Run("all are renewed, without a deadline", func(t *testing.T) {
		inWorld(t, func(w *world) {
			k := w.worker(func(k *worker) {
				oneCode(k)
				k.cfg.TTL = time.Minute
			})
			w.holder(oneCode)
			began := time.Now()
			require.ErrorIs(w, k.acquire(w.Context()), ErrNoWorkerCode)
			require.LessOrEqual(w, time.Since(began), time.Minute+5*time.Second)
		})
	})
	t.Run("the context ends meanwhile", func(t *testing.T) {
		inWorld(t, func(w *world) {
			full(w)
			ctx, cancel := context.WithCancel(w.Context())
			time.AfterFunc(5*time.Second, cancel)
			began := time.Now()
			err := w.worker(nil).acquire(ctx)
			require.ErrorIs(w, err, context.Canceled)
			require.Equal(w, 5*time.Second, time.Since(began))
		})
	})
}

func TestAcquireTheCodeOfAKilledHolder(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.holder(oneCode)
		w.pass(50 * time.Second)
		ceiling := k.grant().Ceiling
		ids := fill(w, k.generator(), 10)
		k.kill()
		next := w.worker(oneCode)
		ctx, cancel := context.WithDeadline(w.Context(), time.Now().Add(ceiling.Sub(next.clock.Now())-time.Microsecond))
		defer cancel()
		require.ErrorIs(w, next.acquire(ctx), ErrNoWorkerCode, "not before its ceiling")
		w.pass(ceiling.Sub(next.clock.Now()) - time.Millisecond)
		require.ErrorIs(w, next.acquire(ctx), ErrNoWorkerCode, "not a tick before it")
		require.NoError(w, next.acquire(w.Context()))
		require.False(w, next.clock.Now().Before(ceiling))
		require.Less(w, next.clock.Now().Sub(ceiling), 20*time.Millisecond)
		require.Equal(w, ceiling, next.grant().Floor)
		require.Greater(w, mustNext(w, next.generator()), ids[9])
	})
}

func TestAcquireReadsBackAnUnknownAnswer(t *testing.T) {
	for name, f := range map[string]fault{
		"silent": {silent: true},
		"broken": {broken: true},
		"slow":   {slow: time.Minute},
		"deaf":   {slow: 5 * time.Second, deaf: true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				k := w.worker(nil)
				k.next("swap", fault{}, f)
				require.NoError(w, k.acquire(w.Context()))
				require.Equal(w, 3, k.count("swap"), "the layout's, the code's, which had happened, and one that is acknowledged")
				require.Equal(w, noon.Add(2*time.Minute), k.grant().Ceiling)
				require.Equal(w, k.stored().Ceiling, k.grant().Ceiling)
				require.Equal(w, noon.Add(2*time.Minute), k.grant().Deadline, "from before the request")
				w.pass(time.Minute)
				require.Zero(w, k.stats().Conflicts, "it has the version")
			})
		})
	}
}

// The read-back shows somebody else's record: one who was faster. It is not taken for
// one's own.
func TestAcquireReadsBackAnothersRecord(t *testing.T) {
	inWorld(t, func(w *world) {
		k, other := w.worker(oneCode), w.worker(oneCode)
		k.next("swap", fault{}, fault{lost: true})
		k.next("records", fault{}, fault{delay: time.Second})
		var err error
		var start sync.WaitGroup
		ctx, cancel := context.WithTimeout(w.Context(), 10*time.Second)
		defer cancel()
		start.Go(func() { err = k.acquire(ctx) })
		w.pass(time.Second)
		require.NoError(w, other.acquire(w.Context()))
		w.pass(10 * time.Second)
		start.Wait()
		require.ErrorIs(w, err, ErrNoWorkerCode)
		require.NotNil(w, other.grant())
	})
}

func TestAcquireLateWriteIsAHarmlessOrphan(t *testing.T) {
	t.Run("on a code that nobody wants", func(t *testing.T) {
		inWorld(t, func(w *world) {
			k := w.worker(func(k *worker) { k.cfg.Layout = codesOf(1) })
			k.next("swap", fault{}, fault{late: 10 * time.Second})
			require.NoError(w, k.acquire(w.Context()))
			mine := k.stored()
			w.pass(5 * time.Minute)
			require.True(w, sameOwner(mine, k.stored()))
			require.Zero(w, k.stats().Losses)
			// Wherever it went, its code is free again.
			require.NoError(w, w.worker(func(k *worker) { k.cfg.Layout = codesOf(1) }).acquire(w.Context()))
		})
	})
	t.Run("on the code that is taken by then", func(t *testing.T) {
		inWorld(t, func(w *world) {
			k := w.worker(oneCode)
			k.next("swap", fault{}, fault{late: 20 * time.Second})
			require.NoError(w, k.acquire(w.Context()))
			require.EqualValues(w, 1, k.grant().Token)
			w.pass(5 * time.Minute)
			require.EqualValues(w, 1, k.grant().Token)
			require.Zero(w, k.stats().Losses)
		})
	})
	t.Run("before the next attempt arrives", func(t *testing.T) {
		inWorld(t, func(w *world) {
			k := w.worker(oneCode)
			k.next("swap", fault{}, fault{late: 6 * time.Second}, fault{delay: 3 * time.Second})
			require.NoError(w, k.acquire(w.Context()))
			require.EqualValues(w, 2, k.grant().Token, "the orphan's was 1, and had to expire")
			require.False(w, k.grant().Floor.Before(noon.Add(2*time.Minute)))
		})
	})
}

func TestAcquireListsAgainAfterConflicts(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.worker(nil)
		k.next("swap", fault{}, fault{err: ErrConflict}, fault{err: ErrConflict}, fault{err: ErrConflict})
		began := time.Now()
		require.NoError(w, k.acquire(w.Context()))
		require.Zero(w, time.Since(began), "the first time at once")
		require.Equal(w, 2, k.count("records"))
		require.EqualValues(w, 3, k.stats().Conflicts)
	})
}

func TestAcquireEndsInTheEnd(t *testing.T) {
	for name, f := range map[string]fault{
		"conflicts":   {err: ErrConflict},
		"down":        {err: errDown},
		"silent":      {lost: true},
		"always late": {late: 17 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				stuck := func(k *worker) {
					k.plan = func(op string, _ Record) fault {
						if op == "swap" {
							return f
						}
						return fault{}
					}
				}
				k := w.worker(stuck)
				began := time.Now()
				require.Error(w, k.acquire(w.Context()))
				require.Less(w, time.Since(began), 2*time.Minute+30*time.Second)
				require.Greater(w, time.Since(began), 2*time.Minute)
				require.Less(w, k.count("swap"), 400, "it backs off")

				ctx, cancel := context.WithTimeout(w.Context(), 3*time.Second)
				defer cancel()
				began = time.Now()
				require.ErrorIs(w, w.worker(stuck).acquire(ctx), context.DeadlineExceeded)
				require.Equal(w, 3*time.Second, time.Since(began))
			})
		})
	}
}

// An acquisition that is not answered in time gives the store longer: a crowd that gave up
// on every answer, and asked anew, would keep a slow store busy with what nobody waits for.
func TestAcquireOnASlowStore(t *testing.T) {
	inWorld(t, func(w *world) {
		var slow atomic.Int64
		slow.Store(int64(15 * time.Second))
		k := w.worker(func(k *worker) {
			k.plan = func(string, Record) fault { return fault{slow: time.Duration(slow.Load())} }
		})
		require.NoError(w, k.acquire(w.Context()))
		slow.Store(int64(5 * time.Second)) // A renewal has no such patience: others must fit in before the deadline.
		failures := k.stats().RenewalFailures
		w.pass(time.Minute)
		require.Greater(w, k.stats().RenewalFailures, failures+3)
	})
}

func TestAcquireOutlivesItsContext(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, cancel := context.WithCancel(w.Context())
		k := w.worker(nil)
		require.NoError(w, k.acquire(ctx))
		cancel()
		w.pass(10 * time.Minute)
		require.NotNil(w, k.grant())
		require.ErrorIs(w, w.worker(nil).acquire(ctx), context.Canceled)
	})
}

// A layout may have a thousand million codes.
func TestAcquireInAWideLayout(t *testing.T) {
	inWorld(t, func(w *world) {
		layout := DefaultLayout()
		layout.TimeBits, layout.RegionBits, layout.WorkerBits, layout.SequenceBits = 32, 0, 30, 1
		layout.Tick = time.Second
		k := w.holder(func(k *worker) { k.cfg.Layout = layout })
		require.Equal(w, k.grant().Code, k.code())
		require.Less(w, k.code(), 1<<30)
	})
}

func TestAcquireTakesEveryCodeOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		for range 16 {
			w.holder(func(k *worker) { k.cfg.Layout = codesOf(4) })
		}
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		require.ErrorIs(w, w.worker(func(k *worker) { k.cfg.Layout = codesOf(4) }).acquire(ctx), ErrNoWorkerCode)
	})
}

func TestAcquireLeavesWornAndForeignRecordsAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.store.put(Record{Worker: 0, Token: maxStored})
		w.store.put(Record{Worker: 1, Token: 1, Version: maxStored})
		w.store.put(Record{Worker: 4, Token: 1, Ceiling: noon.Add(time.Second)}) // outside the layout
		w.store.put(Record{Worker: 2, Token: 1, Ceiling: noon.AddDate(5000, 0, 0)})
		k := w.holder(func(k *worker) { k.cfg.Layout = codesOf(2) })
		require.Equal(w, 3, k.code())
	})
}

// A fresh code settles: it may not be used before Settle is over, and not before a
// renewal has brought the ceiling above the floor.
func TestAcquireSettles(t *testing.T) {
	for name, test := range map[string]struct {
		store  func(*link) LeaseStore
		settle time.Duration // of the configuration
		stored time.Time
		floor  time.Time // zero: at once
	}{
		"a store that may forget": {
			store: func(k *link) LeaseStore { return forgetfulLink{k} },
			floor: noon.Add(2*time.Minute + 5*time.Second),
		},
		"the same, off":             {store: func(k *link) LeaseStore { return forgetfulLink{k} }, settle: -1},
		"explicit":                  {settle: 3 * time.Minute, floor: noon.Add(3 * time.Minute)},
		"explicit, within TTL":      {settle: time.Minute, floor: noon.Add(time.Minute)},
		"a code that was used":      {settle: time.Minute, stored: noon.Add(-time.Hour), floor: noon.Add(time.Minute)},
		"off":                       {stored: noon.Add(-time.Hour)},
		"negative on another store": {settle: -1},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				if !test.stored.IsZero() {
					w.store.put(Record{Worker: 0, Token: 1, Ceiling: test.stored})
				}
				k := w.holder(func(k *worker) {
					oneCode(k)
					k.cfg.Settle = test.settle
					if test.store != nil {
						k.store = test.store(k.link)
					}
				})
				require.Equal(w, noon.Add(2*time.Minute), k.grant().Ceiling, "the ceiling is what it always is")
				g := k.generator()
				if test.floor.IsZero() {
					mustNext(w, g)
					return
				}
				require.Equal(w, test.floor, k.grant().Floor)
				for k.clock.Now().Before(test.floor) {
					_, err := g.Next()
					require.Error(w, err)
					require.True(w, Retryable(err))
					require.Error(w, g.Health())
					w.pass(time.Second)
				}
				require.Equal(w, test.floor, k.grant().Floor)
				id := mustNext(w, g)
				require.False(w, mustUnpack(w, g.Layout(), id).Time.Before(test.floor))
				require.NoError(w, g.Close(w.Context()))
			})
		})
	}
}

func TestAcquireSettledAndReleasedAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.holder(func(k *worker) {
			oneCode(k)
			k.cfg.Settle = 10 * time.Minute
		})
		require.NoError(w, k.release(noon))
		require.Equal(w, noon.Add(2*time.Minute), w.store.record(0).Ceiling, "the floor lies above it")
	})
}

// The machine is suspended between request and answer: the grant has ended before it
// is known. It is not handed out as if it were one.
func TestAcquireAnsweredTooLate(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.worker(nil)
		k.next("swap", fault{}, fault{slow: time.Second})
		var err error
		var start sync.WaitGroup
		start.Go(func() { err = k.acquire(w.Context()) })
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		k.clock.suspend(time.Hour)
		start.Wait()
		require.NoError(w, err)
		require.NotNil(w, k.grant())
		require.WithinDuration(w, k.clock.Now().Add(2*time.Minute), k.grant().Ceiling, time.Second)
	})
}

// The clock is stepped while the store is asked: what it read before was compared, what
// it reads now goes into the ceiling.
func TestAcquireWhileTheClockSteps(t *testing.T) {
	for name, step := range map[string]time.Duration{"forward": time.Hour, "back": -time.Hour} {
		for _, op := range []string{"time", "records"} {
			t.Run(name+" during "+op, func(t *testing.T) {
				inWorld(t, func(w *world) {
					k := w.worker(func(k *worker) { k.store = timedLink{k.link} })
					k.next(op, fault{slow: 2 * time.Second})
					time.AfterFunc(time.Second, func() { k.clock.step(step) })
					err := k.acquire(w.Context())
					for _, r := range w.store.list(0) {
						require.False(w, r.Ceiling.After(w.clock.Now().Add(2*time.Minute)), "%+v", r)
					}
					if step > 0 {
						require.ErrorIs(w, err, ErrClockSkew)
						require.True(w, Retryable(err))
					}
				})
			})
		}
	}
}

func TestAcquireRefusesAStoreThatReturnsAnotherRecord(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.worker(func(k *worker) { k.store = &wrongStore{link: k.link} })
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		require.ErrorIs(w, k.acquire(ctx), context.DeadlineExceeded)
	})
}

// wrongStore answers with what was there before, and lists nothing.
type wrongStore struct{ *link }

func (s *wrongStore) Swap(ctx context.Context, old, new Record) (Record, error) {
	_, _ = s.link.Swap(ctx, old, new)
	return old, nil
}

func (s *wrongStore) Records(_ context.Context, _ int) ([]Record, error) {
	return nil, nil
}
