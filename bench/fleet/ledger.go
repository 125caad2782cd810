package main

import (
	"cmp"
	"slices"

	"github.com/snowfence/snowflake"
)

// Run is IDs that follow one another without a gap: First, First+1, … First+Count-1.
type Run struct {
	First snowflake.ID
	Count int64
}

// Ledger has every ID that was minted, exactly, as runs: a worker's burst is one or two of
// them, so that a minute of 120,000,000 IDs takes a few megabytes. IDs in no order would
// take more, and be checked as well.
type Ledger struct{ runs []Run }

// note adds an ID.
func (l *Ledger) note(id snowflake.ID) {
	if n := len(l.runs); n > 0 {
		if last := &l.runs[n-1]; id == last.First+snowflake.ID(last.Count) {
			last.Count++
			return
		}
	}
	l.runs = append(l.runs, Run{First: id, Count: 1})
}

// count returns how many IDs there are, repeats and all.
func (l *Ledger) count() int {
	var n int64
	for _, r := range l.runs {
		n += r.Count
	}
	return int(n)
}

// repeats returns how many of the IDs had been minted before. It sorts the runs.
func (l *Ledger) repeats() (repeated int64) {
	slices.SortFunc(l.runs, func(a, b Run) int { return cmp.Compare(a.First, b.First) })
	end := snowflake.ID(0) // all below it is accounted for
	for _, r := range l.runs {
		next := r.First + snowflake.ID(r.Count)
		if r.First < end {
			repeated += int64(min(end, next) - r.First)
		}
		end = max(end, next)
	}
	return repeated
}
