package proptest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/snowflaketest"
)

// hand is a lease whose grant is set by hand.
type hand struct {
	grant atomic.Pointer[snowflake.Grant]
}

func (h *hand) Grant() *snowflake.Grant { return h.grant.Load() }

// walk is a generator and its model: the IDs so far, and up to where each code was granted.
type walk struct {
	layout snowflake.Layout
	clock  *snowflaketest.Clock
	lease  *hand
	g      *snowflake.Generator
	ahead  time.Duration

	seen    map[snowflake.ID]bool
	last    snowflake.ID
	granted map[int]time.Time // the highest ceiling of each code
	token   uint64
	closed  bool
}

var noon = time.Date(2030, time.June, 1, 12, 0, 0, 0, time.UTC)

func newWalk(t *rapid.T) *walk {
	w := &walk{
		layout: snowflake.Layout{Epoch: snowflake.DefaultLayout().Epoch, Tick: time.Millisecond, TimeBits: 54, WorkerBits: 6, SequenceBits: 3},
		clock:  snowflaketest.NewClock(noon), lease: new(hand), seen: make(map[snowflake.ID]bool), granted: make(map[int]time.Time),
		ahead: time.Duration(rapid.IntRange(0, 3).Draw(t, "ahead")) * time.Millisecond,
	}
	w.acquire(1, 20*time.Millisecond)
	var err error
	w.g, err = snowflake.New(context.Background(), snowflake.Config{
		Lease: w.lease, Layout: w.layout, Clock: w.clock, MaxWait: -1, MaxAhead: w.ahead,
	})
	require.NoError(t, err)
	return w
}

func ms(t *rapid.T, label string, low, high int) time.Duration {
	return time.Duration(rapid.IntRange(low*1000, high*1000).Draw(t, label)) * time.Microsecond
}

// acquire grants a code from where its last grant ended, as a store would.
func (w *walk) acquire(code int, length time.Duration) {
	floor := w.granted[code]
	if now := w.clock.Now().Truncate(time.Millisecond); floor.Before(now.Add(-5 * time.Millisecond)) {
		floor = now.Add(-5 * time.Millisecond)
	}
	w.token++
	g := &snowflake.Grant{Code: code, Token: w.token, Floor: floor, Ceiling: floor.Add(length).Truncate(time.Millisecond)}
	w.granted[code] = g.Ceiling
	w.lease.grant.Store(g)
}

// hurried is a context that ends now: Fill takes what it gets without a wait.
type hurried struct{ context.Context } //nolint:containedctx // it is one

func (hurried) Deadline() (time.Time, bool) { return time.Now(), true }

// mint asks for an ID, or for many at once, and holds what comes against the model.
func (w *walk) mint(t *rapid.T, n int) {
	ids := make([]snowflake.ID, n)
	got, err := 1, error(nil)
	if n > 1 {
		got, err = w.g.Fill(hurried{context.Background()}, ids)
	} else if ids[0], err = w.g.Next(); err != nil {
		got = 0
	}
	for _, id := range ids[:got] {
		w.enter(t, id)
	}
	if err != nil {
		w.refused(t, err)
	}
}

// enter checks an ID: new, rising, inside the grant, and no further ahead than allowed.
func (w *walk) enter(t *rapid.T, id snowflake.ID) {
	require.False(t, w.closed, "an ID after Close")
	grant := w.lease.Grant()
	require.NotNil(t, grant, "an ID without a grant")
	require.False(t, w.seen[id], "%d was seen", id)
	require.Greater(t, id, w.last)
	p, err := w.layout.Unpack(id)
	require.NoError(t, err)
	require.Equal(t, grant.Code, p.Worker)
	require.False(t, p.Time.Before(grant.Floor), "%v is below the floor %v", p.Time, grant.Floor)
	require.True(t, p.Time.Before(grant.Ceiling), "%v is not below the ceiling %v", p.Time, grant.Ceiling)
	require.False(t, p.Time.After(w.clock.Now().Add(w.ahead)), "%v is further ahead of %v than %v", p.Time, w.clock.Now(), w.ahead)
	w.seen[id], w.last = true, id
}

// refused checks that there was a reason: for a fresh tick inside the grant there is none.
func (w *walk) refused(t *rapid.T, err error) {
	if w.closed {
		require.ErrorIs(t, err, snowflake.ErrClosed)
		return
	}
	require.True(t, snowflake.Retryable(err), "%v", err)
	grant, tick := w.lease.Grant(), w.clock.Now().Truncate(time.Millisecond)
	if grant == nil {
		require.ErrorIs(t, err, snowflake.ErrLeaseLost)
		return
	}
	fresh := true
	if w.last != 0 {
		p, err := w.layout.Unpack(w.last)
		require.NoError(t, err)
		fresh = tick.After(p.Time)
	}
	if fresh && !tick.Before(grant.Floor) && tick.Before(grant.Ceiling) {
		t.Fatalf("at %v, in a fresh tick of [%v, %v): %v", tick, grant.Floor, grant.Ceiling, err)
	}
}

// Whatever the clock and the lease do, and whoever asks for how many, no ID repeats, IDs
// rise, lie inside the grant of the moment, and are refused for a reason only.
func TestGeneratorAgainstASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWalk(t)
		defer func() { _ = w.g.Close(context.Background()) }()
		t.Repeat(map[string]func(*rapid.T){
			"next": func(t *rapid.T) {
				for range rapid.IntRange(1, 20).Draw(t, "n") {
					w.mint(t, 1)
				}
			},
			"fill":        func(t *rapid.T) { w.mint(t, rapid.IntRange(2, 20).Draw(t, "n")) },
			"time passes": func(t *rapid.T) { w.clock.Add(ms(t, "d", 0, 4)) },
			"step":        func(t *rapid.T) { w.clock.Step(ms(t, "d", -8, 8)) },
			"freeze":      func(t *rapid.T) { w.clock.Freeze(rapid.Bool().Draw(t, "on")) },
			"renew": func(t *rapid.T) {
				if g := w.lease.Grant(); g != nil {
					longer := *g
					longer.Ceiling = g.Ceiling.Add(ms(t, "by", 0, 15)).Truncate(time.Millisecond)
					w.granted[g.Code] = longer.Ceiling
					w.lease.grant.Store(&longer)
				}
			},
			"the same grant at a new address": func(*rapid.T) {
				if g := w.lease.Grant(); g != nil {
					same := *g
					w.lease.grant.Store(&same)
				}
			},
			"lose": func(*rapid.T) { w.lease.grant.Store(nil) },
			"acquire": func(t *rapid.T) {
				w.acquire(rapid.IntRange(0, 3).Draw(t, "code"), ms(t, "length", 0, 20))
			},
			"close": func(t *rapid.T) {
				if rapid.IntRange(0, 19).Draw(t, "really") == 0 {
					require.NoError(t, w.g.Close(context.Background()))
					w.closed = true
				}
			},
		})
	})
}
