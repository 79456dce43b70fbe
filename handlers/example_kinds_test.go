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
	t, end := storetest.Example()
	defer end()
	tx, err := storetest.Pool(t).Begin(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = tx.Rollback(ctx) }()

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
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := tasks.Schedule(ctx, tx, store.Task{
		Payload: SendEventReminder{EventID: "42"}, At: fivePM,
	}); err != nil {
		fmt.Println(err)
		return
	}
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
	t, end := storetest.Example()
	defer end()
	tx, err := storetest.Pool(t).Begin(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(
		ctx, "CREATE TABLE events (id text PRIMARY KEY, published_at timestamptz); INSERT INTO events VALUES ('42')",
	); err != nil {
		fmt.Println(err)
		return
	}

	publish := func(ctx context.Context, tx pgx.Tx, t *handlers.Task[PublishEvent]) error {
		done, err := tx.Exec(ctx, "UPDATE events SET published_at = $2 WHERE id = $1", t.Payload.EventID, t.StartedAt)
		if err == nil && done.RowsAffected() == 0 {
			return handlers.Permanent(errors.New("no such event")) // the transaction is rolled back, the task is FAILED
		}
		return err
	}
	registry, err := handlers.NewRegistry(handlers.HandleTx(publish))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, event := range []string{"42", "43"} {
		if _, err := tasks.Schedule(ctx, tx, store.Task{
			Payload: PublishEvent{EventID: event}, At: fivePM,
		}); err != nil {
			fmt.Println(err)
			return
		}
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
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "CREATE TABLE published (event text)"); err != nil {
		fmt.Println(err)
		return
	}

	publish := func(ctx context.Context, tx *sql.Tx, t *handlers.Task[PublishEvent]) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO published VALUES ($1)", t.Payload.EventID)
		return err
	}
	registry, err := handlers.NewRegistry(handlers.HandleSQLTx(publish))
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := tasks.Schedule(ctx, store.SQL(tx), store.Task{
		Payload: PublishEvent{EventID: "42"}, At: fivePM,
	}); err != nil {
		fmt.Println(err)
		return
	}
	show(ctx, store.SQL(tx), scheduledtest.NewSQL(t, tx, registry).RunDueAt(ctx, fivePM))
	// Output:
	// task-PUBLISH_EVENT-42 COMPLETED
	// now task-PUBLISH_EVENT-42 COMPLETED May 1 17:00
}

// What was a cron script, with store.Cron for its line of the crontab. It runs each time the recurring task fires.
func ExampleFunc() {
	ctx := context.Background()
	t, end := storetest.Example()
	defer end()
	tx, err := storetest.Pool(t).Begin(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = tx.Rollback(ctx) }()

	cleanup := func(context.Context) error {
		fmt.Println("cleaned up")
		return nil
	}
	registry, err := handlers.NewRegistry(handlers.Func("TOKEN_CLEANUP", cleanup))
	if err != nil {
		fmt.Println(err)
		return
	}
	nightly := store.Cron("TOKEN_CLEANUP", "0 3 * * *")
	nightly.At = fivePM // not before
	if _, err := tasks.Schedule(ctx, tx, nightly); err != nil {
		fmt.Println(err)
		return
	}
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
