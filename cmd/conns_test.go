package cmd

import (
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/tasktable/tasktable/store/storetest"
)

// limitedURL is a migrated database, by a role of which the server takes no more than so many connections at once.
func limitedURL(t *testing.T, most int) (limited, admin string) {
	t.Helper()
	role := storetest.Role(t)
	admin = storetest.URL(t)
	execute(t, admin, strings.ReplaceAll(fmt.Sprintf(`ALTER ROLE ROLE_NAME CONNECTION LIMIT %d;
		GRANT USAGE, CREATE ON SCHEMA tasktable TO ROLE_NAME;
		GRANT ALL ON ALL TABLES IN SCHEMA tasktable TO ROLE_NAME;
			GRANT ALL ON ALL SEQUENCES IN SCHEMA tasktable TO ROLE_NAME`, most), "ROLE_NAME", role))
	address, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword(role, storetest.RolePassword)
	return address.String(), admin
}

// A node that leads has the connections of its two pools and three more, but no others. The same holds while it works,
// and with a session URL of its own.
func TestServeStaysWithinItsConnections(t *testing.T) {
	t.Parallel()
	limited, admin := limitedURL(t, 4+3+3)
	p := start(t, []string{"DATABASE_URL=" + limited, "TASKTABLE_SESSION_DATABASE_URL=" + limited +
		"&application_name=direct"},
		"serve", "--max-conns=4", "--engine-conns=3", "--log-level=warn")
	execute(t, admin, `SELECT tasktable.schedule(jsonb_build_object('type', 'LOG', 'message', n::text), id => n::text)
		FROM generate_series(1, 1000) AS n`)
	ask(t, admin, "SELECT count(*) FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED'", "1000")
	ask(t, admin, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = "+
		"'tasktable engine'", "3")
	// Of use at the start alone:
	ask(t, admin, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = "+
		"'direct'", "0")
	p.signal(syscall.SIGTERM)
	got := p.end()
	got.want(t, exitOK)
	if strings.Contains(got.stderr, "53300") {
		t.Errorf("it wanted more:\n%s", got.stderr)
	}
}

func TestServeSaysHowManyConnectionsItNeeds(t *testing.T) {
	t.Parallel()
	limited, _ := limitedURL(t, 1)
	run(t, []string{"DATABASE_URL=" + limited}, "serve", "--max-conns=5").want(t, exitUnreachable,
		"too many connections for role",
		"a node needs 9 connections (a session, a listener, one to lead, and EngineConns, which is 6), and its pool "+
			"up to 5")
}

func TestMigrateStaysWithinItsConnections(t *testing.T) {
	t.Parallel()
	limited, admin := limitedURL(t, 3)
	run(t, []string{"DATABASE_URL=" + admin}, "migrate", "down", "--yes").want(t, exitOK)
	run(t, []string{"DATABASE_URL=" + limited}, "migrate").want(t, exitOK)
}
