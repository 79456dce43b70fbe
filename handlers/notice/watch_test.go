package notice_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/notice"
	"github.com/tasktable/tasktable/handlers/notice/contract"
	"github.com/tasktable/tasktable/handlers/notice/rules"
	"github.com/tasktable/tasktable/store"
)

// watched runs the watch at a time, as a node does.
func (b *bench) watched(at time.Time) {
	b.Helper()
	made, err := notice.New(notice.Config{DB: b.tx})
	if err != nil {
		b.Fatal(err)
	}
	if err := made.Watch(b.Context(), b.tx, &handlers.Task[contract.Watch]{
		Execution: &handlers.Execution{StartedAt: at}}); err != nil {
		b.Fatal(err)
	}
}

// causesSQL are the causes of the notices that are scheduled.
const causesSQL = `SELECT split_part(c.notice_id, '/', 2) || ' ' || c.event || ' ' || c.task_id || ': ' || c.detail
	FROM tasktable.notice_causes AS c JOIN tasktable.scheduled_tasks AS t ON t.id = c.notice_id ORDER BY c.at, c.number`

// Each state that is bad for long is told once, and again when it is good.
func TestTheWatchTellsEpisodes(t *testing.T) {
	t.Parallel()
	const recurringSQL = `UPDATE tasktable.scheduled_tasks SET next_attempt_at = $1::timestamptz, planned_revision = revision
		WHERE id = 'nightly'`
	for name, c := range map[string]struct {
		event     rules.Event
		bad, good func(b *bench)
		told      string
		recovered string
	}{
		"late, put off": {
			event: rules.Late,
			bad: func(b *bench) {
				b.failing(nine, "one")
				b.rows(`UPDATE tasktable.scheduled_tasks SET waiting_since = next_attempt_at, waits = 7, message = 'host a is down',
					next_attempt_at = next_attempt_at + interval '1 hour' WHERE id = 'one'`)
			},
			good: func(b *bench) {
				b.rows(`UPDATE tasktable.scheduled_tasks SET waiting_since = NULL WHERE id = 'one'`)
			},
			told:      "watch late one: due since 2035-05-01 09:00:00 UTC and put off 7 times: host a is down",
			recovered: "watch recovered one: was late since 2035-05-01 09:06:00 UTC",
		},
		"late": {
			event: rules.Late,
			bad:   func(b *bench) { b.failing(nine, "one"); b.failing(nine.Add(time.Second), "two") },
			good: func(b *bench) {
				b.rows(`SELECT tasktable.cancel(id) FROM tasktable.scheduled_tasks WHERE id IN ('one', 'two')`)
			},
			told:      "watch late one: due since 2035-05-01 09:00:00 UTC and not claimed",
			recovered: "watch recovered one: was late since 2035-05-01 09:06:00 UTC",
		},
		"missed": {
			event: rules.Missed,
			bad:   func(b *bench) { b.rows(recurringSQL, nine) },
			good: func(b *bench) {
				b.rows(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = $1 WHERE id = 'nightly'`, nine.Add(time.Hour))
			},
			told:      "watch missed nightly: its fire of 2035-05-01 09:00:00 UTC has not happened",
			recovered: "watch recovered nightly: was missed since 2035-05-01 09:06:00 UTC",
		},
		"unsuccessful": {
			event: rules.Unsuccessful,
			bad:   func(*bench) {},
			good: func(b *bench) {
				b.rows(`INSERT INTO tasktable.scheduled_tasks (id, payload, parent_id, scheduled_at, status, finished_at)
					VALUES ('nightly@1', '{"type": "FAILING"}', 'nightly', $1::timestamptz, 'COMPLETED', $1::timestamptz)`, nine.Add(8*time.Minute))
			},
			told:      "watch unsuccessful nightly: no occurrence has completed since 2035-05-01 09:01:00 UTC",
			recovered: "watch recovered nightly: was unsuccessful since 2035-05-01 09:06:00 UTC",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			event := c.event
			rule := rules.Rule{Name: "watch", Events: []rules.Event{event, rules.Recovered}}
			b, _ := benchWith(t, notice.KindNtfy, rule)
			b.rule(rules.Rule{Name: "other", Events: []rules.Event{event}, Types: []string{"OTHER"}}, "")
			b.schedule(store.Task{ID: "nightly", At: nine.Add(-time.Hour), Payload: store.JSON(`{"type": "FAILING"}`),
				Recurrence: &store.Recurrence{Cron: "@daily"}})
			b.rows(`UPDATE tasktable.scheduled_tasks SET created_at = $1`, nine)
			b.watched(nine)
			c.bad(b)
			b.watched(nine.Add(4 * time.Minute))
			b.want("too early", b.rows(causesSQL))
			for minutes := range 3 {
				b.watched(nine.Add(time.Duration(6+minutes) * time.Minute))
			}
			b.want("bad", b.rows(causesSQL), c.told)
			c.good(b)
			b.watched(nine.Add(9 * time.Minute))
			b.watched(nine.Add(10 * time.Minute))
			b.want("good", b.rows(causesSQL), c.told, c.recovered)
			b.rows(`DELETE FROM tasktable.scheduled_tasks WHERE id = 'nightly'`)
			ran := b.run(nine.Add(11 * time.Minute))
			if len(ran) != 2 || ran[0].Note != "told ops: 1 "+map[rules.Event]string{
				rules.Late: "late", rules.Missed: "missed fires", rules.Unsuccessful: "without success"}[event] ||
				!strings.HasSuffix(ran[1].Note, " recovered") {
				t.Errorf("ran %+v", ran)
			}
		})
	}
}

// A pause is somebody's wish, and notices themselves are nobody's news.
func TestTheWatchLeavesOut(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"a paused type":   `SELECT tasktable.pause_scope('type', 'FAILING')`,
		"a paused queue":  `SELECT tasktable.pause_scope('queue', 'default')`,
		"everything":      `SELECT tasktable.pause_scope('all')`,
		"a disabled rule": `UPDATE tasktable.notice_rules SET enabled = false`,
		"another tenant":  `UPDATE tasktable.notice_rules SET tenants = '{acme}'`,
		"a notice":        `DELETE FROM tasktable.scheduled_tasks WHERE id = 'one'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, _ := benchWith(t, notice.KindNtfy, rules.Rule{Events: []rules.Event{rules.Late}})
			b.failing(nine, "one")
			b.schedule(store.Task{ID: "test", At: nine, Payload: contract.Notice{Recipient: "ops", Test: true}})
			b.rows(change)
			b.watched(nine.Add(time.Hour))
			b.want("causes", b.rows(causesSQL))
		})
	}
}

// The recurring task that the package asks for is valid, and runs.
func TestTheWatchRecurs(t *testing.T) {
	t.Parallel()
	b := newBench(t, newReceiver(t).target(notice.KindNtfy))
	made, err := notice.Variants(notice.Config{DB: b.tx})
	if err != nil {
		t.Fatal(err)
	}
	registry, err := handlers.NewRegistry(made...)
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range notice.Recurring() {
		if err := task.Check(); err != nil || registry.Variant(task.Payload.TaskType()) == nil {
			t.Errorf("%+v: %v", task, err)
		}
	}
}
