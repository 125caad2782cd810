// Package bench measures this library beside its peers: all of them do the same work
// in one process, in rounds, in an order that changes with each round.
//
//	go -C bench run ./cmd/report      # writes docs/benchmarks.md and its plots
//	go -C bench test -bench .         # the first three workloads, for benchstat
package bench

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/snowfence/snowflake"
)

// Cost is workload 1: one goroutine makes IDs, as fast as it can. cpu-ns/op is what the
// process used for each, whoever else had the machine meanwhile.
func Cost(b *testing.B, s Source) {
	b.Helper()
	b.ReportAllocs()
	var sink uint64
	cpu := cpuTime()
	for b.Loop() {
		id, err := s.Next()
		if err != nil {
			b.Fatal(err)
		}
		sink ^= id
	}
	if cpu = cpuTime() - cpu; cpu > 0 {
		b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N), "cpu-ns/op")
	}
	runtime.KeepAlive(sink)
}

// Parallel is workload 2: two goroutines on two cores share one generator.
func Parallel(b *testing.B, s Source) {
	b.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Next(); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// Fill is workload 3: batches of 1,000. Its unit is ns/ID.
func Fill(b *testing.B, s Source) {
	b.Helper()
	ids := make([]snowflake.ID, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Fill(ids); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(ids)), "ns/ID")
}

// Saturation is what workload 4 measures.
type Saturation struct {
	PerSecond float64
	Cores     float64
	Refused   float64       // share of the calls
	Ahead     time.Duration // of the last ID, before the clock
}

// Saturate is workload 4: callers ask without a pause. Only what happens between a
// warm-up and the end is counted.
func Saturate(s Source, callers int, warmUp, d time.Duration) Saturation {
	const warming, counting, over = 0, 1, 2
	var phase atomic.Int32
	var made, refused atomic.Int64
	var last atomic.Uint64
	var running sync.WaitGroup
	for range callers {
		running.Go(func() {
			var ok, no [3]int64
			var id uint64
			for at := phase.Load(); at != over; at = phase.Load() {
				got, err := s.Next()
				if err != nil {
					no[at]++
					continue
				}
				id = got
				ok[at]++
			}
			made.Add(ok[counting])
			refused.Add(no[counting])
			for seen := last.Load(); id > seen && !last.CompareAndSwap(seen, id); seen = last.Load() {
			}
		})
	}
	time.Sleep(warmUp)
	phase.Store(counting)
	cpu, began := cpuTime(), time.Now()
	time.Sleep(d)
	phase.Store(over)
	cpu, took := cpuTime()-cpu, time.Since(began)
	running.Wait()
	ended := wallNanos() / 1e6
	result := Saturation{PerSecond: float64(made.Load()) / took.Seconds(), Cores: cpu.Seconds() / took.Seconds()}
	if n := refused.Load(); n > 0 {
		result.Refused = float64(n) / float64(n+made.Load())
	}
	if s.Milli != nil {
		result.Ahead = time.Duration(max(s.Milli(last.Load())-ended, 0)) * time.Millisecond
	}
	return result
}

// Bursts is what workload 5 measures.
type Bursts struct {
	Calls    Histogram // with one reading of the monotonic clock for each
	Asked    int
	Intended int // IDs that carry the millisecond that they were asked for in
	// The same for bursts that were over before their millisecond was: in the others
	// nobody could have done it.
	InTime, InTimeIntended int
	Errors                 int
}

// Burst is workload 5: n IDs in each millisecond, every call timed. It waits for a
// millisecond by looking at the clock all the time, so that what it measures is the
// generator and not the sleep.
func Burst(s Source, n int, d time.Duration) *Bursts {
	result := &Bursts{}
	calls, ids := make([]uint32, n), make([]uint64, n)
	start := time.Now()
	milli := wallNanos()/1e6 + 2
	for end := milli + d.Milliseconds(); milli < end; {
		for wallNanos() < milli*1e6 {
		}
		last := time.Since(start)
		for i := range n {
			id, err := s.Next()
			now := time.Since(start)
			if err != nil {
				id, result.Errors = 0, result.Errors+1
			}
			calls[i], ids[i] = uint32(now-last), id
			last = now
		}
		ended := wallNanos() / 1e6
		intended := 0
		for i := range n {
			result.Calls.Add(int64(calls[i]))
			if s.Milli != nil && ids[i] != 0 && s.Milli(ids[i]) == milli {
				intended++
			}
		}
		result.Asked += n
		result.Intended += intended
		if ended == milli {
			result.InTime += n
			result.InTimeIntended += intended
		}
		milli = wallNanos()/1e6 + 1
	}
	return result
}

// Offer is what workload 6 measures.
type Offer struct {
	Accepted Histogram
	Refused  Histogram
	Offered  float64 // calls per millisecond that were made; fewer than intended if callers were kept
}

// Offered is workload 6: callers of which each calls at its own times, perMilli times
// a millisecond together, and takes what comes.
func Offered(s Source, callers int, perMilli float64, d time.Duration) (*Offer, error) {
	type call struct {
		nanos   int64
		refused bool
	}
	every := time.Duration(float64(callers) / perMilli * 1e6)
	all := make([][]call, callers)
	failed := make(chan error, callers)
	var running sync.WaitGroup
	start := time.Now()
	for c := range callers {
		all[c] = make([]call, 0, int(d/every)+2)
		running.Go(func() {
			due := every * time.Duration(c) / time.Duration(callers)
			for ; ; due += every {
				if wait := due - time.Since(start); wait > 0 {
					time.Sleep(wait)
				}
				began := time.Since(start)
				if began > d {
					return
				}
				_, err := s.Next()
				took := time.Since(start) - began
				if err != nil && !errors.Is(err, snowflake.ErrSaturated) {
					failed <- err
					return
				}
				all[c] = append(all[c], call{int64(took), err != nil})
			}
		})
	}
	running.Wait()
	select {
	case err := <-failed:
		return nil, err
	default:
	}
	result := &Offer{}
	for _, calls := range all {
		for _, c := range calls {
			if c.refused {
				result.Refused.Add(c.nanos)
			} else {
				result.Accepted.Add(c.nanos)
			}
		}
	}
	result.Offered = float64(result.Accepted.n+result.Refused.n) / (d.Seconds() * 1e3)
	return result, nil
}
