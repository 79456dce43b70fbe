package dashboard_test

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/dashboard"
	"github.com/tasktable/tasktable/store"
)

// someRecurring are recurring tasks of each health, put there past the triggers. Their occurrences ended lately.
const someRecurring = `
ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER;
INSERT INTO tasktable.scheduled_tasks (id, type, payload, queue, tenant_id, status, scheduled_at, revision,
	planned_revision, next_attempt_at, finished_at, message, cron, time_zone, overlap, catch_up, catch_up_paused,
	catch_up_limit, jitter, declared_by)
SELECT id, kind, jsonb_build_object('type', kind), queue, tenant, status, now() - interval '1 day', number, number,
	CASE WHEN status = 'QUEUED' THEN now() + interval '1 hour' END,
	CASE WHEN status = 'COMPLETED' THEN now() END, message,
	cron, zone, 'skip', 'latest', 'none', 100, jitter, declared
FROM (VALUES
	(1, 'nightly', 'CLEANUP', 'default', 'acme', 'QUEUED', NULL, '0 3 * * *', 'Europe/Berlin',
		NULL::interval, 'events-api'),
	(2, 'broken', 'CLEANUP', 'default', NULL, 'QUEUED', NULL, '*/15 * * * *', 'UTC', '30 seconds', NULL),
	(3, 'late', 'DIGEST', 'mail', NULL, 'QUEUED', NULL, '@every 90s', 'UTC', NULL, NULL),
	(4, 'stopped', 'DIGEST', 'mail', NULL, 'PAUSED', NULL, '0 9 * * MON-FRI', 'America/New_York', NULL, NULL),
	(5, '../r?a#b <b>', 'CLEANUP', 'default', 'other', 'QUEUED', NULL, '@yearly', 'UTC', NULL, NULL),
	(6, 'done', 'CLEANUP', 'default', NULL, 'COMPLETED', 'ended after 3 occurrences', '@daily', 'UTC', NULL, NULL),
	(7, 'calendar', 'CLEANUP', 'default', NULL, 'QUEUED', NULL, '@yearly', 'UTC', NULL, NULL)
) AS t (number, id, kind, queue, tenant, status, message, cron, zone, jitter, declared);
INSERT INTO tasktable.scheduled_tasks (id, type, payload, revision, parent_id, status, scheduled_at, started_at,
	finished_at, message, tenant_id)
SELECT parent || '@' || i, 'CLEANUP', '{"type": "CLEANUP"}', 20, parent, status, now() - i * interval '1 minute',
	CASE WHEN status <> 'SKIPPED' THEN now() - i * interval '1 minute' + interval '1 second' END,
	now() - i * interval '1 minute' + interval '4 seconds',
	CASE WHEN status = 'FAILED' THEN E'the disk <b>is</b> full\nat /var' END, tenant
FROM (VALUES ('nightly', 'COMPLETED', 'acme', 3), ('nightly', 'FAILED', 'acme', 5), ('broken', 'FAILED', NULL, 1),
	('broken', 'FAILED', NULL, 2), ('broken', 'COMPLETED', NULL, 9), ('broken', 'SKIPPED', NULL, 10))
	AS t (parent, status, tenant, i);
-- They were edited in the future, but for one. So no success of the others is expected yet, and none is overdue.
INSERT INTO tasktable.scheduled_task_changes (revision, task_id, verb, outcome, changed_at, changed_by)
SELECT t.revision, t.id, 'schedule', 'rescheduled', '2100-01-01Z', 'bob'
FROM tasktable.scheduled_tasks AS t WHERE t.cron IS NOT NULL AND t.id <> 'late';
ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER;
SELECT setval('tasktable.task_numbers', 1000);`

func TestRecurringTasksAreListed(t *testing.T) {
	t.Parallel()
	b := newAdmin(t, func(c *dashboard.Config) { c.Prefix = "/admin" })
	b.get("/recurring").wants(t, http.StatusOK, "No recurring tasks.")
	b.exec(someRecurring)
	all := b.get("/recurring").wants(t, http.StatusOK, "every 15 minutes", "at 03:00 every day", "2 failed in a row",
		"the disk &lt;b&gt;is&lt;/b&gt; full", "declared by events-api", "every 1m30s", "at 09:00 on Monday to Friday",
		`aria-label="The newest occurrences: 1 COMPLETED, 2 FAILED, 1 SKIPPED"`, `data-status="SKIPPED"`,
		`href="/admin/tasks/broken@1"`, `href="/admin/recurring/..%2Fr%3Fa%23b%20%3Cb%3E"`,
		`href="/admin/recurring/calendar/task"`, "after a resume").lacks(t, "<b>", "/var")
	if got := all.rows(); got != "broken | late | ../r?a#b <b> | calendar | done | nightly | stopped" {
		t.Errorf("listed: %s", got)
	}
	// The news of a task that fails comes before that it waits for its next fire.
	b.get("/recurring/broken").wants(t, http.StatusOK, "failing 2 occurrences in a row failed, the last one at")
	for query, want := range map[string]string{
		"health=failing": "broken", "health=overdue": "late", "health=paused": "stopped", "health=ended": "done",
		"health=ok": "nightly", "health=new": "../r?a#b <b> | calendar", "type=DIGEST": "late | stopped",
		"queue=mail&health=paused": "stopped", "declared_by=events-api": "nightly", "tenant=other": "../r?a#b <b>",
		"after=late": "nightly | stopped", "type=NONE": "",
	} {
		if got := b.get("/recurring?"+query).wants(t, http.StatusOK).rows(); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	b.get("/recurring?type=NONE").wants(t, http.StatusOK, "No recurring tasks like that.")
	b.get("/recurring?health=fine").wants(t, http.StatusUnprocessableEntity, "Health must be failing, overdue,")
}

// Pages go on where the one before ended, also those of one health.
func TestRecurringListHasPages(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER;
		INSERT INTO tasktable.scheduled_tasks (id, type, payload, status, revision, cron, time_zone, overlap, catch_up,
			catch_up_paused, catch_up_limit, next_attempt_at)
		SELECT 'r-' || to_char(i, 'FM0000'), 'LOG', '{"type": "LOG"}',
			CASE WHEN i % 300 = 0 THEN 'PAUSED' ELSE 'QUEUED' END,
			i, '@yearly', 'UTC', 'skip', 'latest', 'none', 100, CASE WHEN i % 300 > 0 THEN now() END
		FROM generate_series(1, 1100) AS i;
		ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER`)
	first := b.get("/recurring").wants(t, http.StatusOK, "/recurring?after=r-0050")
	if got := first.rows(); !strings.HasPrefix(got, "r-0001 |") || !strings.HasSuffix(got, "r-0050") {
		t.Errorf("the first page: %s", got)
	}
	paused := b.get("/recurring?health=paused").wants(t, http.StatusOK, "The search stopped after many tasks.",
		"/recurring?after=r-1000&amp;health=paused")
	if got := paused.rows(); got != "r-0300 | r-0600 | r-0900" {
		t.Errorf("paused: %s", got)
	}
	b.get("/recurring?health=paused&after=r-1000").wants(t, http.StatusOK).lacks(t, "Next page")
}

func TestARecurringTaskIsShown(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.exec(someRecurring)
	b.post("/look", "zone", "Asia/Tokyo", "back", "/recurring").wants(t, http.StatusOK)
	b.get("/recurring/broken").wants(t, http.StatusOK, "2 occurrences in a row failed",
		"the disk &lt;b&gt;is&lt;/b&gt; full",
		`data-tone="bad"`, "In Asia/Tokyo", "every 15 minutes", "up to 30 s after its fire", "3.00 s", "<svg",
		"How long the newest occurrences took", "JST", `value="2"`, "/recurring/broken/backfill").lacks(t, "<b>is")
	b.get("/recurring/stopped").wants(t, http.StatusOK, "the task is paused", "Resume", "In America/New_York",
		"It stays PAUSED, but until the given time.", "Delete")
	b.get("/recurring/done").wants(t, http.StatusOK,
		"There is no coming fire: it is COMPLETED: ended after 3 occurrences",
		"No occurrence yet.").lacks(t, ">Pause<", ">Cancel…<")
	b.get("/recurring/nightly").wants(t, http.StatusOK, "the code of events-api")
	b.get("/recurring/..%2Fr%3Fa%23b%20%3Cb%3E").wants(t, http.StatusOK, "../r?a#b &lt;b&gt;")
	b.get("/recurring/calendar/task").wants(t, http.StatusOK, "at 00:00 on day 1 of the month in January")
	b.get("/recurring/nobody").wants(t, http.StatusNotFound, "no such task")
	b.get("/recurring/broken@1").wants(t, http.StatusUnprocessableEntity, "not a recurring one")
	b.exec(`INSERT INTO tasktable.pauses (number, scope, name, paused_at, paused_by)
		VALUES (11, 'queue', 'mail', now(), 'ann')`)
	b.get("/recurring/late").wants(t, http.StatusOK, "queue:mail is paused",
		"everything, its queue or its type is paused")
}

func TestRecurringOfATenant(t *testing.T) {
	t.Parallel()
	b := newTenant(t)
	b.exec(someRecurring)
	if got := b.get("/recurring").wants(t, http.StatusOK).rows(); got != "nightly" {
		t.Errorf("a tenant sees %s", got)
	}
	b.get("/recurring/nightly").wants(t, http.StatusOK, "COMPLETED", "Run now").lacks(t, "Backfill")
	b.get("/recurring/calendar").wants(t, http.StatusOK, "nightly").lacks(t, "broken")
	b.post("/recurring/nightly/run-now", "revision", "1").wants(t, http.StatusOK, "nightly gets one more occurrence")
	b.post("/recurring/nightly/pause", "revision", "1").wants(t, http.StatusOK, "nightly is paused.")
	if got := b.author("nightly"); got != "pause by acme-ops" {
		t.Error(got)
	}
	edit := b.post("/recurring/nightly/edit", append(b.editing("nightly"), "cron", "0 4 * * *")...).wants(t,
		http.StatusOK, "Save")
	b.post("/recurring/nightly/edit", edit.hidden()...).wants(t, http.StatusOK, "Saved.")
	row := b.row("nightly")
	if *row.Cron != "0 4 * * *" || *row.TenantID != "acme" || row.Status != store.StatusPaused {
		t.Errorf("edited: %+v", row)
	}
}

func TestVerbsOfARecurringTask(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.exec(someRecurring)
	post := func(id, verb string, fields ...string) reply {
		return b.post("/recurring/"+id+"/"+verb, append(fields, "revision", b.revision(id))...)
	}
	got := post("nightly", "pause").wants(t, http.StatusOK, "nightly is paused.")
	row, author := b.row("nightly"), b.author("nightly")
	if got.path != "/recurring/nightly" || row.Status != store.StatusPaused || author != "pause by ann" {
		t.Errorf("paused: %s, %s, %s", got.path, row.Status, author)
	}
	post("nightly", "pause").wants(t, http.StatusOK, "nightly stays as it was.")
	b.post("/look", "zone", "Europe/Berlin", "back", "/recurring")
	post("nightly", "pause", "until", "2100-07-01T12:00", "zone", "Asia/Tokyo").wants(t, http.StatusOK, "nightly is paused.")
	if until := b.row("nightly").PausedUntil; until == nil || !until.Equal(time.Date(2100, 7, 1, 3, 0, 0, 0,
		time.UTC)) {
		t.Errorf("paused until %v", until)
	}
	post("nightly", "resume").wants(t, http.StatusOK, "nightly is queued again.")
	post("nightly", "resume").wants(t, http.StatusOK, "nightly stays as it was.")
	post("nightly", "run-now").wants(t, http.StatusOK, "nightly gets one more occurrence")
	occurrences := 0
	if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM tasktable.scheduled_tasks WHERE parent_id = 'nightly'
		AND status = 'QUEUED' AND run_now_at IS NOT NULL`).Scan(&occurrences); err != nil || occurrences != 1 {
		t.Errorf("%d occurrences: %v", occurrences, err)
	}
	asked := post("nightly", "cancel").wants(t, http.StatusOK, "Cancel nightly?", "The code of events-api declares it.")
	if b.row("nightly").Status != store.StatusQueued {
		t.Fatal("cancelled without a confirmation")
	}
	b.post("/recurring/nightly/cancel", asked.hidden()...).
		wants(t, http.StatusOK, "nightly does not fire any more", "CANCELLED")
	if b.row("nightly").Status != store.StatusCancelled || b.author("nightly") != "cancel by ann" {
		t.Errorf("cancelled: %s, %s", b.row("nightly").Status, b.author("nightly"))
	}
	for rule, until := range map[string]string{
		"Until must be a time to come.": "2000-01-01T00:00", "Until must be a time, such as": "soon",
		"Until must be a time that clocks in Europe/Berlin show": "2099-03-29T02:30",
	} {
		post("late", "pause", "until", until).wants(t, http.StatusUnprocessableEntity, rule)
	}
	post("broken@1", "pause").wants(t, http.StatusUnprocessableEntity, "not a recurring one")
	if b.row("late").Status != store.StatusQueued {
		t.Error("a bad time paused the task")
	}
}

// Somebody who saw an earlier revision is told what has changed, and changes nothing.
func TestStaleRevisionOfARecurringTask(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.exec(someRecurring)
	b.must(b.tasks.Pause(t.Context(), b.pool, "nightly"))
	before := b.row("nightly").Revision
	for _, verb := range []string{"pause", "resume", "run-now", "cancel", "edit", "backfill"} {
		b.post("/recurring/nightly/"+verb, "revision", "1", "confirmed", "1").wants(t, http.StatusConflict,
			"Changed meanwhile", "test : pause")
	}
	b.post("/recurring/nightly/resume").wants(t, http.StatusBadRequest, "The form has no revision.")
	if after := b.row("nightly").Revision; after != before {
		t.Errorf("the revision is %d, and was %d", after, before)
	}
}

func TestBackfill(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.exec(someRecurring)
	fields := func(from, to, most string) []string {
		return []string{"revision", b.revision("broken"), "from", from, "to", to, "most", most, "zone", "Europe/Berlin"}
	}
	const path = "/recurring/broken/backfill"
	asked := b.post(path, fields("2026-07-01T12:00", "2026-07-01T13:00", "100")...).wants(t, http.StatusOK,
		"Create 4 occurrences?", "from 2026-07-01 10:15:00 UTC to 2026-07-01 11:00:00 UTC")
	count := func() (n int) {
		if err := b.pool.QueryRow(t.Context(),
			`SELECT count(*) FROM tasktable.scheduled_tasks WHERE parent_id = 'broken'
			AND scheduled_at < '2026-07-02Z'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if count() != 0 {
		t.Fatal("created without a confirmation")
	}
	b.post(path, asked.hidden()...).wants(t, http.StatusOK, "Created 4 occurrences.")
	if one := b.row("broken@2026-07-01T10:15:00Z"); count() != 4 || one.Status != store.StatusQueued {
		t.Errorf("%d occurrences, %s", count(), one.Status)
	}
	b.post(path, fields("2026-07-01T12:00", "2026-07-01T13:00", "100")...).wants(t, http.StatusOK,
		"There is nothing to create: each fire of that time has an occurrence already.")
	b.post(path, fields("2026-07-01T11:00", "2026-07-01T14:00", "10")...).wants(t, http.StatusOK,
		"Create 6 occurrences?", "4 fires of that time have occurrences already.", "The earliest 10 are taken.")
	b.post(path, fields("2100-07-01T11:00", "2100-07-01T14:00", "10")...).wants(t, http.StatusOK,
		"There is nothing to create: the task has no fire in that time.")
	b.refuses(path, map[string][]string{
		"From must be given.": fields("", "2026-07-01T13:00", "1"), "To must be given.": fields("2026-07-01T13:00", "",
			"1"),
		"From must be before to.":                   fields("2026-07-01T13:00", "2026-07-01T13:00", "1"),
		"At most must be a number from 1 to 10000.": fields("2026-07-01T12:00", "2026-07-01T13:00", "0"),
		"From must be a time":                       fields("x", "2026-07-01T13:00", "1"),
	})
	if count() != 4 {
		t.Errorf("%d occurrences", count())
	}
}

// editing are the fields of a task's form for editing, as they are.
func (b *board) editing(id string) []string {
	b.Helper()
	row := b.row(id)
	return []string{"revision", strconv.FormatInt(row.Revision, 10), "cron_time_zone", *row.TimeZone, "overlap",
		string(*row.Overlap),
		"catch_up", string(*row.CatchUp), "catch_up_paused", string(*row.CatchUpPaused), "catch_up_limit",
		strconv.Itoa(*row.CatchUpLimit)}
}

func TestEditOfARecurringTask(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.exec(someRecurring)
	b.post("/look", "zone", "Asia/Tokyo", "back", "/recurring")
	b.get("/recurring/broken/edit").wants(t, http.StatusOK, `value="*/15 * * * *"`, `value="30s"`, "Preview").lacks(t,
		"Save")
	before := b.row("broken")
	edited := append(b.editing("broken"), "cron", "30 12 * * *", "jitter", "1m", "ends_at", "2100-01-01T00:00", "zone",
		"UTC", "max_occurrences", "3")
	preview := b.post("/recurring/broken/edit", edited...).wants(t, http.StatusOK, "Now, in UTC",
		"After the change, in UTC",
		"Now, in Asia/Tokyo", "12:30:00 UTC", "21:30:00 JST", "<del>*/15 * * * *</del>", "<ins>30 12 * * *</ins>",
		"After the change there are no more then: it ends after 3 occurrences")
	if row := b.row("broken"); row.Revision != before.Revision || *row.Cron != "*/15 * * * *" {
		t.Fatal("the preview changed the task")
	}
	got := b.post("/recurring/broken/edit", preview.hidden()...).wants(t, http.StatusOK, "Saved.", "at 12:30 every day")
	row := b.row("broken")
	if got.path != "/recurring/broken" || *row.Cron != "30 12 * * *" || *row.Jitter != time.Minute ||
		*row.MaxOccurrences != 3 ||
		!row.EndsAt.Equal(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)) || b.author("broken") != "schedule by ann" {
		t.Errorf("saved: %s, %+v, %s", got.path, row, b.author("broken"))
	}
	if row.Queue != before.Queue || row.MaxAttempts != before.MaxAttempts ||
		!row.ScheduledAt.Equal(before.ScheduledAt) ||
		string(row.Payload) != string(before.Payload) {
		t.Errorf("other fields changed: %+v", row)
	}
	same := append(b.editing("broken"), "cron", "30 12 * * *", "jitter", "1m0s", "ends_at", "2100-01-01T09:00:00",
		"max_occurrences", "3")
	b.post("/recurring/broken/edit", same...).wants(t, http.StatusOK, "Nothing would change").lacks(t, "Save<")
	b.get("/recurring/nightly/edit").wants(t, http.StatusOK, "The code of events-api declares this task.")
}

// The fires of both are side by side, each in its own zone.
func TestPreviewOfAnotherZone(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.schedule(store.Task{ID: "r", Payload: store.JSON(`{"type":"LOG"}`),
		At:         time.Date(2100, 3, 27, 0, 0, 0, 0, time.UTC),
		Recurrence: &store.Recurrence{Cron: "30 2 * * *", TimeZone: "UTC"}})
	// Summer time begins in Berlin on 2100-03-28: 02:30 does not exist there.
	preview := b.post("/recurring/r/edit", "revision", b.revision("r"), "cron", "30 2 * * *",
		"cron_time_zone", "Europe/Berlin")
	preview.wants(t, http.StatusOK, "After the change, in Europe/Berlin", "Sat 2100-03-27 02:30:00 UTC",
		"Sun 2100-03-28 02:30:00 UTC", "Sat 2100-03-27 02:30:00 CET", "2100-03-27 01:30:00 UTC",
		"Sun 2100-03-28 03:00:00 CEST", "Mon 2100-03-29 02:30:00 CEST", "<del>UTC</del>", "<ins>Europe/Berlin</ins>")
}

func TestAnEndedRecurringTaskStartsAgain(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.exec(someRecurring)
	b.get("/recurring/done/edit").wants(t, http.StatusOK, "This task has ended. If you save, it starts again now")
	preview := b.post("/recurring/done/edit", append(b.editing("done"), "cron", "@daily")...).wants(t, http.StatusOK,
		"Save")
	b.post("/recurring/done/edit", preview.hidden()...).wants(t, http.StatusOK, "Saved.")
	if row := b.row("done"); row.Status != store.StatusQueued || time.Since(row.ScheduledAt) > time.Hour {
		t.Errorf("started again: %+v", row)
	}
}

// Bad input comes back in the form, with the field and the rule.
func TestBadEditsOfARecurringTask(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.exec(someRecurring)
	before := b.row("nightly").Revision
	for rule, c := range map[string]struct{ field, value, again string }{
		"inute 61 is not in 0-59":                                                 {"cron", "61 * * * *", `value="61 * * * *"`},
		"It must be 5 fields":                                                     {"cron", "never", `value="never"`},
		"It must be able to fire":                                                 {"cron", "0 0 30 2 *", "aria-invalid"},
		"It must be an IANA zone, such as Europe/Berlin":                          {"cron_time_zone", "Mars/Phobos", `value="Mars/Phobos"`},
		"It must be skip, allow or cancel_running":                                {"overlap", "sometimes", ""},
		`id="about-catch_up_paused" class="error">It must be latest, all or none`: {"catch_up_paused", "sometimes", ""},
		"It must be between 1 and 1000000":                                        {"max_occurrences", "1000001", "aria-invalid"},
		"It must be between 1µs and 24h, such as":                                 {"jitter", "soon", "aria-invalid"},
		"It must be a time, such as":                                              {"ends_at", "<script>", "aria-invalid"},
	} {
		for _, confirmed := range []string{"", "1"} {
			fields := url.Values{"cron": {"0 3 * * *"}, "confirmed": {confirmed}}
			given := b.editing("nightly")
			for i := 0; i < len(given); i += 2 {
				fields.Set(given[i], given[i+1])
			}
			fields.Set(c.field, c.value)
			b.send(http.MethodPost, "/recurring/nightly/edit", fields).wants(t,
				http.StatusUnprocessableEntity, rule, c.again, "Edit nightly").lacks(t, "<script>")
		}
	}
	if after := b.row("nightly").Revision; after != before {
		t.Errorf("the revision is %d, and was %d", after, before)
	}
}

// The pages tell which fires calendars move and leave out.
func TestRecurringOnDays(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.exec(`SELECT tasktable.set_calendar('company', jsonb_build_array(jsonb_build_object(
			'from', (now() AT TIME ZONE 'UTC')::date + 1, 'to', (now() AT TIME ZONE 'UTC')::date + 2, 'note', 'closed')));
		SELECT tasktable.schedule_recurring('{"type": "CLEANUP"}', '30 9 * * * out-of=company', 'out');
		SELECT tasktable.schedule_recurring('{"type": "CLEANUP"}', '30 9 * * * every=2 from=' ||
			((now() AT TIME ZONE 'UTC')::date + 2) || ' out-of=company move=next', 'moved')`)
	b.get("/recurring/out").wants(t, http.StatusOK, "left out: ", "is out (company: closed)", "at 09:30 every day, out-of=company")
	b.get("/recurring/calendar").wants(t, http.StatusOK, "out 09:30 left out: ", "is out (company: closed)", "moved 09:30 moved")
	edited := append(b.editing("out"), "cron", "30 9 * * * out-of=company move=next")
	b.post("/recurring/out/edit", edited...).wants(t, http.StatusOK, "<ins>30 9 * * * out-of=company move=next</ins>",
		"left out: ", "has a fire at this time anyway")
	edited = append(b.editing("out"), "cron", "30 9 * * * out-of=compan")
	b.post("/recurring/out/edit", edited...).wants(t, http.StatusUnprocessableEntity, "compan")
	b.get("/recurring/out/edit").wants(t, http.StatusOK, `value="30 9 * * * out-of=company"`)
}

func TestCalendar(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.get("/recurring/calendar").wants(t, http.StatusOK, "The next 24 hours", "The next 7 days")
	b.exec(someRecurring)
	b.get("/recurring/calendar").wants(t, http.StatusOK, "late every 1m30s, more than 50 fires, the next",
		"broken every 15 minutes, more than 50 fires, the next", "paused", `href="/recurring/nightly"`)
	b.get("/recurring/calendar?days=1").wants(t, http.StatusOK, "The next day")
	for _, days := range []string{"0", "32", "x"} {
		b.get("/recurring/calendar?days="+days).wants(t, http.StatusUnprocessableEntity,
			"Days must be a number from 1 to 31.")
	}
}
