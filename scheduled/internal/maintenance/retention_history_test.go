package maintenance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// Of a task that lives on, the history that is too old is removed, by the task's own period, its type's or the
// default; of one that was deleted the executions by their type, the changes by the longest period of all.
func TestRetainHistory(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		retention  time.Duration
		byType     map[string]time.Duration
		own        time.Duration
		executions string // of the living one, then of the deleted one: their ages in days
		changes    string
	}{
		{"default", 90 * day, nil, 0, "[89]; [89]", "[89]; [89]"},
		{"its own", 90 * day, nil, 10 * day, "[]; [89]", "[]; [89]"},
		{"its own, longer", 10 * day, nil, 1000 * day, "[500 91 89]; []", "[500 91 89]; []"},
		{"its type's", 90 * day, map[string]time.Duration{"JOB": 10 * day}, 0, "[]; []", "[]; [89]"},
		{"another type's, longer", 10 * day, map[string]time.Duration{"LOG": 90 * day}, 0, "[]; []", "[]; [89]"},
		{
			"its type's, for ever", 10 * day, map[string]time.Duration{"JOB": -1}, 0, "[500 91 89]; [500 91 89]",
			"[500 91 89]; [500 91 89]",
		},
		{"for ever", -1, nil, 0, "[500 91 89]; [500 91 89]", "[500 91 89]; [500 91 89]"},
	} {
		b := benchOf(t)
		for _, id := range []string{"lives", "deleted"} {
			enginetest.Schedule(t, b.Pool, store.Task{ID: id, Payload: job{Name: id}, At: noon, Retention: test.own})
			for _, age := range []int{500, 91, 89} {
				at := noon.AddDate(0, 0, -age)
				b.Exec(`INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt,
					scheduled_at, finished_at, outcome, error)
					VALUES (nextval('tasktable.task_numbers'), $1, 'JOB', 1, 1, $2, $2,
						'COMPLETED', $3)`, id, at, fmt.Sprint(age))
				b.Exec(`INSERT INTO tasktable.scheduled_task_changes (revision, task_id, verb, outcome,
					changed_at, changed_by)
					VALUES (nextval('tasktable.task_numbers'), $1, 'schedule',
						'rescheduled', $2, $3)`, id, at, fmt.Sprint(age))
			}
		}
		b.Did(enginetest.Tasks.Delete(t.Context(), b.Pool, "deleted"))
		b.retain(b.retainerOf(test.retention, test.byType), noon)
		list := func(table, column string) string {
			var text []string
			for _, id := range []string{"lives", "deleted"} {
				ages := []string{}
				b.OK(b.Pool.QueryRow(
					t.Context(),
					`SELECT coalesce(array_agg(`+column+`), '{}') FROM tasktable.`+table+` WHERE task_id = $1 AND `+
						column+` <> 'test'`,
					id,
				).Scan(&ages))
				slices.SortFunc(ages, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(b, a)) })
				text = append(text, fmt.Sprint(ages))
			}
			return strings.Join(text, "; ")
		}
		if got := list("scheduled_task_executions", "error"); got != test.executions {
			t.Errorf("%s: executions %s, want %s", test.name, got, test.executions)
		}
		if got := list("scheduled_task_changes", "changed_by"); got != test.changes {
			t.Errorf("%s: changes %s, want %s", test.name, got, test.changes)
		}
	}
}

// Nodes and pauses that are over are kept as long as the history, and at least thirty days; those that live
// and hold, for ever.
func TestRetainNodesAndPauses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		retention time.Duration
		left      string
	}{
		{"90 days", 90 * day, "0 29 31 89"},
		{"a minute", time.Minute, "0 29"},
		{"31 days", 31 * day, "0 29 31"},
		{"for ever", -1, "0 29 31 89 91"},
	} {
		b := benchOf(t)
		for _, age := range []int{0, 29, 31, 89, 91} {
			var over *time.Time
			if age > 0 {
				over = new(noon.AddDate(0, 0, -age))
			}
			b.Exec(`INSERT INTO tasktable.nodes (number, service, version, host, queues, types,
				dead_at) OVERRIDING SYSTEM VALUE VALUES ($1, 'test', '', '', '{}', '{}', $2)`, age, over)
			b.Exec(`INSERT INTO tasktable.pauses (scope, name, ends_at)
				VALUES ('queue', $1, $2)`, fmt.Sprint(age), over)
		}
		removed, _ := b.retain(b.retainerOf(test.retention, nil), noon)
		for table, column := range map[string]string{"nodes": "number::text", "pauses": "name"} {
			var left []string
			b.OK(b.Pool.QueryRow(
				t.Context(), `SELECT array_agg(`+column+` ORDER BY `+column+`) FROM tasktable.`+table,
			).Scan(&left))
			if got := strings.Join(left, " "); got != test.left {
				t.Errorf("%s: left of %s are %s, want %s", test.name, table, got, test.left)
			}
		}
		if want := 2 * (5 - len(strings.Fields(test.left))); removed != int64(want) {
			t.Errorf("%s: %d rows removed, want %d", test.name, removed, want)
		}
	}
}

// A large table is gone through in several batches, each of which goes on where the one before it stopped.
func TestRetainGoesOn(t *testing.T) {
	t.Parallel()
	type batch struct {
		removed int64
		next    Place
	}
	for pages, want := range map[int][]batch{
		// Each task has a line of history, which goes with it; 500 lines are of tasks that are gone. The other
		// tables are small.
		4500: {
			{2 * 2000, Place{0, 2000}}, {2 * 2000, Place{0, 4000}},
			{2 * 500, Place{table: 1}}, {500, Place{table: 2}}, {0, Place{}},
		},
		2001: {
			{2 * 2000, Place{0, 2000}}, {2, Place{table: 1}}, {500, Place{table: 2}}, {0, Place{}},
		},
		2000: {{2 * 2000, Place{table: 1}}, {500, Place{table: 2}}, {0, Place{}}},
	} {
		b := benchOf(t)
		// A page a row, so that batches have an end.
		b.Exec(`ALTER TABLE tasktable.scheduled_tasks ALTER COLUMN message SET STORAGE PLAIN, DISABLE TRIGGER USER`)
		b.Exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, revision, status, finished_at, message)
			SELECT 'task ' || i, '{"type":"JOB"}', 'JOB', i, 'COMPLETED', $1::timestamptz, repeat('x', 5000)
				FROM generate_series(1, $2::int) AS i`, noon.Add(-time.Hour), pages)
		b.Exec(`INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt, scheduled_at,
			finished_at, outcome)
			SELECT i, 'task ' || i, 'JOB', i, 1, now(), $1::timestamptz, 'COMPLETED'
				FROM generate_series(1, $2::int + 500) AS i`, noon.Add(-time.Hour), pages)
		r := b.retainerOf(time.Minute, nil)
		step := func(at Place) (done batch) {
			t.Helper()
			b.InTx(func(tx pgx.Tx) {
				next, removed, err := r.step(t.Context(), tx, &noon, at)
				b.OK(err)
				done = batch{removed.Rows, next}
			})
			return done
		}
		// A place beyond the end, as of a table that has become smaller meanwhile, is the end of that table.
		if got := step(Place{2, 99999}); got != (batch{}) {
			t.Errorf("%d pages, beyond the end: %+v", pages, got)
		}
		var at Place
		for i, want := range want {
			got := step(at)
			if got != want {
				t.Errorf("%d pages, batch %d: %+v, want %+v", pages, i, got, want)
			}
			at = got.next
		}
		if got := b.left(); got != "; ; " {
			t.Errorf("left are %.100s", got)
		}
	}
}

// A period of months is as long as its days, whatever the clocks do; and no text of a type's name is more than a name.
func TestRetainByOddTypes(t *testing.T) {
	b := newBench(t)
	b.old("odd", "A/B.c:d+e[f]<g>-_", 10*day, nil)
	b.old("plain", "JOB", 10*day, nil)
	b.retain(b.retainerOf(store.MaxRetention, map[string]time.Duration{"A/B.c:d+e[f]<g>-_": day}), noon)
	if got := b.left(); got != "plain; plain; plain" {
		t.Errorf("left are %s", got)
	}
}
