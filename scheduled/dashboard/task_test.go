package dashboard_test

import (
	"context"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/dashboard"
	"github.com/tasktable/tasktable/scheduled/scheduledtest"
	"github.com/tasktable/tasktable/store"
)

type reminder struct {
	EventID string `json:"event_id"`
	Place   string `json:"place,omitempty"`
}

func (reminder) TaskType() string  { return "SEND_EVENT_REMINDER" }
func (r reminder) TaskKey() string { return r.EventID }

var may2030 = time.Date(2030, 5, 1, 16, 0, 5, 123456000, time.UTC)

// run runs all due tasks as the engine does.
func (b *board) run(do func(*handlers.Task[reminder]) error) {
	b.Helper()
	registry, err := handlers.NewRegistry(handlers.Handle(
		func(_ context.Context, t *handlers.Task[reminder]) error { return do(t) }))
	if err != nil {
		b.Fatal(err)
	}
	tx, err := b.pool.Begin(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	scheduledtest.New(b, tx, registry).RunDueAt(b.Context(), time.Now())
	if err := tx.Commit(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// taskPage is the path of a task's page
func taskPage(id string) string { return "/tasks/" + url.PathEscape(id) }

func TestTaskTellsWhy(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	trace := "\nat mail.Send (mail.go:42)\n" + strings.Repeat("at run\n", 200) + "the last line"
	b.schedule(store.Task{ID: "good", Payload: reminder{"good", "Bonn"}, Entity: "event:1", TenantID: "acme"})
	b.schedule(store.Task{ID: "bad", Payload: reminder{EventID: "bad"}})
	b.schedule(store.Task{ID: "retried", Payload: reminder{EventID: "retried"}})
	b.run(func(task *handlers.Task[reminder]) error {
		switch task.ID {
		case "bad":
			return handlers.Permanent(fmt.Errorf("550 no <b>mailbox</b>%s", trace))
		case "retried":
			return fmt.Errorf("connection refused")
		}
		task.FollowUp(store.Task{ID: "next/1", Payload: reminder{EventID: "next"}, At: may2030})
		task.Result(map[string]any{"sent": 3})
		task.Note("sent to <3> people")
		return nil
	})
	b.schedule(store.Task{ID: "future", Payload: reminder{EventID: "future", Place: "Bonn"}, At: may2030})
	b.schedule(store.Task{ID: "future", Payload: reminder{EventID: "future", Place: "Ulm"}, At: may2030.Add(time.Hour), Priority: 3})
	b.schedule(store.Task{ID: "gone", Payload: reminder{EventID: "gone"}, At: may2030})
	b.post(taskPage("gone")+"/delete", "revision", b.revision("gone"), "confirmed", "1")
	for _, c := range []struct {
		id     string
		status int
		wants  []string
	}{
		{"good", 200, []string{`data-tone="good">Completed by attempt 1 of 10`, "sent to &lt;3&gt; people", "&#34;sent&#34;: 3",
			`href="/tasks?entity=event%3A1"`, `href="/tasks?tenant=acme"`, `<a class="id" href="/tasks/next%2F1">`,
			"attempt 1 completed", "Its follow-up next/1", "idempotency key good:" + b.revision("good"), "&#34;place&#34;: &#34;Bonn&#34;"}},
		{"bad", 200, []string{`data-tone="bad">Failed for good at attempt 1 of 10`, "550 no &lt;b&gt;mailbox&lt;/b&gt;",
			"The text as a whole, 1 4", "the last line", "The whole error", `data-status="FAILED"`}},
		{"retried", 200, []string{`data-tone="warn"`, "due at 20", "connection refused", "RETRIED",
			`data-label="Revision" class="number">` + b.revision("retried") + `<`}},
		{"future", 200, []string{"Its time has not come, due at 2030-05-01 17:00:05 UTC ( in ", "Besides, no node is running.", "<dt>payload.place</dt><dd><del>Bonn",
			"<ins>Ulm", "<dt>priority</dt><dd><del>0", "<del><time datetime=\"2030-05-01T16:00:05.123456Z\"", "edited by test"}},
		{"next/1", 200, []string{`spawned_by good`, `href="/tasks/good"`}},
		{"gone", 200, []string{"Deleted by ann, at", "deleted by ann", "no longer there"}},
		{"futur", 404, []string{"Never scheduled under this id", "Similar ids", `href="/tasks/future"`}},
		{"a\x01", 422, []string{"Not valid"}},
	} {
		got := b.get(taskPage(c.id))
		if c.id == "gone" {
			c.wants[0] = "Deleted by ann"
			got.lacks(t, "<form method=\"post\" action=\"/tasks/")
		}
		got.wants(t, c.status, c.wants...).lacks(t, "<b>mailbox")
	}
}

// An id may be any text. Its page, its verbs and its links must lead to the task, and to nothing else.
func TestTaskOfAnyID(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "/admin/tasks"} {
		b := newAdmin(t, func(c *dashboard.Config) { c.Prefix = prefix })
		for _, id := range []string{"../x", "a/b", "a//b", "a?b=c", "a#b", "🎈 %2F", `"><script>alert(1)</script>`, "x/edit", "é&amp;"} {
			b.schedule(store.Task{ID: id, Payload: reminder{EventID: id, Place: id}, Entity: id, TenantID: id, At: may2030})
			got := b.get(taskPage(id)).wants(t, 200, "Its time has not come").lacks(t, "<script>alert")
			action := regexp.MustCompile(`action="([^"]*/pause)"`).FindStringSubmatch(got.text)
			if len(action) == 0 || html.UnescapeString(action[1]) != prefix+taskPage(id)+"/pause" {
				t.Errorf("%s: %v", id, action)
			}
			b.get(taskPage(id)+"/edit").wants(t, 200).lacks(t, "<script>alert")
			b.post(taskPage(id)+"/pause", "revision", b.revision(id)).wants(t, 200, "is paused", "It is paused by ann")
			if row := b.row(id); row.Status != store.StatusPaused {
				t.Errorf("%s is %s", id, row.Status)
			}
		}
	}
}

// changes counts the changes that somebody has made.
func (b *board) changes(by string) (n int) {
	b.Helper()
	if err := b.pool.QueryRow(b.Context(), `SELECT count(*) FROM tasktable.scheduled_task_changes WHERE changed_by = $1`,
		by).Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}

var verbPath = regexp.MustCompile(`action="/tasks/one/([a-z-]+)"`)

// The verbs of a page are those that change the task. The other outcomes of the design's table write nothing.
func TestVerbsThatMakeSense(t *testing.T) {
	t.Parallel()
	const held = "fence = 7, lease_expires_at = now() + interval '1 hour', next_attempt_at = NULL, last_status_update = now()"
	for name, c := range map[string]struct {
		set    string
		recurs bool
		want   string
	}{
		"queued":             {"", false, "run-now move pause cancel delete"},
		"edited as it ran":   {held, false, "run-now move pause cancel"},
		"executing":          {"status = 'EXECUTING', " + held, false, "move pause cancel"},
		"paused":             {"status = 'PAUSED'", false, "resume run-now move pause cancel delete"},
		"completed":          {"status = 'COMPLETED'", false, "run-now move delete"},
		"failed":             {"status = 'FAILED'", false, "retry move archive delete"},
		"expired":            {"status = 'EXPIRED'", false, "retry move archive delete"},
		"archived":           {"status = 'FAILED', archived_at = now()", false, "retry move delete"},
		"cancelled":          {"status = 'CANCELLED'", false, "run-now move delete"},
		"skipped":            {"status = 'SKIPPED'", false, "run-now move delete"},
		"recurring":          {"", true, "run-now pause cancel delete"},
		"recurring, paused":  {"status = 'PAUSED'", true, "resume run-now pause cancel delete"},
		"recurring, stopped": {"status = 'CANCELLED'", true, "run-now delete"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newAdmin(t)
			prepare := func() {
				b.exec(`UPDATE tasktable.scheduled_tasks SET status = 'CANCELLED', finished_at = now(), fence = NULL,
					lease_expires_at = NULL, next_attempt_at = NULL`)
				b.exec(`DELETE FROM tasktable.scheduled_tasks`)
				task := store.Task{ID: "one", Payload: reminder{EventID: "one"}, At: may2030}
				if c.recurs {
					task.Recurrence = &store.Recurrence{Cron: "@daily"}
				}
				b.schedule(task)
				if c.set != "" {
					b.exec(`UPDATE tasktable.scheduled_tasks SET ` + c.set)
				}
			}
			prepare()
			var offered []string
			for _, found := range verbPath.FindAllStringSubmatch(b.get("/tasks/one").text, -1) {
				offered = append(offered, found[1])
			}
			if got := strings.Join(offered, " "); got != c.want {
				t.Errorf("offers %s, want %s", got, c.want)
			}
			for _, verb := range offered {
				prepare()
				before := b.changes("ann")
				b.post("/tasks/one/"+verb, "revision", b.revision("one"), "status", string(b.row("one").Status), "confirmed", "1",
					"at-in", "+3h", "until-in", "+2h", "note", "mended").wants(t, 200)
				if wrote := b.changes("ann") - before; wrote == 0 && (!c.recurs || verb != "run-now") {
					t.Errorf("%s wrote nothing", verb)
				}
			}
		})
	}
}
