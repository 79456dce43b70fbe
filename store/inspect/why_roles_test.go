package inspect_test

import (
	"testing"

	"github.com/tasktable/tasktable/store"
)

// Nodes that only lead run nothing, and nodes that only work claim nothing.
func TestWhyOfRoles(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.due("task", nil)
	leader, kill := b.Node(`{}`, `{}`, true)
	b.because("task", "no_worker", "the running nodes only lead, and run no task")
	quiet, _ := b.Node(`{}`, `{}`, false)
	b.because("task", "no_worker", "the running nodes only lead, and run no task (1 node is quiet)")
	same(b, "what is stuck", one[string](b, b.Pool, `SELECT string_agg(id || ' ' || code, ', ')
		FROM tasktable.stuck_tasks`), "task no_worker")
	worker, _ := b.Node(`{"default": 1}`, `{TEST}`, false)
	b.Exec(b.Pool, `UPDATE tasktable.nodes SET may_lead = false WHERE number = $1`, worker)
	same(b, "the roles", one[string](b, b.Pool, `SELECT string_agg(concat_ws(' ', state, role), ', ' ORDER BY number)
		FROM tasktable.node_states`), "leads leader, quiet, works worker")
	b.isNext("task", "1 slot")
	kill()
	b.gone(leader)
	b.Exec(b.Pool, `UPDATE tasktable.nodes SET dead_at = now() WHERE number IN ($1, $2)`, leader, quiet)
	b.because("task", "no_leader", "no running node may lead, so nothing is claimed, since T")
	b.Node(`{}`, `{}`, true)
	b.isNext("task", "1 slot")
}

// Due tasks of queues that come first in a strict order come before a task of any priority.
func TestWhyOfStrictQueues(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	in := func(queue string) func(*store.Task) { return func(task *store.Task) { task.Queue = queue } }
	for id, queue := range map[string]string{"c1": "critical", "c2": "critical", "l1": "low", "other": "other"} {
		b.due(id, in(queue))
	}
	b.due("mine", nil)
	number, _ := b.Node(`{"critical": 1, "default": 1, "low": 1, "other": 1}`, `{TEST}`, true)
	strict := func(queues string) {
		b.Exec(b.Pool, `UPDATE tasktable.nodes SET strict_queues = $2::text::text[] WHERE number = $1`, number, queues)
	}
	because := func(id, ahead string) {
		t.Helper()
		b.because(id, "in_line", ahead+", while 0 of its queue are claimed for 1 slot, due since T")
	}
	because("mine", "it is due, and next to be claimed")
	strict(`{critical,NULL,default,low}`)
	because("mine", "waits behind 2 tasks of queues that come first")
	because("l1", "waits behind 3 tasks of queues that come first")
	because("other", "waits behind 4 tasks of queues that come first") // it is not in the order
	b.must(b.Tasks.PauseScope(b.Ctx, b.Pool, store.Queue("critical"), b.Now().AddDate(1, 0, 0), ""))
	because("l1", "waits behind 1 task of queues that come first")
	because("mine", "it is due, and next to be claimed")
	strict(`{low,default}`)
	because("mine", "waits behind 1 task of queues that come first")
}
