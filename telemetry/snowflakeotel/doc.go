// Package snowflakeotel gives a generator's counters and gauges, and the work of its
// lease, to OpenTelemetry.
//
//	registration, err := snowflakeotel.Register("orders", gen, lease, otel.GetMeterProvider())
//	defer registration.Unregister()
//
// # Metrics
//
// Register makes asynchronous instruments: values are read when a reader collects, and the path
// of an ID does not know that it is watched. Names and values are those of package
// snowflakeprom, and every metric has the attributes generator, the name given to Register, and
// region, the number from LeaseConfig or from the static code. Through OpenTelemetry's Prometheus
// exporter they come out under the same names too, so that the alerts and the dashboard in the
// folder ops fit either way.
//
//	snowflake_ids_total                      counter
//	snowflake_errors_total                   counter, by reason: clock_behind, saturated, lease_lost,
//	                                         high_water, time_overflow, canceled, closed
//	snowflake_healthy                        gauge: 1 or 0
//	snowflake_clock_rollback_ms              gauge, by kind: last, largest
//	snowflake_clock_rollbacks_total          counter
//	snowflake_sequence_exhausted_total       counter
//	snowflake_ahead_ms                       gauge
//	snowflake_lease_ceiling_seconds          gauge, absent where there is no ceiling
//	snowflake_lease_renewals_total           counter (this and the next five: with a lease only)
//	snowflake_lease_renewal_failures_total   counter
//	snowflake_lease_acquisitions_total       counter
//	snowflake_lease_conflicts_total          counter
//	snowflake_lease_losses_total             counter
//	snowflake_lease_store_forgot_total       counter
//	snowflake_mark_failures_total            counter
//	snowflake_code_info                      gauge, by worker: 1 for the code that is held
//	snowflake_duplicate_keys_total           counter
//	snowflake_epoch_remaining_seconds        gauge
//	snowflake_wait_seconds                   histogram, from Waits
//
// OpenTelemetry has no asynchronous histogram, and a synchronous one would cost every ID its
// recording. The histogram that the generator keeps anyway is therefore handed to readers
// whole, by a Producer: Waits.
//
//	waits := snowflakeotel.NewWaits()
//	reader := metric.NewPeriodicReader(exporter, metric.WithProducer(waits)) // of otel/sdk/metric
//	...
//	remove := waits.Add("orders", gen, lease)
//
// # Spans
//
// TraceStore wraps a lease store: each request of a lease to it becomes a span.
package snowflakeotel
