-- Views for operators. Why does a task not run? What is stuck? When does a recurring task fire? How much ran, and how
-- late?
--
-- Filter a view by id, or select only the columns that you need. Postgres then looks up only that task, and computes
-- only these columns. Nothing in the engine reads the views.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION tasktable.lock_class(kind text) RETURNS bigint LANGUAGE sql STABLE AS $$
    -- FNV-1a of 32 bits, as the nodes compute it. The word is in two parts, because a migration to another schema
    -- replaces the name of the schema in this file.
    WITH RECURSIVE named AS (
        SELECT convert_to('task' || 'table ' || lock_class.kind || ' ' || n.nspname, 'UTF8') AS bytes
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = 'tasktable.nodes'::regclass
    ), hash (place, value) AS (
        SELECT 0, 2166136261::bigint
        UNION ALL
        SELECT hash.place + 1, ((hash.value # get_byte(named.bytes, hash.place)) * 16777619) & 4294967295
        FROM hash CROSS JOIN named WHERE hash.place < length(named.bytes)
    )
    SELECT hash.value FROM hash ORDER BY hash.place DESC LIMIT 1
$$;
COMMENT ON FUNCTION tasktable.lock_class IS 'The classid in pg_locks of the advisory locks of this schema. For kind '
    'node the objid is the number of the node, for kind leader it is 0.';

CREATE VIEW tasktable.node_states AS
    SELECT n.number, n.service, n.version, n.host, n.queues, n.types, n.shares_slots, n.type_slots, n.strict_queues,
        n.started_at, n.elected_at, n.last_seen_at, n.dead_at,
        CASE WHEN n.queues = '{}' OR n.types = '{}' THEN CASE WHEN n.may_lead THEN 'leader' END
            WHEN n.may_lead THEN 'both' ELSE 'worker' END AS role,
        CASE WHEN n.dead_at IS NOT NULL THEN 'ended'
            WHEN pg_is_in_recovery() THEN 'unknown'
            WHEN l.leads THEN 'leads'
            WHEN l.number IS NULL THEN 'silent'
            WHEN n.queues = '{}' AND n.types = '{}' AND NOT n.may_lead THEN 'quiet'
            ELSE 'works' END AS state
    FROM tasktable.nodes AS n
    LEFT JOIN (
        -- The locks of one session. The leader's session holds the lock of its node and the leader's lock.
        SELECT max(k.objid::bigint) FILTER (WHERE k.objid::bigint <> 0) AS number,
            bool_or(k.objid::bigint = 0) AS leads
        FROM pg_locks AS k
        WHERE k.locktype = 'advisory' AND k.objsubid = 2 AND k.granted
            AND k.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
            AND (k.classid::bigint = (SELECT tasktable.lock_class('node')) AND k.objid::bigint <> 0
                OR k.classid::bigint = (SELECT tasktable.lock_class('leader')) AND k.objid::bigint = 0)
        GROUP BY k.pid
    ) AS l ON l.number = n.number;
COMMENT ON VIEW tasktable.node_states IS 'The nodes and their states. Nodes that are there hold advisory locks.';

CREATE VIEW tasktable.worked_lanes AS
    SELECT l.queue, l.type, sum(l.nodes)::bigint AS nodes, sum(l.slots)::bigint AS slots
    FROM (
        SELECT q.key AS queue, y.type, a.nodes, a.nodes * CASE WHEN a.shares_slots THEN (
                SELECT sum(v.value::numeric) FROM jsonb_each(a.queues) AS v WHERE jsonb_typeof(v.value) = 'number')
            ELSE q.value::numeric END AS slots
        FROM (
            -- The nodes of one deployment are alike, so they are counted first.
            SELECT CASE jsonb_typeof(n.queues) WHEN 'object' THEN n.queues ELSE '{}' END AS queues, n.types,
                n.shares_slots, count(*) AS nodes
            FROM tasktable.node_states AS n WHERE n.state IN ('leads', 'works', 'unknown')
            GROUP BY 1, 2, 3
        ) AS a
        CROSS JOIN LATERAL jsonb_each(a.queues) AS q
        CROSS JOIN LATERAL unnest(a.types) AS y (type)
        WHERE jsonb_typeof(q.value) = 'number'
    ) AS l
    WHERE l.slots > 0
    GROUP BY l.queue, l.type;
COMMENT ON VIEW tasktable.worked_lanes IS 'The pairs of queue and type that live nodes work. No node runs a task of '
    'another pair.';

CREATE VIEW tasktable.task_timeline AS
    SELECT c.task_id, c.changed_at AS at, 'change' AS kind, c.verb AS event, c.outcome, c.changed_by AS by,
        c.revision, NULL::bigint AS fence, NULL::integer AS attempt, NULL::interval AS delay, NULL::interval AS took,
        nullif(concat_ws(' -> ', c.old::text, c.new::text), '') AS detail
    FROM tasktable.scheduled_task_changes AS c
    UNION ALL
    SELECT e.task_id, e.finished_at, 'execution', 'attempt', e.outcome, coalesce('node ' || e.node, 'leader'),
        e.revision, e.fence, e.attempt, e.started_at - e.due_at, e.finished_at - e.started_at, e.error
    FROM tasktable.scheduled_task_executions AS e;
COMMENT ON VIEW tasktable.task_timeline IS 'The history of a task: its changes and its attempts. Filter by task_id, '
    'order by at.';

CREATE VIEW tasktable.late_tasks AS
    SELECT t.id, t.type, t.queue, t.priority, least(t.waiting_since, t.due_at, t.next_attempt_at)::timestamptz
            AS due_at,
        clock_timestamp() - least(t.waiting_since, t.due_at, t.next_attempt_at) AS late_by, t.attempt, t.message,
        EXISTS (SELECT 1 FROM tasktable.nodes AS n
            WHERE n.dead_at IS NULL AND t.type = ANY (n.types) AND n.queues ? t.queue) AS has_node,
        EXISTS (SELECT 1 FROM tasktable.pauses AS p WHERE (p.ends_at IS NULL OR p.ends_at > clock_timestamp())
            AND (p.scope = 'all' OR p.scope = 'queue' AND p.name = t.queue OR p.scope = 'type' AND p.name = t.type)
        ) AS is_paused
    FROM tasktable.scheduled_tasks AS t
    WHERE t.next_attempt_at < clock_timestamp()
        OR t.waiting_since IS NOT NULL AND t.next_attempt_at IS NOT NULL AND t.waiting_since < clock_timestamp();
COMMENT ON VIEW tasktable.late_tasks IS 'Tasks that are due and not claimed yet, and those that wait for something '
    'that is out of order.';

-- Attention and the watch of notices read it, so that both mean the same by late. The view late_tasks reads all that is
-- due, also of recurring tasks and of pauses.
CREATE FUNCTION tasktable.late_at(at timestamptz, after interval, most bigint) RETURNS TABLE (
    id text, type text, queue text, priority integer, tenant_id text, entity text, due_at timestamptz, waits integer,
    message text, limit_key text
) LANGUAGE sql STABLE AS $$
    SELECT t.id, l.type, l.queue, l.priority, t.tenant_id, t.entity, t.due_at, t.waits, t.message, t.limit_key
    FROM tasktable.lanes AS l CROSS JOIN LATERAL (
        SELECT t.id::text, t.tenant_id::text, t.entity::text,
            least(t.waiting_since, t.due_at, t.next_attempt_at)::timestamptz AS due_at,
            CASE WHEN t.waiting_since IS NOT NULL THEN t.waits END AS waits, t.message, t.limit_key
        FROM tasktable.scheduled_tasks AS t
        WHERE t.queue = l.queue AND t.type = l.type AND t.priority = l.priority AND t.cron IS NULL
            AND t.next_attempt_at <= late_at.at
        ORDER BY t.next_attempt_at LIMIT late_at.most
    ) AS t
    WHERE l.next_attempt_at <= late_at.at AND t.due_at < late_at.at - late_at.after
        AND NOT EXISTS (SELECT FROM tasktable.pauses AS p WHERE (p.ends_at IS NULL OR p.ends_at > late_at.at)
            AND (p.scope = 'all' OR p.scope = 'queue' AND p.name = l.queue OR p.scope = 'type' AND p.name = l.type))
    UNION ALL
    (SELECT t.id::text, t.type::text, t.queue::text, t.priority::integer, t.tenant_id::text, t.entity::text,
        t.waiting_since, t.waits, t.message, NULL
    FROM tasktable.scheduled_tasks AS t
    -- Without statistics Postgres takes a range that has only an end for a third of the table, and reads all of it.
    WHERE t.waiting_since > '-infinity' AND t.waiting_since < late_at.at - late_at.after
        AND t.next_attempt_at IS NOT NULL AND t.next_attempt_at > late_at.at -- the others are found above
        AND NOT EXISTS (SELECT FROM tasktable.pauses AS p WHERE (p.ends_at IS NULL OR p.ends_at > late_at.at)
            AND (p.scope = 'all' OR p.scope = 'queue' AND p.name = t.queue OR p.scope = 'type' AND p.name = t.type))
    ORDER BY t.waiting_since LIMIT 10000)
$$;
COMMENT ON FUNCTION tasktable.late_at IS 'Tasks that are due since more than a time and are not claimed, or are put off '
    'because something is out of order. Tasks that a pause of a scope holds back are not late. It reads the first due '
    'tasks of each queue, type and priority up to a number, and the first 10,000 that are put off. Those have no '
    'limit_key.';

CREATE VIEW tasktable.waiting_tasks AS
    SELECT t.id, t.type, t.queue, t.priority, t.tenant_id, t.waiting_since, t.waits, t.next_attempt_at::timestamptz,
        t.message
    FROM tasktable.scheduled_tasks AS t
    WHERE t.waiting_since IS NOT NULL AND t.next_attempt_at IS NOT NULL;
COMMENT ON VIEW tasktable.waiting_tasks IS 'Tasks that their handler puts off because something is out of order, such '
    'as a host whose circuit is open.';

CREATE VIEW tasktable.running_tasks AS
    SELECT t.id, t.type, t.queue, t.status, t.attempt, t.fence, t.last_status_update AS claimed_at, t.lease_expires_at,
        t.lease_expires_at < clock_timestamp() AS stuck,
        CASE WHEN t.started_fence = t.fence THEN t.started_at END AS started_at,
        CASE WHEN t.started_fence = t.fence THEN t.node END AS node
    FROM tasktable.scheduled_tasks AS t
    WHERE t.lease_expires_at IS NOT NULL;
COMMENT ON VIEW tasktable.running_tasks IS 'Claimed tasks.';

CREATE VIEW tasktable.queue_loads AS
    SELECT q.queue, sum(q.due)::bigint AS due, sum(q.running)::bigint AS running
    FROM (
        SELECT l.queue, d.due, 0 AS running
        FROM tasktable.lanes AS l CROSS JOIN LATERAL (
            -- Without the order Postgres would read all due tasks, past the limit.
            SELECT count(*) AS due FROM (
                SELECT FROM tasktable.scheduled_tasks AS t
                WHERE t.queue = l.queue AND t.type = l.type AND t.priority = l.priority AND t.cron IS NULL
                    AND t.next_attempt_at <= statement_timestamp()
                ORDER BY t.next_attempt_at LIMIT 10000
            ) AS t
        ) AS d
        WHERE NOT EXISTS (SELECT 1 FROM tasktable.pauses AS p
            WHERE (p.ends_at IS NULL OR p.ends_at > statement_timestamp()) AND (p.scope = 'all'
                OR p.scope = 'queue' AND p.name = l.queue OR p.scope = 'type' AND p.name = l.type))
        UNION ALL
        SELECT t.queue::text, 0, count(*) FROM tasktable.scheduled_tasks AS t
        WHERE t.lease_expires_at IS NOT NULL GROUP BY t.queue
    ) AS q
    GROUP BY q.queue;
COMMENT ON VIEW tasktable.queue_loads IS 'How much work each queue has now, for autoscalers. A queue without waiting '
    'or claimed tasks has no row.';

CREATE VIEW tasktable.dead_letters AS
    SELECT t.id, t.type, t.queue, t.entity, t.tenant_id, t.status, t.attempt, t.message, t.scheduled_at, t.finished_at,
        t.archived_at, t.archived_note
    FROM tasktable.scheduled_tasks AS t
    WHERE t.status IN ('FAILED', 'EXPIRED');
COMMENT ON VIEW tasktable.dead_letters IS 'FAILED and EXPIRED tasks. They do not run unless somebody retries or '
    'reschedules them.';

CREATE VIEW tasktable.follow_ups AS
    SELECT t.spawned_by::text AS task_id, t.id, t.type, t.queue, t.status, t.attempt, t.max_attempts, t.scheduled_at,
        t.created_at, t.started_at, t.finished_at, t.message
    FROM tasktable.scheduled_tasks AS t
    WHERE t.spawned_by IS NOT NULL;
COMMENT ON VIEW tasktable.follow_ups IS 'Follow-ups, by the task whose handler asked for them. Filter by task_id.';

-- The message is cut before, so that a long one costs no more, and once more after the replacements, because messages
-- with long ids were cut sooner than others.
CREATE FUNCTION tasktable.message_pattern(message text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT left(regexp_replace(left(split_part(coalesce(message, ''), chr(10), 1), 240),
        '"[^"]*"|`[^`]*`|''[^'' ]*''|[^\s"`]*[0-9@][^\s"`]*', '*', 'g'), 120)
$$;
COMMENT ON FUNCTION tasktable.message_pattern IS 'What messages of the same cause have in common: the first line, with '
    'a * in the place of each quoted text and of each word with a digit or an @. At most 120 characters.';

CREATE FUNCTION tasktable.reason_text(code text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE code
        WHEN 'not_due' THEN 'its time has not come'
        WHEN 'retry' THEN 'the next attempt waits for its time'
        WHEN 'waits' THEN 'it waits for something that is out of order'
        WHEN 'in_line' THEN 'it is due, and waits for its turn'
        WHEN 'limited' THEN 'it is due, and a limit lets no further task start now'
        WHEN 'expires' THEN 'its time is over, and it becomes EXPIRED when the leader comes to it'
        WHEN 'paused' THEN 'it is paused'
        WHEN 'paused_scope' THEN 'everything, its queue or its type is paused'
        WHEN 'no_node' THEN 'no node is running'
        WHEN 'no_worker' THEN 'the running nodes only lead, and run no task'
        WHEN 'no_type' THEN 'no running node has a handler for its type'
        WHEN 'no_queue' THEN 'no running node works its queue'
        WHEN 'no_both' THEN 'no running node has both its queue and a handler for its type'
        WHEN 'no_leader' THEN 'no running node leads, so nothing is claimed'
        WHEN 'running' THEN 'an attempt runs, or is about to'
        WHEN 'edited' THEN 'it was edited while an attempt ran, and runs again when that has ended'
        WHEN 'lapsed' THEN 'the lease of its claim has ended, and nobody has taken it back yet'
        WHEN 'recurring' THEN 'a recurring task never runs itself: each fire makes an occurrence, which does'
        WHEN 'planning' THEN 'a recurring task never runs itself, and the leader is about to plan its next fire'
        WHEN 'firing' THEN 'a recurring task never runs itself, and the leader is about to fork its occurrence'
        WHEN 'cancelled' THEN 'it was cancelled'
        WHEN 'failed' THEN 'it failed for good'
        WHEN 'expired' THEN 'it expired before an attempt could start'
        WHEN 'skipped' THEN 'this fire was left out'
    END
$$;
COMMENT ON FUNCTION tasktable.reason_text IS 'A code of task_reasons in words.';

-- It is no view, because River's tables are made after these.
CREATE FUNCTION tasktable.limit_states() RETURNS TABLE (
    name text, scope text, scope_name text, per text, in_order boolean, max_running int, running bigint, rate int,
    rate_interval interval, burst int, next_start_at timestamptz, changed_at timestamptz, changed_by text,
    declared_by text, weights jsonb
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH jobs AS MATERIALIZED (
        SELECT j.queue, j.kind, j.metadata ->> 'key' AS key, count(*) AS jobs FROM tasktable.river_job AS j
        WHERE j.state IN ('available', 'running') GROUP BY j.queue, j.kind, key
    )
    SELECT l.name, l.scope, l.scope_name, l.per, l.in_order, l.max_running,
        CASE WHEN l.max_running IS NOT NULL THEN (SELECT coalesce(max(k.jobs), 0)::bigint
            FROM (SELECT sum(j.jobs) AS jobs FROM jobs AS j
                WHERE CASE l.scope WHEN 'queue' THEN j.queue = l.scope_name WHEN 'type' THEN j.kind = l.scope_name
                    ELSE true END AND (l.per IS NULL OR j.key ~ ('^' || left(l.per, 1) || ':.'))
                GROUP BY CASE WHEN l.per IS NOT NULL THEN j.key END) AS k) END,
        l.rate, l.rate_interval, l.burst,
        -- After a change of the rate no task waits longer than for an empty bucket. With per there may be very many
        -- buckets, so they are not read.
        CASE WHEN l.per IS NULL
            THEN least(coalesce(b.full_at, l.changed_at), statement_timestamp() + l.burst * l.rate_interval / l.rate)
                - (l.burst - 1) * l.rate_interval / l.rate END, l.changed_at, l.changed_by, l.declared_by, l.weights
    FROM tasktable.limits AS l LEFT JOIN tasktable.limit_buckets AS b ON b.name = l.name AND b.limit_key = '';
END $$;
COMMENT ON FUNCTION tasktable.limit_states IS 'The limits. running is how many of their tasks run, or are about to. '
    'Null: max_running is null. With per it is of the group or tenant of which most run. next_start_at is when the '
    'rate lets the next task start, which may be in the past. '
    'Null: there is no rate, or each group or tenant has its own.';

-- A limit with a rate is reached until half of its burst may start, because the leader waits for so much. Without that,
-- a limit for which a million tasks wait would not be reached most of the time.
CREATE FUNCTION tasktable.reached_limits() RETURNS TABLE (
    name text, place text, next_start_at timestamptz, state jsonb
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT l.state ->> 'name', concat_ws(' ', l.scope, nullif(l.scope_name, ''), l.key), l.next_start_at,
        l.state || jsonb_build_object('key', l.key, 'running', l.running,
            'rate_seconds', extract(epoch FROM (l.state ->> 'rate_interval')::interval))
    FROM (
        SELECT l.scope, l.scope_name, NULL::text AS key, l.running, l.next_start_at, to_jsonb(l) AS state
        FROM tasktable.limit_states() AS l
        WHERE l.per IS NULL AND (l.running >= l.max_running
            OR l.next_start_at + greatest(l.burst / 2 - 1, 0) * l.rate_interval / l.rate > statement_timestamp())
        UNION ALL
        SELECT l.scope, l.scope_name, j.key, sum(j.jobs)::bigint, NULL, to_jsonb(l)
        FROM tasktable.limits AS l
        JOIN (SELECT r.queue, r.kind, r.metadata ->> 'key' AS key, count(*) AS jobs FROM tasktable.river_job AS r
            WHERE r.state IN ('available', 'running') GROUP BY r.queue, r.kind, key) AS j
            ON CASE l.scope WHEN 'queue' THEN j.queue = l.scope_name WHEN 'type' THEN j.kind = l.scope_name
                ELSE true END
            AND starts_with(j.key, left(l.per, 1) || ':') AND length(j.key) > 2
        WHERE l.per IS NOT NULL AND l.max_running IS NOT NULL
        GROUP BY l.name, j.key
        HAVING sum(j.jobs) >= l.max_running
    ) AS l;
END $$;
COMMENT ON FUNCTION tasktable.reached_limits IS 'The limits that let no further task start now, with one row for each '
    'group or tenant. The place is the scope, the name of the queue or type, and the key (see limit_key_of).';

CREATE FUNCTION tasktable.limit_places(queue text, type text, limit_key text) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY['all', 'queue ' || queue, 'type ' || type, 'all ' || limit_key, 'queue ' || queue || ' ' || limit_key,
        'type ' || type || ' ' || limit_key]
$$;
COMMENT ON FUNCTION tasktable.limit_places IS 'The places of reached_limits that hold back the tasks of a queue, type '
    'and key.';

CREATE FUNCTION tasktable.limit_waits(most bigint) RETURNS TABLE (
    name text, waiting bigint, waiting_more boolean, oldest_id text, oldest_due_at timestamptz
) LANGUAGE sql STABLE AS $$
    WITH reached AS MATERIALIZED (
        SELECT r.name, r.place, r.state ->> 'scope' AS scope, r.state ->> 'scope_name' AS of
        FROM tasktable.reached_limits() AS r
    ), lane AS MATERIALIZED (
        SELECT l.queue, l.type, l.priority, greatest(100, limit_waits.most / count(*) OVER ()) AS most
        FROM tasktable.lanes AS l JOIN tasktable.worked_lanes AS w ON w.queue = l.queue AND w.type = l.type
        WHERE l.next_attempt_at <= statement_timestamp()
            AND EXISTS (SELECT FROM reached AS r
                WHERE CASE r.scope WHEN 'queue' THEN l.queue = r.of WHEN 'type' THEN l.type = r.of ELSE true END)
            AND NOT EXISTS (SELECT FROM tasktable.pauses AS p WHERE (p.ends_at IS NULL
                OR p.ends_at > statement_timestamp()) AND (p.scope = 'all'
                OR p.scope = 'queue' AND p.name = l.queue OR p.scope = 'type' AND p.name = l.type))
    ), due AS MATERIALIZED (
        SELECT l.queue, l.type, t.limit_key, count(*) AS tasks, bool_or(t.more) AS more, min(t.due_at) AS due_at,
            (array_agg(t.id ORDER BY t.due_at, t.id COLLATE "C"))[1] AS id
        FROM lane AS l CROSS JOIN LATERAL (
            SELECT t.id, t.limit_key, t.due_at, count(*) OVER () >= l.most AS more
            FROM (
                SELECT t.id::text, t.limit_key,
                    least(t.waiting_since, t.due_at, t.next_attempt_at)::timestamptz AS due_at
                FROM tasktable.scheduled_tasks AS t
                WHERE t.queue = l.queue AND t.type = l.type AND t.priority = l.priority AND t.cron IS NULL
                    AND t.next_attempt_at <= statement_timestamp()
                ORDER BY t.next_attempt_at LIMIT l.most
            ) AS t
        ) AS t
        GROUP BY l.queue, l.type, t.limit_key
    )
    SELECT r.name, sum(d.tasks)::bigint, bool_or(d.more), (array_agg(d.id ORDER BY d.due_at, d.id COLLATE "C"))[1],
        min(d.due_at)
    FROM due AS d CROSS JOIN LATERAL unnest(tasktable.limit_places(d.queue, d.type, d.limit_key)) AS p (place)
    JOIN reached AS r ON r.place = p.place
    GROUP BY r.name
$$;
COMMENT ON FUNCTION tasktable.limit_waits IS 'The reached limits that hold back due tasks: how many, and the one that '
    'is due for longest. It reads the first due tasks of each queue, type and priority, of all together up to a '
    'number, but 100 of each at least. waiting_more means that there are perhaps more.';

CREATE FUNCTION tasktable.waits_for(queue text, type text, limit_key text) RETURNS jsonb LANGUAGE sql STABLE AS $$
    WITH counts AS (
        SELECT * FROM tasktable.limits AS l
        WHERE (l.in_order OR l.rate IS NOT NULL) AND waits_for.limit_key LIKE left(l.per, 1) || ':_%'
            AND CASE l.scope WHEN 'queue' THEN waits_for.queue = l.scope_name
                WHEN 'type' THEN waits_for.type = l.scope_name ELSE true END
    )
    (SELECT to_jsonb(l) || jsonb_build_object('key', t.limit_key, 'first', t.id, 'first_at', t.next_attempt_at)
    FROM counts AS l
    JOIN tasktable.scheduled_tasks AS t ON CASE l.scope WHEN 'queue' THEN t.queue = l.scope_name
        WHEN 'type' THEN t.type = l.scope_name ELSE true END
    WHERE l.in_order AND t.limit_key = waits_for.limit_key
        AND t.goes_first AND t.next_attempt_at IS NOT NULL AND t.cron IS NULL
    ORDER BY t.scheduled_at, t.id, l.name LIMIT 1)
    UNION ALL
    (SELECT to_jsonb(l) || jsonb_build_object('key', b.limit_key, 'next_start_at', next.at,
        'rate_seconds', extract(epoch FROM l.rate_interval))
    FROM counts AS l JOIN tasktable.limit_buckets AS b ON b.name = l.name AND b.limit_key = waits_for.limit_key
    CROSS JOIN LATERAL (SELECT least(b.full_at, statement_timestamp() + l.burst * l.rate_interval / l.rate)
        - (l.burst - 1) * l.rate_interval / l.rate AS at) AS next
    WHERE l.rate IS NOT NULL AND next.at > statement_timestamp()
    ORDER BY next.at DESC, l.name LIMIT 1)
    LIMIT 1
$$;
COMMENT ON FUNCTION tasktable.waits_for IS 'The limit for which the tasks of a queue, type and key (see limit_key_of) '
    'wait, because a task of their group or tenant goes first that waits for its next attempt, or because the rate of '
    'their group or tenant lets none start now. Null: they wait for none.';

CREATE VIEW tasktable.task_reasons AS
    SELECT t.id, t.type, t.queue, t.status, s.code, tasktable.reason_text(s.code) AS reason,
        CASE WHEN s.code IN ('failed', 'skipped', 'retry', 'waits') THEN t.message
            WHEN s.code = 'expired' THEN substring(t.message FROM '; last error: (.*)$')
            WHEN s.code = 'paused_scope' THEN z.pause ->> 'reason' END AS detail,
        CASE WHEN s.code = 'paused_scope' THEN (z.pause ->> 'paused_at')::timestamptz
            WHEN s.code = 'no_node' THEN (
                SELECT greatest(max(coalesce(n.last_seen_at, n.dead_at, n.elected_at, n.started_at)),
                    (SELECT e.finished_at FROM tasktable.scheduled_task_executions AS e ORDER BY e.fence DESC LIMIT 1))
                FROM tasktable.nodes AS n)
            -- If a node that had both is silent, the time is unknown.
            WHEN s.code IN ('no_type', 'no_queue', 'no_both') THEN (
                SELECT CASE WHEN count(*) = count(n.dead_at) THEN max(coalesce(n.last_seen_at, n.dead_at)) END
                FROM tasktable.nodes AS n WHERE t.type = ANY (n.types) AND n.queues ? t.queue)
            WHEN s.code = 'no_leader' THEN (
                SELECT coalesce(n.last_seen_at, n.dead_at) FROM tasktable.nodes AS n
                WHERE n.elected_at IS NOT NULL ORDER BY n.elected_at DESC LIMIT 1)
            WHEN s.code IN ('in_line', 'limited', 'firing', 'planning') THEN coalesce(t.due_at, t.next_attempt_at)
            WHEN s.code = 'expires' THEN least(f.due + t.expiration, t.deadline)
            WHEN s.code = 'expired' THEN least(f.due + t.expiration, t.deadline, t.finished_at)
            WHEN s.code = 'lapsed' THEN t.lease_expires_at
            WHEN s.code = 'waits' THEN t.waiting_since
            WHEN s.code IN ('running', 'paused') THEN t.last_status_update
            ELSE t.finished_at END AS since,
        CASE WHEN s.code = 'paused_scope' THEN (z.pause ->> 'ends_at')::timestamptz
            WHEN s.code = 'paused' THEN t.paused_until
            WHEN s.code IN ('running', 'edited') THEN t.lease_expires_at
            WHEN s.code = 'limited' THEN CASE WHEN (z.reached ->> 'next_start_at')::timestamptz > statement_timestamp()
                THEN (z.reached ->> 'next_start_at')::timestamptz
                WHEN (z.reached ->> 'first_at')::timestamptz > statement_timestamp()
                THEN (z.reached ->> 'first_at')::timestamptz END
            WHEN s.code IN ('not_due', 'retry', 'waits', 'recurring') THEN t.next_attempt_at END::timestamptz AS until,
        nullif(concat_ws(', and ', CASE WHEN y.pauses IS NOT NULL THEN tasktable.reason_text('paused_scope') END,
            CASE WHEN t.finished_at IS NULL AND s.code <> o.missing
                AND (s.code <> 'running' OR o.missing IN ('no_node', 'no_leader'))
                THEN tasktable.reason_text(o.missing) END), '') AS obstacle,
        coalesce(t.due_at, t.next_attempt_at) AS due_at, t.lease_expires_at,
        CASE WHEN t.finished_at IS NULL THEN o.missing END AS missing,
        jsonb_build_object('pause', CASE WHEN s.code = 'paused_scope' THEN z.pause END, 'pauses', y.pauses,
            'quiet', w.quiet, 'may_lead', w.may_lead, 'slots', w.slots -> (t.queue || ' ' || t.type),
            'limit', CASE WHEN s.code = 'limited' THEN z.reached END,
            'due_at', CASE WHEN s.code = 'paused' THEN t.due_at END) AS data
    FROM tasktable.scheduled_tasks AS t
    CROSS JOIN (
        -- The nodes, the pauses and the limits that are reached, once for all tasks.
        SELECT coalesce(bool_or(n.state <> 'silent'), false) AS lives,
            coalesce(bool_or(n.state IN ('leads', 'unknown')), false) AS led,
            count(*) FILTER (WHERE n.state = 'quiet') AS quiet,
            count(*) FILTER (WHERE n.role IN ('leader', 'both') AND n.state <> 'silent') > 0 AS may_lead,
            count(*) FILTER (WHERE n.role = 'leader' AND n.state <> 'silent') > 0
                AND count(*) FILTER (WHERE n.role IN ('worker', 'both') AND n.state <> 'silent') = 0 AS idle,
            (SELECT coalesce(jsonb_object_agg(
                    concat_ws(' ', coalesce(l.queue, '*'), coalesce(l.type, '*')), l.slots), '{}')
                FROM (SELECT l.queue, l.type, max(l.slots) AS slots FROM tasktable.worked_lanes AS l
                    GROUP BY GROUPING SETS ((l.queue, l.type), (l.queue), (l.type))) AS l) AS slots,
            (SELECT coalesce(jsonb_object_agg(btrim(p.scope || ' ' || p.name), to_jsonb(p)), '{}')
                FROM tasktable.pauses AS p WHERE p.ends_at IS NULL OR p.ends_at > statement_timestamp()) AS pauses,
            (SELECT coalesce(jsonb_object_agg(l.place, l.state ORDER BY l.next_start_at NULLS FIRST), '{}')
                FROM tasktable.reached_limits() AS l) AS reached,
            EXISTS (SELECT 1 FROM tasktable.limits AS l WHERE l.in_order OR l.per IS NOT NULL AND l.rate IS NOT NULL)
                AS by_key
        FROM tasktable.node_states AS n
        WHERE n.dead_at IS NULL
    ) AS w
    CROSS JOIN LATERAL (
        -- The obstacles of all tasks of this queue and type.
        SELECT b.paused, b.missing, CASE WHEN b.paused THEN 'paused_scope' ELSE b.missing END AS code
        FROM (SELECT w.pauses ?| ARRAY['all', 'queue ' || t.queue, 'type ' || t.type] AS paused,
            CASE WHEN NOT w.lives THEN 'no_node'
                WHEN w.idle THEN 'no_worker'
                WHEN w.slots ? (t.queue || ' ' || t.type) THEN CASE WHEN NOT w.led THEN 'no_leader' END
                WHEN NOT w.slots ? ('* ' || t.type) THEN 'no_type'
                WHEN NOT w.slots ? (t.queue || ' *') THEN 'no_queue'
                ELSE 'no_both' END AS missing) AS b
    ) AS o
    CROSS JOIN LATERAL (SELECT tasktable.due_of(t.id, t.scheduled_at, t.run_now_at, t.jitter) AS due) AS f
    CROSS JOIN LATERAL (
        -- The pause that holds longest.
        SELECT (SELECT p.pause
            FROM unnest(ARRAY[w.pauses -> 'all', w.pauses -> ('queue ' || t.queue), w.pauses -> ('type ' || t.type)])
                AS p (pause)
            WHERE p.pause IS NOT NULL
            ORDER BY (p.pause ->> 'ends_at')::timestamptz DESC, p.pause ->> 'scope' LIMIT 1) AS pause,
            coalesce(w.reached -> ('type ' || t.type), w.reached -> ('queue ' || t.queue), w.reached -> 'all',
                w.reached -> concat_ws(' ', 'type', t.type, t.limit_key),
                w.reached -> concat_ws(' ', 'queue', t.queue, t.limit_key), w.reached -> ('all ' || t.limit_key),
                CASE WHEN w.by_key AND t.limit_key <> '' AND t.next_attempt_at <= statement_timestamp()
                    THEN tasktable.waits_for(t.queue, t.type, t.limit_key) END) AS reached
    ) AS z
    CROSS JOIN LATERAL (
        SELECT CASE WHEN t.finished_at IS NOT NULL THEN lower(t.status)
            WHEN t.lease_expires_at < statement_timestamp() THEN 'lapsed'
            WHEN t.status = 'EXECUTING' THEN 'running'
            WHEN t.status = 'PAUSED' THEN 'paused'
            WHEN t.fence IS NOT NULL THEN 'edited'
            WHEN t.cron IS NOT NULL THEN CASE
                WHEN t.planned_revision IS DISTINCT FROM t.revision THEN coalesce(o.code, 'planning')
                WHEN t.next_attempt_at > statement_timestamp() THEN 'recurring' ELSE coalesce(o.code, 'firing') END
            WHEN t.next_attempt_at > statement_timestamp() THEN
                CASE WHEN t.waiting_since IS NOT NULL THEN 'waits' WHEN t.next_attempt_at > f.due THEN 'retry'
                    ELSE 'not_due' END
            WHEN least(f.due + t.expiration, t.deadline) <= statement_timestamp() THEN 'expires'
            ELSE coalesce(o.code, CASE WHEN z.reached ->> 'first' = t.id OR z.reached IS NULL THEN 'in_line'
                ELSE 'limited' END) END AS code
    ) AS s
    CROSS JOIN LATERAL (
        -- The other pauses. If the task waits for something else: the pauses that will still hold when it is due.
        SELECT (SELECT jsonb_agg(p.pause ORDER BY p.pause ->> 'scope')
            FROM unnest(ARRAY[w.pauses -> 'all', w.pauses -> ('queue ' || t.queue), w.pauses -> ('type ' || t.type)])
                AS p (pause)
            WHERE p.pause IS NOT NULL AND t.finished_at IS NULL AND s.code <> 'running'
                AND CASE WHEN s.code = 'paused_scope' THEN p.pause <> z.pause
                ELSE ((p.pause ->> 'ends_at')::timestamptz <= greatest(t.next_attempt_at, t.paused_until, f.due))
                    IS NOT TRUE END) AS pauses
    ) AS y
    WHERE t.status <> 'COMPLETED';
COMMENT ON VIEW tasktable.task_reasons IS 'Why a task does not run, and until when, for each task that is not '
    'COMPLETED. Filter by id, or count by code.';

CREATE FUNCTION tasktable.tasks_ahead(id text, OUT higher bigint, OUT equal bigint, OUT claimed bigint,
    OUT type_slots bigint, OUT type_claimed bigint, OUT hung bigint, OUT earlier bigint)
LANGUAGE sql STABLE AS $$
    -- Lane by lane, as the leader claims, so that Postgres reads only due tasks.
    WITH task AS (SELECT * FROM tasktable.scheduled_tasks AS t WHERE t.id = tasks_ahead.id),
    able AS (
        -- The nodes that may run the task. Somebody may have damaged their rows.
        SELECT CASE WHEN jsonb_typeof(n.type_slots -> task.type) = 'number'
                THEN (n.type_slots ->> task.type)::numeric END AS type_slots,
            (SELECT sum(h.value::numeric)
                FROM jsonb_each(CASE jsonb_typeof(n.hung) WHEN 'object' THEN n.hung ELSE '{}' END) AS h
                WHERE jsonb_typeof(h.value) = 'number') AS hung,
            array_remove(n.strict_queues, NULL) AS strict_queues
        FROM task JOIN tasktable.nodes AS n ON task.type = ANY (n.types) AND n.queues ? task.queue
        WHERE n.dead_at IS NULL
            AND n.number IN (SELECT s.number FROM tasktable.node_states AS s WHERE s.state <> 'silent')
    )
    SELECT count(*) FILTER (WHERE one.higher), count(*) FILTER (WHERE NOT one.higher),
        (SELECT count(*) FROM tasktable.scheduled_tasks AS h, task
            WHERE h.lease_expires_at IS NOT NULL AND h.queue = task.queue),
        (SELECT least(sum(able.type_slots), 1e9)::bigint FROM able
            HAVING count(*) = count(able.type_slots) AND count(*) > 0),
        (SELECT count(*) FROM tasktable.scheduled_tasks AS h, task
            WHERE h.lease_expires_at IS NOT NULL AND h.type = task.type),
        (SELECT least(coalesce(sum(able.hung), 0), 1e9)::bigint FROM able),
        (SELECT count(*) FROM (
            SELECT FROM (
                SELECT DISTINCT s.queue FROM able, task, unnest(able.strict_queues) WITH ORDINALITY AS s (queue, place)
                WHERE s.place < coalesce(array_position(able.strict_queues, task.queue::text), 1e9)
            ) AS s
            JOIN tasktable.lanes AS l ON l.queue = s.queue
            CROSS JOIN LATERAL (
                SELECT FROM tasktable.scheduled_tasks AS n
                WHERE n.queue = l.queue AND n.type = l.type AND n.priority = l.priority AND n.cron IS NULL
                    AND n.next_attempt_at < statement_timestamp()
                LIMIT 10000
            ) AS n
            WHERE EXISTS (SELECT FROM tasktable.worked_lanes AS w WHERE w.queue = l.queue AND w.type = l.type)
                AND NOT EXISTS (SELECT FROM tasktable.pauses AS p
                    WHERE (p.scope = 'queue' AND p.name = l.queue OR p.scope = 'type' AND p.name = l.type)
                        AND (p.ends_at IS NULL OR p.ends_at > statement_timestamp()))
            LIMIT 10000) AS e)
    FROM (
        SELECT l.priority > task.priority AS higher
        FROM task
        JOIN LATERAL (SELECT * FROM tasktable.lanes AS l
            WHERE l.queue = task.queue AND l.priority >= task.priority
                AND EXISTS (SELECT FROM tasktable.worked_lanes AS w WHERE w.queue = l.queue AND w.type = l.type)
                AND NOT EXISTS (SELECT FROM tasktable.pauses AS p WHERE p.scope = 'type' AND p.name = l.type
                    AND (p.ends_at IS NULL OR p.ends_at > statement_timestamp()))
            ORDER BY l.priority DESC) AS l ON true
        CROSS JOIN LATERAL (
            SELECT FROM tasktable.scheduled_tasks AS n
            WHERE n.queue = task.queue AND n.type = l.type AND n.priority = l.priority AND n.cron IS NULL
                AND n.next_attempt_at < CASE WHEN l.priority > task.priority THEN statement_timestamp()
                    ELSE task.next_attempt_at END
            LIMIT 10000
        ) AS n
        LIMIT 10000
    ) AS one
$$;
COMMENT ON FUNCTION tasktable.tasks_ahead IS 'How many due tasks of its queue run before a due task, counted up to '
    '10,000: those of a higher priority, and those of its priority. And how many of its queue and of its type are '
    'claimed, how many handlers of its type run at once (null: some of its nodes have no limit), how many handlers of '
    'its nodes do not return, and how many due tasks (up to 10,000) are in queues that come first in a strict order.';

-- An application may not read the view, because the view shows the tasks of all services. This function runs as the
-- owner, but answers only for a task that the caller may read. Its search_path is fixed, so that the caller cannot put
-- functions of its own before the real ones.
CREATE FUNCTION tasktable.reason_of(id text) RETURNS TABLE (
    code text, detail text, since timestamptz, until timestamptz, missing text, data jsonb
) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The role that logged in or was SET. current_user is the owner here.
    caller   name := coalesce(nullif(current_setting('role'), 'none'), session_user);
    services text[];
    tenant   text; -- null: the caller is not the role of tenants
BEGIN
    IF NOT has_table_privilege(caller, 'tasktable.task_reasons'::regclass, 'SELECT') THEN
        services := tasktable.services_of(caller);
        tenant := tasktable.tenant_of(caller);
        IF cardinality(services) = 0 AND tenant IS NULL THEN
            RAISE EXCEPTION 'permission denied: role "%" has no tasks', caller USING ERRCODE = 'insufficient_privilege';
        END IF;
        PERFORM FROM tasktable.scheduled_tasks AS t
        WHERE t.id = reason_of.id
            AND (t.scheduled_by = ANY (services) OR '' = ANY (services) OR t.tenant_id = tenant);
        IF NOT FOUND THEN
            RETURN;
        END IF;
    END IF;
    RETURN QUERY SELECT r.code::text, r.detail::text, r.since, r.until, r.missing::text,
        CASE WHEN r.code = 'in_line' THEN r.data || (SELECT to_jsonb(a) FROM tasktable.tasks_ahead(r.id) AS a)
            WHEN r.data #>> '{limit,first}' <> '' AND services IS NOT NULL AND NOT EXISTS (
                SELECT FROM tasktable.scheduled_tasks AS t WHERE t.id = r.data #>> '{limit,first}'
                    AND (t.scheduled_by = ANY (services) OR '' = ANY (services) OR t.tenant_id = tenant))
            THEN jsonb_set(r.data, '{limit,first}', '""')
            -- A handler that does not return keeps its River job, which counts for the limit. Of a limit of a queue
            -- nobody knows whether the handler is of it.
            WHEN r.code = 'limited' THEN r.data || jsonb_build_object('hung', (
                SELECT least(coalesce(sum(h.value::numeric), 0), 1e9)::bigint
                FROM tasktable.nodes AS n
                CROSS JOIN LATERAL jsonb_each(CASE jsonb_typeof(n.hung) WHEN 'object' THEN n.hung ELSE '{}' END) AS h
                WHERE n.dead_at IS NULL AND jsonb_typeof(h.value) = 'number'
                    AND (r.data #>> '{limit,scope}' <> 'type' OR h.key = r.data #>> '{limit,scope_name}')))
            ELSE r.data END
    FROM tasktable.task_reasons AS r WHERE r.id = reason_of.id;
END $$;
COMMENT ON FUNCTION tasktable.reason_of IS 'The row of task_reasons for a task that the caller may read. For the code '
    'in_line data has the result of tasks_ahead as well, for limited the number of hung handlers. No row: the task is '
    'COMPLETED, or the caller may read no such task.';

CREATE VIEW tasktable.stuck_tasks AS
    SELECT r.id, r.type, r.queue, r.status, r.code, r.reason, coalesce(r.since, r.due_at) AS since, r.due_at,
        r.lease_expires_at
    FROM tasktable.task_reasons AS r
    WHERE (r.due_at < statement_timestamp() OR r.lease_expires_at < statement_timestamp())
        AND r.code IN ('no_node', 'no_worker', 'no_type', 'no_queue', 'no_both', 'no_leader', 'lapsed');
COMMENT ON VIEW tasktable.stuck_tasks IS 'Tasks that nobody has paused, and that no node will run: they are due, or '
    'their lease has ended.';

CREATE VIEW tasktable.next_fires AS
    SELECT t.id, t.type, t.queue, t.cron, t.time_zone,
        CASE WHEN t.planned_revision = t.revision THEN t.next_attempt_at END::timestamptz AS next_fire,
        t.started_at AS last_fire, t.occurrence_count, t.max_occurrences, t.ends_at, t.declared_by, r.code, r.obstacle
    FROM tasktable.scheduled_tasks AS t
    JOIN tasktable.task_reasons AS r ON r.id = t.id
    WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NOT NULL;
COMMENT ON VIEW tasktable.next_fires IS 'Recurring tasks that are not paused as single tasks, with their next fire.';

CREATE VIEW tasktable.throughput_by_hour AS
    SELECT date_bin('1 hour', e.finished_at, '2000-01-01 00:00:00+00') AS hour, e.type, count(*) AS executions,
        count(*) FILTER (WHERE e.outcome = 'COMPLETED') AS completed,
        count(*) FILTER (WHERE e.outcome = 'RETRIED') AS retried,
        count(*) FILTER (WHERE e.outcome = 'FAILED') AS failed,
        count(*) FILTER (WHERE e.outcome = 'EXPIRED') AS expired,
        count(*) FILTER (WHERE e.outcome = 'LOST') AS lost,
        count(*) FILTER (WHERE e.outcome NOT IN ('COMPLETED', 'RETRIED', 'FAILED', 'EXPIRED', 'LOST')) AS others,
        sum(e.finished_at - e.started_at) AS busy
    FROM tasktable.scheduled_task_executions AS e
    GROUP BY 1, 2;
COMMENT ON VIEW tasktable.throughput_by_hour IS 'Claims that ended, by hour and type. Filter by hour, because '
    'otherwise Postgres reads the whole history.';

CREATE VIEW tasktable.delay_by_type_and_hour AS
    SELECT d.hour, d.type, d.starts, d.failures,
        d.delay[1] AS delay_p50, d.delay[2] AS delay_p95, d.delay[3] AS delay_p99, d.delay[4] AS delay_max,
        d.took[1] AS took_p50, d.took[2] AS took_p95, d.took[3] AS took_p99, d.took[4] AS took_max
    FROM (
        SELECT date_bin('1 hour', e.finished_at, '2000-01-01 00:00:00+00') AS hour, e.type, count(*) AS starts,
            count(*) FILTER (WHERE e.outcome IN ('RETRIED', 'FAILED')) AS failures,
            percentile_cont(ARRAY[0.5, 0.95, 0.99, 1]) WITHIN GROUP (ORDER BY (e.started_at - e.due_at)) AS delay,
            percentile_cont(ARRAY[0.5, 0.95, 0.99, 1]) WITHIN GROUP (ORDER BY (e.finished_at - e.started_at)) AS took
        FROM tasktable.scheduled_task_executions AS e
        WHERE e.started_at IS NOT NULL
        GROUP BY 1, 2
    ) AS d;
COMMENT ON VIEW tasktable.delay_by_type_and_hour IS 'How late attempts began and how long they took, by type and hour. '
    'Filter by hour, because otherwise Postgres reads the whole history.';

DO $$
DECLARE
    one record;
BEGIN
    -- First the columns that mean the same in several views.
    FOR one IN
        SELECT r.relation, n.name, c.text FROM (VALUES
            ('{late_tasks, waiting_tasks, running_tasks, task_reasons, stuck_tasks, next_fires}'::text[],
                '{id}'::text[], 'The task.'),
            ('{late_tasks, waiting_tasks, running_tasks, task_reasons, stuck_tasks, next_fires, follow_ups}', '{type}',
                'Its type.'),
            ('{late_tasks, waiting_tasks, running_tasks, task_reasons, stuck_tasks, next_fires, follow_ups}', '{queue}',
                'Its queue.'),
            ('{task_reasons, stuck_tasks, follow_ups}', '{status}', 'Its status.'),
            ('{late_tasks, follow_ups}', '{attempt}', 'How many attempts have begun since its last edit.'),
            ('{late_tasks, follow_ups}', '{message}', 'Its last error, or the note of its handler.'),
            ('{task_reasons, stuck_tasks}', '{reason}', 'The code in words.'),
            ('{task_reasons, stuck_tasks}', '{due_at}', 'When it is due, if it waits or is paused.'),
            ('{running_tasks, task_reasons, stuck_tasks}', '{lease_expires_at}', 'End of its lease, or null.'),
            ('{throughput_by_hour, delay_by_type_and_hour}', '{hour}', 'Start of the hour, in UTC, of the ends.'),
            ('{throughput_by_hour, delay_by_type_and_hour}', '{type}', 'The type.'),
            ('{delay_by_type_and_hour}', '{delay_p50, delay_p95, delay_p99, delay_max}',
                'How late attempts began: 50, 95, 99 or all of 100 began at most this late.'),
            ('{delay_by_type_and_hour}', '{took_p50, took_p95, took_p99, took_max}',
                'How long attempts took: 50, 95, 99 or all of 100 took at most this long.')
        ) AS c (relations, names, text)
        CROSS JOIN unnest(c.relations) AS r (relation) CROSS JOIN unnest(c.names) AS n (name)
        UNION ALL
        SELECT c.* FROM (VALUES
            ('node_states', 'number', 'Number of the node, new for each process and for each new session.'),
            ('node_states', 'service', 'The service that the node is part of.'),
            ('node_states', 'version', 'Version of the service.'),
            ('node_states', 'host', 'Host name and process id.'),
            ('node_states', 'queues', 'The queues it works, with their slots.'),
            ('node_states', 'types', 'The types it has handlers for.'),
            ('node_states', 'shares_slots', 'Idle slots of one of its queues serve its other queues.'),
            ('node_states', 'type_slots', 'Of the types with a limit: how many of its handlers run at once.'),
            ('node_states', 'strict_queues', 'Those of its queues whose tasks come first, in this order, whatever '
                'their priorities.'),
            ('node_states', 'role', 'worker (it never leads), leader (it runs no tasks) or both. Null: it is quiet.'),
            ('node_states', 'started_at', 'When it began.'),
            ('node_states', 'elected_at', 'When its last term as the leader began. Null: it never led.'),
            ('node_states', 'last_seen_at', 'Its last sign of life, written when a leader finds its session gone.'),
            ('node_states', 'dead_at', 'When it ended, or when a leader noticed that it was killed.'),
            ('node_states', 'state', 'leads; works; quiet (told to start nothing); silent (its session is gone, and no '
                'leader has noticed yet); ended; unknown (on a standby, which does not see the locks).'),
            ('worked_lanes', 'queue', 'A queue.'),
            ('worked_lanes', 'type', 'A type that nodes of this queue have a handler for.'),
            ('worked_lanes', 'nodes', 'How many nodes work both.'),
            ('worked_lanes', 'slots', 'How many tasks of the queue these nodes run at once, whatever their type.'),
            ('task_timeline', 'task_id', 'The task.'),
            ('task_timeline', 'at', 'When the change was made, or the attempt ended.'),
            ('task_timeline', 'kind', 'change or execution.'),
            ('task_timeline', 'event', 'The verb of a change, or attempt.'),
            ('task_timeline', 'outcome', 'The outcome.'),
            ('task_timeline', 'by', 'Who made the change, or the node that ran the attempt.'),
            ('task_timeline', 'revision', 'The revision that the change made, or that was run.'),
            ('task_timeline', 'fence', 'Number of the claim.'),
            ('task_timeline', 'attempt', 'Number of the attempt within its revision.'),
            ('task_timeline', 'delay', 'How late the attempt began.'),
            ('task_timeline', 'took', 'How long the attempt took.'),
            ('task_timeline', 'detail', 'The old and new values of the changed fields, or the error of the attempt.'),
            ('waiting_tasks', 'priority', 'Its priority.'),
            ('waiting_tasks', 'tenant_id', 'Its tenant, or null.'),
            ('waiting_tasks', 'waiting_since', 'When it was due, before it was put off.'),
            ('waiting_tasks', 'waits', 'How many times its handler has put it off since.'),
            ('waiting_tasks', 'next_attempt_at', 'When its handler tries again.'),
            ('waiting_tasks', 'message', 'What it waits for.'),
            ('late_tasks', 'priority', 'Its priority.'),
            ('late_tasks', 'due_at', 'When it was due. For a task that was put off, because something is out of order, '
                'this is the time from before that.'),
            ('late_tasks', 'late_by', 'How long ago that was.'),
            ('late_tasks', 'has_node', 'Whether a node that is not known to be dead works both its queue and its '
                'type.'),
            ('late_tasks', 'is_paused', 'Whether everything, its queue or its type is paused.'),
            ('running_tasks', 'status', 'EXECUTING, unless it was edited, paused or cancelled since.'),
            ('running_tasks', 'attempt', 'Number of the attempt within its revision.'),
            ('running_tasks', 'fence', 'Number of the claim.'),
            ('running_tasks', 'claimed_at', 'When it was claimed.'),
            ('running_tasks', 'stuck', 'Whether the lease has ended and nobody has taken the task back.'),
            ('running_tasks', 'started_at', 'When its handler was called. Null until it has run for one to two '
                'seconds.'),
            ('running_tasks', 'node', 'Number of the node that runs it. Null where started_at is.'),
            ('queue_loads', 'queue', 'A queue.'),
            ('queue_loads', 'due', 'Tasks that are due, not claimed and not paused. Of each type and priority at most '
                '10000 are counted.'),
            ('queue_loads', 'running', 'Claimed tasks: they run, or are about to.'),
            ('follow_ups', 'task_id', 'The task whose handler asked for the follow-up.'),
            ('follow_ups', 'id', 'The follow-up.'),
            ('follow_ups', 'max_attempts', 'After this many failed attempts it is FAILED.'),
            ('follow_ups', 'scheduled_at', 'The time that was asked for.'),
            ('follow_ups', 'created_at', 'When it was first scheduled.'),
            ('follow_ups', 'finished_at', 'When it ended. Null: it has not.'),
            ('follow_ups', 'started_at', 'When its last recorded attempt began.'),
            ('task_reasons', 'code', 'Of a waiting task: not_due, retry, in_line, limited, paused, paused_scope '
                '(everything, its queue or its type), no_node, no_worker, no_type, no_queue, no_both, no_leader or '
                'expires. Of a recurring task: recurring, planning or firing. Of a claimed task: running, edited or '
                'lapsed. Else: cancelled, failed, expired or skipped.'),
            ('task_reasons', 'detail', 'The last error, why the fire was skipped, or the reason that was given for the '
                'pause.'),
            ('task_reasons', 'since', 'Since when. Without any node: the last sign of one. Null: unknown.'),
            ('task_reasons', 'until', 'Until when: the due time, the end of the pause or the end of the lease, or when '
                'a limit lets the next task start. Null: '
                'until something else happens.'),
            ('task_reasons', 'obstacle', 'What else will keep the task from running, as things are now: other pauses, '
                'or what the nodes lack. Null: nothing.'),
            ('task_reasons', 'missing', 'What the nodes lack, also while the task is paused or not due: no_node, '
                'no_worker, no_type, no_queue, no_both or no_leader. Null: nothing.'),
            ('task_reasons', 'data', 'Data for the sentence of Store.Why: pauses, quiet nodes, slots and the limit.'),
            ('stuck_tasks', 'code', 'no_node, no_worker, no_type, no_queue, no_both, no_leader or lapsed, as in '
                'task_reasons.'),
            ('stuck_tasks', 'since', 'Since when nobody runs it. If that is unknown: since when it is due.'),
            ('next_fires', 'cron', 'Its expression.'),
            ('next_fires', 'time_zone', 'Time zone of the expression.'),
            ('next_fires', 'next_fire', 'When it fires next. Null: the leader has yet to plan it.'),
            ('next_fires', 'last_fire', 'The time of its last fire.'),
            ('next_fires', 'occurrence_count', 'How many occurrences were forked to run.'),
            ('next_fires', 'max_occurrences', 'After how many occurrences it ends. Null: no limit.'),
            ('next_fires', 'ends_at', 'After this time it does not fire. Null: no limit.'),
            ('next_fires', 'declared_by', 'The service whose code declares it. Null: it was scheduled.'),
            ('next_fires', 'code', 'As in task_reasons: recurring, planning or firing, or what keeps a due fire from '
                'happening.'),
            ('next_fires', 'obstacle', 'What will keep the occurrence from running, as things are now. Null: nothing.'),
            ('throughput_by_hour', 'executions', 'How many claims ended.'),
            ('throughput_by_hour', 'completed', 'How many of them COMPLETED.'),
            ('throughput_by_hour', 'retried', 'How many failed and were to run again.'),
            ('throughput_by_hour', 'failed', 'How many failed for good.'),
            ('throughput_by_hour', 'expired', 'How many expired before they could start.'),
            ('throughput_by_hour', 'lost', 'How many were lost with their node or lease.'),
            ('throughput_by_hour', 'others', 'How many were snoozed, superseded, interrupted, released or cancelled.'),
            ('throughput_by_hour', 'busy', 'The sum of the run times of their handlers.'),
            ('delay_by_type_and_hour', 'starts', 'How many attempts that had begun ended.'),
            ('delay_by_type_and_hour', 'failures', 'How many of them failed, for good or to be retried.')
        ) AS c (relation, name, text)
    LOOP
        EXECUTE format('COMMENT ON COLUMN tasktable.%I.%I IS %L', one.relation, one.name, one.text);
    END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP VIEW tasktable.delay_by_type_and_hour, tasktable.throughput_by_hour, tasktable.next_fires, tasktable.stuck_tasks;
DROP FUNCTION tasktable.reason_of, tasktable.tasks_ahead, tasktable.late_at;
DROP VIEW tasktable.task_reasons;
DROP FUNCTION tasktable.waits_for, tasktable.limit_waits, tasktable.limit_places, tasktable.reached_limits,
    tasktable.limit_states, tasktable.reason_text, tasktable.message_pattern;
DROP VIEW tasktable.follow_ups, tasktable.dead_letters, tasktable.queue_loads,
    tasktable.running_tasks, tasktable.waiting_tasks, tasktable.late_tasks,
    tasktable.task_timeline, tasktable.worked_lanes, tasktable.node_states;
DROP FUNCTION tasktable.lock_class;
