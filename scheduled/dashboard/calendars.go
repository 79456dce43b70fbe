package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/recurrence"
)

// calendarsView is the list of calendars, with the days of the one that the address names.
type calendarsView struct {
	All  []calendarLine
	One  *calendarLine
	Cut  bool // One has earlier days
	Name string
}

// calendarLine is a calendar.
type calendarLine struct {
	store.Calendar
	Last string // day
	Mine bool   // the person may change it
	Past bool   // it has no day to come
}

const maxDaysShown = 500

// calendarsPage shows the days of the calendar that the parameters name and tenant name.
func calendarsPage(ctx context.Context, v *visit) (any, error) {
	found, err := v.tasks.ForTenant(v.person.Tenant).Calendars(ctx, v.db)
	if err != nil {
		return nil, err
	}
	today := v.now.In(v.look.zone).Format(time.DateOnly)
	view := calendarsView{Name: v.query("name")}
	for _, row := range found {
		line := calendarLine{Calendar: row, Mine: v.person.Tenant == "" || v.person.Tenant == row.TenantID}
		for _, span := range row.Days {
			line.Last = max(line.Last, span.To.String())
		}
		line.Past = line.Last < today
		if row.Name == view.Name && row.TenantID == v.query("tenant") {
			view.One = &line
		}
		view.All = append(view.All, line)
	}
	if view.One != nil && len(view.One.Days) > maxDaysShown {
		view.Cut, view.One.Days = true, view.One.Days[len(view.One.Days)-maxDaysShown:]
	}
	return view, nil
}

// calendarOf returns the calendar that the form names, and the store of its tenant.
func calendarOf(v *visit) (name string, tasks *store.Store, err error) {
	name = strings.TrimSpace(v.form("name"))
	tenant := strings.TrimSpace(v.form("tenant"))
	if v.person.Tenant != "" {
		tenant = v.person.Tenant
	}
	if !recurrence.IsCalendarName(name) {
		err = notValid("name must be a-z, then at most 62 of a-z, 0-9, _ or -, and not workdays, which is built in")
	}
	return name, v.tasks.ForTenant(tenant), err
}

// daysOf reads the days of the form. Spaces or commas are between them.
func daysOf(v *visit) ([]recurrence.Span, error) {
	var days []recurrence.Span
	divides := func(r rune) bool { return strings.ContainsRune(" ,\r\n\t", r) }
	for _, text := range strings.FieldsFunc(v.form("days"), divides) {
		span, err := recurrence.ParseSpan(text)
		if err != nil {
			return nil, notValid(strings.TrimPrefix(err.Error(), recurrence.ErrInvalid.Error()+": "))
		}
		span.Note = strings.TrimSpace(v.form("note"))
		days = append(days, span)
	}
	if len(days) == 0 {
		return nil, notValid("days must be given, such as 2027-12-24 or 2027-12-24..2027-12-31")
	}
	return days, nil
}

// changeDays adds the days of the form to a calendar, or removes them.
func changeDays(
	change func(*store.Store, context.Context, store.DB, string, ...recurrence.Span) (store.Outcome, error),
) func(context.Context, *visit) (done, error) {
	return func(ctx context.Context, v *visit) (done, error) {
		name, tasks, err := calendarOf(v)
		if err != nil {
			return done{}, err
		}
		days, err := daysOf(v)
		if err != nil {
			return done{}, err
		}
		return calendarDone(name, func() (store.Outcome, error) { return change(tasks, ctx, v.db, name, days...) })
	}
}

func removeCalendar(ctx context.Context, v *visit) (done, error) {
	name, tasks, err := calendarOf(v)
	if err != nil {
		return done{}, err
	}
	made, err := calendarDone(name, func() (store.Outcome, error) { return tasks.RemoveCalendar(ctx, v.db, name) })
	made.to = "/calendars"
	return made, err
}

// calendarDone tells the outcome. The fires are planned anew after the commit.
func calendarDone(name string, do func() (store.Outcome, error)) (done, error) {
	outcome, err := do()
	if refused := new(pgconn.PgError); errors.Is(err, store.ErrCalendarUsed) && errors.As(err, &refused) {
		return done{}, tell(http.StatusConflict, "In use", upper(refused.Message)+".")
	}
	if err != nil {
		return done{}, err
	}
	return done{text: fmt.Sprintf("Calendar %s: %s.", name, outcome)}, nil
}
