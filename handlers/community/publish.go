package community

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/community/contract"
)

const publishEventSQL = `UPDATE community.events SET published_at = @now WHERE id = @id`

// publishEvent runs PUBLISH_EVENT.
func (a *App) publishEvent(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.PublishEvent]) error {
	event, err := lockEvent(ctx, tx, t.Payload.EventID)
	if errors.Is(err, ErrNotFound) {
		t.Note("event %s is gone: there is nothing to publish", t.Payload.EventID)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read event %s: %w", t.Payload.EventID, err)
	}
	if !isDue(t.Execution, "event "+event.ID, event.PublishAt, event.PublishedAt) {
		return nil
	}
	if _, err := tx.Exec(ctx, publishEventSQL, pgx.NamedArgs{"id": event.ID, "now": t.StartedAt}); err != nil {
		return fmt.Errorf("publish event %s: %w", event.ID, err)
	}
	return nil
}

const publishPostSQL = `UPDATE community.scheduled_posts SET published_at = @now WHERE id = @id`

// publishPost runs PUBLISH_SCHEDULED_POST.
func (a *App) publishPost(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.PublishScheduledPost]) error {
	post, err := lockPost(ctx, tx, t.Payload.ScheduledPostID)
	if errors.Is(err, ErrNotFound) {
		t.Note("post %s is gone: there is nothing to publish", t.Payload.ScheduledPostID)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read post %s: %w", t.Payload.ScheduledPostID, err)
	}
	if !isDue(t.Execution, "post "+post.ID, post.PublishAt, post.PublishedAt) {
		return nil
	}
	if _, err := tx.Exec(ctx, publishPostSQL, pgx.NamedArgs{"id": post.ID, "now": t.StartedAt}); err != nil {
		return fmt.Errorf("publish post %s: %w", post.ID, err)
	}
	return nil
}

// isDue reports whether a draft, read under its lock, is still to be published at the time that the task was
// scheduled for. Somebody may have moved the draft while the handler waited for the lock. In that case the task has a
// newer revision, which wins over the Again. isDue compares with the task's scheduled time and not with the clock, so
// that a task that an operator runs by hand publishes before its time.
func isDue(e *handlers.Execution, what string, publishAt time.Time, publishedAt *time.Time) bool {
	switch {
	case publishedAt != nil:
		e.Note("%s has been published before", what)
		return false
	case !publishAt.Equal(e.ScheduledAt):
		e.Note("%s was moved to %s", what, publishAt.UTC().Format(time.RFC3339))
		e.Again(publishAt)
		return false
	}
	return true
}
