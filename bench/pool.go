package bench

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/snowfence/snowflake"
)

// Pooled is what workload 8 measures: IDs a second.
type Pooled struct{ Own, Pool, Shared float64 }

// generator is what a Generator and a Pool have in common.
type generator interface {
	Next() (snowflake.ID, error)
	Close(context.Context) error
}

// Spread is workload 8: two goroutines, on a generator each, on a pool of two, and on one
// generator.
func Spread(d time.Duration) (p Pooled, err error) {
	ctx, store := context.Background(), snowflake.NewMemoryStore()
	lease := snowflake.LeaseConfig{Layout: oneRegion(WideBits)} // of four codes
	pool, err := snowflake.NewPool(ctx, snowflake.PoolConfig{Store: store, Size: 2, Lease: lease})
	if err != nil {
		return p, err
	}
	all := []generator{pool}
	defer func() {
		for _, g := range all {
			err = errors.Join(err, g.Close(ctx))
		}
	}()
	for range 2 {
		held, err := snowflake.AcquireLease(ctx, store, lease)
		if err != nil {
			return p, err
		}
		g, err := snowflake.New(ctx, snowflake.Config{Lease: held})
		if err != nil {
			return p, errors.Join(err, held.Close(ctx))
		}
		all = append(all, g)
	}
	for _, m := range []struct {
		rate *float64
		a, b generator
	}{{&p.Own, all[1], all[2]}, {&p.Pool, pool, pool}, {&p.Shared, all[1], all[1]}} {
		if *m.rate, err = together(d, m.a, m.b); err != nil {
			return p, err
		}
	}
	return p, nil
}

// together returns the IDs a second that goroutines make, one on each generator, for d.
func together(d time.Duration, on ...generator) (perSecond float64, err error) {
	failed, made := make([]error, len(on)), make([]int, len(on))
	began := time.Now()
	var running sync.WaitGroup
	for i, g := range on {
		running.Go(func() {
			for failed[i] == nil && time.Since(began) < d {
				for range 4096 { // so that the clock is not what is measured
					if _, failed[i] = g.Next(); failed[i] != nil {
						break
					}
					made[i]++
				}
			}
		})
	}
	running.Wait()
	total := 0
	for _, n := range made {
		total += n
	}
	return float64(total) / time.Since(began).Seconds(), errors.Join(failed...)
}
