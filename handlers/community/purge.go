package community

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/community/contract"
)

// purgeableSQL is the condition of the rows that are purged. It counts days of 24 hours, because the length of '30
// days' depends on the session's time zone.
const purgeableSQL = `purge_marked_at <= @now::timestamptz - interval '24 hours' *
    (SELECT keep_days FROM community.retention_policies WHERE kind = '%s')`

// purge runs PURGE.
func (a *App) purge(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.Purge]) error {
	s := newSweep(tx, t.Execution)
	for _, table := range []string{"events", "scheduled_posts", "direct_messages", "notifications"} {
		if err := a.delete(ctx, s, table, fmt.Sprintf(purgeableSQL, table), nil); err != nil {
			return fmt.Errorf("purge: %w", err)
		}
	}
	s.finish()
	return nil
}

// entities are the tables whose rows have tasks, with the tasks' entity.
var entities = map[string]func(id string) string{
	"events": entityOfEvent, "scheduled_posts": entityOfPost, "memberships": entityOfMembership,
}

// delete is sweep.delete. Like DeleteEvent and DeletePost it cancels the tasks of the rows that it deletes.
func (a *App) delete(ctx context.Context, s *sweep, table, condition string, args pgx.NamedArgs) error {
	entityOf := entities[table]
	if entityOf == nil || s.left <= 0 {
		return s.delete(ctx, table, condition, args)
	}
	deleted, err := s.texts(ctx, fmt.Sprintf(deleteSQL, table, condition)+" RETURNING id", args)
	if err != nil {
		return fmt.Errorf("%s: %w", table, err)
	}
	s.count(table, int64(len(deleted)))
	for _, id := range deleted {
		if _, err := a.tasks.Sync(ctx, s.tx, entityOf(id)); err != nil {
			return fmt.Errorf("%s: %w", table, err)
		}
	}
	return nil
}
