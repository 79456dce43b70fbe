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

func (b *bench) why(id string) inspect.Explanation {
	b.Helper()
	e, err := b.Inspector.Why(b.Ctx, b.Pool, id)
	if err != nil {
		b.Fatalf("%+v", err)
	}
	return e
}

// timeless writes the times that a test knows, and T for the others.
func timeless(at time.Time) string {
	if minutes := at.Sub(far(0)); minutes >= 0 && minutes < 200*time.Hour {
		return fmt.Sprintf("far(%d)", int(minutes.Minutes()))
	}
	return "T"
}

// because compares why a task does not run.
func (b *bench) because(id, code, sentence string) inspect.Explanation {
	b.Helper()
	e := b.why(id)
	if got := e.Reason.Sentence(timeless); e.Reason.Code != code || got != sentence {
		b.Errorf("task %s: got\n%s: %s\nwant\n%s: %s", id, e.Reason.Code, got, code, sentence)
	}
	return e
}

// isNext checks that a due task waits for nothing but its turn. slots are those of its queue.
func (b *bench) isNext(id, slots string) {
	b.Helper()
	b.because(id, "in_line",
		"it is due, and next to be claimed, while 0 of its queue are claimed for "+slots+", due since T")
}

// due schedules a task of TEST that was due a minute ago, with what else is to be of it.
func (b *bench) due(id string, change func(*store.Task)) {
	b.Helper()
	task := store.Task{ID: id, Payload: payload(1), At: b.Now().Add(-time.Minute)}
	if change != nil {
		change(&task)
	}
	b.Schedule(task)
	b.Waited()
}

// ended records what came of a claim, as a settle does, and puts the row into the state that it leaves.
func (b *bench) ended(id, outcome, status, message string, next time.Duration) {
	b.Helper()
	b.AsEngine(func(tx pgx.Tx) {
		b.Exec(tx, `INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt,
			scheduled_at, due_at, started_at, finished_at,
			outcome, error, node) SELECT nextval('tasktable.task_numbers'), id, type, revision, attempt + 1,
			scheduled_at, coalesce(next_attempt_at, scheduled_at),
			clock_timestamp(), clock_timestamp(), $2::text, CASE WHEN $2 <> 'COMPLETED' THEN nullif($3, '') END, 1
			FROM tasktable.scheduled_tasks WHERE id = $1`, id, outcome, message)
		b.Exec(tx, `UPDATE tasktable.scheduled_tasks
			SET status = $2::text, attempt = attempt + 1, message = nullif($3, ''),
			next_attempt_at = CASE WHEN $2::text = 'QUEUED' THEN clock_timestamp() + $4 END, fence = NULL,
			lease_expires_at = NULL,
			finished_at = CASE WHEN $2::text <> 'QUEUED' THEN clock_timestamp() END,
			last_status_update = clock_timestamp() WHERE id = $1`, id, status, message, next)
	})
}

// Without any node: what does not depend on one, and what is then in the way.
func TestWhyWithoutANode(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const nobody = "; besides, no node is running"
	for _, kind := range []string{
		"QUEUED", "PAUSED", "CANCELLED", "FAILED", "EXPIRED", "COMPLETED", "held CANCELLED", "held QUEUED",
		"held PAUSED", "EXECUTING",
	} {
		b.Make(kind, kind)
	}
	b.because("FAILED", "failed", "failed for good at attempt 3 of 10 at T: it was so")
	b.because("EXPIRED", "expired", "expired before attempt 4 of 10 could start at T")
	b.because("COMPLETED", "completed", "completed at T")
	b.because("PAUSED", "paused", "it is paused by events-api, since T"+nobody)
	b.because("held CANCELLED", "cancelled",
		"cancelled by "+b.Role()+", and an attempt that had begun has not ended yet at T")
	b.because("held PAUSED", "paused",
		"it is paused by "+b.Role()+", and an attempt that had begun has not ended yet, since T"+nobody)
	b.because("held QUEUED", "edited",
		"it was edited while an attempt ran, and runs again when that attempt has ended, its lease ends at T"+nobody)
	b.because("EXECUTING", "running", "attempt 3 of 10 runs, or is about to, claimed at T, its lease ends at T"+nobody)

	b.Schedule(store.Task{ID: "later", Payload: payload(1), At: far(7)})
	e := b.because("later", "not_due", "its time has not come, due at far(7)"+nobody)
	same(b, "what is next", e.Next, []inspect.Upcoming{{At: new(far(7)), Text: "it is due"}})
	b.must(b.Tasks.PauseUntil(b.Ctx, b.Pool, "later", far(9)))
	e = b.because("later", "paused", "it is paused by events-api, since T, until far(9)"+nobody)
	same(b, "what is next", e.Next, []inspect.Upcoming{
		{At: new(far(7)), Text: "it is due, and waits until it is resumed"},
		{At: new(far(9)), Text: "the leader resumes it"}})
	b.must(b.Tasks.Cancel(b.Ctx, b.Pool, "later"))
	b.because("later", "cancelled", "cancelled by events-api at T")

	b.due("due", nil)
	e = b.because("due", "no_node", "no node is running") // nor ever was
	b.Exec(b.Pool, `DELETE FROM tasktable.scheduled_tasks WHERE id = 'due'`)
	b.because("due", "deleted", "deleted by "+b.Role()+" at T")
	b.due("over", func(task *store.Task) { task.Expiration = time.Second })
	b.because("over", "expires",
		"its time is over: it does not run any more, and becomes EXPIRED when the leader comes to it, since T"+nobody)
	if e.Row == nil || len(e.Story) != 1 || e.Story[0].Text != "scheduled by events-api" {
		b.Errorf("the story of what is due: %s", pretty(e.Story))
	}
}

func TestWhyOfDeadLetters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Node(`{"default": 3}`, `{TEST}`, true)
	for _, id := range []string{"tried", "used up", "permanent", "put off"} {
		b.due(id, func(task *store.Task) { task.MaxAttempts = 2 })
	}
	b.ended("tried", "RETRIED", "QUEUED", "421 try later\nand a stack", time.Hour)
	b.because("tried", "retry", "attempt 1 of 2 failed, and the next waits for its time, due at T: 421 try later …")
	b.ended("put off", "SNOOZED", "QUEUED", "not on sundays", time.Hour)
	b.because("put off", "retry", "its handler put it off, due at T: not on sundays")
	b.ended("permanent", "FAILED", "FAILED", "550 no such user", 0)
	b.because("permanent", "failed", "failed for good at attempt 1 of 2 at T: 550 no such user")
	b.ended("used up", "RETRIED", "QUEUED", "421", 0)
	b.ended("used up", "FAILED", "FAILED", strings.Repeat("ü", 200), 0)
	b.because("used up", "failed", "failed for good after 2 of 2 attempts at T: "+strings.Repeat("ü", 150)+" …")
	b.must(b.Tasks.Archive(b.Ctx, b.Pool, "used up", "nobody cares"))
	e := b.because(
		"used up", "failed",
		"failed for good after 2 of 2 attempts at T: "+strings.Repeat("ü", 150)+" …; archived by events-api at T",
	)
	if row := e.Row; !e.Reason.Since.Equal(*row.FinishedAt) || !e.Reason.Further.At.Equal(*row.ArchivedAt) ||
		!row.ArchivedAt.After(*row.FinishedAt) {
		t.Errorf("the times: %+v", e.Reason)
	}
	if !slices.ContainsFunc(e.Story, func(line inspect.StoryLine) bool {
		return line.Text == "archived by events-api" &&
			slices.ContainsFunc(line.Facts, func(f inspect.Fact) bool { return f.Value == "nobody cares" })
	}) {
		t.Errorf("the story: %s", pretty(e.Story))
	}
}

// What nodes lack, from none at all to one that has all.
func TestWhyOfNodes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.due("task", nil)
	b.due("letter", func(task *store.Task) { task.Queue = "mail" })
	const none = "no node is running"
	b.because("task", "no_node", none)
	silent, kill := b.Node(`{"default": 3}`, `{TEST}`, true)
	b.isNext("task", "3 slots")
	b.because("letter", "no_queue", "no running node works queue mail")
	kill()
	b.gone(silent)
	b.because("task", "no_node", none+", the last that is known of one is of T")
	other, killOther := b.Node(`{"mail": 2}`, `{OTHER}`, false)
	// Since when is not known: one was killed.
	b.because("task", "no_type", "no running node has a handler for type TEST")
	b.Exec(b.Pool, `UPDATE tasktable.nodes SET last_seen_at = now(), dead_at = now() WHERE number = $1`, silent)
	b.because("task", "no_type", "no running node has a handler for type TEST, since T")
	b.Node(`{"default": 1}`, `{OTHER}`, false)
	b.Node(`{"spoiled": "x", "mail": 2}`, `{TEST}`, false)
	b.because("task", "no_both", "no running node has both queue default and a handler for type TEST, since T")
	b.because("letter", "no_leader", "no running node leads, so nothing is claimed, since T")
	same(b, "what is stuck", one[string](b, b.Pool, `SELECT string_agg(concat_ws(' ', id, code,
		since = (SELECT max(dead_at) FROM tasktable.nodes)), ', ' ORDER BY id) FROM tasktable.stuck_tasks`),
		"letter no_leader t, task no_both t")
	b.Node(`[1]`, `{TEST}`, true)
	b.isNext("letter", "2 slots")
	killOther()
	b.gone(other)
	same(
		b, "the nodes",
		one[string](b, b.Pool, `SELECT string_agg(state, ' ' ORDER BY number) FROM tasktable.node_states`),
		"ended silent works works leads",
	)
	same(b, "the lanes", one[string](b, b.Pool, `SELECT string_agg(concat_ws(' ', queue, type, nodes, slots), ', '
		ORDER BY queue, type) FROM tasktable.worked_lanes`),
		"default OTHER 1 1, mail TEST 1 2")
	b.Exec(b.Pool, `UPDATE tasktable.nodes SET shares_slots = true, queues = '{"mail": 2, "default": 5}'
		WHERE queues ? 'spoiled'`)
	b.isNext("task", "7 slots")
}

// A quiet node has no queues and no types: that it is there is said, lest somebody gives a queue to a node that has it.
func TestWhyOfQuietNodes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.due("task", nil)
	_, leave := b.Node(`{"default": 1}`, `{TEST}`, true)
	b.isNext("task", "1 slot")
	b.Exec(b.Pool, `UPDATE tasktable.nodes SET queues = '{}', types = '{}', elected_at = NULL`)
	leave()
	first, _ := b.Node(`{}`, `{}`, false)
	b.because("task", "no_type", "no running node has a handler for type TEST (1 node is quiet)")
	b.Node(`{"default": 1}`, `{OTHER}`, false)
	b.Node(`{}`, `{}`, false)
	b.because("task", "no_type", "no running node has a handler for type TEST (2 nodes are quiet)")
	b.Exec(b.Pool, `UPDATE tasktable.nodes SET queues = '{"default": 1}', types = '{TEST}' WHERE number = $1`, first)
	b.because("task", "no_leader", "no running node leads, so nothing is claimed (1 node is quiet)")
}

// gone waits until the server has noticed that a killed node's connection is closed.
func (b *bench) gone(number int64) {
	b.Helper()
	for one[string](b, b.Pool, `SELECT state FROM tasktable.node_states WHERE number = $1`, number) != "silent" {
		if b.Ctx.Err() != nil {
			b.Fatal("its lock is still held")
		}
	}
}

func TestWhyOfPauses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Node(`{"default": 3}`, `{TEST}`, true)
	b.due("due", nil)
	b.Schedule(store.Task{ID: "later", Payload: payload(1), At: far(7)})
	pause := func(scope store.Scope, until time.Time, reason string) {
		t.Helper()
		b.must(b.Tasks.PauseScope(b.Ctx, b.Pool, scope, until, reason))
	}
	pause(store.Queue("mail"), time.Time{}, "")
	b.isNext("due", "3 slots")
	pause(store.Type("TEST"), far(3), "")
	b.because("due", "paused_scope", "type TEST is paused by events-api, since T, until far(3)")
	b.because("later", "not_due", "its time has not come, due at far(7)") // by then the pause is over
	pause(store.Queue("default"), far(8), "the mail server moves")
	e := b.because(
		"due", "paused_scope",
		"queue default is paused by events-api, since T, until far(8): the mail server moves; besides, "+
			"type TEST is paused by events-api",
	)
	same(b, "what is next", e.Next, []inspect.Upcoming{{At: new(far(8)), Text: "the pause ends, and it runs"}})
	b.because(
		"later", "not_due", "its time has not come, due at far(7); besides, queue default is paused by events-api",
	)
	pause(store.Everything(), time.Time{}, "")
	e = b.because(
		"due", "paused_scope",
		"everything is paused by events-api, since T; besides, queue default is paused by events-api, "+
			"and type TEST is paused by events-api",
	)
	var told []string
	for _, line := range e.Story {
		if line.Kind == "pause" {
			told = append(told, line.Text)
		}
	}
	same(b, "the pauses in the story", told, []string{
		"type TEST was paused by events-api", "queue default was paused by events-api",
		"everything was paused by events-api",
	})
	if stuck := one[int](b, b.Pool, `SELECT count(*)::int FROM tasktable.stuck_tasks`); stuck != 0 {
		t.Errorf("%d are stuck, which are only paused", stuck)
	}
}

// What is promised of a task that waits for a pause to end, for its own or for others.
func TestWhyPromisesNoRunThatCannotHappen(t *testing.T) {
	t.Parallel()
	type moment = inspect.Upcoming
	at := func(minute int, text string) moment { return moment{At: new(far(minute)), Text: text} }
	for name, test := range map[string]struct {
		types  string // that the node has
		due    int    // in minutes of the far night; 0: a minute ago
		expiry time.Duration
		scopes map[store.Scope]int // paused until which minute; -1: until resumed
		paused int                 // the task itself; 0: it is not
		code   string
		want   string
		next   []moment
	}{
		"due in a paused queue": {scopes: map[store.Scope]int{store.Queue("default"): 60}, code: "paused_scope",
			want: "queue default is paused by events-api, since T, until far(60)",
			next: []moment{at(60, "the pause ends, and it runs")}},
		"expires while it is paused": {due: 10, expiry: 10 * time.Minute,
			scopes: map[store.Scope]int{store.Queue("default"): 60}, code: "not_due",
			want: "its time has not come, due at far(10); besides, queue default is paused by events-api; " +
				"unless resumed in time, it expires before that, at far(20)",
			next: []moment{at(10, "it is due, and waits while queue default is paused"),
				at(20, "it expires, unless it has been resumed and has started by then"),
				at(60, "the pause ends, and it becomes EXPIRED")}},
		"expires when the pause is over": {due: 10, expiry: time.Hour,
			scopes: map[store.Scope]int{store.Queue("default"): 60}, code: "not_due",
			want: "its time has not come, due at far(10); besides, queue default is paused by events-api",
			next: []moment{at(10, "it is due, and waits while queue default is paused"),
				at(60, "the pause ends, and it runs"), at(70, "it expires, if it has not started by then")}},
		"no node knows the type": {types: "OTHER", scopes: map[store.Scope]int{store.Queue("default"): 60},
			code: "paused_scope",
			want: "queue default is paused by events-api, since T, until far(60); besides, " +
				"no running node has a handler for type TEST",
			next: []moment{at(60, "the pause ends, and it runs as soon as such a node runs and a node leads")}},
		"nor when resumed": {types: "OTHER", scopes: map[store.Scope]int{store.Queue("default"): -1},
			code: "paused_scope",
			want: "queue default is paused by events-api, since T; besides, no running node has a handler for type " +
				"TEST",
			next: []moment{{
				Text: "it runs when somebody resumes what is paused, and such a node runs and a node leads",
			}}},
		"two pauses": {scopes: map[store.Scope]int{store.Queue("default"): 60, store.Type("TEST"): 30},
			code: "paused_scope",
			want: "queue default is paused by events-api, since T, until far(60); besides, " +
				"type TEST is paused by events-api",
			next: []moment{at(60, "the pause ends, and it runs")}},
		"three, of which one has no end": {scopes: map[store.Scope]int{
			store.Queue("default"): 60, store.Type("TEST"): -1, store.Everything(): 30,
		}, code: "paused_scope",
			want: "type TEST is paused by events-api, since T; besides, everything is paused by events-api, " +
				"and queue default is paused by events-api",
			next: []moment{{Text: "it runs when somebody resumes what is paused"}}},
		"two pauses, and it is not due": {due: 10, types: "OTHER",
			scopes: map[store.Scope]int{store.Queue("default"): 60, store.Type("TEST"): 30}, code: "not_due",
			want: "its time has not come, due at far(10); besides, queue default is paused by events-api, " +
				"and type TEST is paused by events-api, " +
				"and no running node has a handler for type TEST",
			next: []moment{at(10, "it is due, and waits while NAMES are paused"),
				at(60, "the pause ends, and it runs as soon as such a node runs and a node leads")}},
		"paused itself, due before": {due: 10, paused: 60, expiry: time.Hour, code: "paused",
			want: "it is paused by events-api, since T, until far(60)",
			next: []moment{
				at(10, "it is due, and waits until it is resumed"), at(60, "the leader resumes it"),
				at(70, "it expires, if it has not started by then"),
			}},
		"paused itself, due later": {due: 60, paused: 10, scopes: map[store.Scope]int{store.Queue("default"): 70},
			code: "paused",
			want: "it is paused by events-api, since T, until far(10); besides, queue default is paused by events-api",
			next: []moment{
				at(10, "the leader resumes it"), at(60, "it is due, and waits while queue default is paused"),
				at(70, "the pause ends, and it runs"),
			}},
		"paused itself, due later than another pause": {due: 60, paused: 10,
			scopes: map[store.Scope]int{store.Queue("default"): 50}, code: "paused",
			want: "it is paused by events-api, since T, until far(10)",
			next: []moment{at(10, "the leader resumes it"), at(60, "it is due")}},
		"paused itself, expires": {due: 10, paused: 60, expiry: time.Minute, code: "paused",
			want: "it is paused by events-api, since T, until far(60); unless resumed in time, " +
				"it expires before that, at far(11)",
			next: []moment{at(10, "it is due, and waits until it is resumed"),
				at(11, "it expires, unless it has been resumed and has started by then"),
				at(60, "the leader resumes it, and it becomes EXPIRED")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if test.types == "" {
				test.types = "TEST"
			}
			b.Node(`{"default": 3}`, "{"+test.types+"}", true)
			b.due("one", func(task *store.Task) {
				task.Expiration = test.expiry
				if test.due > 0 {
					task.At = far(test.due)
				}
			})
			for scope, minute := range test.scopes {
				until := time.Time{}
				if minute >= 0 {
					until = far(minute)
				}
				b.must(b.Tasks.PauseScope(b.Ctx, b.Pool, scope, until, ""))
			}
			if test.paused > 0 {
				b.must(b.Tasks.PauseUntil(b.Ctx, b.Pool, "one", far(test.paused)))
			}
			e := b.because("one", test.code, test.want)
			for i := range e.Next {
				e.Next[i].Text = strings.NewReplacer(
					"queue default and type TEST", "NAMES", "type TEST and queue default", "NAMES",
				).Replace(e.Next[i].Text)
			}
			same(b, "what is next", e.Next, test.next)
		})
	}
}

// A task that is to be retried three minutes after its time, and is paused until before that.
func TestWhyOfAPausedRetry(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Node(`{"default": 3}`, "{TEST}", true)
	b.Make("one", "QUEUED")
	b.must(b.Tasks.PauseUntil(b.Ctx, b.Pool, "one", far(2)))
	e, err := b.Inspector.Why(b.Ctx, b.Pool, "one")
	b.Check(err)
	same(b, "what is next", e.Next[:2], []inspect.Upcoming{
		{At: new(far(2)), Text: "the leader resumes it"}, {At: new(far(3)), Text: "it is due"},
	})
}

// One that is due already, and whose time will be over an hour from now.
func TestWhyOfOneThatIsDueAndExpiresPaused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Node(`{"default": 3}`, `{TEST}`, true)
	b.due("one", func(task *store.Task) { task.Expiration = time.Hour })
	b.must(b.Tasks.PauseScope(b.Ctx, b.Pool, store.Queue("default"), far(60), ""))
	e := b.because("one", "paused_scope",
		"queue default is paused by events-api, since T, until far(60); unless resumed in time, "+
			"it expires before that, at T")
	if expires := e.Row.ScheduledAt.Add(time.Hour); e.Reason.Further == nil || !e.Reason.Further.At.Equal(expires) {
		t.Errorf("it expires at %s, but told is %s", expires, pretty(e.Reason.Further))
	}
	same(b, "what is next", e.Next, []inspect.Upcoming{
		{
			At:   new(e.Row.ScheduledAt.Add(time.Hour)),
			Text: "it expires, unless it has been resumed and has started by then",
		},
		{At: new(far(60)), Text: "the pause ends, and it becomes EXPIRED"}})
}

func TestWhyInLine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Node(`{"default": 3}`, `{TEST,OTHER}`, true)
	other := store.JSON(`{"type": "OTHER"}`)
	b.due("mine", nil)
	b.due("lower", func(task *store.Task) { task.Priority = -1 })
	b.due("later", func(task *store.Task) { task.Priority, task.At = 5, far(0) })
	b.due("after", func(task *store.Task) { task.At = b.Now() })
	b.due("of a type that nobody has", func(task *store.Task) {
		task.Priority, task.Payload = 5, store.JSON(`{"type": "NONE"}`)
	})
	b.due("of another queue", func(task *store.Task) { task.Priority, task.Queue = 5, "mail" })
	b.isNext("mine", "3 slots")
	b.due("before", func(task *store.Task) { task.At = b.Now().Add(-time.Hour) })
	b.because("mine", "in_line",
		"waits behind 1 task of its priority due before it, while 0 of its queue are claimed for 3 slots, due since T")
	b.due("higher", func(task *store.Task) { task.Priority, task.Payload = 5, other })
	b.due("higher too", func(task *store.Task) { task.Priority = 1 })
	b.Make("EXECUTING", "EXECUTING")
	b.because("mine", "in_line",
		"waits behind 2 tasks of higher priority and 1 task of its priority due before it, "+
			"while 1 of its queue are claimed for 3 slots, due since T")
	b.because("lower", "in_line",
		"waits behind 5 tasks of higher priority, while 1 of its queue are claimed for 3 slots, due since T")
	const ahead = "waits behind 2 tasks of higher priority and 1 task of its priority due before it, " +
		"while 1 of its queue are claimed for 3 slots"
	for _, c := range []struct{ limits, hung, more string }{
		{`{"OTHER": 1}`, `{}`, ""},
		{`{"TEST": 2}`, `{}`, ""},
		{`{"TEST": 1}`, `{}`, ", and all slots of its type are taken (1)"},
		{`{}`, `{"OTHER": 1}`, ", and 1 handler that does not return holds a slot of its nodes"},
		{`{"TEST": 1}`, `{"OTHER": 2, "TEST": 1}`, ", and all slots of its type are taken (1), and 3 handlers that do " +
			"not return hold slots of its nodes"},
		{`["TEST"]`, `["OTHER"]`, ""}, // damaged
		{`{"TEST": "x"}`, `{"OTHER": "x"}`, ""},
	} {
		b.Exec(b.Pool, `UPDATE tasktable.nodes SET type_slots = $1::text::jsonb, hung = $2::text::jsonb`, c.limits, c.hung)
		b.because("mine", "in_line", ahead+c.more+", due since T")
	}
	b.Exec(b.Pool, `UPDATE tasktable.nodes SET type_slots = '{"TEST": 1}', hung = '{}'`)
	_, leave := b.Node(`{"default": 1}`, `{TEST}`, false) // it has no limit
	b.because("mine", "in_line", strings.Replace(ahead, "3 slots", "4 slots", 1)+", due since T")
	leave()
	b.Exec(b.Pool, `UPDATE tasktable.nodes SET type_slots = '{}'`)
	b.must(b.Tasks.PauseScope(b.Ctx, b.Pool, store.Type("OTHER"), time.Time{}, ""))
	b.because("mine", "in_line",
		"waits behind 1 task of higher priority and 1 task of its priority due before it, "+
			"while 1 of its queue are claimed for 3 slots, due since T")
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET lease_expires_at = clock_timestamp() - interval '1 second'
		WHERE id = 'EXECUTING'`)
	b.because("EXECUTING", "lapsed", "the lease of its claim has ended, and nobody has taken it back yet, since T")
	same(b, "what is stuck", one[string](b, b.Pool, `SELECT string_agg(id || ' ' || code, ', ' ORDER BY id)
		FROM tasktable.stuck_tasks`),
		"EXECUTING lapsed, of a type that nobody has no_type, of another queue no_queue")
}
