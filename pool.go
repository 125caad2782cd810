package snowflake

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// Pool is several generators in one process behind the methods of one. It is for the
// process that needs more than one worker code gives, 4,096 IDs in a millisecond by
// default, or in which many cores meet at the mutex of one generator. All others are
// better served by a Generator, because of what a Pool does not promise:
//
// Order holds for each of its generators only. A caller that asks twice may get the
// lower ID second, within the millisecond or, with MaxAhead, within MaxAhead. Uniqueness
// is that of a Generator: each of them has a lease, and so a code, of its own.
//
// A lease that is lost takes one generator out until the lease has a code again, and the
// others go on. All methods may be called from many goroutines.
type Pool struct {
	// Immutable after NewPool.
	generators []*Generator
	hooks      *Hooks

	// homes remember, for each group of goroutines, the generator that served it last,
	// which is where it asks first. Two goroutines that meet at one mutex, or find a
	// tick full, so part by themselves, and stay apart: then nobody writes here.
	homes [1 << homeBits]atomic.Uint32

	mu sync.Mutex
	// mu protects the fields below.
	telling, changed, toldSick bool // as in Generator: HealthChanged, of the pool
}

// PoolConfig says how a pool works. Store and Size are required.
type PoolConfig struct {
	// Store is where the leases are kept.
	Store LeaseStore
	// Size is how many generators, each with a lease, the pool has, 1 to 64. It does
	// not change. Each takes a worker code: count them in Needs.WorkersPerRegion.
	// More than there are cores serves only to mint more in a tick.
	Size int
	// Lease says how each lease is kept. Layout, Clock and Hooks are those of the
	// generators as well. HealthChanged tells of the pool; every other hook of one
	// lease or generator.
	Lease LeaseConfig
	// Formats, if the column has several, limits the pool to the one that has the leases'
	// Layout: see Formats.Lease.
	Formats Formats
	// MaxWait and MaxAhead are as in Config. Nobody waits at one generator while
	// another has room.
	MaxWait, MaxAhead time.Duration
}

const (
	maxPool  = 64 // as many as a mask of 64 bits can tell apart
	homeBits = 8
)

// NewPool acquires cfg.Size leases, one after the other, and returns a pool on them. ctx
// bounds NewPool only. If it fails, it gives back what it had acquired; the error is that
// of AcquireLease or New, and tells which of the generators it met.
func NewPool(ctx context.Context, cfg PoolConfig) (*Pool, error) {
	if cfg.Size < 1 || cfg.Size > maxPool {
		return nil, fmt.Errorf("snowflake: PoolConfig.Size is %d, must be 1 to %d", cfg.Size, maxPool)
	}
	p := newPool(cfg.Size, cfg.Lease.Hooks)
	cfg.Lease.kin = newKin()
	for i := range cfg.Size {
		if err := p.add(ctx, cfg); err != nil {
			// ctx may be what has ended; Close has a bound of its own.
			return nil, errors.Join(fmt.Errorf("snowflake: NewPool: generator %d of %d: %w", i+1, cfg.Size, err),
				p.Close(context.WithoutCancel(ctx)))
		}
	}
	return p, nil
}

// newPool returns a pool for size generators, without them.
func newPool(size int, hooks *Hooks) *Pool {
	p := &Pool{hooks: hooks.filled()}
	for i := range p.homes {
		p.homes[i].Store(uint32(i % size))
	}
	return p
}

// add acquires a lease and makes a generator on it.
func (p *Pool) add(ctx context.Context, cfg PoolConfig) error {
	lease, err := AcquireLease(ctx, cfg.Store, cfg.Lease)
	if err != nil {
		return err
	}
	g, err := p.member(ctx, cfg, lease)
	if err != nil {
		return errors.Join(err, lease.Release(context.WithoutCancel(ctx), lease.frame.time(1))) // nothing was claimed
	}
	p.generators = append(p.generators, g)
	return nil
}

func (p *Pool) member(ctx context.Context, cfg PoolConfig, lease Lease) (*Generator, error) {
	if cfg.Formats != nil {
		var err error
		if lease, err = cfg.Formats.Lease(lease); err != nil {
			return nil, err
		}
	}
	return New(ctx, Config{
		Lease: lease, Clock: cfg.Lease.Clock, MaxWait: cfg.MaxWait, MaxAhead: cfg.MaxAhead, Hooks: p.memberHooks(),
	})
}

// home returns the place where the generator of the calling goroutine is noted. A
// goroutine is known by where on which stack it calls from. Measured side by side that
// takes 0.6 ns, where a random number takes 5 and keeps nobody apart, an entry of a
// sync.Pool 9, and a counter that two cores share 15. It decides who asks where first, and
// nothing else.
func (p *Pool) home() *atomic.Uint32 {
	const golden = 0x9E3779B97F4A7C15 // 2^64 divided by the golden ratio: spreads neighbors
	var here byte
	stack := uint64(uintptr(unsafe.Pointer(&here))) >> 11 // 2 KiB is the smallest stack
	return &p.homes[stack*golden>>(64-homeBits)]
}

// Next returns a new ID, which no other call gets. It asks the generator that served the
// goroutine last, and if that is busy, full, or refuses, all others before it waits, at
// most MaxWait, at the one that has room soonest. The errors are those of
// Generator.Next. If none can issue at all, it is the error of one that will come back by
// itself, if there is one.
func (p *Pool) Next() (ID, error) {
	home := p.home()
	g := p.generators[home.Load()]
	if id, ok := g.tryAgain(); ok {
		return id, nil
	}
	c, err := p.take(context.Background(), home, budget{wait: g.maxWait}, 1)
	return c.base, err
}

// tryAgain is again for those who would rather go elsewhere than queue.
func (g *Generator) tryAgain() (ID, bool) {
	if !g.mu.TryLock() {
		return 0, false
	}
	id, ok := g.again(g.now())
	g.mu.Unlock()
	return id, ok
}

// NextContext is Next that also ends when ctx does, as Generator.NextContext.
func (p *Pool) NextContext(ctx context.Context) (ID, error) {
	home := p.home()
	g := p.generators[home.Load()]
	if err := ctx.Err(); err != nil {
		return 0, g.canceled(err)
	}
	if id, ok := g.tryAgain(); ok {
		return id, nil
	}
	deadline, _ := ctx.Deadline()
	c, err := p.take(ctx, home, budget{wait: g.maxWait, deadline: deadline}, 1)
	return c.base, err
}

// Fill fills ids with new IDs and returns how many it filled, as Generator.Fill. They
// come in runs, each of one generator and ascending; the whole is in no order.
func (p *Pool) Fill(ctx context.Context, ids []ID) (int, error) {
	home := p.home()
	g := p.generators[home.Load()]
	deadline, _ := ctx.Deadline()
	return gather(ctx, ids, g.canceled, func(want int) (claim, error) {
		return p.take(ctx, home, budget{wait: g.maxWait, deadline: deadline, pace: true}, want)
	})
}

// take claims up to want IDs of one generator. A lease that is lost while the caller
// waits at its generator sends it to another, with the time that is left.
func (p *Pool) take(ctx context.Context, home *atomic.Uint32, b budget, want int) (claim, error) {
	began := monotonic()
	patience := b.wait
	for round := 1; ; round++ {
		c, refused := p.atOnce(home, want)
		if refused.g == nil {
			return c, nil
		}
		g := refused.g
		g.queue()
		c, err := g.take(ctx, b, want, g.now()) // counts, and tells the hooks
		switch {
		case err == nil:
			return c, nil
		case refused.wait == 0:
			return c, p.none(err)
		case !errors.Is(err, ErrLeaseLost) || round == len(p.generators):
			return c, err
		}
		b.wait = max(patience-(monotonic()-began), 0)
	}
}

// refusal is what a generator that cannot issue at once has to say.
type refusal struct {
	g    *Generator
	wait int64 // nanoseconds until it can; 0: nobody knows
	rank int   // how much it tells
}

// atOnce claims up to want IDs that can be handed out at once, at the home or whoever
// comes next after it, or returns the most telling refusal.
func (p *Pool) atOnce(home *atomic.Uint32, want int) (claim, refusal) {
	var best refusal
	first, size := int(home.Load()), len(p.generators)
	asked := uint64(0)
	// First those whose mutex is free, then those that were busy.
	for i := range 2 * size {
		at := (first + i) % size
		g := p.generators[at]
		if asked>>at&1 == 1 {
			continue
		}
		if i < size && !g.mu.TryLock() {
			continue
		} else if i >= size {
			g.queue()
		}
		asked |= 1 << at
		c, err := g.atOnce(want)
		if err == nil {
			if at != first {
				home.Store(uint32(at))
			}
			return c, refusal{}
		}
		next := refusal{g: g, wait: max(c.wait, 0), rank: rank(c, err)}
		if best.g == nil || next.rank > best.rank || next.rank == best.rank && next.wait < best.wait {
			best = next
		}
	}
	return claim{}, best
}

// atOnce claims up to want IDs that can be handed out at once. Else it counts nothing, and
// the claim that comes with the error tells how long a wait is missing. Requires g.mu, and
// releases it.
func (g *Generator) atOnce(want int) (claim, error) {
	now := g.now()
	g.observe(now)
	g.noteFull(now)
	c, _, err := g.decide(now, budget{})
	if err == nil {
		return g.take(context.Background(), budget{}, want, now)
	}
	if c.wait <= 0 {
		g.judge(err)
	}
	pending := g.takeEvents()
	g.mu.Unlock()
	g.tell(pending)
	return c, err
}

// rank orders refusals by what the caller of a pool should hear if there is no better one:
// that it has to wait, that the pool is closed, what passes by itself, what does not.
func rank(c claim, err error) int {
	var lease *LeaseError
	switch {
	case c.wait > 0:
		return 4
	case errors.Is(err, ErrClosed):
		return 3
	case !Retryable(err):
		return 0
	case errors.As(err, &lease):
		return 2
	}
	return 1
}

// none says that an error is that of all generators.
func (p *Pool) none(err error) error {
	if len(p.generators) == 1 || errors.Is(err, ErrClosed) {
		return err
	}
	return fmt.Errorf("snowflake: none of %d generators can issue: %w", len(p.generators), err)
}

// Health returns nil while at least one generator can issue, because a process that
// serves with less room should not be taken out for it. Else it is the error that Next
// would return. Generators tells the health of each.
func (p *Pool) Health() error {
	var most error
	best := -1
	for _, g := range p.generators {
		err := g.Health()
		if err == nil {
			return nil
		}
		if r := rank(claim{}, err); r > best {
			most, best = err, r
		}
	}
	return p.none(most)
}

// memberHooks are those of the pool, but for HealthChanged.
func (p *Pool) memberHooks() *Hooks {
	hooks := *p.hooks
	hooks.HealthChanged = func(error) { p.tellHealth() }
	return &hooks
}

// tellHealth calls HealthChanged if the pool's health has changed, on one goroutine at a
// time. It asks all generators anew: what they last told may have passed.
func (p *Pool) tellHealth() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed = true
	if p.telling {
		return // who tells will look again
	}
	p.telling = true
	defer func() { p.telling = false }()
	for p.changed {
		p.changed = false
		p.mu.Unlock()
		err := p.Health()
		p.mu.Lock()
		if sick := err != nil; sick != p.toldSick && !errors.Is(err, ErrClosed) {
			p.toldSick = sick
			func() {
				p.mu.Unlock()
				defer p.mu.Lock() // also if the hook panics
				p.hooks.HealthChanged(err)
			}()
		}
	}
}

// Layout returns the layout that IDs are minted with.
func (p *Pool) Layout() Layout { return p.generators[0].layout }

// Generators returns a snapshot of each generator; Health in it tells which of them can
// issue, and Errors what each of them has refused.
func (p *Pool) Generators() []Stats {
	all := make([]Stats, len(p.generators))
	for i, g := range p.generators {
		all[i] = g.Stats()
	}
	return all
}

// Stats returns a snapshot of all generators together. Counters are sums, but for
// Rollbacks, which they share: it is that of the generator that has seen the most. Ahead
// and Last are the greatest. Code is -1, and Token, Floor and Ceiling are zero, because
// each generator has its own: see Generators.
func (p *Pool) Stats() Stats {
	total := Stats{Code: -1, Health: p.Health()}
	for _, s := range p.Generators() {
		total.IDs += s.IDs
		total.Errors.add(s.Errors)
		for i, n := range s.Waits {
			total.Waits[i] += n
		}
		if sum := total.WaitSum + s.WaitSum; sum >= total.WaitSum {
			total.WaitSum = sum
		} else {
			total.WaitSum = math.MaxInt64
		}
		if s.Rollbacks > total.Rollbacks {
			total.Rollbacks, total.LastRollback = s.Rollbacks, s.LastRollback
		}
		total.LargestRollback = max(total.LargestRollback, s.LargestRollback)
		total.Exhausted += s.Exhausted
		total.Ahead = max(total.Ahead, s.Ahead)
		total.Last = later(total.Last, s.Last)
		total.EpochRemaining = s.EpochRemaining
		total.Duplicates += s.Duplicates
	}
	return total
}

func (e *ErrorStats) add(other ErrorStats) {
	e.ClockBehind += other.ClockBehind
	e.Saturated += other.Saturated
	e.LeaseLost += other.LeaseLost
	e.HighWater += other.HighWater
	e.TimeOverflow += other.TimeOverflow
	e.Canceled += other.Canceled
	e.Closed += other.Closed
}

// ReportDuplicate is Generator.ReportDuplicate. The pool counts it once.
func (p *Pool) ReportDuplicate(id ID) { p.generators[0].ReportDuplicate(id) }

// Close closes all generators at once, each as Generator.Close: it ends when ctx does,
// and in any case after about 10 s. Another Close does nothing and returns nil.
func (p *Pool) Close(ctx context.Context) error {
	failed := make([]error, len(p.generators))
	var closing sync.WaitGroup
	for i, g := range p.generators {
		closing.Go(func() { failed[i] = g.Close(ctx) })
	}
	closing.Wait()
	return errors.Join(failed...)
}
