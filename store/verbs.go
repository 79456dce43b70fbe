package store

import (
	"context"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

const cancelSQL = selectReceipt + `cancel($1::text, $2::text)`

// Cancel keeps a task from running. The outcome is Cancelled, Unchanged, Finished or Absent. After the commit no
// attempt starts. If a handler runs, its context ends within about a second, and its outcome does not count.
// Follow-ups of the handler are not scheduled either. The writes of a handler that takes a transaction commit if the
// handler returns nil nevertheless, and its follow-ups with them.
func (s *Store) Cancel(ctx context.Context, db DB, id string) (Receipt, error) {
	return s.verb(ctx, db, "cancel", cancelSQL, id, s.author())
}

const pauseSQL = selectReceipt + `pause($1::text, $2::text, $3::text::timestamptz)`

// Pause keeps a task from starting until Resume. The outcome is Paused, Unchanged, Finished or Absent. After the
// commit no attempt of the task starts, even if a node has claimed the task already. Pause does not interrupt an
// attempt that has begun, and the outcome of that attempt counts. Therefore the task may still become COMPLETED or
// FAILED after Pause returned Paused. If the attempt is to be retried, the retry waits for Resume. Inspector.Why of
// package inspect tells whether an attempt runs, from about a second after its start. Use Cancel to end the context
// of a running attempt as well.
//
// Pausing a claimed task does not change its revision, and neither does a Resume before the claim ends.
func (s *Store) Pause(ctx context.Context, db DB, id string) (Receipt, error) {
	return s.verb(ctx, db, "pause", pauseSQL, id, s.author(), nil)
}

// PauseUntil is Pause that ends by itself, within about a second of the given time.
func (s *Store) PauseUntil(ctx context.Context, db DB, id string, until time.Time) (Receipt, error) {
	if until.IsZero() {
		return Receipt{}, fmt.Errorf("pause: %w", check.Invalid("until", "must be given", "the zero time"))
	}
	text, err := check.TimeText("until", until)
	if err != nil {
		return Receipt{}, fmt.Errorf("pause: %w", err)
	}
	return s.verb(ctx, db, "pause", pauseSQL, id, s.author(), text)
}

const resumeSQL = selectReceipt + `resume($1::text, $2::text)`

// Resume queues a paused task for the time it had, or at once if that time has passed. The outcome is Queued,
// Unchanged, Finished or Absent.
func (s *Store) Resume(ctx context.Context, db DB, id string) (Receipt, error) {
	return s.verb(ctx, db, "resume", resumeSQL, id, s.author())
}

const runNowSQL = selectReceipt + `run_now($1::text, $2::text, $3::text::boolean)`

// RunNow queues a task to run at once. A paused, cancelled or finished task runs, too. The outcome is Queued, RunsAgain
// or Absent. RunsAgain means that a node has claimed the task. The attempt goes on, and keeps its idempotency key. Once
// it has ended in any way, it is as if RunNow was called then: the task runs at once, with all its attempts. So after a
// call of RunNow has committed, a run begins that sees the commit. Several calls during one attempt lead to one run. A
// Cancel or a new time that comes after the call wins, and a Pause delays the run.
//
// The expiration counts from now. The task's ScheduledAt stays as it was, so that the application's next
// Schedule with the same fields neither undoes nor repeats the run. A task that has completed gets a new idempotency
// key, and any other task keeps its key.
//
// For a recurring task, RunNow creates an extra occurrence and leaves the recurring task as it is.
func (s *Store) RunNow(ctx context.Context, db DB, id string) (Receipt, error) {
	return s.verb(ctx, db, "run now", runNowSQL, id, s.author(), s.wake(true))
}

const retrySQL = selectReceipt + `retry($1::text, $2::text, $3::text::boolean)`

// Retry queues a FAILED or EXPIRED task to run at once. The task has all its attempts again, and its expiration
// counts from now. The outcome is Queued, Finished if the task is COMPLETED or SKIPPED, Absent, or Unchanged for
// every other status.
//
// Its attempts have the idempotency key of the attempts before them. So a service that did the work in one of those can
// drop the repetition.
func (s *Store) Retry(ctx context.Context, db DB, id string) (Receipt, error) {
	return s.verb(ctx, db, "retry", retrySQL, id, s.author(), s.wake(true))
}

const deleteSQL = selectReceipt + `delete($1::text, $2::text)`

// Delete removes a task. Its history stays. The outcome is Deleted, Running or Absent. Running means that a node has
// claimed the task, whether or not its attempt has begun. In that case Delete changes nothing, because without the
// row nobody could tell the attempt from an attempt of a new task with the same id. To remove the task all the same,
// Cancel it, which keeps it from starting, and Delete it when its claim has ended.
func (s *Store) Delete(ctx context.Context, db DB, id string) (Receipt, error) {
	return s.verb(ctx, db, "delete", deleteSQL, id, s.author())
}

const archiveSQL = selectReceipt + `archive($1::text, $2::text, $3::text)`

// Archive marks a dead letter as dealt with, and stores the note. A dead letter is a FAILED or EXPIRED task. The
// outcome is Archived, Absent, or Unchanged if the task is no dead letter or is archived already. An archived task is
// no longer listed among the dead letters. Its row and its history stay until their retention ends.
func (s *Store) Archive(ctx context.Context, db DB, id, note string) (Receipt, error) {
	if err := check.Note("note", note); err != nil {
		return Receipt{}, fmt.Errorf("archive: %w", err)
	}
	return s.verb(ctx, db, "archive", archiveSQL, id, check.OrNil(note), s.author())
}

func (s *Store) verb(ctx context.Context, db DB, name, statement, id string, args ...any) (Receipt, error) {
	if err := check.ID(id); err != nil {
		return Receipt{}, fmt.Errorf("%s: %w", name, err)
	}
	return query.One[Receipt](ctx, s.source, db, name+" task "+id, statement, append([]any{id}, args...)...)
}
