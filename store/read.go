package store

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// rowColumns reads a Row: intervals as nanoseconds and JSON as text, scalars that every driver can scan.
const rowColumns = `id, payload::text AS payload, type, entity, tenant_id, queue, status, priority, scheduled_at, run_now_at,
    (extract(epoch FROM expiration) * 1000000000)::bigint AS expiration,
    (extract(epoch FROM expected_execution_time) * 1000000000)::bigint AS expected_execution_time,
    max_attempts, attempt, revision, next_attempt_at, fence, lease_expires_at, message, result::text AS result, scheduled_by, trace,
    created_at, last_status_update, started_at, finished_at, started_fence, node,
    cron, time_zone, overlap, catch_up, catch_up_paused, catch_up_limit, (extract(epoch FROM jitter) * 1000000000)::bigint AS jitter, ends_at,
    max_occurrences, occurrence_count, parent_id, planned_revision, paused_until, (extract(epoch FROM retention) * 1000000000)::bigint AS retention,
    archived_at, archived_note, spawned_by`

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

const (
	listSQL = `SELECT ` + rowColumns + `
FROM tasktable.scheduled_tasks AS t
WHERE ` + filterSQL + `
    AND ($15::text = '' OR (scheduled_at::timestamptz, id::text COLLATE "C") > ($15::text::timestamptz, $16::text))
ORDER BY scheduled_at::timestamptz, id::text COLLATE "C"
LIMIT $17::text::int`

	listLatestSQL = `SELECT ` + rowColumns + `
FROM tasktable.scheduled_tasks AS t
WHERE ` + filterSQL + `
    AND ($15::text = '' OR (scheduled_at::timestamptz, id::text COLLATE "C") < ($15::text::timestamptz, $16::text))
ORDER BY scheduled_at::timestamptz DESC, id::text COLLATE "C" DESC
LIMIT $17::text::int`
)

// List reads the tasks that a filter selects, by scheduled_at and id. It reads the table through: meant for people and
// reports, not for each request of an application.
func (s *Store) List(ctx context.Context, db DB, filter Filter) ([]Row, error) {
	args, err := filter.args()
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	after, id := "", ""
	if filter.After != nil {
		id = filter.After.ID
		if after, err = timeText("after", filter.After.ScheduledAt); err != nil {
			return nil, fmt.Errorf("list tasks: %w", err)
		}
		if err := checkText("after", id); err != nil {
			return nil, fmt.Errorf("list tasks: %w", err)
		}
	}
	statement := listSQL
	if filter.LatestFirst {
		statement = listLatestSQL
	}
	return collect[Row](ctx, s, db, "list tasks", statement, append(args, after, id, filter.limit())...)
}

// History is all that is recorded of one id, oldest first; also of a task that was deleted.
type History struct {
	Changes    []Change    `json:"changes"`
	Executions []Execution `json:"executions"`
}

const executionsSQL = `
SELECT fence, task_id, type, revision, attempt, scheduled_at, due_at, started_at, finished_at, outcome, error, node FROM (
    SELECT * FROM tasktable.scheduled_task_executions WHERE task_id = $1::text ORDER BY fence DESC LIMIT nullif($2::text, '')::bigint
) AS latest ORDER BY fence`

// By time, not by revision: an insert that waited for the delete before it has drawn the lower number.
const changesSQL = `
SELECT revision, task_id, verb, outcome, changed_at, changed_by, old::text AS old, new::text AS new FROM (
    SELECT * FROM tasktable.scheduled_task_changes WHERE task_id = $1::text
    ORDER BY changed_at DESC, revision DESC LIMIT nullif($2::text, '')::bigint
) AS latest ORDER BY changed_at, revision`

// History reads what happened to a task: each edit and what came of each attempt.
func (s *Store) History(ctx context.Context, db DB, id string) (History, error) {
	return s.history(ctx, db, id, "")
}

// RecentHistory is History of at most so many edits and so many attempts, the latest ones; 1 to 10000.
func (s *Store) RecentHistory(ctx context.Context, db DB, id string, most int) (History, error) {
	if most < 1 || most > 10000 {
		return History{}, fmt.Errorf("history: %w", invalid("most", "must be between 1 and 10000", most))
	}
	return s.history(ctx, db, id, strconv.Itoa(most))
}

func (s *Store) history(ctx context.Context, db DB, id, most string) (History, error) {
	if err := checkID(id); err != nil {
		return History{}, fmt.Errorf("history: %w", err)
	}
	changes, err := collect[Change](ctx, s, db, "read changes of task "+id, changesSQL, id, most)
	if err != nil {
		return History{}, err
	}
	executions, err := collect[Execution](ctx, s, db, "read executions of task "+id, executionsSQL, id, most)
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
