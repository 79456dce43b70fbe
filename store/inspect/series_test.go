package inspect_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

func TestSeries(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const at = "2026-03-01 12:00:00Z"
	from, err := time.Parse("2006-01-02 15:04:05Z", at)
	b.Check(err)
	b.Exec(b.Pool, `INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt,
			scheduled_at, due_at, started_at, finished_at, outcome)
		SELECT n, n, kind, n, 1, due, due, due + late, $1::timestamptz + after, outcome
		FROM (VALUES (1, 'A', 'COMPLETED', interval '0', interval '1 second'),
			(2, 'A', 'COMPLETED', '59 seconds', '3 seconds'), (3, 'B', 'FAILED', '59.999999 seconds', '2 seconds'),
			(4, 'A', 'EXPIRED', '1 minute', NULL), (5, 'A', 'RETRIED', '1 minute 30 seconds', '5 seconds'),
			(6, 'B', 'LOST', '2 minutes 29 seconds', NULL), (7, 'A', 'RELEASED', '2 minutes 29 seconds', NULL),
			(8, 'A', 'COMPLETED', '2 minutes 30 seconds', '1 second'), (9, 'A', 'COMPLETED', '-1 second', '1 second')
		) AS v (n, kind, outcome, after, late) CROSS JOIN LATERAL (
			SELECT $1::timestamptz + after - interval '10 seconds' AS due) AS d`, at)
	s := func(seconds int) *time.Duration { d := time.Duration(seconds) * time.Second; return &d }
	filter := inspect.SeriesFilter{From: from, To: from.Add(150 * time.Second), Bucket: time.Minute}
	minute := func(n int) time.Time { return from.Add(time.Duration(n) * time.Minute) }
	for driver, db := range b.Readers() {
		got, err := b.Inspector.Series(b.Ctx, db, filter)
		b.Check(err)
		same(b, driver, got, []inspect.Bucket{
			{From: from, To: minute(1), Completed: 2, Failed: 1, DelayP50: s(2), DelayP95: s(3), DelayMax: s(3)},
			{From: minute(1), To: minute(2), Failed: 1, Retried: 1, DelayP50: s(5), DelayP95: s(5), DelayMax: s(5)},
			{From: minute(2), To: from.Add(150 * time.Second), Lost: 1, Other: 1},
		})
		filter := filter
		filter.Type = "B"
		got, err = b.Inspector.Series(b.Ctx, db, filter)
		b.Check(err)
		same(b, driver+": a type", got, []inspect.Bucket{
			{From: from, To: minute(1), Failed: 1, DelayP50: s(2), DelayP95: s(2), DelayMax: s(2)},
			{From: minute(1), To: minute(2)},
			{From: minute(2), To: from.Add(150 * time.Second), Lost: 1},
		})
	}
	for name, bad := range map[string]inspect.SeriesFilter{
		"no time":          {Bucket: time.Minute},
		"to before from":   {From: from, To: from.Add(-1), Bucket: time.Minute},
		"no bucket":        {From: from, To: minute(1)},
		"half microsecond": {From: from, To: minute(1), Bucket: time.Second + 500},
		"too many buckets": {From: from, To: minute(1001), Bucket: time.Minute},
		"a bad type":       {From: from, To: minute(1), Bucket: time.Minute, Type: "a\x00"},
	} {
		if _, err := b.Inspector.Series(b.Ctx, noDB(b), bad); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Of a busy time Series reads a part, and estimates. It finds the fences of the time, also if the history is longer.
func TestSeriesOfABusyTime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	from := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	// Three attempts a second for six hours. Every third fence is a claim, and every tenth attempt is retried.
	b.Exec(b.Pool, `INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt,
			scheduled_at, due_at, started_at, finished_at, outcome)
		SELECT 3 * n, n, 'A', n, 1, at, at, at + interval '20 milliseconds', at + interval '1 second',
			CASE WHEN n % 10 = 0 THEN 'RETRIED' ELSE 'COMPLETED' END
		FROM generate_series(0, 64799) AS n
			CROSS JOIN LATERAL (SELECT $1::timestamptz - interval '3 hours' + n * interval '1 second' / 3 AS at) AS d`, from)
	b.Exec(b.Pool, `ANALYZE tasktable.scheduled_task_executions`)
	filter := inspect.SeriesFilter{From: from, To: from.Add(2 * time.Hour), Bucket: 30 * time.Minute}
	for most, estimated := range map[int]bool{4000: true, 100000: false} {
		got, err := inspect.SampledSeries(b.Inspector, most).Series(b.Ctx, b.Pool, filter)
		b.Check(err)
		for _, one := range got {
			// A bucket has 5400 attempts, of which a sample of 4000 in three hours has about 670.
			slack := map[bool]int64{true: 500, false: 2}[estimated]
			if one.Estimated != estimated || max(one.Completed-4860, 4860-one.Completed) > slack ||
				max(one.Retried-540, 540-one.Retried) > slack || *one.DelayP50 != 20*time.Millisecond {
				t.Errorf("most %d: %s", most, pretty(one))
			}
		}
	}
}
