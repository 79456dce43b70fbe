-- Tasks that come of other tasks: the occurrences of recurring tasks, and the tasks of the column if_dead.
--
-- A recurring task is a row with a cron expression. It never runs itself. For each fire the leader forks an occurrence.
-- Postgres cannot compute a fire time. Therefore an insert or edit leaves planned_revision behind revision. The leader
-- then plans the next fire, without firing.
--
-- The transaction that makes a task FAILED or EXPIRED, whoever does it, schedules the tasks of its if_dead. So they are
-- scheduled exactly if the death is committed.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION tasktable.cron_fault(cron text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    form   CONSTANT text := 'must be 5 fields (minute, hour, day of month, month, day of week), 6 with the seconds '
        'first, @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually or @every with a duration';
    period CONSTANT text := 'must have after @every a duration of whole seconds, at least 1s, such as 90s or 1h30m';
    -- One element for each field: its name, lowest and highest value, number of values, the unit in which its steps
    -- begin again, and the names of its values.
    label  CONSTANT text[] := '{second, minute, hour, day of month, month, day of week}';
    low    CONSTANT int[] := '{0, 0, 0, 1, 1, 0}';
    high   CONSTANT int[] := '{59, 59, 23, 31, 12, 7}';
    count  CONSTANT int[] := '{60, 60, 24, 31, 12, 7}';
    unit   CONSTANT text[] := '{minute, hour, day, month, year, week}';
    named  CONSTANT text[] := ARRAY['', '', '', '',
        '^(jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sep(tember)?|oct(ober)?|nov(ember)?'
        '|dec(ember)?)$',
        '^(sun(day)?|mon(day)?|tue(sday)?|wed(nesday)?|thu(rsday)?|fri(day)?|sat(urday)?)$'];
    -- The collation is "C", because in a Turkish database "I" is not the capital of "i".
    fields text[] COLLATE "C" := regexp_split_to_array(btrim(cron), '\s+');
    member text COLLATE "C";
    part   text[] COLLATE "C";
    value  text COLLATE "C";
    total  numeric;
BEGIN
    IF fields[1] ~* '^(cron_)?tz=' THEN
        RETURN 'must not name a zone (TZ=, CRON_TZ=): use time_zone';
    ELSIF fields[1] ~* '^@every$' THEN
        IF cardinality(fields) <> 2 OR fields[2] !~ '^\+?(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|ms|s|m|h))+$' THEN
            RETURN period;
        END IF;
        SELECT sum(('0' || one[1] || '0')::numeric / CASE WHEN one[1] ~ '\.' THEN 1 ELSE 10 END
            * CASE one[2] WHEN 'ns' THEN 1e-9 WHEN 'us' THEN 1e-6 WHEN 'ms' THEN 1e-3
                WHEN 's' THEN 1 WHEN 'm' THEN 60 ELSE 3600 END)
        INTO total FROM regexp_matches(fields[2], '([0-9.]+)(ns|us|ms|s|m|h)', 'g') AS one;
        -- The leader's parser cuts off fractions of a nanosecond. Because of the rounding this refuses no more than it.
        RETURN CASE WHEN round(total, 6) % 1 <> 0 OR total < 0.999999 OR total > 9223372037 THEN period END;
    ELSIF fields[1] ~* '^@(hourly|daily|midnight|weekly|monthly|yearly|annually)$' AND cardinality(fields) = 1 THEN
        RETURN NULL;
    ELSIF cardinality(fields) NOT IN (5, 6) OR fields[1] ~ '^@' OR fields[6] ~ '^/' THEN
        RETURN form;
    ELSIF cardinality(fields) = 5 THEN
        fields := '{0}' || fields;
    END IF;
    FOR i IN 1..6 LOOP
        FOREACH member IN ARRAY string_to_array(fields[i], ',') LOOP
            part := NULL;
            IF i = 4 AND member ~* '^l(-0*([0-9]|[12][0-9]|30))?w?$' THEN
                CONTINUE;
            ELSIF i = 4 AND member ~* '^[0-9]{1,9}w$' THEN
                part := ARRAY[left(member, -1), NULL, NULL];
            ELSIF i = 6 AND member ~* '^([0-9]{1,9}|[a-z]+)(l|#0*[1-5])$' AND member !~* '^l' THEN
                part := ARRAY[regexp_replace(member, '(l|#0*[1-5])$', '', 'i'), NULL, NULL];
            ELSIF member ~* '^([*?]|([0-9]{1,9}|[a-z]+)(-([0-9]{1,9}|[a-z]+))?)(/[0-9]{1,9})?$' THEN
                part := regexp_match(member, '^(?:[*?]|([0-9]+|[a-z]+)(?:-([0-9]+|[a-z]+))?)(?:/([0-9]+))?$', 'i');
            END IF;
            IF part IS NULL THEN
                RETURN format('%s "%s" is not a value, a range a-b, * or another form of this field',
                    label[i], left(member, 60));
            END IF;
            FOREACH value IN ARRAY part[1:2] LOOP
                IF value ~ '^[0-9]' AND value::int NOT BETWEEN low[i] AND high[i] THEN
                    RETURN format('%s %s is not in %s-%s', label[i], value::int, low[i], high[i]);
                ELSIF value ~* '^[a-z]' AND (named[i] = '' OR value !~* named[i]) THEN
                    RETURN format('%s "%s" is not a number in %s-%s%s', label[i], left(value, 60), low[i], high[i],
                        CASE WHEN named[i] <> '' THEN ', nor a name' ELSE '' END);
                END IF;
            END LOOP;
            IF part[3]::int NOT BETWEEN 1 AND count[i] THEN
                RETURN format('%s step %s is not in 1-%s: a step counts anew in each %s',
                    label[i], part[3]::int, count[i], unit[i]);
            END IF;
        END LOOP;
    END LOOP;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION tasktable.cron_fault IS 'Why a cron expression cannot be parsed, or null. 30 February can be '
    'parsed, but the leader fails the task.';

CREATE FUNCTION tasktable.knows_time_zone(zone text) RETURNS boolean LANGUAGE plpgsql SET timezone = 'UTC' AS $$
BEGIN
    -- Postgres also accepts XYZ+3, which is no zone, and localtime, which is not the same zone on each machine.
    IF zone ~ '[0-9]'
            AND zone !~ '^(Etc/)?GMT[+-]?0$|^Etc/GMT(\+([1-9]|1[0-2])|-([1-9]|1[0-4]))$'
                '|^(EST5EDT|CST6CDT|MST7MDT|PST8PDT)$'
        OR zone ~* '^(local|localtime|posixrules|right/.*|posix/.*)$'
    THEN
        RETURN false;
    END IF;
    -- Postgres restores the session's zone when this function returns, because the function has a SET clause. The view
    -- pg_timezone_names takes 150 ms, because it reads all zones from the disk.
    PERFORM set_config('timezone', zone, true);
    RETURN current_setting('timezone') = zone; -- Postgres ignores the case of names, and Go does not
EXCEPTION WHEN invalid_parameter_value THEN
    RETURN false;
END $$;
COMMENT ON FUNCTION tasktable.knows_time_zone IS 'Whether this is the name of a time zone, as Postgres spells it.';

CREATE FUNCTION tasktable.schedule_recurring(
    payload jsonb, cron text, id text, time_zone text DEFAULT 'UTC', starts_at timestamptz DEFAULT NULL,
    ends_at timestamptz DEFAULT NULL, max_occurrences int DEFAULT NULL, overlap text DEFAULT 'skip',
    catch_up text DEFAULT 'latest', catch_up_limit int DEFAULT 100, catch_up_paused text DEFAULT 'none',
    jitter interval DEFAULT NULL, priority int DEFAULT NULL, queue text DEFAULT NULL,
    expiration interval DEFAULT NULL, expected_execution_time interval DEFAULT NULL, max_attempts int DEFAULT NULL,
    tenant_id text DEFAULT NULL, entity text DEFAULT NULL, retention interval DEFAULT NULL,
    if_finished text DEFAULT NULL, scheduled_by text DEFAULT NULL, trace text DEFAULT NULL, if_dead jsonb DEFAULT NULL,
    replace boolean DEFAULT false, group_key text DEFAULT NULL, backoff text DEFAULT NULL,
    timeout interval DEFAULT NULL
) RETURNS tasktable.verb_outcome LANGUAGE plpgsql AS $$
DECLARE
    missing text := CASE WHEN cron IS NULL THEN 'cron' WHEN id IS NULL THEN 'id' END;
BEGIN
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION '% must be given for a recurring task', missing
            USING ERRCODE = 'not_null_violation', COLUMN = missing;
    END IF;
    RETURN tasktable.schedule(payload, starts_at, id, priority, queue, expiration, expected_execution_time,
        max_attempts, tenant_id, entity, if_finished, scheduled_by, true, 'schedule', jitter, retention, cron,
        time_zone, overlap, catch_up, catch_up_paused, catch_up_limit, ends_at, max_occurrences, trace,
        if_dead, NULL, replace, NULL, group_key, backoff, timeout);
END $$;
COMMENT ON FUNCTION tasktable.schedule_recurring IS 'Creates or updates a recurring task. Each fire of cron in '
    'time_zone forks an occurrence. An edit does not fire it. Outcome: as of schedule.';

CREATE FUNCTION tasktable.fork_occurrence(
    parent text, fire timestamptz, skip_reason text DEFAULT NULL, by text DEFAULT NULL, wake boolean DEFAULT true,
    at_once boolean DEFAULT false
) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    author     text := coalesce(by,
        CASE WHEN current_setting('tasktable_change.context', true) = 'engine' THEN 'leader' END);
    former     text := tasktable.enter_change('fork', author, wake);
    seconds    CONSTANT text := 'YYYY-MM-DD"T"HH24:MI:SS';
    occurrence text;
BEGIN
    INSERT INTO tasktable.scheduled_tasks AS t (id, payload, entity, tenant_id, queue, status, priority, scheduled_at,
        run_now_at, expiration, expected_execution_time, max_attempts, jitter, parent_id, message, scheduled_by,
        retention, trace, if_dead, group_key, backoff, timeout)
    SELECT p.id || '@' || to_char(fire AT TIME ZONE 'UTC',
            seconds || CASE WHEN date_trunc('second', fire) = fire THEN '"Z"' ELSE '.US"Z"' END),
        p.payload, p.entity, p.tenant_id, p.queue, CASE WHEN skip_reason IS NULL THEN 'QUEUED' ELSE 'SKIPPED' END,
        p.priority, fire, CASE WHEN at_once THEN tasktable.asked_now() END, p.expiration, p.expected_execution_time,
        p.max_attempts, p.jitter, p.id, skip_reason, p.scheduled_by, p.retention, p.trace, p.if_dead,
        p.group_key, p.backoff, p.timeout
    FROM tasktable.scheduled_tasks AS p WHERE p.id = parent AND p.cron IS NOT NULL
    ON CONFLICT (id) DO NOTHING
    RETURNING t.id INTO occurrence;
    former := tasktable.leave_change(former);
    RETURN occurrence;
END $$;
COMMENT ON FUNCTION tasktable.fork_occurrence IS 'Inserts the occurrence of a recurring task for a fire time, or a '
    'SKIPPED row with the reason. Returns its id, or null if it exists. at_once: it is due now, without jitter, and '
    'its expiration counts from now.';

CREATE FUNCTION tasktable.reopen_occurrence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tasktable.scheduled_tasks AS p SET open_occurrences_from = NEW.scheduled_at
    WHERE p.id = NEW.parent_id AND p.cron IS NOT NULL AND p.open_occurrences_from > NEW.scheduled_at;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION tasktable.reopen_occurrence IS 'Makes the leader find an occurrence that waits again.';
CREATE TRIGGER task_7_reopen AFTER UPDATE OF status, scheduled_at, parent_id ON tasktable.scheduled_tasks
    FOR EACH ROW WHEN (NEW.parent_id IS NOT NULL AND NEW.status IN ('QUEUED', 'PAUSED') AND NEW.fence IS NULL
        AND NEW.attempt = 0) EXECUTE FUNCTION tasktable.reopen_occurrence();
COMMENT ON TRIGGER task_7_reopen ON tasktable.scheduled_tasks IS 'An occurrence that waits again.';

-- With its defaults Postgres would read and sort all occurrences of a task that has many, if most tasks have few. These
-- settings leave it the index scheduled_tasks_parent alone.
CREATE FUNCTION tasktable.recurring_health(
    id text, revision bigint, queue text, type text, only_success boolean DEFAULT false, OUT last_success timestamptz,
    OUT last_failure timestamptz, OUT last_error text, OUT failures_in_a_row int, OUT expected_since timestamptz
) LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
#variable_conflict use_column
DECLARE
    one record;
BEGIN
    failures_in_a_row := 0;
    FOR one IN
        SELECT t.status, t.finished_at, t.message FROM tasktable.scheduled_tasks AS t
        WHERE t.parent_id = recurring_health.id ORDER BY t.scheduled_at DESC LIMIT 1000
    LOOP
        IF one.status = 'COMPLETED' THEN
            last_success := coalesce(last_success, one.finished_at);
        ELSIF one.status IN ('FAILED', 'EXPIRED') THEN
            IF last_success IS NULL THEN
                failures_in_a_row := failures_in_a_row + 1;
            END IF;
            IF last_failure IS NULL THEN
                last_failure := one.finished_at;
                last_error := substring(one.message FROM '[^\r\n]+');
            END IF;
        END IF;
        EXIT WHEN last_success IS NOT NULL AND (last_failure IS NOT NULL OR only_success);
    END LOOP;
    SELECT greatest(
        (SELECT c.changed_at FROM tasktable.scheduled_task_changes AS c WHERE c.revision = recurring_health.revision),
        (SELECT max(p.ends_at::timestamptz) FROM tasktable.pauses AS p
        WHERE p.ends_at <= statement_timestamp() AND (p.scope = 'all'
            OR p.scope = 'queue' AND p.name = recurring_health.queue
            OR p.scope = 'type' AND p.name = recurring_health.type)))
    INTO expected_since;
END $$;
COMMENT ON FUNCTION tasktable.recurring_health IS 'How the newest occurrences of a recurring task ended, at most 1000. '
    'A success is COMPLETED, a failure is FAILED or EXPIRED. SKIPPED and CANCELLED are neither. expected_since is its '
    'last edit or resume, or the end of the last pause of its queue, of its type or of everything. With only_success '
    'the look ends at the last success, and last_failure may be missing.';

CREATE VIEW tasktable.recurring_tasks AS
    SELECT t.id, t.type, t.queue, t.status, t.cron, t.time_zone,
        CASE WHEN t.planned_revision = t.revision THEN t.next_attempt_at END AS next_fire,
        t.started_at AS last_fire, t.occurrence_count, t.overlap, t.catch_up, t.catch_up_paused, t.catch_up_limit,
        t.jitter, t.ends_at, t.max_occurrences, t.paused_until, t.declared_by, t.message,
        h.last_success, h.last_failure, h.last_error, h.failures_in_a_row,
        CASE WHEN t.finished_at IS NOT NULL THEN 'ended'
            WHEN t.status = 'PAUSED' OR EXISTS (SELECT 1 FROM tasktable.pauses AS p
                WHERE (p.ends_at IS NULL OR p.ends_at > statement_timestamp()) AND (p.scope = 'all'
                    OR p.scope = 'queue' AND p.name = t.queue OR p.scope = 'type' AND p.name = t.type)) THEN 'paused'
            WHEN h.failures_in_a_row > 0 THEN 'failing'
            WHEN h.last_success IS NOT NULL THEN 'ok'
            ELSE 'new' END AS health
    FROM tasktable.scheduled_tasks AS t
    CROSS JOIN LATERAL tasktable.recurring_health(t.id::text, t.revision, t.queue::text, t.type::text) AS h
    WHERE t.cron IS NOT NULL;
COMMENT ON VIEW tasktable.recurring_tasks IS 'Recurring tasks with their next and last fire, and how their occurrences '
    'ended. next_fire is null until the leader has planned it.';
COMMENT ON COLUMN tasktable.recurring_tasks.last_success IS 'When the newest occurrence that COMPLETED ended. Null: '
    'none of its 1000 newest occurrences has.';
COMMENT ON COLUMN tasktable.recurring_tasks.last_failure IS 'When the newest occurrence that FAILED or EXPIRED ended. '
    'Null: none of its 1000 newest occurrences has, or retention has removed it.';
COMMENT ON COLUMN tasktable.recurring_tasks.last_error IS 'The first line of the message of that occurrence.';
COMMENT ON COLUMN tasktable.recurring_tasks.failures_in_a_row IS 'How many occurrences FAILED or EXPIRED since the '
    'newest that COMPLETED.';
COMMENT ON COLUMN tasktable.recurring_tasks.health IS 'ok; failing (its last occurrence that ended FAILED or EXPIRED); '
    'new (no occurrence has ended); paused; ended (it fires no more). Whether it is overdue only programs know, '
    'because Postgres cannot compute fires: see the command recurring list.';

CREATE FUNCTION tasktable.seconds_text(given interval) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT trim_scale(extract(epoch FROM tasktable.in_hours(given))) || ' seconds'
$$;
COMMENT ON FUNCTION tasktable.seconds_text IS 'An interval as a text that depends on no setting.';

CREATE FUNCTION tasktable.queue_of(task jsonb) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce(task ->> 'queue', d.queue, 'default') FROM tasktable.defaults_of(task -> 'payload' ->> 'type') AS d
$$;
COMMENT ON FUNCTION tasktable.queue_of IS 'The queue of a task in JSON, with the default of its type.';

CREATE FUNCTION tasktable.one_if_dead(task jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object(
        'id', (task ->> 'id')::tasktable.task_id,
        'scheduled_at', to_char((task ->> 'scheduled_at')::tasktable.task_time AT TIME ZONE 'UTC',
            'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'priority', nullif((task ->> 'priority')::tasktable.task_priority, 0),
        -- Resolved now, because nobody checks at the death who may use another queue.
        'queue', tasktable.queue_of(task)::tasktable.task_queue,
        'expiration', tasktable.seconds_text((task ->> 'expiration')::tasktable.task_expiration),
        'expected_execution_time', tasktable.seconds_text(
            (task ->> 'expected_execution_time')::tasktable.task_execution_time),
        'max_attempts', (task ->> 'max_attempts')::tasktable.task_max_attempts,
        'entity', (task ->> 'entity')::tasktable.task_entity,
        'group_key', (task ->> 'group_key')::tasktable.task_group_key,
        'backoff', (task ->> 'backoff')::tasktable.task_backoff,
        'timeout', tasktable.seconds_text((task ->> 'timeout')::tasktable.task_timeout),
        'deadline', to_char((task ->> 'deadline')::tasktable.task_deadline AT TIME ZONE 'UTC',
            'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'if_finished', task ->> 'if_finished',
        'jitter', tasktable.seconds_text((task ->> 'jitter')::tasktable.task_jitter),
        'retention', tasktable.seconds_text((task ->> 'retention')::tasktable.task_retention)))
        -- Outside of the object above, because jsonb_strip_nulls would also change the payload.
        || jsonb_build_object('payload', (task -> 'payload')::tasktable.task_payload)
$$;
COMMENT ON FUNCTION tasktable.one_if_dead IS 'Part of if_dead_of: one task, without the fields that have no value. '
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
                'retention', 'group_key', 'backoff', 'timeout', 'deadline'])
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
            PERFORM tasktable.refuse_unbound(id, task -> 'payload' ->> 'type', tasktable.queue_of(task));
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

CREATE FUNCTION tasktable.note_spawned(child text, parent text, created boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- It writes no column whose edit draws a revision. Tasks that ask for each other for ever must not write to the
    -- database without a pause.
    UPDATE tasktable.scheduled_tasks AS t
    SET spawned_by = coalesce(parent, t.spawned_by),
        scheduled_by = CASE WHEN created
            THEN (SELECT p.scheduled_by FROM tasktable.scheduled_tasks AS p WHERE p.id = parent)
            ELSE t.scheduled_by END,
        next_attempt_at = CASE WHEN created OR t.next_attempt_at IS NULL THEN t.next_attempt_at
            ELSE greatest(t.next_attempt_at, (SELECT e.started_at + interval '1 second'
                FROM tasktable.scheduled_task_executions AS e WHERE e.task_id = child AND e.started_at IS NOT NULL
                ORDER BY e.fence DESC LIMIT 1)) END,
        due_at = CASE WHEN created THEN t.due_at END
    WHERE t.id = child;
END $$;
COMMENT ON FUNCTION tasktable.note_spawned IS 'Writes to a follow-up, or to a task of if_dead, which task brought it '
    'about; null leaves that as it is. A new one belongs to that task''s service. One that has run before starts a '
    'second after its last start at the earliest.';

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
        priority => (task ->> 'priority')::int, queue => coalesce(task ->> 'queue', 'default'),
        expiration => (task ->> 'expiration')::interval,
        expected_execution_time => (task ->> 'expected_execution_time')::interval,
        max_attempts => (task ->> 'max_attempts')::int, tenant_id => dead.tenant_id,
        entity => coalesce(task ->> 'entity', dead.entity), if_finished => task ->> 'if_finished',
        scheduled_by => CASE WHEN octet_length(dead.id) <= 507 THEN 'task ' || dead.id ELSE dead.scheduled_by END,
        jitter => (task ->> 'jitter')::interval, retention => (task ->> 'retention')::interval, trace => dead.trace,
        group_key => task ->> 'group_key', backoff => task ->> 'backoff',
        timeout => (task ->> 'timeout')::interval, deadline => (task ->> 'deadline')::timestamptz);
    IF done.outcome = 'finished' THEN
        RETURN format('task "%s" of if_dead stays finished', child);
    ELSIF done.outcome = 'unchanged' THEN
        RETURN NULL;
    END IF;
    made := done.outcome = 'created';
    IF NOT known AND NOT made THEN -- somebody has just made it, and nothing above has looked at it
        RAISE EXCEPTION 'task "%" was scheduled at the same time', child USING ERRCODE = 'lock_not_available';
    END IF;
    PERFORM tasktable.note_spawned(child, dead.id, made);
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
    -- settle fails, and the node repeats it in smaller parts. Each part that has the locked task waits as long again,
    -- and the outcomes of all parts wait meanwhile.
    PERFORM set_config('lock_timeout', '20ms', true);
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
DROP FUNCTION tasktable.after_task_end, tasktable.schedule_if_dead, tasktable.note_spawned, tasktable.if_dead_of,
    tasktable.queue_of, tasktable.one_if_dead, tasktable.seconds_text;
DROP VIEW tasktable.recurring_tasks;
DROP FUNCTION tasktable.recurring_health;
DROP TRIGGER task_7_reopen ON tasktable.scheduled_tasks;
DROP FUNCTION tasktable.reopen_occurrence, tasktable.fork_occurrence, tasktable.schedule_recurring,
    tasktable.knows_time_zone, tasktable.cron_fault;
