package sim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/snowfence/snowflake"
)

// noTick is above every tick.
const noTick = math.MaxInt64

// run is a row of IDs that one owner got at once: first, first+1, … of one tick and code.
// IDs are held as runs, so that checking a thousand costs as much as checking one.
type run struct {
	first snowflake.ID
	count int32
	owner int32
	at    time.Time // when they were handed out, in real time
}

func (r run) last() snowflake.ID { return r.first + snowflake.ID(r.count-1) }

// span is what one owner had of one code, by the history of its store: the ticks from
// floor up to the highest level that was durable at the time.
type span struct {
	owner   int32
	token   uint64
	floor   int64
	levels  []level
	final   int64 // what it was released at: noTick if it was not
	lowered bool
	byHand  bool // an operator's: nobody minted in it
	used    bool
}

// level is a ceiling, or mark, from an instant on.
type level struct {
	at      time.Time
	ceiling int64
}

// ceilingAt returns the ceiling that was durable at an instant: 0 if none was. Only the
// last level, a release, may be lower than the one before.
func (s *span) ceilingAt(at time.Time) int64 {
	n, _ := slices.BinarySearchFunc(s.levels, at, func(l level, at time.Time) int {
		if l.at.After(at) {
			return 1
		}
		return -1
	})
	if n == 0 {
		return 0
	}
	return s.levels[n-1].ceiling
}

// title is the history of one code: who had it, one after the other.
type title struct {
	spans   []*span
	byOwner map[int32][]int // places in spans
}

func newTitle(spans []*span) title {
	t := title{spans, make(map[int32][]int)}
	for i, s := range spans {
		t.byOwner[s.owner] = append(t.byOwner[s.owner], i)
	}
	return t
}

// ledger holds every ID of a run.
type ledger struct {
	shape shape

	mu    sync.Mutex
	runs  []run
	ids   int
	names []string
	index map[string]int32
}

func (l *ledger) ownerNumber(name string) int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, ok := l.index[name]
	if !ok {
		n = int32(len(l.names))
		l.names = append(l.names, name)
		l.index[name] = n
	}
	return n
}

// add enters what a caller of owner got in one call, and checks what can be seen at once:
// positive, each greater than the one before, and than last.
func (l *ledger) add(owner int32, last snowflake.ID, ids []snowflake.ID, at time.Time) error {
	if len(ids) == 0 {
		return nil
	}
	mask := snowflake.ID(1)<<l.shape.layout.SequenceBits - 1
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids += len(ids)
	begin := 0
	for i, id := range ids {
		switch {
		case id <= 0:
			return fmt.Errorf("%d of %s is not positive", id, l.names[owner])
		case id <= last:
			return fmt.Errorf("%d of %s comes after %d", id, l.names[owner], last)
		case i > 0 && (id != last+1 || id&mask == 0): // another claim
			l.runs = append(l.runs, run{ids[begin], int32(i - begin), owner, at})
			begin = i
		}
		last = id
	}
	l.runs = append(l.runs, run{ids[begin], int32(len(ids) - begin), owner, at})
	return nil
}

// checkUnique holds every ID against every other.
func (l *ledger) checkUnique() error {
	slices.SortFunc(l.runs, func(a, b run) int { return cmp.Compare(a.first, b.first) })
	for i := 1; i < len(l.runs); i++ {
		// Sorted, and nothing before overlaps: who overlaps this one is its neighbour.
		if before, r := l.runs[i-1], l.runs[i]; r.first <= before.last() {
			return fmt.Errorf("%d was minted by %s and by %s", r.first, l.names[before.owner], l.names[r.owner])
		}
	}
	return nil
}

// checkGranted holds every ID against what the stores show its owner to have had when it
// was handed out. titles are by code.
func (l *ledger) checkGranted(titles map[int]title, hit func(string)) error {
	layout := l.shape.layout
	lastSequence := int64(1)<<layout.SequenceBits - 1
	for _, r := range l.runs {
		tick := int64(r.first) >> (63 - layout.TimeBits)
		code := int(r.first>>layout.SequenceBits) & (1<<(layout.RegionBits+layout.WorkerBits) - 1)
		if !titles[code].holds(r, tick, hit) {
			return fmt.Errorf("%d of %s (tick %d of code %d) is outside what the store shows that it had%s",
				r.first, l.names[r.owner], tick, code, titles[code].had(r))
		}
		if int64(r.last())&lastSequence == lastSequence {
			hit("claim of the last sequence number")
		}
	}
	return nil
}

// holds tells whether a run lies inside what its owner had.
func (t title) holds(r run, tick int64, hit func(string)) bool {
	for _, place := range t.byOwner[r.owner] {
		s := t.spans[place]
		ceiling := s.ceilingAt(r.at)
		if tick < s.floor || tick >= min(ceiling, s.final) {
			continue
		}
		s.used = true
		if tick == s.floor {
			hit("claim at the floor")
		}
		if tick == ceiling-1 {
			hit("claim in the last tick below the ceiling")
		}
		if next := t.spans[place+1:]; len(next) > 0 && !next[0].levels[0].at.After(r.at) {
			hit("minted although its code was past renewing")
		}
		return true
	}
	return false
}

// had tells what the owner of a run had.
func (t title) had(r run) string {
	var text strings.Builder
	for _, place := range t.byOwner[r.owner] {
		s := t.spans[place]
		fmt.Fprintf(&text, ": [%d, %d)", s.floor, min(s.ceilingAt(r.at), s.final))
	}
	return text.String()
}
