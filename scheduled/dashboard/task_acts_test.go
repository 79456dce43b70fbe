package dashboard_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/dashboard"
	"github.com/tasktable/tasktable/store"
)

func TestTaskVerbs(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.schedule(store.Task{ID: "one", Payload: reminder{EventID: "one"}, At: may2030})
	b.send("POST", "/look", map[string][]string{"zone": {"Europe/Berlin"}})
	b.get("/tasks/one").wants(t, 200, "2030-05-01 18:00:05 CEST", `value="2030-05-01T18:00:05"`, `name="zone" value="Europe/Berlin"`)
	post := func(verb string, fields ...string) reply {
		t.Helper()
		return b.post("/tasks/one/"+verb, append(fields, "revision", b.revision("one"), "status", string(b.row("one").Status))...)
	}
	post("move", "at", "2030-07-01T10:00", "zone", "Europe/Berlin").wants(t, 200, "one has a new time.", "edited by ann")
	if got := b.row("one").ScheduledAt; !got.Equal(time.Date(2030, 7, 1, 8, 0, 0, 0, time.UTC)) {
		t.Errorf("moved to %s", got)
	}
	for name, c := range map[string]struct {
		verb   string
		fields []string
		want   string
	}{
		"no time":     {"move", nil, "At must be given."},
		"no such":     {"move", []string{"at", "31.2."}, "At must be a time, such as 2026-11-21 18:00"},
		"in a gap":    {"move", []string{"at", "2030-03-31T02:30", "zone", "Europe/Berlin"}, "clocks in Europe/Berlin show"},
		"zone":        {"move", []string{"at", "2030-03-31T02:30", "zone", "Mars"}, "Zone must be an IANA time zone"},
		"too late":    {"move", []string{"at-in", "+9999999d"}, "At must be a time"},
		"past pause":  {"pause", []string{"until-in", "now"}, "Until must be a time to come."},
		"odd note":    {"archive", []string{"note", "a\x00b"}, "Note must be UTF-8 without NUL"},
		"beyond time": {"move", []string{"at", "9999-12-31T23:59", "zone", "America/New_York"}, "must be in the years 1 to 9999"},
	} {
		before := b.row("one").Revision
		post(c.verb, c.fields...).wants(t, http.StatusUnprocessableEntity, c.want)
		if b.row("one").Revision != before {
			t.Errorf("%s: changed", name)
		}
	}
	post("pause", "until-in", "+2h").wants(t, 200, "one is paused.")
	if until := b.row("one").PausedUntil; until == nil || time.Until(*until).Round(time.Hour) != 2*time.Hour {
		t.Errorf("paused until %v", until)
	}
	post("resume").wants(t, 200, "one is queued again.")
	if got := post("move", "at-in", "+1d12h", "back", "/tasks/one?x=1"); got.path != "/tasks/one?x=1" {
		t.Errorf("led to %s", got.path)
	}
	post("cancel").wants(t, 200, "one is cancelled.", "Cancelled by ann")
	b.exec(`UPDATE tasktable.scheduled_tasks SET status = 'FAILED', message = 'no mailbox'`)
	post("archive", "note", "the <user> left").wants(t, 200, "one is archived.", "the &lt;user&gt; left", "archived by ann")
	post("retry").wants(t, 200, "one is due now, with all attempts.")
	post("delete").wants(t, 200, "its history stays.", `name="confirmed" value="1"`)
	revision := b.revision("one")
	post("delete", "confirmed", "1").wants(t, 200, "one is deleted.", "Deleted by ann")
	b.post("/tasks/one/pause", "revision", revision).wants(t, http.StatusNotFound, "no such task")
	b.schedule(store.Task{ID: "one", Payload: reminder{EventID: "one"}, Recurrence: &store.Recurrence{Cron: "@daily"}})
	post("cancel").wants(t, 200, "does not fire any more", `name="confirmed" value="1"`)
	if b.row("one").Status != store.StatusQueued {
		t.Error("cancelled without being asked")
	}
	post("run-now").wants(t, 200, "one gets one more occurrence", `href="/recurring/one"`)
	post("cancel", "confirmed", "1").wants(t, 200, "one does not fire any more")
}

// A task has changed since the person saw it. The act does nothing, and says so.
func TestTaskChangedMeanwhile(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.schedule(store.Task{ID: "one", Payload: reminder{EventID: "one"}, At: may2030})
	seen := b.revision("one")
	b.schedule(store.Task{ID: "one", Payload: reminder{EventID: "one"}, At: may2030.Add(time.Hour)})
	for _, verb := range []string{"run-now", "move", "pause", "cancel", "delete"} {
		b.post("/tasks/one/"+verb, "revision", seen, "confirmed", "1", "at-in", "+1h").wants(t, http.StatusConflict,
			"Somebody has changed one since you saw it", "<dt>scheduled_at</dt>").lacks(t, "data-live")
	}
	b.post("/tasks/one/cancel").wants(t, http.StatusBadRequest, "The form has no revision.")
	// It has run meanwhile. Its revision is the same, and most verbs would run it once more.
	b.exec(`UPDATE tasktable.scheduled_tasks SET fence = 7, lease_expires_at = now() + interval '1 hour', next_attempt_at = NULL`)
	revision := b.revision("one")
	b.post("/tasks/one/delete", "revision", revision, "status", "QUEUED", "confirmed", "1").wants(t, http.StatusConflict,
		"one is claimed by a node: cancel it first")
	b.exec(`UPDATE tasktable.scheduled_tasks SET status = 'COMPLETED', finished_at = now(), fence = NULL, lease_expires_at = NULL`)
	revision = b.revision("one")
	for _, verb := range []string{"run-now", "move", "pause", "edit"} {
		b.post("/tasks/one/"+verb, "revision", revision, "status", "QUEUED", "at-in", "+1h", "priority", "7").wants(t,
			http.StatusConflict, "one was QUEUED when you saw it. It is COMPLETED now.")
	}
	b.post("/tasks/one/cancel", "revision", revision).wants(t, http.StatusConflict, "one had ended already.")
	if row := b.row("one"); row.Status != store.StatusCompleted || b.changes("ann") != 0 {
		t.Errorf("%s, %d changes", row.Status, b.changes("ann"))
	}
}

func TestTaskForWhoeverMay(t *testing.T) {
	t.Parallel()
	scopes := dashboard.Read
	b := newBoard(t, func(c *dashboard.Config) {
		c.PayloadScope = dashboard.Admin
		c.Authenticate = func(*http.Request) (dashboard.Person, error) {
			return dashboard.Person{Name: "ben", Scopes: scopes}, nil
		}
	})
	b.schedule(store.Task{ID: "one", Payload: reminder{"secret-1", "secret-2"}, At: may2030})
	b.schedule(store.Task{ID: "one", Payload: reminder{"secret-1", "secret-3"}, At: may2030})
	b.exec(`UPDATE tasktable.scheduled_tasks SET result = '"secret-4"'`)
	b.get("/tasks/one").wants(t, 200, "Its time has not come", "payload → edited", "Your scopes do not show payloads and results.").
		lacks(t, "secret")
	scopes |= dashboard.Schedule
	b.get("/tasks/one/edit").wants(t, 200, "You do not see the payload").lacks(t, "secret")
	b.post("/tasks/one/edit", "revision", b.revision("one"), "priority", "4", "payload", `{"type": "OTHER"}`).wants(t, 200)
	if row := b.row("one"); row.Priority != 4 || !strings.Contains(string(row.Payload), "secret-3") {
		t.Errorf("%d, %s", row.Priority, row.Payload)
	}
	scopes |= dashboard.Admin
	b.get("/tasks/one").wants(t, 200, "secret-3", "secret-4", "<del>secret-2</del>")
}

func TestTaskOfATenant(t *testing.T) {
	t.Parallel()
	b := newTenant(t)
	b.schedule(store.Task{ID: "own", Payload: reminder{EventID: "own"}, TenantID: "acme", At: may2030, Entity: "event:1"})
	b.schedule(store.Task{ID: "other", Payload: reminder{EventID: "other"}, TenantID: "globex", At: may2030})
	b.schedule(store.Task{ID: "daily", Payload: reminder{EventID: "d"}, TenantID: "acme", Recurrence: &store.Recurrence{Cron: "@daily"}})
	b.exec(`SELECT tasktable.fork_occurrence('daily', '2026-01-01 00:00Z')`)
	b.exec(`INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt, scheduled_at, started_at,
		finished_at, outcome, node) SELECT 7, id, type, revision, 1, now(), now(), now(), 'RETRIED', 3
		FROM tasktable.scheduled_tasks WHERE id = 'own'`)
	b.get("/tasks/own").wants(t, 200, "Its time has not come", "RETRIED", `action="/tasks/own/pause"`).lacks(t, `href="/nodes`)
	b.get("/tasks/daily").wants(t, 200, "No node is running", "its fires")
	b.get("/tasks/daily@2026-01-01T00:00:00Z").wants(t, 200, `href="/recurring/daily"`)
	b.get("/tasks/other").wants(t, http.StatusNotFound, "Never scheduled").lacks(t, "globex")
	b.post("/tasks/own/edit", "revision", b.revision("own"), "priority", "4").wants(t, 200, "own is changed.")
	b.post("/tasks/own/cancel", "revision", b.revision("own")).wants(t, 200, "own is cancelled.")
	if own, other := b.row("own"), b.row("other"); own.Status != store.StatusCancelled || own.Priority != 4 ||
		*own.TenantID != "acme" || other.Status != store.StatusQueued {
		t.Errorf("%+v, %s", own, other.Status)
	}
}

// Acts that wait for a task leave connections, so that people can still look at pages.
func TestActsThatWait(t *testing.T) {
	t.Parallel()
	b := newBoard(t, as("admin", dashboard.All, ""), func(c *dashboard.Config) {
		config := c.Pool.Config()
		config.MaxConns = 4
		c.Pool = poolOf(t, config)
	})
	b.schedule(store.Task{ID: "one", Payload: reminder{EventID: "one"}, At: may2030})
	blocker, err := pgx.ConnectConfig(t.Context(), b.pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = blocker.Close(context.WithoutCancel(t.Context())) })
	if _, err := blocker.Exec(t.Context(), `BEGIN; SELECT FROM tasktable.scheduled_tasks FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	form := url.Values{"revision": {b.revision("one")}}
	for range 4 {
		go func() {
			answer, err := b.client.PostForm(b.url+"/tasks/one/cancel", form)
			if err == nil {
				err = answer.Body.Close()
			}
			ended <- err
		}()
	}
	for range 2 { // the other two wait for the lock
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	b.get("/tasks/one").wants(t, http.StatusOK, "QUEUED")
	refused := b.post("/tasks/one/cancel", "revision", form.Get("revision"))
	refused.wants(t, http.StatusServiceUnavailable, "Too many acts")
	if _, err := blocker.Exec(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	b.get("/tasks/one").wants(t, http.StatusOK, "CANCELLED")
}
