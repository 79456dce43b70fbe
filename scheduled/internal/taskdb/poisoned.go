package taskdb

import (
	"context"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// LaneHead is the first task of a lane, or one of the first.
type LaneHead struct {
	ID       string
	Revision int64
	Type     string
}

// The statement reads only these columns and computes nothing from other columns, because those may be unreadable.
const lockHeadSQL = `
SELECT t.id::text AS id, coalesce(t.revision, 0) AS revision, $2::text AS type FROM tasktable.scheduled_tasks AS t
WHERE t.queue = $1::text AND t.type = $2::text AND t.priority = $3::int AND t.cron IS NULL
    AND t.next_attempt_at BETWEEN $6::timestamptz AND clock_timestamp() + $4::interval AND t.id <> ALL ($5::text[])
ORDER BY t.next_attempt_at LIMIT 1 FOR UPDATE SKIP LOCKED`

// LockHead locks the first task of a lane, from its head on, that is due and not set aside, or returns nil.
func (s Queries) LockHead(
	ctx context.Context, q pg.DB, l Lane, lookAhead time.Duration, aside ...string,
) (*LaneHead, error) {
	found, err := pg.CollectRows[LaneHead](ctx, q, "lock the head of a lane", s.Schema.SQL(lockHeadSQL),
		l.Queue, l.Type, l.Priority, lookAhead, pg.OrEmpty(aside), l.Head)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

const failHeadSQL = `
WITH failed AS (
    UPDATE tasktable.scheduled_tasks AS t
    SET status = 'FAILED', next_attempt_at = NULL, due_at = NULL, message = $3::text,
        finished_at = clock_timestamp(), last_status_update = clock_timestamp()
    WHERE t.id = $1::text AND coalesce(t.revision, 0) = $2 AND t.next_attempt_at IS NOT NULL
    RETURNING t.id::text AS id, t.type::text AS type, t.revision, t.attempt
)
INSERT INTO tasktable.scheduled_task_executions
    (fence, task_id, type, revision, attempt, scheduled_at, finished_at, outcome, error)
SELECT nextval('tasktable.task_numbers'), f.id, coalesce(f.type, ''), coalesce(f.revision, 0), coalesce(f.attempt, 0),
    clock_timestamp(), clock_timestamp(), 'FAILED', $3::text
FROM failed AS f`

// FailHead fails a task that cannot be claimed or fired, so that it does not stop the others. It leaves a task alone
// that somebody has changed.
func (s Queries) FailHead(ctx context.Context, q pg.DB, broken LaneHead, why string) error {
	if _, err := q.Exec(ctx, s.Schema.SQL(failHeadSQL), broken.ID, broken.Revision, why); err != nil {
		return fmt.Errorf("fail task %s: %w", broken.ID, err)
	}
	return nil
}
