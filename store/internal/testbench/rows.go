package testbench

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// Payload returns a payload of type TEST with one more field.
func Payload(n int) store.JSON { return store.JSON(fmt.Sprintf(`{"type": "TEST", "n": %d}`, n)) }

// Typed returns a payload of the given type.
func Typed(name string) store.JSON {
	quoted, _ := json.Marshal(name)
	return store.JSON(`{"type":` + string(quoted) + `}`)
}

// Far returns a time that is far in the future, plus the given minutes.
func Far(minutes int) time.Time {
	return time.Date(2100, 1, 1, 0, minutes, 0, 0, time.UTC)
}

// Kinds are the kinds of rows that a verb can meet. The held ones were edited, paused or cancelled while they ran.
var Kinds = []string{
	"absent", "QUEUED", "PAUSED", "EXECUTING", "CANCELLED", "COMPLETED", "FAILED", "EXPIRED", "SKIPPED",
	"held QUEUED", "held PAUSED", "held CANCELLED",
}

// Base returns the task that the rows have.
func Base(id string) store.Task {
	return store.Task{ID: id, Payload: Payload(1), At: Far(0), Expiration: time.Hour, Entity: "event:1",
		TenantID: "acme"}
}

// Waited makes the tasks that were due when they were scheduled claimable since then, as if they had waited.
func (b *Bench) Waited() {
	b.Helper()
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET next_attempt_at = due_at, due_at = NULL
		WHERE due_at IS NOT NULL AND next_attempt_at IS NOT NULL`)
}

// Make inserts a row of a kind, in the state in which the engine's own statements leave it: with its attempts
// counted, and with the messages and times of attempts.
func (b *Bench) Make(id, kind string) {
	b.Helper()
	const (
		retrying = `UPDATE tasktable.scheduled_tasks
			SET attempt = 2, next_attempt_at = scheduled_at + interval '3 minutes',
			message = 'first try', started_at = clock_timestamp() WHERE id = $1`
		counted = `UPDATE tasktable.scheduled_tasks SET attempt = 2 WHERE id = $1`
		claimed = `UPDATE tasktable.scheduled_tasks SET status = 'EXECUTING', fence = nextval('tasktable.task_numbers'),
			lease_expires_at = clock_timestamp() + interval '1 hour', next_attempt_at = NULL, attempt = attempt + 1
			WHERE id = $1`
		heldIn = `UPDATE tasktable.scheduled_tasks SET status = $2::text, last_status_update = clock_timestamp(),
			revision = nextval('tasktable.task_numbers'),
			finished_at = CASE WHEN $2::text = 'CANCELLED' THEN clock_timestamp() END WHERE id = $1`
		ended = `UPDATE tasktable.scheduled_tasks
			SET status = $2::text, fence = NULL, lease_expires_at = NULL, finished_at = clock_timestamp(),
			last_status_update = clock_timestamp(), message = 'it was so', result = '{"r": 1}' WHERE id = $1`
	)
	if kind == "absent" {
		return
	}
	b.Schedule(Base(id))
	status, held := kind, false
	if _, err := fmt.Sscanf(kind, "held %s", &status); err == nil {
		held = true
	}
	if kind == "PAUSED" {
		_, err := b.Tasks.Pause(b.Ctx, b.Pool, id)
		b.Check(err)
	}
	b.AsEngine(func(tx pgx.Tx) {
		switch {
		case kind == "QUEUED":
			b.Exec(tx, retrying, id)
		case kind == "PAUSED":
			b.Exec(tx, counted, id)
		case held:
			b.Exec(tx, retrying, id)
			b.Exec(tx, claimed, id)
			b.Exec(tx, heldIn, id, status)
		default:
			b.Exec(tx, retrying, id)
			b.Exec(tx, claimed, id)
			if kind != "EXECUTING" {
				b.Exec(tx, ended, id, kind)
			}
		}
	})
}

// RecurringKinds are the kinds of rows of recurring tasks. The leader has not seen an unplanned one since its last
// edit. The planned fire of a due one has come. A COMPLETED one has ended.
var RecurringKinds = []string{"absent", "unplanned", "planned", "due", "PAUSED", "CANCELLED", "COMPLETED", "FAILED"}

// Recurs returns the recurring task that these rows have. Its entity has no other task.
func Recurs(id string) store.Task {
	task := Base(id)
	task.Entity, task.Recurrence = "of "+id, &store.Recurrence{Cron: "0 9 * * *"}
	return task
}

// MakeRecurring inserts a row of a kind, in the state in which the verbs and the leader leave it.
func (b *Bench) MakeRecurring(id, kind string) {
	b.Helper()
	if kind == "absent" {
		return
	}
	b.Schedule(Recurs(id))
	switch kind {
	case "unplanned":
	case "due":
		b.Plan(id, "clock_timestamp() - interval '1 hour'")
	case "COMPLETED", "FAILED":
		b.Plan(id, "NULL", kind)
	default:
		b.Plan(id, "'2100-01-01 09:00Z'")
	}
	var err error
	switch kind {
	case "PAUSED":
		_, err = b.Tasks.PauseUntil(b.Ctx, b.Pool, id, Far(60))
	case "CANCELLED":
		_, err = b.Tasks.Cancel(b.Ctx, b.Pool, id)
	}
	b.Check(err)
}

// Plan changes a recurring task as the leader does when it plans the next fire, or when it ends the task.
func (b *Bench) Plan(id, next string, ended ...string) {
	b.Helper()
	status, finished := "status", "NULL"
	if len(ended) > 0 {
		status, finished = "'"+ended[0]+"'", "clock_timestamp()"
	}
	b.AsEngine(func(tx pgx.Tx) {
		b.Exec(
			tx,
			`UPDATE tasktable.scheduled_tasks SET next_attempt_at = `+next+
				`, planned_revision = revision, started_at = clock_timestamp(),
			occurrence_count = 3, open_occurrences_from = '2000-01-01Z',
			message = 'as planned', status = `+status+`, finished_at = `+finished+` WHERE id = $1`,
			id,
		)
	})
}

// Node inserts the row of a node and takes its locks, as a node's session does. The returned function ends the
// session, as if the node was killed.
func (b *Bench) Node(queues, types string, leads bool) (number int64, kill func()) {
	b.Helper()
	conn, err := pgx.ConnectConfig(b.Ctx, b.Pool.Config().ConnConfig.Copy())
	b.Check(err)
	closed := false
	kill = func() {
		if !closed {
			closed = true
			_, _ = conn.Exec(context.Background(), `SELECT pg_advisory_unlock_all()`) // the server notices a close late
			_ = conn.Close(context.Background())
		}
	}
	b.Cleanup(kill)
	const lock = `SELECT pg_try_advisory_lock((class - CASE WHEN class >= 2147483648 THEN 4294967296
		ELSE 0 END)::int, $2::int)
		FROM tasktable.lock_class($1) AS class`
	number = One[int64](b, conn, `INSERT INTO tasktable.nodes (service, version, host, queues, types, elected_at,
		may_lead)
		VALUES ('mailer', 'v1', 'host/1', $1::text::jsonb, $2::text::text[], CASE WHEN $3 THEN clock_timestamp() END,
			$3 OR $1 <> '{}') RETURNING number`, queues, types, leads)
	if !One[bool](b, conn, lock, "node", number) {
		b.Fatal("the lock is taken")
	}
	if leads && !One[bool](b, conn, lock, "leader", 0) {
		b.Fatal("somebody leads")
	}
	return number, kill
}
