package cmd

import (
	"strings"
	"testing"
)

// Like print it needs no database: this one would be unreachable.
func TestMigrateRolesPrintsTheSQL(t *testing.T) {
	nowhere := []string{"DATABASE_URL=postgres://127.0.0.1:1/x", "TASKTABLE_AUDITOR_ROLE=reader",
		"TASKTABLE_SERVICE=of serve"}
	got := run(t, nowhere, "migrate", "roles", "--schema=jobs", "--owner-role=deploy", "--application-role=events-api",
		"--application-service=events-api, mailer", "--application-service", "it's", "--tenant-role=customers")
	got.want(t, exitOK)
	for _, want := range []string{
		`ON jobs.scheduled_tasks`, `'deploy'`, `"jobs_engine"`, `TO "events-api"`, `"reader"`, `'customers'`,
		`ARRAY['events-api', 'mailer', 'it''s']`,
	} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("stdout lacks %s", want)
		}
	}
	if strings.Contains(got.stdout, "tasktable") || strings.Contains(got.stdout, "of serve") {
		t.Error("the default names, or another command's service, are in it")
	}
}
