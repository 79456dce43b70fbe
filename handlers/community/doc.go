// Package community is a small application whose later work is tasks: members meet in communities, draft posts and
// events are published at their time, members are reminded of events, and new ones are welcomed over a day. It is
// there to be read, run and copied from; its tables lie in a schema of their own, which Migrate makes.
//
// # The pattern
//
// Each method of App changes the application's tables and the tasks that hang on them in one transaction, the
// caller's. An event that is moved moves its reminder; one that is deleted cancels it; a rollback leaves both as they
// were. The methods do not say what has changed. They say by Sync what is to happen from now on, computed from the
// row as it was saved, so there is one description of an event's tasks and no way for an edit to miss one.
//
// The tasks' ids come from the entity's (contract.SendEventReminder of event 42 is task-SEND_EVENT_REMINDER-42), and
// their Entity is "event:42", "post:7" or "membership:...", so that everything about an entity, past and future, is
// found by one query.
//
// # The handlers
//
// A handler finds the world as it is when it runs, which need not be as it was when the task was scheduled. It locks
// the entity's row first, as the methods do, and then compares:
//
//   - The entity is gone. The task completes, with a note. Whoever deleted the entity has cancelled the task in the
//     same transaction, so this is an attempt that was under way just then; a failure would call for somebody to look
//     at it, and there is nothing to mend.
//   - The entity was moved. The task asks to run Again at the entity's own time. Usually that does nothing, because
//     the move has scheduled a newer revision, which wins; it mends the case that somebody moved the entity by plain
//     SQL and forgot the task.
//   - The payload makes no sense. The error is Permanent, since no retry would mend it.
//
// # Late work
//
// A post has no expiration: it is published late rather than never. The reminder of an event expires when the event
// starts. That of a recurring event must not expire, because it also schedules the next one: its handler passes over
// the occurrences that started during an outage, without reminding of them, and goes on with the next.
//
// A recurring event goes on to its next occurrence when its reminder is out, not when it has taken place: from then
// on its row is about the next one.
//
// # The recurring tasks
//
// Recurring is nine tasks that were cron scripts elsewhere. None has a payload: each looks at the tables, does what
// is due by the time at which its attempt started, and is right however late it is and however often it runs. What is
// due at an instant is due at that instant, not after it.
//
//   - STATUS_UPDATE, every 5 minutes, makes an event upcoming, live or finished.
//   - GEO_SUMMARY_REFRESH, every 5 minutes, counts the events to come by where they take place.
//   - TOKEN_CLEANUP, every hour, deletes expired refresh tokens, one-time passwords and sessions.
//   - ACCOUNT_SUSPENSION, every 12 hours, suspends flagged accounts and logs them out.
//   - PURGE, daily, deletes what is marked for it when the retention policy of its kind says so.
//   - DEACTIVATED_ACCT_PURGE, daily, deletes accounts 30 days after their deactivation, with all that refers to them.
//     A community is handed over to another member, and goes too if there is none. Mails in the outbox stay:
//     elsewhere they would have been sent.
//   - MOMENT_CLEANUP, every 5 minutes, takes expired moments from sight that are not journaled.
//   - MOMENT_PURGE, daily, deletes moments 7 days after they were taken from sight.
//   - MESSAGE_EXPIRY, every 30 seconds, deletes disappearing messages.
//
// The deletion commits with the completion of its task, so the result, a count by table, is what has happened. A run
// changes at most MostRows rows; if there may be more the task goes on, in a new transaction, and the row shows the
// result of the last run. Rows that others have locked are left to the next fire. What is deleted takes its own tasks
// along, as everywhere in this package.
package community
