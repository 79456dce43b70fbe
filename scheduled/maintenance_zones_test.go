package scheduled

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// zonesOf is a time zone database in which the clocks of each zone follow one POSIX rule for ever.
func zonesOf(posix string) *taskdb.Zones {
	return taskdb.NewZones(func(name string) (*time.Location, error) {
		var data bytes.Buffer
		for range 2 { // in 32 bits, which nobody reads, and in 64
			data.WriteString("TZif2" + string(make([]byte, 15)))
			_ = binary.Write(&data, binary.BigEndian, []uint32{0, 0, 0, 0, 1, 4})
			_ = binary.Write(&data, binary.BigEndian, int32(-5*3600))
			data.WriteString("\x00\x00CST\x00")
		}
		data.WriteString("\n" + posix + "\n")
		return time.LoadLocationFromTZData(name, data.Bytes())
	})
}

const (
	havana          = "America/Havana"
	summerFromMarch = "CST5CDT,M3.2.0/0,M11.1.0/1"
	summerFromApril = "CST5CDT,M4.1.0/0,M11.1.0/1"
)

func at(text string) time.Time {
	instant, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return instant
}

// moves changes the zone data, as the leader's node does when it looks, and has the leader plan.
func (b *bench) moves(posix string, now time.Time) {
	b.t.Helper()
	b.Zones = zonesOf(posix)
	watch := &zoneWatch{
		pool: b.pool, statements: b.Queries, leads: func() bool { return true }, log: slog.New(slog.DiscardHandler),
	}
	if err := watch.look(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	// A test's clock.
	b.exec(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = $1 WHERE planned_zone_data = ''`, now)
	b.fires(now)
}

func (b *bench) nextFire(id string) string {
	b.t.Helper()
	task, err := inspect.New(store.Config{}).GetRecurring(b.t.Context(), b.pool, id)
	if err != nil {
		b.t.Fatal(err)
	}
	if task.NextFire == nil {
		return ""
	}
	return task.NextFire.UTC().Format(time.RFC3339)
}

// TestZoneDataThatChange: planned fires come when the clocks show their time by the zone data that the leader has now.
func TestZoneDataThatChange(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Zones = zonesOf(summerFromMarch)
	begins := at("2035-03-01T00:00:00Z")
	of := func(zone string) func(*store.Task) {
		return func(task *store.Task) { task.Recurrence.TimeZone = zone }
	}
	b.recur("yearly", "0 9 20 3 *", begins, of(havana))
	b.recur("summer", "0 9 1 6 *", begins, of(havana))
	b.recur("every", "@every 100h", begins, of(havana))
	b.recur("edited", "0 9 20 3 *", begins, of(havana))
	b.exec(`UPDATE tasktable.scheduled_tasks SET cron = '0 10 20 3 *' WHERE id = 'edited'`)
	b.exec(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = $1 WHERE id = 'edited'`, begins.Add(-time.Second))
	b.fires(begins.Add(-time.Second))
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
	before, err := tasks.Get(t.Context(), b.pool, "yearly")
	if err != nil {
		t.Fatal(err)
	}
	b.moves(summerFromMarch, begins.Add(-time.Second))
	check("the same data", planned)
	b.moves(summerFromApril, begins.Add(-time.Second))
	check("other data", map[string]string{
		"yearly": "2035-03-20T14:00:00Z", "summer": "2035-06-01T13:00:00Z", "every": planned["every"],
		"edited": "2035-03-20T15:00:00Z"})
	if after, err := tasks.Get(t.Context(), b.pool, "yearly"); err != nil || after.Revision != before.Revision ||
		after.OccurrenceCount != 0 {
		t.Errorf("planning anew is no edit and no fire: %+v, %v", after, err)
	}
	b.moves(summerFromMarch, begins.Add(-time.Second))
	check("back again", planned)

	// A leader with other data comes upon the fire itself, before anybody has looked: it is an hour early.
	b.Zones = zonesOf(summerFromApril)
	b.fires(at("2035-03-20T13:00:00Z"))
	check("at the fire", map[string]string{"yearly": "2035-03-20T14:00:00Z"})
	b.fires(at("2035-03-20T14:00:00Z"))
	check("fired", map[string]string{"yearly": "2036-03-20T14:00:00Z"})

	// It has fired for nine o'clock of that day: that by yet other data the clocks show it only then is no second fire.
	b.moves(summerFromMarch, at("2035-03-20T14:30:00Z"))
	check("not twice", map[string]string{"yearly": "2036-03-20T13:00:00Z"})

	// New data come when the fire should have been half an hour ago: it is late, and not lost.
	b.Zones = zonesOf(summerFromApril)
	b.fires(at("2036-03-20T13:00:00Z"))
	check("put off", map[string]string{"yearly": "2036-03-20T14:00:00Z"})
	b.moves(summerFromMarch, at("2036-03-20T13:30:00Z"))
	check("late", map[string]string{"yearly": "2037-03-20T13:00:00Z"})
	if got := b.count("yearly"); got != 2 {
		t.Errorf("%d occurrences in two years", got)
	}
}

// TestAnOwedFireOfAnotherZone: an edit of the zone of a task that is due does not take its fire away.
func TestAnOwedFireOfAnotherZone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.recur("owed", "0 9 * * *", noon, func(task *store.Task) { task.Recurrence.TimeZone = "Europe/Berlin" })
	b.exec(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = clock_timestamp() - interval '1 second'
		WHERE id = 'owed'`)
	b.exec(`UPDATE tasktable.scheduled_tasks SET time_zone = 'Asia/Tokyo' WHERE id = 'owed'`)
	b.fires(time.Now())
	if got := b.count("owed"); got != 1 {
		t.Errorf("%d occurrences", got)
	}
}

func (b *bench) count(parent string) (n int) {
	b.t.Helper()
	err := b.pool.QueryRow(
		b.t.Context(), `SELECT count(*) FROM tasktable.scheduled_tasks WHERE parent_id = $1`, parent,
	).Scan(&n)
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// TestNodesWithOtherZoneData: a leader with other zone data plans anew, and nodes that differ are told of.
func TestNodesWithOtherZoneData(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var log logText
	start := func(posix string) (stop func()) {
		return s.node(func(c *Config) {
			c.zones, c.zonesEvery, c.Logger = zonesOf(posix), 100*time.Millisecond, slog.New(
				slog.NewTextHandler(&log, nil),
			)
		}, handlers.Handle(func(context.Context, *handlers.Task[job]) error { return nil }))
	}
	yearly := store.Recurrence{Cron: "0 9 20 3 *", TimeZone: havana}
	s.recur("yearly", yearly)
	next := func() int {
		return s.count(`SELECT coalesce(max(extract(hour FROM next_attempt_at AT TIME ZONE 'UTC')), 0)::int
			FROM tasktable.scheduled_tasks
			WHERE planned_revision = revision AND planned_zone_data <> ''`)
	}
	stop := start(summerFromMarch)
	eventually(t, 20*time.Second, "it is planned by the first data", func() bool { return next() == 13 })
	start(summerFromApril)
	eventually(t, 20*time.Second, "nodes that differ are told of", func() bool {
		return len(log.lines("nodes have different data of time zones", "time_zones="+havana)) > 0
	})
	stop()
	eventually(t, 20*time.Second, "the other node leads, and plans anew", func() bool { return next() == 14 })
	eventually(t, 5*time.Second, "it says so", func() bool { return len(log.lines("planning anew")) > 0 })
	if n := s.count(`SELECT count(*)::int FROM tasktable.scheduled_tasks WHERE parent_id = 'yearly'`); n != 0 {
		t.Errorf("it has fired %d times", n)
	}
}
