package cmd

import (
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store/storetest"
)

// Each command that needs the tables says that they are missing, in which schema, and which command makes them.
func TestCommandsOnAnUnmigratedSchema(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args   []string
		code   int
		report bool // it is on stdout, as a finding
	}{
		"why":            {[]string{"why", "one"}, exitUnmigrated, false},
		"why --entity":   {[]string{"why", "--entity=event:42"}, exitUnmigrated, false},
		"tasks list":     {[]string{"tasks", "list"}, exitUnmigrated, false},
		"tasks schedule": {[]string{"tasks", "schedule", "--type=LOG", "--id=one"}, exitUnmigrated, false},
		"serve":          {[]string{"serve"}, exitUnmigrated, false},
		"doctor":         {[]string{"doctor"}, exitUnhealthy, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := "DATABASE_URL=" + storetest.EmptyURL(t)
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
				if got.stdout != "" {
					t.Errorf("stdout:\n%s", got.stdout)
				}
			}
		})
	}
}
