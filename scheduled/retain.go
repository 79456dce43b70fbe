package scheduled

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// retainer removes, on the leader, finished tasks and history that are older than their period. It goes through each table by
// its pages, some at a time: an index on finished_at would cost every settle, all day, what this costs a few times an hour.
type retainer struct {
	pool       *pgxpool.Pool
	statements statements
	config     Config
	leads      func() bool
	log        *slog.Logger
}

const (
	retainEvery = 10 * time.Minute // from the end of a round to the next
	retainPause = time.Second      // between two batches
	retainPages = 2000             // a batch: 16 MB of a table
)

// run works until ctx is done.
func (r *retainer) run(ctx context.Context) {
	timer := time.NewTimer(time.Minute) // not among the first things that a node does
	defer timer.Stop()
	var at retainPlace
	removed := int64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if !r.leads() {
			at, removed = retainPlace{}, 0
			timer.Reset(time.Minute)
			continue
		}
		next, gone, err := r.runOnce(ctx, at)
		if err != nil && ctx.Err() == nil {
			r.log.Warn("retention failed; trying again", "error", err)
			timer.Reset(time.Minute)
			continue
		}
		removed += gone
		at = next
		if at != (retainPlace{}) {
			timer.Reset(retainPause)
			continue
		}
		if removed > 0 {
			r.log.Info("old tasks and history removed", "rows", removed)
		}
		removed = 0
		timer.Reset(retainEvery)
	}
}

// retainPlace is where a round stands: the table, and the page to go on from. The zero value is a round's beginning.
type retainPlace struct {
	table int
	page  int64
}

// A period that is null keeps for ever. What is held may run, whatever its status; what has no end has not ended; the current
// revision's line of a task that is there says how it came to be as it is; a task that is declared in code and was cancelled, or has
// ended, would begin anew if it were not remembered. The history of a removed task goes with it.
const retainTasksSQL = `
WITH gone AS (
    DELETE FROM tasktable.scheduled_tasks AS t
    WHERE t.ctid >= $1::tid AND t.ctid < $2::tid AND t.fence IS NULL AND t.declared_by IS NULL
        AND t.finished_at < coalesce($5::timestamptz, clock_timestamp())
            - coalesce(t.retention::interval, CASE WHEN $4::text::jsonb ? t.type THEN ($4::text::jsonb ->> t.type)::interval ELSE $3::interval END)
    RETURNING t.id::text AS id, t.status IN ('FAILED', 'EXPIRED') AND t.archived_at IS NULL AS dead
), executions AS (
    DELETE FROM tasktable.scheduled_task_executions AS e WHERE e.task_id = ANY (ARRAY(SELECT gone.id FROM gone)) RETURNING 1
), changes AS (
    DELETE FROM tasktable.scheduled_task_changes AS c WHERE c.task_id = ANY (ARRAY(SELECT gone.id FROM gone)) RETURNING 1
)
SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM executions) + (SELECT count(*) FROM changes) AS rows, (SELECT count(*) FROM gone WHERE gone.dead) AS dead`

const retainExecutionsSQL = `
WITH gone AS (
    DELETE FROM tasktable.scheduled_task_executions AS e
    WHERE e.ctid >= $1::tid AND e.ctid < $2::tid
        AND e.finished_at < coalesce($5::timestamptz, clock_timestamp())
            - coalesce((SELECT t.retention::interval FROM tasktable.scheduled_tasks AS t WHERE t.id = e.task_id),
                CASE WHEN $4::text::jsonb ? e.type THEN ($4::text::jsonb ->> e.type)::interval ELSE $3::interval END)
    RETURNING 1
)
SELECT count(*) AS rows, 0::bigint AS dead FROM gone`

// The lines do not know their task's type: those of a task that is gone are kept for the longest of the periods.
const retainChangesSQL = `
WITH period AS MATERIALIZED (
    SELECT CASE WHEN $3::interval IS NOT NULL AND bool_and(each.value IS NOT NULL) IS NOT FALSE
        THEN greatest($3::interval, max(each.value::interval)) END AS longest
    FROM jsonb_each_text($4::text::jsonb) AS each
), gone AS (
    DELETE FROM tasktable.scheduled_task_changes AS c
    USING period
    WHERE c.ctid >= $1::tid AND c.ctid < $2::tid
        AND c.changed_at < coalesce($5::timestamptz, clock_timestamp()) - coalesce(
            (SELECT CASE WHEN t.revision = c.revision THEN interval '1000000 hours' ELSE coalesce(t.retention::interval,
                CASE WHEN $4::text::jsonb ? t.type THEN coalesce(($4::text::jsonb ->> t.type)::interval, interval '1000000 hours') ELSE $3::interval END) END
             FROM tasktable.scheduled_tasks AS t WHERE t.id = c.task_id), period.longest)
    RETURNING 1
)
SELECT count(*) AS rows, 0::bigint AS dead FROM gone`

var retainTables = []struct{ name, sql string }{
	{"tasktable.scheduled_tasks", retainTasksSQL},
	{"tasktable.scheduled_task_executions", retainExecutionsSQL},
	{"tasktable.scheduled_task_changes", retainChangesSQL},
}

// retained is how many rows a statement removed, and how many of them were dead letters that nobody had dealt with.
type retained struct{ Rows, Dead int64 }

const pagesSQL = `SELECT pg_relation_size($1::text::regclass) / current_setting('block_size')::bigint`

// Nodes and pauses that are long gone; a period that is null keeps them too. The history keeps the nodes' numbers.
const retainRestSQL = `
WITH nodes AS (
    DELETE FROM tasktable.nodes WHERE $1::interval IS NOT NULL AND dead_at < coalesce($2::timestamptz, clock_timestamp()) - greatest($1::interval, interval '720 hours') RETURNING 1
), pauses AS (
    DELETE FROM tasktable.pauses WHERE $1::interval IS NOT NULL AND ends_at < coalesce($2::timestamptz, clock_timestamp()) - greatest($1::interval, interval '720 hours') RETURNING 1
)
SELECT (SELECT count(*) FROM nodes) + (SELECT count(*) FROM pauses)`

// runOnce removes what is too old in one batch of pages of each table, as far as the round has got, and returns where to go on and how
// many rows it removed. What it goes through is small enough for one transaction.
func (r *retainer) runOnce(ctx context.Context, at retainPlace) (next retainPlace, removed int64, err error) {
	err = pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		next, removed, err = r.step(ctx, tx, nil, at)
		return err
	})
	if err != nil {
		return at, 0, err
	}
	return next, removed, nil
}

// step is runOnce in a transaction, at a time; nil is the database's.
func (r *retainer) step(ctx context.Context, q querier, now *time.Time, at retainPlace) (next retainPlace, removed int64, err error) {
	byType := map[string]*string{}
	for name, period := range r.config.RetentionByType {
		byType[name] = periodText(period)
	}
	periods, err := json.Marshal(byType)
	if err != nil {
		return at, 0, fmt.Errorf("encode retention: %w", err)
	}
	if _, err := q.Exec(ctx, "SELECT set_config('tasktable_change.context', 'retention', true)"); err != nil {
		return at, 0, fmt.Errorf("enter retention's context: %w", err)
	}
	budget := int64(retainPages)
	for ; at.table < len(retainTables); at = (retainPlace{table: at.table + 1}) {
		table := retainTables[at.table]
		pages, err := one[int64](ctx, q, pagesSQL, r.statements.schema.SQL(table.name))
		if err != nil {
			return at, removed, fmt.Errorf("measure %s: %w", table.name, err)
		}
		to := min(at.page+budget, max(pages, at.page))
		rows, err := q.Query(ctx, r.statements.schema.SQL(table.sql), tid(at.page), tid(to), periodText(r.config.Retention), string(periods), now)
		if err != nil {
			return at, removed, fmt.Errorf("remove old rows of %s: %w", table.name, err)
		}
		gone, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[retained])
		if err != nil {
			return at, removed, fmt.Errorf("remove old rows of %s: %w", table.name, err)
		}
		if gone.Dead > 0 {
			r.log.Warn("retention removed dead letters that nobody had archived or retried", "tasks", gone.Dead)
		}
		removed += gone.Rows
		if budget -= to - at.page; to < pages {
			return retainPlace{table: at.table, page: to}, removed, nil
		}
	}
	gone, err := one[int64](ctx, q, r.statements.schema.SQL(retainRestSQL), periodText(r.config.Retention), now)
	return retainPlace{}, removed + gone, wrap(err, "remove old nodes and pauses")
}

func tid(page int64) string { return fmt.Sprintf("(%d,0)", page) }

// periodText is a period as SQL takes it; nil is for ever.
func periodText(period time.Duration) *string {
	if period == -1 {
		return nil
	}
	return new(fmt.Sprintf("%d microseconds", period.Microseconds()))
}

// one reads a single value.
func one[T any](ctx context.Context, q querier, statement string, args ...any) (value T, err error) {
	rows, err := q.Query(ctx, statement, args...)
	if err != nil {
		return value, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
}
