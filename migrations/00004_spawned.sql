-- Tasks that come of other tasks: the occurrences of recurring tasks, and the tasks of the column if_dead.
--
-- A recurring task is a row with a cron expression. It never runs itself. For each fire the leader forks an occurrence.
-- Postgres cannot compute a fire time. Therefore an insert or edit leaves planned_revision behind revision. The leader
-- then plans the next fire, without firing. A change of a calendar makes the tasks due that name it, and the leader
-- plans their fires anew.
--
-- The transaction that makes a task FAILED or EXPIRED, whoever does it, schedules the tasks of its if_dead. So they are
-- scheduled exactly if the death is committed.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION tasktable.is_day(day text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN day ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$' AND left(day, 4) <> '0000'
        THEN right(day, 2)::int <= CASE WHEN substring(day, 6, 2) IN ('04', '06', '09', '11') THEN 30
            WHEN substring(day, 6, 2) <> '02' THEN 31
            WHEN left(day, 4)::int % 4 = 0 AND (left(day, 4)::int % 100 <> 0 OR left(day, 4)::int % 400 = 0) THEN 29
            ELSE 28 END
        ELSE false END
$$;
COMMENT ON FUNCTION tasktable.is_day IS 'Whether the text is a day that exists, such as 2027-12-24.';

CREATE FUNCTION tasktable.options_fault(options text[], fields text[] DEFAULT '{}')
RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    known    CONSTANT text[] := '{every, from, out-of, keep-to, move}';
    name     CONSTANT text := '[a-z][a-z0-9_-]{0,62}';
    workdays CONSTANT text := '^workdays(:D(-D)?(\+D(-D)?){0,6})?$';
    day      CONSTANT text := '(mon|tue|wed|thu|fri|sat|sun)';
    -- Whether the fields of the day and of the day of the week leave out days.
    by_day   CONSTANT boolean := fields[cardinality(fields) - 2] !~ '^[*?](/0*1)?$';
    by_week  CONSTANT boolean := fields[cardinality(fields)] !~ '^[*?](/0*1)?$';
    given    jsonb := '{}';
    one      text COLLATE "C";
    called   text COLLATE "C";
    value    text COLLATE "C";
    names    text[] COLLATE "C";
BEGIN
    FOREACH one IN ARRAY options LOOP
        called := split_part(one, '=', 1);
        value := substring(one FROM position('=' IN one) + 1);
        IF position('=' IN one) = 0 OR called <> ALL (known) THEN
            RETURN 'must have no words behind the fields but the options every=, from=, out-of=, keep-to= and move=';
        ELSIF given ? called THEN
            RETURN 'must have each option at most once';
        ELSIF called = 'every' AND (value !~ '^0*[0-9]{1,4}$' OR value::int NOT BETWEEN 1 AND 1000) THEN
            RETURN 'option every must be a whole number from 1 to 1000';
        ELSIF called = 'from' AND NOT tasktable.is_day(value) THEN
            RETURN 'option from must be a day that exists, such as 2027-01-05';
        ELSIF called = 'move' AND value NOT IN ('skip', 'next', 'previous') THEN
            RETURN 'option move must be skip, next or previous';
        ELSIF called IN ('out-of', 'keep-to') THEN
            names := regexp_split_to_array(value, ','); -- of an empty text one name, which is none
            IF cardinality(names) > 8 THEN
                RETURN format('option %s must have at most 8 calendars', called);
            END IF;
            FOREACH value IN ARRAY names LOOP
                IF value !~ ('^' || name || '$') AND value !~ replace(workdays, 'D', day) THEN
                    RETURN format('option %s must have names of calendars (a-z first, then also 0-9, _ and -, at most '
                        '63 characters), workdays, or other days as workdays:mon-thu+sat', called);
                ELSIF cardinality(array_positions(names, value)) > 1 THEN
                    RETURN format('option %s must not name a calendar twice', called);
                END IF;
            END LOOP;
        END IF;
        given := given || jsonb_build_object(called, substring(one FROM position('=' IN one) + 1));
    END LOOP;
    RETURN CASE WHEN (given ->> 'every')::int > 1 AND NOT given ? 'from'
            THEN 'option every needs from, the day from which it counts'
        WHEN given ? 'from' AND NOT given ? 'every' THEN 'option from needs every'
        WHEN given ->> 'move' <> 'skip' AND NOT given ?| '{out-of, keep-to}'
            THEN 'option move needs out-of or keep-to, because otherwise no day is out'
        WHEN fields[1] ~* '^@every$' AND ((given ->> 'every')::int > 1 OR given ->> 'move' <> 'skip')
            THEN '@every must have no options but out-of and keep-to, because it counts elapsed time'
        WHEN (given ->> 'every')::int > 1 AND cardinality(fields) IN (5, 6) AND by_day AND by_week
            THEN 'option every must not go with both a day of month and a day of week, because it would be unclear '
                'whether it counts weeks or months' END;
END $$;
COMMENT ON FUNCTION tasktable.options_fault IS 'Why the options behind the fields of a cron expression cannot be read, '
    'or null.';

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
    fields  text[] COLLATE "C" := regexp_split_to_array(btrim(cron), '\s+');
    options text[] COLLATE "C" := '{}';
    member text COLLATE "C";
    part   text[] COLLATE "C";
    value  text COLLATE "C";
    total  numeric;
BEGIN
    IF fields[1] ~* '^(cron_)?tz=' THEN
        RETURN 'must not name a zone (TZ=, CRON_TZ=): use time_zone';
    END IF;
    FOR i IN 2..cardinality(fields) LOOP
        IF fields[i] ~ '=' THEN
            options := fields[i:];
            fields := fields[:i - 1];
            EXIT;
        END IF;
    END LOOP;
    value := tasktable.options_fault(options, fields);
    IF value IS NOT NULL THEN
        RETURN value;
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

CREATE FUNCTION tasktable.calendars_of(cron text, option text DEFAULT '(?:out-of|keep-to)')
RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY(SELECT DISTINCT name FROM regexp_matches(cron, ' ' || option || '=([^ ]+)', 'g') AS one (list)
        CROSS JOIN string_to_table(one.list[1], ',') AS name WHERE name !~ '^workdays(:|$)')
$$;
COMMENT ON FUNCTION tasktable.calendars_of IS 'The names of the calendars that a cron expression needs.';

CREATE FUNCTION tasktable.sorted_days(days jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    broken text;
    sorted jsonb;
BEGIN
    IF jsonb_typeof(sorted_days.days) IS DISTINCT FROM 'array' THEN
        broken := 'days must be an array of days, of spans such as "2027-12-24..2027-12-31", or of objects with from, '
            'to and note';
    ELSIF jsonb_array_length(sorted_days.days) > 5000 THEN
        broken := 'days must be at most 5000 spans, not ' || jsonb_array_length(sorted_days.days);
    ELSE
        WITH span AS MATERIALIZED (
            SELECT each.ordinality AS place, each.value AS given, jsonb_typeof(each.value) AS kind,
                CASE jsonb_typeof(each.value) WHEN 'object' THEN each.value ->> 'from'
                    ELSE split_part(each.value #>> '{}', '..', 1) END COLLATE "C" AS first,
                CASE jsonb_typeof(each.value) WHEN 'object' THEN coalesce(each.value ->> 'to', each.value ->> 'from')
                    ELSE substring(each.value #>> '{}' FROM '^(?:.*?\.\.)?(.*)$') END COLLATE "C" AS last,
                CASE jsonb_typeof(each.value) WHEN 'object' THEN nullif(each.value ->> 'note', '') END AS note
            FROM jsonb_array_elements(sorted_days.days) WITH ORDINALITY AS each
        ), checked AS MATERIALIZED (
            SELECT span.*, CASE WHEN kind NOT IN ('string', 'object') THEN 'must be a text or an object'
                WHEN kind = 'object' AND given - '{from, to, note}'::text[] <> '{}'
                    THEN 'must have no other fields than from, to and note'
                WHEN NOT tasktable.is_day(first)
                    THEN 'from must be a day such as 2027-12-24, not ' || coalesce(quote_ident(left(first, 60)), 'null')
                WHEN NOT tasktable.is_day(last) THEN format('to must be a day such as 2027-12-24, not "%s"',
                    left(last, 60))
                WHEN last < first THEN format('to must not be before from, not %s before %s', last, first)
                WHEN last::date - first::date >= 3653
                    THEN format('must be at most 3653 days (ten years) long, not %s..%s', first, last)
                WHEN char_length(note) > 200 OR note ~ '[\u0001-\u001f\u007f-\u009f]'
                    THEN 'note must be at most 200 characters without control characters' END AS broken
            FROM span
        )
        SELECT (SELECT format('days: span %s %s', c.place, c.broken) FROM checked AS c
                WHERE c.broken IS NOT NULL ORDER BY c.place LIMIT 1),
            (SELECT coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object('from', c.first, 'to', c.last,
                'note', c.note)) ORDER BY c.first, c.last, c.note COLLATE "C"), '[]')
            FROM (SELECT DISTINCT first, last, note FROM checked WHERE checked.broken IS NULL) AS c)
        INTO broken, sorted;
    END IF;
    IF broken IS NOT NULL THEN
        RAISE EXCEPTION '%', broken USING ERRCODE = 'check_violation', COLUMN = 'days';
    END IF;
    RETURN sorted;
END $$;
COMMENT ON FUNCTION tasktable.sorted_days IS 'Checks the days of a calendar, and returns them in the form in which '
    'they are stored.';

CREATE FUNCTION tasktable.refuse_unknown_calendars(id text, cron text, tenant_id text) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    keeps  CONSTANT text[] := tasktable.calendars_of(refuse_unknown_calendars.cron, 'keep-to');
    one    text;
    days   jsonb;
BEGIN
    FOREACH one IN ARRAY tasktable.calendars_of(refuse_unknown_calendars.cron) LOOP
        -- The lock keeps others from removing the calendar until the commit. It waits for no edit of its days.
        SELECT c.days INTO days FROM tasktable.calendars AS c
        WHERE c.name = one AND c.tenant_id IN ('', refuse_unknown_calendars.tenant_id)
        ORDER BY c.tenant_id DESC LIMIT 1 FOR KEY SHARE;
        IF NOT FOUND OR days = '[]' AND one = ANY (keeps) THEN
            RAISE EXCEPTION 'task "%": cron: calendar "%" %, in "%"', refuse_unknown_calendars.id, one,
                CASE WHEN days IS NULL THEN 'does not exist' ELSE 'to keep to has no days' END,
                left(refuse_unknown_calendars.cron, 100)
                USING ERRCODE = 'check_violation', COLUMN = 'cron';
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION tasktable.refuse_unknown_calendars IS 'Refuses a recurring task whose rule names a calendar that '
    'does not exist, or keeps to one without days.';

CREATE FUNCTION tasktable.calendar_tasks(name text, tenant_id text) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    -- The conditions on next_attempt_at let Postgres find the tasks by the two indexes of recurring tasks.
    SELECT t.id::text FROM tasktable.scheduled_tasks AS t
    WHERE t.cron IS NOT NULL AND t.finished_at IS NULL AND t.cron LIKE '%-%=%'
        AND (t.next_attempt_at IS NOT NULL OR t.next_attempt_at IS NULL)
        AND calendar_tasks.name = ANY (tasktable.calendars_of(t.cron))
        AND CASE calendar_tasks.tenant_id WHEN '' THEN NOT EXISTS (SELECT FROM tasktable.calendars AS own
                WHERE own.name = calendar_tasks.name AND own.tenant_id = t.tenant_id)
            ELSE t.tenant_id = calendar_tasks.tenant_id END
$$;
COMMENT ON FUNCTION tasktable.calendar_tasks IS 'The tasks that have not ended and whose rules use the calendar.';

CREATE FUNCTION tasktable.before_calendar_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND (NEW.tenant_id, NEW.name) IS DISTINCT FROM (OLD.tenant_id, OLD.name) THEN
        RAISE EXCEPTION 'name and tenant_id of calendar "%" cannot be changed: set another one and remove this one',
            OLD.name USING ERRCODE = 'check_violation', COLUMN = 'name';
    END IF;
    NEW.days := tasktable.sorted_days(NEW.days);
    -- The leader locks the calendars by which it plans. It cannot lock one that is not there yet, which hides another.
    IF TG_OP = 'INSERT' AND NEW.tenant_id <> '' THEN
        PERFORM FROM tasktable.calendars AS c WHERE c.tenant_id = '' AND c.name = NEW.name FOR NO KEY UPDATE;
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION tasktable.before_calendar_change IS 'Checks and sorts the days of a calendar.';

CREATE FUNCTION tasktable.after_calendar_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    one tasktable.calendars := coalesce(NEW, OLD);
    ids text[] := ARRAY(SELECT id FROM tasktable.calendar_tasks(one.name, one.tenant_id) AS id ORDER BY id COLLATE "C");
BEGIN
    IF TG_OP = 'DELETE' AND ids <> '{}' AND (one.tenant_id = ''
        OR NOT EXISTS (SELECT FROM tasktable.calendars AS c WHERE c.tenant_id = '' AND c.name = one.name))
    THEN
        RAISE EXCEPTION 'calendar "%" cannot be removed, because rules of tasks name it: %', one.name,
            array_to_string(ids[1:5], ', ') || CASE WHEN cardinality(ids) > 5
                THEN format(' and %s more', cardinality(ids) - 5) ELSE '' END
            USING ERRCODE = '23T02', COLUMN = 'name',
                HINT = 'Cancel these tasks, or take the calendar from their cron.';
    END IF;
    -- Only the leader can say whether a fire moves. Of a task that goes on with fires that were due at once, the leader
    -- has decided about them already, and plans the next one by the new days anyway.
    WITH task AS MATERIALIZED (
        SELECT t.id::text AS id FROM tasktable.scheduled_tasks AS t
        WHERE t.id = ANY (ids) AND t.next_attempt_at IS NOT NULL
            AND NOT (t.planned_revision = t.revision AND coalesce(t.next_attempt_at <= t.started_at, false))
        ORDER BY t.id || '~' COLLATE "C" FOR NO KEY UPDATE
    )
    UPDATE tasktable.scheduled_tasks AS t
    SET next_attempt_at = least(t.next_attempt_at, tasktable.asked_now()),
        planned_zone_data = CASE
            WHEN t.planned_revision IS DISTINCT FROM t.revision OR t.planned_zone_data LIKE 'calendar %'
                THEN t.planned_zone_data
            ELSE format('calendar %s %s', one.name,
                to_char(t.next_attempt_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) END
    FROM task WHERE t.id = ANY (ARRAY[task.id]);
    IF FOUND THEN
        PERFORM tasktable.notify('tasktable.wake', '');
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION tasktable.after_calendar_change IS 'Has the leader plan anew the fires of tasks whose calendar has '
    'changed, and refuses to remove a calendar that a task needs.';

CREATE TRIGGER calendar_1_check BEFORE INSERT OR UPDATE ON tasktable.calendars
    FOR EACH ROW EXECUTE FUNCTION tasktable.before_calendar_change();
COMMENT ON TRIGGER calendar_1_check ON tasktable.calendars IS 'Each new or changed calendar.';
CREATE TRIGGER calendar_2_made AFTER INSERT OR DELETE ON tasktable.calendars
    FOR EACH ROW EXECUTE FUNCTION tasktable.after_calendar_change();
COMMENT ON TRIGGER calendar_2_made ON tasktable.calendars IS 'A calendar that was made or removed.';
CREATE TRIGGER calendar_3_edited AFTER UPDATE ON tasktable.calendars
    FOR EACH ROW WHEN (OLD.days IS DISTINCT FROM NEW.days) EXECUTE FUNCTION tasktable.after_calendar_change();
COMMENT ON TRIGGER calendar_3_edited ON tasktable.calendars IS 'A calendar whose days have changed.';

CREATE FUNCTION tasktable.calendar_tenant(name text, tenant_id text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    -- The role that logged in or was SET. In a verb current_user is the owner.
    caller CONSTANT name := coalesce(nullif(current_setting('role'), 'none'), session_user);
    bound  CONSTANT boolean := tasktable.is_restricted();
    tenant CONSTANT text := CASE WHEN bound THEN tasktable.tenant_of(caller)
        ELSE nullif(current_setting('tasktable.tenant', true), '') END;
    wanted CONSTANT text := coalesce(calendar_tenant.tenant_id, tenant, '');
BEGIN
    IF tenant = '' OR wanted <> tenant THEN
        RAISE EXCEPTION 'tenant_id of calendar "%" must be the tenant of the call, %, not %', calendar_tenant.name,
            quote_nullable(nullif(tenant, '')), quote_literal(wanted)
            USING ERRCODE = 'insufficient_privilege', COLUMN = 'tenant_id';
    ELSIF bound AND tenant IS NULL THEN
        RAISE EXCEPTION 'calendar "%" is for the tasks of all services: role "%" must not change it',
            calendar_tenant.name, caller USING ERRCODE = 'insufficient_privilege', COLUMN = 'name';
    END IF;
    PERFORM tasktable.refuse_unbound_scope('all', '');
    PERFORM pg_advisory_xact_lock(hashtextextended('tasktable.calendars', 0));
    RETURN wanted;
END $$;
COMMENT ON FUNCTION tasktable.calendar_tenant IS 'Part of the verbs of calendars: the tenant whose calendar is to be '
    'changed. Refuses a caller who must not change it, and lets one call go on at a time.';

CREATE FUNCTION tasktable.set_calendar(name text, days jsonb, tenant_id text DEFAULT NULL, by text DEFAULT NULL)
RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    owner         CONSTANT text := tasktable.calendar_tenant(set_calendar.name, set_calendar.tenant_id);
    max_calendars CONSTANT int := 1000;
    max_of_tenant CONSTANT int := 100; -- so that no tenant keeps the others from making theirs
    many          int;
    own           int;
    created       boolean;
BEGIN
    SELECT count(*), count(*) FILTER (WHERE c.tenant_id <> '' AND c.tenant_id = owner) INTO many, own
    FROM tasktable.calendars AS c WHERE (c.tenant_id, c.name) <> (owner, set_calendar.name);
    IF many >= max_calendars OR own >= max_of_tenant THEN
        RAISE EXCEPTION 'there must be at most % calendars, and % of a tenant', max_calendars, max_of_tenant
            USING ERRCODE = 'check_violation', COLUMN = 'name';
    END IF;
    INSERT INTO tasktable.calendars AS c (name, tenant_id, days, changed_by)
    VALUES (set_calendar.name, owner, set_calendar.days, coalesce(set_calendar.by, session_user))
    ON CONFLICT (tenant_id, name) DO UPDATE SET days = excluded.days, changed_at = excluded.changed_at,
        changed_by = excluded.changed_by
    WHERE c.days <> excluded.days
    RETURNING c.xmax = 0 INTO created;
    RETURN CASE WHEN created THEN 'created' WHEN created IS NULL THEN 'unchanged' ELSE 'changed' END;
END $$;
COMMENT ON FUNCTION tasktable.set_calendar IS 'Creates a calendar, or replaces all of its days. days is an array of '
    'days, of spans such as "2027-12-24..2027-12-31", or of objects with from, to and note. The calendar of a tenant '
    'hides the general one of its name for the tasks of the tenant. tenant_id null means the tenant of the call, and '
    'else a general calendar. The fires of its tasks are planned anew. Outcome: created, changed or unchanged.';

CREATE FUNCTION tasktable.add_days(name text, days jsonb, tenant_id text DEFAULT NULL, by text DEFAULT NULL)
RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    owner CONSTANT text := tasktable.calendar_tenant(add_days.name, add_days.tenant_id);
BEGIN
    RETURN tasktable.set_calendar(add_days.name, tasktable.sorted_days(add_days.days) || coalesce((
        SELECT c.days FROM tasktable.calendars AS c WHERE c.tenant_id = owner AND c.name = add_days.name), '[]'),
        owner, add_days.by);
END $$;
COMMENT ON FUNCTION tasktable.add_days IS 'Adds days to a calendar, and creates it if it is absent. Outcome: created, '
    'changed or unchanged.';

CREATE FUNCTION tasktable.remove_days(name text, days jsonb, tenant_id text DEFAULT NULL, by text DEFAULT NULL)
RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    owner CONSTANT text := tasktable.calendar_tenant(remove_days.name, remove_days.tenant_id);
    gone  datemultirange;
    kept  jsonb;
BEGIN
    SELECT coalesce(range_agg(daterange((one.value ->> 'from')::date, (one.value ->> 'to')::date, '[]')), '{}')
    INTO gone FROM jsonb_array_elements(tasktable.sorted_days(remove_days.days)) AS one;
    SELECT coalesce(jsonb_agg(jsonb_build_object('from', to_char(lower(part), 'YYYY-MM-DD'),
        'to', to_char(upper(part) - 1, 'YYYY-MM-DD'), 'note', s.note)) FILTER (WHERE part IS NOT NULL), '[]')
    INTO kept FROM tasktable.calendars AS c
    LEFT JOIN tasktable.calendar_days AS s ON s.tenant_id = c.tenant_id AND s.name = c.name
    LEFT JOIN LATERAL unnest(datemultirange(daterange(s.day_from, s.day_to, '[]')) - gone) AS part ON true
    WHERE c.tenant_id = owner AND c.name = remove_days.name
    HAVING count(*) > 0;
    IF kept IS NULL THEN
        RETURN 'absent';
    END IF;
    RETURN tasktable.set_calendar(remove_days.name, kept, owner, remove_days.by);
END $$;
COMMENT ON FUNCTION tasktable.remove_days IS 'Removes days from a calendar. A span of which days are left is divided. '
    'Outcome: changed, unchanged or absent.';

CREATE FUNCTION tasktable.remove_calendar(name text, tenant_id text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    owner CONSTANT text := tasktable.calendar_tenant(remove_calendar.name, remove_calendar.tenant_id);
BEGIN
    DELETE FROM tasktable.calendars AS c WHERE c.tenant_id = owner AND c.name = remove_calendar.name;
    RETURN CASE WHEN FOUND THEN 'deleted' ELSE 'absent' END;
END $$;
COMMENT ON FUNCTION tasktable.remove_calendar IS 'Removes a calendar. If the rule of a task that has not ended names '
    'it, and there is no general calendar of the name, the call fails with SQLSTATE 23T02. Outcome: deleted or absent.';

CREATE FUNCTION tasktable.days_of(name text, tenant_id text, first date, last date)
RETURNS datemultirange LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    week  CONSTANT text := 'montuewedthufrisatsun';
    found datemultirange;
BEGIN
    IF days_of.name ~ '^workdays(:|$)' THEN
        SELECT range_agg(daterange(day::date, day::date, '[]')) INTO found
        FROM generate_series(days_of.first, days_of.last, interval '1 day') AS day
        CROSS JOIN string_to_table(coalesce(nullif(split_part(days_of.name, ':', 2), ''), 'mon-fri'), '+') AS part
        CROSS JOIN LATERAL (SELECT position(left(part, 3) IN week) / 3 + 1 AS a,
            position(right(part, 3) IN week) / 3 + 1 AS b, extract(isodow FROM day) AS n) AS d
        WHERE CASE WHEN d.a <= d.b THEN d.n BETWEEN d.a AND d.b ELSE d.n >= d.a OR d.n <= d.b END;
    ELSE
        SELECT range_agg(daterange((span.value ->> 'from')::date, (span.value ->> 'to')::date, '[]')) INTO found
        FROM (SELECT c.days FROM tasktable.calendars AS c
            WHERE c.name = days_of.name AND c.tenant_id IN ('', days_of.tenant_id)
            ORDER BY c.tenant_id DESC LIMIT 1) AS calendar
        CROSS JOIN jsonb_array_elements(calendar.days) AS span
        WHERE (span.value ->> 'to')::date >= days_of.first AND (span.value ->> 'from')::date <= days_of.last;
    END IF;
    RETURN coalesce(found, '{}');
END $$;
COMMENT ON FUNCTION tasktable.days_of IS 'The days of a calendar, or of workdays, as far as they lie in a time.';

CREATE FUNCTION tasktable.day_in(
    at timestamptz, options text, zone text DEFAULT 'UTC', tenant_id text DEFAULT NULL
) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    furthest CONSTANT int := 366; -- days
    given    CONSTANT text[] := regexp_split_to_array(btrim(day_in.options), '\s+');
    owner    CONSTANT text := coalesce(day_in.tenant_id, current_setting('tasktable.tenant', true), '');
    step     CONSTANT int := CASE WHEN 'move=previous' = ANY (given) THEN -1 ELSE 1 END;
    broken   text := tasktable.options_fault(given);
    first    date;
    moved    date;
BEGIN
    IF broken IS NULL AND day_in.options ~ '(^| )((every|from)=|move=skip)' THEN
        broken := 'must have out-of, keep-to and move=next or previous alone';
    ELSIF broken IS NULL AND NOT tasktable.knows_time_zone(day_in.zone) THEN
        broken := format('need an IANA zone that this Postgres knows, such as Europe/Berlin, not "%s"',
            left(day_in.zone, 100));
    END IF;
    IF broken IS NULL THEN
        SELECT format('name calendar "%s", which does not exist', min(needed)) INTO broken
        FROM unnest(tasktable.calendars_of(' ' || day_in.options)) AS needed
        WHERE NOT EXISTS (SELECT FROM tasktable.calendars AS c WHERE c.name = needed AND c.tenant_id IN ('', owner))
        HAVING count(*) > 0;
    END IF;
    IF broken IS NOT NULL THEN
        RAISE EXCEPTION 'options %', broken USING ERRCODE = 'check_violation', COLUMN = 'options';
    END IF;
    first := (day_in.at AT TIME ZONE day_in.zone)::date;
    SELECT first + step * away.days INTO moved FROM (
        SELECT key, tasktable.days_of(needed, owner, first - furthest, first + furthest) AS days
        FROM unnest('{out-of, keep-to}'::text[]) AS key
        CROSS JOIN string_to_table(substring(' ' || day_in.options FROM ' ' || key || '=([^ ]+)'), ',') AS needed
        OFFSET 0
    ) AS calendar
    RIGHT JOIN generate_series(0, furthest) AS away (days) ON true
    GROUP BY away.days
    HAVING coalesce(bool_and((calendar.days @> first + step * away.days) = (calendar.key = 'keep-to')), true)
    ORDER BY away.days LIMIT 1;
    IF moved IS NULL THEN
        RAISE EXCEPTION 'options leave no day in within % days of %: %', furthest, first, day_in.options
            USING ERRCODE = 'check_violation', COLUMN = 'options';
    END IF;
    RETURN CASE WHEN moved = first THEN day_in.at
        ELSE ((day_in.at AT TIME ZONE day_in.zone) + (moved - first) * interval '1 day') AT TIME ZONE day_in.zone END;
END $$;
COMMENT ON FUNCTION tasktable.day_in IS 'The time on the nearest day that is in, by the calendars of the options, such '
    'as "out-of=company keep-to=workdays move=previous". Without move it is the next day. The day is that of the zone, '
    'and the time on its clocks stays. Fails if no day within 366 days is in.';

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
        CASE WHEN t.planned_revision = t.revision AND (t.planned_zone_data LIKE 'calendar %') IS NOT TRUE
            THEN t.next_attempt_at END AS next_fire,
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
            -- As in refuse_others_task and after_tasks_insert. At the death nobody asks any more who has asked for
            -- the task.
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
DROP TRIGGER calendar_1_check ON tasktable.calendars;
DROP TRIGGER calendar_2_made ON tasktable.calendars;
DROP TRIGGER calendar_3_edited ON tasktable.calendars;
DROP FUNCTION tasktable.day_in, tasktable.days_of, tasktable.remove_calendar, tasktable.remove_days,
    tasktable.add_days, tasktable.set_calendar, tasktable.calendar_tenant, tasktable.after_calendar_change,
    tasktable.before_calendar_change, tasktable.calendar_tasks, tasktable.refuse_unknown_calendars,
    tasktable.sorted_days, tasktable.calendars_of;
DROP VIEW tasktable.recurring_tasks;
DROP FUNCTION tasktable.recurring_health;
DROP TRIGGER task_7_reopen ON tasktable.scheduled_tasks;
DROP FUNCTION tasktable.reopen_occurrence, tasktable.fork_occurrence, tasktable.schedule_recurring,
    tasktable.knows_time_zone, tasktable.cron_fault, tasktable.options_fault, tasktable.is_day;
