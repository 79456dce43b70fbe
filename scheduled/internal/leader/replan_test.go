package leader

import (
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

func at(text string) time.Time {
	instant, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return instant
}

// moves changes the zone data, as a node with other data does when it begins to lead, and has the leader plan.
func (b *bench) moves(posix string, now time.Time) {
	b.T.Helper()
	b.Zones = enginetest.ZonesOf(posix)
	w := walk{housekeeping: session.NewHousekeeping(b.Pool), statements: b.Queries, log: enginetest.Logger()}
	b.OK(w.replan(b.T.Context()))
	// A test's clock.
	b.Exec(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = $1 WHERE planned_zone_data = ''`, now)
	b.Fires(now)
}

func (b *bench) nextFire(id string) string {
	b.T.Helper()
	task, err := inspect.New(store.Config{}).GetRecurring(b.T.Context(), b.Pool, id)
	b.OK(err)
	if task.NextFire == nil {
		return ""
	}
	return task.NextFire.UTC().Format(time.RFC3339)
}

// TestZoneDataThatChange: planned fires come when the clocks show their time by the zone data that the leader has now.
func TestZoneDataThatChange(t *testing.T) {
	b := newBench(t)
	b.Zones = enginetest.ZonesOf(enginetest.SummerFromMarch)
	begins := at("2035-03-01T00:00:00Z")
	of := func(zone string) func(*store.Task) {
		return func(task *store.Task) { task.Recurrence.TimeZone = zone }
	}
	b.Recur("yearly", "0 9 20 3 *", begins, of(enginetest.Havana))
	b.Recur("summer", "0 9 1 6 *", begins, of(enginetest.Havana))
	b.Recur("every", "@every 100h", begins, of(enginetest.Havana))
	b.Recur("edited", "0 9 20 3 *", begins, of(enginetest.Havana))
	b.Exec(`UPDATE tasktable.scheduled_tasks SET cron = '0 10 20 3 *' WHERE id = 'edited'`)
	b.Exec(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = $1 WHERE id = 'edited'`, begins.Add(-time.Second))
	b.Fires(begins.Add(-time.Second))
	check := func(what string, want map[string]string) {
		t.Helper()
		for id, next := range want {
			if got := b.nextFire(id); got != next {
				t.Errorf("%s: %s fires next at %s, want %s", what, id, got, next)
			}
		}
	}
	planned := map[string]string{
		"yearly": "2035-03-20T13:00:00Z", "summer": "2035-06-01T13:00:00Z", "every": b.nextFire("every"),
		"edited": "2035-03-20T14:00:00Z",
	}
	check("planned", planned)
	before, err := enginetest.Tasks.Get(t.Context(), b.Pool, "yearly")
	b.OK(err)
	b.moves(enginetest.SummerFromMarch, begins.Add(-time.Second))
	check("the same data", planned)
	b.moves(enginetest.SummerFromApril, begins.Add(-time.Second))
	check("other data", map[string]string{
		"yearly": "2035-03-20T14:00:00Z", "summer": "2035-06-01T13:00:00Z", "every": planned["every"],
		"edited": "2035-03-20T15:00:00Z"})
	if after, err := enginetest.Tasks.Get(t.Context(), b.Pool, "yearly"); err != nil ||
		after.Revision != before.Revision ||
		after.OccurrenceCount != 0 {
		t.Errorf("planning anew is no edit and no fire: %+v, %v", after, err)
	}
	b.moves(enginetest.SummerFromMarch, begins.Add(-time.Second))
	check("back again", planned)

	// A leader with other data comes upon the fire itself, before it has looked for such plans: it is an hour early.
	b.Zones = enginetest.ZonesOf(enginetest.SummerFromApril)
	b.Fires(at("2035-03-20T13:00:00Z"))
	check("at the fire", map[string]string{"yearly": "2035-03-20T14:00:00Z"})
	b.Fires(at("2035-03-20T14:00:00Z"))
	check("fired", map[string]string{"yearly": "2036-03-20T14:00:00Z"})

	// It has fired for nine o'clock of that day: that by yet other data the clocks show it only then is no second fire.
	b.moves(enginetest.SummerFromMarch, at("2035-03-20T14:30:00Z"))
	check("not twice", map[string]string{"yearly": "2036-03-20T13:00:00Z"})

	// New data come when the fire should have been half an hour ago: it is late, and not lost.
	b.Zones = enginetest.ZonesOf(enginetest.SummerFromApril)
	b.Fires(at("2036-03-20T13:00:00Z"))
	check("put off", map[string]string{"yearly": "2036-03-20T14:00:00Z"})
	b.moves(enginetest.SummerFromMarch, at("2036-03-20T13:30:00Z"))
	check("late", map[string]string{"yearly": "2037-03-20T13:00:00Z"})
	if got := b.count("yearly"); got != 2 {
		t.Errorf("%d occurrences in two years", got)
	}
}

// A round of the walk moves overlooked tasks although more fires were planned with other zone data than a round has
// planned anew. The next round has the rest planned anew.
func TestPlansForOtherZoneDataKeepNoTaskWaiting(t *testing.T) {
	b := newBench(t)
	const rest = 7
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER`)
	b.Exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, queue, revision, next_attempt_at, cron, time_zone,
			planned_revision, planned_zone_data)
		SELECT 'planned ' || i, '{"type": "JOB"}', 'JOB', 'default', i, clock_timestamp() + interval '1 day',
			'0 9 * * *', 'Europe/Berlin', i, 'other'
		FROM generate_series(1, $1::int) AS i`, maxReplanned+rest)
	overlooks := func() {
		b.Exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, queue, revision, next_attempt_at)
			VALUES ('overlooked', '{"type": "JOB"}', 'JOB', 'default', 0, '2025-01-01')
			ON CONFLICT (id) DO UPDATE SET next_attempt_at = excluded.next_attempt_at`)
	}
	w := walk{
		housekeeping: session.NewHousekeeping(b.Pool), statements: b.Queries, log: enginetest.Logger(), moved: func() {},
	}
	lanes := []taskdb.LaneAt{{LaneKey: key("default", "JOB", 0), At: time.Now().Add(-time.Hour)}}
	for _, want := range []struct {
		left    int
		planned bool
	}{{rest, false}, {0, true}} {
		overlooks()
		b.Did(w.round(t.Context(), course{tasks: lanes}))
		b.Sees("the overlooked task is moved", `SELECT next_attempt_at > '2026-01-01' FROM tasktable.scheduled_tasks
			WHERE id = 'overlooked'`)
		left := b.Count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE planned_zone_data = 'other'`)
		if left != want.left || w.planned != want.planned {
			t.Errorf("%d plans are left, all are planned anew: %t; want %d, %t", left, w.planned, want.left, want.planned)
		}
	}
}

// TestAnOwedFireOfAnotherZone: an edit of the zone of a task that is due does not take its fire away.
func TestAnOwedFireOfAnotherZone(t *testing.T) {
	b := newBench(t)
	b.Recur("owed", "0 9 * * *", enginetest.Noon, func(task *store.Task) { task.Recurrence.TimeZone = "Europe/Berlin" })
	b.Exec(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = clock_timestamp() - interval '1 second'
		WHERE id = 'owed'`)
	b.Exec(`UPDATE tasktable.scheduled_tasks SET time_zone = 'Asia/Tokyo' WHERE id = 'owed'`)
	b.Fires(time.Now())
	if got := b.count("owed"); got != 1 {
		t.Errorf("%d occurrences", got)
	}
}

func (b *bench) count(parent string) (n int) {
	b.T.Helper()
	err := b.Pool.QueryRow(
		b.T.Context(), `SELECT count(*) FROM tasktable.scheduled_tasks WHERE parent_id = $1`, parent,
	).Scan(&n)
	b.OK(err)
	return n
}
