package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/recurrence"
)

// CalendarDays are days that follow each other.
type CalendarDays struct {
	From string `json:"from" format:"date" example:"2027-12-24"`
	To   string `json:"to,omitempty" format:"date" doc:"The last day. Default: from."`
	Note string `json:"note,omitempty" maxLength:"200" doc:"What they are, such as Christmas."`
}

// CalendarRequest has the days that a caller sets or adds.
type CalendarRequest struct {
	Days []CalendarDays `json:"days" nullable:"false" maxItems:"5000"`
}

// Calendar is a set of days that the rules of recurring tasks name.
type Calendar struct {
	Name       string         `json:"name"`
	TenantID   string         `json:"tenant_id,omitempty" doc:"Its tenant. Missing: the tasks of all may use it."`
	Days       []CalendarDays `json:"days" nullable:"false"`
	Tasks      int            `json:"tasks" doc:"How many tasks that have not ended use it, of those that are visible."`
	ChangedAt  time.Time      `json:"changed_at"`
	ChangedBy  string         `json:"changed_by"`
	DeclaredBy string         `json:"declared_by,omitempty" doc:"The service whose code declares it."`
}

// Calendars are all calendars that the caller may see.
type Calendars struct {
	Calendars []Calendar `json:"calendars" nullable:"false" doc:"Sorted by name."`
}

// CalendarPath names a calendar in a call.
type CalendarPath struct {
	Name   string `path:"name"`
	Tenant string `query:"tenant_id" doc:"The calendar is for its tasks. Default: the key's tenant, or else all."`
}

type setCalendarInput struct {
	Conditions
	CalendarPath
	Body CalendarRequest
}

type removeCalendarInput struct {
	Conditions
	CalendarPath
}

// CalendarReceipt is the result of a call for one calendar.
type CalendarReceipt struct {
	Name    string        `json:"name"`
	Outcome store.Outcome `json:"outcome"`
}

func (a *API) registerCalendars() {
	read(a, huma.Operation{
		OperationID: "listCalendars", Method: http.MethodGet, Path: "/v1/calendars",
		Summary: "List calendars", Description: "A key of a tenant sees its own and the general ones.",
	}, func(ctx context.Context, c call, _ *struct{}) (Calendars, error) {
		found, err := c.tasks.ForTenant(c.caller.Tenant).Calendars(ctx, c.db)
		return Calendars{each(found, calendarOf)}, err
	})
	read(a, huma.Operation{
		OperationID: "getCalendar", Method: http.MethodGet, Path: "/v1/calendars/{name}",
		Summary: "Get a calendar", Description: "The tenant's, or else the general one.",
		Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, c call, in *CalendarPath) (Calendar, error) {
		tasks, err := c.calendarsOf(in.Tenant)
		if err != nil {
			return Calendar{}, err
		}
		found, err := tasks.Calendar(ctx, c.db, in.Name)
		if errors.Is(err, store.ErrNotFound) {
			err = refusal(CodeNoCalendar, "there is no such calendar")
		}
		return calendarOf(found), err
	})
	changeMany(a, keys.Operate, huma.Operation{
		OperationID: "setCalendar", Method: http.MethodPut, Path: "/v1/calendars/{name}",
		Summary:     "Create a calendar, or replace its days",
		Description: "The fires of the tasks that use it are planned anew.",
	}, func(ctx context.Context, c call, in *setCalendarInput) (CalendarReceipt, error) {
		return c.changeCalendar(in.CalendarPath, in.Body.Days,
			func(tasks *store.Store, days []recurrence.Span) (store.Outcome, error) {
				return tasks.SetCalendar(ctx, c.db, store.Calendar{Name: in.Name, Days: days})
			})
	})
	changeMany(a, keys.Operate, huma.Operation{
		OperationID: "addDays", Method: http.MethodPost, Path: "/v1/calendars/{name}/days",
		Summary: "Add days to a calendar", Description: "If the calendar is absent, it is made.",
	}, func(ctx context.Context, c call, in *setCalendarInput) (CalendarReceipt, error) {
		return c.changeCalendar(in.CalendarPath, in.Body.Days,
			func(tasks *store.Store, days []recurrence.Span) (store.Outcome, error) {
				return tasks.AddDays(ctx, c.db, in.Name, days...)
			})
	})
	changeMany(a, keys.Operate, huma.Operation{
		OperationID: "removeCalendar", Method: http.MethodDelete, Path: "/v1/calendars/{name}",
		Summary: "Remove a calendar", Description: "It is refused while a task uses the calendar.",
	}, func(ctx context.Context, c call, in *removeCalendarInput) (CalendarReceipt, error) {
		return c.changeCalendar(in.CalendarPath, nil,
			func(tasks *store.Store, _ []recurrence.Span) (store.Outcome, error) {
				return tasks.RemoveCalendar(ctx, c.db, in.Name)
			})
	})
}

// calendarsOf returns the store for the calendars of a tenant, which for a key of a tenant is its own.
func (c call) calendarsOf(tenant string) (*store.Store, error) {
	if c.caller.Tenant != "" && tenant != "" && tenant != c.caller.Tenant {
		return nil, refusal(CodeTenantNotAllowed, "tenant_id must be the tenant of the key, or missing")
	}
	if c.caller.Tenant != "" {
		tenant = c.caller.Tenant
	}
	return c.tasks.ForTenant(tenant), nil
}

func (c call) changeCalendar(
	of CalendarPath, days []CalendarDays, do func(*store.Store, []recurrence.Span) (store.Outcome, error),
) (CalendarReceipt, error) {
	tasks, err := c.calendarsOf(of.Tenant)
	if err != nil {
		return CalendarReceipt{}, err
	}
	spans := make([]recurrence.Span, len(days))
	for i, one := range days {
		text := one.From
		if one.To != "" {
			text += ".." + one.To
		}
		if spans[i], err = recurrence.ParseSpan(text); err != nil {
			return CalendarReceipt{}, invalid(fmt.Sprintf("days[%d]: %s", i, ruleOf(err)))
		}
		spans[i].Note = one.Note
	}
	outcome, err := do(tasks, spans)
	if refused := new(pgconn.PgError); errors.Is(err, store.ErrCalendarUsed) && errors.As(err, &refused) {
		err = refusal(CodeCalendarUsed, refused.Message)
	}
	return CalendarReceipt{of.Name, outcome}, err
}

func calendarOf(one store.Calendar) Calendar {
	days := each(one.Days, func(span recurrence.Span) CalendarDays {
		return CalendarDays{From: span.From.String(), To: span.To.String(), Note: span.Note}
	})
	return Calendar{Name: one.Name, TenantID: one.TenantID, Days: days, Tasks: one.Tasks,
		ChangedAt: one.ChangedAt, ChangedBy: one.ChangedBy, DeclaredBy: one.DeclaredBy}
}
