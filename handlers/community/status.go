package community

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/community/contract"
)

// What an event e is at @now. It goes by the clock alone, so it is right again after an event was moved, and a draft
// has a status too.
const statusNowSQL = `
CASE WHEN e.starts_at <= @now::timestamptz AND e.starts_at + e.duration > @now::timestamptz THEN 'live'
     WHEN e.previous_starts_at <= @now::timestamptz AND e.previous_starts_at + e.duration > @now::timestamptz THEN 'live'
     WHEN e.repeat_days = 0 AND e.starts_at <= @now::timestamptz THEN 'finished'
     ELSE 'upcoming' END`

// The events that may be anything but finished at @now, found by two indexes: those that were finished last year are
// not read. One that was finished and then moved is among them by its start, since no event takes longer than 31
// days.
const unfinishedSQL = `(e.status <> 'finished' OR e.starts_at > @now::timestamptz - interval '744 hours')`

// As everywhere below, what is to be changed is picked by a part that runs once: a subquery with LIMIT that is joined
// may be run again for each row, and pick others each time.
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
