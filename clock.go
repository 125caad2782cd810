package snowflake

import "time"

// Clock tells the time and lets time pass. Both methods are called from many
// goroutines; Now is called under the generator's mutex and must not block.
// The Clock and the Mock of github.com/benbjohnson/clock are Clocks as they
// are. Most programs leave Config.Clock nil, which is SystemClock.
//
// A Clock may also have a method
//
//	Elapsed() time.Duration
//
// that tells how much time has passed since some fixed instant, never steps, and
// goes on while the machine is suspended. Deadlines are then compared with it.
// Without it they are compared with Now, by the monotonic reading where the times
// have one.
//
// An injected clock is a timeline of its own, and the one-generator-per-code
// registry of the process does not look at it.
type Clock interface {
	Now() time.Time
	// After returns a channel that receives once when d has passed.
	After(d time.Duration) <-chan time.Time
}

type elapser interface{ Elapsed() time.Duration }

// SystemClock returns the clock of the machine.
func SystemClock() Clock { return systemClock{} }

type systemClock struct{}

var (
	_ Clock   = systemClock{}
	_ elapser = systemClock{}
)

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Elapsed tells the time since some fixed instant, suspends included where the
// platform can tell (linux).
func (systemClock) Elapsed() time.Duration { return systemElapsed() }

// portableWallNanos is wallNanos where no faster way is known.
func portableWallNanos() int64 { return time.Now().UnixNano() }

// processStart carries a monotonic reading that others are measured from.
var processStart = time.Now()

// monotonic returns the time since processStart, not counting suspends. It never
// steps.
func monotonic() time.Duration { return time.Since(processStart) }

// stopwatch tells how much time has passed on a clock: by Elapsed where the clock has
// it, else by the monotonic readings where its times have them, else by the wall. It
// never goes back: on a wall that is stepped back it stands still. It belongs to one
// goroutine.
type stopwatch struct {
	clock  Clock
	last   time.Time
	passed time.Duration
}

func newStopwatch(c Clock) stopwatch { return stopwatch{clock: c, last: c.Now()} }

func (s *stopwatch) Elapsed() time.Duration {
	if c, ok := s.clock.(elapser); ok {
		return c.Elapsed()
	}
	now := s.clock.Now()
	s.passed += max(now.Sub(s.last), 0)
	s.last = now
	return s.passed
}
