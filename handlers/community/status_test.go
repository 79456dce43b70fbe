package community_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers/community"
	"github.com/tasktable/tasktable/handlers/community/contract"
	"github.com/tasktable/tasktable/store"
)

func (s *scene) add(event community.Event) {
	s.t.Helper()
	if event.CommunityID == "" {
		event.CommunityID = "home"
	}
	event.Title = "Meeting"
	if _, err := s.app.CreateEvent(s.ctx, s.tx, event); err != nil {
		s.t.Fatal(err)
	}
	s.exec("DELETE FROM tasktable.scheduled_tasks")
}

const statusesSQL = `SELECT id || ' ' || status FROM community.events ORDER BY id`

func TestAnEventIsUpcomingLiveAndFinished(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	start := noon(t)
	end := start.Add(90 * time.Minute)
	s.add(community.Event{ID: "1", StartsAt: start, Duration: 90 * time.Minute})
	s.add(community.Event{ID: "2", StartsAt: start.AddDate(0, 0, 1)}) // another, which stays as it is
	for _, step := range []struct {
		at   time.Time
		want string
		rows int64
	}{
		{start.Add(-time.Microsecond), "upcoming", 0},
		{start, "live", 1},
		{end.Add(-time.Microsecond), "live", 0},
		{end, "finished", 1},
		{end.Add(time.Hour), "finished", 0},
		{start, "live", 1}, // as if it had been moved
	} {
		want := community.Swept{"events": step.rows}
		if step.rows == 0 {
			want = nil
		}
		s.sweeps(contract.StatusUpdate{}, step.at, want)
		s.mustList(statusesSQL, "1 "+step.want, "2 upcoming")
	}
	if event, err := s.app.Event(s.ctx, s.tx, "1"); err != nil || event.Status != community.EventLive ||
		event.Duration != 90*time.Minute {
		t.Errorf("%+v, %v", event, err)
	}
}

// A finished event that is moved is upcoming again, also one that takes as long as may be; one that finished long
// ago is left alone.
func TestAFinishedEventIsMoved(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	const longest = 31 * 24 * time.Hour
	s.add(community.Event{ID: "1", StartsAt: noon(t).Add(-longest), Duration: longest})
	s.add(community.Event{ID: "2", StartsAt: noon(t).AddDate(-1, 0, 0)})
	s.sweeps(contract.StatusUpdate{}, noon(t), community.Swept{"events": 2})
	s.mustList(statusesSQL, "1 finished", "2 finished")
	if _, err := s.app.MoveEvent(s.ctx, s.tx, "1", noon(t).Add(-longest+time.Microsecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.app.MoveEvent(s.ctx, s.tx, "2", noon(t).Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	s.exec("DELETE FROM tasktable.scheduled_tasks")
	s.sweeps(contract.StatusUpdate{}, noon(t), community.Swept{"events": 2})
	s.mustList(statusesSQL, "1 live", "2 upcoming")
}

// The row of a recurring event is about the next occurrence from the reminder on; the status still follows the one
// that takes place.
func TestTheStatusOfASeries(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	start := noon(t)
	event := community.Event{ID: "1", CommunityID: "home", Title: "Meeting", StartsAt: start, RepeatDays: 7}
	if _, err := s.app.CreateEvent(s.ctx, s.tx, event); err != nil {
		t.Fatal(err)
	}
	remind := func(at time.Time) {
		t.Helper()
		if ran := s.harness.RunDueAt(s.ctx, at); len(ran) != 1 || ran[0].Outcome != "COMPLETED" {
			t.Fatalf("ran %+v", ran)
		}
	}
	week := 7 * 24 * time.Hour
	remind(start.Add(-time.Hour))
	for _, step := range []struct {
		at   time.Time
		want string
		rows int64
	}{
		{start.Add(-time.Microsecond), "1 upcoming", 0},
		{start, "1 live", 1},
		{start.Add(time.Hour), "1 upcoming", 1},
	} {
		if got := s.ran(contract.StatusUpdate{}, step.at)[0]["events"]; got != step.rows {
			t.Errorf("at %s: %d rows", step.at, got)
		}
		s.mustList(statusesSQL, step.want)
	}
	remind(start.Add(3*week + time.Minute)) // after an outage, while the fourth takes place
	s.ran(contract.StatusUpdate{}, start.Add(3*week+2*time.Minute))
	s.mustList(statusesSQL, "1 live")
	s.ran(contract.StatusUpdate{}, start.Add(3*week+time.Hour))
	s.mustList(statusesSQL, "1 upcoming")
}

func TestGeoSummary(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	at := func(id string, lat, lon float64, start time.Time) community.Event {
		return community.Event{ID: id, StartsAt: start, Lat: &lat, Lon: &lon}
	}
	start := noon(t)
	s.add(at("live", 52.5, 13.4, start))
	s.add(at("next", 52.9, 13.0, start.Add(time.Microsecond)))
	s.add(at("last", 52, 13.99, start.Add(time.Hour)))
	s.add(at("over", 52.5, 13.4, start.Add(-time.Hour)))
	s.add(at("south-west", -0.5, -0.5, start.Add(2*time.Hour)))
	s.add(at("corner", 90, 180, start))
	s.add(community.Event{ID: "nowhere", StartsAt: start})
	draft := at("draft", 10, 10, start.Add(time.Hour))
	draft.PublishAt = start.Add(time.Minute)
	s.add(draft)
	s.exec(`UPDATE community.events SET published_at = $1 WHERE published_at IS NOT NULL`, start)
	// What it was about is gone.
	s.exec(`INSERT INTO community.geo_summary (lat, lon, upcoming, live, changed_at) VALUES (1, 1, 5, 0, $1)`, start)

	const summarySQL = `
SELECT concat_ws(' ', lat, lon, upcoming, live, to_char(next_starts_at AT TIME ZONE 'UTC', 'HH24:MI:SS.US'),
	to_char(changed_at AT TIME ZONE 'UTC', '@HH24:MI'))
FROM community.geo_summary ORDER BY lat, lon`
	s.sweeps(contract.GeoSummaryRefresh{}, start, community.Swept{"geo_summary": 4})
	s.mustList(summarySQL, "-1 -1 1 0 14:00:00.000000 @12:00", "52 13 2 1 12:00:00.000001 @12:00", "90 180 0 1 @12:00")
	// Cells that have not changed are not written.
	s.sweeps(contract.GeoSummaryRefresh{}, start.Add(time.Hour), community.Swept{"geo_summary": 2})
	s.mustList(summarySQL, "-1 -1 1 0 14:00:00.000000 @12:00", "52 13 0 2 @13:00")
}

// The column status is another task's, and may be late.
func TestTheGeoSummaryNeedsNoStatus(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	lat, lon := 52.5, 13.4
	s.add(community.Event{ID: "1", StartsAt: noon(t), Lat: &lat, Lon: &lon})
	s.exec(`UPDATE community.events SET status = 'finished'`)
	s.sweeps(contract.GeoSummaryRefresh{}, noon(t), community.Swept{"geo_summary": 1})
	s.mustList(`SELECT live::text FROM community.geo_summary`, "1")
}

func TestWrongPlacesAndDurationsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	number := func(f float64) *float64 { return &f }
	for name, change := range map[string]func(e *community.Event){
		"no longitude":       func(e *community.Event) { e.Lat = number(1) },
		"no latitude":        func(e *community.Event) { e.Lon = number(1) },
		"beyond the pole":    func(e *community.Event) { e.Lat, e.Lon = number(90.1), number(1) },
		"around the world":   func(e *community.Event) { e.Lat, e.Lon = number(1), number(-180.1) },
		"no number":          func(e *community.Event) { e.Lat, e.Lon = number(math.NaN()), number(1) },
		"a negative time":    func(e *community.Event) { e.Duration = -time.Second },
		"less than a second": func(e *community.Event) { e.Duration = time.Millisecond },
		"more than a month":  func(e *community.Event) { e.Duration = 31*24*time.Hour + time.Microsecond },
	} {
		err := w.refused(func(tx pgx.Tx) error {
			event := meeting(t)
			change(&event)
			_, err := w.app.CreateEvent(w.ctx, tx, event)
			return err
		})
		if !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	event := meeting(t)
	event.Lat, event.Lon, event.Duration = number(-90), number(180), 31*24*time.Hour
	if saved := w.create(event); *saved.Lat != -90 || *saved.Lon != 180 || saved.Duration != event.Duration ||
		saved.Status != community.EventUpcoming {
		t.Errorf("%+v", saved)
	}
	saved := w.event("42")
	saved.Lat, saved.Lon = nil, nil
	w.edit(saved)
	if edited := w.event("42"); edited.Lat != nil || edited.Lon != nil || edited.Duration != event.Duration {
		t.Errorf("%+v", edited)
	}
}
