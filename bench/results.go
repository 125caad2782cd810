package bench

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/perf/benchmath"
)

// Results are the samples of a run, one a round.
type Results struct {
	Machine  Machine
	Rounds   int
	Versions map[string]string // of modules
	samples  map[key][]float64
	calls    map[string]*Histogram // of workload 5, all rounds, by subject
}

type key struct{ work, subject, unit string }

// Machine says where the numbers are from.
type Machine struct {
	CPU, Go, System, Load string
	Cores                 int
	Date                  time.Time
}

// NewResults returns empty results for this machine.
func NewResults(rounds int) *Results {
	return &Results{
		Rounds: rounds, Machine: thisMachine(), Versions: versions(),
		samples: map[key][]float64{}, calls: map[string]*Histogram{},
	}
}

func (r *Results) add(work, subject, unit string, value float64) {
	k := key{work, subject, unit}
	r.samples[k] = append(r.samples[k], value)
}

func (r *Results) has(work, subject string) bool {
	for k := range r.samples {
		if k.work == work && k.subject == subject {
			return true
		}
	}
	return false
}

// span is a median and where it lies: its 95 % confidence interval, or the smallest
// and the largest value where there are too few for one.
type span struct{ mid, low, high float64 }

func spanOf(values []float64) span {
	if len(values) == 0 {
		return span{math.NaN(), math.NaN(), math.NaN()}
	}
	// NewSample sorts what it is given, and rounds must stay in their order.
	sample := benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds)
	s := benchmath.AssumeNothing.Summary(sample, 0.95)
	if math.IsInf(s.Lo, 0) || math.IsInf(s.Hi, 0) || math.IsNaN(s.Lo) || math.IsNaN(s.Hi) {
		s.Lo, s.Hi = slices.Min(values), slices.Max(values)
	}
	return span{s.Center, s.Lo, s.Hi}
}

func (r *Results) span(work, subject, unit string) span {
	return spanOf(r.samples[key{work, subject, unit}])
}

// ofFloor is a subject's ratio to the floor, round by round.
func (r *Results) ofFloor(work, subject, unit string) span {
	a, b := r.samples[key{work, subject, unit}], r.samples[key{work, floorName, unit}]
	var ratios []float64
	for i := range min(len(a), len(b)) {
		ratios = append(ratios, a[i]/b[i])
	}
	return spanOf(ratios)
}

func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case v == 0:
		return "0"
	case math.Abs(v) >= 1e4:
		return grouped(int64(math.Round(v)))
	case math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func (s span) String() string {
	if math.IsNaN(s.mid) {
		return "–"
	}
	mid, low, high := number(s.mid), number(s.low), number(s.high)
	if low == high {
		return mid
	}
	return mid + " (" + low + "–" + high + ")"
}

// WriteRaw writes the samples in the format that benchstat reads.
func (r *Results) WriteRaw(w io.Writer) error {
	out := bufio.NewWriter(w) // Flush tells its errors
	_, _ = fmt.Fprintf(out, "goos: %s\ngoarch: %s\ncpu: %s\n", runtime.GOOS, runtime.GOARCH, r.Machine.CPU)
	var keys []key
	for k := range r.samples {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b key) int {
		return strings.Compare(a.work+a.subject+a.unit, b.work+b.subject+b.unit)
	})
	for _, k := range keys {
		name := strings.NewReplacer(" ", "_", "/", "-").Replace(k.subject)
		for _, v := range r.samples[k] {
			_, _ = fmt.Fprintf(out, "Benchmark%s%s/%s 1 %g %s\n", strings.ToUpper(k.work[:1]), k.work[1:], name, v, k.unit)
		}
	}
	return out.Flush()
}

func thisMachine() Machine {
	m := Machine{
		CPU: "unknown CPU", Cores: runtime.NumCPU(), Go: runtime.Version(),
		System: runtime.GOOS + "/" + runtime.GOARCH, Date: time.Now().UTC(),
	}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(load), " ")
	}
	return m
}

func versions() map[string]string {
	found := map[string]string{}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return found
	}
	for _, m := range info.Deps {
		found[m.Path] = m.Version
		if m.Replace != nil {
			found[m.Path] = "this tree"
		}
	}
	return found
}
