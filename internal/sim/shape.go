package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/snowfence/snowflake"
)

// Options force what a seed would draw. Zero values leave it to the seed.
type Options struct {
	Regions, Workers int    // workers of a region
	Burst            int    // the most IDs that one call asks for; 0: 4096
	Kind             string // as a kind is called
}

// kind says what keeps the codes of a fleet apart.
type kind int

const (
	leased    kind = iota // leases in a store that keeps its word, under any clock
	forgetful             // leases in a store that forgets, with clocks that agree: what Settle is for
	restored              // leases in a store that is restored from backups, likewise: what fences are for
	static                // codes fixed by deployment, with high-water marks
)

func (k kind) String() string {
	return [...]string{"leases", "leases in a forgetful store", "leases in a restored store", "marks"}[k]
}

// shape is what a fleet is like.
type shape struct {
	kind             kind
	regions, workers int // workers of a region
	layout           snowflake.Layout
	tellsTime        bool          // the store does
	troubled         time.Duration // how long faults go on
	pace             time.Duration // the longest that a worker rests
	burst            int
}

// draw draws a shape. Most fleets are small, with fewer codes than workers, so that codes
// change hands all the time, and with few numbers in a tick, so that ticks are full all
// the time.
func draw(random *rand.Rand, o Options) shape {
	s := shape{regions: 1 + random.IntN(2), workers: 3 + random.IntN(3), troubled: 3 * time.Minute, pace: 50 * time.Millisecond, burst: 4096}
	workerBits := 2
	switch n := random.IntN(100); {
	case n < 14:
		s.kind = forgetful
	case n < 22:
		s.kind, s.tellsTime = restored, random.IntN(2) == 0
	case n < 36:
		s.kind, s.workers = static, 2+random.IntN(3)
	case n < 56:
		s.tellsTime = true
	case n < 60:
		s.regions, s.workers, workerBits = 4, 12+random.IntN(20), 4
	case n < 62:
		s.regions, s.workers, workerBits = 4, 100+random.IntN(101), 7
	}
	for k := leased; k <= static; k++ {
		if o.Kind == k.String() {
			s.kind = k
		}
	}
	if o.Regions > 0 {
		s.regions = o.Regions
	}
	if o.Workers > 0 {
		s.workers, workerBits = o.Workers, 1
		for 1<<(workerBits+1) <= o.Workers {
			workerBits++
		}
	}
	if o.Burst > 0 {
		s.burst = o.Burst
	}
	if s.kind == static {
		for 1<<workerBits < s.workers {
			workerBits++
		}
	}
	// A fleet costs by the call: a large one rests longer, and is not troubled as long.
	if all := s.regions * s.workers; all > 12 {
		s.pace *= time.Duration(all / 12)
		s.troubled = 90 * time.Second
	}
	s.layout = layout(random, s.regions, workerBits)
	return s
}

func layout(random *rand.Rand, regions, workerBits int) snowflake.Layout {
	l := snowflake.DefaultLayout()
	l.RegionBits, l.WorkerBits = 2, workerBits
	for 1<<l.RegionBits < regions {
		l.RegionBits++
	}
	l.SequenceBits = 1 + random.IntN(6)
	if random.IntN(4) == 0 {
		l.SequenceBits = 7 + random.IntN(6)
	}
	// Long ticks bring owners of one code into one tick.
	l.Tick = []time.Duration{time.Millisecond, 5 * time.Millisecond, 50 * time.Millisecond, 500 * time.Millisecond}[random.IntN(4)]
	l.TimeBits = 63 - l.RegionBits - l.WorkerBits - l.SequenceBits
	return l
}

// forgets tells whether acknowledged writes may be gone. Then clocks agree, which is all
// that is left; and history cannot be held against anybody.
func (s shape) forgets() bool { return s.kind == forgetful || s.kind == restored }

func (s shape) codes() int { return 1 << s.layout.WorkerBits }

func (s shape) String() string {
	return fmt.Sprintf("%d regions x %d workers, %v", s.regions, s.workers, s.kind)
}

// tick returns the tick of an instant that is a whole one.
func (s shape) tick(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return int64(t.Sub(s.layout.Epoch) / s.layout.Tick)
}
