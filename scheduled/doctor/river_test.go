package doctor

import (
	"testing"
	"time"
)

// Jobs of others, those whose claim has ended, and those that should be gone.
func TestRiversJobs(t *testing.T) {
	p := newPatient(t)
	const job = `INSERT INTO tasktable.river_job (state, kind, args, metadata, max_attempts, created_at, finalized_at,
		attempted_by)
		VALUES ($1::text::tasktable.river_job_state, $2, $3::text::jsonb, $4::text::jsonb, 1,
			clock_timestamp() - interval '1 hour', $5::text::timestamptz, $6)`
	p.finding("river", OK, "0 jobs in River's hands")
	p.put("held", "TEST", "default", time.Hour)
	p.hold("held", 60)
	fence := ask[string](p, `SELECT fence::text FROM tasktable.scheduled_tasks WHERE id = 'held'`)
	p.exec(job, "running", "TEST", `{"tasks":"`+fence+`:1:1:1:4:held"}`, `{"tasks":1}`, nil, []string{"tasktable-1"})
	// Of a batch one cannot tell.
	p.exec(job, "available", "TEST", `{"tasks":"999999:1:1:1:1:a999998:1:1:1:1:b"}`, `{"tasks":2}`, nil, nil)
	p.finding("river", OK, "2 jobs in River's hands")

	p.exec(job, "available", "TEST", `{"tasks":"999999:1:1:1:1:a"}`, `{"tasks":1}`, nil, nil)
	p.exec(job, "available", "theirs", `{"order":1}`, `{}`, nil, nil)
	p.exec(job, "running", "theirs", `{"order":2}`, `{}`, nil, []string{"shop-1"})
	p.exec(job, "completed", "TEST", `{"tasks":"1:1:1:1:1:a"}`, `{"tasks":1}`, "2026-01-01Z", []string{"tasktable-1"})
	report := p.examine(nil, "river")
	p.finds(report, "river", Warning, "1 job whose claims have ended more than 10m")
	p.finds(report, "river", Warning, "2 jobs of other programs in Tasktable's River (kinds: theirs)")
	p.finds(report, "river", Error, "River clients that are no nodes run jobs here: shop-1")
	p.finds(report, "river", Warning, "1 job that ended more than an hour ago")
	p.exec(`DELETE FROM tasktable.river_job WHERE kind = 'theirs' OR args ->> 'tasks' LIKE '999999%'`)
	p.exec(`UPDATE tasktable.river_job SET finalized_at = now() WHERE state = 'completed'`)
	p.well(p.examine(nil, "river"))
}

func TestRiversLeaderAndQueues(t *testing.T) {
	p := newPatient(t)
	p.exec(`INSERT INTO tasktable.river_leader (elected_at, expires_at, leader_id)
		VALUES (now(), now() + interval '1 minute', 'shop-1')`)
	p.exec(`INSERT INTO tasktable.river_queue (name, updated_at, paused_at)
		VALUES ('mail', now(), now()), ('default', now(), NULL)`)
	report := p.examine(nil, "river")
	p.finds(report, "river", Warning, "River client shop-1 has elected itself")
	p.finds(report, "river", Error, "queue mail is paused in River since")
	p.exec(`UPDATE tasktable.river_leader SET expires_at = now() - interval '1 minute'`)
	p.exec(`UPDATE tasktable.river_queue SET paused_at = NULL`)
	p.well(p.examine(nil, "river"))
}

// hold makes a task claimed, by a lease that ends so many seconds from now.
func (p *patient) hold(id string, seconds int) {
	p.t.Helper()
	p.exec(`UPDATE tasktable.scheduled_tasks SET status = 'EXECUTING', attempt = 1,
		fence = nextval('tasktable.task_numbers'),
		lease_expires_at = clock_timestamp() + $2 * interval '1 second', next_attempt_at = NULL
		WHERE id = $1`, id, seconds)
}
