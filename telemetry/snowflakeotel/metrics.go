package snowflakeotel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/internal/metrics"
)

// scope names who made the instruments and spans.
const scope = "github.com/snowfence/snowflake/telemetry/snowflakeotel"

// instrument is one metric as the meter knows it.
type instrument struct {
	metrics.Metric
	metric.Float64Observable
}

// Register has gen observed by the readers of provider until the returned registration is
// unregistered, which a program does that goes on after gen's Close: a closed generator is
// not healthy. name tells the generators of a process apart; "" is "default". lease is the
// one that gen is on, or nil where it is on no WorkerLease. Many generators may be
// registered with one provider, under names of their own.
func Register(name string, gen *snowflake.Generator, lease *snowflake.WorkerLease, provider metric.MeterProvider) (metric.Registration, error) {
	if gen == nil || provider == nil {
		return nil, errors.New("snowflakeotel: Register: generator or provider is nil: make the generator with snowflake.New, and take otel.GetMeterProvider()")
	}
	meter := provider.Meter(scope)
	var instruments []instrument
	var observables []metric.Observable
	for _, m := range metrics.All() {
		made, err := makeInstrument(meter, m)
		if err != nil {
			return nil, fmt.Errorf("snowflakeotel: instrument %s: %w", m.Name, err)
		}
		instruments = append(instruments, instrument{m, made})
		observables = append(observables, made)
	}
	registration, err := meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		s := metrics.Take(gen, lease)
		common := metric.WithAttributes(attributes(name, s)...)
		for _, i := range instruments {
			i.Values(s, func(label string, value float64) {
				if i.Label == "" {
					to.ObserveFloat64(i.Float64Observable, value, common)
					return
				}
				to.ObserveFloat64(i.Float64Observable, value, common, metric.WithAttributes(attribute.String(i.Label, label)))
			})
		}
		return nil
	}, observables...)
	if err != nil {
		return nil, fmt.Errorf("snowflakeotel: registering the callback: %w", err)
	}
	return registration, nil
}

// makeInstrument gives no unit: the names have theirs, and an exporter to Prometheus would
// add it once more.
func makeInstrument(meter metric.Meter, m metrics.Metric) (metric.Float64Observable, error) {
	if m.Kind == metrics.Gauge {
		return meter.Float64ObservableGauge(m.Name, metric.WithDescription(m.Help))
	}
	return meter.Float64ObservableCounter(m.Name, metric.WithDescription(m.Help))
}

// attributes returns what all metrics of a generator have.
func attributes(name string, s metrics.Snapshot) []attribute.KeyValue {
	if name == "" {
		name = metrics.DefaultGenerator
	}
	return []attribute.KeyValue{
		attribute.String(metrics.GeneratorLabel, name), attribute.String(metrics.RegionLabel, s.Region()),
	}
}
