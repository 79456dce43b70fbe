package dashboard_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/scheduled/dashboard"
	"github.com/tasktable/tasktable/store"
)

// soon is when the tasks of these tests are due. No node runs them.
var soon = time.Now().UTC().Truncate(time.Hour).Add(24 * time.Hour)

// plain is a task of the type LOG.
func plain(id string) store.Task {
	return store.Task{ID: id, Payload: store.JSON(`{"type": "LOG"}`), At: soon}
}

// inStatus makes a task of a status, as the engine leaves it.
func (b *board) inStatus(id string, status store.Status) {
	b.Helper()
	b.schedule(plain(id))
	switch status {
	case store.StatusQueued:
	case store.StatusExecuting:
		b.asEngine(`UPDATE tasktable.scheduled_tasks SET status = 'EXECUTING', attempt = 1, next_attempt_at = NULL,
			fence = nextval('tasktable.task_numbers'), lease_expires_at = now() + interval '1 hour',
			started_at = now() WHERE id = $1`, id)
	case store.StatusPaused:
		b.must(b.tasks.Pause(b.Context(), b.pool, id))
	default:
		b.asEngine(`UPDATE tasktable.scheduled_tasks SET status = $2, next_attempt_at = NULL, finished_at = now(),
			message = 'oh' WHERE id = $1`, id, status)
	}
}

func TestTasksFilter(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.schedule(store.Task{ID: "a", Payload: store.JSON(`{"type": "MAIL"}`), At: soon, Queue: "mails", Priority: 7,
		Entity: "event:1", TenantID: "acme"})
	b.schedule(store.Task{ID: "b", Payload: store.JSON(`{"type": "LOG"}`), At: soon.Add(time.Hour)})
	b.inStatus("failed", store.StatusFailed)
	b.inStatus("archived", store.StatusFailed)
	b.inStatus("done", store.StatusCompleted)
	b.exec(`SELECT tasktable.archive('archived', 'seen to')`)
	b.asEngine(`UPDATE tasktable.scheduled_tasks SET message = E'no route to host\nand more' WHERE id = 'failed'`)
	b.asEngine(`UPDATE tasktable.scheduled_tasks SET finished_at = now() - interval '3 days' WHERE id = 'done'`)
	for query, want := range map[string]string{
		"":                                 "a b",
		"order=-scheduled_at":              "b failed done archived a",
		"order=id":                         "a archived b done failed",
		"order=-id":                        "failed done b archived a",
		"order=scheduled_at":               "a archived done failed b",
		"order=finished_at&status=FAILED":  "failed archived",
		"status=queued&status=&order=id":   "a b",
		"status=QUEUED,COMPLETED&order=id": "a b done",
		"archived=false&status=FAILED":     "failed",
		"finished_from=-1d&order=id":       "archived failed",
		"finished_to=-1d":                  "done",
		"scheduled_from=" + soon.Add(time.Minute).Format("2006-01-02T15:04"):        "b",
		"order=id&scheduled_to=" + soon.Add(time.Minute).Format("2006-01-02T15:04"): "a archived done failed",
	} {
		got := b.get("/tasks?"+query).wants(t, http.StatusOK)
		if text := strings.Join(got.ids(), " "); text != want {
			t.Errorf("%s: %q, want %q", query, text, want)
		}
	}
	b.get("/tasks?order=id").wants(t, http.StatusOK, "5 tasks", "priority 7", "event:1", "acme", "no route to host",
		`aria-sort="ascending"`).lacks(t, "and more", "<details open")
	b.get("/tasks?entity=x").wants(t, http.StatusOK, "No task matches.", "<summary>More filters", `<details open`)
	b.get("/tasks?status=FAILED&order=-finished_at").wants(t, http.StatusOK, `aria-current="page">Failed <span class="faint">2</span></a>`)
}

// The list begins with what runs, and then has what is due next, and not the latest time of the table.
func TestTasksBeginWithWhatRuns(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.must(b.tasks.PauseScope(t.Context(), b.pool, store.Queue("stopped"), time.Time{}, ""))
	payload := store.JSON(`{"type": "LOG"}`)
	b.schedule(store.Task{ID: "far", Payload: payload, At: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)})
	b.schedule(store.Task{ID: "next", Payload: payload, At: soon})
	for i := range 105 { // they are due before what runs
		b.schedule(store.Task{ID: fmt.Sprintf("late-%03d", i), Queue: "stopped", Payload: payload,
			At: time.Now().Add(-time.Hour + time.Duration(i)*time.Second)})
	}
	b.schedule(store.Task{ID: "recurs", Payload: payload, At: time.Now().Add(-2 * time.Hour), Recurrence: &store.Recurrence{Cron: "@yearly"}})
	b.exec(`UPDATE tasktable.scheduled_tasks SET planned_revision = revision, next_attempt_at = now() + interval '1 day' WHERE id = 'recurs'`)
	b.inStatus("ended", store.StatusCompleted)
	b.inStatus("runs", store.StatusExecuting)
	first := b.get("/tasks").wants(t, http.StatusOK, `aria-current="page">Now and next</a>`, "Waiting <span class=\"faint\">108</span>",
		`Running <span class="faint">1</span>`, `Failed <span class="faint">0</span>`)
	if ids := first.ids(); len(ids) != 101 || ids[0] != "runs" || ids[1] != "late-000" || ids[100] != "recurs" {
		t.Errorf("the first page begins with %q, of %d", ids[:2], len(ids))
	}
	rest := b.get(first.next()).wants(t, http.StatusOK)
	if ids := strings.Join(rest.ids(), " "); !strings.HasSuffix(ids, " far") || !strings.Contains(ids, " next ") || strings.Contains(ids, "ended") {
		t.Errorf("the next page has %s", ids)
	}
}

// A task that is claimed ahead of its time shows neither the start nor the error of the attempt before.
func TestClaimedTaskShowsNoFormerAttempt(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.inStatus("runs", store.StatusExecuting)
	b.asEngine(`UPDATE tasktable.scheduled_tasks SET message = 'host does not answer', started_at = '2026-01-02 03:04:05Z',
		started_fence = fence - 1 WHERE id = 'runs'`)
	b.get("/tasks?status=EXECUTING").wants(t, http.StatusOK, "runs").lacks(t, "host does not answer", "started", "03:04:05")
	page := b.get("/tasks/runs").wants(t, http.StatusOK, "Message of the attempt before", "host does not answer")
	if strings.Contains(page.text, "<dt>started_at</dt>") {
		t.Error("the fields have the start of the attempt before")
	}
	b.asEngine(`UPDATE tasktable.scheduled_tasks SET started_fence = fence WHERE id = 'runs'`)
	b.get("/tasks?status=EXECUTING").wants(t, http.StatusOK, "started", "03:04:05").lacks(t, "host does not answer")
}

func TestTasksFilterIsInTheZone(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.schedule(store.Task{ID: "noon", Payload: store.JSON(`{"type": "LOG"}`),
		At: time.Date(2030, 7, 1, 12, 0, 0, 0, time.UTC)})
	b.post("/look", "zone", "Asia/Tokyo", "theme", "", "back", "/tasks").wants(t, http.StatusOK)
	for query, want := range map[string]int{"scheduled_from=2030-07-01+21:00": 1, "scheduled_from=2030-07-01+21:01": 0} {
		if got := b.get("/tasks?"+query).wants(t, http.StatusOK).ids(); len(got) != want {
			t.Errorf("%s: %q", query, got)
		}
	}
}

func TestTasksFilterIsChecked(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.schedule(plain("a"))
	for query, want := range map[string]string{
		"type=x":                   "It must be 2 to 127 letters",
		"status=LATE":              "It must be one or several of QUEUED, EXECUTING",
		"entity=%00":               "It must be at most 512 bytes",
		"tenant=%ff":               "It must be at most 512 bytes",
		"scheduled_from=soon":      "It must be a time, such as",
		"finished_from=2026-02-30": "It must be a time, such as",
		"order=type":               "It must be scheduled_at, finished_at or id",
		"after=x":                  "It must be that of the page before.",
	} {
		got := b.get("/tasks?"+query).wants(t, http.StatusUnprocessableEntity, want, "no task is listed")
		if len(got.ids()) > 0 {
			t.Errorf("%s lists tasks", query)
		}
	}
	b.get("/tasks?type=x").wants(t, http.StatusUnprocessableEntity, `name="type" value="x" list="types" aria-invalid="true"`)
}

func TestTasksPages(t *testing.T) {
	t.Parallel()
	b := newAdmin(t, func(c *dashboard.Config) { c.Prefix = "/admin/tasks" })
	b.exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, scheduled_at)
		SELECT 't' || i, '{"type": "LOG"}', now() + i / 7 * interval '1 minute' FROM generate_series(1, 250) AS i`)
	b.asEngine(`UPDATE tasktable.scheduled_tasks SET status = 'COMPLETED', next_attempt_at = NULL, finished_at = now()`)
	for _, order := range []string{"", "scheduled_at", "-finished_at", "finished_at", "id", "-id"} {
		path, seen := "/tasks?type=LOG&order="+order, []string{}
		for pages := 1; ; pages++ {
			got := b.get(path).wants(t, http.StatusOK)
			seen = append(seen, got.ids()...)
			next := got.next()
			if next == "" || pages > 3 {
				// Without the number of all, because a busy machine may not count them in time (TestTasksAreCounted).
				got.wants(t, http.StatusOK, "Showing 50 ", "First page")
				break
			}
			path = strings.TrimPrefix(next, "/admin/tasks")
		}
		slices.Sort(seen)
		if n := len(slices.Compact(slices.Clone(seen))); n != 250 || len(seen) != 250 {
			t.Errorf("%q: %d tasks in pages, %d of them different", order, len(seen), n)
		}
	}
}

// Counting has a limit, and a time that a busy machine may exceed.
func TestTasksAreCounted(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, scheduled_at)
		SELECT 't' || i, '{"type": "LOG"}', now() FROM generate_series(1, 10001) AS i`)
	b.exec(`VACUUM ANALYZE tasktable.scheduled_tasks`)
	const want = "Showing 100; more than 10 000 match."
	eventually(t, "the page has not counted", func() bool { return strings.Contains(b.get("/tasks").words(), want) })
}

// Who is signed in by a key that is bound to types does no more here than by the API.
func TestTasksForABoundKey(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	secret, _, err := keys.New(keys.Config{}).Create(t.Context(), b.pool, keys.NewKey{
		Name: "bob", Scopes: []keys.Scope{keys.Read, keys.Schedule, keys.Operate}, Types: []string{"LOG"},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.post("/sign-in", "key", secret).wants(t, http.StatusOK)
	task := plain("a")
	task.Payload = store.JSON(`{"type": "EXEC"}`)
	b.schedule(task)
	seen := fmt.Sprintf("%d QUEUED a", b.row("a").Revision)
	const says = "is of the type EXEC: the key must not change such tasks."
	b.post("/tasks/act", "verb", "cancel", "task", seen, "confirmed", "1").wants(t, http.StatusForbidden, says)
	b.post("/schedule", "type", "EXEC", "id", "b").wants(t, http.StatusForbidden, says)
	b.post("/queues/pause", "kind", "queue", "name", "default").wants(t, http.StatusForbidden, "must not pause, resume or limit it, or set its defaults.")
	b.post("/schedule", "type", "LOG", "id", "c").wants(t, http.StatusOK, "Scheduled the task.")
	if b.row("a").Status != store.StatusQueued {
		t.Error("the task was cancelled")
	}
}

// Who may schedule cannot keep people from being told, nor send them messages. An admin can.
func TestNoticesAreTheEngines(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	for _, id := range []string{"notice-watch", "notice/dead/ops/1"} {
		task := plain(id)
		task.Payload = store.JSON(`{"type": "NOTICE", "recipient": "ops"}`)
		b.schedule(task)
	}
	b.schedule(plain("a"))
	b.signIn("bob", keys.Read, keys.Schedule, keys.Operate)
	const says = "To change one needs the scope admin."
	for _, id := range []string{"notice-watch", "notice/dead/ops/1"} {
		seen := fmt.Sprintf("%d QUEUED %s", b.row(id).Revision, id)
		revision := b.revision(id)
		b.post("/tasks/act", "verb", "cancel", "task", seen, "confirmed", "1").wants(t, http.StatusForbidden, says)
		for _, verb := range []string{"cancel", "pause", "delete", "edit"} {
			b.post("/tasks/"+url.PathEscape(id)+"/"+verb, "revision", revision, "confirmed", "1").
				wants(t, http.StatusForbidden, says)
		}
		b.post("/recurring/"+url.PathEscape(id)+"/cancel", "revision", revision, "confirmed", "1").
			wants(t, http.StatusForbidden, says)
	}
	b.post("/schedule", "type", "NOTICE", "payload", `{"recipient": "ops", "test": true}`).
		wants(t, http.StatusForbidden, says)
	b.post("/schedule", "type", "LOG", "id", "notice/x").wants(t, http.StatusForbidden, says)
	b.post("/tasks/act", "verb", "cancel", "all", "1", "filter", "", "confirmed", "1", "back", "/tasks").
		wants(t, http.StatusOK, "1 task is cancelled")
	for id, want := range map[string]store.Status{"notice-watch": store.StatusQueued,
		"notice/dead/ops/1": store.StatusQueued, "a": store.StatusCancelled} {
		if got := b.row(id).Status; got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
	b.signIn("root", keys.Scopes()...)
	seen := fmt.Sprintf("%d QUEUED notice-watch", b.row("notice-watch").Revision)
	b.post("/tasks/act", "verb", "cancel", "task", seen, "confirmed", "1", "back", "/tasks").
		wants(t, http.StatusOK, "1 task is cancelled")
}

func TestTasksOfATenant(t *testing.T) {
	t.Parallel()
	b := newTenant(t)
	for _, tenant := range []string{"acme", "globex"} {
		task := plain("of-" + tenant)
		task.TenantID = tenant
		b.schedule(task)
	}
	got := b.get("/tasks").wants(t, http.StatusOK)
	if ids := got.ids(); !slices.Equal(ids, []string{"of-acme"}) {
		t.Fatalf("the tenant sees %q", ids)
	}
	got.lacks(t, "globex")
	b.get("/search?q=of-globex").wants(t, http.StatusOK, "No task matches.")
	seen := func(id string) string { return fmt.Sprintf("%d QUEUED %s", b.row(id).Revision, id) }
	b.post("/tasks/act", "verb", "cancel", "task", seen("of-acme"), "task", seen("of-globex"), "confirmed", "1",
		"back", "/tasks").wants(t, http.StatusOK, "1 task is cancelled; 1 task had changed meanwhile and was left alone")
	if b.row("of-acme").Status != store.StatusCancelled || b.row("of-globex").Status != store.StatusQueued {
		t.Error("the tenant cancelled the wrong task")
	}
	b.get("/schedule").wants(t, http.StatusOK).lacks(t, `name="tenant"`)
	b.post("/schedule", "id", "of-globex", "type", "LOG", "tenant", "globex").
		wants(t, http.StatusUnprocessableEntity, "another tenant")
	b.post("/schedule", "id", "new", "type", "LOG", "tenant", "globex")
	if row := b.row("new"); row.TenantID == nil || *row.TenantID != "acme" {
		t.Errorf("the new task is of %v", row.TenantID)
	}
}
