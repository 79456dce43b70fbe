package community_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/community"
	"github.com/tasktable/tasktable/handlers/community/contract"
	"github.com/tasktable/tasktable/store"
)

// An event at 3 pm has a reminder at 2 pm. Who moves the event to 6 pm moves the reminder to 5 pm; who deletes it
// cancels the reminder; and what is rolled back has not happened to either.
func Example() {
	ctx := context.Background()
	pool, drop := database(ctx)
	defer drop()
	tasks := store.New(store.Config{Service: "community"})
	app := community.New(tasks)
	inTransaction := func(change func(tx pgx.Tx) error) error { return pgx.BeginFunc(ctx, pool, change) }
	must(inTransaction(func(tx pgx.Tx) error { return people(ctx, tx, app) }))

	// The application asks for the reminder by its id, which it can always compute again.
	show := func(when string) {
		reminder, err := tasks.Get(ctx, pool, store.IDOf(contract.SendEventReminder{EventID: "42"}))
		must(err)
		fmt.Printf("%s: %s for %s\n", when, reminder.Status, reminder.ScheduledAt.UTC().Format("15:04"))
	}

	threePM := time.Date(2035, time.June, 1, 15, 0, 0, 0, time.UTC)
	must(inTransaction(func(tx pgx.Tx) error {
		_, err := app.CreateEvent(ctx, tx, community.Event{
			ID: "42", CommunityID: "home", Title: "Picnic", StartsAt: threePM,
		})
		return err
	}))
	show("created")

	sixPM := threePM.Add(3 * time.Hour)
	must(inTransaction(func(tx pgx.Tx) error {
		_, err := app.MoveEvent(ctx, tx, "42", sixPM)
		return err
	}))
	show("moved")

	rain := errors.New("it will rain")
	err := inTransaction(func(tx pgx.Tx) error {
		must(app.DeleteEvent(ctx, tx, "42"))
		return rain // rolls back
	})
	show(fmt.Sprintf("not deleted (%v)", err))

	must(inTransaction(func(tx pgx.Tx) error { return app.DeleteEvent(ctx, tx, "42") }))
	show("deleted")
	// Output:
	// created: QUEUED for 14:00
	// moved: QUEUED for 17:00
	// not deleted (it will rain): QUEUED for 17:00
	// deleted: CANCELLED for 17:00
}

// Why did this reminder not go out? Each change of a task is a line of its history, with who made it, also
// after it is deleted.
func Example_history() {
	ctx := context.Background()
	pool, drop := database(ctx)
	defer drop()
	tasks := store.New(store.Config{Service: "community"})
	app := community.New(tasks)
	must(pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := people(ctx, tx, app); err != nil {
			return err
		}
		start := time.Date(2035, time.June, 1, 15, 0, 0, 0, time.UTC)
		if _, err := app.CreateEvent(ctx, tx, community.Event{
			ID: "42", CommunityID: "home", Title: "Picnic", StartsAt: start,
		}); err != nil {
			return err
		}
		if _, err := app.MoveEvent(ctx, tx, "42", start.AddDate(0, 0, 1)); err != nil {
			return err
		}
		return app.DeleteEvent(ctx, tx, "42")
	}))

	history, err := tasks.History(ctx, pool, "task-SEND_EVENT_REMINDER-42")
	must(err)
	for _, change := range history.Changes {
		fmt.Println(change.ChangedBy, change.Verb, change.Outcome)
	}
	// Output:
	// community sync created
	// community sync rescheduled
	// community cancel cancelled
}

// A node runs the whole union. Without an SMTP server e-mails go to a table; with one it is email.Variant.
func ExampleVariants() {
	app := community.New(store.New(store.Config{Service: "community"}))
	registry, err := handlers.NewRegistry(community.Variants(app, community.Outbox())...)
	must(err)
	for _, name := range registry.Types() {
		fmt.Println(name)
	}
	// Output:
	// ACCOUNT_SUSPENSION
	// DEACTIVATED_ACCT_PURGE
	// GEO_SUMMARY_REFRESH
	// MESSAGE_EXPIRY
	// MOMENT_CLEANUP
	// MOMENT_PURGE
	// PUBLISH_EVENT
	// PUBLISH_SCHEDULED_POST
	// PURGE
	// SEND_DIRECT_MESSAGE
	// SEND_EMAIL
	// SEND_EVENT_REMINDER
	// STATUS_UPDATE
	// TOKEN_CLEANUP
	// WELCOME_MEMBER
	// activity:log
}
