package store

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// rowColumns reads a Row: intervals as nanoseconds and JSON as text, scalars that every driver can scan.
const rowColumns = `id, payload::text AS payload, type, entity, tenant_id, queue, status, priority, scheduled_at, run_now_at,
    (extract(epoch FROM expiration) * 1000000000)::bigint AS expiration,
    (extract(epoch FROM expected_execution_time) * 1000000000)::bigint AS expected_execution_time,
    max_attempts, attempt, revision, next_attempt_at, fence, held_until, message, result::text AS result, scheduled_by,
    created_at, last_status_update, started_at, finished_at,
    cron, time_zone, overlap, catch_up, catch_up_paused, catch_up_limit, (extract(epoch FROM jitter) * 1000000000)::bigint AS jitter, ends_at,
    max_occurrences, occurrence_count, parent_id, planned_revision, paused_until, (extract(epoch FROM retention) * 1000000000)::bigint AS retention,
    archived_at, archived_note`

const getSQL = `SELECT ` + rowColumns + `
FROM tasktable.scheduled_tasks WHERE id = $1::text`

// Get reads a task. It returns ErrNotFound where there is none.
func (s *Store) Get(ctx context.Context, db DB, id string) (Row, error) {
	if err := checkID(id); err != nil {
		return Row{}, fmt.Errorf("get: %w", err)
	}
	rows, err := collect[Row](ctx, s, db, "get task "+id, getSQL, id)
	if err != nil {
		return Row{}, err
	}
	if len(rows) == 0 {
		return Row{}, fmt.Errorf("get task %s: %w", id, ErrNotFound)
	}
	return rows[0], nil
}

// Filter selects tasks. A zero field selects all.
type Filter struct {
	Type     string
	Status   Status
	Queue    string
	Entity   string
	TenantID string
	// From and To bound scheduled_at: From <= scheduled_at < To.
	From, To time.Time
	// After continues a list: the last task of the page before, read with the same filter. It may be gone or moved by now.
	After *Row
	// Limit is the size of a page, 1 to 10000; 0: 100.
	Limit int
}

const listSQL = `SELECT ` + rowColumns + `
FROM tasktable.scheduled_tasks AS t
WHERE ($1::text = '' OR type = $1::text)
    AND ($2::text = '' OR status = $2::text)
    AND ($3::text = '' OR queue = $3::text)
    AND ($4::text = '' OR entity = $4::text)
    AND ($5::text = '' OR tenant_id = $5::text)
    AND ($6::text = '' OR scheduled_at >= $6::text::timestamptz)
    AND ($7::text = '' OR scheduled_at < $7::text::timestamptz)
    AND ($8::text = '' OR (scheduled_at::timestamptz, id::text COLLATE "C") > ($8::text::timestamptz, $9::text))
ORDER BY scheduled_at::timestamptz, id::text COLLATE "C"
LIMIT $10::text::int`

// List reads the tasks that a filter selects, by scheduled_at and id. It reads the table through: meant for people and
// reports, not for each request of an application.
func (s *Store) List(ctx context.Context, db DB, filter Filter) ([]Row, error) {
	args, err := filter.args()
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	return collect[Row](ctx, s, db, "list tasks", listSQL, args...)
}

// args are the filter as listSQL takes it, checked: what Postgres cannot take for a text would end the caller's transaction.
func (f Filter) args() ([]any, error) {
	if f.Limit == 0 {
		f.Limit = 100
	}
	if f.Limit < 1 || f.Limit > 10000 {
		return nil, invalid("limit", "must be between 1 and 10000", f.Limit)
	}
	var args []any
	for _, field := range []struct{ name, value string }{
		{"type", f.Type}, {"status", string(f.Status)}, {"queue", f.Queue}, {"entity", f.Entity}, {"tenant_id", f.TenantID},
	} {
		if err := checkText(field.name, field.value); err != nil {
			return nil, err
		}
		args = append(args, field.value)
	}
	var after Row
	if f.After != nil {
		after = *f.After
	}
	for _, field := range []struct {
		name  string
		value time.Time
		given bool
	}{{"from", f.From, !f.From.IsZero()}, {"to", f.To, !f.To.IsZero()}, {"after", after.ScheduledAt, f.After != nil}} {
		text := ""
		if field.given {
			var err error
			if text, err = timeText(field.name, field.value); err != nil {
				return nil, err
			}
		}
		args = append(args, text)
	}
	return append(args, after.ID, strconv.Itoa(f.Limit)), checkText("after", after.ID)
}

// History is all that is recorded of one id, oldest first; also of a task that was deleted.
type History struct {
	Changes    []Change
	Executions []Execution
}

const executionsSQL = `
SELECT fence, task_id, type, revision, attempt, scheduled_at, due_at, started_at, finished_at, outcome, error, node
FROM tasktable.scheduled_task_executions WHERE task_id = $1::text ORDER BY fence`

// By time, not by revision: an insert that waited for the delete before it has drawn the lower number.
const changesSQL = `
SELECT revision, task_id, verb, outcome, changed_at, changed_by, old::text AS old, new::text AS new
FROM tasktable.scheduled_task_changes WHERE task_id = $1::text ORDER BY changed_at, revision`

// History reads what happened to a task: each edit and what came of each attempt.
func (s *Store) History(ctx context.Context, db DB, id string) (History, error) {
	if err := checkID(id); err != nil {
		return History{}, fmt.Errorf("history: %w", err)
	}
	changes, err := collect[Change](ctx, s, db, "read changes of task "+id, changesSQL, id)
	if err != nil {
		return History{}, err
	}
	executions, err := collect[Execution](ctx, s, db, "read executions of task "+id, executionsSQL, id)
	return History{Changes: changes, Executions: executions}, err
}

func collect[T any](ctx context.Context, s *Store, db DB, doing, statement string, args ...any) ([]T, error) {
	if s.err != nil {
		return nil, fmt.Errorf("%s: %w", doing, s.err)
	}
	rows, err := db.Query(ctx, s.schema.SQL(statement), args...)
	if err != nil {
		return nil, described(err, doing)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[T])
	return found, described(err, doing)
}

func scalar[T any](ctx context.Context, s *Store, db DB, doing, statement string, args ...any) (T, error) {
	var none T
	if s.err != nil {
		return none, fmt.Errorf("%s: %w", doing, s.err)
	}
	rows, err := db.Query(ctx, s.schema.SQL(statement), args...)
	if err != nil {
		return none, described(err, doing)
	}
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	return found, described(err, doing)
}

func (s *Store) words(ctx context.Context, db DB, doing, statement string) ([]string, error) {
	if s.err != nil {
		return nil, fmt.Errorf("%s: %w", doing, s.err)
	}
	rows, err := db.Query(ctx, s.schema.SQL(statement))
	if err != nil {
		return nil, described(err, doing)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return found, described(err, doing)
}
