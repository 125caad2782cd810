package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/snowfence/snowflake"
)

func (t *tool) watchCommand() *cobra.Command {
	var f regionFlags
	var every time.Duration
	var address string
	c := &cobra.Command{
		Use:   "watch",
		Short: "Show changes of a region's codes as they come, and count them for Prometheus",
		Long: `Show the codes of a region, and from then on each change of owner or state, until it is
interrupted. With --metrics it serves, at /metrics of that address,

  snowflake_worker_codes{region,state}   state: held, reserved, free

read from the store at each scrape. One such exporter for each region is enough: the
processes need not export every record of the region each.

` + storeHelp,
		Example: `  snowflake leases watch --store dir:/var/lib/ids
  snowflake leases watch --store postgres://ids@db/ids --region 2 --metrics :9137`,
		Args: exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond {
				return usage("--every is %v, must be at least 100ms", every)
			}
			ctx, cancel := context.WithCancelCause(c.Context())
			defer cancel(nil)
			store, closer, err := f.store.open(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = closer() }()
			if address != "" {
				listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
				if err != nil {
					return err
				}
				server := serveMetrics(store, f.region)
				go func() { cancel(server.Serve(listener)) }()
				defer func() { _ = server.Close() }()
				t.warnf("metrics at http://%s/metrics\n", listener.Addr())
			}
			return t.watch(ctx, store, f.region, every)
		},
	}
	f.addFlags(c)
	c.Flags().DurationVar(&every, "every", 5*time.Second, "how often to look")
	c.Flags().StringVar(&address, "metrics", "", "serve metrics at this address, such as :9137")
	return c
}

// watch prints what has changed, until ctx ends. A store that does not answer is told and
// asked again.
func (t *tool) watch(ctx context.Context, store snowflake.LeaseStore, region int, every time.Duration) error {
	type seen struct { // of a record, but for its renewals
		owner, state string
		token        uint64
	}
	known := make(map[int]seen)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	out := t.newTable(recordFields...)
	for {
		records, err := readRegion(ctx, store, region)
		if err != nil && ctx.Err() == nil {
			t.warnf("%s %v\n", stamp(time.Now().Truncate(time.Millisecond)), err)
		}
		codes, _, err := codesOf(records)
		if err != nil {
			return err
		}
		now := time.Now()
		for _, r := range codes {
			if is := (seen{r.Owner, stateOf(r, now), r.Token}); is != known[r.Worker] {
				known[r.Worker] = is
				out.add(recordValues(r, is.state)...)
			}
		}
		if err := out.flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
				return err // of the server
			}
			return nil
		case <-ticker.C:
		}
	}
}

// readRegion reads a region, with a limit on the time.
func readRegion(ctx context.Context, store snowflake.LeaseStore, region int) ([]snowflake.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	return store.Records(ctx, region)
}

func serveMetrics(store snowflake.LeaseStore, region int) *http.Server {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&codeCollector{store: store, region: region, desc: prometheus.NewDesc(
		"snowflake_worker_codes", "Worker codes of the region: held, reserved until their ceiling, or free.", []string{regionName, "state"}, nil,
	)})
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
}

// codeCollector counts the codes of a region at each scrape. If the store does not answer,
// the scrape fails: an old number would hide it.
type codeCollector struct {
	store  snowflake.LeaseStore
	region int
	desc   *prometheus.Desc
}

var _ prometheus.Collector = (*codeCollector)(nil)

// Describe tells the one metric.
func (c *codeCollector) Describe(descs chan<- *prometheus.Desc) { descs <- c.desc }

// Collect reads the records.
func (c *codeCollector) Collect(metrics chan<- prometheus.Metric) {
	records, err := readRegion(context.Background(), c.store, c.region)
	if err != nil {
		metrics <- prometheus.NewInvalidMetric(c.desc, err)
		return
	}
	codes, layout, err := codesOf(records)
	switch {
	case err != nil:
		metrics <- prometheus.NewInvalidMetric(c.desc, err)
	case layout != nil: // else nobody knows how many there are
		for state, count := range countStates(codes, *layout, time.Now()) {
			metrics <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(count), strconv.Itoa(c.region), state)
		}
	}
}
