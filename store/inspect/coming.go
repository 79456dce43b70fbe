package inspect

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

// ComingTask is a task that waits for its time.
type ComingTask struct {
	ID    string    `json:"id"`
	Type  string    `json:"type"`
	Queue string    `json:"queue"`
	At    time.Time `json:"at"` // when it becomes due
	// Attempt is how many attempts of it have begun. If it is over 0, the task waits for a retry.
	Attempt int `json:"attempt"`
}

const comingTasksSQL = lanesCTE + `
SELECT one.id, lane.type, lane.queue, one.at, one.attempt
FROM lane CROSS JOIN LATERAL (
    SELECT t.id::text AS id, t.next_attempt_at::timestamptz AS at, t.attempt::int AS attempt
    FROM tasktable.scheduled_tasks AS t
    WHERE t.queue = lane.queue AND t.type = lane.type AND t.priority = lane.priority AND t.cron IS NULL
        AND t.next_attempt_at > statement_timestamp()
    ORDER BY t.next_attempt_at LIMIT $1::text::int
) AS one
ORDER BY one.at, one.id COLLATE "C" LIMIT $1::text::int`

// ComingTasks lists the tasks that become due next, the first one first. Recurring tasks are not among them, because
// they do not run themselves. See ComingFires. most is the maximum number of tasks, from 1 to 1000. The list includes
// tasks that a pause will keep from running. ComingTasks reads no more than that many tasks of each lane.
func (i *Inspector) ComingTasks(ctx context.Context, db store.DB, most int) ([]ComingTask, error) {
	if most < 1 || most > 1000 {
		return nil, fmt.Errorf("coming tasks: %w", check.Invalid("most", "must be between 1 and 1000", most))
	}
	return query.Collect[ComingTask](ctx, i.source, db, "coming tasks", comingTasksSQL, strconv.Itoa(most))
}

// ComingFire is the planned next fire of a recurring task.
type ComingFire struct {
	ID    string    `json:"id"`
	Type  string    `json:"type"`
	Queue string    `json:"queue"`
	At    time.Time `json:"at"`
}

const comingFiresSQL = `
WITH RECURSIVE lane AS (
    (SELECT t.queue::text AS queue, t.type::text AS type FROM tasktable.scheduled_tasks AS t
     WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NOT NULL ORDER BY t.queue, t.type, t.next_attempt_at LIMIT 1)
    UNION ALL
    SELECT next.queue, next.type
    FROM lane CROSS JOIN LATERAL (
        SELECT t.queue::text AS queue, t.type::text AS type FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NOT NULL AND (t.queue, t.type) > (lane.queue, lane.type)
        ORDER BY t.queue, t.type, t.next_attempt_at LIMIT 1
    ) AS next
)
SELECT head.id, lane.type, lane.queue, head.at
FROM lane CROSS JOIN LATERAL (
    SELECT t.id::text AS id, t.next_attempt_at::timestamptz AS at FROM tasktable.scheduled_tasks AS t
    WHERE t.queue = lane.queue AND t.type = lane.type AND t.cron IS NOT NULL AND t.next_attempt_at IS NOT NULL
        AND t.planned_revision = t.revision
    ORDER BY t.next_attempt_at LIMIT $2::text::int
) AS head
WHERE $1::text = '' OR lane.type = $1::text
ORDER BY head.at, head.id COLLATE "C" LIMIT $2::text::int`

// ComingFires lists the recurring tasks that fire next, of one type or of all types if taskType is "". most is the
// maximum number of tasks, from 1 to 1000. The list includes tasks whose occurrences a pause will keep from running.
// ComingFires reads only the heads of an index, one for each queue and type.
func (i *Inspector) ComingFires(ctx context.Context, db store.DB, taskType string, most int) ([]ComingFire, error) {
	if most < 1 || most > 1000 {
		return nil, fmt.Errorf("coming fires: %w", check.Invalid("most", "must be between 1 and 1000", most))
	}
	if err := check.Text("type", taskType); err != nil {
		return nil, fmt.Errorf("coming fires: %w", err)
	}
	return query.Collect[ComingFire](ctx, i.source, db, "coming fires", comingFiresSQL, taskType, strconv.Itoa(most))
}
