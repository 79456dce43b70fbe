package doctor

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store/storetest"
)

// slow is a link on which each thing said takes its time.
type slow struct {
	net.Conn
	by time.Duration
}

func (s slow) Write(packet []byte) (int, error) {
	<-time.After(s.by)
	return s.Conn.Write(packet)
}

func TestASlowLink(t *testing.T) {
	p := newPatient(t)
	p.finding("connection", OK, "a round trip takes")
	pool := poolOf(t, p.url, func(c *pgxpool.Config) {
		c.ConnConfig.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
			return slow{conn, 60 * time.Millisecond}, nil
		}
	})
	report := p.examineBy(func(c *Config) { c.Pool, c.Only, c.limits = pool, []string{"connection"}, defaultLimits })
	p.finds(report, "connection", Warning, "a round trip takes ", "(the median of 5)")
}

func TestReadOnlyByDefault(t *testing.T) {
	p := newPatient(t)
	p.well(p.examine(nil, "connection"))
	p.exec(fmt.Sprintf(`ALTER DATABASE %s SET default_transaction_read_only = on`,
		pgx.Identifier{p.pool.Config().ConnConfig.Database}.Sanitize()))
	found := p.finding("connection", Error, "read-only by default", "set by: database")
	p.on(p.connect(), "SET default_transaction_read_only = off", found.Do)
	p.well(p.examine(nil, "connection"))
}

func TestRoom(t *testing.T) {
	p := newPatient(t)
	p.finding("room", OK, "one more node takes up to 13") // 3 + 6 + the pool's 4
	p.exec(fmt.Sprintf(
		`ALTER DATABASE %s CONNECTION LIMIT 10`, pgx.Identifier{p.pool.Config().ConnConfig.Database}.Sanitize(),
	))
	p.finding("room", Warning, "of 10 (the database's own limit)", "up to 13")
}

func TestWhatLeavesRoom(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		row  roomRow
		left int
		most int
		by   string
	}{
		"the server's": {roomRow{Most: 97, Used: 90, DatabaseMost: -1, RoleMost: -1}, 7, 97, "max_connections"},
		"over":         {roomRow{Most: 97, Used: 99, DatabaseMost: -1, RoleMost: -1}, 0, 97, "max_connections"},
		"the database": {roomRow{Most: 97, Used: 10, DatabaseMost: 20, DatabaseUsed: 15, RoleMost: 50, RoleUsed: 1}, 5,
			20, "the database's"},
		"the role": {roomRow{Most: 97, Used: 10, DatabaseMost: 20, DatabaseUsed: 5, RoleMost: 8, RoleUsed: 7}, 1, 8,
			"the role's"},
		"none for role": {roomRow{Most: 97, Used: 10, DatabaseMost: -1, RoleMost: 0}, 0, 0, "the role's"},
	} {
		if left, most, by := test.row.left(); left != test.left || most != test.most ||
			!strings.HasPrefix(by, test.by) {
			t.Errorf("%s: %d of %d by %s", name, left, most, by)
		}
	}
}

func TestVersions(t *testing.T) {
	p := newPatient(t)
	report := p.examine(nil, "versions")
	p.well(report)
	p.finds(report, "versions", OK, "Postgres 1")
	p.exec(`DELETE FROM tasktable.goose_db_version
		WHERE version_id = (SELECT max(version_id) FROM tasktable.goose_db_version)`)
	found := p.finding("versions", Error, "the schema is at version", "its nodes do not start")
	if found.Do != "tasktable migrate" {
		t.Errorf("it says %q", found.Do)
	}
	p.exec(`UPDATE tasktable.river_migration SET version = 1000 WHERE version = 1`)
	p.finding("versions", Info, "River's part of the schema is at version 1000, newer")
	p.exec(`DELETE FROM tasktable.river_migration WHERE version > 2`)
	p.finding("versions", Error, "River's part of the schema is at version 2")
}

func TestUnmigrated(t *testing.T) {
	t.Parallel()
	p := at(t, storetest.EmptyURL(t))
	report := p.examine(nil)
	p.finds(report, "versions", Error, "there is no schema tasktable")
	for _, one := range report.Findings {
		if one.Level == Warning {
			t.Errorf("there is nothing to say about what is not there: %+v", one)
		}
	}
	p.exec(`CREATE SCHEMA tasktable`)
	p.finds(p.examine(nil), "versions", Error, "schema tasktable is not migrated")
}

// A schema of the nine migrations before the first release is at a higher version than this program's,
// and yet not newer.
func TestASchemaBeforeTheFirstRelease(t *testing.T) {
	t.Parallel()
	p := at(t, storetest.EmptyURL(t))
	p.exec(`CREATE SCHEMA tasktable;
		CREATE TABLE tasktable.scheduled_tasks (id text, payload jsonb, type text, entity text,
			tenant_id text, queue text,
			status text, priority integer, scheduled_at timestamptz, run_now_at timestamptz, expiration interval,
			expected_execution_time interval);
		CREATE TABLE tasktable.river_migration (line text, version bigint);
		CREATE TABLE tasktable.goose_db_version (version_id bigint, is_applied boolean);
		INSERT INTO tasktable.goose_db_version VALUES (9, true)`)
	found := p.finds(p.examine(nil), "versions", Error, "schema tasktable was made before the first release")
	if !strings.HasPrefix(found.Do, "DROP SCHEMA tasktable CASCADE;") {
		t.Errorf("it says %q", found.Do)
	}
}

func TestTheClock(t *testing.T) {
	p := newPatient(t)
	p.finding("clock", OK, "within 1s of this machine's; its time zone is")
	p.finds(p.examine(func(l *limits) { l.offset = time.Nanosecond }, "clock"), "clock", Info,
		"the database's clock is", "this machine's: tasks run by the database's")
}

func TestSettings(t *testing.T) {
	p := newPatient(t)
	database := pgx.Identifier{p.pool.Config().ConnConfig.Database}.Sanitize()
	for setting, test := range map[string]struct {
		bad, good, want string
		level           Level
	}{
		"synchronous_commit":                  {"off", "local", "synchronous_commit is off", Warning},
		"default_transaction_isolation":       {"'repeatable read'", "'read committed'", "fail where two meet", Warning},
		"statement_timeout":                   {"'1s'", "'1min'", "statement_timeout is 1s", Warning},
		"lock_timeout":                        {"'10ms'", "'1s'", "lock_timeout is 10ms", Warning},
		"idle_in_transaction_session_timeout": {"'2s'", "'5min'", "idle_in_transaction_session_timeout is 2s", Warning},
		"session_replication_role":            {"replica", "origin", "triggers do not fire", Error},
		"client_encoding":                     {"LATIN1", "UTF8", "read wrongly by others", Error},
		"standard_conforming_strings":         {"off", "on", "the other verbs fail", Error},
	} {
		p.exec(fmt.Sprintf(`ALTER DATABASE %s SET %s = %s`, database, setting, test.bad))
		found := p.finding("settings", test.level, setting+" is ", "(set by: database)", test.want)
		p.on(p.connect(), found.Do)
		p.exec(fmt.Sprintf(`ALTER DATABASE %s SET %s = %s`, database, setting, test.good))
		for _, one := range p.examine(nil, "settings").Findings {
			if strings.HasPrefix(one.Found, setting+" ") {
				t.Errorf("%s = %s: %+v", setting, test.good, one)
			}
		}
		p.exec(fmt.Sprintf(`ALTER DATABASE %s RESET %s`, database, setting))
	}
}

func TestAnotherEncoding(t *testing.T) {
	p := newPatient(t)
	database := fmt.Sprintf("%s_latin1", p.pool.Config().ConnConfig.Database)
	name := pgx.Identifier{database}.Sanitize()
	p.exec(fmt.Sprintf(`CREATE DATABASE %s TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'`, name))
	t.Cleanup(func() { p.on(p.connect(), fmt.Sprintf(`DROP DATABASE %s WITH (FORCE)`, name)) })
	pool := poolOf(t, p.url, func(c *pgxpool.Config) { c.ConnConfig.Database = database })
	report := p.examineBy(func(c *Config) { c.Pool, c.Only = pool, []string{"settings"} })
	p.finds(report, "settings", Error, "server_encoding is LATIN1 (set by: server)")
	for _, one := range report.Findings {
		if strings.HasPrefix(one.Found, "client_encoding") {
			t.Errorf("it is told twice: %+v", one)
		}
	}
}

// How sessions write times and names is no matter for a check.
func TestADatabaseWithStylesOfItsOwn(t *testing.T) {
	p := newPatient(t)
	p.node()
	before := p.examine(nil)
	database := pgx.Identifier{p.pool.Config().ConnConfig.Database}.Sanitize()
	for _, style := range []string{
		"timezone = 'Europe/Berlin'", "datestyle = 'German'", "intervalstyle = 'sql_standard'",
		"quote_all_identifiers = on", "bytea_output = 'escape'", "extra_float_digits = 0", "search_path = ''",
	} {
		p.exec(fmt.Sprintf(`ALTER DATABASE %s SET %s`, database, style))
	}
	pool := poolOf(t, p.url, nil)
	report := p.examineBy(func(c *Config) { c.Pool = pool })
	if report.Count(Error) != before.Count(Error) || report.Count(Warning) != before.Count(Warning) {
		t.Errorf("before: %+v\nwith the styles: %+v", before.Findings, report.Findings)
	}
}

// The client's own setting wins over the server's, and is to be taken out of the URL.
func TestASettingInTheURL(t *testing.T) {
	p := newPatient(t)
	pool := poolOf(t, p.url+"&statement_timeout=1000", nil)
	report := p.examineBy(func(c *Config) { c.Pool, c.Only = pool, []string{"settings"} })
	found := p.finds(report, "settings", Warning, "statement_timeout is 1s (set by: client)")
	if found.Do != "take statement_timeout out of the database URL" {
		t.Errorf("it says %q", found.Do)
	}
}
