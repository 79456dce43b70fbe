package store_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// A line of a crontab: the task for it, to be declared in scheduled.Config.Recurring, or scheduled.
func ExampleCron() {
	task := store.Cron("TOKEN_CLEANUP", "0 3 * * *")
	task.Recurrence.TimeZone = "Europe/Berlin"
	fmt.Println(task.ID, task.Check())
	task.Recurrence.Cron = "0 3 31 2 *" // a day that never comes
	fmt.Println(errors.Is(task.Check(), store.ErrInvalid))
	// Output:
	// recurring-TOKEN_CLEANUP <nil>
	// true
}

// sendDigest has a recurring task for each member, so it is Keyed like any other that can be edited.
type sendDigest struct {
	MemberID string `json:"member_id"`
}

func (sendDigest) TaskType() string  { return "SEND_DIGEST" }
func (d sendDigest) TaskKey() string { return d.MemberID }

// A recurring task is scheduled, edited and cancelled like any other, by its id, in the application's transaction.
func ExampleStore_Schedule_recurring() {
	ctx := context.Background()
	t, end := storetest.Example()
	defer end()
	pool := storetest.Pool(t)
	tasks := store.New(store.Config{Service: "events-api"})
	digest := store.Task{Payload: sendDigest{MemberID: "7"}, Recurrence: &store.Recurrence{
		Cron: "0 9 * * MON", TimeZone: "America/New_York", // Mondays at nine, as the member's clock says
		CatchUp: store.CatchUpNone, // what was missed is old news
	}}
	receipt, err := tasks.Schedule(ctx, pool, digest)
	fmt.Println(receipt.ID, receipt.Outcome, err)
	receipt, err = tasks.Schedule(ctx, pool, digest)
	fmt.Println(receipt.Outcome, err)
	digest.Recurrence.Cron = "0 18 * * FRI"
	receipt, err = tasks.Schedule(ctx, pool, digest)
	fmt.Println(receipt.Outcome, err) // it does not fire for that
	receipt, err = tasks.Cancel(ctx, pool, store.IDOf(digest.Payload))
	fmt.Println(receipt.Outcome, err)
	// Output:
	// task-SEND_DIGEST-7 created <nil>
	// unchanged <nil>
	// rescheduled <nil>
	// cancelled <nil>
}

// The mail server is down: nothing of the queue is started until somebody resumes it, on any node.
func ExampleStore_PauseScope() {
	ctx := context.Background()
	t, end := storetest.Example()
	defer end()
	pool := storetest.Pool(t)
	tasks := store.New(store.Config{Service: "operations"})
	outcome, err := tasks.PauseScope(ctx, pool, store.Queue("mail"), time.Time{}, "the mail server is down")
	fmt.Println(outcome, err)
	pauses, err := tasks.Pauses(ctx, pool)
	for _, pause := range pauses {
		fmt.Println(pause.Scope, pause.Name, pause.PausedBy, *pause.Reason)
	}
	fmt.Println(err)
	outcome, err = tasks.ResumeScope(ctx, pool, store.Queue("mail"))
	fmt.Println(outcome, err)
	// Output:
	// paused <nil>
	// queue mail operations the mail server is down
	// <nil>
	// queued <nil>
}
