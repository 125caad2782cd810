package snowflakeotel_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/snowflaketest"
	"github.com/snowfence/snowflake/telemetry/snowflakeotel"
)

type telling struct{ snowflake.LeaseStore }

func (telling) Time(context.Context) (time.Time, error) { return time.Now(), nil }

type forgetting struct{ snowflake.LeaseStore }

func (forgetting) MayForget() bool { return true }

type both struct {
	telling
	forgetting
}

func (b both) Records(ctx context.Context, region int) ([]snowflake.Record, error) {
	return b.telling.Records(ctx, region)
}

func (b both) Swap(ctx context.Context, old, new snowflake.Record) (snowflake.Record, error) {
	return b.telling.Swap(ctx, old, new)
}

type failing struct{ snowflake.LeaseStore }

var errCut = errors.New("cut off")

func (failing) Records(context.Context, int) ([]snowflake.Record, error) { return nil, errCut }
func (failing) Time(context.Context) (time.Time, error)                  { return time.Time{}, errCut }

func newTracer() (*tracetest.SpanRecorder, *sdktrace.TracerProvider) {
	recorder := tracetest.NewSpanRecorder()
	return recorder, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
}

// What a store can tell beyond the two operations decides how leases judge clocks and
// whether they settle: a wrapper must neither hide it nor make it up.
func TestOptionalMethodsPassThrough(t *testing.T) {
	memory := snowflake.NewMemoryStore()
	for name, row := range map[string]struct {
		store          snowflake.LeaseStore
		tells, forgets bool
	}{
		"none":   {memory, false, false},
		"time":   {telling{memory}, true, false},
		"forget": {forgetting{memory}, false, true},
		"both":   {both{telling{memory}, forgetting{memory}}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			recorder, provider := newTracer()
			traced := snowflakeotel.TraceStore(row.store, provider)
			clock, tells := traced.(interface {
				Time(ctx context.Context) (time.Time, error)
			})
			forgetful, forgets := traced.(interface{ MayForget() bool })
			require.Equal(t, row.tells, tells)
			require.Equal(t, row.forgets, forgets)
			if tells {
				now, err := clock.Time(t.Context())
				require.NoError(t, err)
				require.WithinDuration(t, time.Now(), now, time.Minute)
				require.Equal(t, "snowflake.lease.Time", recorder.Ended()[0].Name())
			}
			if forgets {
				require.True(t, forgetful.MayForget())
			}
			_, err := traced.Records(t.Context(), 1)
			require.NoError(t, err)
		})
	}
}

// A store that is traced is a store.
func TestTracedStoreConforms(t *testing.T) {
	_, provider := newTracer()
	snowflaketest.TestLeaseStore(t, func(*testing.T) snowflake.LeaseStore {
		return snowflakeotel.TraceStore(snowflake.NewMemoryStore(), provider)
	})
}

// An acquisition is a child of the caller's span; the spans of a release are roots.
func TestLeaseOperationsAreSpans(t *testing.T) {
	recorder, provider := newTracer()
	store := snowflakeotel.TraceStore(snowflake.NewMemoryStore(), provider)
	ctx, starting := provider.Tracer("test").Start(t.Context(), "starting")
	lease, err := snowflake.AcquireLease(ctx, store, snowflake.LeaseConfig{Region: 3})
	require.NoError(t, err)
	starting.End()
	worker := lease.Stats().Worker
	acquiring := recorder.Ended()
	require.NoError(t, lease.Close(t.Context()))

	spans := map[string]sdktrace.ReadOnlySpan{}
	for _, span := range acquiring {
		if span.Name() != "starting" {
			require.Equal(t, starting.SpanContext().SpanID(), span.Parent().SpanID(), span.Name())
			spans[span.Name()] = span // the last of each
		}
	}
	require.Len(t, spans, 2)
	require.Contains(t, spans["snowflake.lease.Records"].Attributes(), attribute.Int("snowflake.region", 3))
	swap := spans["snowflake.lease.Swap"].Attributes()
	require.Contains(t, swap, attribute.Int("snowflake.worker", worker))
	require.Contains(t, swap, attribute.Int64("snowflake.token", 1))
	require.Contains(t, swap, attribute.Bool("snowflake.released", false))

	all := recorder.Ended()
	release := all[len(all)-1]
	require.Equal(t, "snowflake.lease.Swap", release.Name())
	require.False(t, release.Parent().IsValid())
	require.Contains(t, release.Attributes(), attribute.Bool("snowflake.released", true))
}

// A conflict is what a compare-and-swap is for; everything else is an error, which the caller
// gets as it was.
func TestErrorsAreTold(t *testing.T) {
	recorder, provider := newTracer()
	store := snowflakeotel.TraceStore(snowflake.NewMemoryStore(), provider)
	_, err := store.Swap(t.Context(), snowflake.Record{Worker: 1, Version: 7, Nonce: "x"}, snowflake.Record{Worker: 1, Nonce: "y"})
	require.ErrorIs(t, err, snowflake.ErrConflict)
	span := recorder.Ended()[0]
	require.Contains(t, span.Attributes(), attribute.Bool("snowflake.conflict", true))
	require.Equal(t, codes.Unset, span.Status().Code)

	store = snowflakeotel.TraceStore(failing{}, provider)
	_, err = store.Records(t.Context(), 1)
	require.Equal(t, errCut, err)
	span = recorder.Ended()[1]
	require.Equal(t, codes.Error, span.Status().Code)
	require.Equal(t, "cut off", span.Status().Description)
	require.Len(t, span.Events(), 1)
	_, err = store.(interface {
		Time(ctx context.Context) (time.Time, error)
	}).Time(t.Context())
	require.Equal(t, errCut, err)
	require.Equal(t, codes.Error, recorder.Ended()[2].Status().Code)
}
