package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestShellCompletes(t *testing.T) {
	t.Parallel()
	variables := withTasks(t)
	for line, want := range map[string]string{
		"tasks can": "cancel\tKeeps tasks from running",
		"tasks show task-M": "task-MAIL-1\tMAIL, QUEUED|task-MAIL-2\tMAIL, " +
			"FAILED|task-MAIL-3\tMAIL, EXPIRED",
		"tasks show task-MAIL-1 ":  "",
		"tasks retry ":             "task-MAIL-2\tMAIL, FAILED|task-MAIL-3\tMAIL, EXPIRED",
		"tasks retry task-MAIL-2 ": "task-MAIL-3\tMAIL, EXPIRED",
		"tasks run-now task-L": "task-LOG-1\tLOG, COMPLETED|task-LOG-2\tLOG, " +
			"PAUSED|task-LOG-3\tLOG, EXECUTING",
		"tasks list --type ":                  "MAIL|TOKEN_CLEANUP",
		"tasks list --type M":                 "MAIL",
		"tasks list --queue ":                 "default|mail",
		"tasks list --status ex":              "EXECUTING|EXPIRED",
		"tasks list --status FAILED,C":        "FAILED,COMPLETED|FAILED,CANCELLED",
		"dead re":                             "retry\tRuns FAILED and EXPIRED tasks again at once",
		"dead archive task-":                  "task-MAIL-2\tMAIL, FAILED|task-MAIL-3\tMAIL, EXPIRED",
		"dead list --status ":                 "FAILED|EXPIRED",
		"recurring next ":                     "nightly\t0 3 * * *, QUEUED",
		"recurring next nightly ":             "",
		"recurring list --status P":           "PAUSED",
		"queues pause ":                       "default|mail|type:|all",
		"queues pause type:M":                 "type:MAIL",
		"queues pause mail type:":             "type:MAIL|type:TOKEN_CLEANUP",
		"queues resume ":                      "",
		"stats --type T":                      "TOKEN_CLEANUP",
		"tasks list --output ":                "table|json",
		"tasks list --schema no_such --type ": "",
		"tasks list --limit no --type M":      "MAIL",
		"tasks schedule --if-finished k":      "keep",
		"tasks schedule --cron @daily --overlap": "--overlap\tfor a fire while an earlier occurrence has not ended; one of " +
			"skip, allow, cancel_running (default skip)",
	} {
		got := run(t, variables, append([]string{"__complete"}, strings.Split(line, " ")...)...)
		got.want(t, exitOK)
		lines := strings.Split(strings.TrimSuffix(got.stdout, "\n"), "\n")
		if found := strings.Join(lines[:len(lines)-1], "|"); found != want {
			t.Errorf("%s:\ngot  %s\nwant %s", line, found, want)
		}
		if last := lines[len(lines)-1]; last != ":4" && !strings.HasPrefix(want, "--") { // else the shell offers files
			t.Errorf("%s: ends with %s", line, last)
		}
	}
}

// Nobody sees an error, nobody waits, and nothing is started for it.
func TestShellCompletesNothingWithoutADatabase(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	for name, variables := range map[string][]string{
		"none":        {"TASKTABLE_DATA_DIR=" + folder},
		"unreachable": {"DATABASE_URL=postgres://127.0.0.1:1/x"},
		"no URL":      {"DATABASE_URL=postgres://u:p/x@h/db"},
	} {
		began := time.Now()
		got := run(t, variables, "__complete", "tasks", "show", "")
		got.want(t, exitOK)
		if got.stdout != ":4\n" || strings.Contains(got.stderr, "rror") || time.Since(began) > waitLimit/2 {
			t.Errorf("%s: after %s: %q, %q", name, time.Since(began), got.stdout, got.stderr)
		}
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the folder of a private Postgres: %v", err)
	}
}

func TestCompletionIsOffered(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		got := run(t, nil, "completion", shell)
		got.want(t, exitOK)
		if !strings.Contains(got.stdout, "__complete") {
			t.Errorf("%s: %.100s", shell, got.stdout)
		}
	}
	if got := run(t, nil, "--help"); !strings.Contains(got.stdout, "\n  completion ") {
		t.Errorf("the help does not mention it:\n%s", got.stdout)
	}
}
