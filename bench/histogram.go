package bench

import "math/bits"

// Histogram counts durations in nanoseconds: each for itself below 4,096, then to
// within 1/64.
type Histogram struct {
	counts [exact + 64*64]uint64
	n      uint64
	max    int64
}

const exact = 4096

func slot(nanos int64) int {
	if nanos < exact {
		return int(max(nanos, 0))
	}
	top := bits.Len64(uint64(nanos)) // 13 or more
	return exact + (top-13)*64 + int(nanos>>(top-7))&63
}

// upper is the highest duration of a slot.
func upper(slot int) int64 {
	if slot < exact {
		return int64(slot)
	}
	top, step := (slot-exact)/64+13, int64((slot-exact)%64)
	return (64+step+1)<<(top-7) - 1
}

// Add counts one.
func (h *Histogram) Add(nanos int64) {
	h.counts[slot(nanos)]++
	h.n++
	h.max = max(h.max, nanos)
}

// Merge counts what other has counted.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.n += other.n
	h.max = max(h.max, other.max)
}

// Count returns how many were counted.
func (h *Histogram) Count() uint64 { return h.n }

// Max returns the longest.
func (h *Histogram) Max() int64 { return h.max }

// Quantile returns what a share q of all is not longer than.
func (h *Histogram) Quantile(q float64) int64 {
	if h.n == 0 {
		return 0
	}
	rank := uint64(q * float64(h.n))
	var seen uint64
	for i, n := range h.counts {
		if seen += n; seen > rank {
			return min(upper(i), h.max)
		}
	}
	return h.max
}
