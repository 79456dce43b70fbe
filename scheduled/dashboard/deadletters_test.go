package dashboard_test

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/dashboard"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// someDead are dead letters, put there past the triggers. Their errors differ behind the first 60 characters.
const someDead = `
ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER;
INSERT INTO tasktable.scheduled_tasks (id, type, payload, queue, entity, tenant_id, status, attempt, revision, message,
	finished_at, archived_at, archived_note)
SELECT id, kind, jsonb_build_object('type', kind, 'secret', 'in the payload'), queue, entity, tenant, status, 5,
	nextval('tasktable.task_numbers'), message, now() - ago::interval,
	CASE WHEN note <> '' THEN now() END, nullif(note, '')
FROM (VALUES
	('mail-1', 'MAIL', 'mail', 'event:42', 'acme', 'FAILED', '421 try later', '30 minutes', ''),
	('mail-2', 'MAIL', 'mail', 'event:43', 'acme', 'FAILED', E'421 try later\nat smtp.go:99', '2 hours', ''),
	('mail-3', 'MAIL', 'mail', NULL, 'other', 'FAILED', 'it said 421 try later', '3 hours', ''),
	('mail-4', 'MAIL', 'mail', 'event:42', 'other', 'EXPIRED', 'was not started within 1h', '2 days', ''),
	('../x?y#z <b>', 'LOG', 'default', NULL, NULL, 'FAILED', '<script>alert(1)</script>', '3 days', ''),
	('silent', 'LOG', 'default', NULL, NULL, 'FAILED', NULL, '4 days', ''),
	('old', 'MAIL', 'mail', NULL, 'acme', 'FAILED', '421 try later', '5 days', 'the server <i>was</i> down'),
	('fine', 'MAIL', 'mail', NULL, NULL, 'COMPLETED', NULL, '1 minute', '')
) AS t (id, kind, queue, entity, tenant, status, message, ago, note);
ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER;`

// author is who made the latest change of a task, and by which verb.
func (b *board) author(id string) string {
	b.Helper()
	history, err := b.tasks.History(b.Context(), b.pool, id)
	if err != nil || len(history.Changes) == 0 {
		b.Fatalf("%s has no changes: %v", id, err)
	}
	last := slices.MaxFunc(history.Changes, func(a, b store.Change) int { return cmp.Compare(a.Revision, b.Revision) })
	return last.Verb + " by " + last.ChangedBy
}

// endedAt is the place in a list behind a task that ended at a time.
func endedAt(at string) string {
	place := `{"i": "x", "s": "` + at + `", "f": "` + at + `"}`
	return base64.RawURLEncoding.EncodeToString([]byte(place))
}

func TestDeadLettersAreShown(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.get("/dead").wants(t, http.StatusOK, "No dead letters.")
	b.exec(someDead)
	for path, want := range map[string]string{
		"/dead": "MAIL FAILED   * try later | MAIL FAILED   it said * try later" +
			" | MAIL EXPIRED   was not started within *" +
			" | LOG FAILED   * | LOG FAILED   ",
		"/dead?by=entity&type=MAIL&status=EXPIRED": "MAIL EXPIRED event:42  was not started within *",
		"/dead?by=tenant&since=1d&type=MAIL": "MAIL FAILED  acme * try later" +
			" | MAIL FAILED  other it said * try later",
		"/dead?type=MAIL&status=FAILED&pattern=*+try+later": "mail-1 | mail-2",
		"/dead?by=task": "mail-1 | mail-2 | mail-3 | mail-4" +
			" | ../x?y#z <b> | silent",
		"/dead?type=MAIL&status=FAILED&message=421+try+later":             "mail-1 | mail-2 | mail-3",
		"/dead?by=task&since=1h":                                          "mail-1",
		"/dead?by=task&archived=1":                                        "old",
		"/dead?by=task&type=LOG&after=" + endedAt("2100-01-01T00:00:00Z"): "../x?y#z <b> | silent",
		"/dead?by=task&type=LOG&after=" + endedAt("2000-01-01T00:00:00Z"): "",
		"/dead?by=task&queue=mail&status=EXPIRED&tenant=nobody":           "",
	} {
		got := b.get(path).wants(t, http.StatusOK).lacks(t, "<script>alert", "in the payload", "<b>")
		if rows := got.rows(); rows != want {
			t.Errorf("%s: got  %s\nwant %s", path, rows, want)
		}
	}
	b.get("/dead").wants(t, http.StatusOK, "421 try later</a>", "6 dead letters.", "Retry 2 FAILED of MAIL", `href="/tasks/mail-1"`,
		`href="/tasks/..%2Fx%3Fy%23z%20%3Cb%3E"`)
	b.get("/dead?type=MAIL&message=421").wants(t, http.StatusOK, `<a href="/dead?type=MAIL">By error</a>`,
		`<a href="/dead?by=task&amp;message=421&amp;type=MAIL" aria-current="true">One by one</a>`,
		`<a href="/dead?archived=1&amp;by=task&amp;message=421&amp;type=MAIL">Archived</a>`)
	b.get("/dead?by=entity").wants(t, http.StatusOK, `href="/tasks?entity=event%3A42"`)
	b.get("/dead?by=task").wants(t, http.StatusOK, `href="/tasks?entity=event%3A42"`, `href="/tasks?tenant=acme"`)
	b.get("/dead?type=NONE").wants(t, http.StatusOK, "No dead letters like that.")
	b.get("/dead?archived=1&by=task").wants(t, http.StatusOK, "the server &lt;i&gt;was&lt;/i&gt; down").lacks(t,
		"Retry")
	for path, rule := range map[string]string{
		"/dead?status=QUEUED": "Status must be one or several of FAILED, EXPIRED.",
		"/dead?since=2y":      "Since must be 1h, 1d, 7d or 30d.",
		"/dead?by=colour":     "must be entity or tenant", "/dead?by=task&after=x": "After must be",
		"/dead?queue=%00": "queue",
	} {
		b.get(path).wants(t, http.StatusUnprocessableEntity, rule)
	}
}

// Of very many dead letters the groups count those that ended last, and the page says so.
func TestVeryManyDeadLetters(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.exec(fmt.Sprintf(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER;
INSERT INTO tasktable.scheduled_tasks (id, type, payload, status, attempt, revision, message, finished_at)
SELECT 'many-' || n, 'MANY', '{"type": "MANY"}', 'FAILED', 5, n, 'broken', now() FROM generate_series(1, %d) AS n;
ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER`, inspect.MaxGrouped+1))
	b.get("/dead").wants(t, http.StatusOK, "The groups are of the 20", "that ended last.", "MANY")
}

func TestDeadLettersOfATenant(t *testing.T) {
	t.Parallel()
	b := newTenant(t)
	b.exec(someDead)
	got := b.get("/dead?by=task").wants(t, http.StatusOK, "2 dead letters.").lacks(t, "Tenant")
	if rows := got.rows(); rows != "mail-1 | mail-2" {
		t.Errorf("a tenant sees %s", rows)
	}
	confirm := b.post("/dead/retry", "all", "1").wants(t, http.StatusOK, "Retry 2 dead letters?")
	b.post("/dead/retry", confirm.hidden()...).wants(t, http.StatusOK, "2 tasks are due now, with all attempts")
	if got := b.author("mail-1"); got != "retry by acme-ops" {
		t.Errorf("retried: %s", got)
	}
	// The ids of another tenant's dead letters are left alone, even if somebody knows them.
	b.post("/dead/retry", "confirmed", "1", "as_of", "2100-01-01T00:00:00Z", "seen", `[{"id": "mail-3"}]`).wants(t,
		http.StatusOK, "1 task had changed meanwhile and was left alone: mail-3")
}

func TestRetryOfDeadLettersOverATime(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.exec(someDead)
	asked := b.post("/dead/retry", "all", "1", "type", "MAIL").wants(t, http.StatusOK, "one after the other, over 1 hour")
	form := append(asked.hidden(), "over", "1h")
	b.post("/dead/retry", form...).wants(t, http.StatusOK, "4 tasks are due now, with all attempts")
	const spread = `SELECT 1 / (max(next_attempt_at) - min(next_attempt_at) BETWEEN '44 minutes' AND '46 minutes')::int
		FROM tasktable.scheduled_tasks WHERE type = 'MAIL' AND status = 'QUEUED'`
	b.exec(spread)
}

func TestActsOnDeadLetters(t *testing.T) {
	t.Parallel()
	shared := newAdmin(t)
	group := "type=MAIL&status=FAILED&pattern=*+try+later&by=task"
	for name, c := range map[string]struct {
		chosen []string
		asked  string // of how many the page asks
		left   string // those that are dead letters afterwards
	}{
		"a group":       {[]string{"only", group}, "2 dead letters", "../x?y#z <b> mail-3 mail-4 silent"},
		"a group twice": {[]string{"group", group, "group", group}, "2 dead letters", "../x?y#z <b> mail-3 mail-4 silent"},
		"two groups": {[]string{"group", group, "group",
			"type=MAIL&status=EXPIRED&pattern=was+not+started+within+*"}, "3 dead letters",
			"../x?y#z <b> mail-3 silent"},
		"no message": {[]string{"group", "type=LOG&status=FAILED"}, "1 dead letter",
			"../x?y#z <b> mail-1 mail-2 mail-3 mail-4"},
		"of a tenant": {[]string{"group", "type=MAIL&status=FAILED&pattern=it+said+*+try+later&tenant=other"},
			"1 dead letter", "../x?y#z <b> mail-1 mail-2 mail-4 silent"},
		"one by one": {[]string{"id", "mail-1", "id", "../x?y#z <b>", "id", "mail-1"}, "2 dead letters",
			"mail-2 mail-3 mail-4 silent"},
		"all like that": {[]string{"all", "1", "type", "MAIL", "since", "1d"}, "3 dead letters",
			"../x?y#z <b> mail-4 silent"},
		"not archived": {[]string{"all", "1", "archived", "1", "message", "421"}, "3 dead letters",
			"../x?y#z <b> mail-4 silent"},
		"some are alive": {[]string{"id", "silent", "id", "fine", "id", "nobody", "id", "old"}, "1 dead letter",
			"../x?y#z <b> mail-1 mail-2 mail-3 mail-4"},
	} {
		for verb, does := range map[string]string{"retry": "Retry ", "archive": "Archive "} {
			t.Run(name+"/"+verb, func(t *testing.T) {
				b := *shared
				b.T = t
				b.exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER;
					DELETE FROM tasktable.scheduled_tasks;` +
					someDead)
				confirm := b.post("/dead/"+verb, append(c.chosen, "back", "/dead?by=task")...).wants(t, http.StatusOK,
					does+c.asked+"?")
				if b.dead() != "../x?y#z <b> mail-1 mail-2 mail-3 mail-4 silent" {
					t.Fatalf("asked, and %s are left", b.dead())
				}
				got := b.post("/dead/"+verb, append(confirm.hidden(), "note", "dealt with")...).wants(t, http.StatusOK,
					map[string]string{"retry": "due now", "archive": "archived"}[verb]).lacks(t, "had changed meanwhile")
				if got.path != "/dead?by=task" {
					t.Errorf("led to %s", got.path)
				}
				if left := b.dead(); left != c.left {
					t.Errorf("left: %s, want %s", left, c.left)
				}
			})
		}
	}
}

// dead lists the ids of the dead letters that nobody has archived.
func (b *board) dead() (ids string) {
	b.Helper()
	err := b.pool.QueryRow(b.Context(), `SELECT coalesce(string_agg(id, ' ' ORDER BY id COLLATE "C"), '')
		FROM tasktable.scheduled_tasks WHERE status IN ('FAILED', 'EXPIRED') AND archived_at IS NULL`).Scan(&ids)
	if err != nil {
		b.Fatal(err)
	}
	return ids
}

func TestArchiveKeepsNoteAndAuthor(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.exec(someDead)
	confirm := b.post("/dead/archive", "id", "mail-1").wants(t, http.StatusOK, "Note")
	b.post("/dead/archive", append(confirm.hidden(), "note", "refunded & told")...).wants(t, http.StatusOK)
	row := b.row("mail-1")
	if row.ArchivedAt == nil || *row.ArchivedNote != "refunded & told" || b.author("mail-1") != "archive by ann" {
		t.Errorf("archived with %v, %s", row.ArchivedNote, b.author("mail-1"))
	}
}

// What has changed between the question and the answer is left alone and named, also if it failed once more.
func TestDeadLettersThatChangedMeanwhile(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.exec(someDead)
	confirm := b.post("/dead/retry", "all", "1", "type", "MAIL").wants(t, http.StatusOK, "Retry 4 dead letters?")
	b.must(b.tasks.Retry(t.Context(), b.pool, "mail-1"))
	b.exec(`UPDATE tasktable.scheduled_tasks SET finished_at = clock_timestamp() WHERE id = 'mail-2'`)
	b.must(b.tasks.Delete(t.Context(), b.pool, "mail-4"))
	b.post("/dead/retry", confirm.hidden()...).wants(t, http.StatusOK,
		"1 task is due now, with all attempts; 3 tasks had changed meanwhile and were left alone: mail-4 , mail-2 , mail-1")
	if b.row("mail-3").Status != store.StatusQueued || b.row("mail-2").Status != store.StatusFailed {
		t.Error("the wrong ones were retried")
	}
	b.post("/dead/retry", "id", "mail-1").wants(t, http.StatusOK, "Nothing is left to do.")
}

func TestBadFormsOfDeadLetters(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.exec(someDead)
	many := url.Values{}
	for range 101 {
		many.Add("group", "type=MAIL")
	}
	b.refuses("/dead/archive", map[string][]string{
		"No task is selected on which archive works.":       {"type", "MAIL"},
		"Status must be one or several of FAILED, EXPIRED.": {"all", "1", "status", "QUEUED"},
		"Group must be as the page has it.":                 {"only", "%zz"},
		"Seen must be a list of tasks.":                     {"confirmed", "1", "seen", "[]"},
		"As_of must be a time in RFC 3339.":                 {"confirmed", "1", "seen", `[{"id": "mail-1"}]`},
		"It must be at most 4096 bytes of UTF-8 without NUL.": {"confirmed", "1", "seen", `[{"id": "mail-1"}]`, "as_of",
			"2100-01-01T00:00:00Z", "note", strings.Repeat("x", 4097)},
		"Note must be UTF-8 without NUL": {"confirmed", "1", "seen", `[{"id": "mail-1"}]`, "as_of",
			"2100-01-01T00:00:00Z", "note", "\x00"},
		"id must be 1 to 512 bytes": {"confirmed", "1", "seen", `[{"id": ""}]`, "as_of", "2100-01-01T00:00:00Z"},
	})
	b.send(http.MethodPost, "/dead/retry", many).wants(t,
		http.StatusUnprocessableEntity, "Group must be given at most 100 times.")
	if b.dead() != "../x?y#z <b> mail-1 mail-2 mail-3 mail-4 silent" {
		t.Errorf("left: %s", b.dead())
	}
}

// One act takes 10,000 and says so. The list has pages.
func TestManyDeadLetters(t *testing.T) {
	t.Parallel()
	b := newAdmin(t, func(c *dashboard.Config) { c.Timeout = time.Minute })
	b.exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER;
		INSERT INTO tasktable.scheduled_tasks (id, type, payload, status, revision, finished_at, message)
			SELECT 'dead-' || i, 'LOG', '{"type": "LOG"}', 'FAILED', i,
				'2026-11-01Z'::timestamptz + i * interval '1 second',
				'no ' || chr(65 + i % 30)
			FROM generate_series(1, 10001) AS i;
		ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER;
		SELECT setval('tasktable.task_numbers', 20000)`)
	page := b.get("/dead?by=task").wants(t, http.StatusOK, "more than 10 000 dead letters.", "Next page")
	if rows := page.rows(); !strings.HasPrefix(rows, "dead-10001 | dead-10000 |") || !strings.HasSuffix(rows,
		"| dead-9952") {
		t.Errorf("the first page has %s", rows)
	}
	if got := b.get(page.next()).rows(); !strings.HasPrefix(got, "dead-9951 |") {
		t.Errorf("the next page has %s", got)
	}
	confirm := b.post("/dead/archive", "all", "1").wants(t, http.StatusOK, "Archive 10 000 dead letters?",
		"One act takes at most 10 000.", "And 10 more kinds.", "The first 50")
	b.post("/dead/archive", confirm.hidden()...).wants(t, http.StatusOK, "10000 tasks are archived.")
	if got := b.dead(); got != "dead-10001" {
		t.Errorf("left: %s", got)
	}
}
