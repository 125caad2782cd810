package bench

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// Options say how long a run takes.
type Options struct {
	Rounds int
	Timed  time.Duration // of each subject in each round, workloads 1 to 3
	Long   time.Duration // the same, workloads 4 to 6
	Only   []string      // workloads; empty: all
	Peers  string        // only those whose name contains it
	Log    func(format string, args ...any)
}

// The workloads.
const (
	cost        = "cost"
	parallel    = "parallel"
	fill        = "fill"
	saturated1  = "saturated-1"
	saturated64 = "saturated-64"
	burst       = "burst"
	offered     = "offered"
	crowded     = "crowd"
	pooled      = "pool"
)

// Works names the workloads in their order.
var Works = []string{cost, parallel, fill, saturated1, saturated64, burst, offered, crowded, pooled}

const (
	burstSize      = 3000
	offeredCallers = 1000
	warmUp         = 100 * time.Millisecond
)

// workload says who takes part in one, with how many sequence bits, and what is done.
type workload struct {
	bits  int
	suits func(Peer) bool
	run   func(r *Results, p Peer, s Source, o Options) error
}

func workloads() map[string]workload {
	generates := func(p Peer) bool { return !p.Floor }
	unlimited := func(p Peer) bool { return p.Chosen || p.Runs || p.Limit == 0 }
	strictly := func(p Peer) bool { return p.Name != oursAhead }
	saturate := func(work string, callers int) workload {
		return workload{UsualBits, func(p Peer) bool { return generates(p) && p.PerMilli(UsualBits) > 0 },
			func(r *Results, p Peer, s Source, o Options) error {
				got := Saturate(s, callers, warmUp, o.Long)
				r.add(work, p.Name, "%limit", got.PerSecond/p.PerMilli(UsualBits)/10)
				r.add(work, p.Name, "cores", got.Cores)
				r.add(work, p.Name, "%refused", 100*got.Refused)
				r.add(work, p.Name, "ahead-ms", float64(got.Ahead.Milliseconds()))
				return nil
			}}
	}
	return map[string]workload{
		cost:     {WideBits, unlimited, benchmark(cost, Cost)},
		parallel: {WideBits, unlimited, benchmark(parallel, Parallel)},
		fill: {WideBits, func(p Peer) bool { return p.Ours || p.Name == floorName },
			benchmark(fill, Fill)},
		saturated1:  saturate(saturated1, 1),
		saturated64: saturate(saturated64, 64),
		burst: {UsualBits, func(p Peer) bool {
			holds := p.PerMilli(UsualBits) == 0 || p.PerMilli(UsualBits) >= burstSize
			return strictly(p) && holds && (generates(p) || p.Name == floorName)
		}, runBurst},
		offered: {SmallBits, func(p Peer) bool {
			return generates(p) && strictly(p) && p.PerMilli(SmallBits) > 0 && !p.Runs
		}, runOffered},
		crowded: {UsualBits, func(p Peer) bool { return p.Ours && strictly(p) }, runCrowd},
		pooled:  {UsualBits, func(p Peer) bool { return p.Ours && strictly(p) }, runPool},
	}
}

func benchmark(work string, f func(*testing.B, Source)) func(*Results, Peer, Source, Options) error {
	return func(r *Results, p Peer, s Source, o Options) error {
		testing.Init()
		if err := flag.Set("test.benchtime", o.Timed.String()); err != nil {
			return err
		}
		got := testing.Benchmark(func(b *testing.B) { b.Helper(); f(b, s) })
		if got.N == 0 {
			return errors.New("the benchmark failed")
		}
		r.add(work, p.Name, "ns/op", float64(got.T.Nanoseconds())/float64(got.N))
		r.add(work, p.Name, "allocs/op", float64(got.AllocsPerOp()))
		for unit, value := range got.Extra {
			r.add(work, p.Name, unit, value)
		}
		return nil
	}
}

// quantiles of workload 5; 1 is the longest call.
var quantiles = []struct {
	q    float64
	unit string
}{{0.5, "p50-ns"}, {0.99, "p99-ns"}, {0.999, "p99.9-ns"}, {0.9999, "p99.99-ns"}, {1, "max-ns"}}

func runBurst(r *Results, p Peer, s Source, o Options) error {
	got := Burst(s, burstSize, o.Long)
	if got.Errors > 0 {
		return fmt.Errorf("%d of %d calls failed", got.Errors, got.Asked)
	}
	for _, q := range quantiles {
		r.add(burst, p.Name, q.unit, float64(got.Calls.Quantile(q.q)))
	}
	if s.Milli != nil {
		r.add(burst, p.Name, "%intended", 100*float64(got.Intended)/float64(got.Asked))
		if got.InTime > 0 {
			r.add(burst, p.Name, "%in-time-intended", 100*float64(got.InTimeIntended)/float64(got.InTime))
		}
	}
	r.add(burst, p.Name, "%in-time", 100*float64(got.InTime)/float64(got.Asked))
	if r.calls[p.Name] == nil {
		r.calls[p.Name] = &Histogram{}
	}
	r.calls[p.Name].Merge(&got.Calls)
	return nil
}

func runOffered(r *Results, p Peer, s Source, o Options) error {
	limit := p.PerMilli(SmallBits)
	got, err := Offered(s, offeredCallers, 2*limit, o.Long)
	if err != nil {
		return err
	}
	for _, q := range []struct {
		q    float64
		unit string
	}{{0.5, "p50-ms"}, {0.99, "p99-ms"}, {1, "max-ms"}} {
		r.add(offered, p.Name, q.unit, float64(got.Accepted.Quantile(q.q))/1e6)
	}
	all := got.Accepted.Count() + got.Refused.Count()
	r.add(offered, p.Name, "xlimit", got.Offered/limit)
	r.add(offered, p.Name, "%refused", 100*float64(got.Refused.Count())/float64(all))
	if got.Refused.Count() > 0 {
		r.add(offered, p.Name, "refused-p99-us", float64(got.Refused.Quantile(0.99))/1e3)
	}
	return nil
}

// runCrowd and runPool make generators of their own.
func runCrowd(r *Results, p Peer, _ Source, o Options) error {
	got, err := Crowd(o.Long)
	if err != nil {
		return err
	}
	r.add(crowded, p.Name, "start-s", got.Start.Seconds())
	r.add(crowded, p.Name, "bytes", got.Bytes)
	r.add(crowded, p.Name, "bytes-leased", got.Whole)
	r.add(crowded, p.Name, "%cpu", 100*got.Idle)
	return nil
}

func runPool(r *Results, p Peer, _ Source, o Options) error {
	got, err := Spread(o.Timed)
	if err != nil {
		return err
	}
	r.add(pooled, p.Name, "own-M/s", got.Own/1e6)
	r.add(pooled, p.Name, "pool-M/s", got.Pool/1e6)
	r.add(pooled, p.Name, "shared-M/s", got.Shared/1e6)
	r.add(pooled, p.Name, "of-own", got.Pool/got.Own)
	return nil
}

// Run measures everything, in rounds. In each, the subjects of a workload come in
// another order.
func Run(o Options) (*Results, error) {
	r := NewResults(o.Rounds)
	all := workloads()
	for round := range o.Rounds {
		for _, work := range Works {
			if len(o.Only) > 0 && !slices.Contains(o.Only, work) {
				continue
			}
			peers := slices.DeleteFunc(Peers(), func(p Peer) bool { return !all[work].suits(p) || !strings.Contains(p.Name, o.Peers) })
			rand.Shuffle(len(peers), func(i, j int) { peers[i], peers[j] = peers[j], peers[i] })
			o.Log("round %d of %d: %s", round+1, o.Rounds, work)
			for _, p := range peers {
				if err := measure(r, all[work], p, o); err != nil {
					return nil, fmt.Errorf("%s: %s: %w", work, p.Name, err)
				}
			}
		}
	}
	return r, nil
}

func measure(r *Results, w workload, p Peer, o Options) error {
	s, err := p.Open(w.bits)
	if err != nil {
		return err
	}
	if s.Close != nil {
		defer s.Close()
	}
	runtime.GC()
	return w.run(r, p, s, o)
}
