// Package maintenance has the work that keeps the tables as they should be: retention, and tasks and notice rules that
// are declared in code.
package maintenance

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/loop"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// Retention removes finished tasks and history that are older than their period. It works only on the leader's node.
// It goes through the pages of each table, some at a time. An index on finished_at would make every settlement more
// expensive all day, and retention runs only a few times an hour.
type Retention struct {
	config          RetentionConfig
	period, periods *string  // of Config.Period, and of Config.ByType as JSON; null keeps rows for ever
	pages           *pg.Size // how many pages a batch has
}

// Config is the configuration that all work on the leader's node has in common.
type Config struct {
	Housekeeping *session.Housekeeping
	Statements   taskdb.Queries
	Leads        func() bool // whether this node leads
	Log          *slog.Logger
}

// RetentionConfig is the configuration of Retention.
type RetentionConfig struct {
	Config
	// Period is how long finished tasks and their history are kept. A node takes 90 days if nobody has said otherwise.
	// -1 keeps them for ever. ByType overrides Period for the tasks of a type.
	Period time.Duration
	ByType map[string]time.Duration
	Node   int64 // number of this node
}

// NewRetention makes the retention. It removes nothing before Run.
func NewRetention(config RetentionConfig) *Retention {
	byType := map[string]*string{}
	for name, period := range config.ByType {
		byType[name] = periodText(period)
	}
	periods, _ := json.Marshal(byType) // texts always encode
	return &Retention{
		config: config, period: periodText(config.Period), periods: new(string(periods)),
		pages: pg.NewSize(1, retainPages),
	}
}

// periodText returns a period in the form that SQL takes. It returns nil for -1, which keeps rows for ever.
func periodText(period time.Duration) *string {
	if period == -1 {
		return nil
	}
	return new(fmt.Sprintf("%d microseconds", period.Microseconds()))
}

const (
	retainPages = 2000             // how many pages a batch reads at most: 16 MB
	retainEvery = 10 * time.Minute // from the end of a round to the next
	retainPause = time.Second      // between two batches
	maxItem     = 2048             // more than the rows that a page of the largest size, 32 KiB, has room for
)

// Run works until ctx is done.
func (r *Retention) Run(ctx context.Context) {
	var at Place
	var round Retained
	loop.Repeat(ctx, time.Minute, func() time.Duration { // the first minute of a node is for its tasks
		if !r.config.Leads() {
			at, round = Place{}, Retained{}
			return time.Minute
		}
		next, done, err := r.RunOnce(ctx, at)
		if err != nil && ctx.Err() == nil {
			r.config.Log.Warn("retention failed; trying again", "error", err)
			return time.Minute
		}
		round.add(done)
		if at = next; at != (Place{}) {
			return retainPause
		}
		if err := r.endRound(ctx, round); err != nil && ctx.Err() == nil {
			r.config.Log.Warn("retention could not remove full buckets, or note the refused rows", "error", err)
		}
		round = Retained{}
		return retainEvery
	})
}

// Place is the place that a round has reached: the table, and the page to go on from. The zero value is the beginning
// of a round.
type Place struct {
	table int
	page  int64
}

// The period of the type of a task or of a line of the history. It is null for types that are kept for ever.
const (
	periodOfTask = `CASE WHEN $4::text::jsonb ? t.type
        THEN ($4::text::jsonb ->> t.type)::interval ELSE $3::interval END`
	periodOfLine = `CASE WHEN $4::text::jsonb ? h.type
        THEN ($4::text::jsonb ->> h.type)::interval ELSE $3::interval END`
)

// retainTasksSQL removes old tasks together with their history. A period of null keeps rows for ever. The statement
// also keeps:
//
//   - a task that is held, whatever its status, because it may be running
//   - a task that has no end, because it has not ended
//   - the line of the current revision of a task that is there, because it says how the task came to be as it is
//   - a task that is declared in code and was cancelled or has ended, because it would begin anew if it were forgotten
//   - the newest COMPLETED occurrence of a recurring task that has not ended, because the task's health is judged by it
//
// OFFSET 0 keeps Postgres from reading all tasks into a hash.
//
// For a task that lives on, this statement applies only the task's own period. retainHistorySQL applies its type's
// period and the default.
const retainTasksSQL = `
WITH clock AS MATERIALIZED (
    SELECT coalesce($5::timestamptz, clock_timestamp()) AS now
), gone AS (
    DELETE FROM tasktable.scheduled_tasks AS t USING clock
    WHERE t.ctid >= $1::tid AND t.ctid < $2::tid AND t.fence IS NULL AND t.declared_by IS NULL
        AND t.finished_at < clock.now - coalesce(t.retention::interval, ` + periodOfTask + `)
        AND CASE WHEN t.parent_id IS NOT NULL AND t.status = 'COMPLETED' THEN
            EXISTS (SELECT FROM tasktable.scheduled_tasks AS o WHERE o.parent_id = t.parent_id
                AND o.scheduled_at > t.scheduled_at AND o.status = 'COMPLETED' OFFSET 0)
            OR NOT EXISTS (SELECT FROM tasktable.scheduled_tasks AS p
                WHERE p.id = t.parent_id AND p.cron IS NOT NULL AND p.finished_at IS NULL OFFSET 0)
            ELSE true END
    RETURNING t.id::text AS id, t.status IN ('FAILED', 'EXPIRED') AND t.archived_at IS NULL AS dead
), living AS MATERIALIZED (
    SELECT t.id::text AS id, t.revision, clock.now - t.retention::interval AS until
    FROM tasktable.scheduled_tasks AS t, clock
    WHERE t.ctid >= $1::tid AND t.ctid < $2::tid AND t.finished_at IS NULL
        AND t.created_at < clock.now - t.retention::interval
), executions AS (
    DELETE FROM tasktable.scheduled_task_executions AS e
        WHERE e.task_id = ANY (ARRAY(SELECT gone.id FROM gone)) RETURNING 1
), changes AS (
    DELETE FROM tasktable.scheduled_task_changes AS c
        WHERE c.task_id = ANY (ARRAY(SELECT gone.id FROM gone)) RETURNING 1
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

// retainHistorySQL removes old executions, of tasks that live on and of deleted tasks, and by ofChanges old changes.
// It checks the age of a line before it looks for the line's task. A look for the task of every line would read the
// whole index of the tasks. A line that does not name its task's type is looked up when it is older than the shortest
// of the periods, and stays for the longest of them if the task was deleted. Of the changes only the line of the
// creation names the type.
const retainHistorySQL = `
WITH clock AS MATERIALIZED (
    SELECT coalesce($5::timestamptz, clock_timestamp()) AS now
), period AS MATERIALIZED (
    SELECT CASE WHEN $3::interval IS NOT NULL AND bool_and(each.value IS NOT NULL) IS NOT FALSE
        THEN greatest($3::interval, max(each.value::interval)) END AS longest,
        least($3::interval, min(each.value::interval)) AS shortest
    FROM jsonb_each_text($4::text::jsonb) AS each
), gone AS (
    DELETE FROM tasktable.scheduled_task_executions AS h USING period, clock
    WHERE h.ctid >= $1::tid AND h.ctid < $2::tid
        AND CASE WHEN h.finished_at < clock.now
            - CASE WHEN h.type IS NULL THEN period.shortest ELSE ` + periodOfLine + ` END
        THEN h.finished_at < clock.now - coalesce(
            (SELECT CASE WHEN false THEN interval '1000000 hours'
                ELSE coalesce(t.retention::interval, ` + periodOfTask + `, interval '1000000 hours') END
             FROM tasktable.scheduled_tasks AS t WHERE t.id = h.task_id),
            CASE WHEN h.type IS NULL THEN period.longest ELSE ` + periodOfLine + ` END)
        ELSE false END
    RETURNING 1
)
SELECT count(*) AS rows, 0::bigint AS dead FROM gone`

// taskOfLineSQL finds the task of a line that could not be removed, and taskAtSQL that of a task.
const (
	taskOfLineSQL = `SELECT h.task_id FROM tasktable.scheduled_task_executions AS h WHERE h.ctid = $1::tid`
	taskAtSQL     = `SELECT t.id::text FROM tasktable.scheduled_tasks AS t WHERE t.ctid = $1::tid`
)

// ofChanges turns a statement about the executions into one about the changes. The line of the current revision stays
// as long as its task.
var ofChanges = strings.NewReplacer(
	"scheduled_task_executions", "scheduled_task_changes", "h.finished_at", "h.changed_at", "h.type",
	"(CASE WHEN h.outcome = 'created' THEN h.new ->> 'type' END)", "WHEN false", "WHEN t.revision = h.revision",
)

// retainTables are the tables in the order in which a round goes through them.
var retainTables = []struct{ name, sql, taskAt string }{
	{"tasktable.scheduled_tasks", retainTasksSQL, taskAtSQL},
	{"tasktable.scheduled_task_executions", retainHistorySQL, taskOfLineSQL},
	{"tasktable.scheduled_task_changes", ofChanges.Replace(retainHistorySQL), ofChanges.Replace(taskOfLineSQL)},
}

// Retained is the result of retention: how many rows it removed, how many of them were dead letters that nobody had
// dealt with, and how many rows it could not remove. For the first of these, it has the task and the reason.
type Retained struct {
	Rows, Dead int64
	Refused    int    `db:"-"`
	Task, Why  string `db:"-"`
}

func (r *Retained) add(more Retained) {
	r.Rows, r.Dead = r.Rows+more.Rows, r.Dead+more.Dead
	if r.Refused == 0 {
		r.Task, r.Why = more.Task, more.Why
	}
	r.Refused += more.Refused
}

// retainRestSQL removes nodes and pauses that ended long ago. A period of null keeps these too. The history keeps the
// numbers of the nodes. The statement also removes, whatever the period is, the causes of notices, of which each waits
// at most 8 days, the answers of the API, which count for a day (api/idempotency.go), the expired sessions of the
// dashboard, and the buckets of limits that were removed.
const retainRestSQL = `
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), nodes AS (
    DELETE FROM tasktable.nodes AS n USING clock
    WHERE $2::interval IS NOT NULL AND n.dead_at < clock.now - greatest($2::interval, interval '720 hours') RETURNING 1
), pauses AS (
    DELETE FROM tasktable.pauses AS p USING clock
    WHERE $2::interval IS NOT NULL AND p.ends_at < clock.now - greatest($2::interval, interval '720 hours') RETURNING 1
), causes AS (
    DELETE FROM tasktable.notice_causes AS c WHERE c.at < (SELECT clock.now FROM clock) - interval '720 hours'
), answers AS (
    DELETE FROM tasktable.api_answers AS a WHERE a.ctid = ANY (ARRAY(
        SELECT o.ctid FROM tasktable.api_answers AS o
        WHERE o.created_at < (SELECT clock.now FROM clock) - interval '24 hours' ORDER BY o.created_at LIMIT 5000))
), sessions AS (
    DELETE FROM tasktable.api_sessions AS s WHERE s.ctid = ANY (ARRAY(
        SELECT o.ctid FROM tasktable.api_sessions AS o
        WHERE o.expires_at < (SELECT clock.now FROM clock) ORDER BY o.expires_at LIMIT 1000))
), buckets AS (
    DELETE FROM tasktable.limit_buckets AS b WHERE b.full_at < (SELECT clock.now FROM clock) - interval '24 hours'
        AND b.limit_key = '' AND NOT EXISTS (SELECT FROM tasktable.limits AS l WHERE l.name = b.name)
)
SELECT (SELECT count(*) FROM nodes) + (SELECT count(*) FROM pauses)`

const pagesSQL = `SELECT pg_relation_size($1::text::regclass) / current_setting('block_size')::bigint`

// maxRetain is how long a batch may take. While it lasts, nobody can schedule a task with the id of a removed one.
const maxRetain = 2 * time.Second

// RunOnce goes through the next batch of pages and removes the rows that are too old. It returns where to go on. After
// a batch that took too long, as on a slow disk, the next batch is half as large.
func (r *Retention) RunOnce(ctx context.Context, at Place) (next Place, done Retained, err error) {
	err = r.config.Housekeeping.Do(ctx, time.Minute, func(ctx context.Context, tx pgx.Tx) error {
		began := time.Now()
		defer func() { r.pages.Pace(time.Since(began), maxRetain) }()
		next, done, err = r.step(ctx, tx, nil, at)
		return err
	})
	if err != nil {
		return at, Retained{}, err
	}
	return next, done, nil
}

// step is RunOnce in a transaction, at a given time. If now is nil, it uses the database's clock. An application's
// foreign key or trigger may forbid that a row is removed, or somebody may have locked the row. Then step goes on with
// half as many pages at a time, and with more again after each success. It goes through a single page row by row, and
// skips such rows. The batch ends early, after some pages, if it takes longer than maxRetain.
func (r *Retention) step(
	ctx context.Context, tx pgx.Tx, now *time.Time, at Place,
) (next Place, done Retained, err error) {
	if _, err := tx.Exec(ctx, "SELECT set_config('tasktable_change.context', 'retention', true)"); err != nil {
		return at, done, fmt.Errorf("enter retention's context: %w", err)
	}
	// A foreign key that is checked at the commit would fail the whole batch, and nobody would know which row caused
	// it.
	if _, err := tx.Exec(ctx, "SET CONSTRAINTS ALL IMMEDIATE"); err != nil {
		return at, done, fmt.Errorf("make constraints immediate: %w", err)
	}
	// This is done in each batch, not once a round, because a round of large tables takes hours.
	done.Rows, err = pg.QueryOne[int64](ctx, tx, "remove old nodes, pauses, answers and sessions",
		r.config.Statements.Schema.SQL(retainRestSQL), now, r.period)
	if err != nil {
		return at, done, err
	}
	table := retainTables[at.table]
	size, err := pg.QueryOne[int64](
		ctx, tx, "measure "+table.name, pagesSQL, r.config.Statements.Schema.SQL(table.name),
	)
	if err != nil {
		return at, done, err
	}
	remove := func(from, to string) error {
		return pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
			gone, err := pg.CollectRows[Retained](ctx, savepoint, "remove old rows of "+table.name,
				r.config.Statements.Schema.SQL(table.sql), from, to, r.period, r.periods, now)
			for _, one := range gone {
				done.add(one)
			}
			return err
		})
	}
	page, end := at.page, min(at.page+int64(r.pages.Now()), size)
	some := pg.NewSize(1, r.pages.Now()) // apart from r.pages, so that refused rows do not make the next batch small
	for began := time.Now(); page < end && time.Since(began) < maxRetain; {
		next := min(page+int64(some.Now()), end)
		err := remove(tid(page, 0), tid(next, 0))
		refuses := pg.IsDataError(err) || pg.IsTimeout(err)
		if refuses && some.Shrink(int(next-page)) {
			continue
		}
		if refuses {
			err = r.removeEach(ctx, tx, Place{at.table, page}, remove, &done)
		}
		if err != nil {
			return at, done, err
		}
		page = next
		some.Grow()
	}
	r.log(table.name, done)
	if page < size {
		return Place{at.table, page}, done, nil
	}
	return Place{table: (at.table + 1) % len(retainTables)}, done, nil
}

// tid is the place of a row as Postgres writes it. The items of a page begin with 1.
func tid(page int64, item int) string { return fmt.Sprintf("(%d,%d)", page, item) }

// log tells the operator about dead letters and refused rows of a batch.
func (r *Retention) log(table string, done Retained) {
	if done.Dead > 0 {
		r.config.Log.Warn("retention removed dead letters that nobody had archived or retried", "tasks", done.Dead)
	}
	if done.Refused > 0 {
		r.config.Log.Error(
			"retention cannot remove rows and skips them; a foreign key or a trigger of the application may "+
				"forbid it, or somebody may have locked them",
			"table", r.config.Statements.Schema.SQL(table), "rows", done.Refused, "task", done.Task,
			"error", done.Why)
	}
}
