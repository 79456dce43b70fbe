// Package monitoring has what watches the metrics of Tasktable's nodes: alert rules for Prometheus and a dashboard for Grafana.
package monitoring

import _ "embed" // the files

// Alerts is a Prometheus rule file.
//
//go:embed alerts.yaml
var Alerts string

// Dashboard is a Grafana dashboard, for Grafana 10 or later. It asks for its data source when it is imported.
//
//go:embed dashboard.json
var Dashboard string
