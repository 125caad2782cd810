// Run simulates many fleets on all cores, and sums up what they did. Run it in the root of
// the module:
//
//	go run ./internal/sim/run -seeds 10000
//
// It stops at the first broken invariant, with the seed and how to replay it. The summary
// goes to standard output, as JSON, and progress to standard error.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/snowfence/snowflake/internal/sim"
)

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	seeds := flag.Int("seeds", 1000, "how many seeds")
	first := flag.Int("seed", 1, "first seed")
	jobs := flag.Int("jobs", runtime.NumCPU(), "how many processes at once")
	burst := flag.Int("burst", 0, "the most IDs that a call asks for (0: the simulator's own)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	total, err := all(ctx, *first, *seeds, *jobs, *burst)
	if total.Seeds > 0 {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "\t")
		err = errors.Join(err, out.Encode(total))
		log.Print(total)
	}
	if err != nil {
		return err
	}
	if missing := sim.Missing(total.Hits, total.Seeds); len(missing) > 0 {
		return fmt.Errorf("never reached: %q", missing)
	}
	return nil
}

// batch is how many seeds a process does.
const batch = 50

// all runs the seeds in batches, jobs at once, and returns the sum of those that ended well.
func all(ctx context.Context, first, seeds, jobs, burst int) (total sim.Summary, err error) {
	dir, err := os.MkdirTemp("", "snowflake-sim-")
	if err != nil {
		return total, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "sim.test")
	if out, err := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "./internal/sim").CombinedOutput(); err != nil {
		return total, fmt.Errorf("building the simulator: %w: %s", err, out)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	starts := make(chan int)
	var workers sync.WaitGroup
	var mu sync.Mutex // protects total
	began, told := time.Now(), time.Now()
	for job := range jobs {
		workers.Go(func() {
			summary := filepath.Join(dir, "summary-"+strconv.Itoa(job))
			for start := range starts {
				s, err := one(ctx, binary, summary, start, min(batch, first+seeds-start), burst)
				if err != nil {
					stop(err)
					return
				}
				mu.Lock()
				total.Join(s)
				total.Seconds = time.Since(began).Seconds()
				if time.Since(told) > 10*time.Second {
					told = time.Now()
					log.Print(total)
				}
				mu.Unlock()
			}
		})
	}
	for start := first; start < first+seeds && ctx.Err() == nil; start += batch {
		select {
		case starts <- start:
		case <-ctx.Done():
		}
	}
	close(starts)
	workers.Wait()
	return total, context.Cause(ctx)
}

// one runs a batch in a process of its own, on one core: bubbles of one process would
// contend for its scheduler.
func one(ctx context.Context, binary, summary string, start, seeds, burst int) (s sim.Summary, err error) {
	run := exec.CommandContext(ctx, binary, "-test.timeout=0", "-sim.coverage=false", "-sim.summary="+summary,
		fmt.Sprintf("-sim.seed=%d", start), fmt.Sprintf("-sim.seeds=%d", seeds), fmt.Sprintf("-sim.burst=%d", burst))
	run.Env = append(os.Environ(), "GOMAXPROCS=1")
	if out, err := run.CombinedOutput(); err != nil {
		return s, errors.Join(err, errors.New(string(out)))
	}
	data, err := os.ReadFile(summary)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(data, &s)
}
