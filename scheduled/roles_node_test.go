package scheduled

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

func role(of Role) func(*Config) { return func(c *Config) { c.Role = of } }

// findings are what needs a person, of nodes.
func (s *bench) findings() (found []string) {
	s.T.Helper()
	all, err := inspect.New(store.Config{}).Attention(s.T.Context(), s.Pool)
	s.OK(err)
	for _, one := range all {
		if one.Kind == "nodes" {
			found = append(found, string(one.Level)+": "+one.Found)
		}
	}
	return found
}

// A leader alone claims nothing, a worker alone leads nothing, and together they run tasks. The leader still leads when
// it has got a second worker, and a worker does not take its place when it goes.
func TestRoles(t *testing.T) {
	s := newBench(t)
	stopWorker := s.node(role(RoleWorker))
	s.Add("first", nil)
	s.Sees("the worker has made several turns", `SELECT count(*) = 1 FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'tasktable session'
			AND query_start > backend_start + interval '2 seconds'`)
	if s.leading() != 0 {
		t.Error("a worker leads")
	}
	if got := s.why("first").Reason.Code; got != "no_leader" {
		t.Errorf("the task waits: %s", got)
	}
	if got := fmt.Sprint(s.findings()); got !=
		"[error: no node leads, of 1 that live, and none of them may lead: nothing is claimed]" {
		t.Errorf("found %s", got)
	}
	stopLeader := s.node(role(RoleLeader))
	s.Begins("first").End <- nil
	s.Is("first", store.StatusCompleted, taskdb.OutcomeCompleted)
	worker, leader := int64(s.Count(`SELECT number FROM tasktable.node_states WHERE role = 'worker'`)),
		int64(s.Count(`SELECT number FROM tasktable.node_states WHERE role = 'leader'`))
	if s.leading() != leader {
		t.Errorf("node %d leads, want %d", s.leading(), leader)
	}

	stopWorker()
	s.Passes(s.Now().Add(1100 * time.Millisecond)) // until then, the leader may claim for it
	s.Add("second", nil)
	s.Passes(s.Now().Add(1100 * time.Millisecond))
	s.Is("second", store.StatusQueued)
	if got := s.why("second").Reason.Code; got != "no_worker" {
		t.Errorf("the task waits: %s", got)
	}
	if got := fmt.Sprint(s.findings()); got !=
		"[error: no node runs tasks, of 1 that live, because all of them may only lead]" {
		t.Errorf("found %s", got)
	}
	s.node(role(RoleWorker))
	s.Begins("second").End <- nil
	s.Is("second", store.StatusCompleted, taskdb.OutcomeCompleted)
	if n := s.Count(`SELECT count(*) FROM tasktable.scheduled_task_executions WHERE node = $1`, leader); n != 0 {
		t.Errorf("the leader ran %d tasks", n)
	}
	if n := s.Count(`SELECT count(*) FROM tasktable.nodes WHERE elected_at IS NOT NULL AND number <> $1`, leader); n != 0 {
		t.Errorf("%d workers have led, the first is %d", n, worker)
	}

	stopLeader()
	s.node(role(RoleLeader))
	s.Sees("another leader leads", `SELECT count(*) = 1 FROM tasktable.node_states
		WHERE state = 'leads' AND role = 'leader' AND number <> $1`, leader)
}

// A quiet node has no role, and has its own again afterwards.
func TestRoleOfAQuietNode(t *testing.T) {
	s := newBench(t)
	node, _ := s.member(role(RoleLeader))
	is := func(state, role string) {
		t.Helper()
		s.Sees("it is "+state, `SELECT count(*) = 1 FROM tasktable.node_states
			WHERE dead_at IS NULL AND state = $1 AND role IS NOT DISTINCT FROM nullif($2, '')`, state, role)
	}
	is("leads", "leader")
	node.Quiet()
	is("quiet", "")
	node.Unquiet()
	is("leads", "leader")
}

// A backlog of a later queue does not delay an earlier one: what falls free goes to the earlier queue, whatever the
// priorities, as long as it has due tasks that are not claimed. Then the later queue goes on.
func TestStrictQueues(t *testing.T) {
	s := newBench(t)
	s.node(func(c *Config) {
		c.Queues, c.StrictQueues = map[string]int{"critical": 1, "low": 1}, []string{"critical", "low"}
	})
	acts := map[string][]*enginetest.Attempt{}
	for i := range 12 {
		s.Add(fmt.Sprint("low ", i), func(task *store.Task) { task.Queue, task.Priority = "low", 50 })
	}
	s.running("low", 2, acts) // it has the slots of both
	s.Passes(s.Now().Add(1100 * time.Millisecond))
	s.Sees("the leader no longer expects that they end soon",
		`SELECT count(*) = 2 FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL`)
	s.put("critical", 8)
	s.finish("low", acts)
	s.running("critical", 1, acts)
	s.finish("low", acts)
	s.running("critical", 2, acts)
	for range 3 { // the next one of critical begins, and none of low
		s.finish("critical", acts)
		s.running("critical", 2, acts)
	}
	s.enterAll("low", acts)
	if n := len(acts["low"]); n != 0 {
		t.Errorf("%d tasks of low have begun while critical had work", n)
	}
	s.finishAll("critical", 5, acts)
	s.finishAll("low", 10, acts)
}

const (
	worksNothingSQL = `SELECT state = 'quiet' AND queues = '{}' AND types = '{}' FROM tasktable.node_states
		WHERE number = $1`
	leadsLastSQL = `SELECT number = $1 FROM tasktable.nodes WHERE elected_at IS NOT NULL
		ORDER BY elected_at DESC LIMIT 1`
	ranBySQL = `SELECT count(*) FROM tasktable.scheduled_task_executions WHERE task_id = $1 AND outcome = 'COMPLETED'
		AND node = $2`
)

// A quiet leader lets another lead, hands back what it has not begun, and finishes what runs. Nothing
// else is late for it.
func TestQuietNodeLeavesTheWorkToOthers(t *testing.T) {
	s := newBench(t)
	limit := enginetest.Limits(t, s.Pool)
	ahead := func(c *Config) { c.LookAhead = 10 * time.Second }
	first, _ := s.member(ahead)
	s.Add("runs", nil)
	runs := s.Begins("runs")
	due := s.Now().Add(4 * time.Second)
	s.Add("waits", func(task *store.Task) { task.At = due })
	enginetest.Await(t, s.Pool, "waits", patience, store.StatusExecuting)
	_, stopSecond := s.member(ahead)
	s.Sees("the second node is there", `SELECT count(*) = 2 FROM tasktable.nodes WHERE dead_at IS NULL`)

	first.Quiet()
	first.Quiet()
	s.Sees("what waits is handed back before its time",
		`SELECT EXISTS (SELECT 1 FROM tasktable.scheduled_task_executions WHERE task_id = 'waits'
			AND outcome = 'RELEASED' AND finished_at < $1)`, due)
	s.Sees("the node works nothing", worksNothingSQL, 1)
	s.Sees("the other leads", leadsLastSQL, 2)
	if health := first.Ready(); !health.OK || health.Checks[0].Reason != reasonQuiet {
		t.Errorf("%+v", health)
	}
	for i := range 20 {
		s.Add(fmt.Sprint(i), nil)
		s.Begins(fmt.Sprint(i)).End <- nil
		s.Is(fmt.Sprint(i), store.StatusCompleted, taskdb.OutcomeCompleted)
	}
	if n := s.Count(`SELECT count(*) FROM tasktable.scheduled_task_executions WHERE node = 1
		AND outcome = 'COMPLETED'`); n != 0 {
		t.Errorf("the quiet node has run %d tasks", n)
	}
	waits := s.Begins("waits")
	waits.End <- nil
	if row := s.Is("waits", store.StatusCompleted, taskdb.OutcomeReleased, taskdb.OutcomeCompleted); row.Attempt != 1 ||
		waits.StartedAt.Sub(due) > limit(time.Second) {
		t.Errorf("attempt %d, %s late", row.Attempt, waits.StartedAt.Sub(due))
	}
	runs.End <- nil
	s.Is("runs", store.StatusCompleted, taskdb.OutcomeCompleted)
	if s.Count(ranBySQL, "runs", 1) != 1 || s.Count(ranBySQL, "waits", 2) != 1 {
		t.Error("what ran was not finished by the quiet node, or what waited not run by the other")
	}

	first.Unquiet()
	stopSecond()
	s.Sees("the first leads again", leadsLastSQL, 1)
	s.Add("after", nil)
	s.Begins("after").End <- nil
	s.Is("after", store.StatusCompleted, taskdb.OutcomeCompleted)
	if health := first.Ready(); !health.OK || health.Checks[0].Reason != "" {
		t.Errorf("%+v", health)
	}
	first.Quiet() // and so it stops
}

// A node may be quiet before it begins, and stays so when it loses its session. Alone, it leaves what is
// due where it is.
func TestQuietNodeAlone(t *testing.T) {
	s := newBench(t)
	s.cut = true
	registry, err := handlers.NewRegistry(handlers.Handle(s.Handle))
	s.OK(err)
	node, err := New(Config{Pool: s.nodes, Handlers: registry, Logger: enginetest.Logger()})
	s.OK(err)
	node.Quiet()
	keepRunning(t, node)
	t.Cleanup(s.LetGo)
	s.Sees("it is there, and works nothing", worksNothingSQL, 1)
	s.Add("a", nil)
	s.Count(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database()
		AND application_name LIKE 'tasktable session%'`)
	s.Sees("it is there again, and works nothing", worksNothingSQL, 2)
	s.Passes(s.Now().Add(2500 * time.Millisecond)) // two ticks
	if row := enginetest.Await(t, s.Pool, "a", patience, store.StatusQueued); row.Attempt != 0 || row.Fence != nil {
		t.Errorf("claimed: %+v", row)
	}
	s.Sees("nobody works it", `SELECT count(*) = 1 FROM tasktable.late_tasks WHERE NOT has_node`)
	node.Unquiet()
	s.Begins("a").End <- nil
	s.Is("a", store.StatusCompleted, taskdb.OutcomeCompleted)
}

// What River has for a quiet node stays there, and is taken up as soon as the node is no longer quiet.
func TestQuietNodeFetchesNothing(t *testing.T) {
	s := newBench(t)
	tr := s.prepare(nil, handlers.Handle(s.Handle))
	s.Add("a", nil)
	tr.oneBatch("default", 1)
	tr.quiet.Set(true)
	tr.run()
	s.Sees("the node works nothing", worksNothingSQL, 1)
	s.Passes(s.Now().Add(time.Second))
	s.Counts("jobs are left", 1, `SELECT count(*) FROM tasktable.river_job WHERE state = 'available'`)
	tr.quiet.Set(false)
	s.Begins("a").End <- nil
	enginetest.Await(t, s.Pool, "a", patience, store.StatusCompleted)
	// If it waited for longer than two seconds, it went back first.
	if history := fmt.Sprint(enginetest.Outcomes(t, s.Pool, "a")); history != "[COMPLETED]" &&
		history != "[RELEASED COMPLETED]" {
		t.Errorf("history %s", history)
	}
}

// What the store says of nodes is so of those that run: which leads, that they give signs of life, and
// that they have ended.
func TestNodesAsTheStoreSeesThem(t *testing.T) {
	s := newBench(t)
	work := func(service string, queues map[string]int) func(*Config) {
		return func(c *Config) { c.Service, c.Version, c.Queues = service, "v1", queues }
	}
	nodes := func() []inspect.Node {
		t.Helper()
		found, err := inspect.New(store.Config{}).Nodes(
			context.WithoutCancel(t.Context()), s.Pool, inspect.NodeFilter{Ended: true},
		)
		s.OK(err)
		return found
	}
	stopFirst := s.node(work("first", map[string]int{"default": 3}), handlers.Handle(s.Handle))
	enginetest.Eventually(t, patience, "the first leads", func() bool {
		found := nodes()
		return len(found) == 1 && found[0].State == inspect.NodeLeads && found[0].ElectedAt != nil
	})
	s.node(work("second", map[string]int{"mail": 2}), handlers.Handle(s.Handle))
	enginetest.Eventually(t, patience, "the second works", func() bool {
		found := nodes()
		return len(found) == 2 && found[0].State == inspect.NodeLeads && found[1].State == inspect.NodeWorks
	})
	before := nodes()
	host, err := os.Hostname()
	s.OK(err)
	if n := before[1]; n.Service != "second" || n.Queues["mail"] != 2 || len(n.Types) != 1 || n.Types[0] != "JOB" ||
		n.ElectedAt != nil || n.DeadAt != nil || n.Host != fmt.Sprintf("%s/%d", host, os.Getpid()) {
		t.Errorf("the second is %+v", n)
	}
	enginetest.Eventually(t, patience, "both give another sign of life", func() bool {
		found := nodes()
		return found[0].LastSeen.After(*before[0].LastSeen) && found[1].LastSeen.After(*before[1].LastSeen)
	})
	states, err := inspect.New(store.Config{}).QueueStates(t.Context(), s.Pool, inspect.QueueFilter{})
	if err != nil || len(states) != 2 || states[0].Slots != 3 || states[1].Slots != 2 || states[1].Nodes != 1 {
		t.Errorf("the queues are %+v, %v", states, err)
	}
	stopFirst()
	enginetest.Eventually(t, patience, "the first has ended, and the second leads", func() bool {
		found := nodes()
		return found[0].Service == "second" && found[0].State == inspect.NodeLeads &&
			found[1].State == inspect.NodeEnded && found[1].DeadAt != nil
	})
}

// The leader makes a full pass at each PollInterval, also if nothing that it knows of is due.
func TestLeaderPolls(t *testing.T) {
	s, registry := newBench(t), prometheus.NewRegistry()
	s.node(func(c *Config) { c.Metrics, c.PollInterval = registry, time.Second }, handlers.Handle(s.Handle))
	passes := func() (n uint64) {
		families, err := registry.Gather()
		s.OK(err)
		for _, family := range families {
			if family.GetName() == "tasktable_pass_duration_seconds" {
				n = family.GetMetric()[0].GetHistogram().GetSampleCount()
			}
		}
		return n
	}
	// Three passes may have other causes, because the node has begun and looked at everything.
	enginetest.Eventually(t, patience, "passes", func() bool { return passes() >= 6 })
}
