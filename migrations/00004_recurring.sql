-- Recurring tasks.
--
-- A recurring task is a row with a cron expression. It never runs itself: the leader forks an occurrence of it for each fire.
-- Postgres cannot compute a fire time, so an insert or edit leaves planned_revision behind revision, which asks the leader to
-- plan the next fire without firing.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION tasktable.cron_fault(cron text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    form   CONSTANT text := 'must be 5 fields (minute, hour, day of month, month, day of week), 6 with the seconds first, '
        '@hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually or @every with a duration';
    period CONSTANT text := 'must have after @every a duration of whole seconds, at least 1s, such as 90s or 1h30m';
    -- One element for each field: its name, least and greatest number, how many values it has, when it begins anew,
    -- and the names of its values.
    label  CONSTANT text[] := '{second, minute, hour, day of month, month, day of week}';
    low    CONSTANT int[] := '{0, 0, 0, 1, 1, 0}';
    high   CONSTANT int[] := '{59, 59, 23, 31, 12, 7}';
    count  CONSTANT int[] := '{60, 60, 24, 31, 12, 7}';
    unit   CONSTANT text[] := '{minute, hour, day, month, year, week}';
    named  CONSTANT text[] := ARRAY['', '', '', '',
        '^(jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sep(tember)?|oct(ober)?|nov(ember)?'
        '|dec(ember)?)$',
        '^(sun(day)?|mon(day)?|tue(sday)?|wed(nesday)?|thu(rsday)?|fri(day)?|sat(urday)?)$'];
    -- "C", because the letters of a Turkish database are others.
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
        -- The leader's parser cuts off fractions of a nanosecond, so that rounding keeps this from refusing more than it does.
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
COMMENT ON FUNCTION tasktable.cron_fault(text) IS
    'Why a cron expression cannot be read; null where it can. 30 February can be read: the leader fails it.';

CREATE FUNCTION tasktable.knows_time_zone(zone text) RETURNS boolean LANGUAGE plpgsql SET timezone = 'UTC' AS $$
BEGIN
    -- Postgres also takes XYZ+3, which names no zone, and localtime, which is another zone on each machine.
    IF zone ~ '[0-9]'
            AND zone !~ '^(Etc/)?GMT[+-]?0$|^Etc/GMT(\+([1-9]|1[0-2])|-([1-9]|1[0-4]))$|^(EST5EDT|CST6CDT|MST7MDT|PST8PDT)$'
        OR zone ~* '^(local|localtime|posixrules|right/.*|posix/.*)$'
    THEN
        RETURN false;
    END IF;
    -- Postgres restores the session's zone at the end of this function, because the function has a setting of its own.
    -- The view pg_timezone_names is no way, because it reads all zones from the disk, for 150 ms.
    PERFORM set_config('timezone', zone, true);
    RETURN current_setting('timezone') = zone; -- Postgres takes names in any case, and Go does not
EXCEPTION WHEN invalid_parameter_value THEN
    RETURN false;
END $$;
COMMENT ON FUNCTION tasktable.knows_time_zone(text) IS
    'Whether this is the name of a time zone, as Postgres spells it.';

CREATE FUNCTION tasktable.schedule_recurring(
    payload jsonb,
    cron text,
    id text,
    time_zone text DEFAULT 'UTC',
    starts_at timestamptz DEFAULT NULL,
    ends_at timestamptz DEFAULT NULL,
    max_occurrences int DEFAULT NULL,
    overlap text DEFAULT 'skip',
    catch_up text DEFAULT 'latest',
    catch_up_limit int DEFAULT 100,
    catch_up_paused text DEFAULT 'none',
    jitter interval DEFAULT NULL,
    priority int DEFAULT 0,
    queue text DEFAULT 'default',
    expiration interval DEFAULT NULL,
    expected_execution_time interval DEFAULT '5 minutes',
    max_attempts int DEFAULT 5,
    tenant_id text DEFAULT NULL,
    entity text DEFAULT NULL,
    retention interval DEFAULT NULL,
    if_finished text DEFAULT NULL,
    scheduled_by text DEFAULT NULL,
    trace text DEFAULT NULL
) RETURNS tasktable.verb_outcome LANGUAGE plpgsql AS $$
BEGIN
    IF schedule_recurring.cron IS NULL OR schedule_recurring.id IS NULL THEN
        RAISE EXCEPTION '% must be given for a recurring task', CASE WHEN schedule_recurring.cron IS NULL THEN 'cron' ELSE 'id' END
            USING ERRCODE = 'not_null_violation', COLUMN = CASE WHEN schedule_recurring.cron IS NULL THEN 'cron' ELSE 'id' END;
    END IF;
    RETURN tasktable.schedule(schedule_recurring.payload, schedule_recurring.starts_at, schedule_recurring.id, schedule_recurring.priority,
        schedule_recurring.queue, schedule_recurring.expiration, schedule_recurring.expected_execution_time, schedule_recurring.max_attempts,
        schedule_recurring.tenant_id, schedule_recurring.entity, schedule_recurring.if_finished, schedule_recurring.scheduled_by, true, 'schedule',
        schedule_recurring.jitter, schedule_recurring.retention, schedule_recurring.cron, schedule_recurring.time_zone, schedule_recurring.overlap,
        schedule_recurring.catch_up, schedule_recurring.catch_up_paused, schedule_recurring.catch_up_limit, schedule_recurring.ends_at,
        schedule_recurring.max_occurrences, schedule_recurring.trace);
END $$;
COMMENT ON FUNCTION tasktable.schedule_recurring(jsonb, text, text, text, timestamptz, timestamptz, int, text, text, int, text, interval, int, text, interval, interval, int, text, text, interval, text, text, text) IS
    'Upserts a recurring task by its id. It never runs itself: each fire of cron, on the clocks of time_zone, forks '
    'an occurrence. Editing it does not fire it.';

CREATE FUNCTION tasktable.fork_occurrence(
    parent text,
    fire timestamptz,
    skip_reason text DEFAULT NULL,
    by text DEFAULT NULL,
    wake boolean DEFAULT true,
    at_once boolean DEFAULT false
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    -- Whoever asks, as for any other verb; only the leader's own forks are the leader's.
    author     text := coalesce(fork_occurrence.by, CASE WHEN current_setting('tasktable_change.context', true) = 'engine' THEN 'leader' END);
    former     text := tasktable.enter_change('fork', author, fork_occurrence.wake);
    occurrence text;
BEGIN
    INSERT INTO tasktable.scheduled_tasks AS t (id, payload, entity, tenant_id, queue, status, priority, scheduled_at, run_now_at, expiration,
        expected_execution_time, max_attempts, jitter, parent_id, message, scheduled_by, retention, trace)
    SELECT p.id || '@' || to_char(fork_occurrence.fire AT TIME ZONE 'UTC',
               CASE WHEN date_trunc('second', fork_occurrence.fire) = fork_occurrence.fire THEN 'YYYY-MM-DD"T"HH24:MI:SS"Z"' ELSE 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"' END),
           p.payload, p.entity, p.tenant_id, p.queue, CASE WHEN fork_occurrence.skip_reason IS NULL THEN 'QUEUED' ELSE 'SKIPPED' END, p.priority,
           fork_occurrence.fire, CASE WHEN fork_occurrence.at_once THEN tasktable.asked_now() END, p.expiration, p.expected_execution_time,
           p.max_attempts, p.jitter, p.id, fork_occurrence.skip_reason, p.scheduled_by, p.retention, p.trace
    FROM tasktable.scheduled_tasks AS p WHERE p.id = fork_occurrence.parent AND p.cron IS NOT NULL
    ON CONFLICT (id) DO NOTHING
    RETURNING t.id INTO occurrence;
    former := tasktable.leave_change(former);
    RETURN occurrence;
END $$;
COMMENT ON FUNCTION tasktable.fork_occurrence(text, timestamptz, text, text, boolean, boolean) IS
    'Makes the occurrence of a recurring task for one fire time, or the SKIPPED row that says why it did not run, and '
    'returns its id; null where it is there already. at_once: as by run_now, without jitter, its expiration counted '
    'from now.';

CREATE FUNCTION tasktable.reopen_occurrence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tasktable.scheduled_tasks AS p SET open_occurrences_from = NEW.scheduled_at
    WHERE p.id = NEW.parent_id AND p.cron IS NOT NULL AND p.open_occurrences_from > NEW.scheduled_at;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION tasktable.reopen_occurrence() IS 'An occurrence that waits again counts as one that has not ended.';

CREATE TRIGGER task_7_reopen AFTER UPDATE OF status, scheduled_at, parent_id ON tasktable.scheduled_tasks
    FOR EACH ROW WHEN (NEW.parent_id IS NOT NULL AND NEW.status IN ('QUEUED', 'PAUSED') AND NEW.fence IS NULL AND NEW.attempt = 0)
    EXECUTE FUNCTION tasktable.reopen_occurrence();
COMMENT ON TRIGGER task_7_reopen ON tasktable.scheduled_tasks IS 'An occurrence that waits again.';

CREATE VIEW tasktable.recurring_tasks AS
    SELECT t.id, t.type, t.queue, t.status, t.cron, t.time_zone, CASE WHEN t.planned_revision = t.revision THEN t.next_attempt_at END AS next_fire,
           t.started_at AS last_fire, t.occurrence_count, t.overlap, t.catch_up, t.catch_up_paused, t.catch_up_limit, t.jitter, t.ends_at,
           t.max_occurrences, t.paused_until, t.declared_by, t.message
    FROM tasktable.scheduled_tasks AS t
    WHERE t.cron IS NOT NULL;
COMMENT ON VIEW tasktable.recurring_tasks IS
    'Recurring tasks with their next and last fire; next_fire is null until the leader has planned it.';
-- +goose StatementEnd

-- +goose Down
DROP VIEW tasktable.recurring_tasks;
DROP TRIGGER task_7_reopen ON tasktable.scheduled_tasks;
DROP FUNCTION tasktable.reopen_occurrence, tasktable.fork_occurrence, tasktable.schedule_recurring,
    tasktable.knows_time_zone, tasktable.cron_fault;
