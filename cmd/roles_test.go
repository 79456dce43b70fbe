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

func TestMigrateRolesNamesWhatIsWrong(t *testing.T) {
	for want, args := range map[string][]string{
		`role of the engine must be 1 to 63 of letters, digits and _.@-, not beginning with`: {"--engine-role=a b"},
		`role of the auditor must not be public, none or begin with pg_, got "public"`:       {"--auditor-role=public"},
		`role of the engine must be another than the other four, got "one"`: {"--owner-role=one",
			"--engine-role=one"},
		`--application-service (TASKTABLE_APPLICATION_SERVICES) must be a service, or`: {"--application-service=a,,b"},
		`schema must be Tasktable's alone`:                                             {"--schema=public"},
		`--schema (TASKTABLE_SCHEMA) must be 1 to 46`:                                  {"--schema=My"},
	} {
		got := run(t, nil, append([]string{"migrate", "roles"}, args...)...)
		got.want(t, exitUsage, want)
		if got.stdout != "" {
			t.Errorf("%v: stdout: %s", args, got.stdout)
		}
	}
}
