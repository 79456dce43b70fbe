package maintenance

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// This file has what retention removes besides tasks and their history.

// retainRestSQL removes nodes and pauses that ended long ago. A period of null keeps these too. The history keeps the
// numbers of the nodes.
const retainRestSQL = `
WITH nodes AS (
    DELETE FROM tasktable.nodes WHERE $1::interval IS NOT NULL
        AND dead_at < coalesce($2::timestamptz, clock_timestamp()) - greatest($1::interval,
        interval '720 hours') RETURNING 1
), pauses AS (
    DELETE FROM tasktable.pauses WHERE $1::interval IS NOT NULL
        AND ends_at < coalesce($2::timestamptz, clock_timestamp()) - greatest($1::interval,
        interval '720 hours') RETURNING 1
), causes AS ( -- a notice waits at most 8 days and then expires
    DELETE FROM tasktable.notice_causes AS c
    WHERE c.at < coalesce($2::timestamptz, clock_timestamp()) - interval '720 hours'
)
SELECT (SELECT count(*) FROM nodes) + (SELECT count(*) FROM pauses)`

// removeEnded removes the nodes and pauses that ended long ago.
func (r *Retention) removeEnded(ctx context.Context, tx pgx.Tx, now *time.Time) (gone int64, err error) {
	return pg.QueryOne[int64](ctx, tx, "remove old nodes and pauses",
		r.config.Statements.Schema.SQL(retainRestSQL), periodText(r.config.Period), now)
}

// Answers of the API are kept for a day. They are removed in each batch, not once a round, because a round of large
// tables takes hours.
const retainAnswersSQL = `
DELETE FROM tasktable.api_answers AS a WHERE a.ctid = ANY (ARRAY(
    SELECT o.ctid FROM tasktable.api_answers AS o
    WHERE o.created_at < coalesce($1::timestamptz, clock_timestamp()) - interval '24 hours'
    ORDER BY o.created_at LIMIT 5000))`

// retainSessionsSQL removes the sessions of the dashboard that have expired.
const retainSessionsSQL = `
DELETE FROM tasktable.api_sessions AS s WHERE s.ctid = ANY (ARRAY(
    SELECT o.ctid FROM tasktable.api_sessions AS o
    WHERE o.expires_at < coalesce($1::timestamptz, clock_timestamp())
    ORDER BY o.expires_at LIMIT 1000))`

// removeShortLived removes the rows of the API and the dashboard that live for a day or less.
func (r *Retention) removeShortLived(ctx context.Context, tx pgx.Tx, now *time.Time) error {
	if _, err := tx.Exec(ctx, r.config.Statements.Schema.SQL(retainAnswersSQL), now); err != nil {
		return fmt.Errorf("remove old answers of the API: %w", err)
	}
	if _, err := tx.Exec(ctx, r.config.Statements.Schema.SQL(retainSessionsSQL), now); err != nil {
		return fmt.Errorf("remove expired sessions: %w", err)
	}
	return nil
}
