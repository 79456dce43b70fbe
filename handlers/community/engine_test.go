package community_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers/community"
	"github.com/tasktable/tasktable/scheduled/scheduledtest"
)

// play runs a test in one transaction, which it rolls back: what the application does, and what the engine makes of it.
func play(t *testing.T, scene func(w *world, tx pgx.Tx, runAt func(at time.Time) []string)) {
	t.Helper()
	w := newWorld(t)
	tx, err := w.pool.Begin(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(w.ctx) }()
	harness := scheduledtest.New(t, tx, w.registry)
	scene(w, tx, func(at time.Time) (ran []string) {
		t.Helper()
		for _, task := range harness.RunDueAt(w.ctx, at) {
			ran = append(ran, fmt.Sprintf("%s %s", task.Type, task.Outcome))
		}
		slices.Sort(ran)
		return ran
	})
}

func mustBe(t *testing.T, when string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: ran %q, want %q", when, got, want)
	}
}

// A weekly event is drafted, published and reminded of, and goes on over the change of daylight saving
// until it is deleted.
func TestTheEngineRunsASeries(t *testing.T) {
	t.Parallel()
	play(t, func(w *world, tx pgx.Tx, runAt func(time.Time) []string) {
		runAt(clock(t, "2035-01-01T00:00:00Z")) // the welcomes
		event := meeting(t)
		event.StartsAt, event.TimeZone, event.RepeatDays = clock(t, "2035-03-19T14:00:00Z"), "Europe/Berlin", 7
		event.PublishAt = clock(t, "2035-03-01T09:00:00Z")
		if _, err := w.app.CreateEvent(w.ctx, tx, event); err != nil {
			t.Fatal(err)
		}
		mustBe(t, "before", runAt(event.PublishAt.Add(-time.Microsecond)))
		mustBe(t, "published", runAt(event.PublishAt), "PUBLISH_EVENT COMPLETED")
		mustBe(t, "just before the first", runAt(clock(t, "2035-03-19T12:59:59Z")))
		mustBe(t, "the first", runAt(clock(t, "2035-03-19T13:00:00Z")), "SEND_EVENT_REMINDER COMPLETED")
		mustBe(t, "the first, only once", runAt(clock(t, "2035-03-26T11:59:59Z")))
		mustBe(t, "the second, in summer", runAt(clock(t, "2035-03-26T12:00:00Z")), "SEND_EVENT_REMINDER COMPLETED")
		if err := w.app.DeleteEvent(w.ctx, tx, "42"); err != nil {
			t.Fatal(err)
		}
		mustBe(t, "after it was deleted", runAt(clock(t, "2035-05-01T00:00:00Z")))
		rows, err := tx.Query(w.ctx, remindedSQL)
		if err != nil {
			t.Fatal(err)
		}
		reminded, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		mustBe(
			t, "reminded", reminded, "42 2035-03-19T14:00Z member-1", "42 2035-03-19T14:00Z member-2",
			"42 2035-03-26T13:00Z member-1", "42 2035-03-26T13:00Z member-2",
		)
	})
}

// After an outage a single event's reminder is expired, a recurring one's skips what has started, and a post is late.
func TestTheEngineAfterAnOutage(t *testing.T) {
	t.Parallel()
	play(t, func(w *world, tx pgx.Tx, runAt func(time.Time) []string) {
		runAt(clock(t, "2035-01-01T00:00:00Z"))
		weekly := meeting(t)
		weekly.ID, weekly.RepeatDays = "43", 7
		for _, event := range []community.Event{meeting(t), weekly} {
			if _, err := w.app.CreateEvent(w.ctx, tx, event); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.app.CreatePost(w.ctx, tx, draft(t)); err != nil {
			t.Fatal(err)
		}
		mustBe(t, "a month later", runAt(clock(t, "2035-07-01T00:00:00Z")),
			"PUBLISH_SCHEDULED_POST COMPLETED", "SEND_EVENT_REMINDER COMPLETED", "SEND_EVENT_REMINDER EXPIRED")
		mustBe(t, "the next Friday", runAt(clock(t, "2035-07-06T14:00:00Z")), "SEND_EVENT_REMINDER COMPLETED")
		if event, err := w.app.Event(w.ctx, tx, "43"); err != nil ||
			!event.StartsAt.Equal(clock(t, "2035-07-13T15:00:00Z")) {
			t.Errorf("the series is at %s, %v", event.StartsAt, err)
		}
	})
}
