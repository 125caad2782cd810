package snowflake_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/snowfence/snowflake"
)

// A worker code is leased from a store, and the generator gives it back in Close.
func Example() {
	ctx := context.Background()
	store := snowflake.NewMemoryStore() // DirStore, or a database, in real life
	lease, err := snowflake.AcquireLease(ctx, store, snowflake.LeaseConfig{
		Region: 2,
		Hooks:  snowflake.LogHooks(slog.Default()),
	})
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
	fmt.Println(parts.Region, time.Since(parts.Time) < time.Minute)
	if err := gen.Close(ctx); err != nil { // gives the code back
		log.Fatal(err)
	}
	// Output: 2 true
}

// Rows of a batch get their keys in one claim, and a preset key is kept.
func ExampleGenerator_Fill() {
	type row struct {
		ID   snowflake.ID
		Name string
	}
	gen := newGenerator()
	rows := []row{{Name: "a"}, {ID: 42, Name: "preset"}, {Name: "b"}}

	ids := make([]snowflake.ID, len(rows))
	if _, err := gen.Fill(context.Background(), ids); err != nil {
		log.Fatal(err)
	}
	for i := range rows {
		if rows[i].ID.IsZero() {
			rows[i].ID = ids[i]
		}
	}
	fmt.Println(rows[0].ID < rows[2].ID, rows[1].ID)
	if err := gen.Close(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output: true 42
}

// Errors tell those that pass from those that need a person.
func ExampleRetryable() {
	gen := newGenerator()
	_ = gen.Close(context.Background())
	_, err := gen.Next()
	fmt.Println(errors.Is(err, snowflake.ErrClosed), snowflake.Retryable(err))
	fmt.Println(snowflake.Retryable(snowflake.ErrLeaseLost))
	// Output:
	// true false
	// true
}

func newGenerator() *snowflake.Generator {
	lease, err := snowflake.AcquireLease(context.Background(), snowflake.NewMemoryStore(), snowflake.LeaseConfig{})
	if err != nil {
		log.Fatal(err)
	}
	gen, err := snowflake.New(context.Background(), snowflake.Config{Lease: lease})
	if err != nil {
		log.Fatal(err)
	}
	return gen
}
