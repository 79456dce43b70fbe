package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tasktable/tasktable/scheduled/dashboard/internal/words"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

const (
	calendarDays    = 7
	maxCalendarDays = 31
	maxCalendar     = 500 // tasks
	maxFires        = 50  // a task with more of them has one line, in which the template names this number
	fewFires        = 8
)

// calendarView shows when recurring tasks fire.
type calendarView struct {
	Days   int
	More   bool // there are more tasks than were read
	ByHour calendar
	ByDay  calendar
}

// calendar has the fires of a time, by hours or by days.
type calendar struct {
	Slots []calendarSlot
	Often []oftenFiring
}

// calendarSlot is an hour or a day. Entries are in the order of their first fire.
type calendarSlot struct {
	Key     string
	Label   string
	Entries []calendarEntry
}

type calendarEntry struct {
	ID     string
	Times  []string
	Paused bool   // a pause holds at least one of the fires
	Moved  bool   // calendars have moved at least one of the fires
	Out    string // why the first of the day's fires, and perhaps others, are left out
}

// oftenFiring is a task with more than maxFires fires. Its fires are not counted, because to count those of hundreds of
// such tasks takes longer than the rest of the page.
type oftenFiring struct {
	ID, Words string
	Next      string
	Paused    bool // a pause holds the next fire
}

func calendarPage(ctx context.Context, v *visit) (any, error) {
	view := calendarView{Days: calendarDays}
	if text := v.query("days"); text != "" {
		days, err := strconv.Atoi(text)
		if err != nil || days < 1 || days > maxCalendarDays {
			return nil, notValid(fmt.Sprintf("days must be a number from 1 to %d", maxCalendarDays))
		}
		view.Days = days
	}
	filter := inspect.RecurringFilter{Limit: maxCalendar + 1, WithoutHealth: true}
	tasks, err := v.inspector.ListRecurring(ctx, v.db, filter)
	if err != nil {
		return nil, err
	}
	view.More = len(tasks) > maxCalendar
	tasks = tasks[:min(len(tasks), maxCalendar)]
	pauses, err := v.tasks.Pauses(ctx, v.db)
	if err != nil {
		return nil, err
	}
	zone := v.look.zone
	hoursEnd, daysEnd := v.now.Add(24*time.Hour), midnightAfter(v.now, zone, view.Days)
	fires := firesOfEach(tasks, pauses, v.now, later(hoursEnd, daysEnd)) // computed once for both calendars
	view.ByHour = calendar{Slots: hoursFrom(v.now, zone)}
	view.ByHour.fill(tasks, fires, v.now, hoursEnd, zone, hourKey)
	view.ByDay = calendar{Slots: daysFrom(v.now, zone, view.Days)}
	view.ByDay.fill(tasks, fires, v.now, daysEnd, zone, dayKey)
	return view, nil
}

// hourKey tells the two hours apart that have the same name when clocks go back.
const (
	hourKey = "2006-01-02 15 -0700"
	dayKey  = "2006-01-02"
)

// midnightAfter is the end of the last of some days. Some zones have days that begin at 01:00.
func midnightAfter(now time.Time, zone *time.Location, days int) time.Time {
	today := now.In(zone)
	end := time.Date(today.Year(), today.Month(), today.Day()+days, 0, 0, 0, 0, zone)
	if end.Hour() == 23 {
		end = end.Add(time.Hour)
	}
	return end
}

// hoursFrom returns the hours of the next day, the present one included. An hour that a zone leaves out is not there,
// and one that it has twice is there twice.
func hoursFrom(now time.Time, zone *time.Location) []calendarSlot {
	var slots []calendarSlot
	for at := now; at.Before(now.Add(24 * time.Hour)); at = at.Add(30 * time.Minute) { // some zones have half hours
		local := at.In(zone)
		key := local.Format(hourKey)
		if len(slots) == 0 || slots[len(slots)-1].Key != key {
			slots = append(slots, calendarSlot{Key: key, Label: local.Format("Mon 15:00")})
		}
	}
	for i := range slots { // both have the same label
		same := func(other calendarSlot) bool { return other.Label == slots[i].Label }
		if first := slices.IndexFunc(slots, same); first != i && slots[first].Key[:13] == slots[i].Key[:13] {
			slots[first].Label += " (" + slots[first].Key[14:] + ")"
			slots[i].Label += " (" + slots[i].Key[14:] + ")"
		}
	}
	return slots
}

// daysFrom returns the coming days, today included.
func daysFrom(now time.Time, zone *time.Location, days int) []calendarSlot {
	today := now.In(zone)
	slots := make([]calendarSlot, days)
	for i := range slots {
		noon := time.Date(today.Year(), today.Month(), today.Day()+i, 12, 0, 0, 0, zone) // each day has a noon
		slots[i] = calendarSlot{Key: noon.Format(dayKey), Label: noon.Format("Mon 2 January")}
	}
	return slots
}

// fill puts the fires of each task that are before to into their slots. layout makes a slot's key of a time.
func (c *calendar) fill(
	tasks []inspect.RecurringTask, all []inspect.Forecast, from, to time.Time, zone *time.Location, layout string,
) {
	slotOf := map[string]int{}
	for i, slot := range c.Slots {
		slotOf[slot.Key] = i
	}
	for i, task := range tasks {
		fires := before(all[i].Fires, to)
		if len(fires) > maxFires {
			c.Often = append(c.Often, oftenFiring{
				ID: task.ID, Words: cmp.Or(words.Cron(task.Cron), task.Cron), Paused: len(fires[0].Paused) > 0,
				Next: clockText("Mon ", later(fires[0].At, from).In(zone)),
			})
			continue
		}
		for _, fire := range fires {
			local := later(fire.At, from).In(zone)
			if at, known := slotOf[local.Format(layout)]; known {
				c.Slots[at].add(task.ID, fire, local)
			}
		}
		for _, day := range all[i].LeftOut {
			local := day.At.In(zone)
			if at, known := slotOf[local.Format(layout)]; known && day.At.Before(to) {
				c.Slots[at].Entries = append(c.Slots[at].Entries,
					calendarEntry{ID: task.ID, Times: []string{clockText("", local)}, Out: day.Why})
			}
		}
	}
	for _, slot := range c.Slots {
		slices.SortStableFunc(slot.Entries, func(a, b calendarEntry) int {
			return strings.Compare(a.Times[0], b.Times[0])
		})
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// add adds a fire. The fires of one task are one entry.
func (s *calendarSlot) add(id string, fire inspect.Fire, local time.Time) {
	if last := len(s.Entries) - 1; last < 0 || s.Entries[last].ID != id {
		s.Entries = append(s.Entries, calendarEntry{ID: id})
	}
	entry := &s.Entries[len(s.Entries)-1]
	entry.Times = append(entry.Times, clockText("", local))
	entry.Moved = entry.Moved || fire.MovedFrom != nil
	entry.Paused = entry.Paused || len(fire.Paused) > 0
}

// clockText leaves the seconds out if there are none. day is the layout of the day before the time.
func clockText(day string, local time.Time) string {
	if local.Second() != 0 {
		return local.Format(day + "15:04:05")
	}
	return local.Format(day + "15:04")
}

func firesOfEach(tasks []inspect.RecurringTask, pauses []store.Pause, from, to time.Time) []inspect.Forecast {
	fires := make([]inspect.Forecast, len(tasks))
	for i, task := range tasks {
		fires[i] = firesBetween(task, pauses, from, to)
	}
	return fires
}

// firesBetween returns the fires of a task, and one more than maxFires if there are more. Most tasks fire seldom, so
// it asks for few first.
func firesBetween(task inspect.RecurringTask, pauses []store.Pause, from, to time.Time) inspect.Forecast {
	for _, most := range []int{fewFires, maxFires + 1} {
		forecast, err := task.Forecast(from, pauses, most)
		if err != nil {
			break // the leader makes the task FAILED
		}
		forecast.Fires = before(forecast.Fires, to)
		if len(forecast.Fires) < most || most > fewFires {
			return forecast
		}
	}
	return inspect.Forecast{}
}

// before returns the fires that are before to.
func before(fires []inspect.Fire, to time.Time) []inspect.Fire {
	if end := slices.IndexFunc(fires, func(fire inspect.Fire) bool { return !fire.At.Before(to) }); end >= 0 {
		return fires[:end]
	}
	return fires
}
