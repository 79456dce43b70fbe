-- Tasks for the case that a task dies: the column if_dead. The transaction that makes a task FAILED or EXPIRED, whoever
-- does it, schedules them. So they are scheduled exactly if the death is committed.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION tasktable.seconds_text(given interval) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT trim_scale(extract(epoch FROM tasktable.in_hours(given))) || ' seconds'
$$;
COMMENT ON FUNCTION tasktable.seconds_text IS 'An interval as a text that depends on no setting.';

CREATE FUNCTION tasktable.one_if_dead(task jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object(
        'id', (task ->> 'id')::tasktable.task_id,
        'scheduled_at', to_char((task ->> 'scheduled_at')::tasktable.task_time AT TIME ZONE 'UTC',
            'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'priority', nullif((task ->> 'priority')::tasktable.task_priority, 0),
        'queue', nullif((task ->> 'queue')::tasktable.task_queue, 'default'),
        'expiration', tasktable.seconds_text((task ->> 'expiration')::tasktable.task_expiration),
        'expected_execution_time', tasktable.seconds_text(
            nullif((task ->> 'expected_execution_time')::tasktable.task_execution_time, interval '5 minutes')),
        'max_attempts', nullif((task ->> 'max_attempts')::tasktable.task_max_attempts, 10),
        'entity', (task ->> 'entity')::tasktable.task_entity,
        'if_finished', task ->> 'if_finished',
        'jitter', tasktable.seconds_text((task ->> 'jitter')::tasktable.task_jitter),
        'retention', tasktable.seconds_text((task ->> 'retention')::tasktable.task_retention)))
        -- Outside of the object above, because jsonb_strip_nulls would also change the payload.
        || jsonb_build_object('payload', (task -> 'payload')::tasktable.task_payload)
$$;
COMMENT ON FUNCTION tasktable.one_if_dead IS 'Part of if_dead_of: one task, without the fields that are as by default. '
    'The domains check the values.';

CREATE FUNCTION tasktable.if_dead_of(if_dead jsonb, task_id text, tenant_id text)
RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_variable
DECLARE
    task   jsonb;
    tasks  jsonb := '[]';
    place  int := 0;
    id     text;
    ids    text[] := '{}';
    broken text; -- the rule that the task breaks
    occurrence CONSTANT text := '@\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([.]\d{6})?Z$';
BEGIN
    IF jsonb_typeof(if_dead) <> 'array' OR jsonb_array_length(if_dead) NOT BETWEEN 1 AND 10 THEN
        IF if_dead IN ('null', '[]') THEN
            RETURN NULL;
        END IF;
        RETURN if_dead; -- the domain refuses it
    END IF;
    FOR task IN SELECT each.value FROM jsonb_array_elements(if_dead) WITH ORDINALITY AS each ORDER BY each.ordinality
    LOOP
        place := place + 1;
        id := coalesce(task ->> 'id', task_id || '/dead/' || place);
        broken := CASE WHEN jsonb_typeof(task) <> 'object' THEN 'it must be an object'
            WHEN jsonb_typeof(task -> 'payload') IS DISTINCT FROM 'object' THEN 'payload must be a JSON object'
            WHEN task ->> 'tenant_id' <> coalesce(tenant_id, '') THEN 'tenant_id must be that of the task, or missing'
            WHEN task ->> 'if_finished' NOT IN ('rearm', 'keep') THEN 'if_finished must be rearm, keep or missing'
            WHEN id = task_id THEN 'id must not be that of the task itself: give the task more attempts instead'
            WHEN id = ANY (ids) THEN 'id must not be that of another task of if_dead'
            WHEN octet_length(task_id) > CASE WHEN task_id ~ occurrence THEN 504 ELSE 476 END
                AND task ->> 'id' IS NULL THEN 'id must be given, because the id of the task has over 476 bytes'
            -- As in refuse_others_task. At the death nobody asks any more who has asked for the task.
            WHEN starts_with(id, 'notice/') OR id = 'notice-watch'
                OR task -> 'payload' ->> 'type' IN ('NOTICE', 'NOTICE_WATCH') THEN 'notices are the engine''s'
            WHEN id ~ occurrence THEN 'id must not end in @ and a time, as those of occurrences do' END;
        IF broken IS NULL THEN
            SELECT format('%s is not a field that it can have', min(f.key)) INTO broken FROM jsonb_each(task) AS f
            WHERE f.value <> 'null' AND f.key <> ALL (ARRAY['id', 'payload', 'scheduled_at', 'priority', 'queue',
                'expiration', 'expected_execution_time', 'max_attempts', 'tenant_id', 'entity', 'if_finished', 'jitter',
                'retention'])
            HAVING count(*) > 0;
        END IF;
        IF broken IS NULL THEN
            BEGIN
                PERFORM (task -> 'payload' ->> 'type')::tasktable.task_type;
                tasks := tasks || jsonb_build_array(tasktable.one_if_dead(task));
            EXCEPTION WHEN data_exception OR integrity_constraint_violation THEN
                GET STACKED DIAGNOSTICS broken = CONSTRAINT_NAME;
                broken := coalesce(nullif(broken, ''), SQLERRM);
            END;
        END IF;
        IF broken IS NULL AND tasktable.is_bound() THEN
            PERFORM tasktable.refuse_unbound(id, task -> 'payload' ->> 'type', coalesce(task ->> 'queue', 'default'));
        ELSIF broken IS NOT NULL THEN
            RAISE EXCEPTION 'task "%": if_dead: task %: %', task_id, place, broken
                USING ERRCODE = 'check_violation', COLUMN = 'if_dead';
        END IF;
        ids := ids || id;
    END LOOP;
    RETURN tasks;
END $$;
COMMENT ON FUNCTION tasktable.if_dead_of IS 'Checks the tasks that a task is to schedule if it dies, and returns them '
    'in the form in which they are stored. They have the fields of schedule, but do not recur, and have no if_dead.';

CREATE FUNCTION tasktable.schedule_if_dead(dead tasktable.scheduled_tasks, child text, task jsonb) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    other text; -- why the task that has the id already is another one
    known boolean;
    made  boolean;
    done  tasktable.verb_outcome;
BEGIN
    -- At the death nobody knows any more who may change what, so it changes only a task of the same kind and owner.
    SELECT CASE WHEN t.cron IS NOT NULL THEN 'recurs'
        WHEN t.type <> task -> 'payload' ->> 'type' THEN 'has another type'
        WHEN t.queue <> coalesce(task ->> 'queue', 'default') THEN 'has another queue'
        WHEN t.tenant_id IS DISTINCT FROM dead.tenant_id THEN 'is another tenant''s'
        WHEN t.scheduled_by IS DISTINCT FROM dead.scheduled_by
            AND EXISTS (SELECT FROM tasktable.applications AS a WHERE NOT a.by_tenant AND a.service <> '')
            THEN 'is another service''s' END INTO other
    FROM tasktable.scheduled_tasks AS t WHERE t.id = child FOR NO KEY UPDATE;
    known := FOUND;
    IF other IS NOT NULL THEN
        RETURN format('task "%s" of if_dead was left as it is, because it %s', child, other);
    END IF;
    done := tasktable.schedule(
        payload => task -> 'payload', scheduled_at => (task ->> 'scheduled_at')::timestamptz, id => child,
        priority => (task ->> 'priority')::int, queue => task ->> 'queue',
        expiration => (task ->> 'expiration')::interval,
        expected_execution_time => (task ->> 'expected_execution_time')::interval,
        max_attempts => (task ->> 'max_attempts')::int, tenant_id => dead.tenant_id,
        entity => coalesce(task ->> 'entity', dead.entity), if_finished => task ->> 'if_finished',
        scheduled_by => CASE WHEN octet_length(dead.id) <= 507 THEN 'task ' || dead.id ELSE dead.scheduled_by END,
        jitter => (task ->> 'jitter')::interval, retention => (task ->> 'retention')::interval, trace => dead.trace);
    IF done.outcome = 'finished' THEN
        RETURN format('task "%s" of if_dead stays finished', child);
    ELSIF done.outcome = 'unchanged' THEN
        RETURN NULL;
    END IF;
    made := done.outcome = 'created';
    IF NOT known AND NOT made THEN -- somebody has just made it, and nothing above has looked at it
        RAISE EXCEPTION 'task "%" was scheduled at the same time', child USING ERRCODE = 'lock_not_available';
    END IF;
    -- A task that has run before starts a second after its last start at the earliest, as a follow-up does.
    UPDATE tasktable.scheduled_tasks AS t
    SET spawned_by = dead.id, scheduled_by = CASE WHEN made THEN dead.scheduled_by ELSE t.scheduled_by END,
        next_attempt_at = CASE WHEN made OR t.next_attempt_at IS NULL THEN t.next_attempt_at
            ELSE greatest(t.next_attempt_at, (SELECT e.started_at + interval '1 second'
                FROM tasktable.scheduled_task_executions AS e WHERE e.task_id = child AND e.started_at IS NOT NULL
                ORDER BY e.fence DESC LIMIT 1)) END,
        due_at = CASE WHEN made THEN t.due_at END
    WHERE t.id = child;
    RETURN NULL;
EXCEPTION WHEN OTHERS THEN
    -- A settle is repeated after an error of these classes: transactions, rollback, resources, locks, operators and the
    -- system. Any other error, such as that of an application's own trigger, would come again, and must not keep the
    -- task from dying.
    IF left(SQLSTATE, 2) IN ('25', '40', '53', '55', '57', '58') THEN
        RAISE;
    END IF;
    RAISE WARNING 'task "%" of if_dead of task "%" could not be scheduled: %', child, dead.id, SQLERRM;
    RETURN format('task "%s" of if_dead could not be scheduled: %s', child, SQLERRM);
END $$;
COMMENT ON FUNCTION tasktable.schedule_if_dead IS 'Schedules one task of if_dead, in the name of the task that has '
    'died. Returns why it was not scheduled, or null.';

CREATE FUNCTION tasktable.after_task_end() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    patience CONSTANT text := current_setting('lock_timeout');
    child    record;
    note     text;
    notes    text;
BEGIN
    IF NEW.status NOT IN ('FAILED', 'EXPIRED') THEN
        RETURN NULL;
    END IF;
    -- The transaction holds the rows of other tasks, so it must not wait for long for these. Otherwise two settles, or
    -- a settle and an application, would wait for each other until Postgres ends one of them. After this time the
    -- settle fails, and the node repeats it in smaller parts.
    PERFORM set_config('lock_timeout', '200ms', true);
    FOR child IN
        SELECT one.task, one.id FROM (
            SELECT each.value AS task, coalesce(each.value ->> 'id', NEW.id || '/dead/' || each.ordinality) AS id
            FROM jsonb_array_elements(NEW.if_dead::jsonb) WITH ORDINALITY AS each
        ) AS one ORDER BY one.id || '~' COLLATE "C" -- as in schedule_many, so that no two calls deadlock
    LOOP
        note := tasktable.schedule_if_dead(NEW, child.id, child.task);
        notes := CASE WHEN note IS NULL THEN notes ELSE concat_ws('; ', notes, note) END;
    END LOOP;
    PERFORM set_config('lock_timeout', patience, true);
    IF notes IS NOT NULL THEN
        UPDATE tasktable.scheduled_tasks AS t SET message = concat_ws('; ', t.message, notes) WHERE t.id = NEW.id;
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION tasktable.after_task_end IS 'Schedules the tasks of if_dead when a task has become FAILED or '
    'EXPIRED. A task of them that cannot be scheduled is told in the message of the dead one, which stays dead.';

-- The condition has no operator, so that Postgres parses it fast for each statement. A task without if_dead costs it
-- alone.
CREATE TRIGGER task_8_if_dead AFTER UPDATE ON tasktable.scheduled_tasks
    FOR EACH ROW WHEN (NEW.if_dead IS NOT NULL AND NEW.finished_at IS NOT NULL AND OLD.finished_at IS NULL)
    EXECUTE FUNCTION tasktable.after_task_end();
COMMENT ON TRIGGER task_8_if_dead ON tasktable.scheduled_tasks IS 'A task with if_dead that has ended.';
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER task_8_if_dead ON tasktable.scheduled_tasks;
DROP FUNCTION tasktable.after_task_end, tasktable.schedule_if_dead, tasktable.if_dead_of, tasktable.one_if_dead,
    tasktable.seconds_text;
