package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/snowfence/snowflake"
)

// operator is who releases and fences the codes of a region by hand, with a clock that may
// be wrong and over a network like everybody's.
type operator struct {
	*link
	random *rand.Rand
	region int
}

func (w *world) newOperator(region int, random *rand.Rand) *operator {
	c := &clock{gate: new(gate), set: time.Now().Round(0)}
	stream := rand.New(rand.NewPCG(random.Uint64(), 0))
	return &operator{&link{store: w.stores[region], world: w, clock: c, random: stream, operates: true}, random, region}
}

// Time is what the operator takes for the time. A wrong one costs codes, never an ID.
func (o *operator) Time(context.Context) (time.Time, error) { return o.clock.peek(), nil }

// operate has the operator meddle with a region that is at work.
func (o *operator) operate() {
	for {
		time.Sleep(upTo(o.random, time.Minute))
		if o.world.calm() {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 1+upTo(o.random, time.Minute)) // somebody interrupts it
		if o.random.IntN(3) == 0 {
			o.world.hit("fence")
			_ = o.fence(ctx, rightTime().Add(upTo(o.random, ttl)))
		} else {
			o.world.hit("release of expired codes")
			o.clock.right()
			o.clock.step(upTo(o.random, 2*time.Minute) - time.Minute)
			_, _ = snowflake.ReleaseExpired(ctx, o, o.region)
		}
		cancel()
	}
}

// restore brings the region's store back as it was a while ago, and has it fenced as the
// documentation says before workers reach it.
func (o *operator) restore() {
	w := o.world
	w.hit("store restored and fenced")
	o.setSteady(o.random.IntN(4) > 0) // a quick fence comes while the owners of what was lost are alive
	o.store.setClosed(true)
	age := upTo(o.random, 6*ttl)
	if o.random.IntN(3) == 0 {
		age = time.Hour // the backup is from before the region was used
	}
	o.store.forget(age)
	until := rightTime().Add(ttl + skew)
	for o.fence(context.Background(), until) != nil {
		time.Sleep(time.Second)
	}
	o.store.setClosed(false)
}

func (o *operator) fence(ctx context.Context, until time.Time) error {
	done, err := snowflake.FenceLeases(ctx, o, snowflake.Fence{Region: o.region, Until: until, Layout: o.world.shape.layout})
	if err == nil && done.Codes != o.world.shape.codes() {
		err = errors.New("sim: a fence that is complete has left out codes")
		o.world.fail(err)
	}
	return err
}

func (o *operator) setSteady(steady bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.steady = steady
}
