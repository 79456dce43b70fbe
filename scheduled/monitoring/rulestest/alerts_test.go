package rulestest

import (
	"errors"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/tasktable/tasktable/scheduled/monitoring"
)

// rules reads the alerts as promtool check rules does, expressions and templates included.
func rules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	all, err := parsedRules()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// parsedRules reads them once, because each scrape of each history asks for them.
var parsedRules = sync.OnceValues(func() (all []rulefmt.Rule, err error) {
	groups, errs := rulefmt.Parse([]byte(monitoring.Alerts), false, model.UTF8Validation)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	for _, group := range groups.Groups {
		all = append(all, group.Rules...)
	}
	return all, nil
})

var update = flag.Bool("update", false, "writes alerts.yaml anew")

// alerts.yaml is what the template makes of the default thresholds.
func TestAlertsAreOfTheTemplate(t *testing.T) {
	t.Parallel()
	want, err := monitoring.AlertsWith(monitoring.DefaultThresholds())
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("../alerts.yaml", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if monitoring.Alerts != want {
		t.Error("alerts.yaml is not of the template: go test -run TestAlertsAreOfTheTemplate -update, in scheduled/monitoring/rulestest")
	}
}

// The rules of other thresholds are rules, too.
func TestAlertsOfOtherThresholds(t *testing.T) {
	t.Parallel()
	text, err := monitoring.AlertsWith(monitoring.Thresholds{
		NoNodeAfter: 2 * time.Minute, LateAfter: 15 * time.Minute, QueueDepth: 55, StartsLateAfter: 3 * time.Minute,
		DeadLetters: 77, FailureRatio: 0.5, ClaimsLost: 88, SlowAfter: 4 * time.Second, PausedFor: 90 * time.Minute,
		RecurringIntervals: 3, StartWithin: 250 * time.Millisecond, StartRatio: 0.99, SuccessRatio: 0.999,
		APIRatio: 0.995, MinBad: 66,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, errs := rulefmt.Parse([]byte(text), false, model.UTF8Validation); len(errs) > 0 {
		t.Error(errs)
	}
}

// Each line of a block of promql in the README is an expression.
func TestPromQLBlocks(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```promql\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) == 0 {
		t.Error("there is no block of promql")
	}
	for _, block := range blocks {
		for line := range strings.Lines(block[1]) {
			if _, err := parser.ParseExpr(line); err != nil {
				t.Errorf("%v: %s", err, line)
			}
		}
	}
}

func TestAlertsAreComplete(t *testing.T) {
	t.Parallel()
	var names []string
	for _, rule := range rules(t) {
		if rule.Record != "" {
			continue
		}
		if !strings.HasPrefix(rule.Alert, "Tasktable") || slices.Contains(names, rule.Alert) {
			t.Errorf("%q is no alert of ours, or comes twice", rule.Alert)
		}
		names = append(names, rule.Alert)
		if severity := rule.Labels["severity"]; !slices.Contains([]string{"critical", "warning", "info"}, severity) {
			t.Errorf("%s: severity %q", rule.Alert, severity)
		}
		if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
			t.Errorf("%s says too little", rule.Alert)
		}
	}
}

// fired is the alerts that have fired in a history: whose expression was true for as long as they say.
func fired(t *testing.T, h *history) []string {
	t.Helper()
	var names []string
	var recorded time.Time
	// A minute apart, as the rules are evaluated where nobody sets that.
	for _, at := range h.scrapes {
		if at.Sub(recorded) >= time.Minute {
			h.record(t, at)
			recorded = at
		}
	}
	for _, rule := range rules(t) {
		if rule.Record != "" {
			continue
		}
		since := map[uint64]time.Time{}
		for _, at := range h.scrapes {
			now := map[uint64]time.Time{}
			for _, one := range h.ask(t, rule.Expr, at) {
				key := one.Metric.Hash()
				if now[key] = at; !since[key].IsZero() {
					now[key] = since[key]
				}
				if at.Sub(now[key]) >= time.Duration(rule.For) && !slices.Contains(names, rule.Alert) {
					names = append(names, rule.Alert)
				}
			}
			since = now
		}
	}
	slices.Sort(names)
	return names
}

// change sets the values of some series, by the number of the scrape.
type change func(i int, name string, l labels.Labels, value float64) float64

// grows lets a counter grow by so much with each scrape.
func grows(counter string, by float64) change {
	return func(i int, name string, _ labels.Labels, value float64) float64 {
		if name == counter {
			return value + by*float64(i)
		}
		return value
	}
}

// slow lets a histogram have an observation a scrape that is in none of its buckets but the last.
func slow(histogram string) change {
	return func(i int, name string, l labels.Labels, value float64) float64 {
		if name == histogram+"_count" || name == histogram+"_bucket" && l.Get("le") == "+Inf" {
			return value + float64(i)
		}
		return value
	}
}

// Each alert fires in the situation it is for, and no other does; in a healthy run none.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	healthy := func(s *scene) { s.node(10) }
	var all []string
	for _, test := range []struct {
		name   string
		run    func(s *scene)
		change change // of the half hour after it
		want   []string
	}{
		{"claims are lost", func(s *scene) {
			s.node(10)
			s.scrape(s.t, s.registry, scrapeEvery) // an increase needs a sample before it
			s.schedule(20, "", -time.Hour)
			s.exec(`UPDATE tasktable.scheduled_tasks SET status = 'EXECUTING', attempt = 1,
				fence = nextval('tasktable.task_numbers'), lease_expires_at = now() - interval '1 hour',
				next_attempt_at = NULL`)
			// A leader's walk finds claims that nobody holds when it begins, and then once a minute. So the node begins
			// to lead once more.
			s.exec(`SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
				WHERE locktype = 'advisory' AND datname = current_database()`)
			s.until(`sum(tasktable_executions_total{outcome="LOST"}) == 20`)
			s.schedule(200, "", 0)
			s.until(`sum(tasktable_executions_total{outcome="COMPLETED"}) >= 200`)
		}, nil, []string{"TasktableClaimsLost", "TasktableSuccessSLOFast", "TasktableSuccessSLOSlow"}},
		{"healthy", func(s *scene) {
			s.node(10)
			for range 20 {
				s.schedule(10, "", 0)
				s.scrape(s.t, s.registry, scrapeEvery)
			}
			s.schedule(1, "fail", 0)
			s.until(
				`sum(tasktable_executions_total{outcome="COMPLETED"}) >= 200 and sum(tasktable_tasks_dead_total) == 1`,
			)
		}, nil, nil},
		{"nodes have stopped", func(s *scene) {
			s.node(10)
			s.hold(30*time.Minute, scrapeEvery, nil)
			s.stop()
			s.scrape(s.t, s.registry, scrapeEvery)
		}, nil, []string{"TasktableNoLeader"}},
		{"nobody has the type", func(s *scene) {
			s.exec(`SELECT tasktable.schedule('{"type":"UNKNOWN"}', now() - interval '10 minutes')`)
			s.node(10)
			s.until(`tasktable_lane_depth{type="UNKNOWN"} == 1`)
		}, nil, []string{"TasktableNoNodeForLane"}},
		{"slots are busy", func(s *scene) {
			s.node(1)
			s.schedule(6, "block", 10*time.Minute)
			s.until(`tasktable_lane_depth > 0 and on (queue) tasktable_slots_used == 1`)
		}, nil, []string{"TasktableSlotsExhausted", "TasktableStartsLate", "TasktableTasksLate"}},
		{"a queue is deep", func(s *scene) {
			s.schedule(1100, "block", 0)
			s.node(1)
			s.until(`sum by (queue) (tasktable_lane_depth) > 1000 and on (queue) tasktable_slots_used == 1`)
		}, nil, []string{"TasktableQueueDeep", "TasktableSlotsExhausted"}},
		{"tasks wait for a host", func(s *scene) {
			s.schedule(3, "", 10*time.Minute)
			s.exec(`UPDATE tasktable.scheduled_tasks SET waits = 3, waiting_since = due_at, due_at = NULL,
				next_attempt_at = now() + interval '1 day'`)
			s.node(10)
			s.until(`tasktable_lane_waiting == 3`)
		}, nil, []string{"TasktableTasksLate", "TasktableTasksWait"}},
		{"recurring tasks", func(s *scene) {
			s.recurs("fails twice", 3*time.Hour, "COMPLETED", "FAILED", "FAILED")
			s.recurs("paused", 3*time.Hour, "COMPLETED", "FAILED", "FAILED")
			s.recurs("failed once", 2*time.Hour, "COMPLETED", "FAILED")
			s.recurs("never fired", 0)
			s.exec(`SELECT tasktable.pause('paused')`)
			s.node(10)
			s.until(`tasktable_recurring_failures_in_a_row{id="fails twice"} == 2
				and on () tasktable_recurring_intervals_without_success{id="failed once"} == 1
				and on () tasktable_recurring_intervals_without_success{id="never fired"} == 0`)
		}, nil, []string{"TasktableRecurringOverdue"}},
		{"connections for transactions are busy", func(s *scene) {
			s.node(100)
			places := int(s.pool.Config().MaxConns) - 2
			for range 3 * places {
				s.exec(`SELECT tasktable.schedule('{"type":"TRANSFER","does":"block"}', now() - interval '10 minutes')`)
			}
			s.until(`tasktable_lane_depth > 0 and on () tasktable_transactions_used == tasktable_transactions`)
		}, nil, []string{"TasktableStartSLOFast", "TasktableStartSLOSlow", "TasktableStartsLate",
			"TasktableTasksLate", "TasktableTransactionsExhausted"}},
		{"a pause is forgotten", func(s *scene) {
			s.exec(`SELECT tasktable.pause_scope('queue', 'default')`)
			s.schedule(1100, "", 10*time.Minute)
			s.node(1)
			s.until(`tasktable_lane_oldest_due_age_seconds > 300 and on () tasktable_lane_depth > 1000 and on () tasktable_pauses{scope="queue"} == 1`)
			s.hold(25*time.Hour, 4*time.Minute, nil)
		}, nil, []string{"TasktablePausedForLong"}},
		{"after a downtime", func(s *scene) {
			s.node(10)
			s.schedule(100, "", time.Hour)
			// The age is counted now and then, so it may be of before the last task completed.
			s.until(`sum(tasktable_executions_total{outcome="COMPLETED"}) == 100
				unless on () tasktable_lane_oldest_due_age_seconds > 300`)
		}, nil, []string{"TasktableStartSLOFast", "TasktableStartSLOSlow", "TasktableStartsLate"}},
		{"tasks fail", func(s *scene) {
			s.node(10)
			s.schedule(30, "fail", 0)
			s.until(`sum(tasktable_executions_total{outcome="FAILED"}) == 30`)
		}, nil, []string{"TasktableDeadLetters", "TasktableFailures", "TasktableSuccessSLOFast", "TasktableSuccessSLOSlow"}},
		{"a dead letter is left", func(s *scene) {
			s.node(10)
			s.schedule(1, "fail", 0)
			s.until(`sum(tasktable_dead_letters) == 1`)
			s.hold(2*time.Hour, time.Minute, nil)
		}, nil, []string{"TasktableDeadLettersLeft"}},
		{"a node has no session", healthy, func(i int, name string, _ labels.Labels, value float64) float64 {
			if name == "tasktable_node_up" && i > 10 && i < 14 {
				return 0
			}
			return value
		}, []string{"TasktableNodeWithoutSession"}},
		{"a node flaps", healthy, grows("tasktable_node_lives_total", 0.2), []string{"TasktableNodeFlapping"}},
		{"settling is slow", healthy, slow("tasktable_settle_duration_seconds"), []string{"TasktableSettleSlow"}},
		{"settling fails", healthy, grows("tasktable_settle_failures_total", 1), []string{"TasktableSettleFailing"}},
		{"passes are slow", healthy, slow("tasktable_pass_duration_seconds"), []string{"TasktablePassSlow"}},
		{"passes fail", healthy, grows("tasktable_look_failures_total", 1), []string{"TasktablePassFailing"}},
		{"counts fail", healthy, grows("tasktable_census_failures_total", 1), []string{"TasktableMetricsIncomplete"}},
	} {
		all = append(all, test.want...)
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			test.run(s)
			s.hold(30*time.Minute, scrapeEvery, test.change)
			if got := fired(t, s.history); !slices.Equal(got, test.want) {
				t.Errorf("fired: %q, want %q", got, test.want)
			}
		})
	}
	for _, rule := range rules(t) {
		if rule.Record == "" && !strings.Contains(rule.Alert, "SLO") && !slices.Contains(all, rule.Alert) {
			t.Errorf("%s is never seen to fire", rule.Alert)
		}
	}
}
