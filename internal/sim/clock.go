package sim

import (
	"sync"
	"sync/atomic"
	"time"
)

// gate holds everybody who passes while it is shut: a process that stands still.
type gate struct {
	mu    sync.Mutex
	shut  chan struct{} // nil: open
	until time.Time     // zero: for good
}

func (g *gate) pass() {
	for {
		g.mu.Lock()
		shut := g.shut
		g.mu.Unlock()
		if shut == nil {
			return
		}
		<-shut
	}
}

// stop shuts the gate for d.
func (g *gate) stop(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		return
	}
	g.shut = make(chan struct{})
	g.until = time.Now().Add(d)
	time.AfterFunc(d, func() { g.open(false) })
}

// stopForGood shuts the gate until open(true): a process that was killed.
func (g *gate) stopForGood() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
	g.until = time.Time{}
}

func (g *gate) open(dead bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil || g.until.IsZero() && !dead {
		return
	}
	close(g.shut)
	g.shut = nil
}

// clock is a machine's clock: virtual time, skewed, drifting, stepped and frozen.
type clock struct {
	gate *gate
	tame time.Duration // how far it may be off; 0: as far as it gets

	mu     sync.Mutex
	offset time.Duration
	drift  float64 // seconds a second
	set    time.Time
	frozen time.Time // what it reads until thaw
	thaw   time.Time
}

// thirtyYears brings the bubble's year 2000 into the life of a layout.
const thirtyYears = 30 * 365 * 24 * time.Hour

// rightTime is what a clock that is right reads.
func rightTime() time.Time { return time.Now().Round(0).Add(thirtyYears) }

func (c *clock) Now() time.Time {
	c.gate.pass()
	return c.peek()
}

// peek reads the clock from outside of its process.
func (c *clock) peek() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read()
}

func (c *clock) read() time.Time {
	now := time.Now().Round(0)
	if now.Before(c.thaw) {
		return c.frozen
	}
	return now.Add(thirtyYears + c.offset + time.Duration(c.drift*float64(now.Sub(c.set))))
}

func (c *clock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// step moves the wall clock.
func (c *clock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
	if c.tame > 0 {
		c.offset = min(max(c.offset, -c.tame), c.tame)
	}
}

// freeze lets the wall clock stand still for d, then jump to where it would be.
func (c *clock) freeze(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tame > 0 {
		d = min(d, c.tame)
	}
	if time.Now().Before(c.thaw) {
		return
	}
	c.frozen = c.read()
	c.thaw = time.Now().Round(0).Add(d)
}

// right sets the clock right.
func (c *clock) right() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset, c.drift, c.thaw = 0, 0, time.Time{}
}

// boottime is a clock that also tells how much time has passed, whatever its wall does.
type boottime struct{ *clock }

func (c boottime) Elapsed() time.Duration {
	c.gate.pass()
	return time.Duration(time.Now().UnixNano())
}

// inside is the clock that a generator reads under its mutex. A process may stand still
// there only while nobody else asks for the mutex: a bubble's time does not go on while a
// goroutine waits for one. So it does where alone says so; callers in a crowd stand still
// before they call.
type inside struct {
	*clock
	alone *atomic.Bool
}

func (c inside) Now() time.Time {
	if c.alone.Load() {
		c.gate.pass()
	}
	return c.peek()
}

type insideBoottime struct{ inside }

func (c insideBoottime) Elapsed() time.Duration {
	if c.alone.Load() {
		c.gate.pass()
	}
	return time.Duration(time.Now().UnixNano())
}
