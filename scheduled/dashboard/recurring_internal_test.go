package dashboard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

func clock(t *testing.T, now, zone string) (time.Time, *time.Location) {
	t.Helper()
	at, err := time.Parse(time.RFC3339, now)
	if err != nil {
		t.Fatal(err)
	}
	place, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	return at, place
}

// The hours of a day on which clocks change, and the fires in them.
func TestCalendarWhenClocksChange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		now, zone   string
		hours, days string // of the slots that have fires
	}{
		"spring": {"2027-03-27T23:30:00Z", "Europe/Berlin", "Sun 03:00 a 03:00, Sun 04:00 b 04:30",
			"Sun 28 March a 03:00 b 04:30"},
		"autumn": {"2027-10-30T22:30:00Z", "Europe/Berlin",
			"Sun 02:00 (+0200) a 02:30 b 02:30, Sun 02:00 (+0100) b 02:30", "Sun 31 October a 02:30 b 02:30 02:30"},
		"elsewhere": {"2027-10-30T22:30:00Z", "Asia/Kolkata", "Sun 06:00 a 06:00 b 06:00, Sun 07:00 b 07:00",
			"Sun 31 October a 06:00 b 06:00 07:00"},
	} {
		now, zone := clock(t, c.now, c.zone)
		var tasks []inspect.RecurringTask
		for id, cron := range []string{"30 2 * * *", "30 0/2 * * *"} {
			tasks = append(tasks, inspect.RecurringTask{ID: string(rune('a' + id)), Status: store.StatusQueued,
				Cron: cron, TimeZone: "Europe/Berlin", PlanFrom: &now})
		}
		hours := calendar{Slots: hoursFrom(now, zone)}
		hours.fill(tasks, firesOfEach(tasks, nil, now, now.Add(4*time.Hour)), now, now.Add(4*time.Hour), zone, hourKey)
		days := calendar{Slots: daysFrom(now, zone, 1)}
		from, to := now.Add(-time.Second), now.Add(5*time.Hour)
		days.fill(tasks, firesOfEach(tasks, nil, from, to), from, to, zone, dayKey)
		if got := slotsText(hours); got != c.hours {
			t.Errorf("%s, hours: %s, want %s", name, got, c.hours)
		}
		if got := slotsText(days); got != c.days {
			t.Errorf("%s, days: %s, want %s", name, got, c.days)
		}
	}
}

func slotsText(c calendar) string {
	var slots []string
	for _, slot := range c.Slots {
		text := slot.Label
		for _, entry := range slot.Entries {
			text += fmt.Sprintf(" %s %s", entry.ID, strings.Join(entry.Times, " "))
		}
		if len(slot.Entries) > 0 {
			slots = append(slots, text)
		}
	}
	return strings.Join(slots, ", ")
}

func TestMidnightAfter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ zone, now, want string }{
		{"UTC", "2027-05-01T12:00:00Z", "2027-05-03T00:00:00Z"},
		{"Europe/Berlin", "2027-10-30T22:30:00Z", "2027-11-02T00:00:00+01:00"},
		{"Asia/Beirut", "2022-03-25T12:00:00Z", "2022-03-27T01:00:00+03:00"}, // that day has no midnight
		{"America/Sao_Paulo", "2018-11-02T12:00:00Z", "2018-11-04T01:00:00-02:00"},
	} {
		now, zone := clock(t, c.now, c.zone)
		if got := midnightAfter(now, zone, 2).Format(time.RFC3339); got != c.want {
			t.Errorf("%s: %s, want %s", c.zone, got, c.want)
		}
	}
}

// A task that fires often is one line.
func TestCalendarOfFrequentTasks(t *testing.T) {
	t.Parallel()
	now := time.Date(2027, 5, 1, 12, 0, 0, 0, time.UTC)
	paused := []store.Pause{{Scope: "queue", Name: "slow", PausedAt: now.Add(-time.Hour)}}
	var tasks []inspect.RecurringTask
	for _, c := range []inspect.RecurringTask{
		{ID: "quarter", Cron: "*/15 * * * *"},
		{ID: "second", Cron: "@every 1s"},
		{ID: "an hour", Cron: "* 15 * * *"},
		{ID: "held", Cron: "* * * * *", Queue: "slow"},
		{ID: "overdue", Cron: "* * * * *", NextFire: new(now.Add(-time.Minute))},
		{ID: "fifty", Cron: "@every 1s", MaxOccurrences: new(50)},
		{ID: "fifty-one", Cron: "@every 1s", MaxOccurrences: new(51)},
		{ID: "ends", Cron: "@every 1s", EndsAt: new(now.Add(50 * time.Second))},
		{ID: "fails", Cron: "never"},
	} {
		c.Status, c.TimeZone, c.PlanFrom = store.StatusQueued, "UTC", &now
		tasks = append(tasks, c)
	}
	to := now.Add(24 * time.Hour)
	made := calendar{Slots: hoursFrom(now, time.UTC)}
	made.fill(tasks, firesOfEach(tasks, paused, now, to), now, to, time.UTC, hourKey)
	var got []string
	for _, one := range made.Often {
		line := one.ID + ": " + one.Words + " " + one.Next
		if one.Paused {
			line += " paused"
		}
		got = append(got, line)
	}
	const want = `quarter: every 15 minutes Sat 12:15
second: every 1s Sat 12:00:01
an hour: every minute in the hour 15 Sat 15:00
held: every minute Sat 12:01 paused
overdue: every minute Sat 12:00
fifty-one: every 1s Sat 12:00:01`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	var listed []string
	for _, slot := range made.Slots {
		for _, entry := range slot.Entries {
			listed = append(listed, fmt.Sprintf("%s %d", entry.ID, len(entry.Times)))
		}
	}
	if text := strings.Join(listed, ", "); text != "fifty 50, ends 50" {
		t.Errorf("listed: %s", text)
	}
}
