package handlers_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/scheduledtest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

var (
	tasks  = store.New(store.Config{Service: "events-api"})
	fivePM = time.Date(2030, 5, 1, 17, 0, 0, 0, time.UTC)
)

// begin begins a transaction on a database of the example's own. end rolls it back and drops the database.
func begin(ctx context.Context) (t testing.TB, tx pgx.Tx, end func()) {
	t, drop := storetest.Example()
	tx, err := storetest.Pool(t).Begin(ctx)
	must(err)
	return t, tx, func() {
		_ = tx.Rollback(ctx)
		drop()
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// show prints what ran, and what the tasks are now.
func show(ctx context.Context, db store.DB, ran []scheduledtest.Ran) {
	for _, one := range ran {
		fmt.Println(one.ID, one.Outcome)
	}
	rows, err := inspect.New(store.Config{}).List(ctx, db, inspect.Filter{})
	for _, row := range rows {
		fmt.Println("now", row.ID, row.Status, row.ScheduledAt.UTC().Format("Jan 2 15:04"))
	}
	if err != nil {
		fmt.Println(err)
	}
}

// A handler does something outside, at least once. What it says by FollowUp, Again, Note and Result is applied if it
// returns nil, in the transaction that completes the task.
func ExampleHandle() {
	ctx := context.Background()
	t, tx, end := begin(ctx)
	defer end()

	registry, err := handlers.NewRegistry(
		handlers.Handle(func(_ context.Context, t *handlers.Task[SendEventReminder]) error {
			if t.Attempt == 1 {
				return errors.New("the mail server is busy") // tried again after a backoff
			}
			fmt.Println("mail about event", t.Payload.EventID) // with t.IdempotencyKey(), for a server that knows them
			t.Note("sent to %d members", 3)
			t.FollowUp(store.Task{Payload: PublishEvent(t.Payload), At: t.ScheduledAt.AddDate(0, 0, 1)})
			return nil
		}),
	)
	must(err)
	_, err = tasks.Schedule(ctx, tx, store.Task{Payload: SendEventReminder{EventID: "42"}, At: fivePM})
	must(err)
	h := scheduledtest.New(t, tx, registry)
	show(ctx, tx, h.RunDueAt(ctx, fivePM))
	show(ctx, tx, h.RunDueAt(ctx, fivePM.Add(time.Minute)))
	// Output:
	// task-SEND_EVENT_REMINDER-42 RETRIED
	// now task-SEND_EVENT_REMINDER-42 QUEUED May 1 17:00
	// mail about event 42
	// task-SEND_EVENT_REMINDER-42 COMPLETED
	// now task-SEND_EVENT_REMINDER-42 COMPLETED May 1 17:00
	// now task-PUBLISH_EVENT-42 QUEUED May 2 17:00
}

// What a transactional handler writes and the completion of its task commit together: exactly once, in this database.
func ExampleHandleTx() {
	ctx := context.Background()
	t, tx, end := begin(ctx)
	defer end()
	_, err := tx.Exec(
		ctx, "CREATE TABLE events (id text PRIMARY KEY, published_at timestamptz); INSERT INTO events VALUES ('42')",
	)
	must(err)

	publish := func(ctx context.Context, tx pgx.Tx, t *handlers.Task[PublishEvent]) error {
		done, err := tx.Exec(ctx, "UPDATE events SET published_at = $2 WHERE id = $1", t.Payload.EventID, t.StartedAt)
		if err == nil && done.RowsAffected() == 0 {
			return handlers.Permanent(errors.New("no such event")) // the transaction is rolled back, the task is FAILED
		}
		return err
	}
	registry, err := handlers.NewRegistry(handlers.HandleTx(publish))
	must(err)
	for _, event := range []string{"42", "43"} {
		_, err = tasks.Schedule(ctx, tx, store.Task{Payload: PublishEvent{EventID: event}, At: fivePM})
		must(err)
	}
	show(ctx, tx, scheduledtest.New(t, tx, registry).RunDueAt(ctx, fivePM))
	// Output:
	// task-PUBLISH_EVENT-42 COMPLETED
	// task-PUBLISH_EVENT-43 FAILED
	// now task-PUBLISH_EVENT-42 COMPLETED May 1 17:00
	// now task-PUBLISH_EVENT-43 FAILED May 1 17:00
}

// The same with database/sql.
func ExampleHandleSQLTx() {
	ctx := context.Background()
	t, end := storetest.Example()
	defer end()
	db := stdlib.OpenDBFromPool(storetest.Pool(t))
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(ctx, nil)
	must(err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(ctx, "CREATE TABLE published (event text)")
	must(err)

	publish := func(ctx context.Context, tx *sql.Tx, t *handlers.Task[PublishEvent]) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO published VALUES ($1)", t.Payload.EventID)
		return err
	}
	registry, err := handlers.NewRegistry(handlers.HandleSQLTx(publish))
	must(err)
	_, err = tasks.Schedule(ctx, store.SQL(tx), store.Task{
		Payload: PublishEvent{EventID: "42"}, At: fivePM,
	})
	must(err)
	show(ctx, store.SQL(tx), scheduledtest.NewSQL(t, tx, registry).RunDueAt(ctx, fivePM))
	// Output:
	// task-PUBLISH_EVENT-42 COMPLETED
	// now task-PUBLISH_EVENT-42 COMPLETED May 1 17:00
}

// What was a cron script, with store.Cron for its line of the crontab. It runs each time the recurring task fires.
func ExampleFunc() {
	ctx := context.Background()
	t, tx, end := begin(ctx)
	defer end()

	cleanup := func(context.Context) error {
		fmt.Println("cleaned up")
		return nil
	}
	registry, err := handlers.NewRegistry(handlers.Func("TOKEN_CLEANUP", cleanup))
	must(err)
	nightly := store.Cron("TOKEN_CLEANUP", "0 3 * * *")
	nightly.At = fivePM // not before
	_, err = tasks.Schedule(ctx, tx, nightly)
	must(err)
	h := scheduledtest.New(t, tx, registry)
	for _, at := range []time.Time{fivePM, fivePM.Add(10 * time.Hour), fivePM.Add(34 * time.Hour)} {
		for _, ran := range h.RunDueAt(ctx, at) {
			fmt.Println(ran.ID, ran.Outcome)
		}
	}
	// Output:
	// cleaned up
	// recurring-TOKEN_CLEANUP@2030-05-02T03:00:00Z COMPLETED
	// cleaned up
	// recurring-TOKEN_CLEANUP@2030-05-03T03:00:00Z COMPLETED
}
