package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
	"github.com/tasktable/tasktable/store/recurrence"
)

// Calendar is a set of days, such as holidays, that the rules of recurring tasks name (see Recurrence.OutOf).
type Calendar struct {
	// Name is 1 to 63 of a-z, 0-9, _ and -, and begins with a letter. It must not be "workdays".
	Name     string `json:"name"`
	TenantID string `json:"tenant_id,omitempty"` // "": it is general
	// Days are at most 5,000 spans.
	Days []recurrence.Span `json:"days" db:"-"`

	// ChangedAt, ChangedBy and DeclaredBy say when and by whom it was set, and which service's code declares it. Tasks
	// is how many tasks that have not ended have it in their rules, at most 1,000. Store.Calendars and Store.Calendar
	// fill them in, and TenantID. SetCalendar ignores them, because a Store is about the calendars of one tenant, see
	// ForTenant.
	ChangedAt  time.Time `json:"changed_at"`
	ChangedBy  string    `json:"changed_by"`
	DeclaredBy string    `json:"declared_by,omitempty"`
	Tasks      int       `json:"tasks"`
}

// Check returns the error, wrapping ErrInvalid, with which SetCalendar would refuse the calendar, or nil.
func (c Calendar) Check() error {
	if err := checkCalendarName(c.Name); err != nil {
		return err
	}
	if _, err := recurrence.NewDays(c.Days); err != nil {
		return check.Mark(err)
	}
	return nil
}

func checkCalendarName(name string) error {
	if !recurrence.IsCalendarName(name) {
		return check.Invalid("name", "must be a letter a-z and at most 62 of a-z, 0-9, _ and -, and not workdays",
			fmt.Sprintf("%.100q", name))
	}
	return nil
}

// ForTenant returns a Store whose methods for calendars, and whose Rule, are about the calendars of a tenant. The rules
// of the tenant's tasks have these, and general calendars whose names the tenant has no own calendar for. "" stands for
// the general calendars. Other methods are those of s.
func (s *Store) ForTenant(tenantID string) *Store {
	return &Store{config: s.config, source: s.source, tenant: tenantID}
}

const setCalendarSQL = `SELECT tasktable.set_calendar($1::text, $2::text::jsonb, $3::text, $4::text)`

// SetCalendar creates the calendar, or replaces all days of the calendar that has its name. The leader plans the next
// fires of its tasks anew, within about a second after the commit, and does not fire them for that. SetCalendar
// returns Created, Changed or Unchanged. There are at most 1,000 calendars, and 100 of a tenant. The error wraps
// ErrInvalid for a bad field.
func (s *Store) SetCalendar(ctx context.Context, db DB, calendar Calendar) (Outcome, error) {
	return s.changeDays(ctx, db, "set calendar ", setCalendarSQL, calendar)
}

const addDaysSQL = `SELECT tasktable.add_days($1::text, $2::text::jsonb, $3::text, $4::text)`

// AddDays adds days to a calendar, and creates it if it is absent. It returns Created, Changed or Unchanged.
func (s *Store) AddDays(ctx context.Context, db DB, name string, days ...recurrence.Span) (Outcome, error) {
	return s.changeDays(ctx, db, "add days to calendar ", addDaysSQL, Calendar{Name: name, Days: days})
}

const removeDaysSQL = `SELECT tasktable.remove_days($1::text, $2::text::jsonb, $3::text, $4::text)`

// RemoveDays removes days from a calendar, whatever their notes are. It divides a span of which days are left. It
// returns Changed, Unchanged or Absent.
func (s *Store) RemoveDays(ctx context.Context, db DB, name string, days ...recurrence.Span) (Outcome, error) {
	return s.changeDays(ctx, db, "remove days from calendar ", removeDaysSQL, Calendar{Name: name, Days: days})
}

func (s *Store) changeDays(ctx context.Context, db DB, doing, statement string, c Calendar) (Outcome, error) {
	if err := c.Check(); err != nil {
		return "", fmt.Errorf("%s%.63s: %w", doing, c.Name, err)
	}
	if c.Days == nil {
		c.Days = []recurrence.Span{}
	}
	days, err := json.Marshal(c.Days)
	if err != nil {
		return "", fmt.Errorf("encode days: %w", err)
	}
	outcome, err := query.Value[string](ctx, s.source, db, doing+c.Name, statement, c.Name, string(days),
		check.OrNil(s.tenant), s.author())
	return Outcome(outcome), err
}

const removeCalendarSQL = `SELECT tasktable.remove_calendar($1::text, $2::text)`

// RemoveCalendar removes a calendar. It returns Deleted, or Absent if there is no such calendar. The error wraps
// ErrCalendarUsed, and names some tasks, if the rule of a task that has not ended names the calendar.
func (s *Store) RemoveCalendar(ctx context.Context, db DB, name string) (Outcome, error) {
	if err := checkCalendarName(name); err != nil {
		return "", fmt.Errorf("remove calendar: %w", err)
	}
	outcome, err := query.Value[string](ctx, s.source, db, "remove calendar "+name, removeCalendarSQL, name,
		check.OrNil(s.tenant))
	return Outcome(outcome), err
}

// The conditions on next_attempt_at let Postgres find the tasks by the two indexes of recurring tasks.
const calendarsSQL = `
WITH used AS MATERIALIZED (
    SELECT needed.name, coalesce(t.tenant_id, '') AS tenant_id, count(*) AS tasks
    FROM tasktable.scheduled_tasks AS t CROSS JOIN unnest(tasktable.calendars_of(t.cron)) AS needed (name)
    WHERE t.cron IS NOT NULL AND t.finished_at IS NULL AND t.cron LIKE '%-%=%'
        AND (t.next_attempt_at IS NOT NULL OR t.next_attempt_at IS NULL)
    GROUP BY 1, 2
)
SELECT c.name, c.tenant_id, c.days::text AS days_text, c.changed_at, c.changed_by,
    coalesce(c.declared_by, '') AS declared_by, (
        SELECT least(coalesce(sum(u.tasks), 0), 1000)::int FROM used AS u
        WHERE u.name = c.name AND CASE c.tenant_id WHEN '' THEN NOT EXISTS (SELECT FROM tasktable.calendars AS own
                WHERE own.name = u.name AND own.tenant_id = u.tenant_id AND u.tenant_id <> '')
            ELSE u.tenant_id = c.tenant_id END) AS tasks
FROM tasktable.calendars AS c
WHERE ($1::text IS NULL OR c.tenant_id IN ('', $1::text)) AND ($2::text IS NULL OR c.name = $2::text)
ORDER BY c.name, c.tenant_id LIMIT 1000`

// calendarRow has the days as text, because every driver can scan text.
type calendarRow struct {
	Calendar
	DaysText string
}

// Calendars lists at most 1,000 calendars, sorted by name and tenant. They are all that the caller may see, or those of
// the Store's tenant and the general ones.
func (s *Store) Calendars(ctx context.Context, db DB) ([]Calendar, error) {
	return s.calendars(ctx, db, "list calendars", check.OrNil(s.tenant), nil)
}

func (s *Store) calendars(ctx context.Context, db DB, doing string, tenant, name *string) ([]Calendar, error) {
	found, err := query.Collect[calendarRow](ctx, s.source, db, doing, calendarsSQL, tenant, name)
	if err != nil {
		return nil, err
	}
	all := make([]Calendar, len(found))
	for i, row := range found {
		all[i] = row.Calendar
		if err := json.Unmarshal([]byte(row.DaysText), &all[i].Days); err != nil {
			return nil, fmt.Errorf("%s: decode the days of %s: %w", doing, row.Name, err)
		}
	}
	return all, nil
}

// noCalendar is ErrNotFound for a calendar.
type noCalendar string

func (n noCalendar) Error() string { return "no calendar " + string(n) }
func (noCalendar) Unwrap() error   { return ErrNotFound }

const ownTenantSQL = `SELECT coalesce($1::text, current_setting('tasktable.tenant', true), '')`

// Calendar returns a calendar of the Store's tenant, or else the general one. The error wraps ErrNotFound if there is
// neither.
func (s *Store) Calendar(ctx context.Context, db DB, name string) (Calendar, error) {
	if err := checkCalendarName(name); err != nil {
		return Calendar{}, fmt.Errorf("read calendar: %w", err)
	}
	tenant, err := query.Value[string](ctx, s.source, db, "read calendar "+name, ownTenantSQL, check.OrNil(s.tenant))
	if err != nil {
		return Calendar{}, err
	}
	found, err := s.calendars(ctx, db, "read calendar "+name, &tenant, &name)
	if err != nil {
		return Calendar{}, err
	}
	if len(found) == 0 {
		return Calendar{}, fmt.Errorf("read calendar: %w", noCalendar(name))
	}
	return found[len(found)-1], nil // the general one sorts first
}
