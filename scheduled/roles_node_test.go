package scheduled

import (
	"fmt"
	"testing"
	"time"

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
