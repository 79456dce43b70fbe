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

// Each statement that ends a claim, or fails or expires a task, writes a line of the history with all its columns.
func TestEachEndHasALine(t *testing.T) {
	t.Parallel()
	const whole = "JOB rev=1 attempt=1 scheduled=0 due=0"
	second := noon.Add(time.Second)
	settled := func(change func(*taskdb.Settlement)) func(*bench) {
		return func(b *bench) {
			s := enginetest.Completed(b.TakeOne(store.Task{ID: "one", Payload: job{Name: "one"}}))
			change(&s)
			b.End(second, s)
		}
	}
	ending := func(end func(taskdb.Claim) taskdb.Settlement) func(*bench) {
		return settled(func(s *taskdb.Settlement) { *s = end(s.Claim) })
	}
	// edited has somebody change the task during the attempt.
	edited := func(sql string, end func(taskdb.Claim) taskdb.Settlement) func(*bench) {
		return func(b *bench) {
			h := b.TakeOne(store.Task{ID: "one", Payload: job{Name: "one"}})
			b.Exec(`UPDATE tasktable.scheduled_tasks SET ` + sql)
			b.End(second, end(h))
		}
	}
	released := func(h taskdb.Claim) taskdb.Settlement { return taskdb.Released(h, "oh") }
	lost := func(h taskdb.Claim) taskdb.Settlement { return taskdb.Lost(h, "oh") }
	for name, c := range map[string]struct {
		end  func(*bench)
		want string
	}{
		"completed alone": {func(b *bench) {
			s := enginetest.Completed(b.TakeOne(store.Task{ID: "one", Payload: job{Name: "one"}}))
			if done, err := b.Complete(t.Context(), b.Pool, &second, new(int64(7)), []taskdb.Settlement{s}); err != nil ||
				len(done) != 1 {
				t.Fatal(done, err)
			}
		}, whole + " started=0 finished=1 COMPLETED node=7"},
		"completed with others": {settled(func(*taskdb.Settlement) {}), whole + " started=0 finished=1 COMPLETED node=7"},
		"completed in a transaction": {settled(func(s *taskdb.Settlement) { s.InTx = true }),
			whole + " started=0 finished=1 COMPLETED node=7"},
		"again": {settled(func(s *taskdb.Settlement) { s.Effects.Again = new(noon.Add(time.Hour)) }),
			whole + " started=0 finished=1 COMPLETED node=7"},
		"failed": {ending(failed), whole + " started=0 finished=1 FAILED error=oh node=7"},
		"retried": {ending(func(h taskdb.Claim) taskdb.Settlement { return enginetest.Retried(h, 0, "oh") }),
			whole + " started=0 finished=1 RETRIED error=oh node=7"},
		"expired at the gate": {ending(taskdb.Expired),
			whole + " finished=1 EXPIRED error=expired before it could start node=7"},
		"lost":       {ending(lost), whole + " finished=1 LOST error=oh node=7"},
		"released":   {ending(released), whole + " finished=1 RELEASED error=oh node=7"},
		"cancelled":  {edited(`status = 'CANCELLED'`, released), whole + " finished=1 CANCELLED error=oh node=7"},
		"superseded": {edited(`priority = 1`, failed), whole + " started=0 finished=1 SUPERSEDED error=oh node=7"},
		"expired at the claim": {func(b *bench) {
			b.Schedule(store.Task{ID: "one", Payload: job{Name: "one"}, At: noon, Expiration: time.Second})
			b.Take(noon.Add(time.Hour))
		}, "JOB rev=1 attempt=0 scheduled=0 due=0 finished=3600 EXPIRED error=expired before it could start"},
		"refused at the claim": {func(b *bench) {
			b.Schedule(store.Task{ID: "one", Payload: job{Name: "one"}})
			b.InTx(func(tx pgx.Tx) {
				if _, err := tx.Exec(t.Context(), taskdb.EnterSQL); err != nil {
					t.Fatal(err)
				}
				head, err := b.LockHead(t.Context(), tx, enginetest.Jobs(0, 1).Lane, time.Second)
				if err != nil || head == nil {
					t.Fatal(head, err)
				}
				enginetest.OK(t, b.FailHead(t.Context(), tx, *head, "oh"))
			})
		}, "JOB rev=1 attempt=0 scheduled=real finished=real FAILED error=oh"},
		"refused at the fire": {func(b *bench) {
			b.Exec(`CREATE OR REPLACE FUNCTION tasktable.cron_fault(cron text) RETURNS text LANGUAGE sql IMMUTABLE STRICT
				AS 'SELECT NULL::text'`)
			b.Exec(`SELECT tasktable.schedule_recurring('{"type":"JOB"}', 'oh', 'one', 'UTC', $1)`, noon)
			b.Fires(noon)
		}, "JOB rev=1 attempt=0 scheduled=real finished=real FAILED error=invalid: cron must be 5 fields (minute, hour, " +
			"day of month, month, day of week), 6 with the seconds first, @hourly, @daily, @midnight, @weekly, @monthly, " +
			"@yearly, @annually or @every with a duration, got \"oh\""},
		"refused at the settle": {func(b *bench) {
			failHeld(b, b.TakeOne(store.Task{ID: "one", Payload: job{Name: "one"}}))
		}, "JOB rev=1 attempt=1 scheduled=real finished=real FAILED error=too odd"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			c.end(b)
			b.Exec(`CREATE FUNCTION since(at timestamptz) RETURNS text LANGUAGE sql AS $$ SELECT CASE WHEN at < '2030-01-01'
				THEN 'real' ELSE round(extract(epoch FROM at - '2030-01-01 12:00Z'))::text END $$`)
			rows, err := b.Pool.Query(t.Context(), `
				SELECT concat_ws(' ', e.type, 'rev=' || (SELECT count(*) FROM tasktable.scheduled_task_changes AS c
					WHERE c.task_id = e.task_id AND c.revision <= e.revision), 'attempt=' || e.attempt,
					'scheduled=' || since(e.scheduled_at), 'due=' || since(e.due_at),
					'started=' || since(e.started_at), 'finished=' || since(e.finished_at), e.outcome,
					'error=' || e.error, 'node=' || e.node)
				FROM tasktable.scheduled_task_executions AS e
				WHERE e.task_id = 'one' AND e.fence > e.revision`)
			b.OK(err)
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if got := strings.Join(lines, "\n"); err != nil || got != c.want {
				t.Errorf("%v, history\n%s\nwant\n%s", err, got, c.want)
			}
		})
	}
}

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

// Waits that follow each other are one line of the history. The row counts them, and keeps the time at which the task
// was due. The next real outcome ends that, and says how many they were.
func TestWaitsAreOneLine(t *testing.T) {
	b := newBench(t)
	at := noon
	end := func(h taskdb.Claim, outcome string, waits bool) taskdb.SettleResult {
		t.Helper()
		at = at.Add(time.Second)
		s := enginetest.Retried(h, time.Minute, "down")
		s.Outcome, s.Refund, s.Waits = outcome, outcome != taskdb.OutcomeRetried, waits
		done := b.End(at, s)
		if len(done) != 1 || !done[0].Settled || !done[0].Current {
			t.Fatalf("settled %+v", done)
		}
		return done[0]
	}
	row := func(want string) {
		t.Helper()
		var got string
		err := b.Pool.QueryRow(t.Context(), `SELECT concat_ws(' ', coalesce(waits, 0),
			'since ' || (waiting_since = $1)::text, 'attempt ' || attempt,
			(SELECT string_agg(outcome || ' ' || error, ', ' ORDER BY fence) FROM tasktable.scheduled_task_executions))
			FROM tasktable.scheduled_tasks`, noon).Scan(&got)
		if err != nil || got != want {
			t.Errorf("got %s, want %s (%v)", got, want, err)
		}
	}
	h := b.TakeOne(store.Task{Payload: job{Name: "waits"}})
	for i := range 5 {
		if done := end(h, taskdb.OutcomeSnoozed, true); done.Folded != (i > 0) {
			t.Errorf("wait %d: %+v", i+1, done)
		}
		row(fmt.Sprintf("%d since true attempt 0 SNOOZED down", i+1))
		at = at.Add(time.Minute)
		h = b.Take(at)["waits"]
	}
	// A claim that comes to nothing does not end the wait.
	end(h, taskdb.OutcomeInterrupted, false)
	row("5 since true attempt 0 SNOOZED down, INTERRUPTED down")
	at = at.Add(time.Minute)
	end(b.Take(at)["waits"], taskdb.OutcomeSnoozed, true)
	at = at.Add(time.Minute)
	end(b.Take(at)["waits"], taskdb.OutcomeRetried, false)
	const lines = "SNOOZED down, INTERRUPTED down, RETRIED down (before that it waited 6 times)"
	row("0 attempt 1 " + lines)
	// A handler's own snooze is a line each time, and no wait.
	for range 2 {
		at = at.Add(time.Minute)
		end(b.Take(at)["waits"], taskdb.OutcomeSnoozed, false)
	}
	row("0 attempt 1 " + lines + ", SNOOZED down, SNOOZED down")
	at = at.Add(time.Minute)
	end(b.Take(at)["waits"], taskdb.OutcomeSnoozed, true)
	b.Exec(`UPDATE tasktable.scheduled_tasks SET priority = 1`) // an edit is a new beginning
	row("0 attempt 0 " + lines + ", SNOOZED down, SNOOZED down, SNOOZED down")
}
