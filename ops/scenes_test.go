package ops_test

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/snowfence/snowflake/ops"
)

// course is how a value goes, from the first minute on; NaN: there is no series.
type course func(at time.Duration) float64

// between is a gauge that is elsewhere for a while.
func between(from, to time.Duration, low, high float64) course {
	return func(at time.Duration) float64 {
		if at < from || at >= to {
			return low
		}
		return high
	}
}

// rises is a counter that rises for a while, evenly.
func rises(from, to time.Duration, perMinute float64) course {
	return func(at time.Duration) float64 {
		return math.Floor(perMinute * min(max(at-from, 0), to-from).Minutes())
	}
}

// until ends a series, as a process that stops does.
func (c course) until(end time.Duration) course {
	return func(at time.Duration) float64 {
		if at >= end {
			return math.NaN()
		}
		return c(at)
	}
}

// since begins one.
func (c course) since(begin time.Duration) course {
	return func(at time.Duration) float64 {
		if at < begin {
			return math.NaN()
		}
		return c(at)
	}
}

const (
	start   = 10*time.Minute + 20*time.Second // of what is wrong, between two scrapes
	forever = 100 * time.Hour
	year    = 365 * 86400
)

func once(value float64) course { return between(start, forever, 0, value) }

// scene is a fault for which one alert must fire, and end. Others may fire as well.
type scene struct {
	name, alert string
	series      map[string]course
	fires, ends time.Duration // by when, if Prometheus scrapes once a minute
}

const minute = time.Minute

var scenes = []scene{
	{"reported", "SnowflakeDuplicateKey", map[string]course{
		"snowflake_duplicate_keys_total": once(1).until(20 * minute),
	}, 12 * minute, 82 * minute},
	{"reported before the first scrape", "SnowflakeDuplicateKey", map[string]course{
		"snowflake_duplicate_keys_total": once(1).since(start).until(20 * minute),
	}, 12 * minute, 82 * minute},
	{"noticed", "SnowflakeStoreForgot", map[string]course{
		"snowflake_lease_store_forgot_total": once(1),
	}, 12 * minute, 73 * minute},
	{"noticed before the first scrape", "SnowflakeStoreForgot", map[string]course{
		"snowflake_lease_store_forgot_total": once(1).since(start),
	}, 12 * minute, 73 * minute},
	{"five minutes", "SnowflakeUnhealthy", map[string]course{
		"snowflake_healthy": between(start, start+5*minute, 1, 0),
	}, 14 * minute, 17 * minute},
	{"five minutes", "SnowflakeRegionUnhealthy", map[string]course{
		"snowflake_healthy": between(start, start+5*minute, 1, 0),
	}, 13 * minute, 17 * minute},
	{"one far step", "SnowflakeClockRollback", map[string]course{
		"snowflake_clock_rollbacks_total":             once(1),
		"snowflake_clock_rollback_ms{kind=`last`}":    once(9000),
		"snowflake_clock_rollback_ms{kind=`largest`}": once(9000),
	}, 12 * minute, 22 * minute},
	{"a far step and a small one", "SnowflakeClockRollback", map[string]course{
		"snowflake_clock_rollbacks_total":             once(2),
		"snowflake_clock_rollback_ms{kind=`last`}":    once(0.1),
		"snowflake_clock_rollback_ms{kind=`largest`}": once(9000),
	}, 12 * minute, 22 * minute},
	{"small ones", "SnowflakeClockRollback", map[string]course{
		"snowflake_clock_rollbacks_total":             rises(start, start+4*minute, 1),
		"snowflake_clock_rollback_ms{kind=`last`}":    once(0.1),
		"snowflake_clock_rollback_ms{kind=`largest`}": once(0.1),
	}, 15 * minute, 26 * minute},
	{"a far step before the first scrape", "SnowflakeClockRollback", map[string]course{
		"snowflake_clock_rollbacks_total":             once(1).since(start),
		"snowflake_clock_rollback_ms{kind=`last`}":    once(9000).since(start),
		"snowflake_clock_rollback_ms{kind=`largest`}": once(9000).since(start),
	}, 12 * minute, 22 * minute},
	{"small ones before the first scrape", "SnowflakeClockRollback", map[string]course{
		"snowflake_clock_rollbacks_total":             once(3).since(start),
		"snowflake_clock_rollback_ms{kind=`last`}":    once(0.1).since(start),
		"snowflake_clock_rollback_ms{kind=`largest`}": once(0.1).since(start),
	}, 12 * minute, 22 * minute},
	{"two a second", "SnowflakeSequenceExhausted", map[string]course{
		"snowflake_sequence_exhausted_total": rises(start, start+15*minute, 120),
	}, 20 * minute, 32 * minute},
	{"ten minutes", "SnowflakeRunningAhead", map[string]course{
		"snowflake_ahead_ms": between(start, start+10*minute, 0, 500),
	}, 17 * minute, 22 * minute},
	{"five minutes", "SnowflakeMarkFailing", map[string]course{
		"snowflake_mark_failures_total": rises(start, start+5*minute, 160),
	}, 13 * minute, 18 * minute},
	{"a clock far ahead", "SnowflakeEpochEnding", map[string]course{
		"snowflake_epoch_remaining_seconds": between(start, start+90*minute, 6*year, 4*year),
	}, 73 * minute, 103 * minute},
	{"a clock far ahead", "SnowflakeEpochEndsWithinAYear", map[string]course{
		"snowflake_epoch_remaining_seconds": between(start, start+90*minute, 6*year, year/2),
	}, 73 * minute, 103 * minute},
	{"each takes 4 s to fail", "SnowflakeRenewalFailing", map[string]course{
		"snowflake_lease_renewal_failures_total": rises(start, start+5*minute, 10),
	}, 13 * minute, 18 * minute},
	{"each takes 4 s to fail", "SnowflakeLeaseStoreDown", map[string]course{
		"snowflake_lease_renewal_failures_total": rises(start, start+5*minute, 10),
	}, 12 * minute, 18 * minute},
	{"lost", "SnowflakeLeaseLost", map[string]course{
		"snowflake_lease_losses_total": once(1),
	}, 12 * minute, 22 * minute},
	{"lost before the first scrape", "SnowflakeLeaseLost", map[string]course{
		"snowflake_lease_losses_total": once(1).since(start),
	}, 12 * minute, 22 * minute},
	{"a rollout", "SnowflakeWorkerCodesLow", map[string]course{
		"snowflake_worker_codes{state=`held`}": between(start, start+15*minute, 156, 246),
		"snowflake_worker_codes{state=`free`}": between(start, start+15*minute, 100, 10),
	}, 22 * minute, 27 * minute},
	{"a crash loop", "SnowflakeWorkerCodesGone", map[string]course{
		"snowflake_worker_codes{state=`held`}": between(start, start+5*minute, 156, 256),
		"snowflake_worker_codes{state=`free`}": between(start, start+5*minute, 100, 0),
	}, 13 * minute, 17 * minute},
	{"the exporter comes late", "SnowflakeWorkerCodesUnknown", map[string]course{
		"snowflake_lease_renewals_total":       rises(0, forever, 3).since(start),
		"snowflake_worker_codes{state=`free`}": once(100).since(start + 20*minute),
	}, 27 * minute, 32 * minute},
	{"the exporter goes", "SnowflakeWorkerCodesUnknown", map[string]course{
		"snowflake_lease_renewals_total":       rises(0, forever, 3).until(40 * minute),
		"snowflake_worker_codes{state=`free`}": between(0, forever, 0, 100).until(start),
	}, 27 * minute, 42 * minute},
	{"ten minutes", "SnowflakeBudgetBurnFast", map[string]course{
		"snowflake_ids_total":                         rises(0, forever, 6000),
		"snowflake_errors_total{reason=`lease_lost`}": rises(start, start+10*minute, 600),
	}, 13 * minute, 28 * minute},
	{"ten minutes", "SnowflakeBudgetBurn", map[string]course{
		"snowflake_ids_total":                         rises(0, forever, 6000),
		"snowflake_errors_total{reason=`lease_lost`}": rises(start, start+10*minute, 600),
	}, 18 * minute, 53 * minute},
	{"ten minutes", "SnowflakeBudgetBurnSlow", map[string]course{
		"snowflake_ids_total":                         rises(0, forever, 6000),
		"snowflake_errors_total{reason=`lease_lost`}": rises(start, start+10*minute, 600),
	}, 74 * minute, 383 * minute},
}

// Every alert fires and ends whatever Prometheus' scrape_interval is, up to the minute that it
// has by default: an increase over a minute, for one, would be empty then.
func TestAlertsFireAndEndAtEachScrapeInterval(t *testing.T) {
	played := map[string]bool{}
	for _, s := range scenes {
		played[s.alert] = true
	}
	for _, r := range rules(t) {
		require.True(t, r.Alert == "" || played[r.Alert], "no scene for %s", r.Alert)
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rules.yml"), ops.Rules, 0o600))
	for _, interval := range []time.Duration{15 * time.Second, minute} {
		t.Run(interval.String(), func(t *testing.T) {
			var tests []map[string]any
			for _, s := range scenes {
				tests = append(tests, s.test(interval))
			}
			text, err := yaml.Marshal(map[string]any{
				"rule_files": []string{"rules.yml"}, "evaluation_interval": "15s", "tests": tests,
			})
			require.NoError(t, err)
			path := filepath.Join(dir, interval.String()+".yml")
			require.NoError(t, os.WriteFile(path, text, 0o600))
			promtool(t, "test", "rules", path)
		})
	}
}

// test writes a scene as promtool reads it.
func (s scene) test(interval time.Duration) map[string]any {
	var input []map[string]string
	for name, c := range s.series {
		name, own, _ := strings.Cut(name, "{")
		labels := "{job=`orders`,instance=`a`,generator=`default`,region=`1`," + own
		series := name + strings.ReplaceAll(strings.TrimSuffix(strings.TrimSuffix(labels, "}"), ",")+"}", "`", `"`)
		input = append(input, map[string]string{"series": series, "values": c.values(interval, s.ends)})
	}
	firing := `count by (alertname) (ALERTS{alertname="` + s.alert + `",alertstate="firing"})`
	expect := func(at time.Duration, fires bool) map[string]any {
		samples := []map[string]any{}
		if fires {
			samples = append(samples, map[string]any{"labels": `{alertname="` + s.alert + `"}`, "value": 1})
		}
		return map[string]any{"expr": firing, "eval_time": at.String(), "exp_samples": samples}
	}
	return map[string]any{
		"name": s.alert + ": " + s.name, "interval": interval.String(), "input_series": input,
		"promql_expr_test": []map[string]any{expect(start, false), expect(s.fires, true), expect(s.ends, false)},
	}
}

// values are the scrapes up to a time.
func (c course) values(interval, end time.Duration) string {
	var all []string
	there := false
	for at := time.Duration(0); at <= end; at += interval {
		switch v := c(at); {
		case !math.IsNaN(v):
			all, there = append(all, strconv.FormatFloat(v, 'f', -1, 64)), true
		case there:
			all, there = append(all, "stale"), false
		default:
			all = append(all, "_")
		}
	}
	return strings.Join(all, " ")
}
