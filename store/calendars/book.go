// Package calendars reads the days of the calendars that the rules of recurring tasks name.
package calendars

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/tasktable/tasktable/store/internal/query"
	"github.com/tasktable/tasktable/store/recurrence"
)

// DB runs the statements. It is a store.DB.
type DB = query.DB

// Schema rewrites a statement for a schema. It is a store.Schema.
type Schema interface{ SQL(statement string) string }

// Of is the rule of a task, by the columns of its row.
type Of struct {
	Cron     string
	TimeZone string
	TenantID string // "" means that the task has no tenant
}

// Names returns the calendars in the table that a cron expression names. A text that cannot be read names none.
func Names(cron string) []string {
	if !strings.Contains(cron, "=") {
		return nil
	}
	_, options, err := recurrence.Split(cron)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Concat(options.OutOf, options.KeepTo), func(name string) bool {
		return !recurrence.IsCalendarName(name)
	})
}

// Calendar is a calendar of a Book.
type Calendar struct {
	Name      string
	TenantID  string // "" means that it is general
	ChangedBy string
	Version   string          // another one after each change
	Days      recurrence.Days `db:"-"`
	err       error
}

// place is the key of a calendar in the table.
type place struct{ tenant, name string }

// Book has the days of calendars. It is read at one time, and does not change. Its methods are safe for concurrent use.
type Book struct {
	known  map[place]Calendar
	needed []place
}

const readSQL = `
SELECT c.name, c.tenant_id, c.changed_by, c.xmin::text AS version, c.days::text AS days_text
FROM tasktable.calendars AS c
WHERE (c.tenant_id, c.name) IN
    (SELECT one.value ->> 0, one.value ->> 1 FROM jsonb_array_elements($1::text::jsonb) AS one)`

// lockSQL leaves out the calendars that somebody is changing.
const lockSQL = `
SELECT c.name, c.tenant_id, c.changed_by, c.xmin::text AS version, '[]' AS days_text FROM tasktable.calendars AS c
WHERE (c.tenant_id, c.name) IN
    (SELECT one.value ->> 0, one.value ->> 1 FROM jsonb_array_elements($1::text::jsonb) AS one)
FOR SHARE OF c SKIP LOCKED`

// calendarRow has the days as text, because every driver can scan text.
type calendarRow struct {
	Calendar
	DaysText string
}

// Read reads the calendars that the rules name, by one statement. If they name none, it asks nothing.
func Read(ctx context.Context, db DB, schema Schema, of ...Of) (*Book, error) {
	book := &Book{}
	seen := map[place]bool{}
	for _, one := range of {
		for _, name := range Names(one.Cron) {
			for _, at := range []place{{"", name}, {one.TenantID, name}} {
				if !seen[at] {
					seen[at] = true
					book.needed = append(book.needed, at)
				}
			}
		}
	}
	return book, book.read(ctx, db, schema, readSQL)
}

// Lock reads the same calendars once more, without their days, and locks them against changes until the end of the
// transaction. A calendar that somebody is changing is missing in the returned Book. See Same.
func (b *Book) Lock(ctx context.Context, db DB, schema Schema) (*Book, error) {
	now := &Book{needed: b.needed}
	return now, now.read(ctx, db, schema, lockSQL)
}

func (b *Book) read(ctx context.Context, db DB, schema Schema, statement string) error {
	b.known = map[place]Calendar{}
	if len(b.needed) == 0 {
		return nil
	}
	pairs := make([][2]string, len(b.needed))
	for i, at := range b.needed {
		pairs[i] = [2]string{at.tenant, at.name}
	}
	encoded, err := json.Marshal(pairs)
	if err != nil {
		return fmt.Errorf("encode calendars: %w", err)
	}
	rows, err := query.Collect[calendarRow](ctx, query.Source{Schema: schema}, db, "read calendars", statement,
		string(encoded))
	for _, row := range rows {
		one := row.Calendar
		one.Days, one.err = daysOf(row.DaysText)
		b.known[place{row.TenantID, row.Name}] = one
	}
	return err
}

func daysOf(text string) (recurrence.Days, error) {
	var spans []recurrence.Span
	if err := json.Unmarshal([]byte(text), &spans); err != nil {
		return recurrence.Days{}, err
	}
	for i := range spans { // Postgres knows fewer characters that cannot be printed
		spans[i].Note = strings.Map(func(r rune) rune {
			if unicode.IsPrint(r) {
				return r
			}
			return ' '
		}, spans[i].Note)
	}
	return recurrence.NewDays(spans)
}

// Find returns a calendar for the tasks of a tenant: its own, or else the general one. A nil Book has none.
func (b *Book) Find(tenant, name string) (found Calendar, ok bool) {
	if b == nil {
		return found, false
	}
	if found, ok = b.known[place{tenant, name}]; !ok {
		found, ok = b.known[place{"", name}]
	}
	return found, ok
}

// Same reports whether the rule has the same calendars in both books, unchanged.
func (b *Book) Same(other *Book, of Of) bool {
	return !slices.ContainsFunc(Names(of.Cron), func(name string) bool {
		one, known := b.Find(of.TenantID, name)
		another, still := other.Find(of.TenantID, name)
		return known != still || one.TenantID != another.TenantID || one.Version != another.Version
	})
}

// Missing returns the calendars that the rule names and that do not exist.
func (b *Book) Missing(of Of) []string {
	return slices.DeleteFunc(Names(of.Cron), func(name string) bool {
		_, known := b.Find(of.TenantID, name)
		return known
	})
}

// Rule parses the rule and gives it the days of its calendars. A calendar that does not exist has no days. zones nil
// means the zones of the machine. The error wraps recurrence.ErrInvalid if the rule cannot be read.
func (b *Book) Rule(of Of, zones recurrence.Zones) (*recurrence.Rule, error) {
	if zones == nil {
		zones = time.LoadLocation
	}
	rule, err := recurrence.ParseIn(of.Cron, of.TimeZone, zones)
	if err != nil {
		return nil, err
	}
	names := rule.Calendars()
	if len(names) == 0 {
		return rule, nil
	}
	days := make(map[string]recurrence.Days, len(names))
	for _, name := range names {
		found, _ := b.Find(of.TenantID, name)
		if found.err != nil {
			return nil, fmt.Errorf("calendar %s: %w", name, found.err)
		}
		days[name] = found.Days
	}
	return rule.With(days), nil
}
