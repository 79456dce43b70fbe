package store

import (
	"context"
	"fmt"
	"time"
)

const nowSQL = `SELECT clock_timestamp()`

// Now is the database's time, by which all tasks go.
func (s *Store) Now(ctx context.Context, db DB) (time.Time, error) {
	return scalar[time.Time](ctx, s, db, "read the time", nowSQL)
}

// Name is by what a person knows a task.
type Name struct {
	ID     string
	Type   string
	Status Status
}

const namesSQL = `
SELECT id, type, status FROM tasktable.scheduled_tasks AS t
WHERE ` + filterSQL + `
    AND ($15::text = '' OR id > $15::text)
ORDER BY id LIMIT $16::text::int`

// Names lists the tasks that a filter selects, by their ids, without their content: for choosing among them. Where only IDPrefix and Limit
// are given it reads no more of the table than it lists. LatestFirst does not count, and After only by its id.
func (s *Store) Names(ctx context.Context, db DB, filter Filter) ([]Name, error) {
	args, err := filter.args()
	if err != nil {
		return nil, fmt.Errorf("list names: %w", err)
	}
	after := ""
	if filter.After != nil {
		after = filter.After.ID
		if err := checkText("after", after); err != nil {
			return nil, fmt.Errorf("list names: %w", err)
		}
	}
	return collect[Name](ctx, s, db, "list names", namesSQL, append(args, after, filter.limit())...)
}

// A loose index scan: one probe of the index for each lane, however many tasks wait in it. Recurring tasks have an index of their own.
const lanesSQL = `
WITH RECURSIVE lane AS (
    (SELECT t.queue::text AS queue, t.type::text AS type FROM tasktable.scheduled_tasks AS t
    WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL ORDER BY t.queue, t.type LIMIT 1)
    UNION ALL
    SELECT beyond.queue, beyond.type FROM lane CROSS JOIN LATERAL (
        SELECT t.queue::text AS queue, t.type::text AS type FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL AND (t.queue, t.type) > (lane.queue, lane.type)
        ORDER BY t.queue, t.type LIMIT 1) AS beyond
), recurring AS (
    SELECT DISTINCT t.queue::text AS queue, t.type::text AS type FROM tasktable.scheduled_tasks AS t
    WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NOT NULL
)`

const typesSQL = lanesSQL + `
SELECT type COLLATE "C" AS type FROM lane UNION SELECT type COLLATE "C" FROM recurring
UNION SELECT unnest(n.types) COLLATE "C" FROM tasktable.nodes AS n WHERE n.dead_at IS NULL ORDER BY type`

// Types lists the types in use: those that live nodes have handlers for, and those of tasks that wait. It reads no finished tasks. It
// needs the right to read nodes, which an application's role of `tasktable migrate roles` has not.
func (s *Store) Types(ctx context.Context, db DB) ([]string, error) {
	return s.words(ctx, db, "list types", typesSQL)
}

const queuesSQL = lanesSQL + `
SELECT queue COLLATE "C" AS queue FROM lane UNION SELECT queue COLLATE "C" FROM recurring
UNION SELECT jsonb_object_keys(n.queues) COLLATE "C" FROM tasktable.nodes AS n WHERE n.dead_at IS NULL ORDER BY queue`

// Queues lists the queues in use, as Types does the types.
func (s *Store) Queues(ctx context.Context, db DB) ([]string, error) {
	return s.words(ctx, db, "list queues", queuesSQL)
}
