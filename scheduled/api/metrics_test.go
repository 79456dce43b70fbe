package api_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tasktable/tasktable/scheduled/api"
)

// Calls are counted by operation and status, also those that are refused before an operation is known; and a task's id
// makes no series.
func TestCallsAreCounted(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	var config api.Config
	s := newService(t, func(c *api.Config) {
		c.Metrics = registry
		config = *c
	})
	count := func() (series int) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			series += len(family.GetMetric())
		}
		return series
	}
	series := count()
	call := func(path, caller string) { s.serve(caller, httptest.NewRequest(http.MethodGet, path, nil)) }
	call("/v1/recurring", "reader")
	call("/v1/recurring/a", "reader")
	call("/v1/recurring/b", "reader")
	call("/v1/recurring", "")
	call("/v1/nothing", "reader")
	s.pool.Close()
	call("/v1/recurring", "reader")
	want := map[[2]string]float64{
		{"listRecurring", "2xx"}: 1, {"listRecurring", "4xx"}: 1, {"getRecurring", "4xx"}: 2, {"(none)", "4xx"}: 1,
		{"listRecurring", "5xx"}: 1,
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			key := [2]string{labels["operation"], labels["status"]}
			if counter := metric.GetCounter(); counter != nil && counter.GetValue() != want[key] {
				t.Errorf("%s: %g, want %g", key, counter.GetValue(), want[key])
			}
		}
	}
	if n := count(); n != series || n == 0 {
		t.Errorf("%d series, at first there were %d", n, series)
	}
	if _, err := api.New(config); err == nil {
		t.Error("a second API uses the same registerer")
	}
}
