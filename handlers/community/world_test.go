package community_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/community"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

// world is a database with the community "home" of member-1, its host, and member-2.
type world struct {
	t        testing.TB
	ctx      context.Context //nolint:containedctx // it lives for one test
	pool     *pgxpool.Pool
	tasks    *store.Store
	app      *community.App
	registry *handlers.Registry
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{
		t: t, ctx: context.Background(), pool: storetest.Pool(t), tasks: store.New(store.Config{Service: "community"}),
	}
	if err := community.Migrate(w.ctx, w.pool); err != nil {
		t.Fatal(err)
	}
	w.app = community.New(w.tasks)
	registry, err := handlers.NewRegistry(community.Variants(w.app, community.Outbox())...)
	if err != nil {
		t.Fatal(err)
	}
	w.registry = registry
	w.do(func(tx pgx.Tx) error {
		for _, id := range []string{"member-1", "member-2", "outsider"} {
			if _, err := w.app.AddMember(w.ctx, tx, community.Member{ID: id, Email: id + "@example.org"}); err != nil {
				return err
			}
		}
		if _, err := w.app.AddCommunity(w.ctx, tx, community.Community{
			ID: "home", Title: "Home", Host: "member-1",
		}); err != nil {
			return err
		}
		for _, id := range []string{"member-1", "member-2"} {
			if _, err := w.app.JoinCommunity(w.ctx, tx, "home", id); err != nil {
				return err
			}
		}
		return nil
	})
	return w
}

// do commits.
func (w *world) do(change func(tx pgx.Tx) error) {
	w.t.Helper()
	if err := pgx.BeginFunc(w.ctx, w.pool, change); err != nil {
		w.t.Fatal(err)
	}
}

// refused does not, and returns the error.
func (w *world) refused(change func(tx pgx.Tx) error) error {
	w.t.Helper()
	err := pgx.BeginFunc(w.ctx, w.pool, change)
	if err == nil {
		w.t.Fatal("it was done")
	}
	return err
}

func (w *world) create(event community.Event) community.Event {
	w.t.Helper()
	w.do(func(tx pgx.Tx) (err error) {
		event, err = w.app.CreateEvent(w.ctx, tx, event)
		return err
	})
	return event
}

// move, edit and remove do so with event 42, as its community does.
func (w *world) move(to time.Time) {
	w.t.Helper()
	w.do(func(tx pgx.Tx) error { _, err := w.app.MoveEvent(w.ctx, tx, "42", to); return err })
}

func (w *world) edit(event community.Event) {
	w.t.Helper()
	w.do(func(tx pgx.Tx) error { _, err := w.app.EditEvent(w.ctx, tx, event); return err })
}

func (w *world) remove() {
	w.t.Helper()
	w.do(func(tx pgx.Tx) error { return w.app.DeleteEvent(w.ctx, tx, "42") })
}

func (w *world) event(id string) community.Event {
	w.t.Helper()
	event, err := w.app.Event(w.ctx, w.pool, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return event
}

func (w *world) task(id string) store.Row {
	w.t.Helper()
	row, err := w.tasks.Get(w.ctx, w.pool, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return row
}

func (w *world) noTask(id string) {
	w.t.Helper()
	if _, err := w.tasks.Get(w.ctx, w.pool, id); !errors.Is(err, store.ErrNotFound) {
		w.t.Errorf("task %s: %v", id, err)
	}
}

// attempt is what the engine makes of a task's row. startedAt zero: at its time.
func attempt(row store.Row, startedAt time.Time) *handlers.Execution {
	if startedAt.IsZero() {
		startedAt = row.ScheduledAt
	}
	e := &handlers.Execution{
		ID: row.ID, Type: row.Type, Queue: row.Queue, Priority: row.Priority, Payload: row.Payload,
		ScheduledAt: row.ScheduledAt, DueAt: row.ScheduledAt, StartedAt: startedAt, Revision: row.Revision,
		AskedRevision: row.AskedRevision, Attempt: 1, MaxAttempts: row.MaxAttempts,
	}
	if row.Entity != nil {
		e.Entity = *row.Entity
	}
	if row.TenantID != nil {
		e.TenantID = *row.TenantID
	}
	return e
}

// run runs an attempt and commits if it returns nil, as the engine does; what the attempt asks for is
// returned, not done.
func (w *world) run(e *handlers.Execution) (handlers.Effects, error) {
	w.t.Helper()
	variant := w.registry.Variant(e.Type)
	if variant == nil || variant.Kind != handlers.KindTx {
		w.t.Fatalf("type %s has no transactional handler", e.Type)
	}
	err := pgx.BeginFunc(w.ctx, w.pool, func(tx pgx.Tx) error { return variant.RunTx(w.ctx, tx, e) })
	return e.Effects(), err
}

func (w *world) mustRun(e *handlers.Execution) handlers.Effects {
	w.t.Helper()
	effects, err := w.run(e)
	if err != nil {
		w.t.Fatal(err)
	}
	return effects
}

// runs runs a task as it is now, at its time.
func (w *world) runs(id string) handlers.Effects {
	w.t.Helper()
	return w.mustRun(attempt(w.task(id), time.Time{}))
}

// again does what the engine does with an attempt's Again.
func (w *world) again(id string, effects handlers.Effects) store.Row {
	w.t.Helper()
	if effects.Again == nil {
		w.t.Fatalf("task %s did not ask to run again; its note: %q", id, effects.Note)
	}
	if _, err := w.tasks.Reschedule(w.ctx, w.pool, id, *effects.Again); err != nil {
		w.t.Fatal(err)
	}
	return w.task(id)
}

func (w *world) texts(sql string, args ...any) []string {
	w.t.Helper()
	return texts(w.t, w.pool, sql, args...)
}

// texts reads one column of text.
func texts(t testing.TB, db store.DB, sql string, args ...any) []string {
	t.Helper()
	rows, err := db.Query(context.Background(), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return found
}

func clock(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
