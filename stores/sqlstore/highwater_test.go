package sqlstore

import (
	"testing"
	"time"

	"github.com/snowfence/snowflake"
	"github.com/stretchr/testify/require"
)

// marks returns the marks of a store, with shorter waits.
func marks(t *testing.T, s Store) *markStore {
	t.Helper()
	m := s.HighWater().(*markStore)
	m.quiet, m.patience, m.poll = 300*time.Millisecond, 1500*time.Millisecond, 10*time.Millisecond
	return m
}

func openMark(t *testing.T, s *markStore) *mark {
	t.Helper()
	m, err := s.Open(t.Context(), 5, snowflake.DefaultLayout())
	require.NoError(t, err)
	return m.(*mark)
}

func TestWhenAnOwnerIsTakenForGone(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		for name, row := range map[string]struct {
			ahead       time.Duration // of its mark, when it stops to write
			least, most time.Duration // that Open takes
		}{
			"its mark has passed":          {-time.Second, 300 * time.Millisecond, time.Second},
			"its mark passes a bit later":  {600 * time.Millisecond, 600 * time.Millisecond, 1400 * time.Millisecond},
			"its mark lies far in advance": {time.Hour, 1500 * time.Millisecond, 10 * time.Second},
		} {
			t.Run(name, func(t *testing.T) {
				s, _, _ := d.open(t)
				owner := openMark(t, marks(t, s))
				mark := time.Now().Add(row.ahead).Truncate(time.Millisecond)
				began := time.Now()
				require.NoError(t, owner.Advance(t.Context(), mark))
				next := openMark(t, marks(t, s))
				took := time.Since(began)
				require.Greater(t, took, row.least-20*time.Millisecond) // the clocks of processes and databases count in ms
				require.Less(t, took, row.most+time.Second)
				require.True(t, next.Mark().Equal(mark))
				require.ErrorIs(t, owner.Advance(t.Context(), mark.Add(time.Hour)), snowflake.ErrConflict)
				require.ErrorIs(t, owner.Close(t.Context(), mark), snowflake.ErrConflict)
				require.NoError(t, next.Close(t.Context(), time.Time{}))
				began = time.Now()
				require.NoError(t, openMark(t, marks(t, s)).Close(t.Context(), time.Time{}))
				require.Less(t, time.Since(began), row.most+time.Second, "closed: at once")
			})
		}
	})
}

// The database's clock may step when it fails over.
func TestOwnerFromTheFutureIsTakenForGoneInTheEnd(t *testing.T) {
	s, db, o := onSQLite.open(t)
	openMark(t, marks(t, s))
	_, err := db.Exec("UPDATE " + o.Prefix + "mark SET updated_at = '2099-01-01T00:00:00.000Z'")
	require.NoError(t, err)
	began := time.Now()
	openMark(t, marks(t, s))
	require.Greater(t, time.Since(began), 1400*time.Millisecond)
}

func TestOneThatOpensAndWritesNothingYetKeepsItsCode(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		s, _, _ := d.open(t)
		owner := openMark(t, marks(t, s))
		wrote := make(chan error)
		go func() {
			time.Sleep(100 * time.Millisecond)
			wrote <- owner.Advance(t.Context(), noon)
		}()
		_, err := marks(t, s).Open(t.Context(), 5, snowflake.DefaultLayout())
		require.ErrorIs(t, err, snowflake.ErrCodeInUse)
		var e *snowflake.LeaseError
		require.ErrorAs(t, err, &e)
		require.Equal(t, inner(t, s).options.Owner, e.Holder)
		require.Equal(t, 5, e.Worker)
		require.NoError(t, <-wrote)
	})
}

// What was sent and given up on may be written much later.
func TestLateAdvanceLowersNothing(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		s, _, _ := d.open(t)
		m := openMark(t, marks(t, s))
		late := *m
		require.NoError(t, m.Advance(t.Context(), noon.Add(time.Minute)))
		require.NoError(t, late.Advance(t.Context(), noon))
		require.NoError(t, m.Close(t.Context(), time.Time{}))
		next := openMark(t, marks(t, s))
		require.True(t, next.Mark().Equal(noon.Add(time.Minute)))
		require.ErrorIs(t, late.Advance(t.Context(), noon.Add(time.Hour)), snowflake.ErrConflict)
		require.ErrorIs(t, late.Close(t.Context(), noon), snowflake.ErrConflict)
		require.NoError(t, next.Advance(t.Context(), noon.Add(2*time.Minute)))
	})
}

func TestMarksAreWholeTicks(t *testing.T) {
	s, _, _ := onSQLite.open(t)
	m := openMark(t, marks(t, s))
	require.NoError(t, m.Advance(t.Context(), time.Unix(0, 0)), "before the epoch: lower than all")
	require.ErrorIs(t, m.Advance(t.Context(), snowflake.DefaultLayout().End().Add(1)), snowflake.ErrTimeOverflow)
	require.NoError(t, m.Close(t.Context(), time.Time{}))
	m = openMark(t, marks(t, s))
	require.True(t, m.Mark().IsZero(), "nothing was used")
	require.NoError(t, m.Advance(t.Context(), noon.Add(1)))
	require.NoError(t, m.Close(t.Context(), time.Time{}))
	m = openMark(t, marks(t, s))
	require.True(t, m.Mark().Equal(noon.Add(time.Millisecond)), "upward")
	require.NoError(t, m.Close(t.Context(), noon.Add(time.Second-1)))
	require.True(t, openMark(t, marks(t, s)).Mark().Equal(noon.Add(time.Second)), "upward")
}

func TestMarkWhoseRowIsGone(t *testing.T) {
	s, db, o := onSQLite.open(t)
	m := openMark(t, marks(t, s))
	_, err := db.Exec("DELETE FROM " + o.Prefix + "mark")
	require.NoError(t, err)
	require.ErrorIs(t, m.Advance(t.Context(), noon), snowflake.ErrConflict)
	require.ErrorIs(t, m.Close(t.Context(), noon), snowflake.ErrConflict)
}

// Generators with one static code by mistake: the second is refused while the first
// lives, at the real pace, and takes over where it stopped.
func TestGeneratorsOnOneCode(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		a, b := d.pair(t)
		start := func(s Store) (*snowflake.Generator, error) {
			// The registry of the process knows no injected clocks: as if in two.
			return snowflake.New(t.Context(), snowflake.Config{
				Lease: snowflake.StaticLease(5), HighWater: s.HighWater(), Clock: anotherProcess{snowflake.SystemClock()},
			})
		}
		first, err := start(a)
		require.NoError(t, err)
		id, err := first.Next()
		require.NoError(t, err)
		began := time.Now()
		_, err = start(b)
		require.ErrorIs(t, err, snowflake.ErrCodeInUse)
		require.Less(t, time.Since(began), 3*time.Second)
		require.NoError(t, first.Health())
		require.NoError(t, first.Close(t.Context()))
		second, err := start(b)
		require.NoError(t, err)
		next, err := second.Next()
		require.NoError(t, err)
		require.Greater(t, next, id)
		require.NoError(t, second.Close(t.Context()))
	})
}

type anotherProcess struct{ snowflake.Clock }
