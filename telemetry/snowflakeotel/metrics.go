package snowflakeotel

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

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
// registered with one provider, under names of their own: a name that is in use there is
// refused until its registration is unregistered. Providers are told apart by their
// pointer, so that the one that otel.GetMeterProvider returns before SetMeterProvider is
// another than the one that was set. What is registered is kept in memory.
func Register(name string, gen *snowflake.Generator, lease *snowflake.WorkerLease, provider metric.MeterProvider) (metric.Registration, error) {
	if gen == nil || provider == nil {
		return nil, errors.New("snowflakeotel: Register: generator or provider is nil: make the generator with snowflake.New, and take otel.GetMeterProvider()")
	}
	if name == "" {
		name = metrics.DefaultGenerator
	}
	free, err := names.take(provider, name)
	if err != nil {
		return nil, err
	}
	made, err := register(name, gen, lease, provider.Meter(scope))
	if err != nil {
		free()
		return nil, err
	}
	return &registration{made, free}, nil
}

func register(name string, gen *snowflake.Generator, lease *snowflake.WorkerLease, meter metric.Meter) (metric.Registration, error) {
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
	made, err := meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
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
	return made, nil
}

// registration frees its name when it has ended.
type registration struct {
	metric.Registration
	free func()
}

// Unregister ends the observation. The name may be registered anew.
func (r *registration) Unregister() error {
	if err := r.Registration.Unregister(); err != nil {
		return err // it may go on, and keeps its name
	}
	r.free()
	return nil
}

// names are those in use. OpenTelemetry has no place for them: it takes any number of
// callbacks, and adds up the counters that two of them observe with equal attributes.
var names taken

type taken struct {
	mu sync.Mutex
	// mu protects inUse.
	inUse map[use]struct{}
}

type use struct {
	provider any // a pointer
	name     string
}

// take takes a name for a provider, until it is freed. It is refused while it is in use. A
// provider that is no pointer, such as the one that drops all, has nothing to be told by.
func (t *taken) take(provider any, name string) (free func(), err error) {
	if reflect.TypeOf(provider).Kind() != reflect.Pointer {
		return func() {}, nil
	}
	key := use{provider, name}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, used := t.inUse[key]; used {
		return nil, fmt.Errorf("snowflakeotel: the name %q is in use with this provider: give each generator one of its own, and unregister the one before first", name)
	}
	if t.inUse == nil {
		t.inUse = make(map[use]struct{})
	}
	t.inUse[key] = struct{}{}
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.inUse, key)
	}), nil
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
	return []attribute.KeyValue{
		attribute.String(metrics.GeneratorLabel, name), attribute.String(metrics.RegionLabel, s.Region()),
	}
}
