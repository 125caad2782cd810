package snowflakeprom_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/telemetry/snowflakeprom"
)

var noon = time.Date(2030, time.June, 1, 12, 0, 0, 0, time.UTC)

// handClock is a clock that a test sets. Nothing waits on it.
type handClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (*handClock) After(time.Duration) <-chan time.Time { return nil }

func (c *handClock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newGenerator(t *testing.T, cfg snowflake.Config) *snowflake.Generator {
	t.Helper()
	gen, err := snowflake.New(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, gen.Close(context.Background())) })
	return gen
}

func newLease(t *testing.T, clock snowflake.Clock) *snowflake.WorkerLease {
	t.Helper()
	layout := snowflake.DefaultLayout()
	layout.RegionBits, layout.WorkerBits = 10, 0 // one code, so that the worker is known
	lease, err := snowflake.AcquireLease(t.Context(), snowflake.NewMemoryStore(), snowflake.LeaseConfig{Region: 3, Layout: layout, Clock: clock})
	require.NoError(t, err)
	return lease
}

// The text that Prometheus reads, to the letter: every counter and gauge moved by what
// moves it.
func TestExposition(t *testing.T) {
	clock := &handClock{now: noon}
	lease := newLease(t, clock)
	gen := newGenerator(t, snowflake.Config{Lease: lease, Clock: clock, MaxWait: -1, MaxAhead: time.Millisecond})
	collector := snowflakeprom.NewCollector("orders", gen, lease)

	_, err := gen.Fill(t.Context(), make([]snowflake.ID, 2*4096)) // the tick, and the one that may be borrowed
	require.NoError(t, err)
	_, err = gen.Next()
	require.ErrorIs(t, err, snowflake.ErrSaturated)
	clock.Add(-2 * time.Second)
	_, err = gen.Next()
	require.ErrorIs(t, err, snowflake.ErrClockBehind)
	clock.Add(2 * time.Second)
	require.NoError(t, gen.Health())
	gen.ReportDuplicate(1)

	want, err := os.ReadFile("testdata/metrics.txt")
	require.NoError(t, err)
	require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(string(want))))

	// The ceiling is reached and no renewal comes: it is unhealthy, though nobody asks for IDs.
	clock.Add(3 * time.Minute)
	require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(`
		# HELP snowflake_healthy 1 if the generator can serve, 0 if not.
		# TYPE snowflake_healthy gauge
		snowflake_healthy{generator="orders",region="3"} 0
		# HELP snowflake_lease_ceiling_seconds Time from now to the end of what the lease or mark permits; negative: it has passed.
		# TYPE snowflake_lease_ceiling_seconds gauge
		snowflake_lease_ceiling_seconds{generator="orders",region="3"} -60
	`), "snowflake_healthy", "snowflake_lease_ceiling_seconds"))
}

// A lease that is not a WorkerLease: its region comes from the code, and what is not
// known is absent, not 0.
func TestStaticCode(t *testing.T) {
	clock := &handClock{now: noon}
	gen := newGenerator(t, snowflake.Config{Lease: snowflake.StaticLease(2<<8 | 7), HighWater: snowflake.NoHighWater(), Clock: clock})
	collector := snowflakeprom.NewCollector("", gen, nil)
	require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(`
		# HELP snowflake_code_info 1, with the worker code that is held; nothing while none is.
		# TYPE snowflake_code_info gauge
		snowflake_code_info{generator="default",region="2",worker="7"} 1
	`), "snowflake_code_info", "snowflake_lease_ceiling_seconds", "snowflake_lease_losses_total"))
}

// The buckets are cumulative, and end in the count.
func TestWaitHistogram(t *testing.T) {
	layout := snowflake.DefaultLayout()
	layout.SequenceBits, layout.WorkerBits = 1, 19
	gen := newGenerator(t, snowflake.Config{Lease: snowflake.StaticLease(7), HighWater: snowflake.NoHighWater(), Layout: layout, MaxWait: time.Minute})
	for range 20 { // two in a millisecond
		_, err := gen.Next()
		require.NoError(t, err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(snowflakeprom.NewCollector("slow", gen, nil))
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() != "snowflake_wait_seconds" {
			continue
		}
		h := family.GetMetric()[0].GetHistogram()
		require.EqualValues(t, 20, h.GetSampleCount())
		require.Positive(t, h.GetSampleSum())
		require.Len(t, h.GetBucket(), len(snowflake.WaitBounds()))
		below := uint64(0)
		for i, b := range h.GetBucket() {
			require.InDelta(t, snowflake.WaitBounds()[i].Seconds(), b.GetUpperBound(), 1e-12)
			require.GreaterOrEqual(t, b.GetCumulativeCount(), below)
			below = b.GetCumulativeCount()
		}
		require.LessOrEqual(t, below, h.GetSampleCount())
		require.Less(t, h.GetBucket()[0].GetCumulativeCount(), below, "some have waited")
		return
	}
	t.Fatal("no histogram")
}

// The names follow the conventions, but for two that are fixed by what uses them already:
// they are in milliseconds, in which clocks and ticks are spoken of.
func TestNamesAreLinted(t *testing.T) {
	clock := &handClock{now: noon}
	lease := newLease(t, clock)
	gen := newGenerator(t, snowflake.Config{Lease: lease, Clock: clock})
	problems, err := testutil.CollectAndLint(snowflakeprom.NewCollector("orders", gen, lease))
	require.NoError(t, err)
	for _, p := range problems {
		require.Contains(t, []string{"snowflake_ahead_ms", "snowflake_clock_rollback_ms"}, p.Metric, p.Text)
	}
}

// Every metric is in the package's documentation, and nothing else is.
func TestEveryMetricIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	documented := map[string]bool{}
	for line := range strings.Lines(string(doc)) {
		if name, ok := strings.CutPrefix(line, "//\tsnowflake_"); ok {
			name, _, _ = strings.Cut(name, " ")
			name, _, _ = strings.Cut(name, "{")
			documented["snowflake_"+name] = true
		}
	}
	clock := &handClock{now: noon}
	lease := newLease(t, clock)
	gen := newGenerator(t, snowflake.Config{Lease: lease, Clock: clock})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(snowflakeprom.NewCollector("orders", gen, lease))
	families, err := registry.Gather()
	require.NoError(t, err)
	exported := map[string]bool{}
	for _, family := range families {
		exported[family.GetName()] = true
	}
	require.Equal(t, documented, exported)
}

// One registry has many generators, told apart by name; a name taken twice is refused, and
// free again once unregistered.
func TestManyGenerators(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	collector := func(name string) *snowflakeprom.Collector {
		clock := &handClock{now: noon}
		lease := newLease(t, clock)
		return snowflakeprom.NewCollector(name, newGenerator(t, snowflake.Config{Lease: lease, Clock: clock}), lease)
	}
	orders := collector("orders")
	registry.MustRegister(orders, collector("users"), collector(""))
	count := func() int {
		n, err := testutil.GatherAndCount(registry, "snowflake_healthy")
		require.NoError(t, err)
		return n
	}
	require.Equal(t, 3, count())
	require.ErrorAs(t, registry.Register(collector("users")), new(prometheus.AlreadyRegisteredError))
	require.True(t, registry.Unregister(orders))
	require.Equal(t, 2, count())
	registry.MustRegister(collector("orders"))
	require.Equal(t, 3, count())
	require.Panics(t, func() { snowflakeprom.NewCollector("none", nil, nil) })
}

// Scrapes, callers and a Close at once: every scrape is whole, counters never fall, and a
// closed generator is told as not healthy.
func TestScrapesWhileItWorks(t *testing.T) {
	lease, err := snowflake.AcquireLease(t.Context(), snowflake.NewMemoryStore(), snowflake.LeaseConfig{Region: 1})
	require.NoError(t, err)
	gen := newGenerator(t, snowflake.Config{Lease: lease})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(snowflakeprom.NewCollector("orders", gen, lease))
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	defer server.Close()

	stop := make(chan struct{})
	var callers, scrapers sync.WaitGroup
	for range 2 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, _ = gen.Next()
				}
			}
		})
	}
	for range 4 {
		scrapers.Go(func() {
			last := 0.0
			for range 25 {
				response, err := http.Get(server.URL)
				if !noError(t, err) {
					return
				}
				_ = response.Body.Close()
				if response.StatusCode != http.StatusOK {
					t.Errorf("status %d", response.StatusCode)
				}
				families, err := registry.Gather()
				if !noError(t, err) {
					return
				}
				for _, family := range families {
					if family.GetName() == "snowflake_ids_total" {
						now := family.GetMetric()[0].GetCounter().GetValue()
						if now < last {
							t.Errorf("the counter fell from %v to %v", last, now)
						}
						last = now
					}
				}
			}
		})
	}
	scrapers.Wait()
	require.NoError(t, gen.Close(t.Context()))
	close(stop)
	callers.Wait()
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
		# HELP snowflake_healthy 1 if the generator can serve, 0 if not.
		# TYPE snowflake_healthy gauge
		snowflake_healthy{generator="orders",region="1"} 0
	`), "snowflake_healthy", "snowflake_code_info"))
}

func noError(t *testing.T, err error) bool {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
	return err == nil
}
