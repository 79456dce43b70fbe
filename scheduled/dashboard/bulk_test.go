package dashboard_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// seen is the value of the box of a task, as a list shows it now.
func (b *board) seen(id string) string {
	b.Helper()
	row := b.row(id)
	return fmt.Sprintf("%d %s %s", row.Revision, row.Status, id)
}

// confirm sends the form of a page that asks.
func (b *board) confirm(asked reply) reply {
	b.Helper()
	return b.post("/tasks/act", asked.hidden()...)
}

// Each verb on a task of each status: the question and the sentence say what the table of verbs says.
func TestBulkVerbs(t *testing.T) {
	t.Parallel()
	for _, rule := range inspect.Verbs() {
		t.Run(string(rule.Verb), func(t *testing.T) {
			t.Parallel()
			b := newAdmin(t)
			fields := []string{"verb", string(rule.Verb), "back", "/tasks?order=id"}
			asks := []string{rule.Label + " 8 tasks?", "data-still"}
			var receipts []store.Receipt
			for _, status := range store.Statuses() {
				b.inStatus(string(status), status)
				fields = append(fields, "task", b.seen(string(status)))
				asks = append(asks, "Each "+rule.EffectOn(status).Text+".")
				receipts = append(receipts, store.Receipt{Outcome: rule.EffectOn(status).Outcome})
			}
			asked := b.post("/tasks/act", fields...).wants(t, http.StatusOK, asks...)
			if got := b.changedBy("ann"); got != "" {
				t.Fatalf("the question has changed %s", got)
			}
			got := b.confirm(asked).wants(t, http.StatusOK, rule.Told("", receipts, 0))
			if got.path != "/tasks?order=id" {
				t.Errorf("led to %s", got.path)
			}
		})
	}
}

// What changed between the list and the question, or between the question and the act, is named and left alone.
func TestBulkLeavesChangedTasksAlone(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	fields := []string{"verb", "cancel", "back", "/tasks"}
	for _, id := range []string{"before", "between", "deleted", "ended", "same", "started"} {
		b.schedule(plain(id))
		fields = append(fields, "task", b.seen(id))
	}
	b.exec(`SELECT tasktable.reschedule('before', now() + interval '2 days')`)
	asked := b.post("/tasks/act", fields...).wants(t, http.StatusOK, "Cancel 5 tasks?",
		"Changed since the list was drawn, and therefore left alone: before", `href="/tasks/before"`)
	b.exec(`SELECT tasktable.reschedule('between', now() + interval '2 days')`)
	b.exec(`SELECT tasktable.delete('deleted')`)
	b.asEngine(`UPDATE tasktable.scheduled_tasks SET status = 'COMPLETED', next_attempt_at = NULL, finished_at = now()
		WHERE id = 'ended'`)
	b.asEngine(`UPDATE tasktable.scheduled_tasks SET status = 'EXECUTING', next_attempt_at = NULL,
		fence = nextval('tasktable.task_numbers'), lease_expires_at = now() + interval '1 hour' WHERE id = 'started'`)
	got := b.confirm(asked).wants(t, http.StatusOK,
		"2 tasks are cancelled; 1 task had ended already; 2 tasks had changed meanwhile and were left alone: between , deleted")
	got.wants(t, http.StatusOK, `<a class="id" href="/tasks/between">between</a>`)
	if got := b.changedBy("ann"); got != "same started" {
		t.Errorf("changed %s", got)
	}
}

// Run now and delete also work on tasks that have ended. The person meant one that waits.
func TestBulkLeavesEndedTasksAlone(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"run_now", "delete"} {
		b := newAdmin(t)
		b.schedule(plain("a"))
		asked := b.post("/tasks/act", "verb", verb, "task", b.seen("a")).wants(t, http.StatusOK)
		b.asEngine(`UPDATE tasktable.scheduled_tasks SET status = 'FAILED', next_attempt_at = NULL, finished_at = now()`)
		b.confirm(asked).wants(t, http.StatusOK, "1 task had changed meanwhile and was left alone: a")
		if row := b.row("a"); row.Status != store.StatusFailed {
			t.Errorf("%s: the task is %s", verb, row.Status)
		}
	}
}

func TestBulkOnAllThatMatch(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, scheduled_at)
		SELECT 't' || i, '{"type": "LOG"}', now() + interval '1 day' FROM generate_series(1, 1005) AS i`)
	b.schedule(store.Task{ID: "other", Payload: store.JSON(`{"type": "MAIL"}`), At: soon})
	b.inStatus("done", store.StatusCompleted)
	asked := b.post("/tasks/act", "verb", "pause", "all", "1", "filter", "?type=LOG", "back", "/tasks").
		wants(t, http.StatusOK, "Pause 1 000 tasks?", "More than 1 000 tasks match.", "The first 50")
	b.confirm(asked).wants(t, http.StatusOK, "1000 tasks are paused.")
	asked = b.post("/tasks/act", "verb", "pause", "all", "1", "filter", "?type=LOG", "back", "/tasks").
		wants(t, http.StatusOK, "Pause 5 tasks?").lacks(t, "More than")
	b.confirm(asked).wants(t, http.StatusOK, "5 tasks are paused")
	b.get("/tasks?status=QUEUED").wants(t, http.StatusOK, "1 task", "other")
	b.post("/tasks/act", "verb", "pause", "all", "1", "filter", "type=LOG").
		wants(t, http.StatusUnprocessableEntity, "No task is selected on which pause works.")
	b.post("/tasks/act", "verb", "pause", "all", "1", "filter", "type=x").
		wants(t, http.StatusUnprocessableEntity, "The filter is not valid.")
}

// A filter that names statuses is about tasks of these statuses alone.
func TestBulkKeepsToTheStatusesOfTheFilter(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.schedule(plain("a"))
	b.schedule(plain("b"))
	asked := b.post("/tasks/act", "verb", "cancel", "all", "1", "filter", "status=QUEUED").wants(t, http.StatusOK)
	b.asEngine(`UPDATE tasktable.scheduled_tasks SET status = 'EXECUTING', next_attempt_at = NULL,
		fence = nextval('tasktable.task_numbers'), lease_expires_at = now() + interval '1 hour' WHERE id = 'b'`)
	b.confirm(asked).wants(t, http.StatusOK, "1 task is cancelled; 1 task had changed meanwhile and was left alone: b")
	if got := b.changedBy("ann"); got != "a" {
		t.Errorf("changed %s", got)
	}
}

func TestBulkArguments(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.schedule(plain("a"))
	b.inStatus("dead", store.StatusFailed)
	many := []string{"verb", "cancel"}
	for i := range 1001 {
		many = append(many, "task", fmt.Sprintf("1 QUEUED t%d", i))
	}
	b.refuses("/tasks/act", map[string][]string{
		"The field verb must be":                     {"verb", "burn", "task", b.seen("a"), "confirmed", "1"},
		"No task is selected on which cancel works.": {"verb", "cancel", "confirmed", "1"},
		"Select at most 1 000 tasks.":                many,
		"The field task must be":                     {"verb", "cancel", "task", "a", "confirmed", "1"},
		"The field task must be a revision":          {"verb", "cancel", "task", "x QUEUED a", "confirmed", "1"},
		"must be a revision, a status":               {"verb", "cancel", "task", "1 LATE a", "confirmed", "1"},
		"It must be a time, such as":                 {"verb", "pause", "task", b.seen("a"), "until", "soon", "confirmed", "1"},
		"It must be a time to come.":                 {"verb", "pause", "task", b.seen("a"), "until", "-1h", "confirmed", "1"},
		"It must be at most 4096 bytes of U":         {"verb", "archive", "task", b.seen("dead"), "note", strings.Repeat("x", 4097), "confirmed", "1"},
	})
	if got := b.changedBy("ann"); got != "" {
		t.Errorf("changed %s", got)
	}
	b.post("/tasks/act", "verb", "pause", "task", b.seen("a"), "until", "+1h", "confirmed", "1", "back", "/tasks").
		wants(t, http.StatusOK, "1 task is paused: a")
	if row := b.row("a"); row.PausedUntil == nil {
		t.Error("the pause has no end")
	}
	b.post("/tasks/act", "verb", "archive", "task", b.seen("dead"), "note", "told them", "confirmed", "1")
	if row := b.row("dead"); row.ArchivedNote == nil || *row.ArchivedNote != "told them" {
		t.Error("the dead letter has no note")
	}
}

// changedBy returns the ids of the tasks that somebody has changed.
func (b *board) changedBy(name string) (ids string) {
	b.Helper()
	err := b.pool.QueryRow(b.Context(), `SELECT coalesce(string_agg(DISTINCT task_id, ' ' ORDER BY task_id), '')
		FROM tasktable.scheduled_task_changes WHERE changed_by = $1`, name).Scan(&ids)
	if err != nil {
		b.Fatal(err)
	}
	return ids
}
