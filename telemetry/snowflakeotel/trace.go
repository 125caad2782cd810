package snowflakeotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/snowfence/snowflake"
)

// TraceStore returns store with a span around each request: snowflake.lease.Records,
// snowflake.lease.Swap and, where the store tells the time, snowflake.lease.Time. They have the
// region, worker, token and version as attributes, and are children of the span in the context
// of AcquireLease; renewals happen in the background and are roots. A conflict is an
// outcome, told by the attribute snowflake.conflict; every other error is the span's error, with the
// store's own text.
//
// The returned store has the optional methods Time and MayForget exactly if store has.
func TraceStore(store snowflake.LeaseStore, provider trace.TracerProvider) snowflake.LeaseStore {
	traced := tracedStore{store, provider.Tracer(scope)}
	clock, tells := store.(storeClock)
	forgets, may := store.(forgetful)
	switch {
	case tells && may:
		return struct {
			tracedStore
			tracedClock
			forgetful
		}{traced, tracedClock{clock, traced.tracer}, forgets}
	case tells:
		return struct {
			tracedStore
			tracedClock
		}{traced, tracedClock{clock, traced.tracer}}
	case may:
		return struct {
			tracedStore
			forgetful
		}{traced, forgets}
	}
	return traced
}

// The optional methods of a LeaseStore.
type (
	storeClock interface {
		Time(ctx context.Context) (time.Time, error)
	}
	forgetful interface{ MayForget() bool }
)

type tracedStore struct {
	store  snowflake.LeaseStore
	tracer trace.Tracer
}

var _ snowflake.LeaseStore = tracedStore{}

// Records asks the store, in a span.
func (s tracedStore) Records(ctx context.Context, region int) ([]snowflake.Record, error) {
	ctx, span := start(ctx, s.tracer, "Records", attribute.Int("snowflake.region", region))
	defer span.End()
	records, err := s.store.Records(ctx, region)
	span.SetAttributes(attribute.Int("snowflake.records", len(records)))
	finish(span, err)
	return records, err
}

// Swap asks the store, in a span.
func (s tracedStore) Swap(ctx context.Context, old, new snowflake.Record) (snowflake.Record, error) {
	ctx, span := start(ctx, s.tracer, "Swap",
		attribute.Int("snowflake.region", new.Region), attribute.Int("snowflake.worker", new.Worker),
		attribute.Int64("snowflake.token", int64(new.Token)), attribute.Int64("snowflake.version", int64(old.Version)),
		attribute.Bool("snowflake.released", new.Released), attribute.String("snowflake.ceiling", new.Ceiling.UTC().Format(time.RFC3339Nano)))
	defer span.End()
	stored, err := s.store.Swap(ctx, old, new)
	finish(span, err)
	return stored, err
}

type tracedClock struct {
	clock  storeClock
	tracer trace.Tracer
}

// Time asks the store, in a span.
func (c tracedClock) Time(ctx context.Context) (time.Time, error) {
	ctx, span := start(ctx, c.tracer, "Time")
	defer span.End()
	now, err := c.clock.Time(ctx)
	finish(span, err)
	return now, err
}

func start(ctx context.Context, tracer trace.Tracer, operation string, attributes ...attribute.KeyValue) (context.Context, trace.Span) {
	return tracer.Start(ctx, "snowflake.lease."+operation, trace.WithAttributes(attributes...))
}

// finish says how a request ended.
func finish(span trace.Span, err error) {
	switch {
	case err == nil:
	case errors.Is(err, snowflake.ErrConflict):
		span.SetAttributes(attribute.Bool("snowflake.conflict", true))
	default:
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
}
