// Package store is what application code imports to schedule tasks and to ask what became of them.
//
// A task is a row of the table scheduled_tasks, upserted by an id that the application can always compute again. Every verb
// takes the caller's own connection or transaction, so a task is scheduled, moved or cancelled exactly if the caller's other
// changes commit:
//
//	tasks := store.New(store.Config{Service: "events-api"})
//	_, err := tasks.Schedule(ctx, tx, store.Task{
//		Payload: SendEventReminder{EventID: ev.ID}, At: ev.StartsAt.Add(-time.Hour), Expiration: time.Hour,
//	})
//
// The package needs no running engine, and pulls in none of it.
package store
