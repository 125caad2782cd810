package bench

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/snowfence/snowflake"
)

// Crowds are what workload 7 measures.
type Crowds struct {
	Start time.Duration // until all had a lease and were ready
	Bytes float64       // of a generator
	Whole float64       // of a generator with its lease, goroutine and all
	Idle  float64       // cores, of all together, while nobody asks
}

// crowd is as many generators as the usual layout has codes.
const crowd = 1024

// Crowd is workload 7: many generators in one process, of which nobody wants anything.
func Crowd(d time.Duration) (c Crowds, err error) {
	ctx := context.Background()
	layout := oneRegion(UsualBits)
	all := make([]*snowflake.Generator, 0, crowd)
	closeAll := func() {
		for _, g := range all {
			err = errors.Join(err, g.Close(ctx))
		}
		clear(all)
		all = all[:0]
	}
	defer closeAll()

	leases := make([]given, crowd)
	for code := range crowd {
		leases[code].grant = snowflake.Grant{Code: code, Ceiling: layout.End()}
	}
	before := inUse()
	for code := range crowd {
		g, err := snowflake.New(ctx, snowflake.Config{Lease: &leases[code], Layout: layout})
		if err != nil {
			return c, err
		}
		all = append(all, g)
	}
	c.Bytes = (inUse() - before) / crowd
	closeAll()

	before = inUse()
	store, began := snowflake.NewMemoryStore(), time.Now()
	for range crowd {
		lease, err := snowflake.AcquireLease(ctx, store, snowflake.LeaseConfig{Layout: layout})
		if err != nil {
			return c, err
		}
		g, err := snowflake.New(ctx, snowflake.Config{Lease: lease})
		if err != nil {
			return c, errors.Join(err, lease.Close(ctx))
		}
		all = append(all, g)
	}
	c.Start = time.Since(began)
	c.Whole = (inUse() - before) / crowd
	cpu, began := cpuTime(), time.Now()
	time.Sleep(d)
	c.Idle = (cpuTime() - cpu).Seconds() / time.Since(began).Seconds()
	return c, err
}

// given is a lease that costs nothing: what is measured is the generator.
type given struct{ grant snowflake.Grant }

func (l *given) Grant() *snowflake.Grant { return &l.grant }

// inUse returns the bytes that heap and stacks hold.
func inUse() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
