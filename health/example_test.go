package health_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/health"
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
	probes := http.NewServeMux()
	probes.Handle("/readyz", health.Ready(map[string]health.Checker{"orders": gen}))
	probes.Handle("/livez", health.Live())

	answer := httptest.NewRecorder()
	probes.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	fmt.Println(answer.Code)
	fmt.Print(answer.Body)
	if err := gen.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 200
	// ready
	// orders: ready
}
