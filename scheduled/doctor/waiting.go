package doctor

import (
	"context"
	"time"
)

// waitingSQL groups the tasks that wait, by what they wait for. Of more than 10,000 it reads those that have waited for
// longest.
const waitingSQL = `
SELECT count(*)::int AS tasks, min(w.waiting_since) AS since, coalesce(left(w.message, 300), '') AS message,
    extract(epoch FROM statement_timestamp() - min(w.waiting_since))::float8 AS age
FROM (SELECT * FROM tasktable.waiting_tasks AS w ORDER BY w.waiting_since LIMIT 10000) AS w
GROUP BY left(w.message, 300) ORDER BY count(*) DESC, 3 LIMIT 10`

type waitingRow struct {
	Tasks   int
	Since   time.Time
	Message string
	Age     float64
}

// waiting reports tasks that their handler puts off because something is out of order, such as a host whose circuit is
// open. Such tasks are claimed, and no slot is missing, so that the other checks do not find them.
func (e *examination) waiting(ctx context.Context) error {
	found, err := rows[waitingRow](ctx, e, waitingSQL)
	if err != nil {
		return err
	}
	for _, one := range found {
		e.warn("mend what the message names; the tasks then run by themselves, within twice the time for which a "+
			"circuit is open\n"+e.sql("SELECT * FROM tasktable.waiting_tasks ORDER BY waiting_since"),
			"%s put off by their handler, the first since %s (%s): %s", several(one.Tasks, "task"), instant(one.Since),
			seconds(one.Age), line(one.Message))
	}
	if len(found) == 0 {
		e.ok("no task waits for something that is out of order")
	}
	return nil
}
