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
	from     string // the rows that code may declare, in SQL
	declares bool
	names    []string
	set      func(ctx context.Context, tx pgx.Tx, place int) (store.Outcome, error) // the row of a place in names
	remove   func(ctx context.Context, db store.DB, name string) (store.Outcome, error)
}

func (d *Declarer) limits() declaredRows {
	tasks := d.store()
	rows := declaredRows{
		Declarer: d, kind: "limit", from: "tasktable.limits AS one WHERE true", declares: d.config.Limits != nil,
		remove: tasks.RemoveLimit,
		set: func(ctx context.Context, tx pgx.Tx, place int) (store.Outcome, error) {
			return tasks.SetLimit(ctx, tx, d.config.Limits[place])
		},
	}
	for _, limit := range d.config.Limits {
		rows.names = append(rows.names, limit.Name)
	}
	return rows
}

// calendars are the general ones. Code declares no calendar of a tenant.
func (d *Declarer) calendars() declaredRows {
	tasks := d.store()
	rows := declaredRows{
		Declarer: d, kind: "calendar", from: "tasktable.calendars AS one WHERE one.tenant_id = ''",
		declares: d.config.Calendars != nil, remove: tasks.RemoveCalendar,
		set: func(ctx context.Context, tx pgx.Tx, place int) (store.Outcome, error) {
			return tasks.SetCalendar(ctx, tx, d.config.Calendars[place])
		},
	}
	for _, calendar := range d.config.Calendars {
		rows.names = append(rows.names, calendar.Name)
	}
	return rows
}

// The texts follow declaredRows.from. $1 is the names that are declared, and $2 the service.
const (
	othersSQL = ` AND one.name = ANY ($1::text[]) AND one.declared_by IS DISTINCT FROM $2 ORDER BY one.name`
	formerSQL = ` AND one.name <> ALL ($1::text[]) AND one.declared_by = $2 ORDER BY one.name`
)

var errOthers = errors.New("that somebody has set or another service declares must be removed first")

// apply makes the rows that are declared, and marks them.
func (r declaredRows) apply(ctx context.Context, tx pgx.Tx) error {
	if !r.declares {
		return nil
	}
	others, err := r.list(ctx, tx, othersSQL)
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
	table, which, _ := strings.Cut(r.from, " WHERE ")
	mark := "UPDATE " + table + " SET declared_by = $2 WHERE " + which +
		" AND one.name = ANY ($1::text[]) AND one.declared_by IS DISTINCT FROM $2"
	_, err = tx.Exec(ctx, r.config.Statements.Schema.SQL(mark), pg.OrEmpty(r.names), r.config.Service)
	return pg.Annotate(err, "mark declared "+r.kind+"s")
}

// removeFormer removes the rows that are no longer declared. A calendar that a task still uses is kept, and the next
// version of the service tries again.
func (r declaredRows) removeFormer(ctx context.Context, tx pgx.Tx) error {
	if !r.declares {
		return nil
	}
	former, err := r.list(ctx, tx, formerSQL)
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

func (r declaredRows) list(ctx context.Context, tx pgx.Tx, which string) ([]string, error) {
	return pg.CollectColumn[string](ctx, tx, "list "+r.kind+"s",
		r.config.Statements.Schema.SQL("SELECT one.name::text FROM "+r.from+which), pg.OrEmpty(r.names), r.config.Service)
}
