package dashboard_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store"
)

// seen is the value of the box of a task, as a list shows it now.
func (b *board) seen(id string) string {
	b.Helper()
	row := b.row(id)
	return fmt.Sprintf("%d %s %s", row.Revision, row.Status, id)
}

// confirm sends the form of a page that asks.
func (b *board) confirm(asked reply, fields ...string) reply {
	b.Helper()
	form := url.Values{}
	for _, found := range hiddenField.FindAllStringSubmatch(asked.text, -1) {
		form.Add(found[1], html.UnescapeString(found[2]))
	}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return b.send(http.MethodPost, "/tasks/act", form, "Content-Type", "application/x-www-form-urlencoded")
}

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([a-z]+)" value="([^"]*)">`)

// sorted sorts words.
func sorted(words string) string {
	parts := strings.Fields(words)
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// Each verb on a task of each status: what the question says, what the sentence says, and which tasks were changed.
func TestBulkVerbs(t *testing.T) {
	t.Parallel()
	const none = "COMPLETED SKIPPED CANCELLED"
	for verb, want := range map[string]struct{ asks, told, changed string }{
		"cancel": {"the context of the handler ends", "Cancelled 3 tasks; 1 was cancelled already; 4 had ended already.",
			"QUEUED PAUSED EXECUTING"},
		"pause": {"A retry waits for the resume.", "Paused 2 tasks; 1 was paused already; 5 had ended already.",
			"QUEUED EXECUTING"},
		"resume": {"for the time they had", "Resumed 1 task; 2 were not paused; 5 had ended already.", "PAUSED"},
		"run_now": {"run again at once", "Queued 7 tasks to run now; 1 was running and runs once more.",
			"QUEUED PAUSED EXECUTING FAILED EXPIRED " + none},
		"retry": {"with all their attempts", "Queued 2 tasks to be tried again; 4 were no dead letters; 2 had ended already.",
			"FAILED EXPIRED"},
		"archive": {"marked as dealt with", "Archived 2 tasks; 6 were archived already or were no dead letters.",
			"FAILED EXPIRED"},
		"delete": {"A node has claimed them", "Deleted 7 tasks; 1 was running and was left alone.",
			"QUEUED PAUSED FAILED EXPIRED " + none},
	} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			b := newAdmin(t)
			fields := []string{"verb", verb, "back", "/tasks?order=id"}
			for _, status := range store.Statuses() {
				b.inStatus(string(status), status)
				fields = append(fields, "task", b.seen(string(status)))
			}
			asked := b.post("/tasks/act", fields...).wants(t, http.StatusOK, "8 tasks?", want.asks, "data-still")
			if got := b.changedBy("ann"); got != "" {
				t.Fatalf("the question has changed %s", got)
			}
			got := b.confirm(asked).wants(t, http.StatusOK, want.told)
			if got.path != "/tasks?order=id" {
				t.Errorf("led to %s", got.path)
			}
			if got := b.changedBy("ann"); got != sorted(want.changed) {
				t.Errorf("changed %s, want %s", got, sorted(want.changed))
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
		"Changed since the list was drawn, and therefore left alone: before .", `href="/tasks/before"`)
	b.exec(`SELECT tasktable.reschedule('between', now() + interval '2 days')`)
	b.exec(`SELECT tasktable.delete('deleted')`)
	b.asEngine(`UPDATE tasktable.scheduled_tasks SET status = 'COMPLETED', next_attempt_at = NULL, finished_at = now()
		WHERE id = 'ended'`)
	b.asEngine(`UPDATE tasktable.scheduled_tasks SET status = 'EXECUTING', next_attempt_at = NULL,
		fence = nextval('tasktable.task_numbers'), lease_expires_at = now() + interval '1 hour' WHERE id = 'started'`)
	got := b.confirm(asked).wants(t, http.StatusOK,
		"Cancelled 2 tasks; 1 had ended already; 3 were changed meanwhile and left alone: before , between , deleted")
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
		b.confirm(asked).wants(t, http.StatusOK, "0 tasks", "1 was changed meanwhile and left alone: a")
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
	b.confirm(asked).wants(t, http.StatusOK, "Paused 1 000 tasks.")
	asked = b.post("/tasks/act", "verb", "pause", "all", "1", "filter", "?type=LOG", "back", "/tasks").
		wants(t, http.StatusOK, "Pause 5 tasks?").lacks(t, "More than")
	b.confirm(asked).wants(t, http.StatusOK, "Paused 5 tasks")
	b.get("/tasks?status=QUEUED").wants(t, http.StatusOK, "1 task", "other")
	b.post("/tasks/act", "verb", "pause", "all", "1", "filter", "type=LOG").
		wants(t, http.StatusUnprocessableEntity, "No task matches on which pause works.")
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
	b.confirm(asked).wants(t, http.StatusOK, "Cancelled 1 task; 1 was changed meanwhile and left alone: b")
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
	for want, fields := range map[string][]string{
		"The field verb must be":             {"verb", "burn", "task", b.seen("a"), "confirmed", "1"},
		"No task is selected.":               {"verb", "cancel", "confirmed", "1"},
		"Select at most 1 000 tasks.":        many,
		"The field task must be":             {"verb", "cancel", "task", "a", "confirmed", "1"},
		"The field task must be a revision":  {"verb", "cancel", "task", "x QUEUED a", "confirmed", "1"},
		"must be a revision, a status":       {"verb", "cancel", "task", "1 LATE a", "confirmed", "1"},
		"It must be a time, such as":         {"verb", "pause", "task", b.seen("a"), "until", "soon", "confirmed", "1"},
		"It must be a time to come.":         {"verb", "pause", "task", b.seen("a"), "until", "-1h", "confirmed", "1"},
		"It must be at most 4096 bytes of U": {"verb", "archive", "task", b.seen("dead"), "note", strings.Repeat("x", 4097), "confirmed", "1"},
	} {
		b.post("/tasks/act", fields...).wants(t, http.StatusUnprocessableEntity, want)
	}
	if got := b.changedBy("ann"); got != "" {
		t.Errorf("changed %s", got)
	}
	b.post("/tasks/act", "verb", "pause", "task", b.seen("a"), "until", "+1h", "confirmed", "1", "back", "/tasks").
		wants(t, http.StatusOK, "Paused 1 task: a")
	if row := b.row("a"); row.PausedUntil == nil {
		t.Error("the pause has no end")
	}
	b.post("/tasks/act", "verb", "archive", "task", b.seen("dead"), "note", "told them", "confirmed", "1")
	if row := b.row("dead"); row.ArchivedNote == nil || *row.ArchivedNote != "told them" {
		t.Error("the dead letter has no note")
	}
}

// changedBy returns the ids of the tasks that somebody has changed.
func (b *board) changedBy(name string) string {
	b.Helper()
	var ids []string
	err := b.pool.QueryRow(b.Context(), `SELECT coalesce(array_agg(DISTINCT task_id ORDER BY task_id), '{}')
		FROM tasktable.scheduled_task_changes WHERE changed_by = $1`, name).Scan(&ids)
	if err != nil {
		b.Fatal(err)
	}
	return sorted(strings.Join(ids, " "))
}
