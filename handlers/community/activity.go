package community

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/community/contract"
	"github.com/tasktable/tasktable/store"
)

// LogActivity notes that a member did something, such as "login". The entry is written after the commit by a task of
// its own, so the request does not wait for the log. A rollback leaves no entry.
func (a *App) LogActivity(ctx context.Context, tx pgx.Tx, activity contract.LogActivity) error {
	if err := checkLine("ActivityType", activity.ActivityType); err != nil {
		return fmt.Errorf("log an activity: %w", err)
	}
	if _, err := a.tasks.Schedule(ctx, tx, store.Task{Payload: activity}); err != nil {
		return fmt.Errorf("log an activity: %w", err)
	}
	return nil
}

const logActivitySQL = `
INSERT INTO community.activities (effect_key, member_id, activity_type, happened_at)
SELECT @effect_key, id, @activity_type, @happened_at FROM community.members WHERE id = @member_id
ON CONFLICT (effect_key) DO NOTHING`

// logActivity runs activity:log. The entry has the time at which the task was scheduled, also if it runs later.
func logActivity(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.LogActivity]) error {
	if err := checkLine("payload field activity_type", t.Payload.ActivityType); err != nil {
		return handlers.Permanent(fmt.Errorf("log an activity: %w", err)) // no retry would mend the payload
	}
	written, err := tx.Exec(ctx, logActivitySQL, pgx.NamedArgs{
		"effect_key": t.IdempotencyKey(), "member_id": t.Payload.MemberID,
		"activity_type": t.Payload.ActivityType, "happened_at": t.ScheduledAt,
	})
	if err != nil {
		return fmt.Errorf("log an activity: %w", err)
	}
	if written.RowsAffected() == 0 {
		t.Note("the account is gone, or the entry is there already: nothing was written")
	}
	return nil
}
