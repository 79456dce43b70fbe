package dashboard_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/dashboard"
	"github.com/tasktable/tasktable/store"
)

// pauses returns the pauses that hold, as scope, author and reason.
func (b *board) pauses() (found []string) {
	b.Helper()
	pauses, err := b.tasks.Pauses(b.Context(), b.pool)
	if err != nil {
		b.Fatal(err)
	}
	for _, pause := range pauses {
		text := pause.Of().String() + " by " + pause.PausedBy
		if pause.EndsAt != nil {
			text += " until " + pause.EndsAt.UTC().Format(time.RFC3339)
		}
		if pause.Reason != nil {
			text += ": " + *pause.Reason
		}
		found = append(found, text)
	}
	return found
}

func (b *board) wantPauses(want ...string) {
	b.Helper()
	if got := b.pauses(); !slices.Equal(got, want) {
		b.Fatalf("the pauses are %q, want %q", got, want)
	}
}

func TestQueues(t *testing.T) {
	t.Parallel()
	b := newBoard(t, as("ann", dashboard.All&^dashboard.Admin, ""))
	b.get("/queues").wants(t, http.StatusOK, "In no queue does a task wait or run", "Nothing is paused here.")
	number := b.node("events", "v1", `{"default": 1}`, `{TEST}`, true)
	now := time.Now()
	b.schedule(task("runs "+markup, "TEST", now.Add(-time.Hour)))
	b.schedule(task("waits", "TEST", now.Add(-time.Hour)))
	lost := task("lost", "TEST", now.Add(-2*time.Hour))
	lost.Queue, lost.Priority = "mail", -100
	b.schedule(lost)
	b.asEngine(`UPDATE tasktable.scheduled_tasks SET status = 'EXECUTING', fence = 1, started_fence = 1, node = $1,
		started_at = clock_timestamp() - interval '12 minutes', next_attempt_at = NULL,
		lease_expires_at = clock_timestamp() + interval '1 hour' WHERE id LIKE 'runs%'`, number)
	b.get("/queues").wants(t, http.StatusOK,
		"default The only slot is busy. One task has run for 12 min. The oldest due task has waited for 1 h. 1 1 h ago 0 1 of 1 slots",
		"mail No node works this queue. The oldest due task has waited for 2 h. 1 2 h ago 0 0, no slots",
		`max="1" value="1"`, `aria-label="1 of 1 slots of default"`, `href="/tasks/runs%20%3Cscript%3E`).lacks(t, markup)
}

func TestQueuePages(t *testing.T) {
	t.Parallel()
	b := newBoard(t, as("ann", dashboard.Read, ""))
	b.get("/queues/mail").wants(t, http.StatusOK, "Queue mail", "No node works this queue.", "No task waits or runs in this queue.")
	b.get("/queues/Not%20a%20queue").wants(t, http.StatusUnprocessableEntity, "queue")
	one := task("one", "KIND_A", time.Now().Add(-time.Hour))
	one.Queue, one.Priority = "mail", 7
	b.schedule(one)
	b.must(b.tasks.PauseScope(t.Context(), b.pool, store.Type("KIND_A"), time.Time{}, markup))
	b.get("/queues/mail").wants(t, http.StatusOK, "KIND_A 7 Type KIND_A is paused by test: &lt;script&gt;",
		"Type KIND_A", "somebody resumes it").lacks(t, markup, "<form method=\"post\" action=\"/queues", "Pause …")
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	b := newBoard(t, as("ann", dashboard.All&^dashboard.Admin, ""))
	b.post("/look", "zone", "Europe/Berlin", "theme", "", "back", "/queues")
	b.get("/queues?pause=type:SEND_EMAIL").wants(t, http.StatusOK, `value="SEND_EMAIL"`, `<option value="type" selected>`,
		"Until (Europe/Berlin)")
	b.post("/queues/pause", "kind", "queue", "name", " mail ", "until", "2100-01-31T12:00", "reason", "it moves", "back",
		"/queues").wants(t, http.StatusOK, "Queue mail is paused. No node works this queue, and no task waits in it.", "it moves")
	b.wantPauses("queue:mail by ann until 2100-01-31T11:00:00Z: it moves")
	b.post("/queues/pause", "kind", "type", "name", "SEND_EMAIL", "back", "/queues").
		wants(t, http.StatusOK, "Type SEND_EMAIL is paused. No node has this type")
	b.refuses("/queues/pause", map[string][]string{
		"queue":                       {"kind", "queue", "name", "Not a queue"},
		"type":                        {"kind", "type", "name", "?"},
		"Kind must be":                {"kind", "", "name", "mail"},
		"Until must be a time, such":  {"kind", "queue", "name", "x", "until", "soon"},
		"Until must be a time to com": {"kind", "queue", "name", "x", "until", "2020-01-01T00:00"},
		"Reason must be":              {"kind", "queue", "name", "x", "reason", "a\x00b"},
	})
	b.post("/queues/resume", "scope", "mail").wants(t, http.StatusUnprocessableEntity, "scope")
	b.wantPauses("queue:mail by ann until 2100-01-31T11:00:00Z: it moves", "type:SEND_EMAIL by ann")
	b.post("/queues/resume", "scope", "queue:mail", "paused_at", "2020-01-01T00:00:00Z").
		wants(t, http.StatusConflict, "ann has paused this anew since you saw it. Nothing was done.")
	seen := b.get("/queues").field(t, "paused_at")
	b.post("/queues/resume", "scope", "queue:mail", "paused_at", seen, "back", "/queues").
		wants(t, http.StatusOK, "Queue mail is resumed.")
	b.wantPauses("type:SEND_EMAIL by ann")
	b.post("/queues/resume", "scope", "queue:mail", "paused_at", seen, "back", "/queues").
		wants(t, http.StatusOK, "Queue mail was not paused any more.")
}

// To pause everything, and to replace somebody's pause, asks first. A confirmation counts only for the pause that the
// person has seen.
func TestPauseAsksFirst(t *testing.T) {
	t.Parallel()
	b := newBoard(t, as("ann", dashboard.All&^dashboard.Admin, ""))
	b.schedule(task("due", "TEST", time.Now().Add(-time.Hour)))
	b.schedule(task("waits", "TEST", time.Now().Add(time.Hour)))
	asked := b.post("/queues/pause", "kind", "all", "reason", markup, "until", "+1h", "back", "/queues").
		wants(t, http.StatusOK, "This pauses all tasks of all services until", "Due now 1:",
			"Waiting 1:", "data-still").lacks(t, markup)
	b.wantPauses()
	confirmed := asked.field(t, "confirmed")
	if until, err := time.Parse(time.RFC3339, asked.field(t, "until")); err != nil || time.Until(until) > time.Hour {
		t.Errorf("until %s: %v", until, err)
	}
	b.must(b.tasks.PauseScope(t.Context(), b.pool, store.Everything(), time.Time{}, "meanwhile"))
	again := b.post("/queues/pause", "kind", "all", "back", "/queues", "confirmed", confirmed).
		wants(t, http.StatusOK, "until somebody resumes it.", "It replaces the pause by test", "meanwhile")
	b.wantPauses("all by test: meanwhile")
	b.post("/queues/pause", "kind", "all", "reason", "mine", "back", "/queues", "confirmed",
		again.field(t, "confirmed")).wants(t, http.StatusOK, "Everything is paused.")
	b.wantPauses("all by ann: mine")
	b.must(b.tasks.PauseScope(t.Context(), b.pool, store.Type("TEST"), time.Time{}, "theirs"))
	b.post("/queues/pause", "kind", "type", "name", "TEST", "back", "/queues").
		wants(t, http.StatusOK, "This pauses Type TEST until", "theirs").lacks(t, "Due now")
	b.wantPauses("all by ann: mine", "type:TEST by test: theirs")
}
