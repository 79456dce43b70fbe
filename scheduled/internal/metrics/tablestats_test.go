package metrics

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/session"
)

// surveyor is the table statistics of a bench's database, taken step by step.
func (b *bench) surveyor() *TableStats {
	b.T.Helper()
	registered, err := handlers.NewRegistry(handlers.Func("JOB", func(context.Context) error { return nil }))
	b.OK(err)
	m := New(Config{Registerer: prometheus.NewPedanticRegistry(), Types: registered.Types()})
	b.Did(m.Register())
	return NewTableStats(TableStatsConfig{
		Housekeeping: session.NewHousekeeping(b.Pool), Statements: b.Queries, Metrics: m, Log: enginetest.Logger(),
	})
}

// Due tasks are counted by lane as far as it goes; an emptied lane is shown, empty, for a while.
func TestCensusCountsDue(t *testing.T) {
	b := newBench(t)
	c := b.surveyor()
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
		b.OK(err)
		var found tableCounts
		b.OK(c.read(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
			return c.countDue(ctx, tx, lanes, &found)
		}))
		return &found
	}
	want := map[laneLabels]int{
		{"default", "JOB", "0"}: 12, {"default", "JOB", "1"}: 13, {"default", "LATER", "0"}: 0,
		{"default", "TICK", firesPriority}: 1,
	}
	if found := count(); !maps.Equal(found.depth, want) || found.limit != countFirst/4 {
		t.Errorf("%v up to %d, want %v", found.depth, found.limit, want)
	}
	c.most = pg.NewSize(10, 10)
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

// A count that takes too long ends, and the next one is made.
func TestCensusLimit(t *testing.T) {
	b := newBench(t)
	c := b.surveyor()
	var after []dueRow
	b.OK(c.read(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		slow := counted(ctx, c, tx, "sleep", `SELECT pg_sleep(30)`, nil, func([]dueRow) { t.Error("it has rows") })
		if !pg.IsTimeout(slow) {
			t.Errorf("a statement that takes too long: %v", slow)
		}
		return counted(ctx, c, tx, "count on", `SELECT 7 AS tasks`, nil, func(rows []dueRow) { after = rows })
	}))
	if !slices.Equal(after, []dueRow{{7}}) {
		t.Errorf("the count after it: %v", after)
	}
	if left, err := pg.QueryOne[string](
		t.Context(), b.Pool, "ask", `SELECT current_setting('statement_timeout')`,
	); err != nil || left != "0" {
		t.Errorf("the limit stays: %s, %v", left, err)
	}
}

// Dead letters are counted without those that are archived, and those that are gone are shown as none.
func TestCensusCountsDead(t *testing.T) {
	b := newBench(t)
	c := b.surveyor()
	var found tableCounts
	count := func(want map[deadLabels]int) {
		t.Helper()
		b.OK(c.read(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
			return counted(ctx, c, tx, "count dead letters", CountDeadSQL, []any{maxDeadCounted}, func(rows []deadRow) {
				found.hasDead(rows, c.config.Metrics)
			})
		}))
		if !maps.Equal(found.dead, want) {
			t.Errorf("%v, want %v", found.dead, want)
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
	count(map[deadLabels]int{
		{"TYPE_0", "FAILED"}: 2, {"TYPE_1", "FAILED"}: 2, {"TYPE_0", "EXPIRED"}: 1, {"TYPE_1", "EXPIRED"}: 0,
	})
}

// What cannot be counted does not keep the rest from being counted.
func TestCensusFailsInPart(t *testing.T) {
	b := newBench(t)
	c := b.surveyor()
	b.OK(c.count(t.Context(), &sight{}))
	tx, err := b.Pool.Begin(t.Context())
	b.OK(err)
	b.Did(tx.Exec(t.Context(), `LOCK TABLE tasktable.river_job`))
	b.Exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, status) VALUES ('dead', '{"type":"JOB"}', 'FAILED')`)
	if err := c.count(t.Context(), &sight{}); !pg.IsTimeout(err) ||
		!strings.Contains(err.Error(), "count River's jobs") {
		t.Errorf("%v", err)
	}
	if dead := c.config.Metrics.found.Load().dead; dead[deadLabels{"JOB", "FAILED"}] != 1 {
		t.Errorf("%v", dead)
	}
	b.OK(tx.Rollback(t.Context()))
	b.OK(c.count(t.Context(), &sight{}))
	if jobs := c.config.Metrics.found.Load().jobs; len(jobs) < 8 {
		t.Errorf("%v", jobs)
	}
}
