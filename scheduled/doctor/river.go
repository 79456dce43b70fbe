package doctor

import (
	"context"
	"time"
)

// jobsSQL counts the jobs in River's table. A job of Tasktable has its tasks in args. A job of one task is an orphan
// if the claim of that task has ended. Jobs of several tasks are not checked, because SQL cannot unpack their text.
const jobsSQL = `
WITH held AS MATERIALIZED (SELECT t.fence::text AS fence FROM tasktable.scheduled_tasks AS t
    WHERE t.lease_expires_at IS NOT NULL)
SELECT count(*)::int AS jobs,
    count(*) FILTER (WHERE j.finalized_at < statement_timestamp() - interval '1 hour')::int AS ended,
    count(*) FILTER (WHERE NOT j.args ? 'tasks' AND j.finalized_at IS NULL)::int AS strange,
    coalesce(string_agg(DISTINCT j.kind, ', ') FILTER (WHERE NOT j.args ? 'tasks' AND j.finalized_at IS NULL),
    '') AS kinds,
    count(*) FILTER (WHERE j.args ? 'tasks' AND j.finalized_at IS NULL AND j.metadata ->> 'tasks' = '1'
        AND j.created_at < statement_timestamp() - $1::float8 * interval '1 second'
        AND NOT EXISTS (SELECT 1 FROM held WHERE held.fence = split_part(j.args ->> 'tasks', ':', 1)))::int AS orphans,
    coalesce(string_agg(DISTINCT j.attempted_by[array_length(j.attempted_by, 1)],
    ', ') FILTER (WHERE j.state = 'running'
        AND j.attempted_by[array_length(j.attempted_by, 1)] NOT LIKE 'tasktable-%'), '') AS clients,
    pg_total_relation_size('tasktable.river_job'::regclass) AS size
FROM tasktable.river_job AS j`

type jobsRow struct {
	Jobs    int
	Ended   int    // jobs that ended long ago
	Strange int    // jobs that another program has inserted
	Kinds   string // the kinds of these
	Orphans int    // jobs whose claim has ended
	Clients string // River clients that run jobs and are no nodes
	Size    int64
}

const riverLeaderSQL = `
SELECT l.leader_id AS id FROM tasktable.river_leader AS l WHERE l.expires_at > statement_timestamp()`

type riverLeaderRow struct{ ID string }

const riverQueuesSQL = `
SELECT q.name, q.paused_at FROM tasktable.river_queue AS q WHERE q.paused_at IS NOT NULL ORDER BY q.name COLLATE "C"`

type riverQueueRow struct {
	Name     string
	PausedAt time.Time
}

// river checks the tables that carry claims to the nodes. Only Tasktable may use them. Other River clients need a
// schema of their own.
func (e *examination) river(ctx context.Context) error {
	jobs, err := row[jobsRow](ctx, e, jobsSQL, e.config.limits.river.Seconds())
	if err != nil {
		return err
	}
	leaders, err := rows[riverLeaderRow](ctx, e, riverLeaderSQL)
	if err != nil {
		return err
	}
	paused, err := rows[riverQueueRow](ctx, e, riverQueuesSQL)
	if err != nil {
		return err
	}
	before := len(e.report.Findings)
	const apart = "give other programs that use River a schema of their own (river.Config.Schema)"
	if jobs.Strange > 0 {
		e.warn(apart, "%s of other programs in Tasktable's River (kinds: %s): no node runs them",
			several(jobs.Strange, "job"), line(jobs.Kinds))
	}
	if jobs.Clients != "" {
		e.fail(apart, "River clients that are no nodes run jobs here: %s", line(jobs.Clients))
	}
	for _, one := range leaders {
		e.warn(apart,
			"River client %s has elected itself to do River's housekeeping, which is the leader's: it may take jobs "+
				"from nodes", line(one.ID))
	}
	for _, one := range paused {
		e.fail(e.sql("UPDATE tasktable.river_queue SET paused_at = NULL WHERE name = %s", quoted(one.Name))+
			" and to pause, "+e.sql("SELECT tasktable.pause_scope('queue', %s)", quoted(one.Name))+
			" or "+e.command("queues pause "+word("queue:"+one.Name)),
			"queue %s is paused in River since %s: its tasks are claimed and not run",
			line(one.Name), instant(one.PausedAt))
	}
	if jobs.Orphans > 0 {
		e.warn("see leader, which removes them; or "+
			e.sql("SELECT * FROM tasktable.river_job WHERE finalized_at IS NULL ORDER BY id"),
			"%s whose claims have ended more than %s ago: they take the room of others",
			several(jobs.Orphans, "job"), short(e.config.limits.river))
	}
	if jobs.Ended > 0 {
		e.warn("see leader, which removes them", "%s that ended more than an hour ago", several(jobs.Ended, "job"))
	}
	if len(e.report.Findings) == before {
		e.ok("%s in River's hands, in %s", several(jobs.Jobs, "job"), bytes(jobs.Size))
	}
	return nil
}
