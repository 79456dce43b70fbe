package cmd

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store/storetest"
)

// The demo checks itself: its audit compares each answer with what should have happened.
func TestDemo(t *testing.T) {
	t.Parallel()
	checkDemo(t, storetest.EmptyURL(t))
}

// The audit has the same answers with a week of history, and the node goes on where the week ends. Another demo clears
// the rows of the week.
func TestDemoWithAWeek(t *testing.T) {
	t.Parallel()
	url := storetest.EmptyURL(t)
	checkDemo(t, url, "--week")
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, sql := range []string{
		// The node fires the recurring tasks, and runs the scheduled ones.
		`SELECT count(*) > 0 FROM tasktable_demo.scheduled_tasks
WHERE id = 'backup-soon-02' AND status = 'COMPLETED' AND attempt = 1`,
		`SELECT count(*) > 0 FROM tasktable_demo.scheduled_tasks AS t
JOIN tasktable_demo.scheduled_task_executions AS e ON e.task_id = t.id
WHERE t.parent_id = 'uptime-probe'
    AND e.node = (SELECT max(number) FROM tasktable_demo.nodes)`,
		// It leaves paused tasks alone. The week has the declared tasks as the code has them.
		`SELECT count(*) = 240 FROM tasktable_demo.scheduled_tasks WHERE queue = 'newsletter' AND status = 'QUEUED'`,
		`SELECT count(*) = 0 FROM tasktable_demo.scheduled_task_changes AS c
JOIN tasktable_demo.scheduled_tasks AS t ON t.id = c.task_id
WHERE t.declared_by = 'demo' AND c.outcome <> 'created'`,
		`SELECT count(*) > 200 FROM tasktable_demo.scheduled_tasks WHERE type = 'SEND_EVENT_REMINDER' AND status = 'QUEUED'`,
	} {
		var holds bool
		if err := pool.QueryRow(t.Context(), sql).Scan(&holds); err != nil || !holds {
			t.Errorf("%s: %t, %v", sql, holds, err)
		}
	}
	checkDemo(t, url)
}

func checkDemo(t *testing.T, url string, options ...string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	// The script is in seconds of the clock, and the audit wants each answer. On a machine that is busy a handler may be
	// a second late. So one of three demos has to be right.
	for tries := 3; ; tries-- {
		stdout.Reset()
		stderr.Reset()
		p := newProgram([]string{"DATABASE_URL=" + url}, &stdout, &stderr)
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		code := p.run(ctx, append([]string{"demo", "--for", "20s"}, options...))
		cancel()
		if code == exitOK {
			break
		}
		if tries == 1 {
			t.Fatalf("exit code %d; stderr:\n%s\nstdout:\n%s", code, stderr.String(), stdout.String())
		}
	}
	for _, line := range []string{"rescheduled  by demo: +6.0s → +9.0s", "SUPERSEDED", "RETRIED", "EXPIRED",
		"cancelled",
		"SKIPPED      an earlier occurrence has not ended: headcount-", "paused       by demo: until +6.0s",
		"queued       by leader", "the printer is out of paper",
		"archived     by demo", "Mended: 1 created, 1 rescheduled, 1 cancelled.", "And once more: All agree.",
		"All happened that should have."} {
		if !strings.Contains(stdout.String(), line) {
			t.Errorf("the demo does not say %q:\n%s", line, stdout.String())
		}
	}
}

func TestDemoIsNotShorterThanItsScript(t *testing.T) {
	t.Parallel()
	run(t, nil, "demo", "--for", "5s").want(t, exitUsage, "--for (TASKTABLE_DEMO_FOR) must be a duration from 20s")
}
