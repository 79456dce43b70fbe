package scheduled

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/rivertype"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// tableStats runs on the leader and counts, for the metrics, the figures that only the tables know. It uses the
// engine's pool, so that no claim waits for the counts on the session. A scrape does not ask the database.
type tableStats struct {
	pool       *pgxpool.Pool
	statements taskdb.Queries
	metrics    *metrics
	every      time.Duration
	leads      func() bool
	log        *slog.Logger

	most   int // how many due tasks are counted in all; doubled while the counts are quick, halved when they are slow
	lanes  map[laneLabels]time.Time
	window changeWindow
	walk   deadWalk
}

const (
	censusEvery = 15 * time.Second
	countQuick  = 50 * time.Millisecond
	countSlow   = 250 * time.Millisecond
	countFirst  = 100_000
	maxCounted  = 4_000_000
	laneKept    = 10 * time.Minute // how long a lane that has become empty is still shown
)

// tableCounts is the result of a count.
type tableCounts struct {
	depth map[laneLabels]int
	limit int // how far each lane was counted
	dead  map[deadLabels]int
	jobs  map[string]int     // of River, by state
	lanes taskdb.ListedLanes // the lanes that no node works
}

// laneLabels are the labels of a lane in the metrics. Recurring tasks whose fires are due have firesPriority in the
// place of a priority.
type laneLabels struct{ queue, kind, priority string }

const firesPriority = "fires"

func labelsOf(l taskdb.Lane) laneLabels {
	if l.Recurring {
		return laneLabels{l.Queue, l.Type, firesPriority}
	}
	return laneLabels{l.Queue, l.Type, strconv.Itoa(l.Priority)}
}

// run works until ctx is done.
func (c *tableStats) run(ctx context.Context) {
	if c.metrics == nil {
		return
	}
	c.begin()
	pause := min(tickEvery, c.every)
	var last time.Time
	repeat(ctx, pause, func() time.Duration {
		seen := c.metrics.seen.Load()
		switch {
		case !c.leads():
			c.metrics.seen.Store(nil)
			c.metrics.found.Store(nil)
			c.begin()
			last = time.Time{}
		case seen != nil && time.Since(last) >= c.every:
			last = time.Now()
			if err := c.count(ctx, seen); err != nil && ctx.Err() == nil {
				c.metrics.censusFailures.Inc()
				c.log.Warn("not all could be counted for the metrics", "error", err)
			}
		}
		return pause
	})
}

// begin forgets what this node counted when it led before.
func (c *tableStats) begin() {
	c.most, c.lanes, c.window, c.walk = countFirst, map[laneLabels]time.Time{}, changeWindow{}, deadWalk{}
}

// count takes one count. A figure that cannot be counted keeps its last value, and does not stop the other counts.
func (c *tableStats) count(ctx context.Context, seen *sight) error {
	found := tableCounts{}
	if before := c.metrics.found.Load(); before != nil {
		found = *before
	}
	listErr := c.list(ctx, seen.nodes, &found)
	seen = &sight{at: seen.at, lanes: seen.lanes.With(found.lanes), nodes: seen.nodes}
	err := errors.Join(listErr, c.countDue(ctx, seen, &found), c.countJobs(ctx, &found),
		c.countDead(ctx, &found), c.countScheduled(ctx))
	c.metrics.found.Store(&found)
	return err
}

// The server gives up a statement that takes longer. The pool has its own limit for the wait for a lock.
const censusLimitSQL = `SELECT set_config('statement_timeout', '1s', true)`

// counted reads rows within this time limit.
func counted[T any](ctx context.Context, c *tableStats, doing, statement string, args ...any) (found []T, err error) {
	var batch pgx.Batch
	batch.Queue(censusLimitSQL)
	batch.Queue(c.statements.Schema.SQL(statement), args...)
	results := c.pool.SendBatch(ctx, &batch)
	defer func() { err = taskdb.Annotate(errors.Join(err, results.Close()), doing) }()
	if _, err := results.Exec(); err != nil {
		return nil, err
	}
	return taskdb.CollectNext[T](results, "read rows")
}

// maxListed is how many lanes the table statistics list at most. More lanes would cost too much, and the metrics
// show them as one lane anyway.
const maxListed = 10_000

// list lists the lanes that no node works. The leader's looks leave these out.
func (c *tableStats) list(ctx context.Context, nodes []taskdb.LiveNode, found *tableCounts) error {
	tasks, err := counted[taskdb.LaneRow](ctx, c, "list lanes", taskdb.LanesSQL, nil, maxListed)
	if err != nil {
		return err
	}
	recurring, err := counted[taskdb.LaneRow](
		ctx, c, "list lanes of recurring tasks", taskdb.RecurringLanesSQL, nil, maxListed,
	)
	if err == nil {
		found.lanes = taskdb.ListedLanes{
			Tasks:     taskdb.Unworked(taskdb.LanesOf(tasks, false), nodes),
			Recurring: taskdb.Unworked(taskdb.LanesOf(recurring, true), nodes),
		}
	}
	return err
}

// The scan begins at the head that the leader's look has listed, as that of the claim does, because there may be many
// dead entries before the head. It has an order, because without one Postgres would read all due tasks, past any
// limit. It ends at a time that stays the same during the statement, because otherwise Postgres would also read all
// tasks that are not due yet.
const countDueSQL = `
SELECT lane.place::int AS place, due.tasks
FROM unnest($1::text[], $2::text[], $3::int[], $4::timestamptz[]) WITH ORDINALITY
    AS lane (queue, type, priority, head, place)
CROSS JOIN LATERAL (
    SELECT count(*)::int AS tasks FROM (
        SELECT FROM tasktable.scheduled_tasks AS t
        WHERE t.queue = lane.queue AND t.type = lane.type AND t.priority = lane.priority AND t.cron IS NULL
            AND t.next_attempt_at >= CASE WHEN lane.head <= '1970-01-01' THEN '-infinity' ELSE lane.head END
            AND t.next_attempt_at <= statement_timestamp()
        ORDER BY t.next_attempt_at LIMIT $5::int
    ) AS t
) AS due`

const countFiresSQL = `
SELECT lane.place::int AS place, due.tasks
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS lane (queue, type, place)
CROSS JOIN LATERAL (
    SELECT count(*)::int AS tasks FROM (
        SELECT FROM tasktable.scheduled_tasks AS t
        WHERE t.queue = lane.queue AND t.type = lane.type AND t.cron IS NOT NULL
            AND t.next_attempt_at <= statement_timestamp()
        ORDER BY t.next_attempt_at LIMIT $3::int
    ) AS t
) AS due`

type dueRow struct {
	Place int // of the lane, from 1
	Tasks int
}

// countDue counts the tasks of each lane that are due and not claimed, up to a limit that keeps the count quick.
func (c *tableStats) countDue(ctx context.Context, seen *sight, found *tableCounts) error {
	lanes := slices.Concat(seen.lanes.Recurring, seen.lanes.Tasks)
	recurring := len(seen.lanes.Recurring)
	var queues, kinds []string
	var priorities []int
	var heads []time.Time
	for _, l := range lanes {
		queues, kinds = append(queues, l.Queue), append(kinds, l.Type)
		priorities, heads = append(priorities, l.Priority), append(heads, l.Head)
	}
	limit := max(c.most/max(len(lanes), 1), 10)
	began := time.Now()
	fires, err := counted[dueRow](ctx, c, "count due fires", countFiresSQL,
		queues[:recurring], kinds[:recurring], limit)
	if err != nil {
		return c.pace(time.Since(began), err)
	}
	due, err := counted[dueRow](ctx, c, "count due tasks", countDueSQL,
		queues[recurring:], kinds[recurring:], priorities[recurring:], heads[recurring:], limit)
	if err = c.pace(time.Since(began), err); err != nil {
		return err
	}
	now := time.Now()
	for _, l := range lanes {
		c.lanes[labelsOf(l)] = now
	}
	found.depth, found.limit = map[laneLabels]int{}, limit
	for l, last := range c.lanes {
		if found.depth[l] = 0; now.Sub(last) > laneKept {
			delete(found.depth, l)
			delete(c.lanes, l)
		}
	}
	for _, row := range fires {
		found.depth[labelsOf(lanes[row.Place-1])] = row.Tasks
	}
	for _, row := range due {
		found.depth[labelsOf(lanes[recurring+row.Place-1])] = row.Tasks
	}
	return nil
}

// pace adapts the limit to the time that the last count took. It returns the error.
func (c *tableStats) pace(took time.Duration, err error) error {
	switch {
	case taskdb.IsTimeout(err) || took > countSlow:
		c.most = max(c.most/2, 1000)
	case err == nil && took < countQuick:
		c.most = min(2*c.most, maxCounted)
	}
	return err
}

const countJobsSQL = `SELECT state::text AS state, count(*)::int AS jobs FROM tasktable.river_job GROUP BY state`

type jobsRow struct {
	State string
	Jobs  int
}

// countJobs counts River's jobs. There are never many, because jobs that are done are removed.
func (c *tableStats) countJobs(ctx context.Context, found *tableCounts) error {
	rows, err := counted[jobsRow](ctx, c, "count River's jobs", countJobsSQL)
	if err != nil {
		return err
	}
	found.jobs = map[string]int{}
	for _, state := range rivertype.JobStates() {
		found.jobs[string(state)] = 0
	}
	for _, row := range rows {
		found.jobs[row.State] = row.Jobs
	}
	return nil
}

type deadLabels struct{ kind, status string }

// deadWalk walks through the table and counts dead letters, some pages at a time. There is no index on dead letters,
// because each settle would have to write to it.
type deadWalk struct {
	page  int64
	sofar map[deadLabels]int
}

const countDeadSQL = `
SELECT t.type::text AS type, t.status::text AS status, count(*)::int AS tasks FROM tasktable.scheduled_tasks AS t
WHERE t.ctid >= $1::tid AND t.ctid < $2::tid AND t.status IN ('FAILED', 'EXPIRED') AND t.archived_at IS NULL
GROUP BY t.type::text, t.status::text`

type deadRow struct {
	Type   string
	Status string
	Tasks  int
}

type pagesRow struct{ Pages int64 }

// countDead walks on through the table for at most a quarter of a second. At the end of the table it publishes the
// sums, and begins again at the next count. So a small table is counted each time, and a large one over some
// minutes.
func (c *tableStats) countDead(ctx context.Context, found *tableCounts) error {
	pages, err := counted[pagesRow](ctx, c, "measure the table of tasks",
		`SELECT (`+taskdb.PagesSQL+`) AS pages`, c.statements.Schema.SQL("tasktable.scheduled_tasks"))
	if err != nil {
		return err
	}
	if c.walk.sofar == nil {
		c.walk.sofar = map[deadLabels]int{}
	}
	for began := time.Now(); c.walk.page < pages[0].Pages; c.walk.page += retainPages {
		if time.Since(began) > countSlow {
			return nil
		}
		some := taskdb.WholePages(c.walk.page, c.walk.page+retainPages)
		rows, err := counted[deadRow](ctx, c, "count dead letters", countDeadSQL, some.From.String(), some.To.String())
		if err != nil {
			return err
		}
		for _, row := range rows {
			c.walk.sofar[deadLabels{c.metrics.label(row.Type), row.Status}] += row.Tasks
		}
	}
	for known := range found.dead { // labels that were shown before and have no tasks now
		c.walk.sofar[known] += 0
	}
	found.dead, c.walk = c.walk.sofar, deadWalk{}
	return nil
}

// changeWindow has the newest lines of scheduled_task_changes. A line becomes visible when its transaction commits,
// and transactions do not commit in the order of their lines' numbers. Therefore each count reads all lines of the
// last minute, and leaves out the lines that it has counted already.
type changeWindow struct {
	marks   []changeMark // the window begins after the line of the first mark
	counted []int64      // the lines in the window
}

// changeMark says that the line was the newest one at the time of a count.
type changeMark struct {
	at   time.Time
	line int64
}

const (
	changeWindowAge = time.Minute
	// maxChangesCounted bounds the list of counted lines. If there are more lines, the window begins at the last
	// count.
	maxChangesCounted = 100_000
)

const newestChangeSQL = `SELECT coalesce(max(c.revision), 0) AS line FROM tasktable.scheduled_task_changes AS c`

type newestChangeRow struct{ Line int64 }

// A line does not have the fields that were not edited. Postgres makes a hash table of the list after NOT IN.
const countScheduledSQL = `
SELECT line.type, line.outcome, array_agg(line.revision) AS lines
FROM (
    SELECT c.revision, CASE WHEN c.new ->> 'status' = 'SKIPPED' THEN 'skipped' ELSE c.outcome END AS outcome,
        coalesce(c.new ->> 'type',
            (SELECT t.type::text FROM tasktable.scheduled_tasks AS t WHERE t.id = c.task_id), '') AS type
    FROM tasktable.scheduled_task_changes AS c
    WHERE c.revision > $1::bigint AND c.outcome IN ('created', 'rescheduled', 'rearmed')
        AND c.revision NOT IN (SELECT * FROM unnest($2::bigint[]))
) AS line
GROUP BY line.type, line.outcome`

type scheduledRow struct {
	Type    string
	Outcome string
	Lines   []int64
}

// countScheduled counts the new lines in the window. The first time it only finds where the window begins. After an
// error it begins anew, because there may be more lines than can ever be counted in time.
func (c *tableStats) countScheduled(ctx context.Context) error {
	if len(c.window.marks) == 0 {
		newest, err := counted[newestChangeRow](ctx, c, "find the newest change", newestChangeSQL)
		if err == nil {
			c.window.marks = []changeMark{{time.Now(), newest[0].Line}}
		}
		return err
	}
	rows, err := counted[scheduledRow](ctx, c, "count scheduled tasks", countScheduledSQL,
		c.window.marks[0].line, notNilNumbers(c.window.counted))
	if err != nil {
		c.window = changeWindow{}
		return err
	}
	for _, row := range rows {
		c.metrics.scheduled.WithLabelValues(c.metrics.label(row.Type), row.Outcome).Add(float64(len(row.Lines)))
		c.window.counted = append(c.window.counted, row.Lines...)
	}
	c.window.advance(time.Now())
	return nil
}

// advance moves the beginning of the window to a later line.
func (w *changeWindow) advance(now time.Time) {
	newest := w.marks[len(w.marks)-1].line
	if len(w.counted) > 0 && slices.Max(w.counted) > newest {
		w.marks = append(w.marks, changeMark{now, slices.Max(w.counted)})
	}
	for len(w.marks) > 1 && (len(w.counted) > maxChangesCounted || now.Sub(w.marks[1].at) >= changeWindowAge) {
		w.marks = w.marks[1:]
	}
	w.counted = slices.DeleteFunc(w.counted, func(line int64) bool { return line <= w.marks[0].line })
}
