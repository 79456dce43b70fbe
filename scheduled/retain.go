package scheduled

import (
	"context"
	"encoding/json"
	"errors"
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
	node       int64
	leads      func() bool
	log        *slog.Logger
}

const (
	retainEvery = 10 * time.Minute // from the end of a round to the next
	retainPause = time.Second      // between two batches
	retainPages = 2000             // a batch: 16 MB of a table
	// retainRefusals is how many rows that cannot be removed a batch goes past: the next goes on behind them. Each
	// costs some 40 statements.
	retainRefusals = 50
)

// run works until ctx is done.
func (r *retainer) run(ctx context.Context) {
	var at retainPlace
	var round retained
	repeat(ctx, time.Minute, func() time.Duration { // not among the first things that a node does
		if !r.leads() {
			at, round = retainPlace{}, retained{}
			return time.Minute
		}
		next, done, err := r.runOnce(ctx, at)
		if err != nil && ctx.Err() == nil {
			r.log.Warn("retention failed; trying again", "error", err)
			return time.Minute
		}
		round.add(done)
		if at = next; at != (retainPlace{}) {
			return retainPause
		}
		r.endRound(ctx, round)
		round = retained{}
		return retainEvery
	})
}

const noteRefusedSQL = `
UPDATE tasktable.nodes AS n SET retention_refused = CASE WHEN n.number = $1::bigint THEN $2::text END
WHERE n.retention_refused IS DISTINCT FROM CASE WHEN n.number = $1::bigint THEN $2::text END`

// endRound says what a round has done. It leaves a note on what it could not do, for doctor to find, in place of any
// earlier leader's.
func (r *retainer) endRound(ctx context.Context, round retained) {
	if round.Rows > 0 {
		r.log.Info("old tasks and history removed", "rows", round.Rows)
	}
	var note *string
	if round.Refused > 0 {
		note = new(fmt.Sprintf("%d rows, the first of task %s: %s", round.Refused, round.Task, round.Why))
	}
	_, err := r.pool.Exec(ctx, r.statements.schema.SQL(noteRefusedSQL), r.node, note)
	if err != nil && ctx.Err() == nil {
		r.log.Warn("retention could not note what it could not remove", "error", err)
	}
}

// retainPlace is where a round stands: the table, and the row to go on from. The zero value is a round's beginning.
type retainPlace struct {
	table int
	row   tuple
}

// A period that is null keeps for ever. What is held may run, whatever its status; what has no end has not ended; the current
// revision's line of a task that is there says how it came to be as it is; a task that is declared in code and was cancelled, or has
// ended, would begin anew if it were not remembered. The history of a removed task goes with it.
//
// Of a task that lives on, only its own period is applied here; its type's and the default are applied where the
// history is gone through.
const retainTasksSQL = `
WITH clock AS MATERIALIZED (
    SELECT coalesce($5::timestamptz, clock_timestamp()) AS now
), gone AS (
    DELETE FROM tasktable.scheduled_tasks AS t USING clock
    WHERE t.ctid >= $1::tid AND t.ctid < $2::tid AND t.fence IS NULL AND t.declared_by IS NULL
        AND t.finished_at < clock.now - coalesce(t.retention::interval,
            CASE WHEN $4::text::jsonb ? t.type THEN ($4::text::jsonb ->> t.type)::interval ELSE $3::interval END)
    RETURNING t.id::text AS id, t.status IN ('FAILED', 'EXPIRED') AND t.archived_at IS NULL AS dead
), living AS MATERIALIZED (
    SELECT t.id::text AS id, t.revision, clock.now - t.retention::interval AS until
    FROM tasktable.scheduled_tasks AS t, clock
    WHERE t.ctid >= $1::tid AND t.ctid < $2::tid AND t.finished_at IS NULL
        AND t.created_at < clock.now - t.retention::interval
), executions AS (
    DELETE FROM tasktable.scheduled_task_executions AS e WHERE e.task_id = ANY (ARRAY(SELECT gone.id FROM gone)) RETURNING 1
), changes AS (
    DELETE FROM tasktable.scheduled_task_changes AS c WHERE c.task_id = ANY (ARRAY(SELECT gone.id FROM gone)) RETURNING 1
), past_executions AS (
    DELETE FROM tasktable.scheduled_task_executions AS e USING living
    WHERE e.task_id = ANY (ARRAY[living.id]) AND e.finished_at < living.until RETURNING 1
), past_changes AS (
    DELETE FROM tasktable.scheduled_task_changes AS c USING living
    WHERE c.task_id = ANY (ARRAY[living.id]) AND c.changed_at < living.until AND c.revision <> living.revision
    RETURNING 1
)
SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM executions) + (SELECT count(*) FROM changes)
    + (SELECT count(*) FROM past_executions) + (SELECT count(*) FROM past_changes) AS rows,
    (SELECT count(*) FROM gone WHERE gone.dead) AS dead`

// Each line's age is looked at before its task is: a look for the task of each line would read the whole index of the
// tasks.
const retainExecutionsSQL = `
WITH clock AS MATERIALIZED (
    SELECT coalesce($5::timestamptz, clock_timestamp()) AS now
), gone AS (
    DELETE FROM tasktable.scheduled_task_executions AS e USING clock
    WHERE e.ctid >= $1::tid AND e.ctid < $2::tid
        AND CASE WHEN e.finished_at < clock.now
                - CASE WHEN $4::text::jsonb ? e.type THEN ($4::text::jsonb ->> e.type)::interval ELSE $3::interval END
            THEN coalesce((SELECT e.finished_at < clock.now - t.retention::interval
                FROM tasktable.scheduled_tasks AS t WHERE t.id = e.task_id), true)
            ELSE false END
    RETURNING 1
)
SELECT count(*) AS rows, 0::bigint AS dead FROM gone`

// The lines do not know their task's type: those of a task that is gone are kept for the longest of the periods. Only
// those that are older than the shortest are looked at more closely.
const retainChangesSQL = `
WITH clock AS MATERIALIZED (
    SELECT coalesce($5::timestamptz, clock_timestamp()) AS now
), period AS MATERIALIZED (
    SELECT CASE WHEN $3::interval IS NOT NULL AND bool_and(each.value IS NOT NULL) IS NOT FALSE
        THEN greatest($3::interval, max(each.value::interval)) END AS longest,
        least($3::interval, min(each.value::interval)) AS shortest
    FROM jsonb_each_text($4::text::jsonb) AS each
), gone AS (
    DELETE FROM tasktable.scheduled_task_changes AS c
    USING period, clock
    WHERE c.ctid >= $1::tid AND c.ctid < $2::tid
        AND CASE WHEN c.changed_at < clock.now - period.shortest THEN c.changed_at < clock.now - coalesce(
            (SELECT CASE WHEN t.revision = c.revision THEN interval '1000000 hours' ELSE coalesce(t.retention::interval,
                CASE WHEN $4::text::jsonb ? t.type THEN coalesce(($4::text::jsonb ->> t.type)::interval, interval '1000000 hours') ELSE $3::interval END) END
             FROM tasktable.scheduled_tasks AS t WHERE t.id = c.task_id), period.longest)
            ELSE false END
    RETURNING 1
)
SELECT count(*) AS rows, 0::bigint AS dead FROM gone`

// The task of a row that could not be removed.
const (
	taskAtSQL      = `SELECT t.id::text FROM tasktable.scheduled_tasks AS t WHERE t.ctid = $1::tid`
	executionAtSQL = `SELECT e.task_id FROM tasktable.scheduled_task_executions AS e WHERE e.ctid = $1::tid`
	changeAtSQL    = `SELECT c.task_id FROM tasktable.scheduled_task_changes AS c WHERE c.ctid = $1::tid`
)

// retainTables are the tables in the order in which a round goes through them.
var retainTables = []struct{ name, sql, taskAt string }{
	{"tasktable.scheduled_tasks", retainTasksSQL, taskAtSQL},
	{"tasktable.scheduled_task_executions", retainExecutionsSQL, executionAtSQL},
	{"tasktable.scheduled_task_changes", retainChangesSQL, changeAtSQL},
}

// retained is what retention has done: how many rows it removed, how many of them were dead letters that nobody had
// dealt with, and how many it could not remove, with the task of the first and the reason.
type retained struct {
	Rows, Dead int64
	Refused    int    `db:"-"`
	Task, Why  string `db:"-"`
}

func (r *retained) add(more retained) {
	r.Rows, r.Dead = r.Rows+more.Rows, r.Dead+more.Dead
	if r.Refused == 0 {
		r.Task, r.Why = more.Task, more.Why
	}
	r.Refused += more.Refused
}

// Nodes and pauses that are long gone; a period that is null keeps them too. The history keeps the nodes' numbers.
const retainRestSQL = `
WITH nodes AS (
    DELETE FROM tasktable.nodes WHERE $1::interval IS NOT NULL AND dead_at < coalesce($2::timestamptz, clock_timestamp()) - greatest($1::interval, interval '720 hours') RETURNING 1
), pauses AS (
    DELETE FROM tasktable.pauses WHERE $1::interval IS NOT NULL AND ends_at < coalesce($2::timestamptz, clock_timestamp()) - greatest($1::interval, interval '720 hours') RETURNING 1
)
SELECT (SELECT count(*) FROM nodes) + (SELECT count(*) FROM pauses)`

// runOnce removes what is too old in one batch of pages of each table, as far as the round has got, and returns where
// to go on. What it goes through is small enough for one transaction.
func (r *retainer) runOnce(ctx context.Context, at retainPlace) (next retainPlace, done retained, err error) {
	err = pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		next, done, err = r.step(ctx, tx, nil, at)
		return err
	})
	if err != nil {
		return at, retained{}, err
	}
	return next, done, nil
}

// step is runOnce in a transaction, at a time; nil is the database's.
func (r *retainer) step(
	ctx context.Context, tx pgx.Tx, now *time.Time, at retainPlace,
) (next retainPlace, done retained, err error) {
	if _, err := tx.Exec(ctx, "SELECT set_config('tasktable_change.context', 'retention', true)"); err != nil {
		return at, done, fmt.Errorf("enter retention's context: %w", err)
	}
	// A foreign key that is checked at the commit would fail all of the batch, and nobody would know which row it was.
	if _, err := tx.Exec(ctx, "SET CONSTRAINTS ALL IMMEDIATE"); err != nil {
		return at, done, fmt.Errorf("have constraints checked at once: %w", err)
	}
	budget := int64(retainPages)
	for ; at.table < len(retainTables); at = (retainPlace{table: at.table + 1}) {
		name := retainTables[at.table].name
		size, err := r.statements.pagesOf(ctx, tx, name)
		if err != nil {
			return at, done, err
		}
		end := tuple{page: max(min(at.row.page+budget, size), at.row.page)}
		if end.before(at.row) { // the table ends on this page
			end = at.row
		}
		stopped, err := r.removeFrom(ctx, tx, now, at.table, tupleRange{at.row, end}, &done)
		if err != nil {
			return at, done, fmt.Errorf("remove old rows of %s: %w", name, err)
		}
		if budget -= end.page - at.row.page; stopped.before(end) || end.page < size {
			return retainPlace{at.table, stopped}, done, nil
		}
	}
	gone, err := one[int64](ctx, tx, "remove old nodes and pauses",
		r.statements.schema.SQL(retainRestSQL), periodText(r.config.Retention), now)
	done.Rows += gone
	return retainPlace{}, done, err
}

// removeFrom removes what is too old in some rows of a table, and goes past those that cannot be removed: an
// application's foreign key or trigger may forbid it. It returns where it stopped, which is before the end where very
// many cannot be removed.
func (r *retainer) removeFrom(
	ctx context.Context, tx pgx.Tx, now *time.Time, table int, within tupleRange, done *retained,
) (stopped tuple, err error) {
	periods, err := r.periods()
	if err != nil {
		return within.from, err
	}
	batch := retained{}
	statement, period := r.statements.schema.SQL(retainTables[table].sql), periodText(r.config.Retention)
	remove := func(savepoint pgx.Tx, some tupleRange) error {
		rows, err := savepoint.Query(ctx, statement, some.from.String(), some.to.String(), period, periods, now)
		if err != nil {
			return err
		}
		gone, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[retained])
		if err == nil {
			batch.add(gone)
		}
		return err
	}
	stopped, refused, err := pastRefusals(ctx, tx, within, retainRefusals, remove)
	if err != nil {
		return within.from, err
	}
	if batch.Dead > 0 {
		r.log.Warn("retention removed dead letters that nobody had archived or retried", "tasks", batch.Dead)
	}
	if len(refused) > 0 {
		if err := r.report(ctx, tx, table, refused, &batch); err != nil {
			return within.from, err
		}
	}
	done.add(batch)
	return stopped, nil
}

// report tells of rows that could not be removed.
func (r *retainer) report(ctx context.Context, tx pgx.Tx, table int, refused []refusal, batch *retained) error {
	of := retainTables[table]
	task, err := one[string](ctx, tx, "read which task cannot be removed",
		r.statements.schema.SQL(of.taskAt), refused[0].at.String())
	if err != nil && !errors.Is(err, pgx.ErrNoRows) { // somebody else may have removed it just now
		return err
	}
	r.log.Error("retention cannot remove rows and goes past them; a foreign key or a trigger of the application's may "+
		"forbid it, or somebody may have locked them", "table", r.statements.schema.SQL(of.name), "rows", len(refused), "task", task, "error", refused[0].err)
	batch.add(retained{Refused: len(refused), Task: task, Why: scrub(refused[0].err.Error())})
	return nil
}

// periods is the periods by type as JSON; null is for ever.
func (r *retainer) periods() (string, error) {
	byType := map[string]*string{}
	for name, period := range r.config.RetentionByType {
		byType[name] = periodText(period)
	}
	periods, err := json.Marshal(byType)
	return string(periods), wrap(err, "encode retention")
}

// periodText is a period as SQL takes it; nil is for ever.
func periodText(period time.Duration) *string {
	if period == -1 {
		return nil
	}
	return new(fmt.Sprintf("%d microseconds", period.Microseconds()))
}
