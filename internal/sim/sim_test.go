package sim

import (
	"flag"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

var (
	first = flag.Uint64("sim.seed", 1, "first seed")
	seeds = flag.Int("sim.seeds", 60, "how many seeds")
)

func TestFleets(t *testing.T) {
	faults, refusals, ids := make(map[string]int), make(map[string]int), 0
	began := time.Now()
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		synctest.Test(t, func(t *testing.T) {
			report, err := Run(seed)
			if err != nil {
				t.Fatalf("seed %d: %v\nreplay: go test ./internal/sim -sim.seed %d -sim.seeds 1", seed, err, seed)
			}
			ids += report.IDs
			for kind, n := range report.Faults {
				faults[kind] += n
			}
			for kind, n := range report.Errors {
				refusals[kind] += n
			}
		})
	}
	took := time.Since(began).Seconds()
	total := 0
	for _, kind := range slices.Sorted(maps.Keys(faults)) {
		t.Logf("fault %-24s %d", kind, faults[kind])
		total += faults[kind]
	}
	for _, kind := range slices.Sorted(maps.Keys(refusals)) {
		t.Logf("refusal %-60s %d", kind, refusals[kind])
	}
	t.Logf("%d seeds, %d IDs (%.0f/s), %d faults (%.0f/s)", *seeds, ids, float64(ids)/took, total, float64(total)/took)
	for _, kind := range []string{
		"kill", "close", "pause", "step", "long step", "freeze", "partition", "black hole", "refused",
		"request lost", "answer lost", "reset after the write", "slow request", "slow answer", "doubled", "lands late",
	} {
		if faults[kind] == 0 && *seeds >= 20 {
			t.Errorf("no run had the fault %q", kind)
		}
	}
}
