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

// Dead is a task that does not run again unless somebody retries it.
//
// Payload, Entity and TenantID are read when OnDead is called. They are empty if the row cannot be read within two
// seconds, if it is gone, or if somebody has edited or retried the task since. The payload is as it is stored if
// Config.Codec cannot decode it.
type Dead struct {
	ID       string
	Type     string
	Outcome  string // of its last attempt: store.AttemptFailed, AttemptExpired or AttemptLost
	Status   string // the task's status now: FAILED or EXPIRED
	Revision int64
	Attempt  int
	Error    string
	Payload  json.RawMessage
	Entity   string
	TenantID string
}

// Lost is an attempt whose node died or whose lease ended. The attempt may have begun, and may even have done its
// work.
type Lost struct {
	ID       string
	Type     string
	Status   string // the task's status now: QUEUED, unless somebody has cancelled or paused it meanwhile
	Revision int64
	Attempt  int
	Error    string // why the attempt was lost
}

// newFailureNotifier makes the notifier that calls OnDead and OnLost.
func newFailureNotifier(config Config, pool *pgxpool.Pool, log *slog.Logger) *failures.Notifier {
	hooks := failures.Config{Log: log, Grace: config.hookGrace}
	if config.OnDead != nil {
		tasks := store.New(store.Config{Schema: config.Schema, Codec: config.Codec})
		hooks.Dead = func(ctx context.Context, failure failures.Failure) {
			dead := Dead{
				ID: failure.ID, Type: failure.Type, Outcome: failure.Outcome, Status: failure.Status,
				Revision: failure.Revision, Attempt: failure.Attempt, Error: failure.Error,
			}
			if err := dead.read(ctx, tasks, pool); err != nil {
				log.Warn("OnDead is called without the payload", "task", dead.ID, "type", dead.Type, "error", err)
			}
			config.OnDead(ctx, dead)
		}
	}
	if config.OnLost != nil {
		hooks.Lost = func(ctx context.Context, lost failures.Failure) {
			config.OnLost(ctx, Lost{
				ID: lost.ID, Type: lost.Type, Status: lost.Status,
				Revision: lost.Revision, Attempt: lost.Attempt, Error: lost.Error,
			})
		}
	}
	return failures.New(hooks)
}

// deadRead is how long the read of a dead task may take. The other calls of the hooks wait for it.
const deadRead = 2 * time.Second

// read reads the fields that the failure does not have. A task that is gone or has another revision is no error.
func (d *Dead) read(ctx context.Context, tasks *store.Store, db store.DB) error {
	ctx, cancel := context.WithTimeout(ctx, deadRead)
	defer cancel()
	row, err := tasks.Get(ctx, db, d.ID)
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Revision != d.Revision {
		return nil
	}
	if err != nil {
		return err
	}
	d.Entity, d.TenantID = taskdb.TextOf(row.Entity), taskdb.TextOf(row.TenantID)
	if d.Payload, err = tasks.Payload(ctx, row); err != nil {
		d.Payload = row.Payload
	}
	return err
}
