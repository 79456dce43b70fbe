package cmd

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics is what this process measures: the node's metrics, the Go runtime's and the process's.
type metrics struct{ registry *prometheus.Registry }

// newMetrics makes a registry of the process's own: nothing that some package puts into the default one is shown.
func newMetrics() *metrics {
	m := &metrics{prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// metricsHandler answers a scrape. What cannot be collected does not keep the rest from being shown.
func (m *metrics) metricsHandler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry,
		ErrorHandling: promhttp.ContinueOnError})
}
