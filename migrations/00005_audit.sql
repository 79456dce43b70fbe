-- Views for whoever is called at night: why did a task not run, what is stuck, when does what fire next, how much ran in each hour and
-- how late. They read the tables as they are; nothing in the engine reads them.
--
-- What is asked for by id is looked up by id, and a column that is not asked for is not computed: so task_reasons may be asked about one
-- task, or counted by code over all.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION tasktable.lock_class(kind text) RETURNS bigint LANGUAGE sql STABLE AS $$
    -- FNV-1a of 32 bits, as the nodes compute it. In two parts, or the name of another schema would be put in the place of the word, too.
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
COMMENT ON FUNCTION tasktable.lock_class(text) IS
    'The classid that advisory locks of this schema have in pg_locks: of kind node, whose objid is the node''s '
    'number, and of kind leader, whose objid is 0.';

CREATE VIEW tasktable.node_states AS
    SELECT n.number, n.service, n.version, n.host, n.queues, n.types, n.shares_slots, n.started_at, n.elected_at,
           n.last_seen_at, n.dead_at, CASE WHEN n.dead_at IS NOT NULL THEN 'ended' WHEN pg_is_in_recovery() THEN 'unknown' WHEN l.leads THEN 'leads'
               WHEN l.number IS NULL THEN 'silent' WHEN n.queues = '{}' AND n.types = '{}' THEN 'quiet' ELSE 'works' END AS state
    FROM tasktable.nodes AS n
    LEFT JOIN (
        -- By session: the one that has the leader's lock beside its node's leads.
        SELECT max(k.objid::bigint) FILTER (WHERE k.objid::bigint <> 0) AS number, bool_or(k.objid::bigint = 0) AS leads
        FROM pg_locks AS k
        WHERE k.locktype = 'advisory' AND k.objsubid = 2 AND k.granted
            AND k.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
            AND (k.classid::bigint = (SELECT tasktable.lock_class('node')) AND k.objid::bigint <> 0
                OR k.classid::bigint = (SELECT tasktable.lock_class('leader')) AND k.objid::bigint = 0)
        GROUP BY k.pid
    ) AS l ON l.number = n.number;
COMMENT ON VIEW tasktable.node_states IS 'The nodes, and which of them are there now, by the locks that they hold.';
COMMENT ON COLUMN tasktable.node_states.number IS 'The node''s number, new for each process and each new session.';
COMMENT ON COLUMN tasktable.node_states.service IS 'The service it belongs to.';
COMMENT ON COLUMN tasktable.node_states.version IS 'The service''s version.';
COMMENT ON COLUMN tasktable.node_states.host IS 'Host and process id.';
COMMENT ON COLUMN tasktable.node_states.queues IS 'The queues it works, with the slots for each.';
COMMENT ON COLUMN tasktable.node_states.types IS 'The types it has handlers for.';
COMMENT ON COLUMN tasktable.node_states.shares_slots IS 'Idle slots of one of its queues serve the others.';
COMMENT ON COLUMN tasktable.node_states.started_at IS 'When it began.';
COMMENT ON COLUMN tasktable.node_states.elected_at IS 'When it last began to lead; null: it never did.';
COMMENT ON COLUMN tasktable.node_states.last_seen_at IS
    'Its last sign of life, noted when a leader finds its session gone; null: none has.';
COMMENT ON COLUMN tasktable.node_states.dead_at IS 'When it ended, or of a killed one when a leader noticed.';
COMMENT ON COLUMN tasktable.node_states.state IS
    'leads; works; quiet (it works no queue and no type, as it was told); silent (its session is gone, and no leader '
    'has said so yet); ended; unknown (asked on a standby, which sees no locks).';

CREATE VIEW tasktable.worked_lanes AS
    SELECT l.queue, l.type, sum(l.nodes)::bigint AS nodes, sum(l.slots)::bigint AS slots
    FROM (
        SELECT q.key AS queue, y.type, a.nodes, a.nodes * CASE WHEN a.shares_slots THEN (
                SELECT sum(v.value::numeric) FROM jsonb_each(a.queues) AS v WHERE jsonb_typeof(v.value) = 'number')
            ELSE q.value::numeric END AS slots
        FROM (
            -- Nodes of one deployment are alike.
            SELECT CASE jsonb_typeof(n.queues) WHEN 'object' THEN n.queues ELSE '{}' END AS queues, n.types, n.shares_slots, count(*) AS nodes
            FROM tasktable.node_states AS n WHERE n.state IN ('leads', 'works', 'unknown')
            GROUP BY 1, 2, 3
        ) AS a
        CROSS JOIN LATERAL jsonb_each(a.queues) AS q
        CROSS JOIN LATERAL unnest(a.types) AS y (type)
        WHERE jsonb_typeof(q.value) = 'number'
    ) AS l
    WHERE l.slots > 0
    GROUP BY l.queue, l.type;
COMMENT ON VIEW tasktable.worked_lanes IS
    'The pairs of queue and type that nodes work which are there now. A task of another pair runs nowhere.';
COMMENT ON COLUMN tasktable.worked_lanes.queue IS 'A queue.';
COMMENT ON COLUMN tasktable.worked_lanes.type IS 'A type that nodes of this queue have a handler for.';
COMMENT ON COLUMN tasktable.worked_lanes.nodes IS 'How many nodes have both.';
COMMENT ON COLUMN tasktable.worked_lanes.slots IS 'How many tasks of this queue they run at once, whatever their type.';

CREATE VIEW tasktable.task_timeline AS
    SELECT c.task_id, c.changed_at AS at, 'change' AS kind, c.verb AS event, c.outcome, c.changed_by AS by,
           c.revision, NULL::bigint AS fence, NULL::integer AS attempt, NULL::interval AS delay, NULL::interval AS took,
           nullif(concat_ws(' -> ', c.old::text, c.new::text), '') AS detail
    FROM tasktable.scheduled_task_changes AS c
    UNION ALL
    SELECT e.task_id, e.finished_at, 'execution', 'attempt', e.outcome, coalesce('node ' || e.node, 'leader'),
           e.revision, e.fence, e.attempt, e.started_at - e.due_at, e.finished_at - e.started_at, e.error
    FROM tasktable.scheduled_task_executions AS e;
COMMENT ON VIEW tasktable.task_timeline IS
    'Everything that happened to a task, edits and attempts: filter by task_id, order by at.';
COMMENT ON COLUMN tasktable.task_timeline.task_id IS 'The task.';
COMMENT ON COLUMN tasktable.task_timeline.at IS 'When: of a change when it was made, of an execution when it ended.';
COMMENT ON COLUMN tasktable.task_timeline.kind IS 'change or execution.';
COMMENT ON COLUMN tasktable.task_timeline.event IS 'Of a change the verb; of an execution attempt.';
COMMENT ON COLUMN tasktable.task_timeline.outcome IS 'What came of it.';
COMMENT ON COLUMN tasktable.task_timeline.by IS 'Who made the change, or the node that ran the attempt.';
COMMENT ON COLUMN tasktable.task_timeline.revision IS 'The revision that the change made, or that was run.';
COMMENT ON COLUMN tasktable.task_timeline.fence IS 'The claim''s number.';
COMMENT ON COLUMN tasktable.task_timeline.attempt IS 'Which attempt of the revision it was.';
COMMENT ON COLUMN tasktable.task_timeline.delay IS 'How long after it was due the attempt began.';
COMMENT ON COLUMN tasktable.task_timeline.took IS 'How long it took.';
COMMENT ON COLUMN tasktable.task_timeline.detail IS
    'Of a change the fields as they were and as they became; of an execution its error.';

CREATE VIEW tasktable.late_tasks AS
    SELECT t.id, t.type, t.queue, t.priority, t.next_attempt_at AS due_at, clock_timestamp() - t.next_attempt_at AS late_by, t.attempt, t.message,
           EXISTS (SELECT 1 FROM tasktable.nodes AS n WHERE n.dead_at IS NULL AND t.type = ANY (n.types) AND n.queues ? t.queue) AS has_node,
           EXISTS (SELECT 1 FROM tasktable.pauses AS p WHERE (p.ends_at IS NULL OR p.ends_at > clock_timestamp())
               AND (p.scope = 'all' OR p.scope = 'queue' AND p.name = t.queue OR p.scope = 'type' AND p.name = t.type)) AS is_paused
    FROM tasktable.scheduled_tasks AS t
    WHERE t.next_attempt_at < clock_timestamp();
COMMENT ON VIEW tasktable.late_tasks IS
    'Tasks that are due and not claimed yet; has_node false: no live node works both its queue and its type; '
    'is_paused: everything, its queue or its type is paused.';
COMMENT ON COLUMN tasktable.late_tasks.id IS 'The task.';
COMMENT ON COLUMN tasktable.late_tasks.type IS 'Its type.';
COMMENT ON COLUMN tasktable.late_tasks.queue IS 'Its queue.';
COMMENT ON COLUMN tasktable.late_tasks.priority IS 'Its priority.';
COMMENT ON COLUMN tasktable.late_tasks.due_at IS 'When it was due.';
COMMENT ON COLUMN tasktable.late_tasks.late_by IS 'How long ago that was.';
COMMENT ON COLUMN tasktable.late_tasks.attempt IS 'How many attempts of its revision have begun.';
COMMENT ON COLUMN tasktable.late_tasks.message IS 'The last error.';
COMMENT ON COLUMN tasktable.late_tasks.has_node IS
    'Whether a node that has not been found dead works both its queue and its type.';
COMMENT ON COLUMN tasktable.late_tasks.is_paused IS 'Whether everything, its queue or its type is paused.';

CREATE VIEW tasktable.running_tasks AS
    SELECT t.id, t.type, t.queue, t.status, t.attempt, t.fence, t.last_status_update AS claimed_at, t.lease_expires_at,
           t.lease_expires_at < clock_timestamp() AS stuck,
           CASE WHEN t.started_fence = t.fence THEN t.started_at END AS started_at, CASE WHEN t.started_fence = t.fence THEN t.node END AS node
    FROM tasktable.scheduled_tasks AS t
    WHERE t.lease_expires_at IS NOT NULL;
COMMENT ON VIEW tasktable.running_tasks IS
    'Claimed tasks; stuck: the lease has ended and nobody has taken the task back yet.';
COMMENT ON COLUMN tasktable.running_tasks.id IS 'The task.';
COMMENT ON COLUMN tasktable.running_tasks.type IS 'Its type.';
COMMENT ON COLUMN tasktable.running_tasks.queue IS 'Its queue.';
COMMENT ON COLUMN tasktable.running_tasks.status IS 'EXECUTING; another if it was edited, paused or cancelled since.';
COMMENT ON COLUMN tasktable.running_tasks.attempt IS 'Which attempt of its revision it is.';
COMMENT ON COLUMN tasktable.running_tasks.fence IS 'The claim''s number.';
COMMENT ON COLUMN tasktable.running_tasks.claimed_at IS 'When it was claimed.';
COMMENT ON COLUMN tasktable.running_tasks.lease_expires_at IS 'When the lease ends.';
COMMENT ON COLUMN tasktable.running_tasks.stuck IS 'Whether the lease has ended and nobody has taken the task back.';
COMMENT ON COLUMN tasktable.running_tasks.started_at IS
    'When its handler was called; written within about a second after it has run for a second, null until then.';
COMMENT ON COLUMN tasktable.running_tasks.node IS 'Number of the node that runs it; null where started_at is.';

CREATE VIEW tasktable.dead_letters AS
    SELECT t.id, t.type, t.queue, t.entity, t.tenant_id, t.status, t.attempt, t.message, t.scheduled_at, t.finished_at,
           t.archived_at, t.archived_note
    FROM tasktable.scheduled_tasks AS t
    WHERE t.status IN ('FAILED', 'EXPIRED');
COMMENT ON VIEW tasktable.dead_letters IS
    'Tasks that will not run unless somebody retries or reschedules them, with the reason; archived_at: somebody has '
    'dealt with it.';

CREATE VIEW tasktable.follow_ups AS
    SELECT t.spawned_by::text AS task_id, t.id, t.type, t.queue, t.status, t.attempt, t.max_attempts, t.scheduled_at, t.created_at,
        t.started_at, t.finished_at, t.message
    FROM tasktable.scheduled_tasks AS t
    WHERE t.spawned_by IS NOT NULL;
COMMENT ON VIEW tasktable.follow_ups IS
    'The tasks that handlers asked for, by the task whose handler did. Filter by task_id.';
COMMENT ON COLUMN tasktable.follow_ups.task_id IS 'The task whose handler asked for the follow-up.';
COMMENT ON COLUMN tasktable.follow_ups.id IS 'The follow-up.';
COMMENT ON COLUMN tasktable.follow_ups.type IS 'Its type.';
COMMENT ON COLUMN tasktable.follow_ups.queue IS 'Its queue.';
COMMENT ON COLUMN tasktable.follow_ups.status IS 'Its status.';
COMMENT ON COLUMN tasktable.follow_ups.attempt IS 'How many attempts of its revision have begun.';
COMMENT ON COLUMN tasktable.follow_ups.max_attempts IS 'After how many failed attempts it is FAILED.';
COMMENT ON COLUMN tasktable.follow_ups.scheduled_at IS 'The time that was asked for.';
COMMENT ON COLUMN tasktable.follow_ups.created_at IS 'When it was first scheduled.';
COMMENT ON COLUMN tasktable.follow_ups.started_at IS 'When its last settled attempt began.';
COMMENT ON COLUMN tasktable.follow_ups.finished_at IS 'When it ended; null: it has not.';
COMMENT ON COLUMN tasktable.follow_ups.message IS 'Its last error, or the note of its handler.';

-- The words are a function's, not the view's own: what they need of other rows would make the planner take a look at many tasks for
-- so costly that it compiles it first, which takes seconds.
CREATE FUNCTION tasktable.reason_text(id text, code text, slots jsonb, pauses jsonb) RETURNS text LANGUAGE plpgsql STABLE COST 10 AS $$
DECLARE
    task   tasktable.scheduled_tasks;
    last   record;
    ahead  record;
    author text;
    what   text;
BEGIN
    SELECT * INTO task FROM tasktable.scheduled_tasks AS t WHERE t.id = reason_text.id;
    CASE reason_text.code
    WHEN 'not_due' THEN
        RETURN 'its time has not come';
    WHEN 'retry' THEN
        SELECT e.outcome, e.attempt INTO last FROM tasktable.scheduled_task_executions AS e WHERE e.task_id = task.id ORDER BY e.fence DESC LIMIT 1;
        RETURN CASE last.outcome WHEN 'SNOOZED' THEN 'its handler put it off'
            WHEN 'RETRIED' THEN format('attempt %s of %s failed, and the next waits for its time', last.attempt, task.max_attempts)
            ELSE format('attempt %s of %s waits for its time', task.attempt + 1, task.max_attempts) END;
    WHEN 'in_line' THEN
        -- Lane by lane, as the leader looks, so that what is not due is not read.
        WITH RECURSIVE lane AS (
            (SELECT n.type::text AS type, n.priority::int AS priority FROM tasktable.scheduled_tasks AS n
             WHERE n.next_attempt_at IS NOT NULL AND n.cron IS NULL AND n.queue = task.queue
             ORDER BY n.type, n.priority LIMIT 1)
            UNION ALL
            SELECT following.type, following.priority
            FROM lane CROSS JOIN LATERAL (
                SELECT n.type::text AS type, n.priority::int AS priority FROM tasktable.scheduled_tasks AS n
                WHERE n.next_attempt_at IS NOT NULL AND n.cron IS NULL AND n.queue = task.queue AND (n.type, n.priority) > (lane.type, lane.priority)
                ORDER BY n.type, n.priority LIMIT 1
            ) AS following
        )
        SELECT count(*) FILTER (WHERE one.higher) AS higher, count(*) FILTER (WHERE NOT one.higher) AS equal INTO ahead
        FROM (
            SELECT l.priority > task.priority AS higher
            FROM (SELECT lane.type, lane.priority FROM lane
                WHERE lane.priority >= task.priority AND slots ? (task.queue || ' ' || lane.type) AND NOT pauses ? ('type ' || lane.type)
                ORDER BY lane.priority DESC) AS l
            CROSS JOIN LATERAL (
                SELECT FROM tasktable.scheduled_tasks AS n
                WHERE n.queue = task.queue AND n.type = l.type AND n.priority = l.priority AND n.cron IS NULL
                    AND n.next_attempt_at < CASE WHEN l.priority > task.priority THEN statement_timestamp() ELSE task.next_attempt_at END
                LIMIT 10000
            ) AS n
            LIMIT 10000
        ) AS one;
        what := CASE WHEN ahead.higher + ahead.equal = 0 THEN 'it is due, and next to be claimed' ELSE
            'waits behind ' || CASE WHEN ahead.higher + ahead.equal >= 10000 THEN 'at least ' ELSE '' END || concat_ws(' and ',
                CASE ahead.higher WHEN 0 THEN NULL WHEN 1 THEN '1 task of higher priority' ELSE ahead.higher || ' tasks of higher priority' END,
                CASE ahead.equal WHEN 0 THEN NULL WHEN 1 THEN '1 task' ELSE ahead.equal || ' tasks' END || ' of its priority due before it') END;
        RETURN what || format(', while %s of its queue are claimed for %s slot%s',
            (SELECT count(*) FROM tasktable.scheduled_tasks AS h WHERE h.lease_expires_at IS NOT NULL AND h.queue = task.queue),
            slots ->> (task.queue || ' ' || task.type), CASE WHEN slots ->> (task.queue || ' ' || task.type) <> '1' THEN 's' END);
    WHEN 'expires' THEN
        RETURN 'its time is over: it does not run any more, and becomes EXPIRED when the leader comes to it';
    WHEN 'running' THEN
        RETURN format('attempt %s of %s runs, or is about to', task.attempt, task.max_attempts);
    WHEN 'edited' THEN
        RETURN 'it was edited while an attempt ran, and runs anew when that has ended';
    WHEN 'lapsed' THEN
        RETURN 'the lease of its claim has ended, and nobody has taken it back yet';
    WHEN 'paused', 'cancelled' THEN
        SELECT ' by ' || c.changed_by INTO author FROM tasktable.scheduled_task_changes AS c
        WHERE c.task_id = task.id AND c.outcome = reason_text.code ORDER BY c.revision DESC LIMIT 1;
        RETURN CASE reason_text.code WHEN 'paused' THEN 'it is ' ELSE '' END || reason_text.code || coalesce(author, '')
            || CASE WHEN task.fence IS NOT NULL THEN ', and an attempt that had begun has not ended yet' ELSE '' END;
    WHEN 'failed', 'expired' THEN
        RETURN CASE WHEN reason_text.code = 'expired' THEN
                CASE task.attempt WHEN 0 THEN 'expired before it could start' ELSE format('expired before attempt %s of %s could start', task.attempt + 1, task.max_attempts) END
            WHEN task.cron IS NOT NULL THEN 'its next fire cannot be planned'
            WHEN task.attempt = 0 THEN 'failed for good before its first attempt'
            WHEN task.attempt < task.max_attempts THEN format('failed for good at attempt %s of %s', task.attempt, task.max_attempts)
            ELSE format('failed for good after %s of %s attempts', task.attempt, task.max_attempts) END;
    WHEN 'skipped' THEN
        RETURN coalesce('this fire of task ' || task.parent_id || ' was left out', 'left out');
    WHEN 'recurring' THEN
        RETURN 'a recurring task never runs itself: each fire makes an occurrence, which does';
    WHEN 'planning' THEN
        RETURN 'a recurring task never runs itself, and the leader is about to plan its next fire';
    WHEN 'firing' THEN
        RETURN 'a recurring task never runs itself, and the leader is about to make the occurrence that does';
    ELSE
        RETURN NULL;
    END CASE;
END $$;
COMMENT ON FUNCTION tasktable.reason_text(text, text, jsonb, jsonb) IS
    'A code of task_reasons in words, without times; for that view.';

CREATE VIEW tasktable.task_reasons AS
    SELECT t.id, t.type, t.queue, t.status, s.code,
        CASE WHEN s.code = 'paused_scope' THEN z.text WHEN s.code = o.missing THEN x.text ELSE tasktable.reason_text(t.id, s.code, w.slots, w.pauses) END AS reason,
        CASE WHEN s.code IN ('failed', 'skipped', 'retry') THEN t.message
            WHEN s.code = 'expired' THEN substring(t.message FROM '; last error: (.*)$')
            WHEN s.code = 'paused_scope' THEN z.pause ->> 'reason' END AS detail,
        CASE WHEN s.code = 'paused_scope' THEN (z.pause ->> 'paused_at')::timestamptz
            WHEN s.code = 'no_node' THEN (SELECT greatest(max(coalesce(n.last_seen_at, n.dead_at, n.elected_at, n.started_at)), (
                SELECT e.finished_at FROM tasktable.scheduled_task_executions AS e ORDER BY e.fence DESC LIMIT 1)) FROM tasktable.nodes AS n)
            -- Unknown while a node that had both has gone without a word.
            WHEN s.code IN ('no_type', 'no_queue', 'no_both') THEN (SELECT CASE WHEN count(*) = count(n.dead_at) THEN max(coalesce(n.last_seen_at, n.dead_at)) END
                FROM tasktable.nodes AS n WHERE t.type = ANY (n.types) AND n.queues ? t.queue)
            WHEN s.code = 'no_leader' THEN (SELECT coalesce(n.last_seen_at, n.dead_at) FROM tasktable.nodes AS n WHERE n.elected_at IS NOT NULL ORDER BY n.elected_at DESC LIMIT 1)
            WHEN s.code IN ('in_line', 'firing', 'planning') THEN t.next_attempt_at
            WHEN s.code = 'expires' THEN f.due + t.expiration
            WHEN s.code = 'expired' THEN least(f.due + t.expiration, t.finished_at)
            WHEN s.code = 'lapsed' THEN t.lease_expires_at
            WHEN s.code IN ('running', 'paused') THEN t.last_status_update
            ELSE t.finished_at END AS since,
        CASE WHEN s.code = 'paused_scope' THEN (z.pause ->> 'ends_at')::timestamptz
            WHEN s.code = 'paused' THEN t.paused_until
            WHEN s.code IN ('running', 'edited') THEN t.lease_expires_at
            WHEN s.code IN ('not_due', 'retry', 'recurring') THEN t.next_attempt_at END::timestamptz AS until,
        CASE WHEN t.finished_at IS NOT NULL THEN NULL
            WHEN s.code = 'running' THEN CASE WHEN o.missing IN ('no_node', 'no_leader') THEN x.text END
            ELSE nullif(concat_ws(', and ', CASE WHEN o.paused THEN y.text END, CASE WHEN s.code <> o.missing THEN x.text END), '') END AS obstacle,
        t.next_attempt_at AS due_at, t.lease_expires_at, CASE WHEN t.finished_at IS NULL THEN o.missing END AS missing
    FROM tasktable.scheduled_tasks AS t
    CROSS JOIN (
        -- Of nodes and pauses, once for all tasks.
        SELECT coalesce(bool_or(n.state <> 'silent'), false) AS lives, coalesce(bool_or(n.state IN ('leads', 'unknown')), false) AS led,
            count(*) FILTER (WHERE n.state = 'quiet') AS quiet,
            (SELECT coalesce(jsonb_object_agg(concat_ws(' ', coalesce(l.queue, '*'), coalesce(l.type, '*')), l.slots), '{}')
                FROM (SELECT l.queue, l.type, max(l.slots) AS slots FROM tasktable.worked_lanes AS l
                    GROUP BY GROUPING SETS ((l.queue, l.type), (l.queue), (l.type))) AS l) AS slots,
            (SELECT coalesce(jsonb_object_agg(btrim(p.scope || ' ' || p.name), to_jsonb(p)), '{}')
                FROM tasktable.pauses AS p WHERE p.ends_at IS NULL OR p.ends_at > statement_timestamp()) AS pauses
        FROM tasktable.node_states AS n
        WHERE n.dead_at IS NULL
    ) AS w
    CROSS JOIN LATERAL (
        -- What is in the way of every task of this queue and type.
        SELECT b.paused, b.missing, CASE WHEN b.paused THEN 'paused_scope' ELSE b.missing END AS code
        FROM (SELECT w.pauses ?| ARRAY['all', 'queue ' || t.queue, 'type ' || t.type] AS paused,
            CASE WHEN NOT w.lives THEN 'no_node'
                WHEN NOT w.slots ? (t.queue || ' ' || t.type) THEN
                    CASE WHEN NOT w.slots ? ('* ' || t.type) THEN 'no_type' WHEN NOT w.slots ? (t.queue || ' *') THEN 'no_queue' ELSE 'no_both' END
                WHEN NOT w.led THEN 'no_leader' END AS missing) AS b
    ) AS o
    CROSS JOIN LATERAL (SELECT tasktable.due_of(t.id, t.scheduled_at, t.run_now_at, t.jitter) AS due) AS f
    CROSS JOIN LATERAL (
        SELECT CASE WHEN t.finished_at IS NOT NULL THEN lower(t.status)
            WHEN t.lease_expires_at < statement_timestamp() THEN 'lapsed'
            WHEN t.status = 'EXECUTING' THEN 'running'
            WHEN t.status = 'PAUSED' THEN 'paused'
            WHEN t.fence IS NOT NULL THEN 'edited'
            WHEN t.cron IS NOT NULL THEN CASE WHEN t.planned_revision IS DISTINCT FROM t.revision THEN coalesce(o.code, 'planning')
                WHEN t.next_attempt_at > statement_timestamp() THEN 'recurring' ELSE coalesce(o.code, 'firing') END
            WHEN t.next_attempt_at > statement_timestamp() THEN CASE WHEN t.next_attempt_at > f.due THEN 'retry' ELSE 'not_due' END
            WHEN f.due + t.expiration <= statement_timestamp() THEN 'expires'
            ELSE coalesce(o.code, 'in_line') END AS code
    ) AS s
    CROSS JOIN LATERAL (
        -- Of several pauses the one that holds longest.
        SELECT l.pause, CASE l.pause ->> 'scope' WHEN 'all' THEN 'everything' ELSE (l.pause ->> 'scope') || ' ' || (l.pause ->> 'name') END
            || ' is paused by ' || (l.pause ->> 'paused_by') AS text
        FROM (SELECT (SELECT p.pause FROM unnest(ARRAY[w.pauses -> 'all', w.pauses -> ('queue ' || t.queue), w.pauses -> ('type ' || t.type)]) AS p (pause)
            WHERE p.pause IS NOT NULL ORDER BY (p.pause ->> 'ends_at')::timestamptz DESC, p.pause ->> 'scope' LIMIT 1) AS pause) AS l
    ) AS z
    CROSS JOIN LATERAL (
        -- The others, or, of a task that waits for something else, all that will still hold when it is due.
        SELECT (SELECT string_agg(CASE p.pause ->> 'scope' WHEN 'all' THEN 'everything' ELSE (p.pause ->> 'scope') || ' ' || (p.pause ->> 'name') END
                || ' is paused by ' || (p.pause ->> 'paused_by'), ', and ' ORDER BY p.pause ->> 'scope')
            FROM unnest(ARRAY[w.pauses -> 'all', w.pauses -> ('queue ' || t.queue), w.pauses -> ('type ' || t.type)]) AS p (pause)
            WHERE CASE WHEN s.code = 'paused_scope' THEN p.pause <> z.pause
                ELSE ((p.pause ->> 'ends_at')::timestamptz <= greatest(t.next_attempt_at, t.paused_until, f.due)) IS NOT TRUE END
                AND p.pause IS NOT NULL) AS text
    ) AS y
    CROSS JOIN LATERAL (
        SELECT CASE o.missing
            WHEN 'no_node' THEN 'no node is running'
            WHEN 'no_type' THEN 'no running node has a handler for type ' || t.type
            WHEN 'no_queue' THEN 'no running node works queue ' || t.queue
            WHEN 'no_both' THEN 'no running node has both queue ' || t.queue || ' and a handler for type ' || t.type
            WHEN 'no_leader' THEN 'no running node leads, so nothing is claimed' END
            -- A quiet one may be what is lacking.
            || CASE w.quiet WHEN 0 THEN '' WHEN 1 THEN ' (1 node is quiet)' ELSE ' (' || w.quiet || ' nodes are quiet)' END AS text
    ) AS x
    WHERE t.status <> 'COMPLETED';
COMMENT ON VIEW tasktable.task_reasons IS
    'For each task that is not COMPLETED: why it does not run, and what has to happen until it does. Ask by id, or '
    'count by code; the reason''s text costs something, the code does not.';
COMMENT ON COLUMN tasktable.task_reasons.id IS 'The task.';
COMMENT ON COLUMN tasktable.task_reasons.type IS 'Its type.';
COMMENT ON COLUMN tasktable.task_reasons.queue IS 'Its queue.';
COMMENT ON COLUMN tasktable.task_reasons.status IS 'Its status.';
COMMENT ON COLUMN tasktable.task_reasons.code IS
    'Of a waiting task not_due, retry, in_line, paused, paused_scope (everything, its queue or its type), no_node, '
    'no_type, no_queue, no_both, no_leader, expires; of a recurring one recurring, planning, firing; of a claimed one '
    'running, edited, lapsed; else cancelled, failed, expired, skipped.';
COMMENT ON COLUMN tasktable.task_reasons.reason IS
    'The same in words, without times. Tasks before it in line are counted up to 10,000.';
COMMENT ON COLUMN tasktable.task_reasons.detail IS
    'The last error, why the fire was left out, or the reason that was given for the pause.';
COMMENT ON COLUMN tasktable.task_reasons.since IS
    'Since when; of an ended task when it ended, or its time was over. Without any node: the last that is known of '
    'one. Null: unknown.';
COMMENT ON COLUMN tasktable.task_reasons.until IS
    'Until when: the time that it waits for, the end of the pause, of a claimed task that of its lease. Null: until '
    'something else happens.';
COMMENT ON COLUMN tasktable.task_reasons.obstacle IS
    'Of a task that waits: what else will keep it from running, as it looks now: other pauses, and what nodes lack. '
    'Null: nothing.';
COMMENT ON COLUMN tasktable.task_reasons.due_at IS 'When it is due next; null: it does not wait to be claimed.';
COMMENT ON COLUMN tasktable.task_reasons.lease_expires_at IS
    'The end of the lease of its claim; null: it is not claimed.';
COMMENT ON COLUMN tasktable.task_reasons.missing IS
    'What nodes lack for it, also while it is paused or not due: no_node, no_type, no_queue, no_both or no_leader. '
    'Null: nothing.';

-- An application may not read the view, because it has the tasks of all services. This function runs as the owner, and answers
-- for a task that the caller may read anyway. The search_path is pinned, so that the caller cannot put functions of its own in
-- the way.
CREATE FUNCTION tasktable.reason_of(id text) RETURNS TABLE (
    code text, reason text, detail text, since timestamptz, until timestamptz, obstacle text, missing text
) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- Not current_user, which is the owner here: the role that has logged in, or was SET ROLE.
    caller   name := coalesce(nullif(current_setting('role'), 'none'), session_user);
    services text[];
BEGIN
    IF NOT has_table_privilege(caller, 'tasktable.task_reasons'::regclass, 'SELECT') THEN
        services := tasktable.services_of(caller);
        IF cardinality(services) = 0 THEN
            RAISE EXCEPTION 'permission denied: role "%" has no tasks', caller USING ERRCODE = 'insufficient_privilege';
        END IF;
        PERFORM FROM tasktable.scheduled_tasks AS t
        WHERE t.id = reason_of.id AND (t.scheduled_by = ANY (services) OR '' = ANY (services));
        IF NOT FOUND THEN
            RETURN;
        END IF;
    END IF;
    RETURN QUERY SELECT r.code::text, r.reason::text, r.detail::text, r.since, r.until, r.obstacle::text, r.missing::text
    FROM tasktable.task_reasons AS r WHERE r.id = reason_of.id;
END $$;
COMMENT ON FUNCTION tasktable.reason_of(text) IS
    'What task_reasons says of one task that the caller may read. No row: it has COMPLETED, or there is none that the '
    'caller may read.';

CREATE VIEW tasktable.stuck_tasks AS
    SELECT r.id, r.type, r.queue, r.status, r.code, r.reason, coalesce(r.since, r.due_at) AS since, r.due_at, r.lease_expires_at
    FROM tasktable.task_reasons AS r
    WHERE (r.due_at < statement_timestamp() OR r.lease_expires_at < statement_timestamp())
        AND r.code IN ('no_node', 'no_type', 'no_queue', 'no_both', 'no_leader', 'lapsed');
COMMENT ON VIEW tasktable.stuck_tasks IS
    'Tasks that are due, or whose lease has ended, and that nobody will run as things are, although nobody has paused '
    'them.';
COMMENT ON COLUMN tasktable.stuck_tasks.id IS 'The task.';
COMMENT ON COLUMN tasktable.stuck_tasks.type IS 'Its type.';
COMMENT ON COLUMN tasktable.stuck_tasks.queue IS 'Its queue.';
COMMENT ON COLUMN tasktable.stuck_tasks.status IS 'Its status.';
COMMENT ON COLUMN tasktable.stuck_tasks.code IS
    'What is missing: no_node, no_type, no_queue, no_both, no_leader; lapsed: somebody to take the claim back.';
COMMENT ON COLUMN tasktable.stuck_tasks.reason IS 'The same in words.';
COMMENT ON COLUMN tasktable.stuck_tasks.since IS
    'Since when that is so; where it is not known, since when the task is due.';
COMMENT ON COLUMN tasktable.stuck_tasks.due_at IS 'When it was due; null: it is claimed.';
COMMENT ON COLUMN tasktable.stuck_tasks.lease_expires_at IS
    'When the lease of its claim ended; null: it is not claimed.';

CREATE VIEW tasktable.next_fires AS
    SELECT t.id, t.type, t.queue, t.cron, t.time_zone, CASE WHEN t.planned_revision = t.revision THEN t.next_attempt_at END::timestamptz AS next_fire,
        t.started_at AS last_fire, t.occurrence_count, t.max_occurrences, t.ends_at, t.declared_by, r.code, r.obstacle
    FROM tasktable.scheduled_tasks AS t
    JOIN tasktable.task_reasons AS r ON r.id = t.id
    WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NOT NULL;
COMMENT ON VIEW tasktable.next_fires IS
    'Recurring tasks that go on, by their next fire, and what would keep its occurrence from being made. Those that '
    'are paused as single tasks have none.';
COMMENT ON COLUMN tasktable.next_fires.id IS 'The recurring task.';
COMMENT ON COLUMN tasktable.next_fires.type IS 'Its type.';
COMMENT ON COLUMN tasktable.next_fires.queue IS 'Its queue.';
COMMENT ON COLUMN tasktable.next_fires.cron IS 'Its expression.';
COMMENT ON COLUMN tasktable.next_fires.time_zone IS 'The zone whose clocks the expression means.';
COMMENT ON COLUMN tasktable.next_fires.next_fire IS 'When it fires next; null: the leader is yet to plan it.';
COMMENT ON COLUMN tasktable.next_fires.last_fire IS 'The time of its last fire.';
COMMENT ON COLUMN tasktable.next_fires.occurrence_count IS 'How many occurrences it had.';
COMMENT ON COLUMN tasktable.next_fires.max_occurrences IS 'After how many it ends; null: it goes on.';
COMMENT ON COLUMN tasktable.next_fires.ends_at IS 'After what time it fires no more; null: it goes on.';
COMMENT ON COLUMN tasktable.next_fires.declared_by IS
    'The service in whose code it is declared; null: it was scheduled.';
COMMENT ON COLUMN tasktable.next_fires.code IS
    'As in task_reasons: recurring, planning or firing, or what keeps a fire that is due from happening.';
COMMENT ON COLUMN tasktable.next_fires.obstacle IS 'What will be in the way, as it looks now; null: nothing.';

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
COMMENT ON VIEW tasktable.throughput_by_hour IS
    'What ended in each hour, by type. Filter by hour, or it reads the whole history.';
COMMENT ON COLUMN tasktable.throughput_by_hour.hour IS
    'The beginning of the hour in which the claims ended; hours of UTC.';
COMMENT ON COLUMN tasktable.throughput_by_hour.type IS 'The type.';
COMMENT ON COLUMN tasktable.throughput_by_hour.executions IS 'How many claims ended, whatever came of them.';
COMMENT ON COLUMN tasktable.throughput_by_hour.completed IS 'How many of them COMPLETED.';
COMMENT ON COLUMN tasktable.throughput_by_hour.retried IS 'How many failed, and were to run again.';
COMMENT ON COLUMN tasktable.throughput_by_hour.failed IS 'How many failed for good.';
COMMENT ON COLUMN tasktable.throughput_by_hour.expired IS 'How many could not start before they expired.';
COMMENT ON COLUMN tasktable.throughput_by_hour.lost IS 'How many were lost with their node or lease.';
COMMENT ON COLUMN tasktable.throughput_by_hour.others IS
    'How many were snoozed, superseded, interrupted, released or cancelled.';
COMMENT ON COLUMN tasktable.throughput_by_hour.busy IS 'How long their handlers ran, all together.';

CREATE VIEW tasktable.delay_by_type_and_hour AS
    SELECT d.hour, d.type, d.starts, d.failures, d.delay[1] AS delay_p50, d.delay[2] AS delay_p95, d.delay[3] AS delay_p99, d.delay[4] AS delay_max,
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
COMMENT ON VIEW tasktable.delay_by_type_and_hour IS
    'How late attempts began and how long they took, by type and hour. Filter by hour, or it reads the whole history.';
COMMENT ON COLUMN tasktable.delay_by_type_and_hour.hour IS
    'The beginning of the hour in which the attempts ended; hours of UTC.';
COMMENT ON COLUMN tasktable.delay_by_type_and_hour.type IS 'The type.';
COMMENT ON COLUMN tasktable.delay_by_type_and_hour.starts IS 'How many attempts that had begun ended.';
COMMENT ON COLUMN tasktable.delay_by_type_and_hour.failures IS 'How many of them failed, for good or to be retried.';
COMMENT ON COLUMN tasktable.delay_by_type_and_hour.delay_p50 IS
    'Half of them began at most so long after they were due.';
COMMENT ON COLUMN tasktable.delay_by_type_and_hour.delay_p95 IS '95 of 100 did.';
COMMENT ON COLUMN tasktable.delay_by_type_and_hour.delay_p99 IS '99 of 100 did.';
COMMENT ON COLUMN tasktable.delay_by_type_and_hour.delay_max IS 'All did.';
COMMENT ON COLUMN tasktable.delay_by_type_and_hour.took_p50 IS 'Half of them took at most so long.';
COMMENT ON COLUMN tasktable.delay_by_type_and_hour.took_p95 IS '95 of 100 did.';
COMMENT ON COLUMN tasktable.delay_by_type_and_hour.took_p99 IS '99 of 100 did.';
COMMENT ON COLUMN tasktable.delay_by_type_and_hour.took_max IS 'All did.';
-- +goose StatementEnd

-- +goose Down
DROP VIEW tasktable.delay_by_type_and_hour, tasktable.throughput_by_hour, tasktable.next_fires, tasktable.stuck_tasks;
DROP FUNCTION tasktable.reason_of;
DROP VIEW tasktable.task_reasons;
DROP FUNCTION tasktable.reason_text;
DROP VIEW tasktable.follow_ups, tasktable.dead_letters, tasktable.running_tasks, tasktable.late_tasks,
    tasktable.task_timeline, tasktable.worked_lanes, tasktable.node_states;
DROP FUNCTION tasktable.lock_class;
