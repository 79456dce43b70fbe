package metrics

import (
	"context"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store/recurrence"
)

const (
	// maxRecurringSeries is how many recurring tasks have series of their own. Some applications make a recurring task
	// for each of their members.
	maxRecurringSeries = 500
	// maxRecurringListed is how many recurring tasks a count reads to choose those with series.
	maxRecurringListed = 20_000
	// maxMissedShown is how far fires without a success are counted.
	maxMissedShown = 10
)

// recurringCounts is what is known of the recurring tasks that fire.
type recurringCounts struct {
	tasks int // at most maxRecurringListed
	shown []recurringShown
}

type recurringShown struct {
	id          string
	lastSuccess *time.Time
	failures    int
	missed      int
	paused      bool
}

// ReadRecurringSQL reads the health of recurring tasks. Those that are declared in code come first, because somebody
// watches them. A paused task is not in the index, and has no series.
const ReadRecurringSQL = `
SELECT t.tasks, t.id, t.queue, t.type, t.cron, t.time_zone, t.starts_at, t.allowance, h.last_success,
    h.failures_in_a_row, h.expected_since, statement_timestamp() AS now
FROM (
    SELECT count(*) OVER () ::int AS tasks, t.*
    FROM (
        SELECT t.id::text AS id, t.revision, t.queue::text AS queue, t.type::text AS type, t.cron::text AS cron,
            t.time_zone::text AS time_zone, t.scheduled_at::timestamptz AS starts_at,
            t.expected_execution_time + coalesce(t.jitter, interval '0') AS allowance, t.declared_by
        FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NOT NULL
        ORDER BY t.queue, t.type, t.next_attempt_at LIMIT $1
    ) AS t
    ORDER BY t.declared_by IS NULL, t.id COLLATE "C" LIMIT $2
) AS t
CROSS JOIN LATERAL tasktable.recurring_health(t.id, t.revision, t.queue, t.type, true) AS h
ORDER BY t.declared_by IS NULL, t.id COLLATE "C"`

type recurringRow struct {
	Tasks          int
	ID             string
	Queue          string
	Type           string
	Cron           string
	TimeZone       string
	StartsAt       time.Time
	Allowance      time.Duration // how long after its fire an occurrence may end
	LastSuccess    *time.Time
	FailuresInARow int
	ExpectedSince  *time.Time
	Now            time.Time
}

// readRecurring reads the health of recurring tasks.
func (c *TableStats) readRecurring(ctx context.Context, seen *Sight, found *tableCounts) error {
	rows, err := counted[recurringRow](ctx, c, "read the health of recurring tasks", ReadRecurringSQL,
		maxRecurringListed, maxRecurringSeries)
	if err != nil {
		return err
	}
	counts := &recurringCounts{}
	for _, row := range rows {
		counts.tasks = row.Tasks
		counts.shown = append(counts.shown, recurringShown{
			id: row.ID, lastSuccess: row.LastSuccess, failures: row.FailuresInARow, missed: row.missed(),
			paused: taskdb.IsPaused(seen.lanes.Paused, row.Queue, row.Type),
		})
	}
	found.recurring = counts
	return nil
}

// missed is 0 if the expression cannot be read. Then the leader fails the task, which becomes a dead letter.
func (r recurringRow) missed() int {
	rule, err := recurrence.Parse(r.Cron, r.TimeZone)
	if err != nil {
		return 0
	}
	since := r.StartsAt.Add(-time.Nanosecond) // the task may fire at the time at which it begins
	if r.ExpectedSince != nil && r.ExpectedSince.After(since) {
		since = *r.ExpectedSince
	}
	return rule.Anchored(r.StartsAt).Missed(r.LastSuccess, since, r.Now.Add(-r.Allowance), maxMissedShown)
}

func (m *Metrics) collectRecurring(found *recurringCounts, show shower) {
	if found == nil {
		return
	}
	show(m.gauges.recurring, float64(found.tasks))
	for _, one := range found.shown {
		id := valid(one.id)
		if one.lastSuccess != nil {
			show(m.gauges.lastSuccess, float64(one.lastSuccess.UnixMilli())/1000, id)
		}
		show(m.gauges.failuresInARow, float64(one.failures), id)
		if !one.paused {
			show(m.gauges.missed, float64(one.missed), id)
		}
	}
}
