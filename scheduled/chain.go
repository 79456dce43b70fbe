package scheduled

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

const (
	// A chain is tasks of which each led to the next, by Again or as a follow-up, at once. One that goes on for ever would take all
	// the slots and fill the history: from this link on each waits a while, and the log says so.
	chainMost = 100
	chainWait = time.Second // also what counts as at once
)

// link is where a task stands in a chain.
type link struct {
	ID    string
	Chain int
	Now   time.Time
}

const linksSQL = `
SELECT t.id::text AS id, t.chain, coalesce($2::timestamptz, clock_timestamp()) AS now FROM tasktable.scheduled_tasks AS t WHERE t.id = ANY ($1::text[])`

// links reads where tasks stand in their chains.
func (s statements) links(ctx context.Context, q querier, now *time.Time, ids []string) (map[string]link, error) {
	rows, err := q.Query(ctx, s.schema.SQL(linksSQL), ids, now)
	if err != nil {
		return nil, fmt.Errorf("read chains: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[link])
	if err != nil {
		return nil, fmt.Errorf("read chains: %w", err)
	}
	links := make(map[string]link, len(found))
	for _, one := range found {
		links[one.ID] = one
	}
	return links, nil
}

// atOnce says which of a task's follow-ups are at once: the next links of its chain.
func (from link) atOnce(tasks []store.Task) []bool {
	atOnce := make([]bool, len(tasks))
	for i, task := range tasks {
		atOnce[i] = task.Recurrence == nil && !task.At.After(from.Now.Add(chainWait))
	}
	return atOnce
}

// Writes no column whose edit draws a revision; scheduled_at keeps saying what was asked for.
const linkSQL = `
UPDATE tasktable.scheduled_tasks
SET chain = $2::int, next_attempt_at = CASE WHEN next_attempt_at IS NOT NULL THEN greatest(next_attempt_at, $3::timestamptz) END
WHERE id = ANY ($1::text[])`

// link makes the tasks that were scheduled at once the next links of a chain. If it is long they are put off, and it says so. A task
// that was not written to stays as it is, and in the chain it is in.
func (s statements) link(ctx context.Context, q querier, from link, atOnce []bool, done []store.Receipt) (slowed bool, err error) {
	var ids []string
	for i, receipt := range done {
		if atOnce[i] && receipt.Outcome != store.Unchanged && receipt.Outcome != store.Finished {
			ids = append(ids, receipt.ID)
		}
	}
	if len(ids) == 0 {
		return false, nil
	}
	var until *time.Time
	if from.Chain >= chainMost {
		until = new(from.Now.Add(chainWait))
	}
	_, err = q.Exec(ctx, s.schema.SQL(linkSQL), ids, from.Chain+1, until)
	return until != nil, wrap(err, "lengthen a chain")
}
