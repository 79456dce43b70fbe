-- Many new tasks at once: inserted by one statement, their lines of changes by another.

-- +goose Up
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION tasktable.after_task_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    context text := coalesce(current_setting('tasktable_change.context', true), '');
    verb    text := coalesce(nullif(split_part(context, chr(31), 1), ''), 'sql');
    author  text := coalesce(nullif(split_part(context, chr(31), 2), ''), nullif(current_setting('tasktable_change.by', true), ''), session_user);
    was     jsonb;
    is_now  jsonb;
BEGIN
    -- Whatever other triggers have made of the row. Not a CHECK, and not a generated column: both would take the payload apart at each
    -- of the engine's updates.
    IF TG_OP <> 'DELETE' AND NEW.type IS DISTINCT FROM NEW.payload ->> 'type' THEN
        RAISE EXCEPTION 'type of task "%" must be what its payload says: write the payload''s field "type"', NEW.id
            USING ERRCODE = 'check_violation', COLUMN = 'type';
    END IF;
    IF TG_OP = 'INSERT' AND current_setting('tasktable_change.bulk', true) = (pg_trigger_depth() - 1)::text THEN
        RETURN NULL; -- insert_tasks writes all its lines at once
    ELSIF TG_OP = 'INSERT' THEN
        INSERT INTO tasktable.scheduled_task_changes (revision, task_id, verb, outcome, changed_by, new)
        VALUES (NEW.revision, NEW.id, verb, 'created', author,
                jsonb_build_object('status', NEW.status, 'type', NEW.type, 'scheduled_at', NEW.scheduled_at));
    ELSIF TG_OP = 'DELETE' AND context = 'retention' THEN
        RETURN NULL; -- nobody's edit, and its history goes too
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO tasktable.scheduled_task_changes (revision, task_id, verb, outcome, changed_by, old)
        VALUES (nextval('tasktable.task_numbers'), OLD.id, verb, 'deleted', author, tasktable.task_content(OLD));
        RETURN NULL;
    ELSE
        was := tasktable.task_content(OLD);
        is_now := tasktable.task_content(NEW);
        INSERT INTO tasktable.scheduled_task_changes (revision, task_id, verb, outcome, changed_by, old, new)
        SELECT NEW.revision, NEW.id, verb,
               CASE WHEN NEW.status = 'CANCELLED' AND OLD.status <> 'CANCELLED' THEN 'cancelled'
                    WHEN NEW.status = 'PAUSED' AND OLD.status <> 'PAUSED' THEN 'paused'
                    WHEN NEW.archived_at IS NOT NULL AND OLD.archived_at IS NULL THEN 'archived'
                    WHEN NEW.status = 'PAUSED' AND verb = 'pause' THEN 'paused'
                    WHEN verb IN ('run_now', 'retry', 'resume') THEN 'queued'
                    WHEN NEW.finished_at IS NOT NULL THEN 'edited'
                    WHEN OLD.finished_at IS NOT NULL THEN 'rearmed'
                    WHEN OLD.status = 'PAUSED' AND NEW.status = 'QUEUED' THEN 'queued'
                    ELSE 'rescheduled' END,
               author, jsonb_object_agg(key, was -> key), jsonb_object_agg(key, is_now -> key)
        FROM jsonb_object_keys(was || is_now) AS key
        WHERE was -> key IS DISTINCT FROM is_now -> key;
        -- Hastens the node that holds the task: a cancel ends its handler's context, a wait for the old time ends.
        IF OLD.fence IS NOT NULL AND pg_notification_queue_usage() < 0.5 THEN
            PERFORM pg_notify('tasktable.held', OLD.fence::text);
        END IF;
    END IF;
    -- Wakes the leader for what is due at once; later times it sees by itself in good time. A full notification queue would
    -- fail the application's commit, so a half-full one is left alone: the leader looks each second anyway.
    IF NEW.next_attempt_at <= clock_timestamp() + interval '2 seconds'
        AND split_part(context, chr(31), 3) <> 'quiet' AND pg_notification_queue_usage() < 0.5
    THEN
        PERFORM pg_notify('tasktable.wake', '');
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- insert_tasks writes what the trigger would have computed for each row.
DROP TRIGGER task_1_edit ON tasktable.scheduled_tasks;
CREATE TRIGGER task_1_edit BEFORE UPDATE OF id, payload, type, scheduled_at, run_now_at, priority, queue, expiration,
    expected_execution_time, max_attempts, entity, tenant_id, cron, time_zone, overlap, catch_up, catch_up_paused, catch_up_limit,
    jitter, ends_at, max_occurrences, parent_id, paused_until, retention, archived_at ON tasktable.scheduled_tasks
    FOR EACH ROW EXECUTE FUNCTION tasktable.before_task_change();
COMMENT ON TRIGGER task_1_edit ON tasktable.scheduled_tasks IS 'Every edit.';
CREATE TRIGGER task_0_insert BEFORE INSERT ON tasktable.scheduled_tasks
    FOR EACH ROW WHEN (current_setting('tasktable_change.bulk', true) IS DISTINCT FROM pg_trigger_depth()::text) EXECUTE FUNCTION tasktable.before_task_change();
COMMENT ON TRIGGER task_0_insert ON tasktable.scheduled_tasks IS 'Every insert but those of insert_tasks.';

-- +goose StatementBegin
CREATE FUNCTION tasktable.insert_tasks(tasks jsonb, scheduled_by text, wake boolean, verb text)
RETURNS TABLE ("position" bigint, id text, revision bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    author text := coalesce(nullif(insert_tasks.scheduled_by, ''), nullif(current_setting('tasktable_change.by', true), ''), session_user);
    former text := coalesce(current_setting('tasktable_change.bulk', true), '');
BEGIN
    -- The triggers leave it all to this; but not what an application's triggers on these tasks schedule, which are deeper.
    PERFORM set_config('tasktable_change.bulk', pg_trigger_depth()::text, true);
    RETURN QUERY
    WITH task AS MATERIALIZED (
        SELECT each.value AS task, each.ordinality, each.value ->> 'id' AS id,
            coalesce((each.value ->> 'scheduled_at')::timestamptz, clock_timestamp()) AS scheduled_at
        FROM jsonb_array_elements(insert_tasks.tasks) WITH ORDINALITY AS each
    ), made AS (
        INSERT INTO tasktable.scheduled_tasks AS t (id, payload, type, scheduled_at, priority, queue, expiration, expected_execution_time,
            max_attempts, tenant_id, entity, scheduled_by, jitter, retention, trace, revision, next_attempt_at)
        SELECT task.id, task.task -> 'payload', task.task #>> '{payload,type}', task.scheduled_at, coalesce((task.task ->> 'priority')::int, 0), coalesce(task.task ->> 'queue', 'default'),
            (task.task ->> 'expiration')::interval, coalesce((task.task ->> 'expected_execution_time')::interval, '5 minutes'),
            coalesce((task.task ->> 'max_attempts')::int, 5), task.task ->> 'tenant_id', task.task ->> 'entity',
            coalesce(task.task ->> 'scheduled_by', insert_tasks.scheduled_by),
            (task.task ->> 'jitter')::interval, (task.task ->> 'retention')::interval, task.task ->> 'trace', nextval('tasktable.task_numbers'),
            tasktable.due_of(task.id, task.scheduled_at, NULL, (task.task ->> 'jitter')::interval)
        FROM task ORDER BY task.id COLLATE "C" -- as schedule_many: the two cannot deadlock
        ON CONFLICT (id) DO NOTHING
        RETURNING t.id::text AS id, t.revision, t.status, t.type, t.scheduled_at, t.next_attempt_at, t.scheduled_by
    ), recorded AS (
        INSERT INTO tasktable.scheduled_task_changes (revision, task_id, verb, outcome, changed_by, new)
        SELECT made.revision, made.id, coalesce(nullif(insert_tasks.verb, ''), 'sql'), 'created',
            coalesce(nullif(made.scheduled_by, ''), author),
            jsonb_build_object('status', made.status, 'type', made.type, 'scheduled_at', made.scheduled_at)
        FROM made
    ), told AS MATERIALIZED (
        SELECT pg_notify('tasktable.wake', '')
        WHERE insert_tasks.wake AND pg_notification_queue_usage() < 0.5
            AND EXISTS (SELECT 1 FROM made WHERE made.next_attempt_at <= clock_timestamp() + interval '2 seconds')
    )
    SELECT task.ordinality, made.id, made.revision FROM made JOIN task USING (id) CROSS JOIN (SELECT count(*) FROM told) AS told;
    PERFORM set_config('tasktable_change.bulk', former, true);
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
DROP TRIGGER task_0_insert ON tasktable.scheduled_tasks;
DROP TRIGGER task_1_edit ON tasktable.scheduled_tasks;
CREATE TRIGGER task_1_edit BEFORE INSERT OR UPDATE OF id, payload, type, scheduled_at, run_now_at, priority, queue, expiration,
    expected_execution_time, max_attempts, entity, tenant_id, cron, time_zone, overlap, catch_up, catch_up_paused, catch_up_limit,
    jitter, ends_at, max_occurrences, parent_id, paused_until, retention, archived_at ON tasktable.scheduled_tasks
    FOR EACH ROW EXECUTE FUNCTION tasktable.before_task_change();
COMMENT ON TRIGGER task_1_edit ON tasktable.scheduled_tasks IS 'Every insert and every edit.';
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION tasktable.after_task_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    context text := coalesce(current_setting('tasktable_change.context', true), '');
    verb    text := coalesce(nullif(split_part(context, chr(31), 1), ''), 'sql');
    author  text := coalesce(nullif(split_part(context, chr(31), 2), ''), nullif(current_setting('tasktable_change.by', true), ''), session_user);
    was     jsonb;
    is_now  jsonb;
BEGIN
    -- Whatever other triggers have made of the row. Not a CHECK, and not a generated column: both would take the payload apart at each
    -- of the engine's updates.
    IF TG_OP <> 'DELETE' AND NEW.type IS DISTINCT FROM NEW.payload ->> 'type' THEN
        RAISE EXCEPTION 'type of task "%" must be what its payload says: write the payload''s field "type"', NEW.id
            USING ERRCODE = 'check_violation', COLUMN = 'type';
    END IF;
    IF TG_OP = 'INSERT' THEN
        INSERT INTO tasktable.scheduled_task_changes (revision, task_id, verb, outcome, changed_by, new)
        VALUES (NEW.revision, NEW.id, verb, 'created', author,
                jsonb_build_object('status', NEW.status, 'type', NEW.type, 'scheduled_at', NEW.scheduled_at));
    ELSIF TG_OP = 'DELETE' AND context = 'retention' THEN
        RETURN NULL; -- nobody's edit, and its history goes too
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO tasktable.scheduled_task_changes (revision, task_id, verb, outcome, changed_by, old)
        VALUES (nextval('tasktable.task_numbers'), OLD.id, verb, 'deleted', author, tasktable.task_content(OLD));
        RETURN NULL;
    ELSE
        was := tasktable.task_content(OLD);
        is_now := tasktable.task_content(NEW);
        INSERT INTO tasktable.scheduled_task_changes (revision, task_id, verb, outcome, changed_by, old, new)
        SELECT NEW.revision, NEW.id, verb,
               CASE WHEN NEW.status = 'CANCELLED' AND OLD.status <> 'CANCELLED' THEN 'cancelled'
                    WHEN NEW.status = 'PAUSED' AND OLD.status <> 'PAUSED' THEN 'paused'
                    WHEN NEW.archived_at IS NOT NULL AND OLD.archived_at IS NULL THEN 'archived'
                    WHEN NEW.status = 'PAUSED' AND verb = 'pause' THEN 'paused'
                    WHEN verb IN ('run_now', 'retry', 'resume') THEN 'queued'
                    WHEN NEW.finished_at IS NOT NULL THEN 'edited'
                    WHEN OLD.finished_at IS NOT NULL THEN 'rearmed'
                    WHEN OLD.status = 'PAUSED' AND NEW.status = 'QUEUED' THEN 'queued'
                    ELSE 'rescheduled' END,
               author, jsonb_object_agg(key, was -> key), jsonb_object_agg(key, is_now -> key)
        FROM jsonb_object_keys(was || is_now) AS key
        WHERE was -> key IS DISTINCT FROM is_now -> key;
        -- Hastens the node that holds the task: a cancel ends its handler's context, a wait for the old time ends.
        IF OLD.fence IS NOT NULL AND pg_notification_queue_usage() < 0.5 THEN
            PERFORM pg_notify('tasktable.held', OLD.fence::text);
        END IF;
    END IF;
    -- Wakes the leader for what is due at once; later times it sees by itself in good time. A full notification queue would
    -- fail the application's commit, so a half-full one is left alone: the leader looks each second anyway.
    IF NEW.next_attempt_at <= clock_timestamp() + interval '2 seconds'
        AND split_part(context, chr(31), 3) <> 'quiet' AND pg_notification_queue_usage() < 0.5
    THEN
        PERFORM pg_notify('tasktable.wake', '');
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
