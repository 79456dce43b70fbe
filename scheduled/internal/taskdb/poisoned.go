package taskdb

import (
	"context"
	"strings"
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

// lockKeyedHeadSQL does the same in a lane of one group or tenant, see ofKeys.
var lockKeyedHeadSQL = strings.NewReplacer(
	"AND t.next_attempt_at BETWEEN $6::timestamptz AND clock_timestamp() + $4::interval",
	"AND t.limit_key <> '' AND t.next_attempt_at IS NOT NULL "+
		"AND (t.limit_key, t.next_attempt_at) BETWEEN ($7::text, $6::timestamptz) "+
		"AND ($7::text, clock_timestamp() + $4::interval)",
	"ORDER BY t.next_attempt_at", "ORDER BY t.limit_key, t.next_attempt_at",
).Replace(lockHeadSQL)

// LockHead locks the first task of a lane, from its head on, that is due and not set aside, or returns nil.
func (s Queries) LockHead(
	ctx context.Context, q pg.DB, l Lane, lookAhead time.Duration, aside ...string,
) (*LaneHead, error) {
	statement, arguments := lockHeadSQL, []any{l.Queue, l.Type, l.Priority, lookAhead, pg.OrEmpty(aside), l.Head}
	switch {
	case l.InOrder != "":
		statement, arguments = lockOrderedHeadSQL, append(arguments, l.LimitKey, l.InOrder)
	case l.LimitKey != "":
		statement, arguments = lockKeyedHeadSQL, append(arguments, l.LimitKey)
	}
	found, err := pg.CollectRows[LaneHead](ctx, q, "lock the head of a lane", s.Schema.SQL(statement), arguments...)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// The statement computes nothing from the row's times, because just these may be broken.
const failBrokenSQL = `
WITH updated AS (
    UPDATE tasktable.scheduled_tasks AS t
    SET status = 'FAILED', fence = NULL, lease_expires_at = NULL, next_attempt_at = NULL, due_at = NULL,
        -- Otherwise the leader would resume the dead task at the end of its pause.
        paused_until = NULL,
        message = $4::text,
        finished_at = clock_timestamp(), last_status_update = clock_timestamp()
    WHERE t.id = $1::text AND (t.fence = $2::bigint
        OR $2 IS NULL AND coalesce(t.revision, 0) = $3::bigint AND t.next_attempt_at IS NOT NULL)
    RETURNING t.id, coalesce(t.type::text, '') AS type, coalesce(t.revision, 0) AS revision,
        coalesce(t.attempt, 0) AS attempt, clock_timestamp() AS now
), ended AS (
    SELECT coalesce($2::bigint, nextval('tasktable.task_numbers')) AS fence, u.id AS task_id, u.type, u.revision,
        u.attempt, u.now AS scheduled_at, NULL::timestamptz AS due_at, NULL::timestamptz AS started_at,
        u.now AS finished_at, 'FAILED' AS outcome, $4::text AS error, NULL::bigint AS node
    FROM updated AS u
), ` + recordedSQL + `
SELECT FROM updated`

// FailHead fails a task that cannot be claimed or fired, so that it does not stop the others. It leaves a task alone
// that somebody has changed.
func (s Queries) FailHead(ctx context.Context, q pg.DB, broken LaneHead, why string) error {
	_, err := q.Exec(ctx, s.Schema.SQL(failBrokenSQL), broken.ID, nil, broken.Revision, why)
	return pg.Annotate(err, "fail task "+broken.ID)
}

// FailHeld fails a task whose claim cannot be settled. It reports whether the claim was still there.
func (s Queries) FailHeld(ctx context.Context, q pg.DB, broken Claim, why string) (failed bool, err error) {
	tag, err := q.Exec(ctx, s.Schema.SQL(failBrokenSQL), broken.ID, broken.Fence, nil, why)
	return err == nil && tag.RowsAffected() == 1, pg.Annotate(err, "fail task "+broken.ID)
}
