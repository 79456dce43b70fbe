package metrics

import (
	"context"
	"slices"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// changeWindow has the newest lines of scheduled_task_changes. A line becomes visible when its transaction commits,
// and transactions do not commit in the order of their lines' numbers. Therefore each count reads all lines of the
// last minute, and leaves out the lines that it has counted already.
type changeWindow struct {
	marks   []changeMark // the window begins after the line of the first mark
	counted []int64      // the lines in the window
}

// changeMark says that the line was the newest one at the time of a count.
type changeMark struct {
	at   time.Time
	line int64
}

const (
	changeWindowAge = time.Minute
	// maxChangesCounted bounds the list of counted lines. If there are more lines, the window begins at the last
	// count.
	maxChangesCounted = 100_000
)

const newestChangeSQL = `SELECT coalesce(max(c.revision), 0) AS line FROM tasktable.scheduled_task_changes AS c`

type newestChangeRow struct{ Line int64 }

// CountScheduledSQL counts lines of changes. A line does not have the fields that were not edited. Postgres makes a
// hash table of the list after NOT IN.
const CountScheduledSQL = `
SELECT line.type, line.outcome, array_agg(line.revision) AS lines
FROM (
    SELECT c.revision, CASE WHEN c.new ->> 'status' = 'SKIPPED' THEN 'skipped' ELSE c.outcome END AS outcome,
        coalesce(c.new ->> 'type',
            (SELECT t.type::text FROM tasktable.scheduled_tasks AS t WHERE t.id = c.task_id), '') AS type
    FROM tasktable.scheduled_task_changes AS c
    WHERE c.revision > $1::bigint AND c.outcome IN ('created', 'rescheduled', 'rearmed')
        AND c.revision NOT IN (SELECT * FROM unnest($2::bigint[]))
) AS line
GROUP BY line.type, line.outcome`

type scheduledRow struct {
	Type    string
	Outcome string
	Lines   []int64
}

// countScheduled counts the new lines in the window. The first time it only finds where the window begins. After an
// error it begins anew, because there may be more lines than can ever be counted in time.
func (c *TableStats) countScheduled(ctx context.Context) error {
	if len(c.window.marks) == 0 {
		newest, err := counted[newestChangeRow](ctx, c, "find the newest change", newestChangeSQL)
		if err == nil {
			c.window.marks = []changeMark{{time.Now(), newest[0].Line}}
		}
		return err
	}
	rows, err := counted[scheduledRow](ctx, c, "count scheduled tasks", CountScheduledSQL,
		c.window.marks[0].line, pg.OrEmpty(c.window.counted))
	if err != nil {
		c.window = changeWindow{}
		return err
	}
	for _, row := range rows {
		c.config.Metrics.scheduled.WithLabelValues(
			c.config.Metrics.label(row.Type), row.Outcome,
		).Add(float64(len(row.Lines)))
		c.window.counted = append(c.window.counted, row.Lines...)
	}
	c.window.advance(time.Now())
	return nil
}

// advance moves the beginning of the window to a later line.
func (w *changeWindow) advance(now time.Time) {
	newest := w.marks[len(w.marks)-1].line
	if len(w.counted) > 0 && slices.Max(w.counted) > newest {
		w.marks = append(w.marks, changeMark{now, slices.Max(w.counted)})
	}
	for len(w.marks) > 1 && (len(w.counted) > maxChangesCounted || now.Sub(w.marks[1].at) >= changeWindowAge) {
		w.marks = w.marks[1:]
	}
	w.counted = slices.DeleteFunc(w.counted, func(line int64) bool { return line <= w.marks[0].line })
}
