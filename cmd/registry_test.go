package cmd

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/scheduled/monitoring"
)

// A scrape of a program that runs no node yet has the runtime's metrics; a second program has a registry of its own.
func TestMetricsHandler(t *testing.T) {
	t.Parallel()
	for range 2 {
		answer := httptest.NewRecorder()
		newMetrics().metricsHandler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
		for _, want := range []string{"\ngo_goroutines ", "\nprocess_start_time_seconds ",
			"promhttp_metric_handler_errors_total"} {
			if !strings.Contains(answer.Body.String(), want) {
				t.Errorf("%d: there is no %s", answer.Code, want)
			}
		}
	}
}

// Like print it needs no database.
func TestMetricsPrintsAlertsAndDashboard(t *testing.T) {
	for name, want := range map[string]string{"alerts": monitoring.Alerts, "dashboard": monitoring.Dashboard} {
		got := run(t, []string{"DATABASE_URL=postgres://127.0.0.1:1/x"}, "metrics", name)
		if got.want(t, exitOK); got.stdout != want || want == "" {
			t.Errorf("%s: %s", name, got.stdout)
		}
	}
	run(t, nil, "metrics").want(t, exitOK)
	run(t, nil, "metrics", "alarms").want(t, exitUsage,
		`"tasktable metrics" has no command "alarms"; did you mean alerts?`)
}
