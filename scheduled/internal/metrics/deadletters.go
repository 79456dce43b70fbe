package metrics

import (
	"context"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

type deadLabels struct{ kind, status string }

// deadWalk walks through the table and counts dead letters, some pages at a time. There is no index on dead letters,
// because each settle would have to write to it.
type deadWalk struct {
	page  int64
	sofar map[deadLabels]int
}

// CountDeadSQL counts the dead letters in a range of pages.
const CountDeadSQL = `
SELECT t.type::text AS type, t.status::text AS status, count(*)::int AS tasks FROM tasktable.scheduled_tasks AS t
WHERE t.ctid >= $1::tid AND t.ctid < $2::tid AND t.status IN ('FAILED', 'EXPIRED') AND t.archived_at IS NULL
GROUP BY t.type::text, t.status::text`

type deadRow struct {
	Type   string
	Status string
	Tasks  int
}

type pagesRow struct{ Pages int64 }

// countDead walks on through the table for at most a quarter of a second. At the end of the table it publishes the
// sums, and begins again at the next count. So a small table is counted each time, and a large one over some
// minutes.
func (c *TableStats) countDead(ctx context.Context, found *tableCounts) error {
	pages, err := counted[pagesRow](ctx, c, "measure the table of tasks",
		`SELECT (`+taskdb.PagesSQL+`) AS pages`, c.config.Statements.Schema.SQL("tasktable.scheduled_tasks"))
	if err != nil {
		return err
	}
	if c.walk.sofar == nil {
		c.walk.sofar = map[deadLabels]int{}
	}
	for began := time.Now(); c.walk.page < pages[0].Pages; c.walk.page += taskdb.PagesAtOnce {
		if time.Since(began) > countSlow {
			return nil
		}
		some := taskdb.WholePages(c.walk.page, c.walk.page+taskdb.PagesAtOnce)
		rows, err := counted[deadRow](ctx, c, "count dead letters", CountDeadSQL, some.From.String(), some.To.String())
		if err != nil {
			return err
		}
		for _, row := range rows {
			c.walk.sofar[deadLabels{c.config.Metrics.label(row.Type), row.Status}] += row.Tasks
		}
	}
	for known := range found.dead { // labels that were shown before and have no tasks now
		c.walk.sofar[known] += 0
	}
	found.dead, c.walk = c.walk.sofar, deadWalk{}
	return nil
}
