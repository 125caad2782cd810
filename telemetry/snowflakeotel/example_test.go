package snowflakeotel_test

import (
	"context"
	"fmt"
	"log"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/telemetry/snowflakeotel"
)

func Example() {
	ctx := context.Background()
	waits := snowflakeotel.NewWaits()
	reader := sdkmetric.NewManualReader(sdkmetric.WithProducer(waits)) // a periodic one in real life
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	tracers := sdktrace.NewTracerProvider()

	store := snowflakeotel.TraceStore(snowflake.NewMemoryStore(), tracers)
	lease, err := snowflake.AcquireLease(ctx, store, snowflake.LeaseConfig{Region: 2})
	if err != nil {
		log.Fatal(err)
	}
	gen, err := snowflake.New(ctx, snowflake.Config{Lease: lease})
	if err != nil {
		log.Fatal(err)
	}
	registration, err := snowflakeotel.Register("orders", gen, lease, meters)
	if err != nil {
		log.Fatal(err)
	}
	remove := waits.Add("orders", gen, lease)

	if _, err := gen.Next(); err != nil {
		log.Fatal(err)
	}
	var collected metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &collected); err != nil {
		log.Fatal(err)
	}
	for _, scope := range collected.ScopeMetrics {
		for _, m := range scope.Metrics {
			if ids, ok := m.Data.(metricdata.Sum[float64]); ok && m.Name == "snowflake_ids_total" {
				fmt.Println(m.Name, ids.DataPoints[0].Value)
			}
		}
	}

	remove()
	if err := registration.Unregister(); err != nil {
		log.Fatal(err)
	}
	if err := gen.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: snowflake_ids_total 1
}
