package store

import (
	"context"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/store/internal/check"
)

const cancelSQL = `SELECT id, revision, outcome FROM tasktable.cancel($1::text, $2::text)`

// Cancel keeps a task from running: Cancelled, Unchanged, Finished or Absent. After the commit it does not start; a
// handler that is running has its context ended within about a second, and its outcome does not count.
func (s *Store) Cancel(ctx context.Context, db DB, id string) (Receipt, error) {
	return s.verb(ctx, db, "cancel", cancelSQL, id, s.author())
}

const pauseSQL = `SELECT id, revision, outcome FROM tasktable.pause($1::text, $2::text, $3::text::timestamptz)`

// Pause keeps a task from starting until Resume: Paused, Unchanged, Finished or Absent. After the commit no attempt
// of it starts, even if a node has claimed it already. An attempt that has begun is not interrupted, and its outcome
// counts: the task may still become COMPLETED or FAILED after the answer Paused. If the attempt is to be tried again,
// it waits for Resume. Whether an attempt runs, Why says about a second after its start. Cancel also ends the context
// of a running attempt.
//
// The pause of a claimed task, and a Resume before the claim ends, draw no revision, so the attempt keeps its
// idempotency key.
func (s *Store) Pause(ctx context.Context, db DB, id string) (Receipt, error) {
	return s.verb(ctx, db, "pause", pauseSQL, id, s.author(), nil)
}

// PauseUntil is Pause that ends by itself, within about a second of the time given.
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

const resumeSQL = `SELECT id, revision, outcome FROM tasktable.resume($1::text, $2::text)`

// Resume queues a paused task for the time it had, at once if that has passed: Queued, Unchanged, Finished or Absent.
func (s *Store) Resume(ctx context.Context, db DB, id string) (Receipt, error) {
	return s.verb(ctx, db, "resume", resumeSQL, id, s.author())
}

const runNowSQL = `SELECT id, revision, outcome FROM tasktable.run_now($1::text, $2::text, $3::text::boolean)`

// RunNow queues a task to run at once, a finished one again: Queued, Running or Absent. Of a recurring task it forks
// an extra occurrence and leaves the task itself as it is. Its ScheduledAt stays as it was, so the application's
// next, unchanged Schedule neither undoes nor repeats it. The expiration counts from now.
func (s *Store) RunNow(ctx context.Context, db DB, id string) (Receipt, error) {
	return s.verb(ctx, db, "run now", runNowSQL, id, s.author(), s.wake(true))
}

const retrySQL = `SELECT id, revision, outcome FROM tasktable.retry($1::text, $2::text, $3::text::boolean)`

// Retry queues a FAILED or EXPIRED task to run at once, with all its attempts and its expiration counted from now:
// Queued, Unchanged (in any status that has not ended that way), Finished (COMPLETED or SKIPPED) or Absent.
func (s *Store) Retry(ctx context.Context, db DB, id string) (Receipt, error) {
	return s.verb(ctx, db, "retry", retrySQL, id, s.author(), s.wake(true))
}

const deleteSQL = `SELECT id, revision, outcome FROM tasktable.delete($1::text, $2::text)`

// Delete removes a task; its history stays: Deleted, Running or Absent. Running means that a node has claimed the
// task, whether or not its attempt has begun; nothing is changed then, because a row that is gone could not tell the
// attempt from one of a new task with the same id. To remove it all the same, Cancel it, which keeps it from
// starting, and Delete it when its claim has ended.
func (s *Store) Delete(ctx context.Context, db DB, id string) (Receipt, error) {
	return s.verb(ctx, db, "delete", deleteSQL, id, s.author())
}

const archiveSQL = `SELECT id, revision, outcome FROM tasktable.archive($1::text, $2::text, $3::text)`

// Archive marks a dead letter as dealt with, with a note: Archived, Unchanged (it is no dead letter) or Absent. It is
// not listed any more; its row and history stay until retention takes them.
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
	return s.callOne(ctx, db, name+" task "+id, statement, append([]any{id}, args...)...)
}
