package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// dueIn is how long after now the task is due.
func (b *bench) dueIn(id string) time.Duration {
	b.Helper()
	return one[time.Duration](b, b.Pool, `SELECT (extract(epoch FROM scheduled_at - clock_timestamp()) * 1e9)::bigint
		FROM tasktable.scheduled_tasks WHERE id = $1`, id)
}

func (b *bench) near(what string, got, want time.Duration) {
	b.Helper()
	if got > want || got < want-5*time.Second {
		b.Errorf("%s: due in %s, want %s", what, got, want)
	}
}

// In is the time of a task that is new or runs again. A task that waits keeps its time.
func TestIn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	task := func(in time.Duration) store.Task { return store.Task{ID: "one", Payload: payload(1), In: in} }
	b.Schedule(task(time.Hour))
	b.near("new", b.dueIn("one"), time.Hour)
	b.wantOutcome("waiting", store.Unchanged, b.Schedule(task(3*time.Hour)))
	b.Exec(b.Pool, `SELECT tasktable.cancel('one')`)
	b.wantOutcome("cancelled", store.Rearmed, b.Schedule(task(2*time.Hour)))
	b.near("cancelled", b.dueIn("one"), 2*time.Hour)
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET status = 'FAILED' WHERE id = 'one'`)
	b.wantOutcome("failed", store.Finished, b.Schedule(task(time.Hour)))
	again := task(time.Hour)
	again.IfFinished = store.Rearm
	b.wantOutcome("failed, and rearmed", store.Rearmed, b.Schedule(again))
	b.near("rearmed", b.dueIn("one"), time.Hour)
	var many []store.Task
	for i := range 25 {
		many = append(many, store.Task{ID: fmt.Sprint("many", i), Payload: payload(1), In: time.Hour})
	}
	b.succeeds(b.Tasks.ScheduleMany(b.Ctx, b.Pool, many))
	b.near("many", b.dueIn("many24"), time.Hour)
}

// A task that exists is left as it is, whatever its content, by Keep and Reject, and so is one within UniqueFor.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	task := func(change func(*store.Task)) store.Task {
		task := store.Task{ID: "one", Payload: payload(2), At: far(5)}
		change(&task)
		return task
	}
	keep := task(func(t *store.Task) { t.IfExists = store.Keep })
	reject := task(func(t *store.Task) { t.IfExists = store.Reject })
	unique := task(func(t *store.Task) { t.UniqueFor = time.Hour })
	first := b.Schedule(store.Task{ID: "one", Payload: payload(1), At: far(0), IfExists: store.Keep})
	if first.Outcome != store.Created {
		b.Fatalf("the first: %+v", first)
	}
	duplicates := func(state string, tasks ...store.Task) {
		b.Helper()
		for _, task := range tasks {
			before := b.state("one")
			receipt, err := b.Tasks.Schedule(b.Ctx, b.Pool, task)
			if receipt.Outcome != store.Duplicate || receipt.Revision != before.Row.Revision ||
				errors.Is(err, store.ErrDuplicate) != (task.IfExists == store.Reject) {
				b.Errorf("%s: %+v, %v", state, receipt, err)
			}
			if task.IfExists != store.Reject {
				receipts, err := b.Tasks.ScheduleMany(b.Ctx, b.Pool, []store.Task{task})
				if err != nil || receipts[0].Outcome != store.Duplicate {
					b.Errorf("%s, many: %+v, %v", state, receipts, err)
				}
			}
			same(b, state, b.state("one"), before)
		}
	}
	duplicates("waiting", keep, reject, unique)
	b.Exec(b.Pool, `SELECT tasktable.pause('one')`)
	duplicates("paused", keep, reject, unique)
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET status = 'FAILED' WHERE id = 'one'`)
	duplicates("failed", unique)
	b.wantOutcome("keep of a failed task", store.Rearmed, b.Schedule(keep)) // IfFinished decides about a finished task
	duplicates("rearmed", keep, reject, unique)
	b.Exec(b.Pool, `SELECT tasktable.cancel('one')`)
	b.wantOutcome("a cancelled task has not run", store.Rearmed, b.Schedule(unique))
	// The time counts from the first call, and from when the task was queued again, whatever became of it since.
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET rearmed_at = clock_timestamp() - interval '59 minutes' WHERE id = 'one'`)
	duplicates("after 59 minutes", unique)
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET rearmed_at = clock_timestamp() - interval '61 minutes' WHERE id = 'one'`)
	unique.Payload = payload(3)
	b.wantOutcome("after an hour", store.Rescheduled, b.Schedule(unique))
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET status = 'COMPLETED' WHERE id = 'one'`)
	unique.At = time.Time{}
	b.wantOutcome("after an hour, when it has ended", store.Rearmed, b.Schedule(unique))
	duplicates("within the next hour", unique)
}

// A burst of calls moves the task that waits, but never past the longest wait after the first call.
func TestDebounce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	task := store.Task{ID: "one", Payload: payload(1), In: 10 * time.Minute, Debounce: time.Hour}
	ago := func(created string) {
		b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET created_at = clock_timestamp() - $1::text::interval,
			scheduled_at = least(scheduled_at, clock_timestamp() - $1::text::interval + interval '1 hour') WHERE id = 'one'`, created)
	}
	b.Schedule(task)
	b.near("the first", b.dueIn("one"), 10*time.Minute)
	b.wantOutcome("at once again", store.Unchanged, b.Schedule(task)) // moves by less than a tenth
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET scheduled_at = scheduled_at - interval '5 minutes' WHERE id = 'one'`)
	b.wantOutcome("five minutes later", store.Rescheduled, b.Schedule(task))
	b.near("moved", b.dueIn("one"), 10*time.Minute)
	ago("55 minutes")
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET scheduled_at = clock_timestamp() + interval '2 minutes' WHERE id = 'one'`)
	b.Schedule(task)
	b.near("near the end", b.dueIn("one"), 5*time.Minute)
	ago("61 minutes")
	before := b.state("one")
	b.wantOutcome("past the end", store.Unchanged, b.Schedule(task))
	same(b, "past the end", b.state("one"), before)
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET status = 'COMPLETED' WHERE id = 'one'`)
	b.wantOutcome("after its end", store.Rearmed, b.Schedule(task))
	b.near("a new burst", b.dueIn("one"), 10*time.Minute)
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET scheduled_at = clock_timestamp() WHERE id = 'one'`)
	b.AsEngine(func(tx pgx.Tx) { // a claim
		b.Exec(tx, `UPDATE tasktable.scheduled_tasks SET status = 'EXECUTING', fence = nextval('tasktable.task_numbers'),
			lease_expires_at = clock_timestamp() + interval '1 hour', next_attempt_at = NULL, attempt = 1`)
	})
	for range 2 {
		b.wantOutcome("while it runs", store.RunsAgain, b.Schedule(task))
	}
	// A claim ahead of the time is no run. The cap holds, so that calls cannot put the task off for ever.
	b.Schedule(store.Task{ID: "two", Payload: payload(1), In: time.Second, Debounce: time.Minute})
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET created_at = clock_timestamp() - interval '30 seconds',
		scheduled_at = clock_timestamp() + interval '500 ms' WHERE id = 'two'`)
	b.AsEngine(func(tx pgx.Tx) {
		b.Exec(tx, `UPDATE tasktable.scheduled_tasks SET status = 'EXECUTING', fence = nextval('tasktable.task_numbers'),
			lease_expires_at = clock_timestamp() + interval '1 hour', next_attempt_at = NULL, attempt = 1 WHERE id = 'two'`)
	})
	b.Schedule(store.Task{ID: "two", Payload: payload(1), In: time.Hour, Debounce: time.Hour})
	b.near("claimed ahead", b.dueIn("two"), time.Hour-30*time.Second)
	// A task that was put off for longer is due after the delay.
	b.Schedule(store.Task{ID: "three", Payload: payload(1), At: far(0)})
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET created_at = clock_timestamp() - interval '2 hours' WHERE id = 'three'`)
	b.Schedule(store.Task{ID: "three", Payload: payload(1), In: 10 * time.Minute, Debounce: time.Hour})
	b.near("put off for longer", b.dueIn("three"), 10*time.Minute)
}

// Who runs a task whose deadline has passed wants it to run. A resume keeps the deadline.
func TestVerbsPastTheDeadline(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for verb, kept := range map[string]bool{"retry": false, "run_now": false, "resume": true} {
		b.Schedule(store.Task{ID: verb, Payload: payload(1), Deadline: far(0)})
		b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET deadline = clock_timestamp() - interval '1 hour',
			status = CASE id WHEN 'retry' THEN 'EXPIRED' ELSE 'PAUSED' END WHERE id = $1`, verb)
		b.Exec(b.Pool, `SELECT tasktable.`+verb+`($1)`, verb)
		if row := b.Get(verb); row.Status != store.StatusQueued || row.Deadline != nil != kept {
			b.Errorf("%s: %s, deadline %v", verb, row.Status, row.Deadline)
		}
	}
	b.Schedule(store.Task{ID: "early", Payload: payload(1), At: far(0), Deadline: far(9)})
	b.Exec(b.Pool, `SELECT tasktable.run_now('early')`)
	if b.Get("early").Deadline == nil {
		b.Error("a deadline that is to come was taken away")
	}
}

func TestBadWishes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for want, change := range map[string]func(*store.Task){
		`if_exists must be keep or reject, or empty, got "rearm"`:      func(t *store.Task) { t.IfExists = store.Rearm },
		"delay must be between 1µs and 10 years":                       func(t *store.Task) { t.In = -1 },
		"delay must not be given together with scheduled_at":           func(t *store.Task) { t.In, t.At = 1e9, far(0) },
		"delay must be empty for a task that recurs":                   func(t *store.Task) { t.In, t.Recurrence = 1e9, &store.Recurrence{Cron: "@daily"} },
		"debounce must be at least delay, which must be given":         func(t *store.Task) { t.Debounce = 1e9 },
		"debounce must be at least delay, which must be given, got 1s": func(t *store.Task) { t.In, t.Debounce = 2e9, 1e9 },
		"unique_for must be between 1µs and 10 years":                  func(t *store.Task) { t.UniqueFor = 87661 * time.Hour },
		"unique_for needs an id":                                       func(t *store.Task) { t.ID, t.UniqueFor = "", time.Hour },
		"if_dead: task 1: delay must be empty in a task of if_dead": func(t *store.Task) {
			t.IfDead = []store.Task{{Payload: payload(1), In: time.Hour}}
		},
		"if_dead: task 1: if_exists must be empty in a task of if_dead": func(t *store.Task) {
			t.IfDead = []store.Task{{Payload: payload(1), IfExists: store.Keep}}
		},
	} {
		task := store.Task{ID: "bad", Payload: payload(1)}
		change(&task)
		_, err := b.Tasks.Schedule(b.Ctx, noDB(b), task)
		b.wantInvalid(err, want)
	}
	for call, want := range map[string]string{
		`if_exists => 'reject'`:                    "if_exists must be 'keep' or null",
		`delay => '0'`:                             "delay must be over 0",
		`delay => '1 month'`:                       "delay must be over 0 and at most 10 years, in days or less",
		`delay => '1 s', scheduled_at => now()`:    "delay must not be given together with scheduled_at",
		`delay => '1 s', cron => '@daily'`:         "delay must be null for a recurring task, and so must debounce",
		`debounce => '1 s'`:                        "debounce must be at least delay, which must be given",
		`debounce => '1 s', delay => '2 s'`:        "debounce must be at least delay",
		`delay => '1 s', debounce => '11 years'`:   "debounce must be at least delay",
		`delay => '1 s', deadline => now()`:        "deadline must be later than the time of the task",
		`scheduled_at => now(), deadline => now()`: "deadline must be later than the time of the task",
		`cron => '@daily', if_exists => 'keep', scheduled_at => '2030-01-02', ends_at => '2030-01-01'`: "ends_at must not be before",
		`unique_for => '-1 s'`: "unique_for must be over 0",
	} {
		b.refused(`SELECT tasktable.schedule('{"type": "TEST"}', id => 'bad', `+call+`)`, want)
	}
	if n := one[int](b, b.Pool, `SELECT count(*) FROM tasktable.scheduled_tasks`); n != 0 {
		b.Errorf("%d tasks", n)
	}
	for _, bad := range []struct {
		want string
		do   func() error
	}{
		{"task 1 of 1: invalid: if_exists must be keep, or empty, in a call for many tasks", func() error {
			_, err := b.Tasks.ScheduleMany(b.Ctx, noDB(b), []store.Task{{Payload: payload(1), IfExists: store.Reject}})
			return err
		}},
		{"sync: invalid: if_exists and unique_for must be empty", func() error {
			_, err := b.Tasks.Sync(b.Ctx, noDB(b), "event:1", store.Task{ID: "a", Payload: payload(1), IfExists: store.Keep})
			return err
		}},
		{"if_exists and unique_for must be null in sync", func() error {
			_, err := b.Pool.Exec(b.Ctx, `SELECT tasktable.sync('event:1',
				'[{"id": "a", "payload": {"type": "TEST"}, "unique_for": "1 hour"}]')`)
			return err
		}},
		{"delay must be over 0", func() error { // the way of many tasks
			_, err := b.Pool.Exec(b.Ctx, `SELECT tasktable.schedule_many((SELECT jsonb_agg(jsonb_build_object('id', 'bad' || n,
				'payload', '{"type": "TEST"}'::jsonb, 'delay', '-1 hour')) FROM generate_series(1, 25) AS n))`)
			return err
		}},
	} {
		if err := bad.do(); err == nil || !strings.Contains(err.Error(), bad.want) {
			b.Errorf("%v, want %s", err, bad.want)
		}
	}
	if n := one[int](b, b.Pool, `SELECT count(*) FROM tasktable.scheduled_tasks`); n != 0 {
		b.Errorf("%d tasks", n)
	}
}
