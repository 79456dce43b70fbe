-- The verbs as SQL functions, for every language; the Go store calls them too, so there is one meaning.
--
-- Each returns (id, revision, outcome) and raises a check_violation, not-null or domain error on bad input. A function marks its
-- own change lines by tasktable_change.context around each write and puts the former value back after it, so that plain SQL
-- later in the same transaction is recorded as plain SQL. An error needs no care: it undoes the setting as it undoes the write.

-- +goose Up
CREATE TYPE tasktable.verb_outcome AS (id text, revision bigint, outcome text);
COMMENT ON TYPE tasktable.verb_outcome IS 'What a verb did: the task''s id, its revision now (null when absent or deleted), and the outcome.';

-- +goose StatementBegin
CREATE FUNCTION tasktable.enter_change(verb text, by text, wake boolean) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    former text := coalesce(current_setting('tasktable_change.context', true), '');
    mark   text; -- not PERFORM, which would run a query where an assignment takes the value
BEGIN
    mark := set_config('tasktable_change.context', concat(verb, chr(31), by, chr(31), CASE WHEN wake THEN '' ELSE 'quiet' END), true);
    RETURN former;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.enter_change(text, text, boolean) IS
    'Marks the change lines that follow as a verb''s and returns the former mark, for leave_change. A SET clause of the verb''s function would put it back by itself, but only a superuser can make one for a custom setting.';

CREATE FUNCTION tasktable.leave_change(former text) RETURNS text LANGUAGE sql
    AS $$ SELECT set_config('tasktable_change.context', former, true) $$;
COMMENT ON FUNCTION tasktable.leave_change(text) IS 'Puts back the mark that enter_change returned.';

-- +goose StatementBegin
CREATE FUNCTION tasktable.same_time(given timestamptz, stored timestamptz) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN given IS NULL OR stored IS NULL THEN given IS NULL AND stored IS NULL
        ELSE given BETWEEN stored - interval '1 microsecond' AND stored + interval '1 microsecond' END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.same_time(timestamptz, timestamptz) IS
    'Whether two times are one microsecond apart at most. Postgres stores microseconds. Some drivers cut the nanoseconds of a time off, and Postgres rounds the text that others send: one time of an application then becomes two.';

-- +goose StatementBegin
CREATE FUNCTION tasktable.schedule_outcome(status text, content_differs boolean, time_differs boolean, keep_finished boolean)
RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN status IN ('QUEUED', 'PAUSED', 'EXECUTING')
            THEN CASE WHEN content_differs OR time_differs THEN 'rescheduled' ELSE 'unchanged' END
        WHEN status = 'CANCELLED' THEN 'rearmed'
        WHEN time_differs AND NOT keep_finished THEN 'rearmed'
        ELSE 'finished' END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.schedule_outcome(text, boolean, boolean, boolean) IS 'What scheduling an existing task comes to, by its status and by what differs.';

-- +goose StatementBegin
CREATE FUNCTION tasktable.new_task_id() RETURNS text LANGUAGE sql VOLATILE AS $$
    -- RFC 9562, version 7: 48 bits of milliseconds, so that ids of one time lie together in the index.
    SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
        PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid::text
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.new_task_id() IS 'A UUID version 7, for a task scheduled without an id.';

-- +goose StatementBegin
CREATE FUNCTION tasktable.schedule(
    payload jsonb,
    scheduled_at timestamptz DEFAULT now(),
    id text DEFAULT NULL,
    priority int DEFAULT 0,
    queue text DEFAULT 'default',
    expiration interval DEFAULT NULL,
    expected_execution_time interval DEFAULT '5 minutes',
    max_attempts int DEFAULT 5,
    tenant_id text DEFAULT NULL,
    entity text DEFAULT NULL,
    if_finished text DEFAULT 'rearm',
    scheduled_by text DEFAULT NULL,
    wake boolean DEFAULT true,
    verb text DEFAULT 'schedule',
    trace text DEFAULT NULL
) RETURNS tasktable.verb_outcome LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    task_id    text := coalesce(schedule.id, tasktable.new_task_id());
    task       tasktable.scheduled_tasks;
    task_time  timestamptz;
    former     text;
    differs    boolean;
    -- A snapshot older than this call may show as unchanged what was edited since; only the lock notices, and then fails.
    locked     boolean := current_setting('transaction_isolation') <> 'read committed';
    result     tasktable.verb_outcome;
BEGIN
    IF schedule.if_finished IS NULL OR schedule.if_finished NOT IN ('rearm', 'keep') THEN
        RAISE EXCEPTION 'if_finished must be ''rearm'' or ''keep'', not %', quote_nullable(schedule.if_finished)
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
                expected_execution_time, max_attempts, tenant_id, entity, scheduled_by, trace)
            VALUES (task_id, schedule.payload, coalesce(schedule.scheduled_at, clock_timestamp()), schedule.priority, schedule.queue,
                schedule.expiration, schedule.expected_execution_time, schedule.max_attempts, schedule.tenant_id,
                schedule.entity, schedule.scheduled_by, schedule.trace)
            ON CONFLICT (id) DO NOTHING
            RETURNING t.revision INTO result.revision;
            former := tasktable.leave_change(former);
            IF result.revision IS NOT NULL THEN
                result.outcome := 'created';
                RETURN result;
            END IF;
            CONTINUE; -- another transaction was first: look again, or its upsert would swallow this one
        END IF;
        task_time := coalesce(schedule.scheduled_at, task.scheduled_at);
        -- IS DISTINCT FROM, field by field: a null where none may be must reach the UPDATE and fail there.
        differs := task.payload IS DISTINCT FROM schedule.payload
            OR task.priority IS DISTINCT FROM schedule.priority
            OR task.queue IS DISTINCT FROM schedule.queue
            OR task.expiration IS DISTINCT FROM schedule.expiration
            OR task.expected_execution_time IS DISTINCT FROM schedule.expected_execution_time
            OR task.max_attempts IS DISTINCT FROM schedule.max_attempts
            OR task.tenant_id IS DISTINCT FROM schedule.tenant_id
            OR task.entity IS DISTINCT FROM schedule.entity;
        result.revision := task.revision;
        result.outcome := tasktable.schedule_outcome(task.status, differs, task.scheduled_at <> task_time, schedule.if_finished = 'keep');
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
            status = CASE WHEN result.outcome = 'rearmed' THEN 'QUEUED' ELSE t.status END,
            run_now_at = CASE WHEN result.outcome = 'rearmed' THEN NULL ELSE t.run_now_at END
        WHERE t.id = task_id
        RETURNING t.revision INTO result.revision;
        former := tasktable.leave_change(former);
        RETURN result;
    END LOOP;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.schedule(jsonb, timestamptz, text, int, text, interval, interval, int, text, text, text, text, boolean, text, text) IS
    'Upserts a task by its id. scheduled_at null keeps the time of an existing task. Outcome: created, rescheduled, rearmed, unchanged or finished; the last two write nothing.';

-- +goose StatementBegin
CREATE FUNCTION tasktable.schedule_many(tasks jsonb, scheduled_by text DEFAULT NULL, wake boolean DEFAULT true, verb text DEFAULT 'schedule')
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
        CASE WHEN task.task ? 'scheduled_at' THEN (task.task ->> 'scheduled_at')::timestamptz ELSE now() END,
        task.id,
        coalesce((task.task ->> 'priority')::int, 0),
        coalesce(task.task ->> 'queue', 'default'),
        (task.task ->> 'expiration')::interval,
        coalesce((task.task ->> 'expected_execution_time')::interval, '5 minutes'),
        coalesce((task.task ->> 'max_attempts')::int, 5),
        task.task ->> 'tenant_id',
        task.task ->> 'entity',
        coalesce(task.task ->> 'if_finished', 'rearm'),
        schedule_many.scheduled_by,
        schedule_many.wake,
        schedule_many.verb,
        task.task ->> 'trace'
    ) AS done
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.schedule_many(jsonb, text, boolean, text) IS
    'schedule for each object of a JSON array with the keys payload, scheduled_at (absent: now; null: keep), id, priority, queue, expiration, expected_execution_time, max_attempts, tenant_id, entity, if_finished, trace. position counts from 1 in the array. Of two with one id the later wins.';

-- +goose StatementBegin
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
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.verb_outcome_of(text, text, boolean) IS 'The verb table: what a verb comes to, by the task''s status and whether a claim holds it.';

-- +goose StatementBegin
CREATE FUNCTION tasktable.apply_verb(verb text, id text, by text, wake boolean) RETURNS tasktable.verb_outcome
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    task   record;
    former text;
    result tasktable.verb_outcome;
BEGIN
    result.id := apply_verb.id;
    SELECT t.status, t.revision, t.fence IS NOT NULL AS held INTO task
    FROM tasktable.scheduled_tasks AS t WHERE t.id = apply_verb.id FOR UPDATE;
    IF NOT FOUND THEN
        result.outcome := 'absent';
        RETURN result;
    END IF;
    result.revision := task.revision;
    result.outcome := tasktable.verb_outcome_of(apply_verb.verb, task.status, task.held);
    former := tasktable.enter_change(apply_verb.verb, apply_verb.by, apply_verb.wake);
    CASE result.outcome
        WHEN 'cancelled' THEN
            UPDATE tasktable.scheduled_tasks AS t SET status = 'CANCELLED'
            WHERE t.id = apply_verb.id RETURNING t.revision INTO result.revision;
        WHEN 'paused' THEN
            UPDATE tasktable.scheduled_tasks AS t SET status = 'PAUSED'
            WHERE t.id = apply_verb.id RETURNING t.revision INTO result.revision;
        WHEN 'queued' THEN
            -- Resuming keeps the time it had; run_now and retry ask for now, and leave scheduled_at as it was asked.
            UPDATE tasktable.scheduled_tasks AS t
            SET status = 'QUEUED', run_now_at = CASE WHEN apply_verb.verb = 'resume' THEN t.run_now_at ELSE clock_timestamp() END
            WHERE t.id = apply_verb.id RETURNING t.revision INTO result.revision;
        WHEN 'deleted' THEN
            DELETE FROM tasktable.scheduled_tasks AS t WHERE t.id = apply_verb.id;
            result.revision := NULL;
        ELSE NULL; -- unchanged, finished, running: nothing is written
    END CASE;
    former := tasktable.leave_change(former);
    RETURN result;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.apply_verb(text, text, text, boolean) IS 'Does cancel, pause, resume, run_now, retry and delete: each has a function of its own name to call.';

CREATE FUNCTION tasktable.cancel(id text, by text DEFAULT NULL) RETURNS tasktable.verb_outcome LANGUAGE sql VOLATILE
    AS $$ SELECT tasktable.apply_verb('cancel', id, by, true) $$;
COMMENT ON FUNCTION tasktable.cancel(text, text) IS 'Cancels a task; of a running one the handler''s context ends. Outcome: cancelled, unchanged, finished or absent.';
CREATE FUNCTION tasktable.pause(id text, by text DEFAULT NULL) RETURNS tasktable.verb_outcome LANGUAGE sql VOLATILE
    AS $$ SELECT tasktable.apply_verb('pause', id, by, true) $$;
COMMENT ON FUNCTION tasktable.pause(text, text) IS 'Keeps a task from running until resumed. Outcome: paused, unchanged, running, finished or absent.';
CREATE FUNCTION tasktable.resume(id text, by text DEFAULT NULL) RETURNS tasktable.verb_outcome LANGUAGE sql VOLATILE
    AS $$ SELECT tasktable.apply_verb('resume', id, by, true) $$;
COMMENT ON FUNCTION tasktable.resume(text, text) IS 'Queues a paused task for its time, at once if that has passed. Outcome: queued, unchanged, finished or absent.';
CREATE FUNCTION tasktable.run_now(id text, by text DEFAULT NULL, wake boolean DEFAULT true) RETURNS tasktable.verb_outcome LANGUAGE sql VOLATILE
    AS $$ SELECT tasktable.apply_verb('run_now', id, by, wake) $$;
COMMENT ON FUNCTION tasktable.run_now(text, text, boolean) IS 'Queues a task to run at once, a finished one again. Outcome: queued, running or absent.';
CREATE FUNCTION tasktable.retry(id text, by text DEFAULT NULL, wake boolean DEFAULT true) RETURNS tasktable.verb_outcome LANGUAGE sql VOLATILE
    AS $$ SELECT tasktable.apply_verb('retry', id, by, wake) $$;
COMMENT ON FUNCTION tasktable.retry(text, text, boolean) IS 'Queues a FAILED or EXPIRED task to run at once, with all its attempts. Outcome: queued, unchanged, finished or absent.';
CREATE FUNCTION tasktable.delete(id text, by text DEFAULT NULL) RETURNS tasktable.verb_outcome LANGUAGE sql VOLATILE
    AS $$ SELECT tasktable.apply_verb('delete', id, by, true) $$;
COMMENT ON FUNCTION tasktable.delete(text, text) IS 'Deletes a task; its history stays. Outcome: deleted, running (while a claim holds it) or absent.';

-- +goose StatementBegin
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
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.reschedule(text, timestamptz, text, boolean) IS 'Moves a task to another time and keeps all else. Outcome: rescheduled, rearmed, unchanged, finished or absent.';

-- +goose StatementBegin
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
    PERFORM pg_advisory_xact_lock(hashtextextended('tasktable.sync ' || sync.entity, 0));
    -- All in the order of the ids, as schedule_many: the two cannot deadlock.
    FOR each IN
        SELECT * FROM (
            SELECT one.ordinality AS place, one.value ->> 'id' AS id, one.value || jsonb_build_object('entity', sync.entity) AS task
            FROM jsonb_array_elements(sync.tasks) WITH ORDINALITY AS one
            UNION ALL
            SELECT NULL, t.id, NULL FROM tasktable.scheduled_tasks AS t
            WHERE t.entity = sync.entity AND t.status IN ('QUEUED', 'PAUSED', 'EXECUTING')
                AND NOT EXISTS (SELECT 1 FROM jsonb_array_elements(sync.tasks) AS one WHERE one.value ->> 'id' = t.id)
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
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.sync(text, jsonb, text, boolean) IS
    'Makes the waiting and running tasks of an entity exactly these: schedules each (as schedule_many, which see; ids are required) and cancels the others, returned with a null position.';

-- +goose Down
DROP FUNCTION tasktable.sync(text, jsonb, text, boolean);
DROP FUNCTION tasktable.reschedule(text, timestamptz, text, boolean);
DROP FUNCTION tasktable.delete(text, text);
DROP FUNCTION tasktable.retry(text, text, boolean);
DROP FUNCTION tasktable.run_now(text, text, boolean);
DROP FUNCTION tasktable.resume(text, text);
DROP FUNCTION tasktable.pause(text, text);
DROP FUNCTION tasktable.cancel(text, text);
DROP FUNCTION tasktable.apply_verb(text, text, text, boolean);
DROP FUNCTION tasktable.verb_outcome_of(text, text, boolean);
DROP FUNCTION tasktable.schedule_many(jsonb, text, boolean, text);
DROP FUNCTION tasktable.schedule(jsonb, timestamptz, text, int, text, interval, interval, int, text, text, text, text, boolean, text, text);
DROP FUNCTION tasktable.new_task_id();
DROP FUNCTION tasktable.schedule_outcome(text, boolean, boolean, boolean);
DROP FUNCTION tasktable.same_time(timestamptz, timestamptz);
DROP FUNCTION tasktable.leave_change(text);
DROP FUNCTION tasktable.enter_change(text, text, boolean);
DROP TYPE tasktable.verb_outcome;
