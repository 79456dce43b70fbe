package maintenance

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
)

const othersCalendarsSQL = `
SELECT c.name::text FROM tasktable.calendars AS c
WHERE c.tenant_id = '' AND c.name = ANY ($1::text[]) AND c.declared_by IS DISTINCT FROM $2 ORDER BY c.name`

const markCalendarsSQL = `
UPDATE tasktable.calendars AS c SET declared_by = $2
WHERE c.tenant_id = '' AND c.name = ANY ($1::text[]) AND c.declared_by IS DISTINCT FROM $2`

var errOthersCalendars = errors.New(
	"calendars that somebody has set or another service declares must be removed first")

// applyCalendars makes the calendars that are declared. It comes before the recurring tasks, which may name them.
func (d *Declarer) applyCalendars(ctx context.Context, tx pgx.Tx) error {
	if d.config.Calendars == nil {
		return nil
	}
	names := d.calendarNames()
	others, err := pg.CollectColumn[string](ctx, tx, "look for calendars of others",
		d.config.Statements.Schema.SQL(othersCalendarsSQL), names, d.config.Service)
	if err == nil && len(others) > 0 {
		err = fmt.Errorf("%w: %s", errOthersCalendars, strings.Join(others, ", "))
	}
	if err != nil {
		return err
	}
	tasks := d.calendarStore()
	for _, calendar := range d.config.Calendars {
		outcome, err := tasks.SetCalendar(ctx, tx, calendar)
		if err != nil {
			return err
		}
		if outcome != store.Unchanged {
			d.config.Log.Info("calendar declared", "calendar", calendar.Name, "outcome", outcome)
		}
	}
	_, err = tx.Exec(ctx, d.config.Statements.Schema.SQL(markCalendarsSQL), names, d.config.Service)
	return pg.Annotate(err, "mark declared calendars")
}

const formerCalendarsSQL = `
SELECT c.name::text FROM tasktable.calendars AS c
WHERE c.tenant_id = '' AND c.declared_by = $2 AND c.name <> ALL ($1::text[]) ORDER BY c.name`

// removeCalendars removes the calendars that are no longer declared. It comes after the recurring tasks, because the
// former ones may name them.
func (d *Declarer) removeCalendars(ctx context.Context, tx pgx.Tx) error {
	if d.config.Calendars == nil {
		return nil
	}
	former, err := pg.CollectColumn[string](ctx, tx, "look for former calendars",
		d.config.Statements.Schema.SQL(formerCalendarsSQL), d.calendarNames(), d.config.Service)
	if err != nil {
		return err
	}
	for _, name := range former {
		err := pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
			_, err := d.calendarStore().RemoveCalendar(ctx, savepoint, name)
			return err
		})
		switch {
		case errors.Is(err, store.ErrCalendarUsed): // the next version tries again
			d.config.Log.Warn("calendar no longer declared, but used; kept", "calendar", name, "error", err)
		case err != nil:
			return err
		default:
			d.config.Log.Info("calendar no longer declared; removed", "calendar", name)
		}
	}
	return nil
}

func (d *Declarer) calendarNames() []string {
	names := []string{}
	for _, calendar := range d.config.Calendars {
		names = append(names, calendar.Name)
	}
	return names
}

func (d *Declarer) calendarStore() *store.Store {
	return store.New(store.Config{Schema: d.config.Statements.Schema.String(), Service: d.config.Service})
}
