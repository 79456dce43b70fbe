package inspect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// told is a story as text, without the times that the clock gave.
func told(e inspect.Explanation) string {
	var out strings.Builder
	for _, line := range e.Story {
		fmt.Fprintf(&out, "%s: %s\n", line.Kind, line.Text)
		for _, fact := range line.Facts {
			fmt.Fprintf(&out, "\t%s: ", fact.Name)
			if fact.Was != nil {
				fmt.Fprintf(&out, "%s → ", factText(fact.Was))
			}
			fmt.Fprintln(&out, factText(fact.Value))
		}
	}
	return out.String()
}

func factText(value any) string {
	switch value := value.(type) {
	case nil:
		return "nothing"
	case time.Time:
		return timeless(value)
	case time.Duration:
		return "a while"
	default:
		return fmt.Sprint(value)
	}
}

func (b *bench) tells(id, want string) inspect.Explanation {
	b.Helper()
	e := b.why(id)
	if got := told(e); got != strings.TrimPrefix(want, "\n") {
		b.Errorf("the story of %s:\n%s\nbut want\n%s", id, got, want)
	}
	for i := 1; i < len(e.Story); i++ {
		if e.Story[i].At.Before(e.Story[i-1].At) {
			b.Errorf("line %d of the story is of before: %s", i, e.Story[i].At)
		}
	}
	return e
}

// Every kind of edit, by whom, from what to what.
func TestWhyTellsEdits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	role := b.Role()
	body := func(n int, name string) store.JSON {
		return store.JSON(fmt.Sprintf(`{"type": "TEST", "n": %d, "name": %q}`, n, name))
	}
	b.Schedule(store.Task{ID: "one", Payload: body(1, "x"), At: far(0), Entity: "event:1"})
	b.Schedule(store.Task{ID: "one", Payload: body(2, "x"), At: far(5), Entity: "event:1"})
	b.must(b.Tasks.Sync(b.Ctx, b.Pool, "event:1", store.Task{
		ID: "one", Payload: body(2, strings.Repeat("y", 300)), At: far(5),
	}))
	b.must(b.Tasks.Sync(b.Ctx, b.Pool, "event:1"))
	b.must(b.Tasks.RunNow(b.Ctx, b.Pool, "one"))
	b.must(b.Tasks.PauseUntil(b.Ctx, b.Pool, "one", far(9)))
	b.must(b.Tasks.Resume(b.Ctx, b.Pool, "one"))
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET priority = 7, queue = 'mail' WHERE id = 'one'`)
	b.must(b.Tasks.Delete(b.Ctx, b.Pool, "one"))
	e := b.tells("one", `
change: scheduled by events-api
	scheduled_at: far(0)
change: edited by events-api
	payload.n: 1 → 2
	scheduled_at: far(0) → far(5)
change: edited by events-api, by sync
	payload.name: x → `+strings.Repeat("y", 200)+` …
change: cancelled by events-api
change: run at once by events-api
	run_now_at: T
change: paused by events-api
	paused_until: far(9)
change: resumed by events-api
	paused_until: far(9) → nothing
change: edited by `+role+`, by plain SQL
	priority: 0 → 7
	queue: default → mail
change: deleted by events-api
	scheduled_at: far(5)
	status: QUEUED
`)
	if e.Row != nil || e.Reason.Code != "deleted" ||
		e.Sentence != "deleted by events-api at "+e.Story[len(e.Story)-1].At.UTC().Format(time.RFC3339) ||
		e.Nearest != nil || e.Next != nil {
		t.Errorf("got %+v", e)
	}
}

// What ran and is no more: both times, each with its own words.
func TestWhyOfOneThatRanAndWasDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"one", "two"} {
		b.due(id, nil)
		lateness{b}.beganAt(id, far(5))
	}
	b.must(b.Tasks.Delete(b.Ctx, b.Pool, "one"))
	b.because("one", "deleted", "deleted by events-api at T; it had completed at far(5)")
	b.asOwner(func(tx pgx.Tx) {
		b.Exec(tx, `SET LOCAL session_replication_role = replica`)
		b.Exec(tx, `DELETE FROM tasktable.scheduled_tasks WHERE id = 'two'`)
	})
	b.because("two", "removed", "the task no longer exists; it had completed at far(5)")
}

// What the handler noted is told with the attempt that it was of, and with no other.
func TestWhyTellsTheNote(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		outcome, status, message, then string
		want                           string
	}{
		"a note": {
			"COMPLETED", "COMPLETED", "sent to ann@example.org", "", "took: a while; note: sent to ann@example.org",
		},
		"a long one": {
			"COMPLETED", "COMPLETED", strings.Repeat("ü", 150) + "\nmore", "",
			"took: a while; note: " + strings.Repeat("ü", 100) + " …",
		},
		"none":        {"COMPLETED", "COMPLETED", "", "", "took: a while"},
		"of an error": {"FAILED", "FAILED", "550", "", "took: a while; error: 550"},
		"edited since": {
			"COMPLETED", "COMPLETED", "sent", `UPDATE tasktable.scheduled_tasks SET message = 'by hand', priority = 3`,
			"took: a while",
		},
		"scheduled anew": {
			"COMPLETED", "COMPLETED", "sent", `SELECT tasktable.reschedule('one', '2100-01-01 05:00Z')`,
			"took: a while",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.due("one", nil)
			b.ended("one", test.outcome, test.status, test.message, 0)
			if test.then != "" {
				b.Exec(b.Pool, test.then)
			}
			var facts []string
			for _, line := range b.why("one").Story {
				for _, fact := range line.Facts {
					if line.Kind == "execution" {
						facts = append(facts, fact.Name+": "+factText(fact.Value))
					}
				}
			}
			same(b, "the facts of the attempt", strings.Join(facts, "; "), test.want)
		})
	}
}

// A handler that schedules its task again leaves its note with a row that waits.
func TestWhyTellsTheNoteOfOneThatRunsAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Make("one", "EXECUTING")
	b.InTx(func(tx pgx.Tx) {
		b.Exec(tx, `SELECT set_config('tasktable_change.context', 'again' || chr(31) || 'node 9', true)`)
		b.Exec(tx, `INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt,
			scheduled_at, due_at, finished_at, outcome, node)
			SELECT fence, id, type, revision, attempt, scheduled_at, scheduled_at, clock_timestamp(), 'COMPLETED', 9
				FROM tasktable.scheduled_tasks`)
		b.Exec(tx, `UPDATE tasktable.scheduled_tasks
			SET status = 'QUEUED', scheduled_at = $1, fence = NULL, lease_expires_at = NULL,
			message = '3 of 7'`, far(5))
	})
	if story := told(b.why("one")); !strings.Contains(
		story, "execution: attempt 3 completed on node 9\n\tnote: 3 of 7\n",
	) {
		t.Errorf("the story:\n%s", story)
	}
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET priority = 3`)
	if story := told(b.why("one")); strings.Contains(story, "note: ") {
		t.Errorf("the story of one that was edited since:\n%s", story)
	}
}

// Attempts, with who ran them.
func TestWhyTellsAttempts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	number, _ := b.Node(`{"default": 3}`, `{TEST}`, true)
	b.due("one", nil)
	at := b.Now().Add(-time.Second)
	line := func(fence int64, outcome, failure string, due, started, finished time.Duration) {
		t.Helper()
		b.Exec(b.Pool, `INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt,
			scheduled_at, due_at, started_at, finished_at,
			outcome, error, node) SELECT $1::bigint, id, type, revision, $1::bigint, scheduled_at, $2,
			CASE WHEN $3::timestamptz < $4 THEN $3 END, $4, $5, nullif($6, ''), $7
			FROM tasktable.scheduled_tasks WHERE id = 'one'`, fence, at.Add(due), at.Add(started), at.Add(finished),
			outcome, failure, number)
	}
	line(101, "RETRIED", "421 try later", 0, time.Millisecond, 10*time.Millisecond)
	line(102, "LOST", "node 9 died", 10*time.Millisecond, 20*time.Millisecond, 20*time.Millisecond)
	line(103, "RELEASED", "its queue or type is paused", 20*time.Millisecond, 30*time.Millisecond, 30*time.Millisecond)
	line(104, "COMPLETED", "", 40*time.Millisecond, 2*time.Second, 3*time.Second)
	b.AsEngine(func(tx pgx.Tx) {
		b.Exec(tx, `UPDATE tasktable.scheduled_tasks
			SET status = 'COMPLETED', attempt = 104, next_attempt_at = NULL, finished_at = clock_timestamp()
			WHERE id = 'one'`)
	})
	node := fmt.Sprintf("node %d (host/1, mailer v1)", number)
	// The change came after the attempts' times, which are of the last minute.
	b.Exec(b.Pool, `ALTER TABLE tasktable.scheduled_task_changes DISABLE TRIGGER USER`)
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_task_changes SET changed_at = changed_at - interval '1 hour'`)
	e := b.tells("one", `
change: scheduled by events-api
	scheduled_at: T
execution: attempt 101 began on `+node+`, 1ms after it was due
execution: attempt 101 failed, to be retried
	took: a while
	error: 421 try later
execution: attempt 102 was lost on `+node+`: node 9 died
execution: a claim was handed back unstarted, for attempt 103 on `+node+`
	reason: its queue or type is paused
due: attempt 104 was due
execution: attempt 104 began on `+node+`, 2s after it was due
execution: attempt 104 completed
	took: a while
`)
	if got := e.Reason.Sentence(timeless); got != "completed by attempt 104 of 10 on "+node+" at T" {
		t.Errorf("the reason is %q", got)
	}
}

// A long life is told from its beginning and its end.
func TestWhyShortensALongLife(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(store.Task{ID: "one", Payload: payload(0), At: far(0)})
	for n := 1; n <= 120; n++ {
		b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET priority = $1 % 100 WHERE id = 'one'`, n)
	}
	e := b.why("one")
	if !e.Shortened || len(e.Story) != 101 || e.Story[0].Text != "scheduled by events-api" ||
		e.Story[100].Facts[0].Value != "20" || e.Story[1].Facts[0].Value != "21" {
		t.Errorf("%d lines, shortened %v: %s", len(e.Story), e.Shortened, pretty(e.Story[:3]))
	}
}

func TestWhyOfRecurringTasks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Node(`{"default": 3}`, `{TEST}`, true)
	recur := func(id, cron string) {
		t.Helper()
		b.Schedule(store.Task{
			ID: id, Payload: payload(1), At: far(0),
			Recurrence: &store.Recurrence{Cron: cron, TimeZone: "Europe/Berlin"},
		})
	}
	recur("tick", "*/10 * * * *")
	b.because("tick", "planning", "the leader is about to plan its next fire, since T")
	plan := func(id string, next time.Time) {
		t.Helper()
		b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET planned_revision = revision, next_attempt_at = $2
			WHERE id = $1`, id, next)
	}
	plan("tick", b.Now().Add(-time.Second))
	b.because("tick", "firing", "it fires, and the leader is about to make the occurrence that runs, due since T")
	plan("tick", far(10))
	fork := `SELECT tasktable.fork_occurrence('tick', $1, $2, 'leader')`
	b.Exec(b.Pool, fork, far(0), nil)
	b.Exec(b.Pool, fork, far(5), "an earlier occurrence has not ended: tick@2100-01-01T00:00:00Z")
	e := b.because(
		"tick", "recurring",
		"it waits for its next fire, which makes an occurrence at far(10)",
	)
	same(b, "what is next", e.Next, []inspect.Upcoming{
		{At: new(far(10)), Text: "it fires"}, {At: new(far(20)), Text: "it fires"},
		{At: new(far(30)), Text: "it fires"},
	})
	b.tells("tick", `
change: scheduled by events-api
	scheduled_at: far(0)
occurrence: occurrence tick@2100-01-01T00:00:00Z is QUEUED
occurrence: occurrence tick@2100-01-01T00:05:00Z was left out
	message: an earlier occurrence has not ended: tick@2100-01-01T00:00:00Z
`)
	e = b.because("tick@2100-01-01T00:05:00Z", "skipped",
		"this fire of task tick was left out at T: an earlier occurrence has not ended: tick@2100-01-01T00:00:00Z")
	same(b, "what is next", e.Next, []inspect.Upcoming{{At: new(far(10)), Text: "its recurring task tick fires"}})
	b.tells("tick@2100-01-01T00:05:00Z", `
change: left out by leader
	scheduled_at: far(5)
`)
	b.because("tick@2100-01-01T00:20:00Z", "no_fire",
		"recurring task tick has not fired for that time yet, the next is at far(10)")
	b.because("tick@2100-01-01T00:21:00Z", "no_fire",
		"recurring task tick does not fire at that time, by */10 * * * * in Europe/Berlin, the next is at far(10)")
	same(b, "the next fires", one[string](b, b.Pool, `SELECT string_agg(concat_ws(' ', id,
		next_fire = '2100-01-01 00:10Z', code, obstacle), ', ') FROM tasktable.next_fires`),
		"tick t recurring")
	b.must(b.Tasks.PauseScope(b.Ctx, b.Pool, store.Type("TEST"), time.Time{}, ""))
	b.because("tick", "recurring",
		"it waits for its next fire, which makes an occurrence at far(10); "+
			"besides, type TEST is paused by events-api")
	b.must(b.Tasks.Cancel(b.Ctx, b.Pool, "tick"))
	b.because(
		"tick@2100-01-01T00:20:00Z", "no_fire", "recurring task tick has not fired for that time yet; it is CANCELLED",
	)
}

func TestWhyOfUnknownIDs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Node(`{"default": 3}`, `{SEND_EVENT_REMINDER,PUBLISH_EVENT}`, true)
	schedule := func(kind, key string) string {
		t.Helper()
		id := "task-" + kind + "-" + key
		b.Schedule(store.Task{
			ID: id, Payload: store.JSON(`{"type": "` + kind + `"}`), At: far(0), Entity: "event:" + key,
		})
		return id
	}
	a, c, p := schedule(
		"SEND_EVENT_REMINDER", "4711",
	), schedule("SEND_EVENT_REMINDER", "4712"), schedule("PUBLISH_EVENT", "4711")
	for i := range 300 {
		schedule("SEND_EVENT_REMINDER", fmt.Sprintf("x%03d%s", i, strings.Repeat("z", 20)))
	}
	gone := schedule("ZZZ", "of old")
	b.must(b.Tasks.Delete(b.Ctx, b.Pool, gone))
	for id, want := range map[string][]string{
		"task-SEND_EVENT_REMINDER-471":  {a, c},
		"task-SEND_EVENT_REMINDR-4711":  {a, p},
		"task-SEND_REMINDER-4711":       {a, p},
		"SEND_EVENT_REMINDER-4711":      {a, c},
		"4711":                          {p, a},
		"event:4712":                    {c},
		"task-ZZZ-of  old":              {gone},
		"nothing is like this one here": nil,
	} {
		e := b.because(
			id, "never_scheduled", "never scheduled under this id, or removed by retention or erasure with its history",
		)
		if e.Known() || pretty(e.Nearest) != pretty(want) {
			t.Errorf("like %q: %v, not %v", id, e.Nearest, want)
		}
	}
	if _, err := b.Inspector.Why(b.Ctx, b.Pool, "a\nb"); err == nil ||
		!strings.Contains(err.Error(), "why: invalid: id must be") {
		t.Errorf("a malformed id: %v", err)
	}
}
