package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

func TestInsertByPlainSQL(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	recurs := func(cron string) func(*store.Row) {
		return func(r *store.Row) {
			r.Cron, r.TimeZone, r.Overlap = &cron, pointerTo("UTC"), pointerTo(store.OverlapSkip)
			r.CatchUp, r.CatchUpPaused = pointerTo(store.CatchUpLatest), pointerTo(store.CatchUpNone)
			r.CatchUpLimit = pointerTo(100)
		}
	}
	for _, insert := range []struct {
		name, columns, values string
		change                func(*store.Row)
	}{
		{"least", ``, ``, func(*store.Row) {}},
		{"paused", `, status`, `, 'PAUSED'`, func(r *store.Row) { r.Status = store.StatusPaused }},
		{"done elsewhere", `, status, finished_at, message`, `, 'COMPLETED', '2020-01-01Z', 'imported'`,
			func(r *store.Row) {
				r.Status, r.Message = store.StatusCompleted, pointerTo("imported")
				r.FinishedAt = pointerTo(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
			}},
		{"claims to be held", `, revision, attempt, fence, lease_expires_at, next_attempt_at`,
			`, -5, 7, 8, now(), '2020-01-01'`, func(*store.Row) {}},
		{"least, recurring", `, cron`, `, '@daily'`, recurs("@daily")},
		{"all, recurring", `, cron, time_zone, overlap, catch_up, catch_up_paused, catch_up_limit, jitter, ends_at,
			max_occurrences, retention, status, paused_until`, `, '0 9 * * *', 'Europe/Berlin', 'allow', 'all', 'latest',
			7, '1 hour', '2100-01-01Z', 9, '2 hours', 'PAUSED', '2100-01-01 01:00Z'`, func(r *store.Row) {
			recurs("0 9 * * *")(r)
			r.TimeZone, r.Overlap, r.CatchUp = pointerTo("Europe/Berlin"), pointerTo(store.OverlapAllow), pointerTo(store.CatchUpAll)
			r.CatchUpPaused, r.CatchUpLimit, r.Jitter = pointerTo(store.CatchUpLatest), pointerTo(7), pointerTo(time.Hour)
			r.EndsAt, r.MaxOccurrences, r.Retention = pointerTo(far(0)), pointerTo(9), pointerTo(2*time.Hour)
			r.Status, r.PausedUntil = store.StatusPaused, pointerTo(far(60))
		}},
		{"claims to be planned and to run now", `, cron, planned_revision, next_attempt_at, run_now_at`,
			`, '@daily', 1, '2000-01-01', '2000-01-01'`, recurs("@daily")},
	} {
		b.each(insert.name, func(b *bench) {
			from := b.Now()
			b.Exec(b.Pool, `INSERT INTO tasktable.scheduled_tasks (id, payload`+insert.columns+`)
				VALUES ($1, '{"type": "TEST", "n": 1}'`+insert.values+`)`, insert.name)
			after := b.state(insert.name)
			w := &want{b: b, found: after.Row, from: from, until: b.Now()}
			w.row = store.Row{
				ID: insert.name, Payload: []byte(`{"n": 1, "type": "TEST"}`), Type: "TEST", Queue: "default",
				Status: store.StatusQueued, ScheduledAt: *w.during("scheduled_at", &after.Row.ScheduledAt),
				ExpectedExecutionTime: 5 * time.Minute, MaxAttempts: 10,
			}
			insert.change(&w.row)
			w.become(w.row.Status)
			b.checkWhole(state{}, after, &w.row, "sql", "created", b.Role())
		})
	}
}

// columnEdit is an UPDATE, and what it makes of the row.
type columnEdit struct {
	set    string
	change func(*store.Row)
}

var otherPayload = []byte(`{"type": "OTHER"}`)

// columnEdits are an UPDATE of each column of the content, and of several.
var columnEdits = []columnEdit{
	{`payload = '{"type": "OTHER"}'`, func(r *store.Row) { r.Payload, r.Type = otherPayload, "OTHER" }},
	{`scheduled_at = '2100-01-01 00:05Z'`, func(r *store.Row) { r.ScheduledAt = far(5) }},
	{`priority = 9`, func(r *store.Row) { r.Priority = 9 }},
	{`queue = 'mail'`, func(r *store.Row) { r.Queue = "mail" }},
	{`expiration = '2 hours'`, func(r *store.Row) { r.Expiration = pointerTo(2 * time.Hour) }},
	{`expected_execution_time = '1 minute'`, func(r *store.Row) { r.ExpectedExecutionTime = time.Minute }},
	{`max_attempts = 1`, func(r *store.Row) { r.MaxAttempts = 1 }},
	{`entity = NULL`, func(r *store.Row) { r.Entity = nil }},
	{`tenant_id = 'other'`, func(r *store.Row) { r.TenantID = pointerTo("other") }},
	{`retention = '1 second'`, func(r *store.Row) { r.Retention = pointerTo(time.Second) }},
	{`payload = '{"type": "OTHER"}', scheduled_at = '2100-01-01 00:05Z', priority = 9, queue = 'mail',
		expiration = NULL, max_attempts = 1, entity = 'event:9', tenant_id = NULL`, func(r *store.Row) {
		r.Payload, r.Type, r.ScheduledAt, r.Priority, r.Queue = otherPayload, "OTHER", far(5), 9, "mail"
		r.Expiration, r.MaxAttempts, r.Entity, r.TenantID = nil, 1, pointerTo("event:9"), nil
	}},
}

const nothingRecurs = `cron = NULL, time_zone = NULL, overlap = NULL, catch_up = NULL, catch_up_paused = NULL, ` +
	`catch_up_limit = NULL`

// recurrenceEdits are those of the columns that only a recurring task has, or that are no time of it.
var recurrenceEdits = []columnEdit{
	{`cron = '@every 90s'`, func(r *store.Row) { r.Cron = pointerTo("@every 90s") }},
	{`time_zone = 'Europe/Berlin'`, func(r *store.Row) { r.TimeZone = pointerTo("Europe/Berlin") }},
	{`overlap = 'allow'`, func(r *store.Row) { r.Overlap = pointerTo(store.OverlapAllow) }},
	{`catch_up = 'none'`, func(r *store.Row) { r.CatchUp = pointerTo(store.CatchUpNone) }},
	{`catch_up_paused = 'all'`, func(r *store.Row) { r.CatchUpPaused = pointerTo(store.CatchUpAll) }},
	{`catch_up_limit = 1`, func(r *store.Row) { r.CatchUpLimit = pointerTo(1) }},
	{`ends_at = '2100-01-01 01:30Z'`, func(r *store.Row) { r.EndsAt = pointerTo(far(90)) }},
	{`max_occurrences = 1`, func(r *store.Row) { r.MaxOccurrences = pointerTo(1) }},
	{`jitter = '24 hours'`, func(r *store.Row) { r.Jitter = pointerTo(24 * time.Hour) }},
	{`scheduled_at = '2100-01-01 00:05Z', cron = '@daily', overlap = 'allow', time_zone = NULL`, func(r *store.Row) {
		r.ScheduledAt, r.Cron, r.Overlap = far(5), pointerTo("@daily"), pointerTo(store.OverlapAllow)
	}},
	{nothingRecurs, func(r *store.Row) {
		r.Cron, r.TimeZone, r.Overlap, r.CatchUp, r.CatchUpPaused, r.CatchUpLimit = nil, nil, nil, nil, nil, nil
	}},
}

// An edit draws a revision, fences a running task and re-arms nothing that has ended. Of a recurring task it leaves
// planned_revision behind, which asks the leader to plan, but a fire that was due stays owed.
func TestEditByPlainSQL(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	runNow := columnEdit{`run_now_at = '2099-01-01Z'`, func(r *store.Row) {
		r.RunNowAt = pointerTo(time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC))
	}}
	for i, edit := range append(slices.Clone(columnEdits), runNow) {
		b.each(edit.set, func(b *bench) {
			for _, kind := range rowKinds[1:] {
				id := fmt.Sprint(i, " ", kind)
				b.Make(id, kind)
				b.checkEdit(id, edit)
			}
		})
	}
	for i, edit := range slices.Concat(columnEdits, recurrenceEdits) {
		b.each("recurring/"+edit.set, func(b *bench) {
			for _, kind := range recurringKinds[1:] {
				id := fmt.Sprint("recurring ", i, " ", kind)
				b.MakeRecurring(id, kind)
				b.checkEdit(id, edit)
			}
		})
	}
}

// checkEdit edits a task, and demands what the protocol demands of a row whose content alone was edited.
func (b *bench) checkEdit(id string, edit columnEdit) {
	b.Helper()
	sql := `UPDATE tasktable.scheduled_tasks SET ` + edit.set + ` WHERE id = $1`
	before, from := b.state(id), b.Now()
	b.Exec(b.Pool, sql, id)
	until, after := b.Now(), b.state(id)
	w := &want{b: b, before: before.Row, row: *before.Row, found: after.Row, from: from, until: until}
	edit.change(&w.row)
	status, outcome := before.Row.Status, "rescheduled"
	if status == store.StatusExecuting {
		status = store.StatusQueued
	}
	if before.Row.FinishedAt != nil {
		outcome = "edited"
	}
	w.become(status)
	b.checkWhole(before, after, &w.row, "sql", outcome, b.Role())
	b.Exec(b.Pool, sql, id)
	again := b.state(id)
	again.Version = after.Version // the row is rewritten by an UPDATE of the same, but that is all
	same(b, "the same edit again", again, after)
}

// statusEdits says what setting a status by plain SQL comes to: the outcome of the change line, "-" for no
// change, "!" for refused.
//
//	to: QUEUED  PAUSED CANCELLED COMPLETED EXECUTING
var statusEdits = map[string][]string{
	"QUEUED":         {"-", "paused", "cancelled", "edited", "!"},
	"PAUSED":         {"queued", "-", "cancelled", "edited", "!"},
	"EXECUTING":      {"rescheduled", "paused", "cancelled", "edited", "-"},
	"CANCELLED":      {"rearmed", "paused", "-", "edited", "!"},
	"FAILED":         {"rearmed", "paused", "cancelled", "edited", "!"},
	"COMPLETED":      {"rearmed", "paused", "cancelled", "-", "!"},
	"held QUEUED":    {"-", "paused", "cancelled", "edited", "!"},
	"held PAUSED":    {"queued", "-", "cancelled", "edited", "!"},
	"held CANCELLED": {"rearmed", "paused", "-", "edited", "!"},
}

func TestStatusByPlainSQL(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const set = `UPDATE tasktable.scheduled_tasks SET status = $2 WHERE id = $1`
	for kind, outcomes := range statusEdits {
		for i, to := range []store.Status{"QUEUED", "PAUSED", "CANCELLED", "COMPLETED", "EXECUTING"} {
			b.each(kind+"/"+string(to), func(b *bench) {
				id := kind + " " + string(to)
				b.Make(id, kind)
				before := b.state(id)
				if outcomes[i] == "!" {
					b.refused(set, `status of task "`+id+`" cannot be set to EXECUTING: only a claim does that`, id, to)
					same(b, "task", b.state(id), before)
					return
				}
				from := b.Now()
				b.Exec(b.Pool, set, id, to)
				until, after := b.Now(), b.state(id)
				if outcomes[i] == "-" {
					before.Version = after.Version
					same(b, "task", after, before)
					return
				}
				w := &want{b: b, before: before.Row, row: *before.Row, found: after.Row, from: from, until: until}
				if before.Row.Status == store.StatusExecuting && to == store.StatusPaused {
					// It keeps its revision, so that an attempt that has begun stays current.
					w.row.Status, w.row.LastStatusUpdate = to, *w.during("last_status_update", &after.Row.LastStatusUpdate)
				} else {
					w.become(to)
				}
				b.checkWhole(before, after, &w.row, "sql", outcomes[i], b.Role())
			})
		}
	}
}

func TestDeleteByPlainSQL(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const del = `DELETE FROM tasktable.scheduled_tasks WHERE id = $1`
	for _, kind := range rowKinds[1:] {
		b.each(kind, func(b *bench) {
			b.Make(kind, kind)
			before := b.state(kind)
			if before.Row.Fence != nil {
				b.refused(del, `task "`+kind+`" is running and cannot be deleted`, kind)
				same(b, "task", b.state(kind), before)
				return
			}
			b.Exec(b.Pool, del, kind)
			after := b.state(kind)
			b.checkWhole(before, after, nil, "sql", "deleted", b.Role())
			b.InTx(func(tx pgx.Tx) { // a new task of the same id goes on in the same history
				receipt, err := b.Tasks.Schedule(b.Ctx, tx, base(kind))
				b.Check(err)
				if last := after.Changes[len(after.Changes)-1].Revision; receipt.Outcome != store.Created ||
					receipt.Revision <= last {
					b.Errorf("got %+v after revision %d", receipt, last)
				}
			})
		})
	}
}

// typeRules are statements by plain SQL on the task one, {"type": "TEST", "n": 1}, and the type that it then has, or
// why they are refused.
var typeRules = map[string]struct{ sql, kind, refused string }{
	"another variant": {`UPDATE tasktable.scheduled_tasks SET payload = '{"type": "OTHER"}'`, "OTHER", ""},
	"both columns": {`UPDATE tasktable.scheduled_tasks
		SET payload = '{"type": "OTHER"}', type = 'OTHER'`, "OTHER", ""},
	"the former type beside": {`UPDATE tasktable.scheduled_tasks
		SET payload = '{"type": "OTHER"}', type = type`, "OTHER", ""},
	"null is the payload's": {`UPDATE tasktable.scheduled_tasks SET type = NULL`, "TEST", ""},
	"the same":              {`UPDATE tasktable.scheduled_tasks SET type = 'TEST'`, "TEST", ""},
	"type alone": {
		`UPDATE tasktable.scheduled_tasks SET type = 'OTHER'`, "TEST",
		`type of task "one" must be what its payload says`,
	},
	"a third": {`UPDATE tasktable.scheduled_tasks
		SET payload = '{"type": "OTHER"}', type = 'THIRD'`, "TEST", `type of task "one" must be`},
	"no payload": {`UPDATE tasktable.scheduled_tasks SET payload = NULL`, "TEST", `null value in column "payload"`},
	"neither":    {`UPDATE tasktable.scheduled_tasks SET payload = NULL, type = NULL`, "TEST", `null value in column`},
	"bad type": {
		`UPDATE tasktable.scheduled_tasks SET payload = '{"type": "no good"}'`, "TEST", "type must be 2 to 127 letters",
	},
	"upserted": {`INSERT INTO tasktable.scheduled_tasks (id, payload) VALUES ('one', '{"type": "OTHER"}')
		ON CONFLICT (id) DO UPDATE SET payload = EXCLUDED.payload`, "OTHER", ""},
	"upserted with both": {`INSERT INTO tasktable.scheduled_tasks (id, payload) VALUES ('one', '{"type": "OTHER"}')
		ON CONFLICT (id) DO UPDATE SET payload = EXCLUDED.payload, type = EXCLUDED.type`, "OTHER", ""},
	"inserted with another": {`INSERT INTO tasktable.scheduled_tasks (id, payload, type)
		VALUES ('new', '{"type": "TEST"}', 'OTHER')`, "TEST", `type of task "new" must be`},
	"inserted without payload": {
		`INSERT INTO tasktable.scheduled_tasks (id, type) VALUES ('new', 'OTHER')`, "TEST",
		`type of task "new" must be`,
	},
	"inserted with nothing": {
		`INSERT INTO tasktable.scheduled_tasks (id) VALUES ('new')`, "TEST", `null value in column "payload"`,
	},
	"bulk with bad type": {`SELECT tasktable.schedule_many(jsonb_agg(jsonb_build_object('id', n::text, 'payload',
		'{"type": "no good"}'::jsonb))) FROM generate_series(1, 30) AS n`,
		"TEST", "type must be 2 to 127 letters"},
	"bulk with number": {`SELECT tasktable.schedule_many(jsonb_agg(jsonb_build_object('id', n::text, 'payload',
		'{"type": 12}'::jsonb))) FROM generate_series(1, 30) AS n`,
		"TEST", "payload must have a field type"},
	"bulk without payload": {`SELECT tasktable.schedule_many(jsonb_agg(jsonb_build_object('id', n::text)))
		FROM generate_series(1, 30) AS n`,
		"TEST", `null value in column "payload"`},
}

// type is what the payload says, however they are written.
func TestTypeByPlainSQL(t *testing.T) {
	t.Parallel()
	for name, rule := range typeRules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Exec(b.Pool, `INSERT INTO tasktable.scheduled_tasks (id, payload)
				VALUES ('one', '{"type": "TEST", "n": 1}')`)
			before := b.state("one")
			if rule.refused != "" {
				b.refused(rule.sql, rule.refused)
				same(b, "refused", b.state("one"), before)
			} else {
				b.Exec(b.Pool, rule.sql)
			}
			b.agrees("one", rule.kind)
			if n := one[int](b, b.Pool, `SELECT count(*)::int FROM tasktable.scheduled_tasks`); n != 1 {
				t.Errorf("%d tasks", n)
			}
		})
	}
}

// agrees wants a task's type to be that, in its own column and in its payload.
func (b *bench) agrees(id, kind string) {
	b.Helper()
	if got := one[string](b, b.Pool, `SELECT type || ' ' || (payload ->> 'type') FROM tasktable.scheduled_tasks
		WHERE id = $1`, id); got != kind+" "+kind {
		b.Errorf("%s: type and that of the payload are %q, want %q twice", id, got, kind)
	}
}

// An application's trigger that comes after the schema's own may write another variant into the payload: then
// nothing is written.
func TestTypeWithATriggerOnThePayload(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Make("one", "QUEUED")
	b.Exec(b.Pool, `CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		NEW.payload := NEW.payload || '{"type": "SPOILED"}';
		RETURN NEW;
	END $$`)
	b.Exec(b.Pool, `CREATE TRIGGER zzzz_spoil BEFORE INSERT OR UPDATE ON tasktable.scheduled_tasks FOR EACH ROW
		EXECUTE FUNCTION spoil()`)
	before := b.state("one")
	for _, sql := range []string{
		`INSERT INTO tasktable.scheduled_tasks (id, payload) VALUES ('new', '{"type": "TEST"}')`,
		`SELECT tasktable.schedule('{"type": "TEST"}', id => 'new')`,
		`SELECT tasktable.schedule_many(jsonb_agg(jsonb_build_object('id', n::text, 'payload',
			'{"type": "TEST"}'::jsonb))) FROM generate_series(1, 30) AS n`,
		`UPDATE tasktable.scheduled_tasks SET entity = 'event:43'`,
		`UPDATE tasktable.scheduled_tasks SET payload = '{"type": "TEST", "n": 2}'`,
		`UPDATE tasktable.scheduled_tasks SET status = 'CANCELLED'`,
	} {
		b.refused(sql, "must be what its payload says")
	}
	same(b, "task", b.state("one"), before)
	if n := one[int](b, b.Pool, `SELECT count(*)::int FROM tasktable.scheduled_tasks`); n != 1 {
		t.Errorf("%d tasks", n)
	}
}

// What a trigger that comes before the schema's own makes of the payload is heeded: the type follows.
func TestTypeFollowsAnEarlierTrigger(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Exec(b.Pool, `CREATE FUNCTION rename() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		NEW.payload := NEW.payload || '{"type": "RENAMED"}';
		RETURN NEW;
	END $$`)
	b.Exec(b.Pool, `CREATE TRIGGER rename BEFORE INSERT OR UPDATE OF payload ON tasktable.scheduled_tasks FOR EACH ROW
		EXECUTE FUNCTION rename()`)
	b.Exec(b.Pool, `INSERT INTO tasktable.scheduled_tasks (id, payload) VALUES ('one', '{"type": "TEST"}')`)
	b.agrees("one", "RENAMED")
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET payload = '{"type": "TEST", "n": 2}'`)
	b.agrees("one", "RENAMED")
}
