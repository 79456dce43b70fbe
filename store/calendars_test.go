package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/recurrence"
)

// spans reads spans such as 2027-12-24..2027-12-31.
func spans(tb testing.TB, texts ...string) (all []recurrence.Span) {
	tb.Helper()
	for _, text := range texts {
		span, err := recurrence.ParseSpan(text)
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, span)
	}
	return all
}

func TestCalendars(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	acme := b.Tasks.ForTenant("acme")
	noted := spans(t, "2027-12-20")
	noted[0].Note = "Party"
	for i, step := range []struct {
		call func() (store.Outcome, error)
		want store.Outcome
		left string // of the calendar company
	}{
		{func() (store.Outcome, error) {
			return b.Tasks.SetCalendar(b.Ctx, b.Pool, store.Calendar{Name: "company", Days: spans(t, "2027-12-24..2027-12-31")})
		}, store.Created, "2027-12-24..2027-12-31"},
		{func() (store.Outcome, error) {
			return b.Tasks.AddDays(b.Ctx, b.Pool, "company", spans(t, "2027-12-24..2027-12-31")...)
		}, store.Unchanged, "2027-12-24..2027-12-31"},
		{func() (store.Outcome, error) { return b.Tasks.AddDays(b.Ctx, b.Pool, "company", noted...) },
			store.Changed, "2027-12-20 Party 2027-12-24..2027-12-31"},
		{func() (store.Outcome, error) {
			return b.Tasks.RemoveDays(b.Ctx, b.Pool, "company", spans(t, "2027-12-26..2027-12-27")...)
		}, store.Changed, "2027-12-20 Party 2027-12-24..2027-12-25 2027-12-28..2027-12-31"},
		{func() (store.Outcome, error) {
			return b.Tasks.RemoveDays(b.Ctx, b.Pool, "company", spans(t, "2027-12-26")...)
		}, store.Unchanged, "2027-12-20 Party 2027-12-24..2027-12-25 2027-12-28..2027-12-31"},
		{func() (store.Outcome, error) { return b.Tasks.RemoveDays(b.Ctx, b.Pool, "none") }, store.Absent,
			"2027-12-20 Party 2027-12-24..2027-12-25 2027-12-28..2027-12-31"},
		{func() (store.Outcome, error) {
			return acme.AddDays(b.Ctx, b.Pool, "company", spans(t, "2027-06-01")...)
		},
			store.Created, "2027-12-20 Party 2027-12-24..2027-12-25 2027-12-28..2027-12-31"},
	} {
		got, err := step.call()
		if err != nil || got != step.want {
			t.Errorf("step %d: %s, %v, want %s", i, got, err, step.want)
		}
		row, err := b.Tasks.Calendar(b.Ctx, b.Pool, "company")
		b.Check(err)
		var left []string
		for _, span := range row.Days {
			left = append(left, strings.TrimSpace(span.String()+" "+span.Note))
		}
		same(b, fmt.Sprint("days after step ", i), strings.Join(left, " "), step.left)
	}
	b.Schedule(store.Task{ID: "general", Payload: payload(1), Recurrence: &store.Recurrence{
		Cron: "0 9 * * *", OutOf: []string{"company"}, KeepTo: []string{"workdays"}}})
	b.Schedule(store.Task{ID: "acme's", TenantID: "acme", Payload: payload(1), Recurrence: &store.Recurrence{
		Cron: "0 9 * * *", OutOf: []string{"company"}}})
	all, err := b.Tasks.Calendars(b.Ctx, b.Pool)
	if err != nil || len(all) != 2 || all[0].TenantID != "" || all[0].Tasks != 1 || all[1].TenantID != "acme" || all[1].Tasks != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	if own, err := acme.Calendar(b.Ctx, b.Pool, "company"); err != nil || own.TenantID != "acme" {
		t.Errorf("the tenant's: %+v, %v", own, err)
	}
	if _, err := b.Tasks.Calendar(b.Ctx, b.Pool, "none"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a calendar that is not there: %v", err)
	}
	if _, err := b.Tasks.RemoveCalendar(b.Ctx, b.Pool, "company"); !errors.Is(err, store.ErrCalendarUsed) ||
		!strings.Contains(err.Error(), "general") || strings.Contains(err.Error(), "acme's") {
		t.Errorf("a calendar that is used was removed: %v", err)
	}
	for _, step := range []struct {
		of   *store.Store
		want store.Outcome
	}{{acme, store.Deleted}, {acme, store.Absent}} { // the tenant's task then has the general one
		if got, err := step.of.RemoveCalendar(b.Ctx, b.Pool, "company"); err != nil || got != step.want {
			t.Errorf("removed: %s, %v, want %s", got, err, step.want)
		}
	}
	for _, id := range []string{"general", "acme's"} {
		b.succeeds(b.Tasks.Cancel(b.Ctx, b.Pool, id))
	}
	if got, err := b.Tasks.RemoveCalendar(b.Ctx, b.Pool, "company"); err != nil || got != store.Deleted {
		t.Errorf("a calendar of tasks that have ended: %s, %v", got, err)
	}
	if _, err := b.Tasks.Schedule(b.Ctx, b.Pool, store.Task{ID: "general", Payload: payload(1), At: far(0),
		Recurrence: &store.Recurrence{Cron: "0 9 * * *", OutOf: []string{"company"}}}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a task was queued again without its calendar: %v", err)
	}
}

// A task keeps the fields of its recurrence, and is scheduled unchanged from its row.
func TestOptionsOfRecurrence(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.succeeds(b.Tasks.SetCalendar(b.Ctx, b.Pool, store.Calendar{Name: "company", Days: spans(t, "2027-12-24")}))
	for text, r := range map[string]store.Recurrence{
		"0 9 * * TUE every=2 from=2027-01-05": {Cron: "0 9 * * TUE", Every: 2,
			From: recurrence.Date{Year: 2027, Month: time.January, Day: 5}},
		"0 9 * * * out-of=company keep-to=workdays:mon-thu,workdays move=next": {Cron: "0 9 * * *",
			OutOf: []string{"company"}, KeepTo: []string{"workdays", "workdays:mon-thu"}, Move: recurrence.MoveNext},
		"0  9 * * *   keep-to=workdays out-of=company": {Cron: "0  9 * * *   keep-to=workdays out-of=company"},
	} {
		id := "of " + text
		b.Schedule(store.Task{ID: id, Payload: payload(1), Recurrence: &r})
		row, err := b.Tasks.Get(b.Ctx, b.Pool, id)
		b.Check(err)
		if strings.Contains(text, "workdays:") {
			text = "0 9 * * * out-of=company keep-to=workdays,workdays:mon-thu move=next"
		}
		same(b, "stored", *row.Cron, text)
		task, err := store.TaskOf(row)
		b.Check(err)
		same(b, "whole text", task.Recurrence.Text(), text)
		if got := b.Schedule(task); got.Outcome != store.Unchanged {
			t.Errorf("%s: %s", text, got.Outcome)
		}
	}
}

func TestBadCalendars(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, one := range []store.Calendar{
		{Name: "company", Days: spans(t, "2027-12-24")}, {Name: "empty"},
		{Name: "all", Days: spans(t, "2020-01-01..2029-12-31", "2030-01-01..2039-12-31", "2040-01-01..2049-12-31")},
	} {
		b.succeeds(b.Tasks.SetCalendar(b.Ctx, b.Pool, one))
	}
	backwards := recurrence.Span{From: recurrence.Date{Year: 2027, Month: 2, Day: 2}, To: recurrence.Date{Year: 2027, Month: 2, Day: 1}}
	for rule, calendar := range map[string]store.Calendar{
		"name must be a letter":  {Name: "Company"},
		"name must be a letter ": {Name: "workdays"},
		"not end before they be": {Name: "company", Days: []recurrence.Span{backwards}},
		"must be days that exis": {Name: "company", Days: []recurrence.Span{{}}},
	} {
		_, err := b.Tasks.SetCalendar(b.Ctx, b.Pool, calendar)
		b.wantInvalid(err, strings.TrimSpace(rule))
	}
	named := func(r store.Recurrence) store.Task {
		return store.Task{ID: "task", Payload: payload(1), Recurrence: &r}
	}
	for rule, task := range map[string]store.Task{
		"cron must name calendars that exist":     named(store.Recurrence{Cron: "@daily", OutOf: []string{"none"}}),
		"calendars all leave no day":              named(store.Recurrence{Cron: "@daily", OutOf: []string{"all"}}),
		"calendars empty leave no day":            named(store.Recurrence{Cron: "@daily keep-to=empty"}),
		"cron must not have options if every":     named(store.Recurrence{Cron: "@daily out-of=company", OutOf: []string{"company"}}),
		"option every needs from":                 named(store.Recurrence{Cron: "@daily", Every: 2}),
		"out_of must have names of calendars":     named(store.Recurrence{Cron: "@daily", OutOf: []string{"a move=next"}}),
		"move must be skip, next or previous":     named(store.Recurrence{Cron: "@daily", OutOf: []string{"company"}, Move: "far"}),
		"every must be between":                   named(store.Recurrence{Cron: "@daily", Every: -1}),
		"days must be nil for a task that recurs": {ID: "task", Payload: payload(1), Days: &store.Days{OutOf: []string{"company"}}, Recurrence: &store.Recurrence{Cron: "@daily"}},
		"days must be given together with sched":  {ID: "task", Payload: payload(1), Days: &store.Days{OutOf: []string{"company"}}},
		"days must name calendars":                {ID: "task", Payload: payload(1), At: far(0), Days: &store.Days{}},
		"days must have the move next or previ":   {ID: "task", Payload: payload(1), At: far(0), Days: &store.Days{OutOf: []string{"company"}, Move: "skip"}},
		"options name calendar \"none\"":          {ID: "task", Payload: payload(1), At: far(0), Days: &store.Days{OutOf: []string{"none"}}},
	} {
		_, err := b.Tasks.Schedule(b.Ctx, b.Pool, task)
		b.wantInvalid(err, rule)
		_, err = b.Tasks.ScheduleMany(b.Ctx, b.Pool, []store.Task{task})
		b.wantInvalid(err, rule)
	}
	for call, rule := range map[string]string{
		`set_calendar('x', '["2027-02-29"]')`:                                     "span 1 from must be a day",
		`set_calendar('x', '["2027-01-01", "2027-02-03..2027-02"]')`:              "span 2 to must be a day",
		`set_calendar('x', '["2027-02-03..2027-02-01"]')`:                         "to must not be before from",
		`set_calendar('x', '[{"from": "2027-01-01", "til": 1}]')`:                 "must have no other fields",
		`set_calendar('x', '["2020-01-01..2031-01-01"]')`:                         "at most 3653 days",
		`set_calendar('x', '{}')`:                                                 "days must be an array",
		`set_calendar('X', '[]')`:                                                 "name must be a-z",
		`set_calendar('workdays', '[]')`:                                          "name must not be workdays",
		`schedule('{"type": "TEST"}', id => 'x', cron => '@daily out-of=none')`:   `calendar "none" does not exist`,
		`schedule('{"type": "TEST"}', id => 'x', cron => '@daily keep-to=empty')`: "to keep to has no days",
		`day_in('2027-12-24Z', 'out-of=workdays:mon-sun')`:                        "leave no day in",
		`day_in('2027-12-24Z', 'out-of=company', 'Mars')`:                         "an IANA zone",
	} {
		b.refused(`SELECT tasktable.`+call, rule)
	}
}

// The time of a task moves when it is scheduled, and keeps the time on the clocks of its zone.
func TestDaysOfOneOffTasks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if _, err := b.Tasks.SetCalendar(b.Ctx, b.Pool,
		store.Calendar{Name: "company", Days: spans(t, "2027-03-26..2027-03-29")}); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2027, time.March, 26, 8, 0, 0, 0, time.UTC) // nine o'clock in Berlin, before its clocks change
	task := store.Task{ID: "one", Payload: payload(1), At: at,
		Days: &store.Days{OutOf: []string{"company"}, KeepTo: []string{"workdays"}, TimeZone: "Europe/Berlin"}}
	wantAt := func(want string) {
		t.Helper()
		row, err := b.Tasks.Get(b.Ctx, b.Pool, "one")
		b.Check(err)
		same(b, "time", row.ScheduledAt.UTC().Format(time.RFC3339), want)
	}
	b.Schedule(task)
	wantAt("2027-03-30T07:00:00Z")
	b.wantOutcome("scheduled again", store.Unchanged, b.Schedule(task))
	task.Days.Move = recurrence.MovePrevious
	b.Schedule(task)
	wantAt("2027-03-25T08:00:00Z")
	b.succeeds(b.Tasks.SetCalendar(b.Ctx, b.Pool, store.Calendar{Name: "company"}))
	wantAt("2027-03-25T08:00:00Z") // until it is scheduled again
	if got, err := b.Tasks.ScheduleMany(b.Ctx, b.Pool, []store.Task{task}); err != nil || got[0].Outcome != store.Rescheduled {
		t.Errorf("scheduled again after a change: %v, %v", got, err)
	}
	wantAt("2027-03-26T08:00:00Z")
}
