package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// remindOf is a variant of the payload. Its key makes the task's id, task-REMIND-42, so that scheduling it
// again edits that task.
type remindOf struct {
	EventID string `json:"event_id"`
}

func (remindOf) TaskType() string  { return "REMIND" }
func (p remindOf) TaskKey() string { return p.EventID }

var sixPM = time.Date(2030, 5, 1, 18, 0, 0, 0, time.UTC)

// In a pgx transaction, with the application's own change: both commit, or neither.
func ExampleStore_Schedule() {
	ctx := context.Background()
	t, end := storetest.Example()
	defer end()
	pool := storetest.Pool(t)
	tasks := store.New(store.Config{Service: "events-api"})

	move := func(startsAt time.Time) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			// … UPDATE events SET starts_at = …
			receipt, err := tasks.Schedule(ctx, tx, store.Task{
				Payload: remindOf{EventID: "42"}, At: startsAt.Add(-time.Hour), Expiration: time.Hour,
				Entity: "event:42",
			})
			fmt.Println(receipt.ID, receipt.Outcome)
			return err
		})
	}
	fmt.Println(move(sixPM))
	fmt.Println(move(sixPM))
	fmt.Println(move(sixPM.AddDate(0, 0, 1)))
	// Output:
	// task-REMIND-42 created
	// <nil>
	// task-REMIND-42 unchanged
	// <nil>
	// task-REMIND-42 rescheduled
	// <nil>
}

// From database/sql, with any driver; sqlc's DBTX and GORM's ConnPool are wrapped in the same way.
func ExampleSQL() {
	ctx := context.Background()
	t, end := storetest.Example()
	defer end()
	db, err := sql.Open("pgx", storetest.URL(t))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	tasks := store.New(store.Config{Service: "events-api"})
	receipt, err := tasks.Schedule(ctx, store.SQL(tx), store.Task{Payload: remindOf{EventID: "42"}, At: sixPM})
	fmt.Println(receipt.Outcome, err)
	fmt.Println(tx.Rollback()) // and there is no task

	_, err = tasks.Get(ctx, store.SQL(db), receipt.ID)
	fmt.Println(errors.Is(err, store.ErrNotFound))
	// Output:
	// created <nil>
	// <nil>
	// true
}

// Many tasks in one statement: for an import, or where a change concerns many.
func ExampleStore_ScheduleMany() {
	ctx := context.Background()
	t, end := storetest.Example()
	defer end()
	tasks := store.New(store.Config{Service: "events-api"})
	var list []store.Task
	for i := range 1000 {
		list = append(list, store.Task{
			Payload: remindOf{EventID: fmt.Sprint(i)}, At: sixPM.Add(time.Duration(i) * time.Second),
		})
	}
	receipts, err := tasks.ScheduleMany(ctx, storetest.Pool(t), list)
	fmt.Println(len(receipts), receipts[999].ID, receipts[999].Outcome, err)
	// Output: 1000 task-REMIND-999 created <nil>
}

// The event has exactly these tasks; its others are cancelled.
func ExampleStore_Sync() {
	ctx := context.Background()
	t, end := storetest.Example()
	defer end()
	pool := storetest.Pool(t)
	tasks := store.New(store.Config{Service: "events-api"})
	early := store.Task{ID: "event-42-early", Payload: remindOf{EventID: "42"}, At: sixPM.AddDate(0, 0, -7)}
	late := store.Task{ID: "event-42-late", Payload: remindOf{EventID: "42"}, At: sixPM.Add(-time.Hour)}

	// The second time nobody wants the early one any more.
	for _, wanted := range [][]store.Task{{early, late}, {late}} {
		receipts, err := tasks.Sync(ctx, pool, "event:42", wanted...)
		for _, receipt := range receipts {
			fmt.Println(receipt.ID, receipt.Outcome)
		}
		fmt.Println(err)
	}
	// Output:
	// event-42-early created
	// event-42-late created
	// <nil>
	// event-42-late unchanged
	// event-42-early cancelled
	// <nil>
}

// A task waits until somebody resumes it, or until a time; a cancelled one until it is scheduled again.
func ExampleStore_PauseUntil() {
	ctx := context.Background()
	t, end := storetest.Example()
	defer end()
	pool := storetest.Pool(t)
	tasks := store.New(store.Config{Service: "events-api"})
	task := store.Task{Payload: remindOf{EventID: "42"}, At: sixPM}
	id := store.IDOf(task.Payload)

	for _, verb := range []func() (store.Receipt, error){
		func() (store.Receipt, error) { return tasks.Schedule(ctx, pool, task) },
		func() (store.Receipt, error) { return tasks.PauseUntil(ctx, pool, id, sixPM.AddDate(0, 0, 2)) },
		func() (store.Receipt, error) { return tasks.Resume(ctx, pool, id) },
		func() (store.Receipt, error) { return tasks.Cancel(ctx, pool, id) },
		func() (store.Receipt, error) { return tasks.Schedule(ctx, pool, task) },
	} {
		receipt, err := verb()
		fmt.Println(receipt.Outcome, err)
	}
	// Output:
	// created <nil>
	// paused <nil>
	// queued <nil>
	// cancelled <nil>
	// rearmed <nil>
}

// All that happened to a task, also after it was deleted.
func ExampleStore_History() {
	ctx := context.Background()
	t, end := storetest.Example()
	defer end()
	pool := storetest.Pool(t)
	tasks := store.New(store.Config{Service: "events-api"})
	id := store.IDOf(remindOf{EventID: "42"})
	for _, at := range []time.Time{sixPM, sixPM.AddDate(0, 0, 1)} {
		if _, err := tasks.Schedule(ctx, pool, store.Task{Payload: remindOf{EventID: "42"}, At: at}); err != nil {
			fmt.Println(err)
			return
		}
	}
	if _, err := tasks.Delete(ctx, pool, id); err != nil {
		fmt.Println(err)
		return
	}
	history, err := tasks.History(ctx, pool, id)
	for _, change := range history.Changes {
		fmt.Println(change.Verb, change.Outcome, "by", change.ChangedBy)
	}
	fmt.Println(len(history.Executions), err)
	// Output:
	// schedule created by events-api
	// schedule rescheduled by events-api
	// delete deleted by events-api
	// 0 <nil>
}
