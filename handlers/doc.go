// Package handlers holds the program's handlers. Each type of task has one Go struct for its payload and one handler.
// A Registry collects them. The set of all types is called the union, and one type in it is called a variant.
//
//	registry, err := handlers.NewRegistry(
//		handlers.Handle(reminders.Send),         // func(context.Context, *handlers.Task[SendReminder]) error
//		handlers.HandleTx(events.Publish),       // its writes and its completion commit together
//		handlers.Func("TOKEN_CLEANUP", cleanup), // a former cron script: func(context.Context) error
//		handlers.Use(tracing),                   // middleware around all of them
//	)
//
// The result of a handler decides how the task goes on. Nil completes it. An error retries it after a backoff, until
// its attempts are used up. Permanent fails it at once. RetryAfter and Snooze say when to try again.
//
// A payload that is a store.Validator is asked before its handler runs. If it does not validate, the task fails at
// once.
//
// # For engines
//
// The engine and package scheduledtest call these. Applications do not need them: [Registry.Variant], [Variant],
// [Variant.Run], [Variant.RunTx], [Variant.RunSQLTx], [Kind], [Effects], [Execution.Effects], [Execution.WithExtend],
// [Execution.WithLate] and [Execution.WithSpan].
package handlers
