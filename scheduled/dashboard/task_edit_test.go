package dashboard_test

import (
	"bytes"
	"context"
	"html"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/dashboard"
	"github.com/tasktable/tasktable/store"
)

var (
	inputTag  = regexp.MustCompile(`<input[^>]* name="([^"]+)"[^>]*>`)
	valueOf   = regexp.MustCompile(` value="([^"]*)"`)
	inTextbox = regexp.MustCompile(`(?s)<textarea[^>]* name="([^"]+)"[^>]*>\n(.*?)</textarea>`)
)

// editForm is what a browser sends from the page of an edit, if nobody has typed anything.
func editForm(page reply) map[string]string {
	form := map[string]string{}
	_, text, _ := strings.Cut(page.text, `class="stack edit"`)
	for _, input := range inputTag.FindAllStringSubmatch(text, -1) {
		if value := valueOf.FindStringSubmatch(input[0]); value != nil {
			form[input[1]] = html.UnescapeString(value[1])
		} else {
			form[input[1]] = ""
		}
	}
	for _, box := range inTextbox.FindAllStringSubmatch(text, -1) {
		form[box[1]] = strings.ReplaceAll(html.UnescapeString(box[2]), "\n", "\r\n")
	}
	delete(form, "theme")
	form["at"] = strings.TrimSuffix(form["at"], ":00") // as browsers do
	return form
}

// save sends a form with some fields changed.
func (b *board) save(id string, form map[string]string, changed ...string) reply {
	b.Helper()
	form = maps.Clone(form)
	for i := 0; i+1 < len(changed); i += 2 {
		form[changed[i]] = changed[i+1]
	}
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(form)) {
		fields = append(fields, name, form[name])
	}
	return b.post(taskPage(id)+"/edit", fields...)
}

// A URL in a payload reads as the person wrote it, and not as \u0026 and \u003c, which are for scripts in pages.
func TestPayloadsReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	payload := store.JSON(`{"type": "CALL", "url": "https://example.org/?a=1&b=<2>"}`)
	b.schedule(store.Task{ID: "call", Payload: payload, IfDead: []store.Task{{Payload: payload}}})
	want := html.EscapeString(`"url": "https://example.org/?a=1&b=<2>"`)
	b.get(taskPage("call")).wants(t, 200, want)
	form := editForm(b.get(taskPage("call") + "/edit"))
	for _, name := range []string{"payload", "if_dead"} {
		if !strings.Contains(form[name], html.UnescapeString(want)) {
			t.Errorf("the form's %s is %s", name, form[name])
		}
	}
}

// Two people edit one task. The second one to save learns of it, loses nothing of what she wrote, and overwrites nothing
// that she has not looked at.
func TestTwoPeopleEditOneTask(t *testing.T) {
	t.Parallel()
	name := "ben"
	b := newBoard(t, func(c *dashboard.Config) {
		c.Authenticate = func(*http.Request) (dashboard.Person, error) {
			return dashboard.Person{Name: name, Scopes: dashboard.Read | dashboard.Schedule | dashboard.Operate}, nil
		}
	})
	b.schedule(store.Task{ID: "one", Payload: reminder{"one", "Bonn"}, At: may2030, Entity: "event:1"})
	bens, anns := editForm(b.get("/tasks/one/edit")), editForm(b.get("/tasks/one/edit"))
	b.save("one", bens, "priority", "5", "queue", "mail").wants(t, 200, "one is changed.")
	name = "ann"
	typed := "{\"type\": \"SEND_EVENT_REMINDER\",\r\n\"event_id\": \"one\", \"place\": \"<Ulm>\"}"
	told := b.save("one", anns, "priority", "7", "entity", "event:2", "payload", typed, "at-in", "+3h")
	told.wants(t, http.StatusConflict, "Somebody else has changed one since you began. Nothing was saved.", "ben : schedule",
		"<dt>priority</dt><dd><del>0</del>", "<dt>queue</dt><dd><del>default</del>",
		"Somebody else has changed this, too. It is now: 5", `data-still`).lacks(t, "data-live", "It is now: mail")
	if row := b.row("one"); row.Priority != 5 || *row.Entity != "event:1" || b.changes("ann") != 0 {
		t.Fatalf("overwritten: %+v", row)
	}
	again := editForm(told)
	for field, want := range map[string]string{
		"priority": "7", "entity": "event:2", "payload": typed, "at-in": "+3h", // hers
		"queue": "mail", "revision": b.revision("one"), // his
	} {
		if again[field] != want {
			t.Errorf("%s is %q in the new form, want %q", field, again[field], want)
		}
	}
	b.save("one", again).wants(t, 200, "one is changed.", "edited by ann", "edited by ben")
	row := b.row("one")
	if row.Priority != 7 || row.Queue != "mail" || *row.Entity != "event:2" || !strings.Contains(string(row.Payload), "<Ulm>") ||
		time.Until(row.ScheduledAt).Round(time.Hour) != 3*time.Hour {
		t.Errorf("saved: %+v", row)
	}
}

// An edit keeps all that the person has not changed, to the microsecond.
func TestEditKeepsTheRest(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	full := store.Task{
		ID: "one", Payload: reminder{"one", "Bonn"}, At: may2030.Add(-5 * time.Second), Expiration: 90 * time.Minute, ExpectedExecutionTime: time.Hour,
		MaxAttempts: 9, Priority: -3, Queue: "mail", Entity: "event:1", TenantID: "acme", Jitter: time.Minute, Retention: time.Hour,
	}
	b.schedule(full)
	full.ID, full.Recurrence = "daily", &store.Recurrence{
		Cron: "@daily", TimeZone: "Europe/Berlin", Overlap: store.OverlapAllow, CatchUp: store.CatchUpAll,
		CatchUpPaused: store.CatchUpLatest, CatchUpLimit: 7, EndsAt: may2030.AddDate(1, 0, 0), MaxOccurrences: 99,
	}
	b.schedule(full)
	b.get("/tasks/daily/edit").wants(t, 200, "Fires from, in UTC", `href="/recurring/daily"`)
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	b.exec(`UPDATE tasktable.scheduled_tasks SET trace = '` + trace + `'`)
	for _, id := range []string{"one", "daily"} {
		before := b.row(id)
		form := editForm(b.get(taskPage(id) + "/edit"))
		b.save(id, form).wants(t, 200, "Nothing was different, so nothing was changed.")
		if after := b.row(id); after.Revision != before.Revision {
			t.Errorf("%s: changed by nothing", id)
		}
		b.save(id, form, "max_attempts", "4").wants(t, 200, id+" is changed.", "0af7651916cd43dd8448eb211c80319c")
		var differs string
		if err := b.pool.QueryRow(t.Context(), `SELECT string_agg(key, ' ') FROM tasktable.scheduled_task_changes AS c,
			jsonb_object_keys(c.new) AS key WHERE c.changed_by = 'ann' AND c.task_id = $1`, id).Scan(&differs); err != nil {
			t.Fatal(err)
		}
		if after := b.row(id); differs != "max_attempts" || *after.Trace != trace || *after.ScheduledBy != "test" {
			t.Errorf("%s: changed %s, trace %s", id, differs, *after.Trace)
		}
	}
}

func TestEditChecks(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.schedule(store.Task{ID: "one", Payload: reminder{EventID: "one"}, At: may2030, Expiration: time.Hour})
	form := editForm(b.get("/tasks/one/edit"))
	for name, c := range map[string]struct{ field, value, want string }{
		"priority":   {"priority", "high", "Priority must be a whole number."},
		"queue":      {"queue", "a b", "queue"},
		"expiration": {"expiration", "an hour", "Expiration must be between 1µs and 10 years, such as 1500ms, 90s, 1h30m or 2d."},
		"no JSON":    {"payload", "{", "Payload must be a JSON object: it is wrong at byte 1"},
		"no object":  {"payload", "null", "Payload must be a JSON object"},
		"no type":    {"payload", "{}", "type"},
		"time":       {"at", "", "At must be given."},
		"relative":   {"at-in", "soon", "At must be a time"},
	} {
		got := b.save("one", form, c.field, c.value, "entity", "typed by ann").wants(t, http.StatusUnprocessableEntity, c.want)
		if again := editForm(got); again["entity"] != "typed by ann" || strings.TrimSpace(again[c.field]) != c.value {
			t.Errorf("%s: lost the text: %v", name, again)
		}
	}
	if b.changes("ann") != 0 {
		t.Error("saved")
	}
	b.save("one", form, "expiration", "", "priority", "-7").wants(t, 200)
	if row := b.row("one"); row.Expiration != nil || row.Priority != -7 {
		t.Errorf("%+v", row)
	}
	b.exec(`UPDATE tasktable.scheduled_tasks SET status = 'FAILED'`)
	form = editForm(b.get("/tasks/one/edit").wants(t, 200, "An edit runs it again"))
	b.save("one", form, "priority", "1").wants(t, http.StatusUnprocessableEntity, "time must be another one")
	b.save("one", form, "priority", "1", "at-in", "now").wants(t, 200, "one is changed, and runs again.")
	b.get("/tasks/none/edit").wants(t, http.StatusNotFound)
}

// rot is a codec that anybody can break.
type rot struct{}

func (rot) Encode(_ context.Context, _, _ string, plain []byte) (string, []byte, error) {
	return "rot", turned(plain), nil
}
func (rot) Decode(_ context.Context, name, _, _ string, data []byte) ([]byte, error) {
	if name != "rot" {
		return nil, store.ErrUnknownCodec
	}
	return turned(data), nil
}

func turned(text []byte) []byte {
	text = slices.Clone(text)
	for i := range text {
		text[i] ^= 0x55
	}
	return text
}

// Encoded payloads are hidden unless the configuration allows them. An edit keeps them, and encodes a new one.
func TestEditOfAnEncodedPayload(t *testing.T) {
	t.Parallel()
	b := newAdmin(t, func(c *dashboard.Config) { c.Store.Codec, c.PayloadScope = rot{}, dashboard.Operate })
	encoded := store.New(store.Config{Service: "test", Codec: rot{}})
	for _, place := range []string{"Bonn", "Ulm"} {
		b.must(encoded.Schedule(t.Context(), b.pool, store.Task{ID: "one", Payload: reminder{"one", place}, At: may2030}))
	}
	b.get("/tasks/one").wants(t, 200, "Ulm", "payload → edited").lacks(t, "$data")
	form := editForm(b.get("/tasks/one/edit"))
	b.save("one", form, "priority", "2").wants(t, 200, "one is changed.")
	form = editForm(b.get("/tasks/one/edit"))
	b.save("one", form, "payload", strings.Replace(form["payload"], "Ulm", "Kiel", 1)).wants(t, 200, "Kiel")
	if row := b.row("one"); !strings.Contains(string(row.Payload), `"rot"`) || strings.Contains(string(row.Payload), "Kiel") {
		t.Errorf("stored %s", row.Payload)
	}
	b.exec(`UPDATE tasktable.scheduled_tasks SET payload = payload || '{"$codec": "other"}'`)
	b.get("/tasks/one").wants(t, 200, "unknown codec")
	before := b.row("one") // the dashboard cannot read its payload, and keeps it
	form = editForm(b.get("/tasks/one/edit").wants(t, 200, "You do not see the payload"))
	b.save("one", form, "priority", "3").wants(t, 200, "one is changed.")
	if row := b.row("one"); row.Priority != 3 || !bytes.Equal(row.Payload, before.Payload) ||
		row.AskedRevision != before.AskedRevision {
		t.Errorf("%+v", row)
	}
}
