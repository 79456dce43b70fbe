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
	all := run(t, nil, "metrics", "alerts", "--no-node-after=2m", "--late-after=15m", "--starts-late-after=3m",
		"--dead-letters=77", "--queue-depth=55", "--failure-ratio=0.5", "--claims-lost=88", "--slow-after=4s",
		"--paused-for=90m", "--recurring-intervals=3", "--slo-start-within=250ms", "--slo-start-ratio=0.99",
		"--slo-success-ratio=0.999", "--slo-api-ratio=0.995", "--slo-min-bad=66")
	all.want(t, exitOK)
	for _, want := range []string{
		"oldest_due_age_seconds) > 120\n", "oldest_due_age_seconds) > 900\n", "delay_seconds_bucket[10m]))) > 180\n",
		"dead_total[1h])) > 77\n", "lane_paused) == 1) > 55\n", "[15m])) > 0.5\n",
		"[30m])) > 88\n", "settle_duration_seconds_bucket[10m]))) > 4\n", "pass_duration_seconds_bucket[10m]))) > 4\n",
		"for: 90m\n", "without_success) >= 3\n", `le=~"0\\.25"}`,
		"start_late:ratio_rate1h > 14.4 * 0.01 and", ":failed:ratio_rate1h > 14.4 * 0.001 and",
		"api_unavailable:ratio_rate1h > 14.4 * 0.005 and", "[6h])) >= 66\n", "99 % of the attempts begin within 250ms",
	} {
		if !strings.Contains(all.stdout, want) {
			t.Errorf("the rules have no %q", want)
		}
	}
	run(t, nil, "metrics").want(t, exitOK)
}
