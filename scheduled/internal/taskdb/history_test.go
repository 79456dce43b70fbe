package taskdb_test

import (
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
