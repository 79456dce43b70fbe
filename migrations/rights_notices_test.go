package migrations_test

import (
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store"
)

const someRuleSQL = `
	INSERT INTO tasktable.notice_recipients (name, target) VALUES ('ops', 'ops');
	INSERT INTO tasktable.notice_rules (name, events) VALUES ('dead', '{failed}');
	INSERT INTO tasktable.notice_rule_recipients VALUES ('dead', 'ops')`

// The role of nodes writes the rules, and makes notices when it settles.
func TestTheEngineMakesNotices(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	r := newRights(ctx, t)
	apply(ctx, t, r.engine, someRuleSQL)
	apply(ctx, t, r.engine, `INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt,
		scheduled_at, finished_at, outcome) VALUES (-1, 'one', 'TEST', 1, 1, now(), '2035-05-01 09:00Z', 'FAILED')`)
	same(t, "notices", ids(ctx, t, r.engine), "notice/dead/ops/2035-05-01T09:01:00Z")
}

// An application of a service, and a tenant, can neither make a notice nor take the id of one.
func TestNobodyForgesANotice(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	s := newServices(ctx, t)
	for name, forge := range map[string]func() (any, error){
		"the id": func() (any, error) { return s.mailTasks.Schedule(ctx, s.mailer, task("notice/dead/ops/1", 1)) },
		"the id of the watch": func() (any, error) {
			return s.mailTasks.Schedule(ctx, s.mailer, task("notice-watch", 1))
		},
		"the type": func() (any, error) {
			return s.mailTasks.Schedule(ctx, s.mailer, store.Task{ID: "x", Payload: store.JSON(
				`{"type": "NOTICE", "recipient": "ops", "test": true}`)})
		},
		"an edit": func() (any, error) {
			succeeds(t)(s.mailTasks.Schedule(ctx, s.mailer, task("plain", 1)))
			return s.mailTasks.Schedule(ctx, s.mailer, store.Task{ID: "plain", Payload: store.JSON(`{"type": "NOTICE_WATCH"}`)})
		},
	} {
		if _, err := forge(); !isDenied(err) || !strings.Contains(err.Error(), "would be a notice") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, table := range []string{"notice_rules", "notice_recipients", "notice_causes", "notice_episodes"} {
		refused(ctx, t, s.mailer, `SELECT FROM tasktable.`+table)
	}
	if _, err := s.mailTasks.Schedule(ctx, s.engine, task("notice/dead/ops/1", 1)); err != nil {
		t.Errorf("the engine: %v", err)
	}
	same(t, "tasks", ids(ctx, t, s.mailer), "notice/dead/ops/1 plain")
}
