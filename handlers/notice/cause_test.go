package notice_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers/notice"
	"github.com/tasktable/tasktable/handlers/notice/rules"
	"github.com/tasktable/tasktable/store"
)

// Each event comes from its cause to the message.
func TestACauseIsTold(t *testing.T) {
	t.Parallel()
	late := nine.Add(2 * time.Minute)
	for event, c := range map[rules.Event]struct {
		cause func(b *bench)
		title string
		tells string
	}{
		rules.Failed: {func(b *bench) { b.failing(nine, "one"); b.run(nine) }, "one failed",
			"09:00:00 one (FAILING) failed: out of paper\ntasktable why one\n"},
		rules.Expired: {func(b *bench) {
			b.schedule(store.Task{ID: "one", At: nine.Add(-time.Hour), Expiration: time.Minute,
				Payload: store.JSON(`{"type": "FAILING"}`)})
			b.run(nine)
		}, "one expired", "09:00:00 one (FAILING) expired: expired before it could start\ntasktable why one\n"},
		// The line that the leader writes when it takes a claim back.
		rules.Lost: {func(b *bench) { b.rows(dieSQL, "LOST", nine, 1) }, "task-1 lost an attempt",
			"09:00:00 task-1 (FAILING) lost an attempt: out of paper\ntasktable why task-1\n"},
	} {
		t.Run(string(event), func(t *testing.T) {
			t.Parallel()
			b, r := benchWith(t, notice.KindNtfy, rules.Rule{Events: []rules.Event{event}})
			c.cause(b)
			b.want("notices", b.rows(noticesSQL), "notice/dead/ops/2035-05-01T09:01:00Z QUEUED 01 09:01:00 1")
			// The note has no id, because it stays when the task is erased.
			_, happened, _ := strings.Cut(c.title, " ")
			if ran := b.run(late); len(ran) != 1 || ran[0].Outcome != "COMPLETED" || ran[0].Result != nil ||
				ran[0].Note != "told ops: 1 "+happened {
				t.Fatalf("ran %+v", ran)
			}
			if got := r.got(); len(got) != 1 || !strings.Contains(got[0].body, c.tells) ||
				got[0].header.Get("Title") != "Tasktable: "+c.title {
				t.Errorf("got %+v, want %q", got, c.tells)
			}
		})
	}
}

// dieSQL writes the history that the settle of many tasks writes.
const dieSQL = `INSERT INTO tasktable.scheduled_task_executions
	(fence, task_id, type, revision, attempt, scheduled_at, finished_at, outcome, error)
	SELECT nextval('tasktable.task_numbers'), 'task-' || n, 'FAILING', 0, 1, $2, $2::timestamptz, $1, 'out of paper'
	FROM generate_series(1, $3::int) AS n`

// Ten thousand dead letters are one message to each recipient, by one row.
func TestAStormIsOneDigest(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	b := newBench(t, r.target(notice.KindDiscord))
	b.recipient(rules.Recipient{Name: "second", Target: "ops"})
	b.rule(rules.Rule{Recipients: []string{"ops", "second"}}, "")
	const most = 10000
	b.die("task-1")
	for range 9 { // as settles of many tasks do
		b.rows(dieSQL, "FAILED", nine.Add(time.Second), 1111)
	}
	b.want("notices", b.rows(noticesSQL), fmt.Sprintf("notice/dead/ops/2035-05-01T09:01:00Z QUEUED 01 09:01:00 %d", most),
		fmt.Sprintf("notice/dead/second/2035-05-01T09:01:00Z QUEUED 01 09:01:00 %d", most))
	b.run(nine.Add(time.Minute))
	for _, got := range r.got() {
		if !strings.Contains(got.body, "10000 failed") || !strings.Contains(got.body, "And 9990 more.") {
			t.Errorf("got %s", got.body)
		}
	}
	if n := len(r.got()); n != 2 {
		t.Errorf("%d messages", n)
	}
}

// A notice that fails for good makes no notice.
func TestANoticeThatFailsMakesNone(t *testing.T) {
	t.Parallel()
	b, _ := benchWith(t, notice.KindSlack, rules.Rule{Digest: rules.AtOnce}, 404, 404)
	if ran := b.die("one"); len(ran) != 1 || ran[0].Outcome != "FAILED" {
		t.Fatalf("ran %+v", ran)
	}
	if ran := b.run(nine.Add(time.Hour)); len(ran) != 0 {
		t.Errorf("ran %+v", ran)
	}
	if got := b.rows(noticesSQL); len(got) != 1 || !strings.Contains(got[0], " FAILED ") {
		t.Errorf("notices %q", got)
	}
	if got := b.rows(`SELECT task_id, error FROM tasktable.scheduled_task_executions`); strings.Contains(
		fmt.Sprint(got), canary) {
		t.Errorf("history %q", got)
	}
}

// A rule may be about one recurring task: its occurrences match, and what the watch finds of the task itself.
func TestARuleOfARecurringTask(t *testing.T) {
	t.Parallel()
	b := newBench(t, newReceiver(t).target(notice.KindNtfy))
	for rule, id := range map[string]string{"own": "nightly", "other": "daily"} {
		b.rule(rules.Rule{Name: rule, Events: []rules.Event{rules.Failed, rules.Missed, rules.Unsuccessful},
			Recurring: []string{id}}, "")
	}
	b.schedule(store.Task{ID: "nightly", At: nine.Add(-time.Hour), Payload: store.JSON(`{"type": "FAILING"}`),
		Recurrence: &store.Recurrence{Cron: "@daily"}})
	b.rows(`UPDATE tasktable.scheduled_tasks SET created_at = $1, planned_revision = revision,
		next_attempt_at = $1::timestamptz + interval '1 minute'`, nine)
	b.rows(strings.Replace(dieSQL, "'task-' || n", "'nightly@2035-05-01T09:00:00Z'", 1), "FAILED", nine, 1)
	b.watched(nine.Add(20 * time.Minute))
	b.want("causes", b.rows(`SELECT c.event || ' ' || c.task_id || ' ' || split_part(c.notice_id, '/', 2) FROM tasktable.notice_causes AS c ORDER BY 1`),
		"failed nightly@2035-05-01T09:00:00Z own", "missed nightly own", "unsuccessful nightly own")
	all, err := b.rules.List(b.Context(), b.tx)
	if err != nil || len(all) != 2 || len(all[0].Recurring) != 1 || all[0].Recurring[0] != "daily" {
		t.Errorf("the rules are %+v: %v", all, err)
	}
}

// A rule matches by type, queue, tenant and entity. What is disabled, or does not match, makes no notice.
func TestARuleMatches(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rule  rules.Rule
		match bool
	}{
		"all":           {rules.Rule{}, true},
		"its type":      {rules.Rule{Types: []string{"OTHER", "FAILING"}}, true},
		"another type":  {rules.Rule{Types: []string{"OTHER"}}, false},
		"its queue":     {rules.Rule{Queues: []string{"mail"}}, true},
		"other queue":   {rules.Rule{Queues: []string{"default"}}, false},
		"its tenant":    {rules.Rule{Tenants: []string{"acme"}}, true},
		"other tenant":  {rules.Rule{Tenants: []string{"globex"}}, false},
		"its entity":    {rules.Rule{Entities: []string{"order:7"}}, true},
		"other entity":  {rules.Rule{Entities: []string{"order:8"}}, false},
		"other event":   {rules.Rule{Events: []rules.Event{rules.Expired}}, false},
		"both":          {rules.Rule{Types: []string{"FAILING"}, Tenants: []string{"acme"}}, true},
		"one of two":    {rules.Rule{Types: []string{"FAILING"}, Tenants: []string{"globex"}}, false},
		"disabled rule": {rules.Rule{Disabled: true}, false},
		"its id":        {rules.Rule{Recurring: []string{"other", "one"}}, true},
		"another id":    {rules.Rule{Recurring: []string{"on"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, _ := benchWith(t, notice.KindSlack, c.rule)
			b.schedule(store.Task{ID: "one", At: nine, MaxAttempts: 1, Queue: "mail", TenantID: "acme", Entity: "order:7",
				Payload: store.JSON(`{"type": "FAILING"}`)})
			b.run(nine)
			want := 0
			if c.match {
				want = 1
			}
			if got := b.rows(noticesSQL); len(got) != want {
				t.Errorf("notices %q", got)
			}
		})
	}
}

// The causes of one window that come after the notice was claimed are told in the next window.
func TestACauseAfterTheClaimIsInTheNextWindow(t *testing.T) {
	t.Parallel()
	b, r := benchWith(t, notice.KindSlack, rules.Rule{}, 500)
	b.die("one")
	b.rows(`SELECT tasktable.run_now('notice/dead/ops/2035-05-01T09:01:00Z')`)
	if ran := b.run(nine.Add(time.Second)); len(ran) != 1 || ran[0].Outcome != "RETRIED" {
		t.Fatalf("ran %+v", ran)
	}
	b.failing(nine.Add(2*time.Second), "two")
	b.run(nine.Add(2 * time.Second))
	b.want("notices", b.rows(noticesSQL), "notice/dead/ops/2035-05-01T09:01:00Z QUEUED 01 09:01:00 1",
		"notice/dead/ops/2035-05-01T09:02:00Z QUEUED 01 09:02:00 1")
	b.run(nine.Add(2 * time.Minute))
	if got := r.got(); len(got) != 3 || got[0].body != got[1].body ||
		got[0].header.Get("Idempotency-Key") != got[1].header.Get("Idempotency-Key") ||
		!strings.Contains(got[2].body, "why two") {
		t.Errorf("got %+v", got)
	}
}
