package snowflaketest

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/snowfence/snowflake"
	"github.com/stretchr/testify/require"
)

// Superseder is what the store that is given to TestHighWaterStore may have as well:
// Supersede takes a code from its owner without asking, as the death of its process or
// an operator does, so that the next Open succeeds at once. The suite then checks what a
// superseded owner can still do, and that marks outlive their owner.
type Superseder interface {
	Supersede(ctx context.Context, code int) error
}

// TestHighWaterStore checks that a store keeps the contract of
// snowflake.HighWaterStore. open is called once for each case, must return a store in
// which no code was ever used, and may register what to do at the end with t.Cleanup.
//
// A store may find out whether an owner lives by whether it goes on writing: the suite's
// owners advance their marks while it matters, as those of a generator do.
func TestHighWaterStore(t *testing.T, open func(t *testing.T) snowflake.HighWaterStore) {
	t.Helper()
	TestHighWaterStoreShared(t, func(t *testing.T) (a, b snowflake.HighWaterStore) {
		t.Helper()
		s := open(t)
		return s, s
	})
}

// TestHighWaterStoreShared is TestHighWaterStore for a store of which open returns two
// handles, which are used in turn, as two processes would.
func TestHighWaterStoreShared(t *testing.T, open func(t *testing.T) (a, b snowflake.HighWaterStore)) {
	t.Helper()
	for _, c := range markCases {
		t.Run(c.name, func(t *testing.T) {
			a, b := open(t)
			c.run(t, &markHandles{tb: t, a: a, b: b})
		})
	}
}

type markCase struct {
	name string
	run  func(tb testing.TB, s *markHandles)
}

var markCases = []markCase{
	{"the mark of a code that was never used is the zero time", neverUsed},
	{"the mark is the highest that was acknowledged, and is as opened until the next Open", advanceNeverLowers},
	{"Close sets the mark to unused, but not below the mark as opened; zero leaves it", closeSetsTheMark},
	{"Close gives the code up once, and for good", closeTwice},
	{"a code that is open is refused with ErrCodeInUse", openOnce},
	{"of many that open a code at once one succeeds", openAtOnce},
	{"codes do not mix", codesDoNotMix},
	{"marks come back exactly", marksAreExact},
	{"the layout of the first use is pinned for the code", layoutIsPinned},
	{"a code that the layout does not hold is refused", badCodes},
	{"after the end of its context a call returns the context's error, and writes nothing", endedContextOfMark},
	{"a mark outlives its owner, and nothing that a superseded owner does has an effect", superseded},
}

// markHandles is a storage in which no code was used. Calls of Open alternate between
// its handles.
type markHandles struct {
	tb   testing.TB
	a, b snowflake.HighWaterStore
}

const someCode = 1<<8 | 5

func (s *markHandles) turn() snowflake.HighWaterStore {
	s.a, s.b = s.b, s.a
	return s.a
}

// open opens a code, which is closed with the test.
func (s *markHandles) open(code int) snowflake.HighWater {
	s.tb.Helper()
	m, err := s.turn().Open(s.tb.Context(), code, snowflake.DefaultLayout())
	require.NoError(s.tb, err)
	require.NotNil(s.tb, m)
	s.tb.Cleanup(func() { _ = m.Close(context.WithoutCancel(s.tb.Context()), time.Time{}) })
	return m
}

// reopened returns the mark that the next owner sees.
func (s *markHandles) reopened(m snowflake.HighWater, unused time.Time) snowflake.HighWater {
	s.tb.Helper()
	require.NoError(s.tb, m.Close(s.tb.Context(), unused))
	return s.open(someCode)
}

// sees requires a mark to be an instant, in whatever zone.
func (s *markHandles) sees(m snowflake.HighWater, want time.Time, why string) {
	s.tb.Helper()
	got := m.Mark()
	require.True(s.tb, got.Equal(want) && got.IsZero() == want.IsZero(), "%s: the mark is %s, must be %s", why, instant(got), instant(want))
}

func (s *markHandles) advance(m snowflake.HighWater, to time.Time) {
	s.tb.Helper()
	require.NoError(s.tb, m.Advance(s.tb.Context(), to))
}

func neverUsed(tb testing.TB, s *markHandles) {
	tb.Helper()
	m := s.open(someCode)
	require.True(tb, m.Mark().IsZero())
	m = s.reopened(m, time.Time{})
	require.True(tb, m.Mark().IsZero(), "opened and closed is not used")
	s.advance(m, noon)
	require.True(tb, m.Mark().IsZero(), "the mark as opened")
}

func advanceNeverLowers(tb testing.TB, s *markHandles) {
	tb.Helper()
	m := s.open(someCode)
	s.advance(m, noon)
	s.advance(m, noon.Add(-time.Second))
	m = s.reopened(m, time.Time{})
	s.sees(m, noon, "a lower mark changes nothing")
	s.advance(m, noon.Add(-time.Second))
	m = s.reopened(m, time.Time{})
	s.sees(m, noon, "nor does it for the next owner")
	for i := range 20 {
		s.advance(m, noon.Add(time.Duration(i)*time.Millisecond))
	}
	s.advance(m, noon)
	s.sees(m, noon, "as opened")
	m = s.reopened(m, time.Time{})
	s.sees(m, noon.Add(19*time.Millisecond), "the highest")
}

func closeSetsTheMark(tb testing.TB, s *markHandles) {
	tb.Helper()
	m := s.open(someCode)
	s.advance(m, noon.Add(time.Minute))
	m = s.reopened(m, noon.Add(time.Second))
	s.sees(m, noon.Add(time.Second), "lowered to what was used")
	s.advance(m, noon.Add(time.Minute))
	m = s.reopened(m, noon.Add(-time.Hour))
	s.sees(m, noon.Add(time.Second), "not below the mark as opened")
	s.advance(m, noon.Add(time.Minute))
	m = s.reopened(m, time.Time{})
	s.sees(m, noon.Add(time.Minute), "unknown: it stays")
	m = s.reopened(m, noon.Add(2*time.Minute))
	s.sees(m, noon.Add(2*time.Minute), "higher than it was advanced to")
	m = s.reopened(m, noon.Add(2*time.Minute))
	s.sees(m, noon.Add(2*time.Minute), "opened and closed")
}

func closeTwice(tb testing.TB, s *markHandles) {
	tb.Helper()
	m := s.open(someCode)
	s.advance(m, noon.Add(time.Minute))
	require.NoError(tb, m.Close(tb.Context(), noon))
	_ = m.Close(tb.Context(), noon.Add(time.Hour))
	require.Error(tb, m.Advance(tb.Context(), noon.Add(time.Hour)), "it is closed")
	next := s.open(someCode)
	s.sees(next, noon, "as the first Close has left it")
	s.advance(next, noon.Add(time.Second))
	_ = m.Close(tb.Context(), noon.Add(time.Hour))
	require.Error(tb, m.Advance(tb.Context(), noon.Add(time.Hour)))
	s.advance(next, noon.Add(2*time.Second)) // is still the owner
	next = s.reopened(next, time.Time{})
	s.sees(next, noon.Add(2*time.Second), "as the second owner has left it")
}

// lively advances a mark every few milliseconds until the returned function is called,
// which tells the last mark, or the test has ended.
func (s *markHandles) lively(m snowflake.HighWater) (stop func() time.Time) {
	s.tb.Helper()
	done := make(chan struct{})
	var group sync.WaitGroup
	var last time.Time
	group.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
				last = time.Now().Add(3 * time.Second).Truncate(time.Millisecond)
				if err := m.Advance(s.tb.Context(), last); err != nil && s.tb.Context().Err() == nil {
					s.tb.Errorf("an owner that lives cannot advance its mark: %v", err)
					return
				}
			}
		}
	})
	end := sync.OnceFunc(func() {
		close(done)
		group.Wait()
	})
	s.tb.Cleanup(end)
	return func() time.Time {
		end()
		return last
	}
}

func openOnce(tb testing.TB, s *markHandles) {
	tb.Helper()
	m := s.open(someCode)
	stop := s.lively(m)
	for range 4 {
		got, err := s.turn().Open(tb.Context(), someCode, snowflake.DefaultLayout())
		require.ErrorIs(tb, err, snowflake.ErrCodeInUse)
		require.False(tb, snowflake.Retryable(err))
		require.Nil(tb, got)
	}
	last := stop()
	m = s.reopened(m, time.Time{})
	s.sees(m, last, "as its owner has left it")
}

func openAtOnce(tb testing.TB, s *markHandles) {
	tb.Helper()
	const openers = 8
	var group, all sync.WaitGroup
	won := make(chan snowflake.HighWater, openers)
	all.Add(openers)
	for i := range openers {
		group.Go(func() {
			m, err := []snowflake.HighWaterStore{s.a, s.b}[i%2].Open(tb.Context(), someCode, snowflake.DefaultLayout())
			if err == nil {
				stop := s.lively(m)
				defer stop()
				won <- m
			} else if !errors.Is(err, snowflake.ErrCodeInUse) {
				tb.Errorf("opener %d: %v", i, err)
			}
			all.Done()
			all.Wait() // the owner lives until the last has been refused
		})
	}
	group.Wait()
	require.Len(tb, won, 1)
	require.NoError(tb, (<-won).Close(tb.Context(), time.Time{}))
}

func codesDoNotMix(tb testing.TB, s *markHandles) {
	tb.Helper()
	codes := []int{0, 1, 10, 11, 100, 111, 1023}
	markOf := func(i int) time.Time { return noon.Add(time.Duration(i) * time.Second) }
	var open []snowflake.HighWater
	for _, code := range codes {
		open = append(open, s.open(code)) // each while the others are open
	}
	for i, m := range open {
		s.advance(m, markOf(i))
	}
	for _, m := range open {
		require.NoError(tb, m.Close(tb.Context(), time.Time{}))
	}
	for i, code := range codes {
		s.sees(s.open(code), markOf(i), "its own")
	}
	s.sees(s.open(2), time.Time{}, "was never used")
}

func marksAreExact(tb testing.TB, s *markHandles) {
	tb.Helper()
	nanosecond := snowflake.Layout{
		Epoch: time.Date(2026, 1, 1, 0, 0, 0, 1, time.UTC), Tick: 1, TimeBits: 61, RegionBits: 0, WorkerBits: 1, SequenceBits: 1,
	}
	second := snowflake.Layout{
		Epoch: time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC), Tick: time.Second, TimeBits: 34, RegionBits: 0, WorkerBits: 10, SequenceBits: 19,
	}
	for _, row := range []struct {
		code   int
		layout snowflake.Layout
		mark   time.Time
	}{
		{0, nanosecond, noon.Add(123456789)},
		{1, nanosecond, time.Unix(0, 1<<61+1)},
		{2, second, time.Unix(1, 0)},
		{3, second, time.Date(2261, 12, 31, 23, 59, 59, 0, time.UTC)},
		{4, snowflake.DefaultLayout(), noon.Add(7 * time.Millisecond).In(time.FixedZone("far", 14*3600))},
		{5, snowflake.DefaultLayout(), snowflake.DefaultLayout().End()},
	} {
		open := func() snowflake.HighWater {
			m, err := s.turn().Open(tb.Context(), row.code, row.layout)
			require.NoError(tb, err)
			return m
		}
		m := open()
		s.advance(m, row.mark)
		require.NoError(tb, m.Close(tb.Context(), time.Time{}))
		m = open()
		s.sees(m, row.mark, "advanced")
		require.NoError(tb, m.Close(tb.Context(), row.mark))
		m = open()
		s.sees(m, row.mark, "closed")
		require.NoError(tb, m.Close(tb.Context(), time.Time{}))
	}
}

func layoutIsPinned(tb testing.TB, s *markHandles) {
	tb.Helper()
	require.NoError(tb, s.open(someCode).Close(tb.Context(), noon))
	for name, change := range map[string]func(*snowflake.Layout){
		"epoch":  func(l *snowflake.Layout) { l.Epoch = l.Epoch.Add(time.Millisecond) },
		"tick":   func(l *snowflake.Layout) { l.Tick = 2 * time.Millisecond },
		"widths": func(l *snowflake.Layout) { l.WorkerBits++; l.SequenceBits-- },
	} {
		other := snowflake.DefaultLayout()
		change(&other)
		m, err := s.turn().Open(tb.Context(), someCode, other)
		require.ErrorIs(tb, err, snowflake.ErrLayoutMismatch, name)
		require.False(tb, snowflake.Retryable(err), name)
		require.Nil(tb, m, name)
	}
	same := snowflake.DefaultLayout()
	same.Tick, same.Epoch = 0, same.Epoch.In(time.FixedZone("far", 3600))
	m, err := s.turn().Open(tb.Context(), someCode, same)
	require.NoError(tb, err, "the same layout in other words, and the code was not left open")
	s.sees(m, noon, "untouched")
	require.NoError(tb, m.Close(tb.Context(), time.Time{}))
}

func badCodes(tb testing.TB, s *markHandles) {
	tb.Helper()
	for _, code := range []int{-1, 1024, math.MaxInt32} {
		m, err := s.turn().Open(tb.Context(), code, snowflake.DefaultLayout())
		require.Error(tb, err, code)
		require.False(tb, snowflake.Retryable(err), code)
		require.Nil(tb, m, code)
	}
	m, err := s.turn().Open(tb.Context(), 0, snowflake.Layout{})
	require.Error(tb, err, "no layout")
	require.Nil(tb, m)
}

func endedContextOfMark(tb testing.TB, s *markHandles) {
	tb.Helper()
	ended, cancel := context.WithCancel(tb.Context())
	cancel()
	_, err := s.turn().Open(ended, someCode, snowflake.DefaultLayout())
	require.ErrorIs(tb, err, context.Canceled)
	m := s.open(someCode)
	mark := time.Now().Add(time.Second).Truncate(time.Millisecond)
	s.advance(m, mark)
	require.ErrorIs(tb, m.Advance(ended, mark.Add(time.Second)), context.Canceled)
	require.ErrorIs(tb, m.Close(ended, mark.Add(-time.Second)), context.Canceled)
	m = s.open(someCode) // a store may have to wait until its owner has been silent for long enough
	s.sees(m, mark, "nothing was written, and the code was given up")
}

func superseded(tb testing.TB, s *markHandles) {
	tb.Helper()
	supersede := func() {
		tb.Helper()
		store, ok := s.turn().(Superseder)
		if !ok {
			tb.Skip("the store cannot be told to supersede an owner: Superseder")
		}
		require.NoError(tb, store.Supersede(tb.Context(), someCode))
	}
	refused := func(m snowflake.HighWater, why string) {
		tb.Helper()
		for _, mark := range []time.Time{noon, noon.Add(time.Hour)} {
			err := m.Advance(tb.Context(), mark)
			require.ErrorIs(tb, err, snowflake.ErrConflict, why)
			require.False(tb, snowflake.Retryable(err), why)
		}
	}
	first := s.open(someCode)
	s.advance(first, noon.Add(time.Minute))
	supersede()
	second := s.open(someCode)
	s.sees(second, noon.Add(time.Minute), "durable before Advance has returned")
	refused(first, "there is a successor")
	s.advance(second, noon.Add(2*time.Minute))
	require.ErrorIs(tb, first.Close(tb.Context(), noon), snowflake.ErrConflict)

	supersede()
	third := s.open(someCode)
	s.sees(third, noon.Add(2*time.Minute), "as the successor has left it")
	require.ErrorIs(tb, second.Close(tb.Context(), noon.Add(time.Hour)), snowflake.ErrConflict)
	require.NoError(tb, third.Close(tb.Context(), time.Time{}))
	s.sees(s.open(someCode), noon.Add(2*time.Minute), "as it was closed")
}
