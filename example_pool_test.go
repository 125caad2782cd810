package snowflake_test

import (
	"context"
	"fmt"
	"log"

	"github.com/snowfence/snowflake"
)

// A process that must mint more than one worker code gives takes several: three of them
// hold 3 x 4,096 IDs in a millisecond.
func ExampleNewPool() {
	ctx := context.Background()
	pool, err := snowflake.NewPool(ctx, snowflake.PoolConfig{
		Store: snowflake.NewMemoryStore(), // DirStore, or a database, in real life
		Size:  3,
		Lease: snowflake.LeaseConfig{Region: 2},
	})
	if err != nil {
		log.Fatal(err)
	}
	ids := make([]snowflake.ID, 10_000)
	n, err := pool.Fill(ctx, ids)
	if err != nil {
		log.Fatal(err)
	}
	seen := make(map[snowflake.ID]bool)
	for _, id := range ids {
		seen[id] = true
	}
	fmt.Println(n, len(seen), pool.Health())
	if err := pool.Close(ctx); err != nil { // gives all codes back
		log.Fatal(err)
	}
	// Output: 10000 10000 <nil>
}
