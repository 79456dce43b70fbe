package store_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

// refund is a payload whose task has an id of its own.
type refund struct {
	Order string `json:"order"`
}

func (refund) TaskType() string  { return "REFUND" }
func (r refund) TaskKey() string { return r.Order }

// mortal is a task with one task of IfDead that has each field, and one that has none.
func mortal(id string) store.Task {
	return store.Task{ID: id, Payload: payload(1), At: far(0), Entity: "event:1", TenantID: "acme", IfDead: []store.Task{
		{Payload: refund{id}, At: far(5), Expiration: 36 * time.Hour, ExpectedExecutionTime: 1500 * time.Millisecond,
			MaxAttempts: 3, Priority: -7, Queue: "mail", Entity: "order:1", TenantID: "acme", IfFinished: store.Keep,
			Jitter: time.Microsecond, Retention: 90 * time.Minute, Group: "customer:1", Backoff: "1m x2",
			Timeout: time.Second, Deadline: far(900)},
		{Payload: store.JSON(`{"type":"TELL","nothing":null}`), IfFinished: store.Rearm},
	}}
}

// What is to happen at the death is content: the same again changes nothing, however it is written, and another is an
// edit with its line.
func TestIfDeadIsContent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(mortal("one"))
	again := mortal("one")
	row := b.Get("one")
	read, err := store.TaskOf(*row)
	b.Check(err)
	again.IfDead = read.IfDead
	for name, task := range map[string]store.Task{"the same": mortal("one"), "as it was read": again} {
		if got := b.Schedule(task); got.Outcome != store.Unchanged {
			t.Errorf("%s: %s", name, got.Outcome)
		}
	}
	if got := b.Schedule(store.Task{ID: "one", Payload: payload(1), Entity: "event:1", TenantID: "acme"}); got.Outcome !=
		store.Rescheduled {
		t.Errorf("without them: %s", got.Outcome)
	}
	changes := b.Changes("one")
	var was struct {
		IfDead json.RawMessage `json:"if_dead"`
	}
	b.Check(json.Unmarshal(changes[len(changes)-1].Old, &was))
	same(b, "old", string(was.IfDead), string(row.IfDead))

	b.Exec(b.Pool, `SELECT tasktable.schedule('{"type":"TEST"}', id => 'sql',
		if_dead => '[{"payload": {"type": "TELL"}, "expiration": "2 days", "scheduled_at": "2100-01-01 01:00+01"}]')`)
	for _, written := range []string{
		`[{"payload": {"type": "TELL"}, "expiration": "48 hours", "scheduled_at": "2100-01-01 00:00Z", "priority": 0,
			"queue": null, "cron": null}]`,
		one[string](b, b.Pool, `SELECT if_dead::text FROM tasktable.scheduled_tasks WHERE id = 'sql'`),
	} {
		same(b, written, one[string](b, b.Pool, `SELECT (tasktable.schedule('{"type":"TEST"}', id => 'sql',
			if_dead => $1::text::jsonb)).outcome`, written), "unchanged")
	}
}

// Whoever kills a task, the tasks for that case are there with all that was asked of them, in its name. A second death
// repeats a finished one only if it is to be rearmed.
func TestDeathSchedules(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(mortal("one"))
	kill := func(id string) {
		b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET status = 'FAILED', message = 'boom' WHERE id = $1`, id)
	}
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET status = 'CANCELLED' WHERE id = 'one'`)
	if got := one[int](b, b.Pool, `SELECT count(*) FROM tasktable.scheduled_tasks`); got != 1 {
		t.Fatalf("%d tasks after a cancel", got)
	}
	b.Schedule(mortal("one"))
	kill("one")
	same(b, "message", *b.Get("one").Message, "boom")
	for id, want := range map[string]string{
		"task-REFUND-one": `{"type": "REFUND", "order": "one"} 2100-01-01T00:05:00Z mail order:1 acme -7 36:00:00 00:00:01.5` +
			` 3 00:00:00.000001 01:30:00 by events-api of one, task one`,
		"one/dead/2": fmt.Sprintf(`{"type": "TELL", "nothing": null} now default event:1 acme 0  00:05:00 %d   by events-api of one,`+
			` task one`, store.DefaultMaxAttempts),
	} {
		same(b, id, one[string](b, b.Pool, `SELECT concat_ws(' ', payload, CASE WHEN scheduled_at < now() THEN 'now' ELSE
			to_char(scheduled_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END, queue, entity, tenant_id, priority,
			coalesce(expiration::text, ''), expected_execution_time, max_attempts, coalesce(jitter::text, ''),
			coalesce(retention::text, ''), 'by', scheduled_by, 'of', spawned_by || ',', (SELECT c.changed_by
			FROM tasktable.scheduled_task_changes AS c WHERE c.task_id = t.id))
			FROM tasktable.scheduled_tasks AS t WHERE id = $1`, id), want)
	}

	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET status = 'COMPLETED' WHERE id <> 'one'`)
	b.succeeds(b.Tasks.Retry(b.Ctx, b.Pool, "one"))
	kill("one")
	same(b, "message", *b.Get("one").Message, `boom; task "task-REFUND-one" of if_dead stays finished`)
	same(b, "status", b.Get("task-REFUND-one").Status, store.StatusCompleted)
	same(b, "status", b.Get("one/dead/2").Status, store.StatusQueued)
}

// What cannot be scheduled at the death is told in the message, and keeps neither the task from dying nor the others
// from being scheduled.
func TestDeathStands(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, want string }{
		"another tenant's": {
			`SELECT tasktable.schedule('{"type":"TEST"}', id => 'child', tenant_id => 'globex')`,
			`task "child" of if_dead was left as it is, because it is another tenant's`,
		},
		"another type's": {
			`SELECT tasktable.schedule('{"type":"OTHER"}', id => 'child', tenant_id => 'acme')`,
			`task "child" of if_dead was left as it is, because it has another type`,
		},
		"another queue's": {
			`SELECT tasktable.schedule('{"type":"TEST"}', id => 'child', tenant_id => 'acme', queue => 'mail')`,
			`task "child" of if_dead was left as it is, because it has another queue`,
		},
		"a recurring one": {
			`SELECT tasktable.schedule_recurring('{"type":"TEST"}', '@daily', 'child')`,
			`task "child" of if_dead was left as it is, because it recurs`,
		},
		"another service's": {
			`INSERT INTO tasktable.applications (role, service) VALUES ('app', 'shop');
			SELECT tasktable.schedule('{"type":"TEST"}', id => 'child', tenant_id => 'acme', scheduled_by => 'bank')`,
			`task "child" of if_dead was left as it is, because it is another service's`,
		},
		"refused by a trigger": {
			`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not today'; END $$;
			CREATE TRIGGER refuse BEFORE INSERT ON tasktable.scheduled_tasks FOR EACH ROW WHEN (NEW.id = 'child')
			EXECUTE FUNCTION refuse()`,
			`task "child" of if_dead could not be scheduled: not today`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Exec(b.Pool, c.before)
			before := b.Get("child")
			b.Schedule(store.Task{ID: "one", Payload: payload(1), TenantID: "acme", IfDead: []store.Task{
				{ID: "child", Payload: payload(2)}, {ID: "other", Payload: payload(3)}}})
			b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET status = 'EXPIRED', message = 'late' WHERE id = 'one'`)
			row := b.Get("one")
			if row.Status != store.StatusExpired || !strings.HasPrefix(*row.Message, "late; "+c.want) {
				t.Errorf("%s, message %q", row.Status, *row.Message)
			}
			if b.Get("other") == nil {
				t.Error("the other task was not scheduled")
			}
			same(b, "the child", pretty(b.Get("child")), pretty(before))
		})
	}
}

// What Schedule refuses it refuses before it asks the database, and the database refuses it from others.
func TestIfDeadInvalid(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	child := store.Task{Payload: payload(2)}
	with := func(change func(*store.Task)) []store.Task {
		changed := child
		change(&changed)
		return []store.Task{changed}
	}
	for want, ifDead := range map[string][]store.Task{
		"if_dead must be at most 10 tasks":                      make([]store.Task, 11),
		"invalid: if_dead: task 2: payload must not be nil":     {child, {}},
		"invalid: if_dead: task 1: queue must be":               with(func(t *store.Task) { t.Queue = "A" }),
		"invalid: if_dead: task 1: cron must be empty":          with(func(t *store.Task) { t.Recurrence = &store.Recurrence{} }),
		"invalid: if_dead: task 1: if_dead must be empty":       with(func(t *store.Task) { t.IfDead = []store.Task{child} }),
		"invalid: if_dead: task 1: if_running must be empty in": with(func(t *store.Task) { t.IfRunning = store.Again }),
		"invalid: if_dead: task 1: replace must be false":       with(func(t *store.Task) { t.Replace = true }),
		"invalid: if_dead: task 1: tenant_id must be":           with(func(t *store.Task) { t.TenantID = "globex" }),
		"invalid: if_dead: task 1: id must not be that of the":  with(func(t *store.Task) { t.ID = "one" }),
		"invalid: if_dead: task 2: id must not be that of anot": {{ID: "a", Payload: payload(1)}, {ID: "a", Payload: payload(1)}},
		"if_dead must be at most 256 KiB": {{Payload: store.JSON(`{"type":"TEST","a":"` + strings.Repeat("a", 200<<10) + `"}`)},
			{Payload: store.JSON(`{"type":"TEST","a":"` + strings.Repeat("a", 100<<10) + `"}`)}},
	} {
		task := store.Task{ID: "one", Payload: payload(1), TenantID: "acme", IfDead: ifDead}
		_, err := b.Tasks.Schedule(b.Ctx, noDB(b), task)
		b.wantInvalid(err, want)
	}
	for given, want := range map[string]string{
		`{}`:                             "if_dead must be an array of at most 10 tasks",
		`[1]`:                            "if_dead: task 1: it must be an object",
		`[{"payload": {"type": "A B"}}]`: "if_dead: task 1: type must be",
		`[{"payload": []}]`:              "if_dead: task 1: payload must be a JSON object",
		`[{"payload": {"type": "TEST"}, "priority": 101}]`:                                     "if_dead: task 1: priority must be between",
		`[{"payload": {"type": "TEST"}, "expiration": "soon"}]`:                                "if_dead: task 1: invalid input syntax",
		`[{"payload": {"type": "TEST"}, "cron": "@daily"}]`:                                    "if_dead: task 1: cron is not a field",
		`[{"payload": {"type": "TEST"}, "if_finished": "no"}]`:                                 "if_dead: task 1: if_finished must be",
		`[{"payload": {"type": "TEST"}, "tenant_id": "acme"}]`:                                 "if_dead: task 1: tenant_id must be",
		`[{"payload": {"type": "TEST"}, "id": "one"}]`:                                         "if_dead: task 1: id must not be that of the",
		`[{"payload": {"type": "TEST"}, "id": "a@2026-01-01T00:00:00Z"}]`:                      "if_dead: task 1: id must not end in @",
		`[{"payload": {"type": "NOTICE"}}]`:                                                    "if_dead: task 1: notices are the engine's",
		`[{"payload": {"type": "TEST"}, "id": "a"}, {"payload": {"type": "TEST"}, "id": "a"}]`: "if_dead: task 2: id must not",
	} {
		b.refused(`SELECT tasktable.schedule('{"type":"TEST"}', id => 'one', if_dead => $1::text::jsonb)`, want, given)
		b.refused(`SELECT tasktable.schedule_many(jsonb_build_array(jsonb_build_object('id', 'one', 'payload',
			'{"type":"TEST"}'::jsonb, 'if_dead', $1::text::jsonb)))`, want, given)
		b.refused(`INSERT INTO tasktable.scheduled_tasks (id, payload, if_dead)
			VALUES ('one', '{"type":"TEST"}', $1::text::jsonb)`, want, given)
	}
	if b.Get("one") != nil {
		t.Error("the task is there")
	}
}

// An occurrence has the tasks of its recurring task, with ids of its own. Their encoded payloads can be decoded.
func TestIfDeadOfOccurrencesIsEncoded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	codec := secret(t, 1)
	b.Tasks = store.New(store.Config{Service: service, Codec: codec})
	task := mortal("one")
	task.Recurrence = &store.Recurrence{Cron: "@daily"}
	b.Schedule(task)
	b.wantOutcome("the same", store.Unchanged, b.Schedule(task))
	row := b.Get("one")
	if strings.Contains(string(row.IfDead), "nothing") {
		t.Errorf("if_dead in the clear: %s", row.IfDead)
	}
	occurrence := one[string](b, b.Pool, `SELECT tasktable.fork_occurrence('one', '2026-11-23 12:00Z')`)
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET status = 'FAILED' WHERE id = $1`, occurrence)
	for id, want := range map[string]string{
		"task-REFUND-one":      `{"order":"one","type":"REFUND"}`,
		occurrence + "/dead/2": `{"nothing":null,"type":"TELL"}`,
	} {
		payload, err := b.Tasks.Payload(b.Ctx, *b.Get(id))
		if err != nil || string(payload) != want {
			t.Errorf("%s: %s, %v", id, payload, err)
		}
	}
}
