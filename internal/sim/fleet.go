package sim

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/snowfence/snowflake"
)

// Report is what a run did.
type Report struct {
	Seed   uint64
	Shape  string
	IDs    int
	Claims int            // rows of IDs that somebody got at once
	Hits   map[string]int // how often each fault was drawn, and each state reached
	Errors map[string]int // what callers got instead of an ID
}

const (
	settling = 2 * time.Minute  // after the faults: by then every worker must have minted
	echo     = 40 * time.Second // what began before may go on for so long: pauses, late writes
	ttl      = 6 * time.Second
	renew    = time.Second
	skew     = 2 * time.Second
	window   = time.Second
	patience = 12 // renewal intervals in which a healthy worker must mint
)

// world is one run.
type world struct {
	ledger
	stores  []*store // by region
	marks   []*marks
	quietAt time.Time
	later   sync.WaitGroup // writes that will land

	stateMu sync.Mutex
	report  Report
	adopted map[grantKey]bool // the grants that a generator has got
	failed  error
}

type grantKey struct {
	code  int
	token uint64
}

// Run runs a seed. An error says which invariant was broken.
func Run(seed uint64, o Options) (Report, error) {
	random := rand.New(rand.NewPCG(seed, 0))
	s := draw(random, o)
	w := &world{
		ledger: ledger{shape: s, index: make(map[string]int32)}, quietAt: time.Now().Add(s.troubled),
		adopted: make(map[grantKey]bool),
		report:  Report{Seed: seed, Shape: s.String(), Hits: make(map[string]int), Errors: make(map[string]int)},
	}
	for range s.regions {
		w.stores, w.marks = append(w.stores, newStore()), append(w.marks, newMarks())
	}
	var processes sync.WaitGroup
	for region := range s.regions {
		weather := rand.New(rand.NewPCG(seed, uint64(1+region)<<32))
		processes.Go(func() { w.weather(region, weather) })
		if s.kind == leased {
			processes.Go(w.newOperator(region, rand.New(rand.NewPCG(seed, uint64(1+region)<<33))).operate)
		}
		for worker := range s.workers {
			m := &machine{
				world: w, region: region, worker: worker, name: fmt.Sprintf("%d.%d", region, worker),
				random: rand.New(rand.NewPCG(seed, uint64(1+region*s.workers+worker))),
			}
			processes.Go(m.live)
		}
	}
	processes.Wait()
	w.later.Wait()
	w.fail(w.check())
	w.report.IDs, w.report.Claims = w.ids, len(w.runs)
	return w.report, w.failed
}

// weather is what happens to a whole region: nobody reaches its store for a while, and a
// store that forgets, or is restored, comes back as it was a little earlier.
func (w *world) weather(region int, random *rand.Rand) {
	s, operator := w.stores[region], w.newOperator(region, random)
	calm := 40 * time.Second // between two storms, at most
	if w.shape.forgets() {
		calm = 20 * time.Second
	}
	for {
		time.Sleep(upTo(random, calm))
		if w.calm() {
			return
		}
		switch {
		case w.shape.kind == restored && random.IntN(2) == 0:
			operator.restore()
			continue
		case w.shape.kind == leased && random.IntN(2) == 0:
			w.hit("failover")
			s.failOver(random)
			if random.IntN(2) == 0 {
				continue
			}
		case w.shape.kind == forgetful:
			w.hit("store forgets")
			s.forget(upTo(random, 2*ttl))
			if random.IntN(2) == 0 {
				continue
			}
		}
		w.hit("partition of a region")
		s.cut(upTo(random, 2*ttl))
	}
}

func (w *world) calm() bool { return !time.Now().Before(w.quietAt) }

// hit counts a fault or a state.
func (w *world) hit(name string) {
	w.stateMu.Lock()
	defer w.stateMu.Unlock()
	w.report.Hits[name]++
}

// fail notes the first broken invariant.
func (w *world) fail(err error) {
	w.stateMu.Lock()
	defer w.stateMu.Unlock()
	if w.failed == nil {
		w.failed = err
	}
}

// mint enters what a caller got.
func (w *world) mint(owner int32, last snowflake.ID, ids []snowflake.ID) {
	if err := w.add(owner, last, ids, time.Now()); err != nil {
		w.fail(err)
	}
}

// check holds every ID against every other and, where stores forget nothing, against
// their history.
func (w *world) check() error {
	if err := w.checkUnique(); err != nil || w.shape.forgets() {
		return err
	}
	titles := make(map[int]title)
	for region := range w.stores {
		w.marks[region].titles(titles)
		if err := w.stores[region].titles(w, region, titles); err != nil {
			return err
		}
	}
	if err := w.checkGranted(titles, w.hit); err != nil {
		return err
	}
	for code, t := range titles {
		for i, s := range t.spans {
			w.describe(code, s, i+1 < len(t.spans))
		}
	}
	return nil
}

// describe counts what the history shows of an owner.
func (w *world) describe(code int, s *span, reused bool) {
	if w.shape.kind == static {
		return
	}
	if s.byHand { // a release leaves nothing between its floor and its end
		switch {
		case s.final > s.floor:
			w.hit("fenced")
		default:
			w.hit("released by hand")
		}
		if reused {
			w.hit("code reused after it was fenced or released by hand")
		}
		return
	}
	switch {
	case s.final == noTick && !w.adopted[grantKey{code, s.token}]:
		w.hit("acquired, and nobody used it")
	case s.final == noTick && reused:
		w.hit("code reused after a crash")
	case s.final != noTick && reused:
		w.hit("code reused after a release")
	}
	switch {
	case s.final == noTick:
	case s.lowered && s.final == s.floor:
		w.hit("released at its floor")
	case s.lowered:
		w.hit("released down")
	default:
		w.hit("released, ceiling unchanged")
	}
}

// acquired notes that a generator got a grant.
func (w *world) acquired(g snowflake.Grant) {
	key := grantKey{g.Code, g.Token}
	w.stateMu.Lock()
	again := w.adopted[key]
	w.adopted[key] = true
	w.stateMu.Unlock()
	if again {
		w.hit("suspended, then restored by a renewal")
	}
}

// spoiled tells that clocks which were ahead hold all the codes of a region, or a worker's
// fixed one, beyond what a right clock ever takes.
func (w *world) spoiled(region, worker int) bool {
	if w.shape.kind == static {
		code := region<<w.shape.layout.WorkerBits | worker
		return w.marks[region].mark(code).After(rightTime().Add(window + 7*w.shape.layout.Tick))
	}
	return w.stores[region].held(rightTime().Add(ttl+w.shape.layout.Tick)) >= w.shape.codes()
}
