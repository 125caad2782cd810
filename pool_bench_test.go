package snowflake

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// A pool of two beside two generators of two goroutines, which is the best there is, and
// beside one that they share. What one goroutine pays is the difference at 1.
func BenchmarkPool(b *testing.B) {
	for _, callers := range []int{1, 2} {
		b.Run(fmt.Sprintf("generators of their own, %d callers", callers), func(b *testing.B) {
			own := make([]*Generator, callers)
			for i := range own {
				own[i] = leasedGenerator(b)
			}
			share(b, callers, func(i int) func() (ID, error) { return own[i].Next })
		})
		b.Run(fmt.Sprintf("pool, %d callers", callers), func(b *testing.B) {
			p, err := NewPool(b.Context(), PoolConfig{Store: NewMemoryStore(), Size: 2, Lease: LeaseConfig{Layout: wide()}})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = p.Close(context.Background()) }()
			share(b, callers, func(int) func() (ID, error) { return p.Next })
		})
		b.Run(fmt.Sprintf("one generator, %d callers", callers), func(b *testing.B) {
			g := leasedGenerator(b)
			share(b, callers, func(int) func() (ID, error) { return g.Next })
		})
	}
}

func leasedGenerator(b *testing.B) *Generator {
	lease, err := AcquireLease(b.Context(), NewMemoryStore(), LeaseConfig{Layout: wide()})
	if err != nil {
		b.Fatal(err)
	}
	g, err := New(b.Context(), Config{Lease: lease})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = g.Close(context.Background()) })
	return g
}

// share has b.N IDs made by callers side by side.
func share(b *testing.B, callers int, next func(caller int) func() (ID, error)) {
	cpu, began := cpuTime(), time.Now()
	var running sync.WaitGroup
	for i := range callers {
		mint := next(i)
		running.Go(func() {
			for range b.N / callers {
				if _, err := mint(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	b.ReportMetric(float64((cpuTime()-cpu).Nanoseconds())/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds()/1e6, "M/s")
}
