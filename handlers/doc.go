// Package handlers is the union: for each variant of the payload one Go struct and one handler, registered in one line.
//
//	registry, err := handlers.NewRegistry(
//		handlers.Handle(reminders.Send),            // func(context.Context, *handlers.Task[contract.SendEventReminder]) error
//		handlers.HandleTx(events.Publish),          // its writes and its completion commit together
//		handlers.Func("TOKEN_CLEANUP", cleanup),    // a former cron script: func(context.Context) error
//		handlers.Use(tracing),                      // middleware around all of them
//	)
//
// What a handler returns decides what becomes of the task: nil completes it; an error retries it after a backoff, until its
// attempts are used up; Permanent fails it at once; RetryAfter and Snooze say when to try again.
package handlers
