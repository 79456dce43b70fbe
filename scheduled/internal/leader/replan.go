package leader

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// maxReplanned is how many fires a round of the walk has planned anew. They are few, because a statement has a time
// limit, and because overlooked tasks wait for the next round.
const maxReplanned = 500

const zonesInUseSQL = `
SELECT DISTINCT t.time_zone::text FROM tasktable.scheduled_tasks AS t
WHERE t.cron IS NOT NULL AND t.next_attempt_at IS NOT NULL AND t.time_zone IS NOT NULL`

// replanSQL makes such tasks due. The leader finds that their plans have other zone data, and plans their fires anew.
// No node has the empty fingerprint. Therefore no other leader takes the time of this update for a fire.
const replanSQL = `
UPDATE tasktable.scheduled_tasks AS t SET next_attempt_at = clock_timestamp(), planned_zone_data = ''
FROM (
    SELECT p.id::text AS id FROM tasktable.scheduled_tasks AS p
    JOIN unnest($1::text[], $2::text[]) AS zone (name, data) ON zone.name = p.time_zone::text
    WHERE p.cron IS NOT NULL AND p.next_attempt_at > clock_timestamp() AND p.planned_revision = p.revision
        AND p.planned_zone_data NOT IN (zone.data, '')
    LIMIT $3::int FOR UPDATE OF p SKIP LOCKED
) AS old
WHERE t.id = old.id`

// replan has some fires planned anew that were planned with other time zone data, and notes when none are left. The
// walk does that each time this node begins to lead, because the former leader may have had other data.
func (w *walk) replan(ctx context.Context) error {
	var tasks int64
	err := w.housekeeping.Do(ctx, time.Minute, func(ctx context.Context, tx pgx.Tx) error {
		zones, err := pg.CollectColumn[string](ctx, tx, "list time zones", w.statements.Schema.SQL(zonesInUseSQL))
		if err != nil {
			return err
		}
		var names, data []string
		for _, name := range zones {
			if fingerprint := w.statements.Zones.Fingerprint(name); fingerprint != "" {
				names, data = append(names, name), append(data, fingerprint)
			}
		}
		done, err := tx.Exec(ctx, w.statements.Schema.SQL(replanSQL), names, data, maxReplanned)
		tasks = done.RowsAffected()
		return pg.Annotate(err, "plan fires anew")
	})
	if err != nil {
		return err
	}
	w.planned = tasks < maxReplanned
	if tasks > 0 {
		w.log.Info("time zone data differ from those that fires were planned with; planning anew", "tasks", tasks)
	}
	return nil
}
