package metrics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// recurs makes a recurring task of each hour that was scheduled five hours ago, with occurrences that ended in turn,
// the last one an hour ago.
func (b *bench) recurs(id string, statuses ...string) {
	b.T.Helper()
	b.Recur(id, "@every 1h", time.Now().Add(-5*time.Hour-2*time.Minute), nil)
	b.Exec(`ALTER TABLE tasktable.scheduled_task_changes DISABLE TRIGGER USER`)
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER`)
	b.Exec(`UPDATE tasktable.scheduled_task_changes SET changed_at = changed_at - interval '6 hours'
		WHERE task_id = $1`, id)
	b.Exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, revision, parent_id, status, scheduled_at,
		finished_at) SELECT $1 || '@' || i, '{"type": "JOB"}', 'JOB', i, $1, s, f.at, f.at
		FROM unnest($2::text[]) WITH ORDINALITY AS o (s, i) CROSS JOIN LATERAL (
			SELECT clock_timestamp() - (cardinality($2::text[]) - i + 1) * interval '1 hour' AS at) AS f`, id, statuses)
	b.Exec(`ALTER TABLE tasktable.scheduled_task_changes ENABLE TRIGGER USER`)
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER`)
}

// recurringShownIn lists the series of recurring tasks: failures in a row, intervals without a success, and hours
// since the last success.
func recurringShownIn(t *testing.T, m *Metrics, seen *sight) string {
	t.Helper()
	words := map[string]string{"recurring_failures_in_a_row": "failed",
		"recurring_intervals_without_success": "missed", "recurring_last_success_timestamp_seconds": "succeeded"}
	var shown []string
	m.found.Load().collect(seen, func(name string, value float64, labels ...string) {
		if words[name] == "succeeded" {
			value = time.Since(time.Unix(int64(value), 0)).Round(time.Hour).Hours()
		}
		if word, ok := words[name]; ok {
			shown = append(shown, fmt.Sprintf("%s %s %g", labels[0], word, value))
		}
	})
	return strings.Join(shown, ", ")
}

func TestRecurringHealthIsShown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.surveyor()
	b.recurs("a never fired")
	b.recurs("b well", "FAILED", "COMPLETED")
	b.recurs("c fails", "COMPLETED", "FAILED", "FAILED")
	b.recurs("d paused", "COMPLETED", "FAILED", "FAILED")
	b.Recur("e new", "@every 1h", time.Time{}, nil)
	b.Exec(`UPDATE tasktable.scheduled_tasks SET declared_by = 'shop' WHERE id = 'e new'`)
	b.Exec(`SELECT tasktable.pause('d paused')`)
	seen := &sight{at: time.Now()}
	c.counts(t, seen)
	// What is declared in code comes first.
	want := "e new failed 0, e new missed 0, a never fired failed 0, a never fired missed 3, " +
		"b well succeeded 1, b well failed 0, b well missed 0, c fails succeeded 3, c fails failed 2, c fails missed 2"
	if got := recurringShownIn(t, c.config.Metrics, seen); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	seen.lanes.Paused = []taskdb.Pause{{Scope: "queue", Name: "default", PausedAt: time.Now()}}
	c.counts(t, seen)
	if got := recurringShownIn(t, c.config.Metrics, seen); strings.Contains(got, "missed") ||
		!strings.Contains(got, "c fails failed 2") {
		t.Errorf("while its queue is paused: %s", got)
	}
}

// However many recurring tasks there are, 500 have series, and those that are declared in code are among them.
func TestRecurringSeriesAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.surveyor()
	b.recurMany(600)
	b.Exec(`UPDATE tasktable.scheduled_tasks SET declared_by = 'shop' WHERE id = 'r600'`)
	seen := &sight{at: time.Now()}
	c.counts(t, seen)
	got := recurringShownIn(t, c.config.Metrics, seen)
	if n := strings.Count(got, "failed"); n != maxRecurringSeries || !strings.HasPrefix(got, "r600 ") {
		t.Errorf("%d series: %.200s", n, got)
	}
}

// recurMany schedules recurring tasks r1, r2 and so on.
func (b *bench) recurMany(n int) {
	b.T.Helper()
	tasks := make([]store.Task, n)
	for i := range tasks {
		tasks[i] = store.Cron("JOB", "@daily")
		tasks[i].ID = fmt.Sprintf("r%d", i+1)
	}
	b.Schedule(tasks...)
}
