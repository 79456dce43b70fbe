package taskdb_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// toldSQL makes a rule for each event, so that the notices show which events came.
const toldSQL = `
	INSERT INTO tasktable.notice_recipients (name, target) VALUES ('ops', 'ops');
	INSERT INTO tasktable.notice_rules (name, events) VALUES ('failed', '{failed}'), ('expired', '{expired}'),
		('lost', '{lost}'), ('dead', '{failed,expired,lost}');
	INSERT INTO tasktable.notice_rule_recipients SELECT name, 'ops' FROM tasktable.notice_rules`

// The settle of each outcome makes the notices of its events. An attempt that was lost is a failure, too, if it was the
// last.
func TestSettleMakesNotices(t *testing.T) {
	t.Parallel()
	outcome := func(outcome string, to store.Status) func(h taskdb.Claim) taskdb.Settlement {
		return func(h taskdb.Claim) taskdb.Settlement {
			s := enginetest.Completed(h)
			s.Outcome, s.To, s.Error, s.Message = outcome, to, new("oh"), new("oh")
			return s
		}
	}
	lost := func(h taskdb.Claim) taskdb.Settlement { return taskdb.Lost(h, "its node died") }
	for name, c := range map[string]struct {
		settle      func(h taskdb.Claim) taskdb.Settlement
		maxAttempts int
		want        string
	}{
		"completed":    {enginetest.Completed, 5, ""},
		"retried":      {func(h taskdb.Claim) taskdb.Settlement { return enginetest.Retried(h, 0, "oh") }, 5, ""},
		"released":     {func(h taskdb.Claim) taskdb.Settlement { return taskdb.Released(h, "no slot") }, 5, ""},
		"failed":       {outcome(taskdb.OutcomeFailed, store.StatusFailed), 5, "dead:failed failed:failed"},
		"expired":      {taskdb.Expired, 5, "dead:expired expired:expired"},
		"lost":         {lost, 5, "dead:lost lost:lost"},
		"lost at last": {lost, 1, "dead:failed failed:failed lost:lost"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.Exec(toldSQL)
			task := job{Name: "one"}
			hold := b.TakeOne(store.Task{ID: "one", Payload: task, MaxAttempts: c.maxAttempts})
			b.End(noon.Add(time.Second), c.settle(hold))
			rows, err := b.Pool.Query(t.Context(), `SELECT split_part(c.notice_id, '/', 2) || ':' || c.event
				FROM tasktable.notice_causes AS c JOIN tasktable.scheduled_tasks AS t ON t.id = c.notice_id
				WHERE c.task_id = 'one' AND c.number = $1 ORDER BY 1`, hold.Fence)
			b.OK(err)
			got, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil || strings.Join(got, " ") != c.want {
				t.Errorf("causes %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

// A task whose outcome Postgres refuses to record fails, and is told.
func TestABrokenTaskIsTold(t *testing.T) {
	b := newBench(t)
	b.Exec(toldSQL)
	hold := b.TakeOne(store.Task{ID: "one", Payload: job{Name: "one"}})
	failHeld(b, hold)
	var told string
	if err := b.Pool.QueryRow(t.Context(), `SELECT string_agg(c.event || ' ' || e.error, ', ')
		FROM tasktable.notice_causes AS c JOIN tasktable.scheduled_task_executions AS e ON e.fence = c.number`).
		Scan(&told); err != nil || told != "failed too odd, failed too odd" {
		t.Errorf("told %q, %v", told, err)
	}
}

func failHeld(b *bench, hold taskdb.Claim) {
	b.T.Helper()
	if failed, err := b.FailHeld(b.T.Context(), b.Pool, hold, "too odd"); !failed || err != nil {
		b.T.Fatalf("failed %t, %v", failed, err)
	}
}

// A plain completed task pays only for the condition of the trigger: with rules, the trigger is not called once.
func TestCompletedTasksCallNoTrigger(t *testing.T) {
	b := newBench(t)
	b.Exec(toldSQL)
	calls := func(outcome string) string {
		tx := b.Begin()
		rows, err := tx.Query(t.Context(), fmt.Sprintf(`EXPLAIN (ANALYZE, TIMING OFF) INSERT INTO
			tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt, scheduled_at, finished_at,
			outcome) SELECT n, 'one', 'JOB', 1, 1, now(), now(), '%s' FROM generate_series(1, 100) AS n`, outcome))
		b.OK(err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		b.OK(err)
		b.OK(tx.Rollback(t.Context()))
		return strings.Join(lines, "\n")
	}
	if plan := calls("COMPLETED"); strings.Contains(plan, "Trigger") {
		t.Errorf("completed tasks call a trigger:\n%s", plan)
	}
	if plan := calls("FAILED"); !strings.Contains(plan, "Trigger notice: calls=100") {
		t.Errorf("failed tasks do not call the trigger:\n%s", plan)
	}
}
