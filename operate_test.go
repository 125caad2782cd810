package snowflake

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// operator returns a way to the world's store for somebody who is no worker.
func (w *world) operator() timedLink {
	w.store.operated = true
	way := w.store.link()
	way.now = w.clock.Now
	return timedLink{way}
}

func TestAFenceTakesEveryCodeFromEverybody(t *testing.T) {
	inWorld(t, func(w *world) {
		small := codesOf(2)
		k := w.holder(func(k *worker) { k.cfg.Layout = small })
		code, shown := k.code(), k.grant().Ceiling
		before := k.stored()
		until := w.clock.Now().Add(10 * time.Minute)

		done, err := FenceLeases(w.Context(), w.operator(), Fence{Until: until})
		require.NoError(w, err)
		require.Equal(w, Fenced{Codes: 4, Highest: shown}, done)
		for worker := range 4 {
			r := w.store.record(worker)
			require.Equal(w, until, r.Ceiling, "codes that were never used too")
			require.NotEqual(w, before.Nonce, r.Nonce)
			require.Equal(w, "fence", r.Owner)
		}

		// Who held a code mints up to the ceiling that it was shown, and not beyond.
		require.Equal(w, shown, k.grant().Ceiling)
		w.pass(3 * time.Minute)
		require.Nil(w, k.grant())
		require.ErrorIs(w, k.lease.Load().Err(), ErrLeaseLost)

		// From Until on codes are free again.
		w.pass(10 * time.Minute)
		require.NotNil(w, k.grant())
		require.False(w, k.grant().Floor.Before(until))
		history := w.history(code)
		require.Equal(w, before.Nonce, history[0].Nonce)
		require.Equal(w, before.Token+1, history[1].Token, "a change of owner")
	})
}

// history returns what was written of a code.
func (w *world) history(worker int) (written []Record) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	for _, r := range w.store.history {
		if r.Worker == worker {
			written = append(written, r)
		}
	}
	return written
}

// A backup brings back a lower ceiling, and has never heard of another code: without a
// fence both would be used twice.
func TestAFenceCoversWhatABackupHasLost(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.holder(func(k *worker) { k.cfg.Layout = codesOf(1) })
		backup := k.stored()
		lost := w.holder(func(k *worker) { k.cfg.Layout = codesOf(1) })
		w.pass(time.Hour)
		lostCeiling := max(k.grant().Ceiling.UnixNano(), lost.grant().Ceiling.UnixNano())
		k.kill()
		lost.kill()
		w.store.forget(backup.Worker, backup)
		w.store.forget(1-backup.Worker, Record{})

		until := w.clock.Now().Add(2*time.Minute + 5*time.Second)
		done, err := FenceLeases(w.Context(), w.operator(), Fence{Until: until})
		require.NoError(w, err)
		require.Equal(w, 2, done.Codes)
		require.Equal(w, backup.Ceiling, done.Highest)
		for worker := range 2 {
			require.GreaterOrEqual(w, w.store.record(worker).Ceiling.UnixNano(), lostCeiling)
		}
	})
}

func TestAFenceNeverLowersACeiling(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.holder(nil)
		later := k.grant().Ceiling
		done, err := FenceLeases(w.Context(), w.operator(), Fence{Until: w.clock.Now(), Owner: "me"})
		require.NoError(w, err)
		require.Equal(w, 256, done.Codes)
		require.Equal(w, later, w.store.record(k.code()).Ceiling)
		require.Equal(w, "me", w.store.record(k.code()).Owner)
	})
}

// Whatever becomes of a request, in the end every code is fenced.
func TestAFenceSurvivesEveryFault(t *testing.T) {
	for name, f := range map[string]fault{
		"refused":    {err: errDown},
		"lost":       {lost: true},
		"late":       {late: 6 * time.Second},
		"no answer":  {silent: true},
		"an error":   {broken: true},
		"twice":      {twice: true},
		"a conflict": {err: ErrConflict},
	} {
		for _, op := range []string{"records", "swap"} {
			for nth := range 4 {
				t.Run(fmt.Sprintf("%s: %s %d", name, op, nth), func(t *testing.T) {
					inWorld(t, func(w *world) {
						k := w.holder(func(k *worker) { k.cfg.Layout = codesOf(1) })
						until := w.clock.Now().Add(time.Hour)
						way := w.operator()
						for range nth {
							way.next(op, fault{})
						}
						way.next(op, f)
						_, err := FenceLeases(w.Context(), way, Fence{Until: until})
						if op == "records" && nth == 0 && !f.twice {
							require.Error(w, err, "the layout is not known")
							_, err = FenceLeases(w.Context(), way, Fence{Until: until})
						}
						require.NoError(w, err)
						w.pass(10 * time.Minute)
						for worker := range 2 {
							require.Equal(w, until, w.store.record(worker).Ceiling)
							require.Equal(w, "fence", w.store.record(worker).Owner)
						}
						require.Nil(w, k.grant())
					})
				})
			}
		}
	}
}

// Workers that renew and acquire meanwhile lose their codes all the same, and no two grants
// overlap: the world looks.
func TestAFenceAmongLivingWorkers(t *testing.T) {
	inWorld(t, func(w *world) {
		var living []*worker
		for range 6 {
			living = append(living, w.holder(func(k *worker) {
				k.cfg.Layout, k.cfg.TTL = codesOf(3), 3*time.Second
				k.plan = func(string, Record) fault { return fault{delay: 50 * time.Millisecond} }
			}))
		}
		way := w.operator()
		way.plan = func(string, Record) fault { return fault{delay: 30 * time.Millisecond} }
		until := w.clock.Now().Add(time.Minute)
		var done Fenced
		fenced := make(chan error, 1)
		go func() {
			var err error
			done, err = FenceLeases(w.Context(), way, Fence{Until: until})
			fenced <- err
		}()
		w.pass(30 * time.Second)
		require.NoError(w, <-fenced)
		require.Equal(w, 8, done.Codes)
		for worker := range 8 {
			require.Equal(w, until, w.store.record(worker).Ceiling)
		}
		for _, k := range living {
			require.Nil(w, k.grant())
			require.False(w, k.stats().Ceiling.After(done.Highest), "no ceiling was revealed above Highest")
		}
		w.pass(time.Minute)
		for _, k := range living {
			require.NotNil(w, k.grant())
			require.False(w, k.grant().Floor.Before(until))
		}
	})
}

// Failures count only while a fence gets nowhere: more codes do not make it less likely
// to be completed.
func TestAFenceGetsThroughAStoreThatFailsAgainAndAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.holder(nil)
		way := w.operator()
		writes := 0
		way.plan = func(op string, _ Record) fault {
			if op == "swap" {
				writes++
			}
			if op == "swap" && writes%5 == 0 {
				return fault{err: errDown}
			}
			return fault{}
		}
		done, err := FenceLeases(w.Context(), way, Fence{Until: w.clock.Now().Add(time.Hour)})
		require.NoError(w, err)
		require.Equal(w, 256, done.Codes)
	})
}

func TestAFenceSaysHowFarItGot(t *testing.T) {
	inWorld(t, func(w *world) {
		w.holder(func(k *worker) { k.cfg.Layout = codesOf(3) })
		way := w.operator()
		way.plan = func(op string, r Record) fault {
			if op == "swap" && r.Worker == 5 {
				return fault{err: errDown}
			}
			return fault{}
		}
		done, err := FenceLeases(w.Context(), way, Fence{Until: w.clock.Now().Add(time.Hour)})
		require.ErrorIs(w, err, errDown)
		require.ErrorContains(w, err, "5 of 8 codes are fenced")
		require.ErrorContains(w, err, "call it again")
		require.Equal(w, 5, done.Codes)

		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		_, err = FenceLeases(ctx, way, Fence{Until: w.clock.Now().Add(time.Hour)})
		require.Error(w, err)
	})
}

// A layout that was mistyped must not be what the region has from then on.
func TestAFenceThatIsRefusedPinsNothing(t *testing.T) {
	store := NewMemoryStore()
	wrong := DefaultLayout()
	wrong.Epoch = time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC) // for 2026
	until := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	_, err := FenceLeases(t.Context(), store, Fence{Until: until, Layout: wrong})
	require.ErrorContains(t, err, "Until is 2030")
	records, err := store.Records(t.Context(), 0)
	require.NoError(t, err)
	require.Empty(t, records)
	_, err = FenceLeases(t.Context(), store, Fence{Until: until, Layout: DefaultLayout()})
	require.NoError(t, err)
}

// A write of the fence itself whose answer was lost is no ceiling that was found.
func TestHighestIsOfOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.holder(oneCode)
		way := w.operator()
		way.next("swap", fault{silent: true})
		before := k.stored().Ceiling
		k.kill()
		done, err := FenceLeases(w.Context(), way, Fence{Until: w.clock.Now().Add(time.Hour)})
		require.NoError(w, err)
		require.Equal(w, before, done.Highest)
	})
}

func TestAFenceRefuses(t *testing.T) {
	layout := DefaultLayout()
	wide := Layout{Epoch: layout.Epoch, TimeBits: 38, RegionBits: 3, WorkerBits: 21, SequenceBits: 1}
	for name, test := range map[string]struct {
		fence Fence
		is    error
		says  string
	}{
		"an unknown layout": {Fence{Region: 1, Until: noon}, nil, "set Layout"},
		"another layout":    {Fence{Until: noon, Layout: codesOf(3)}, ErrLayoutMismatch, "bits=41+2+3+17"},
		"before the epoch":  {Fence{Until: layout.Epoch.Add(-1)}, nil, "must be 2026-01-01T00:00:00Z to 2095"},
		"after the end":     {Fence{Until: layout.End().Add(1)}, nil, "must be 2026-01-01T00:00:00Z to 2095"},
		"too many codes":    {Fence{Region: 2, Layout: wide, Until: noon}, nil, "2^21"},
		"an invalid layout": {Fence{Region: 2, Layout: Layout{TimeBits: 1}, Until: noon}, nil, "must be"},
		"a region too far":  {Fence{Region: 4, Layout: layout, Until: noon}, nil, "0 to 3"},
		"a negative region": {Fence{Region: -1, Until: noon}, nil, "must not be negative"},
		"a damaged layout":  {Fence{Region: 3, Until: noon}, ErrDamaged, "must be like"},
		"no Until":          {Fence{}, nil, "Until is 0001"},
	} {
		t.Run(name, func(t *testing.T) {
			store := NewMemoryStore()
			lay := func(region int, layout string) {
				r := Record{Region: region, Worker: layoutWorker, Nonce: newNonce(), Layout: layout}
				_, err := store.Swap(t.Context(), Record{Region: region, Worker: layoutWorker}, r)
				require.NoError(t, err)
			}
			lay(0, layout.String())
			lay(3, "nonsense")
			_, err := FenceLeases(t.Context(), store, test.fence)
			require.ErrorContains(t, err, test.says)
			require.ErrorContains(t, err, "snowflake: fencing region")
			if test.is != nil {
				require.ErrorIs(t, err, test.is)
			}
		})
	}
}

func TestAFenceRetiresARegionForGood(t *testing.T) {
	store := NewMemoryStore()
	layout := codesOf(1)
	done, err := FenceLeases(t.Context(), store, Fence{Layout: layout, Until: layout.End()})
	require.NoError(t, err, "an empty store is pinned first")
	require.Equal(t, Fenced{Codes: 2}, done)
	clock := newHandClock()
	_, err = AcquireLease(t.Context(), store, LeaseConfig{Layout: layout, Clock: clock})
	require.ErrorIs(t, err, ErrNoWorkerCode)
	_, err = AcquireLease(t.Context(), store, LeaseConfig{Clock: clock})
	require.ErrorIs(t, err, ErrLayoutMismatch)
}

func TestOperatorsReleaseOnlyWhatHasExpired(t *testing.T) {
	inWorld(t, func(w *world) {
		two := func(k *worker) { k.cfg.Layout = codesOf(2) }
		living, gone := w.holder(two), w.holder(two)
		dead := gone.code()
		gone.kill()
		released, err := ReleaseExpired(w.Context(), w.operator(), 0)
		require.NoError(w, err)
		require.Empty(w, released, "its ceiling has not passed")
		_, err = ReleaseExpired(w.Context(), w.operator(), 0, dead, living.code())
		require.ErrorIs(w, err, ErrCodeInUse)
		var told *LeaseError
		require.ErrorAs(w, err, &told)
		require.Equal(w, dead, told.Worker)

		w.pass(3 * time.Minute)
		before := w.store.record(dead)
		released, err = ReleaseExpired(w.Context(), w.operator(), 0, dead, dead)
		require.NoError(w, err, "named twice is named once")
		require.Len(w, released, 1)
		require.Equal(w, w.store.record(dead), released[0])
		require.True(w, released[0].Released)
		require.Equal(w, before.Ceiling, released[0].Ceiling)
		require.Equal(w, before.Token+1, released[0].Token)
		require.NotEqual(w, before.Nonce, released[0].Nonce)
		require.NotNil(w, living.grant())

		released, err = ReleaseExpired(w.Context(), w.operator(), 0, dead)
		require.NoError(w, err, "it is released already")
		require.Empty(w, released)
		_, err = ReleaseExpired(w.Context(), w.operator(), 0, 99)
		require.ErrorIs(w, err, ErrNoWorkerCode)
	})
}

// A worker that was only cut off comes back, and goes on with a fresh code.
func TestAReleasedOwnerDoesNotComeBack(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.holder(nil)
		code, nonce := k.code(), k.stored().Nonce
		k.cut(true)
		w.pass(3 * time.Minute)
		released, err := ReleaseExpired(w.Context(), w.operator(), 0, code)
		require.NoError(w, err)
		require.Len(w, released, 1)
		k.cut(false)
		w.pass(time.Minute)
		require.NotNil(w, k.grant())
		for _, r := range w.history(code)[1:] {
			require.NotEqual(w, nonce, r.Nonce, "its old record was not renewed")
		}
	})
}

func TestAnOwnerThatIsBackKeepsItsCode(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.holder(nil)
		k.cut(true)
		w.pass(3 * time.Minute)
		way := w.operator()
		way.before = func(op string) {
			if op == "swap" {
				k.cut(false)
				w.pass(time.Minute)
			}
		}
		_, err := ReleaseExpired(w.Context(), way, 0, k.code())
		require.ErrorIs(w, err, ErrCodeInUse)
		require.ErrorIs(w, err, ErrConflict)
		require.NotNil(w, k.grant())
	})
}

func TestReleaseAsksTheStoreForTheTime(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.holder(nil)
		k.cut(true)
		w.pass(3 * time.Minute)
		way := w.operator()
		way.next("time", fault{err: errDown})
		_, err := ReleaseExpired(w.Context(), way, 0)
		require.ErrorIs(w, err, errDown)
		released, err := ReleaseExpired(w.Context(), way, 0)
		require.NoError(w, err)
		require.Len(w, released, 1)
	})
}

func TestReleaseByTheLocalClock(t *testing.T) {
	store := NewMemoryStore()
	for worker, ceiling := range map[int]time.Time{3: time.Now().Add(-time.Second), 4: time.Now().Add(-time.Hour)} {
		_, err := store.Swap(t.Context(), Record{Worker: worker}, Record{Worker: worker, Nonce: newNonce(), Ceiling: ceiling})
		require.NoError(t, err)
	}
	released, err := ReleaseExpired(t.Context(), store, 0)
	require.NoError(t, err)
	require.Len(t, released, 1, "clocks may differ by 5 s")
	require.Equal(t, 4, released[0].Worker)

	down := errors.New("down")
	_, err = ReleaseExpired(t.Context(), brokenStore{down}, 0)
	require.ErrorIs(t, err, down)
}

type brokenStore struct{ err error }

func (s brokenStore) Records(context.Context, int) ([]Record, error) { return nil, s.err }

func (s brokenStore) Swap(context.Context, Record, Record) (Record, error) { return Record{}, s.err }

// A record that somebody wrote without a nonce is not taken for one that is fenced already.
func TestAFenceTakesARecordWithoutANonce(t *testing.T) {
	store, small := NewMemoryStore(), codesOf(1)
	_, err := store.Swap(t.Context(), Record{}, Record{Worker: 0, Token: 1, Ceiling: noon, Layout: small.String()})
	require.NoError(t, err)
	until := noon.Add(time.Hour)
	done, err := FenceLeases(t.Context(), store, Fence{Until: until, Layout: small})
	require.NoError(t, err)
	require.Equal(t, Fenced{Codes: 2, Highest: noon}, done)
	records, err := store.Records(t.Context(), 0)
	require.NoError(t, err)
	for _, r := range records {
		if r.Worker != layoutWorker {
			require.Equal(t, until, r.Ceiling)
			require.NotEmpty(t, r.Nonce)
		}
	}
}
