package community

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/community/contract"
)

// refreshGeoSummarySQL is one statement, so that the whole summary shows one instant. It does not use the column
// status, because STATUS_UPDATE may not have updated it yet. It writes only the cells that have changed, and in a
// fixed order, so that two refreshes at the same time wait for each other and do not deadlock.
const refreshGeoSummarySQL = `
WITH cell AS MATERIALIZED (
    SELECT floor(e.lat)::integer AS lat, floor(e.lon)::integer AS lon,
        count(*) FILTER (WHERE e.status_now = 'upcoming') AS upcoming,
        count(*) FILTER (WHERE e.status_now = 'live') AS live,
        min(e.starts_at) FILTER (WHERE e.starts_at > @now::timestamptz) AS next_starts_at
    FROM (
        SELECT e.lat, e.lon, e.starts_at, ` + statusNowSQL + ` AS status_now FROM community.events AS e
        WHERE e.lat IS NOT NULL AND e.published_at <= @now::timestamptz AND ` + unfinishedSQL + `
    ) AS e
    WHERE e.status_now <> 'finished' GROUP BY 1, 2
), removed AS (
    DELETE FROM community.geo_summary AS g WHERE NOT EXISTS (SELECT 1 FROM cell AS c
        WHERE c.lat = g.lat AND c.lon = g.lon) RETURNING 1
), changed AS (
    INSERT INTO community.geo_summary AS g (lat, lon, upcoming, live, next_starts_at, changed_at)
    SELECT c.lat, c.lon, c.upcoming, c.live, c.next_starts_at, @now::timestamptz FROM cell AS c ORDER BY c.lat, c.lon
    ON CONFLICT (lat, lon) DO UPDATE
    SET upcoming = excluded.upcoming, live = excluded.live, next_starts_at = excluded.next_starts_at,
        changed_at = excluded.changed_at
    WHERE (g.upcoming, g.live, g.next_starts_at)
        IS DISTINCT FROM (excluded.upcoming, excluded.live, excluded.next_starts_at)
    RETURNING 1
)
SELECT (SELECT count(*) FROM removed) + (SELECT count(*) FROM changed)`

// refreshGeoSummary runs GEO_SUMMARY_REFRESH. It writes at most one row for each cell. There are 181 × 361 cells.
func refreshGeoSummary(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.GeoSummaryRefresh]) error {
	var changed int64
	if err := tx.QueryRow(ctx, refreshGeoSummarySQL, pgx.NamedArgs{"now": t.StartedAt}).Scan(&changed); err != nil {
		return fmt.Errorf("refresh the geo summary: %w", err)
	}
	t.Result(Swept{"geo_summary": changed})
	return nil
}
