package taskdb

import (
	"context"
	"fmt"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
)

// spawnedSQL writes no column whose edit draws a revision. A new follow-up belongs to the service of the task that
// asked for it, so that the database role of this service can read it. A task that has run before starts a second after
// its last start at the earliest. Otherwise tasks that ask for each other for ever would write without a pause.
const spawnedSQL = `
UPDATE tasktable.scheduled_tasks AS t
SET spawned_by = coalesce(nullif(f.asked_by, ''), t.spawned_by),
    scheduled_by = CASE WHEN f.created THEN coalesce(
        (SELECT p.scheduled_by FROM tasktable.scheduled_tasks AS p WHERE p.id = f.asked_by LIMIT 1), t.scheduled_by)
            ELSE t.scheduled_by END,
    next_attempt_at = CASE WHEN f.created OR t.next_attempt_at IS NULL THEN t.next_attempt_at
        ELSE greatest(t.next_attempt_at, (SELECT e.started_at + interval '1 second'
            FROM tasktable.scheduled_task_executions AS e WHERE e.task_id = f.id AND e.started_at IS NOT NULL
            ORDER BY e.fence DESC LIMIT 1)) END,
    due_at = CASE WHEN f.created THEN t.due_at END
FROM unnest($1::text[], $2::text[], $3::boolean[]) AS f (id, asked_by, created)
WHERE t.id = ANY (ARRAY[f.id])`

// spawned writes to each follow-up which task asked for it, unless it is that task itself. It does not change a
// follow-up that the upsert has left alone.
func (s Queries) spawned(ctx context.Context, q pg.DB, followUps []followUp) error {
	var (
		ids, askedBy []string
		created      []bool
	)
	place := map[string]int{} // by follow-up; if two tasks asked for the same one, the later counts
	for _, f := range followUps {
		if f.receipt.Outcome == store.Unchanged || f.receipt.Outcome == store.Finished {
			continue
		}
		i, again := place[f.receipt.ID]
		if !again {
			i = len(ids)
			place[f.receipt.ID] = i
			ids, askedBy, created = append(ids, f.receipt.ID), append(askedBy, ""), append(created, false)
		}
		if created[i] = created[i] || f.receipt.Outcome == store.Created; !f.own {
			askedBy[i] = f.from.ID
		}
	}
	if len(ids) == 0 {
		return nil
	}
	if _, err := q.Exec(ctx, s.Schema.SQL(spawnedSQL), ids, askedBy, created); err != nil {
		return fmt.Errorf("write which tasks asked for %d follow-ups: %w", len(ids), err)
	}
	return nil
}
