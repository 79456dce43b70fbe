package dashboard_test

import (
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestNewTask(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.post("/look", "zone", "Europe/Berlin")
	b.get("/schedule?type=MAIL&queue=mails").wants(t, http.StatusOK, `value="MAIL"`, `value="mails"`, "data-still")
	got := b.post("/schedule", "id", "a/b", "type", "MAIL", "payload", `{"to": "x@example.org"}`, "at",
		"2030-07-01 12:00", "queue", "mails", "priority", "7", "entity", "event:1", "tenant", "acme", "expiration",
		"2d", "expected_execution_time", "90s", "max_attempts", "3")
	if got.path != "/tasks/a%2Fb" {
		t.Errorf("led to %s", got.path)
	}
	row := b.row("a/b")
	if string(row.Payload) != `{"to": "x@example.org", "type": "MAIL"}` || row.Queue != "mails" || row.Priority != 7 ||
		*row.Entity != "event:1" || *row.TenantID != "acme" || *row.Expiration != 48*time.Hour ||
		row.MaxAttempts != 3 || row.ExpectedExecutionTime != 90*time.Second || *row.ScheduledBy != "ann" ||
		!row.ScheduledAt.Equal(time.Date(2030, 7, 1, 10, 0, 0, 0, time.UTC)) {
		t.Errorf("the task is %+v", row)
	}
	b.post("/schedule", "id", "nightly", "payload", `{"type": "LOG"}`, "cron", "0 3 * * *", "cron_time_zone",
		"Europe/Berlin")
	if row := b.row("nightly"); *row.Cron != "0 3 * * *" || *row.TimeZone != "Europe/Berlin" {
		t.Errorf("the recurring task is %+v", row)
	}
	if got := b.post("/schedule", "type", "LOG"); !strings.HasPrefix(got.path, "/tasks/0") {
		t.Errorf("a task with a new id led to %s", got.path)
	}
}

// Another task must not be edited by mistake.
func TestNewTaskWithAKnownID(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.schedule(plain("a"))
	before := b.row("a").Revision
	b.post("/schedule", "id", "a", "type", "MAIL").wants(t, http.StatusConflict,
		"It must be a new one: there is a task with this id.", `href="/tasks/a/edit"`, `value="MAIL"`)
	b.post("/schedule", "id", "a", "type", "LOG").wants(t, http.StatusConflict) // it is like that already
	if row := b.row("a"); row.Revision != before || row.Type != "LOG" {
		t.Fatalf("the task was edited: %+v", row)
	}
}

// A form that is sent twice schedules one task.
func TestNewTaskIsScheduledOnce(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	form := []string{"prepared", b.get("/schedule").field(t, "prepared"), "type", "LOG"}
	once := b.post("/schedule", form...).wants(t, http.StatusOK, "Scheduled the task.")
	b.post("/schedule", form...).wants(t, http.StatusConflict, `href="`+once.path+`"`)
	if other := b.get("/schedule").field(t, "prepared"); other == form[1] {
		t.Errorf("two forms have the id %s", other)
	}
}

func TestNewTaskIsChecked(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.refuses("/schedule", map[string][]string{
		"It must be given, because the payload has no field type":      {},
		"It must be 2 to 127 letters":                                  {"type", "x"},
		"It must be a JSON object: it is wrong at byte 2.":             {"type", "LOG", "payload", "{x"},
		"It must be a JSON object.":                                    {"type", "LOG", "payload", "null"},
		"It must have no field type other than":                        {"type", "LOG", "payload", `{"type": "MAIL"}`},
		"It must be at most 512 bytes of UTF-8":                        {"type", "LOG", "id", "a\nb"},
		"It must be a time, such as":                                   {"type", "LOG", "at", "soon"},
		"It must be in the years 1 to 9999":                            {"type", "LOG", "at", "0000-01-01"},
		"It must be a whole number.":                                   {"type", "LOG", "priority", "high"},
		"It must be between 1µs and 10 years, such as":                 {"type", "LOG", "expiration", "long"},
		`id="about-entity" class="error">It must be at most 512 bytes`: {"type", "LOG", "entity", "a\nb"},
		"It must be given for a task that recurs.":                     {"type", "LOG", "cron", "@daily"},
		`id="about-cron" class="error">Hour 25`:                        {"type", "LOG", "id", "n", "cron", "0 25 * * *"},
		`id="about-cron_time_zone" class="error">It must be`: {"type", "LOG", "id", "n", "cron", "@daily",
			"cron_time_zone", "Mars"},
		`id="about-cron" class="error">Is missing: time_zone, overlap`: {"type", "LOG", "cron_time_zone", "UTC"},
	}, "Nothing was scheduled.")
	b.get("/tasks").wants(t, http.StatusOK, "No task runs or waits.", "Tasks appear here as soon as")
}

func TestSearch(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.schedule(plain("a/b c"))
	b.schedule(plain("gone"))
	b.must(b.tasks.Delete(t.Context(), b.pool, "gone"))
	b.noRedirects()
	for q, want := range map[string]string{
		"a/b+c":   "/tasks/a%2Fb%20c",
		"+a/b+c+": "/tasks/a%2Fb%20c",
		"gone":    "/tasks/gone",
		"a/b":     "/tasks?id_prefix=a%2Fb",
		"+":       "/tasks",
		"%0a%00x": "/tasks?id_prefix=%00x",
	} {
		got := b.get("/search?q=" + q)
		if to := got.header.Get("Location"); got.status != http.StatusSeeOther || to != want {
			t.Errorf("%q: %d to %q, want %q", q, got.status, to, want)
		}
	}
	if got := newBoard(t).get("/search?q=gone"); !strings.HasPrefix(got.path, "/?next=%2Fsearch") {
		t.Errorf("a stranger was led to %s", got.path)
	}
}

// The form begins with the payload of a ready-made type, if a node that runs has the type.
func TestNewTaskOfAReadyMadeType(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.get("/schedule").wants(t, http.StatusOK).lacks(t, "HTTP request", "SQL statement")
	b.node("shop", "v1", `{"default": 1}`, `{HTTP_REQUEST,EXEC}`, false)
	page := b.get("/schedule").wants(t, http.StatusOK, "HTTP request", "Command", `<option value="HTTP_REQUEST">`,
		`<option value="default">`).lacks(t, "SQL statement")
	link := regexp.MustCompile(`href="(/schedule\?[^"]+type=HTTP_REQUEST)"`).FindStringSubmatch(page.text)
	if link == nil {
		t.Fatalf("no link in %s", page.text)
	}
	b.get(html.UnescapeString(link[1])).wants(t, http.StatusOK, `value="HTTP_REQUEST"`, "&#34;url&#34;: &#34;https://example.org/path&#34;",
		`aria-current="true">HTTP request`)
}
