-- Recurring tasks.
--
-- A recurring task is a row with a cron expression. It never runs itself. For each fire the leader forks an occurrence.
-- Postgres cannot compute a fire time. Therefore an insert or edit leaves planned_revision behind revision. The leader
-- then plans the next fire, without firing.

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
    jitter interval DEFAULT NULL, priority int DEFAULT 0, queue text DEFAULT 'default',
    expiration interval DEFAULT NULL, expected_execution_time interval DEFAULT '5 minutes', max_attempts int DEFAULT 10,
    tenant_id text DEFAULT NULL, entity text DEFAULT NULL, retention interval DEFAULT NULL,
    if_finished text DEFAULT NULL, scheduled_by text DEFAULT NULL, trace text DEFAULT NULL, if_dead jsonb DEFAULT NULL,
    replace boolean DEFAULT false
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
        if_dead, NULL, replace);
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
        retention, trace, if_dead)
    SELECT p.id || '@' || to_char(fire AT TIME ZONE 'UTC',
            seconds || CASE WHEN date_trunc('second', fire) = fire THEN '"Z"' ELSE '.US"Z"' END),
        p.payload, p.entity, p.tenant_id, p.queue, CASE WHEN skip_reason IS NULL THEN 'QUEUED' ELSE 'SKIPPED' END,
        p.priority, fire, CASE WHEN at_once THEN tasktable.asked_now() END, p.expiration, p.expected_execution_time,
        p.max_attempts, p.jitter, p.id, skip_reason, p.scheduled_by, p.retention, p.trace, p.if_dead
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
-- +goose StatementEnd

-- +goose Down
DROP VIEW tasktable.recurring_tasks;
DROP FUNCTION tasktable.recurring_health;
DROP TRIGGER task_7_reopen ON tasktable.scheduled_tasks;
DROP FUNCTION tasktable.reopen_occurrence, tasktable.fork_occurrence, tasktable.schedule_recurring,
    tasktable.knows_time_zone, tasktable.cron_fault;
