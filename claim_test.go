package snowflake

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// smallLayout fills its ticks after two IDs, so that tables stay short.
func smallLayout() Layout {
	return Layout{Epoch: DefaultLayout().Epoch, Tick: time.Millisecond, TimeBits: 54, WorkerBits: 8, SequenceBits: 1}
}

// step is one call of nextID: the clock reads at (in ms after noon), and the claim or
// error is what the row says.
type step struct {
	at      float64
	tick    int64 // ms after noon
	seq     int64
	wait    time.Duration
	refused error
}

func TestNextIDSteps(t *testing.T) {
	const full = 5 * time.Millisecond // budget unless a row's test says otherwise
	for name, test := range map[string]struct {
		ahead  time.Duration
		budget time.Duration
		steps  []step
	}{
		"the sequence starts at 0 in every tick": {steps: []step{
			{at: 0, tick: 0, seq: 0}, {at: 0.5, tick: 0, seq: 1}, {at: 1, tick: 1, seq: 0}, {at: 7.9, tick: 7, seq: 0},
		}},
		"a full tick waits for the next": {steps: []step{
			{at: 0, tick: 0, seq: 0}, {at: 0, tick: 0, seq: 1},
			{at: 0.25, tick: 1, seq: 0, wait: 750 * time.Microsecond},
			{at: 0.25, tick: 1, seq: 1, wait: 750 * time.Microsecond},
			{at: 0.25, tick: 2, seq: 0, wait: 1750 * time.Microsecond},
			{at: 2, tick: 2, seq: 1},
		}},
		"a refusal claims nothing": {budget: 1, steps: []step{
			{at: 0, tick: 0, seq: 0}, {at: 0, tick: 0, seq: 1},
			{at: 0.5, refused: ErrSaturated}, {at: 0.5, refused: ErrSaturated},
			{at: 1, tick: 1, seq: 0},
		}},
		"readings 100 (x3), 99, 100 (x3) without waiting": {budget: 1, steps: []step{
			{at: 100, tick: 100, seq: 0}, {at: 100, tick: 100, seq: 1}, {at: 100, refused: ErrSaturated},
			{at: 99, refused: ErrClockBehind},
			{at: 100, refused: ErrSaturated}, {at: 101, tick: 101, seq: 0}, {at: 101, tick: 101, seq: 1},
		}},
		"a step back goes on in the last tick": {steps: []step{
			{at: 10, tick: 10, seq: 0},
			{at: 9, tick: 10, seq: 1, wait: time.Millisecond},
			{at: 9, tick: 11, seq: 0, wait: 2 * time.Millisecond},
			{at: 6, tick: 11, seq: 1, wait: 5 * time.Millisecond},
			{at: 6, refused: ErrClockBehind},
			{at: 12, tick: 12, seq: 0},
		}},
		"MaxAhead borrows up to its bound": {ahead: 2 * time.Millisecond, budget: 1, steps: []step{
			{at: 0, tick: 0, seq: 0}, {at: 0, tick: 0, seq: 1}, {at: 0, tick: 1, seq: 0}, {at: 0, tick: 1, seq: 1},
			{at: 0, tick: 2, seq: 0}, {at: 0, tick: 2, seq: 1}, {at: 0, refused: ErrSaturated},
			{at: 1, tick: 3, seq: 0}, {at: 0.9, refused: ErrClockBehind},
			{at: 1, tick: 3, seq: 1},
		}},
		"MaxAhead rides a step back through": {ahead: 3 * time.Millisecond, budget: 1, steps: []step{
			{at: 5, tick: 5, seq: 0}, {at: 2, tick: 5, seq: 1}, {at: 1, refused: ErrClockBehind}, {at: 3, tick: 6, seq: 0},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			// Waits just over a MaxAhead boundary are rows of their own.
			g := newTestGenerator(t, Config{Layout: smallLayout(), MaxAhead: test.ahead})
			b := budget{wait: full}
			if test.budget != 0 {
				b.wait = test.budget
			}
			for i, row := range test.steps {
				now := noon.UnixNano() + int64(row.at*1e6)
				g.mu.Lock()
				before := g.state
				c, err := g.nextID(now, b, 1)
				after := g.state
				g.mu.Unlock()
				if row.refused != nil || err != nil {
					require.ErrorIs(t, err, row.refused, "row %d", i)
					require.Equal(t, []int64{before.tick, before.sequence, int64(before.code), int64(before.base)},
						[]int64{after.tick, after.sequence, int64(after.code), int64(after.base)}, "row %d: a refusal changes nothing", i)
					continue
				}
				start := g.frame.floorTick(noon.UnixNano())
				require.Equal(t, []int64{row.tick, row.seq, int64(row.wait)}, []int64{c.tick - start, int64(c.base) & 1, max(c.wait, 0)}, "row %d", i)
			}
		})
	}
}

// TestNextIDAgainstReference runs nextID over arbitrary clocks, grants and budgets, and
// holds it against a set: whatever happens, no (code, tick, sequence) twice, rising,
// inside the grant, and a refusal repeats itself.
func TestNextIDAgainstReference(t *testing.T) {
	for seed := range uint64(200) {
		referenceRun(t, rand.New(rand.NewPCG(seed, 1)), 400)
	}
}

// tape makes the choices of a run from bytes, one each, so that a fuzzer can see what a
// byte does.
type tape struct {
	left []byte
	past uint64 // how many were asked for after the end: rand asks on until one suits
}

func (t *tape) Uint64() uint64 {
	if len(t.left) == 0 {
		t.past++
		return t.past * 0x9E3779B97F4A7C15
	}
	next := t.left[0]
	t.left = t.left[1:]
	return uint64(next) * 0x0101010101010101
}

func FuzzNextID(f *testing.F) {
	for seed := range uint64(8) {
		choices, random := make([]byte, 600), rand.New(rand.NewPCG(seed, 2))
		for i := range choices {
			choices[i] = byte(random.Uint32())
		}
		f.Add(choices)
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		referenceRun(t, rand.New(&tape{left: choices}), min(len(choices)/3, 2000)) // a step takes three or more
	})
}

func referenceRun(t *testing.T, random *rand.Rand, steps int) {
	ahead := time.Duration(random.IntN(3)) * 700 * time.Microsecond
	lease := newHandLease(Grant{Code: 1, Token: 1, Floor: noon, Ceiling: noon.Add(20 * time.Millisecond)})
	g, err := New(context.Background(), Config{Lease: lease, Clock: newHandClock(), Layout: smallLayout(), MaxAhead: ahead})
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Close(context.Background())) }()
	seen := make(map[ID]bool)
	now := noon.UnixNano()
	var last claim
	for range steps {
		grant := *lease.Grant()
		switch random.IntN(8) {
		case 0:
			now += random.Int64N(6e6) - 3e6
		case 1, 2:
			now += random.Int64N(3e5)
		case 3: // renewed
			grant.Ceiling = grant.Ceiling.Add(time.Duration(random.Int64N(8e6))).Truncate(time.Microsecond)
			lease.grant.Store(&grant)
		case 4: // the same again, at a new address
			lease.grant.Store(&grant)
		case 5: // taken anew: a code that was last used up to anywhere below now
			if random.IntN(6) == 0 {
				grant.Code = 1 + random.IntN(3)
				grant.Token++
				grant.Floor = grant.Ceiling // of all codes: the reference needs no store
				grant.Ceiling = grant.Floor.Add(time.Duration(random.Int64N(9e6)))
				lease.grant.Store(&grant)
			}
		}
		wait := time.Duration(random.IntN(4)) * time.Millisecond
		want := 1 + random.IntN(3)
		g.mu.Lock()
		c, err := g.nextID(now, budget{wait: wait}, want)
		g.mu.Unlock()
		if err != nil {
			require.True(t, Retryable(err), "%v", err)
			continue
		}
		require.True(t, c.count >= 1 && c.count <= want)
		for i := range c.count {
			id := c.base + ID(i)
			require.False(t, seen[id], "repeated")
			seen[id] = true
			p := mustUnpack(t, g.layout, id)
			require.Equal(t, grant.Code, p.Worker)
			require.False(t, p.Time.Before(grant.Floor), "below the floor")
			require.True(t, p.Time.Before(grant.Ceiling), "at the ceiling")
			require.LessOrEqual(t, p.Time.UnixNano(), now+int64(wait+ahead), "further ahead than allowed")
		}
		require.Greater(t, c.base, last.base+ID(max(last.count-1, 0)), "rising")
		last = c
	}
}

func TestGrantChanges(t *testing.T) {
	t.Run("a new pointer with the same code goes on", func(t *testing.T) {
		lease := newHandLease(day(7))
		g := newTestGenerator(t, Config{Lease: lease})
		first := mustNext(t, g)
		again := day(7)
		lease.grant.Store(&again)
		require.Equal(t, first+1, mustNext(t, g), "the sequence is not reset")
		again.Token = 2
		third := again
		lease.grant.Store(&third)
		require.Equal(t, first+2, mustNext(t, g))
	})
	t.Run("a new code goes on in the next tick", func(t *testing.T) {
		clk := newHandClock()
		lease := newHandLease(day(7))
		g := newTestGenerator(t, Config{Lease: lease, Clock: clk, MaxWait: -1})
		first := mustNext(t, g)
		lower := day(2)
		lease.grant.Store(&lower)
		_, err := g.Next()
		require.ErrorIs(t, err, ErrSaturated)
		clk.Add(time.Millisecond)
		second := mustNext(t, g)
		require.Greater(t, second, first)
		require.Equal(t, 2, mustUnpack(t, g.layout, second).Worker)
	})
	t.Run("floors round up, ceilings down", func(t *testing.T) {
		clk := newHandClock()
		lease := newHandLease(Grant{Code: 1, Floor: noon.Add(time.Microsecond), Ceiling: noon.Add(2*time.Millisecond + 999*time.Microsecond)})
		g := newTestGenerator(t, Config{Lease: lease, Clock: clk, MaxWait: -1})
		_, err := g.Next()
		require.ErrorIs(t, err, ErrClockBehind, "the floor is ahead of the clock")
		clk.Add(time.Millisecond)
		require.Equal(t, noon.Add(time.Millisecond), mustUnpack(t, g.layout, mustNext(t, g)).Time)
		clk.Add(time.Millisecond)
		_, err = g.Next()
		require.ErrorIs(t, err, ErrLeaseLost)
	})
	t.Run("an empty grant is the lease's matter", func(t *testing.T) {
		lease := newHandLease(Grant{Code: 1, Floor: noon.Add(time.Minute), Ceiling: noon.Add(time.Minute)})
		g := newTestGenerator(t, Config{Lease: lease})
		_, err := g.Next()
		require.ErrorIs(t, err, ErrLeaseLost)
		require.ErrorContains(t, err, "2030-06-01T12:01:00Z")
	})
	t.Run("nothing held", func(t *testing.T) {
		lease := newHandLease(day(7))
		g := newTestGenerator(t, Config{Lease: lease})
		first := mustNext(t, g)
		lease.grant.Store(nil)
		_, err := g.Next()
		require.ErrorIs(t, err, ErrLeaseLost)
		require.ErrorIs(t, g.Health(), ErrLeaseLost)
		back := day(7)
		lease.grant.Store(&back)
		require.Equal(t, first+1, mustNext(t, g))
		require.NoError(t, g.Health())
	})
	t.Run("one that cannot be used", func(t *testing.T) {
		for name, bad := range map[string]Grant{
			"code too high": {Code: 1024, Ceiling: noon.Add(time.Hour)},
			"code negative": {Code: -1, Ceiling: noon.Add(time.Hour)},
			"no ceiling":    {Code: 7},
		} {
			lease := newHandLease(day(7))
			g := newTestGenerator(t, Config{Lease: lease})
			first := mustNext(t, g)
			lease.grant.Store(&bad)
			_, err := g.Next()
			require.ErrorIs(t, err, ErrLeaseLost, name)
			good := day(7)
			lease.grant.Store(&good)
			require.Equal(t, first+1, mustNext(t, g), name)
		}
	})
	t.Run("the deadline is looked at with each new tick", func(t *testing.T) {
		clk := newHandClock()
		grant := day(7)
		grant.Deadline = noon.Add(time.Second)
		g := newTestGenerator(t, Config{Lease: newHandLease(grant), Clock: clk})
		mustNext(t, g)
		clk.Set(grant.Deadline.Add(-1))
		mustNext(t, g)
		clk.Set(grant.Deadline)
		_, err := g.Next()
		require.ErrorIs(t, err, ErrLeaseLost)
		require.ErrorContains(t, err, "deadline")
	})
	t.Run("by elapsed time where the clock has it", func(t *testing.T) {
		clk := &elapsedHandClock{handClock: newHandClock()}
		grant := day(7)
		grant.Deadline = noon.Add(time.Second)
		g := newTestGenerator(t, Config{Lease: newHandLease(grant), Clock: clk})
		mustNext(t, g)
		clk.Set(noon.Add(time.Hour)) // a step: no time has passed
		mustNext(t, g)
		clk.elapsed = time.Second
		clk.Add(time.Millisecond)
		_, err := g.Next()
		require.ErrorIs(t, err, ErrLeaseLost)
	})
}

type elapsedHandClock struct {
	*handClock
	elapsed time.Duration
}

func (c *elapsedHandClock) Elapsed() time.Duration { return c.elapsed }

func TestTickZeroIsNeverClaimed(t *testing.T) {
	clk := newHandClock()
	layout := DefaultLayout()
	clk.Set(layout.Epoch)
	g := newTestGenerator(t, Config{Lease: newHandLease(Grant{Ceiling: noon}), Clock: clk, MaxWait: -1})
	_, err := g.Next()
	require.True(t, errors.Is(err, ErrClockBehind) || errors.Is(err, ErrSaturated), "%v", err)
	clk.Add(time.Millisecond)
	require.Equal(t, layout.Epoch.Add(time.Millisecond), mustUnpack(t, layout, mustNext(t, g)).Time)
}
