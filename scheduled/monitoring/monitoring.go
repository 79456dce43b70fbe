// Package monitoring holds alert rules for Prometheus and a dashboard for Grafana. They watch the metrics of
// Tasktable's nodes.
package monitoring

import _ "embed" // the files

// Alerts is a Prometheus rule file.
//
//go:embed alerts.yaml
var Alerts string

// Dashboard is a dashboard for Grafana 10 or later. Grafana asks for its data source when somebody imports it.
//
//go:embed dashboard.json
var Dashboard string
