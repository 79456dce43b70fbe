package cmd

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are those of the node, of the Go runtime and of the process.
type metrics struct{ registry *prometheus.Registry }

// newMetrics makes a registry of the process's own, so that it has nothing that some package puts into the default
// one.
func newMetrics() *metrics {
	m := &metrics{prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// metricsHandler answers a scrape. A metric that cannot be collected does not hide the others.
func (m *metrics) metricsHandler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry,
		ErrorHandling: promhttp.ContinueOnError})
}
