package snowflake_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/snowfence/snowflake"
)

// Everything is logged, and what cannot wait for a scrape wakes somebody. Hooks must be
// quick, so the page is sent by a goroutine of its own, and an alarm that is already
// ringing is not rung again.
func ExampleHooks() {
	pages := make(chan string, 1)
	page := func(text string) {
		select {
		case pages <- text:
		default:
		}
	}

	hooks := snowflake.LogHooks(slog.New(slog.DiscardHandler)) // slog.Default() in real life
	logDuplicate := hooks.DuplicateReported
	hooks.DuplicateReported = func(id snowflake.ID, p snowflake.Parts) {
		logDuplicate(id, p)
		page(fmt.Sprintf("duplicate key %d: stop worker %d of region %d", id, p.Worker, p.Region))
	}
	logForgot := hooks.StoreForgot
	hooks.StoreForgot = func(e *snowflake.LeaseError) {
		logForgot(e)
		page(fmt.Sprintf("the lease store of region %d lost a write: fence the region", e.Region))
	}

	ctx := context.Background()
	lease, err := snowflake.AcquireLease(ctx, snowflake.NewMemoryStore(), snowflake.LeaseConfig{Region: 2, Hooks: hooks})
	if err != nil {
		log.Fatal(err)
	}
	gen, err := snowflake.New(ctx, snowflake.Config{Lease: lease, Hooks: hooks})
	if err != nil {
		log.Fatal(err)
	}

	// The insert of a row has failed because its key was there already.
	duplicate, err := gen.Layout().Pack(snowflake.Parts{Time: gen.Layout().Epoch, Region: 2, Worker: 7, Sequence: 1})
	if err != nil {
		log.Fatal(err)
	}
	gen.ReportDuplicate(duplicate)

	fmt.Println(<-pages) // for the pager
	if err := gen.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: duplicate key 2125825: stop worker 7 of region 2
}
