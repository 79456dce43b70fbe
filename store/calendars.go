package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
	"github.com/tasktable/tasktable/store/recurrence"
)

// TEMPORARY: until the branch of the store is merged.

// ErrCalendarUsed is wrapped by the error of RemoveCalendar.
var ErrCalendarUsed = errors.New("the calendar is used")

// Calendar is a set of days.
type Calendar struct {
	Name string
	Days []recurrence.Span
}

// CalendarRow is a calendar as it is stored.
type CalendarRow struct {
	Name       string            `json:"name"`
	TenantID   string            `json:"tenant_id,omitempty"`
	Days       []recurrence.Span `json:"days"`
	ChangedAt  time.Time         `json:"changed_at"`
	ChangedBy  string            `json:"changed_by"`
	DeclaredBy string            `json:"declared_by,omitempty"`
	Tasks      int               `json:"tasks"`
}

// ForTenant returns a Store for the calendars of a tenant.
func (s *Store) ForTenant(tenant string) *Store {
	return &Store{config: s.config, source: s.source, tenant: tenant}
}

func (s *Store) days(ctx context.Context, db DB, verb, name string, spans []recurrence.Span) (Outcome, error) {
	if _, err := recurrence.NewDays(spans); err != nil {
		return "", fmt.Errorf("%s %s: %w", verb, name, check.Mark(err))
	}
	encoded, err := json.Marshal(append([]recurrence.Span{}, spans...))
	if err != nil {
		return "", err
	}
	outcome, err := query.Value[string](ctx, s.source, db, verb+" "+name, `SELECT tasktable.`+verb+
		`($1::text, $2::text::jsonb, nullif($3::text, ''), $4::text)`, name, string(encoded), s.tenant, s.author())
	return Outcome(outcome), err
}

// SetCalendar sets.
func (s *Store) SetCalendar(ctx context.Context, db DB, c Calendar) (Outcome, error) {
	return s.days(ctx, db, "set_calendar", c.Name, c.Days)
}

// AddDays adds.
func (s *Store) AddDays(ctx context.Context, db DB, name string, spans ...recurrence.Span) (Outcome, error) {
	return s.days(ctx, db, "add_days", name, spans)
}

// RemoveDays removes.
func (s *Store) RemoveDays(ctx context.Context, db DB, name string, spans ...recurrence.Span) (Outcome, error) {
	return s.days(ctx, db, "remove_days", name, spans)
}

// RemoveCalendar removes.
func (s *Store) RemoveCalendar(ctx context.Context, db DB, name string) (Outcome, error) {
	outcome, err := query.Value[string](ctx, s.source, db, "remove calendar "+name,
		`SELECT tasktable.remove_calendar($1::text, nullif($2::text, ''))`, name, s.tenant)
	var refused interface{ SQLState() string }
	if errors.As(err, &refused) && refused.SQLState() == "23T02" {
		err = fmt.Errorf("%w: %w", ErrCalendarUsed, err)
	}
	return Outcome(outcome), err
}

// Calendars lists.
func (s *Store) Calendars(ctx context.Context, db DB) ([]CalendarRow, error) {
	return query.Collect[CalendarRow](ctx, s.source, db, "list calendars", `SELECT name, tenant_id, days, changed_at,
		changed_by, coalesce(declared_by, '') AS declared_by,
		(SELECT count(*)::int FROM tasktable.scheduled_tasks AS t WHERE t.cron IS NOT NULL AND t.finished_at IS NULL
			AND c.name = ANY (tasktable.calendars_of(t.cron))) AS tasks
		FROM tasktable.calendars AS c WHERE $1::text = '' OR tenant_id IN ('', $1::text) ORDER BY name, tenant_id`,
		s.tenant)
}

// Calendar gets.
func (s *Store) Calendar(ctx context.Context, db DB, name string) (CalendarRow, error) {
	all, err := s.Calendars(ctx, db)
	var found *CalendarRow
	for i, one := range all {
		if one.Name == name && (one.TenantID == "" || one.TenantID == s.tenant) {
			found = &all[i]
		}
	}
	if err == nil && found == nil {
		return CalendarRow{}, fmt.Errorf("calendar %s: %w", name, ErrNotFound)
	}
	if err != nil {
		return CalendarRow{}, err
	}
	return *found, nil
}

// Rule parses and binds.
func (s *Store) Rule(ctx context.Context, db DB, cron, zone string) (*recurrence.Rule, error) {
	rule, err := recurrence.Parse(cron, zone)
	if err != nil {
		return nil, err
	}
	days := map[string]recurrence.Days{}
	for _, name := range rule.Calendars() {
		one, err := s.Calendar(ctx, db, name)
		if err != nil {
			return nil, err
		}
		if days[name], err = recurrence.NewDays(one.Days); err != nil {
			return nil, err
		}
	}
	return rule.With(days), nil
}
