package cmd

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/scheduled/doctor"
	"github.com/tasktable/tasktable/store/storetest"
)

// The tests' server keeps nothing through a power cut, and may be slow, and the doctor says so: these checks are left
// out here.
func examined(t *testing.T, url string, args ...string) result {
	t.Helper()
	return run(t, []string{"DATABASE_URL=" + url}, append([]string{"doctor", "--skip=settings,connection"}, args...)...)
}

func TestDoctorsExitCode(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	got := examined(t, url, "--check=retention,recurring,triggers")
	got.want(t, exitOK)
	if !strings.Contains(got.stdout, "ok       triggers") ||
		!strings.Contains(got.stdout, "\n0 errors, 0 warnings, 0 info, 3 ok\n") ||
		strings.Contains(got.stdout, "\x1b") {
		t.Errorf("stdout:\n%s", got.stdout)
	}
	got = examined(t, url) // without a node
	got.want(t, exitOK)
	if !strings.Contains(got.stdout, "no node runs: nothing is claimed\n") ||
		!strings.Contains(got.stdout, "→ start a node: the command serve") {
		t.Errorf("stdout:\n%s", got.stdout)
	}
	examined(t, url, "--strict").want(t, exitUnhealthy, "tasktable: 0 errors, 1 warning, ")
	run(t, []string{"DATABASE_URL=" + url, "TASKTABLE_DOCTOR_STRICT=true",
		"TASKTABLE_DOCTOR_SKIP=settings,connection,attention"},
		"doctor").want(t, exitOK)

	execute(t, url, `ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER zzz_task_1_edit`)
	got = examined(t, url)
	got.want(t, exitUnhealthy, "tasktable: 1 error, 1 warning, ")
	if !strings.Contains(got.stdout,
		"error    triggers       trigger zzz_task_1_edit of tasktable.scheduled_tasks is disabled") ||
		!strings.Contains(got.stdout, "→ ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER zzz_task_1_edit;\n") {
		t.Errorf("stdout:\n%s", got.stdout)
	}
	examined(t, url, "--skip=triggers,settings,connection").want(t, exitOK)
}

func TestDoctorsJSON(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	got := examined(t, url, "--output=json")
	got.want(t, exitOK)
	var report doctor.Report
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil {
		t.Fatal(err)
	}
	if !report.Reached || report.Schema != "tasktable" || report.Role == "" || report.At.IsZero() ||
		report.Count(doctor.OK) < 10 || report.Count(doctor.Warning) != 1 {
		t.Errorf("the report is %+v", report)
	}
	if !strings.Contains(got.stdout, `"level": "warning",`) {
		t.Errorf("stdout:\n%s", got.stdout)
	}
}

func TestDoctorWithoutADatabase(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	got := examined(t, "postgres://u:"+secret+"@127.0.0.1:1/x")
	got.want(t, exitUnreachable, "the database at 127.0.0.1:1/x cannot be reached")
	if !strings.Contains(got.stdout, "error    connection") || !strings.Contains(got.stdout, "connection refused") ||
		!strings.Contains(got.stdout, "→ check that host and port") {
		t.Errorf("stdout:\n%s", got.stdout)
	}
	// A session that cannot connect is one finding among others.
	session := run(t, []string{"DATABASE_URL=" + storetest.URL(t),
		"TASKTABLE_SESSION_DATABASE_URL=postgres://u:" + secret + "@127.0.0.1:1/x"}, "doctor", "--skip=settings")
	session.want(t, exitUnhealthy)
	if !strings.Contains(session.stdout, "error    pooler         a node's session cannot connect") ||
		!strings.Contains(session.stdout, "ok       triggers") {
		t.Errorf("stdout:\n%s", session.stdout)
	}
	for _, text := range []string{got.stdout, got.stderr, session.stdout, session.stderr} {
		if strings.Contains(text, secret) {
			t.Errorf("tells the password:\n%s", text)
		}
	}
}

// As it is shown on a terminal, and elsewhere.
func TestAnExaminationIsPrinted(t *testing.T) {
	t.Parallel()
	report := doctor.Report{Database: "db.example.org:5432/app", Reached: true, Schema: "tasktable", Role: "engine",
		At: fixedNow, Findings: []doctor.Finding{
			{Check: "connection", Level: doctor.OK, Found: "TLS 1.3"},
			{Check: "snapshots", Level: doctor.Info,
				Found: "of other roles' sessions one does not see how long they are in a transaction",
				Do:    "GRANT pg_read_all_stats TO engine;"},
			{Check: "dead-letters", Level: doctor.Warning,
				Found: "2 FAILED and 1 EXPIRED that nobody has dealt with, the newest at 2026-03-01T00:00:00Z; 2 " +
					"times: \x1b[31m421 try later",
				Do: "SELECT * FROM tasktable.dead_letters;"},
			{Check: "triggers", Level: doctor.Error,
				Found: "trigger zzz_task_1_edit is another than the migrations make",
				Do:    "DROP TRIGGER zzz_task_1_edit;\nCREATE TRIGGER zzz_task_1_edit;"},
		}}
	for name, to := range map[string]term.Printer{
		"doctor/plain.txt":    {Clock: term.Clock{Zone: time.UTC}},
		"doctor/terminal.txt": {Clock: term.Clock{Zone: time.FixedZone("", 3600)}, Colors: true, Width: 80},
		"doctor/narrow.txt":   {Clock: term.Clock{Zone: time.UTC}, Width: 30},
	} {
		var out strings.Builder
		to.Data = &out
		if err := printExamination(to, report); err != nil {
			t.Fatal(err)
		}
		golden(t, name, out.String())
	}
}
