// Package store is what application code imports to schedule tasks and to ask what became of them.
//
// A task is a row of the table scheduled_tasks, upserted by an id that the application can always compute again.
// Every verb takes the caller's own connection or transaction, so a task is scheduled, moved or cancelled exactly if
// the caller's other changes commit:
//
//	tasks := store.New(store.Config{Service: "events-api"})
//	_, err := tasks.Schedule(ctx, tx, store.Task{
//		Payload: SendEventReminder{EventID: ev.ID}, At: ev.StartsAt.Add(-time.Hour), Expiration: time.Hour,
//	})
//
// Get and History read a task by its id. Package inspect tells why a task does or does not run, lists and searches
// tasks, and changes many tasks at once. It is for command lines, dashboards and reports.
//
// The package needs no running engine, and pulls in none of it.
package store
