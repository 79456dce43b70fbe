-- Many new tasks at once: inserted by one statement, their change lines by another.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION tasktable.after_tasks_insert() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    context text := coalesce(current_setting('tasktable_change.context', true), '');
    verb    text := coalesce(nullif(split_part(context, chr(31), 1), ''), 'sql');
    author  text := nullif(split_part(context, chr(31), 2), '');
    other   text := coalesce(nullif(current_setting('tasktable_change.by', true), ''), session_user);
    made    record;
BEGIN
    -- One call of schedule_many may have tasks of several authors: each is recorded as its own.
    INSERT INTO tasktable.scheduled_task_changes (revision, task_id, verb, outcome, changed_by, new)
    SELECT t.revision, t.id, verb, 'created',
        coalesce(author, CASE WHEN verb NOT IN ('sql', 'fork') THEN nullif(t.scheduled_by, '') END, other),
        jsonb_build_object('status', t.status, 'type', t.type, 'scheduled_at', t.scheduled_at)
    FROM inserted AS t;
    -- What application's triggers have made of the rows after zzz_task_1_edit. Not CHECKs, which would take the payload apart at each
    -- of the engine's updates.
    SELECT min(t.id) FILTER (WHERE t.type IS DISTINCT FROM t.payload ->> 'type') AS wrong_type,
        min(t.id) FILTER (WHERE t.cron IS NULL
            AND t.next_attempt_at <> tasktable.due_of(t.id, t.scheduled_at, t.run_now_at, t.jitter)) AS wrong_time,
        min(t.next_attempt_at) AS next_attempt_at
    INTO made FROM inserted AS t;
    IF made.wrong_type IS NOT NULL THEN
        RAISE EXCEPTION 'type of task "%" must be what its payload says: write the payload''s field "type"', made.wrong_type
            USING ERRCODE = 'check_violation', COLUMN = 'type';
    END IF;
    IF made.wrong_time IS NOT NULL THEN
        RAISE EXCEPTION 'time of task "%" was changed by a trigger that fires after zzz_task_1_edit: give that trigger a name'
            ' that sorts before it', made.wrong_time USING ERRCODE = 'check_violation', COLUMN = 'scheduled_at';
    END IF;
    -- Wakes the leader for tasks that are due at once; later ones it sees by itself in good time. A full notification queue would
    -- fail the application's commit, so a half-full one is left alone: the leader looks each second anyway.
    IF made.next_attempt_at <= clock_timestamp() + interval '2 seconds'
        AND split_part(context, chr(31), 3) <> 'quiet' AND pg_notification_queue_usage() < 0.5
    THEN
        PERFORM pg_notify('tasktable.wake', '');
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.after_tasks_insert() IS 'Writes the change lines of all tasks that one statement inserts, and wakes the leader where one is due; refuses a type or a time that another trigger has made wrong.';

DROP TRIGGER task_3_insert ON tasktable.scheduled_tasks;
CREATE TRIGGER task_3_insert AFTER INSERT ON tasktable.scheduled_tasks REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION tasktable.after_tasks_insert();
COMMENT ON TRIGGER task_3_insert ON tasktable.scheduled_tasks IS 'The change lines of new tasks.';
CREATE TRIGGER task_3_delete AFTER DELETE ON tasktable.scheduled_tasks
    FOR EACH ROW EXECUTE FUNCTION tasktable.after_task_change();
COMMENT ON TRIGGER task_3_delete ON tasktable.scheduled_tasks IS 'The change line of a deleted task.';

-- +goose StatementBegin
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
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.insert_tasks(jsonb, text, boolean, text) IS 'The part of schedule_many for plain tasks with ids of their own that are all new: inserts them, and returns those that were.';

-- +goose StatementBegin
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
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.schedule_each(jsonb, text, boolean, text) IS 'The part of schedule_many for tasks that may exist: schedules them one after the other.';

DROP FUNCTION tasktable.schedule_many(jsonb, text, boolean, text);
-- +goose StatementBegin
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
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.schedule_many(jsonb, text, boolean, text) IS
    'schedule for each object of a JSON array with the keys payload, scheduled_at (absent or null: a new task is due now, an existing one keeps its time), id, priority, queue, expiration, expected_execution_time, max_attempts, tenant_id, entity, if_finished, trace, scheduled_by (absent: the argument), and those of schedule for recurrence, jitter and retention. position counts from 1 in the array. Of two with one id the later wins.';

-- +goose Down
DROP FUNCTION tasktable.schedule_many(jsonb, text, boolean, text);
DROP FUNCTION tasktable.schedule_each(jsonb, text, boolean, text);
DROP FUNCTION tasktable.insert_tasks(jsonb, text, boolean, text);
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
        schedule_many.scheduled_by,
        schedule_many.wake,
        schedule_many.verb,
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
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.schedule_many(jsonb, text, boolean, text) IS
    'schedule for each object of a JSON array with the keys payload, scheduled_at, id, priority, queue, expiration, expected_execution_time, max_attempts, tenant_id, entity, if_finished, trace, and those of schedule for recurrence, jitter and retention. position counts from 1 in the array. Of two with one id the later wins.';
DROP TRIGGER task_3_delete ON tasktable.scheduled_tasks;
DROP TRIGGER task_3_insert ON tasktable.scheduled_tasks;
CREATE TRIGGER task_3_insert AFTER INSERT OR DELETE ON tasktable.scheduled_tasks
    FOR EACH ROW EXECUTE FUNCTION tasktable.after_task_change();
COMMENT ON TRIGGER task_3_insert ON tasktable.scheduled_tasks IS 'The change line of a new or deleted task.';
DROP FUNCTION tasktable.after_tasks_insert();
