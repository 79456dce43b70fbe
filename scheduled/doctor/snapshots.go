package doctor

import (
	"context"
	"fmt"
	"strings"
)

// snapshotsSQL reads the sessions that keep vacuum from removing dead rows, and the sessions that are idle in a
// transaction. For sessions of other roles, only a member of pg_read_all_stats sees more than that they hold a
// snapshot. The query leaves out autovacuum, because vacuum does not hold up another vacuum.
const snapshotsSQL = `
SELECT a.pid, coalesce(a.usename, '')::text AS role, a.application_name AS application, coalesce(a.state, '') AS state,
    coalesce(a.backend_type, '') AS kind,
    coalesce(greatest(age(a.backend_xmin), age(a.backend_xid)), 0)::bigint AS horizon,
    extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS transaction,
    extract(epoch FROM clock_timestamp() - a.state_change)::float8 AS unchanged
FROM pg_stat_activity AS a
WHERE a.pid <> pg_backend_pid() AND (a.datname = current_database() OR a.datid IS NULL AND a.backend_xmin IS NOT NULL)
    AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL OR a.state LIKE 'idle in transaction%')
    AND coalesce(a.backend_type, '') <> 'autovacuum worker'
ORDER BY 6 DESC, a.pid`

type snapshotRow struct {
	PID         int32
	Role        string
	Application string
	State       string // "": hidden
	Kind        string
	Horizon     int64    // how many transactions have begun since its snapshot
	Transaction *float64 // age of its transaction, in seconds; nil: hidden
	Unchanged   *float64 // how long it has had its state, in seconds
}

const preparedSQL = `
SELECT p.gid::text AS gid, p.owner::text AS owner, extract(epoch
	FROM clock_timestamp() - p.prepared)::float8 AS prepared
FROM pg_prepared_xacts AS p WHERE p.database = current_database() ORDER BY p.prepared`

type preparedRow struct {
	GID      string
	Owner    string
	Prepared float64 // seconds ago
}

const slotsSQL = `
SELECT s.slot_name::text AS name, s.active, coalesce(age(s.xmin), 0)::bigint AS horizon,
	coalesce(age(s.catalog_xmin), 0)::bigint AS catalog
FROM pg_replication_slots AS s ORDER BY s.slot_name COLLATE "C"`

type slotRow struct {
	Name    string
	Active  bool
	Horizon int64 // age in transactions of the oldest rows that it keeps from vacuum
	Catalog int64 // the same for the rows of the catalogs
}

const sightSQL = `SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')`

// snapshots checks for sessions, prepared transactions and replication slots that keep vacuum from removing dead
// rows, because then the tables grow.
func (e *examination) snapshots(ctx context.Context) error {
	sessions, err := rows[snapshotRow](ctx, e, snapshotsSQL)
	if err != nil {
		return err
	}
	prepared, err := rows[preparedRow](ctx, e, preparedSQL)
	if err != nil {
		return err
	}
	slots, err := rows[slotRow](ctx, e, slotsSQL)
	if err != nil {
		return err
	}
	seesAll, err := value[bool](ctx, e, sightSQL)
	if err != nil {
		return err
	}
	before := len(e.report.Findings)
	for _, session := range sessions {
		e.snapshotOf(session)
	}
	for _, one := range prepared {
		if one.Prepared > e.config.limits.transaction.Seconds() {
			e.warn("COMMIT PREPARED "+quoted(one.GID)+"; or ROLLBACK PREPARED "+quoted(one.GID)+
				"; as its coordinator has decided",
				"prepared transaction %s of role %s is %s old: it keeps its locks, and dead rows from being removed",
				line(one.GID), one.Owner, seconds(one.Prepared))
		}
	}
	for _, slot := range slots {
		e.slot(slot)
	}
	if !seesAll {
		e.info("GRANT pg_read_all_stats TO "+named(e.report.Role)+";",
			"of other roles' sessions one does not see how long they are in a transaction")
	}
	if len(e.report.Findings) == before {
		oldest := int64(0)
		for _, session := range sessions {
			oldest = max(oldest, session.Horizon)
		}
		e.ok("no session, prepared transaction or replication slot holds an old snapshot (the oldest is of %s ago)",
			several(oldest, "transaction"))
	}
	return nil
}

func (e *examination) snapshotOf(s snapshotRow) {
	limits := e.config.limits
	who := fmt.Sprintf("pid %d (role %s, application %q)", s.PID, s.Role, line(s.Application))
	end := fmt.Sprintf("see what it does: SELECT * FROM pg_stat_activity WHERE pid = %[1]d; "+
		"and end it: SELECT pg_terminate_backend(%[1]d);", s.PID)
	switch {
	case s.Kind == "walsender" && s.Horizon > limits.horizon:
		e.warn("hot_standby_feedback = off on the standby, or shorter queries there",
			"standby of %s asks to keep what is %d transactions old, for its queries", who, s.Horizon)
	case s.Kind == "walsender":
	case strings.HasPrefix(s.State, "idle in transaction") &&
		s.Unchanged != nil && *s.Unchanged > limits.idle.Seconds():
		e.warn(end+" then set idle_in_transaction_session_timeout for its role",
			"%s has been idle in a transaction for %s: it keeps its locks, and dead rows from being removed",
			who, seconds(*s.Unchanged))
	case s.Transaction != nil && *s.Transaction > limits.transaction.Seconds():
		e.warn(end, "%s has been in one transaction for %s: it keeps dead rows from being removed",
			who, seconds(*s.Transaction))
	case s.Horizon > limits.horizon:
		e.warn(end, "%s holds a snapshot that is %d transactions old: it keeps dead rows from being removed",
			who, s.Horizon)
	}
}

func (e *examination) slot(s slotRow) {
	do := "let what reads it catch up, or drop it: SELECT pg_drop_replication_slot(" + quoted(s.Name) + ");"
	switch limit := e.config.limits.horizon; {
	case s.Horizon > limit:
		e.warn(do, "replication slot %s keeps what is %d transactions old: dead rows are not removed (active: %t)",
			s.Name, s.Horizon, s.Active)
	case s.Catalog > limit && !s.Active:
		e.warn(do,
			"replication slot %s, which nobody reads, keeps the catalogs of %d transactions ago, and the WAL since",
			s.Name, s.Catalog)
	}
}

const notificationsSQL = `SELECT pg_notification_queue_usage()`

// notifications checks the queue of notifications. Tasktable sends none while the queue is half full.
func (e *examination) notifications(ctx context.Context) error {
	share, err := value[float64](ctx, e, notificationsSQL)
	if err != nil {
		return err
	}
	if share > e.config.limits.notifications {
		e.warn("find who listens and is in a transaction: "+
			"SELECT pid, application_name, xact_start FROM pg_stat_activity ORDER BY xact_start;",
			"the server's queue of notifications is %.0f %% full: from a half on Tasktable sends none, and tasks due "+
				"at once start up to a second late", 100*share)
		return nil
	}
	e.ok("the queue of notifications is %.0f %% full", 100*share)
	return nil
}
