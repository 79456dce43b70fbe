package dashboard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/dashboard/internal/words"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// The hours of a day on which clocks change, and the fires in them.
func TestCalendarWhenClocksChange(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
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
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		var tasks []inspect.RecurringTask
		for id, cron := range []string{"30 2 * * *", "30 0/2 * * *"} {
			tasks = append(tasks, inspect.RecurringTask{ID: string(rune('a' + id)), Status: store.StatusQueued,
				Cron:     cron,
				TimeZone: berlin.String(), PlanFrom: &now})
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
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		if got := midnightAfter(now, zone, 2).Format(time.RFC3339); got != c.want {
			t.Errorf("%s: %s, want %s", c.zone, got, c.want)
		}
	}
}

// Tasks that fire often are one line, and there is a bound on what is computed for them.
func TestCalendarOfFrequentTasks(t *testing.T) {
	t.Parallel()
	now := time.Date(2027, 5, 1, 12, 0, 0, 0, time.UTC)
	var tasks []inspect.RecurringTask
	for i := range 30 {
		task := inspect.RecurringTask{ID: fmt.Sprint(i), Status: store.StatusQueued, Cron: "@every 1s", TimeZone: "UTC",
			PlanFrom: &now}
		switch i {
		case 0:
			task.Cron = "*/15 * * * *"
		case 1:
			task.MaxOccurrences = new(70)
		case 2:
			task.EndsAt = new(now.Add(time.Minute))
		}
		tasks = append(tasks, task)
	}
	made := calendar{Slots: hoursFrom(now, time.UTC)}
	made.fill(tasks, firesOfEach(tasks, nil, now, now.Add(24*time.Hour)), now, now.Add(24*time.Hour), time.UTC, hourKey)
	var got []string
	for _, i := range []int{0, 1, 2, 3, 29} {
		one := made.Often[i]
		got = append(got, fmt.Sprintf("%s %s %s", one.ID, one.Words, words.Count(one.Count, one.More)))
	}
	const want = "0 every 15 minutes 95, 1 every 1s 70, 2 every 1s 60, " +
		"3 every 1s more than 1 000, 29 every 1s more than 50"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}
