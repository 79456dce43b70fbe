package notice

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/notice/contract"
	"github.com/tasktable/tasktable/store"
)

// Recurring are the recurring tasks that notices need, for scheduled.Config.Recurring. Each minute the watch looks for
// what is late, missed, unsuccessful or recovered, because nothing happens in the database at that time. A dead letter
// that completes is found here, too, so that the settle of a completed task has nothing to do with notices.
//
// Notices run in the queue of the watch. So the Queue of this task is that of all notices. It is "default" unless the
// caller changes it.
func Recurring() []store.Task {
	return []store.Task{{
		ID: contract.WatchID, Payload: contract.Watch{}, MaxAttempts: 1, Priority: store.MaxPriority,
		Expiration: time.Minute, Retention: time.Hour, Recurrence: &store.Recurrence{Cron: "* * * * *"},
	}}
}

// watchSQL opens an episode for each bad state that has none, and ends the episodes whose state is good again. Each
// opened and each ended episode is a cause. The function add_cause opens the episodes of dead letters. They end here
// when the task has completed, or without a cause when it was cancelled or deleted.
//
// The function late_at finds the late tasks, as for inspect.Attention, after the time of the rule. Of a lane the watch
// reads 10,000 due tasks at most, the earliest first, and as many that wait. So a rule for a tenant finds no late task
// behind more than these. $1 is now, and $2 is the form of times.
//
// The watch rarely sees a fire that was missed because no node was there, because the next leader forks it first. So
// the watch also looks at the occurrences that the leader has made late, back to ten minutes ago, because a look may be
// delayed. The table notice_causes has the fires that it has told already.
const watchSQL = `
WITH clock AS MATERIALIZED (
    SELECT $1::text::timestamptz AS now, $2::text
), pause AS MATERIALIZED (
    SELECT p.scope, p.name FROM tasktable.pauses AS p, clock WHERE p.ends_at IS NULL OR p.ends_at > clock.now
), rule AS MATERIALIZED (
    SELECT r.name, r.events, r.types::text[] AS types, r.queues::text[] AS queues, r.tenants::text[] AS tenants,
        r.entities::text[] AS entities, r.recurring::text[] AS recurring, r.after, clock.now - r.after AS since
    FROM tasktable.notice_rules AS r, clock WHERE r.enabled AND r.events && ARRAY['late', 'missed', 'unsuccessful']
), late AS (
    SELECT DISTINCT ON (r.name, t.queue, t.type) r.name AS rule, 'late' AS event, t.queue || ' ' || t.type AS subject,
        t.id AS task_id, t.type, t.queue, t.tenant_id, t.entity, t.due_at AS due,
        'due since ' || to_char(t.due_at AT TIME ZONE 'UTC', $2) || ' and ' || CASE WHEN t.waits IS NULL
            THEN 'not claimed' ELSE 'put off ' || t.waits || ' times' || coalesce(': ' || left(t.message, 300), '') END
            AS detail
    FROM rule AS r CROSS JOIN clock CROSS JOIN LATERAL tasktable.late_at(clock.now, r.after,
        CASE WHEN num_nonnulls(r.tenants, r.entities, r.recurring) = 0 THEN 1 ELSE 10000 END) AS t
    WHERE 'late' = ANY (r.events) AND t.type NOT IN ('NOTICE', 'NOTICE_WATCH')
        AND (r.types IS NULL OR t.type = ANY (r.types)) AND (r.queues IS NULL OR t.queue = ANY (r.queues))
        AND (r.tenants IS NULL OR t.tenant_id = ANY (r.tenants))
        AND (r.entities IS NULL OR t.entity = ANY (r.entities))
        AND (r.recurring IS NULL OR t.id = ANY (r.recurring)
            OR tasktable.recurring_id(t.id) = ANY (r.recurring))
    ORDER BY r.name, t.queue, t.type, t.due_at
), recurring AS (
    SELECT r.name AS rule, r.events, r.since, t.id::text AS task_id, t.type::text AS type, t.queue::text AS queue,
        t.tenant_id::text AS tenant_id, t.entity::text AS entity, t.next_attempt_at::timestamptz AS due, t.created_at,
        t.planned_revision = t.revision AS planned
    FROM rule AS r JOIN tasktable.scheduled_tasks AS t ON t.next_attempt_at IS NOT NULL AND t.cron IS NOT NULL
        AND t.type NOT IN ('NOTICE', 'NOTICE_WATCH')
        AND (r.types IS NULL OR t.type = ANY (r.types)) AND (r.queues IS NULL OR t.queue = ANY (r.queues))
        AND (r.tenants IS NULL OR t.tenant_id = ANY (r.tenants)) AND (r.entities IS NULL OR t.entity = ANY (r.entities))
        AND (r.recurring IS NULL OR t.id = ANY (r.recurring))
    WHERE NOT EXISTS (SELECT FROM pause WHERE pause.scope = 'all' OR pause.scope = 'queue' AND pause.name = t.queue
        OR pause.scope = 'type' AND pause.name = t.type)
), made_late AS MATERIALIZED (
    -- The first lines repeat the condition of the index scheduled_tasks_made_late.
    SELECT o.parent_id::text AS task_id, o.type::text AS type, o.queue::text AS queue, o.tenant_id::text AS tenant_id,
        o.entity::text AS entity, f.fire, o.created_at, f.skipped
    FROM tasktable.scheduled_tasks AS o CROSS JOIN LATERAL (
        SELECT c.changed_by, (c.new ->> 'scheduled_at')::timestamptz AS fire, c.new ->> 'status' = 'SKIPPED' AS skipped
        FROM tasktable.scheduled_task_changes AS c WHERE c.task_id = o.id AND c.outcome = 'created'
        ORDER BY c.revision DESC LIMIT 1
    ) AS f
    WHERE o.parent_id IS NOT NULL AND o.created_at - o.scheduled_at > interval '1 second'
        AND o.created_at > (SELECT clock.now - interval '10 minutes' FROM clock)
        AND o.created_at - o.scheduled_at > (SELECT min(r.after) FROM rule AS r WHERE 'missed' = ANY (r.events))
        AND o.type NOT IN ('NOTICE', 'NOTICE_WATCH')
        AND f.changed_by = 'leader' -- an occurrence of a backfill is no missed fire
        AND NOT EXISTS (SELECT FROM tasktable.pauses AS p
            WHERE p.paused_at <= f.fire AND coalesce(p.ends_at > f.fire, true) AND (p.scope = 'all'
                OR p.scope = 'queue' AND p.name = o.queue OR p.scope = 'type' AND p.name = o.type))
        -- The recurring task itself was resumed after the fire.
        AND NOT EXISTS (SELECT FROM tasktable.scheduled_task_changes AS c WHERE c.task_id = o.parent_id
            AND c.old ->> 'status' = 'PAUSED' AND c.changed_at BETWEEN f.fire AND o.created_at)
), missed AS (
    SELECT c.rule, 'missed' AS event, c.task_id AS subject, c.task_id, c.type, c.queue, c.tenant_id, c.entity, c.due,
        'its fire of ' || to_char(c.due AT TIME ZONE 'UTC', $2) || ' has not happened' AS detail
    FROM recurring AS c WHERE 'missed' = ANY (c.events) AND c.planned AND c.due < c.since
), caught_up AS (
    SELECT DISTINCT ON (m.rule, m.task_id) m.rule, 'missed' AS event, m.task_id AS subject, m.task_id, m.type, m.queue,
        m.tenant_id, m.entity, m.first AS due,
        CASE m.fires WHEN 1 THEN 'its fire of ' || to_char(m.first AT TIME ZONE 'UTC', $2)
            ELSE 'its fires of ' || to_char(m.first AT TIME ZONE 'UTC', $2) || ' to '
                || to_char(m.last AT TIME ZONE 'UTC', $2) END
            || CASE WHEN m.skipped < m.fires THEN ' happened at ' WHEN m.fires = 1 THEN ' was skipped at '
                ELSE ' were skipped at ' END || to_char(m.made_at AT TIME ZONE 'UTC', $2)
            || CASE WHEN m.skipped > 0 AND m.skipped < m.fires THEN ', and some were skipped' ELSE '' END AS detail
    FROM (
        SELECT r.name AS rule, l.task_id, l.type, l.queue, l.tenant_id, l.entity, min(l.fire) AS first,
            max(l.fire) AS last, max(l.created_at) AS made_at, count(*) AS fires,
            count(*) FILTER (WHERE l.skipped) AS skipped
        FROM rule AS r JOIN made_late AS l ON l.created_at - l.fire > r.after
            AND (r.types IS NULL OR l.type = ANY (r.types)) AND (r.queues IS NULL OR l.queue = ANY (r.queues))
            AND (r.tenants IS NULL OR l.tenant_id = ANY (r.tenants))
            AND (r.entities IS NULL OR l.entity = ANY (r.entities))
            AND (r.recurring IS NULL OR l.task_id = ANY (r.recurring))
        WHERE 'missed' = ANY (r.events)
        GROUP BY r.name, l.task_id, l.type, l.queue, l.tenant_id, l.entity
    ) AS m
    WHERE NOT EXISTS (SELECT FROM missed AS d WHERE d.rule = m.rule AND d.task_id = m.task_id)
        AND NOT EXISTS (SELECT FROM tasktable.notice_causes AS c WHERE c.task_id = m.task_id AND c.event = 'missed'
            AND starts_with(c.notice_id, 'notice/' || m.rule || '/') AND c.at > m.first)
    ORDER BY m.rule, m.task_id, m.first
), unsuccessful AS (
    -- An attempt lasts at most 7 days.
    SELECT c.rule, 'unsuccessful' AS event, c.task_id AS subject, c.task_id, c.type, c.queue, c.tenant_id,
        c.entity, c.due,
        'no occurrence has completed since ' || to_char(c.since AT TIME ZONE 'UTC', $2) AS detail
    FROM recurring AS c WHERE 'unsuccessful' = ANY (c.events) AND c.created_at < c.since AND NOT EXISTS (
        SELECT FROM tasktable.scheduled_tasks AS o WHERE o.parent_id = c.task_id AND o.status = 'COMPLETED'
            AND o.finished_at >= c.since AND o.scheduled_at > c.since - interval '168 hours')
), bad AS MATERIALIZED (
    SELECT * FROM late UNION ALL SELECT * FROM missed UNION ALL SELECT * FROM caught_up
    UNION ALL SELECT * FROM unsuccessful
), opened AS (
    INSERT INTO tasktable.notice_episodes (rule, event, subject, task_id, type, queue, tenant_id, entity, began_at)
    SELECT b.rule, b.event, b.subject, b.task_id, b.type, b.queue, b.tenant_id, b.entity, clock.now FROM bad AS b, clock
    ON CONFLICT DO NOTHING
    RETURNING rule, event, subject
), ended AS (
    DELETE FROM tasktable.notice_episodes AS p WHERE p.event NOT IN ('failed', 'expired') AND NOT EXISTS (
        SELECT FROM bad AS b WHERE b.rule = p.rule AND b.event = p.event AND b.subject = p.subject)
    RETURNING p.*
), dead AS MATERIALIZED (
    SELECT p.rule, p.event, p.subject,
        (SELECT t.status::text FROM tasktable.scheduled_tasks AS t WHERE t.id = p.task_id) AS status
    FROM tasktable.notice_episodes AS p WHERE p.event IN ('failed', 'expired')
), settled AS (
    DELETE FROM tasktable.notice_episodes AS p USING dead AS d
    WHERE p.rule = d.rule AND p.event = d.event AND p.subject = d.subject
        AND (d.status IS NULL OR d.status IN ('COMPLETED', 'CANCELLED'))
    RETURNING p.*, d.status
), mended AS ( -- a task that had failed and later expired is told once
    SELECT DISTINCT ON (s.rule, s.task_id) s.* FROM settled AS s WHERE s.status = 'COMPLETED'
    ORDER BY s.rule, s.task_id, s.began_at DESC
), cause AS (
    SELECT b.event, b.task_id, b.type, b.queue, b.tenant_id, b.entity, b.detail, b.rule
    FROM opened AS o JOIN bad AS b ON b.rule = o.rule AND b.event = o.event AND b.subject = o.subject
    UNION ALL
    SELECT 'recovered', e.task_id, e.type, e.queue, e.tenant_id, e.entity, 'was ' || e.event || ' since '
        || to_char(e.began_at AT TIME ZONE 'UTC', $2), e.rule
    FROM ended AS e
    UNION ALL
    SELECT 'recovered', m.task_id, m.type, m.queue, m.tenant_id, m.entity, 'completed; had ' || m.event || ' at '
        || to_char(m.began_at AT TIME ZONE 'UTC', $2), m.rule
    FROM mended AS m
)
SELECT coalesce(sum(tasktable.add_cause(ARRAY[c.event], nextval('tasktable.task_numbers'), clock.now, c.task_id, c.type,
    c.queue, c.tenant_id, c.entity, c.detail, c.rule)), 0)::text FROM cause AS c, clock`

// Watch schedules the notices of what is late, missed, unsuccessful or recovered, in the transaction that settles it.
func (n *Notices) Watch(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.Watch]) error {
	var told string
	err := tx.QueryRow(ctx, n.schema.SQL(watchSQL), t.StartedAt.UTC().Format(time.RFC3339Nano),
		`YYYY-MM-DD HH24:MI:SS "UTC"`).Scan(&told)
	if err != nil {
		return fmt.Errorf("watch for notices: %w", err)
	}
	if told != "0" {
		t.Note("%s causes", told)
	}
	return nil
}
