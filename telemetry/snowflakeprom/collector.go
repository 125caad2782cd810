package snowflakeprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/internal/metrics"
)

// Collector reads one generator, and the lease that it is on, at every scrape. It may be
// registered with several registries and scraped from many goroutines at once.
//
// A closed generator is not healthy: unregister its Collector where the process goes on
// without it.
type Collector struct {
	gen     *snowflake.Generator
	lease   *snowflake.WorkerLease
	metrics []described
	wait    *prometheus.Desc
	bounds  []float64 // seconds
}

var _ prometheus.Collector = (*Collector)(nil)

type described struct {
	metrics.Metric
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// NewCollector returns a Collector of gen. name tells the generators of a process apart,
// in the label generator: a registry refuses a second one of the same name. "" is
// "default". lease is the one that gen is on, or nil where it is on no WorkerLease.
// It panics if gen is nil.
func NewCollector(name string, gen *snowflake.Generator, lease *snowflake.WorkerLease) *Collector {
	if gen == nil {
		panic("snowflakeprom: NewCollector: the generator is nil: make it with snowflake.New first")
	}
	if name == "" {
		name = metrics.DefaultGenerator
	}
	fixed := prometheus.Labels{metrics.GeneratorLabel: name}
	c := &Collector{
		gen: gen, lease: lease,
		wait: prometheus.NewDesc(metrics.Wait, metrics.WaitHelp, []string{metrics.RegionLabel}, fixed),
	}
	for _, bound := range snowflake.WaitBounds() {
		c.bounds = append(c.bounds, bound.Seconds())
	}
	for _, m := range metrics.All() {
		labels, kind := []string{metrics.RegionLabel}, prometheus.CounterValue
		if m.Label != "" {
			labels = append(labels, m.Label)
		}
		if m.Kind == metrics.Gauge {
			kind = prometheus.GaugeValue
		}
		c.metrics = append(c.metrics, described{m, prometheus.NewDesc(m.Name, m.Help, labels, fixed), kind})
	}
	return c
}

// Describe sends the description of every metric.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	to <- c.wait
	for _, m := range c.metrics {
		to <- m.desc
	}
}

// Collect takes one snapshot and sends its values.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	s := metrics.Take(c.gen, c.lease)
	region := s.Region()
	to <- c.histogram(s, region)
	for _, m := range c.metrics {
		m.Values(s, func(label string, value float64) {
			values := []string{region}
			if m.Label != "" {
				values = append(values, label)
			}
			to <- prometheus.MustNewConstMetric(m.desc, m.kind, value, values...)
		})
	}
}

// histogram adds up the buckets, which Prometheus counts from below.
func (c *Collector) histogram(s metrics.Snapshot, region string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(c.bounds))
	var count uint64
	for i, n := range s.Waits {
		count += n
		if i < len(c.bounds) {
			buckets[c.bounds[i]] = count
		}
	}
	return prometheus.MustNewConstHistogram(c.wait, count, s.WaitSum.Seconds(), buckets, region)
}
