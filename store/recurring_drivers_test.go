package store_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/storetest"
)

// The verbs and reads work on tables in another schema, too.
func TestOperationsInAnotherSchema(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), storetest.EmptyURL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	b := benchOn(t, pool)
	b.Check(migrations.Up(b.Ctx, pool, "jobs"))
	inJobs := store.New(store.Config{Service: service, Schema: "jobs"})
	b.allOperations(pool, inJobs, "one")
	b.Exec(pool, `CREATE SCHEMA tasktable; CREATE VIEW tasktable.wanted AS `+oneWanted)
	b.Tasks = inJobs
	report, err := b.reconcile(store.ReconcileConfig{Query: `TABLE tasktable.wanted`, Apply: true})
	if err != nil || report.Done[store.Created] != 1 || b.Get("task-TEST-1") == nil {
		b.Errorf("Reconcile: %v, did %v", err, report.Done)
	}
}

// allOperations does all there is to do with tasks of an entity, which it erases at the end.
func (b *bench) allOperations(db store.DB, tasks *store.Store, entity string) {
	b.Helper()
	id := entity + " daily"
	of := func(id string) store.Task {
		task := rich(id)
		task.Entity, task.At, task.Recurrence.Cron = entity, past(0), "@daily"
		return task
	}
	expect := b.expecting(id)
	expect(store.Created)(tasks.Schedule(b.Ctx, db, of(id)))
	expect(store.Unchanged)(tasks.Schedule(b.Ctx, db, of(id)))
	expect(store.Paused)(tasks.PauseUntil(b.Ctx, db, id, far(60)))
	row, err := tasks.Get(b.Ctx, db, id)
	b.Check(err)
	if *row.Cron != "@daily" || *row.TimeZone != "Europe/Berlin" || *row.Overlap != "allow" || *row.CatchUp != "all" ||
		*row.CatchUpPaused != "none" ||
		*row.CatchUpLimit != 7 || *row.Jitter != 90*time.Minute || !row.EndsAt.Equal(far(90)) ||
		*row.MaxOccurrences != 9 || row.OccurrenceCount != 0 ||
		row.ParentID != nil || row.PlannedRevision != nil || !row.PausedUntil.Equal(far(60)) ||
		*row.Retention != 72*time.Hour || row.ArchivedAt != nil {
		b.Errorf("got %s", pretty(row))
	}
	expect(store.Queued)(tasks.Resume(b.Ctx, db, id))
	expect(store.Queued)(tasks.RunNow(b.Ctx, db, id))
	for _, want := range []int{2, 0} {
		if made, err := tasks.Backfill(b.Ctx, db, id, past(0), past(2*24*60), 10); err != nil || made != want {
			b.Errorf("backfill: %d, %v", made, err)
		}
	}
	receipts, err := tasks.Sync(b.Ctx, db, entity, of(id))
	b.Check(err)
	same(b, "sync", outcomes(receipts), []string{id + " unchanged"})

	for _, want := range []store.Outcome{store.Paused, store.Unchanged} {
		if got, err := tasks.PauseScope(b.Ctx, db, store.Queue("mail"), far(0), "why «so»"); err != nil || got != want {
			b.Errorf("pause: %s, %v", got, err)
		}
	}
	pauses, err := tasks.Pauses(b.Ctx, db)
	b.Check(err)
	if len(pauses) != 1 || pauses[0].Scope != "queue" || pauses[0].Name != "mail" || !pauses[0].EndsAt.Equal(far(0)) ||
		*pauses[0].Reason != "why «so»" {
		b.Errorf("got %s", pretty(pauses))
	}
	for _, want := range []store.Outcome{store.Queued, store.Unchanged} {
		if got, err := tasks.ResumeScope(b.Ctx, db, store.Queue("mail")); err != nil || got != want {
			b.Errorf("resume: %s, %v", got, err)
		}
	}

	failed := of(id + " failed")
	failed.Recurrence = nil
	b.succeeds(tasks.Schedule(b.Ctx, db, failed))
	fail := func() {
		rows, err := db.Query(b.Ctx, b.in(tasks, `UPDATE tasktable.scheduled_tasks SET status = 'FAILED', message = 'oh'
			WHERE id = $1 RETURNING id`), failed.ID)
		b.Check(err)
		b.succeeds(pgx.CollectExactlyOneRow(rows, pgx.RowTo[string]))
	}
	fail()
	inspector := b.Inspector
	if tasks != b.Tasks {
		inspector = inspect.New(store.Config{Service: service, Schema: "jobs"})
	}
	filter := inspect.DeadLetters()
	filter.Entity, filter.Message = entity, "oh"
	done, err := inspector.Do(b.Ctx, db, inspect.Action{Verb: inspect.Retry}, inspect.Targets{Filter: &filter})
	b.Check(err)
	same(b, "retried", outcomes(done.Receipts), []string{failed.ID + " queued"})
	fail()
	rows, err := inspector.List(b.Ctx, db, filter)
	if err != nil || len(rows) != 1 || rows[0].ID != failed.ID {
		b.Errorf("dead letters: %s, %v", pretty(rows), err)
	}
	groups, err := inspector.Groups(b.Ctx, db, filter, "")
	if err != nil || len(groups) != 1 || groups[0].Count != 1 || groups[0].Message != "oh" {
		b.Errorf("groups: %s, %v", pretty(groups), err)
	}
	receipt, err := tasks.Archive(b.Ctx, db, failed.ID, "a note\nof two lines")
	if err != nil || receipt.Outcome != store.Archived {
		b.Errorf("archive: %+v, %v", receipt, err)
	}
	row, err = tasks.Get(b.Ctx, db, failed.ID)
	if err != nil || *row.ArchivedNote != "a note\nof two lines" || row.ArchivedAt == nil {
		b.Errorf("archived: %v, %s", err, pretty(row))
	}
	gone, err := tasks.EraseEntity(b.Ctx, db, entity)
	b.Check(err)
	same(b, "erased", gone, store.Erasure{Tasks: 5, Changes: 11})
	if gone, err = tasks.EraseTenant(b.Ctx, db, entity); err != nil || gone != (store.Erasure{}) {
		b.Errorf("erased of a tenant: %+v, %v", gone, err)
	}
}

// in is a statement for the schema of a store.
func (b *bench) in(tasks *store.Store, statement string) string {
	if tasks == b.Tasks {
		return statement
	}
	schema, err := store.NewSchema("jobs")
	b.Check(err)
	return schema.SQL(statement)
}
