package snowflakeotel_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/telemetry/snowflakeotel"
	"github.com/snowfence/snowflake/telemetry/snowflakeprom"
)

func newGenerator(t *testing.T, region int) (*snowflake.Generator, *snowflake.WorkerLease) {
	t.Helper()
	lease, err := snowflake.AcquireLease(t.Context(), snowflake.NewMemoryStore(), snowflake.LeaseConfig{Region: region})
	require.NoError(t, err)
	gen, err := snowflake.New(t.Context(), snowflake.Config{Lease: lease})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, gen.Close(context.Background())) })
	return gen, lease
}

// collect returns the present metrics of a reader by name.
func collect(t *testing.T, reader *sdk.ManualReader) map[string]metricdata.Aggregation {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	byName := map[string]metricdata.Aggregation{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			byName[m.Name] = m.Data
		}
	}
	return byName
}

func TestValuesAreReadAtTheCollection(t *testing.T) {
	reader := sdk.NewManualReader()
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	gen, lease := newGenerator(t, 3)
	registration, err := snowflakeotel.Register("orders", gen, lease, provider)
	require.NoError(t, err)
	_, err = gen.Fill(t.Context(), make([]snowflake.ID, 10))
	require.NoError(t, err)

	ids := collect(t, reader)["snowflake_ids_total"].(metricdata.Sum[float64])
	require.True(t, ids.IsMonotonic)
	require.Len(t, ids.DataPoints, 1)
	require.InDelta(t, 10, ids.DataPoints[0].Value, 0)
	generator, _ := ids.DataPoints[0].Attributes.Value("generator")
	region, _ := ids.DataPoints[0].Attributes.Value("region")
	require.Equal(t, "orders", generator.AsString())
	require.Equal(t, "3", region.AsString())

	// A second generator has points of its own; the first can be taken away again.
	other, otherLease := newGenerator(t, 2)
	_, err = snowflakeotel.Register("", other, otherLease, provider)
	require.NoError(t, err)
	require.Len(t, collect(t, reader)["snowflake_healthy"].(metricdata.Gauge[float64]).DataPoints, 2)
	require.NoError(t, registration.Unregister())
	require.Len(t, collect(t, reader)["snowflake_healthy"].(metricdata.Gauge[float64]).DataPoints, 1)
	require.Len(t, collect(t, reader)["snowflake_ids_total"].(metricdata.Sum[float64]).DataPoints, 1)

	_, err = snowflakeotel.Register("none", nil, nil, provider)
	require.Error(t, err)
}

// Two observations with equal attributes are added up without a word: one ID would count
// as two.
func TestNameInUseIsRefused(t *testing.T) {
	reader := sdk.NewManualReader()
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	gen, lease := newGenerator(t, 3)
	_, err := gen.Next()
	require.NoError(t, err)
	ids := func() float64 {
		points := collect(t, reader)["snowflake_ids_total"].(metricdata.Sum[float64]).DataPoints
		require.Len(t, points, 1)
		return points[0].Value
	}
	first, err := snowflakeotel.Register("", gen, lease, provider)
	require.NoError(t, err)
	for _, name := range []string{"", "default"} {
		_, err = snowflakeotel.Register(name, gen, lease, provider)
		require.ErrorContains(t, err, `"default"`)
	}
	require.InDelta(t, 1, ids(), 0)

	// The name is free again once, and for whoever takes it next.
	require.NoError(t, first.Unregister())
	second, err := snowflakeotel.Register("default", gen, lease, provider)
	require.NoError(t, err)
	require.NoError(t, first.Unregister())
	_, err = snowflakeotel.Register("default", gen, lease, provider)
	require.Error(t, err)
	require.InDelta(t, 1, ids(), 0)

	// Another provider has names of its own, one that drops all has none, and what failed
	// has taken none.
	other, err := snowflakeotel.Register("default", gen, lease, sdk.NewMeterProvider())
	require.NoError(t, err)
	for range 2 {
		_, err = snowflakeotel.Register("default", gen, lease, noop.NewMeterProvider())
		require.NoError(t, err)
	}
	failing := &failingProvider{MeterProvider: noop.NewMeterProvider()}
	for range 2 {
		_, err = snowflakeotel.Register("default", gen, lease, failing)
		require.ErrorIs(t, err, errNoCallbacks)
	}
	require.NoError(t, other.Unregister())
	require.NoError(t, second.Unregister())

	// A registration that may go on keeps its name.
	failing.callbacks = true
	stuck, err := snowflakeotel.Register("default", gen, lease, failing)
	require.NoError(t, err)
	require.ErrorIs(t, stuck.Unregister(), errNoCallbacks)
	_, err = snowflakeotel.Register("default", gen, lease, failing)
	require.Error(t, err)
}

var errNoCallbacks = errors.New("no callbacks")

// failingProvider takes callbacks, if at all, for good.
type failingProvider struct {
	metric.MeterProvider
	callbacks bool
}

type failingMeter struct {
	metric.Meter
	callbacks bool
}

type failingRegistration struct{ metric.Registration }

func (p *failingProvider) Meter(name string, options ...metric.MeterOption) metric.Meter {
	return failingMeter{p.MeterProvider.Meter(name, options...), p.callbacks}
}

func (m failingMeter) RegisterCallback(f metric.Callback, of ...metric.Observable) (metric.Registration, error) {
	if !m.callbacks {
		return nil, errNoCallbacks
	}
	made, err := m.Meter.RegisterCallback(f, of...)
	return failingRegistration{made}, err
}

func (failingRegistration) Unregister() error { return errNoCallbacks }

func TestWaitsAreProduced(t *testing.T) {
	waits := snowflakeotel.NewWaits()
	reader := sdk.NewManualReader(sdk.WithProducer(waits))
	_ = sdk.NewMeterProvider(sdk.WithReader(reader))
	require.Empty(t, collect(t, reader))

	gen, lease := newGenerator(t, 3)
	remove := waits.Add("orders", gen, lease)
	_, err := gen.Fill(t.Context(), make([]snowflake.ID, 3*4096))
	require.NoError(t, err)
	histogram := collect(t, reader)["snowflake_wait_seconds"].(metricdata.Histogram[float64])
	require.Equal(t, metricdata.CumulativeTemporality, histogram.Temporality)
	require.Len(t, histogram.DataPoints, 1)
	point := histogram.DataPoints[0]
	stats := gen.Stats()
	require.EqualValues(t, 3*4096, point.Count)
	require.Equal(t, stats.Waits[:], point.BucketCounts)
	require.Len(t, point.Bounds, len(point.BucketCounts)-1)
	require.InDelta(t, stats.WaitSum.Seconds(), point.Sum, 0)
	require.Panics(t, func() { waits.Add("orders", gen, lease) })
	remove()
	remove = waits.Add("orders", gen, lease)
	remove()
	require.Empty(t, collect(t, reader))
	require.Panics(t, func() { waits.Add("none", nil, nil) })
}

// Through OpenTelemetry's exporter Prometheus gets what it gets from snowflakeprom: the same
// names, kinds, labels and values.
func TestPrometheusSeesTheSame(t *testing.T) {
	gen, lease := newGenerator(t, 3)
	_, err := gen.Fill(t.Context(), make([]snowflake.ID, 3*4096))
	require.NoError(t, err)
	gen.ReportDuplicate(1)

	direct := prometheus.NewPedanticRegistry()
	direct.MustRegister(snowflakeprom.NewCollector("orders", gen, lease))

	waits := snowflakeotel.NewWaits()
	waits.Add("orders", gen, lease)
	registry := prometheus.NewPedanticRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithProducer(waits),
		otelprom.WithoutScopeInfo(), otelprom.WithoutTargetInfo())
	require.NoError(t, err)
	_, err = snowflakeotel.Register("orders", gen, lease, sdk.NewMeterProvider(sdk.WithReader(exporter)))
	require.NoError(t, err)
	require.Equal(t, gather(t, direct), gather(t, registry))
}

// gather returns every value that does not move with time alone.
func gather(t *testing.T, g prometheus.Gatherer) map[string]string {
	t.Helper()
	families, err := g.Gather()
	require.NoError(t, err)
	values := map[string]string{}
	for _, family := range families {
		var lines []string
		for _, m := range family.GetMetric() {
			if strings.HasSuffix(family.GetName(), "_remaining_seconds") || strings.HasSuffix(family.GetName(), "_ceiling_seconds") || strings.HasSuffix(family.GetName(), "_ahead_ms") {
				m.Gauge = &dto.Gauge{Value: new(float64)}
			}
			if m.Counter != nil {
				m.Counter = &dto.Counter{Value: m.Counter.Value} // without the time of its start
			}
			if m.Histogram != nil {
				m.Histogram.CreatedTimestamp = nil
			}
			lines = append(lines, m.String())
		}
		values[family.GetName()] = family.GetType().String() + " " + family.GetHelp() + " " + strings.ReplaceAll(strings.Join(lines, "\n"), "  ", " ")
	}
	return values
}

func TestEveryMetricIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	documented := map[string]bool{}
	for line := range strings.Lines(string(doc)) {
		if name, ok := strings.CutPrefix(line, "//\tsnowflake_"); ok {
			name, _, _ = strings.Cut(name, " ")
			documented["snowflake_"+name] = true
		}
	}
	waits := snowflakeotel.NewWaits()
	reader := sdk.NewManualReader(sdk.WithProducer(waits))
	gen, lease := newGenerator(t, 3)
	waits.Add("orders", gen, lease)
	_, err = snowflakeotel.Register("orders", gen, lease, sdk.NewMeterProvider(sdk.WithReader(reader)))
	require.NoError(t, err)
	exported := map[string]bool{}
	for name := range collect(t, reader) {
		exported[name] = true
	}
	require.Equal(t, documented, exported)
}

func TestCollectionsWhileItWorks(t *testing.T) {
	waits := snowflakeotel.NewWaits()
	reader := sdk.NewManualReader(sdk.WithProducer(waits))
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		gen, lease := newGenerator(t, 3)
		all.Go(func() {
			for range 20 {
				registration, err := snowflakeotel.Register(name, gen, lease, provider)
				if err != nil {
					t.Error(err)
					return
				}
				remove := waits.Add(name, gen, lease)
				if _, err := gen.Next(); err != nil {
					t.Error(err)
				}
				var got metricdata.ResourceMetrics
				if err := reader.Collect(context.Background(), &got); err != nil {
					t.Error(err)
				}
				remove()
				if err := registration.Unregister(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
