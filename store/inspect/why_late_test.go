package inspect_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// lateness is a night of 2100: a task due at far(60) that began at far(120), on node 9, and what was around it.
type lateness struct{ *bench }

// scheduled puts the task into the table as of a minute of the night.
func (l lateness) scheduled(id string, minute int) {
	l.Helper()
	l.Schedule(store.Task{ID: id, Payload: payload(1), At: far(60)})
	l.dated(id, "schedule", minute)
}

// dated gives the latest change of a verb another time.
func (l lateness) dated(id, verb string, minute int) {
	l.Helper()
	l.asOwner(func(tx pgx.Tx) {
		l.Exec(tx, `UPDATE tasktable.scheduled_task_changes SET changed_at = $3 WHERE revision =
			(SELECT max(revision) FROM tasktable.scheduled_task_changes WHERE task_id = $1
				AND verb = $2)`, id, verb, far(minute))
	})
}

// asOwner lets history be written as it would have come about.
func (b *bench) asOwner(do func(pgx.Tx)) {
	b.Helper()
	b.InTx(func(tx pgx.Tx) {
		b.Exec(tx, `ALTER TABLE tasktable.scheduled_task_changes DISABLE TRIGGER USER`)
		do(tx)
		b.Exec(tx, `ALTER TABLE tasktable.scheduled_task_changes ENABLE TRIGGER USER`)
	})
}

// began records that the task began at a minute and completed at once.
func (l lateness) began(id string, minute int) {
	l.Helper()
	l.beganAt(id, far(minute))
}

func (l lateness) beganAt(id string, at time.Time) {
	l.Helper()
	l.AsEngine(func(tx pgx.Tx) {
		l.Exec(tx, `INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt,
			scheduled_at, due_at, started_at, finished_at, outcome, node)
			SELECT nextval('tasktable.task_numbers'), id, type, revision, 1, scheduled_at, scheduled_at, $2, $2,
				'COMPLETED', 9 FROM tasktable.scheduled_tasks WHERE id = $1`,
			id, at)
		l.Exec(tx, `UPDATE tasktable.scheduled_tasks
			SET status = 'COMPLETED', attempt = 1, next_attempt_at = NULL, finished_at = $2 WHERE id = $1`, id, at)
	})
}

// stood is a node that was there from one minute to another; to -1: it still is.
func (l lateness) stood(number, from, silent, to int) {
	l.Helper()
	at := func(minute int) *time.Time {
		if minute < 0 {
			return nil
		}
		return new(far(minute))
	}
	l.Exec(l.Pool, `INSERT INTO tasktable.nodes (number, service, version, host, queues, types, started_at,
		last_seen_at, dead_at) OVERRIDING SYSTEM VALUE
		VALUES ($1, 'mailer', 'v1', 'host/1', '{"default": 1}',
			'{TEST}', $2, $3, $4)`, number, far(from), at(silent), at(to))
}

func (l lateness) says(id, want string) {
	l.Helper()
	l.because(
		id, "completed", "completed by attempt 1 of 10 on node 9 (host/1, mailer v1) at far(120); 1h0m0s late: "+want,
	)
}

func TestWhyLate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		around func(lateness)
		want   string
		lines  []string // of the story, besides the task's own
	}{
		"nothing is known": {
			func(l lateness) { l.stood(9, 0, -1, -1) }, "its nodes had no free slot, or it waited behind other tasks",
			nil,
		},
		"no node was there": {func(l lateness) {
			l.stood(8, 0, -1, 30)
			l.stood(9, 119, -1, -1)
		}, "no node with queue default and type TEST was running until far(119)",
			[]string{"node 9 (host/1, mailer v1) began"}},
		"the node that was there was killed, and found dead by the next": {func(l lateness) {
			l.stood(8, 0, 119, 119)
			l.stood(9, 119, -1, -1)
		}, "no node with queue default and type TEST was running until far(119)",
			[]string{"node 8 (host/1, mailer v1) ended, or was found dead", "node 9 (host/1, mailer v1) began"}},
		"another was there": {func(l lateness) {
			l.stood(8, 0, 119, 119)
			l.stood(7, 0, -1, 200)
			l.stood(9, 119, -1, -1)
		}, "its nodes had no free slot, or it waited behind other tasks",
			[]string{"node 8 (host/1, mailer v1) ended, or was found dead", "node 9 (host/1, mailer v1) began"}},
		"its queue was paused": {func(l lateness) {
			l.stood(9, 0, -1, -1)
			l.Exec(l.Pool, `INSERT INTO tasktable.pauses (scope, name, paused_at, paused_by, ends_at,
				resumed_by, reason)
				VALUES ('queue', 'default', $1, 'ann', $2, 'bob', 'strike'),
					('queue', 'mail', $1, 'ann', $2, NULL, NULL), ('type', 'TEST', $1, 'ann', $3, NULL, NULL)`,
				far(50), far(110), far(55))
		}, "queue default was paused by ann until far(110)",
			[]string{"queue default was paused by ann", "queue default was resumed by bob"}},
		"it was paused itself": {func(l lateness) {
			l.stood(9, 0, -1, -1)
			l.must(l.Tasks.Pause(l.Ctx, l.Pool, "one"))
			l.dated("one", "pause", 30)
			l.must(l.Tasks.Resume(l.Ctx, l.Pool, "one"))
			l.dated("one", "resume", 115)
		}, "it was paused until far(115)", nil},
		"it was scheduled for the past": {func(l lateness) {
			l.stood(9, 0, -1, -1)
			l.dated("one", "schedule", 118)
		}, "it was not scheduled for that time until far(118)", nil},
		"it was scheduled a moment late, and then waited": {func(l lateness) {
			l.stood(9, 0, -1, -1)
			l.dated("one", "schedule", 61)
		}, "its nodes had no free slot, or it waited behind other tasks", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := lateness{newBench(t)}
			l.scheduled("one", 0)
			test.around(l)
			l.began("one", 120)
			l.says("one", test.want)
			var lines []string
			for _, line := range l.why("one").Story {
				if line.Kind == "node" || line.Kind == "pause" {
					lines = append(lines, line.Text)
				}
			}
			if fmt.Sprint(lines) != fmt.Sprint(test.lines) {
				t.Errorf("the story has %q", lines)
			}
		})
	}
}

// A pause is named however short it was; what else held up for a moment is not.
func TestWhyLateByAMoment(t *testing.T) {
	t.Parallel()
	const completed = "completed by attempt 1 of 10 on node 9 (host/1, mailer v1) at far(60)"
	for name, test := range map[string]struct {
		from, until, began time.Duration // after it was due; until 0: there was no pause
		itself             bool
		want               string
	}{
		"a pause": {
			-time.Minute, 4 * time.Second, 4300 * time.Millisecond, false,
			"; 4.3s late: queue default was paused by ann until far(60)",
		},
		"a pause of milliseconds": {
			time.Millisecond, 3 * time.Millisecond, 4 * time.Millisecond, false,
			"; 4ms late: queue default was paused by ann until far(60)",
		},
		"no pause":                       {0, 0, 4300 * time.Millisecond, false, ""},
		"a pause that was over":          {-time.Minute, -time.Second, 4300 * time.Millisecond, false, ""},
		"a pause of the time afterwards": {time.Second, time.Hour, 900 * time.Millisecond, false, ""},
		"its own":                        {-time.Minute, 2 * time.Second, 3 * time.Second, true, "; 3s late: it was paused until far(60)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := lateness{newBench(t)}
			l.scheduled("one", 0)
			l.stood(9, 0, -1, -1)
			switch {
			case test.itself:
				l.must(l.Tasks.Pause(l.Ctx, l.Pool, "one"))
				l.must(l.Tasks.Resume(l.Ctx, l.Pool, "one"))
				l.asOwner(func(tx pgx.Tx) {
					l.Exec(tx, `UPDATE tasktable.scheduled_task_changes SET changed_at = CASE verb
						WHEN 'resume' THEN $1::timestamptz ELSE $2::timestamptz END WHERE verb <> 'schedule'`,
						far(60).Add(test.until), far(60).Add(test.from))
				})
			case test.until != 0:
				l.Exec(l.Pool, `INSERT INTO tasktable.pauses (scope, name, paused_at, paused_by, ends_at)
					VALUES ('queue', 'default', $1, 'ann', $2)`,
					far(60).Add(test.from), far(60).Add(test.until))
			}
			l.beganAt("one", far(60).Add(test.began))
			l.because("one", "completed", completed+test.want)
		})
	}
}

// Of one that expired the same is told.
func TestWhyExpired(t *testing.T) {
	t.Parallel()
	l := lateness{newBench(t)}
	l.Schedule(store.Task{ID: "one", Payload: payload(1), At: far(60), Expiration: time.Hour})
	l.dated("one", "schedule", 0)
	l.stood(9, 130, -1, -1)
	l.AsEngine(func(tx pgx.Tx) {
		l.Exec(tx, `UPDATE tasktable.scheduled_tasks
			SET status = 'EXPIRED', next_attempt_at = NULL, finished_at = $1,
			message = 'expired before it could start'`, far(131))
	})
	l.because("one", "expired",
		"expired before it could start at far(120); 1h11m0s late: no node with queue default and type TEST was "+
			"running until far(130)")
}

// Through each way that an application may have.
func TestWhyThroughEachDriver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Node(`{"default": 3}`, `{TEST}`, true)
	b.due("one", nil)
	b.ended("one", "RETRIED", "QUEUED", "421 try later", time.Hour)
	b.Schedule(store.Task{ID: "tick", Payload: payload(1), At: far(0), Recurrence: &store.Recurrence{Cron: "@hourly"}})
	b.Make("held", "EXECUTING")
	drivers := b.Readers()
	drivers["a transaction"] = b.Begin(pgx.TxOptions{})
	for name, db := range drivers {
		for id, want := range map[string]string{
			"one": "retry", "tick": "planning", "held": "running", "on": "never_scheduled",
		} {
			e, err := b.Inspector.Why(b.Ctx, db, id)
			b.Check(err)
			if e.Reason.Code != want {
				t.Errorf("%s, task %s: %+v", name, id, e.Reason)
			}
		}
	}
}
