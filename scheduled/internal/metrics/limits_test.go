package metrics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// The due tasks that a limit holds back are counted, with the age of the oldest. A limit that holds back none has 0.
func TestLimitedTasksAreCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.surveyor()
	seen := &sight{at: time.Now()}
	shown := func() string {
		t.Helper()
		c.counts(t, seen)
		var shown []string
		c.config.Metrics.found.Load().collect(seen, func(name string, value float64, labels ...string) {
			if word, of := strings.CutPrefix(name, "limit_"); of && (word == "waiting" || word == "oldest_due_age_seconds") {
				shown = append(shown, fmt.Sprintf("%s %s %.0f", labels[0], word, value/10))
			}
		})
		return strings.Join(shown, ", ")
	}
	if got := shown(); got != "" {
		t.Errorf("without a limit: %s", got)
	}
	for _, name := range []string{"full", "free"} {
		if _, err := b.Tasks.SetLimit(t.Context(), b.Pool,
			store.Limit{Name: name, Of: store.Type(strings.ToUpper(name)), Rate: 1, Interval: time.Hour}); err != nil {
			t.Fatal(err)
		}
		seen.lanes.Limits = append(seen.lanes.Limits, taskdb.Limit{Name: name})
	}
	conn, err := b.Pool.Acquire(t.Context()) // the session of a live node holds its lock
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), `WITH node AS (
		INSERT INTO tasktable.nodes (service, version, host, types, queues)
		VALUES ('tests', '1', 'one', '{FULL}', '{"default": 5}') RETURNING number::int)
		SELECT pg_advisory_lock((class - CASE WHEN class >= 2147483648 THEN 4294967296 ELSE 0 END)::int, number)
		FROM node, tasktable.lock_class('node') AS class`); err != nil {
		t.Fatal(err)
	}
	b.Exec(`INSERT INTO tasktable.limit_buckets VALUES ('full', clock_timestamp() + interval '1 hour')`)
	b.Exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, scheduled_at)
		SELECT i, '{"type": "FULL"}', clock_timestamp() FROM generate_series(1, 20) AS i`)
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER`)
	b.Exec(`UPDATE tasktable.scheduled_tasks SET due_at = clock_timestamp() - interval '100 seconds' WHERE id = '7'`)
	want := "full waiting 2, full oldest_due_age_seconds 10, free waiting 0, free oldest_due_age_seconds 0"
	if got := shown(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
