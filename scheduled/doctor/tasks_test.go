package doctor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

// The doctor tells what inspect.Attention finds, with its levels, and with remedies for the schema.
func TestAttention(t *testing.T) {
	p := newPatient(t)
	p.node()
	p.finding("attention", OK, "nothing needs a person")
	p.put("late", "OTHER", "mail", time.Hour)
	p.put("dead", "OTHER", "other", time.Hour)
	p.exec(`UPDATE tasktable.scheduled_tasks SET status = 'FAILED', next_attempt_at = NULL, finished_at = now(),
		message = E'421 try\n\x1b later' WHERE id = 'dead'`)
	p.exec(`SELECT tasktable.pause_scope('queue', 'bulk', reason => 'the server moves')`)
	report := p.examine(nil, "attention")
	late := p.finds(report, "attention", Error, "1 late task of type OTHER in queue mail, the first (late) since",
		": no live node works that queue")
	if !strings.HasSuffix(late.Do, "or cancel them: tasktable tasks cancel --type 'OTHER' --queue mail") {
		t.Errorf("it says %q", late.Do)
	}
	p.finds(report, "attention", Warning, "1 FAILED dead letter, the first (dead) since",
		": the newest says 421 try later")
	paused := p.finds(report, "attention", Info, "queue bulk is paused since", "until somebody resumes it", ": the server moves")
	if paused.Do != "tasktable queues resume 'queue:bulk'" {
		t.Errorf("it says %q", paused.Do)
	}
	if len(report.Findings) != 3 {
		t.Errorf("more than that:\n%s", list(report))
	}
}

// recur schedules a recurring task, of which nobody plans the fires.
func (p *patient) recur(id, cron string) {
	p.t.Helper()
	task := store.Task{ID: id, Payload: store.JSON(`{"type":"TEST"}`), Recurrence: &store.Recurrence{Cron: cron}}
	if _, err := tasks.Schedule(p.ctx, p.pool, task); err != nil {
		p.t.Fatal(err)
	}
}

func TestRecurringTasksThatNeverFire(t *testing.T) {
	p := newPatient(t)
	p.recur("nightly", "0 3 * * *")
	p.finding("recurring", OK, "1 recurring task waiting for the next fire")
	p.exec(`UPDATE tasktable.scheduled_tasks SET cron = '0 0 30 2 *',
		next_attempt_at = clock_timestamp() + interval '1 hour'`)
	p.finding("recurring", Error, "recurring task nightly does not fire: invalid: cron")
	for i := range 7 {
		p.recur(fmt.Sprint("more ", i), "@hourly")
	}
	p.exec(`UPDATE tasktable.scheduled_tasks SET cron = '0 0 30 2 *'`)
	p.finding("recurring", Error, "3 more recurring tasks are like these")
}

func TestARecurringTaskWithoutAFire(t *testing.T) {
	p := newPatient(t)
	p.recur("never", "0 0 28 2 *")
	p.exec(`UPDATE tasktable.scheduled_tasks SET cron = '0 0 30 2 *'`)
	p.finding("recurring", Error, "recurring task never does not fire", "must be able to fire")
}

func TestCalendarsThatLeaveNoDay(t *testing.T) {
	p := newPatient(t)
	p.exec(`SELECT tasktable.set_calendar('open', '["2100-01-01"]')`)
	p.exec(`SELECT tasktable.set_calendar('full', '[]')`)
	p.recur("well", "0 3 * * * out-of=full")
	for i := range 7 {
		p.exec(`SELECT tasktable.schedule_recurring('{"type": "TEST"}', '0 3 * * * keep-to=open', $1)`, fmt.Sprint("task", i))
	}
	p.finding("recurring", Warning, "7 recurring tasks will not fire within 20 years, because "+
		"of calendars: task0 (open), task1 (open), task2 (open), task3 (open), task4 (open)")
}

func TestLeaderWithOtherZoneData(t *testing.T) {
	p := newPatient(t)
	p.recur("nightly", "0 3 * * *")
	p.node()
	p.until("it is planned", `SELECT planned_zone_data IS NOT NULL FROM tasktable.scheduled_tasks WHERE id = 'nightly'`)
	p.well(p.examine(nil, "recurring"))
	p.exec(`UPDATE tasktable.scheduled_tasks SET planned_zone_data = 'other' WHERE id = 'nightly'`)
	p.finding("recurring", Warning,
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
	p.finding("recurring", Info, "nodes of service mail declare 2 sets of recurring tasks")
	p.finds(p.examine(func(l *limits) { l.conflict = time.Nanosecond }, "recurring"), "recurring", Warning,
		"nodes of service mail declare 2 sets")
}

// Retention notes what it could not remove in the line of the node that led then; another's note of before does not
// count.
func TestRetentionThatIsRefused(t *testing.T) {
	p := newPatient(t)
	p.finding("retention", OK, "what is too old is removed")
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
