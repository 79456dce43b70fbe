package doctor

import "context"

// roomSQL counts the backends that have a database as connections of clients, though a few are workers. Most roles do
// not see the types of backends.
const roomSQL = `
SELECT current_setting('max_connections')::int
        - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true), '0')::int AS most,
    d.datconnlimit AS database_most, CASE WHEN r.rolsuper THEN -1 ELSE r.rolconnlimit END AS role_most,
    (SELECT count(*) FROM pg_stat_activity AS a WHERE a.datid IS NOT NULL)::int AS used,
    (SELECT count(*) FROM pg_stat_activity AS a WHERE a.datid = d.oid)::int AS database_used,
    (SELECT count(*) FROM pg_stat_activity AS a WHERE a.usesysid = r.oid AND a.datid IS NOT NULL)::int AS role_used,
    (SELECT count(*) FROM pg_stat_activity AS a
        WHERE a.datid = d.oid AND a.application_name LIKE 'tasktable%')::int AS ours
FROM pg_database AS d CROSS JOIN pg_roles AS r
WHERE d.datname = current_database() AND r.rolname = current_user`

type roomRow struct {
	Most         int
	DatabaseMost int // -1: no limit of its own
	RoleMost     int
	Used         int
	DatabaseUsed int
	RoleUsed     int
	Ours         int
}

// left returns how many more connections are possible, the limit, and the name of the limit.
func (r roomRow) left() (left, most int, by string) {
	left, most, by = r.Most-r.Used, r.Most, "max_connections, less those that are reserved"
	if own := r.DatabaseMost - r.DatabaseUsed; r.DatabaseMost >= 0 && own < left {
		left, most, by = own, r.DatabaseMost, "the database's own limit"
	}
	if own := r.RoleMost - r.RoleUsed; r.RoleMost >= 0 && own < left {
		left, most, by = own, r.RoleMost, "the role's own limit"
	}
	return max(left, 0), most, by
}

// room checks that connections for one more node are left, because a deployment starts new nodes before the old ones
// end.
func (e *examination) room(ctx context.Context) error {
	found, err := row[roomRow](ctx, e, roomSQL)
	if err != nil {
		return err
	}
	left, most, by := found.left()
	if left < e.config.nodeConns() {
		e.warn("raise the limit, give the nodes smaller pools (--max-conns, --engine-conns), or put a pooler before "+
			"all connections except the sessions",
			"%s left of %d (%s); one more node takes up to %d",
			several(left, "connection"), most, by, e.config.nodeConns())
		return nil
	}
	e.ok("%s left of %d, %d in this database are Tasktable's; one more node takes up to %d",
		several(left, "connection"), most, found.Ours, e.config.nodeConns())
	return nil
}
