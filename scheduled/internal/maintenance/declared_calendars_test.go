package maintenance

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/recurrence"
)

// days is a calendar of one day.
func days(t *testing.T, name, day string) store.Calendar {
	t.Helper()
	span, err := recurrence.ParseSpan(day)
	enginetest.OK(t, err)
	return store.Calendar{Name: name, Days: []recurrence.Span{span}}
}

// closing is a program that declares calendars.
func (b *bench) closing(service string, declared ...store.Calendar) program {
	return program{NewDeclarer(DeclarerConfig{Pool: b.Pool, Statements: b.Queries, Service: service,
		Declaration: Declaration{Calendars: append([]store.Calendar{}, declared...)}, Log: enginetest.Logger()}), b}
}

func (b *bench) wantCalendars(want string) {
	b.T.Helper()
	const listSQL = `SELECT coalesce(string_agg(concat_ws(' ', name, days -> 0 ->> 'from', declared_by), ', ' ORDER BY name), '')
		FROM tasktable.calendars`
	var got string
	if err := b.Pool.QueryRow(b.T.Context(), listSQL).Scan(&got); err != nil || got != want {
		b.T.Errorf("calendars %q, %v, want %q", got, err, want)
	}
}

// The calendars of a service are those that its newest version declares. Those of others stay, and so does one that a
// task still needs.
func TestDeclaredCalendars(t *testing.T) {
	b := newBench(t)
	tasks := store.New(store.Config{})
	b.Did(tasks.SetCalendar(t.Context(), b.Pool, days(t, "own", "2027-01-01")))
	first := b.closing("events", days(t, "company", "2027-12-24"), days(t, "fair", "2027-05-03"), days(t, "old", "2027-02-02"))
	first.deploy(1)
	first.looks()
	b.wantCalendars("company 2027-12-24 events, fair 2027-05-03 events, old 2027-02-02 events, own 2027-01-01")
	err := pgx.BeginFunc(t.Context(), b.Pool, func(tx pgx.Tx) error {
		return b.closing("taker", days(t, "own", "2027-01-02")).applyCalendars(t.Context(), tx)
	})
	if !errors.Is(err, errOthersCalendars) {
		t.Errorf("the calendar of somebody else: %v", err)
	}
	b.Did(tasks.Schedule(t.Context(), b.Pool, store.Task{ID: "fair", Payload: job{Name: "fair"},
		Recurrence: &store.Recurrence{Cron: "@daily", OutOf: []string{"fair"}}}))
	second := b.closing("events", days(t, "company", "2027-12-27"))
	second.deploy(2)
	second.looks()
	first.looks()
	b.wantCalendars("company 2027-12-27 events, fair 2027-05-03 events, own 2027-01-01")
}
