package snowflake

import (
	"sync"
	"time"
)

// waitRoom wakes the callers of one generator that wait for a tick on the system
// clock. time.Sleep wakes up to a millisecond late where the runtime waits in
// epoll, as long as a whole tick; a precise sleep needs an operating system's
// timer. One goroutine, which lives only while somebody waits, sleeps for all of
// them: the others wait on channels, one for each tick.
type waitRoom struct {
	mu sync.Mutex
	// mu protects the fields below.
	queue    []wakeup // by due, earliest first
	sleeping bool     // the goroutine runs

	sooner  chan struct{} // the first in the queue has changed
	stopped chan struct{}
	ended   sync.WaitGroup
}

type wakeup struct {
	at  int64         // what the wall clock is to reach: callers with the same at share a wakeup
	due time.Duration // when it should, by the monotonic clock
	c   chan struct{} // closed then
}

func newWaitRoom() *waitRoom {
	return &waitRoom{sooner: make(chan struct{}, 1), stopped: make(chan struct{})}
}

// join returns a channel that is closed once wait has passed. at is the reading
// that the wall clock should then have, in nanoseconds. The clock may be stepped
// meanwhile: look at it again afterwards. After stop the channel is nil, or may never
// close.
func (r *waitRoom) join(at int64, wait time.Duration) <-chan struct{} {
	due := monotonic() + wait
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.stopped: // no Go while stop is in Wait: that panics
		return nil
	default:
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

// sleep serves the queue until it is empty.
func (r *waitRoom) sleep() {
	timer := newPreciseTimer()
	defer timer.close()
	for {
		wait, more := r.wake()
		if !more {
			return
		}
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

const preciseStretch = 4 * time.Millisecond

// sharedStretch is how much later a wakeup may be due that a caller shares: on a clock that
// was stepped forward meanwhile the old one is due much too late.
const sharedStretch = time.Millisecond

// wake closes the channels that are due and returns how long the next one has.
func (r *waitRoom) wake() (wait time.Duration, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.stopped:
		r.queue = nil
	default:
	}
	now, due := monotonic(), 0
	for due < len(r.queue) && r.queue[due].due <= now {
		close(r.queue[due].c)
		due++
	}
	r.queue = append(r.queue[:0], r.queue[due:]...)
	if len(r.queue) == 0 {
		r.sleeping = false
		return 0, false
	}
	return r.queue[0].due - now, true
}

// stop ends the goroutine, within preciseStretch. Who joins afterwards gets a channel that
// never closes.
func (r *waitRoom) stop() {
	r.mu.Lock()
	close(r.stopped)
	r.mu.Unlock()
	r.ended.Wait()
}
