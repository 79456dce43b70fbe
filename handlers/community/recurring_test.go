package community_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers/community"
	"github.com/tasktable/tasktable/handlers/community/contract"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/recurrence"
)

func TestRecurringTasksAreValid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	day := clock(t, "2035-06-01T00:00:00Z")
	fires := map[string]int{}
	for _, task := range community.Recurring() {
		if err := task.Check(); err != nil {
			t.Errorf("%s: %v", task.ID, err)
		}
		if w.registry.Variant(task.Payload.TaskType()) == nil {
			t.Errorf("%s: no handler", task.ID)
		}
		rule, err := recurrence.Parse(task.Recurrence.Cron, task.Recurrence.TimeZone)
		if err != nil {
			t.Fatal(err)
		}
		within, _ := rule.Between(day.Add(-time.Second), day.Add(24*time.Hour-time.Second), 10000)
		fires[task.ID+" "+task.Payload.TaskType()] = len(within)
	}
	// The ids are stable: a task whose id changed would be another, beside the old one.
	want := map[string]int{
		"community-status-update STATUS_UPDATE":                      24 * 12,
		"community-geo-summary-refresh GEO_SUMMARY_REFRESH":          24 * 12,
		"community-token-cleanup TOKEN_CLEANUP":                      24,
		"community-account-suspension ACCOUNT_SUSPENSION":            2,
		"community-purge PURGE":                                      1,
		"community-deactivated-account-purge DEACTIVATED_ACCT_PURGE": 1,
		"community-moment-cleanup MOMENT_CLEANUP":                    24 * 12,
		"community-moment-purge MOMENT_PURGE":                        1,
		"community-message-expiry MESSAGE_EXPIRY":                    24 * 120,
	}
	if !maps.Equal(fires, want) {
		t.Errorf("got  %v\nwant %v", fires, want)
	}
}

// An hour of all nine, as the engine runs them, with something for each to do.
func TestAnHourOfTheRecurringTasks(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	start := clock(t, "2035-06-01T02:45:00Z")
	s.schedule(start)
	s.furnish("member-2")
	s.exec(`UPDATE community.sessions SET expires_at = $1`, start.Add(10*time.Minute))
	s.exec(`UPDATE community.moments SET journaled = false, expires_at = $1`, start.Add(10*time.Minute))
	s.exec(`UPDATE community.direct_messages SET expires_at = $1`, start.Add(10*time.Minute+time.Second))
	s.exec(`UPDATE community.notifications SET purge_marked_at = $1`, start.AddDate(0, 0, -40))
	s.exec(`UPDATE community.members SET deactivated_at = $1 WHERE id = 'outsider'`, start.AddDate(0, 0, -40))
	lat, lon := 52.5, 13.4
	event := community.Event{
		ID: "1", CommunityID: "home", Title: "x", StartsAt: start.Add(20 * time.Minute),
		ReminderBefore: 30 * time.Second, Lat: &lat, Lon: &lon,
	}
	if _, err := s.app.CreateEvent(s.ctx, s.tx, event); err != nil {
		t.Fatal(err)
	}

	runs := map[string]int{}
	for at := start; at.Before(start.Add(time.Hour)); at = at.Add(30 * time.Second) {
		for _, ran := range s.harness.RunDueAt(s.ctx, at) {
			if ran.Outcome != "COMPLETED" {
				t.Fatalf("at %s: %+v", at, ran)
			}
			runs[ran.Type]++
		}
		if at.Equal(start.Add(10 * time.Minute)) {
			// A second too early.
			s.mustList(`SELECT effect_key FROM community.direct_messages ORDER BY 1`, "from member-2", "to member-2")
		}
		if at.Equal(start.Add(10*time.Minute + 30*time.Second)) {
			s.mustList(`SELECT effect_key FROM community.direct_messages`)
		}
	}
	want := map[string]int{
		"STATUS_UPDATE": 12, "GEO_SUMMARY_REFRESH": 12, "TOKEN_CLEANUP": 1, "PURGE": 1, "DEACTIVATED_ACCT_PURGE": 1,
		"MOMENT_CLEANUP": 12, "MOMENT_PURGE": 1, "MESSAGE_EXPIRY": 120, "SEND_EVENT_REMINDER": 1,
	}
	if !maps.Equal(runs, want) { // ACCOUNT_SUSPENSION is due at noon and at midnight
		t.Errorf("got  %v\nwant %v", runs, want)
	}
	s.mustList(statusesSQL, "1 live")
	s.mustList(`SELECT concat_ws(' ', lat, lon, upcoming, live) FROM community.geo_summary`, "52 13 0 1")
	s.mustList(`SELECT id FROM community.sessions`)
	s.mustList(`SELECT to_char(deleted_at AT TIME ZONE 'UTC', 'HH24:MI') FROM community.moments`, "02:55")
	s.mustList(`SELECT id FROM community.members ORDER BY id`, "member-1", "member-2")
	s.mustList(`SELECT DISTINCT event_id FROM community.notifications`, "1")
	parent, err := s.tasks.Get(s.ctx, s.tx, "community-message-expiry")
	if err != nil || parent.OccurrenceCount != 120 || parent.Status != store.StatusQueued {
		t.Errorf("%+v, %v", parent, err)
	}
}

// After an outage each has one run, which does what the missed ones would have done.
func TestAnOutageIsMadeUpForByOneRun(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	start := clock(t, "2035-06-01T00:00:01Z")
	var want []string
	for _, task := range s.schedule(start) {
		want = append(want, task.Payload.TaskType())
	}
	s.harness.RunDueAt(s.ctx, start) // plans the first fires
	var ran []string
	for _, one := range s.harness.RunDueAt(s.ctx, start.AddDate(0, 0, 3)) {
		ran = append(ran, one.Type)
	}
	slices.Sort(ran)
	slices.Sort(want)
	if !slices.Equal(ran, want) {
		t.Errorf("ran %q", ran)
	}
}

// The payloads are those of Recurring and no others: a job that is not declared would never run.
func TestEachJobIsDeclared(t *testing.T) {
	t.Parallel()
	declared := map[string]bool{}
	for _, task := range community.Recurring() {
		declared[task.Payload.TaskType()] = true
	}
	var others []string
	for _, payload := range contract.All() {
		if !declared[payload.TaskType()] {
			others = append(others, payload.TaskType())
		}
	}
	want := []string{
		"PUBLISH_EVENT", "PUBLISH_SCHEDULED_POST", "SEND_EVENT_REMINDER", "SEND_DIRECT_MESSAGE", "WELCOME_MEMBER",
		"SEND_EMAIL", "activity:log",
	}
	if !slices.Equal(others, want) || len(declared) != 9 {
		t.Errorf("not declared %q", others)
	}
}
