package inspect

// lateAfterSQL is LateAfter.
const lateAfterSQL = `interval '1 minute'`

// notPausedSQL is for rows named t.
const notPausedSQL = `NOT EXISTS (SELECT FROM tasktable.pauses AS p
        WHERE (p.ends_at IS NULL OR p.ends_at > statement_timestamp()) AND (p.scope = 'all'
            OR p.scope = 'queue' AND p.name = t.queue OR p.scope = 'type' AND p.name = t.type))`

// nodesFindingsSQL also finds the pairs of queue and type that no live node works, before their first task is late.
const nodesFindingsSQL = `
WITH node AS MATERIALIZED (
    SELECT s.number, s.service, s.host, s.state, s.role, s.state IN ('leads', 'works', 'quiet') AS lives, n.hung
    FROM tasktable.node_states AS s JOIN tasktable.nodes AS n ON n.number = s.number WHERE s.dead_at IS NULL
), live AS (
    SELECT count(*) AS nodes, count(*) FILTER (WHERE state = 'quiet') AS quiet, bool_or(state = 'leads') AS led,
        count(*) FILTER (WHERE role = 'leader') AS leaders, count(*) FILTER (WHERE role = 'worker') AS workers
    FROM node WHERE lives
), lane AS MATERIALIZED (
    SELECT t.queue, t.type, min(t.next_attempt_at) AS head FROM tasktable.lanes AS t
    WHERE ` + notPausedSQL + ` GROUP BY t.queue, t.type
), found (place, level, what, detail, "do") AS (
    SELECT 1, CASE WHEN EXISTS (SELECT FROM lane WHERE lane.head <= statement_timestamp()) THEN 'error'
        ELSE 'warning' END, 'no node runs: nothing is claimed', '',
        'start a node: the command serve, or your service with scheduled.New(…).Run(ctx)'
    FROM live WHERE live.nodes = 0 AND NOT pg_is_in_recovery()
    UNION ALL
    SELECT 2, 'error', 'no node leads, of ' || live.nodes || ' that live' || CASE WHEN live.quiet = live.nodes
        THEN ', all of them quiet' WHEN live.quiet + live.workers = live.nodes THEN ', and none of them may lead'
        ELSE '' END || ': nothing is claimed', '', CASE WHEN live.quiet = live.nodes
        THEN 'kill -CONT their processes, or node.Unquiet(); or start a node'
        WHEN live.quiet + live.workers = live.nodes
        THEN 'start a node that may lead: serve --role leader, or without --role' ELSE '' END
    FROM live WHERE live.nodes > 0 AND NOT live.led
    UNION ALL
    SELECT 2, CASE WHEN EXISTS (SELECT FROM lane WHERE lane.head <= statement_timestamp()) THEN 'error'
        ELSE 'warning' END, 'no node runs tasks, of ' || live.nodes || ' that live, because '
        || CASE WHEN live.leaders = live.nodes THEN 'all of them' ELSE 'the others are quiet, and ' || live.leaders END
        || ' may only lead', '', 'start a node that runs tasks: serve --role worker, or without --role and '
        || '--pause all'
    FROM live WHERE live.leaders > 0 AND live.leaders + live.quiet = live.nodes
    UNION ALL
    SELECT 3, 'info', 'this database is a standby, which does not know whether the nodes live', '', 'ask the primary'
    WHERE pg_is_in_recovery()
    UNION ALL
    -- Somebody may have damaged the column.
    SELECT 4, 'warning', h.value || ' handlers of type ' || h.key || ' on node ' || node.number || ' (' || node.service
        || ' on ' || node.host || ') do not return, although their claims are over', '',
        'restart the node, which frees their slots, and have handlers of ' || h.key || ' end when their context does'
    FROM node CROSS JOIN LATERAL jsonb_each_text(CASE WHEN jsonb_typeof(node.hung) = 'object' THEN node.hung
        ELSE '{}' END) AS h
    UNION ALL
    SELECT 5, 'info', 'node ' || node.number || ' (' || node.service || ' on ' || node.host || ') is silent', '',
        'nothing: the leader marks it as ended within seconds'
    FROM node WHERE node.state = 'silent'
    UNION ALL
    SELECT 6, 'info', 'no live node works type ' || lane.type || ' in queue ' || lane.queue || ', which has a task at '
        || to_char(lane.head AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), '',
        'give a node the queue (--queue ' || lane.queue || '=10) and a handler of the type'
    FROM lane, live WHERE live.nodes > 0 AND lane.head > statement_timestamp() AND NOT EXISTS (
        SELECT FROM tasktable.worked_lanes AS w WHERE w.queue = lane.queue AND w.type = lane.type)
)
SELECT level, what, 1 AS count, false AS more, NULL::text AS oldest_id, NULL::timestamptz AS oldest_at, detail, "do"
FROM found ORDER BY place, what LIMIT $1::text::int`

// lateSQL counts the tasks of all lanes together up to $1, but those of each lane up to 100 at least. It leaves out the
// tasks that limitsFindingsSQL tells of. It names the limits of the others, because a limit may let a task start just
// when this is read.
const lateSQL = `
WITH most AS MATERIALIZED (
    SELECT greatest(100, $1::text::bigint / greatest(count(*), 1)) AS tasks FROM tasktable.lanes AS l
    WHERE l.next_attempt_at <= statement_timestamp()
), worked AS MATERIALIZED (
    SELECT w.queue, w.type FROM tasktable.worked_lanes AS w
), reached AS MATERIALIZED (
    SELECT coalesce(jsonb_object_agg(r.place, r.name), '{}') AS places FROM tasktable.reached_limits() AS r
), task AS (
    SELECT t.queue, t.type, t.id, t.due_at AS at, count(*) OVER lane >= most.tasks AS more,
        w.type IS NOT NULL AS worked, w.type IS NOT NULL AND t.limit_key IS NOT NULL
            AND jsonb_exists_any(reached.places, tasktable.limit_places(t.queue, t.type, t.limit_key)) AS held
    FROM most CROSS JOIN reached
    CROSS JOIN LATERAL tasktable.late_at(statement_timestamp(), ` + lateAfterSQL + `, most.tasks) AS t
    LEFT JOIN worked AS w ON w.queue = t.queue AND w.type = t.type
    WINDOW lane AS (PARTITION BY t.queue, t.type, t.priority)
), kind AS (
    SELECT task.queue, task.type, count(*)::int AS count, bool_or(task.more) AS more, min(task.at) AS oldest_at,
        (array_agg(task.id ORDER BY task.at, task.id COLLATE "C"))[1] AS oldest_id, bool_or(task.worked) AS is_worked
    FROM task WHERE NOT task.held GROUP BY task.queue, task.type
)
SELECT CASE WHEN kind.is_worked THEN 'warning' ELSE 'error' END AS level, 'late task{s} of type ' || kind.type
    || ' in queue ' || kind.queue AS what, kind.count, kind.more, kind.oldest_id, kind.oldest_at,
    CASE WHEN kind.is_worked THEN coalesce((SELECT 'limited by ' || string_agg(l.name, ' and ' ORDER BY l.name)
            FROM tasktable.limits AS l WHERE CASE l.scope WHEN 'queue' THEN l.scope_name = kind.queue
                WHEN 'type' THEN l.scope_name = kind.type ELSE true END), '')
        WHEN EXISTS (SELECT FROM worked AS w WHERE w.queue = kind.queue)
        THEN 'no live node has a handler of that type for that queue' ELSE 'no live node works that queue' END
        AS detail,
    CASE WHEN kind.is_worked THEN '' ELSE 'give a node the queue (--queue ' || kind.queue || '=10) and a handler '
        || 'of the type, or cancel them: tasktable tasks cancel --type ''' || kind.type || ''' --queue ' || kind.queue
        END AS "do"
FROM kind ORDER BY kind.oldest_at, kind.queue, kind.type`

// firstSQL counts the rows of x, and finds the first of them.
const firstSQL = `count(*)::int AS count, count(*) >= $1::text::int AS more,
    (array_agg(x.id ORDER BY x.at, x.id COLLATE "C"))[1] AS oldest_id, min(x.at) AS oldest_at`

// waitingSQL groups the tasks by what they wait for. Of more than $1 it reads those that have waited for longest.
const waitingSQL = `
SELECT 'warning' AS level, 'task{s} put off by their handler' AS what, ` + firstSQL + `, x.message AS detail,
    '' AS "do"
FROM (
    SELECT t.id::text AS id, t.waiting_since AS at, left(coalesce(t.message, ''), 200) AS message
    FROM tasktable.scheduled_tasks AS t WHERE t.waiting_since IS NOT NULL AND t.next_attempt_at IS NOT NULL
    ORDER BY t.waiting_since LIMIT $1::text::int
) AS x
GROUP BY x.message ORDER BY count(*) DESC, x.message`

// deadSQL reads the index scheduled_tasks_rare, and the newest message of each status.
const deadSQL = `
SELECT s.level, s.status || ' dead letter{s}' AS what, d.count, d.more, d.oldest_id, d.oldest_at,
    'the newest says ' || left(n.message, 200) AS detail, '' AS "do"
FROM (VALUES ('warning', 'FAILED'), ('info', 'EXPIRED')) AS s (level, status) -- a task that EXPIRED was meant to
CROSS JOIN LATERAL (
    SELECT ` + firstSQL + ` FROM (
        SELECT t.id::text AS id, t.finished_at AS at FROM tasktable.scheduled_tasks AS t
        WHERE t.status = s.status AND t.status NOT IN ('QUEUED', 'EXECUTING', 'COMPLETED') AND t.archived_at IS NULL
        ORDER BY t.finished_at LIMIT $1::text::int
    ) AS x
) AS d
CROSS JOIN LATERAL (
    SELECT coalesce(t.message, 'nothing') AS message FROM tasktable.scheduled_tasks AS t
    WHERE t.status = s.status AND t.status NOT IN ('QUEUED', 'EXECUTING', 'COMPLETED') AND t.archived_at IS NULL
    ORDER BY t.finished_at DESC, t.id DESC LIMIT 1
) AS n`

// pausedSQL reads the index scheduled_tasks_rare, too. If there are more tasks, it does not know the oldest.
const pausedSQL = `
SELECT 'info' AS level, 'task{s} paused one by one' AS what, ` + firstSQL + `, '' AS detail, '' AS "do"
FROM (
    SELECT t.id::text AS id, t.last_status_update AS at FROM tasktable.scheduled_tasks AS t
    WHERE t.status = 'PAUSED' AND t.status NOT IN ('QUEUED', 'EXECUTING', 'COMPLETED')
    LIMIT $1::text::int
) AS x
HAVING count(*) > 0`

// pausesSQL counts the tasks and fires that wait for each pause. A pause without an end may have been forgotten after
// an hour, if something waits for it.
const pausesSQL = `
WITH due AS MATERIALIZED (
    SELECT l.queue, l.type, d.tasks, 0 AS fires FROM tasktable.lanes AS l CROSS JOIN LATERAL (
        SELECT count(*) AS tasks FROM (
            SELECT FROM tasktable.scheduled_tasks AS t
            WHERE t.queue = l.queue AND t.type = l.type AND t.priority = l.priority AND t.cron IS NULL
                AND t.next_attempt_at <= statement_timestamp()
            ORDER BY t.next_attempt_at LIMIT $1::text::int
        ) AS t
    ) AS d
    WHERE l.next_attempt_at <= statement_timestamp() AND EXISTS (SELECT FROM tasktable.pauses)
    UNION ALL
    SELECT f.queue, f.type, 0, count(*) FROM (
        SELECT t.queue::text AS queue, t.type::text AS type FROM tasktable.scheduled_tasks AS t
        WHERE t.cron IS NOT NULL AND t.next_attempt_at IS NOT NULL AND t.next_attempt_at <= statement_timestamp()
            AND EXISTS (SELECT FROM tasktable.pauses)
        ORDER BY t.queue, t.type, t.next_attempt_at LIMIT $1::text::int
    ) AS f
    GROUP BY f.queue, f.type
)
SELECT CASE WHEN w.tasks > 0 AND p.ends_at IS NULL AND p.paused_at < statement_timestamp() - interval '1 hour'
        THEN 'warning' ELSE 'info' END AS level,
    concat_ws(' ', p.scope, nullif(p.name, '')) || ' is paused since '
        || to_char(p.paused_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') || ' by ' || p.paused_by || ' until '
        || coalesce(to_char(p.ends_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 'somebody resumes it')
        || ', and holds back ' || w.tasks || CASE WHEN w.tasks >= $1::text::int THEN ' or more' ELSE '' END
        || ' due task' || CASE w.tasks WHEN 1 THEN '' ELSE 's' END || ' and ' || w.fires || ' fire'
        || CASE w.fires WHEN 1 THEN '' ELSE 's' END || ' of recurring tasks' AS what,
    1 AS count, false AS more, NULL::text AS oldest_id, NULL::timestamptz AS oldest_at,
    coalesce(p.reason, '') AS detail,
    'tasktable queues resume ''' || concat_ws(':', p.scope, nullif(p.name, '')) || '''' AS "do"
FROM tasktable.pauses AS p
CROSS JOIN LATERAL (
    SELECT coalesce(sum(due.tasks), 0) AS tasks, coalesce(sum(due.fires), 0) AS fires FROM due
    WHERE p.scope = 'all' OR p.scope = 'queue' AND p.name = due.queue OR p.scope = 'type' AND p.name = due.type
) AS w
WHERE p.ends_at IS NULL OR p.ends_at > statement_timestamp()
ORDER BY p.paused_at, p.scope, p.name LIMIT $1::text::int`

// stuckSQL leaves the leader 15 seconds to take a claim back whose lease has ended.
const stuckSQL = `
SELECT 'error' AS level, 'task{s} held by claims whose lease has ended' AS what, ` + firstSQL + `,
    'nobody takes them back' AS detail, '' AS "do"
FROM (
    SELECT t.id::text AS id, t.lease_expires_at::timestamptz AS at FROM tasktable.scheduled_tasks AS t
    WHERE t.lease_expires_at < statement_timestamp() - interval '15 seconds'
    ORDER BY t.lease_expires_at LIMIT $1::text::int
) AS x
HAVING count(*) > 0`

// recurringFindingsSQL finds recurring tasks whose fire is late, and those that fire no more. It reads the two indexes
// of recurring tasks. RecurringTrouble finds those that fire, and fail.
const recurringFindingsSQL = `
SELECT 'error' AS level, x.what, ` + firstSQL + `, '' AS detail, '' AS "do"
FROM (
    (SELECT t.id::text AS id, t.next_attempt_at::timestamptz AS at,
        CASE WHEN t.planned_revision = t.revision THEN 'recurring task{s} whose fire is late'
            ELSE 'recurring task{s} whose fire nobody plans' END AS what
    FROM tasktable.scheduled_tasks AS t
    WHERE t.cron IS NOT NULL AND t.next_attempt_at IS NOT NULL
        AND t.next_attempt_at < statement_timestamp() - ` + lateAfterSQL + ` AND ` + notPausedSQL + `
    ORDER BY t.queue, t.type, t.next_attempt_at LIMIT $1::text::int)
    UNION ALL
    (SELECT t.id::text, t.finished_at, 'recurring task{s} that FAILED, and will not fire'
    FROM tasktable.scheduled_tasks AS t
    WHERE t.cron IS NOT NULL AND t.next_attempt_at IS NULL AND t.status = 'FAILED' AND t.archived_at IS NULL
    ORDER BY t.id LIMIT $1::text::int)
) AS x
GROUP BY x.what ORDER BY x.what`

// limitsFindingsSQL finds the limits that hold back due tasks. After an hour it warns. It also warns of a limit whose
// type or queue nobody has, because the name may be wrong. While no node runs, it does not know that.
const limitsFindingsSQL = `
WITH node AS MATERIALIZED (
    SELECT n.types, n.queues FROM tasktable.nodes AS n WHERE n.dead_at IS NULL
), used AS MATERIALIZED (
    SELECT l.queue, l.type FROM tasktable.lanes AS l
    UNION SELECT t.queue::text, t.type::text FROM tasktable.scheduled_tasks AS t
    WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NOT NULL
), state AS MATERIALIZED (
    SELECT l.*, CASE l.scope WHEN 'all' THEN '' ELSE ' of ' || l.scope || ' ' || l.scope_name END AS of
    FROM tasktable.limit_states() AS l
)
SELECT CASE WHEN w.oldest_due_at < statement_timestamp() - interval '1 hour' THEN 'warning' ELSE 'info' END AS level,
    'limit ' || s.name || ' holds back ' || w.waiting || CASE WHEN w.waiting_more THEN ' or more' ELSE '' END
        || ' due task' || CASE w.waiting WHEN 1 THEN '' ELSE 's' END || s.of AS what,
    1 AS count, false AS more, w.oldest_id, w.oldest_due_at AS oldest_at,
    concat_ws(', ', CASE WHEN s.running >= s.max_running THEN s.running || ' of ' || s.max_running || ' run'
            || coalesce(' of a ' || s.per, '') END,
        s.rate || ' may start in ' || (extract(epoch FROM s.rate_interval)::float8)::text || 's',
        'the next at ' || to_char(CASE WHEN s.next_start_at > statement_timestamp() THEN s.next_start_at END
            AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')) AS detail,
    'nothing, if they may wait so long; or let more start: tasktable limits set ' || s.name || ' …' AS "do"
FROM tasktable.limit_waits($1::text::bigint) AS w JOIN state AS s ON s.name = w.name
UNION ALL
SELECT 'warning', 'limit ' || s.name || ' counts the tasks' || s.of || ', but no node and no waiting task has this '
    || s.scope, 1, false, NULL, NULL, '', 'tasktable limits remove ' || s.name
    || ', or tasktable limits set ' || s.name || ' with another name of a ' || s.scope
FROM state AS s
WHERE EXISTS (SELECT FROM node) AND CASE s.scope
    WHEN 'queue' THEN NOT EXISTS (SELECT FROM node WHERE jsonb_exists(node.queues, s.scope_name))
        AND NOT EXISTS (SELECT FROM used WHERE used.queue = s.scope_name)
    WHEN 'type' THEN NOT EXISTS (SELECT FROM node WHERE s.scope_name = ANY (node.types))
        AND NOT EXISTS (SELECT FROM used WHERE used.type = s.scope_name) END
ORDER BY level DESC, oldest_at, what LIMIT $1::text::int`
