package metrics

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/rivertype"

	"github.com/tasktable/tasktable/scheduled/internal/loop"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// TableStats runs on the leader and counts, for the metrics, the figures that only the tables know. It uses the
// engine's pool, so that no claim waits for the counts on the session. A scrape does not ask the database.
type TableStats struct {
	config TableStatsConfig

	most  *pg.Size // how many due tasks are counted in all
	lanes map[laneLabels]time.Time
	walk  deadWalk
}

// TableStatsConfig is the configuration of TableStats.
type TableStatsConfig struct {
	Pool       *pgxpool.Pool
	Turns      session.Turns // for connections of Pool; nil: no bound
	Statements taskdb.Queries
	Metrics    *Metrics      // nil: nothing is counted
	Every      time.Duration // the pause between two counts; 0: censusEvery
	Leads      func() bool   // whether this node leads
	Log        *slog.Logger
}

// NewTableStats makes the table statistics. They count nothing before Run.
func NewTableStats(config TableStatsConfig) *TableStats {
	config.Every = cmp.Or(config.Every, censusEvery)
	c := &TableStats{config: config}
	c.begin()
	return c
}

const (
	censusEvery = 15 * time.Second
	countQuick  = 50 * time.Millisecond
	countSlow   = 250 * time.Millisecond
	countFirst  = 100_000
	minCounted  = 1000
	maxCounted  = 4_000_000
	laneKept    = 10 * time.Minute // how long a lane that has become empty is still shown
)

// tableCounts is the result of a count.
type tableCounts struct {
	depth map[laneLabels]int
	limit int // how far each lane was counted
	waits map[laneLabels]waitingRow
	dead  map[deadLabels]int
	jobs  map[string]int     // of River, by state
	lanes taskdb.ListedLanes // the lanes that no node works

	recurring *recurringCounts // nil: not read yet
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

// Run works until ctx is done.
func (c *TableStats) Run(ctx context.Context) {
	if c.config.Metrics == nil {
		return
	}
	c.begin()
	pause := min(time.Second, c.config.Every)
	var last time.Time
	loop.Repeat(ctx, pause, func() time.Duration {
		seen := c.config.Metrics.Seen.Load()
		switch {
		case !c.config.Leads():
			c.config.Metrics.Seen.Store(nil)
			c.config.Metrics.found.Store(nil)
			c.begin()
			last = time.Time{}
		case seen != nil && time.Since(last) >= c.config.Every:
			last = time.Now()
			if err := c.count(ctx, seen); err != nil && ctx.Err() == nil {
				c.config.Metrics.censusFailures.Inc()
				c.config.Log.Warn("not all could be counted for the metrics", "error", err)
			}
		}
		return pause
	})
}

// begin forgets what this node counted when it led before.
func (c *TableStats) begin() {
	c.most, c.lanes, c.walk = pg.NewSize(minCounted, maxCounted), map[laneLabels]time.Time{}, deadWalk{}
	c.most.Shrink(2 * countFirst)
}

// count takes one count. A figure that cannot be counted keeps its last value, and does not stop the other counts.
func (c *TableStats) count(ctx context.Context, seen *Sight) error {
	found := tableCounts{}
	if before := c.config.Metrics.found.Load(); before != nil {
		found = *before
	}
	listErr := c.list(ctx, seen.nodes, &found)
	seen = &Sight{At: seen.At, lanes: seen.lanes.With(found.lanes), nodes: seen.nodes}
	err := errors.Join(listErr, c.countDue(ctx, seen, &found), c.countWaiting(ctx, &found), c.countJobs(ctx, &found),
		c.countDead(ctx, &found), c.readRecurring(ctx, seen, &found))
	c.config.Metrics.found.Store(&found)
	return err
}

// The server gives up a statement that takes longer. The pool has its own limit for the wait for a lock.
const censusLimitSQL = `SELECT set_config('statement_timeout', '1s', true)`

// counted reads rows within this time limit.
func counted[T any](ctx context.Context, c *TableStats, doing, statement string, args ...any) (found []T, err error) {
	leave, err := c.config.Turns.Take(ctx)
	if err != nil {
		return nil, pg.Annotate(err, doing)
	}
	defer leave()
	var batch pgx.Batch
	batch.Queue(censusLimitSQL)
	batch.Queue(c.config.Statements.Schema.SQL(statement), args...)
	results := c.config.Pool.SendBatch(ctx, &batch)
	defer func() { err = pg.Annotate(errors.Join(err, results.Close()), doing) }()
	if _, err := results.Exec(); err != nil {
		return nil, err
	}
	return pg.CollectNext[T](results, "read rows")
}

// maxListed is how many lanes the table statistics list at most. More lanes would cost too much, and the metrics
// show them as one lane anyway.
const maxListed = 10_000

// list lists the lanes that no node works. The leader's looks leave these out.
func (c *TableStats) list(ctx context.Context, nodes []taskdb.LiveNode, found *tableCounts) error {
	tasks, err := counted[taskdb.Lane](ctx, c, "list lanes", taskdb.LanesSQL, nil, maxListed)
	if err != nil {
		return err
	}
	recurring, err := counted[taskdb.Lane](
		ctx, c, "list lanes of recurring tasks", taskdb.RecurringLanesSQL, nil, maxListed,
	)
	if err == nil {
		found.lanes = taskdb.ListedLanes{
			Tasks:     taskdb.Unworked(tasks, nodes),
			Recurring: taskdb.Unworked(recurring, nodes),
		}
	}
	return err
}

// CountDueSQL counts the due tasks of each lane. The scan begins at the head that the leader's look has listed, as
// that of the claim does, because there may be many dead entries before the head. It has an order, because without
// one Postgres would read all due tasks, past any limit. It ends at a time that stays the same during the statement,
// because otherwise Postgres would also read all tasks that are not due yet.
const CountDueSQL = `
SELECT lane.place::int AS place, due.tasks
FROM unnest($1::text[], $2::text[], $3::int[], $4::timestamptz[]) WITH ORDINALITY
    AS lane (queue, type, priority, head, place)
CROSS JOIN LATERAL (
    SELECT count(*)::int AS tasks FROM (
        SELECT FROM tasktable.scheduled_tasks AS t
        WHERE t.queue = lane.queue AND t.type = lane.type AND t.priority = lane.priority AND t.cron IS NULL
            AND t.next_attempt_at BETWEEN lane.head AND statement_timestamp()
        ORDER BY t.next_attempt_at LIMIT $5::int
    ) AS t
) AS due`

// CountFiresSQL counts the recurring tasks whose fire is due, lane by lane.
const CountFiresSQL = `
SELECT lane.place::int AS place, due.tasks
FROM unnest($1::text[], $2::text[], $4::timestamptz[]) WITH ORDINALITY AS lane (queue, type, head, place)
CROSS JOIN LATERAL (
    SELECT count(*)::int AS tasks FROM (
        SELECT FROM tasktable.scheduled_tasks AS t
        WHERE t.queue = lane.queue AND t.type = lane.type AND t.cron IS NOT NULL
            AND t.next_attempt_at BETWEEN lane.head AND statement_timestamp()
        ORDER BY t.next_attempt_at LIMIT $3::int
    ) AS t
) AS due`

type dueRow struct {
	Place int // of the lane, from 1
	Tasks int
}

// countDue counts the tasks of each lane that are due and not claimed, up to a limit that keeps the count quick.
func (c *TableStats) countDue(ctx context.Context, seen *Sight, found *tableCounts) error {
	lanes := slices.Concat(seen.lanes.Recurring, seen.lanes.Tasks)
	recurring := len(seen.lanes.Recurring)
	var queues, kinds []string
	var priorities []int
	var heads []time.Time
	for _, l := range lanes {
		queues, kinds = append(queues, l.Queue), append(kinds, l.Type)
		priorities, heads = append(priorities, l.Priority), append(heads, l.Head)
	}
	limit := max(c.most.Now()/max(len(lanes), 1), 10)
	began := time.Now()
	fires, err := counted[dueRow](ctx, c, "count due fires", CountFiresSQL,
		queues[:recurring], kinds[:recurring], limit, heads[:recurring])
	if err != nil {
		return c.pace(time.Since(began), err)
	}
	due, err := counted[dueRow](ctx, c, "count due tasks", CountDueSQL,
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
func (c *TableStats) pace(took time.Duration, err error) error {
	switch {
	case pg.IsTimeout(err) || took > countSlow:
		c.most.Shrink(c.most.Now())
	case err == nil && took < countQuick:
		c.most.Grow()
	}
	return err
}

const countJobsSQL = `SELECT state::text AS state, count(*)::int AS jobs FROM tasktable.river_job GROUP BY state`

type jobsRow struct {
	State string
	Jobs  int
}

// countJobs counts River's jobs. There are never many, because jobs that are done are removed.
func (c *TableStats) countJobs(ctx context.Context, found *tableCounts) error {
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
