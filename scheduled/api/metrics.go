package api

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tasktable/tasktable/store"
)

// callMetrics counts calls. Nil counts nothing.
type callMetrics struct {
	calls *prometheus.CounterVec
	took  *prometheus.HistogramVec
}

// noOperation stands for calls that were refused before it was known which operation they ask for.
const noOperation = "(none)"

// newCallMetrics registers the metrics. Each operation has its series at zero from the beginning, so that the first
// rate is right. Their number is bounded, because both labels have few values.
func newCallMetrics(registerer prometheus.Registerer, operations []*huma.Operation) (*callMetrics, error) {
	if registerer == nil {
		return nil, nil //nolint:nilnil // nil counts nothing
	}
	m := &callMetrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "tasktable", Name: "api_requests_total",
			Help: "Calls of the HTTP API, by the class of the answer's status."}, []string{"operation", "status"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "tasktable", Name: "api_request_duration_seconds",
			Help:    "How long calls took. This includes the time that a call asks to wait (?wait), and whole streams.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60},
		}, []string{"operation"}),
	}
	for _, op := range append(operations, &huma.Operation{OperationID: noOperation}) {
		m.took.WithLabelValues(op.OperationID)
		for class := 1; class <= 5; class++ {
			m.calls.WithLabelValues(op.OperationID, classOf(100*class))
		}
	}
	for _, one := range []prometheus.Collector{m.calls, m.took} {
		if err := registerer.Register(one); err != nil {
			return nil, fmt.Errorf("api.Config.Metrics: %w: %w", store.ErrInvalid, err)
		}
	}
	return m, nil
}

func classOf(status int) string { return strconv.Itoa(status/100) + "xx" }

// answered counts a call.
func (m *callMetrics) answered(operation string, status int, took time.Duration) {
	if m == nil {
		return
	}
	if operation == "" {
		operation = noOperation
	}
	if status == 0 { // nothing was written, and net/http answers 200
		status = http.StatusOK
	}
	m.calls.WithLabelValues(operation, classOf(status)).Inc()
	m.took.WithLabelValues(operation).Observe(took.Seconds())
}
