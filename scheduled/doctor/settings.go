package doctor

import (
	"context"
	"slices"
	"strconv"
	"time"
)

// settingsSQL reads the values with which sessions begin. It does not read pg_settings.source, because that names the
// SET LOCAL of this transaction. Times are in milliseconds.
const settingsSQL = `
SELECT s.name, s.reset_val AS value, coalesce((
    SELECT CASE WHEN d.setrole <> 0 AND d.setdatabase <> 0 THEN 'role in database' WHEN d.setrole <> 0 THEN 'role'
        WHEN d.setdatabase <> 0 THEN 'database' ELSE 'all roles' END
    FROM pg_db_role_setting AS d
    WHERE d.setrole IN (0, (SELECT r.oid FROM pg_roles AS r WHERE r.rolname = session_user))
        AND d.setdatabase IN (0, (SELECT b.oid FROM pg_database AS b WHERE b.datname = current_database()))
        AND EXISTS (SELECT 1 FROM unnest(d.setconfig) AS one WHERE split_part(one, '=', 1) = s.name)
    ORDER BY d.setrole <> 0 DESC, d.setdatabase <> 0 DESC LIMIT 1), 'server') AS source
FROM pg_settings AS s WHERE s.name = ANY ($1::text[]) ORDER BY s.name COLLATE "C"`

type settingRow struct{ Name, Value, Source string }

// sessionSettings returns the values with which a session of this role begins.
func (e *examination) sessionSettings(ctx context.Context, names ...string) ([]settingRow, error) {
	found, err := rows[settingRow](ctx, e, settingsSQL, names)
	for i := range found {
		if _, given := e.config.Pool.Config().ConnConfig.RuntimeParams[found[i].Name]; given {
			found[i].Source = "client" // the client's value wins over the server's
		}
	}
	return found, err
}

// milliseconds returns the setting as a duration. 0 means off.
func (s settingRow) milliseconds() time.Duration {
	n, _ := strconv.ParseInt(s.Value, 10, 64) // Postgres has checked it
	return time.Duration(n) * time.Millisecond
}

// wanting describes bad values of a setting, and their harm.
type wanting struct {
	name  string
	level Level
	bad   func(settingRow) bool
	harm  string
	do    string // "": reset it
}

func is(values ...string) func(settingRow) bool {
	return func(s settingRow) bool { return slices.Contains(values, s.Value) }
}

func under(limit time.Duration) func(settingRow) bool {
	return func(s settingRow) bool { return s.milliseconds() > 0 && s.milliseconds() < limit }
}

// settings are the settings that can break a promise or cut off the engine. The engine sets those of its session
// itself, but not all of those of its pool, of the listener and of the handlers.
var settings = []wanting{
	{"fsync", Error, is("off"), "a crash of the machine may destroy the database",
		"fsync = on in postgresql.conf, and a new cluster if it has crashed"},
	{"full_page_writes", Error, is("off"),
		"a crash of the machine may leave torn pages, unless the file system prevents them",
		"full_page_writes = on in postgresql.conf"},
	{"synchronous_commit", Warning, is("off"),
		"a crash of the server loses the commits of about the last half second: accepted tasks are gone, and " +
			"completed ones run again", ""},
	{"session_replication_role", Error, is("replica"),
		"triggers do not fire: edits draw no revision and are not recorded", ""},
	{"standard_conforming_strings", Error, is("off"),
		"backslashes in the schema's functions get another meaning: schedule and the other verbs fail", ""},
	{"server_encoding", Error, func(s settingRow) bool { return s.Value != "UTF8" },
		"ids and payloads with other characters than those of ASCII are refused, or read wrongly",
		"dump the database, and restore it into one with ENCODING 'UTF8'"},
	{"client_encoding", Error,
		func(s settingRow) bool { return s.Value != "UTF8" && s.Source != "server" }, // the server's is server_encoding
		"ids and payloads with other characters than those of ASCII are refused, or read wrongly by others", ""},
	{"default_transaction_isolation", Warning, is("serializable", "repeatable read"),
		"the engine's transactions fail where two meet, and are tried again", ""},
	{"statement_timeout", Warning, under(5 * time.Second),
		"it may cut off a settle of many tasks, River's statements and retention", ""},
	{"lock_timeout", Warning, under(100 * time.Millisecond),
		"schedule and the other verbs fail where they would wait for a moment", ""},
	{"idle_in_transaction_session_timeout", Warning, under(10 * time.Second),
		"it ends handlers of HandleTx that do something else within their transaction for so long", ""},
	{"transaction_timeout", Warning, under(time.Minute), "it ends handlers of HandleTx that take so long", ""},
}

// settings checks the values with which sessions of this role in this database begin.
func (e *examination) settings(ctx context.Context) error {
	names := make([]string, len(settings))
	for i, one := range settings {
		names[i] = one.name
	}
	found, err := e.sessionSettings(ctx, names...)
	if err != nil {
		return err
	}
	bad := 0
	for _, setting := range found {
		for _, one := range settings {
			if one.name != setting.Name || !one.bad(setting) {
				continue
			}
			bad++
			do := one.do
			if do == "" {
				do = e.reset(setting)
			}
			e.find(one.level, do, "%s is %s (set by: %s): %s", setting.Name, shown(setting), setting.Source, one.harm)
		}
	}
	if bad == 0 {
		e.ok("none of %d settings of role %s breaks a promise or cuts off the engine", len(found), e.report.Role)
	}
	return nil
}

// shown returns the value with its unit.
func shown(s settingRow) string {
	if _, err := strconv.Atoi(s.Value); err == nil {
		return short(s.milliseconds())
	}
	return s.Value
}

// reset returns the statement or the advice that removes a setting.
func (e *examination) reset(setting settingRow) string {
	role, database := named(e.report.Role), named(e.config.Pool.Config().ConnConfig.Database)
	switch setting.Source {
	case "role":
		return "ALTER ROLE " + role + " RESET " + setting.Name + ";"
	case "database":
		return "ALTER DATABASE " + database + " RESET " + setting.Name + ";"
	case "role in database":
		return "ALTER ROLE " + role + " IN DATABASE " + database + " RESET " + setting.Name + ";"
	case "all roles":
		return "ALTER ROLE ALL RESET " + setting.Name + ";"
	case "client":
		return "take " + setting.Name + " out of the database URL"
	}
	return "take " + setting.Name + " out of postgresql.conf, or ALTER SYSTEM RESET " + setting.Name +
		"; then SELECT pg_reload_conf();"
}
