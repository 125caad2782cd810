package snowflaketest

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/snowfence/snowflake"
)

// Clock is a clock that moves only when it is told to. It has what a real one has: a
// wall clock that can step, stand still and go back, and beside it the time that has
// elapsed, which does none of that and by which After fires. Give the same Clock to
// AcquireLease and New. It is safe for concurrent use.
//
//	clock := snowflaketest.NewClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
//	gen, err := snowflake.New(ctx, snowflake.Config{Lease: lease, Clock: clock})
//	...
//	clock.Step(-2 * time.Second)
//	_, err = gen.Next() // snowflake.ErrClockBehind
//
// A call that waits on a Clock waits until somebody moves it: see BlockUntil.
type Clock struct {
	mu sync.Mutex
	// mu protects all below.
	wall    time.Time
	elapsed time.Duration
	frozen  bool
	alarms  []alarm
	changed chan struct{} // nil, or to be closed when alarms are added
}

type alarm struct {
	at   time.Duration // on the scale of elapsed
	fire chan time.Time
}

var _ interface {
	snowflake.Clock
	Elapsed() time.Duration
} = (*Clock)(nil)

// NewClock returns a clock that reads start.
func NewClock(start time.Time) *Clock { return &Clock{wall: start.Round(0)} }

// Now returns what the wall clock reads.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall
}

// Elapsed returns how much time has passed since NewClock.
func (c *Clock) Elapsed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.elapsed
}

// After returns a channel that receives once d has elapsed: at once if d is not above
// zero, and never if nobody moves the clock.
func (c *Clock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	fire := make(chan time.Time, 1)
	if d <= 0 {
		fire <- c.wall
		return fire
	}
	at := c.elapsed + d
	if at < c.elapsed {
		at = math.MaxInt64
	}
	c.alarms = append(c.alarms, alarm{at, fire})
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
	return fire
}

// Add lets d pass, which must not be negative: to set the clock back is Step.
func (c *Clock) Add(d time.Duration) {
	if d < 0 {
		panic("snowflaketest: Clock.Add: time does not go back; to set the wall clock back use Step")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.frozen {
		c.wall = c.wall.Add(d)
	}
	c.pass(d)
}

// Set moves the wall clock to now. Forward that much time passes, as with Add, and
// nothing in between is seen; back it is a Step. It does so on a frozen clock too.
func (c *Clock) Set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := now.Sub(c.wall)
	c.wall = now.Round(0)
	c.pass(max(d, 0))
}

// Step sets the wall clock forward or back, as a correction by the network or by hand
// does: no time passes.
func (c *Clock) Step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
}

// Freeze stops the wall clock while time goes on with Add; on is false to let it go
// on from where it stands, which is then behind.
func (c *Clock) Freeze(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = on
}

// Waiting returns how many channels that After has returned have not received yet,
// those that nobody listens to any more included.
func (c *Clock) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.alarms)
}

// BlockUntil returns nil once Waiting is at least n, or ctx's error: then what a test
// has started has come to its wait, and the clock can be moved.
func (c *Clock) BlockUntil(ctx context.Context, n int) error {
	for {
		c.mu.Lock()
		if len(c.alarms) >= n {
			c.mu.Unlock()
			return nil
		}
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pass lets d elapse. It requires c.mu held.
func (c *Clock) pass(d time.Duration) {
	c.elapsed += d
	left := c.alarms[:0]
	for _, a := range c.alarms {
		if a.at > c.elapsed {
			left = append(left, a)
		} else {
			a.fire <- c.wall
		}
	}
	clear(c.alarms[len(left):])
	c.alarms = left
}
