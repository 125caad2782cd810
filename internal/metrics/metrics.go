// Package metrics says once what a generator and its lease measure: the names, the
// labels and the values that the modules under telemetry/ export, each in its own form.
package metrics

import (
	"strconv"

	"github.com/snowfence/snowflake"
)

// Kind is how a metric moves.
type Kind uint8

const (
	// Counter only rises, and starts at 0 with the process.
	Counter Kind = iota
	// Gauge goes up and down.
	Gauge
)

// Metric is one name.
type Metric struct {
	Name, Help string
	Kind       Kind
	// Label is the name of the one label that its values differ by; "": it has one
	// value.
	Label string
	// Values emits the present values with their labels, in a fixed order. A value
	// that means nothing at the moment is left out.
	Values func(s Snapshot, emit func(label string, value float64))
}

// The labels that every metric has, beside its own.
const (
	GeneratorLabel = "generator" // the name that the program gave it
	RegionLabel    = "region"    // the number, which deployment fixed
)

// Wait is the one histogram, with the bounds of snowflake.WaitBounds.
const (
	Wait     = "snowflake_wait_seconds"
	WaitHelp = "How long each ID waited for its tick; one that did not wait is in the lowest bucket."
)

// DefaultGenerator is the name of a generator that was given none.
const DefaultGenerator = "default"

// Snapshot is what the values are taken from.
type Snapshot struct {
	snowflake.Stats
	Lease  *snowflake.LeaseStats // nil: a static code, or another kind of lease
	Layout snowflake.Layout
}

// Take takes a snapshot. lease may be nil.
func Take(gen *snowflake.Generator, lease *snowflake.WorkerLease) Snapshot {
	s := Snapshot{Stats: gen.Stats(), Layout: gen.Layout()} // looks at the lease: so the lease's come after
	if lease != nil {
		stats := lease.Stats()
		s.Lease = &stats
	}
	return s
}

// Region returns the value of RegionLabel: it never changes once a code was held.
func (s Snapshot) Region() string {
	switch {
	case s.Lease != nil:
		return strconv.Itoa(s.Lease.Region)
	case s.Code >= 0:
		return strconv.Itoa(s.Code >> s.Layout.WorkerBits)
	}
	return ""
}

// worker returns the code within the region that is held now.
func (s Snapshot) worker() (int, bool) {
	if s.Lease != nil {
		return s.Lease.Worker, s.Lease.Held
	}
	return s.Code & (1<<s.Layout.WorkerBits - 1), s.Code >= 0
}

// reasons emits the values of the label of snowflake_errors_total.
func reasons(e snowflake.ErrorStats, emit func(string, float64)) {
	emit("clock_behind", float64(e.ClockBehind))
	emit("saturated", float64(e.Saturated))
	emit("lease_lost", float64(e.LeaseLost))
	emit("high_water", float64(e.HighWater))
	emit("time_overflow", float64(e.TimeOverflow))
	emit("canceled", float64(e.Canceled))
	emit("closed", float64(e.Closed))
}

// All returns every metric but the histogram.
func All() []Metric {
	return []Metric{
		counter("snowflake_ids_total", "IDs handed out.", func(s Snapshot) uint64 { return s.IDs }),
		{Name: "snowflake_errors_total", Help: "Calls that returned an error, by reason.", Kind: Counter, Label: "reason",
			Values: func(s Snapshot, emit func(string, float64)) { reasons(s.Errors, emit) }},
		gauge("snowflake_healthy", "1 if the generator can serve, 0 if not.", func(s Snapshot) (float64, bool) { return flag(s.Health == nil), true }),
		{Name: "snowflake_clock_rollback_ms", Help: "How far the clock went back, in milliseconds: the last time, and at most.", Kind: Gauge, Label: "kind",
			Values: func(s Snapshot, emit func(string, float64)) {
				emit("last", s.LastRollback.Seconds()*1e3)
				emit("largest", s.LargestRollback.Seconds()*1e3)
			}},
		counter("snowflake_clock_rollbacks_total", "Times that the clock went back below a reading already seen.", func(s Snapshot) uint64 { return s.Rollbacks }),
		counter("snowflake_sequence_exhausted_total", "Ticks in which more IDs were asked for than one holds.", func(s Snapshot) uint64 { return s.Exhausted }),
		gauge("snowflake_ahead_ms", "How far the last ID's tick lies ahead of the clock, in milliseconds.", func(s Snapshot) (float64, bool) {
			return s.Ahead.Seconds() * 1e3, true
		}),
		gauge("snowflake_lease_ceiling_seconds", "Time from now to the end of what the lease or mark permits; negative: it has passed.", func(s Snapshot) (float64, bool) {
			return s.Room.Seconds(), !s.Ceiling.IsZero()
		}),
		leased("snowflake_lease_renewals_total", "Ceilings raised.", func(l *snowflake.LeaseStats) uint64 { return l.Renewals }),
		leased("snowflake_lease_renewal_failures_total", "Attempts to renew, or to acquire in the background, that failed.", func(l *snowflake.LeaseStats) uint64 { return l.RenewalFailures }),
		leased("snowflake_lease_acquisitions_total", "Worker codes taken.", func(l *snowflake.LeaseStats) uint64 { return l.Acquisitions }),
		leased("snowflake_lease_conflicts_total", "Writes that found the record changed by another owner.", func(l *snowflake.LeaseStats) uint64 { return l.Conflicts }),
		leased("snowflake_lease_losses_total", "Times that a held code was lost or suspended.", func(l *snowflake.LeaseStats) uint64 { return l.Losses }),
		leased("snowflake_lease_store_forgot_total", "Times that the store had lost an acknowledged write.", func(l *snowflake.LeaseStats) uint64 { return l.Forgotten }),
		counter("snowflake_mark_failures_total", "Attempts to advance the high-water mark that failed.", func(s Snapshot) uint64 { return s.MarkFailures }),
		{Name: "snowflake_code_info", Help: "1, with the worker code that is held; nothing while none is.", Kind: Gauge, Label: "worker",
			Values: func(s Snapshot, emit func(string, float64)) {
				if worker, held := s.worker(); held {
					emit(strconv.Itoa(worker), 1)
				}
			}},
		counter("snowflake_duplicate_keys_total", "Duplicate keys that the service reported.", func(s Snapshot) uint64 { return s.Duplicates }),
		gauge("snowflake_epoch_remaining_seconds", "Time until the layout ends.", func(s Snapshot) (float64, bool) { return s.EpochRemaining.Seconds(), true }),
	}
}

func counter(name, help string, value func(Snapshot) uint64) Metric {
	return Metric{Name: name, Help: help, Kind: Counter, Values: func(s Snapshot, emit func(string, float64)) {
		emit("", float64(value(s)))
	}}
}

// leased is a counter that only a lease has.
func leased(name, help string, value func(*snowflake.LeaseStats) uint64) Metric {
	return Metric{Name: name, Help: help, Kind: Counter, Values: func(s Snapshot, emit func(string, float64)) {
		if s.Lease != nil {
			emit("", float64(value(s.Lease)))
		}
	}}
}

func gauge(name, help string, value func(Snapshot) (float64, bool)) Metric {
	return Metric{Name: name, Help: help, Kind: Gauge, Values: func(s Snapshot, emit func(string, float64)) {
		if v, ok := value(s); ok {
			emit("", v)
		}
	}}
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
