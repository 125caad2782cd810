package snowflakeprom_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/telemetry/snowflakeprom"
)

func Example() {
	ctx := context.Background()
	lease, err := snowflake.AcquireLease(ctx, snowflake.NewMemoryStore(), snowflake.LeaseConfig{Region: 2})
	if err != nil {
		log.Fatal(err)
	}
	gen, err := snowflake.New(ctx, snowflake.Config{Lease: lease})
	if err != nil {
		log.Fatal(err)
	}
	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	registry.MustRegister(snowflakeprom.NewCollector("orders", gen, lease))
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{}) // for /metrics

	if _, err := gen.Next(); err != nil {
		log.Fatal(err)
	}
	answer := httptest.NewRecorder()
	metrics.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "snowflake_ids_total") {
			fmt.Print(line)
		}
	}
	if err := gen.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: snowflake_ids_total{generator="orders",region="2"} 1
}
