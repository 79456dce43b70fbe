package doctor

import (
	"context"
	"math"
	"strings"
)

const serverVacuumSQL = `
SELECT current_setting('autovacuum') = 'on' AS on, current_setting('track_counts') = 'on' AS counts`

type serverVacuumRow struct{ On, Counts bool }

// vacuumSQL reads when autovacuum begins on a table. The table's own setting wins over the server's.
const vacuumSQL = `
SELECT c.oid::regclass::text AS name, coalesce(s.n_live_tup, 0) AS live, coalesce(s.n_dead_tup, 0) AS dead,
    coalesce(o.options ->> 'autovacuum_enabled', 'true') IN ('true', 'on', '1', 'yes') AS enabled,
    coalesce(o.options ->> 'autovacuum_vacuum_threshold', current_setting('autovacuum_vacuum_threshold'))::float8
        + coalesce(o.options ->> 'autovacuum_vacuum_scale_factor',
        current_setting('autovacuum_vacuum_scale_factor'))::float8
        * greatest(c.reltuples, 0) AS begins,
    extract(epoch FROM clock_timestamp() - greatest(s.last_vacuum, s.last_autovacuum))::float8 AS vacuumed,
    extract(epoch FROM clock_timestamp() - greatest(s.last_analyze, s.last_autoanalyze))::float8 AS analyzed
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_stat_all_tables AS s ON s.relid = c.oid
CROSS JOIN LATERAL (SELECT jsonb_object_agg(one.option_name, one.option_value) AS options
    FROM pg_options_to_table(c.reloptions) AS one) AS o
WHERE n.nspname = $1::text AND c.relkind = 'r' AND c.relname IN
    ('scheduled_tasks', 'scheduled_task_executions', 'scheduled_task_changes', 'nodes', 'pauses',
    'api_answers', 'notice_causes', 'river_job', 'river_notification', 'river_queue')
ORDER BY c.relname COLLATE "C"`

type vacuumRow struct {
	Name     string
	Live     int64
	Dead     int64
	Enabled  bool
	Begins   float64  // the number of dead rows with which autovacuum begins
	Vacuumed *float64 // seconds ago; nil: never, or not since the statistics were reset
	Analyzed *float64
}

// autovacuum checks that autovacuum works. It keeps the tables from growing, because the engine updates each row
// twice.
func (e *examination) autovacuum(ctx context.Context) error {
	server, err := row[serverVacuumRow](ctx, e, serverVacuumSQL)
	if err != nil {
		return err
	}
	if !server.On || !server.Counts {
		e.warn("autovacuum = on and track_counts = on in postgresql.conf, and SELECT pg_reload_conf();",
			"autovacuum is off on the whole server: each task leaves dead rows that nobody removes")
	}
	tables, err := rows[vacuumRow](ctx, e, vacuumSQL, e.schema.String())
	if err != nil {
		return err
	}
	bad := !server.On || !server.Counts
	for _, table := range tables {
		bad = e.vacuumOf(table) || bad
	}
	if !bad {
		e.vacuumed(tables)
	}
	return nil
}

// vacuumOf reports the faults of a table. It returns whether it has any.
func (e *examination) vacuumOf(table vacuumRow) bool {
	switch {
	case !table.Enabled:
		e.warn("ALTER TABLE "+table.Name+" RESET (autovacuum_enabled);",
			"autovacuum is off for %s, which has %s, %d of them dead",
			table.Name, several(table.Live+table.Dead, "row"), table.Dead)
	// With five times as many dead rows autovacuum has begun, but is too slow, or cannot remove them.
	case table.Dead > e.config.limits.dead && float64(table.Dead) > 5*table.Begins:
		e.warn("VACUUM (VERBOSE) "+table.Name+"; says how many cannot be removed yet: then see snapshots; "+
			"else let autovacuum work more (autovacuum_vacuum_cost_limit)",
			"%s has %s and %d dead ones; autovacuum begins with %.0f, last vacuumed: %s",
			table.Name, several(table.Live, "live row"), table.Dead, math.Ceil(table.Begins), ago(table.Vacuumed))
	case table.Analyzed == nil && table.Live > e.config.limits.dead:
		e.warn("ANALYZE "+table.Name+";",
			"%s has %s, and was never analyzed: queries of yours may take a bad plan (the engine's do not)",
			table.Name, several(table.Live, "row"))
	default:
		return false
	}
	return true
}

// vacuumed reports when the two most important tables were last vacuumed.
func (e *examination) vacuumed(tables []vacuumRow) {
	var told []string
	for _, table := range tables {
		name := table.Name[strings.IndexByte(table.Name, '.')+1:]
		if name == "scheduled_tasks" || name == "river_job" {
			told = append(told, name+" "+ago(table.Vacuumed)+" ("+several(table.Dead, "dead row")+")")
		}
	}
	e.ok("autovacuum is on; last vacuumed: %s", strings.Join(told, ", "))
}

func ago(s *float64) string {
	if s == nil {
		return "never"
	}
	return seconds(*s) + " ago"
}

const wraparoundSQL = `
SELECT 'database ' || d.datname AS name, age(d.datfrozenxid)::bigint AS transactions,
    mxid_age(d.datminmxid)::bigint AS locks,
    current_setting('autovacuum_freeze_max_age')::bigint AS transactions_from,
    current_setting('autovacuum_multixact_freeze_max_age')::bigint AS locks_from
FROM pg_database AS d WHERE d.datname = current_database()`

type wraparoundRow struct {
	Name             string
	Transactions     int64 // age of the oldest transaction number that is not frozen
	Locks            int64 // the same for multixacts
	TransactionsFrom int64 // the age from which on autovacuum must freeze
	LocksFrom        int64
}

// wraparoundNear is the age at which the failsafe of Postgres begins. Some 3 million before 2 billion Postgres stops
// taking writes.
const wraparoundNear = 1_600_000_000

// level says how near the database is to the end of its transaction numbers.
func (r wraparoundRow) level() Level {
	switch {
	case max(r.Transactions, r.Locks) > wraparoundNear:
		return Error
	case r.Transactions > r.TransactionsFrom+r.TransactionsFrom/4, r.Locks > r.LocksFrom+r.LocksFrom/4:
		// Autovacuum should have begun long ago.
		return Warning
	}
	return OK
}

// wraparound checks the transaction numbers. Tasktable uses many of them, and when they run out, Postgres takes no
// writes.
func (e *examination) wraparound(ctx context.Context) error {
	found, err := row[wraparoundRow](ctx, e, wraparoundSQL)
	if err != nil {
		return err
	}
	e.find(found.level(), found.do(),
		"the oldest row of the %s that is not frozen is %d transactions old, the oldest lock %d; of 2 billion",
		found.Name, found.Transactions, found.Locks)
	return nil
}

func (r wraparoundRow) do() string {
	if r.level() == OK {
		return ""
	}
	return "end what holds old snapshots (see snapshots), then VACUUM (FREEZE) of the oldest tables: " +
		"SELECT oid::regclass, age(relfrozenxid) FROM pg_class WHERE relkind = 'r' ORDER BY 2 DESC LIMIT 10;"
}
