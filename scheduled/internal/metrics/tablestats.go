package metrics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/loop"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// TableStats runs on the leader and counts, for the metrics, the figures that only the tables know. It uses the
// engine's pool, so that no claim waits for the counts on the session. A scrape does not ask the database.
type TableStats struct {
	config TableStatsConfig

	most  *pg.Size                 // how many due tasks are counted in all
	lanes map[laneLabels]time.Time // when each lane was listed last
}

// TableStatsConfig is the configuration of TableStats.
type TableStatsConfig struct {
	Housekeeping *session.Housekeeping
	Statements   taskdb.Queries
	Metrics      *Metrics      // without a registerer, nothing is counted
	Every        time.Duration // the pause between two counts; 0: censusEvery
	Leads        func() bool   // whether this node leads
	Log          *slog.Logger
}

const (
	censusEvery = 15 * time.Second
	countSlow   = 250 * time.Millisecond
	countFirst  = 100_000
	minCounted  = 1000
	maxCounted  = 4_000_000
	laneKept    = 10 * time.Minute // how long a lane that has become empty is still shown
	// maxListed is how many lanes are listed at most. More lanes would cost too much, and the metrics show them as one
	// lane anyway.
	maxListed = 10_000
)

// NewTableStats makes the table statistics. They count nothing before Run.
func NewTableStats(config TableStatsConfig) *TableStats {
	config.Every = cmp.Or(config.Every, censusEvery)
	c := &TableStats{config: config, most: pg.NewSize(minCounted, maxCounted), lanes: map[laneLabels]time.Time{}}
	c.most.Shrink(2 * countFirst)
	return c
}

// tableCounts is the result of a count.
type tableCounts struct {
	depth map[laneLabels]int
	limit int // how far each lane was counted; 0: no lane was counted yet
	waits map[laneLabels]waitingRow
	dead  map[deadLabels]int
	jobs  []jobsRow // of River
	// limited counts the tasks that each limit holds back, by its name. nil: nobody has counted yet.
	limited map[string]limitedRow
	lanes   taskdb.ListedLanes // the lanes that no node works

	recurring []recurringRow
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

func (l laneLabels) compare(other laneLabels) int {
	return cmp.Or(cmp.Compare(l.queue, other.queue), cmp.Compare(l.kind, other.kind),
		cmp.Compare(l.priority, other.priority))
}

// Run works until ctx is done.
func (c *TableStats) Run(ctx context.Context) {
	m := c.config.Metrics
	if m.config.Registerer == nil {
		return
	}
	pause := min(time.Second, c.config.Every)
	loop.Repeat(ctx, pause, func() time.Duration {
		seen := m.sees()
		if !c.config.Leads() || seen == nil {
			m.found.Store(nil)
			return pause
		}
		if err := c.count(ctx, seen); err != nil && ctx.Err() == nil {
			m.censusFailures.Inc()
			c.config.Log.Warn("not all could be counted for the metrics", "error", err)
		}
		return c.config.Every
	})
}

// count takes one count. A figure that cannot be counted keeps its last value, and does not stop the other counts.
func (c *TableStats) count(ctx context.Context, seen *sight) error {
	return c.read(ctx, func(ctx context.Context, tx pgx.Tx) error { return c.countAll(ctx, tx, seen) })
}

// countLimitSQL ends a statement of a count that takes longer.
const countLimitSQL = `SET LOCAL statement_timeout = '1s'`

// maxCount is how long all statements of a count may take.
const maxCount = 10 * time.Second

// read runs the statements of a count in one transaction, because an idle node should ask little of the database.
func (c *TableStats) read(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	return c.config.Housekeeping.Do(ctx, maxCount, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, countLimitSQL); err != nil {
			return fmt.Errorf("limit the counts: %w", err)
		}
		return do(ctx, tx)
	})
}

func (c *TableStats) countAll(ctx context.Context, tx pgx.Tx, seen *sight) error {
	found := tableCounts{}
	if before := c.config.Metrics.found.Load(); before != nil {
		found = *before
	}
	err := errors.Join(
		c.list(ctx, tx, seen.nodes, &found),
		c.countDue(ctx, tx, seen.lanes, &found),
		c.countLimited(ctx, tx, seen.lanes.Limits, &found),
		counted(ctx, c, tx, "count tasks that wait", countWaitingSQL, nil, found.hasWaiting),
		counted(ctx, c, tx, "count River's jobs", countJobsSQL, nil, func(rows []jobsRow) { found.jobs = rows }),
		counted(ctx, c, tx, "count dead letters", CountDeadSQL, []any{maxDeadCounted}, func(rows []deadRow) {
			found.hasDead(rows, c.config.Metrics)
		}),
		c.countRecurring(ctx, tx, &found),
	)
	c.config.Metrics.found.Store(&found)
	return err
}

// counted reads rows and gives them to take. Its savepoint keeps the transaction alive if the statement fails.
func counted[T any](
	ctx context.Context, c *TableStats, tx pgx.Tx, doing, statement string, args []any, take func(rows []T),
) error {
	return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		rows, err := pg.CollectRows[T](ctx, tx, doing, c.config.Statements.Schema.SQL(statement), args...)
		if err == nil {
			take(rows)
		}
		return err
	})
}

// list lists the lanes that no node works. The leader's looks leave these out.
func (c *TableStats) list(ctx context.Context, tx pgx.Tx, nodes []taskdb.LiveNode, found *tableCounts) error {
	most := []any{nil, maxListed}
	return errors.Join(
		counted(ctx, c, tx, "list lanes", taskdb.LanesSQL, most, func(lanes []taskdb.Lane) {
			found.lanes.Tasks = taskdb.Unworked(lanes, nodes)
		}),
		counted(ctx, c, tx, "list lanes of recurring tasks", taskdb.RecurringLanesSQL, most, func(lanes []taskdb.Lane) {
			found.lanes.Recurring = taskdb.Unworked(lanes, nodes)
		}),
	)
}

// CountDueSQL counts the due tasks of each lane. The scan begins at the head that the leader's look has listed, as
// that of the claim does, because there may be many dead entries before the head. It has an order, because without
// one Postgres would read all due tasks, past any limit. It ends at a time that stays the same during the statement,
// because otherwise Postgres would also read all tasks that are not due yet.
const CountDueSQL = `
SELECT due.tasks
FROM unnest($1::text[], $2::text[], $3::int[], $4::timestamptz[]) WITH ORDINALITY
    AS lane (queue, type, priority, head, place)
CROSS JOIN LATERAL (
    SELECT count(*)::int AS tasks FROM (
        SELECT FROM tasktable.scheduled_tasks AS t
        WHERE t.queue = lane.queue AND t.type = lane.type AND t.priority = lane.priority AND t.cron IS NULL
            AND t.next_attempt_at BETWEEN lane.head AND statement_timestamp()
        ORDER BY t.next_attempt_at LIMIT $5::int
    ) AS t
) AS due
ORDER BY lane.place`

// CountFiresSQL counts the recurring tasks whose fire is due, lane by lane. Their index has no priority.
var CountFiresSQL = strings.NewReplacer(
	"t.cron IS NULL", "t.cron IS NOT NULL", " AND t.priority = lane.priority", "",
).Replace(CountDueSQL)

type dueRow struct{ Tasks int }

// countDue counts the tasks of each lane that are due and not claimed, up to a limit that keeps the count quick.
func (c *TableStats) countDue(ctx context.Context, tx pgx.Tx, listed taskdb.ListedLanes, found *tableCounts) error {
	listed = listed.With(found.lanes)
	limit := max(c.most.Now()/max(len(listed.Tasks)+len(listed.Recurring), 1), 10)
	began := time.Now()
	defer func() { c.most.Pace(time.Since(began), countSlow) }()
	depth := map[laneLabels]int{}
	count := func(doing, statement string, lanes []taskdb.Lane) error {
		if len(lanes) == 0 {
			return nil
		}
		var queues, kinds []string
		var priorities []int
		var heads []time.Time
		for _, l := range lanes {
			queues, kinds = append(queues, l.Queue), append(kinds, l.Type)
			priorities, heads = append(priorities, l.Priority), append(heads, l.Head)
		}
		args := []any{queues, kinds, priorities, heads, limit}
		return counted(ctx, c, tx, doing, statement, args, func(rows []dueRow) {
			for i, row := range rows {
				depth[labelsOf(lanes[i])], c.lanes[labelsOf(lanes[i])] = row.Tasks, began
			}
		})
	}
	if err := errors.Join(
		count("count due tasks", CountDueSQL, listed.Tasks), count("count due fires", CountFiresSQL, listed.Recurring),
	); err != nil {
		return err
	}
	for l, last := range c.lanes {
		if depth[l] += 0; began.Sub(last) > laneKept {
			delete(depth, l)
			delete(c.lanes, l)
		}
	}
	found.depth, found.limit = depth, limit
	return nil
}

// countWaitingSQL counts the tasks that wait for something that is out of order, by lane. Of more than 100,000 it reads
// those that have waited for longest.
const countWaitingSQL = `
SELECT w.queue, w.type, w.priority, count(*)::int AS tasks,
    extract(epoch FROM statement_timestamp() - min(w.waiting_since))::float8 AS age
FROM (
    SELECT t.queue::text AS queue, t.type::text AS type, t.priority::int AS priority, t.waiting_since
    FROM tasktable.scheduled_tasks AS t WHERE t.waiting_since IS NOT NULL AND t.next_attempt_at IS NOT NULL
    ORDER BY t.waiting_since LIMIT 100000
) AS w
GROUP BY w.queue, w.type, w.priority`

type waitingRow struct {
	Queue, Type string
	Priority    int
	Tasks       int
	Age         float64 // seconds since the first of them was due
}

func (found *tableCounts) hasWaiting(rows []waitingRow) {
	found.waits = map[laneLabels]waitingRow{}
	for _, row := range rows {
		found.waits[laneLabels{row.Queue, row.Type, strconv.Itoa(row.Priority)}] = row
	}
}

// countJobsSQL counts River's jobs. There are never many, because jobs that are done are removed.
const countJobsSQL = `
SELECT state.name::text AS state, count(j.id)::int AS jobs
FROM unnest(enum_range(NULL::tasktable.river_job_state)) AS state (name)
LEFT JOIN tasktable.river_job AS j ON j.state = state.name GROUP BY state.name`

type jobsRow struct {
	State string
	Jobs  int
}
