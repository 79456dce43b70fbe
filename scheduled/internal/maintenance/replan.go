package maintenance

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/loop"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

const (
	replanLook   = 5 * time.Second // how often to see whether the node has become the leader
	maxReplanned = 500             // plans in one statement, because a statement has a time limit
)

// Replanner plans fires anew that were planned with other time zone data. It does so each time this node begins to
// lead, because the former leader may have had other data.
type Replanner struct{ config Config }

// NewReplanner makes a replanner. It plans nothing before Run.
func NewReplanner(config Config) *Replanner { return &Replanner{config} }

// Run works until ctx is done.
func (r *Replanner) Run(ctx context.Context) {
	done := false // since this node leads
	loop.Repeat(ctx, 0, func() time.Duration {
		if done = done && r.config.Leads(); done || !r.config.Leads() {
			return replanLook
		}
		tasks, err := r.replan(ctx)
		if err != nil && ctx.Err() == nil {
			r.config.Log.Warn("time zone data not compared; trying again", "error", err, "in", replanLook)
		}
		if tasks > 0 {
			r.config.Log.Info("time zone data differ from those that fires were planned with; planning anew",
				"tasks", tasks)
		}
		if tasks == maxReplanned {
			return 0
		}
		done = err == nil
		return replanLook
	})
}

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

// replan has some fires planned anew. It returns how many. If these are maxReplanned, there may be more.
func (r *Replanner) replan(ctx context.Context) (tasks int64, err error) {
	err = r.config.Housekeeping.Do(ctx, time.Minute, func(ctx context.Context, tx pgx.Tx) error {
		zones, err := pg.CollectColumn[string](
			ctx, tx, "list time zones", r.config.Statements.Schema.SQL(zonesInUseSQL),
		)
		if err != nil {
			return err
		}
		var names, data []string
		for _, name := range zones {
			if fingerprint := r.config.Statements.Zones.Fingerprint(name); fingerprint != "" {
				names, data = append(names, name), append(data, fingerprint)
			}
		}
		done, err := tx.Exec(ctx, r.config.Statements.Schema.SQL(replanSQL), names, data, maxReplanned)
		tasks = done.RowsAffected()
		return pg.Annotate(err, "plan fires anew")
	})
	return tasks, err
}
