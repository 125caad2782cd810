package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/snowfence/snowflake"
)

// machine is a place where processes of one worker live, one after the other.
type machine struct {
	world          *world
	region, worker int
	name           string
	random         *rand.Rand
	lives          int
	proven         bool      // has minted after the faults
	startable      time.Time // since when nothing was in the way of its processes
}

// process is one of them.
type process struct {
	*machine
	owner    string
	number   int32 // of the owner, in the ledger
	clock    *clock
	clk      snowflake.Clock // the clock as leases get it,
	inner    snowflake.Clock // and generators
	alone    atomic.Bool     // one goroutine at a time uses the generator
	net      *link
	lease    *snowflake.WorkerLease // nil: static
	g        *snowflake.Generator
	maxAhead time.Duration
	last     snowflake.ID

	// What hooks told: of waits, since the last call began.
	told struct {
		sync.Mutex
		behind, full bool
		floor        time.Time // of the last grant
		failure      error     // of the last renewal, or acquisition, that failed
	}
	code    int // of the last ID
	highest time.Time
}

func (m *machine) upTo(d time.Duration) time.Duration { return upTo(m.random, d) }

func upTo(random *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(d)))
}

func (m *machine) either(d time.Duration) time.Duration { return m.upTo(2*d) - d }

func (m *machine) live() {
	var lastWords []func()
	for !m.proven {
		p := m.start()
		if again, end := p.run(); !again {
			break
		} else if end != nil {
			lastWords = append(lastWords, end)
		}
		time.Sleep(m.upTo(2 * time.Second))
	}
	for _, end := range lastWords {
		end() // frees the goroutines of killed processes; nothing reaches a store
	}
}

// start makes a process, with its clock and network.
func (m *machine) start() *process {
	if m.lives++; m.lives > 1 {
		m.world.hit("restart")
	}
	p := &process{machine: m, owner: fmt.Sprintf("%s/%d", m.name, m.lives)}
	p.number = m.world.ownerNumber(p.owner)
	p.clock = &clock{gate: new(gate), set: time.Now().Round(0)}
	if offset, drift := m.either(3*time.Second), m.random.IntN(21)-10; !m.world.calm() {
		if m.world.shape.forgets() {
			p.clock.tame, drift = skew/8, 0
		}
		p.clock.drift = float64(drift) / 1000
		p.clock.step(offset)
		m.world.hit("skew")
		if drift != 0 {
			m.world.hit("drift")
		}
	}
	p.net = &link{store: m.world.stores[m.region], world: m.world, clock: p.clock, random: m.stream()}
	inner := inside{p.clock, &p.alone}
	p.clk, p.inner = boottime{p.clock}, insideBoottime{inner}
	if m.random.IntN(3) == 0 {
		p.clk, p.inner = p.clock, inner
	}
	return p
}

// stream returns a source of its own.
func (m *machine) stream() *rand.Rand { return rand.New(rand.NewPCG(m.random.Uint64(), 0)) }

// run runs a process. It returns whether another is to follow, and what is to be cleaned
// up in the end.
func (p *process) run() (again bool, end func()) {
	if err := p.open(); err != nil {
		p.note(err)
		return p.retries(err), nil
	}
	for !p.world.calm() {
		if ended, end := p.trouble(); ended {
			return true, end
		}
		p.mint()
		time.Sleep(p.upTo(p.world.shape.pace))
	}
	p.recover()
	p.close()
	return time.Since(p.world.quietAt) < settling, nil
}

// retries tells whether a process that could not start is to be followed by another, and
// fails the run if, with the faults over, none can although nothing has been in the way for
// a while.
func (p *process) retries(err error) bool {
	over := time.Since(p.world.quietAt)
	if over < 0 || p.excused(err) {
		p.startable = time.Time{}
		return over < settling
	}
	if p.startable.IsZero() {
		p.startable = time.Now()
	}
	if over > settling && time.Since(p.startable) > echo {
		p.world.fail(fmt.Errorf("%s does not come up: %w", p.owner, err))
		return false
	}
	return true
}

// open takes a code and makes the generator.
func (p *process) open() error {
	s := p.world.shape
	cfg := snowflake.Config{
		Clock: p.inner, Layout: s.layout, MaxWait: time.Duration(p.random.IntN(4)) * s.layout.Tick,
		MaxAhead: time.Duration(p.random.IntN(3)) * s.layout.Tick * 3, Window: window, Hooks: p.hooks(),
	}
	p.maxAhead = cfg.MaxAhead
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if s.kind == static {
		code, err := s.layout.Code(p.region, p.worker)
		if err != nil {
			return err
		}
		if p.random.IntN(20) == 0 && !p.world.calm() {
			code ^= 1 // somebody else's, by mistake
		}
		cfg.Lease = snowflake.StaticLease(code)
		cfg.HighWater = &markLink{link: p.net, marks: p.world.marks[p.region], owner: p.number}
		before := time.Now()
		p.g, err = snowflake.New(ctx, cfg)
		if time.Since(before) > 100*time.Millisecond && err == nil {
			p.world.hit("mark: waited for")
		}
		return err
	}
	var store snowflake.LeaseStore = p.net
	switch {
	case s.kind == forgetful:
		store = forgetfulLink{p.net}
	case s.tellsTime:
		store = timedLink{p.net}
	}
	lease, err := snowflake.AcquireLease(ctx, store, snowflake.LeaseConfig{
		Region: p.region, Layout: s.layout, Owner: p.owner, TTL: ttl, Renew: renew, MaxClockSkew: skew, Clock: p.clk, Hooks: cfg.Hooks,
	})
	if err != nil {
		return err
	}
	cfg.Lease = lease
	if p.g, err = snowflake.New(context.Background(), cfg); err != nil {
		_ = lease.Close(context.Background())
		return err
	}
	p.lease = lease
	return nil
}

// hooks tell the coverage what a process meets.
func (p *process) hooks() *snowflake.Hooks {
	tell := func(flag *bool) {
		p.told.Lock()
		defer p.told.Unlock()
		*flag = true
	}
	return &snowflake.Hooks{
		LeaseAcquired: func(g snowflake.Grant) {
			p.world.acquired(g)
			p.told.Lock()
			defer p.told.Unlock()
			p.told.floor = g.Floor
		},
		LeaseLost: func(e *snowflake.LeaseError) {
			switch text := e.Err.Error(); {
			case strings.Contains(text, "another owner has taken"):
				p.world.hit("lost to another nonce")
			case strings.Contains(text, "suspended"):
				p.world.hit("suspended")
			}
		},
		RenewFailed: func(err error) {
			p.told.Lock()
			p.told.failure = err
			p.told.Unlock()
			if strings.Contains(err.Error(), "the answer came after") {
				p.world.hit("answer too late")
			}
			p.noteClock(err)
		},
		StoreForgot: func(e *snowflake.LeaseError) {
			p.world.hit("a holder found that the store forgot")
			if !p.world.shape.forgets() {
				p.world.fail(fmt.Errorf("%s says that a store forgot which keeps its word: %w", p.owner, e))
			}
		},
		ClockBehind: func(*snowflake.ClockError) { tell(&p.told.behind) },
		Saturated:   func(time.Duration) { tell(&p.told.full) },
	}
}

// trouble draws a fault. It returns whether that was the end of the process.
func (p *process) trouble() (ended bool, end func()) {
	w := p.world
	n := p.random.IntN(1000)
	if n < 20 && w.shape.kind == forgetful && p.random.IntN(10) > 0 {
		return false, nil // a code that settles takes a while to be of use
	}
	switch {
	case n < 12:
		return true, p.kill()
	case n < 20:
		p.close()
		return true, nil
	case n < 30:
		d := p.upTo(3 * ttl)
		w.hit("pause")
		if d > ttl {
			w.hit("pause past the lease")
		}
		p.clock.gate.stop(d)
	case n < 50:
		d := p.either(5 * time.Second)
		if d < 0 {
			w.hit("step back")
		} else {
			w.hit("step forward")
		}
		p.clock.step(d)
	case n < 53:
		if d := p.either(time.Hour); !w.shape.forgets() {
			w.hit("long step")
			p.clock.step(d)
		}
	case n < 58:
		w.hit("set right")
		p.clock.right()
	case n < 70:
		w.hit("freeze")
		p.clock.freeze(p.upTo(2 * time.Second))
	case n < 78:
		w.hit("partition of a worker")
		p.net.setCut(true)
		time.AfterFunc(p.upTo(2*ttl), func() { p.net.setCut(false) })
	}
	return false, nil
}

// kill ends the process between two of its instructions: it never moves again, and what
// it sent may still land.
func (p *process) kill() (end func()) {
	p.world.hit("kill")
	p.net.kill()
	p.clock.gate.stopForGood()
	return func() {
		p.clock.gate.open(true)
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_ = p.g.Close(ctx)
	}
}

// close closes the generator, sometimes while others still ask it for IDs.
func (p *process) close() {
	p.world.hit("close")
	p.alone.Store(false)
	var callers sync.WaitGroup
	if p.random.IntN(2) == 0 {
		p.world.hit("close under load")
		callers.Go(func() {
			last := p.last
			for {
				id, err := p.g.Next()
				if errors.Is(err, snowflake.ErrClosed) {
					return
				}
				if err == nil {
					p.world.mint(p.number, last, []snowflake.ID{id})
					last = id
				}
				time.Sleep(500 * time.Microsecond)
			}
		})
	}
	_ = p.g.Close(context.Background())
	callers.Wait()
	if _, err := p.g.Next(); !errors.Is(err, snowflake.ErrClosed) {
		p.world.fail(fmt.Errorf("%s mints after Close: %w", p.owner, err))
	}
}

// A call has at most a short budget, or now and then a long one, in which leases change.
const (
	shortBudget = 20 * time.Millisecond
	longBudget  = 3 * time.Second
)

// mint asks for IDs, sometimes from several goroutines at once.
func (p *process) mint() {
	callers := 1
	if p.random.IntN(8) == 0 {
		callers = 2 + p.random.IntN(3)
		p.world.hit("callers at once")
	}
	// The keeper of a mark takes the generator's mutex too.
	p.alone.Store(callers == 1 && p.lease != nil)
	lasts := make([]snowflake.ID, callers)
	budget := shortBudget
	if p.random.IntN(200) == 0 {
		budget = longBudget
	}
	paused, before := p.paused(), time.Now()
	var all sync.WaitGroup
	for i := 1; i < callers; i++ {
		stream := p.stream()
		all.Go(func() { lasts[i] = p.call(stream, budget) })
	}
	lasts[0] = p.call(p.stream(), budget)
	all.Wait()
	if took := time.Since(before); took > budget && !paused {
		p.world.fail(fmt.Errorf("a call of %s took %v, more than its context had", p.owner, took))
	}
	for _, last := range lasts {
		p.last = max(p.last, last)
	}
}

// paused tells whether the process stands still.
func (p *process) paused() bool {
	p.clock.gate.mu.Lock()
	defer p.clock.gate.mu.Unlock()
	return p.clock.gate.shut != nil
}

// call asks for IDs, one by one or many at once, and returns the last.
func (p *process) call(random *rand.Rand, budget time.Duration) snowflake.ID {
	n := 1 + random.IntN(30)
	if random.IntN(16) == 0 || budget == longBudget {
		n = 1 + random.IntN(p.world.shape.burst)
	}
	ids := make([]snowflake.ID, n)
	if !p.alone.Load() {
		p.clock.gate.pass()
	}
	ctx, cancel := context.WithTimeout(context.Background(), upTo(random, budget)+1)
	if random.IntN(4) == 0 { // somebody hangs up, which nobody knows before
		cancel()
		ctx, cancel = context.WithCancel(context.Background())
		time.AfterFunc(upTo(random, budget)+1, cancel)
	}
	defer cancel()
	p.told.Lock()
	p.told.behind, p.told.full = false, false
	p.told.Unlock()
	got, err := 0, error(nil)
	if n > 30 || random.IntN(2) == 0 {
		got, err = p.g.Fill(ctx, ids)
	} else {
		for ; got < n && err == nil; got++ {
			if ids[got], err = p.g.NextContext(ctx); err != nil {
				break
			}
		}
	}
	last := p.last
	p.world.mint(p.number, last, ids[:got])
	if err != nil {
		p.note(err)
	}
	if got > 0 {
		last = ids[got-1]
		p.look(last)
	}
	return last
}
