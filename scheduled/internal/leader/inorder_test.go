package leader

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// inOrder sets a limit in order for the tasks of each group.
func (b *bench) inOrder(of store.Scope) {
	b.T.Helper()
	limit := store.Limit{Name: "order", Of: of, Per: store.PerGroup, InOrder: true}
	b.Did(b.Tasks.SetLimit(b.T.Context(), b.Pool, limit))
}

// firstOfTwo has a leader that has claimed a1, and keeps a2 of the same group for later.
func (b *bench) firstOfTwo(of store.Scope) *Leader {
	b.T.Helper()
	b.inOrder(of)
	b.Add("a1", group("a"))
	b.Add("a2", group("a"))
	l := b.elected(slots(20))
	b.claims(l, "a1")
	return l
}

// looks has the leader tick and make passes, as long as a pass is to follow at once. It returns the last pass.
func (b *bench) looks(l *Leader) (last look) {
	b.T.Helper()
	l.lanes.keys.looked = time.Time{} // as if a second had passed
	b.tick(l)
	for range 20 {
		var err error
		if last, err = l.pass(b.T.Context()); err != nil {
			b.T.Fatal(err)
		}
		if last.next != 0 {
			return last
		}
	}
	b.T.Fatal("the leader makes one pass after another")
	return last
}

// claims waits until the leader has claimed these tasks, and no other.
func (b *bench) claims(l *Leader, want string) {
	b.T.Helper()
	var got string
	enginetest.Eventually(b.T, enginetest.Patience, "running are "+want, func() bool {
		b.looks(l)
		got = enginetest.Ask[string](b.Bench, `SELECT coalesce(string_agg(id, ' ' ORDER BY id), '')
			FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL`)
		return got == want
	})
}

// stays fails the test if the leader claims another task.
func (b *bench) stays(l *Leader, want string) {
	b.T.Helper()
	b.claims(l, want)
	b.looks(l)
	b.looks(l)
	b.claims(l, want)
}

// settles records an outcome of a claimed task as its node does, and removes its job, which has this one task.
func (b *bench) settles(id string, outcome func(taskdb.Claim) taskdb.Settlement) {
	b.T.Helper()
	var c taskdb.Claim
	b.OK(b.Pool.QueryRow(b.T.Context(), `SELECT id, fence, revision, attempt, scheduled_at
		FROM tasktable.scheduled_tasks WHERE id = $1`, id).Scan(&c.ID, &c.Fence, &c.Revision, &c.Attempt, &c.Due))
	if done := b.End(time.Now(), outcome(c)); !done[0].Settled {
		b.T.Fatalf("%s: %+v", id, done[0])
	}
	b.Exec(`DELETE FROM tasktable.river_job WHERE args ->> 'tasks' LIKE $1::text || ':%'`, fmt.Sprint(c.Fence))
}

func completed(c taskdb.Claim) taskdb.Settlement { return enginetest.Completed(c) }

func retried(in time.Duration) func(taskdb.Claim) taskdb.Settlement {
	return func(c taskdb.Claim) taskdb.Settlement { return enginetest.Retried(c, in, "no") }
}

func failed(c taskdb.Claim) taskdb.Settlement {
	one := enginetest.Retried(c, 0, "no")
	one.Outcome, one.To = taskdb.OutcomeFailed, store.StatusFailed
	return one
}

func released(c taskdb.Claim) taskdb.Settlement { return taskdb.Released(c, "no slot") }

func snoozed(c taskdb.Claim) taskdb.Settlement {
	one := enginetest.Retried(c, time.Hour, "later")
	one.Outcome, one.Refund = taskdb.OutcomeSnoozed, true
	return one
}

// due makes a task that waits due now.
func (b *bench) due(id string) {
	b.Exec(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = clock_timestamp() WHERE id = $1`, id)
}

// The next task of a group starts when the one before has ended. Until then that one is tried again, was put off, or
// was handed back. Other groups go on, and tasks without a group are in no order.
func TestOrderOfAGroup(t *testing.T) {
	b := newBench(t)
	b.inOrder(store.Type("JOB"))
	for _, id := range []string{"a1", "a2", "a3", "b1"} {
		b.Add(id, group(id[:1]))
	}
	b.Add("n1", nil)
	b.Add("n2", nil)
	l := b.elected(slots(20))
	b.stays(l, "a1 b1 n1 n2")
	b.settles("n1", retried(time.Hour))
	b.Add("n3", nil)
	b.stays(l, "a1 b1 n2 n3")
	for _, id := range []string{"n2", "n3", "b1"} {
		b.settles(id, completed)
	}
	b.settles("a1", retried(time.Hour))
	b.Add("b2", group("b"))
	b.stays(l, "b2")
	b.settles("b2", completed)
	b.due("a1")
	b.stays(l, "a1")
	b.settles("a1", snoozed) // its attempt does not count
	b.stays(l, "")
	b.due("a1")
	b.claims(l, "a1")
	b.settles("a1", released)
	b.stays(l, "a1")
	b.settles("a1", completed)
	b.stays(l, "a2")
	b.settles("a2", failed)
	b.stays(l, "a3")
	b.settles("a3", completed)
	b.stays(l, "")
}

// A task that is handed back before it begins keeps its place, although others were due before it comes back.
func TestOrderAfterAReleasedClaim(t *testing.T) {
	b := newBench(t)
	l := b.firstOfTwo(store.Everything())
	b.settles("a1", released)
	if attempt := b.Count(`SELECT attempt FROM tasktable.scheduled_tasks WHERE id = 'a1'`); attempt != 0 {
		t.Errorf("attempt %d", attempt)
	}
	b.stays(l, "a1")
}

// A task holds up those of other priorities, types and queues, as far as the limit counts them.
func TestOrderOverLanes(t *testing.T) {
	t.Parallel()
	for of, want := range map[store.Scope]string{
		store.Type("JOB"): "quick", store.Queue("default"): "mail", store.Everything(): "",
	} {
		t.Run(of.String(), func(t *testing.T) {
			b := newBench(t)
			b.inOrder(of)
			b.Add("first", group("a"))
			l := b.elected(func(_ *Config, node *session.Registration) { node.Queues = `{"default": 9, "mail": 9}` })
			b.claims(l, "first")
			b.settles("first", retried(time.Hour))
			b.Add("urgent", func(task *store.Task) { task.Group, task.Priority = "a", 5 })
			b.Exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, group_key) VALUES ('quick', '{"type": "QUICK"}', 'a')`)
			if of != store.Type("JOB") { // otherwise it is in the order
				b.Add("mail", func(task *store.Task) { task.Group, task.Queue = "a", "mail" })
			}
			b.stays(l, want)
			if want != "" {
				b.settles(want, completed)
			}
			b.due("first")
			b.stays(l, "first")
			b.settles("first", completed)
			rest := []string{"urgent", "quick", "mail"}
			for _, id := range rest {
				if id != want && (id != "mail" || of != store.Type("JOB")) {
					b.stays(l, id)
					b.settles(id, completed)
				}
			}
			b.stays(l, "")
		})
	}
}

// The next task starts at the leader's next look when somebody cancels, pauses or reschedules the one that is to be
// tried again. An edit of its payload, and run_now, leave it its place. A resumed task takes its place by its time.
func TestOrderAfterAnEdit(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]struct {
		sql, runs string
	}{
		"cancel":     {`SELECT tasktable.cancel('a1')`, "a2"},
		"pause":      {`SELECT tasktable.pause('a1')`, "a2"},
		"reschedule": {`UPDATE tasktable.scheduled_tasks SET scheduled_at = now() + interval '1 week' WHERE id = 'a1'`, "a2"},
		"delete":     {`SELECT tasktable.delete('a1')`, "a2"},
		"edit":       {`UPDATE tasktable.scheduled_tasks SET payload = payload || '{"more": 1}' WHERE id = 'a1'`, "a1"},
		"run now":    {`SELECT tasktable.run_now('a1')`, "a1"},
		"resume":     {`SELECT tasktable.pause('a1'); SELECT pg_sleep(0.001); SELECT tasktable.resume('a1')`, "a2"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.inOrder(store.Type("JOB"))
			for _, id := range []string{"a1", "a2"} { // long ago, so that a resumed task comes later
				b.Add(id, func(task *store.Task) { task.Group, task.At = "a", time.Now().Add(-time.Hour) })
			}
			l := b.elected(slots(20))
			b.claims(l, "a1")
			b.settles("a1", retried(time.Hour))
			b.stays(l, "")
			for _, sql := range strings.Split(edit.sql, "; ") {
				b.Exec(sql)
			}
			l.lanes.keys.looked = time.Time{}
			if found, err := l.tick(t.Context()); err != nil || found.next != 0 {
				t.Errorf("the tick finds nothing: %+v, %v", found, err)
			}
			b.stays(l, edit.runs)
		})
	}
}

// A task that went first in its group does not go first in another one, also if it was moved while it ran.
func TestOrderOfATaskFromAnotherGroup(t *testing.T) {
	t.Parallel()
	const move = `UPDATE tasktable.scheduled_tasks SET group_key = 'b' WHERE id = 'a1'`
	for _, runs := range []bool{false, true} {
		t.Run(fmt.Sprint("it runs: ", runs), func(t *testing.T) {
			b := newBench(t)
			b.inOrder(store.Type("JOB"))
			b.Add("a1", func(task *store.Task) { task.Group, task.At = "a", time.Now().Add(-time.Hour) })
			b.Add("b1", group("b"))
			l := b.elected(slots(20))
			b.claims(l, "a1 b1")
			b.settles("b1", retried(time.Hour))
			if runs {
				b.Exec(move)
				b.settles("a1", retried(time.Hour))
			} else {
				b.settles("a1", retried(time.Hour))
				b.Exec(move)
			}
			b.due("a1")
			b.stays(l, "")
			b.due("b1")
			b.stays(l, "b1")
			b.settles("b1", completed)
			b.claims(l, "a1")
		})
	}
}

// A task that runs again by itself is a new task for the order. So is a failed one that somebody retries.
func TestOrderOfWhatRunsAnew(t *testing.T) {
	b := newBench(t)
	l := b.firstOfTwo(store.Type("JOB"))
	b.settles("a1", func(c taskdb.Claim) taskdb.Settlement { return enginetest.Again(c, time.Now().Add(time.Hour)) })
	b.stays(l, "a2")
	b.settles("a2", failed)
	b.Add("a3", group("a"))
	b.Exec(`SELECT tasktable.retry('a2', delay => interval '1 hour')`)
	b.stays(l, "a3")
}

// A new leader keeps the order, and begins with the earliest task of a group.
func TestANewLeaderKeepsTheOrder(t *testing.T) {
	b := newBench(t)
	b.inOrder(store.Queue("default"))
	for i := range 5 {
		b.Add(fmt.Sprint("a", i), func(task *store.Task) { task.Group, task.Priority = "a", -i })
		b.Add(fmt.Sprint("b", i), group("b"))
	}
	b.Exec(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = next_attempt_at - interval '1 hour'
		WHERE id NOT IN ('a4', 'b4')`)
	l := b.elected(slots(20))
	b.claims(l, "a0 b0")
	b.settles("a0", retried(time.Hour))
	b.settles("b0", completed)
	b.Add("a5", func(task *store.Task) { task.Group, task.Priority = "a", 9 })
	for i := range 4 {
		b.OK(l.resign(t.Context()))
		l = b.elected(slots(20))
		b.stays(l, fmt.Sprint("b", i+1))
		b.settles(fmt.Sprint("b", i+1), completed)
	}
	b.due("a0")
	for _, id := range []string{"a0", "a5", "a1", "a2"} {
		b.stays(l, id)
		b.settles(id, completed)
	}
}

// A pass costs nothing for a group that waits for a retry: nothing is granted, and no task of the group is read.
func TestABacklogBehindARetryCostsNoPass(t *testing.T) {
	b := newBench(t)
	b.inOrder(store.Type("JOB"))
	b.Add("first", group("a"))
	l := b.elected(slots(20))
	b.claims(l, "first")
	b.settles("first", retried(time.Hour))
	b.Exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, group_key) SELECT 'a' || i, '{"type": "JOB"}', 'a'
		FROM generate_series(1, 10000) AS i`)
	b.stays(l, "")
	enginetest.Eventually(t, enginetest.Patience, "passes cost nothing", func() bool {
		last := b.looks(l) // tasks of the last second are read again
		return len(l.lanes.keys.lost) == 0 && len(l.lanes.keys.probed) == 0 && last.next != 0 && !last.full &&
			l.lanes.keys.lanes[taskdb.LaneKey{Queue: "default", Type: "JOB"}].end.at.IsZero()
	})
	b.Exec(`SELECT tasktable.cancel('first')`)
	enginetest.Eventually(t, enginetest.Patience, "the next one runs", func() bool {
		b.looks(l)
		return b.Count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL`) == 1
	})
}

// A task that is resumed waits until the one that was claimed meanwhile has ended, and then takes its place by its time.
func TestAResumedTaskComesLater(t *testing.T) {
	b := newBench(t)
	b.inOrder(store.Type("JOB"))
	for i := range 3 {
		b.Add(fmt.Sprint("a", i), func(task *store.Task) { task.Group, task.At = "a", time.Now().Add(-time.Hour) })
	}
	l := b.elected(slots(20))
	b.claims(l, "a0")
	b.settles("a0", retried(time.Hour))
	b.Exec(`SELECT tasktable.pause('a0')`)
	b.claims(l, "a1")
	b.settles("a1", retried(0))
	b.Exec(`SELECT tasktable.resume('a0')`)
	b.due("a0") // its retry, which a pause does not put off
	for _, id := range []string{"a1", "a2", "a0"} {
		b.stays(l, id)
		b.settles(id, completed)
	}
}

// If the data of the task that goes first cannot be claimed, that task fails, and no other.
func TestABrokenTaskGoesFirst(t *testing.T) {
	b := newBench(t)
	l := b.firstOfTwo(store.Type("JOB"))
	b.settles("a1", retried(0))
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks ADD CONSTRAINT broken CHECK (id <> 'a1' OR status <> 'EXECUTING') NOT VALID`)
	b.stays(l, "a2")
	if got := b.states(); got != "a1 FAILED, a2 EXECUTING" {
		t.Error(got)
	}
}

// Tasks that have waited for long behind a retry come before newer ones, at once when the task of another lane has
// ended.
func TestOrderOfOldTasks(t *testing.T) {
	b := newBench(t)
	b.inOrder(store.Type("JOB"))
	for i := range 4 {
		b.Add(fmt.Sprint("a", i), group("a"))
	}
	b.Exec(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = next_attempt_at - interval '1 hour'`)
	b.Add("urgent", func(task *store.Task) { task.Group, task.Priority = "a", 5 })
	l := b.elected(slots(20))
	pass := func(id string) {
		t.Helper()
		for range 2 { // the first one may have to learn of the next task
			b.Did(l.pass(t.Context()))
		}
		if got := enginetest.Ask[string](b.Bench, `SELECT coalesce(string_agg(id, ' '), '')
			FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL`); got != id {
			t.Errorf("%s runs, want %s", got, id)
		}
	}
	b.claims(l, "urgent")
	b.settles("urgent", completed)
	pass("a0")
	b.settles("a0", retried(time.Hour))
	b.Add("urgent too", func(task *store.Task) { task.Group, task.Priority = "a", 5 })
	b.stays(l, "")
	b.due("a0")
	b.claims(l, "a0")
	b.Add("a9", group("a"))
	pass("a0")
	for _, id := range []string{"a0", "urgent too", "a1", "a2", "a3", "a9"} {
		pass(id)
		b.settles(id, completed)
	}
}

// A lane that has no task of a group any more does not hold up the other lanes, although the leader takes it to have.
func TestAnOutdatedLaneIsNotFirst(t *testing.T) {
	b := newBench(t)
	b.inOrder(store.Type("JOB"))
	urgent := func(task *store.Task) { task.Group, task.Priority = "a", 5 }
	b.Add("urgent", urgent)
	l := b.elected(slots(20))
	b.claims(l, "urgent")
	b.settles("urgent", completed)
	b.stays(l, "")
	now, keys := time.Now(), &l.lanes.keys
	lane := keys.lanes[taskdb.LaneKey{Queue: "default", Type: "JOB", Priority: 5}]
	for _, key := range []string{"g:a", "g:b"} {
		keys.learn(lane, key, now, now)
	}
	b.Add("plain", group("a"))
	b.claims(l, "plain")
	if len(lane.keys) != 0 {
		t.Errorf("%d keys are left", len(lane.keys))
	}
}
