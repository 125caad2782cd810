// Package ops has what watches a fleet: alerts for Prometheus, and a dashboard for Grafana. They
// work on the metrics of telemetry/snowflakeprom, or of telemetry/snowflakeotel through its
// exporter for Prometheus. docs/monitoring.md says how to install them, docs/runbook.md what
// to do when one fires.
package ops

import _ "embed" // of the files below

// Rules are alerts and the rules that they build on, to be listed in rule_files of Prometheus.
//
//go:embed prometheus/rules.yml
var Rules []byte

// Dashboard is a dashboard to be imported into Grafana.
//
//go:embed grafana/snowflake.json
var Dashboard []byte
