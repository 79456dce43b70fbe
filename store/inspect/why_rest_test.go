package inspect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// Ends of tasks that never began, and of recurring ones.
func TestWhyOfEndsWithoutAnAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Node(`{"default": 3}`, `{TEST}`, true)
	end := func(id, status, message string) {
		t.Helper()
		b.AsEngine(func(tx pgx.Tx) {
			b.Exec(tx, `UPDATE tasktable.scheduled_tasks
				SET status = $2, message = $3, next_attempt_at = NULL, finished_at = clock_timestamp(),
				last_status_update = clock_timestamp() WHERE id = $1`, id, status, message)
		})
	}
	b.due("unreadable", nil)
	end("unreadable", "FAILED", "its payload cannot be read")
	b.because("unreadable", "failed", "failed for good before its first attempt at T: its payload cannot be read")
	for _, id := range []string{"broken", "over"} {
		b.Schedule(store.Task{ID: id, Payload: payload(1), At: far(0), Recurrence: &store.Recurrence{Cron: "@hourly"}})
	}
	end("broken", "FAILED", "no time zone Mars/Base")
	b.because("broken", "failed", "its next fire cannot be planned at T: no time zone Mars/Base")
	end("over", "COMPLETED", "its last fire was at noon")
	b.because("over", "completed", "this recurring task has ended at T: its last fire was at noon")
	past := b.Now().UTC().Truncate(time.Hour)
	b.Schedule(store.Task{
		ID: "tick", Payload: payload(1), At: past.Add(-24 * time.Hour), Recurrence: &store.Recurrence{Cron: "@hourly"},
	})
	b.because("tick@"+past.Format(time.RFC3339), "no_fire",
		"recurring task tick did not fire for that time: it had another schedule then, was paused, "+
			"or its occurrence was removed")
}

// A follow-up that has just run is put off for a second, and the story says so: as long as it waits, and after it has
// begun.
func TestWhyTellsThatAFollowUpWasPutOff(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"at once", "later", "begun", "jittered", "no follow-up"} {
		b.Schedule(store.Task{ID: id, Payload: payload(1), At: far(0)})
		spawnedBy := "first"
		if id == "no follow-up" {
			spawnedBy = ""
		}
		next := far(0)
		if id != "at once" {
			next = next.Add(900 * time.Millisecond)
		}
		b.AsEngine(func(tx pgx.Tx) {
			b.Exec(tx, `UPDATE tasktable.scheduled_tasks SET spawned_by = nullif($2, ''), next_attempt_at = $3
				WHERE id = $1`, id, spawnedBy, next)
			if id == "jittered" {
				b.Exec(tx, `UPDATE tasktable.scheduled_tasks SET jitter = '1 second' WHERE id = $1`, id)
			}
			if id == "begun" {
				b.Exec(tx, `INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt,
					scheduled_at, due_at, started_at,
					finished_at, outcome) SELECT 101, id, type, revision, 1, scheduled_at, $2, $2, $2, 'RETRIED'
					FROM tasktable.scheduled_tasks WHERE id = $1`,
					id, next)
				b.Exec(tx, `UPDATE tasktable.scheduled_tasks SET attempt = 1, next_attempt_at = $2
					WHERE id = $1`, id, far(1))
			}
		})
	}
	for id, want := range map[string]bool{
		"at once": false, "later": true, "begun": true, "jittered": false, "no follow-up": false,
	} {
		found := slices.ContainsFunc(b.why(id).Story, func(line inspect.StoryLine) bool {
			return line.Kind == "due" && line.Text == "put off for 900ms, because it had started within the last second"
		})
		if found != want {
			t.Errorf("%s: the story is %+v", id, b.why(id).Story)
		}
	}
}

// Of a task that has not ended, what follows its death is told, at most three tasks by name.
func TestWhyTellsWhatADeathSchedules(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	child := store.Task{Payload: payload(2)}
	b.Schedule(store.Task{ID: "one", Payload: payload(1), At: far(0), IfDead: []store.Task{
		{ID: "undo", Payload: payload(2)}, child, child, child, child}})
	const want = "if it becomes FAILED or EXPIRED, it schedules undo (TEST), one/dead/2 (TEST), one/dead/3 (TEST), 2 others"
	told := func() bool {
		return slices.ContainsFunc(b.why("one").Next, func(next inspect.Upcoming) bool { return next.Text == want })
	}
	if !told() {
		t.Errorf("next is %+v", b.why("one").Next)
	}
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET status = 'FAILED' WHERE id = 'one'`)
	if told() {
		t.Errorf("next of the dead task is %+v", b.why("one").Next)
	}
}

// A node writes down that a handler runs when it has run for a second. A claim that a node has for
// longer has not begun.
func TestWhyOfAClaimThatHasNotBegun(t *testing.T) {
	t.Parallel()
	for since, want := range map[time.Duration]string{
		time.Second: "attempt 1 of 10 is with node 9",
		time.Minute: "attempt 1 of 10 is with node 9, and is not known to have begun: " +
			"it probably waits there for a slot, a connection or a lock",
	} {
		b := newBench(t)
		b.due("one", nil)
		b.AsEngine(func(tx pgx.Tx) {
			b.Exec(tx, `UPDATE tasktable.scheduled_tasks
				SET status = 'EXECUTING', attempt = 1, fence = 77, next_attempt_at = NULL,
				lease_expires_at = clock_timestamp() + interval '1 hour' WHERE id = 'one'`)
		})
		b.Exec(b.Pool, `INSERT INTO tasktable.river_job (state, kind, args, max_attempts, attempted_at, attempted_by)
			VALUES ('running', 'TEST', '{"tasks": "77:1:1:0:3:one"}', 1, clock_timestamp() - $1::interval,
				'{"tasktable-9"}')`, since)
		if e := b.why("one"); e.Reason.Code != "running" || e.Reason.Text != want {
			t.Errorf("after %s: %s: %q", since, e.Reason.Code, e.Reason.Text)
		}
	}
}

// A claim comes before its fetch, even if the leader's guess of the database's clock was ahead.
func TestWhyTellsAClaimBeforeItsFetch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.due("one", nil)
	b.Exec(b.Pool, `INSERT INTO tasktable.river_job (state, kind, args, max_attempts, created_at, attempted_at,
			attempted_by)
		SELECT 'running', 'TEST', '{"tasks": "77:1:1:0:3:one"}', 1, now + interval '3 ms', now, '{"tasktable-9"}'
		FROM clock_timestamp() AS now`)
	b.AsEngine(func(tx pgx.Tx) {
		b.Exec(tx, `UPDATE tasktable.scheduled_tasks SET fence = 77, next_attempt_at = NULL,
			lease_expires_at = clock_timestamp() + interval '1 hour' WHERE id = 'one'`)
	})
	b.tells("one", `
change: scheduled by events-api
	scheduled_at: T
execution: attempt 1 was claimed
execution: attempt 1 was fetched by node 9
`)
}

// Each way in which an attempt ends, but for those of TestWhyTellsAttempts.
func TestWhyTellsHowAttemptsEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.due("one", nil)
	for n, outcome := range []string{"SNOOZED", "INTERRUPTED", "SUPERSEDED", "CANCELLED", "EXPIRED", "FAILED"} {
		b.Exec(b.Pool, `INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt,
			scheduled_at, finished_at, outcome, node, error)
			SELECT $1::bigint, id, type, revision, $1::bigint, scheduled_at, clock_timestamp(), $2, CASE $2
				WHEN 'CANCELLED' THEN 9 END,
			CASE $2 WHEN 'CANCELLED' THEN 'edited or cancelled before it started' END FROM tasktable.scheduled_tasks
			WHERE id = 'one'`, 101+n, outcome)
	}
	b.tells("one", `
change: scheduled by events-api
	scheduled_at: T
execution: attempt 101 was put off by its handler, and does not count
execution: attempt 102 was interrupted, and does not count
execution: attempt 103 ended, but the task had been edited or cancelled meanwhile: its outcome does not count
execution: attempt 104 did not begin on node 9, because the task had been cancelled
execution: expired before it could start
execution: attempt 106 failed for good
`)
}

// What is next for a claim without a holder, for one with jitter that is paused, and for one whose next
// attempt comes too late.
func TestWhyTellsWhatIsNext(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Node(`{"default": 3}`, `{TEST}`, true)
	b.Make("lapsed", "EXECUTING")
	b.AsEngine(func(tx pgx.Tx) {
		b.Exec(tx, `UPDATE tasktable.scheduled_tasks SET lease_expires_at = clock_timestamp() - interval '1 second'
			WHERE id = 'lapsed'`)
	})
	e := b.because("lapsed", "lapsed", "the lease of its claim has ended, and nobody has taken it back yet, since T")
	same(b, "what is next of a lapsed one", e.Next, []inspect.Upcoming{{
		Text: "the leader takes its claim back within a second",
	}})

	b.Schedule(store.Task{ID: "jitter", Payload: payload(1), At: far(7), Jitter: 3 * time.Minute})
	b.must(b.Tasks.PauseUntil(b.Ctx, b.Pool, "jitter", far(9)))
	e = b.why("jitter")
	same(b, "what is next of one with jitter", e.Next, []inspect.Upcoming{
		{At: new(far(7)), Text: "it is due, or up to 3m0s later, and waits until it is resumed"},
		{At: new(far(9)), Text: "the leader resumes it"}})

	b.due("over", func(task *store.Task) { task.Expiration = time.Second })
	same(b, "what is next of one that is over", b.why("over").Next, []inspect.Upcoming{{
		Text: "the leader comes to it when there is room, and it becomes EXPIRED, a dead letter",
	}})
	b.due("over elsewhere", func(task *store.Task) { task.Expiration, task.Queue = time.Second, "mail" })
	same(b, "what is next of one that no leader comes to", b.why("over elsewhere").Next,
		[]inspect.Upcoming{{Text: "it becomes EXPIRED, a dead letter, when nothing holds it up any more"}})

	b.due("too late", func(task *store.Task) { task.Expiration = time.Hour })
	b.ended("too late", "RETRIED", "QUEUED", "421 try later", 3*time.Hour)
	e = b.because(
		"too late", "retry",
		"attempt 1 of 10 failed, and the next waits for its time, due at T: 421 try later; it expires before that, at T",
	)
	if len(e.Next) != 2 || !strings.HasPrefix(e.Next[0].Text, "it expires") || e.Next[0].At.After(*e.Next[1].At) {
		t.Errorf("what is next: %s", pretty(e.Next))
	}
}

// One that expired in a pause that goes on, and one for which there never was a node.
func TestWhyExpiredWithoutAnEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ before, late string }{
		"a pause": {`INSERT INTO tasktable.pauses (scope, name, paused_at, paused_by)
			VALUES ('type', 'TEST', '2100-01-01 00:50Z', 'ann')`,
			"type TEST was paused by ann"},
		"no node": {`SELECT`, "no node with queue default and type TEST was running"},
	} {
		l := lateness{newBench(t)}
		l.Schedule(store.Task{ID: "one", Payload: payload(1), At: far(60), Expiration: time.Hour})
		l.dated("one", "schedule", 0)
		l.Exec(l.Pool, test.before)
		l.AsEngine(func(tx pgx.Tx) {
			l.Exec(tx, `UPDATE tasktable.scheduled_tasks
				SET status = 'EXPIRED', next_attempt_at = NULL, finished_at = $1, message = 'x'`, far(131))
		})
		want := fmt.Sprintf("expired before it could start at far(120); 1h11m0s late: %s", test.late)
		if got := l.why("one").Reason.Sentence(timeless); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

// A pause that somebody ended early was to last longer when it was made, and its line goes on saying so.
func TestWhyTellsAPauseAsItWasMade(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		until time.Time
		want  string
	}{
		"with an end":    {far(60), "queue default was paused by events-api until far(60)"},
		"without an end": {time.Time{}, "queue default was paused by events-api"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.due("one", nil)
			b.must(b.Tasks.PauseScope(b.Ctx, b.Pool, store.Queue("default"), test.until, ""))
			lines := func() (told []string) {
				for _, line := range b.why("one").Story {
					text := line.Text
					for _, fact := range line.Facts {
						text += " " + fact.Name + " " + factText(fact.Value)
					}
					if line.Kind == "pause" {
						told = append(told, text)
					}
				}
				return told
			}
			same(b, "while it lasts", lines(), []string{test.want})
			b.must(b.Tasks.ResumeScope(b.Ctx, b.Pool, store.Queue("default")))
			same(b, "when it is over", lines(), []string{test.want, "queue default was resumed by events-api"})
		})
	}
}
