package scheduled

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/fireplan"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// These take the checks of recurring tasks away, so that a task has what another release may have stored.
const (
	readsAllCronSQL = `CREATE OR REPLACE FUNCTION tasktable.cron_fault(cron text) RETURNS text
		LANGUAGE sql IMMUTABLE STRICT
		AS 'SELECT NULL::text'`
	knowsAllZonesSQL = `CREATE OR REPLACE FUNCTION tasktable.knows_time_zone(zone text) RETURNS boolean LANGUAGE sql
		AS 'SELECT true'`
)

// An expression or a zone that came by SQL and cannot be read fails its task, which says why, and no other.
func TestForkFailsWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.exec(readsAllCronSQL)
	b.exec(knowsAllZonesSQL)
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
		b.exec(`SELECT tasktable.schedule_recurring('{"type":"JOB","name":"bad"}',
			$1, $2, $3, $4)`, task.cron, id, task.zone, noon.Add(-time.Hour))
	}
	b.exec(`SELECT tasktable.schedule_recurring('{"type":"JOB","name":"good"}', '@hourly', 'good',
		'Europe/Berlin', $1)`, noon)
	if n := b.fires(noon.Add(-time.Second)); n != 1+len(bad) {
		t.Errorf("looked at %d", n)
	}
	for id, task := range bad {
		if got := b.family(id); !strings.HasPrefix(got, `FAILED count=0 finished=real message="invalid: `) ||
			!strings.Contains(got, task.why) || strings.Contains(got, "\n") {
			t.Errorf("%s: %s, want %s", id, got, task.why)
		}
	}
	b.recurs("the good one", "good", `QUEUED count=0 next=noon`)
	if n := b.fires(noon); n != 1 {
		t.Errorf("looked at %d: what has failed is left alone", n)
	}
	// Mended it begins again; retried as it is it fails again. Neither fires.
	b.exec(`SELECT tasktable.schedule_recurring('{"type":"JOB","name":"bad"}', '@hourly', 'nonsense', 'UTC', $1)`, noon)
	if receipt, err := tasks.Retry(t.Context(), b.pool, "never"); err != nil || receipt.Outcome != store.Queued {
		t.Errorf("retried: %+v, %v", receipt, err)
	}
	b.fires(noon.Add(-time.Second))
	b.recurs("mended", "nonsense", `QUEUED count=0 next=noon`)
	if got := b.family("never"); !strings.HasPrefix(got, "FAILED") {
		t.Errorf("retried: %s", got)
	}
}

// What others have locked, what is set aside, other lanes, what is paused, and what is due later is left as it is.
func TestForkLeavesAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"locked", "aside", "paused", "cancelled", "due"} {
		b.recur(id, "@hourly", noon, nil)
	}
	b.recur("later", "@daily", noon, nil)
	b.schedule(store.Task{Payload: job{"no recurring one"}, At: noon})
	for id, task := range map[string]store.Task{
		"another type":  {Payload: store.JSON(`{"type":"OTHER"}`)},
		"another queue": {Payload: job{"q"}, Queue: "bulk"},
	} {
		task.ID, task.At, task.Recurrence = id, noon, &store.Recurrence{Cron: "@hourly"}
		schedule(t, b.pool, task)
		b.exec(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = $1, planned_revision = revision
			WHERE id = $2`, noon, id)
	}
	if _, err := tasks.Pause(t.Context(), b.pool, "paused"); err != nil {
		t.Fatal(err)
	}
	if _, err := tasks.Cancel(t.Context(), b.pool, "cancelled"); err != nil {
		t.Fatal(err)
	}
	unlock := lock(t, b.pool, "locked")
	if n := b.fires(noon, "aside"); n != 1 {
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
		b.recurs("left alone", id, want)
	}
	b.expect("not for this statement", "no recurring one", `
		QUEUED rev=1 attempt=0 scheduled=noon next=noon
		1 schedule created by test`)
	unlock()
	if n := b.fires(noon); n != 2 {
		t.Errorf("looked at %d afterwards", n)
	}
}

// A fire whose occurrence exists, because somebody has made it, stays as it is; the task goes on.
func TestForkDoesNotDouble(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.recur("tick", "@hourly", noon, nil)
	b.exec(`SELECT tasktable.fork_occurrence('tick', $1, NULL, 'somebody')`, noon)
	b.end(noon, completed(b.take(noon)["tick@2030-01-01T12:00:00Z"]))
	before := stateOf(t, b.pool, "tick@2030-01-01T12:00:00Z")
	b.fires(noon)
	b.expect("as it was", "tick@2030-01-01T12:00:00Z", before)
	b.recurs("its parent", "tick", `
		QUEUED count=1 next=1h0m0s last=noon
		noon COMPLETED`)
	// Nor does a fire bring back what was skipped, or cancelled.
	b.exec(`SELECT tasktable.fork_occurrence('tick', $1, 'not needed')`, noon.Add(time.Hour))
	b.fires(noon.Add(time.Hour))
	b.recurs("its parent", "tick", `
		QUEUED count=2 next=2h0m0s last=1h0m0s
		noon COMPLETED
		1h0m0s SKIPPED not needed`)
}

// As many recurring tasks as are due fire, some hundreds a pass.
func TestForkMany(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.exec(`SELECT tasktable.schedule_recurring('{"type":"JOB","name":"one of many"}', '@hourly', 'tick ' || i, 'UTC',
		$1) FROM generate_series(1, 300) AS i`, noon)
	passes := func(now time.Time) (looked []int) {
		for range 10 {
			n := b.fires(now)
			if looked = append(looked, n); n == 0 {
				break
			}
		}
		return looked
	}
	if got := passes(noon.Add(-time.Minute)); fmt.Sprint(got) != "[200 100 0]" {
		t.Errorf("planned %v", got)
	}
	began := time.Now()
	if got := passes(noon); fmt.Sprint(got) != "[200 100 0]" {
		t.Errorf("fired %v", got)
	}
	t.Logf("300 tasks fired in %s", time.Since(began).Round(time.Millisecond))
	if n := len(b.take(noon)); n != 300 {
		t.Errorf("%d occurrences", n)
	}
	b.recurs("one of many", "tick 299", `
		QUEUED count=1 next=1h0m0s last=noon
		noon EXECUTING held`)
}

// A pass makes about a thousand occurrences; those of the tasks that are left come with the next.
func TestForkManyOccurrences(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.exec(`SELECT tasktable.schedule_recurring('{"type":"JOB","name":"one of many"}', '* * * * *', 'tick ' || i, 'UTC',
		$1, catch_up => 'all')
		FROM generate_series(10, 39) AS i`, noon)
	b.fires(noon.Add(-time.Minute))
	now := noon.Add(59 * time.Minute)
	for i, want := range []int{17, 13, 0} { // 17 × 60 is the first multiple from 1000 on
		if n := b.fires(now); n != want {
			t.Errorf("pass %d: looked at %d, want %d", i, n, want)
		}
	}
	for _, id := range []string{"tick 10", "tick 26", "tick 27", "tick 39"} {
		b.recurs("all", id, `
			QUEUED count=60 next=1h0m0s last=59m0s
			noon to 59m0s (60) QUEUED`)
	}
	// As many of one task as may be.
	b.recur("most", "* * * * * *", now, func(task *store.Task) {
		task.Recurrence.CatchUp, task.Recurrence.CatchUpLimit = store.CatchUpAll, store.MaxCatchUpLimit
	})
	began := time.Now()
	if n := b.fires(now.Add(24 * time.Hour)); n != 1 { // it is the first, and enough for a pass
		t.Errorf("looked at %d", n)
	}
	var made, skipped int
	if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE status = 'QUEUED'),
		count(*) FILTER (WHERE status = 'SKIPPED')
		FROM tasktable.scheduled_tasks WHERE parent_id = 'most'`).Scan(&made, &skipped); err != nil ||
		made != store.MaxCatchUpLimit || skipped != fireplan.MaxSkipped {
		t.Errorf("made %d, skipped %d, %v", made, skipped, err)
	}
	t.Logf("%d occurrences made in %s", made+skipped, time.Since(began).Round(time.Millisecond))
}

// To fork thousands takes longer than a session may be silent: each statement on the way counts as a sign of life.
func TestForkIsHeard(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := &session{start: time.Now().Add(-time.Hour)}
	b.recur("tick", "@hourly", noon, nil)
	b.inTx(func(tx pgx.Tx) {
		if _, err := tx.Exec(t.Context(), taskdb.EnterSQL); err != nil {
			t.Fatal(err)
		}
		if s.alive() {
			t.Error("alive, and nothing was heard")
		}
		if n, err := b.Fork(t.Context(), heardTx{tx, s}, &noon, []taskdb.Lane{forks}, taskdb.MaxForks); err != nil ||
			n != 1 ||
			!s.alive() {
			t.Errorf("looked at %d, %v; alive: %v", n, err, s.alive())
		}
	})
}

// The pass forks in the engine's name, and inside its transaction nothing of its context is lost to the verbs it uses.
func TestForkKeepsTheEnginesContext(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.recur("tick", "@hourly", noon.Add(-time.Hour), func(task *store.Task) {
		task.Recurrence.Overlap = store.OverlapCancelRunning
	})
	b.fires(noon.Add(-time.Hour))
	b.inTx(func(tx pgx.Tx) {
		var context string
		if _, err := tx.Exec(t.Context(), taskdb.EnterSQL); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Fork(t.Context(), tx, &noon, []taskdb.Lane{forks}, taskdb.MaxForks); err != nil {
			t.Fatal(err)
		}
		if err := tx.QueryRow(
			t.Context(), `SELECT current_setting('tasktable_change.context')`,
		).Scan(&context); err != nil || context != "engine" {
			t.Errorf("context %q, %v", context, err)
		}
	})
	var by string
	if err := b.pool.QueryRow(
		t.Context(),
		`SELECT changed_by FROM tasktable.scheduled_task_changes WHERE task_id = 'tick@2030-01-01T12:00:00Z'`,
	).Scan(&by); err != nil || by != "leader" {
		t.Errorf("forked by %q, %v", by, err)
	}
}
