package sim

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

var (
	first    = flag.Uint64("sim.seed", 1, "first seed")
	seeds    = flag.Int("sim.seeds", 60, "how many seeds")
	regions  = flag.Int("sim.regions", 0, "regions of every fleet (0: drawn)")
	workers  = flag.Int("sim.workers", 0, "workers of a region (0: drawn)")
	burst    = flag.Int("sim.burst", 0, "the most IDs that a call asks for (0: 4096)")
	only     = flag.String("sim.kind", "", "kind of every fleet: leases, marks, leases in a forgetful store, or in a restored store (empty: drawn)")
	summary  = flag.String("sim.summary", "", "write the summary to this file, as JSON")
	coverage = flag.Bool("sim.coverage", true, "fail if 60 seeds or more leave out a fault or a state")
)

func TestFleets(t *testing.T) {
	var s Summary
	began := time.Now()
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		synctest.Test(t, func(t *testing.T) {
			report, err := Run(seed, Options{Regions: *regions, Workers: *workers, Burst: *burst, Kind: *only})
			s.Add(report)
			if err != nil {
				// Nonces and the product's own jitter are random: a seed draws the same
				// faults again, and mostly, but not always, the same failure.
				t.Fatalf("seed %d: %v\nreplay: go test ./internal/sim -count=20 -failfast -sim.seed %d -sim.seeds 1", seed, err, seed)
			}
		})
	}
	s.Seconds = time.Since(began).Seconds()
	for _, name := range slices.Concat(faults, states, rare) {
		kind := "state"
		if IsFault(name) {
			kind = "fault"
		}
		t.Logf("%s %-50s %d", kind, name, s.Hits[name])
	}
	for _, kind := range slices.Sorted(maps.Keys(s.Errors)) {
		t.Logf("refusal %-60s %d", kind, s.Errors[kind])
	}
	t.Log(s)
	if *summary != "" {
		data, err := json.MarshalIndent(s, "", "\t")
		if err == nil {
			err = os.WriteFile(*summary, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if missing := Missing(s.Hits, s.Seeds); len(missing) > 0 && *coverage {
		t.Errorf("never reached: %q", missing)
	}
}
