package community_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers/community"
	"github.com/tasktable/tasktable/store"
)

const (
	reminder42 = "task-SEND_EVENT_REMINDER-42"
	publish42  = "task-PUBLISH_EVENT-42"
)

func meeting(t testing.TB) community.Event {
	return community.Event{ID: "42", CommunityID: "home", Title: "Meeting", StartsAt: clock(t, "2035-06-01T15:00:00Z")}
}

// unpublished is a draft of the meeting.
func unpublished(t testing.TB) community.Event {
	event := meeting(t)
	event.PublishAt = clock(t, "2035-05-01T09:00:00Z")
	return event
}

func TestANewEventHasAReminder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	event := w.create(meeting(t))
	if event.PublishedAt == nil || event.TimeZone != "UTC" || event.ReminderBefore != time.Hour {
		t.Errorf("defaults: %+v", event)
	}
	row := w.task(reminder42)
	if !row.ScheduledAt.Equal(clock(t, "2035-06-01T14:00:00Z")) || row.Status != store.StatusQueued {
		t.Errorf("%s at %s", row.Status, row.ScheduledAt)
	}
	// Its expiration ends when the event starts.
	if row.Expiration == nil || !row.ScheduledAt.Add(*row.Expiration).Equal(event.StartsAt) {
		t.Errorf("expiration %v", row.Expiration)
	}
	if row.Entity == nil || *row.Entity != "event:42" || row.TenantID == nil || *row.TenantID != "home" {
		t.Errorf("entity %v, tenant %v", row.Entity, row.TenantID)
	}
	w.noTask(publish42)
}

func TestADraftIsAlsoPublished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	event := meeting(t)
	event.PublishAt, event.ReminderBefore = clock(t, "2035-05-01T09:00:00.000001Z"), 90*time.Minute
	event = w.create(event)
	if event.PublishedAt != nil {
		t.Error("a draft is published")
	}
	if row := w.task(publish42); !row.ScheduledAt.Equal(event.PublishAt) || row.Expiration != nil {
		t.Errorf("publication at %s, expiration %v", row.ScheduledAt, row.Expiration)
	}
	if row := w.task(reminder42); !row.ScheduledAt.Equal(clock(t, "2035-06-01T13:30:00Z")) {
		t.Errorf("reminder at %s", row.ScheduledAt)
	}
}

func TestAnEventWithoutAnIDGetsOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	event := meeting(t)
	event.ID = ""
	event = w.create(event)
	if event.ID == "" {
		t.Fatal("no id")
	}
	w.task("task-SEND_EVENT_REMINDER-" + event.ID)
}

func TestAMovedEventMovesItsReminder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(meeting(t))
	first := w.task(reminder42)
	w.move(clock(t, "2035-06-01T18:00:00Z"))
	row := w.task(reminder42)
	if !row.ScheduledAt.Equal(clock(t, "2035-06-01T17:00:00Z")) || row.Status != store.StatusQueued ||
		row.Revision <= first.Revision {
		t.Errorf("%s at %s, revision %d after %d", row.Status, row.ScheduledAt, row.Revision, first.Revision)
	}
	if event := w.event("42"); !event.StartsAt.Equal(clock(t, "2035-06-01T18:00:00Z")) || event.Title != "Meeting" {
		t.Errorf("%+v", event)
	}
}

func TestAnEditThatMovesNothingLeavesTheTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	event := unpublished(t)
	event = w.create(event)
	reminder, publish := w.task(reminder42), w.task(publish42)
	event.Title = "Meeting, with cake"
	w.edit(event)
	if got := w.event("42"); got.Title != event.Title || got.CommunityID != "home" || got.PublishedAt != nil {
		t.Errorf("%+v", got)
	}
	if now := w.task(reminder42); now.Revision != reminder.Revision {
		t.Error("the reminder has a new revision")
	}
	if now := w.task(publish42); now.Revision != publish.Revision {
		t.Error("the publication has a new revision")
	}
}

func TestADraftThatIsPublishedByHandNeedsNoTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	event := unpublished(t)
	event = w.create(event)
	event.PublishAt = time.Time{}
	w.edit(event)
	if w.event("42").PublishedAt == nil {
		t.Error("still a draft")
	}
	if row := w.task(publish42); row.Status != store.StatusCancelled {
		t.Errorf("publication is %s", row.Status)
	}
	if row := w.task(reminder42); row.Status != store.StatusQueued {
		t.Errorf("reminder is %s", row.Status)
	}
}

// What is published stays so, wherever the event moves.
func TestAPublishedEventMovesFreely(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	event := unpublished(t)
	w.create(event)
	w.runs(publish42)
	published := w.event("42")
	w.move(clock(t, "2035-04-01T15:00:00Z"))
	if now := w.event("42"); now.PublishedAt == nil || !now.PublishedAt.Equal(*published.PublishedAt) ||
		!now.PublishAt.Equal(published.PublishAt) {
		t.Errorf("published %v, before %v", now.PublishedAt, published.PublishedAt)
	}
	if row := w.task(reminder42); !row.ScheduledAt.Equal(clock(t, "2035-04-01T14:00:00Z")) {
		t.Errorf("reminder at %s", row.ScheduledAt)
	}
}

func TestADeletedEventCancelsItsTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	event := unpublished(t)
	w.create(event)
	w.remove()
	for _, id := range []string{reminder42, publish42} {
		if row := w.task(id); row.Status != store.StatusCancelled {
			t.Errorf("%s is %s", id, row.Status)
		}
	}
	if _, err := w.app.Event(w.ctx, w.pool, "42"); !errors.Is(err, community.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	// The other event's tasks, and those of members, are not its business.
	if others := w.texts(`SELECT id FROM tasktable.scheduled_tasks WHERE status = 'CANCELLED'
		AND entity <> 'event:42'`); len(others) > 0 {
		t.Errorf("cancelled too: %q", others)
	}
}

// A recurring event's reminder schedules the next one, so it must not expire in an outage.
func TestARecurringReminderDoesNotExpire(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	event := meeting(t)
	event.RepeatDays = 7
	event = w.create(event)
	if row := w.task(reminder42); row.Expiration != nil {
		t.Errorf("expiration %s", row.Expiration)
	}
	event.RepeatDays = 0
	w.edit(event)
	if row := w.task(reminder42); row.Expiration == nil || *row.Expiration != time.Hour {
		t.Errorf("expiration of a single event: %v", row.Expiration)
	}
}

func TestWrongEventsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(meeting(t))
	before := look(t, w.pool)
	for name, test := range map[string]struct {
		change func(*community.Event)
		want   error
		field  string
	}{
		"no title": {func(e *community.Event) { e.Title = "" }, store.ErrInvalid, "Title"},
		"a line break": {
			func(e *community.Event) { e.Title = "a\r\nBcc: all@example.org" }, store.ErrInvalid, "Title",
		},
		"a long title": {
			func(e *community.Event) { e.Title = strings.Repeat("ä", 201) }, store.ErrInvalid, "Title",
		},
		"NUL in the id":      {func(e *community.Event) { e.ID = "4\x002" }, store.ErrInvalid, "ID"},
		"no start":           {func(e *community.Event) { e.StartsAt = time.Time{} }, store.ErrInvalid, "StartsAt"},
		"an unknown zone":    {func(e *community.Event) { e.TimeZone = "Mars/Base" }, store.ErrInvalid, "TimeZone"},
		"the machine's zone": {func(e *community.Event) { e.TimeZone = "Local" }, store.ErrInvalid, "TimeZone"},
		"a path as the zone": {
			func(e *community.Event) { e.TimeZone = "../etc/passwd" }, store.ErrInvalid, "TimeZone",
		},
		"a negative repetition": {func(e *community.Event) { e.RepeatDays = -1 }, store.ErrInvalid, "RepeatDays"},
		"an endless repetition": {func(e *community.Event) { e.RepeatDays = 367 }, store.ErrInvalid, "RepeatDays"},
		"a negative reminder": {
			func(e *community.Event) { e.ReminderBefore = -time.Hour }, store.ErrInvalid, "ReminderBefore",
		},
		"an early reminder": {
			func(e *community.Event) { e.ReminderBefore = 31 * 24 * time.Hour }, store.ErrInvalid, "ReminderBefore",
		},
		"published after it": {
			func(e *community.Event) { e.PublishAt = e.StartsAt.Add(time.Second) }, store.ErrInvalid, "PublishAt",
		},
		"of no community": {func(e *community.Event) { e.CommunityID = "nowhere" }, community.ErrNotFound, ""},
		"a start beyond all time": {
			func(e *community.Event) { e.StartsAt = clock(t, "9999-12-31T23:00:00Z").AddDate(1, 0, 0) },
			store.ErrInvalid, "scheduled_at",
		},
	} {
		event := meeting(t)
		event.ID = "43"
		test.change(&event)
		err := w.refused(func(tx pgx.Tx) error {
			_, err := w.app.CreateEvent(w.ctx, tx, event)
			return err
		})
		if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.field) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for name, change := range map[string]func(tx pgx.Tx) error{
		"move":   func(tx pgx.Tx) error { _, err := w.app.MoveEvent(w.ctx, tx, "43", time.Now()); return err },
		"edit":   func(tx pgx.Tx) error { _, err := w.app.EditEvent(w.ctx, tx, community.Event{ID: "43"}); return err },
		"delete": func(tx pgx.Tx) error { return w.app.DeleteEvent(w.ctx, tx, "43") },
	} {
		if err := w.refused(change); !errors.Is(err, community.ErrNotFound) {
			t.Errorf("%s an event that does not exist: %v", name, err)
		}
	}
	if after := look(t, w.pool); after != before {
		t.Errorf("got  %v\nwant %v", after, before)
	}
}
