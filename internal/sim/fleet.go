package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/snowfence/snowflake"
)

// Report is what a run did.
type Report struct {
	Seed   uint64
	IDs    int
	Faults map[string]int // how often each kind happened
	Errors map[string]int // what callers got instead of an ID
}

// The fleet: few codes, so that they change hands all the time, and few numbers in a
// tick, so that ticks are full all the time.
const (
	regions  = 2
	workers  = 5 // in a region, for
	codes    = 4
	troubled = 3 * time.Minute
	settling = 2 * time.Minute
	echo     = 40 * time.Second // what began before may go on for so long: pauses, late writes
	ttl      = 6 * time.Second
	renew    = time.Second
	skew     = 2 * time.Second
	patience = 12 // renewal intervals in which a healthy worker must mint
)

func layout(random *rand.Rand) snowflake.Layout {
	l := snowflake.DefaultLayout()
	l.RegionBits, l.WorkerBits = 1, 2
	l.SequenceBits = 1 + random.IntN(6)
	// Long ticks bring owners of one code into one tick.
	l.Tick = []time.Duration{time.Millisecond, 5 * time.Millisecond, 50 * time.Millisecond, 500 * time.Millisecond}[random.IntN(4)]
	l.TimeBits = 63 - l.RegionBits - l.WorkerBits - l.SequenceBits
	return l
}

// world is one run.
type world struct {
	layout  snowflake.Layout
	stores  [regions]*store
	quietAt time.Time
	later   sync.WaitGroup // writes that will land

	mu     sync.Mutex
	report Report
	seen   map[snowflake.ID]string
	minted []minted
	failed error
}

type minted struct {
	id    snowflake.ID
	owner string
}

// Run runs a seed. An error says which invariant was broken.
func Run(seed uint64) (Report, error) {
	random := rand.New(rand.NewPCG(seed, 0))
	w := &world{
		layout: layout(random), quietAt: time.Now().Add(troubled), seen: make(map[snowflake.ID]string),
		report: Report{Seed: seed, Faults: make(map[string]int), Errors: make(map[string]int)},
	}
	var processes sync.WaitGroup
	for region := range regions {
		w.stores[region] = newStore()
		for worker := range workers {
			p := &machine{
				world: w, region: region, name: fmt.Sprintf("%d.%d", region, worker),
				random: rand.New(rand.NewPCG(seed, uint64(1+region*workers+worker))),
			}
			processes.Go(p.live)
		}
	}
	processes.Wait()
	w.later.Wait()
	if w.failed == nil {
		w.failed = w.checkGrants()
	}
	w.report.IDs = len(w.seen)
	return w.report, w.failed
}

func (w *world) calm() bool { return !time.Now().Before(w.quietAt) }

func (w *world) count(fault string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report.Faults[fault]++
}

func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		w.failed = fmt.Errorf(format, args...)
	}
}

// mint notes an ID, and that it is new.
func (w *world) mint(owner string, last, id snowflake.ID) {
	w.mu.Lock()
	before, repeated := w.seen[id]
	w.seen[id] = owner
	w.minted = append(w.minted, minted{id, owner})
	w.mu.Unlock()
	switch {
	case repeated:
		w.fail("%d was minted by %s and by %s", id, before, owner)
	case id <= 0:
		w.fail("%d of %s is not positive", id, owner)
	case id <= last:
		w.fail("%d of %s comes after %d", id, owner, last)
	}
}

// checkGrants holds every ID against the history of its store.
func (w *world) checkGrants() error {
	var spans [regions]map[int][]span
	for region := range regions {
		var err error
		if spans[region], err = w.stores[region].spans(); err != nil {
			return fmt.Errorf("region %d: %w", region, err)
		}
	}
	for _, m := range w.minted {
		parts, err := w.layout.Unpack(m.id)
		if err != nil {
			return err
		}
		inside := false
		for _, s := range spans[parts.Region][parts.Worker] {
			if s.owner == m.owner && !parts.Time.Before(s.floor) && parts.Time.Before(s.ceiling) {
				inside = true
				break
			}
		}
		if !inside {
			return fmt.Errorf("%d of %s (%v) is outside every grant that it had", m.id, m.owner, parts)
		}
	}
	return nil
}

// machine is a place where processes of one worker live, one after the other.
type machine struct {
	world  *world
	region int
	name   string
	random *rand.Rand
	lives  int
	clock  *clock
}

func (m *machine) upTo(d time.Duration) time.Duration {
	return time.Duration(m.random.Int64N(int64(d)))
}

func (m *machine) either(d time.Duration) time.Duration { return m.upTo(2*d) - d }

func (m *machine) live() {
	var lastWords []func()
	for {
		m.clock = &clock{gate: new(gate), set: time.Now().Round(0), offset: m.either(3 * time.Second), drift: float64(m.random.IntN(21)-10) / 1000}
		if m.world.calm() {
			m.clock.right()
		}
		again, end := m.process()
		if end != nil {
			lastWords = append(lastWords, end)
		}
		if !again {
			break
		}
		time.Sleep(m.upTo(2 * time.Second))
	}
	for _, end := range lastWords {
		end() // frees the goroutines of killed processes; nothing reaches a store
	}
}

// process runs one process. It returns whether another is to follow, and what is to be
// cleaned up in the end.
func (m *machine) process() (again bool, end func()) {
	m.lives++
	owner := fmt.Sprintf("%s/%d", m.name, m.lives)
	net := &link{
		store: m.world.stores[m.region], world: m.world, gate: m.clock.gate,
		random: rand.New(rand.NewPCG(m.random.Uint64(), 0)),
	}
	var clk snowflake.Clock = boottime{m.clock}
	if m.random.IntN(3) == 0 {
		clk = m.clock
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	lease, err := snowflake.AcquireLease(ctx, net, snowflake.LeaseConfig{
		Region: m.region, Layout: m.world.layout, Owner: owner, TTL: ttl, Renew: renew, MaxClockSkew: skew, Clock: clk,
	})
	cancel()
	if err != nil {
		m.note(err)
		return !m.over(), nil
	}
	g, err := snowflake.New(context.Background(), snowflake.Config{
		Lease: lease, Clock: clk, MaxAhead: time.Duration(m.random.IntN(3)) * m.world.layout.Tick * 3,
		MaxWait: time.Duration(m.random.IntN(4)) * m.world.layout.Tick,
	})
	if err != nil {
		m.note(err)
		_ = lease.Close(context.Background())
		return !m.over(), nil
	}
	var last snowflake.ID
	for {
		if m.over() {
			m.recover(g, net, owner, last)
			_ = g.Close(context.Background())
			return false, nil
		}
		switch n := m.random.IntN(1000); {
		case n < 12:
			m.world.count("kill")
			net.mu.Lock()
			net.dead = true
			net.mu.Unlock()
			return true, func() { _ = g.Close(context.Background()) }
		case n < 20:
			m.world.count("close")
			_ = g.Close(context.Background())
			return true, nil
		case n < 30:
			m.world.count("pause")
			m.clock.gate.stop(m.upTo(3 * ttl))
		case n < 50:
			m.world.count("step")
			m.clock.step(m.either(5 * time.Second))
		case n < 53:
			m.world.count("long step")
			m.clock.step(m.either(time.Hour))
		case n < 58:
			m.clock.right()
		case n < 70:
			m.world.count("freeze")
			m.clock.freeze(m.upTo(2 * time.Second))
		case n < 78:
			m.world.count("partition")
			m.cut(net, m.upTo(2*ttl))
		}
		last = m.mint(g, owner, last, 1+m.random.IntN(30))
		time.Sleep(m.upTo(50 * time.Millisecond))
	}
}

func (m *machine) over() bool { return m.world.calm() }

func (m *machine) cut(net *link, d time.Duration) {
	set := func(cut bool) {
		net.mu.Lock()
		defer net.mu.Unlock()
		net.cut = cut
	}
	set(true)
	time.AfterFunc(d, func() { set(false) })
}

func (m *machine) note(err error) {
	kind := "other: " + err.Error()
	for _, known := range []error{
		snowflake.ErrClockBehind, snowflake.ErrSaturated, snowflake.ErrClockSkew, snowflake.ErrNoWorkerCode,
		snowflake.ErrLeaseLost, context.DeadlineExceeded, errReset,
	} {
		if errors.Is(err, known) {
			kind = known.Error()
			break
		}
	}
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	m.world.report.Errors[kind]++
}

// mint asks for n IDs, one by one or at once.
func (m *machine) mint(g *snowflake.Generator, owner string, last snowflake.ID, n int) snowflake.ID {
	ids := make([]snowflake.ID, n)
	ctx, cancel := context.WithTimeout(context.Background(), m.upTo(20*time.Millisecond)+1)
	defer cancel()
	got, err := 0, error(nil)
	if m.random.IntN(2) == 0 {
		got, err = g.Fill(ctx, ids)
	} else {
		for ; got < n && err == nil; got++ {
			if ids[got], err = g.NextContext(ctx); err != nil {
				break
			}
		}
	}
	if err != nil {
		m.note(err)
	}
	for _, id := range ids[:got] {
		m.world.mint(owner, last, id)
		last = id
	}
	return last
}

// recover waits, when all faults are over, until the process mints again.
func (m *machine) recover(g *snowflake.Generator, net *link, owner string, last snowflake.ID) {
	net.mu.Lock()
	net.cut = false
	net.mu.Unlock()
	m.clock.right()
	var err error
	stuck := 0 // how long, in rounds, although a code was free
	for began := time.Now(); time.Since(began) < settling && stuck < patience; time.Sleep(renew) {
		var id snowflake.ID
		if id, err = g.Next(); err == nil {
			m.world.mint(owner, last, id)
			return
		}
		stuck++
		if time.Since(m.world.quietAt) < echo || errors.Is(err, snowflake.ErrClockBehind) || m.world.stores[m.region].free() == 0 {
			stuck = 0 // some still stand still; or it has minted ahead of the right time; or clocks that did have all codes
		}
	}
	if stuck > 0 {
		m.world.fail("%s does not recover: %v", owner, err)
	}
}
