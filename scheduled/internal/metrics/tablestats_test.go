package metrics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/store"
)

// surveyor is the table statistics of a bench's database, taken step by step.
func (b *bench) surveyor() (*TableStats, *prometheus.Registry) {
	b.T.Helper()
	registered, err := handlers.NewRegistry(handlers.Func("JOB", func(context.Context) error { return nil }))
	if err != nil {
		b.T.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	m := New(Config{Registerer: registry, Types: registered.Types()})
	if _, err := m.Register(); err != nil {
		b.T.Fatal(err)
	}
	c := NewTableStats(TableStatsConfig{Pool: b.Pool, Statements: b.Queries, Metrics: m, Log: enginetest.Logger()})
	return c, registry
}

// What is scheduled is counted once, when its transaction has ended: whatever others are open, in whatever order they
// end, and whether it was written in a savepoint. What was rolled back is not.
func TestCensusCountsScheduled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, registry := b.surveyor()
	in := func(tx pgx.Tx, ids ...string) {
		t.Helper()
		for _, id := range ids {
			if _, err := enginetest.Tasks.Schedule(t.Context(), tx, store.Task{
				ID: id, Payload: enginetest.Job{Name: id}, At: enginetest.Noon,
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	begin := func(from interface {
		Begin(ctx context.Context) (pgx.Tx, error)
	}) pgx.Tx {
		t.Helper()
		tx, err := from.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	end := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	b.Schedule(store.Task{Payload: enginetest.Job{Name: "before"}})
	var long, second pgx.Tx
	for _, step := range []struct {
		what string
		do   func()
		want string
	}{
		{"the first look is where it begins", func() {}, ""},
		{
			"one", func() { b.Schedule(store.Task{Payload: enginetest.Job{Name: "a"}, At: enginetest.Noon}) },
			"created JOB 1",
		},
		{"none", func() {}, "created JOB 1"},
		{"a transaction is open, others end", func() {
			long = begin(b.Pool)
			in(long, "long 1", "long 2")
			savepoint := begin(long)
			in(savepoint, "in a savepoint")
			end(savepoint.Commit(t.Context()))
			undone := begin(long)
			in(undone, "undone")
			end(undone.Rollback(t.Context()))
			b.Schedule(store.Task{Payload: enginetest.Job{Name: "b"}})
			second = begin(b.Pool)
			in(second, "second")
		}, "created JOB 2"},
		{"what is counted is counted once", func() {}, "created JOB 2"},
		{"a later one ends first", func() { end(second.Commit(t.Context())) }, "created JOB 3"},
		{"and is counted once", func() { b.Schedule(store.Task{Payload: enginetest.Job{Name: "c"}}) }, "created JOB 4"},
		{"it ends", func() { end(long.Commit(t.Context())) }, "created JOB 7"},
		{"one is rolled back", func() {
			tx := begin(b.Pool)
			in(tx, "rolled back")
			end(tx.Rollback(t.Context()))
		}, "created JOB 7"},
		{"verbs, and plain SQL", func() {
			b.Exec(`SELECT tasktable.reschedule('a', now() + interval '1 hour')`)
			b.Exec(`SELECT tasktable.cancel('a')`)
			b.Exec(`SELECT tasktable.pause('b')`)
			b.Schedule(store.Task{Payload: enginetest.Job{Name: "a"}})
			b.Exec(`INSERT INTO tasktable.scheduled_tasks (id, payload) SELECT 'sql ' || i, '{"type":"BY_SQL"}'
				FROM generate_series(1, 20) AS i`)
			b.Exec(`UPDATE tasktable.scheduled_tasks SET scheduled_at = now() + interval '2 hours' WHERE id = 'sql 1'`)
			b.Exec(`DELETE FROM tasktable.scheduled_tasks WHERE id = 'sql 1'`) // what type it was the line does not say
		}, "created BY_SQL 20, created JOB 7, rearmed JOB 1, rescheduled (other) 1, rescheduled JOB 1"},
		{"occurrences", func() {
			b.Exec(`SELECT tasktable.schedule_recurring('{"type":"TICK"}', '0 0 1 1 *', 'tick')`)
			b.Exec(`SELECT tasktable.fork_occurrence('tick', '2030-01-01Z'),
				tasktable.fork_occurrence('tick', '2031-01-01Z', 'not now')`)
		}, "created BY_SQL 20, created JOB 7, created TICK 2, rearmed JOB 1, rescheduled (other) 1, " +
			"rescheduled JOB 1, skipped TICK 1"},
	} {
		step.do()
		end(c.countScheduled(t.Context()))
		found := enginetest.Some(enginetest.Scraped(t, registry), "tasks_scheduled_total")
		var got []string
		for _, labels := range slices.Sorted(maps.Keys(found)) {
			got = append(got, fmt.Sprint(labels, " ", found[labels]))
		}
		if strings.Join(got, ", ") != step.want {
			t.Errorf("%s: %s, want %s", step.what, strings.Join(got, ", "), step.want)
		}
	}
}

// Lines of the last minute are remembered, so that one whose transaction commits late is still counted, once. Of very
// many lines only those since the last count are.
func TestChangeWindow(t *testing.T) {
	t.Parallel()
	w := changeWindow{marks: []changeMark{{enginetest.Noon, 10}}}
	text := func() string { return fmt.Sprint(w.marks[0].line, w.counted) }
	for i, step := range []struct {
		after time.Duration
		lines []int64
		want  string
	}{
		{15 * time.Second, []int64{12, 14}, "10 [12 14]"},
		{30 * time.Second, []int64{13, 20}, "10 [12 14 13 20]"}, // 13 was committed late
		{45 * time.Second, nil, "10 [12 14 13 20]"},
		{60 * time.Second, []int64{21}, "10 [12 14 13 20 21]"},
		{75 * time.Second, nil, "14 [20 21]"}, // 14 was seen a minute ago
		{90 * time.Second, nil, "20 [21]"},
		{time.Hour, nil, "21 []"},
		{time.Hour, nil, "21 []"},
	} {
		w.counted = append(w.counted, step.lines...)
		if w.advance(enginetest.Noon.Add(step.after)); text() != step.want {
			t.Errorf("step %d: %s, want %s", i, text(), step.want)
		}
	}
	for line := range int64(maxChangesCounted + 1) {
		w.counted = append(w.counted, 100+line)
	}
	if w.advance(enginetest.Noon.Add(time.Hour)); text() != fmt.Sprint(100+maxChangesCounted, []int64{}) {
		t.Errorf("with too many to remember: %.100s", text())
	}
}

// Due tasks are counted by lane as far as it goes; an emptied lane is shown, empty, for a while.
func TestCensusCountsDue(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, _ := b.surveyor()
	b.Exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, priority, scheduled_at)
		SELECT 'due ' || i, '{"type":"JOB"}', i % 2, now() - interval '1 minute' FROM generate_series(1, 25) AS i`)
	b.Exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, scheduled_at)
		VALUES ('later', '{"type":"JOB"}', now() + interval '1 hour'),
		('later too', '{"type":"LATER"}', now() + interval '1 hour')`)
	// Its first fire is to be planned.
	b.Exec(`SELECT tasktable.schedule_recurring('{"type":"TICK"}', '0 0 1 1 *', 'tick')`)
	count := func() *tableCounts {
		t.Helper()
		lanes, err := b.Lanes(t.Context(), b.Pool, nil)
		if err != nil {
			t.Fatal(err)
		}
		var found tableCounts
		if err := c.countDue(t.Context(), &Sight{lanes: lanes}, &found); err != nil {
			t.Fatal(err)
		}
		return &found
	}
	want := map[laneLabels]int{
		{"default", "JOB", "0"}: 12, {"default", "JOB", "1"}: 13, {"default", "LATER", "0"}: 0,
		{"default", "TICK", firesPriority}: 1,
	}
	if found := count(); !maps.Equal(found.depth, want) || found.limit != countFirst/4 {
		t.Errorf("%v up to %d, want %v", found.depth, found.limit, want)
	}
	c.most = 10
	want[laneLabels{"default", "JOB", "0"}], want[laneLabels{"default", "JOB", "1"}] = 10, 10
	if found := count(); !maps.Equal(found.depth, want) || found.limit != 10 {
		t.Errorf("%v up to %d, want %v", found.depth, found.limit, want)
	}
	b.Exec(`DELETE FROM tasktable.scheduled_tasks WHERE type IN ('JOB', 'TICK')`)
	for l := range want {
		want[l] = 0
	}
	if found := count(); !maps.Equal(found.depth, want) {
		t.Errorf("%v, want %v", found.depth, want)
	}
	c.lanes[laneLabels{"default", "TICK", firesPriority}] = time.Now().Add(-laneKept - time.Second)
	delete(want, laneLabels{"default", "TICK", firesPriority})
	if found := count(); !maps.Equal(found.depth, want) {
		t.Errorf("%v, want %v", found.depth, want)
	}
}

// How far is counted follows from how long it takes.
func TestCensusPace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, _ := b.surveyor()
	_, slow := counted[pagesRow](t.Context(), c, "sleep", `SELECT pg_sleep(30)`)
	if !pg.IsTimeout(slow) {
		t.Fatalf("a statement that takes too long: %v", slow)
	}
	if left, err := pg.QueryOne[string](
		t.Context(), b.Pool, "ask", `SELECT current_setting('statement_timeout')`,
	); err != nil || left != "0" {
		t.Errorf("the limit stays: %s, %v", left, err)
	}
	for _, step := range []struct {
		took time.Duration
		err  error
		want int
	}{
		{countQuick, nil, countFirst},
		{countSlow, nil, countFirst},
		{countSlow + 1, nil, countFirst / 2},
		{countQuick - 1, nil, countFirst},
		{0, slow, countFirst / 2},
		{0, context.Canceled, countFirst / 2},
		{countQuick - 1, nil, countFirst},
	} {
		if err := c.pace(step.took, step.err); c.most != step.want || err != step.err { //nolint:errorlint // the same
			t.Errorf("after %s, %v: %d, want %d", step.took, step.err, c.most, step.want)
		}
	}
	for range 100 {
		_ = c.pace(0, nil)
	}
	if c.most != maxCounted {
		t.Errorf("at most %d", c.most)
	}
	for range 100 {
		_ = c.pace(time.Minute, nil)
	}
	if c.most != 1000 {
		t.Errorf("at least %d", c.most)
	}
}

// Dead letters are counted page by page, and told when the table has been gone through.
func TestCensusCountsDead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, _ := b.surveyor()
	var found tableCounts
	count := func(want map[deadLabels]int) {
		t.Helper()
		if err := c.countDead(t.Context(), &found); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(found.dead, want) || c.walk.page != 0 {
			t.Errorf("%v, at page %d, want %v", found.dead, c.walk.page, want)
		}
	}
	count(map[deadLabels]int{})
	b.Exec(`INSERT INTO tasktable.scheduled_tasks (id, payload)
		SELECT 'task ' || i, jsonb_build_object('type', 'TYPE_' || i % 2) FROM generate_series(1, 20) AS i`)
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER`)
	b.Exec(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = NULL, finished_at = now(),
		status = CASE WHEN id < 'task 14' THEN 'FAILED' WHEN id < 'task 16' THEN 'EXPIRED' ELSE 'COMPLETED' END`)
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER`)
	count(map[deadLabels]int{
		{"TYPE_0", "FAILED"}: 2, {"TYPE_1", "FAILED"}: 3, {"TYPE_0", "EXPIRED"}: 1, {"TYPE_1", "EXPIRED"}: 1,
	})
	b.Exec(`SELECT tasktable.archive('task 1', 'seen'), tasktable.retry('task 15')`)
	c.walk = deadWalk{page: 1, sofar: map[deadLabels]int{{"TYPE_0", "FAILED"}: 5}} // nothing is beyond the first page
	count(map[deadLabels]int{
		{"TYPE_0", "FAILED"}: 5, {"TYPE_1", "FAILED"}: 0, {"TYPE_0", "EXPIRED"}: 0, {"TYPE_1", "EXPIRED"}: 0,
	})
	count(map[deadLabels]int{
		{"TYPE_0", "FAILED"}: 2, {"TYPE_1", "FAILED"}: 2, {"TYPE_0", "EXPIRED"}: 1, {"TYPE_1", "EXPIRED"}: 0,
	})
}

// What cannot be counted does not keep the rest from being counted.
func TestCensusFailsInPart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, registry := b.surveyor()
	settings := b.Pool.Config()
	settings.ConnConfig.RuntimeParams["lock_timeout"] = "500ms" // as the engine's pool has it
	var err error
	if c.config.Pool, err = pgxpool.NewWithConfig(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.config.Pool.Close)
	if err := c.count(t.Context(), &Sight{}); err != nil {
		t.Fatal(err)
	}
	tx, err := b.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `LOCK TABLE tasktable.scheduled_task_changes`); err != nil {
		t.Fatal(err)
	}
	b.Exec(`INSERT INTO tasktable.river_job (args, kind, queue, state, max_attempts, priority)
		VALUES ('{}', 'JOB', 'default', 'available', 1, 1)`)
	if err := c.count(t.Context(), &Sight{}); !pg.IsTimeout(err) ||
		!strings.Contains(err.Error(), "count scheduled tasks") {
		t.Errorf("%v", err)
	}
	if jobs := c.config.Metrics.found.Load().jobs; jobs["available"] != 1 || len(jobs) < 8 {
		t.Errorf("%v", jobs)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Schedule(store.Task{Payload: enginetest.Job{Name: "meanwhile"}})
	for range 2 { // it begins anew
		if err := c.count(t.Context(), &Sight{}); err != nil {
			t.Fatal(err)
		}
	}
	if found := enginetest.Some(enginetest.Scraped(t, registry), "tasks_scheduled_total"); len(found) != 0 {
		t.Errorf("%v", found)
	}
}

// A count waits while other housekeeping has the connection that is for all of it.
func TestCensusWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, _ := b.surveyor()
	c.config.Turns = session.NewTurns(2)
	leave, err := c.config.Turns.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := b.Pool.Stat().AcquireCount()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.count(ctx, &Sight{At: enginetest.Noon}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the count does not wait: %v", err)
	}
	if taken := b.Pool.Stat().AcquireCount() - before; taken != 0 {
		t.Errorf("the count took a connection %d times", taken)
	}
	leave()
	if err := c.count(t.Context(), &Sight{At: enginetest.Noon}); err != nil {
		t.Error(err)
	}
}
