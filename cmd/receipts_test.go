package cmd

import (
	"strings"
	"testing"
)

// A retry leaves what somebody has cancelled alone, which must not look as if nothing could be done.
func TestRetryOfACancelledTaskNamesRunNow(t *testing.T) {
	t.Parallel()
	variables := withTasks(t)
	runFixed(t, variables, "tasks", "cancel", "task-MAIL-1").want(t, exitOK)
	for _, verb := range []string{"tasks", "dead"} {
		got := runFixed(t, variables, verb, "retry", "task-MAIL-1", "task-LOG-1")
		got.want(t, exitOK, "tasktable tasks run-now task-MAIL-1\n")
		if !strings.Contains(got.stdout, "task-MAIL-1  unchanged") {
			t.Errorf("%s retry: %s", verb, got.stdout)
		}
	}
	if got := runFixed(t, variables, "tasks", "retry", "task-LOG-1"); strings.Contains(got.stderr, "run-now") {
		t.Errorf("of one that was not: %s", got.stderr)
	}
}

// Of a recurring task the time it began at would read as overdue.
func TestTasksListShowsTheNextFire(t *testing.T) {
	t.Parallel()
	variables := withTasks(t)
	mustExec(t, strings.TrimPrefix(variables[0], "DATABASE_URL="),
		`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER;
		UPDATE tasktable.scheduled_tasks SET scheduled_at = '2026-11-01 02:00Z', planned_revision = revision
			WHERE id = 'nightly'`)
	got := runFixed(t, variables, "tasks", "list", "--id-prefix=nightly")
	if !strings.Contains(got.stdout, "2026-11-22 02:00:00 UTC (in 8h)") {
		t.Errorf("got %s%s", got.stdout, got.stderr)
	}
	got = runFixed(t, variables, "recurring", "next", "nightyl")
	got.want(t, exitFailed, "did you mean nightly?")
	got = runFixed(t, variables, "tasks", "show", "nightyl")
	got.want(t, exitFailed, "the nearest id is nightly")
}
