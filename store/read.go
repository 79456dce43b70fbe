package store

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

const getSQL = `SELECT ` + query.TaskColumns + `
FROM tasktable.scheduled_tasks WHERE id = $1::text`

// Get reads a task. Its error wraps ErrNotFound if the task does not exist.
func (s *Store) Get(ctx context.Context, db DB, id string) (Row, error) {
	if err := check.ID(id); err != nil {
		return Row{}, fmt.Errorf("get: %w", err)
	}
	rows, err := query.Collect[Row](ctx, s.source, db, "get task "+id, getSQL, id)
	if err != nil {
		return Row{}, err
	}
	if len(rows) == 0 {
		return Row{}, fmt.Errorf("get task %s: %w", id, ErrNotFound)
	}
	return rows[0], nil
}

// History is the recorded history of one id, oldest first. It exists also for a task that was deleted.
type History struct {
	Changes    []Change    `json:"changes"`
	Executions []Execution `json:"executions"`
}

const executionsSQL = `
SELECT fence, task_id, type, revision, attempt, scheduled_at, due_at, started_at, finished_at, outcome, error,
    node FROM (
    SELECT * FROM tasktable.scheduled_task_executions
        WHERE task_id = $1::text AND ($3::text = '' OR outcome = $3)
        ORDER BY fence DESC LIMIT nullif($2::text, '')::bigint
) AS latest ORDER BY fence`

// The order is by time, because the revisions may be out of order: an insert that waited for the delete before it has
// drawn the lower revision.
const changesSQL = `
SELECT revision, task_id, verb, outcome, changed_at, changed_by, old::text AS old, new::text AS new FROM (
    SELECT * FROM tasktable.scheduled_task_changes WHERE task_id = $1::text
    ORDER BY changed_at DESC, revision DESC LIMIT nullif($2::text, '')::bigint
) AS latest ORDER BY changed_at, revision`

// History reads what happened to a task: each change, and the outcome of each attempt. For an unknown id the History
// is empty. Retention removes old history.
func (s *Store) History(ctx context.Context, db DB, id string) (History, error) {
	return s.history(ctx, db, id, "")
}

// RecentHistory is History limited to the latest changes and the latest attempts, at most `most` of each. most is
// from 1 to 10000.
func (s *Store) RecentHistory(ctx context.Context, db DB, id string, most int) (History, error) {
	if most < 1 || most > 10000 {
		return History{}, fmt.Errorf("history: %w", check.Invalid("most", "must be between 1 and 10000", most))
	}
	return s.history(ctx, db, id, strconv.Itoa(most))
}

func (s *Store) history(ctx context.Context, db DB, id, most string) (History, error) {
	if err := check.ID(id); err != nil {
		return History{}, fmt.Errorf("history: %w", err)
	}
	changes, err := query.Collect[Change](ctx, s.source, db, "read changes of task "+id, changesSQL, id, most)
	if err != nil {
		return History{}, err
	}
	executions, err := query.Collect[Execution](ctx, s.source, db, "read executions of task "+id, executionsSQL, id,
		most, "")
	return History{Changes: changes, Executions: executions}, err
}

// Executions reads the latest attempts of a task, the oldest of them first. most is from 1 to 10000. outcome selects
// those with that outcome, such as FAILED, and "" selects all. For an unknown id there are none.
func (s *Store) Executions(ctx context.Context, db DB, id, outcome string, most int) ([]Execution, error) {
	if err := check.ID(id); err != nil {
		return nil, fmt.Errorf("executions: %w", err)
	}
	if most < 1 || most > 10000 {
		return nil, fmt.Errorf("executions: %w", check.Invalid("most", "must be between 1 and 10000", most))
	}
	return query.Collect[Execution](ctx, s.source, db, "read executions of task "+id, executionsSQL, id,
		strconv.Itoa(most), outcome)
}

const nowSQL = `SELECT clock_timestamp()`

// Now returns the database's time, which decides when tasks are due.
func (s *Store) Now(ctx context.Context, db DB) (time.Time, error) {
	return query.Value[time.Time](ctx, s.source, db, "read the time", nowSQL)
}
