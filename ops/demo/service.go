package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/health"
	"github.com/snowfence/snowflake/telemetry/snowflakeprom"
)

const (
	region     = 1
	callEvery  = 5 * time.Millisecond
	batch      = 4096
	stepBack   = -8 * time.Second // more than MaxAhead and MaxWait: refused until the clock is there again
	maxAhead   = 200 * time.Millisecond
	workerBits = 3
)

// service is a program that uses a generator.
type service struct {
	clock    *stepClock
	store    *cutStore
	hooks    *snowflake.Hooks
	registry *prometheus.Registry
	stop     context.CancelFunc
	callers  sync.WaitGroup
	faults   map[string]fault

	mu sync.Mutex
	// mu protects what follows.
	gen       *snowflake.Generator
	lease     *snowflake.WorkerLease
	collector *snowflakeprom.Collector
	last      snowflake.ID
	extra     []*snowflake.WorkerLease // that the fault "codes" holds
	stopLoad  context.CancelFunc       // of the fault "load"; nil: it is off
}

// fault is a switch: on for POST, off for DELETE.
type fault struct{ on, off func(context.Context) error }

func newService(ctx context.Context) (*service, error) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &service{
		clock: &stepClock{began: time.Now()}, store: &cutStore{LeaseStore: snowflake.NewMemoryStore()},
		hooks:    snowflake.LogHooks(slog.New(slog.NewTextHandler(os.Stderr, nil))),
		registry: prometheus.NewRegistry(), stop: stop,
	}
	nothing := func(context.Context) error { return nil }
	s.faults = map[string]fault{
		"clock":     {func(context.Context) error { s.clock.step(stepBack); return nil }, nothing}, // time heals it
		"store":     {func(context.Context) error { s.store.down.Store(true); return nil }, func(context.Context) error { s.store.down.Store(false); return nil }},
		"load":      {func(context.Context) error { return s.load(running) }, s.unload},
		"codes":     {s.takeCodes, s.giveCodes},
		"duplicate": {s.reportDuplicate, s.restart},
	}
	s.registry.MustRegister(codesCollector{s.store, s.clock})
	if err := s.start(ctx); err != nil {
		stop()
		return nil, err
	}
	s.callers.Go(func() { s.call(running) })
	return s, nil
}

func (s *service) layout() snowflake.Layout {
	layout := snowflake.DefaultLayout()
	layout.RegionBits, layout.WorkerBits, layout.SequenceBits = 11, workerBits, 8
	return layout
}

func (s *service) leaseConfig() snowflake.LeaseConfig {
	return snowflake.LeaseConfig{Region: region, Layout: s.layout(), TTL: 6 * time.Second, Renew: 2 * time.Second, Clock: s.clock, Hooks: s.hooks}
}

// start makes the generator and has it watched.
func (s *service) start(ctx context.Context) error {
	lease, err := snowflake.AcquireLease(ctx, s.store, s.leaseConfig())
	if err != nil {
		return err
	}
	gen, err := snowflake.New(ctx, snowflake.Config{Lease: lease, Clock: s.clock, MaxAhead: maxAhead, Hooks: s.hooks})
	if err != nil {
		return errors.Join(err, lease.Close(ctx))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gen, s.lease, s.collector = gen, lease, snowflakeprom.NewCollector("demo", gen, lease)
	return s.registry.Register(s.collector)
}

// restart is what whoever is on call does to the process of a code that made a duplicate.
func (s *service) restart(ctx context.Context) error {
	s.mu.Lock()
	gen := s.gen
	s.registry.Unregister(s.collector)
	s.mu.Unlock()
	return errors.Join(gen.Close(ctx), s.start(ctx))
}

func (s *service) generator() *snowflake.Generator {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gen
}

// call takes an ID now and then, until ctx ends.
func (s *service) call(ctx context.Context) {
	tick := time.NewTicker(callEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if id, err := s.generator().NextContext(ctx); err == nil { // errors are counted, and looked at through /metrics
			s.mu.Lock()
			s.last = id
			s.mu.Unlock()
		}
	}
}

// load asks for more than the ticks hold, until unload.
func (s *service) load(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopLoad != nil {
		return nil
	}
	ctx, s.stopLoad = context.WithCancel(ctx)
	s.callers.Go(func() {
		ids := make([]snowflake.ID, batch)
		for ctx.Err() == nil {
			if _, err := s.generator().Fill(ctx, ids); err != nil {
				time.Sleep(callEvery)
			}
		}
	})
	return nil
}

func (s *service) unload(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopLoad != nil {
		s.stopLoad()
		s.stopLoad = nil
	}
	return nil
}

// takeCodes takes what is left of the region.
func (s *service) takeCodes(ctx context.Context) error {
	for range 1<<workerBits - 1 {
		lease, err := snowflake.AcquireLease(ctx, s.store, s.leaseConfig())
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.extra = append(s.extra, lease)
		s.mu.Unlock()
	}
	return nil
}

func (s *service) giveCodes(ctx context.Context) error {
	s.mu.Lock()
	extra := s.extra
	s.extra = nil
	s.mu.Unlock()
	var failed []error
	for _, lease := range extra {
		failed = append(failed, lease.Release(ctx, s.clock.Now())) // none of its ticks was used
	}
	return errors.Join(failed...)
}

// reportDuplicate is what a service does when its unique constraint fires.
func (s *service) reportDuplicate(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gen.ReportDuplicate(s.last)
	return nil
}

func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	mux.Handle("/readyz", health.Ready(map[string]health.Checker{"demo": health.Func(func() error { return s.generator().Health() })}))
	mux.Handle("/livez", health.Live())
	for name, f := range s.faults {
		mux.HandleFunc("POST /faults/"+name, turn(f.on))
		mux.HandleFunc("DELETE /faults/"+name, turn(f.off))
	}
	return mux
}

func turn(f func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := f(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *service) close(ctx context.Context) error {
	s.stop()
	s.callers.Wait()
	return errors.Join(s.giveCodes(ctx), s.generator().Close(ctx))
}

// codesCollector is what the command snowflake leases watch --metrics exports for a region.
// The demo's store is in its own memory, where no other process can look.
type codesCollector struct {
	store snowflake.LeaseStore
	clock snowflake.Clock
}

var codesDesc = prometheus.NewDesc("snowflake_worker_codes", "Worker codes of the region, by state.", []string{"region", "state"}, nil)

func (codesCollector) Describe(to chan<- *prometheus.Desc) { to <- codesDesc }

func (c codesCollector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	records, err := c.store.Records(ctx, region)
	if err != nil {
		return // nothing is known
	}
	counts := map[string]int{"held": 0, "reserved": 0, "free": 1 << workerBits}
	for _, r := range records {
		if r.Worker < 0 || !r.Ceiling.After(c.clock.Now()) {
			continue
		}
		counts["free"]--
		if r.Released {
			counts["reserved"]++
		} else {
			counts["held"]++
		}
	}
	for state, n := range counts {
		to <- prometheus.MustNewConstMetric(codesDesc, prometheus.GaugeValue, float64(n), strconv.Itoa(region), state)
	}
}
