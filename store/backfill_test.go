package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

// past is a time that has been; minutes count from it.
func past(minutes int) time.Time { return time.Date(2020, 1, 1, 0, minutes, 0, 0, time.UTC) }

func (b *bench) backfill(id string, from, to time.Time, most int) int {
	b.Helper()
	made, err := b.Tasks.Backfill(b.Ctx, b.Pool, id, from, to, most)
	b.Check(err)
	return made
}

// clocks are the times of ids of occurrences, as minutes since past(0).
func (b *bench) clocks(parent string) string {
	b.Helper()
	var found []string
	for _, id := range b.occurrences(parent) {
		at, err := time.Parse(time.RFC3339, strings.TrimPrefix(id, parent+"@"))
		b.Check(err)
		found = append(found, fmt.Sprint(at.Sub(past(0)).Minutes()))
	}
	return strings.Join(found, " ")
}

func TestBackfillOfEachRange(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, c := range map[string]struct {
		cron, zone string
		begin      time.Time
		from, to   time.Time
		most       int
		want       string
	}{
		"after from, up to and with to": {"*/10 * * * *", "", past(0), past(10), past(30), 100, "20 30"},
		"not before from":               {"*/10 * * * *", "", past(0), past(10).Add(-1), past(10), 100, "10"},
		"the earliest":                  {"*/10 * * * *", "", past(0), past(0), past(90), 3, "10 20 30"},
		"as many as there are":          {"*/10 * * * *", "", past(0), past(0), past(30), 3, "10 20 30"},
		"none":                          {"*/10 * * * *", "", past(0), past(11), past(19), 100, ""},
		"none of a daily one":           {"0 9 * * *", "", past(0), past(0), past(60), 10000, ""},
		"every, from its beginning":     {"@every 20m", "", past(7), past(10), past(70), 100, "27 47 67"},
		"every, before its beginning":   {"@every 20m", "", past(1007), past(10), past(70), 100, "27 47 67"},
		"every, begun within a second": {
			"@every 20m", "", past(7).Add(999 * time.Millisecond), past(10), past(30), 100, "27",
		},
		"on the clocks of a zone": {"30 1 * * *", "Europe/Berlin", past(0), past(0), past(24 * 60), 100, "30"},
	} {
		b.each(name, func(b *bench) {
			b.Schedule(store.Task{
				ID: name, Payload: payload(1), At: c.begin,
				Recurrence: &store.Recurrence{Cron: c.cron, TimeZone: c.zone},
			})
			before := b.state(name)
			made := b.backfill(name, c.from, c.to, c.most)
			if got := b.clocks(name); got != c.want || made != len(strings.Fields(c.want)) {
				b.Errorf("%d made: %s\ninstead of %s", made, got, c.want)
			}
			same(b, "the recurring task", b.state(name), before)
			if again := b.backfill(name, c.from, c.to, c.most); again != 0 {
				b.Errorf("%d made again", again)
			}
		})
	}
}

// All run at once, whatever the task's jitter, and none has expired: the expiration counts from the backfill.
func TestBackfilledOccurrencesAreDueAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	task := rich("one")
	task.Recurrence = &store.Recurrence{Cron: "*/10 * * * *"}
	task.Expiration, task.Jitter = time.Hour, 24*time.Hour
	b.Schedule(task)
	from := b.Now()
	if made := b.backfill("one", past(0), past(30), 100); made != 3 {
		t.Fatalf("%d made", made)
	}
	until := b.Now()
	for i, id := range b.occurrences("one") {
		got := b.state(id)
		w := &want{b: b, found: got.Row, from: from, until: until}
		row := occurrence(got.Row, id, "one", past(10*(i+1)))
		row.Jitter = pointerTo(24 * time.Hour)
		row.RunNowAt = w.during("run_now_at", got.Row.RunNowAt)
		row.NextAttemptAt = row.RunNowAt
		b.checkWhole(state{}, got, &row, "fork", "created", service)
	}
	if late := one[int](b, b.Pool, `SELECT count(*) FROM tasktable.late_tasks WHERE late_by < interval '1 minute'
		AND id LIKE 'one@%'`); late != 3 {
		t.Errorf("%d are late by less than a minute", late)
	}
}

// Those that are there stay as they are, whether they wait, have run, were skipped or belong to nobody.
func TestBackfillKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(store.Task{
		ID: "one", Payload: payload(1), At: past(0), Recurrence: &store.Recurrence{Cron: "*/10 * * * *"},
	})
	skipped, waiting := b.fork("one", "2020-01-01 00:10Z", "it was not its day"), b.fork("one", "2020-01-01 00:20Z")
	completed, foreign := b.fork("one", "2020-01-01 00:30Z"), b.fork("one", "2020-01-01 00:40Z")
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET status = 'COMPLETED' WHERE id = $1`, completed)
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET parent_id = NULL WHERE id = $1`, foreign)
	before := map[string]state{}
	for _, id := range []string{skipped, waiting, completed, foreign} {
		before[id] = b.state(id)
	}
	if made := b.backfill("one", past(0), past(60), 10000); made != 2 {
		t.Errorf("%d made", made)
	}
	for id, state := range before {
		same(b, id, b.state(id), state)
	}
	same(
		b, "the new ones", []bool{b.Get("one@2020-01-01T00:50:00Z") != nil, b.Get("one@2020-01-01T01:00:00Z") != nil},
		[]bool{true, true},
	)
}

// What recurs can be backfilled in any status: that is asked for, as RunNow is.
func TestBackfillOfEachRow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, kind := range recurringKinds[1:] {
		b.MakeRecurring(kind, kind)
		before := b.state(kind)
		if made := b.backfill(kind, past(0), past(3*24*60), 10000); made != 3 {
			t.Errorf("%s: %d made", kind, made)
		}
		after := b.state(kind)
		after.Version = before.Version // open_occurrences_from goes back to the first
		same(b, kind, after, before)
	}
	if got := b.liveFrom("planned"); !got.Equal(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("open_occurrences_from moved to %v", got)
	}
}

// Fires that are still to come are the leader's: an occurrence of one would stand in the way of those before it.
func TestBackfillLeavesTheFuture(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(store.Task{
		ID: "one", Payload: payload(1), At: past(0), Recurrence: &store.Recurrence{Cron: "@every 1h"},
	})
	now := b.Now()
	made := b.backfill("one", now.Add(-3*time.Hour), now.Add(48*time.Hour), 100)
	ids := b.occurrences("one")
	if made < 3 || made > 4 || len(ids) != made {
		t.Errorf("%d made: %v", made, ids)
	}
	for _, id := range ids {
		if at := b.Get(id).ScheduledAt; at.After(b.Now()) {
			t.Errorf("one of the future, %v", at)
		}
	}
	if made := b.backfill("one", far(0), far(600), 100); made != 0 {
		t.Errorf("%d of the future alone", made)
	}
}

func TestBackfillIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(store.Task{
		ID: "one", Payload: payload(1), At: past(0), Recurrence: &store.Recurrence{Cron: "* * * * * *"},
	})
	if made := b.backfill("one", past(0), past(60*24*365), 2000); made != 2000 {
		t.Errorf("%d made", made)
	}
	if made := b.backfill("one", past(0), past(40), store.MaxBackfill); made != 400 {
		t.Errorf("%d made of the rest", made)
	}
	from := time.Time{} // before anything could have been
	if made := b.backfill("one", from, from.Add(3*time.Second), store.MaxBackfill); made != 3 {
		t.Errorf("%d made of the first three seconds", made)
	}
}

func TestBackfillRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(base("plain"))
	b.MakeRecurring("one", "planned")
	b.Exec(b.Pool, `INSERT INTO tasktable.scheduled_tasks (id, payload, cron)
		VALUES ('unreadable', '{"type": "TEST"}', '0 0 30 2 *')`)
	b.Exec(b.Pool, `CREATE OR REPLACE FUNCTION tasktable.knows_time_zone(zone text) RETURNS boolean
		LANGUAGE sql AS 'SELECT true'`)
	b.Exec(b.Pool, `INSERT INTO tasktable.scheduled_tasks (id, payload, cron, time_zone)
		VALUES ('nowhere', '{"type": "TEST"}', '@daily', 'Europe/Atlantis')`)
	for name, c := range map[string]struct {
		id       string
		from, to time.Time
		most     int
		err      error
		text     string
	}{
		"none": {"one", past(0), past(60), 0, store.ErrInvalid, "most must be between 1 and 10000"},
		"too many": {
			"one", past(0), past(60), store.MaxBackfill + 1, store.ErrInvalid, "most must be between 1 and 10000",
		},
		"an empty range":    {"one", past(60), past(60), 1, store.ErrInvalid, "from must be before to"},
		"a range backwards": {"one", past(60), past(0), 1, store.ErrInvalid, "from must be before to"},
		"no id":             {"", past(0), past(60), 1, store.ErrInvalid, "id must be"},
		"a bad id":          {"a\x00", past(0), past(60), 1, store.ErrInvalid, "id must be"},
		"no such task":      {"nobody", past(0), past(60), 1, store.ErrNotFound, "nobody"},
		"a plain task":      {"plain", past(0), past(60), 1, store.ErrNotRecurring, "not a recurring one"},
		"unreadable":        {"unreadable", past(0), past(60), 1, store.ErrInvalid, "cron must be"},
		"no such zone":      {"nowhere", past(0), past(60), 1, store.ErrInvalid, "time_zone must be"},
	} {
		made, err := b.Tasks.Backfill(b.Ctx, b.Pool, c.id, c.from, c.to, c.most)
		if made != 0 || !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %d, %v", name, made, err)
		}
	}
	ended, cancel := context.WithCancel(b.Ctx)
	cancel()
	if _, err := b.Tasks.Backfill(ended, b.Pool, "one", past(0), past(60), 1); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	if left := one[int](b, b.Pool, `SELECT count(*) FROM tasktable.scheduled_tasks
		WHERE parent_id IS NOT NULL`); left != 0 {
		t.Errorf("%d occurrences", left)
	}
}
