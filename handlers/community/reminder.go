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

// Reminded is the result of a SEND_EVENT_REMINDER that went out.
type Reminded struct {
	OccurrenceAt time.Time `json:"occurrence_at"` // the start that members were reminded of
	Members      int64     `json:"members"`       // how many got a notification
}

// sendReminder runs SEND_EVENT_REMINDER. In one transaction it notifies the members, moves a recurring event on to
// its next occurrence, and schedules itself again for that occurrence.
func (a *App) sendReminder(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.SendEventReminder]) error {
	event, err := lockEvent(ctx, tx, t.Payload.EventID)
	if errors.Is(err, ErrNotFound) {
		t.Note("event %s is gone: nobody was reminded", t.Payload.EventID)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read event %s: %w", t.Payload.EventID, err)
	}
	started := !event.StartsAt.After(t.StartedAt)
	switch {
	case !event.ReminderAt().Equal(t.ScheduledAt):
		// Somebody moved the event while the handler waited for the lock. The revision of that move wins over Again.
		t.Note("event %s was moved: its reminder is due at %s", event.ID, event.ReminderAt().UTC().Format(time.RFC3339))
		t.Again(event.ReminderAt())
		return nil
	case started && event.RepeatDays > 0:
		skipped, err := a.advance(ctx, tx, t, event, t.StartedAt)
		t.Note("event %s has started %d time(s) since: nobody was reminded of that", event.ID, skipped+1)
		return err
	case started: // an operator runs it by hand, because otherwise the task would have expired
		t.Note("event %s has started: nobody was reminded", event.ID)
		return nil
	case event.PublishedAt == nil:
		// The publication is due at the same time, or is late. This is no failure, so it uses up no attempt.
		return handlers.Snooze(max(time.Minute, event.PublishAt.Sub(t.StartedAt)))
	}
	if err := a.remind(ctx, tx, t, event.Event); err != nil {
		return err
	}
	if event.RepeatDays == 0 {
		return nil
	}
	_, err = a.advance(ctx, tx, t, event, event.StartsAt)
	return err
}

const remindSQL = `
INSERT INTO community.notifications (event_id, occurrence_at, member_id, text, effect_key)
SELECT @event_id, @occurrence_at, member_id, @text, @effect_key FROM community.memberships
	WHERE community_id = @community_id
ON CONFLICT (event_id, occurrence_at, member_id) DO NOTHING`

func (a *App) remind(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.SendEventReminder], event Event) error {
	zone, err := zoneOf(event.TimeZone)
	if err != nil {
		return fmt.Errorf("remind of event %s: %w", event.ID, err)
	}
	sent, err := tx.Exec(ctx, remindSQL, pgx.NamedArgs{
		"event_id":      event.ID,
		"occurrence_at": event.StartsAt,
		"community_id":  event.CommunityID,
		"effect_key":    t.IdempotencyKey(),
		"text": fmt.Sprintf(
			"%s starts on %s",
			event.Title,
			event.StartsAt.In(zone).Format("Monday, 2 January 2006, 15:04 MST"),
		),
	})
	if err != nil {
		return fmt.Errorf("remind of event %s: %w", event.ID, err)
	}
	t.Result(Reminded{OccurrenceAt: event.StartsAt, Members: sent.RowsAffected()})
	return nil
}

const advanceSQL = `
UPDATE community.events SET starts_at = @starts_at, starts_local = @starts_local,
	previous_starts_at = @previous_starts_at WHERE id = @id`

// advance moves a recurring event on to its first occurrence after an instant, and moves its reminder too. It returns
// the number of occurrences that it skipped, as after an outage. The occurrence that the event came from does not
// count.
func (a *App) advance(
	ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.SendEventReminder], event eventRow, after time.Time,
) (skipped int, err error) {
	zone, err := zoneOf(event.TimeZone)
	if err != nil {
		return 0, fmt.Errorf("advance event %s: %w", event.ID, err)
	}
	previous := event.StartsAt
	event.StartsLocal, event.StartsAt, skipped = nextOccurrence(event.StartsLocal, zone, event.RepeatDays, after)
	if skipped > 0 {
		previous = instantOf(event.StartsLocal.AddDate(0, 0, -event.RepeatDays), zone)
	}
	if _, err := tx.Exec(ctx, advanceSQL, pgx.NamedArgs{
		"id": event.ID, "starts_at": event.StartsAt, "starts_local": event.StartsLocal, "previous_starts_at": previous,
	}); err != nil {
		return 0, fmt.Errorf("advance event %s: %w", event.ID, err)
	}
	t.Again(event.ReminderAt())
	return skipped, nil
}
