package community_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers/community"
)

// runAt runs what is due, and returns how each task ended.
func (s *scene) runAt(at time.Time) (ran []string) {
	s.t.Helper()
	for _, task := range s.harness.RunDueAt(s.ctx, at) {
		ran = append(ran, fmt.Sprintf("%s %s", task.Type, task.Outcome))
	}
	slices.Sort(ran)
	return ran
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
	s := newScene(t)
	event := meeting(t)
	event.StartsAt, event.TimeZone, event.RepeatDays = clock(t, "2035-03-19T14:00:00Z"), "Europe/Berlin", 7
	event.PublishAt = clock(t, "2035-03-01T09:00:00Z")
	if _, err := s.app.CreateEvent(s.ctx, s.tx, event); err != nil {
		t.Fatal(err)
	}
	mustBe(t, "before", s.runAt(event.PublishAt.Add(-time.Microsecond)))
	mustBe(t, "published", s.runAt(event.PublishAt), "PUBLISH_EVENT COMPLETED")
	mustBe(t, "just before the first", s.runAt(clock(t, "2035-03-19T12:59:59Z")))
	mustBe(t, "the first", s.runAt(clock(t, "2035-03-19T13:00:00Z")), "SEND_EVENT_REMINDER COMPLETED")
	mustBe(t, "the first, only once", s.runAt(clock(t, "2035-03-26T11:59:59Z")))
	mustBe(t, "the second, in summer", s.runAt(clock(t, "2035-03-26T12:00:00Z")), "SEND_EVENT_REMINDER COMPLETED")
	if err := s.app.DeleteEvent(s.ctx, s.tx, "42"); err != nil {
		t.Fatal(err)
	}
	mustBe(t, "after it was deleted", s.runAt(clock(t, "2035-05-01T00:00:00Z")))
	s.mustList(remindedSQL, "42 2035-03-19T14:00Z member-1", "42 2035-03-19T14:00Z member-2",
		"42 2035-03-26T13:00Z member-1", "42 2035-03-26T13:00Z member-2")
}

// After an outage a single event's reminder is expired, a recurring one's skips what has started, and a post is late.
func TestTheEngineAfterAnOutage(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	weekly := meeting(t)
	weekly.ID, weekly.RepeatDays = "43", 7
	for _, event := range []community.Event{meeting(t), weekly} {
		if _, err := s.app.CreateEvent(s.ctx, s.tx, event); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.app.CreatePost(s.ctx, s.tx, draft(t)); err != nil {
		t.Fatal(err)
	}
	mustBe(t, "a month later", s.runAt(clock(t, "2035-07-01T00:00:00Z")),
		"PUBLISH_SCHEDULED_POST COMPLETED", "SEND_EVENT_REMINDER COMPLETED", "SEND_EVENT_REMINDER EXPIRED")
	mustBe(t, "the next Friday", s.runAt(clock(t, "2035-07-06T14:00:00Z")), "SEND_EVENT_REMINDER COMPLETED")
	if event, err := s.app.Event(s.ctx, s.tx, "43"); err != nil ||
		!event.StartsAt.Equal(clock(t, "2035-07-13T15:00:00Z")) {
		t.Errorf("the series is at %s, %v", event.StartsAt, err)
	}
}
