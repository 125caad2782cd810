package snowflake

import (
	"sync"
	"time"
)

// waitRoom wakes the callers of one generator that wait for a tick on the system
// clock; Close wakes all that wait, on any clock. time.Sleep wakes up to a millisecond
// late where the runtime waits in epoll, as long as a whole tick; a precise sleep needs
// an operating system's timer. One goroutine, which lives while somebody waits and a moment longer, sleeps
// for all of them: the others wait on channels, one for each tick.
type waitRoom struct {
	mu sync.Mutex
	// mu protects the fields below.
	queue    []wakeup // by due, earliest first
	sleeping bool     // the goroutine runs

	sooner  chan struct{} // the first in the queue has changed; nil until somebody waits
	stopped chan struct{} // closed by stop
	ended   sync.WaitGroup
}

type wakeup struct {
	at  int64         // what the wall clock is to reach: callers with the same at share a wakeup
	due time.Duration // when it should, by the monotonic clock
	c   chan struct{} // closed then
}

func newWaitRoom() *waitRoom {
	return &waitRoom{stopped: make(chan struct{})}
}

// join returns a channel that is closed once wait has passed, or by stop. at is the
// reading that the wall clock should then have, in nanoseconds. The clock may be stepped
// meanwhile: look at it again afterwards.
func (r *waitRoom) join(at int64, wait time.Duration) <-chan struct{} {
	due := monotonic() + wait
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isStopped() { // no Go while stop is in Wait: that panics
		return r.stopped
	}
	place := len(r.queue)
	for i := len(r.queue) - 1; i >= 0; i-- {
		if r.queue[i].at == at && r.queue[i].due <= due+sharedStretch {
			return r.queue[i].c
		}
		if r.queue[i].due > due {
			place = i
		}
	}
	r.queue = append(r.queue, wakeup{})
	copy(r.queue[place+1:], r.queue[place:])
	r.queue[place] = wakeup{at: at, due: due, c: make(chan struct{})}
	if r.sooner == nil {
		r.sooner = make(chan struct{}, 1)
	}
	if !r.sleeping {
		r.sleeping = true
		r.ended.Go(r.sleep)
	} else if place == 0 {
		select {
		case r.sooner <- struct{}{}:
		default:
		}
	}
	return r.queue[place].c
}

// sleep serves the queue until it has been empty for a while. A generator at its limit
// has somebody waiting in every tick, and a goroutine with a timer of its own for each
// would cost more than the waiting.
func (r *waitRoom) sleep() {
	timer := newPreciseTimer()
	defer timer.close()
	idle := time.NewTimer(linger)
	defer idle.Stop()
	for over := false; ; {
		wait, more := r.wake(over)
		switch {
		case !more && over:
			return
		case !more:
			idle.Reset(linger)
			select {
			case <-r.sooner:
			case <-idle.C:
				over = true
			case <-r.stopped:
				over = true
			}
			continue
		}
		over = false
		// Only the last stretch is slept in a way that nothing can end.
		if coarse := wait - preciseStretch; coarse > 0 {
			select {
			case <-time.After(coarse):
			case <-r.sooner:
			case <-r.stopped:
			}
			continue
		}
		timer.sleep(wait)
	}
}

const (
	preciseStretch = 4 * time.Millisecond
	linger         = 20 * time.Millisecond
)

// sharedStretch is how much later a wakeup may be due that a caller shares: on a clock that
// was stepped forward meanwhile the old one is due much too late.
const sharedStretch = time.Millisecond

// isStopped requires r.mu, so that what it tells lasts.
func (r *waitRoom) isStopped() bool {
	select {
	case <-r.stopped:
		return true
	default:
		return false
	}
}

// wake closes the channels that are due and returns how long the next one has. If there
// is none, and it is over, the goroutine has to end: the next to join starts another.
func (r *waitRoom) wake(over bool) (wait time.Duration, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, due := monotonic(), 0
	for due < len(r.queue) && r.queue[due].due <= now {
		close(r.queue[due].c)
		due++
	}
	r.queue = append(r.queue[:0], r.queue[due:]...)
	if len(r.queue) == 0 {
		r.sleeping = !over
		return 0, false
	}
	return r.queue[0].due - now, true
}

// stop wakes everybody, and ends the goroutine, within preciseStretch. Who joins
// afterwards does not wait.
func (r *waitRoom) stop() {
	r.mu.Lock()
	close(r.stopped)
	for _, w := range r.queue {
		close(w.c)
	}
	r.queue = nil
	r.mu.Unlock()
	r.ended.Wait()
}
