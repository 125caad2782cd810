package snowflake

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// markKeeper keeps the high-water mark of a static code ahead of the clock, off the
// path of claims. A mark is revealed to claims only after Advance returned nil.
type markKeeper struct {
	mark   HighWater
	clock  Clock
	frame  *frame
	ahead  time.Duration // MaxAhead + Window
	window time.Duration
	reveal func(tick int64, err error)
	failed func(error)

	soon chan struct{} // a claim has run into the mark
	stop context.CancelFunc
	done chan struct{}
}

// advance raises the mark once.
func (k *markKeeper) advance(ctx context.Context) error {
	// A store that does not answer must not keep the keeper from being stopped
	// for ever; it is asked again.
	ctx, cancel := context.WithTimeout(ctx, max(k.window, time.Second))
	defer cancel()
	tick := k.frame.ceilTick(nanos(k.clock.Now().Add(k.ahead)))
	err := k.mark.Advance(ctx, k.frame.time(tick))
	k.reveal(tick, err)
	return err
}

// run advances the mark every half window until stop.
func (k *markKeeper) run(ctx context.Context) {
	defer close(k.done)
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.soon:
		case <-k.clock.After(k.window / 2):
			rest(ctx)
		}
		for {
			err := k.advance(ctx)
			if err == nil || ctx.Err() != nil {
				break
			}
			k.failed(err)
			if errors.Is(err, ErrConflict) {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-k.clock.After(k.window / 8):
				rest(ctx)
			}
		}
	}
}

// rest lets a little real time pass: the After of an injected clock may fire at once.
func rest(ctx context.Context) {
	timer := time.NewTimer(time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// advanceSoon has the mark advanced without waiting for the next time.
func (k *markKeeper) advanceSoon() {
	select {
	case k.soon <- struct{}{}:
	default:
	}
}

// close stops the keeper and gives the code up.
func (k *markKeeper) close(ctx context.Context, unused time.Time) error {
	k.stop()
	select {
	case <-k.done:
	case <-ctx.Done():
		// The code must be given up all the same, or it stays locked as long as the
		// process lives.
		go func() {
			<-k.done
			late, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
			defer cancel()
			_ = k.mark.Close(late, unused)
		}()
		return fmt.Errorf("%w: the store has not answered, the mark stays where it is until it does: %w", ErrHighWater, ctx.Err())
	}
	return k.mark.Close(ctx, unused)
}

// openMark opens the mark of the generator's static code, waits until the clock has
// reached it, and has it advanced: nothing is permitted before that is durable.
func (g *Generator) openMark(ctx context.Context, store HighWaterStore, window time.Duration) error {
	if store == NoHighWater() {
		g.state.mark = noMarkTick
		return nil
	}
	mark, err := store.Open(ctx, g.markCode, g.layout)
	if err != nil {
		return err
	}
	k := &markKeeper{
		mark: mark, clock: g.clock, frame: &g.frame, ahead: time.Duration(g.maxAhead) + window, window: window,
		reveal: g.revealMark, failed: g.hooks.MarkFailed,
		soon: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if err := k.open(ctx); err != nil {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
		defer cancel()
		return errors.Join(err, mark.Close(cleanup, time.Time{}))
	}
	if opened := mark.Mark(); !opened.IsZero() {
		g.state.markFloor = g.frame.ceilTick(nanos(opened))
	}
	running, stop := context.WithCancel(context.Background())
	k.stop = stop
	g.marks = k
	go k.run(running)
	return nil
}

func (k *markKeeper) open(ctx context.Context) error {
	if err := k.awaitClock(ctx, k.mark.Mark()); err != nil {
		return err
	}
	if err := k.advance(ctx); err != nil {
		return fmt.Errorf("%w: could not be advanced: %w", ErrHighWater, err)
	}
	return nil
}

// awaitClock waits until the clock has reached the mark: after a crash at most
// MaxAhead + Window.
func (k *markKeeper) awaitClock(ctx context.Context, mark time.Time) error {
	var patience <-chan time.Time
	for {
		wait := time.Duration(0)
		if !mark.IsZero() {
			wait = mark.Sub(k.clock.Now())
		}
		if wait <= 0 {
			return nil
		}
		behind := fmt.Errorf("%w: the code was used up to %s, which is %v ahead of the clock",
			ErrHighWater, mark.UTC().Format(time.RFC3339Nano), wait)
		if wait > k.ahead+time.Duration(k.frame.tick) { // marks are rounded up to a tick
			return fmt.Errorf("%w, more than MaxAhead + Window = %v: correct the clock, or wait", behind, k.ahead)
		}
		if patience == nil {
			patience = time.After(wait + k.window) // in real time, for a clock that stands still
		}
		select {
		case <-k.clock.After(wait):
			if k.clock.Now().Before(mark) {
				rest(ctx)
			}
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", behind, ctx.Err())
		case <-patience:
			return fmt.Errorf("%w, and the clock does not get there", behind)
		}
	}
}

// revealMark lets claims go up to a mark that has become durable, or says why it
// has not.
func (g *Generator) revealMark(tick int64, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.markErr = err
	if err != nil {
		g.state.counters.markFailures++
		return
	}
	g.state.mark = max(g.state.mark, tick)
}

// markError says that a claim has run into the mark. Requires g.mu.
func (g *Generator) markError() error {
	err := fmt.Errorf("%w: reached at %s", ErrHighWater, g.frame.time(g.state.mark).Format(time.RFC3339Nano))
	if g.markErr != nil {
		err = fmt.Errorf("%w; it could not be advanced: %w", err, g.markErr)
	}
	return err
}
