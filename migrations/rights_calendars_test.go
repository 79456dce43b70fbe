package migrations_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// An application changes general calendars by the verbs, unless it has the tasks of some services alone.
func TestApplicationsChangeCalendars(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	r := newRights(ctx, t)
	const set = `SELECT tasktable.set_calendar('company', '["2027-12-24"]')`
	apply(ctx, t, r.application, set)
	same(t, "seen", strings.Join(lines(ctx, t, r.application, `SELECT name FROM tasktable.calendars`), " "), "company")
	refused(ctx, t, r.application, `UPDATE tasktable.calendars SET days = '[]'`)
	refused(ctx, t, r.auditor, set)

	some := newRights(ctx, t, "billing")
	refused(ctx, t, some.application, set)
	refused(ctx, t, some.application, `SELECT tasktable.remove_calendar('company')`)
}

// A tenant sees the general calendars and its own, and changes its own alone.
func TestTenantsHaveTheirOwnCalendars(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	s := newTenants(ctx, t)
	apply(ctx, t, s.engine, `SELECT tasktable.set_calendar('company', '["2027-12-24"]');
		SELECT tasktable.set_calendar('secret', '["2027-01-01"]', 'globex')`)
	s.within(ctx, t, "acme", func(tx pgx.Tx) {
		succeeds(t)(tx.Exec(ctx, `SELECT tasktable.set_calendar('own', '["2027-06-01"]')`))
		names, err := tx.Query(ctx, `SELECT name || '/' || tenant_id FROM tasktable.calendars ORDER BY name`)
		check(t, err)
		seen, err := pgx.CollectRows(names, pgx.RowTo[string])
		check(t, err)
		same(t, "seen", strings.Join(seen, " "), "company/ own/acme")
		for _, days := range []string{"own", "company"} {
			succeeds(t)(tx.Exec(ctx, `SELECT tasktable.day_in('2027-06-01Z', 'out-of=`+days+`')`))
		}
	})
	for _, call := range []string{
		`set_calendar('company', '[]', '')`, `set_calendar('secret', '[]', 'globex')`, `remove_calendar('secret', 'globex')`,
		`add_days('company', '["2027-12-25"]', '')`, `remove_days('secret', '["2027-01-01"]', 'globex')`,
	} {
		s.within(ctx, t, "acme", func(tx pgx.Tx) {
			if _, err := tx.Exec(ctx, `SELECT tasktable.`+call); !isDenied(err) {
				t.Errorf("%s: got %v, want permission denied", call, err)
			}
		})
	}
	refused(ctx, t, s.tenant, `SELECT tasktable.set_calendar('company', '[]')`) // without the setting
}
