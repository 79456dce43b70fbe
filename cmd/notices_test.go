package cmd

import (
	"maps"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store/storetest"
)

// someNotices are recipients and rules, one of which code has declared.
const someNotices = `
INSERT INTO tasktable.notice_recipients (name, email, target, events) VALUES
	('ann', 'ann@example.org', NULL, '{failed}'), ('ops', NULL, 'ops', NULL), ('spare', NULL, 'spare', NULL);
INSERT INTO tasktable.notice_rules (name, events, types, tenants, digest, after, details, enabled, declared_by) VALUES
	('dead', '{failed,expired}', NULL, NULL, '1 minute', '5 minutes', true, true, NULL),
	('payments', '{failed}', '{CAPTURE,REFUND}', '{acme}', NULL, '5 minutes', false, false, NULL),
	('nightly', '{missed,recovered}', NULL, NULL, '1 hour', '26 hours', true, true, 'shop');
INSERT INTO tasktable.notice_rule_recipients VALUES ('dead', 'ann'), ('dead', 'ops'), ('payments', 'ops'),
	('nightly', 'ops')`

var withNotices = with(someNotices)

func TestNoticesAsTablesAndJSON(t *testing.T) {
	t.Parallel()
	goldenCommands(t, "notices", withNotices, asItIs, []goldenCommand{
		{"list", exitOK, []string{"notices", "list"}},
		{"set", exitOK, []string{"notices", "set", "new", "--event=late,recovered", "--to=ann", "--to=ops",
			"--queue=mail", "--digest=5m", "--after=10m", "--no-details"}},
		{"set_again", exitOK, []string{"notices", "set", "dead", "--event=lost", "--to=ops", "--digest=off"}},
		{"set_declared", exitFailed, []string{"notices", "set", "nightly", "--event=lost", "--to=ops"}},
		{"set_unknown", exitUsage, []string{"notices", "set", "new", "--event=lost", "--to=ops,nobody"}},
		{"remove", exitOK, []string{"notices", "remove", "dead"}},
		{"remove_declared", exitFailed, []string{"notices", "remove", "nightly"}},
		{"remove_unknown", exitFailed, []string{"notices", "remove", "nobody"}},
		{"test_unknown", exitFailed, []string{"notices", "test", "nobody"}},
		{"recipients", exitOK, []string{"notices", "recipients", "list"}},
		{"recipients_set", exitOK, []string{"notices", "recipients", "set", "bob", "--email=bob@example.org",
			"--event=failed"}},
		{"recipients_remove", exitOK, []string{"notices", "recipients", "remove", "spare"}},
		{"recipients_remove_used", exitFailed, []string{"notices", "recipients", "remove", "ops"}},
	})
	none := func(t *testing.T) []string { return []string{"DATABASE_URL=" + storetest.URL(t)} }
	goldenCommands(t, "notices", none, asItIs, []goldenCommand{
		{"list_none", exitOK, []string{"notices", "list"}},
		{"recipients_none", exitOK, []string{"notices", "recipients", "list"}},
	})
}

// The command list shows the rule that set has written. An option that is not given has its default again.
func TestSetReplacesARule(t *testing.T) {
	t.Parallel()
	variables := withNotices(t)
	runFixed(t, variables, "notices", "set", "payments", "--event=late", "--to=ann", "--entity=order:7").want(t, exitOK)
	runFixed(t, variables, "notices", "recipients", "set", "ann", "--target=pager").want(t, exitOK)
	got := runFixed(t, variables, "notices", "list")
	if !strings.Contains(got.stdout, "payments  late              entity order:7  ann         1m0s    5m0s") {
		t.Errorf("rules:\n%s", got.stdout)
	}
	got = runFixed(t, variables, "notices", "recipients", "list")
	if !strings.Contains(got.stdout, "ann    -      pager   -\n") {
		t.Errorf("recipients:\n%s", got.stdout)
	}
	completed := run(t, variables, "__complete", "notices", "test", "")
	if completed.stdout != "ann\nops\nspare\n:4\n" {
		t.Errorf("the shell completes %q", completed.stdout)
	}
}

// A node tells a dead letter and a test, and shows neither the URL nor the token. Both go to the queue of notices.
// Such a node works it, although it is not among its --queue.
func TestServeSendsNotices(t *testing.T) {
	t.Parallel()
	const canary = "cAnAry7x"
	box := newMailbox(t)
	url := storetest.URL(t)
	variables := []string{"DATABASE_URL=" + url}
	p := start(t, append(variables, "TASKTABLE_LOG_LEVEL=debug", "TASKTABLE_WEBHOOK_ALLOW=127.0.0.1",
		"TASKTABLE_NOTICE_TARGETS=ops=ntfy:"+box.URL+"/"+canary, "TASKTABLE_NOTICE_TOKENS=ops="+canary), "serve",
		"--environment=staging 2", "--dashboard-url=https://tasks.example.org/board", "--queue=default=1")
	run(t, variables, "notices", "recipients", "set", "ops", "--target=ops").want(t, exitOK)
	run(t, variables, "notices", "set", "dead", "--event=failed", "--to=ops", "--digest=1s").want(t, exitOK)
	// A notice that is scheduled before the watch would not be in the queue of notices.
	ask(t, url, `SELECT queue FROM tasktable.scheduled_tasks WHERE id = 'notice-watch' AND cron IS NOT NULL`, "notices")
	tested := run(t, variables, "notices", "test", "ops", "--wait=1m")
	tested.want(t, exitOK)
	if !strings.Contains(tested.stdout, "COMPLETED") {
		t.Errorf("the test says %s", tested.stdout)
	}
	box.gets(func(one letter) bool {
		return one.path == "/"+canary && strings.Contains(one.header, "Authorization: Bearer "+canary+"\r\n") &&
			one.body == "Notices reach ops."
	}, nil)
	execute(t, url, `SELECT tasktable.schedule('{"type": "HTTP_REQUEST", "url": "http://10.0.0.1"}', id => 'order-42')`)
	box.gets(func(one letter) bool {
		return strings.Contains(one.body, "1 failed.\n") && strings.Contains(one.body, "Environment: staging 2") &&
			strings.Contains(one.body, "\nhttps://tasks.example.org/board/tasks/order-42\n")
	}, nil)
	ask(t, url, `SELECT string_agg(DISTINCT queue, ' ') FROM tasktable.scheduled_tasks WHERE id <> 'order-42'`, "notices")
	run(t, variables, "notices", "recipients", "set", "lost", "--target=nowhere").want(t, exitOK)
	run(t, variables, "notices", "test", "lost", "--wait=1m").want(t, exitFailed, "the test was not sent")
	got := p.stop("NOTICE")
	if strings.Contains(got.stderr+tested.stdout, canary) {
		t.Errorf("shows a secret:\n%s", got.stderr)
	}
	ask(t, url, `SELECT count(*)::text FROM tasktable.scheduled_tasks AS t WHERE t::text LIKE '%`+canary+`%'`, "0")
}

func TestQueuesOfANodeThatSendsNotices(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		queue       string
		given, want map[string]int
	}{
		{"notices", map[string]int{"default": 20}, map[string]int{"default": 20, "notices": 2}},
		{"notices", map[string]int{"notices": 5}, map[string]int{"notices": 5}},
		{"default", map[string]int{"mail": 5}, map[string]int{"mail": 5}},
	} {
		settings := noticeSettings{queue: test.queue}
		if got := settings.queues(test.given); !maps.Equal(got, test.want) {
			t.Errorf("--notice-queue %s and --queue %v: %v", test.queue, test.given, got)
		}
	}
}
