-- The verbs: one function for each verb of the Go package store, which calls them. Other languages call them as well.
--
-- If the setting tasktable.tenant names a tenant, the verbs touch only tasks of that tenant. To the verb of one task a
-- task of another tenant is absent. Ids belong to all tenants together, so to schedule another tenant's id is an error.
-- The verbs read the setting for every caller, but only a caller with the role of tenants needs it (see roles.sql).
--
-- A verb that locks several tasks locks them in the order of id || '~', so that no two transactions deadlock. An
-- occurrence then comes before its recurring task, because @ sorts before ~. It must, because an edit of an occurrence
-- locks the occurrence first, and then, by a trigger, the recurring task.

-- +goose Up
-- +goose StatementBegin
CREATE TYPE tasktable.verb_outcome AS (id text, revision bigint, outcome text);
COMMENT ON TYPE tasktable.verb_outcome IS 'The result of a verb: the id of the task, its revision after the verb (null '
    'if the task is absent or deleted), and the outcome.';

CREATE FUNCTION tasktable.enter_change(verb text, by text, wake boolean, encoded_anew boolean DEFAULT false)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    former text := coalesce(current_setting('tasktable_change.context', true), '');
    mark   text; -- an assignment is faster than PERFORM, which runs a query
BEGIN
    mark := set_config('tasktable_change.context',
        concat(verb, chr(31), by, chr(31), CASE WHEN wake THEN '' ELSE 'quiet' END,
            CASE WHEN encoded_anew THEN chr(31) || 'encoded anew' END), true);
    RETURN former;
END $$;
COMMENT ON FUNCTION tasktable.enter_change IS 'Names the verb and the caller for the changes that follow, and returns '
    'the former context, for leave_change. The verb could not have a SET clause for this, because only a superuser can '
    'write one for a custom setting.';

CREATE FUNCTION tasktable.leave_change(former text) RETURNS text LANGUAGE sql
    AS $$ SELECT set_config('tasktable_change.context', former, true) $$;
COMMENT ON FUNCTION tasktable.leave_change IS 'Restores the context that enter_change returned.';

CREATE FUNCTION tasktable.same_time(given timestamptz, stored timestamptz) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN given IS NULL OR stored IS NULL THEN given IS NULL AND stored IS NULL
        ELSE given BETWEEN stored - interval '1 microsecond' AND stored + interval '1 microsecond' END
$$;
COMMENT ON FUNCTION tasktable.same_time IS 'Whether two times differ by at most a microsecond. Some drivers cut off '
    'nanoseconds, others let Postgres round them. So one time can arrive as two.';

CREATE FUNCTION tasktable.new_task_id() RETURNS text LANGUAGE sql VOLATILE AS $$
    -- RFC 9562, version 7: the first 48 bits are milliseconds, so that ids of one time lie together in the index.
    SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) PLACING
        substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        52, 1), 53, 1), 'hex')::uuid::text
$$;
COMMENT ON FUNCTION tasktable.new_task_id IS 'A UUID of version 7, for a task that is scheduled without an id.';

CREATE FUNCTION tasktable.schedule_outcome(
    status text, content_differs boolean, time_differs boolean, keep_finished boolean
) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN status IN ('QUEUED', 'PAUSED', 'EXECUTING')
            THEN CASE WHEN content_differs OR time_differs THEN 'rescheduled' ELSE 'unchanged' END
        WHEN status = 'CANCELLED' THEN 'rearmed'
        WHEN time_differs AND NOT keep_finished THEN 'rearmed'
        ELSE 'finished' END
$$;
COMMENT ON FUNCTION tasktable.schedule_outcome IS 'The outcome of scheduling a task that exists, by its status and by '
    'the differences.';

CREATE FUNCTION tasktable.refuse_unwritten(id text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'task "%" was not written: a trigger or a policy leaves the write out', refuse_unwritten.id
        USING ERRCODE = 'object_not_in_prerequisite_state', COLUMN = 'id',
            HINT = 'Look at the policies and BEFORE triggers that were added to scheduled_tasks.';
END $$;
COMMENT ON FUNCTION tasktable.refuse_unwritten IS 'Fails a verb whose UPDATE or DELETE has found no row although the '
    'verb has locked it. Otherwise the verb would answer as if it had written.';

CREATE FUNCTION tasktable.refuse_wish(
    scheduled_at timestamptz, cron text, delay interval, debounce interval, unique_for interval, if_exists text
) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    longest CONSTANT interval := '87660 hours'; -- 10 years
    -- The field and the rule that it breaks. A month has no fixed length.
    broken  CONSTANT text[] := CASE
        WHEN if_exists <> 'keep' THEN ARRAY['if_exists', 'must be ''keep'' or null']
        WHEN cron IS NOT NULL AND num_nonnulls(delay, debounce, unique_for) > 0
            THEN ARRAY['delay', 'must be null for a recurring task, and so must debounce and unique_for']
        WHEN delay IS NOT NULL AND scheduled_at IS NOT NULL
            THEN ARRAY['delay', 'must not be given together with scheduled_at']
        WHEN delay <= '0' OR delay > longest OR extract(month FROM delay) <> 0 OR extract(year FROM delay) <> 0
            THEN ARRAY['delay', 'must be over 0 and at most 10 years, in days or less']
        WHEN debounce IS NOT NULL AND (delay IS NULL OR debounce < delay OR debounce > longest
                OR extract(month FROM debounce) <> 0 OR extract(year FROM debounce) <> 0)
            THEN ARRAY['debounce', 'must be at least delay, which must be given, and at most 10 years, in days or less']
        WHEN unique_for <= '0' OR unique_for > longest OR extract(month FROM unique_for) <> 0
                OR extract(year FROM unique_for) <> 0
            THEN ARRAY['unique_for', 'must be over 0 and at most 10 years, in days or less'] END;
BEGIN
    IF broken IS NOT NULL THEN
        RAISE EXCEPTION '% %', broken[1], broken[2] USING ERRCODE = 'check_violation', COLUMN = broken[1];
    END IF;
END $$;
COMMENT ON FUNCTION tasktable.refuse_wish IS 'Part of schedule: checks delay, debounce, unique_for and if_exists.';

CREATE FUNCTION tasktable.debounced(task tasktable.scheduled_tasks, delay interval, debounce interval)
RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
    now  CONSTANT timestamptz := tasktable.asked_now();
    cap  CONSTANT timestamptz := coalesce(task.rearmed_at, task.created_at) + debounce;
    due  timestamptz := now + delay;
BEGIN
    IF task.finished_at IS NULL THEN
        -- Past the cap, the task is due, or about to be. Only a task that somebody has put off for longer moves.
        due := CASE WHEN cap <= now THEN least(task.scheduled_at, due) ELSE least(due, cap) END;
        -- A move is an edit, which the history keeps. A task that is due already is held or about to be, and goes on.
        IF task.scheduled_at <= now OR abs(extract(epoch FROM due - task.scheduled_at)) < extract(epoch FROM delay) / 10
        THEN
            due := task.scheduled_at;
        END IF;
    END IF;
    RETURN due;
END $$;
COMMENT ON FUNCTION tasktable.debounced IS 'Part of schedule: the time of a task that exists, if it is debounced. A '
    'task moves only before its time, and only by a tenth of the delay or more.';

CREATE FUNCTION tasktable.schedule(
    payload jsonb, scheduled_at timestamptz DEFAULT NULL, id text DEFAULT NULL, priority int DEFAULT NULL,
    queue text DEFAULT NULL, expiration interval DEFAULT NULL,
    expected_execution_time interval DEFAULT NULL, max_attempts int DEFAULT NULL, tenant_id text DEFAULT NULL,
    entity text DEFAULT NULL, if_finished text DEFAULT NULL, scheduled_by text DEFAULT NULL, wake boolean DEFAULT true,
    verb text DEFAULT 'schedule', jitter interval DEFAULT NULL, retention interval DEFAULT NULL, cron text DEFAULT NULL,
    time_zone text DEFAULT NULL, overlap text DEFAULT NULL, catch_up text DEFAULT NULL,
    catch_up_paused text DEFAULT NULL, catch_up_limit int DEFAULT NULL, ends_at timestamptz DEFAULT NULL,
    max_occurrences int DEFAULT NULL, trace text DEFAULT NULL, if_dead jsonb DEFAULT NULL,
    if_running text DEFAULT NULL, replace boolean DEFAULT false, former_payloads jsonb DEFAULT NULL,
    group_key text DEFAULT NULL, backoff text DEFAULT NULL, timeout interval DEFAULT NULL,
    deadline timestamptz DEFAULT NULL, defaults boolean DEFAULT true, delay interval DEFAULT NULL,
    debounce interval DEFAULT NULL, unique_for interval DEFAULT NULL, if_exists text DEFAULT NULL
) RETURNS tasktable.verb_outcome LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    task_id    text := coalesce(schedule.id, tasktable.new_task_id());
    task       tasktable.scheduled_tasks;
    task_time  timestamptz;
    former     text;
    differs    boolean; -- the content, except for the recurrence
    recurs     boolean; -- the recurrence differs
    encoded_anew boolean := false; -- the payload is the same, but was encoded with a former key
    misses     int := 0; -- how often the row could be neither read nor inserted
    max_misses CONSTANT int := 20;
    -- In a higher isolation level the snapshot may be older than this call, and a row that looks unchanged may have
    -- been edited since. Only a lock notices that. With if_running, the lock keeps a task that waits from running
    -- before the caller's transaction commits.
    locked     boolean := current_setting('transaction_isolation') <> 'read committed'
        OR schedule.if_running IS NOT NULL;
    tenant     text := nullif(current_setting('tasktable.tenant', true), '');
    result     tasktable.verb_outcome;
BEGIN
    -- A null means the default, because a caller without a value passes null.
    IF schedule.defaults IS NOT FALSE AND EXISTS (SELECT FROM tasktable.task_defaults) THEN
        SELECT coalesce(schedule.queue, d.queue), coalesce(schedule.priority, d.priority),
            coalesce(schedule.expiration, d.expiration),
            coalesce(schedule.expected_execution_time, d.expected_execution_time),
            coalesce(schedule.max_attempts, d.max_attempts), coalesce(schedule.backoff, d.backoff),
            coalesce(schedule.timeout, d.timeout), coalesce(schedule.retention, d.retention),
            coalesce(schedule.group_key, d.group_key)
        INTO schedule.queue, schedule.priority, schedule.expiration, schedule.expected_execution_time,
            schedule.max_attempts, schedule.backoff, schedule.timeout, schedule.retention, schedule.group_key
        FROM tasktable.defaults_of(schedule.payload ->> 'type') AS d;
    END IF;
    schedule.priority := coalesce(schedule.priority, 0);
    schedule.queue := coalesce(schedule.queue, 'default');
    schedule.expected_execution_time := coalesce(schedule.expected_execution_time,
        greatest('5 minutes', CASE WHEN schedule.timeout <= '168 hours' THEN schedule.timeout END));
    schedule.max_attempts := coalesce(schedule.max_attempts, 10);
    schedule.wake := coalesce(schedule.wake, true);
    schedule.verb := coalesce(schedule.verb, 'schedule');
    IF schedule.if_finished NOT IN ('rearm', 'keep') THEN
        RAISE EXCEPTION 'if_finished must be ''rearm'', ''keep'' or null, not %', quote_literal(schedule.if_finished)
            USING ERRCODE = 'check_violation', COLUMN = 'if_finished';
    ELSIF schedule.if_running <> 'again' THEN
        RAISE EXCEPTION 'if_running must be ''again'' or null, not %', quote_literal(schedule.if_running)
            USING ERRCODE = 'check_violation', COLUMN = 'if_running';
    ELSIF schedule.cron IS NOT NULL AND schedule.if_running IS NOT NULL THEN
        RAISE EXCEPTION 'if_running must be null for a recurring task, which never runs itself'
            USING ERRCODE = 'check_violation', COLUMN = 'if_running';
    ELSIF schedule.ends_at < schedule.scheduled_at THEN
        RAISE EXCEPTION 'ends_at must not be before scheduled_at, because the task would never fire'
            USING ERRCODE = 'check_violation', COLUMN = 'ends_at';
    END IF;
    IF num_nonnulls(schedule.delay, schedule.debounce, schedule.unique_for, schedule.if_exists) > 0 THEN
        schedule.delay := tasktable.in_hours(schedule.delay);
        schedule.debounce := tasktable.in_hours(schedule.debounce);
        schedule.unique_for := tasktable.in_hours(schedule.unique_for);
        PERFORM tasktable.refuse_wish(schedule.scheduled_at, schedule.cron, schedule.delay, schedule.debounce,
            schedule.unique_for, schedule.if_exists);
        -- After its time another call is a new wish. While a debounced task runs, a call asks for one more run.
        schedule.if_finished := coalesce(schedule.if_finished,
            CASE WHEN schedule.unique_for IS NOT NULL THEN 'rearm' END);
        schedule.if_running := coalesce(schedule.if_running, CASE WHEN schedule.debounce IS NOT NULL THEN 'again' END);
        locked := locked OR schedule.if_running IS NOT NULL;
    END IF;
    IF schedule.if_dead IS NOT NULL THEN -- in the form in which it is stored, for the comparison below
        schedule.if_dead := tasktable.if_dead_of(schedule.if_dead, task_id, schedule.tenant_id);
    END IF;
    result.id := task_id;
    LOOP
        -- The first look takes no lock, because an unchanged task is not written at all, not even by a row lock.
        IF locked THEN
            SELECT * INTO task FROM tasktable.scheduled_tasks AS t WHERE t.id = task_id FOR NO KEY UPDATE;
        ELSE
            SELECT * INTO task FROM tasktable.scheduled_tasks AS t WHERE t.id = task_id;
        END IF;
        IF schedule.deadline <= coalesce(schedule.scheduled_at, CASE WHEN NOT FOUND
            THEN tasktable.asked_now() + coalesce(schedule.delay, '0') END)
        THEN
            RAISE EXCEPTION 'deadline must be later than the time of the task, because nothing runs after it'
                USING ERRCODE = 'check_violation', COLUMN = 'deadline';
        ELSIF NOT FOUND THEN
            former := tasktable.enter_change(schedule.verb, schedule.scheduled_by, schedule.wake);
            INSERT INTO tasktable.scheduled_tasks AS t (id, payload, scheduled_at, priority, queue, expiration,
                expected_execution_time, max_attempts, tenant_id, entity, scheduled_by, trace, jitter, retention, cron,
                time_zone, overlap, catch_up, catch_up_paused, catch_up_limit, ends_at, max_occurrences, if_dead,
                group_key, backoff, timeout, deadline)
            VALUES (task_id, schedule.payload, coalesce(schedule.scheduled_at, tasktable.asked_now()
                    + coalesce(schedule.delay, '0')),
                schedule.priority, schedule.queue, schedule.expiration, schedule.expected_execution_time,
                schedule.max_attempts, schedule.tenant_id, schedule.entity, schedule.scheduled_by, schedule.trace,
                schedule.jitter, schedule.retention, schedule.cron, schedule.time_zone, schedule.overlap,
                schedule.catch_up, schedule.catch_up_paused, schedule.catch_up_limit, schedule.ends_at,
                schedule.max_occurrences, schedule.if_dead, schedule.group_key, schedule.backoff, schedule.timeout,
                schedule.deadline)
            ON CONFLICT (id) DO NOTHING
            RETURNING t.revision INTO result.revision;
            former := tasktable.leave_change(former);
            IF result.revision IS NOT NULL THEN
                result.outcome := 'created';
                RETURN result;
            END IF;
            -- Another transaction has inserted the row, so look again. It may be deleted again meanwhile, but not
            -- often.
            misses := misses + 1;
            IF misses >= max_misses THEN
                RAISE EXCEPTION 'task "%" can neither be read nor inserted: row level security hides the row that has '
                    'this id, or a trigger leaves the insert out', task_id
                    USING ERRCODE = 'object_not_in_prerequisite_state', COLUMN = 'id',
                        HINT = 'Look at the policies and BEFORE INSERT triggers that were added to scheduled_tasks.';
            END IF;
            CONTINUE;
        END IF;
        misses := 0;
        IF tenant IS NOT NULL AND task.tenant_id IS DISTINCT FROM tenant THEN
            RAISE EXCEPTION 'id "%" is the id of another tenant''s task: choose another id', task_id
                USING ERRCODE = 'insufficient_privilege', COLUMN = 'id';
        ELSIF task.type <> schedule.payload ->> 'type' AND starts_with(task_id, 'task-' || task.type || '-')
            AND starts_with(task_id, 'task-' || (schedule.payload ->> 'type') || '-')
        THEN -- send-email and welcome-42, send-email-welcome and 42
            RAISE EXCEPTION 'id "%" is made of type "%" and a key, and would also be that of type "%": rename one of '
                'the types, or give the task another id', task_id, task.type, schedule.payload ->> 'type'
                USING ERRCODE = 'check_violation', COLUMN = 'id';
        ELSIF (task.cron IS NULL) <> (schedule.cron IS NULL) AND schedule.replace IS NOT TRUE THEN
            -- A caller that only forgets cron would otherwise end a nightly task, and run it at once. The code is of
            -- the class integrity_constraint_violation, and is no other error's.
            RAISE EXCEPTION 'task "%" %', task_id, CASE WHEN schedule.cron IS NULL
                    THEN 'recurs, and the call has no cron, so that it would not recur any more'
                    ELSE 'does not recur, and the call has cron, so that it would not run itself any more' END
                USING ERRCODE = '23T01', COLUMN = 'cron', HINT = 'A call with replace => true changes that.';
        END IF;
        IF (schedule.if_exists IS NOT NULL AND task.finished_at IS NULL
                OR schedule.unique_for > tasktable.asked_now() - coalesce(task.rearmed_at, task.created_at))
            AND task.status <> 'CANCELLED'
        THEN
            result.revision := task.revision;
            result.outcome := 'duplicate';
            RETURN result;
        END IF;
        -- Two times that differ by rounding alone are the same. Without a time the task keeps its time, unless the
        -- caller wants a finished task to run again.
        task_time := CASE WHEN schedule.debounce IS NOT NULL
                THEN tasktable.debounced(task, schedule.delay, schedule.debounce)
            WHEN schedule.scheduled_at IS NULL AND task.finished_at IS NOT NULL AND (schedule.if_finished = 'rearm'
                OR schedule.delay IS NOT NULL AND task.status = 'CANCELLED')
            -- The clock of a test stands still, and now must be another time than the task's.
            THEN tasktable.asked_now() + coalesce(schedule.delay, CASE WHEN tasktable.asked_now() = task.scheduled_at
                THEN interval '-1 microsecond' ELSE interval '0' END)
            WHEN schedule.scheduled_at IS NULL OR tasktable.same_time(schedule.scheduled_at, task.scheduled_at)
                THEN task.scheduled_at
            ELSE schedule.scheduled_at END;
        IF schedule.former_payloads IS NOT NULL THEN
            encoded_anew := EXISTS (SELECT FROM jsonb_array_elements(schedule.former_payloads) AS former
                WHERE former.value = task.payload);
            IF encoded_anew AND task.fence IS NOT NULL THEN -- otherwise the task would run again
                schedule.payload := task.payload;
            END IF;
        END IF;
        -- A payload that is null differs as well, so that the UPDATE refuses it.
        differs := (task.payload, task.priority, task.queue, task.expiration, task.expected_execution_time,
                task.max_attempts, task.tenant_id, task.entity, task.jitter, task.retention, task.if_dead,
                task.group_key, task.backoff, task.timeout)
            IS DISTINCT FROM (schedule.payload, schedule.priority, schedule.queue, schedule.expiration,
                schedule.expected_execution_time, schedule.max_attempts, schedule.tenant_id, schedule.entity,
                schedule.jitter, schedule.retention, schedule.if_dead, schedule.group_key, schedule.backoff,
                schedule.timeout)
            OR NOT tasktable.same_time(schedule.deadline, task.deadline);
        recurs := task.cron IS DISTINCT FROM schedule.cron
            OR schedule.cron IS NOT NULL AND ((task.time_zone, task.overlap, task.catch_up, task.catch_up_paused,
                    task.catch_up_limit, task.max_occurrences)
                IS DISTINCT FROM (coalesce(schedule.time_zone, 'UTC'), coalesce(schedule.overlap, 'skip'),
                    coalesce(schedule.catch_up, 'latest'), coalesce(schedule.catch_up_paused, 'none'),
                    coalesce(schedule.catch_up_limit, 100), schedule.max_occurrences)
                OR NOT tasktable.same_time(schedule.ends_at, task.ends_at));
        result.revision := task.revision;
        result.outcome := tasktable.schedule_outcome(task.status, differs, recurs OR task.scheduled_at <> task_time,
            coalesce(schedule.if_finished = 'keep', false));
        IF result.outcome = 'unchanged' AND schedule.if_running = 'again' AND task.fence > task.revision THEN
            RETURN tasktable.run_again(task_id, schedule.scheduled_by, schedule.wake);
        END IF;
        IF result.outcome IN ('unchanged', 'finished') THEN
            RETURN result;
        END IF;
        IF NOT locked THEN
            locked := true;
            CONTINUE;
        END IF;
        former := tasktable.enter_change(schedule.verb, schedule.scheduled_by, schedule.wake, encoded_anew);
        UPDATE tasktable.scheduled_tasks AS t
        SET payload = schedule.payload, scheduled_at = task_time, priority = schedule.priority, queue = schedule.queue,
            expiration = schedule.expiration, expected_execution_time = schedule.expected_execution_time,
            max_attempts = schedule.max_attempts, tenant_id = schedule.tenant_id, entity = schedule.entity,
            trace = schedule.trace, jitter = schedule.jitter, retention = schedule.retention, cron = schedule.cron,
            time_zone = schedule.time_zone, overlap = schedule.overlap, catch_up = schedule.catch_up,
            catch_up_paused = schedule.catch_up_paused, catch_up_limit = schedule.catch_up_limit,
            ends_at = schedule.ends_at, max_occurrences = schedule.max_occurrences, if_dead = schedule.if_dead,
            group_key = schedule.group_key, backoff = schedule.backoff, timeout = schedule.timeout,
            deadline = schedule.deadline,
            status = CASE WHEN result.outcome = 'rearmed' THEN 'QUEUED' ELSE t.status END,
            run_now_at = CASE WHEN result.outcome = 'rearmed' THEN NULL ELSE t.run_now_at END
        WHERE t.id = task_id
        RETURNING t.revision INTO result.revision;
        former := tasktable.leave_change(former);
        IF NOT FOUND THEN
            PERFORM tasktable.refuse_unwritten(task_id);
        END IF;
        RETURN result;
    END LOOP;
END $$;
COMMENT ON FUNCTION tasktable.schedule IS 'Creates or updates a task. scheduled_at null keeps the time of an existing '
    'task; a new one is due now. A finished task runs again only at another time. if_finished => ''rearm'' without '
    'scheduled_at runs it again now, ''keep'' never. if_running => ''again'' runs an unchanged task once more that '
    'runs. Without replace => true a recurring task stays one, and another task does not become one. former_payloads '
    'is an array of encodings of the same payload with former keys. Fields that are null have the defaults of the '
    'type, unless defaults => false. '
    'delay makes a task that is new, or runs again, due so long after now. With debounce each call moves the task '
    'that waits to delay from now, but at most to debounce after the first call. if_exists => ''keep'' leaves a task '
    'that has not ended as it is, and unique_for leaves any that was asked for within this time. '
    'Outcome: created, rescheduled, rearmed, again, unchanged, duplicate or finished. The last three write nothing.';

CREATE FUNCTION tasktable.insert_tasks(tasks jsonb, scheduled_by text, wake boolean, verb text)
RETURNS TABLE ("position" bigint, id text, revision bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    former text := tasktable.enter_change(
        coalesce(insert_tasks.verb, 'schedule'), NULL, coalesce(insert_tasks.wake, true));
    places jsonb := (SELECT jsonb_object_agg(each.value ->> 'id', each.ordinality)
        FROM jsonb_array_elements(insert_tasks.tasks) WITH ORDINALITY AS each); -- by id
BEGIN
    RETURN QUERY
    WITH task AS MATERIALIZED (
        SELECT each.value AS task, each.value ->> 'id' AS id FROM jsonb_array_elements(insert_tasks.tasks) AS each
    ), made AS (
        INSERT INTO tasktable.scheduled_tasks AS t (id, payload, scheduled_at, priority, queue, expiration,
            expected_execution_time, max_attempts, tenant_id, entity, scheduled_by, jitter, retention, time_zone,
            overlap, catch_up, catch_up_paused, catch_up_limit, ends_at, max_occurrences, trace, if_dead, group_key,
            backoff, timeout, deadline)
        SELECT task.id, task.task -> 'payload',
            coalesce((task.task ->> 'scheduled_at')::timestamptz, tasktable.asked_now()),
            coalesce((task.task ->> 'priority')::int, d.priority, 0),
            coalesce(task.task ->> 'queue', d.queue, 'default'),
            coalesce((task.task ->> 'expiration')::interval, d.expiration),
            coalesce((task.task ->> 'expected_execution_time')::interval, d.expected_execution_time, greatest(
                '5 minutes', coalesce((task.task ->> 'timeout')::interval, d.timeout))),
            coalesce((task.task ->> 'max_attempts')::int, d.max_attempts, 10), task.task ->> 'tenant_id',
            task.task ->> 'entity', coalesce(task.task ->> 'scheduled_by', insert_tasks.scheduled_by),
            (task.task ->> 'jitter')::interval, coalesce((task.task ->> 'retention')::interval, d.retention),
            -- There is no cron here, so the trigger refuses these, as it does for schedule.
            task.task ->> 'time_zone', task.task ->> 'overlap', task.task ->> 'catch_up',
            task.task ->> 'catch_up_paused', (task.task ->> 'catch_up_limit')::int,
            (task.task ->> 'ends_at')::timestamptz, (task.task ->> 'max_occurrences')::int, task.task ->> 'trace',
            nullif(task.task -> 'if_dead', 'null'), coalesce(task.task ->> 'group_key', d.group_key),
            coalesce(task.task ->> 'backoff', d.backoff), coalesce((task.task ->> 'timeout')::interval, d.timeout),
            (task.task ->> 'deadline')::timestamptz
        FROM task LEFT JOIN LATERAL tasktable.defaults_of(task.task -> 'payload' ->> 'type') AS d
            ON (task.task ->> 'defaults')::boolean IS NOT FALSE
        ORDER BY task.id || '~' COLLATE "C"
        -- Another call may have inserted a task since schedule_many looked. Its row is locked here, in its turn. If it
        -- were locked after the last insert, two calls could deadlock. Nothing is written.
        ON CONFLICT (id) DO UPDATE SET id = t.id WHERE false
        RETURNING t.id::text AS id, t.revision
    )
    -- A join, whose plan depends on statistics, could compare each of the rows with each of the tasks.
    SELECT (places ->> made.id)::bigint, made.id, made.revision FROM made;
    former := tasktable.leave_change(former);
END $$;
COMMENT ON FUNCTION tasktable.insert_tasks IS 'Part of schedule_many: inserts many tasks that have ids and do not '
    'recur, by one statement. Returns those that did not exist.';

CREATE FUNCTION tasktable.schedule_many(
    tasks jsonb, scheduled_by text DEFAULT NULL, wake boolean DEFAULT true, verb text DEFAULT 'schedule'
) RETURNS TABLE ("position" bigint, id text, revision bigint, outcome text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    made bigint[] := '{}'; -- positions
BEGIN
    -- For fewer than 20 tasks a second statement is not worth it. If one of the tasks exists, all are scheduled one
    -- after the other.
    IF jsonb_typeof(schedule_many.tasks) = 'array' AND jsonb_array_length(schedule_many.tasks) >= 20 AND NOT EXISTS (
        SELECT 1 FROM jsonb_array_elements(schedule_many.tasks) AS each
        WHERE each.value ->> 'id' IS NULL OR each.value ->> 'cron' IS NOT NULL
            OR coalesce(each.value ->> 'if_finished', 'rearm') NOT IN ('rearm', 'keep')
            OR coalesce(each.value ->> 'if_running', 'again') <> 'again'
            OR num_nonnulls(each.value ->> 'delay', each.value ->> 'debounce', each.value ->> 'unique_for',
                each.value ->> 'if_exists', each.value ->> 'deadline') > 0
            OR EXISTS (SELECT 1 FROM tasktable.scheduled_tasks AS t WHERE t.id = each.value ->> 'id')
        ) AND (SELECT count(DISTINCT each.value ->> 'id') FROM jsonb_array_elements(schedule_many.tasks) AS each)
            = jsonb_array_length(schedule_many.tasks)
    THEN
        FOR "position", id, revision IN SELECT * FROM tasktable.insert_tasks(
            schedule_many.tasks, schedule_many.scheduled_by, schedule_many.wake, schedule_many.verb)
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
    SELECT task.ordinality, done.id, done.revision, done.outcome
    FROM (
        SELECT each.value AS task, each.ordinality, coalesce(each.value ->> 'id', tasktable.new_task_id()) AS id
        FROM jsonb_array_elements(schedule_many.tasks) WITH ORDINALITY AS each
        WHERE each.ordinality <> ALL (made)
        ORDER BY (each.value ->> 'id') || '~' COLLATE "C", each.ordinality
        OFFSET 0
    ) AS task
    CROSS JOIN LATERAL tasktable.schedule(
        payload => task.task -> 'payload', scheduled_at => (task.task ->> 'scheduled_at')::timestamptz, id => task.id,
        priority => (task.task ->> 'priority')::int, queue => task.task ->> 'queue',
        expiration => (task.task ->> 'expiration')::interval,
        expected_execution_time => (task.task ->> 'expected_execution_time')::interval,
        max_attempts => (task.task ->> 'max_attempts')::int, tenant_id => task.task ->> 'tenant_id',
        entity => task.task ->> 'entity', if_finished => task.task ->> 'if_finished',
        scheduled_by => coalesce(task.task ->> 'scheduled_by', schedule_many.scheduled_by), wake => schedule_many.wake,
        verb => schedule_many.verb, jitter => (task.task ->> 'jitter')::interval,
        retention => (task.task ->> 'retention')::interval, cron => task.task ->> 'cron',
        time_zone => task.task ->> 'time_zone', overlap => task.task ->> 'overlap',
        catch_up => task.task ->> 'catch_up', catch_up_paused => task.task ->> 'catch_up_paused',
        catch_up_limit => (task.task ->> 'catch_up_limit')::int, ends_at => (task.task ->> 'ends_at')::timestamptz,
        max_occurrences => (task.task ->> 'max_occurrences')::int, trace => task.task ->> 'trace',
        if_dead => nullif(task.task -> 'if_dead', 'null'),
        if_running => task.task ->> 'if_running', replace => (task.task ->> 'replace')::boolean,
        former_payloads => task.task -> 'former_payloads', group_key => task.task ->> 'group_key',
        backoff => task.task ->> 'backoff', timeout => (task.task ->> 'timeout')::interval,
        deadline => (task.task ->> 'deadline')::timestamptz, defaults => (task.task ->> 'defaults')::boolean,
        delay => (task.task ->> 'delay')::interval, debounce => (task.task ->> 'debounce')::interval,
        unique_for => (task.task ->> 'unique_for')::interval, if_exists => task.task ->> 'if_exists'
    ) AS done;
END $$;
COMMENT ON FUNCTION tasktable.schedule_many IS 'Schedules each object of a JSON array. Its keys are the arguments of '
    'schedule, except wake and verb. scheduled_by absent: the argument of this function. position counts from 1 in the '
    'array. Of two objects with one id the later wins.';

CREATE FUNCTION tasktable.sync(entity text, tasks jsonb, by text DEFAULT NULL, wake boolean DEFAULT true)
RETURNS TABLE ("position" bigint, id text, revision bigint, outcome text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    tenant text := nullif(current_setting('tasktable.tenant', true), '');
    each   record;
    listed jsonb; -- by id: whether the task recurs. A join could compare each row with each of the tasks.
BEGIN
    IF sync.entity IS NULL THEN
        RAISE EXCEPTION 'entity must be given, not null' USING ERRCODE = 'not_null_violation', COLUMN = 'entity';
    END IF;
    PERFORM sync.entity::tasktable.task_entity;
    IF sync.tasks IS NULL OR jsonb_typeof(sync.tasks) <> 'array' THEN
        RAISE EXCEPTION 'tasks must be a JSON array, if need be an empty one'
            USING ERRCODE = 'check_violation', COLUMN = 'tasks';
    END IF;
    IF EXISTS (SELECT 1 FROM jsonb_array_elements(sync.tasks) AS one
        WHERE num_nonnulls(one.value ->> 'if_exists', one.value ->> 'unique_for') > 0)
    THEN
        RAISE EXCEPTION 'if_exists and unique_for must be null in sync, which makes the tasks exactly these'
            USING ERRCODE = 'check_violation', COLUMN = 'if_exists';
    END IF;
    IF EXISTS (SELECT 1 FROM jsonb_array_elements(sync.tasks) AS one WHERE one.value ->> 'id' IS NULL) THEN
        -- With a new id at each call the task would be another one each time, and the one before would be cancelled.
        RAISE EXCEPTION 'id must be given for each of the tasks' USING ERRCODE = 'not_null_violation', COLUMN = 'id';
    END IF;
    listed := (SELECT coalesce(jsonb_object_agg(one.value ->> 'id', one.value ->> 'cron' IS NOT NULL), '{}')
        FROM jsonb_array_elements(sync.tasks) AS one);
    -- One sync of an entity at a time, because two at once would each miss the tasks that the other adds. The lock is
    -- one of 1,024, because the lock table belongs to the whole server. A transaction that syncs tens of thousands of
    -- entities would fill it, and statements in other databases would fail.
    PERFORM pg_advisory_xact_lock(hashtextextended('tasktable.sync ' || (hashtextextended(sync.entity, 0) & 1023), 0));
    FOR each IN
        SELECT * FROM (
            SELECT one.ordinality AS place, one.value ->> 'id' AS id,
                one.value || jsonb_build_object('entity', sync.entity) AS task
            FROM jsonb_array_elements(sync.tasks) WITH ORDINALITY AS one
            UNION ALL
            SELECT NULL, t.id, NULL FROM tasktable.scheduled_tasks AS t
            WHERE t.entity = sync.entity AND t.status IN ('QUEUED', 'PAUSED', 'EXECUTING')
                -- Tenants may have entities of the same name.
                AND (tenant IS NULL OR t.tenant_id = tenant)
                AND NOT listed ? t.id
                -- The caller lists a recurring task, but not its occurrences.
                AND NOT coalesce((listed -> t.parent_id)::boolean, false)
                -- The caller cannot list a follow-up, because a handler asked for it.
                AND t.spawned_by IS NULL
        ) AS union_of_both
        ORDER BY union_of_both.id || '~' COLLATE "C", union_of_both.place
    LOOP
        IF each.place IS NOT NULL THEN
            RETURN QUERY SELECT each.place, done.id, done.revision, done.outcome
            FROM tasktable.schedule_many(jsonb_build_array(each.task), sync.by, sync.wake, 'sync') AS done;
            CONTINUE;
        END IF;
        -- The task may have ended since, or belong to another entity. The lock makes sure.
        PERFORM 1 FROM tasktable.scheduled_tasks AS t
        WHERE t.id = each.id AND t.entity = sync.entity AND t.status IN ('QUEUED', 'PAUSED', 'EXECUTING')
            AND (tenant IS NULL OR t.tenant_id = tenant) FOR NO KEY UPDATE;
        IF FOUND THEN
            RETURN QUERY SELECT NULL::bigint, done.id, done.revision, done.outcome
            FROM tasktable.cancel(each.id, sync.by) AS done;
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION tasktable.sync IS 'Makes the waiting and running tasks of an entity exactly these: schedules each, '
    'as schedule_many does, and cancels the others, which have a null position in the result. Each needs an id. '
    'Follow-ups, and occurrences of recurring tasks that are listed, are not cancelled.';

-- A verb of one task is one function: it enters, writes what it does to a task of that status, and leaves with the
-- outcome. A write that finds no row makes the revision null. A verb must not write a task that is absent, because
-- somebody may insert it meanwhile.
CREATE TYPE tasktable.verb_task AS (
    id text, revision bigint, status text, fence bigint, cron text, scheduled_at timestamptz,
    paused_until timestamptz, archived_at timestamptz, again_at timestamptz, former text
);
COMMENT ON TYPE tasktable.verb_task IS 'A task as its verb has found and locked it, and the context before the verb. '
    'The status is null if the task is absent.';

CREATE FUNCTION tasktable.enter_verb(verb text, id text, by text, wake boolean)
RETURNS tasktable.verb_task LANGUAGE plpgsql AS $$
DECLARE
    task   tasktable.verb_task;
    tenant text := nullif(current_setting('tasktable.tenant', true), '');
BEGIN
    FOR look IN 1..2 LOOP
        SELECT t.id, t.revision, t.status, t.fence, t.cron, t.scheduled_at, t.paused_until, t.archived_at, t.again_at
        INTO task FROM tasktable.scheduled_tasks AS t
        WHERE t.id = enter_verb.id AND (tenant IS NULL OR t.tenant_id = tenant) FOR NO KEY UPDATE;
        -- If another transaction has deleted the task and scheduled it anew, the look that waited for it finds neither
        -- of the two rows.
        EXIT WHEN FOUND;
    END LOOP;
    task.id := enter_verb.id;
    task.former := tasktable.enter_change(verb, by, wake);
    RETURN task;
END $$;
COMMENT ON FUNCTION tasktable.enter_verb IS 'Begins a verb of one task: locks the task, and names the verb and the '
    'caller for its change. leave_verb ends the verb.';

CREATE FUNCTION tasktable.leave_verb(task tasktable.verb_task, outcome text)
RETURNS tasktable.verb_outcome LANGUAGE plpgsql AS $$
DECLARE
    context text := tasktable.leave_change(task.former);
BEGIN
    IF task.status IS NULL THEN
        outcome := 'absent';
    ELSIF task.revision IS NULL THEN
        PERFORM tasktable.refuse_unwritten(task.id);
    END IF;
    RETURN (task.id, CASE WHEN outcome <> 'deleted' THEN task.revision END, outcome)::tasktable.verb_outcome;
END $$;
COMMENT ON FUNCTION tasktable.leave_verb IS 'Ends a verb of one task, and returns its result. It is an error if the '
    'verb has written nothing although it meant to.';

CREATE FUNCTION tasktable.reschedule(id text, at timestamptz, by text DEFAULT NULL, wake boolean DEFAULT true)
RETURNS tasktable.verb_outcome LANGUAGE plpgsql AS $$
DECLARE
    task    tasktable.verb_task;
    outcome text;
BEGIN
    IF at IS NULL THEN
        RAISE EXCEPTION 'at must be a time, not null' USING ERRCODE = 'not_null_violation', COLUMN = 'at';
    END IF;
    task := tasktable.enter_verb('reschedule', id, by, wake);
    outcome := tasktable.schedule_outcome(task.status, false, NOT tasktable.same_time(at, task.scheduled_at), false);
    IF outcome IN ('rescheduled', 'rearmed') AND task.status IS NOT NULL THEN
        UPDATE tasktable.scheduled_tasks AS t
        SET scheduled_at = at, status = CASE WHEN outcome = 'rearmed' THEN 'QUEUED' ELSE t.status END,
            run_now_at = CASE WHEN outcome = 'rearmed' THEN NULL ELSE t.run_now_at END
        WHERE t.id = task.id RETURNING t.revision INTO task.revision;
    END IF;
    RETURN tasktable.leave_verb(task, outcome);
END $$;
COMMENT ON FUNCTION tasktable.reschedule IS 'Changes the time of a task, and nothing else. Outcome: rescheduled, '
    'rearmed, unchanged, finished or absent.';

CREATE FUNCTION tasktable.cancel(id text, by text DEFAULT NULL) RETURNS tasktable.verb_outcome LANGUAGE plpgsql AS $$
DECLARE
    task tasktable.verb_task := tasktable.enter_verb('cancel', id, by, true);
BEGIN
    IF task.status IN ('QUEUED', 'PAUSED', 'EXECUTING') THEN
        UPDATE tasktable.scheduled_tasks AS t SET status = 'CANCELLED'
        WHERE t.id = task.id RETURNING t.revision INTO task.revision;
        RETURN tasktable.leave_verb(task, 'cancelled');
    END IF;
    RETURN tasktable.leave_verb(task, CASE task.status WHEN 'CANCELLED' THEN 'unchanged' ELSE 'finished' END);
END $$;
COMMENT ON FUNCTION tasktable.cancel IS 'Cancels a task. If it runs, the context of its handler ends. Outcome: '
    'cancelled, unchanged, finished or absent.';

CREATE FUNCTION tasktable.pause(id text, by text DEFAULT NULL, until timestamptz DEFAULT NULL)
RETURNS tasktable.verb_outcome LANGUAGE plpgsql AS $$
DECLARE
    task tasktable.verb_task := tasktable.enter_verb('pause', id, by, true);
BEGIN
    IF task.status IN ('QUEUED', 'EXECUTING')
        OR task.status = 'PAUSED' AND NOT tasktable.same_time(until, task.paused_until)
    THEN
        UPDATE tasktable.scheduled_tasks AS t SET status = 'PAUSED', paused_until = until
        WHERE t.id = task.id RETURNING t.revision INTO task.revision;
        RETURN tasktable.leave_verb(task, 'paused');
    END IF;
    RETURN tasktable.leave_verb(task, CASE task.status WHEN 'PAUSED' THEN 'unchanged' ELSE 'finished' END);
END $$;
COMMENT ON FUNCTION tasktable.pause IS 'Keeps a task from starting until it is resumed, or until a time. A running '
    'attempt continues, but a retry waits for the resume. Outcome: paused, unchanged, finished or absent.';

CREATE FUNCTION tasktable.resume(id text, by text DEFAULT NULL) RETURNS tasktable.verb_outcome LANGUAGE plpgsql AS $$
DECLARE
    task tasktable.verb_task := tasktable.enter_verb('resume', id, by, true);
BEGIN
    IF task.status = 'PAUSED' THEN
        UPDATE tasktable.scheduled_tasks AS t SET status = 'QUEUED'
        WHERE t.id = task.id RETURNING t.revision INTO task.revision;
        RETURN tasktable.leave_verb(task, 'queued');
    END IF;
    RETURN tasktable.leave_verb(task,
        CASE WHEN task.status IN ('QUEUED', 'EXECUTING') THEN 'unchanged' ELSE 'finished' END);
END $$;
COMMENT ON FUNCTION tasktable.resume IS 'Queues a paused task for its time. If that has passed, it is due now. '
    'Outcome: queued, unchanged, finished or absent.';

CREATE FUNCTION tasktable.make_due(id text, at timestamptz) RETURNS bigint LANGUAGE sql AS $$
    UPDATE tasktable.scheduled_tasks AS t SET status = 'QUEUED', run_now_at = at,
        deadline = CASE WHEN t.deadline > at THEN t.deadline END
    WHERE t.id = make_due.id RETURNING t.revision
$$;
COMMENT ON FUNCTION tasktable.make_due IS 'Part of run_now and retry: queues a task for a time, and takes away a '
    'deadline before that, because the task would expire at once. Returns the revision.';

CREATE FUNCTION tasktable.run_now(id text, by text DEFAULT NULL, wake boolean DEFAULT true)
RETURNS tasktable.verb_outcome LANGUAGE plpgsql AS $$
DECLARE
    task tasktable.verb_task := tasktable.enter_verb('run_now', id, by, wake);
BEGIN
    IF task.status = 'EXECUTING'
        OR task.status = 'PAUSED' AND task.fence > task.revision -- after its claim, so an attempt may run
    THEN
        -- No revision is drawn, so the attempt stays current. It ends a pause, and the trigger makes EXECUTING of
        -- QUEUED. Whoever comes second writes nothing: the lock is enough, because it delays the end of the attempt.
        IF task.again_at IS NULL OR task.status = 'PAUSED' THEN
            UPDATE tasktable.scheduled_tasks AS t SET again_at = coalesce(t.again_at, tasktable.asked_now()),
                status = CASE t.status WHEN 'PAUSED' THEN 'QUEUED' ELSE t.status END
            WHERE t.id = task.id RETURNING t.revision INTO task.revision;
        END IF;
        RETURN tasktable.leave_verb(task, 'again');
    ELSIF task.cron IS NOT NULL THEN
        -- Forks an occurrence besides the planned ones. The task itself stays as it is, even if it is paused or has
        -- ended.
        PERFORM tasktable.fork_occurrence(task.id, tasktable.asked_now(), NULL, by, wake, true);
    ELSIF task.status IS NOT NULL THEN
        task.revision := tasktable.make_due(task.id, tasktable.asked_now());
    END IF;
    RETURN tasktable.leave_verb(task, 'queued');
END $$;
COMMENT ON FUNCTION tasktable.run_now IS 'Makes a task due now. A finished one runs again. One that runs, runs once '
    'more after the attempt has ended. Outcome: queued, again or absent.';

CREATE FUNCTION tasktable.run_again(id text, by text, wake boolean)
RETURNS tasktable.verb_outcome LANGUAGE plpgsql AS $$
DECLARE
    task tasktable.verb_task := tasktable.enter_verb('schedule', id, by, wake);
BEGIN
    IF task.status IS NOT NULL AND task.again_at IS NULL THEN
        UPDATE tasktable.scheduled_tasks AS t SET again_at = tasktable.asked_now()
        WHERE t.id = task.id RETURNING t.revision INTO task.revision;
    END IF;
    RETURN tasktable.leave_verb(task, 'again');
END $$;
COMMENT ON FUNCTION tasktable.run_again IS 'Part of schedule: if_running of a task that a node has claimed. Other than '
    'run_now it ends no pause.';

CREATE FUNCTION tasktable.retry(
    id text, by text DEFAULT NULL, wake boolean DEFAULT true, delay interval DEFAULT NULL
) RETURNS tasktable.verb_outcome LANGUAGE plpgsql AS $$
DECLARE
    task tasktable.verb_task;
BEGIN
    delay := tasktable.in_hours(delay);
    IF delay < interval '0' OR delay > interval '24 hours' OR extract(month FROM delay) <> 0
        OR extract(year FROM delay) <> 0
    THEN
        RAISE EXCEPTION 'delay of retry must be from 0 to 24 hours, without months, got %', delay
            USING ERRCODE = 'check_violation', COLUMN = 'delay';
    END IF;
    task := tasktable.enter_verb('retry', id, by, wake);
    IF task.status IN ('FAILED', 'EXPIRED') THEN
        IF task.cron IS NOT NULL AND delay > interval '0' THEN
            RAISE EXCEPTION 'delay of retry must be null for the recurring task "%", which fires at its times', task.id
                USING ERRCODE = 'check_violation', COLUMN = 'delay';
        END IF;
        task.revision := tasktable.make_due(task.id, tasktable.asked_now() + coalesce(delay, interval '0'));
        RETURN tasktable.leave_verb(task, 'queued');
    END IF;
    RETURN tasktable.leave_verb(task,
        CASE WHEN task.status IN ('COMPLETED', 'SKIPPED') THEN 'finished' ELSE 'unchanged' END);
END $$;
COMMENT ON FUNCTION tasktable.retry IS 'Makes a FAILED or EXPIRED task due now, or after a delay of at most 24 hours, '
    'with all its attempts. Outcome: queued, unchanged, finished or absent.';

CREATE FUNCTION tasktable.delete(id text, by text DEFAULT NULL) RETURNS tasktable.verb_outcome LANGUAGE plpgsql AS $$
DECLARE
    task tasktable.verb_task := tasktable.enter_verb('delete', id, by, true);
BEGIN
    IF task.fence IS NOT NULL THEN
        RETURN tasktable.leave_verb(task, 'running');
    ELSIF task.status IS NOT NULL THEN
        DELETE FROM tasktable.scheduled_tasks AS t WHERE t.id = task.id RETURNING t.revision INTO task.revision;
    END IF;
    RETURN tasktable.leave_verb(task, 'deleted');
END $$;
COMMENT ON FUNCTION tasktable.delete IS 'Deletes a task. Its history stays. Outcome: deleted, running (a claim holds '
    'it) or absent.';

CREATE FUNCTION tasktable.archive(id text, note text DEFAULT NULL, by text DEFAULT NULL)
RETURNS tasktable.verb_outcome LANGUAGE plpgsql AS $$
DECLARE
    task tasktable.verb_task := tasktable.enter_verb('archive', id, by, false);
BEGIN
    IF task.status IN ('FAILED', 'EXPIRED') AND task.archived_at IS NULL THEN
        UPDATE tasktable.scheduled_tasks AS t SET archived_at = clock_timestamp(), archived_note = note
        WHERE t.id = task.id RETURNING t.revision INTO task.revision;
        RETURN tasktable.leave_verb(task, 'archived');
    END IF;
    RETURN tasktable.leave_verb(task, 'unchanged');
END $$;
COMMENT ON FUNCTION tasktable.archive IS 'Marks a dead letter as dealt with, with a note. Outcome: archived, unchanged '
    'or absent.';

CREATE FUNCTION tasktable.pause_scope(
    scope text, name text DEFAULT '', until timestamptz DEFAULT NULL, reason text DEFAULT NULL, by text DEFAULT NULL
) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    held tasktable.pauses;
BEGIN
    PERFORM tasktable.refuse_unbound_scope(pause_scope.scope, pause_scope.name);
    -- One call at a time. Two calls would insert two rows, and a resume would end only one of them.
    PERFORM pg_advisory_xact_lock(hashtextextended(
        'tasktable.pause ' || pause_scope.scope || ' ' || pause_scope.name, 0));
    SELECT * INTO held FROM tasktable.pauses AS p
    WHERE p.scope = pause_scope.scope AND p.name = pause_scope.name
        AND (p.ends_at IS NULL OR p.ends_at > clock_timestamp());
    IF NOT FOUND THEN
        INSERT INTO tasktable.pauses (scope, name, ends_at, reason, paused_by)
        VALUES (pause_scope.scope, pause_scope.name, pause_scope.until, pause_scope.reason,
            coalesce(pause_scope.by, session_user));
    ELSIF (held.ends_at, held.reason) IS NOT DISTINCT FROM (pause_scope.until, pause_scope.reason) THEN
        RETURN 'unchanged';
    ELSE
        UPDATE tasktable.pauses AS p SET ends_at = pause_scope.until, reason = pause_scope.reason,
            paused_by = coalesce(pause_scope.by, session_user)
        WHERE p.number = held.number;
    END IF;
    RETURN 'paused';
END $$;
COMMENT ON FUNCTION tasktable.pause_scope IS 'Pauses everything (scope all), a queue or a type, optionally until a '
    'time. After the commit none of its tasks starts. Handlers that run are not stopped. Outcome: paused or unchanged.';

CREATE FUNCTION tasktable.resume_scope(scope text, name text DEFAULT '', by text DEFAULT NULL)
RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF resume_scope.scope IS NULL OR resume_scope.scope NOT IN ('all', 'queue', 'type') THEN
        RAISE EXCEPTION 'scope must be all, queue or type, not %', quote_nullable(resume_scope.scope)
            USING ERRCODE = 'check_violation', COLUMN = 'scope';
    END IF;
    PERFORM tasktable.refuse_unbound_scope(resume_scope.scope, resume_scope.name);
    PERFORM pg_advisory_xact_lock(hashtextextended(
        'tasktable.pause ' || resume_scope.scope || ' ' || resume_scope.name, 0));
    UPDATE tasktable.pauses AS p SET planned_end = p.ends_at, ends_at = clock_timestamp(),
        resumed_by = coalesce(resume_scope.by, session_user)
    WHERE p.scope = resume_scope.scope AND p.name = resume_scope.name
        AND (p.ends_at IS NULL OR p.ends_at > clock_timestamp());
    IF NOT FOUND THEN
        RETURN 'unchanged';
    END IF;
    PERFORM tasktable.notify('tasktable.wake', '');
    RETURN 'queued';
END $$;
COMMENT ON FUNCTION tasktable.resume_scope IS 'Ends the pause of everything, of a queue or of a type. Outcome: queued '
    'or unchanged.';

CREATE FUNCTION tasktable.set_limit(
    name text, max_running int DEFAULT NULL, rate int DEFAULT NULL, rate_interval interval DEFAULT NULL,
    burst int DEFAULT NULL, type text DEFAULT NULL, queue text DEFAULT NULL, by text DEFAULT NULL,
    per text DEFAULT NULL, in_order boolean DEFAULT false, weights jsonb DEFAULT NULL
) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    other      tasktable.limits;
    max_limits CONSTANT int := 1000; -- the leader reads all of them at each look
    max_weights CONSTANT int := 10000; -- of all limits, for the same reason
    of_scope   text := CASE WHEN set_limit.type IS NOT NULL THEN 'type' WHEN set_limit.queue IS NOT NULL THEN 'queue'
        ELSE 'all' END;
    of_name    text := coalesce(set_limit.type, set_limit.queue, '');
    created    boolean;
BEGIN
    IF num_nonnulls(set_limit.type, set_limit.queue) = 2 THEN
        RAISE EXCEPTION 'type and queue must not both be given: a limit is for one of them, or for everything'
            USING ERRCODE = 'check_violation', COLUMN = 'queue';
    ELSIF set_limit.rate IS NULL AND num_nonnulls(set_limit.rate_interval, set_limit.burst) > 0 THEN
        RAISE EXCEPTION 'rate must be given if rate_interval or burst is'
            USING ERRCODE = 'check_violation', COLUMN = 'rate';
    END IF;
    PERFORM tasktable.refuse_unbound_scope(of_scope, of_name);
    set_limit.weights := nullif(set_limit.weights, '{}');
    IF jsonb_typeof(set_limit.weights) = 'object' AND EXISTS (SELECT FROM jsonb_object_keys(set_limit.weights) AS k
        WHERE octet_length(k) NOT BETWEEN 1 AND 512 OR k ~ '[\u0001-\u001f\u007f-\u009f]') THEN
        RAISE EXCEPTION 'weights must have names of 1 to 512 bytes without control characters'
            USING ERRCODE = 'check_violation', COLUMN = 'weights';
    END IF;
    set_limit.in_order := coalesce(set_limit.in_order, false);
    IF set_limit.in_order THEN
        set_limit.max_running := coalesce(set_limit.max_running, 1);
    END IF;
    IF set_limit.rate IS NOT NULL THEN
        set_limit.rate_interval := tasktable.in_hours(coalesce(set_limit.rate_interval, '1 second'));
        -- Without a burst the starts are spread evenly.
        set_limit.burst := coalesce(set_limit.burst, greatest(1, ceil(set_limit.rate
            / greatest(extract(epoch FROM set_limit.rate_interval), 1) / 10)));
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('tasktable.limits', 0));
    PERFORM tasktable.refuse_unbound_scope(l.scope, l.scope_name) FROM tasktable.limits AS l
    WHERE l.name = set_limit.name;
    IF (SELECT count(*) FROM tasktable.limits AS l WHERE l.name <> set_limit.name) >= max_limits THEN
        RAISE EXCEPTION 'there must be at most % limits', max_limits
            USING ERRCODE = 'check_violation', COLUMN = 'name';
    END IF;
    -- A task has one key, by which all of its limits per group or per tenant count.
    SELECT * INTO other FROM tasktable.limits AS l
    WHERE l.name <> set_limit.name AND l.per <> set_limit.per
        AND (l.scope <> of_scope OR l.scope_name = of_name);
    IF FOUND THEN
        RAISE EXCEPTION 'per must be %, as in limit %, because both limits may count the same task',
            other.per, other.name USING ERRCODE = 'check_violation', COLUMN = 'per';
    END IF;
    IF (SELECT sum(jsonb_array_length(jsonb_path_query_array(l.weights, '$.*'))) FROM tasktable.limits AS l
        WHERE l.name <> set_limit.name)
        + jsonb_array_length(jsonb_path_query_array(set_limit.weights, '$.*')) > max_weights THEN
        RAISE EXCEPTION 'weights must have at most % entries in all limits together', max_weights
            USING ERRCODE = 'check_violation', COLUMN = 'weights';
    END IF;
    INSERT INTO tasktable.limits AS l
        (name, scope, scope_name, per, in_order, max_running, rate, rate_interval, burst, weights, changed_by)
    VALUES (set_limit.name, of_scope, of_name, set_limit.per, set_limit.in_order, set_limit.max_running,
        set_limit.rate, set_limit.rate_interval, set_limit.burst, set_limit.weights,
        coalesce(set_limit.by, session_user))
    ON CONFLICT (name) DO UPDATE SET scope = excluded.scope, scope_name = excluded.scope_name,
        per = excluded.per, in_order = excluded.in_order, max_running = excluded.max_running, rate = excluded.rate,
        rate_interval = excluded.rate_interval, burst = excluded.burst, weights = excluded.weights,
        changed_at = excluded.changed_at, changed_by = excluded.changed_by
    WHERE (l.scope, l.scope_name, l.per, l.in_order, l.max_running, l.rate, l.rate_interval, l.burst, l.weights)
        IS DISTINCT FROM (excluded.scope, excluded.scope_name, excluded.per, excluded.in_order, excluded.max_running,
            excluded.rate, excluded.rate_interval, excluded.burst, excluded.weights)
    RETURNING l.xmax = 0 INTO created;
    PERFORM tasktable.notify('tasktable.wake', '');
    RETURN CASE WHEN created THEN 'created' WHEN created IS NULL THEN 'unchanged' ELSE 'changed' END;
END $$;
COMMENT ON FUNCTION tasktable.set_limit IS 'Creates or changes a limit: how many tasks of a type, of a queue or of all '
    'may run at once (max_running), or start in an interval (rate in rate_interval, default 1 second, with up to burst '
    'at once). With per, which is group or tenant, max_running, rate and burst are for each group or tenant, and '
    'groups or tenants take turns. weights says how many turns a group or tenant has, {"large": 3}, for one of the '
    'others. With in_order, max_running is 1, and a task of a group or tenant starts when the one '
    'before has ended, after all its attempts. It replaces all of a limit of the same name. Tasks that run already go '
    'on. Outcome: created, changed or unchanged.';

CREATE FUNCTION tasktable.remove_limit(name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    was tasktable.limits;
BEGIN
    SELECT * INTO was FROM tasktable.limits AS l WHERE l.name = remove_limit.name FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'absent';
    END IF;
    PERFORM tasktable.refuse_unbound_scope(was.scope, was.scope_name);
    DELETE FROM tasktable.limits AS l WHERE l.name = remove_limit.name;
    PERFORM tasktable.notify('tasktable.wake', '');
    RETURN 'deleted';
END $$;
COMMENT ON FUNCTION tasktable.remove_limit IS 'Removes a limit. Outcome: deleted or absent.';

CREATE FUNCTION tasktable.set_defaults(
    type text, queue text DEFAULT NULL, priority int DEFAULT NULL, expiration interval DEFAULT NULL,
    expected_execution_time interval DEFAULT NULL, max_attempts int DEFAULT NULL, backoff text DEFAULT NULL,
    timeout interval DEFAULT NULL, retention interval DEFAULT NULL, group_key text DEFAULT NULL, by text DEFAULT NULL,
    declared_by text DEFAULT NULL
) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    created   boolean;
    max_types CONSTANT int := 10000;
BEGIN
    IF set_defaults.type IS NULL THEN
        RAISE EXCEPTION 'type must be given, or * for all types'
            USING ERRCODE = 'not_null_violation', COLUMN = 'type';
    END IF;
    PERFORM tasktable.refuse_unbound_scope(CASE set_defaults.type WHEN '*' THEN 'all' ELSE 'type' END,
        nullif(set_defaults.type, '*'));
    PERFORM pg_advisory_xact_lock(hashtextextended('tasktable.task_defaults', 0));
    IF (SELECT count(*) FROM tasktable.task_defaults AS d WHERE d.type <> set_defaults.type) >= max_types THEN
        RAISE EXCEPTION 'at most % types must have defaults', max_types
            USING ERRCODE = 'check_violation', COLUMN = 'type';
    END IF;
    INSERT INTO tasktable.task_defaults AS d (type, queue, priority, expiration, expected_execution_time, max_attempts,
        backoff, timeout, retention, group_key, changed_by, declared_by)
    VALUES (set_defaults.type, set_defaults.queue, set_defaults.priority, tasktable.in_hours(set_defaults.expiration),
        tasktable.in_hours(set_defaults.expected_execution_time), set_defaults.max_attempts, set_defaults.backoff,
        tasktable.in_hours(set_defaults.timeout), tasktable.in_hours(set_defaults.retention), set_defaults.group_key,
        coalesce(set_defaults.by, session_user), set_defaults.declared_by)
    ON CONFLICT (type) DO UPDATE SET queue = excluded.queue, priority = excluded.priority,
        expiration = excluded.expiration, expected_execution_time = excluded.expected_execution_time,
        max_attempts = excluded.max_attempts, backoff = excluded.backoff, timeout = excluded.timeout,
        retention = excluded.retention, group_key = excluded.group_key, changed_at = excluded.changed_at,
        changed_by = excluded.changed_by, declared_by = excluded.declared_by
    WHERE (d.declared_by, d.queue, d.priority, d.expiration, d.expected_execution_time, d.max_attempts, d.backoff,
            d.timeout, d.retention, d.group_key)
        IS DISTINCT FROM (excluded.declared_by, excluded.queue, excluded.priority, excluded.expiration,
            excluded.expected_execution_time, excluded.max_attempts, excluded.backoff, excluded.timeout,
            excluded.retention, excluded.group_key)
    RETURNING d.xmax = 0 INTO created;
    RETURN CASE WHEN created THEN 'created' WHEN created IS NULL THEN 'unchanged' ELSE 'changed' END;
END $$;
COMMENT ON FUNCTION tasktable.set_defaults IS 'Sets the values of the fields that a call of schedule for a task of the '
    'type leaves out. The type * stands for all types, for fields that the type itself has no value for. It replaces '
    'all that was set for the type. Tasks that were scheduled before stay as they are. Outcome: created, changed or '
    'unchanged.';

CREATE FUNCTION tasktable.remove_defaults(type text) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM tasktable.refuse_unbound_scope(CASE remove_defaults.type WHEN '*' THEN 'all' ELSE 'type' END,
        nullif(remove_defaults.type, '*'));
    DELETE FROM tasktable.task_defaults AS d WHERE d.type = remove_defaults.type;
    RETURN CASE WHEN FOUND THEN 'deleted' ELSE 'absent' END;
END $$;
COMMENT ON FUNCTION tasktable.remove_defaults IS 'Removes the defaults of a type. Outcome: deleted or absent.';

CREATE FUNCTION tasktable.erase(entity text DEFAULT NULL, tenant_id text DEFAULT NULL)
RETURNS TABLE (tasks bigint, executions bigint, changes bigint, running bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    former text := coalesce(current_setting('tasktable_change.context', true), '');
    ids    text[];
    held   text[];
    a_held text;
    untils bigint[];
    known  int := -1;
BEGIN
    IF num_nonnulls(erase.entity, erase.tenant_id) <> 1 THEN
        RAISE EXCEPTION 'erase needs one of entity and tenant_id' USING ERRCODE = 'check_violation', COLUMN = 'entity';
    END IF;
    -- All are locked before the first is deleted. So none is claimed meanwhile. A transaction for which this waits may
    -- make a task, such as an occurrence or a task of if_dead, so look again. The looks have an end even if an
    -- application goes on scheduling.
    FOR look IN 1..5 LOOP
        WITH task AS MATERIALIZED (
            SELECT t.id::text AS id, t.fence IS NOT NULL AS held FROM tasktable.scheduled_tasks AS t
            WHERE t.entity = erase.entity OR t.tenant_id = erase.tenant_id ORDER BY t.id || '~' FOR UPDATE
        )
        SELECT coalesce(array_agg(task.id) FILTER (WHERE NOT task.held), '{}'),
            coalesce(array_agg(task.id) FILTER (WHERE task.held), '{}') INTO ids, held FROM task;
        EXIT WHEN cardinality(ids) + cardinality(held) = known;
        known := cardinality(ids) + cardinality(held);
    END LOOP;
    FOREACH a_held IN ARRAY held LOOP
        PERFORM tasktable.cancel(a_held, 'erase');
    END LOOP;
    running := cardinality(held);
    PERFORM set_config('tasktable_change.context', 'retention', true);
    WITH gone AS (DELETE FROM tasktable.scheduled_tasks AS t WHERE t.id = ANY (ids) RETURNING 1)
    SELECT count(*) INTO tasks FROM gone;
    -- Tasks may have been deleted before, or may belong to somebody else now. Of these, erase the history up to the
    -- change that ended the ownership. The old values of that change name the owner.
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
    DELETE FROM tasktable.api_answers AS a USING tasktable.api_keys AS k
    WHERE k.name = a.caller AND k.tenant_id = erase.tenant_id;
    DELETE FROM tasktable.calendars AS c WHERE c.tenant_id = erase.tenant_id;
    DELETE FROM tasktable.notice_causes AS c USING unnest(ids, untils) AS past (id, until)
    WHERE c.task_id = past.id AND c.number < past.until;
    DELETE FROM tasktable.notice_episodes AS p WHERE p.task_id = ANY (ids);
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
COMMENT ON FUNCTION tasktable.erase IS 'Removes all tasks of an entity or of a tenant, and their history, also of '
    'tasks that were deleted or given to somebody else before. Of a tenant also its calendars and the answers of the '
    'HTTP API to its keys. Running tasks are cancelled and counted. Call erase again when they have ended.';
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION tasktable.erase, tasktable.remove_defaults, tasktable.set_defaults, tasktable.remove_limit,
    tasktable.set_limit, tasktable.resume_scope,
    tasktable.pause_scope, tasktable.archive, tasktable.delete,
    tasktable.retry, tasktable.run_again, tasktable.run_now, tasktable.make_due, tasktable.resume, tasktable.pause,
    tasktable.cancel, tasktable.leave_verb, tasktable.enter_verb, tasktable.reschedule, tasktable.sync, tasktable.schedule_many, tasktable.insert_tasks,
    tasktable.schedule, tasktable.debounced, tasktable.refuse_wish, tasktable.refuse_unwritten,
    tasktable.schedule_outcome, tasktable.new_task_id,
    tasktable.same_time, tasktable.leave_change, tasktable.enter_change;
DROP TYPE tasktable.verb_task, tasktable.verb_outcome;
