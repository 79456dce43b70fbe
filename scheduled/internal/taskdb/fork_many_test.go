package taskdb_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/fireplan"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// An expression or a zone that came by SQL and cannot be read fails its task, which says why, and no other.
func TestForkFailsWhatCannotBeRead(t *testing.T) {
	b := newBench(t)
	b.Exec(enginetest.UncheckedRecurrencesSQL)
	bad := map[string]struct{ cron, zone, why string }{
		"nonsense":     {"nonsense", "UTC", "must be 5 fields"},
		"a panic":      {"TZ=0 * * * * *", "UTC", "must not name a zone"},
		"another":      {"CRON_TZ=x", "UTC", "must not name a zone"},
		"never":        {"0 0 30 2 *", "UTC", "must be able to fire"},
		"too often":    {"@every 1ms", "UTC", "@every must have a duration of whole seconds"},
		"out of time":  {"61 * * * *", "UTC", "minute 61 is not in 0-59"},
		"blanks":       {"     ", "UTC", "must be 5 fields"},
		"no such zone": {"@hourly", "Nowhere/Else", "time_zone must be an IANA zone"},
		"local":        {"@hourly", "Local", "time_zone must be an IANA zone"},
	}
	for id, task := range bad {
		b.Exec(`SELECT tasktable.schedule_recurring('{"type":"JOB","name":"bad"}',
			$1, $2, $3, $4)`, task.cron, id, task.zone, noon.Add(-time.Hour))
	}
	b.Exec(`SELECT tasktable.schedule_recurring('{"type":"JOB","name":"good"}', '@hourly', 'good',
		'Europe/Berlin', $1)`, noon)
	if n := b.Fires(noon.Add(-time.Second)); n != 1+len(bad) {
		t.Errorf("looked at %d", n)
	}
	for id, task := range bad {
		if got := b.Family(id); !strings.HasPrefix(got, `FAILED count=0 finished=real message="invalid: `) ||
			!strings.Contains(got, task.why) || strings.Contains(got, "\n") {
			t.Errorf("%s: %s, want %s", id, got, task.why)
		}
	}
	b.Recurs("the good one", "good", `QUEUED count=0 next=noon`)
	if n := b.Fires(noon); n != 1 {
		t.Errorf("looked at %d: what has failed is left alone", n)
	}
	// Mended it begins again; retried as it is it fails again. Neither fires.
	b.Exec(
		`SELECT tasktable.schedule_recurring('{"type":"JOB","name":"bad"}', '@hourly', 'nonsense', 'UTC', $1)`,
		noon,
	)
	if receipt, err := enginetest.Tasks.Retry(t.Context(), b.Pool, "never"); err != nil ||
		receipt.Outcome != store.Queued {
		t.Errorf("retried: %+v, %v", receipt, err)
	}
	b.Fires(noon.Add(-time.Second))
	b.Recurs("mended", "nonsense", `QUEUED count=0 next=noon`)
	if got := b.Family("never"); !strings.HasPrefix(got, "FAILED") {
		t.Errorf("retried: %s", got)
	}
}

// What others have locked, what is set aside, other lanes, what is paused, and what is due later is left as it is.
func TestForkLeavesAlone(t *testing.T) {
	b := newBench(t)
	for _, id := range []string{"locked", "aside", "paused", "cancelled", "due"} {
		b.Recur(id, "@hourly", noon, nil)
	}
	b.Recur("later", "@daily", noon, nil)
	b.Due("no recurring one")
	for id, task := range map[string]store.Task{
		"another type":  {Payload: store.JSON(`{"type":"OTHER"}`)},
		"another queue": {Payload: job{Name: "q"}, Queue: "bulk"},
	} {
		task.ID, task.At, task.Recurrence = id, noon, &store.Recurrence{Cron: "@hourly"}
		enginetest.Schedule(t, b.Pool, task)
		b.Exec(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = $1, planned_revision = revision
			WHERE id = $2`, noon, id)
	}
	b.Did(enginetest.Tasks.Pause(t.Context(), b.Pool, "paused"))
	b.Did(enginetest.Tasks.Cancel(t.Context(), b.Pool, "cancelled"))
	unlock := enginetest.Lock(t, b.Pool, "locked")
	if n := b.Fires(noon, "aside"); n != 1 {
		t.Errorf("looked at %d", n)
	}
	for id, want := range map[string]string{
		"due":           "QUEUED count=1 next=1h0m0s last=noon\nnoon QUEUED",
		"locked":        "QUEUED count=0 next=noon",
		"aside":         "QUEUED count=0 next=noon",
		"another type":  "QUEUED count=0 next=noon",
		"another queue": "QUEUED count=0 next=noon",
		"later":         "QUEUED count=0 next=12h0m0s",
		"paused":        "PAUSED count=0 unplanned",
		"cancelled":     "CANCELLED count=0 finished=real unplanned",
	} {
		b.Recurs("left alone", id, want)
	}
	b.Expect("not for this statement", "no recurring one", `
		QUEUED rev=1 attempt=0 scheduled=noon next=noon
		1 schedule created by test`)
	unlock()
	if n := b.Fires(noon); n != 2 {
		t.Errorf("looked at %d afterwards", n)
	}
}

// A fire whose occurrence exists, because somebody has made it, stays as it is; the task goes on.
func TestForkDoesNotDouble(t *testing.T) {
	b := newBench(t)
	b.Recur("tick", "@hourly", noon, nil)
	b.Exec(`SELECT tasktable.fork_occurrence('tick', $1, NULL, 'somebody')`, noon)
	b.End(noon, enginetest.Completed(b.Take(noon)["tick@2030-01-01T12:00:00Z"]))
	before := enginetest.StateOf(t, b.Pool, "tick@2030-01-01T12:00:00Z")
	b.Fires(noon)
	b.Expect("as it was", "tick@2030-01-01T12:00:00Z", before)
	b.Recurs("its parent", "tick", `
		QUEUED count=1 next=1h0m0s last=noon
		noon COMPLETED`)
	// Nor does a fire bring back what was skipped, or cancelled.
	b.Exec(`SELECT tasktable.fork_occurrence('tick', $1, 'not needed')`, noon.Add(time.Hour))
	b.Fires(noon.Add(time.Hour))
	b.Recurs("its parent", "tick", `
		QUEUED count=2 next=2h0m0s last=1h0m0s
		noon COMPLETED
		1h0m0s SKIPPED not needed`)
}

// As many recurring tasks as are due fire, some hundreds a pass.
func TestForkMany(t *testing.T) {
	b := newBench(t)
	b.Exec(`SELECT tasktable.schedule_recurring('{"type":"JOB","name":"one of many"}', '@hourly', 'tick ' || i, 'UTC',
		$1) FROM generate_series(1, 300) AS i`, noon)
	passes := func(now time.Time) (looked []int) {
		for range 10 {
			n := b.Fires(now)
			if looked = append(looked, n); n == 0 {
				break
			}
		}
		return looked
	}
	// A pass may look at fewer than 200, because it computes for a fifth of a second at most.
	check := func(what string, looked []int) {
		sum := 0
		for _, n := range looked {
			sum += n
		}
		if sum != 300 || slices.Max(looked) > 200 || looked[len(looked)-1] != 0 {
			t.Errorf("%s %v", what, looked)
		}
	}
	check("planned", passes(noon.Add(-time.Minute)))
	began := time.Now()
	check("fired", passes(noon))
	t.Logf("300 tasks fired in %s", time.Since(began).Round(time.Millisecond))
	if n := len(b.Take(noon)); n != 300 {
		t.Errorf("%d occurrences", n)
	}
	b.Recurs("one of many", "tick 299", `
		QUEUED count=1 next=1h0m0s last=noon
		noon EXECUTING held`)
}

// More tasks than a pass looks at, which somebody has locked, do not keep the one behind them from firing.
func TestForkStepsOverLocked(t *testing.T) {
	b := newBench(t)
	b.Exec(`SELECT tasktable.schedule_recurring('{"type":"JOB","name":"one of many"}', '@hourly', 'tick ' || i, 'UTC',
		$1) FROM generate_series(1, $2) AS i`, noon, taskdb.MaxForks+50)
	b.Exec(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = $1, planned_revision = revision`, noon)
	b.Recur("free", "@hourly", noon.Add(time.Minute), nil)
	b.InTx(func(tx pgx.Tx) {
		b.Did(tx.Exec(
			t.Context(), `SELECT FROM tasktable.scheduled_tasks WHERE id <> 'free' FOR UPDATE`,
		))
		if n := b.Fires(noon.Add(time.Hour)); n != 1 {
			t.Errorf("looked at %d", n)
		}
	})
	b.Recurs("the free one", "free", `
		QUEUED count=1 next=2h0m0s last=1h0m0s
		1h0m0s QUEUED`)
}

// A pass makes some hundreds of occurrences. Those that are left come with the next passes, also those of one task.
func TestForkManyOccurrences(t *testing.T) {
	b := newBench(t)
	b.Exec(`SELECT tasktable.schedule_recurring('{"type":"JOB","name":"one of many"}', '* * * * *', 'tick ' || i, 'UTC',
		$1, catch_up => 'all')
		FROM generate_series(10, 22) AS i`, noon)
	b.Fires(noon.Add(-time.Minute))
	now := noon.Add(59 * time.Minute)
	for i, want := range []int{8, 5, 0} { // 8 × 60 is the last multiple below 500
		if n := b.Fires(now); n != want {
			t.Errorf("pass %d: looked at %d, want %d", i, n, want)
		}
	}
	for _, id := range []string{"tick 10", "tick 17", "tick 18", "tick 22"} {
		b.Recurs("all", id, `
			QUEUED count=60 next=1h0m0s last=59m0s
			noon to 59m0s (60) QUEUED`)
	}
	later := now.Add(24 * time.Hour)
	for _, test := range []struct {
		overlap    store.Overlap
		afterwards string
	}{
		{store.OverlapSkip, "QUEUED 1000, SKIPPED 101"},
		{store.OverlapCancelRunning, "CANCELLED 1000, QUEUED 1, SKIPPED 100"},
	} {
		b.Exec(`SELECT tasktable.cancel(t.id) FROM tasktable.scheduled_tasks AS t WHERE t.cron IS NOT NULL`)
		id := string(test.overlap)
		b.Recur(id, "* * * * * *", now, func(task *store.Task) {
			task.Recurrence.CatchUp, task.Recurrence.CatchUpLimit = store.CatchUpAll, 2*taskdb.MaxFires
			task.Recurrence.Overlap = test.overlap
		})
		occurrences := func() (n int, states string) {
			b.OK(b.Pool.QueryRow(t.Context(), `SELECT coalesce(sum(one.n), 0)::int,
				coalesce(string_agg(one.status || ' ' || one.n, ', ' ORDER BY one.status), '')
				FROM (SELECT t.status, count(*) AS n FROM tasktable.scheduled_tasks AS t WHERE t.parent_id = $1
				GROUP BY t.status) AS one`, id).Scan(&n, &states))
			return n, states
		}
		for i, want := range []int{taskdb.MaxFires, taskdb.MaxFires, fireplan.MaxSkipped, 0} {
			before, _ := occurrences()
			b.Fires(later)
			if after, _ := occurrences(); after-before != want {
				t.Errorf("%s: pass %d made %d occurrences, want %d", id, i, after-before, want)
			}
		}
		if _, states := occurrences(); states != "QUEUED 1000, SKIPPED 100" {
			t.Errorf("%s: %s", id, states)
		}
		b.Fires(later.Add(time.Second)) // for this fire all of them are earlier occurrences
		if _, states := occurrences(); states != test.afterwards {
			t.Errorf("%s: %s a fire later", id, states)
		}
	}
}

// The pass forks in the engine's name, and inside its transaction nothing of its context is lost to the verbs it uses.
func TestForkKeepsTheEnginesContext(t *testing.T) {
	b := newBench(t)
	b.Recur("tick", "@hourly", noon.Add(-time.Hour), func(task *store.Task) {
		task.Recurrence.Overlap = store.OverlapCancelRunning
	})
	b.Fires(noon.Add(-time.Hour))
	b.InTx(func(tx pgx.Tx) {
		var context string
		b.Did(tx.Exec(t.Context(), taskdb.EnterSQL))
		b.Did(b.Fork(t.Context(), tx, &noon, []taskdb.Lane{enginetest.Forks}, taskdb.MaxFires))
		if err := tx.QueryRow(
			t.Context(), `SELECT current_setting('tasktable_change.context')`,
		).Scan(&context); err != nil || context != "engine" {
			t.Errorf("context %q, %v", context, err)
		}
	})
	var by string
	if err := b.Pool.QueryRow(
		t.Context(),
		`SELECT changed_by FROM tasktable.scheduled_task_changes WHERE task_id = 'tick@2030-01-01T12:00:00Z'`,
	).Scan(&by); err != nil || by != "leader" {
		t.Errorf("forked by %q, %v", by, err)
	}
}
