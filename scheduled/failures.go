package scheduled

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/internal/failures"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Failure is what OnDead and OnLost are told: a task that does not run again unless somebody retries it, or an attempt
// that was lost. A lost attempt may have begun, and may even have done its work.
//
// Payload, Entity and TenantID are read when the hook is called. They are empty if the row cannot be read within two
// seconds, if it is gone, or if somebody has edited or retried the task since. The payload is as it is stored if
// Config.Codec cannot decode it.
type Failure struct {
	ID       string
	Type     string
	Outcome  store.AttemptOutcome // of the last attempt: store.AttemptFailed, AttemptExpired or AttemptLost
	Status   string               // the task's status now: FAILED or EXPIRED; for OnLost QUEUED, CANCELLED or PAUSED
	Revision int64
	Attempt  int
	Error    string
	Payload  json.RawMessage
	Entity   string
	TenantID string
}

// newFailureNotifier makes the notifier that calls OnDead and OnLost.
func newFailureNotifier(config Config, pool *pgxpool.Pool, log *slog.Logger) *failures.Notifier {
	tasks := store.New(store.Config{Schema: config.Schema, Codec: config.Codec})
	reading := func(hook func(context.Context, Failure)) func(context.Context, failures.Failure) {
		if hook == nil {
			return nil
		}
		return func(ctx context.Context, found failures.Failure) {
			failure := Failure{
				ID: found.ID, Type: found.Type, Outcome: store.AttemptOutcome(found.Outcome), Status: found.Status,
				Revision: found.Revision, Attempt: found.Attempt, Error: found.Error,
			}
			if err := failure.read(ctx, tasks, pool); err != nil {
				log.Warn("the hook is called without the payload", "task", found.ID, "type", found.Type, "error", err)
			}
			hook(ctx, failure)
		}
	}
	return failures.New(failures.Config{
		Dead: reading(config.OnDead), Lost: reading(config.OnLost), Log: log,
	})
}

// failureRead is how long the read of a failed task may take. The other calls of the hooks wait for it.
const failureRead = 2 * time.Second

// read reads the fields that the failure does not have. A task that is gone or has another revision is no error.
func (f *Failure) read(ctx context.Context, tasks *store.Store, db store.DB) error {
	ctx, cancel := context.WithTimeout(ctx, failureRead)
	defer cancel()
	row, err := tasks.Get(ctx, db, f.ID)
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Revision != f.Revision {
		return nil
	}
	if err != nil {
		return err
	}
	f.Entity, f.TenantID = taskdb.TextOf(row.Entity), taskdb.TextOf(row.TenantID)
	if f.Payload, err = tasks.Payload(ctx, row); err != nil {
		f.Payload = row.Payload
	}
	return err
}
