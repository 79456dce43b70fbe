package doctor

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/store/storetest"
)

// roles are those that the script makes, on a patient of their own, and one without any right.
type roles struct {
	*patient
	migrations.Roles
	nobody string
}

func newRoles(t *testing.T, services ...string) *roles {
	t.Helper()
	t.Parallel()
	r := &roles{nobody: storetest.Role(t), Roles: migrations.Roles{ // before the database, in which they have rights
		Owner: storetest.Role(t), Engine: storetest.Role(t), Application: storetest.Role(t), Auditor: storetest.Role(t),
		Tenant: storetest.Role(t), Services: services,
	}}
	r.patient = at(t, storetest.URL(t))
	r.grant()
	return r
}

// grant runs the script of the roles.
func (r *roles) grant() {
	r.t.Helper()
	var script strings.Builder
	if err := migrations.PrintRoles(&script, "", r.Roles); err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.pool.Exec(r.ctx, script.String(), pgx.QueryExecModeSimpleProtocol); err != nil {
		r.t.Fatal(err)
	}
}

// as examines as a role.
func (r *roles) as(role string, only ...string) Report {
	r.t.Helper()
	pool := poolOf(r.t, r.url, func(c *pgxpool.Config) {
		c.ConnConfig.User, c.ConnConfig.Password = role, storetest.RolePassword
	})
	return r.examineBy(func(c *Config) { c.Pool, c.Only = pool, only })
}

func TestWhichRoleItIs(t *testing.T) {
	r := newRoles(t)
	r.finding("permissions", OK, "is a superuser")
	r.finds(r.as(r.Owner, "permissions"), "permissions", OK, "is the schema's owner: it may migrate and run nodes")
	r.finds(
		r.as(r.Engine, "permissions"), "permissions", OK, "has the engine's rights: it may run nodes, and not migrate",
	)
	r.finds(r.as(r.Application, "permissions"), "permissions", OK, "has an application's rights")
	r.finds(
		r.as(r.Auditor, "permissions"), "permissions", OK,
		"has an auditor's rights: it reads everything, and runs no node",
	)
	report := r.as(r.nobody)
	r.finds(report, "versions", Error, "role "+r.nobody+" has no right in schema tasktable")
	for _, one := range report.Findings {
		if one.Check == "permissions" || one.Check == "attention" {
			t.Errorf("it looks at what it may not see: %+v", one)
		}
	}
	r.exec(`GRANT USAGE ON SCHEMA tasktable TO ` + r.nobody)
	r.finds(r.as(r.nobody, "permissions"), "permissions", Error, "may not even read the tasks")
	r.exec(`GRANT SELECT ON tasktable.scheduled_tasks TO ` + r.nobody)
	r.finds(r.as(r.nobody, "permissions"), "permissions", Info, "reads the tasks, but not all tables")
}

// An engine's role that lacks something is told what; the statements give it.
func TestWhatTheEngineLacks(t *testing.T) {
	r := newRoles(t)
	r.exec(`REVOKE INSERT, UPDATE ON tasktable.nodes FROM ` + r.Engine)
	r.exec(`REVOKE USAGE ON SEQUENCE tasktable.task_numbers FROM ` + r.Engine)
	r.exec(`REVOKE EXECUTE ON FUNCTION tasktable.pause_scope FROM ` + r.Engine)
	found := r.finds(r.as(r.Engine, "permissions"), "permissions", Error,
		"may write tasks, but lacks rights on 3 objects that a node needs")
	_, grants, _ := strings.Cut(found.Do, "\n")
	r.exec(grants)
	r.well(r.as(r.Engine, "permissions"))

	r.exec(`REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA tasktable FROM ` + r.Engine)
	found = r.finds(r.as(r.Engine, "permissions"), "permissions", Error, "lacks rights on")
	if !strings.Contains(found.Do, "tasktable migrate roles prints all of it") ||
		!strings.Contains(found.Do, "-- and ") {
		t.Errorf("it says %q", found.Do)
	}
}

// Somebody has given a role all rights by hand. Row level security hides the tasks from it nevertheless.
func TestARoleThatSeesNoTasks(t *testing.T) {
	r := newRoles(t)
	r.exec(`GRANT USAGE ON SCHEMA tasktable TO ` + r.nobody)
	for _, all := range []string{"TABLES", "SEQUENCES", "FUNCTIONS"} {
		r.exec(`GRANT ALL ON ALL ` + all + ` IN SCHEMA tasktable TO ` + r.nobody)
	}
	r.finds(r.as(r.nobody, "permissions"), "permissions", Error,
		"row level security hides tasks from role "+r.nobody+": it may run no node")
	r.exec(`GRANT ` + r.Engine + ` TO ` + r.nobody)
	r.well(r.as(r.nobody, "permissions"))
}

// A verb that a migration has made anew is refused to applications until the script has run again.
func TestWhatTheApplicationLacks(t *testing.T) {
	r := newRoles(t)
	r.exec(`ALTER FUNCTION tasktable.cancel(text, text) SECURITY INVOKER`)
	r.exec(`REVOKE EXECUTE ON FUNCTION tasktable.pause FROM ` + r.Application)
	r.finds(
		r.as(r.Application, "permissions"), "permissions", Error, "has an application's rights, but is refused 2 verbs",
	)
	r.grant()
	r.well(r.as(r.Application, "permissions"))
}

// The auditor may see everything that matters, and runs nothing into an error; an application sees less,
// and is told so.
func TestWithFewerRights(t *testing.T) {
	r := newRoles(t, "test")
	r.node()
	for role, unseen := range map[string][]string{
		r.Engine: nil, r.Auditor: nil,
		r.Application: {"nodes", "leader", "attention", "retention", "recurring", "river"},
	} {
		report := r.as(role)
		var found []string
		for _, one := range report.Findings {
			if strings.HasPrefix(one.Found, "not checked") {
				found = append(found, one.Check)
				if one.Level != Info || !strings.Contains(one.Found, "permission denied") || one.Do == "" {
					t.Errorf("%s: %+v", role, one)
				}
			}
			if one.Level == Warning || one.Level == Error && one.Check != "settings" {
				t.Errorf("%s: %+v", role, one)
			}
		}
		if strings.Join(found, " ") != strings.Join(unseen, " ") {
			t.Errorf("%s: not checked are %v, not %v:\n%s", role, found, unseen, list(report))
		}
		r.finds(report, "snapshots", Info, "one does not see how long they are in a transaction")
	}
	r.finds(r.as(r.Application, "permissions"), "permissions", Info, "row level security")
	if report := r.as(r.Auditor, "permissions"); len(report.Findings) != 1 {
		t.Errorf("to the auditor nothing is hidden:\n%s", list(report))
	}
}
