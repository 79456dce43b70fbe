package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

// A task's jitter is the same each time, less than asked for, and spreads tasks of one time over all of it.
func TestJitterIsStableAndSpread(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const most, tasks = time.Hour, 1000
	seen, tenths := map[time.Duration]bool{}, make([]int, 10)
	for i := range tasks {
		id := fmt.Sprintf("task-TEST-%d", i)
		late := b.dueOf(id, far(0), most).Sub(far(0))
		if late < 0 || late >= most || late != late.Truncate(time.Microsecond) {
			t.Fatalf("%s is late by %v", id, late)
		}
		seen[late] = true
		tenths[late*10/most]++
	}
	if len(seen) < tasks-2 {
		t.Errorf("%d tasks have %d times", tasks, len(seen))
	}
	for i, count := range tenths { // the same in each run, so the bounds cannot fail by chance
		if count < 60 || count > 140 {
			t.Errorf("%d of %d in tenth %d", count, tasks, i)
		}
	}
	times := map[time.Duration]bool{}
	for i := range 100 {
		times[b.dueOf("one", far(i), most).Sub(far(i))] = true
	}
	if len(times) < 99 {
		t.Errorf("100 times of one task are late by %d spans", len(times))
	}
	// Written down: a release that reckons otherwise would move what is waiting.
	same(b, "of one", b.dueOf("one", far(0), most).Format(time.RFC3339Nano), "2100-01-01T00:08:11.657275Z")
}

func TestDueOf(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for sql, want := range map[string]string{
		`tasktable.due_of('one', '2100-01-01Z', NULL, NULL)`:              `'2100-01-01Z'::timestamptz`,
		`tasktable.due_of('one', '2100-01-01Z', '2099-01-01Z', NULL)`:     `'2099-01-01Z'::timestamptz`,
		`tasktable.due_of('one', '2100-01-01Z', '2099-01-01Z', '1 hour')`: `'2099-01-01Z'::timestamptz`,
		`tasktable.due_of('one', '2100-01-01 01:00+01', NULL, ` +
			`'1 hour')`: `tasktable.due_of('one', '2100-01-01Z', NULL, '1 hour')`,
		`tasktable.due_of('one', '2100-01-01Z', NULL, '00:00:00.000001')`:              `'2100-01-01Z'::timestamptz`,
		`tasktable.due_of('one', '0001-01-01Z', NULL, '1 hour') < '0001-01-01 01:00Z'`: `true`,
		`tasktable.due_of('one', '2100-01-01Z', NULL, '1 hour') ` +
			`= tasktable.due_of('two', '2100-01-01Z', NULL, '1 hour')`: `false`,
		`(SELECT count(DISTINCT tasktable.due_of(i::text, '2100-01-01Z', NULL, '00:00:00.000003')) ` +
			`FROM generate_series(1, 100) AS i)`: `3`,
		`(SELECT max(tasktable.due_of(i::text, '2100-01-01Z', NULL, '00:00:00.000003')) ` +
			`FROM generate_series(1, 100) AS i)`: `'2100-01-01 00:00:00.000002Z'::timestamptz`,
		`(SELECT bool_and(tasktable.due_of(i::text, '2100-01-01Z', NULL, '24 hours') < '2100-01-02Z') ` +
			`FROM generate_series(1, 10000) AS i)`: `true`,
		`(SELECT max(tasktable.due_of(i::text, '2100-01-01Z', NULL, '24 hours')) > '2100-01-01 23:50Z' ` +
			`FROM generate_series(1, 10000) AS i)`: `true`,
		`(SELECT min(tasktable.due_of(i::text, '2100-01-01Z', NULL, '24 hours')) < '2100-01-01 00:10Z' ` +
			`FROM generate_series(1, 10000) AS i)`: `true`,
	} {
		for _, zone := range []string{"UTC", "Australia/Lord_Howe"} { // the session's zone is no matter
			b.inTxZone(zone, func(get func(string) bool) {
				if !get(`SELECT ` + sql + ` IS NOT DISTINCT FROM ` + want) {
					t.Errorf("in %s: %s is not %s", zone, sql, want)
				}
			})
		}
	}
}

func (b *bench) inTxZone(zone string, do func(get func(string) bool)) {
	b.Helper()
	conn, err := b.Pool.Acquire(b.Ctx)
	b.Check(err)
	defer conn.Release()
	b.Exec(conn, `SET TIME ZONE '`+zone+`'`)
	do(func(sql string) bool { return one[bool](b, conn, sql) })
	b.Exec(conn, `RESET TIME ZONE`)
}

// A one-off task is due its jitter late, at insert and at each edit; run now is now. What was asked for
// stays in scheduled_at.
func TestNextAttemptCountsTheJitter(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	jittered := schedules(func(t *store.Task) { t.Jitter = 24 * time.Hour })
	for name, c := range map[string]struct {
		do     []step
		at     time.Time
		jitter time.Duration
	}{
		"as scheduled":             {nil, far(0), 24 * time.Hour},
		"another field":            {[]step{sets(`priority = 3`)}, far(0), 24 * time.Hour},
		"another time":             {[]step{does("re_other")}, far(5), 24 * time.Hour},
		"another time by SQL":      {[]step{sets(`scheduled_at = '2100-01-01 00:05Z'`)}, far(5), 24 * time.Hour},
		"less":                     {[]step{sets(`jitter = '1 minute'`)}, far(0), time.Minute},
		"none":                     {[]step{sets(`jitter = NULL`)}, far(0), 0},
		"paused and resumed":       {[]step{does("pause"), does("resume")}, far(0), 24 * time.Hour},
		"cancelled and rearmed":    {[]step{does("cancel"), jittered}, far(0), 24 * time.Hour},
		"run now, and then moved":  {[]step{does("run_now"), does("re_other")}, far(5), 24 * time.Hour},
		"ended, and another time":  {[]step{sets(`status = 'FAILED'`), does("re_other")}, far(5), 24 * time.Hour},
		"scheduled without jitter": {[]step{does("identical")}, far(0), 0},
	} {
		b.each(name, func(b *bench) {
			jittered(b, name)
			for _, step := range c.do {
				step(b, name)
			}
			due := c.at
			if c.jitter > 0 {
				due = b.dueOf(name, c.at, c.jitter)
			}
			if row := b.Get(name); !row.ScheduledAt.Equal(c.at) || !row.NextAttemptAt.Equal(due) {
				b.Errorf(
					"scheduled for %v, due at %v instead of %v", row.ScheduledAt.UTC(), row.NextAttemptAt.UTC(), due,
				)
			}
		})
	}
	for name, steps := range map[string][]step{
		"run now": {does("run_now")}, "retried": {sets(`status = 'FAILED'`), does("retry")},
		"run now, then another field": {does("run_now"), sets(`priority = 3`)},
	} {
		b.each(name, func(b *bench) {
			jittered(b, name)
			from := b.Now()
			for _, step := range steps {
				step(b, name)
			}
			if row := b.Get(name); row.NextAttemptAt.Before(from) || row.NextAttemptAt.After(b.Now()) ||
				!row.ScheduledAt.Equal(far(0)) {
				b.Errorf("due at %v", row.NextAttemptAt)
			}
		})
	}
}

// Each occurrence has a jitter of its own; the recurring task's fires have none.
func TestJitterOfOccurrences(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	task := recurs("one")
	task.Jitter = time.Hour
	from := b.Now()
	b.Schedule(task)
	if row := b.Get("one"); row.NextAttemptAt.Before(from) || row.NextAttemptAt.After(b.Now()) {
		t.Errorf("to be planned at %v", row.NextAttemptAt)
	}
	spans := map[time.Duration]bool{}
	for day := range 20 {
		at := far(day * 24 * 60)
		row := b.Get(b.fork("one", at.Format(time.RFC3339)))
		late := row.NextAttemptAt.Sub(at)
		if late < 0 || late >= time.Hour || !row.NextAttemptAt.Equal(b.dueOf(row.ID, at, time.Hour)) {
			t.Errorf("%s is late by %v", row.ID, late)
		}
		spans[late] = true
	}
	if len(spans) < 20 {
		t.Errorf("20 occurrences are late by %d spans", len(spans))
	}
}
