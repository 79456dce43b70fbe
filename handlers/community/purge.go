package community

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/community/contract"
)

// These statements count days of 24 hours, because the length of '30 days' depends on the session's time zone.
const (
	purgeEventsSQL = `
DELETE FROM community.events WHERE id = ANY (ARRAY(
    SELECT r.id FROM community.events AS r JOIN community.retention_policies AS p ON p.kind = 'events'
    WHERE r.purge_marked_at <= @now::timestamptz - p.keep_days * interval '24 hours' LIMIT @rows
        FOR UPDATE OF r SKIP LOCKED))
RETURNING id`
	purgePostsSQL = `
DELETE FROM community.scheduled_posts WHERE id = ANY (ARRAY(
    SELECT r.id FROM community.scheduled_posts AS r JOIN community.retention_policies AS p ON p.kind = 'scheduled_posts'
    WHERE r.purge_marked_at <= @now::timestamptz - p.keep_days * interval '24 hours' LIMIT @rows
        FOR UPDATE OF r SKIP LOCKED))
RETURNING id`
	purgeMessagesSQL = `
DELETE FROM community.direct_messages WHERE effect_key = ANY (ARRAY(
    SELECT r.effect_key FROM community.direct_messages AS r
        JOIN community.retention_policies AS p ON p.kind = 'direct_messages'
    WHERE r.purge_marked_at <= @now::timestamptz - p.keep_days * interval '24 hours' LIMIT @rows
        FOR UPDATE OF r SKIP LOCKED))`
	purgeNotificationsSQL = `
DELETE FROM community.notifications WHERE ctid = ANY (ARRAY(
    SELECT r.ctid FROM community.notifications AS r JOIN community.retention_policies AS p ON p.kind = 'notifications'
    WHERE r.purge_marked_at <= @now::timestamptz - p.keep_days * interval '24 hours' LIMIT @rows
        FOR UPDATE OF r SKIP LOCKED))`
)

// purge runs PURGE. Like DeleteEvent and DeletePost it cancels the tasks of the events and posts that it deletes.
func (a *App) purge(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.Purge]) error {
	s := newSweep(tx, t.Execution)
	for _, step := range []struct {
		table, statement string
		entityOf         func(id string) string // nil: it has no tasks
	}{
		{"events", purgeEventsSQL, entityOfEvent},
		{"scheduled_posts", purgePostsSQL, entityOfPost},
		{"direct_messages", purgeMessagesSQL, nil},
		{"notifications", purgeNotificationsSQL, nil},
	} {
		if err := a.delete(ctx, s, step.table, step.statement, nil, step.entityOf); err != nil {
			return fmt.Errorf("purge: %w", err)
		}
	}
	s.finish()
	return nil
}

// delete runs a statement that deletes rows. If entityOf is given, the statement must return the ids of the deleted
// rows, and delete cancels their tasks.
func (a *App) delete(
	ctx context.Context, s *sweep, table, statement string, args pgx.NamedArgs, entityOf func(id string) string,
) error {
	if entityOf == nil {
		return s.exec(ctx, table, statement, args)
	}
	deleted, err := s.texts(ctx, table, statement, args)
	if err != nil {
		return err
	}
	for _, id := range deleted {
		if _, err := a.tasks.Sync(ctx, s.tx, entityOf(id)); err != nil {
			return fmt.Errorf("%s: %w", table, err)
		}
	}
	return nil
}
