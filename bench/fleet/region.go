package main

import (
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/stores/etcdstore"
)

// regionVariable is set in the environment of a process that is to be a region.
const regionVariable = "SNOWFLAKE_FLEET_REGION"

// order is what a region is told when it starts. When all have their leases, it is told
// on its standard input when to begin; and when that ends, to end.
type order struct {
	Plan
	Region    int
	Endpoints []string
}

// Message is what a region says, in gob, on its standard output: that it is ready, then the
// runs as they come, then its result.
type Message struct {
	Ready  bool
	Runs   []Run
	Result *Result
	Error  string
}

// Result is what a region has measured.
type Result struct {
	Region        int
	Bursts, Whole int // Whole: all IDs of the burst tell the same millisecond
	Refused       int
	Error         string // the first
	Calls         *hdrhistogram.Snapshot
	Took          time.Duration // from the order to begin until the last ID
	CPU           time.Duration
	Memory        int64 // resident at most, bytes
	Reads, Writes int64 // that the store was asked for meanwhile
}

// regionMain makes the process a region, and does not return, if it was started to be one.
func regionMain() {
	text, isRegion := os.LookupEnv(regionVariable)
	if !isRegion {
		return
	}
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		log.Fatal(err)
	}
	out := gob.NewEncoder(os.Stdout)
	if err := o.run(out); err != nil {
		_ = out.Encode(Message{Error: err.Error()})
		os.Exit(1)
	}
	os.Exit(0)
}

// region is a process with its workers.
type region struct {
	order
	store      *countingStore
	generators []*snowflake.Generator

	mu sync.Mutex
	// mu protects the fields below, and out.
	out    *gob.Encoder
	result Result
	calls  *hdrhistogram.Histogram
}

func (o order) run(out *gob.Encoder) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	client, err := clientv3.New(clientv3.Config{Endpoints: o.Endpoints, Logger: zap.NewNop(), DialTimeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // the process ends
	store, err := etcdstore.New(client, fmt.Sprintf("fleet/%d", o.Region))
	if err != nil {
		return err
	}
	r := &region{
		order: o, store: &countingStore{LeaseStore: store}, out: out,
		result: Result{Region: o.Region}, calls: hdrhistogram.New(1, int64(time.Minute), 3),
	}
	if err := r.acquire(ctx); err != nil {
		return err
	}
	if err := r.say(Message{Ready: true}); err != nil {
		return err
	}
	var began time.Time
	if err := json.NewDecoder(os.Stdin).Decode(&began); err != nil {
		return fmt.Errorf("waiting for the order to begin: %w", err)
	}
	cpu := cpuTime()
	r.store.reads.Store(0)
	r.store.writes.Store(0)
	if err := r.mint(began); err != nil {
		return err
	}
	r.result.Took = time.Since(began)
	r.result.CPU, r.result.Memory = cpuTime()-cpu, memory()
	r.result.Reads, r.result.Writes = r.store.reads.Load(), r.store.writes.Load()
	r.result.Calls = r.calls.Export()
	if err := r.say(Message{Result: &r.result}); err != nil {
		return err
	}
	return r.close()
}

// acquire takes all leases at once, as a deployment would.
func (r *region) acquire(ctx context.Context) error {
	r.generators = make([]*snowflake.Generator, r.Workers)
	return each(r.Workers, func(w int) error {
		lease, err := snowflake.AcquireLease(ctx, r.store, snowflake.LeaseConfig{
			Region: r.Region, Owner: fmt.Sprintf("region %d, worker %d", r.Region, w),
		})
		if err != nil {
			return err
		}
		r.generators[w], err = snowflake.New(ctx, snowflake.Config{Lease: lease})
		return err
	})
}

func (r *region) close() error {
	return each(r.Workers, func(w int) error { return r.generators[w].Close(context.Background()) })
}

// each calls f for 0 to n-1 side by side.
func each(n int, f func(i int) error) error {
	failed := make([]error, n)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() { failed[i] = f(i) })
	}
	running.Wait()
	return errors.Join(failed...)
}

// mint has each worker mint in its turns: those of a region are evenly spaced, and those of
// all regions as well.
func (r *region) mint(began time.Time) error {
	every, turns := r.every(), r.turns()
	first := began.Add(every * time.Duration(r.Region) / time.Duration(r.Regions))
	return each(r.Workers, func(w int) error {
		b := burst{ids: make([]snowflake.ID, 0, r.Burst), calls: make([]int64, 0, r.Burst)}
		for turn := w; turn < turns; turn += r.Workers {
			time.Sleep(time.Until(first.Add(every * time.Duration(turn))))
			b.mint(r.generators[w], r.Burst)
			if err := r.note(&b); err != nil {
				return err
			}
		}
		return nil
	})
}

// burst is what a worker does in its turn.
type burst struct {
	ids     []snowflake.ID
	calls   []int64 // nanoseconds
	refused int
	err     error // the first
}

// mint asks for n IDs in one millisecond, each by a call of its own that is timed.
func (b *burst) mint(g *snowflake.Generator, n int) {
	*b = burst{ids: b.ids[:0], calls: b.calls[:0]}
	const enough = 400 * time.Microsecond
	for left := untilNext(time.Millisecond); left < enough; left = untilNext(time.Millisecond) {
	}
	began := time.Now()
	last := time.Since(began)
	for range n {
		id, err := g.Next()
		now := time.Since(began)
		b.calls = append(b.calls, int64(now-last))
		last = now
		if err != nil {
			b.refused++
			if b.err == nil {
				b.err = err
			}
			continue
		}
		b.ids = append(b.ids, id)
	}
}

// untilNext returns how long it is to the next whole d.
func untilNext(d time.Duration) time.Duration {
	return d - time.Duration(time.Now().UnixNano())%d
}

// note counts a burst, and sends what was minted.
func (r *region) note(b *burst) error {
	var minted Ledger
	for _, id := range b.ids {
		minted.note(id)
	}
	shift := snowflake.DefaultLayout()
	low := shift.RegionBits + shift.WorkerBits + shift.SequenceBits
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Bursts++
	if n := len(b.ids); n > 0 && b.ids[0]>>low == b.ids[n-1]>>low {
		r.result.Whole++
	}
	if b.err != nil && r.result.Error == "" {
		r.result.Error = b.err.Error()
	}
	r.result.Refused += b.refused
	for _, nanos := range b.calls {
		if err := r.calls.RecordValue(nanos); err != nil {
			return err
		}
	}
	return r.out.Encode(Message{Runs: minted.runs})
}

func (r *region) say(m Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.Encode(m)
}

// countingStore counts what is asked of a store.
type countingStore struct {
	snowflake.LeaseStore
	reads, writes atomic.Int64
}

func (s *countingStore) Records(ctx context.Context, region int) ([]snowflake.Record, error) {
	s.reads.Add(1)
	return s.LeaseStore.Records(ctx, region)
}

func (s *countingStore) Swap(ctx context.Context, old, new snowflake.Record) (snowflake.Record, error) {
	s.writes.Add(1)
	return s.LeaseStore.Swap(ctx, old, new)
}
