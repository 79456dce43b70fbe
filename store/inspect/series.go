package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

// MaxBuckets is the maximum number of buckets of a Series.
const MaxBuckets = 1000

// SeriesFilter selects the attempts for Series, and cuts their time into buckets.
type SeriesFilter struct {
	// Type selects the attempts of one type. "" selects all types.
	Type string
	// From and To bound the ends of the attempts: From <= end < To. Both must be set.
	From, To time.Time
	// Bucket is the length of a bucket, of whole microseconds. The first bucket begins at From. The last one may be
	// shorter. There are at most MaxBuckets.
	Bucket time.Duration
}

// Bucket counts the attempts that ended within a time, by outcome. Durations are nanoseconds in JSON. A bucket whose
// end has passed does not change any more, except that retention removes old attempts. So a caller may keep it.
type Bucket struct {
	From      time.Time `json:"from"`
	To        time.Time `json:"to"`
	Completed int64     `json:"completed"`
	Failed    int64     `json:"failed"`  // FAILED or EXPIRED, and not tried again
	Retried   int64     `json:"retried"` // failed, and are retried
	Lost      int64     `json:"lost"`    // their node died or their lease ended
	Other     int64     `json:"other"`   // snoozed, superseded, interrupted, released, cancelled
	// DelayP50, DelayP95 and DelayMax tell how late the attempts began: the time from when an attempt was due until
	// its handler started. They are nil if no attempt started.
	DelayP50 *time.Duration `json:"delay_p50,omitempty"`
	DelayP95 *time.Duration `json:"delay_p95,omitempty"`
	DelayMax *time.Duration `json:"delay_max,omitempty"`
	// Estimated tells that only a part of the attempts was read. All numbers except Failed are then estimates, and
	// DelayMax is the greatest delay that was read.
	Estimated bool `json:"estimated,omitempty"`
}

const seriesSQL = `
SELECT floor(extract(epoch FROM e.finished_at - $1::text::timestamptz)
        / extract(epoch FROM $3::text::interval))::int AS place,
    count(*) FILTER (WHERE e.outcome = 'COMPLETED') AS completed,
    count(*) FILTER (WHERE e.outcome IN ('FAILED', 'EXPIRED')) AS failed,
    count(*) FILTER (WHERE e.outcome = 'RETRIED') AS retried,
    count(*) FILTER (WHERE e.outcome = 'LOST') AS lost,
    count(*) FILTER (WHERE e.outcome NOT IN ('COMPLETED', 'FAILED', 'RETRIED', 'LOST', 'EXPIRED')) AS other,
    (percentile_disc(0.5) WITHIN GROUP (ORDER BY date_part('epoch', e.started_at - e.due_at)) * 1000000)::bigint * 1000
        AS delay_p50,
    (percentile_disc(0.95) WITHIN GROUP (ORDER BY date_part('epoch', e.started_at - e.due_at)) * 1000000)::bigint
        * 1000 AS delay_p95,
    (max(date_part('epoch', e.started_at - e.due_at)) * 1000000)::bigint * 1000 AS delay_max
FROM tasktable.scheduled_task_executions AS e
WHERE e.finished_at >= $1::text::timestamptz AND e.finished_at < $2::text::timestamptz
    AND ($4::text = '' OR e.type = $4::text)
GROUP BY 1 ORDER BY 1`

// seriesRow is a row of seriesSQL: a bucket by its place in the series.
type seriesRow struct {
	Place     int
	Completed int64
	Failed    int64
	Retried   int64
	Lost      int64
	Other     int64
	DelayP50  *time.Duration
	DelayP95  *time.Duration
	DelayMax  *time.Duration
}

// Series counts the attempts that ended within a time, by buckets, the earliest first. Buckets without attempts are
// included. The error wraps store.ErrInvalid for a bad filter.
func (i *Inspector) Series(ctx context.Context, db store.DB, filter SeriesFilter) ([]Bucket, error) {
	args, err := filter.args()
	if err != nil {
		return nil, fmt.Errorf("series: %w", err)
	}
	rows, err := query.Collect[seriesRow](ctx, i.source, db, "series", seriesSQL, args...)
	if err != nil {
		return nil, err
	}
	buckets := filter.buckets()
	for _, row := range rows {
		if row.Place < 0 || row.Place >= len(buckets) {
			continue
		}
		one := &buckets[row.Place]
		one.Completed, one.Failed, one.Retried, one.Lost, one.Other = row.Completed, row.Failed, row.Retried, row.Lost,
			row.Other
		one.DelayP50, one.DelayP95, one.DelayMax = row.DelayP50, row.DelayP95, row.DelayMax
	}
	return buckets, nil
}

// args checks the filter and returns it as seriesSQL takes it.
func (f SeriesFilter) args() ([]any, error) {
	if err := check.Text("type", f.Type); err != nil {
		return nil, err
	}
	if f.From.IsZero() || f.To.IsZero() || !f.From.Before(f.To) {
		return nil, check.Invalid("from", "must be before to, and both must be given", f.From)
	}
	if f.Bucket < time.Microsecond || f.Bucket%time.Microsecond != 0 {
		return nil, check.Invalid("bucket", "must be whole microseconds, at least 1", f.Bucket)
	}
	if f.To.Sub(f.From) > MaxBuckets*f.Bucket {
		return nil, check.Invalid("bucket", fmt.Sprintf("must cut the time into at most %d parts", MaxBuckets), f.Bucket)
	}
	from, err := check.TimeText("from", f.From)
	if err != nil {
		return nil, err
	}
	to, err := check.TimeText("to", f.To)
	return []any{from, to, check.IntervalText(f.Bucket), f.Type}, err
}

// buckets returns the series without attempts.
func (f SeriesFilter) buckets() []Bucket {
	var buckets []Bucket
	from, to := f.From.Truncate(time.Microsecond), f.To.Truncate(time.Microsecond)
	for ; from.Before(to); from = from.Add(f.Bucket) {
		end := from.Add(f.Bucket)
		if end.After(to) {
			end = to
		}
		buckets = append(buckets, Bucket{From: from, To: end})
	}
	return buckets
}
