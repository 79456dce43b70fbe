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

// declaredRows are the limits, or the calendars, that a service declares. If it declares none of the kind, apply and
// removeFormer do nothing.
type declaredRows struct {
	*Declarer
	kind     string // for people
	declares bool
	names    []string
	set      func(ctx context.Context, tx pgx.Tx, place int) (store.Outcome, error) // the row of a place in names
	remove   func(ctx context.Context, db store.DB, name string) (store.Outcome, error)

	// These statements take the names and the service. They list the rows that somebody has set or another service
	// declares, mark the rows, and list the rows that the service declares no longer.
	othersSQL, markSQL, formerSQL string
}

const (
	othersLimitsSQL = `
SELECT l.name::text FROM tasktable.limits AS l
WHERE l.name = ANY ($1::text[]) AND l.declared_by IS DISTINCT FROM $2 ORDER BY l.name`
	markLimitsSQL = `
UPDATE tasktable.limits AS l SET declared_by = $2
WHERE l.name = ANY ($1::text[]) AND l.declared_by IS DISTINCT FROM $2`
	formerLimitsSQL = `
SELECT l.name::text FROM tasktable.limits AS l
WHERE l.name <> ALL ($1::text[]) AND l.declared_by = $2 ORDER BY l.name`
)

func (d *Declarer) limits() declaredRows {
	tasks := d.store()
	rows := declaredRows{
		Declarer: d, kind: "limit", declares: d.config.Limits != nil, remove: tasks.RemoveLimit,
		othersSQL: othersLimitsSQL, markSQL: markLimitsSQL, formerSQL: formerLimitsSQL,
		set: func(ctx context.Context, tx pgx.Tx, place int) (store.Outcome, error) {
			return tasks.SetLimit(ctx, tx, d.config.Limits[place])
		},
	}
	for _, limit := range d.config.Limits {
		rows.names = append(rows.names, limit.Name)
	}
	return rows
}

const (
	othersCalendarsSQL = `
SELECT c.name::text FROM tasktable.calendars AS c
WHERE c.tenant_id = '' AND c.name = ANY ($1::text[]) AND c.declared_by IS DISTINCT FROM $2 ORDER BY c.name`
	markCalendarsSQL = `
UPDATE tasktable.calendars AS c SET declared_by = $2
WHERE c.tenant_id = '' AND c.name = ANY ($1::text[]) AND c.declared_by IS DISTINCT FROM $2`
	formerCalendarsSQL = `
SELECT c.name::text FROM tasktable.calendars AS c
WHERE c.tenant_id = '' AND c.name <> ALL ($1::text[]) AND c.declared_by = $2 ORDER BY c.name`
)

// calendars are the general ones. Code declares no calendar of a tenant.
func (d *Declarer) calendars() declaredRows {
	tasks := d.store()
	rows := declaredRows{
		Declarer: d, kind: "calendar", declares: d.config.Calendars != nil, remove: tasks.RemoveCalendar,
		othersSQL: othersCalendarsSQL, markSQL: markCalendarsSQL, formerSQL: formerCalendarsSQL,
		set: func(ctx context.Context, tx pgx.Tx, place int) (store.Outcome, error) {
			return tasks.SetCalendar(ctx, tx, d.config.Calendars[place])
		},
	}
	for _, calendar := range d.config.Calendars {
		rows.names = append(rows.names, calendar.Name)
	}
	return rows
}

var errOthers = errors.New("that somebody has set or another service declares must be removed first")

// apply makes the rows that are declared, and marks them.
func (r declaredRows) apply(ctx context.Context, tx pgx.Tx) error {
	if !r.declares {
		return nil
	}
	others, err := r.list(ctx, tx, r.othersSQL)
	if err == nil && len(others) > 0 {
		err = fmt.Errorf("%ss %w: %s", r.kind, errOthers, strings.Join(others, ", "))
	}
	if err != nil {
		return err
	}
	for place, name := range r.names {
		outcome, err := r.set(ctx, tx, place)
		if err != nil {
			return err
		}
		if outcome != store.Unchanged {
			r.config.Log.Info(r.kind+" declared", r.kind, name, "outcome", outcome)
		}
	}
	_, err = tx.Exec(ctx, r.config.Statements.Schema.SQL(r.markSQL), pg.OrEmpty(r.names), r.config.Service)
	return pg.Annotate(err, "mark declared "+r.kind+"s")
}

// removeFormer removes the rows that are no longer declared. A calendar that a task still uses is kept, and the next
// version of the service tries again.
func (r declaredRows) removeFormer(ctx context.Context, tx pgx.Tx) error {
	if !r.declares {
		return nil
	}
	former, err := r.list(ctx, tx, r.formerSQL)
	if err != nil {
		return err
	}
	for _, name := range former {
		err := pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
			_, err := r.remove(ctx, savepoint, name)
			return err
		})
		switch {
		case errors.Is(err, store.ErrCalendarUsed):
			r.config.Log.Warn(r.kind+" no longer declared, but used; kept", r.kind, name, "error", err)
		case err != nil:
			return err
		default:
			r.config.Log.Info(r.kind+" no longer declared; removed", r.kind, name)
		}
	}
	return nil
}

func (r declaredRows) list(ctx context.Context, tx pgx.Tx, statement string) ([]string, error) {
	return pg.CollectColumn[string](ctx, tx, "list "+r.kind+"s",
		r.config.Statements.Schema.SQL(statement), pg.OrEmpty(r.names), r.config.Service)
}
