package leader

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// deadNode is the number of a node that is gone, and has no row.
const deadNode = 999_999

// runs has a node that is gone run due tasks as one River job, and returns their claims in the order of their ids.
func (b *bench) runs(metadata string) []taskdb.Claim {
	b.T.Helper()
	claims := slices.SortedFunc(maps.Values(b.Take(time.Now())), func(a, b taskdb.Claim) int {
		return strings.Compare(a.ID, b.ID)
	})
	b.Exec(`INSERT INTO tasktable.river_job
			(state, kind, args, metadata, max_attempts, queue, attempted_by, attempted_at)
		VALUES ('running', 'JOB', jsonb_build_object('tasks', $1::text), $2::text::jsonb, 1, 'default', ARRAY[$3::text],
			now())`,
		riverjobs.EncodeClaims(claims), metadata, taskdb.ClientID(deadNode))
	return claims
}

// takesBack has the leader tick until no claim is left but of the given tasks.
func (b *bench) takesBack(l *Leader, but ...string) {
	b.T.Helper()
	enginetest.Eventually(b.T, enginetest.Patience, "the claims are taken back", func() bool {
		if _, err := l.tick(b.T.Context()); err != nil && !pg.IsTimeout(err) {
			b.T.Fatal(err)
		}
		return b.Count(`SELECT count(*) FROM tasktable.scheduled_tasks
			WHERE fence IS NOT NULL AND id <> ALL ($1)`, pg.OrEmpty(but)) == 0
	})
}

// When a node dies, only those tasks of its jobs are lost that may have begun. The others go back, and tasks with one
// attempt keep it.
func TestTasksThatCannotHaveBegunAreNotLost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		metadata string
		lost     int
	}{
		"in its window":            {`{"window": 5}`, 5},
		"further than its window":  {`{"window": 5, "began": 12}`, 9},
		"nobody knows":             {`{}`, 37},
		"somebody has damaged it":  {`{"window": "x"}`, 37},
		"all of the job has begun": {`{"window": 5, "began": 100}`, 37},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			const n, settled = 40, 3
			for i := range n {
				b.Add(fmt.Sprintf("%02d", i), func(task *store.Task) { task.MaxAttempts = 1 })
			}
			b.runs(test.metadata)
			b.Exec(`UPDATE tasktable.scheduled_tasks SET status = 'COMPLETED', fence = NULL, lease_expires_at = NULL,
				finished_at = now() WHERE id < $1`, fmt.Sprintf("%02d", settled))
			b.takesBack(b.elected())
			back := n - settled - test.lost
			for what, want := range map[string]int{
				fmt.Sprintf(`SELECT count(*) FROM tasktable.scheduled_tasks
					WHERE status = 'FAILED' AND id < '%02d'`, settled+test.lost): test.lost,
				`SELECT count(*) FROM tasktable.scheduled_task_executions WHERE outcome = 'LOST'`:        test.lost,
				`SELECT count(*) FROM tasktable.scheduled_tasks WHERE status = 'QUEUED' AND attempt = 0`: back,
				`SELECT count(*) FROM tasktable.scheduled_task_executions WHERE outcome = 'RELEASED'`:    back,
			} {
				if got := b.Count(what); got != want {
					t.Errorf("%s: %d, want %d", what, got, want)
				}
			}
		})
	}
}

// A new leader claims due tasks first. Then it takes back the claims of dead nodes, which may take seconds.
func TestTheFirstTickOfATermTakesNothingBack(t *testing.T) {
	b := newBench(t)
	b.Add("held", nil)
	b.runs(`{}`)
	b.Add("due", nil)
	l := b.candidate()
	b.leads(l)
	const held = `SELECT count(*) FROM tasktable.scheduled_tasks WHERE id = 'held' AND fence IS NOT NULL`
	found, err := l.tick(t.Context())
	if err != nil || found.next != 0 || found.tick != soonAgain || b.Count(held) != 1 {
		t.Fatalf("the first tick: %+v, %v; held: %d", found, err, b.Count(held))
	}
	b.tick(l)
	b.takesBack(l)
}

// A node dies with some thousand quick tasks in hand. The leader takes them back in few transactions, because each
// locks and reads all of the node's jobs anew.
func TestManyClaimsOfADeadNodeAreTakenBackInFewSteps(t *testing.T) {
	b := newBench(t)
	const n, maxSteps = 10 * maxReclaimed, 5
	b.Exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, scheduled_at)
		SELECT 'task ' || i, '{"type": "JOB"}', clock_timestamp() FROM generate_series(1, $1::int) AS i`, n)
	for held := 0; held < n; {
		claims := b.runs(`{}`)
		if held += len(claims); len(claims) == 0 {
			t.Fatalf("%d claims", held)
		}
	}
	l := b.candidate()
	b.leads(l)
	b.takesBack(l)
	lost := b.Count(`SELECT count(*) FROM tasktable.scheduled_task_executions WHERE outcome = 'LOST'`)
	steps := b.Count(`SELECT count(DISTINCT tx) FROM tasktable.scheduled_task_executions`)
	if lost != n || steps > maxSteps {
		t.Errorf("%d claims are lost in %d steps, want %d in at most %d", lost, steps, n, maxSteps)
	}
}

// A trigger of the application's makes each row slow, so that the claims of a dead node are too many for the time limit
// of one statement. The leader takes them back all the same, a few at a time. It leaves only the one that takes too
// long by itself.
func TestSlowRowsOfADeadNodeAreTakenBack(t *testing.T) {
	b := newBench(t)
	b.Add("slowest", nil)
	const n = 40
	for i := range n - 1 {
		b.Add(fmt.Sprintf("%02d", i), nil)
	}
	b.runs(`{}`)
	b.Exec(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			PERFORM pg_sleep(CASE WHEN NEW.id = 'slowest' THEN 3 ELSE 0.06 END);
			RETURN NEW;
		END $$;
		CREATE TRIGGER slow BEFORE UPDATE ON tasktable.scheduled_tasks
		FOR EACH ROW WHEN (OLD.fence IS NOT NULL AND NEW.fence IS NULL) EXECUTE FUNCTION slow()`)
	l := b.candidate()
	b.leads(l)
	b.takesBack(l, "slowest")
	b.Counts("claims are lost", n-1,
		`SELECT count(*) FROM tasktable.scheduled_task_executions WHERE outcome = 'LOST'`)
	b.Exec(`DROP TRIGGER slow ON tasktable.scheduled_tasks`)
	for id := range l.quarantined { // as after a minute
		l.quarantined[id] = l.quarantined[id].Add(-quarantineTime)
	}
	b.takesBack(l)
	b.Counts("River jobs are left", 0, `SELECT count(*) FROM tasktable.river_job`)
}

// A trigger of the application's is slow and refuses the last row. To halve all claims takes longer than a step may, so
// the next steps end fewer.
func TestARefusedRowAmongSlowOnesIsFound(t *testing.T) {
	b := newBench(t)
	b.Add("refused", nil)
	const n = 40
	for i := range n {
		b.Add(fmt.Sprintf("%02d", i), nil)
	}
	b.runs(`{}`)
	b.Exec(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			PERFORM pg_sleep(0.02);
			IF NEW.id = 'refused' THEN RAISE 'no' USING ERRCODE = 'check_violation'; END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER slow BEFORE UPDATE ON tasktable.scheduled_tasks
		FOR EACH ROW WHEN (OLD.fence IS NOT NULL AND NEW.fence IS NULL) EXECUTE FUNCTION slow()`)
	l := b.candidate()
	b.leads(l)
	b.takesBack(l, "refused")
	b.Counts("claims are lost", n, `SELECT count(*) FROM tasktable.scheduled_task_executions WHERE outcome = 'LOST'`)
}

// A task of a dead node dies, and an application has locked the task that its death schedules. The other claims are
// taken back at once, and this one when the lock is gone.
func TestALockedTaskOfIfDeadHoldsNoOtherClaimUp(t *testing.T) {
	b := newBench(t)
	b.Add("undo", func(task *store.Task) { task.At = time.Now().Add(time.Hour) })
	const n = 60
	for i := range n {
		b.Add(fmt.Sprintf("%02d", i), func(task *store.Task) {
			if task.MaxAttempts = 1; i == n/2 {
				task.IfDead = []store.Task{{ID: "undo", Payload: enginetest.Job{Name: "undo"}}}
			}
		})
	}
	b.runs(`{}`)
	unlock := enginetest.Lock(t, b.Pool, "undo")
	l := b.elected()
	const held = `SELECT count(*) FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL`
	for ticks := 0; b.Count(held) != 1; ticks++ {
		if ticks == 3 { // the steps of a busy machine may be too long for one
			t.Fatalf("%d claims are left after %d ticks", b.Count(held), ticks)
		}
		b.Did(l.tick(t.Context()))
	}
	unlock()
	b.takesBack(l)
	if dead := b.Count(`SELECT count(*) FROM tasktable.dead_letters`); dead != n {
		t.Errorf("%d of %d tasks are dead", dead, n)
	}
}

// A transaction that makes a notice is slow to commit. Claims whose loss tells nobody are taken back at once, and the
// others when it is over.
func TestANoticeThatIsBeingMadeHoldsNoOtherClaimUp(t *testing.T) {
	b := newBench(t)
	b.Exec(`INSERT INTO tasktable.notice_recipients (name, target) VALUES ('ops', 'ops');
		INSERT INTO tasktable.notice_rules (name, events, tenants) VALUES ('lost', '{lost}', '{told}');
		INSERT INTO tasktable.notice_rule_recipients VALUES ('lost', 'ops')`)
	const n, told = 60, 20
	for i := range n {
		b.Add(fmt.Sprintf("%02d", i), func(task *store.Task) {
			if i%(n/told) == 0 {
				task.TenantID = "told"
			}
		})
	}
	b.runs(`{}`)
	tx := b.Begin()
	b.Did(tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(hashtextextended('tasktable.notices', 0))`))
	l := b.elected()
	const held = `SELECT count(*) FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL`
	for ticks := 0; b.Count(held) != told; ticks++ {
		if ticks == 6 { // each waits for some locks
			t.Fatalf("%d claims are left after %d ticks", b.Count(held), ticks)
		}
		b.Did(l.tick(t.Context()))
	}
	b.OK(tx.Commit(t.Context()))
	b.takesBack(l)
	b.Counts("claims are lost", n, `SELECT count(*) FROM tasktable.scheduled_task_executions WHERE outcome = 'LOST'`)
}

// What a dead node's handler is about to commit is not taken back. Its row is locked until it is known what comes of
// it.
func TestCommitUnderWayIsNotTakenBack(t *testing.T) {
	b := newBench(t)
	b.Add("commits", nil)
	b.Add("lost", nil)
	claims := b.runs(`{}`)
	tx, err := b.Pool.Begin(t.Context())
	b.OK(err)
	b.Did(b.Complete(t.Context(), tx, nil, new(int64(deadNode)),
		[]taskdb.Settlement{enginetest.Completed(claims[0])}))
	l := b.elected()
	b.takesBack(l, "commits")
	b.OK(tx.Commit(t.Context()))
	b.takesBack(l)
	b.Is("commits", store.StatusCompleted, taskdb.OutcomeCompleted)
	b.Is("lost", store.StatusQueued, taskdb.OutcomeLost)
}

// The transactions of a dead node's handlers end with the node, because a process that is stopped would keep their
// locks.
func TestTransactionsOfADeadNodesHandlersEnd(t *testing.T) {
	b := newBench(t)
	b.Add("a", nil)
	b.runs(`{}`)
	tx := b.Begin()
	b.Did(tx.Exec(t.Context(), `SELECT set_config('application_name', $1, false), pg_advisory_xact_lock(1)`,
		taskdb.HandlerName("tasktable", deadNode)))
	b.takesBack(b.elected())
	b.Sees("its lock is free", `SELECT pg_try_advisory_lock(1)`)
}
