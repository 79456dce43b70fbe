package community

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/community/contract"
)

// statusNowSQL is the status of an event e at @now. It depends on the clock alone, so it is right again after an
// event was moved, and a draft has a status too.
const statusNowSQL = `
CASE WHEN e.starts_at <= @now::timestamptz AND e.starts_at + e.duration > @now::timestamptz THEN 'live'
     WHEN e.previous_starts_at <= @now::timestamptz AND e.previous_starts_at + e.duration > @now::timestamptz
         THEN 'live'
     WHEN e.repeat_days = 0 AND e.starts_at <= @now::timestamptz THEN 'finished'
     ELSE 'upcoming' END`

// unfinishedSQL selects the events that may be upcoming or live at @now. Two indexes find them, so that Postgres does
// not read the events of last year. An event that was finished and then moved is found by its start, because no event
// takes longer than 31 days.
const unfinishedSQL = `(e.status <> 'finished' OR e.starts_at > @now::timestamptz - interval '744 hours')`

// As in the other statements of this package, a part that runs once picks the rows to change. Postgres may run a
// joined subquery with LIMIT again for each row, and it may pick other rows each time.
const updateStatusSQL = `
WITH due AS MATERIALIZED (
    SELECT e.id, ` + statusNowSQL + ` AS status FROM community.events AS e
    WHERE ` + unfinishedSQL + ` AND e.status <> ` + statusNowSQL + `
    ORDER BY e.id LIMIT @rows FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE community.events AS e SET status = due.status FROM due WHERE e.id = due.id`

// updateStatus runs STATUS_UPDATE.
func updateStatus(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.StatusUpdate]) error {
	s := newSweep(tx, t.Execution)
	if err := s.exec(ctx, "events", updateStatusSQL, nil); err != nil {
		return fmt.Errorf("update the status of events: %w", err)
	}
	s.finish()
	return nil
}
