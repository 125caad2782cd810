package sim

import (
	"sync"
	"time"
)

// gate holds everybody who passes while it is shut: a process that stands still.
type gate struct {
	mu   sync.Mutex
	shut chan struct{} // nil: open
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
	shut := make(chan struct{})
	g.shut = shut
	time.AfterFunc(d, func() {
		g.mu.Lock()
		g.shut = nil
		g.mu.Unlock()
		close(shut)
	})
}

// clock is a machine's clock: virtual time, skewed, drifting, stepped and frozen.
type clock struct {
	gate *gate

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
}

// freeze lets the wall clock stand still for d, then jump to where it would be.
func (c *clock) freeze(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
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
