package week

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store"
)

const busySQL = `
SELECT count(*) FROM tasktable.node_states AS n WHERE n.state NOT IN ('ended', 'silent')`

// clearSQL needs the triggers off, because they refuse to truncate. The numbers go on from where they are, so that none
// is used twice.
var clearSQL = []string{
	`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER`,
	`ALTER TABLE tasktable.scheduled_task_executions DISABLE TRIGGER USER`,
	`ALTER TABLE tasktable.scheduled_task_changes DISABLE TRIGGER USER`,
	`TRUNCATE tasktable.scheduled_tasks, tasktable.scheduled_task_executions, tasktable.scheduled_task_changes,
    tasktable.nodes, tasktable.pauses, tasktable.notice_recipients, tasktable.notice_rules,
    tasktable.notice_rule_recipients, tasktable.notice_causes, tasktable.notice_episodes, tasktable.api_keys,
    tasktable.api_sessions, tasktable.api_answers, tasktable.river_job`,
}

// clearSchema removes all tasks and their history, and turns the triggers off until enableSQL.
func clearSchema(ctx context.Context, tx pgx.Tx, schema store.Schema) error {
	var busy int
	if err := tx.QueryRow(ctx, schema.SQL(busySQL)).Scan(&busy); err != nil {
		return fmt.Errorf("look for nodes: %w", err)
	}
	if busy > 0 {
		return fmt.Errorf("%w: %s", ErrBusy, schema)
	}
	return execAll(ctx, tx, schema, "clear the schema", clearSQL)
}

var enableSQL = []string{
	`ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER`,
	`ALTER TABLE tasktable.scheduled_task_executions ENABLE TRIGGER USER`,
	`ALTER TABLE tasktable.scheduled_task_changes ENABLE TRIGGER USER`,
}

func execAll(ctx context.Context, tx pgx.Tx, schema store.Schema, doing string, statements []string) error {
	for _, statement := range statements {
		if _, err := tx.Exec(ctx, schema.SQL(statement)); err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
	return nil
}

const registerSQL = `
INSERT INTO tasktable.nodes (service, version, host, queues, types, declaration_hash, started_at, elected_at,
    last_seen_at, dead_at)
VALUES ('demo', $1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING number`

// registerNodes comes first, because errors name the numbers of nodes.
func (w *week) registerNodes(ctx context.Context, tx pgx.Tx, schema store.Schema) error {
	queues := map[string]int{store.DefaultQueue: 10, "letters": 1}
	for name, slots := range Queues() {
		queues[name] = slots
	}
	for _, n := range w.nodes {
		var elected, seen *time.Time
		dead := n.end
		if n.leads {
			elected = new(n.start.Add(time.Second))
		}
		if n.killed {
			seen, dead = new(n.end), n.end.Add(deadAfter)
		}
		types := types()
		if n.version < "2.4" {
			types = append(types, exportStatistics)
		}
		row := tx.QueryRow(ctx, schema.SQL(registerSQL), n.version, n.host, queues, types, n.hash, n.start, elected,
			seen, dead)
		if err := row.Scan(&n.number); err != nil {
			return fmt.Errorf("register the nodes: %w", err)
		}
	}
	return nil
}

const numbersSQL = `SELECT nextval('tasktable.task_numbers') FROM generate_series(1, $1)`

// draw gives the numbers their values.
func (w *week) draw(ctx context.Context, tx pgx.Tx, schema store.Schema) error {
	rows, err := tx.Query(ctx, schema.SQL(numbersSQL), len(w.numbers))
	if err != nil {
		return fmt.Errorf("draw numbers: %w", err)
	}
	values, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return fmt.Errorf("draw numbers: %w", err)
	}
	slices.SortStableFunc(w.numbers, func(a, b *number) int { return a.at.Compare(b.at) })
	for i, n := range w.numbers {
		n.value = values[i]
	}
	return nil
}

func (w *week) write(ctx context.Context, tx pgx.Tx, schema store.Schema) error {
	if err := w.draw(ctx, tx, schema); err != nil {
		return err
	}
	slices.SortStableFunc(w.tasks, func(a, b *task) int { return a.createdAt.Compare(b.createdAt) })
	slices.SortStableFunc(w.changes, func(a, b *change) int { return cmp.Compare(a.revision.value, b.revision.value) })
	w.executions = w.byEnd()
	for _, write := range []func(context.Context, pgx.Tx, store.Schema) error{
		w.copyTasks, w.copyChanges, w.copyExecutions, w.copyCauses, w.copyPauses,
		func(ctx context.Context, tx pgx.Tx, schema store.Schema) error {
			return execAll(ctx, tx, schema, "turn the triggers on", enableSQL)
		},
		writeNotices, w.writeKeys,
	} {
		if err := write(ctx, tx, schema); err != nil {
			return err
		}
	}
	return w.writeCommunity(ctx, tx)
}

func copyRows[T any](
	ctx context.Context, tx pgx.Tx, schema store.Schema, table string, columns []string, from []T, values func(T) []any,
) error {
	_, err := tx.CopyFrom(ctx, pgx.Identifier{schema.String(), table}, columns,
		pgx.CopyFromSlice(len(from), func(i int) ([]any, error) { return values(from[i]), nil }))
	if err != nil {
		return fmt.Errorf("write %s: %w", table, err)
	}
	return nil
}

var taskColumns = []string{
	"id", "payload", "type", "entity", "tenant_id", "queue", "status", "priority", "scheduled_at", "run_now_at",
	"expiration", "expected_execution_time", "retention", "max_attempts", "attempt", "revision", "asked_revision",
	"next_attempt_at",
	"started_fence", "node", "started_at", "finished_at", "last_status_update", "created_at", "paused_until",
	"archived_at", "archived_note", "message", "result", "parent_id", "spawned_by", "scheduled_by",
	"cron", "time_zone", "overlap", "catch_up", "catch_up_paused", "catch_up_limit", "occurrence_count",
	"planned_revision", "planned_wall", "planned_zone_data", "open_occurrences_from", "declared_by",
}

func (w *week) copyTasks(ctx context.Context, tx pgx.Tx, schema store.Schema) error {
	left := slices.DeleteFunc(slices.Clone(w.tasks), func(t *task) bool { return t.deleted })
	return copyRows(ctx, tx, schema, "scheduled_tasks", taskColumns, left, func(t *task) []any {
		var result any
		if t.result != nil {
			result = encode(t.result)
		}
		row := []any{
			t.id, t.payloadJSON(), t.kind, orNull(t.entity), orNull(t.tenant), t.queue, string(t.status), t.priority,
			t.scheduledAt, orNull(t.runNowAt), orNull(t.expiration), t.expected, orNull(t.retention), t.maxAttempts,
			t.attempt, t.revision.value, t.asked.value, orNull(t.next), valueOf(t.startedFence), numberOf(t.node),
			orNull(t.startedAt), orNull(t.finishedAt), t.changedAt, t.createdAt, orNull(t.pausedUntil),
			orNull(t.archivedAt), orNull(t.archivedNote), orNull(t.message), result, orNull(t.parent),
			orNull(t.spawnedBy), t.scheduledBy,
		}
		r := t.recurs
		if r == nil {
			return append(row, nil, nil, nil, nil, nil, nil, 0, nil, nil, nil, nil, nil)
		}
		return append(row, r.cron, r.zone, "skip", "latest", r.catchUpPaused, 100, r.count, valueOf(r.planned),
			orNull(r.wall), orNull(r.zoneData), orNull(r.openFrom), orNull(r.declaredBy))
	})
}

func (w *week) copyChanges(ctx context.Context, tx pgx.Tx, schema store.Schema) error {
	columns := []string{"revision", "task_id", "verb", "outcome", "changed_at", "changed_by", "old", "new"}
	return copyRows(ctx, tx, schema, "scheduled_task_changes", columns, w.changes, func(c *change) []any {
		var before, after any
		if c.before != nil {
			before = encode(c.before)
		}
		if c.after != nil {
			after = encode(c.after)
		}
		return []any{c.revision.value, c.taskID, c.verb, c.outcome, c.revision.at, c.by, before, after}
	})
}

func (w *week) copyExecutions(ctx context.Context, tx pgx.Tx, schema store.Schema) error {
	columns := []string{"fence", "task_id", "type", "revision", "attempt", "scheduled_at", "due_at", "started_at",
		"finished_at", "outcome", "error", "node"}
	return copyRows(ctx, tx, schema, "scheduled_task_executions", columns, w.executions, func(x *execution) []any {
		return []any{x.fence.value, x.task.id, x.task.kind, x.revision.value, x.attempt, x.scheduledAt, orNull(x.dueAt),
			orNull(x.startedAt), x.endedAt, x.outcome, orNull(x.errorText), numberOf(x.node)}
	})
}

func (w *week) copyCauses(ctx context.Context, tx pgx.Tx, schema store.Schema) error {
	columns := []string{"notice_id", "number", "event", "task_id", "type", "at"}
	return copyRows(ctx, tx, schema, "notice_causes", columns, w.causes, func(c cause) []any {
		x := c.execution
		return []any{c.notice, x.fence.value, c.event, x.task.id, x.task.kind, x.endedAt}
	})
}

func (w *week) copyPauses(ctx context.Context, tx pgx.Tx, schema store.Schema) error {
	columns := []string{
		"number", "scope", "name", "paused_at", "paused_by", "ends_at", "resumed_by", "reason", "planned_end",
	}
	return copyRows(ctx, tx, schema, "pauses", columns, w.pauses, func(p pause) []any {
		return []any{p.number.value, p.scope, p.name, p.number.at, ops, p.endsAt, orNull(p.resumedBy), p.reason,
			orNull(p.plannedEnd)}
	})
}

// analyze tells Postgres at once what autovacuum would tell it in a minute.
func analyze(ctx context.Context, pool *pgxpool.Pool, schema store.Schema) error {
	const analyzeSQL = `ANALYZE tasktable.scheduled_tasks, tasktable.scheduled_task_executions,
    tasktable.scheduled_task_changes`
	if _, err := pool.Exec(ctx, schema.SQL(analyzeSQL)); err != nil {
		return fmt.Errorf("analyze the week: %w", err)
	}
	return nil
}

// orNull is a value, or null if it is the zero value.
func orNull[T comparable](value T) any {
	if value == *new(T) {
		return nil
	}
	return value
}

func valueOf(n *number) any {
	if n == nil {
		return nil
	}
	return n.value
}

func numberOf(n *node) any {
	if n == nil {
		return nil
	}
	return n.number
}

func encode(value any) string {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", value, err)) // the week has only texts and numbers
	}
	return string(encoded)
}
