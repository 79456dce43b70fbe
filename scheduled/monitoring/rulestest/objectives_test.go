package rulestest

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/tasktable/tasktable/scheduled/monitoring"
)

// phase is a time in which so many tasks a minute are due, and the error budget is spent so many times too fast.
type phase struct {
	lasts   time.Duration
	burns   float64
	aMinute float64 // 0: 6000
}

// recorded is a history of the metrics of the three objectives.
func recorded(t *testing.T, phases ...phase) *history {
	t.Helper()
	h, defaults := newHistory(), monitoring.DefaultThresholds()
	const step = 2 * time.Minute
	bad, all := map[string]float64{}, map[string]float64{}
	add := func(p phase) {
		var samples []scrapedSample
		for of, ratio := range map[string]float64{
			"start": defaults.StartRatio, "success": defaults.SuccessRatio, "api": defaults.APIRatio,
		} {
			tasks := p.aMinute * step.Minutes()
			all[of] += tasks
			bad[of] += tasks * min(p.burns*(1-ratio), 1)
			sample := func(value float64, name string, more ...string) {
				samples = append(samples, scrapedSample{
					labels.FromStrings(append([]string{model.MetricNameLabel, "tasktable_" + name}, more...)...), value,
				})
			}
			switch of {
			case "start":
				sample(all[of], "start_delay_seconds_count", "type", "JOB")
				sample(all[of]-bad[of], "start_delay_seconds_bucket", "type", "JOB", "le", "5")
				sample(all[of], "start_delay_seconds_bucket", "type", "JOB", "le", "+Inf")
			case "success":
				sample(all[of]-bad[of], "executions_total", "type", "JOB", "outcome", "COMPLETED")
				for _, outcome := range []string{"FAILED", "EXPIRED", "LOST"} {
					sample(bad[of]/3, "executions_total", "type", "JOB", "outcome", outcome)
				}
				sample(all[of], "executions_total", "type", "JOB", "outcome", "CANCELLED") // does not count
			case "api":
				sample(all[of]-bad[of], "api_requests_total", "operation", "listTasks", "status", "2xx")
				sample(bad[of], "api_requests_total", "operation", "listTasks", "status", "5xx")
			}
		}
		h.add(step, samples)
	}
	add(phase{})
	for _, p := range phases {
		if p.aMinute == 0 {
			p.aMinute = 6000
		}
		for range int(math.Round(float64(p.lasts) / float64(step))) {
			add(p)
		}
	}
	return h
}

// The alerts of the objectives fire by how fast the error budget is spent, and for how long; all three alike.
func TestObjectives(t *testing.T) {
	t.Parallel()
	well := phase{lasts: 80 * time.Hour}
	for name, c := range map[string]struct {
		phases []phase
		want   string
	}{
		"all is well":                {[]phase{well}, ""},
		"the budget lasts":           {[]phase{{lasts: 80 * time.Hour, burns: 0.8}}, ""},
		"it does not quite last":     {[]phase{{lasts: 80 * time.Hour, burns: 1.5}}, "Slow"},
		"a day":                      {[]phase{well, {lasts: 24 * time.Hour, burns: 3.5}}, "Slow"},
		"six hours":                  {[]phase{well, {lasts: 6 * time.Hour, burns: 7}}, "Fast"},
		"an hour":                    {[]phase{well, {lasts: time.Hour, burns: 15}}, "Fast"},
		"an hour, not so fast":       {[]phase{well, {lasts: time.Hour, burns: 13}}, ""},
		"ten minutes, very fast":     {[]phase{well, {lasts: 10 * time.Minute, burns: 100}}, "Fast"},
		"four minutes, as fast":      {[]phase{well, {lasts: 4 * time.Minute, burns: 100}}, ""},
		"it is over":                 {[]phase{well, {lasts: time.Hour, burns: 20}, {lasts: 10 * time.Minute}}, ""},
		"all of few":                 {[]phase{{lasts: 5 * time.Hour, burns: 1e6, aMinute: 1. / 60}}, ""},
		"all of some":                {[]phase{{lasts: 5 * time.Hour, burns: 1e6, aMinute: 0.1}}, "Fast Slow"},
		"nothing is due, or asked":   {[]phase{well, {lasts: 80 * time.Hour, burns: 100, aMinute: 1e-9}}, ""},
		"after days, still too fast": {[]phase{{lasts: 80 * time.Hour, burns: 20}}, "Fast Slow"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := recorded(t, c.phases...)
			h.record(t, h.now)
			got := map[string][]string{}
			for _, rule := range rules(t) {
				if of, speed, ok := strings.Cut(rule.Alert, "SLO"); ok && len(h.ask(t, rule.Expr, h.now)) > 0 {
					got[of] = append(got[of], speed)
				}
			}
			for _, of := range []string{"TasktableStart", "TasktableSuccess", "TasktableAPI"} {
				slices.Sort(got[of])
				if fires := strings.Join(got[of], " "); fires != c.want {
					t.Errorf("%sSLO fires %q, want %q", of, fires, c.want)
				}
			}
		})
	}
}
