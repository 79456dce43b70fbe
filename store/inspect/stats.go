package inspect

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

const (
	// DefaultStatsMost is the number of claims that Throughput reads if StatsFilter.Most is 0.
	DefaultStatsMost = 100000
	// MaxStatsWindow is the greatest StatsFilter.Window.
	MaxStatsWindow = store.MaxRetention
	// sampledPages is how much of the table TaskCounts reads at most, in pages: 128 MB, which is some hundred
	// thousand tasks.
	sampledPages = 16384
	statsMostMax = 1000000000
)

// TaskCount is the number of tasks that have a type and a status. A recurring task counts as one task, and each of
// its occurrences as another.
type TaskCount struct {
	Type   string       `json:"type"`
	Status store.Status `json:"status"`
	Count  int64        `json:"count"`
	// Archived is the number of them that are archived dead letters.
	Archived int64 `json:"archived,omitempty"`
}

// TaskCounts has the numbers of tasks by type and status.
type TaskCounts struct {
	Counts []TaskCount `json:"counts"` // sorted by type and status
	// Estimated tells that the table is large, and that only a random part of it was read. The count of a rare
	// combination of type and status may then be far off, or missing.
	Estimated bool `json:"estimated"`
}

// tablePagesSQL asks for the present size of the table, because the size that the last ANALYZE found may be outdated.
const tablePagesSQL = `
SELECT pg_relation_size('tasktable.scheduled_tasks'::regclass) / current_setting('block_size')::bigint`

const taskCountsSQL = `
SELECT t.type::text AS type, t.status::text AS status, round(count(*) * 100 / $2::text::float8)::bigint AS count,
    round(count(t.archived_at) * 100 / $2::text::float8)::bigint AS archived
FROM tasktable.scheduled_tasks AS t TABLESAMPLE SYSTEM ($2::text::real)
WHERE $1::text = '' OR t.type = $1::text
GROUP BY t.type, t.status ORDER BY t.type, t.status`

// TaskCounts counts the tasks of one type, or of all types if taskType is "", by type and status. It reads the whole
// table if the table has at most 128 MB. Of a larger table it reads that much at random and estimates the counts,
// unless exact is true.
func (i *Inspector) TaskCounts(ctx context.Context, db store.DB, taskType string, exact bool) (TaskCounts, error) {
	return i.taskCounts(ctx, db, taskType, exact, sampledPages)
}

func (i *Inspector) taskCounts(ctx context.Context, db store.DB, taskType string, exact bool,
	most int64) (found TaskCounts, err error) {
	if err := check.Text("type", taskType); err != nil {
		return found, fmt.Errorf("count tasks: %w", err)
	}
	pages, err := query.Value[int64](ctx, i.source, db, "measure the table", tablePagesSQL)
	if err != nil {
		return found, err
	}
	percent := 100.0
	if pages > most && !exact {
		percent, found.Estimated = 100*float64(most)/float64(pages), true
	}
	found.Counts, err = query.Collect[TaskCount](ctx, i.source, db, "count tasks", taskCountsSQL, taskType,
		strconv.FormatFloat(percent, 'f', -1, 64))
	return found, err
}

// StatsFilter selects the attempts for Throughput.
type StatsFilter struct {
	// Type selects the attempts of one type. "" selects all types.
	Type string
	// Window is the length of the time before now. It selects the attempts that ended in that time. 0 means an hour.
	// It is at most MaxStatsWindow.
	Window time.Duration
	// Most is the maximum number of claims to read. The newest are read. 0 means DefaultStatsMost. -1 means all
	// claims of the window.
	Most int
}

// TypeStats counts the outcomes of the attempts of a type that ended within a window. Durations are nanoseconds in
// JSON.
type TypeStats struct {
	Type      string `json:"type"`
	Completed int64  `json:"completed"`
	Failed    int64  `json:"failed" doc:"They are not retried."`
	Retried   int64  `json:"retried"` // failed, and are retried
	Lost      int64  `json:"lost" doc:"Their node died, or their lease ended."`
	Expired   int64  `json:"expired"` // expired before they could begin
	Other     int64  `json:"other"`   // snoozed, superseded, interrupted, released, cancelled
	// FailureRate is the part of the attempts that failed, were retried or were lost, among these and the completed
	// ones. It is from 0 to 1. Nil means that there were none.
	FailureRate *float64 `json:"failure_rate,omitempty"`
	// DelayP50, DelayP95 and DelayP99 are percentiles of the delay, which is the time from when an attempt was due
	// until its handler started. TookP50, TookP95 and TookP99 are percentiles of the time from that start until the
	// end of the attempt, including the time to record its outcome. They are nil if no attempt started.
	DelayP50 *time.Duration `json:"delay_p50,omitempty"`
	DelayP95 *time.Duration `json:"delay_p95,omitempty"`
	DelayP99 *time.Duration `json:"delay_p99,omitempty"`
	TookP50  *time.Duration `json:"took_p50,omitempty"`
	TookP95  *time.Duration `json:"took_p95,omitempty"`
	TookP99  *time.Duration `json:"took_p99,omitempty"`
}

// Throughput tells what happened to the attempts of a window.
type Throughput struct {
	// Since and Until are the bounds of the window. If the window has more claims than StatsFilter.Most, Since is
	// later than requested. Attempts that were claimed before Since are then left out, even if they ended after it.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Bounded tells that Since is later than requested.
	Bounded bool        `json:"bounded,omitempty"`
	Types   []TypeStats `json:"types"` // the types that have attempts, sorted by name
}

// StatsFilter.Most is a number of claims. The table does not record when a claim was made, but when its handler was
// started, which is mostly soon after. claimBoundSQL takes the median of 1,000 claims next to the bound, so that
// single claims that waited long do not matter.
const claimBoundSQL = `
SELECT now.at AS until, now.at - $2::text::interval AS since, (
    SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY bound.at) FROM (
        SELECT coalesce(e.started_at, e.finished_at) AS at FROM tasktable.scheduled_task_executions AS e
        WHERE $1::text::bigint > 0 ORDER BY e.fence DESC OFFSET greatest($1::text::bigint, 0) LIMIT 1000
    ) AS bound) AS bound
FROM (SELECT statement_timestamp() AS at) AS now`

// claimBound is a window, and the time at which the claims at the bound were made.
type claimBound struct {
	Until time.Time
	Since time.Time
	Bound *time.Time
}

const typeStats = `
SELECT e.type, count(*) FILTER (WHERE e.outcome = 'COMPLETED') AS completed,
    count(*) FILTER (WHERE e.outcome = 'FAILED') AS failed,
    count(*) FILTER (WHERE e.outcome = 'RETRIED') AS retried, count(*) FILTER (WHERE e.outcome = 'LOST') AS lost,
    count(*) FILTER (WHERE e.outcome = 'EXPIRED') AS expired,
    count(*) FILTER (WHERE e.outcome NOT IN ('COMPLETED', 'FAILED', 'RETRIED', 'LOST', 'EXPIRED')) AS other,
    count(*) FILTER (WHERE e.outcome IN ('FAILED', 'RETRIED', 'LOST'))::float8
        / nullif(count(*) FILTER (WHERE e.outcome IN ('COMPLETED', 'FAILED', 'RETRIED', 'LOST')), 0) AS failure_rate,
    (percentile_disc(0.5) WITHIN GROUP (ORDER BY e.delay) * 1000000)::bigint * 1000 AS delay_p50,
    (percentile_disc(0.95) WITHIN GROUP (ORDER BY e.delay) * 1000000)::bigint * 1000 AS delay_p95,
    (percentile_disc(0.99) WITHIN GROUP (ORDER BY e.delay) * 1000000)::bigint * 1000 AS delay_p99,
    (percentile_disc(0.5) WITHIN GROUP (ORDER BY e.took) * 1000000)::bigint * 1000 AS took_p50,
    (percentile_disc(0.95) WITHIN GROUP (ORDER BY e.took) * 1000000)::bigint * 1000 AS took_p95,
    (percentile_disc(0.99) WITHIN GROUP (ORDER BY e.took) * 1000000)::bigint * 1000 AS took_p99
FROM (
    SELECT e.type COLLATE "C" AS type, e.outcome, date_part('epoch', e.started_at - e.due_at) AS delay,
        date_part('epoch', e.finished_at - e.started_at) AS took
    FROM `

const typeStatsSQL = typeStats + `tasktable.scheduled_task_executions AS e
    WHERE e.finished_at >= $1::text::timestamptz AND ($2::text = '' OR e.type = $2::text)
) AS e
GROUP BY e.type ORDER BY e.type`

// newestStatsSQL reads only the newest claims, from the last one backwards, for a window that has more of them than
// StatsFilter.Most.
const newestStatsSQL = typeStats + `(
        SELECT e.* FROM tasktable.scheduled_task_executions AS e ORDER BY e.fence DESC LIMIT $3::text::bigint
    ) AS e
    WHERE e.finished_at >= $1::text::timestamptz AND ($2::text = '' OR e.type = $2::text)
) AS e
GROUP BY e.type ORDER BY e.type`

// Throughput tells for each type how many attempts ended within a window, with which outcomes, how late they began
// and how long they took. It reads the history of the window by an index. If the window has more claims than
// filter.Most, it reads only that many of the newest. 100,000 claims take a fraction of a second.
func (i *Inspector) Throughput(ctx context.Context, db store.DB, filter StatsFilter) (Throughput, error) {
	if filter.Window == 0 {
		filter.Window = time.Hour
	}
	if filter.Most == 0 {
		filter.Most = DefaultStatsMost
	}
	var err error
	switch {
	case filter.Window < time.Microsecond || filter.Window > MaxStatsWindow:
		err = check.Invalid("window", "must be over 0 and at most 100 years", filter.Window)
	case filter.Most < -1 || filter.Most > statsMostMax:
		err = check.Invalid("most", "must be between 1 and 1000000000, or -1", filter.Most)
	default:
		err = check.Text("type", filter.Type)
	}
	if err != nil {
		return Throughput{}, fmt.Errorf("throughput: %w", err)
	}
	found, err := i.window(ctx, db, filter)
	if err != nil {
		return Throughput{}, err
	}
	since, err := check.TimeText("since", found.Since)
	if err != nil {
		return Throughput{}, fmt.Errorf("throughput: %w", err)
	}
	if found.Bounded {
		found.Types, err = query.Collect[TypeStats](ctx, i.source, db, "throughput", newestStatsSQL, since,
			filter.Type, strconv.Itoa(filter.Most))
	} else {
		found.Types, err = query.Collect[TypeStats](ctx, i.source, db, "throughput", typeStatsSQL, since, filter.Type)
	}
	return found, err
}

// window returns the part of the filter's window that Throughput reads.
func (i *Inspector) window(ctx context.Context, db store.DB, filter StatsFilter) (Throughput, error) {
	bounds, err := query.Collect[claimBound](ctx, i.source, db, "look for the bound of the history", claimBoundSQL,
		strconv.Itoa(filter.Most), check.IntervalText(filter.Window))
	if err != nil {
		return Throughput{}, err
	}
	bound := bounds[0]
	found := Throughput{Since: bound.Since, Until: bound.Until}
	if bound.Bound != nil && bound.Bound.After(bound.Since) {
		found.Since, found.Bounded = *bound.Bound, true
	}
	return found, nil
}
