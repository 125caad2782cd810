// Hello mints one ID and shows what it says. The leases are in a folder "leases" of
// the working directory.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/snowfence/snowflake"
)

func main() {
	ctx := context.Background()
	store, err := snowflake.DirStore("leases") // one machine; for more, a database: stores/sqlstore
	if err != nil {
		log.Fatal(err)
	}
	lease, err := snowflake.AcquireLease(ctx, store, snowflake.LeaseConfig{Region: 0})
	if err != nil {
		log.Fatal(err)
	}
	gen, err := snowflake.New(ctx, snowflake.Config{Lease: lease})
	if err != nil {
		log.Fatal(err)
	}

	id, err := gen.Next()
	if err != nil {
		log.Fatal(err)
	}
	parts, err := gen.Layout().Unpack(id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(id, "minted at", parts.Time, "by worker", parts.Worker)

	if err := gen.Close(ctx); err != nil { // gives the worker code back
		log.Fatal(err)
	}
}
