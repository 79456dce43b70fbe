package inspect

import (
	"context"
	"fmt"
	"math"
	"strconv"
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
	From      time.Time `json:"from" db:"-"`
	To        time.Time `json:"to" db:"-"`
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
	// Estimated tells that only a part of the attempts was read, because the time has many. All numbers are then
	// estimates, and DelayMax is the greatest delay that was read. A number of some thousands is right within some
	// percent, and a number of a few may be far off, or 0.
	Estimated bool `json:"estimated,omitempty" db:"-"`
}

const (
	seriesColumns = `
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
    (max(date_part('epoch', e.started_at - e.due_at)) * 1000000)::bigint * 1000 AS delay_max`
	seriesWhere = `
WHERE e.finished_at >= $1::text::timestamptz AND e.finished_at < $2::text::timestamptz
    AND ($4::text = '' OR e.type = $4::text)
GROUP BY 1 ORDER BY 1`

	seriesSQL = seriesColumns + `
FROM tasktable.scheduled_task_executions AS e` + seriesWhere

	// sampledSeriesSQL reads $8 runs of $7 fences each, spread evenly over the fences from $5 on, $6 fences apart. The
	// limit and the order make Postgres read each run by the primary key.
	sampledSeriesSQL = seriesColumns + `
FROM generate_series(0, $8::text::bigint - 1) AS run CROSS JOIN LATERAL (
    SELECT * FROM tasktable.scheduled_task_executions AS x
    WHERE x.fence >= $5::text::bigint + (run * $6::text::float8)::bigint
        AND x.fence < $5::text::bigint + (run * $6::text::float8)::bigint + $7::text::bigint
    ORDER BY x.fence LIMIT $7::text::bigint
) AS e` + seriesWhere
)

// fencesSQL finds the fences of a time: those of the first claims that were made at or after it. It halves the fences
// again and again, because few claims are out of the order of time, and no index has the time of a claim. It looks at
// the median of some claims, because one of them may have waited for long. rows is how many claims the history has, as
// the last ANALYZE found.
const fencesSQL = `
WITH RECURSIVE ends AS (
    SELECT (SELECT e.fence FROM tasktable.scheduled_task_executions AS e ORDER BY e.fence LIMIT 1) AS low,
        (SELECT e.fence + 1 FROM tasktable.scheduled_task_executions AS e ORDER BY e.fence DESC LIMIT 1) AS high
), halved AS (
    SELECT wanted.place, wanted.at, ends.low, ends.high, 0 AS step
    FROM ends CROSS JOIN (VALUES (0, $1::text::timestamptz - interval '1 hour'), (1, $2::text::timestamptz))
        AS wanted (place, at)
    WHERE ends.low IS NOT NULL
    UNION ALL
    SELECT h.place, h.at, CASE WHEN middle.at < h.at THEN (h.low + h.high) / 2 ELSE h.low END,
        CASE WHEN middle.at < h.at THEN h.high ELSE (h.low + h.high) / 2 END, h.step + 1
    FROM halved AS h CROSS JOIN LATERAL (
        SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY coalesce(near.started_at, near.finished_at)) AS at FROM (
            SELECT e.started_at, e.finished_at FROM tasktable.scheduled_task_executions AS e
            WHERE e.fence >= (h.low + h.high) / 2 ORDER BY e.fence LIMIT 11
        ) AS near
    ) AS middle
    WHERE h.high - h.low > 100 AND h.step < 64
)
SELECT (SELECT h.low FROM halved AS h WHERE h.place = 0 ORDER BY h.step DESC LIMIT 1) AS low,
    (SELECT h.high FROM halved AS h WHERE h.place = 1 ORDER BY h.step DESC LIMIT 1) AS high,
    (SELECT ends.high - ends.low FROM ends) AS all,
    greatest((SELECT c.reltuples FROM pg_class AS c
        WHERE c.oid = 'tasktable.scheduled_task_executions'::regclass), 0)::float8 AS rows`

// fences is a row of fencesSQL. Its fields are nil if there is no history.
type fences struct {
	Low, High, All *int64
	Rows           float64
}

const (
	// seriesExact is about how many claims Series reads at most without a sample, and how many it reads of a sample.
	seriesExact = 30000
	// seriesRun is how many fences of each run it reads. Neighbours are alike, so that many short runs tell more than
	// few long ones.
	seriesRun = 20
)

// sample is which fences Series reads. The zero value means all.
type sample struct {
	from, run, runs int64
	apart           float64
}

// sampled decides which of the fences to read.
func (f fences) sampled(most int) sample {
	if f.Low == nil || f.High == nil || f.All == nil || *f.High <= *f.Low || f.Rows == 0 {
		return sample{}
	}
	width := float64(*f.High - *f.Low)
	claims := f.Rows * width / float64(*f.All)
	if claims <= float64(most) {
		return sample{}
	}
	// A run of so many fences has about seriesRun claims, because other numbers of the sequence are revisions.
	run := max(int64(seriesRun*width/claims), 1)
	runs := int64(most / seriesRun)
	return sample{from: *f.Low, run: run, runs: runs, apart: width / float64(runs)}
}

// seriesRow is a row of seriesSQL: a bucket by its place in the series.
type seriesRow struct {
	Place int
	Bucket
}

// Series counts the attempts that ended within a time, by buckets, the earliest first. Buckets without attempts are
// included. If the time has more than about 30,000 attempts, Series reads an even part of that size, and estimates. It
// then leaves out attempts that were claimed more than an hour before From. The error wraps store.ErrInvalid for a bad
// filter.
func (i *Inspector) Series(ctx context.Context, db store.DB, filter SeriesFilter) ([]Bucket, error) {
	args, err := filter.args()
	if err != nil {
		return nil, fmt.Errorf("series: %w", err)
	}
	found, err := query.Collect[fences](ctx, i.source, db, "series", fencesSQL, args[0], args[1])
	if err != nil {
		return nil, err
	}
	part, statement := found[0].sampled(i.seriesMost), seriesSQL
	if part.runs > 0 {
		statement = sampledSeriesSQL
		args = append(args, strconv.FormatInt(part.from, 10), strconv.FormatFloat(part.apart, 'f', -1, 64),
			strconv.FormatInt(part.run, 10), strconv.FormatInt(part.runs, 10))
	}
	rows, err := query.Collect[seriesRow](ctx, i.source, db, "series", statement, args...)
	if err != nil {
		return nil, err
	}
	buckets := filter.buckets()
	for _, row := range rows {
		if row.Place < 0 || row.Place >= len(buckets) {
			continue
		}
		one := row.Bucket
		one.From, one.To = buckets[row.Place].From, buckets[row.Place].To
		for _, count := range []*int64{&one.Completed, &one.Failed, &one.Retried, &one.Lost, &one.Other} {
			*count = part.of(*count)
		}
		buckets[row.Place] = one
	}
	for at := range buckets {
		buckets[at].Estimated = part.runs > 0
	}
	return buckets, nil
}

// of is how many claims there are likely to be, if the sample has n.
func (s sample) of(n int64) int64 {
	if s.runs == 0 {
		return n
	}
	return int64(math.Round(float64(n) * s.apart / float64(s.run)))
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
		const rule = "must cut the time into at most %d parts"
		return nil, check.Invalid("bucket", fmt.Sprintf(rule, MaxBuckets), f.Bucket)
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
