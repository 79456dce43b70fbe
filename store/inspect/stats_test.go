package inspect_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

func TestTaskCounts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i, kind := range []string{
		"QUEUED", "QUEUED", "PAUSED", "EXECUTING", "COMPLETED", "COMPLETED", "COMPLETED", "FAILED", "FAILED",
	} {
		b.Make(fmt.Sprint(kind, i), kind)
	}
	b.must(b.Tasks.Archive(b.Ctx, b.Pool, "FAILED8", ""))
	b.MakeRecurring("recurring", "planned")
	other := base("other")
	other.Payload = typed("OTHER")
	b.Schedule(other)
	all := inspect.TaskCounts{Counts: []inspect.TaskCount{
		{Type: "OTHER", Status: "QUEUED", Count: 1}, {Type: "TEST", Status: "COMPLETED", Count: 3},
		{Type: "TEST", Status: "EXECUTING", Count: 1}, {Type: "TEST", Status: "FAILED", Count: 2, Archived: 1},
		{Type: "TEST", Status: "PAUSED", Count: 1}, {Type: "TEST", Status: "QUEUED", Count: 3},
	}}
	for driver, db := range b.Readers() {
		for _, exact := range []bool{false, true} {
			got, err := b.Inspector.TaskCounts(b.Ctx, db, "", exact)
			b.Check(err)
			same(b, driver, got, all)
			got, err = b.Inspector.TaskCounts(b.Ctx, db, "OTHER", exact)
			b.Check(err)
			same(b, driver+": one type", got, inspect.TaskCounts{Counts: all.Counts[:1]})
		}
	}
	if _, err := b.Inspector.TaskCounts(b.Ctx, noDB(b), "a\x00", false); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a bad type: %v", err)
	}
}

// ended is a line of the history: when it ended, how long before that it was let go (nil: it never was), and how much
// before that it was due.
type ended struct {
	kind    string
	outcome string
	ago     time.Duration
	took    time.Duration
	delay   time.Duration // negative: it was never let go
}

// attempts puts lines into the history, in the order of their claims.
func (b *bench) attempts(lines ...ended) {
	b.Helper()
	for i, line := range lines {
		var started *string
		if line.delay >= 0 {
			started = new(micros(line.ago + line.took))
		}
		b.Exec(b.Pool, `INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt,
			scheduled_at, due_at, started_at, finished_at, outcome)
			SELECT nextval('tasktable.task_numbers'), 'task ' || $1::int, $2, 1, 1, now.at,
				now.at - $4::text::interval - $5::text::interval,
				now.at - $5::text::interval, now.at - $3::text::interval, $6
				FROM (SELECT clock_timestamp() AS at) AS now`,
			i, line.kind, micros(line.ago), micros(line.delay), started, line.outcome)
	}
}

func micros(d time.Duration) string { return fmt.Sprint(d.Microseconds(), " microseconds") }

func TestThroughput(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const never = -1
	var lines []ended
	for i := range 100 {
		lines = append(lines, ended{
			"A", "COMPLETED", 10 * time.Minute, time.Duration(i) * time.Second, time.Duration(100-i) * time.Millisecond,
		})
	}
	lines = append(lines,
		ended{"A", "FAILED", 9 * time.Minute, 0, 0}, ended{"A", "RETRIED", 9 * time.Minute, 0, 0},
		ended{"A", "LOST", 9 * time.Minute, 0, never}, ended{"A", "EXPIRED", 9 * time.Minute, 0, never},
		ended{"A", "SNOOZED", 9 * time.Minute, 0, 0}, ended{"A", "RELEASED", 9 * time.Minute, 0, never},
		ended{"B", "RELEASED", time.Minute, 0, never}, ended{"B", "COMPLETED", 90 * time.Minute, 0, 0},
		ended{"C", "COMPLETED", 90 * time.Minute, 0, 0}, ended{"D", "LOST", time.Minute, time.Second, 3 * time.Second},
	)
	b.attempts(lines...)
	ms := func(n int) *time.Duration { return new(time.Duration(n) * time.Millisecond) }
	s := func(n int) *time.Duration { return new(time.Duration(n) * time.Second) }
	rate := func(part, of float64) *float64 { return new(part / of) }
	hour := []inspect.TypeStats{
		{Type: "A", Completed: 100, Failed: 1, Retried: 1, Lost: 1, Expired: 1, Other: 2, FailureRate: rate(3, 103),
			DelayP50: ms(49), DelayP95: ms(95), DelayP99: ms(99), TookP50: s(48), TookP95: s(94), TookP99: s(98)},
		{Type: "B", Other: 1},
		{
			Type: "D", Lost: 1, FailureRate: rate(1, 1), DelayP50: s(3), DelayP95: s(3), DelayP99: s(3), TookP50: s(1),
			TookP95: s(1), TookP99: s(1),
		},
	}
	one := inspect.TypeStats{
		Completed: 1, FailureRate: new(0.0), DelayP50: ms(0), DelayP95: ms(0), DelayP99: ms(0), TookP50: ms(0),
		TookP95: ms(0), TookP99: ms(0),
	}
	oneOf := func(kind string, other int64) inspect.TypeStats {
		stats := one
		stats.Type, stats.Other = kind, other
		return stats
	}
	for name, c := range map[string]struct {
		filter  inspect.StatsFilter
		want    []inspect.TypeStats
		since   time.Duration
		bounded bool
	}{
		"an hour": {inspect.StatsFilter{}, hour, time.Hour, false},
		"said":    {inspect.StatsFilter{Window: time.Hour, Most: 1000}, hour, time.Hour, false},
		"two hours": {
			inspect.StatsFilter{Window: 2 * time.Hour},
			[]inspect.TypeStats{hour[0], oneOf("B", 1), oneOf("C", 0), hour[2]}, 2 * time.Hour, false,
		},
		"one type":     {inspect.StatsFilter{Type: "D"}, hour[2:], time.Hour, false},
		"no such type": {inspect.StatsFilter{Type: "NONE"}, []inspect.TypeStats{}, time.Hour, false},
		"just now":     {inspect.StatsFilter{Window: time.Second}, []inspect.TypeStats{}, time.Second, false},
		"as many as matter": {
			inspect.StatsFilter{Most: 4}, []inspect.TypeStats{hour[1], hour[2]}, 650 * time.Second, true,
		},
		"fewer": {inspect.StatsFilter{Most: 1}, []inspect.TypeStats{hour[2]}, 650 * time.Second, true},
		"far back and fewer": {
			inspect.StatsFilter{Most: 1, Window: 2 * time.Hour}, []inspect.TypeStats{hour[2]}, 650 * time.Second, true,
		},
		"all":         {inspect.StatsFilter{Most: -1}, hour, time.Hour, false},
		"exactly all": {inspect.StatsFilter{Most: len(lines)}, hour, time.Hour, false},
	} {
		for driver, db := range b.Readers() {
			got, err := b.Inspector.Throughput(b.Ctx, db, c.filter)
			b.Check(err)
			if got.Bounded != c.bounded || (got.Until.Sub(got.Since)-c.since).Abs() > 30*time.Second ||
				time.Since(got.Until).Abs() > 30*time.Second {
				t.Errorf("%s, %s: from %v to %v, bounded %v", name, driver, got.Since, got.Until, got.Bounded)
			}
			same(b, name+": "+driver, got.Types, c.want)
		}
	}
	for _, filter := range []inspect.StatsFilter{
		{Window: -1}, {Window: inspect.MaxStatsWindow + 1}, {Most: -2}, {Most: 2e9}, {Type: "a\x00"},
	} {
		if _, err := b.Inspector.Throughput(b.Ctx, noDB(b), filter); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v", filter, err)
		}
	}
}

func TestComingFires(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var want []inspect.ComingFire
	for i := range 6 {
		task := recurs(fmt.Sprint(i))
		task.Queue, task.Payload = []string{"default", "mail"}[i%2], typed([]string{"AA", "BB", "CC"}[i%3])
		b.Schedule(task)
		b.Plan(task.ID, fmt.Sprintf("'2100-01-01Z'::timestamptz + interval '%d hours'", (i+3)%6))
		want = append(want, inspect.ComingFire{
			ID: task.ID, Type: []string{"AA", "BB", "CC"}[i%3], Queue: task.Queue, At: far(60 * ((i + 3) % 6)),
		})
	}
	want = append(want[3:], want[:3]...)
	for _, kind := range []string{"unplanned", "PAUSED", "CANCELLED"} {
		b.MakeRecurring(kind, kind)
	}
	b.Make("plain", "QUEUED")
	for driver, db := range b.Readers() {
		for _, c := range []struct {
			kind string
			most int
			want []inspect.ComingFire
		}{
			{"", 100, want}, {"", 2, want[:2]}, {"CC", 5, []inspect.ComingFire{want[2], want[5]}},
			{"NONE", 5, []inspect.ComingFire{}},
		} {
			got, err := b.Inspector.ComingFires(b.Ctx, db, c.kind, c.most)
			b.Check(err)
			for i := range got {
				got[i].At = got[i].At.UTC()
			}
			same(b, driver, got, c.want)
		}
	}
	for _, most := range []int{0, 1001} {
		if _, err := b.Inspector.ComingFires(b.Ctx, noDB(b), "", most); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%d: %v", most, err)
		}
	}
}

// Of a large table a part is read: what it comes to lies where it may.
func TestCountsOfALargeTableAreEstimated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const tasks = 20000
	b.seed(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, revision, status, finished_at)
		SELECT i, '{"type": "TEST"}', 'TEST', i, 'COMPLETED', clock_timestamp()
			FROM generate_series(1, $1::int) AS i`, tasks)
	pages := one[int64](b, b.Pool, `SELECT pg_relation_size('tasktable.scheduled_tasks') / 8192`)
	for most, exact := range map[int64]bool{pages / 2: false, pages / 2 * 3: true, pages: true, pages - 1: false} {
		got, err := inspect.TaskCountsUpTo(b.Ctx, b.Inspector, b.Pool, most)
		b.Check(err)
		if got.Estimated == exact || len(got.Counts) != 1 || got.Counts[0].Count < tasks*3/4 ||
			got.Counts[0].Count > tasks*5/4 || exact && got.Counts[0].Count != tasks {
			t.Errorf("%d of %d pages: %+v", most, pages, got)
		}
	}
}
