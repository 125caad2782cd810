// Package snowflakeprom exports a generator's counters and gauges to Prometheus.
//
//	prometheus.MustRegister(snowflakeprom.NewCollector("orders", gen, lease))
//
// Values are read when somebody scrapes: the path of an ID does not know that it is
// watched. A scrape takes the generator's mutex for a moment, and looks at its health as
// Generator.Health does, so that an idle generator is judged too.
//
// # Metrics
//
// Every metric has the labels generator, the name that was given to NewCollector, and
// region, the number from LeaseConfig or from the static code; it is empty until a code was
// held. Neither changes while a process runs. The worker code can, so that only one metric has it.
//
//	snowflake_ids_total                      IDs handed out
//	snowflake_errors_total{reason}           calls that returned an error: clock_behind, saturated,
//	                                         lease_lost, high_water, time_overflow, canceled, closed
//	snowflake_wait_seconds                   histogram of how long each ID waited for its tick; one that
//	                                         did not wait is in the lowest bucket
//	snowflake_healthy                        1 if the generator can serve, 0 if not
//	snowflake_clock_rollback_ms{kind}        how far the clock went back: kind last, and largest
//	snowflake_clock_rollbacks_total          how often it did
//	snowflake_sequence_exhausted_total       ticks in which more IDs were asked for than one holds
//	snowflake_ahead_ms                       how far the last ID's tick lies ahead of the clock
//	snowflake_lease_ceiling_seconds          time to the end of what lease or mark permits; negative:
//	                                         it has passed; absent: there is no end
//	snowflake_lease_renewals_total           ceilings raised (this and the next five: with a lease only)
//	snowflake_lease_renewal_failures_total   attempts to renew, or to acquire in the background, that failed
//	snowflake_lease_acquisitions_total       worker codes taken
//	snowflake_lease_conflicts_total          writes that found the record changed by another owner
//	snowflake_lease_losses_total             times that a held code was lost or suspended
//	snowflake_lease_store_forgot_total       times that the store had lost an acknowledged write
//	snowflake_mark_failures_total            attempts to advance the high-water mark that failed
//	snowflake_code_info{worker}              1, with the worker code that is held; absent while none is
//	snowflake_duplicate_keys_total           duplicate keys that the service reported (ReportDuplicate)
//	snowflake_epoch_remaining_seconds        time until the layout ends
//
// How many codes of a region are free is not here: it takes one exporter for each region, the
// command snowflake leases watch --metrics, and not every process to read every record.
//
// Rules for alerts and a dashboard for these names are in the folder ops of the repository.
package snowflakeprom
