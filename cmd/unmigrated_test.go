package cmd

import (
	"os"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// Each command that needs the tables says that they are missing, in which schema, and which command makes them.
func TestCommandsOnAnUnmigratedSchema(t *testing.T) {
	t.Parallel()
	database := "DATABASE_URL=" + storetest.EmptyURL(t)
	for name, test := range map[string]struct {
		args   []string
		code   int
		report bool // it is on stdout, as a finding
	}{
		"why":            {[]string{"why", "one"}, exitUnmigrated, false},
		"why --entity":   {[]string{"why", "--entity=event:42"}, exitUnmigrated, false},
		"tasks list":     {[]string{"tasks", "list"}, exitUnmigrated, false},
		"tasks schedule": {[]string{"tasks", "schedule", "--type=LOG", "--id=one"}, exitUnmigrated, false},
		"reconcile":      {[]string{"reconcile", "--type=LOG", "--query=" + os.DevNull}, exitUnmigrated, false},
		"serve":          {[]string{"serve"}, exitUnmigrated, false},
		"doctor":         {[]string{"doctor"}, exitUnhealthy, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for schema, command := range map[string]string{"tasktable": "tasktable migrate",
				"jobs": "tasktable migrate --schema jobs"} {
				got := run(t, []string{database}, append(test.args, "--schema="+schema)...)
				if test.report {
					got.want(t, test.code)
					for _, words := range []string{"there is no schema " + schema + ";", "→ " + command + "\n"} {
						if !strings.Contains(got.stdout, words) {
							t.Errorf("stdout lacks %q:\n%s", words, got.stdout)
						}
					}
					continue
				}
				got.want(t, test.code, "the database is not migrated: schema "+schema+" lacks", `run "`+command+`"`)
				if name == "serve" {
					got.want(t, test.code, ", or serve with --migrate (TASKTABLE_MIGRATE=true)")
				}
				if got.stdout != "" {
					t.Errorf("stdout:\n%s", got.stdout)
				}
			}
		})
	}
}

// Each command that writes says that it met a standby, and not only which statement Postgres refused.
func TestCommandsOnAStandby(t *testing.T) {
	t.Parallel()
	const readOnly = "&default_transaction_read_only=on"
	empty := []string{"DATABASE_URL=" + storetest.EmptyURL(t) + readOnly}
	migrated := []string{"DATABASE_URL=" + storetest.URL(t) + readOnly}
	for name, test := range map[string]struct{ variables, args []string }{
		"migrate":      {empty, []string{"migrate"}},
		"migrate down": {migrated, []string{"migrate", "down", "--yes"}},
		"schedule":     {migrated, []string{"tasks", "schedule", "--type=LOG", "--id=one"}},
		"cancel":       {migrated, []string{"tasks", "cancel", "one"}},
		"pause":        {migrated, []string{"queues", "pause", "default"}},
		"create a key": {migrated, []string{"keys", "create", "me", "--scope=read"}},
		"revoke a key": {migrated, []string{"keys", "revoke", "me"}},
		"recipient":    {migrated, []string{"notices", "recipients", "set", "ops", "--email=ops@example.org"}},
		"notices":      {migrated, []string{"notices", "remove", "dead"}},
		"reconcile": {migrated, []string{"reconcile", "--type=LOG", "--apply", "--query=" +
			written(t, "q.sql", "SELECT 'a' AS id, now() + interval '1 hour' AS scheduled_at")}},
		"demo":  {migrated, []string{"demo"}},
		"serve": {migrated, []string{"serve", "--http-addr=127.0.0.1:0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, test.variables, test.args...).want(t, exitFailed, store.ErrReadOnly.Error())
		})
	}
	run(t, migrated, "migrate").want(t, exitOK) // there is nothing to write
}
