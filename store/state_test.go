package store_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// rowKinds are the rows that a verb can meet. Held ones were edited, paused or cancelled while they ran.
var rowKinds = []string{
	"absent", "QUEUED", "PAUSED", "EXECUTING", "CANCELLED", "COMPLETED", "FAILED", "EXPIRED", "SKIPPED",
	"held QUEUED", "held PAUSED", "held CANCELLED",
}

// base is the task that the rows hold.
func base(id string) store.Task {
	return store.Task{ID: id, Payload: payload(1), At: far(0), Expiration: time.Hour, Entity: "event:1", TenantID: "acme"}
}

// make puts a row of a kind into the table, as the engine's own statements leave it: the attempt counts, and messages and
// times of attempts are there.
func (b *bench) make(id, kind string) {
	b.Helper()
	const (
		retrying = `UPDATE tasktable.scheduled_tasks SET attempt = 2, next_attempt_at = scheduled_at + interval '3 minutes',
			message = 'first try', started_at = clock_timestamp() WHERE id = $1`
		counted = `UPDATE tasktable.scheduled_tasks SET attempt = 2 WHERE id = $1`
		claimed = `UPDATE tasktable.scheduled_tasks SET status = 'EXECUTING', fence = nextval('tasktable.task_numbers'),
			lease_expires_at = clock_timestamp() + interval '1 hour', next_attempt_at = NULL, attempt = attempt + 1 WHERE id = $1`
		heldIn = `UPDATE tasktable.scheduled_tasks SET status = $2::text, last_status_update = clock_timestamp(),
			revision = nextval('tasktable.task_numbers'),
			finished_at = CASE WHEN $2::text = 'CANCELLED' THEN clock_timestamp() END WHERE id = $1`
		ended = `UPDATE tasktable.scheduled_tasks SET status = $2::text, fence = NULL, lease_expires_at = NULL, finished_at = clock_timestamp(),
			last_status_update = clock_timestamp(), message = 'it was so', result = '{"r": 1}' WHERE id = $1`
	)
	if kind == "absent" {
		return
	}
	b.schedule(base(id))
	status, held := kind, false
	if _, err := fmt.Sscanf(kind, "held %s", &status); err == nil {
		held = true
	}
	if kind == "PAUSED" {
		_, err := b.tasks.Pause(b.ctx, b.pool, id)
		b.check(err)
	}
	b.asEngine(func(tx pgx.Tx) {
		switch {
		case kind == "QUEUED":
			b.exec(tx, retrying, id)
		case kind == "PAUSED":
			b.exec(tx, counted, id)
		case held:
			b.exec(tx, retrying, id)
			b.exec(tx, claimed, id)
			b.exec(tx, heldIn, id, status)
		default:
			b.exec(tx, retrying, id)
			b.exec(tx, claimed, id)
			if kind != "EXECUTING" {
				b.exec(tx, ended, id, kind)
			}
		}
	})
}

// asEngine runs do in a transaction whose changes of status are the engine's own.
func (b *bench) asEngine(do func(pgx.Tx)) {
	b.Helper()
	b.inTx(func(tx pgx.Tx) {
		b.exec(tx, `SELECT set_config('tasktable_change.context', 'engine', true)`)
		do(tx)
	})
}

// state is all there is of a task.
type state struct {
	Row *store.Row
	// Version changes whenever the row is written to, even with what it held before.
	Version string
	Changes []store.Change
}

func (b *bench) state(id string) state {
	b.Helper()
	found := state{Row: b.get(id)}
	if changes := b.changes(id); len(changes) > 0 {
		found.Changes = changes
	}
	for i, change := range found.Changes {
		found.Changes[i].Old, found.Changes[i].New = encoded(b, b.recorded(change.Old)), encoded(b, b.recorded(change.New))
	}
	if found.Row != nil {
		found.Version = one[string](b, b.pool, `SELECT xmin || ' ' || ctid FROM tasktable.scheduled_tasks WHERE id = $1`, id)
	}
	return found
}

func (b *bench) now() time.Time {
	b.Helper()
	return one[time.Time](b, b.pool, `SELECT clock_timestamp()`)
}

// content is what change lines compare, in their form.
func content(row *store.Row) map[string]any {
	var body any
	_ = json.Unmarshal(row.Payload, &body)
	return map[string]any{
		"status": string(row.Status), "payload": body, "scheduled_at": instant(&row.ScheduledAt), "run_now_at": instant(row.RunNowAt),
		"priority": float64(row.Priority), "queue": row.Queue, "expiration": clock(row.Expiration),
		"expected_execution_time": clock(&row.ExpectedExecutionTime), "max_attempts": float64(row.MaxAttempts),
		"entity": text(row.Entity), "tenant_id": text(row.TenantID),
	}
}

func instant(at *time.Time) any {
	if at == nil {
		return nil
	}
	return at.UTC().Format(time.RFC3339Nano)
}

func clock(d *time.Duration) any {
	if d == nil {
		return nil
	}
	return fmt.Sprintf("%02d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}

func text(s *string) any {
	if s == nil {
		return nil
	}
	return *s
}

// recorded reads old or new of a change line, times in UTC.
func (b *bench) recorded(line json.RawMessage) map[string]any {
	b.Helper()
	if line == nil {
		return nil
	}
	var fields map[string]any
	b.check(json.Unmarshal(line, &fields))
	for _, key := range []string{"scheduled_at", "run_now_at"} {
		if value, ok := fields[key].(string); ok {
			at, err := time.Parse(time.RFC3339Nano, value)
			b.check(err)
			fields[key] = instant(&at)
		}
	}
	return fields
}

func encoded(b *bench, fields map[string]any) json.RawMessage {
	if fields == nil {
		return nil
	}
	text, err := json.Marshal(fields)
	b.check(err)
	return text
}

// edits are the fields that differ, as they were and as they became.
func edits(before, after *store.Row) (was, is map[string]any) {
	was, is = content(before), content(after)
	for key := range maps.Clone(was) {
		if pretty(was[key]) == pretty(is[key]) {
			delete(was, key)
			delete(is, key)
		}
	}
	return was, is
}
