package snowflakeotel

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/internal/metrics"
)

// Waits produces the histogram snowflake_wait_seconds of the generators that were added to
// it. Hand it to a reader with WithProducer. It is safe for concurrent use.
type Waits struct {
	mu sync.Mutex
	// mu protects sources.
	sources []*source
}

type source struct {
	name  string
	gen   *snowflake.Generator
	lease *snowflake.WorkerLease
	since time.Time
}

var _ sdk.Producer = (*Waits)(nil)

// NewWaits returns a producer of nothing yet.
func NewWaits() *Waits { return &Waits{} }

// Add has the waits of gen told, until remove is called. The arguments are those of
// Register. It panics if gen is nil, or if the name is in use: two histograms with equal
// attributes make a scrape by Prometheus fail.
func (w *Waits) Add(name string, gen *snowflake.Generator, lease *snowflake.WorkerLease) (remove func()) {
	if gen == nil {
		panic("snowflakeotel: Waits.Add: the generator is nil: make it with snowflake.New first")
	}
	if name == "" {
		name = metrics.DefaultGenerator
	}
	added := &source{name, gen, lease, time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.ContainsFunc(w.sources, func(s *source) bool { return s.name == name }) {
		panic(fmt.Sprintf("snowflakeotel: Waits.Add: the name %q is in use: give each generator one of its own, and remove the one before first", name))
	}
	w.sources = append(w.sources, added)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.sources = slices.DeleteFunc(w.sources, func(s *source) bool { return s == added })
	}
}

// Produce returns the histograms as they are now.
func (w *Waits) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	w.mu.Lock()
	sources := slices.Clone(w.sources)
	w.mu.Unlock()
	if len(sources) == 0 {
		return nil, nil
	}
	histogram := metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality}
	for _, s := range sources {
		histogram.DataPoints = append(histogram.DataPoints, s.point())
	}
	return []metricdata.ScopeMetrics{{
		Scope:   instrumentation.Scope{Name: scope},
		Metrics: []metricdata.Metrics{{Name: metrics.Wait, Description: metrics.WaitHelp, Data: histogram}},
	}}, nil
}

func (s *source) point() metricdata.HistogramDataPoint[float64] {
	snapshot := metrics.Take(s.gen, s.lease)
	point := metricdata.HistogramDataPoint[float64]{
		Attributes: attribute.NewSet(attributes(s.name, snapshot)...),
		StartTime:  s.since, Time: time.Now(),
		BucketCounts: snapshot.Waits[:], Sum: snapshot.WaitSum.Seconds(),
	}
	for _, n := range snapshot.Waits {
		point.Count += n
	}
	for _, bound := range snowflake.WaitBounds() {
		point.Bounds = append(point.Bounds, bound.Seconds())
	}
	return point
}
