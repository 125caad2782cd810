//go:build unix

package faults

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake"
)

// costs are what stores take, as measured.
var costs costTable

type costTable struct {
	mu   sync.Mutex
	rows map[string]cost
}

// cost is a row of docs/stores.md.
type cost struct {
	cold    []time.Duration // each of 200 simultaneous starts
	steady  float64         // requests a second of 800 workers
	ttl     time.Duration   // of the leases of the next two
	reused  time.Duration   // from kill -9 to the first ID of the code's next owner
	refused time.Duration   // from SIGCONT, past the lease, to the refusal
}

func (c *costTable) note(store string, change func(*cost)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rows == nil {
		c.rows = make(map[string]cost)
	}
	row := c.rows[store]
	change(&row)
	c.rows[store] = row
}

// What a store takes: 200 cold starts at once, of three regions one after the other, and the
// requests of the third's workers. They renew four times as often as the default says, so
// that 200 ask for as much as 800 do.
func TestCosts(t *testing.T) {
	for _, b := range backends() { // one after the other: they are timed
		t.Run(b.kind, func(t *testing.T) {
			const rounds, settled, watched = 3, 6 * time.Second, 12 * time.Second
			for region := range rounds {
				c := newCrowd(t, b, snowflake.LeaseConfig{Region: region, TTL: 30 * time.Second, Renew: 5 * time.Second})
				began := time.Now()
				c.joins(regionWorkers)
				cold := time.Since(began)
				costs.note(b.kind, func(row *cost) { row.cold = append(row.cold, cold) })
				if region == rounds-1 {
					time.Sleep(settled) // They do not march in step any more.
					before := c.requests.Load()
					time.Sleep(watched)
					rate := float64(c.requests.Load()-before) / watched.Seconds()
					costs.note(b.kind, func(row *cost) { row.steady = rate })
				}
				c.end()
				require.NoError(t, c.ledger.Err())
			}
		})
	}
}

const (
	costsBegin = "<!-- costs: written by the fault suite -->\n"
	costsEnd   = "<!-- end of costs -->\n"
)

// table is the table in Markdown.
func (c *costTable) table() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out strings.Builder
	fmt.Fprintf(&out, "Measured on %s, %s/%s, %d processors, servers and workers on one machine; three runs of 200 starts; the requests are\nthose of 200 workers that renew four times as often.\n\n",
		time.Now().UTC().Format(time.DateOnly), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	out.WriteString("| store | 200 cold starts at once | requests/s of 800 workers | kill -9 to the code's reuse | SIGCONT to refusal |\n" +
		"| --- | ---: | ---: | ---: | ---: |\n")
	for _, b := range backends() {
		row, ok := c.rows[b.kind]
		if !ok || len(row.cold) == 0 {
			continue
		}
		fmt.Fprintf(&out, "| %s | %s to %s | %.0f | %s of a TTL of %v | %s |\n", b.kind, shown(slices.Min(row.cold)), shown(slices.Max(row.cold)),
			row.steady, shown(row.reused), row.ttl, shown(row.refused))
	}
	return out.String()
}

// write puts the table between its marks in a document.
func (c *costTable) write(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, found := strings.Cut(string(text), costsBegin)
	_, tail, ended := strings.Cut(rest, costsEnd)
	if !found || !ended {
		return fmt.Errorf("%s: no marks of the table", path)
	}
	return os.WriteFile(path, []byte(head+costsBegin+c.table()+costsEnd+tail), 0o644)
}
