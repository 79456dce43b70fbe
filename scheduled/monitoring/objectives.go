package monitoring

import (
	"fmt"
	"regexp"
	"strings"
)

// objective is a service level objective, as the template writes it.
type objective struct {
	Name, Alert string
	What        string // what is bad
	Goal        string
	Budget      string // the part that may be bad
	See         string // where to look

	bad func(counts func(metric string) string) string // how many are bad, by rate or increase
	all string
}

// Ratio is the part that was bad within a window such as 5m.
func (o objective) Ratio(window string) string {
	rate := func(metric string) string { return "sum(rate(" + metric + "[" + window + "]))" }
	return o.bad(rate) + " / " + rate(o.all)
}

// Count is how many were bad within a window.
func (o objective) Count(window string) string {
	return o.bad(func(metric string) string { return "sum(increase(" + metric + "[" + window + "]))" })
}

// Objectives are the three objectives.
func (t Thresholds) Objectives() []objective { //nolint:revive // for the template
	within := number(t.StartWithin.Seconds())
	bound := strings.ReplaceAll(regexp.QuoteMeta(within), `\`, `\\`)
	if !strings.Contains(within, ".") {
		bound += `(\\.0)?` // Prometheus 3 stores the bound 5 as 5.0
	}
	one := func(metric string) func(func(string) string) string {
		return func(counts func(string) string) string { return counts(metric) }
	}
	return []objective{{
		Name: "start_late", Alert: "TasktableStartSLO", What: "Attempts that begin late",
		Goal: fmt.Sprintf("%s %% of the attempts begin within %v of their due time.",
			number(100*t.StartRatio), t.StartWithin),
		Budget: number(1 - t.StartRatio),
		See:    "SELECT * FROM tasktable.late_tasks ORDER BY due_at has the tasks that wait now.",
		bad: func(counts func(string) string) string {
			return "(" + counts("tasktable_start_delay_seconds_count") + " - " +
				counts(`tasktable_start_delay_seconds_bucket{le=~"`+bound+`"}`) + ")"
		},
		all: "tasktable_start_delay_seconds_count",
	}, {
		Name: "failed", Alert: "TasktableSuccessSLO", What: "Tasks that fail, expire or are lost",
		Goal:   number(100*t.SuccessRatio) + " % of the tasks that end succeed. A cancelled task does not count.",
		Budget: number(1 - t.SuccessRatio), See: "tasktable dead list has the tasks.",
		bad: one(`tasktable_executions_total{outcome=~"FAILED|EXPIRED|LOST"}`),
		all: `tasktable_executions_total{outcome=~"COMPLETED|FAILED|EXPIRED|LOST"}`,
	}, {
		Name: "api_unavailable", Alert: "TasktableAPISLO", What: "Calls of the HTTP API that are answered with 5xx",
		Goal:   number(100*t.APIRatio) + " % of the calls of the HTTP API are not answered with 5xx.",
		Budget: number(1 - t.APIRatio), See: "The line \"call\" in the log has the path and the status.",
		bad: one(`tasktable_api_requests_total{status="5xx"}`), all: "tasktable_api_requests_total",
	}}
}
