// Package community is a small application that uses tasks for its later work. Members meet in communities. Draft
// posts and events are published at their time. Members are reminded of events. New members are welcomed over a day.
// The package is an example to read, run and copy from. Its tables lie in a schema of their own, which Migrate makes.
//
// # The pattern
//
// Each method of App changes the application's tables and the tasks that depend on them in one transaction, which the
// caller begins. If an event moves, its reminder moves too. If an event is deleted, its reminder is cancelled. A
// rollback leaves both as they were. The methods do not compute the change. They compute the whole list of the
// entity's future tasks from the saved row, and give this list to Sync. So there is one description of an event's
// tasks, and no edit can miss a task.
//
// The id of a task comes from the id of its entity: contract.SendEventReminder of event 42 is
// task-SEND_EVENT_REMINDER-42. The Entity of a task is "event:42", "post:7" or "membership:...", so that one query
// finds all past and future tasks of an entity.
//
// # The handlers
//
// The tables may have changed between the Schedule of a task and its run. So a handler locks the entity's row first,
// as the methods do, and then compares:
//
//   - The entity is gone. The task completes, with a note. The transaction that deleted the entity has cancelled the
//     task too, so this attempt was under way at that moment. It is no failure, because an operator would look at a
//     failure, and there is nothing to mend.
//   - The entity was moved. The task asks to run Again at the entity's own time. Usually that does nothing, because
//     the move has scheduled a newer revision, which wins. It helps if somebody moved the entity with plain SQL and
//     forgot the task.
//   - The payload makes no sense. The error is Permanent, because no retry would mend it.
//
// # Work beside a request
//
// LogActivity is work that a request starts and does not wait for. It schedules activity:log without a time in the
// request's own transaction. A worker writes the entry, usually some milliseconds after the commit. It is written once.
//
// # Late work
//
// The publication of a post has no expiration, because late is better than never. The reminder of an event expires
// when the event starts. The reminder of a recurring event must not expire, because it also schedules the next
// reminder. After an outage its handler skips the occurrences that have started, without a reminder, and goes on with
// the next occurrence.
//
// The row of a recurring event moves on to the next occurrence when the reminder of the current one is sent, not when
// the current one has taken place.
//
// # The recurring tasks
//
// Recurring returns nine tasks that could be cron scripts. They have no payload. Each one looks at the tables and
// does the work that is due at the start of its attempt. Its result is right even if it runs late, or more often than
// planned. A row that is due at an instant is due at exactly that instant, not only after it.
//
//   - STATUS_UPDATE, every 5 minutes, makes an event upcoming, live or finished.
//   - GEO_SUMMARY_REFRESH, every 5 minutes, counts the upcoming and live events by place.
//   - TOKEN_CLEANUP, every hour, deletes expired refresh tokens, one-time passwords and sessions.
//   - ACCOUNT_SUSPENSION, every 12 hours, suspends flagged accounts and logs them out.
//   - PURGE, daily, deletes rows that are marked for it, after the time that the retention policy of their kind
//     gives.
//   - DEACTIVATED_ACCT_PURGE, daily, deletes accounts 30 days after their deactivation, with all rows that refer to
//     them. Their communities stay, without a host. Mails in the outbox stay, because with an SMTP server they would
//     have been sent.
//   - MOMENT_CLEANUP, every 5 minutes, hides expired moments that are not journaled.
//   - MOMENT_PURGE, daily, deletes moments 7 days after they were hidden.
//   - MESSAGE_EXPIRY, every 30 seconds, deletes disappearing messages.
//
// The changes commit together with the completion of the task, so its result (a count of rows by table) is exact. It
// does not count the rows that go with an account. A run changes at most MostRows rows, or 100 accounts with theirs.
// If there may be more, the task runs again in a new transaction, and its row shows the result of the last run. The
// next fire takes the rows that another transaction has locked. If an entity is deleted, its tasks are cancelled, as
// everywhere in this package.
package community
