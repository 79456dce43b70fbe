package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// charge is a payload with defaults of its own.
type charge struct {
	N int `json:"n"`
}

func (charge) TaskType() string { return "CHARGE" }

// The receiver is a pointer, and the payloads of the tests are values.
func (*charge) TaskDefaults() store.Defaults {
	return store.Defaults{Queue: "money", MaxAttempts: 3, Backoff: "1m", Priority: 5}
}

// broken is a payload whose defaults break a rule.
type broken struct{}

func (broken) TaskType() string             { return "BROKEN" }
func (broken) TaskDefaults() store.Defaults { return store.Defaults{MaxAttempts: -1} }

// runSettings is what defaults fill.
func runSettings(row *store.Row) string {
	return fmt.Sprintf("%s %d %v %v %d %v %v %v %v", row.Queue, row.Priority, deref(row.Expiration),
		row.ExpectedExecutionTime, row.MaxAttempts, deref(row.Backoff), deref(row.Timeout), deref(row.Retention),
		deref(row.GroupKey))
}

func deref[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}

const (
	plainSettings = "default 0 0s 5m0s 10  0s 0s "
	fullSettings  = "mail 7 1h0m0s 1m0s 2 10s x2 30s 48h0m0s all"
)

func fullDefaults(name string) store.Defaults {
	return store.Defaults{Type: name, Queue: "mail", Priority: 7, Expiration: time.Hour,
		ExpectedExecutionTime: time.Minute, MaxAttempts: 2, Backoff: "10s x2", Timeout: 30 * time.Second,
		Retention: 48 * time.Hour, Group: "all"}
}

// Each way to schedule a task fills the fields that are left out: with the defaults of the type, else with those of all
// types. A plain INSERT does not.
func TestDefaultsOfEachWay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.setDefaults(fullDefaults("TEST"), store.Created)
	b.setDefaults(store.Defaults{Type: store.AllTypes, MaxAttempts: 4, Queue: "every"}, store.Created)
	tasks := func(prefix string, many int) (all []store.Task) {
		for i := range many {
			all = append(all, store.Task{ID: fmt.Sprint(prefix, i), Payload: payload(1), At: far(0)})
		}
		return all
	}
	b.Schedule(tasks("go", 1)[0])
	for _, many := range []int{2, 25} { // one after the other, and by one statement
		b.succeeds(b.Tasks.ScheduleMany(b.Ctx, b.Pool, tasks(fmt.Sprint("many", many, "-"), many)))
	}
	b.succeeds(b.Tasks.Sync(b.Ctx, b.Pool, "event:1", tasks("sync", 1)...))
	b.Exec(b.Pool, `SELECT tasktable.schedule('{"type": "TEST"}', id => 'sql')`)
	b.Exec(b.Pool, `SELECT tasktable.schedule_recurring('{"type": "TEST"}', '@daily', 'recurring')`)
	occurrence := one[string](b, b.Pool, `SELECT tasktable.fork_occurrence('recurring', '2100-01-01 00:00Z')`)
	for _, id := range []string{"go0", "many2-1", "many25-24", "sync0", "sql", "recurring", occurrence} {
		same(b, id, runSettings(b.Get(id)), fullSettings)
	}
	b.Schedule(store.Task{ID: "other", Payload: typed("OTHER"), At: far(0)})
	same(b, "another type", runSettings(b.Get("other")), "every 0 0s 5m0s 4  0s 0s ")
	b.Exec(b.Pool, `INSERT INTO tasktable.scheduled_tasks (id, payload) VALUES ('plain', '{"type": "TEST"}')`)
	same(b, "a plain INSERT", runSettings(b.Get("plain")), plainSettings)
	given := store.Task{ID: "given", Payload: payload(1), At: far(0), MaxAttempts: 10, Queue: "default", Priority: 1}
	b.Schedule(given)
	same(b, "fields that are given", runSettings(b.Get("given")), "default 1 1h0m0s 1m0s 10 10s x2 30s 48h0m0s all")
	for _, many := range []int{1, 25} {
		all := tasks(fmt.Sprint("none", many, "-"), many)
		for i := range all {
			all[i].NoDefaults = true
		}
		b.succeeds(b.Tasks.ScheduleMany(b.Ctx, b.Pool, all))
		same(b, "NoDefaults", runSettings(b.Get(all[0].ID)), plainSettings)
	}
}

func (b *bench) setDefaults(d store.Defaults, want store.Outcome) {
	b.Helper()
	if outcome, err := b.Tasks.SetDefaults(b.Ctx, b.Pool, d); err != nil || outcome != want {
		b.Errorf("set defaults of %s: %s, %v, want %s", d.Type, outcome, err, want)
	}
}

// A change of defaults is no edit of what is scheduled. A task that is scheduled again gets them, and a row that is read
// as a task and scheduled again does not.
func TestAChangeOfDefaults(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	task := store.Task{ID: "one", Payload: payload(1), At: far(0)}
	b.Schedule(task)
	before := b.state("one")
	b.setDefaults(fullDefaults("TEST"), store.Created)
	b.setDefaults(fullDefaults("TEST"), store.Unchanged)
	same(b, "the row", b.state("one"), before)
	read, err := store.TaskOf(*b.Get("one"))
	b.Check(err)
	b.wantOutcome("the row as a task", store.Unchanged, b.Schedule(read))
	b.wantOutcome("scheduled again", store.Rescheduled, b.Schedule(task))
	same(b, "the task", runSettings(b.Get("one")), fullSettings)
	if b.Get("one").AskedRevision != before.Row.AskedRevision {
		b.Error("the idempotency key has changed")
	}
	b.wantOutcome("a third time", store.Unchanged, b.Schedule(task))
	b.setDefaults(store.Defaults{Type: "TEST", Priority: -1}, store.Changed)
	b.Schedule(task)
	same(b, "others", runSettings(b.Get("one")), "default -1 0s 5m0s 10  0s 0s ")
	for _, want := range []store.Outcome{store.Deleted, store.Absent} {
		if outcome, err := b.Tasks.RemoveDefaults(b.Ctx, b.Pool, "TEST"); err != nil || outcome != want {
			b.Errorf("remove: %s, %v, want %s", outcome, err, want)
		}
	}
	b.Schedule(task)
	same(b, "none", runSettings(b.Get("one")), plainSettings)
}

// The defaults that a payload brings win over those of the database, also for a task of IfDead.
func TestDefaultsOfAPayload(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.setDefaults(fullDefaults("CHARGE"), store.Created)
	b.Schedule(store.Task{ID: "one", Payload: charge{}, At: far(0), MaxAttempts: 9,
		IfDead: []store.Task{{ID: "child", Payload: charge{N: 1}}}})
	const want = "money 5 1h0m0s 1m0s %d 1m 30s 48h0m0s all"
	same(b, "the task", runSettings(b.Get("one")), fmt.Sprintf(want, 9))
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET status = 'FAILED' WHERE id = 'one'`)
	same(b, "the task of IfDead", runSettings(b.Get("child")), fmt.Sprintf(want, 3))
	fixed, err := store.Task{ID: "two", Payload: charge{}, At: far(0)}.Fixed()
	b.Check(err)
	b.Schedule(fixed)
	same(b, "a fixed task", runSettings(b.Get("two")), fmt.Sprintf(want, 3))
	_, err = b.Tasks.Schedule(b.Ctx, noDB(b), store.Task{ID: "three", Payload: broken{}})
	b.wantInvalid(err, "TaskDefaults of type BROKEN: invalid: max_attempts")
}

// A task of if_dead gets the defaults of the time of the death, but its queue is that of the time of the call.
func TestDefaultsAtTheDeath(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(store.Task{ID: "one", Payload: payload(1), IfDead: []store.Task{{ID: "child", Payload: typed("TELL")}}})
	b.setDefaults(fullDefaults("TELL"), store.Created)
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET status = 'FAILED' WHERE id = 'one'`)
	same(b, "the child", runSettings(b.Get("child")), strings.Replace(fullSettings, "mail", "default", 1))
	b.Exec(b.Pool, `SELECT tasktable.retry('one')`)
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET status = 'FAILED' WHERE id = 'one'`)
	if message := deref(b.Get("one").Message); strings.Contains(message, "queue") {
		b.Errorf("at the second death: %s", message)
	}
}

// A priority of 0 counts as left out in Go and in if_dead. In a call in SQL it is a value.
func TestAPriorityOfZero(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.setDefaults(store.Defaults{Type: "TEST", Priority: 7}, store.Created)
	b.Schedule(store.Task{ID: "go", Payload: payload(1)})
	b.Exec(b.Pool, `SELECT tasktable.schedule('{"type": "TEST"}', id => 'null')`)
	b.Exec(b.Pool, `SELECT tasktable.schedule('{"type": "TEST"}', id => 'zero', priority => 0,
		if_dead => '[{"id": "child", "payload": {"type": "TEST"}, "priority": 0}]')`)
	b.Exec(b.Pool, `SELECT tasktable.schedule_many('[{"id": "one of many", "payload": {"type": "TEST"}, "priority": 0}]')`)
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET status = 'FAILED' WHERE id = 'zero'`)
	same(b, "priorities", one[string](b, b.Pool, `SELECT string_agg(id || ' ' || priority, ', ' ORDER BY id)
		FROM tasktable.scheduled_tasks`), "child 7, go 7, null 7, one of many 0, zero 0")
}

// Reconcile gives a new task the defaults, and a column that is null, too. A stored task keeps its fields of which the
// query has no column.
func TestReconcileWithDefaults(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(store.Task{ID: "old", Payload: typed("TEST"), At: far(0)})
	b.setDefaults(fullDefaults("TEST"), store.Created)
	var report store.ReconcileReport
	b.Check(pgx.BeginFunc(b.Ctx, b.Pool, func(tx pgx.Tx) (err error) {
		report, err = b.Tasks.Reconcile(b.Ctx, tx, store.ReconcileConfig{Type: "TEST", Apply: true, Query: `
			SELECT id, timestamptz '2100-01-01Z' AS scheduled_at, NULL::int AS max_attempts
			FROM unnest('{old, new}'::text[]) AS id`})
		return err
	}))
	same(b, "new", runSettings(b.Get("new")), fullSettings)
	same(b, "old", runSettings(b.Get("old")), strings.Replace(plainSettings, "10 ", "2 ", 1))
	if len(report.Type) == 0 {
		b.Error("no report")
	}
}

func TestBadDefaults(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for want, d := range map[string]store.Defaults{
		"type must be 2 to 127":                        {Type: "x", MaxAttempts: 1},
		"queue must be 1 to 64":                        {Type: "TEST", Queue: "A B"},
		"priority must be between":                     {Type: "TEST", Priority: 101},
		"expiration must be between":                   {Type: "TEST", Expiration: -1},
		"expected_execution_time must be between":      {Type: "TEST", ExpectedExecutionTime: store.MaxExpectedExecutionTime + 1},
		"max_attempts must be between":                 {Type: "*", MaxAttempts: 1001},
		"backoff must be a wait":                       {Type: "*", Backoff: "soon"},
		"timeout must be between":                      {Type: "*", Timeout: -1},
		"retention must be between":                    {Type: "*", Retention: -1},
		"group_key must be at most 512 bytes of UTF-8": {Type: "*", Group: "a\nb"},
	} {
		_, err := b.Tasks.SetDefaults(b.Ctx, noDB(b), d)
		b.wantInvalid(err, want)
	}
	for call, want := range map[string]string{
		`'x', max_attempts => 1`:                 "type must be 2 to 127",
		`NULL, max_attempts => 1`:                "type must be given, or * for all types",
		`'TEST', queue => 'A B'`:                 "queue must be 1 to 64",
		`'TEST', backoff => 'soon'`:              "backoff must be a wait such as 1m",
		`'TEST', timeout => '1 month'`:           "timeout must be over 0 and at most 168 hours",
		`'TEST', expected_execution_time => '0'`: "expected_execution_time must be over 0",
	} {
		b.refused(`SELECT tasktable.set_defaults(`+call+`)`, want)
	}
	if n := one[int](b, b.Pool, `SELECT count(*) FROM tasktable.task_defaults`); n != 0 {
		b.Errorf("%d rows", n)
	}
	all := fullDefaults("TEST")
	b.setDefaults(all, store.Created)
	b.setDefaults(store.Defaults{Type: store.AllTypes}, store.Created)
	found, err := b.Tasks.Defaults(b.Ctx, b.Pool)
	b.Check(err)
	if len(found) != 2 || found[0].Type != store.AllTypes || found[1].ChangedBy != service || found[1].ChangedAt.IsZero() {
		b.Fatalf("listed %+v", found)
	}
	all.ChangedAt, all.ChangedBy = found[1].ChangedAt, service
	same(b, "listed", found[1], all)
}
