package snowflake

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Ratios within one run are what these tell; absolute times belong to the machine.

// wide is a layout whose ticks are never full, so that the code is measured and not the
// wait: 2^24 IDs in a millisecond.
func wide() Layout {
	return Layout{Epoch: DefaultLayout().Epoch, TimeBits: 38, WorkerBits: 1, SequenceBits: 24}
}

func benchGenerator(b *testing.B, cfg Config) *Generator {
	cfg.Lease, cfg.HighWater = StaticLease(1), NoHighWater()
	g, err := New(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = g.Close(context.Background()) })
	return g
}

// The floor under Next: a mutex and one reading of the wall clock.
func BenchmarkMutexAndWallClock(b *testing.B) {
	var mu sync.Mutex
	var last int64
	b.ReportAllocs()
	for b.Loop() {
		mu.Lock()
		last = wallNanos()
		mu.Unlock()
	}
	_ = last
}

func BenchmarkWallClock(b *testing.B) {
	b.Run("fast", func(b *testing.B) {
		for b.Loop() {
			_ = wallNanos()
		}
	})
	b.Run("portable", func(b *testing.B) {
		for b.Loop() {
			_ = portableWallNanos()
		}
	})
}

func BenchmarkNext(b *testing.B) {
	g := benchGenerator(b, Config{Layout: wide()})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNextContext(b *testing.B) {
	g := benchGenerator(b, Config{Layout: wide()})
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.NextContext(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// The first claim of a tick looks at everything: division, floor, ceiling, mark.
func BenchmarkNewTick(b *testing.B) {
	g := benchGenerator(b, Config{Layout: wide()})
	now := wallNanos()
	b.ReportAllocs()
	for b.Loop() {
		now += int64(time.Millisecond)
		g.mu.Lock()
		_, err := g.nextID(now, budget{}, 1)
		g.mu.Unlock()
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFill1000(b *testing.B) {
	g := benchGenerator(b, Config{Layout: wide()})
	ids := make([]ID, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Fill(context.Background(), ids); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(ids)), "ns/id")
}

func BenchmarkParallel(b *testing.B) {
	b.Run("mutex and wall clock", func(b *testing.B) {
		var mu sync.Mutex
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				mu.Lock()
				_ = wallNanos()
				mu.Unlock()
			}
		})
	})
	b.Run("Next", func(b *testing.B) {
		g := benchGenerator(b, Config{Layout: wide()})
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if _, err := g.Next(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}

// A saturated generator: 4,096 IDs in each millisecond, which it should reach without
// burning the core that spinning would. See also BenchmarkBurst.
func BenchmarkSaturated(b *testing.B) {
	for _, callers := range []int{1, 2, 64} {
		b.Run(fmt.Sprintf("%d callers", callers), func(b *testing.B) {
			layout := DefaultLayout()
			g := benchGenerator(b, Config{Layout: layout, MaxWait: time.Second})
			cpu, began := cpuTime(), time.Now()
			var left atomic.Int64
			left.Store(int64(b.N))
			var running sync.WaitGroup
			b.ResetTimer()
			for range callers {
				running.Go(func() {
					for left.Add(-64) > -64 {
						for range 64 {
							if _, err := g.Next(); err != nil {
								b.Error(err)
								return
							}
						}
					}
				})
			}
			running.Wait()
			took := time.Since(began)
			b.ReportMetric(100*float64(g.Stats().IDs)/took.Seconds()/4_096_000, "%of4096/ms")
			b.ReportMetric((cpuTime()-cpu).Seconds()/took.Seconds(), "cores")
		})
	}
}

// 3,000 IDs in one millisecond, each call timed.
func BenchmarkBurst(b *testing.B) {
	g := benchGenerator(b, Config{})
	var calls []time.Duration
	for b.Loop() {
		time.Sleep(2 * time.Millisecond)
		for range 3000 {
			began := monotonic()
			if _, err := g.Next(); err != nil {
				b.Fatal(err)
			}
			calls = append(calls, monotonic()-began)
		}
	}
	slices.Sort(calls)
	for name, share := range map[string]float64{"p50-ns": 0.5, "p99-ns": 0.99, "p99.9-ns": 0.999, "p99.99-ns": 0.9999} {
		b.ReportMetric(float64(calls[int(share*float64(len(calls)))]), name)
	}
	b.ReportMetric(0, "ns/op")
}
