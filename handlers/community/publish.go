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
	return publish(ctx, tx, t.Execution, publishEventSQL, "event", event.ID, event.PublishAt, event.PublishedAt)
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
	return publish(ctx, tx, t.Execution, publishPostSQL, "post", post.ID, post.PublishAt, post.PublishedAt)
}

// publish publishes a draft, read under its lock, if it is still to be published at the time that the task was
// scheduled for. Somebody may have moved the draft while the handler waited for the lock. In that case the task has a
// newer revision, which wins over the Again. publish compares with the task's scheduled time and not with the clock, so
// that a task that an operator runs by hand publishes before its time.
func publish(
	ctx context.Context, tx pgx.Tx, e *handlers.Execution, statement, what, id string, at time.Time, done *time.Time,
) error {
	switch {
	case done != nil:
		e.Note("%s %s has been published before", what, id)
		return nil
	case !at.Equal(e.ScheduledAt):
		e.Note("%s %s was moved to %s", what, id, at.UTC().Format(time.RFC3339))
		e.Again(at)
		return nil
	}
	if _, err := tx.Exec(ctx, statement, pgx.NamedArgs{"id": id, "now": e.StartedAt}); err != nil {
		return fmt.Errorf("publish %s %s: %w", what, id, err)
	}
	return nil
}
