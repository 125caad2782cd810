//go:build unix

package faults

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// results are what the tests have seen.
var results resultTable

type resultTable struct {
	mu   sync.Mutex
	rows []result
}

// result is a row of docs/faults.md.
type result struct {
	order   int // of the fault in the document
	fault   string
	store   string
	ids     int
	repeats int
	stopped time.Duration // how long the workers that the fault met issued nothing, at most
	healed  time.Duration // from the end of the fault to their next ID
	note    string
}

func (r *resultTable) add(row result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, row)
}

// shown is a duration that people read.
func shown(d time.Duration) string {
	switch {
	case d <= 0:
		return "-"
	case d < 100*time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// table is the table in Markdown.
func (r *resultTable) table() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortStableFunc(r.rows, func(a, b result) int {
		return cmp.Or(cmp.Compare(a.order, b.order), strings.Compare(a.store, b.store))
	})
	var out strings.Builder
	out.WriteString("| fault | store | IDs checked | repeats | stopped for | healed after | seen |\n| --- | --- | ---: | ---: | ---: | ---: | --- |\n")
	for _, row := range r.rows {
		fmt.Fprintf(&out, "| %s | %s | %s | %d | %s | %s | %s |\n", row.fault, row.store, thousands(row.ids), row.repeats,
			shown(row.stopped), shown(row.healed), row.note)
	}
	return out.String()
}

const documentHead = `# What the fault suite saw

Real worker processes on real stores, under faults (module faults, ` + "`make faults`" + `). Each worker mints
all the time and prints every ID; one ledger checks that none repeats and that each lies inside the
grant of its holder, and at the end every ceiling that was used is held against the store. This file is
written by the suite, from the run of %s on %s, %d processors.

"Stopped for" is how long the workers that the fault met issued nothing, at most; "healed after" is from
the end of the fault to their next ID. Leases are short here, 1.5 to 12 s unless a row says else, so
that a suite of minutes sees what takes minutes at the default of 2 min.

`

// write writes the document.
func (r *resultTable) write(path string) error {
	head := fmt.Sprintf(documentHead, time.Now().UTC().Format(time.DateOnly), runtime.GOOS+"/"+runtime.GOARCH, runtime.NumCPU())
	return os.WriteFile(path, []byte(head+r.table()), 0o644)
}
