-- The verbs: functions of the same meaning as the methods of the Go package store, which calls them.

-- +goose Up
-- +goose StatementBegin
CREATE TYPE tasktable.verb_outcome AS (id text, revision bigint, outcome text);
COMMENT ON TYPE tasktable.verb_outcome IS
    'What a verb did: the task''s id, its revision now (null when absent or deleted), and the outcome.';

CREATE FUNCTION tasktable.enter_change(verb text, by text, wake boolean) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    former text := coalesce(current_setting('tasktable_change.context', true), '');
    mark   text; -- not PERFORM, which would run a query where an assignment takes the value
BEGIN
    mark := set_config('tasktable_change.context', concat(verb, chr(31), by, chr(31), CASE WHEN wake THEN '' ELSE 'quiet' END), true);
    RETURN former;
END $$;
COMMENT ON FUNCTION tasktable.enter_change(text, text, boolean) IS
    'Marks the change lines that follow as a verb''s and returns the former mark, for leave_change. A SET clause of '
    'the verb''s function would put it back by itself, but only a superuser can make one for a custom setting.';

CREATE FUNCTION tasktable.leave_change(former text) RETURNS text LANGUAGE sql
    AS $$ SELECT set_config('tasktable_change.context', former, true) $$;
COMMENT ON FUNCTION tasktable.leave_change(text) IS 'Puts back the mark that enter_change returned.';

CREATE FUNCTION tasktable.same_time(given timestamptz, stored timestamptz) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN given IS NULL OR stored IS NULL THEN given IS NULL AND stored IS NULL
        ELSE given BETWEEN stored - interval '1 microsecond' AND stored + interval '1 microsecond' END
$$;
COMMENT ON FUNCTION tasktable.same_time(timestamptz, timestamptz) IS
    'Whether two times are one microsecond apart at most. Postgres stores microseconds. Some drivers cut the '
    'nanoseconds of a time off, and Postgres rounds the text that others send: one time of an application then '
    'becomes two.';

CREATE FUNCTION tasktable.new_task_id() RETURNS text LANGUAGE sql VOLATILE AS $$
    -- RFC 9562, version 7: 48 bits of milliseconds, so that ids of one time lie together in the index.
    SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
        PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid::text
$$;
COMMENT ON FUNCTION tasktable.new_task_id() IS 'A UUID version 7, for a task scheduled without an id.';

CREATE FUNCTION tasktable.schedule_outcome(status text, content_differs boolean, time_differs boolean, keep_finished boolean)
RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN status IN ('QUEUED', 'PAUSED', 'EXECUTING')
            THEN CASE WHEN content_differs OR time_differs THEN 'rescheduled' ELSE 'unchanged' END
        WHEN status = 'CANCELLED' THEN 'rearmed'
        WHEN time_differs AND NOT keep_finished THEN 'rearmed'
        ELSE 'finished' END
$$;
COMMENT ON FUNCTION tasktable.schedule_outcome(text, boolean, boolean, boolean) IS
    'What scheduling an existing task comes to, by its status and by what differs.';

CREATE FUNCTION tasktable.schedule(
    payload jsonb,
    scheduled_at timestamptz DEFAULT NULL,
    id text DEFAULT NULL,
    priority int DEFAULT 0,
    queue text DEFAULT 'default',
    expiration interval DEFAULT NULL,
    expected_execution_time interval DEFAULT '5 minutes',
    max_attempts int DEFAULT 5,
    tenant_id text DEFAULT NULL,
    entity text DEFAULT NULL,
    if_finished text DEFAULT NULL,
    scheduled_by text DEFAULT NULL,
    wake boolean DEFAULT true,
    verb text DEFAULT 'schedule',
    jitter interval DEFAULT NULL,
    retention interval DEFAULT NULL,
    cron text DEFAULT NULL,
    time_zone text DEFAULT NULL,
    overlap text DEFAULT NULL,
    catch_up text DEFAULT NULL,
    catch_up_paused text DEFAULT NULL,
    catch_up_limit int DEFAULT NULL,
    ends_at timestamptz DEFAULT NULL,
    max_occurrences int DEFAULT NULL,
    trace text DEFAULT NULL
) RETURNS tasktable.verb_outcome LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    task_id    text := coalesce(schedule.id, tasktable.new_task_id());
    task       tasktable.scheduled_tasks;
    task_time  timestamptz;
    former     text;
    differs    boolean;
    recurs     boolean; -- the recurrence differs
    misses     int := 0; -- how often the row could be neither read nor inserted
    max_misses CONSTANT int := 20;
    -- A snapshot older than this call may show as unchanged what was edited since; only the lock notices, and then fails.
    locked     boolean := current_setting('transaction_isolation') <> 'read committed';
    result     tasktable.verb_outcome;
BEGIN
    -- A null means the default, because a caller that has no value passes null. The table's own error would quote the row.
    schedule.priority := coalesce(schedule.priority, 0);
    schedule.queue := coalesce(schedule.queue, 'default');
    schedule.expected_execution_time := coalesce(schedule.expected_execution_time, '5 minutes');
    schedule.max_attempts := coalesce(schedule.max_attempts, 5);
    schedule.wake := coalesce(schedule.wake, true);
    schedule.verb := coalesce(schedule.verb, 'schedule');
    IF schedule.if_finished NOT IN ('rearm', 'keep') THEN
        RAISE EXCEPTION 'if_finished must be ''rearm'', ''keep'' or null, not %', quote_literal(schedule.if_finished)
            USING ERRCODE = 'check_violation', COLUMN = 'if_finished';
    END IF;
    result.id := task_id;
    LOOP
        -- First without a lock: what is unchanged is not written to at all, not even by a row lock.
        IF locked THEN
            SELECT * INTO task FROM tasktable.scheduled_tasks AS t WHERE t.id = task_id FOR UPDATE;
        ELSE
            SELECT * INTO task FROM tasktable.scheduled_tasks AS t WHERE t.id = task_id;
        END IF;
        IF NOT FOUND THEN
            former := tasktable.enter_change(schedule.verb, schedule.scheduled_by, schedule.wake);
            INSERT INTO tasktable.scheduled_tasks AS t (id, payload, scheduled_at, priority, queue, expiration,
                expected_execution_time, max_attempts, tenant_id, entity, scheduled_by, trace,
                jitter, retention, cron, time_zone, overlap, catch_up, catch_up_paused, catch_up_limit, ends_at, max_occurrences)
            VALUES (task_id, schedule.payload, coalesce(schedule.scheduled_at, tasktable.asked_now()), schedule.priority, schedule.queue,
                schedule.expiration, schedule.expected_execution_time, schedule.max_attempts, schedule.tenant_id,
                schedule.entity, schedule.scheduled_by, schedule.trace,
                schedule.jitter, schedule.retention, schedule.cron, schedule.time_zone, schedule.overlap, schedule.catch_up,
                schedule.catch_up_paused, schedule.catch_up_limit, schedule.ends_at, schedule.max_occurrences)
            ON CONFLICT (id) DO NOTHING
            RETURNING t.revision INTO result.revision;
            former := tasktable.leave_change(former);
            IF result.revision IS NOT NULL THEN
                result.outcome := 'created';
                RETURN result;
            END IF;
            -- Another transaction was first: look again, or its upsert would swallow this one. Other transactions may also delete and
            -- create the row between the two statements, but not so often.
            misses := misses + 1;
            IF misses >= max_misses THEN
                RAISE EXCEPTION 'task "%" can neither be read nor inserted: row level security hides the row that has this id,'
                    ' or a trigger leaves the insert out', task_id
                    USING ERRCODE = 'object_not_in_prerequisite_state', COLUMN = 'id',
                        HINT = 'Look at the policies and the BEFORE INSERT triggers that were added to scheduled_tasks.';
            END IF;
            CONTINUE;
        END IF;
        misses := 0;
        -- A time that is the same but for its rounding does not move the task. Without a time the task keeps the one that it has, unless
        -- the caller asks for a finished task to run again.
        task_time := CASE WHEN schedule.scheduled_at IS NULL AND schedule.if_finished = 'rearm' AND task.finished_at IS NOT NULL
                THEN tasktable.asked_now()
            WHEN schedule.scheduled_at IS NULL OR tasktable.same_time(schedule.scheduled_at, task.scheduled_at) THEN task.scheduled_at
            ELSE schedule.scheduled_at END;
        -- IS DISTINCT FROM, field by field: a payload that is null must reach the UPDATE and fail there.
        differs := task.payload IS DISTINCT FROM schedule.payload
            OR task.priority IS DISTINCT FROM schedule.priority
            OR task.queue IS DISTINCT FROM schedule.queue
            OR task.expiration IS DISTINCT FROM schedule.expiration
            OR task.expected_execution_time IS DISTINCT FROM schedule.expected_execution_time
            OR task.max_attempts IS DISTINCT FROM schedule.max_attempts
            OR task.tenant_id IS DISTINCT FROM schedule.tenant_id
            OR task.entity IS DISTINCT FROM schedule.entity
            OR task.jitter IS DISTINCT FROM schedule.jitter
            OR task.retention IS DISTINCT FROM schedule.retention;
        recurs := task.cron IS DISTINCT FROM schedule.cron
            OR (schedule.cron IS NOT NULL AND (
                task.time_zone IS DISTINCT FROM coalesce(schedule.time_zone, 'UTC')
                OR task.overlap IS DISTINCT FROM coalesce(schedule.overlap, 'skip')
                OR task.catch_up IS DISTINCT FROM coalesce(schedule.catch_up, 'latest')
                OR task.catch_up_paused IS DISTINCT FROM coalesce(schedule.catch_up_paused, 'none')
                OR task.catch_up_limit IS DISTINCT FROM coalesce(schedule.catch_up_limit, 100)
                OR NOT tasktable.same_time(schedule.ends_at, task.ends_at)
                OR task.max_occurrences IS DISTINCT FROM schedule.max_occurrences));
        result.revision := task.revision;
        result.outcome := tasktable.schedule_outcome(task.status, differs, recurs OR task.scheduled_at <> task_time,
            coalesce(schedule.if_finished = 'keep', false));
        IF result.outcome IN ('unchanged', 'finished') THEN
            RETURN result;
        END IF;
        IF NOT locked THEN
            locked := true;
            CONTINUE;
        END IF;
        former := tasktable.enter_change(schedule.verb, schedule.scheduled_by, schedule.wake);
        UPDATE tasktable.scheduled_tasks AS t
        SET payload = schedule.payload, scheduled_at = task_time, priority = schedule.priority, queue = schedule.queue,
            expiration = schedule.expiration, expected_execution_time = schedule.expected_execution_time,
            max_attempts = schedule.max_attempts, tenant_id = schedule.tenant_id, entity = schedule.entity, trace = schedule.trace,
            jitter = schedule.jitter, retention = schedule.retention, cron = schedule.cron, time_zone = schedule.time_zone,
            overlap = schedule.overlap, catch_up = schedule.catch_up, catch_up_paused = schedule.catch_up_paused,
            catch_up_limit = schedule.catch_up_limit, ends_at = schedule.ends_at, max_occurrences = schedule.max_occurrences,
            status = CASE WHEN result.outcome = 'rearmed' THEN 'QUEUED' ELSE t.status END,
            run_now_at = CASE WHEN result.outcome = 'rearmed' THEN NULL ELSE t.run_now_at END
        WHERE t.id = task_id
        RETURNING t.revision INTO result.revision;
        former := tasktable.leave_change(former);
        RETURN result;
    END LOOP;
END $$;
COMMENT ON FUNCTION tasktable.schedule(jsonb, timestamptz, text, int, text, interval, interval, int, text, text, text, text, boolean, text, interval, interval, text, text, text, text, text, int, timestamptz, int, text) IS
    'Upserts a task by its id. scheduled_at null, the default, keeps the time of an existing task; a new one is due '
    'now. A finished task runs again only at another time; if_finished => ''rearm'' without scheduled_at runs it '
    'again now, ''keep'' never. Outcome: created, rescheduled, rearmed, unchanged or finished; the last two write '
    'nothing.';

CREATE FUNCTION tasktable.insert_tasks(tasks jsonb, scheduled_by text, wake boolean, verb text)
RETURNS TABLE ("position" bigint, id text, revision bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    former text := tasktable.enter_change(coalesce(insert_tasks.verb, 'schedule'), NULL, coalesce(insert_tasks.wake, true));
BEGIN
    RETURN QUERY
    WITH task AS MATERIALIZED (
        SELECT each.value AS task, each.ordinality, each.value ->> 'id' AS id,
            coalesce((each.value ->> 'scheduled_at')::timestamptz, tasktable.asked_now()) AS scheduled_at
        FROM jsonb_array_elements(insert_tasks.tasks) WITH ORDINALITY AS each
    ), made AS (
        INSERT INTO tasktable.scheduled_tasks AS t (id, payload, scheduled_at, priority, queue, expiration, expected_execution_time,
            max_attempts, tenant_id, entity, scheduled_by, jitter, retention, time_zone, overlap, catch_up, catch_up_paused,
            catch_up_limit, ends_at, max_occurrences, trace)
        SELECT task.id, task.task -> 'payload', task.scheduled_at, coalesce((task.task ->> 'priority')::int, 0),
            coalesce(task.task ->> 'queue', 'default'), (task.task ->> 'expiration')::interval,
            coalesce((task.task ->> 'expected_execution_time')::interval, '5 minutes'),
            coalesce((task.task ->> 'max_attempts')::int, 5), task.task ->> 'tenant_id', task.task ->> 'entity',
            coalesce(task.task ->> 'scheduled_by', insert_tasks.scheduled_by), (task.task ->> 'jitter')::interval, (task.task ->> 'retention')::interval,
            -- Without cron, which is for schedule, these are refused, as schedule refuses them.
            task.task ->> 'time_zone', task.task ->> 'overlap', task.task ->> 'catch_up', task.task ->> 'catch_up_paused',
            (task.task ->> 'catch_up_limit')::int, (task.task ->> 'ends_at')::timestamptz, (task.task ->> 'max_occurrences')::int,
            task.task ->> 'trace'
        FROM task ORDER BY task.id COLLATE "C" -- as schedule_many: the two cannot deadlock
        ON CONFLICT (id) DO NOTHING
        RETURNING t.id::text AS id, t.revision
    )
    SELECT task.ordinality, made.id, made.revision FROM made JOIN task USING (id);
    former := tasktable.leave_change(former);
END $$;
COMMENT ON FUNCTION tasktable.insert_tasks(jsonb, text, boolean, text) IS
    'The part of schedule_many for plain tasks with ids of their own that are all new: inserts them, and returns '
    'those that were.';

CREATE FUNCTION tasktable.schedule_each(tasks jsonb, scheduled_by text DEFAULT NULL, wake boolean DEFAULT true, verb text DEFAULT 'schedule')
RETURNS TABLE ("position" bigint, id text, revision bigint, outcome text) LANGUAGE sql VOLATILE AS $$
    -- In the order of the ids, whatever order they came in: two bulk calls that share tasks then cannot deadlock.
    SELECT task.ordinality, done.id, done.revision, done.outcome
    FROM (
        SELECT each.value AS task, each.ordinality, coalesce(each.value ->> 'id', tasktable.new_task_id()) AS id
        FROM jsonb_array_elements(tasks) WITH ORDINALITY AS each
        ORDER BY each.value ->> 'id' COLLATE "C", each.ordinality
        OFFSET 0
    ) AS task
    CROSS JOIN LATERAL tasktable.schedule(
        task.task -> 'payload',
        (task.task ->> 'scheduled_at')::timestamptz,
        task.id,
        coalesce((task.task ->> 'priority')::int, 0),
        coalesce(task.task ->> 'queue', 'default'),
        (task.task ->> 'expiration')::interval,
        coalesce((task.task ->> 'expected_execution_time')::interval, '5 minutes'),
        coalesce((task.task ->> 'max_attempts')::int, 5),
        task.task ->> 'tenant_id',
        task.task ->> 'entity',
        task.task ->> 'if_finished',
        coalesce(task.task ->> 'scheduled_by', schedule_each.scheduled_by),
        schedule_each.wake,
        schedule_each.verb,
        (task.task ->> 'jitter')::interval,
        (task.task ->> 'retention')::interval,
        task.task ->> 'cron',
        task.task ->> 'time_zone',
        task.task ->> 'overlap',
        task.task ->> 'catch_up',
        task.task ->> 'catch_up_paused',
        (task.task ->> 'catch_up_limit')::int,
        (task.task ->> 'ends_at')::timestamptz,
        (task.task ->> 'max_occurrences')::int,
        task.task ->> 'trace'
    ) AS done
$$;
COMMENT ON FUNCTION tasktable.schedule_each(jsonb, text, boolean, text) IS
    'The part of schedule_many for tasks that may exist: schedules them one after the other.';

CREATE FUNCTION tasktable.schedule_many(tasks jsonb, scheduled_by text DEFAULT NULL, wake boolean DEFAULT true, verb text DEFAULT 'schedule')
RETURNS TABLE ("position" bigint, id text, revision bigint, outcome text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    made bigint[] := '{}'; -- positions
    rest jsonb;
BEGIN
    -- A few are not worth a second statement; and where one exists, all go in the order of the ids, so that no two calls deadlock.
    IF jsonb_typeof(schedule_many.tasks) = 'array' AND jsonb_array_length(schedule_many.tasks) >= 20 AND NOT EXISTS (
        SELECT 1 FROM jsonb_array_elements(schedule_many.tasks) AS each
        WHERE each.value ->> 'id' IS NULL OR each.value ->> 'cron' IS NOT NULL OR coalesce(each.value ->> 'if_finished', 'rearm') NOT IN ('rearm', 'keep')
            OR EXISTS (SELECT 1 FROM tasktable.scheduled_tasks AS t WHERE t.id = each.value ->> 'id')
        ) AND (SELECT count(DISTINCT each.value ->> 'id') FROM jsonb_array_elements(schedule_many.tasks) AS each) = jsonb_array_length(schedule_many.tasks)
    THEN
        FOR "position", id, revision IN SELECT * FROM tasktable.insert_tasks(schedule_many.tasks, schedule_many.scheduled_by, schedule_many.wake, schedule_many.verb)
        LOOP
            made := made || "position";
            outcome := 'created';
            RETURN NEXT;
        END LOOP;
        IF cardinality(made) = jsonb_array_length(schedule_many.tasks) THEN
            RETURN;
        END IF;
    END IF;
    RETURN QUERY
    WITH rest AS MATERIALIZED (
        SELECT each.value, each.ordinality, row_number() OVER (ORDER BY each.ordinality) AS place
        FROM jsonb_array_elements(schedule_many.tasks) WITH ORDINALITY AS each WHERE each.ordinality <> ALL (made)
    )
    SELECT rest.ordinality, done.id, done.revision, done.outcome
    FROM tasktable.schedule_each((SELECT jsonb_agg(rest.value ORDER BY rest.place) FROM rest), schedule_many.scheduled_by, schedule_many.wake, schedule_many.verb) AS done
    JOIN rest ON rest.place = done."position";
END $$;
COMMENT ON FUNCTION tasktable.schedule_many(jsonb, text, boolean, text) IS
    'schedule for each object of a JSON array with the keys payload, scheduled_at (absent or null: a new task is due '
    'now, an existing one keeps its time), id, priority, queue, expiration, expected_execution_time, max_attempts, '
    'tenant_id, entity, if_finished, trace, scheduled_by (absent: the argument), and those of schedule for '
    'recurrence, jitter and retention. position counts from 1 in the array. Of two with one id the later wins.';

CREATE FUNCTION tasktable.sync(entity text, tasks jsonb, by text DEFAULT NULL, wake boolean DEFAULT true)
RETURNS TABLE ("position" bigint, id text, revision bigint, outcome text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    each record;
BEGIN
    IF sync.entity IS NULL THEN
        RAISE EXCEPTION 'entity must be given, not null' USING ERRCODE = 'not_null_violation', COLUMN = 'entity';
    END IF;
    PERFORM sync.entity::tasktable.task_entity;
    IF sync.tasks IS NULL OR jsonb_typeof(sync.tasks) <> 'array' THEN
        RAISE EXCEPTION 'tasks must be a JSON array, if need be an empty one' USING ERRCODE = 'check_violation', COLUMN = 'tasks';
    END IF;
    IF EXISTS (SELECT 1 FROM jsonb_array_elements(sync.tasks) AS one WHERE one.value ->> 'id' IS NULL) THEN
        -- A new id each time would be another task each time, and the one before cancelled.
        RAISE EXCEPTION 'id must be given for each of the tasks' USING ERRCODE = 'not_null_violation', COLUMN = 'id';
    END IF;
    -- One sync of an entity at a time: two at once would each miss what the other adds, and "exactly these" would be both.
    -- A lock for each of 1,024 groups of entities, because the lock table is the whole server's: a transaction that syncs
    -- tens of thousands of entities would fill it, and statements in other databases would fail.
    PERFORM pg_advisory_xact_lock(hashtextextended('tasktable.sync ' || (hashtextextended(sync.entity, 0) & 1023), 0));
    -- All in the order of the ids, as schedule_many: the two cannot deadlock.
    FOR each IN
        SELECT * FROM (
            SELECT one.ordinality AS place, one.value ->> 'id' AS id, one.value || jsonb_build_object('entity', sync.entity) AS task
            FROM jsonb_array_elements(sync.tasks) WITH ORDINALITY AS one
            UNION ALL
            SELECT NULL, t.id, NULL FROM tasktable.scheduled_tasks AS t
            WHERE t.entity = sync.entity AND t.status IN ('QUEUED', 'PAUSED', 'EXECUTING')
                AND NOT EXISTS (SELECT 1 FROM jsonb_array_elements(sync.tasks) AS one WHERE one.value ->> 'id' = t.id)
                -- The occurrences of a recurring task come and go with it, unlisted.
                AND NOT EXISTS (SELECT 1 FROM jsonb_array_elements(sync.tasks) AS one
                    WHERE one.value ->> 'id' = t.parent_id AND one.value ->> 'cron' IS NOT NULL)
                -- A handler asked for a follow-up. The application does not know it, so it cannot list it.
                AND t.spawned_by IS NULL
        ) AS union_of_both
        ORDER BY union_of_both.id COLLATE "C", union_of_both.place
    LOOP
        IF each.place IS NOT NULL THEN
            RETURN QUERY SELECT each.place, done.id, done.revision, done.outcome
            FROM tasktable.schedule_many(jsonb_build_array(each.task), sync.by, sync.wake, 'sync') AS done;
            CONTINUE;
        END IF;
        -- Once more under its lock: it may have ended since, or become another entity's.
        PERFORM 1 FROM tasktable.scheduled_tasks AS t
        WHERE t.id = each.id AND t.entity = sync.entity AND t.status IN ('QUEUED', 'PAUSED', 'EXECUTING') FOR UPDATE;
        IF FOUND THEN
            RETURN QUERY SELECT NULL::bigint, done.id, done.revision, done.outcome FROM tasktable.cancel(each.id, sync.by) AS done;
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION tasktable.sync(text, jsonb, text, boolean) IS
    'Makes the waiting and running tasks of an entity exactly these: schedules each (as schedule_many, which see; ids '
    'are required) and cancels the others, returned with a null position. The occurrences of a recurring one among '
    'these are left alone, and so are follow-ups, which handlers have asked for.';

CREATE FUNCTION tasktable.reschedule(id text, at timestamptz, by text DEFAULT NULL, wake boolean DEFAULT true) RETURNS tasktable.verb_outcome
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    task   record;
    former text;
    result tasktable.verb_outcome;
BEGIN
    IF reschedule.at IS NULL THEN
        RAISE EXCEPTION 'at must be a time, not null' USING ERRCODE = 'not_null_violation', COLUMN = 'at';
    END IF;
    result.id := reschedule.id;
    SELECT t.status, t.revision, t.scheduled_at INTO task FROM tasktable.scheduled_tasks AS t WHERE t.id = reschedule.id FOR UPDATE;
    IF NOT FOUND THEN
        result.outcome := 'absent';
        RETURN result;
    END IF;
    result.revision := task.revision;
    result.outcome := tasktable.schedule_outcome(task.status, false, NOT tasktable.same_time(reschedule.at, task.scheduled_at), false);
    IF result.outcome IN ('unchanged', 'finished') THEN
        RETURN result;
    END IF;
    former := tasktable.enter_change('reschedule', reschedule.by, reschedule.wake);
    UPDATE tasktable.scheduled_tasks AS t
    SET scheduled_at = reschedule.at,
        status = CASE WHEN result.outcome = 'rearmed' THEN 'QUEUED' ELSE t.status END,
        run_now_at = CASE WHEN result.outcome = 'rearmed' THEN NULL ELSE t.run_now_at END
    WHERE t.id = reschedule.id RETURNING t.revision INTO result.revision;
    former := tasktable.leave_change(former);
    RETURN result;
END $$;
COMMENT ON FUNCTION tasktable.reschedule(text, timestamptz, text, boolean) IS
    'Moves a task to another time and keeps all else. Outcome: rescheduled, rearmed, unchanged, finished or absent.';

CREATE FUNCTION tasktable.verb_outcome_of(verb text, status text, held boolean) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE verb
        WHEN 'cancel' THEN CASE WHEN status IN ('QUEUED', 'PAUSED', 'EXECUTING') THEN 'cancelled' WHEN status = 'CANCELLED' THEN 'unchanged' ELSE 'finished' END
        WHEN 'pause' THEN CASE status WHEN 'QUEUED' THEN 'paused' WHEN 'EXECUTING' THEN 'paused' WHEN 'PAUSED' THEN 'unchanged' ELSE 'finished' END
        WHEN 'resume' THEN CASE WHEN status = 'PAUSED' THEN 'queued' WHEN status IN ('QUEUED', 'EXECUTING') THEN 'unchanged' ELSE 'finished' END
        WHEN 'run_now' THEN CASE WHEN status = 'EXECUTING' THEN 'running' ELSE 'queued' END
        WHEN 'retry' THEN CASE WHEN status IN ('FAILED', 'EXPIRED') THEN 'queued' WHEN status IN ('COMPLETED', 'SKIPPED') THEN 'finished' ELSE 'unchanged' END
        WHEN 'delete' THEN CASE WHEN held THEN 'running' ELSE 'deleted' END
        END
$$;
COMMENT ON FUNCTION tasktable.verb_outcome_of(text, text, boolean) IS
    'The verb table: what a verb comes to, by the task''s status and whether a claim holds it.';

CREATE FUNCTION tasktable.apply_verb(verb text, id text, by text, wake boolean, until timestamptz DEFAULT NULL) RETURNS tasktable.verb_outcome
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    task   record;
    former text;
    result tasktable.verb_outcome;
BEGIN
    result.id := apply_verb.id;
    SELECT t.status, t.revision, t.fence IS NOT NULL AS held, t.cron IS NOT NULL AS recurs, t.paused_until INTO task
    FROM tasktable.scheduled_tasks AS t WHERE t.id = apply_verb.id FOR UPDATE;
    IF NOT FOUND THEN
        result.outcome := 'absent';
        RETURN result;
    END IF;
    result.revision := task.revision;
    result.outcome := tasktable.verb_outcome_of(apply_verb.verb, task.status, task.held);
    IF apply_verb.verb = 'pause' AND task.status = 'PAUSED' AND NOT tasktable.same_time(apply_verb.until, task.paused_until) THEN
        result.outcome := 'paused'; -- already, but not until then
    END IF;
    IF apply_verb.verb = 'run_now' AND task.recurs THEN
        -- An occurrence beside the planned ones: the task itself, paused or ended as it may be, stays as it is.
        PERFORM tasktable.fork_occurrence(apply_verb.id, tasktable.asked_now(), NULL, apply_verb.by, apply_verb.wake, true);
        result.outcome := 'queued';
        RETURN result;
    END IF;
    former := tasktable.enter_change(apply_verb.verb, apply_verb.by, apply_verb.wake);
    CASE result.outcome
        WHEN 'cancelled' THEN
            UPDATE tasktable.scheduled_tasks AS t SET status = 'CANCELLED'
            WHERE t.id = apply_verb.id RETURNING t.revision INTO result.revision;
        WHEN 'paused' THEN
            UPDATE tasktable.scheduled_tasks AS t SET status = 'PAUSED', paused_until = apply_verb.until
            WHERE t.id = apply_verb.id RETURNING t.revision INTO result.revision;
        WHEN 'queued' THEN
            -- Resuming keeps the time it had; run_now and retry ask for now, and leave scheduled_at as it was asked.
            UPDATE tasktable.scheduled_tasks AS t
            -- A claimed task is due already, so run_now only ends its pause.
            SET status = 'QUEUED', run_now_at = CASE WHEN apply_verb.verb = 'resume' OR t.status = 'PAUSED' AND t.fence > t.revision
                THEN t.run_now_at ELSE tasktable.asked_now() END
            WHERE t.id = apply_verb.id RETURNING t.revision INTO result.revision;
        WHEN 'deleted' THEN
            DELETE FROM tasktable.scheduled_tasks AS t WHERE t.id = apply_verb.id;
            result.revision := NULL;
        ELSE NULL; -- unchanged, finished, running: nothing is written
    END CASE;
    former := tasktable.leave_change(former);
    RETURN result;
END $$;
COMMENT ON FUNCTION tasktable.apply_verb(text, text, text, boolean, timestamptz) IS
    'Does cancel, pause, resume, run_now, retry and delete: each has a function of its own name to call.';

CREATE FUNCTION tasktable.cancel(id text, by text DEFAULT NULL) RETURNS tasktable.verb_outcome LANGUAGE sql VOLATILE
    AS $$ SELECT tasktable.apply_verb('cancel', id, by, true) $$;
COMMENT ON FUNCTION tasktable.cancel(text, text) IS
    'Cancels a task; of a running one the handler''s context ends. Outcome: cancelled, unchanged, finished or absent.';

CREATE FUNCTION tasktable.pause(id text, by text DEFAULT NULL, until timestamptz DEFAULT NULL) RETURNS tasktable.verb_outcome LANGUAGE sql VOLATILE
    AS $$ SELECT tasktable.apply_verb('pause', id, by, true, until) $$;
COMMENT ON FUNCTION tasktable.pause(text, text, timestamptz) IS
    'Keeps a task from starting until resumed, or until a time. An attempt that has begun ends as it would, and a '
    'retry waits for the resume. Outcome: paused, unchanged, finished or absent.';

CREATE FUNCTION tasktable.resume(id text, by text DEFAULT NULL) RETURNS tasktable.verb_outcome LANGUAGE sql VOLATILE
    AS $$ SELECT tasktable.apply_verb('resume', id, by, true) $$;
COMMENT ON FUNCTION tasktable.resume(text, text) IS
    'Queues a paused task for its time, at once if that has passed. Outcome: queued, unchanged, finished or absent.';

CREATE FUNCTION tasktable.run_now(id text, by text DEFAULT NULL, wake boolean DEFAULT true) RETURNS tasktable.verb_outcome LANGUAGE sql VOLATILE
    AS $$ SELECT tasktable.apply_verb('run_now', id, by, wake) $$;
COMMENT ON FUNCTION tasktable.run_now(text, text, boolean) IS
    'Queues a task to run at once, a finished one again. Outcome: queued, running or absent.';

CREATE FUNCTION tasktable.retry(id text, by text DEFAULT NULL, wake boolean DEFAULT true) RETURNS tasktable.verb_outcome LANGUAGE sql VOLATILE
    AS $$ SELECT tasktable.apply_verb('retry', id, by, wake) $$;
COMMENT ON FUNCTION tasktable.retry(text, text, boolean) IS
    'Queues a FAILED or EXPIRED task to run at once, with all its attempts. Outcome: queued, unchanged, finished or '
    'absent.';

CREATE FUNCTION tasktable.delete(id text, by text DEFAULT NULL) RETURNS tasktable.verb_outcome LANGUAGE sql VOLATILE
    AS $$ SELECT tasktable.apply_verb('delete', id, by, true) $$;
COMMENT ON FUNCTION tasktable.delete(text, text) IS
    'Deletes a task; its history stays. Outcome: deleted, running (while a claim holds it) or absent.';

CREATE FUNCTION tasktable.archive(id text, note text DEFAULT NULL, by text DEFAULT NULL) RETURNS tasktable.verb_outcome
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    task   record;
    former text;
    result tasktable.verb_outcome;
BEGIN
    result.id := archive.id;
    SELECT t.status, t.revision, t.archived_at INTO task FROM tasktable.scheduled_tasks AS t WHERE t.id = archive.id FOR UPDATE;
    IF NOT FOUND THEN
        result.outcome := 'absent';
        RETURN result;
    END IF;
    result.revision := task.revision;
    IF task.status NOT IN ('FAILED', 'EXPIRED') OR task.archived_at IS NOT NULL THEN
        result.outcome := 'unchanged';
        RETURN result;
    END IF;
    former := tasktable.enter_change('archive', archive.by, false);
    UPDATE tasktable.scheduled_tasks AS t SET archived_at = clock_timestamp(), archived_note = archive.note
    WHERE t.id = archive.id RETURNING t.revision INTO result.revision;
    former := tasktable.leave_change(former);
    result.outcome := 'archived';
    RETURN result;
END $$;
COMMENT ON FUNCTION tasktable.archive(text, text, text) IS
    'Marks a dead letter as dealt with, with a note. Outcome: archived, unchanged or absent.';

CREATE FUNCTION tasktable.pause_scope(scope text, name text DEFAULT '', until timestamptz DEFAULT NULL, reason text DEFAULT NULL, by text DEFAULT NULL)
RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    held tasktable.pauses;
BEGIN
    -- One at a time: two that pause the same would leave two lines, and a resume would end one.
    PERFORM pg_advisory_xact_lock(hashtextextended('tasktable.pause ' || pause_scope.scope || ' ' || pause_scope.name, 0));
    SELECT * INTO held FROM tasktable.pauses AS p
    WHERE p.scope = pause_scope.scope AND p.name = pause_scope.name AND (p.ends_at IS NULL OR p.ends_at > clock_timestamp());
    IF NOT FOUND THEN
        INSERT INTO tasktable.pauses (scope, name, ends_at, reason, paused_by)
        VALUES (pause_scope.scope, pause_scope.name, pause_scope.until, pause_scope.reason, coalesce(pause_scope.by, session_user));
        RETURN 'paused';
    END IF;
    IF held.ends_at IS NOT DISTINCT FROM pause_scope.until AND held.reason IS NOT DISTINCT FROM pause_scope.reason THEN
        RETURN 'unchanged';
    END IF;
    UPDATE tasktable.pauses AS p SET ends_at = pause_scope.until, reason = pause_scope.reason, paused_by = coalesce(pause_scope.by, session_user)
    WHERE p.number = held.number;
    RETURN 'paused';
END $$;
COMMENT ON FUNCTION tasktable.pause_scope(text, text, timestamptz, text, text) IS
    'Pauses everything (scope all), a queue or a type, optionally until a time. After its commit nothing of it '
    'starts; running handlers finish. Outcome: paused or unchanged.';

CREATE FUNCTION tasktable.resume_scope(scope text, name text DEFAULT '', by text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF resume_scope.scope IS NULL OR resume_scope.scope NOT IN ('all', 'queue', 'type') THEN
        RAISE EXCEPTION 'scope must be all, queue or type, not %', quote_nullable(resume_scope.scope) USING ERRCODE = 'check_violation', COLUMN = 'scope';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('tasktable.pause ' || resume_scope.scope || ' ' || resume_scope.name, 0));
    UPDATE tasktable.pauses AS p SET planned_end = p.ends_at, ends_at = clock_timestamp(), resumed_by = coalesce(resume_scope.by, session_user)
    WHERE p.scope = resume_scope.scope AND p.name = resume_scope.name AND (p.ends_at IS NULL OR p.ends_at > clock_timestamp());
    IF NOT FOUND THEN
        RETURN 'unchanged';
    END IF;
    IF pg_notification_queue_usage() < 0.5 THEN
        PERFORM pg_notify('tasktable.wake', '');
    END IF;
    RETURN 'queued';
END $$;
COMMENT ON FUNCTION tasktable.resume_scope(text, text, text) IS
    'Ends the pause of everything, a queue or a type. Outcome: queued or unchanged.';

CREATE FUNCTION tasktable.erase(entity text DEFAULT NULL, tenant_id text DEFAULT NULL)
RETURNS TABLE (tasks bigint, executions bigint, changes bigint, running bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    former text := coalesce(current_setting('tasktable_change.context', true), '');
    ids    text[];
    untils bigint[];
    held   text;
BEGIN
    IF num_nonnulls(erase.entity, erase.tenant_id) <> 1 THEN
        RAISE EXCEPTION 'erase needs one of entity and tenant_id' USING ERRCODE = 'check_violation', COLUMN = 'entity';
    END IF;
    ids := ARRAY(SELECT t.id::text FROM tasktable.scheduled_tasks AS t WHERE t.entity = erase.entity OR t.tenant_id = erase.tenant_id);
    running := 0;
    FOR held IN SELECT t.id::text FROM tasktable.scheduled_tasks AS t
        WHERE t.id = ANY (ids) AND t.fence IS NOT NULL ORDER BY t.id::text COLLATE "C" FOR UPDATE
    LOOP
        PERFORM tasktable.cancel(held, 'erase');
        running := running + 1;
        ids := array_remove(ids, held);
    END LOOP;
    PERFORM set_config('tasktable_change.context', 'retention', true);
    -- One that was claimed since is held now: it stays whole, to be erased when it has ended.
    WITH gone AS (DELETE FROM tasktable.scheduled_tasks AS t WHERE t.id = ANY (ids) AND t.fence IS NULL RETURNING 1)
    SELECT count(*) INTO tasks FROM gone;
    -- Also what happened to tasks that were deleted, or are another's by now, up to the change that ended it: its line has whose they were.
    SELECT array_agg(past.id), array_agg(past.until) INTO ids, untils
    FROM (
        SELECT one AS id, 9223372036854775807 AS until FROM unnest(ids) AS one
        WHERE NOT EXISTS (SELECT 1 FROM tasktable.scheduled_tasks AS t WHERE t.id = one)
        UNION ALL
        SELECT c.task_id, max(c.revision) FROM tasktable.scheduled_task_changes AS c
        WHERE (c.old ->> 'entity' = erase.entity OR c.old ->> 'tenant_id' = erase.tenant_id)
            AND NOT EXISTS (SELECT 1 FROM tasktable.scheduled_tasks AS t
                WHERE t.id = c.task_id AND (t.entity = erase.entity OR t.tenant_id = erase.tenant_id))
        GROUP BY c.task_id
    ) AS past;
    WITH gone AS (
        DELETE FROM tasktable.scheduled_task_executions AS e USING unnest(ids, untils) AS past (id, until)
        WHERE e.task_id = past.id AND e.fence < past.until RETURNING 1
    )
    SELECT count(*) INTO executions FROM gone;
    WITH gone AS (
        DELETE FROM tasktable.scheduled_task_changes AS c USING unnest(ids, untils) AS past (id, until)
        WHERE c.task_id = past.id AND c.revision <= past.until RETURNING 1
    )
    SELECT count(*) INTO changes FROM gone;
    former := tasktable.leave_change(former);
    RETURN NEXT;
END $$;
COMMENT ON FUNCTION tasktable.erase(text, text) IS
    'Removes all tasks of an entity or a tenant with their history, also that of tasks that were deleted or became '
    'another''s before. Running ones are cancelled and counted: erase again when they have ended.';
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION tasktable.erase, tasktable.resume_scope, tasktable.pause_scope, tasktable.archive, tasktable.delete,
    tasktable.retry, tasktable.run_now, tasktable.resume, tasktable.pause, tasktable.cancel, tasktable.apply_verb,
    tasktable.verb_outcome_of, tasktable.reschedule, tasktable.sync, tasktable.schedule_many, tasktable.schedule_each,
    tasktable.insert_tasks, tasktable.schedule, tasktable.schedule_outcome, tasktable.new_task_id, tasktable.same_time,
    tasktable.leave_change, tasktable.enter_change;
DROP TYPE tasktable.verb_outcome;
