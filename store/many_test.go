package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

func TestScheduleManyAnswersInTheOrderGiven(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Make("b", "QUEUED")
	b.Make("c", "COMPLETED")
	b.Make("d", "held CANCELLED")
	moved := base("b")
	moved.At = far(5)
	tasks := []store.Task{base("z"), base("d"), moved, base("c"), base("a"), base("z")}
	receipts, err := b.Tasks.ScheduleMany(b.Ctx, b.Pool, tasks)
	b.Check(err)
	same(b, "receipts", outcomes(receipts), []string{
		"z created", "d rearmed", "b rescheduled", "c finished", "a created", "z unchanged",
	})
	for _, receipt := range receipts {
		if row := b.Get(receipt.ID); row.Revision != receipt.Revision {
			t.Errorf("%s: revision %d, the row says %d", receipt.ID, receipt.Revision, row.Revision)
		}
	}
	same(b, "lines", b.Lines("a"), []string{"schedule created " + service})

	receipts, err = b.Tasks.ScheduleMany(b.Ctx, b.Pool, nil)
	if err != nil || len(receipts) != 0 {
		t.Errorf("of none: %v, %v", receipts, err)
	}
}

func TestOfTwoWithOneIDTheLaterWins(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first, second, third := base("one"), base("one"), base("one")
	second.Payload, third.Payload = payload(2), payload(3)
	receipts, err := b.Tasks.ScheduleMany(b.Ctx, b.Pool, []store.Task{first, second, third})
	b.Check(err)
	same(b, "receipts", outcomes(receipts), []string{"one created", "one rescheduled", "one rescheduled"})
	if row := b.Get("one"); string(row.Payload) != `{"n": 3, "type": "TEST"}` || row.Revision != receipts[2].Revision {
		t.Errorf("got %s in revision %d", row.Payload, row.Revision)
	}
}

// Bulk takes each field as Schedule does.
func TestScheduleManyStoresWhatScheduleDoes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	alone := b.Schedule(full("alone"))
	receipts, err := b.Tasks.ScheduleMany(b.Ctx, b.Pool, []store.Task{full("among"), {ID: "zero", Payload: payload(1)}})
	b.Check(err)
	single, bulk := b.Get(alone.ID), b.Get("among")
	for _, row := range []*store.Row{single, bulk} {
		if row.AskedRevision != row.Revision {
			b.Errorf("%s is of revision %d, with asked_revision %d", row.ID, row.Revision, row.AskedRevision)
		}
	}
	bulk.ID, bulk.Revision, bulk.AskedRevision, bulk.CreatedAt, bulk.LastStatusUpdate = single.ID, single.Revision,
		single.AskedRevision, single.CreatedAt, single.LastStatusUpdate
	same(b, "row", bulk, single)
	if row := b.Get("zero"); receipts[1].Outcome != store.Created || row.ScheduledAt.After(b.Now()) ||
		row.Expiration != nil || row.Entity != nil {
		t.Errorf("a task of defaults: %s", pretty(row))
	}
	keep := base("done")
	b.Make("done", "FAILED")
	keep.At, keep.IfFinished = far(5), store.Keep
	receipts, err = b.Tasks.ScheduleMany(b.Ctx, b.Pool, []store.Task{keep})
	b.Check(err)
	same(b, "keep", outcomes(receipts), []string{"done finished"})
}

// Tasks that an application's trigger schedules for each of many new ones, one by one or many at once, are made and
// recorded as others are.
func TestTriggersScheduleBesideScheduleMany(t *testing.T) {
	t.Parallel()
	const most = 30 // that so many are inserted by one statement is not to be seen
	for timing, others := range map[string]string{
		"BEFORE": `SELECT tasktable.schedule('{"type": "TEST"}', id => 'one ' || $1)`,
		"AFTER": `SELECT tasktable.schedule_many(jsonb_agg(jsonb_build_object('id', 'one ' || $1 || CASE WHEN n > 1
			THEN ' ' || n ELSE '' END,
			'payload', '{"type": "TEST"}'::jsonb))) FROM generate_series(1, 25) AS n`,
	} {
		t.Run(timing, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Exec(b.Pool, `CREATE FUNCTION others() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				EXECUTE `+quoted(others)+` USING NEW.id;
				RETURN NEW;
			END $$`)
			b.Exec(b.Pool, `CREATE TRIGGER others `+timing+` INSERT ON tasktable.scheduled_tasks
				FOR EACH ROW WHEN (NEW.id NOT LIKE 'one %') EXECUTE FUNCTION others()`)
			var many []store.Task
			for i := range most {
				many = append(many, base(fmt.Sprint(i)))
			}
			receipts, err := b.Tasks.ScheduleMany(b.Ctx, b.Pool, many)
			b.Check(err)
			for i, receipt := range receipts {
				if receipt.Outcome != store.Created || receipt.ID != fmt.Sprint(i) {
					t.Errorf("receipt %d: %+v", i, receipt)
				}
				for _, id := range []string{receipt.ID, "one " + receipt.ID} {
					if got := b.Lines(id); len(got) != 1 {
						t.Errorf("lines of changes of %s: %v", id, got)
					}
				}
			}
			b.Exec(b.Pool, `INSERT INTO tasktable.scheduled_tasks (id, payload) VALUES ('later', '{"type": "TEST"}')`)
			if got := b.Lines("later"); len(got) != 1 {
				t.Errorf("lines of changes of one scheduled later: %v", got)
			}
		})
	}
}

// A bulk call that failed within a transaction that goes on leaves nothing behind: rows are made and
// recorded as before.
func TestAfterABulkCallThatFailed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.InTx(func(tx pgx.Tx) {
		b.Exec(tx, `DO $$ BEGIN
			PERFORM tasktable.schedule_many(jsonb_agg(jsonb_build_object('id', n::text, 'payload',
			'{"type": "TEST"}'::jsonb, 'priority', 85 + n)))
			FROM generate_series(1, 30) AS n;
			RAISE 'it should have failed';
		EXCEPTION WHEN check_violation THEN
			PERFORM tasktable.schedule('{"type": "TEST"}', id => 'instead');
		END $$`)
		b.Exec(tx, `INSERT INTO tasktable.scheduled_tasks (id, payload) VALUES ('beside', '{"type": "TEST"}')`)
	})
	for _, id := range []string{"instead", "beside"} {
		if row, lines := b.Get(id), b.Lines(id); row == nil || row.NextAttemptAt == nil || len(lines) != 1 {
			t.Errorf("%s: %s with the lines %v", id, pretty(row), lines)
		}
	}
	if b.Get("1") != nil {
		t.Error("a task of the call that failed is there")
	}
}

// quoted is text as an SQL literal.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// of is a task that Sync is to fill the entity in.
func of(id string) store.Task {
	task := base(id)
	task.Entity = ""
	return task
}

func TestSyncMakesTheTasksOfAnEntityExactlyThese(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, kind := range rowKinds[1:] {
		b.Make(kind, kind)
	}
	b.Make("kept", "QUEUED")
	elsewhere := base("elsewhere")
	elsewhere.Entity = "event:2"
	b.Schedule(elsewhere)
	done := b.state("COMPLETED")
	other := b.state("elsewhere")

	receipts, err := b.Tasks.Sync(b.Ctx, b.Pool, "event:1", of("new"), base("kept"), base("FAILED"))
	b.Check(err)
	same(b, "receipts", outcomes(receipts), []string{
		"new created", "kept unchanged", "FAILED finished",
		"EXECUTING cancelled", "PAUSED cancelled", "QUEUED cancelled", "held PAUSED cancelled", "held QUEUED cancelled",
	})
	rows, err := b.Inspector.List(b.Ctx, b.Pool, inspect.Filter{
		Entity: "event:1", Statuses: []store.Status{store.StatusQueued},
	})
	b.Check(err)
	if len(rows) != 2 || rows[0].ID != "kept" || rows[1].ID != "new" {
		t.Errorf("waiting now: %s", pretty(rows))
	}
	if row := b.Get("EXECUTING"); row.Fence == nil {
		t.Error("the hold of the running one is gone")
	}
	same(b, "a finished one", b.state("COMPLETED"), done)
	same(b, "another entity's", b.state("elsewhere"), other)
	same(b, "lines", b.Lines("new"), []string{"sync created " + service})

	receipts, err = b.Tasks.Sync(b.Ctx, b.Pool, "event:1", base("kept"), base("elsewhere"))
	b.Check(err)
	same(b, "moved here", outcomes(receipts), []string{"kept unchanged", "elsewhere rescheduled", "new cancelled"})
	receipts, err = b.Tasks.Sync(b.Ctx, b.Pool, "event:1")
	b.Check(err)
	same(b, "none", outcomes(receipts), []string{"elsewhere cancelled", "kept cancelled"})
}

func TestSyncRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Make("one", "QUEUED")
	before := b.state("one")
	foreign := base("two")
	foreign.Entity = "event:2"
	for name, call := range map[string]func() (any, error){
		"no entity":      func() (any, error) { return b.Tasks.Sync(b.Ctx, b.Pool, "", of("two")) },
		"no id":          func() (any, error) { return b.Tasks.Sync(b.Ctx, noDB(b), "event:1", of("")) },
		"another's task": func() (any, error) { return b.Tasks.Sync(b.Ctx, b.Pool, "event:1", foreign) },
	} {
		if _, err := call(); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for sql, message := range map[string]string{
		`SELECT * FROM tasktable.sync('event:1', NULL)`:                              "tasks must be a JSON array",
		`SELECT * FROM tasktable.sync('event:1', '{}')`:                              "tasks must be a JSON array",
		`SELECT * FROM tasktable.sync('event:1', '[{"payload": {"type": "TEST"}}]')`: "id must be given",
		`SELECT * FROM tasktable.sync('event:1', '[7]')`:                             "id must be given",
		`SELECT * FROM tasktable.sync(NULL, '[]')`:                                   "entity must be given",
		`SELECT * FROM tasktable.sync('', '[]')`:                                     "entity must be 1 to 512 bytes",
		`SELECT * FROM tasktable.sync('event:1',
			'[{"id": "two", "payload": {"type": "TEST"}}, {"id": "x"}]')`: `"payload"`,
	} {
		b.refused(sql, message)
	}
	same(b, "task", b.state("one"), before)
	if b.Get("two") != nil {
		t.Error("a refused Sync left a task")
	}
}
