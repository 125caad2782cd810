package bench

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

func open(t *testing.T, p Peer, bits int) Source {
	t.Helper()
	s, err := p.Open(bits)
	if err != nil {
		t.Fatal(err)
	}
	if s.Close != nil {
		t.Cleanup(s.Close)
	}
	return s
}

func TestPeersReturnDistinctIDs(t *testing.T) {
	for _, p := range Peers() {
		if p.Floor {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			s := open(t, p, UsualBits)
			seen := map[string]bool{}
			for range 1000 {
				id, err := s.Text()
				if err != nil {
					t.Fatal(err)
				}
				if seen[id] || strings.Trim(id, "0") == "" {
					t.Fatalf("%q is zero, or a repeat", id)
				}
				seen[id] = true
			}
		})
	}
}

func TestPeersReturnTheirFirstBytesAndTheirTime(t *testing.T) {
	for _, p := range Peers() {
		t.Run(p.Name, func(t *testing.T) {
			s := open(t, p, UsualBits)
			before := time.Now().UnixMilli()
			first, err := s.Next()
			after := time.Now().UnixMilli()
			if err != nil || first == 0 {
				t.Fatalf("Next returned %d, %v", first, err)
			}
			if s.Milli == nil {
				return
			}
			// gofrs/uuid and others may be ahead of the clock by what was asked before.
			if got := s.Milli(first); got < before-1 || got > after+1000 {
				t.Fatalf("the time of %d is %d, asked from %d to %d", first, got, before, after)
			}
		})
	}
}

func TestEveryPeerTakesPartOrIsExplained(t *testing.T) {
	all, explained := workloads(), explanations()
	for _, p := range Peers() {
		for work, w := range all {
			if p.Floor || p.Ours || work == fill || work == crowded || work == pooled || w.suits(p) {
				continue
			}
			noLimit := p.PerMilli(UsualBits) == 0 || p.Runs // left out of the last workloads as a class
			if name := "`" + p.Name + "`"; !noLimit && !strings.Contains(explained[work], name) {
				t.Errorf("%s is not in %s, and the report does not say why", p.Name, work)
			}
		}
	}
}

func TestHistogramIsExactBelow4096AndWithinA64thAbove(t *testing.T) {
	for _, v := range []int64{0, 1, 4095, 4096, 4097, 8191, 8192, 1e6, 123456789, 1e12} {
		var h Histogram
		h.Add(v)
		h.Add(2 * v)
		got := h.Quantile(0.25)
		if got < v || got > v+v/64 || v < exact && got != v {
			t.Errorf("%d is told as %d", v, got)
		}
		if h.Max() != 2*v || h.Quantile(1) != 2*v {
			t.Errorf("the longest of %d and %d is told as %d, %d", v, 2*v, h.Max(), h.Quantile(1))
		}
	}
	var a, b Histogram
	for i := range int64(1000) {
		a.Add(i)
		b.Add(i + 1000)
	}
	a.Merge(&b)
	if a.Count() != 2000 || a.Quantile(0.5) != 1000 || a.Quantile(0.99) != 1980 {
		t.Errorf("merged: %d, %d, %d", a.Count(), a.Quantile(0.5), a.Quantile(0.99))
	}
}

// The workloads, as short as they can be: no figure is judged.
func TestWorkloadsMeasure(t *testing.T) {
	p := peerNamed(ours)
	if got := Saturate(open(t, p, UsualBits), 4, time.Millisecond, 20*time.Millisecond); got.PerSecond <= 0 {
		t.Errorf("saturated: %+v", got)
	}
	if got := Burst(open(t, p, WideBits), 100, 5*time.Millisecond); got.Asked == 0 || got.InTimeIntended != got.InTime || got.Calls.Count() != uint64(got.Asked) {
		t.Errorf("burst: asked %d, in time %d, as intended %d", got.Asked, got.InTime, got.InTimeIntended)
	}
	got, err := Offered(open(t, p, SmallBits), 100, 256, 20*time.Millisecond)
	if err != nil || got.Accepted.Count() == 0 {
		t.Errorf("offered: %v", err)
	}
	if got, err := Crowd(time.Millisecond); err != nil || got.Bytes <= 0 || got.Whole < got.Bytes || got.Start <= 0 {
		t.Errorf("crowd: %+v, %v", got, err)
	}
	if got, err := Spread(time.Millisecond); err != nil || got.Own <= 0 || got.Pool <= 0 || got.Shared <= 0 {
		t.Errorf("pool: %+v, %v", got, err)
	}
}

// canned results, of a made-up machine: the cost of a subject is its place.
func canned(rounds int) *Results {
	r := NewResults(rounds)
	r.Machine = Machine{CPU: "Abacus", Go: "go1.0", System: "clay/wax", Load: "0.00", Cores: 10, Date: time.Unix(0, 0).UTC()}
	r.Versions = map[string]string{"github.com/rs/xid": "v0.0.7"}
	for i, p := range Peers() {
		for round := range rounds {
			value := float64(10*i + 10 + round%3)
			for work, w := range workloads() {
				if !w.suits(p) {
					continue
				}
				for _, unit := range []string{"ns/op", "cpu-ns/op", "ns/ID", "cores", "%limit", "ahead-ms", "p50-ms", "p99-ms", "max-ms", "xlimit", "%intended",
					"start-s", "bytes", "bytes-leased", "%cpu", "own-M/s", "pool-M/s", "shared-M/s", "of-own"} {
					r.add(work, p.Name, unit, value)
				}
				r.add(work, p.Name, "%in-time-intended", 100)
				r.add(work, p.Name, "allocs/op", 0)
				r.add(work, p.Name, "%refused", 0)
				for _, q := range quantiles {
					r.add(work, p.Name, q.unit, value)
				}
			}
		}
		if workloads()[burst].suits(p) {
			r.calls[p.Name] = &Histogram{}
			for v := range int64(1000) {
				r.calls[p.Name].Add(v)
			}
		}
	}
	return r
}

func TestReportTellsMachineSpreadAndVerdicts(t *testing.T) {
	text := canned(10).Markdown()
	for _, want := range []string{
		"Abacus, 10 cores, clay/wax, go1.0, 1970-01-01 00:00 UTC. Load at the start: 0.00.",
		"10 rounds",
		"| *mutex* | – | – | 11.0 (10.0–12.0) |",
		"| **snowfence (this)** | 64 | yes | 51.0 (50.0–52.0) | 1.24 (1.24–1.25) |",
		"| `Next`, one goroutine | at most 1.10 x the floor (mutex + wall clock), 0 allocs | 1.24 (1.24–1.25) x, 0 allocs | **no** |",
		"| burst, p99 | at most the best peer's | 51.0 (50.0–52.0) ns, bwmarrin/snowflake: 71.0 | yes |",
		"| rs/xid | v0.0.7 | 96 | no limit of its own |",
		"muyo/sno",
		"| memory of a generator | at most 1 KiB | 51.0 (50.0–52.0) bytes | yes |",
		"| pool of two, two goroutines | at least 0.9 x two generators | 51.0 (50.0–52.0) x | yes |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not say %q", want)
		}
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "%!") {
		t.Error("the report has holes")
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestReportOfNothingHasNoVerdicts(t *testing.T) {
	if text := NewResults(0).Markdown(); strings.Contains(text, "## Targets") || strings.Contains(text, "NaN") {
		t.Error(text)
	}
}

func TestPlotsAreSVGThatNamesEverybody(t *testing.T) {
	r := canned(6)
	work := map[string]string{"bench-cost.svg": cost, "bench-latency.svg": burst, "bench-saturated.svg": saturated64}
	for name, text := range r.Plots() {
		for parser := xml.NewDecoder(strings.NewReader(text)); ; {
			if _, err := parser.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if !strings.Contains(text, "prefers-color-scheme: dark") || strings.Contains(text, "NaN") {
			t.Errorf("%s is not readable in the dark, or has holes", name)
		}
		for _, s := range r.subjects(work[name], "") {
			if !strings.Contains(text, ">"+s.Name) {
				t.Errorf("%s does not name %s", name, s.Name)
			}
		}
	}
}

func TestRawIsWhatBenchstatReads(t *testing.T) {
	var text strings.Builder
	if err := canned(2).WriteRaw(&text); err != nil {
		t.Fatal(err)
	}
	if want := "BenchmarkCost/google-uuid_v7,_pool 1 130 cpu-ns/op\n"; !strings.Contains(text.String(), want) {
		t.Errorf("no line %q in\n%s", want, text.String())
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.123: "0.12", 12.34: "12.3", 123.4: "123", 1234: "1234", 12345: "12,345", 1234567: "1,234,567"} {
		if got := number(v); got != want {
			t.Errorf("%v is told as %s, want %s", v, got, want)
		}
	}
	if got := fmt.Sprint(spanOf([]float64{1, 2, 3})); got != "2.00 (1.00–3.00)" {
		t.Error(got)
	}
}
