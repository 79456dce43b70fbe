package doctor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

func TestLateTasks(t *testing.T) {
	p := newPatient(t)
	p.finds(p.examine(nil, "due"), "due", OK, "0 due tasks, none")
	p.put("a", "TEST", "default", time.Hour)
	p.put("b", "LATE", "default", 2*time.Hour)
	p.put("soon", "TEST", "other", time.Second)
	p.put("later", "TEST", "other", -time.Hour)
	report := p.examine(nil, "due")
	p.finds(report, "due", Warning, "2 due tasks in queue default, the oldest, of type LATE, for 2h0m")
	if len(report.Findings) != 1 {
		t.Errorf("more than that:\n%s", list(report))
	}
	p.exec(`SELECT tasktable.pause_scope('queue', 'default')`)
	p.finds(p.examine(nil, "due"), "due", OK, "1 due task, none of them for longer than 1m")
}

// The fires of recurring tasks wait for a pause, too. They are no due tasks, because a recurring task
// does not run itself.
func TestPausedFires(t *testing.T) {
	p := newPatient(t)
	p.exec(`SELECT tasktable.schedule_recurring('{"type":"TICK"}', '@daily', id, queue => 'mail')
		FROM unnest(ARRAY['one', 'two']) AS id`)
	p.exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER`)
	p.exec(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = now() - interval '1 hour' WHERE id = 'one'`)
	p.exec(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = now() + interval '1 hour' WHERE id = 'two'`)
	p.exec(`SELECT tasktable.pause_scope('queue', 'mail')`)
	p.exec(`SELECT tasktable.pause_scope('type', 'OTHER')`)
	report := p.examine(nil, "pauses")
	p.finds(
		report, "pauses", Info, "queue mail is paused since",
		"and 0 due tasks and 1 fire of recurring tasks wait for it",
	)
	p.finds(report, "pauses", Info, "type OTHER is paused since", "and 0 due tasks wait for it")
}

// More than a bound of due tasks are not counted to the end.
func TestManyLateTasks(t *testing.T) {
	p := newPatient(t)
	p.exec(strings.ReplaceAll(strings.ReplaceAll(manySQL, "3000", "12000"), "2100", "2001"))
	p.exec(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = due_at, due_at = NULL`)
	p.finds(p.examine(nil, "due"), "due", Warning, "10000 or more due tasks in queue default")
}

func TestPauses(t *testing.T) {
	p := newPatient(t)
	p.finds(p.examine(nil, "pauses"), "pauses", OK, "no queue or type is paused")
	p.put("a", "TEST", "mail", time.Hour)
	p.exec(`SELECT tasktable.pause_scope('queue', 'mail', reason => 'the server moves')`)
	p.finds(p.examine(nil, "pauses"), "pauses", Info, "queue mail is paused since",
		"until somebody resumes it, and 1 due task waits for it: the server moves")
	p.exec(`SELECT tasktable.pause_scope('type', 'OTHER', until => now() + interval '1 hour')`)
	forgotten := func(l *limits) { l.paused = time.Nanosecond }
	report := p.examine(forgotten, "pauses")
	p.finds(report, "pauses", Info, "type OTHER is paused since", "until 2", "and 0 due tasks wait for it")
	p.exec(statement(p.finds(report, "pauses", Warning, "queue mail is paused"), "tasktable queues resume queue:mail"))
	report = p.examine(forgotten, "pauses")
	p.well(report)
	p.exec(statement(p.finds(report, "pauses", Info, "type OTHER"), "tasktable queues resume type:OTHER"))
	p.finds(p.examine(forgotten, "pauses"), "pauses", OK)
	p.exec(`SELECT tasktable.pause_scope('all')`)
	p.finds(p.examine(forgotten, "pauses"), "pauses", Warning, "all is paused", "1 due task waits")
}

// statement is the SQL of a remedy that ends with a command, which must be this.
func statement(found Finding, command string) string {
	sql, of, _ := strings.Cut(found.Do, "\n")
	if of != command {
		return "no such command: " + found.Do
	}
	return sql
}

// hold makes a task claimed, by a lease that ends so many seconds from now.
func (p *patient) hold(id string, seconds int) {
	p.t.Helper()
	p.exec(`UPDATE tasktable.scheduled_tasks SET status = 'EXECUTING', attempt = 1,
		fence = nextval('tasktable.task_numbers'),
		lease_expires_at = clock_timestamp() + $2 * interval '1 second', next_attempt_at = NULL
		WHERE id = $1`, id, seconds)
}

func TestLapsedClaims(t *testing.T) {
	p := newPatient(t)
	p.put("fine", "TEST", "default", time.Hour)
	p.hold("fine", 60)
	p.finds(p.examine(nil, "claims"), "claims", OK, "1 task held")
	p.put("stuck", "TEST", "default", time.Hour)
	p.hold("stuck", -60)
	p.finds(p.examine(nil, "claims"), "claims", Error, "1 task held by claims whose lease has ended, the first 1m",
		"(task stuck)")
	p.exec(`UPDATE tasktable.scheduled_tasks SET status = 'QUEUED', fence = NULL, lease_expires_at = NULL,
		next_attempt_at = scheduled_at WHERE id = 'stuck'`) // as the leader does
	p.well(p.examine(nil, "claims"))
}

func TestDeadLetters(t *testing.T) {
	p := newPatient(t)
	p.finds(p.examine(nil, "dead-letters"), "dead-letters", OK, "no dead letters")
	const dead = `INSERT INTO tasktable.scheduled_tasks (id, payload, status, message, finished_at)
		VALUES ($1, '{"type":"TEST"}', $2, $3, $4::text::timestamptz)`
	p.exec(dead, "late", "EXPIRED", "expired", "2026-01-01Z")
	p.finds(p.examine(nil, "dead-letters"), "dead-letters", Info, "0 FAILED and 1 EXPIRED", "; 1 time: expired")
	p.exec(dead, "one", "FAILED", "421 try\n\x1b later", "2026-02-01Z")
	p.exec(dead, "two", "FAILED", "421 try\n\x1b later", "2026-03-01Z")
	found := p.finds(p.examine(nil, "dead-letters"), "dead-letters", Warning,
		"2 FAILED and 1 EXPIRED that nobody has dealt with, the newest at 2026-03-01T00:00:00Z; "+
			"retention takes the first at 2026-04-01T00:00:00Z; 2 times: 421 try later")
	query, _, _ := strings.Cut(found.Do, ";")
	p.exec(query)
	if !containsAll(found.Do, []string{"tasktable dead list\n", "tasktable dead retry ID"}) {
		t.Errorf("it says %q", found.Do)
	}
	report := p.examineBy(func(c *Config) { c.Retention, c.Only = -1, []string{"dead-letters"} })
	p.finds(report, "dead-letters", Warning, "they are kept for ever")
	p.exec(`SELECT tasktable.archive(id, 'seen') FROM tasktable.dead_letters`)
	p.finds(p.examine(nil, "dead-letters"), "dead-letters", OK)
}

// recur schedules a recurring task, of which nobody plans the fires.
func (p *patient) recur(id, cron string) {
	p.t.Helper()
	task := store.Task{ID: id, Payload: store.JSON(`{"type":"TEST"}`), Recurrence: &store.Recurrence{Cron: cron}}
	if _, err := tasks.Schedule(p.ctx, p.pool, task); err != nil {
		p.t.Fatal(err)
	}
}

func TestRecurringTasksThatDoNotFire(t *testing.T) {
	p := newPatient(t)
	p.recur("nightly", "0 3 * * *")
	p.finds(p.examine(nil, "recurring"), "recurring", OK, "1 recurring task waiting for the next fire")
	soon := func(l *limits) { l.late = time.Nanosecond }
	p.finds(p.examine(soon, "recurring"), "recurring", Error, "recurring task nightly has not been planned for")
	p.exec(`UPDATE tasktable.scheduled_tasks SET planned_revision = revision,
		next_attempt_at = clock_timestamp() - interval '3 hours'`)
	found := p.finds(p.examine(nil, "recurring"), "recurring", Error, "recurring task nightly should have fired 3h0m")
	if found.Do !=
		"see nodes and leader: one must lead, and one work queue default and type TEST; or tasktable why nightly" {
		t.Errorf("it says %q", found.Do)
	}
	p.exec(`SELECT tasktable.pause_scope('type', 'TEST')`)
	p.well(p.examine(nil, "recurring"))
	p.exec(`SELECT tasktable.resume_scope('type', 'TEST')`)
	p.exec(`UPDATE tasktable.scheduled_tasks SET cron = '0 0 30 2 *',
		next_attempt_at = clock_timestamp() + interval '1 hour'`)
	p.finds(p.examine(nil, "recurring"), "recurring", Error, "recurring task nightly does not fire: invalid: cron")
	for i := range 7 {
		p.recur(fmt.Sprint("more ", i), "@hourly")
	}
	p.exec(`UPDATE tasktable.scheduled_tasks SET cron = '0 0 30 2 *'`)
	p.finds(p.examine(nil, "recurring"), "recurring", Error, "3 more recurring tasks are like these")
}

func TestARecurringTaskWithoutAFire(t *testing.T) {
	p := newPatient(t)
	p.recur("never", "0 0 28 2 *")
	p.exec(`UPDATE tasktable.scheduled_tasks SET cron = '0 0 30 2 *'`)
	p.finds(
		p.examine(nil, "recurring"), "recurring", Error, "recurring task never does not fire", "must be able to fire",
	)
}

func TestAFailedRecurringTask(t *testing.T) {
	p := newPatient(t)
	p.recur("nightly", "0 3 * * *")
	p.exec(`UPDATE tasktable.scheduled_tasks SET cron = '0 0 30 2 *'`)
	p.node() // which fails it
	p.until("it is failed", `SELECT status = 'FAILED' FROM tasktable.scheduled_tasks WHERE id = 'nightly'`)
	report := p.examine(nil, "dead-letters")
	p.finds(report, "dead-letters", Error, "recurring tasks that are FAILED fire no more (1): nightly")
	p.finds(report, "dead-letters", Warning, "1 FAILED")
}

func TestLeaderWithOtherZoneData(t *testing.T) {
	p := newPatient(t)
	p.recur("nightly", "0 3 * * *")
	p.node()
	p.until("it is planned", `SELECT planned_zone_data IS NOT NULL FROM tasktable.scheduled_tasks WHERE id = 'nightly'`)
	p.well(p.examine(nil, "recurring"))
	p.exec(`UPDATE tasktable.scheduled_tasks SET planned_zone_data = 'other' WHERE id = 'nightly'`)
	p.finds(p.examine(nil, "recurring"), "recurring", Warning,
		"the leader has other data of time zone UTC than this program, so the next fire of nightly")
}

func TestServicesThatDeclareTwoSets(t *testing.T) {
	p := newPatient(t)
	p.fakeNode("mail", "v1", "one set")
	p.fakeNode("mail", "v1", "one set")
	p.fakeNode("events", "v1", "another")
	p.fakeNode("events", "v1", "")
	if report := p.examine(nil, "recurring"); report.Worst() != OK {
		t.Errorf("each service declares one set:\n%s", list(report))
	}
	p.fakeNode("mail", "v2", "another")
	p.finds(p.examine(nil, "recurring"), "recurring", Info, "nodes of service mail declare 2 sets of recurring tasks")
	p.finds(p.examine(func(l *limits) { l.conflict = time.Nanosecond }, "recurring"), "recurring", Warning,
		"nodes of service mail declare 2 sets")
}

// Retention notes what it could not remove in the line of the node that led then; another's note of before does not
// count.
func TestRetentionThatIsRefused(t *testing.T) {
	p := newPatient(t)
	p.finds(p.examine(nil, "retention"), "retention", OK, "what is too old is removed")
	p.exec(`INSERT INTO tasktable.nodes (service, version, host, queues, types, dead_at, retention_refused)
		VALUES ('test', '', '', '{}', '{}', NULL,
			'3 rows, the first of task a: violates foreign key constraint "invoices"'),
			('test', '', '', '{}', '{}', now(), '7 rows of a node that is gone')`)
	report := p.examine(nil, "retention")
	p.finds(
		report, "retention", Warning, "retention could not remove 3 rows, the first of task a: violates foreign key",
	)
	if len(report.Findings) != 1 {
		t.Errorf("more than that:\n%s", list(report))
	}
}

// Tasks that wait behind a circuit are neither due nor stuck. The doctor says what they wait for.
func TestWaitingTasks(t *testing.T) {
	p := newPatient(t)
	p.finds(p.examine(nil, "waiting"), "waiting", OK, "no task waits for something that is out of order")
	for _, id := range []string{"a", "b", "c", "d"} {
		p.put(id, "TEST", "default", time.Hour)
	}
	p.exec(`UPDATE tasktable.scheduled_tasks SET waits = 3, waiting_since = next_attempt_at,
		next_attempt_at = now() + interval '10 minutes', message = CASE id WHEN 'c' THEN 'host b does not answer'
		ELSE 'host a answered 500' END WHERE id <> 'd'`)
	report := p.examine(nil, "waiting")
	p.finds(report, "waiting", Warning, "2 tasks put off by their handler, the first since", ": host a answered 500")
	p.finds(report, "waiting", Warning, "1 task put off by their handler, the first since", ": host b does not answer")
}
