package community

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// Each method locks the event's row before it changes the tasks, and the handlers do the same. The common order
// prevents deadlocks, and it makes an edit and a handler of the same event run one after the other.

// eventColumns are the fields of an eventRow.
const eventColumns = `id, community_id, title, starts_at, starts_local, time_zone, duration, repeat_days,
    reminder_before, publish_at, published_at, lat, lon, status`

const createEventSQL = `
INSERT INTO community.events (id, community_id, title, starts_at, starts_local, time_zone, duration, repeat_days,
    reminder_before, lat, lon, publish_at, published_at)
VALUES (coalesce(nullif(@id::text, ''), gen_random_uuid()::text), @community_id, @title, @starts_at, @starts_local,
    @time_zone, @duration, @repeat_days,
    @reminder_before, @lat, @lon, coalesce(@publish_at::timestamptz, now()), CASE WHEN @publish_at::timestamptz IS NULL
    THEN now() END)
RETURNING ` + eventColumns

// CreateEvent adds an event and schedules its reminder, and its publication if it is a draft. It returns the saved
// event, with its id and its defaults.
func (a *App) CreateEvent(ctx context.Context, tx pgx.Tx, event Event) (Event, error) {
	event, zone, err := event.checked()
	if err != nil {
		return Event{}, fmt.Errorf("create event: %w", err)
	}
	return a.saveEvent(ctx, tx, "create event", createEventSQL, event, localOf(event.StartsAt, zone))
}

const editEventSQL = `
UPDATE community.events SET title = @title, starts_at = @starts_at, starts_local = @starts_local,
    time_zone = @time_zone,
    duration = @duration, repeat_days = @repeat_days, reminder_before = @reminder_before, lat = @lat, lon = @lon,
    publish_at = CASE WHEN published_at IS NULL THEN coalesce(@publish_at::timestamptz, now()) ELSE publish_at END,
    published_at = CASE WHEN published_at IS NULL AND @publish_at::timestamptz IS NULL THEN now() ELSE published_at END
WHERE id = @id
RETURNING ` + eventColumns

// EditEvent replaces the fields of the event with that id, and moves its tasks too. If the reminder was sent already,
// it is sent again only if the event now starts at another time.
func (a *App) EditEvent(ctx context.Context, tx pgx.Tx, event Event) (Event, error) {
	doing := "edit event " + event.ID
	current, err := lockEvent(ctx, tx, event.ID)
	if err != nil {
		return Event{}, fmt.Errorf("%s: %w", doing, err)
	}
	if current.PublishedAt != nil {
		event.PublishAt = time.Time{}
	}
	event, zone, err := event.checked()
	if err != nil {
		return Event{}, fmt.Errorf("%s: %w", doing, err)
	}
	local := localOf(event.StartsAt, zone)
	if event.StartsAt.Equal(current.StartsAt) && event.TimeZone == current.TimeZone {
		local = current.StartsLocal // if the clocks skip this local time, it cannot be computed from StartsAt
	}
	return a.saveEvent(ctx, tx, doing, editEventSQL, event, local)
}

// MoveEvent is an EditEvent that changes only the start.
func (a *App) MoveEvent(ctx context.Context, tx pgx.Tx, id string, startsAt time.Time) (Event, error) {
	current, err := lockEvent(ctx, tx, id)
	if err != nil {
		return Event{}, fmt.Errorf("move event %s: %w", id, err)
	}
	event := current.Event
	event.StartsAt = startsAt
	return a.EditEvent(ctx, tx, event)
}

// saveEvent runs one of the two statements and gives the tasks of the saved event to Sync.
func (a *App) saveEvent(
	ctx context.Context, tx pgx.Tx, doing, statement string, event Event, local time.Time,
) (Event, error) {
	saved, err := one[eventRow](ctx, tx, statement, pgx.NamedArgs{
		"id":              event.ID,
		"community_id":    event.CommunityID,
		"title":           event.Title,
		"starts_at":       event.StartsAt,
		"starts_local":    local,
		"time_zone":       event.TimeZone,
		"duration":        event.Duration,
		"repeat_days":     event.RepeatDays,
		"reminder_before": event.ReminderBefore,
		"lat":             event.Lat,
		"lon":             event.Lon,
		"publish_at":      orNull(event.PublishAt),
	})
	if err != nil {
		return Event{}, fmt.Errorf("%s: %w", doing, err)
	}
	if _, err := a.tasks.Sync(ctx, tx, entityOfEvent(saved.ID), saved.tasks()...); err != nil {
		return Event{}, fmt.Errorf("%s: %w", doing, err)
	}
	return saved.Event, nil
}

const deleteEventSQL = `DELETE FROM community.events WHERE id = @id`

// DeleteEvent removes an event and cancels its tasks. Notifications that were sent stay in their table.
func (a *App) DeleteEvent(ctx context.Context, tx pgx.Tx, id string) error {
	if err := a.deleteOne(ctx, tx, deleteEventSQL, id, entityOfEvent(id)); err != nil {
		return fmt.Errorf("delete event %s: %w", id, err)
	}
	return nil
}

const eventSQL = `SELECT ` + eventColumns + ` FROM community.events WHERE id = $1`

// Event reads an event. It returns an error that wraps ErrNotFound if there is none.
func (a *App) Event(ctx context.Context, db store.DB, id string) (Event, error) {
	row, err := one[eventRow](ctx, db, eventSQL, id)
	if err != nil {
		return Event{}, fmt.Errorf("read event %s: %w", id, err)
	}
	return row.Event, nil
}

// lockEvent waits for earlier edits of an event to commit, reads it, and makes later edits wait.
func lockEvent(ctx context.Context, tx pgx.Tx, id string) (eventRow, error) {
	return one[eventRow](ctx, tx, eventSQL+" FOR UPDATE", id)
}
