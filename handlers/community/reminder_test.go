package community_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/community"
)

const remindedSQL = `
SELECT concat_ws(' ', event_id, to_char(occurrence_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI"Z"'), member_id)
FROM community.notifications ORDER BY occurrence_at, member_id`

func (w *world) mustHaveReminded(want ...string) {
	w.t.Helper()
	if got := w.texts(remindedSQL); !slices.Equal(got, want) {
		w.t.Errorf("reminded %q, want %q", got, want)
	}
}

func TestAReminderReachesEachMember(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	event := meeting(t)
	event.TimeZone = "Europe/Berlin"
	w.create(event)
	row := w.task(reminder42)
	effects := w.mustRun(attempt(row, time.Time{}))
	if effects.Again != nil || len(effects.FollowUps) > 0 {
		t.Errorf("an event that does not recur: %+v", effects)
	}
	var result community.Reminded
	if err := json.Unmarshal(effects.Result, &result); err != nil || result.Members != 2 ||
		!result.OccurrenceAt.Equal(event.StartsAt) {
		t.Errorf("result %s %v", effects.Result, err)
	}
	w.mustHaveReminded("42 2035-06-01T15:00Z member-1", "42 2035-06-01T15:00Z member-2")
	want := "Meeting starts on Friday, 1 June 2035, 17:00 CEST"
	if texts := w.texts(`SELECT DISTINCT text FROM community.notifications`); !slices.Equal(texts, []string{want}) {
		t.Errorf("text %q", texts)
	}
	if keys := w.texts(`SELECT DISTINCT effect_key FROM community.notifications`); !slices.Equal(keys, []string{
		attempt(row, time.Time{}).IdempotencyKey(),
	}) {
		t.Errorf("effect keys %q", keys)
	}
	// Run once more by hand it reminds nobody twice, but does reach who has joined since.
	w.do(func(tx pgx.Tx) error { _, err := w.app.JoinCommunity(w.ctx, tx, "home", "outsider"); return err })
	w.mustRun(attempt(row, time.Time{}))
	w.mustHaveReminded(
		"42 2035-06-01T15:00Z member-1", "42 2035-06-01T15:00Z member-2", "42 2035-06-01T15:00Z outsider",
	)
}

// On the day on which the clocks skip its time it is an hour late, by the clock; the week after it is not.
func TestASkippedTimeDoesNotMoveTheSeries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	event := meeting(t)
	event.StartsAt, event.TimeZone, event.RepeatDays = clock(t, "2035-03-18T01:30:00Z"), "Europe/Berlin", 7 // 02:30
	w.create(event)
	w.again(reminder42, w.runs(reminder42))
	if now := w.event("42"); !now.StartsAt.Equal(clock(t, "2035-03-25T01:30:00Z")) { // 03:30, there is no 02:30
		t.Errorf("starts %s", now.StartsAt)
	}
	edited := w.event("42")
	edited.Title = "Night walk"
	w.edit(edited)
	w.again(reminder42, w.runs(reminder42))
	if now := w.event("42"); !now.StartsAt.Equal(clock(t, "2035-04-01T00:30:00Z")) { // 02:30 again
		t.Errorf("starts %s", now.StartsAt)
	}
}

func TestAnEventThatHasStartedIsNotRemindedOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	event := w.create(meeting(t))
	for _, startedAt := range []time.Time{event.StartsAt, event.StartsAt.Add(time.Hour)} {
		if effects := w.mustRun(attempt(w.task(reminder42), startedAt)); effects.Note == "" || effects.Again != nil {
			t.Errorf("%+v", effects)
		}
	}
	w.mustHaveReminded()
	w.mustRun(attempt(w.task(reminder42), event.StartsAt.Add(-time.Microsecond)))
	w.mustHaveReminded("42 2035-06-01T15:00Z member-1", "42 2035-06-01T15:00Z member-2")
}

// The attempt got the event's lock only after the move had committed.
func TestAReminderOfAMovedEventWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(meeting(t))
	stale := attempt(w.task(reminder42), time.Time{})
	w.move(clock(t, "2035-06-01T18:00:00Z"))
	effects := w.mustRun(stale)
	if effects.Again == nil || !effects.Again.Equal(clock(t, "2035-06-01T17:00:00Z")) {
		t.Errorf("%+v", effects)
	}
	w.mustHaveReminded()
	w.runs(reminder42)
	w.mustHaveReminded("42 2035-06-01T18:00Z member-1", "42 2035-06-01T18:00Z member-2")
}

func TestAMoveAfterTheReminderRemindsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(meeting(t))
	w.runs(reminder42)
	w.move(clock(t, "2035-06-02T15:00:00Z"))
	w.runs(reminder42)
	w.mustHaveReminded(
		"42 2035-06-01T15:00Z member-1", "42 2035-06-01T15:00Z member-2", "42 2035-06-02T15:00Z member-1",
		"42 2035-06-02T15:00Z member-2",
	)
}

func TestAReminderOfADeletedEventIsANote(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(meeting(t))
	underWay := attempt(w.task(reminder42), time.Time{})
	w.remove()
	if effects := w.mustRun(underWay); !strings.Contains(effects.Note, "event 42 is gone") || effects.Again != nil {
		t.Errorf("%+v", effects)
	}
	w.mustHaveReminded()
}

// A draft is nobody's to be reminded of; the reminder waits until it is published, without using up attempts.
func TestAReminderWaitsForThePublication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	event := meeting(t)
	event.PublishAt = event.StartsAt.Add(-30 * time.Minute)
	event = w.create(event)
	for startedAt, want := range map[time.Time]time.Duration{
		event.StartsAt.Add(-time.Hour):        30 * time.Minute,
		event.StartsAt.Add(-10 * time.Minute): time.Minute, // its publication is late
	} {
		_, err := w.run(attempt(w.task(reminder42), startedAt))
		var snooze *handlers.SnoozeError
		if !errors.As(err, &snooze) || snooze.Delay != want {
			t.Errorf("started at %s: %v", startedAt, err)
		}
	}
	w.mustHaveReminded()
	w.runs(publish42)
	w.mustRun(attempt(w.task(reminder42), event.StartsAt.Add(-9*time.Minute)))
	w.mustHaveReminded("42 2035-06-01T15:00Z member-1", "42 2035-06-01T15:00Z member-2")
}

func TestPublishingAnEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	event := unpublished(t)
	w.create(event)
	row := w.task(publish42)
	early := clock(t, "2035-04-01T00:00:00Z") // by RunNow: the task's own time stays
	w.mustRun(attempt(row, early))
	if now := w.event("42"); now.PublishedAt == nil || !now.PublishedAt.Equal(early) {
		t.Errorf("published %v", now.PublishedAt)
	}
	if effects := w.mustRun(attempt(row, time.Time{})); !strings.Contains(effects.Note, "published before") {
		t.Errorf("%+v", effects)
	}
	if now := w.event("42"); !now.PublishedAt.Equal(early) {
		t.Error("published twice")
	}
	w.remove()
	if effects := w.mustRun(attempt(row, time.Time{})); !strings.Contains(effects.Note, "is gone") {
		t.Errorf("%+v", effects)
	}
}
