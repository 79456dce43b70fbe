package taskdb

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// A limit may count each group or tenant by itself. Then the tasks of a lane that have the same key are a lane of their
// own. There may be very many of these, so no statement lists all of them. The leader reads the tasks of the lane in
// the order of their times, once, and so learns which keys have due tasks.

const (
	// MaxKeysRead is how many tasks a look reads at most to learn their keys.
	MaxKeysRead = 5000
	// MaxKeysWalked is how many keys of a lane WalkKeys returns at most.
	MaxKeysWalked = 1000
)

// KeysFrom is where the leader goes on in a lane: behind the key Key among the tasks of the time At. The walk goes on
// behind the key Key, and reads the times before At.
type KeysFrom struct {
	LaneAt
	Key    string
	Prefix string // of the keys of the lane, for the walk
}

// KeyRead is tasks of a lane that have the same key.
type KeyRead struct {
	Lane   int    // place of the lane in the list that was given
	Key    string // "" and keys of another prefix: the leader has not set the key yet
	First  time.Time
	Last   time.Time // of those that are due
	Due    bool      // some are due
	AllDue bool
	Tasks  int
}

// The number of tasks must stay a parameter. With a constant Postgres reads the whole lane by a bitmap.
const readKeysSQL = `
SELECT lane.number::int - 1 AS lane, task.limit_key AS key, min(task.at) AS first,
    coalesce(max(task.at) FILTER (WHERE task.at <= clock.now), '-infinity') > '-infinity' AS due,
    coalesce(max(task.at) FILTER (WHERE task.at <= clock.now), min(task.at)) AS last,
    bool_and(task.at <= clock.now) AS all_due, count(*)::int AS tasks
FROM unnest($2::text[], $3::text[], $4::int[], $5::timestamptz[], $6::text[])
    WITH ORDINALITY AS lane (queue, type, priority, since, key, number)
CROSS JOIN (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now OFFSET 0) AS clock
CROSS JOIN LATERAL (
    SELECT t.limit_key, least(greatest(t.next_attempt_at, '1970-01-01'::timestamptz), '9999-12-30') AS at
    FROM tasktable.scheduled_tasks AS t
    WHERE t.queue = lane.queue AND t.type = lane.type AND t.priority = lane.priority AND t.cron IS NULL
        AND (t.next_attempt_at, t.limit_key) > (lane.since, lane.key) AND t.next_attempt_at <= $7::timestamptz
    ORDER BY t.next_attempt_at, t.limit_key LIMIT $8::int
) AS task
GROUP BY lane.number, task.limit_key, clock.now
ORDER BY lane.number, last, task.limit_key`

// QueueKeys adds readKeysSQL to a batch. It reads at most so many tasks of each lane.
func (s Queries) QueueKeys(batch *pgx.Batch, lanes []KeysFrom, until time.Time, most int) {
	columns := columnsOfLanes(column(lanes, func(l *KeysFrom) LaneAt { return l.LaneAt }))
	batch.Queue(s.Schema.SQL(readKeysSQL), slices.Concat([]any{nil}, columns,
		[]any{column(lanes, func(l *KeysFrom) string { return l.Key }), until, most})...)
}

// HeadRead is the first task of a lane.
type HeadRead struct {
	Lane int        // place of the lane in the list that was given
	Held bool       // only the task that goes first may start, see inorder.go
	Head *time.Time // nil: that task is in another lane
}

// HeadOf is a lane of a group or tenant, from where on its first task is looked for.
type HeadOf struct {
	LaneAt
	InOrder string // see Lane
}

// For the conditions see ofKeys.
const readHeadsSQL = `
SELECT lane.number::int - 1 AS lane, lane.first IS NOT NULL AS held,
    coalesce(head.head, CASE WHEN lane.here
        THEN least(greatest(lane.first_at, '1970-01-01'::timestamptz), '9999-12-30') END) AS head
FROM (
    SELECT lane.*, first.*
    FROM unnest($1::text[], $2::text[], $3::int[], $4::timestamptz[], $5::text[], $6::text[])
        WITH ORDINALITY AS lane (queue, type, priority, since, limit_key, in_order, number)` + joinFirstSQL + `
) AS lane LEFT JOIN LATERAL (
    SELECT least(greatest(t.next_attempt_at, '1970-01-01'::timestamptz), '9999-12-30') AS head
    FROM tasktable.scheduled_tasks AS t
    WHERE t.queue = lane.queue AND t.type = lane.type AND t.priority = lane.priority AND t.cron IS NULL
        AND t.limit_key <> '' AND t.next_attempt_at IS NOT NULL AND (t.limit_key, t.next_attempt_at)
            BETWEEN (lane.limit_key, lane.since) AND (lane.limit_key, 'infinity'::timestamptz)
        AND lane.first IS NULL
    ORDER BY t.limit_key, t.next_attempt_at LIMIT 1
) AS head ON true
WHERE lane.first IS NOT NULL OR head.head IS NOT NULL`

// QueueHeads adds readHeadsSQL to a batch.
func (s Queries) QueueHeads(batch *pgx.Batch, lanes []HeadOf) {
	batch.Queue(s.Schema.SQL(readHeadsSQL), columnsOfHeads(lanes)...)
}

// Heads reads the first tasks of lanes.
func (s Queries) Heads(ctx context.Context, q pg.DB, lanes []HeadOf) ([]HeadRead, error) {
	return pg.CollectRows[HeadRead](ctx, q, "read the first tasks of limit keys", s.Schema.SQL(readHeadsSQL),
		columnsOfHeads(lanes)...)
}

func columnsOfHeads(lanes []HeadOf) []any {
	return slices.Concat(columnsOfLanes(column(lanes, func(l *HeadOf) LaneAt { return l.LaneAt })), []any{
		column(lanes, func(l *HeadOf) string { return l.LimitKey }),
		column(lanes, func(l *HeadOf) string { return l.InOrder }),
	})
}

// setKeysSQL sets the keys of tasks that were scheduled before there was a limit that counts by them.
const setKeysSQL = `
UPDATE tasktable.scheduled_tasks AS t
SET limit_key = $6::text || coalesce(CASE $6::text WHEN 'g:' THEN t.group_key::text ELSE t.tenant_id::text END, '')
WHERE t.ctid = ANY (ARRAY(
    SELECT w.ctid FROM tasktable.scheduled_tasks AS w
    WHERE w.queue = $1::text AND w.type = $2::text AND w.priority = $3::int AND w.cron IS NULL
        AND w.next_attempt_at BETWEEN $4::timestamptz AND $5::timestamptz AND NOT starts_with(w.limit_key, $6::text)
    ORDER BY w.next_attempt_at, w.limit_key LIMIT $7::int FOR UPDATE SKIP LOCKED
))
RETURNING t.limit_key AS key, least(greatest(t.next_attempt_at, '1970-01-01'::timestamptz), '9999-12-30') AS first`

// SetKeys sets the keys of tasks of a lane from one time to another, at most so many, and returns the keys and times.
// It leaves out rows that others have locked. It must run where Claim may.
func (s Queries) SetKeys(
	ctx context.Context, q pg.DB, lane LaneKey, from, to time.Time, prefix string, most int,
) ([]KeySet, error) {
	return pg.CollectRows[KeySet](ctx, q, "set limit keys", s.Schema.SQL(setKeysSQL), lane.Queue, lane.Type,
		lane.Priority, from, to, prefix, most)
}

// KeySet is a task with its key.
type KeySet struct {
	Key   string
	First time.Time // when it can be claimed
}

// walkKeysSQL jumps from key to key. Its LIMIT ends the recursion.
const walkKeysSQL = `
WITH RECURSIVE key AS (
    (SELECT t.limit_key, t.next_attempt_at FROM tasktable.scheduled_tasks AS t
    WHERE t.queue = $1::text AND t.type = $2::text AND t.priority = $3::int AND t.cron IS NULL
        AND t.next_attempt_at IS NOT NULL AND t.limit_key <> '' AND t.limit_key > $4::text
    ORDER BY t.limit_key, t.next_attempt_at LIMIT 1)
    UNION ALL
    SELECT next.* FROM key CROSS JOIN LATERAL (
        SELECT t.limit_key, t.next_attempt_at FROM tasktable.scheduled_tasks AS t
        WHERE t.queue = $1::text AND t.type = $2::text AND t.priority = $3::int AND t.cron IS NULL
            AND t.next_attempt_at IS NOT NULL AND t.limit_key <> '' AND t.limit_key > key.limit_key
        ORDER BY t.limit_key, t.next_attempt_at LIMIT 1
    ) AS next
)
SELECT limit_key AS key, least(greatest(next_attempt_at, '1970-01-01'::timestamptz), '9999-12-30') AS first
FROM key LIMIT $5::int`

const unsetKeysSQL = `
SELECT least(greatest(t.next_attempt_at, '1970-01-01'::timestamptz), '9999-12-30')
FROM tasktable.scheduled_tasks AS t
WHERE t.queue = $1::text AND t.type = $2::text AND t.priority = $3::int AND t.cron IS NULL
    AND t.next_attempt_at <= $4::timestamptz AND NOT starts_with(t.limit_key, $5::text)
ORDER BY t.next_attempt_at LIMIT 1`

// KeysWalked is what WalkKeys has found in a lane.
type KeysWalked struct {
	KeysFrom
	Keys  []KeySet   // the keys in order, with the first task of each
	Unset *time.Time // the first task whose key is not set
}

// WalkKeys reads the next keys of a lane, and, if unset is true, looks for a task whose key is not set. It may step
// over many dead index entries.
func (s Queries) WalkKeys(ctx context.Context, q pg.DB, lane KeysFrom, unset bool) (found KeysWalked, err error) {
	found.KeysFrom = lane
	found.Keys, err = pg.CollectRows[KeySet](ctx, q, "walk through limit keys", s.Schema.SQL(walkKeysSQL), lane.Queue,
		lane.Type, lane.Priority, lane.Key, MaxKeysWalked)
	if err != nil || !unset {
		return found, err
	}
	times, err := pg.CollectColumn[time.Time](ctx, q, "look for tasks without a limit key",
		s.Schema.SQL(unsetKeysSQL), lane.Queue, lane.Type, lane.Priority, lane.At, lane.Prefix)
	if len(times) > 0 {
		found.Unset = &times[0]
	}
	return found, err
}
