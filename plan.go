package snowflake

import (
	"fmt"
	"math/bits"
	"strings"
	"time"
)

// Needs says what an ID space must hold over its whole life. PlanLayout turns it
// into a Layout. Take each number as it will be at its largest, because a layout
// cannot be changed once IDs exist.
type Needs struct {
	// Epoch is the start of time, see Layout.Epoch. Zero: DefaultLayout's.
	Epoch time.Time
	// Tick is the unit of time, from 1 ns to 1 s. 0: 1 ms.
	Tick time.Duration
	// Lifetime is how long after Epoch IDs must still be minted: above 0, and not
	// past the year 2261, where every generator stops.
	Lifetime time.Duration
	// Regions is how many lease stores, each with a region number of its own, mint
	// into the ID space. At least 1.
	Regions int
	// WorkersPerRegion is how many generators of the largest region mint at once,
	// each with a worker code of its own. A process normally has one. At least 1.
	WorkersPerRegion int
	// SpareCodes is how many codes a region needs beyond WorkersPerRegion: for the
	// instances that a rolling update or an autoscaler starts before the old ones
	// have stopped, and for those that crash within one TTL of the lease, because
	// the code of a crashed worker stays taken until its ceiling has passed. So
	//
	//	workers + surge + crashes within TTL <= WorkersPerRegion + SpareCodes
	//
	// 0 or more. Rounding up to whole bits often leaves some, but count on none.
	SpareCodes int
	// BurstPerTick is the most IDs that the hottest worker must mint within one
	// Tick without waiting. The average over the fleet says nothing about it:
	// 2,000,000 IDs a second from 800 workers are 2.5 per worker and millisecond,
	// and yet one worker that imports a file asks for thousands in one. Measure
	// that worker. For a longer Tick, the same rate is a larger burst. At least 1.
	BurstPerTick int
}

// PlanLayout derives a layout from what it must hold. Regions, the codes of a
// region (WorkersPerRegion+SpareCodes) and BurstPerTick get as many bits as it
// takes to count them, the sequence at least one; time gets all the others, so that
// the ID space lasts as long as it can, and no shorter than Lifetime.
//
// 60 years, 4 regions, 200 workers and 3,000 IDs in a millisecond make
// DefaultLayout: 41+2+8+12 bits, 69.7 years, 256 codes a region, 4,096 IDs.
//
// A field out of bounds is an error that names it, its value and its bound. If the
// needs are too many for 63 bits, or for the 30 that region and worker together and
// the sequence may have, the error tells the bits that each takes, how many are
// over and, for each need, the largest value that would fit while the others stay as
// they are.
//
// PlanLayout reads no clock and keeps no state: equal needs give equal layouts.
func PlanLayout(needs Needs) (Layout, error) {
	if needs.Epoch.IsZero() {
		needs.Epoch = DefaultLayout().Epoch
	}
	if needs.Tick == 0 {
		needs.Tick = time.Millisecond
	}
	if err := needs.validate(); err != nil {
		return Layout{}, err
	}
	w := needs.widths()
	if !w.fit() {
		return Layout{}, needs.tooMany(w)
	}
	layout := Layout{
		Epoch:        needs.Epoch,
		Tick:         needs.Tick,
		TimeBits:     valueBits - w.region - w.worker - w.sequence,
		RegionBits:   w.region,
		WorkerBits:   w.worker,
		SequenceBits: w.sequence,
	}.normal()
	return layout, layout.Validate()
}

func (n Needs) validate() error {
	if err := validateEpoch(n.Epoch); err != nil {
		return err
	}
	if n.Tick < 1 || n.Tick > maxTick {
		return fmt.Errorf("snowflake: plan: Tick is %v, must be 1ns to %v", n.Tick, maxTick)
	}
	if longest := longestLifetime(n.Epoch); n.Lifetime < 1 || n.Lifetime > longest {
		return fmt.Errorf("snowflake: plan: Lifetime is %s, must be 1ns to %s: from %s to the end of 2261",
			years(n.Lifetime), years(longest), n.Epoch.UTC().Format(time.RFC3339Nano))
	}
	for _, field := range []struct {
		name       string
		value, min int
	}{
		{"Regions", n.Regions, 1},
		{"WorkersPerRegion", n.WorkersPerRegion, 1},
		{"SpareCodes", n.SpareCodes, 0},
		{"BurstPerTick", n.BurstPerTick, 1},
	} {
		if field.value < field.min {
			return fmt.Errorf("snowflake: plan: %s is %d, must be at least %d", field.name, field.value, field.min)
		}
	}
	return nil
}

// longestLifetime returns the time from a valid epoch to the end of the last year
// that generators serve. From 1970 on it is below 2^63 ns.
func longestLifetime(epoch time.Time) time.Duration {
	return time.Unix(epochLimit, 0).Sub(epoch)
}

// widths are the bits that needs take, each at least what it takes to count them.
type widths struct {
	time, region, worker, sequence int
}

// widths requires valid needs.
func (n Needs) widths() widths {
	return widths{
		time:     max(1, bitsFor((uint64(n.Lifetime)-1)/uint64(n.Tick)+1)),
		region:   bitsFor(uint64(n.Regions)),
		worker:   bitsFor(n.codes()),
		sequence: max(1, bitsFor(uint64(n.BurstPerTick))),
	}
}

// codes is a uint64 because the sum of two ints may overflow an int.
func (n Needs) codes() uint64 { return uint64(n.WorkersPerRegion) + uint64(n.SpareCodes) }

// bitsFor returns the bits that tell count values apart: log2, rounded up. count
// is at least 1.
func bitsFor(count uint64) int { return bits.Len64(count - 1) }

func (w widths) sum() int { return w.time + w.region + w.worker + w.sequence }

func (w widths) fit() bool {
	return w.sum() <= valueBits && w.region+w.worker <= maxFieldBits && w.sequence <= maxFieldBits
}

// tooMany explains why widths that do not fit do not, and what would.
func (n Needs) tooMany(w widths) error {
	var text strings.Builder
	fmt.Fprintf(&text, "snowflake: plan: Lifetime %s takes %d bits, Regions %d takes %d, WorkersPerRegion+SpareCodes %d takes %d, BurstPerTick %d takes %d",
		years(n.Lifetime), w.time, n.Regions, w.region, n.codes(), w.worker, n.BurstPerTick, w.sequence)
	for _, limit := range []struct {
		what      string
		have, max int
	}{
		{"all", w.sum(), valueBits},
		{"regions and codes", w.region + w.worker, maxFieldBits},
		{"the burst", w.sequence, maxFieldBits},
	} {
		if limit.have > limit.max {
			fmt.Fprintf(&text, "; %s: %d of %d bits, %d over", limit.what, limit.have, limit.max, limit.have-limit.max)
		}
	}
	text.WriteString("; what fits while the others stay: ")

	// For each need, the most bits that the others leave: those that make the
	// widths fit, found by trying, so that no limit is written down twice.
	lifetime := "Lifetime none"
	if left := most(func(b int) bool { v := w; v.time = b; return v.fit() }); left >= 1 {
		// Less than n.Lifetime, which takes more bits, and so no overflow.
		lifetime = "Lifetime up to " + years(n.Tick<<left)
	}
	left := most(func(b int) bool { v := w; v.region = b; return v.fit() })
	regions := largest("Regions", left, 0, 0)
	left = most(func(b int) bool { v := w; v.worker = b; return v.fit() })
	workers := largest("WorkersPerRegion", left, 1, uint64(n.SpareCodes))
	spare := largest("SpareCodes", left, 0, uint64(n.WorkersPerRegion))
	left = most(func(b int) bool { v := w; v.sequence = b; return v.fit() })
	if left == 0 {
		left = -1 // a sequence has at least one bit
	}
	burst := largest("BurstPerTick", left, 1, 0)

	text.WriteString(strings.Join([]string{lifetime, regions, workers, spare, burst}, ", "))
	return fmt.Errorf("%s", text.String())
}

// most returns the greatest number of bits that fits, -1 if none does.
func most(fits func(width int) bool) int {
	for width := valueBits; width >= 0; width-- {
		if fits(width) {
			return width
		}
	}
	return -1
}

// largest tells the greatest value of a need that, together with others that count
// in the same field, is at most 2^width. A width below 0 has no room for anything.
func largest(name string, width int, atLeast, others uint64) string {
	if width < 0 || 1<<width < others+atLeast {
		return name + " none"
	}
	return fmt.Sprintf("%s up to %d", name, uint64(1)<<width-others)
}

// years tells a duration exactly and, for people, in years of 365.25 days.
func years(d time.Duration) string {
	if d < 24*time.Hour {
		return d.String()
	}
	return fmt.Sprintf("%v (%.1f years)", d, d.Hours()/(365.25*24))
}
