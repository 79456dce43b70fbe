package rulestest

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/tasktable/tasktable/scheduled/monitoring"
	"github.com/tasktable/tasktable/store"
)

// dashboard is what of Grafana's model matters here.
type dashboard struct {
	Title         string
	UID           string
	SchemaVersion int
	Templating    struct{ List []variable }
	Panels        []panel
}

type variable struct {
	Name  string
	Type  string
	Query json.RawMessage
}

type panel struct {
	ID          int
	Type        string
	Title       string
	Description string
	Datasource  datasource
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct {
		RefID      string
		Expr       string
		Datasource datasource
	}
}

type datasource struct{ Type, UID string }

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(monitoring.Dashboard))
	if err := decoder.Decode(&d); err != nil {
		t.Fatal(err)
	}
	return d
}

// Grafana can show it: each panel has a place of its own, a data source that is asked for, and variables
// that are there.
func TestDashboardIsComplete(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	if d.Title != "Tasktable" || d.UID != "tasktable" || d.SchemaVersion < 38 {
		t.Errorf("%q, %q, schema %d", d.Title, d.UID, d.SchemaVersion)
	}
	var names []string
	for _, v := range d.Templating.List {
		names = append(names, v.Name)
	}
	if want := []string{"datasource", "service", "instance", "type"}; !slices.Equal(names, want) ||
		d.Templating.List[0].Type != "datasource" {
		t.Errorf("variables %v, want %v", names, want)
	}
	used := map[string]bool{}
	taken := map[[2]int]string{}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d, %q: no title, or an id that is another's", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if by := taken[[2]int{x, y}]; by != "" || x >= 24 {
					t.Fatalf("%s lies over %q, or beside the grid", p.Title, by)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || len(p.Targets) == 0 || p.Datasource != (datasource{"prometheus", "${datasource}"}) {
			t.Errorf("%s: %+v", p.Title, p)
		}
		for _, target := range p.Targets {
			if target.Datasource != p.Datasource || target.RefID == "" {
				t.Errorf("%s: %+v", p.Title, target)
			}
			for _, name := range variables.FindAllStringSubmatch(target.Expr, -1) {
				used[name[1]] = true
				if name[1] != "__rate_interval" && !slices.Contains(names, name[1]) {
					t.Errorf("%s: there is no variable %s", p.Title, name[1])
				}
			}
		}
	}
	if !used["instance"] || !used["type"] {
		t.Errorf("variables that are used: %v", used)
	}
}

var variables = regexp.MustCompile(`\$\{?([a-z_]+)`)

// filled is an expression with all variables at "All".
func filled(expression string) string {
	return variables.ReplaceAllStringFunc(expression, func(name string) string {
		if name == "$__rate_interval" {
			return "2m"
		}
		return ".*"
	})
}

// expressions are all that the dashboard asks, by panel.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			all[p.Title+" "+target.RefID] = filled(target.Expr)
		}
	}
	return all
}

// eventful is a run in which something of everything happens.
func eventful(t *testing.T) *scene {
	t.Helper()
	s := newScene(t)
	s.exec(`SELECT tasktable.schedule('{"type":"UNKNOWN"}', now() - interval '10 minutes')`)
	s.exec(`SELECT tasktable.pause_scope('queue', 'paused')`)
	s.exec(`SELECT tasktable.schedule_recurring('{"type":"JOB"}', '@every 1s', 'tick')`)
	s.node(5)
	s.schedule(20, "", 0)
	s.schedule(3, "fail", 0)
	s.schedule(9, "block", 0)
	for range 5 {
		if _, err := s.tasks.Schedule(t.Context(), s.pool, store.Task{Payload: transfer{}}); err != nil {
			t.Fatal(err)
		}
	}
	s.until(`sum(tasktable_tasks_claimed_total) >= 20 and sum(tasktable_dead_letters) == 3`)
	s.until(`tasktable_recurring_last_success_timestamp_seconds`)
	s.hold(2*time.Minute, scrapeEvery, nil)
	for _, at := range s.scrapes {
		s.record(t, at)
	}
	return s
}

// Each query of the dashboard and of the alerts is one that Prometheus understands, of metrics and labels that nodes
// have; and each of the dashboard's shows something when there is something to be shown.
func TestQueriesFitTheMetrics(t *testing.T) {
	t.Parallel()
	s := eventful(t)
	for where, expression := range expressions(t) {
		s.fits(where, expression)
		shown := false
		for _, at := range s.scrapes {
			shown = shown || len(s.ask(t, expression, at)) > 0
		}
		if !shown {
			t.Errorf("%s shows nothing: %s", where, expression)
		}
	}
	for _, rule := range rules(t) {
		s.fits(rule.Alert, rule.Expr)
		for _, text := range rule.Annotations {
			for _, label := range regexp.MustCompile(`\$labels\.([a-z_]+)`).FindAllStringSubmatch(text, -1) {
				if !strings.Contains(rule.Expr, label[1]) && label[1] != "instance" {
					t.Errorf("%s: its text has the label %s, its result has not", rule.Alert, label[1])
				}
			}
		}
	}
	for _, v := range readDashboard(t).Templating.List[1:] {
		var query struct{ Query string }
		if err := json.Unmarshal(v.Query, &query); err != nil {
			t.Fatal(err)
		}
		inner, ok := strings.CutPrefix(strings.TrimSuffix(query.Query, ")"), "label_values(")
		i := strings.LastIndex(inner, ",")
		if !ok || i < 0 {
			t.Fatalf("%s: %s", v.Name, query.Query)
		}
		s.fits(v.Name, fmt.Sprintf("count by (%s) (%s)", strings.TrimSpace(inner[i+1:]), filled(inner[:i])))
	}
}

// fits looks for the metrics and labels of an expression among what was scraped.
func (s *scene) fits(where, expression string) {
	s.t.Helper()
	parsed, err := parser.ParseExpr(expression)
	if err != nil {
		s.t.Errorf("%s: %s: %v", where, expression, err)
		return
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			for _, matcher := range n.LabelMatchers {
				some := []*labels.Matcher{
					labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, n.Name), matcher,
				}
				if matcher.Name != model.MetricNameLabel {
					some = append(some, labels.MustNewMatcher(labels.MatchNotEqual, matcher.Name, ""))
				}
				if !s.exists(some...) {
					s.t.Errorf("%s: no series has %s: %s", where, matcher, n)
				}
				for _, word := range strings.Split(matcher.Value, "|") { // each of an alternative's
					if one := labels.MustNewMatcher(labels.MatchRegexp, matcher.Name, word); strings.Contains(
						matcher.Value, "|",
					) && !s.exists(some[0], one) {
						s.t.Errorf("%s: no series has %s: %s", where, one, n)
					}
				}
			}
		case *parser.AggregateExpr:
			s.grouped(where, n.Expr, n.Grouping)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil && n.VectorMatching.On {
				s.grouped(where, n.LHS, n.VectorMatching.MatchingLabels)
			}
		}
		return nil
	})
}

// grouped looks for the labels by which an expression is grouped in each metric of it.
func (s *scene) grouped(where string, expression parser.Expr, by []string) {
	s.t.Helper()
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		if n, ok := node.(*parser.VectorSelector); ok {
			for _, label := range by {
				if !s.exists(
					labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, n.Name),
					labels.MustNewMatcher(labels.MatchNotEqual, label, ""),
				) {
					s.t.Errorf("%s: %s has no label %s", where, n.Name, label)
				}
			}
		}
		return nil
	})
}

// The folder's README.md lists each metric with its type and its labels, and none that there is not.
func TestREADMEListsTheMetrics(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.exec(`SELECT tasktable.schedule('{"type":"UNKNOWN"}', now() - interval '10 minutes')`)
	s.exec(`SELECT tasktable.set_limit('others', 5, rate => 10, type => 'OTHER')`)
	s.node(1)
	s.until(`sum(tasktable_lane_depth) == 1`)
	s.until(`tasktable_limit_waiting`)
	s.schedule(1, "fail", 0)
	s.exec(`SELECT tasktable.schedule_recurring('{"type":"JOB"}', '@every 1s', 'tick')`)
	s.until(`sum(tasktable_dead_letters) == 1`)
	s.until(`tasktable_recurring_last_success_timestamp_seconds`)
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "tasktable_") {
			continue
		}
		var names []string
		for _, label := range family.GetMetric()[0].GetLabel() {
			names = append(names, label.GetName())
		}
		slices.Sort(names)
		want = append(
			want,
			fmt.Sprintf(
				"%s %s %v", strings.TrimPrefix(family.GetName(), "tasktable_"),
				strings.ToLower(family.GetType().String()), names,
			),
		)
	}
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	kind := "" // each table of metrics begins with the kind of its metrics
	for _, line := range regexp.MustCompile(
		"(?m)^\\| (?:(counter|gauge|histogram)|`([a-z_]+)`)[a-z ]* \\|([a-z, ]*)\\|",
	).FindAllStringSubmatch(string(text), -1) {
		if line[1] != "" {
			kind = line[1]
			continue
		}
		names := strings.Fields(strings.ReplaceAll(line[3], ",", " "))
		slices.Sort(names)
		got = append(got, fmt.Sprintf("%s %s %v", line[2], kind, names))
	}
	slices.Sort(got)
	slices.Sort(want)
	for _, one := range want {
		if !slices.Contains(got, one) {
			t.Errorf("README.md has not: %s", one)
		}
	}
	for _, one := range got {
		if !slices.Contains(want, one) {
			t.Errorf("there is not: %s", one)
		}
	}
}
