package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/snowfence/snowflake"
)

// link is one process' way to its region's store.
type link struct {
	store *store
	world *world
	clock *clock

	mu     sync.Mutex
	random *rand.Rand
	cut    bool
	dead   bool // the process was killed: what it sent may still land

	operates bool // an operator's: goes through while the store is closed to workers
	steady   bool // nothing happens to what it sends

	// What the process is about, for the coverage: whether it found no code free; and the
	// swap whose outcome it does not know.
	starved bool
	unsure  *snowflake.Record // as sent, with the version that it presented
}

var (
	errReset = errors.New("sim: connection reset")
	errDead  = errors.New("sim: the process is dead")
)

// timedLink is the way to a store that tells its time, forgetfulLink to one that may forget.
type (
	timedLink     struct{ *link }
	forgetfulLink struct{ *link }
)

func (l timedLink) Time(ctx context.Context) (time.Time, error) {
	return call(ctx, l.link, false, func() (time.Time, error) { return rightTime(), nil })
}

func (forgetfulLink) MayForget() bool { return true }

func (l *link) Records(ctx context.Context, _ int) ([]snowflake.Record, error) {
	records, err := call(ctx, l, false, func() ([]snowflake.Record, error) { return l.store.records(), nil })
	if err == nil && !l.operates {
		l.sawRecords(records)
	}
	return records, err
}

func (l *link) Swap(ctx context.Context, old, next snowflake.Record) (snowflake.Record, error) {
	written, err := call(ctx, l, true, func() (entry, error) { return l.store.swap(old, next, l.operates) })
	if err == nil && !l.store.acknowledge(written) {
		written, err = entry{}, errReset
	}
	if next.Worker >= 0 && !l.operates {
		l.sawSwap(old, next, err)
	}
	return written.Record, err
}

// sawSwap notes what a swap was, and how it ended.
func (l *link) sawSwap(old, next snowflake.Record, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	acquire := ownerOf(next.Nonce) != ownerOf(old.Nonce)
	switch {
	case errors.Is(err, snowflake.ErrConflict) && acquire:
		l.world.hit("conflict on acquire")
	case errors.Is(err, snowflake.ErrConflict) && next.Released:
		l.world.hit("conflict on release")
	case errors.Is(err, snowflake.ErrConflict):
		l.world.hit("conflict on renewal")
	}
	switch {
	case err == nil && acquire:
		l.world.hit("acquired")
		if l.starved {
			l.world.hit("acquired after a wait for a code")
		}
		l.starved = false
	case err != nil && !l.dead && (!acquire || !errors.Is(err, snowflake.ErrConflict)):
		sent := next
		sent.Version = old.Version
		l.unsure = &sent
	}
}

// sawRecords notes what a list tells a process.
func (l *link) sawRecords(records []snowflake.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	free, now := l.world.shape.codes(), l.clock.peek()
	for _, r := range records {
		if r.Worker >= 0 && r.Ceiling.After(now) {
			free--
		}
	}
	l.starved = l.starved || free == 0
	sent := l.unsure
	if sent == nil {
		return
	}
	l.unsure = nil
	for _, r := range records {
		switch {
		case r.Worker != sent.Worker:
		case ownerOf(r.Nonce) != ownerOf(sent.Nonce):
			l.world.hit("read-back: another owner")
		case r.Version > sent.Version:
			l.world.hit("read-back: own write")
		default:
			l.world.hit("read-back: nothing yet")
		}
	}
}

// What the network does to a request.
const (
	blackHole    = "black hole"
	connRefused  = "refused"
	requestLost  = "request lost"
	answerLost   = "answer lost"
	resetAfter   = "reset after the write"
	slowRequest  = "slow request"
	slowAnswer   = "slow answer"
	doubled      = "doubled"
	doubledLate  = "doubled late"
	landsLate    = "lands late"
	deadProcess  = "dead"
	undisturbed  = ""
	slowAtMost   = 3_000 // milliseconds
	latestAtMost = 30_000
)

// odds are in a hundred, cumulated.
var odds = []struct {
	below int
	name  string
	write bool // only a write
}{
	{4, requestLost, false},
	{8, answerLost, false},
	{11, resetAfter, false},
	{14, slowRequest, false},
	{17, slowAnswer, false},
	{20, doubled, true},
	{22, doubledLate, true},
	{27, landsLate, true},
}

// fate is what happens to one request.
type fate struct {
	there, back, again time.Duration
	name               string
}

func (l *link) draw(write bool) fate {
	l.mu.Lock()
	defer l.mu.Unlock()
	ms := func(n int) time.Duration { return time.Duration(1+l.random.IntN(n)) * time.Millisecond }
	f := fate{there: ms(5), back: ms(5), name: l.drawName(write)}
	switch f.name {
	case undisturbed, deadProcess:
		return f
	case slowRequest:
		f.there = ms(slowAtMost)
	case slowAnswer:
		f.back = ms(slowAtMost)
	case doubledLate:
		f.again = ms(latestAtMost)
	case landsLate:
		f.there = ms(latestAtMost)
	}
	l.world.hit(f.name)
	return f
}

func (l *link) drawName(write bool) string {
	switch n := l.random.IntN(100); {
	case l.dead:
		return deadProcess
	case l.store.isClosed() && !l.operates, !l.world.calm() && (l.cut || l.store.isCut()):
		if n < 50 {
			return blackHole
		}
		return connRefused
	case l.world.calm(), l.steady:
	default:
		for _, o := range odds {
			if n < o.below {
				if o.write && !write {
					break
				}
				return o.name
			}
		}
	}
	return undisturbed
}

// call sends a request into the network. What it does lands in apply.
func call[T any](ctx context.Context, l *link, write bool, apply func() (T, error)) (T, error) {
	var none T
	f := l.draw(write)
	wait := func(d time.Duration) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		}
	}
	never := func() (T, error) {
		<-ctx.Done()
		return none, ctx.Err()
	}
	switch f.name {
	case deadProcess:
		return none, errDead
	case connRefused:
		return none, errReset
	case blackHole, requestLost:
		return never()
	case landsLate:
		l.later(f.there, func() error { _, err := apply(); return err }, "late write landed", "late write found its version gone")
		return never()
	}
	if err := wait(f.there); err != nil {
		return none, err
	}
	value, err := apply()
	switch f.name {
	case answerLost:
		return never()
	case resetAfter:
		return none, errReset
	case doubled, doubledLate:
		l.later(f.again, func() error { _, err := apply(); return err }, "second copy landed", "second copy found its version gone")
	}
	if err := wait(f.back); err != nil {
		return none, err
	}
	l.clock.gate.pass() // a process that stands still hears nothing
	return value, err
}

// later has a write land when nobody waits for it any more.
func (l *link) later(after time.Duration, apply func() error, landed, gone string) {
	l.world.later.Go(func() {
		time.Sleep(after)
		if apply() == nil {
			l.world.hit(landed)
		} else {
			l.world.hit(gone)
		}
	})
}

// setCut cuts the process off from its store, or lets it through again.
func (l *link) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
}

func (l *link) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
}
