// Package store schedules tasks and reads their state. It is the package that application code imports.
//
// A task is a row of the table scheduled_tasks. It has an id that the application can always compute again, and
// Schedule creates or updates the row with that id. Each call takes the caller's own connection or transaction. In a
// transaction the task is therefore scheduled, moved or cancelled if, and only if, the caller's other changes commit:
//
//	tasks := store.New(store.Config{Service: "events-api"})
//	_, err := tasks.Schedule(ctx, tx, store.Task{
//		Payload: SendEventReminder{EventID: ev.ID}, At: ev.StartsAt.Add(-time.Hour), Expiration: time.Hour,
//	})
//
// Get and History read a task by its id. Package inspect tells why a task does or does not run, lists and searches
// tasks, and changes many tasks at once. It is for command lines, dashboards and reports.
//
// The package needs no running engine, and it imports no part of the engine.
//
// # For engines
//
// The engine calls these. Applications do not need them: [DefaultsOf], [Store.ScheduleAs], [TaskAs], [Task.Fixed],
// [Task.Encoded], [Decoded], [TraceOf] and [SpanOf].
package store
