package statement_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers/statement"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/storetest"
)

// Each statement runs on a node, beside the others.
func TestTheEngineRunsStatements(t *testing.T) {
	t.Parallel()
	role := storetest.Role(t)
	pool := shop(t)
	mustExec(t, pool, `GRANT USAGE ON SCHEMA public TO `+role+`; GRANT SELECT ON sessions TO `+role)
	runNode(t, pool, map[string]statement.Statement{
		"old": {SQL: "DELETE FROM sessions WHERE seen_at < now() - @age", Params: map[string]string{"age": "interval"}},
		"list": {SQL: "SELECT id, id > 1 AS more, note, NULL AS nothing, jsonb_build_object('a', id) AS doc, 'NaN'::float8 AS n " +
			"FROM sessions ORDER BY id", Rows: 2, ReadOnly: true},
		"writes":    {SQL: "INSERT INTO sessions VALUES (100)", ReadOnly: true},
		"forbidden": {SQL: "INSERT INTO sessions VALUES (101)", Role: role},
		"who":       {SQL: "SELECT current_user::text AS who FROM sessions", Role: role, Rows: 1},
		"nobody":    {SQL: "SELECT 1", Role: "nobody_of_this_name"},
		"slow":      {SQL: "SELECT pg_sleep(1000)", Timeout: 200 * time.Millisecond},
		"typo":      {SQL: "SELEC 1"},
		"twice":     {SQL: "INSERT INTO sessions VALUES (102); INSERT INTO sessions VALUES (103)"},
		"exists":    {SQL: "INSERT INTO sessions VALUES (5, now(), 'cAnAry')"},
		"commits":   {SQL: "DO $$ BEGIN INSERT INTO sessions VALUES (104); COMMIT; END $$"},
		"many":      {SQL: "SELECT repeat('x', 1000) AS x FROM generate_series(1, 500)", Rows: 1000},
	})
	for name, want := range map[string]struct {
		params, status, message, result string
	}{
		"old": {`{"age": "7 days 12 hours"}`, "COMPLETED", "old: 3 rows", `{"rows": 3}`},
		"list": {`{}`, "COMPLETED", "list: ", `"first": [{"n": "NaN", "id": 1, "doc": {"a": 1}, "more": false, "note": "n1", ` +
			`"nothing": null}, {"n": "NaN", "id": 2, "doc": {"a": 2}, "more": true, "note": "n2", "nothing": null}], "truncated": true`},
		"writes":    {`{}`, "FAILED", "statement writes: ERROR: cannot execute INSERT in a read-only transaction", ""},
		"forbidden": {`{}`, "FAILED", "statement forbidden: ERROR: permission denied for table sessions (SQLSTATE 42501)", ""},
		"who":       {`{}`, "COMPLETED", "who: ", `"first": [{"who": "` + role + `"}]`},
		"nobody":    {`{}`, "FAILED", `statement nobody: take the role nobody_of_this_name: ERROR: role "nobody_of_this_name" does not exist`, ""},
		"slow":      {`{}`, "FAILED", "statement slow: ERROR: canceling statement due to statement timeout", ""},
		"typo":      {`{}`, "FAILED", `statement typo: ERROR: syntax error at or near "SELEC"`, ""},
		"twice":     {`{}`, "FAILED", "cannot insert multiple commands", ""},
		"exists":    {`{}`, "FAILED", "duplicate key value violates unique constraint", ""},
		"commits":   {`{}`, "FAILED", "invalid transaction termination", ""},
		"many":      {`{}`, "COMPLETED", "many: 500 rows", `"rows": 500`},
		"absent":    {`{}`, "FAILED", "this node has no statement absent; it has commits, exists, forbidden, list", ""},
	} {
		t.Run(name, func(t *testing.T) {
			scheduleJSON(t, pool, name, fmt.Sprintf(`{"type": "RUN_SQL", "statement": %q, "params": %s}`, name, want.params))
			row := end(t, pool, name)
			if string(row.Status) != want.status || !strings.Contains(message(row), want.message) ||
				!strings.Contains(string(row.Result), want.result) || strings.Contains(message(row), "cAnAry") {
				t.Errorf("%s, %s, %.1000s", row.Status, message(row), row.Result)
			}
			if len(row.Result) > 100<<10 {
				t.Errorf("the result has %d bytes", len(row.Result))
			}
		})
	}
	if n := count(t, pool, "sessions"); n != 7 {
		t.Errorf("%d sessions are left", n)
	}
	mustExec(t, pool, `SELECT tasktable.schedule('{"type": "RUN_SQL", "statement": "absent"}', id => 'tenants', tenant_id => 'acme')`)
	if row := end(t, pool, "tenants"); message(row) != "this node has no statement absent" {
		t.Errorf("a tenant is told: %s", message(row))
	}
	scheduleJSON(t, pool, "by-type", `{"type": "RUN_SQL:old", "params": {"age": "1 day"}}`)
	if row := end(t, pool, "by-type"); row.Status != store.StatusCompleted {
		t.Errorf("%s, %s", row.Status, message(row))
	}
	why, err := inspect.New(store.Config{}).Why(t.Context(), pool, "absent")
	if err != nil || !strings.Contains(why.Sentence, "; no running node has statement absent") {
		t.Errorf("why: %s, %v", why.Sentence, err)
	}
}

// A wrong statement is not tried again, and one that timed out is.
func TestWhichErrorsAreRetried(t *testing.T) {
	t.Parallel()
	pool := shop(t)
	runNode(t, pool, map[string]statement.Statement{
		"slow": {SQL: "SELECT pg_sleep(1000)", Timeout: 200 * time.Millisecond}, "typo": {SQL: "SELECT nothing"},
	})
	for _, name := range []string{"slow", "typo"} {
		task := store.Task{ID: name, Payload: store.JSON(`{"type": "RUN_SQL", "statement": "` + name + `"}`)}
		if _, err := tasks.Schedule(t.Context(), pool, task); err != nil {
			t.Fatal(err)
		}
	}
	if row := end(t, pool, "typo"); row.Attempt != 1 {
		t.Errorf("typo: attempt %d", row.Attempt)
	}
	becomes(t, pool, "slow", func(row store.Row) bool { return row.Status == store.StatusQueued && row.Attempt == 1 })
}

// What the statement wrote and its task's completion are one transaction: where completing is refused, nothing was
// written.
func TestBothCommitOrNeither(t *testing.T) {
	t.Parallel()
	pool := shop(t)
	mustExec(t, pool, `ALTER TABLE tasktable.scheduled_tasks
		ADD CONSTRAINT "not completed" CHECK (id <> 'unsettled' OR status <> 'COMPLETED')`)
	runNode(t, pool, map[string]statement.Statement{"add": {SQL: "INSERT INTO sessions VALUES (@id)",
		Params: map[string]string{"id": "bigint"}}})
	scheduleJSON(t, pool, "unsettled", `{"type": "RUN_SQL", "statement": "add", "params": {"id": 100}}`)
	if row := end(t, pool, "unsettled"); row.Status != store.StatusFailed || !strings.Contains(message(row), "not completed") {
		t.Errorf("%s, %s", row.Status, message(row))
	}
	if n := count(t, pool, "sessions"); n != 10 {
		t.Errorf("%d sessions", n)
	}
	scheduleJSON(t, pool, "settled", `{"type": "RUN_SQL", "statement": "add", "params": {"id": 100}}`)
	if row := end(t, pool, "settled"); row.Status != store.StatusCompleted || count(t, pool, "sessions") != 11 {
		t.Errorf("%s, %s", row.Status, message(row))
	}
}
