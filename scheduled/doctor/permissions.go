package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/tasktable/tasktable/store/inspect"
)

// lackedSQL returns a row for each object on which the role lacks rights that a node needs, as migrations/roles.sql
// grants them. An owner has all rights, unless somebody has revoked them.
const lackedSQL = `
WITH wanted (relation, rights) AS (
    SELECT c.oid, CASE
        WHEN c.relname = 'task_numbers' THEN ARRAY['USAGE', 'UPDATE']
        WHEN c.relkind = 'S' THEN ARRAY['USAGE']
        WHEN c.relkind = 'v' OR c.relname IN ('goose_db_version', 'river_migration', 'applications')
            THEN ARRAY['SELECT']
        WHEN c.relname IN ('scheduled_task_executions', 'scheduled_task_changes', 'api_answers',
            'api_sessions', 'notice_causes', 'notice_episodes')
            THEN ARRAY['SELECT', 'INSERT', 'DELETE']
        WHEN c.relname = 'api_keys' THEN ARRAY['SELECT', 'INSERT', 'UPDATE']
        ELSE ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'] END
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = $1::text AND (c.relname LIKE 'river\_%' OR c.relname = 'task_numbers' OR c.relkind IN ('r', 'v')
        AND c.relname IN (
            'scheduled_tasks', 'scheduled_task_executions', 'scheduled_task_changes', 'nodes', 'pauses', 'limits',
            'limit_buckets', 'applications', 'api_keys', 'api_answers', 'api_sessions', 'notice_rules',
            'notice_recipients', 'notice_rule_recipients',
            'notice_causes', 'notice_episodes', 'goose_db_version'))
        AND c.relkind IN ('r', 'v', 'S')
        AND NOT EXISTS (SELECT 1 FROM pg_depend AS d -- identities need no right of their own
            WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'i' AND c.relkind = 'S')
)
SELECT o.what, o.lacks FROM (
    SELECT w.relation::regclass::text AS what, array_to_string(ARRAY(SELECT r FROM unnest(w.rights) AS r WHERE NOT CASE
            WHEN c.relkind = 'S' THEN has_sequence_privilege(w.relation, r)
            ELSE has_table_privilege(w.relation, r) END), ', ') AS lacks
    FROM wanted AS w JOIN pg_class AS c ON c.oid = w.relation
    UNION ALL
    SELECT 'FUNCTION ' || p.oid::regprocedure::text, CASE WHEN NOT has_function_privilege(p.oid, 'EXECUTE')
        THEN 'EXECUTE' ELSE '' END
    FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace WHERE n.nspname = $1::text
) AS o WHERE o.lacks <> '' ORDER BY o.what COLLATE "C"`

type lackedRow struct{ What, Lacks string }

// roleSQL finds out what kind of role connects. The engine's role may write to the table itself, and an application's
// role may call the verbs. The query finds tables by name, because ::regclass fails for a role without a right in the
// schema.
const roleSQL = `
SELECT current_user::text AS name, r.rolsuper AS super, pg_has_role(n.nspowner, 'USAGE') AS owns,
    has_table_privilege(t.oid, 'UPDATE') AS writes, has_table_privilege(t.oid, 'SELECT') AS reads,
    row_security_active(t.oid) AND NOT EXISTS (SELECT 1 FROM pg_policy AS p
        WHERE p.polrelid = t.oid AND pg_get_expr(p.polqual, t.oid) = 'true' AND EXISTS (
            SELECT 1 FROM unnest(p.polroles) AS one (role)
                WHERE one.role = 0 OR pg_has_role(one.role, 'USAGE'))) AS filtered,
    (SELECT count(DISTINCT p.proname) FROM pg_proc AS p WHERE p.pronamespace = n.oid AND p.proname = ANY ($2::text[])
        AND p.prosecdef AND has_function_privilege(p.oid, 'EXECUTE'))::int AS verbs,
    (SELECT count(*) FROM pg_class AS c WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'v')
        AND NOT has_table_privilege(c.oid, 'SELECT'))::int AS unread
FROM pg_roles AS r CROSS JOIN pg_namespace AS n JOIN pg_class AS t ON t.relnamespace = n.oid
    AND t.relname = 'scheduled_tasks'
WHERE r.rolname = current_user AND n.nspname = $1::text`

type roleRow struct {
	Name     string
	Super    bool
	Owns     bool
	Writes   bool // it may update the table of tasks
	Reads    bool
	Filtered bool // row level security hides tasks from it
	Verbs    int  // how many verbs run as the owner and may be called
	Unread   int  // how many relations it cannot read
}

// verbs returns the functions that roles.sql lets applications call.
func verbs() []string {
	names := []string{"schedule", "schedule_many", "schedule_recurring", "sync", "reschedule", "fork_occurrence"}
	for _, rule := range inspect.Verbs() {
		names = append(names, string(rule.Verb))
	}
	return names
}

// permissions reports the kind of the role that connects, and the rights that such a role should have and lacks.
func (e *examination) permissions(ctx context.Context) error {
	found, err := row[roleRow](ctx, e, roleSQL, e.schema.String(), verbs())
	if err != nil {
		return err
	}
	e.report.Role = found.Name
	lacked, err := rows[lackedRow](ctx, e, lackedSQL, e.schema.String())
	if err != nil {
		return err
	}
	switch {
	case found.Filtered && found.Writes:
		e.fail("connect as the engine's role, which the SQL of "+e.command("migrate roles")+" makes",
			"row level security hides tasks from role %s: it may run no node", found.Name)
		return nil
	case len(lacked) == 0 && (found.Super || found.Owns):
		as := "the schema's owner"
		if found.Super {
			as = "a superuser"
		}
		e.ok("role %s is %s: it may migrate and run nodes", found.Name, as)
	case len(lacked) == 0:
		e.ok("role %s has the engine's rights: it may run nodes, and not migrate", found.Name)
	case found.Writes:
		e.lacks(found, lacked)
	case found.Verbs > 0:
		e.application(found)
	case found.Unread == 0:
		e.ok("role %s has an auditor's rights: it reads everything, and runs no node", found.Name)
	case found.Reads:
		e.info(e.command("migrate roles"),
			"role %s reads the tasks, but not all tables (%d are hidden), and runs no node", found.Name, found.Unread)
	default:
		e.fail(e.command("migrate roles"), "role %s may not even read the tasks", found.Name)
	}
	if found.Filtered {
		e.info("connect as the engine's or the auditor's role to see all",
			"row level security: role %s sees the tasks of its own services only", found.Name)
	}
	return nil
}

// lacks reports the rights that an engine's role lacks.
func (e *examination) lacks(role roleRow, lacked []lackedRow) {
	var grants []string
	for _, one := range lacked[:min(len(lacked), 5)] {
		grants = append(grants, "GRANT "+one.Lacks+" ON "+onWhat(one.What)+" TO "+named(role.Name)+";")
	}
	if more := len(lacked) - len(grants); more > 0 {
		grants = append(grants, fmt.Sprintf("-- and %d more", more))
	}
	e.fail(e.command("migrate roles")+" prints all of it; or by hand:\n"+strings.Join(grants, "\n"),
		"role %s may write tasks, but lacks rights on %s that a node needs", role.Name, several(len(lacked), "object"))
}

// onWhat returns an object in the form that GRANT takes.
func onWhat(what string) string {
	if strings.HasSuffix(what, "_seq") || strings.HasSuffix(what, ".task_numbers") {
		return "SEQUENCE " + what
	}
	return what
}

func (e *examination) application(role roleRow) {
	if lacking := len(verbs()) - role.Verbs; lacking > 0 {
		e.fail(e.command("migrate roles")+", as after each migration",
			"role %s has an application's rights, but is refused %s", role.Name, several(lacking, "verb"))
		return
	}
	e.ok("role %s has an application's rights: it schedules by the functions, and runs no node", role.Name)
}
