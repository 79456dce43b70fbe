-- Recurring tasks: what a row gains, and the verbs that know of it.
--
-- A recurring task is a row with a cron expression. It never runs itself: the leader forks an occurrence of it for each fire.
-- Postgres cannot compute a fire time, so an insert or edit leaves planned_revision behind revision, which asks the leader to
-- plan the next fire without firing.

-- +goose Up
CREATE DOMAIN tasktable.task_cron AS text
    CONSTRAINT "cron must be 1 to 256 printable ASCII characters"
        CHECK (char_length(VALUE) <= 256 AND VALUE ~ '^[ -~]+$');
COMMENT ON DOMAIN tasktable.task_cron IS 'A cron expression of 5 or 6 fields, a descriptor such as @daily, or @every and a duration. An expression that cannot be read is refused; the leader fails a task that can never fire.';

CREATE DOMAIN tasktable.task_time_zone AS text
    CONSTRAINT "time_zone must be an IANA name of 1 to 64 characters"
        CHECK (VALUE ~ '^[A-Za-z0-9_+/-]{1,64}$');
COMMENT ON DOMAIN tasktable.task_time_zone IS 'An IANA time zone.';

CREATE DOMAIN tasktable.task_overlap AS text
    CONSTRAINT "overlap must be skip, allow or cancel_running"
        CHECK (VALUE IN ('skip', 'allow', 'cancel_running'));
COMMENT ON DOMAIN tasktable.task_overlap IS 'What a fire does while an earlier occurrence has not ended.';

CREATE DOMAIN tasktable.task_catch_up AS text
    CONSTRAINT "catch_up must be latest, all or none"
        CHECK (VALUE IN ('latest', 'all', 'none'));
COMMENT ON DOMAIN tasktable.task_catch_up IS 'What becomes of fires that nobody was there for.';

CREATE DOMAIN tasktable.task_jitter AS interval
    CONSTRAINT "jitter must be over 0 and at most 24 hours, without months"
        CHECK (VALUE > interval '0' AND VALUE <= interval '24 hours'
            AND extract(year FROM VALUE) = 0 AND extract(month FROM VALUE) = 0);
COMMENT ON DOMAIN tasktable.task_jitter IS 'Over how long tasks of one time are spread.';

CREATE DOMAIN tasktable.task_catch_up_limit AS integer
    CONSTRAINT "catch_up_limit must be between 1 and 10000"
        CHECK (VALUE BETWEEN 1 AND 10000);
COMMENT ON DOMAIN tasktable.task_catch_up_limit IS 'How many missed fires run, 1 to 10000.';

CREATE DOMAIN tasktable.task_max_occurrences AS integer
    CONSTRAINT "max_occurrences must be between 1 and 1000000"
        CHECK (VALUE BETWEEN 1 AND 1000000);
COMMENT ON DOMAIN tasktable.task_max_occurrences IS 'After how many occurrences a recurring task ends, 1 to 1000000.';

CREATE DOMAIN tasktable.task_limit_time AS timestamptz
    CONSTRAINT "ends_at, paused_until must be finite, in the years 1 to 9999"
        CHECK (VALUE >= '0001-01-01 00:00:00+00' AND VALUE < '10000-01-01 00:00:00+00');
COMMENT ON DOMAIN tasktable.task_limit_time IS 'An instant until which something holds: finite, years 1 to 9999.';

CREATE DOMAIN tasktable.task_retention AS interval
    CONSTRAINT "retention must be over 0 and at most 100 years, in days or less"
        CHECK (VALUE > interval '0' AND VALUE <= interval '876600 hours'
            AND extract(year FROM VALUE) = 0 AND extract(month FROM VALUE) = 0);
COMMENT ON DOMAIN tasktable.task_retention IS 'How long a finished task is kept.';

ALTER TABLE tasktable.scheduled_tasks
    ADD COLUMN cron             tasktable.task_cron,
    ADD COLUMN time_zone        tasktable.task_time_zone,
    ADD COLUMN overlap          tasktable.task_overlap,
    ADD COLUMN catch_up         tasktable.task_catch_up,
    ADD COLUMN catch_up_paused  tasktable.task_catch_up,
    ADD COLUMN catch_up_limit   tasktable.task_catch_up_limit,
    ADD COLUMN jitter           tasktable.task_jitter,
    ADD COLUMN ends_at          tasktable.task_limit_time,
    ADD COLUMN max_occurrences  tasktable.task_max_occurrences,
    ADD COLUMN occurrence_count integer NOT NULL DEFAULT 0,
    ADD COLUMN parent_id        tasktable.task_id,
    ADD COLUMN planned_revision bigint,
    ADD COLUMN planned_wall     timestamp,
    ADD COLUMN planned_zone_data text,
    ADD COLUMN open_occurrences_from        timestamptz,
    ADD COLUMN paused_until     tasktable.task_limit_time,
    ADD COLUMN retention        tasktable.task_retention,
    ADD COLUMN archived_at      timestamptz,
    ADD COLUMN archived_note    text,
    ADD COLUMN declared_by      text,
    ADD COLUMN spawned_by       tasktable.task_id;

COMMENT ON COLUMN tasktable.scheduled_tasks.cron IS 'Makes the task a recurring one: the leader forks an occurrence, {id}@{fire time}, at each fire.';
COMMENT ON COLUMN tasktable.scheduled_tasks.time_zone IS 'The zone whose clocks the expression means; UTC unless given.';
COMMENT ON COLUMN tasktable.scheduled_tasks.overlap IS 'A fire while an earlier occurrence has not ended: skip (it becomes a SKIPPED row), allow, or cancel_running.';
COMMENT ON COLUMN tasktable.scheduled_tasks.catch_up IS 'Fires missed while no leader was there: latest runs one, all runs each up to catch_up_limit, none runs none. What does not run becomes a SKIPPED row.';
COMMENT ON COLUMN tasktable.scheduled_tasks.catch_up_paused IS 'The same for fires missed while this task, its queue, its type or everything was paused; none unless given.';
COMMENT ON COLUMN tasktable.scheduled_tasks.catch_up_limit IS 'How many missed fires catch_up = all runs at most, the latest; 100 unless given.';
COMMENT ON COLUMN tasktable.scheduled_tasks.jitter IS 'Spreads tasks of one time: each is due up to so much later, always by the same amount for the same id and time.';
COMMENT ON COLUMN tasktable.scheduled_tasks.ends_at IS 'No fire after this.';
COMMENT ON COLUMN tasktable.scheduled_tasks.max_occurrences IS 'No fire after so many occurrences.';
COMMENT ON COLUMN tasktable.scheduled_tasks.occurrence_count IS 'How many occurrences were forked to run; skipped ones do not count.';
COMMENT ON COLUMN tasktable.scheduled_tasks.parent_id IS 'Of an occurrence: the recurring task; no foreign key, the occurrence outlives it.';
COMMENT ON COLUMN tasktable.scheduled_tasks.planned_revision IS 'Of a recurring task: the revision whose next fire is in next_attempt_at. Another than revision asks the leader to plan it.';
COMMENT ON COLUMN tasktable.scheduled_tasks.planned_wall IS 'Of a recurring task: what the clocks of its zone are to show at the next fire; null for @every.';
COMMENT ON COLUMN tasktable.scheduled_tasks.planned_zone_data IS 'Fingerprint of the zone data that the next fire was planned with. The leader plans anew with other data.';
COMMENT ON COLUMN tasktable.scheduled_tasks.open_occurrences_from IS 'Of a recurring task: all occurrences of earlier times have ended; where the look for one that has not begins.';
COMMENT ON COLUMN tasktable.scheduled_tasks.paused_until IS 'When a PAUSED task is resumed by itself.';
COMMENT ON COLUMN tasktable.scheduled_tasks.retention IS 'How long the finished task is kept, in place of the configured time.';
COMMENT ON COLUMN tasktable.scheduled_tasks.archived_at IS 'When somebody marked the dead letter as dealt with.';
COMMENT ON COLUMN tasktable.scheduled_tasks.archived_note IS 'What they noted.';
COMMENT ON COLUMN tasktable.scheduled_tasks.declared_by IS 'The service in whose code the recurring task is declared; null for one that was scheduled.';
COMMENT ON COLUMN tasktable.scheduled_tasks.spawned_by IS 'Of a follow-up: the task whose handler asked for it; no foreign key, the follow-up outlives it.';

ALTER TABLE tasktable.nodes
    ADD COLUMN shares_slots boolean NOT NULL DEFAULT false,
    ADD COLUMN declaration_hash text,
    ADD COLUMN receives_failures   boolean NOT NULL DEFAULT false,
    ADD COLUMN retention_refused text,
    ADD COLUMN zone_data    jsonb;
COMMENT ON COLUMN tasktable.nodes.shares_slots IS 'Idle slots of one of its queues serve the others.';
COMMENT ON COLUMN tasktable.nodes.receives_failures IS 'It is told of dead tasks and lost claims of its types.';
COMMENT ON COLUMN tasktable.nodes.retention_refused IS
    'What retention could not remove when this node last went through the tables; null: nothing.';
COMMENT ON COLUMN tasktable.nodes.zone_data IS 'Fingerprints of the node''s data of the time zones that recurring tasks use. Nodes with others plan other fires.';
COMMENT ON COLUMN tasktable.nodes.declaration_hash IS 'Which set of recurring tasks its code declares, as a hash; null: none.';

CREATE INDEX scheduled_tasks_parent ON tasktable.scheduled_tasks (parent_id, scheduled_at) WHERE parent_id IS NOT NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_parent IS 'The occurrences of a recurring task, by time.';
CREATE INDEX scheduled_tasks_spawned_by ON tasktable.scheduled_tasks (spawned_by) WHERE spawned_by IS NOT NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_spawned_by IS 'The follow-ups of a task. Holds nothing of other tasks.';
CREATE INDEX scheduled_tasks_paused_until ON tasktable.scheduled_tasks (paused_until) WHERE paused_until IS NOT NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_paused_until IS 'Paused tasks that resume by themselves.';

-- A recurring task is not claimed: it has an index of its own, so that neither it nor its lane is in the way of what is.
DROP INDEX tasktable.scheduled_tasks_claimable;
CREATE INDEX scheduled_tasks_claimable ON tasktable.scheduled_tasks (queue, type, priority, next_attempt_at)
    WHERE next_attempt_at IS NOT NULL AND cron IS NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_claimable IS 'What can be claimed, by lane and time: serves the peek, the list of lanes and the claim. Holds waiting tasks only.';
CREATE INDEX scheduled_tasks_recurring ON tasktable.scheduled_tasks (queue, type, next_attempt_at)
    WHERE next_attempt_at IS NOT NULL AND cron IS NOT NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_recurring IS 'Recurring tasks by their next fire.';

CREATE FUNCTION tasktable.asked_now() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(nullif(current_setting('tasktable_test.now', true), '')::timestamptz, clock_timestamp())
$$;
COMMENT ON FUNCTION tasktable.asked_now() IS
    'When a task is due that is asked for now: by the clock, or in a test at the time that scheduledtest has set.';

-- +goose StatementBegin
CREATE FUNCTION tasktable.due_of(id text, scheduled_at timestamptz, run_now_at timestamptz, jitter interval) RETURNS timestamptz
LANGUAGE sql STABLE AS $$ -- not IMMUTABLE, which it is: its parts are STABLE, and Postgres would then not inline it
    SELECT coalesce(run_now_at, CASE WHEN jitter IS NULL THEN scheduled_at ELSE scheduled_at + make_interval(secs =>
        ((hashtextextended(id || ' ' || extract(epoch FROM scheduled_at)::text, 0) & 9223372036854775807)
            % greatest((extract(epoch FROM jitter) * 1000000)::bigint, 1))::float8 / 1000000) END)
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.due_of(text, timestamptz, timestamptz, interval) IS 'When a task is first due: run_now_at, else scheduled_at and its jitter, which is the same each time for the same id and time.';

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
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.cron_fault(text) IS
    'Why a cron expression cannot be read; null where it can. 30 February can be read: the leader fails it.';

-- +goose StatementBegin
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
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.knows_time_zone(text) IS 'Whether this is the name of a time zone, as Postgres spells it.';

-- +goose StatementBegin
CREATE FUNCTION tasktable.in_hours(given interval) RETURNS interval LANGUAGE sql IMMUTABLE AS $$
    SELECT given - extract(day FROM given) * interval '1 day' + extract(day FROM given) * interval '24 hours'
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.in_hours(interval) IS 'An interval with each of its days as 24 hours, so that a change of daylight saving does not change it.';

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION tasktable.before_task_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    owed  boolean := false; -- a fire that was due before this edit
    same  boolean; -- all but the status and the end of a pause
    waits boolean := false; -- for the leader to plan it since an earlier edit: from then on, or what comes between the two would be lost
    broken text; -- the rule that is
BEGIN
    IF NEW.type IS DISTINCT FROM NEW.payload ->> 'type' THEN
        IF NEW.type IS NOT NULL AND (TG_OP = 'INSERT' OR NEW.type <> OLD.type) THEN
            RAISE EXCEPTION 'type of task "%" must be what its payload says: write the payload''s field "type"', NEW.id
                USING ERRCODE = 'check_violation', COLUMN = 'type';
        END IF;
        NEW.type := NEW.payload ->> 'type';
    END IF;
    IF extract(day FROM NEW.expected_execution_time) <> 0 OR extract(day FROM NEW.expiration) <> 0
        OR extract(day FROM NEW.jitter) <> 0 OR extract(day FROM NEW.retention) <> 0
    THEN
        NEW.expected_execution_time := tasktable.in_hours(NEW.expected_execution_time);
        NEW.expiration := tasktable.in_hours(NEW.expiration);
        NEW.jitter := tasktable.in_hours(NEW.jitter);
        NEW.retention := tasktable.in_hours(NEW.retention);
    END IF;
    IF NEW.cron IS NOT NULL THEN -- first, so that setting to null what has its default changes nothing
        NEW.time_zone := coalesce(NEW.time_zone, 'UTC');
        NEW.overlap := coalesce(NEW.overlap, 'skip');
        NEW.catch_up := coalesce(NEW.catch_up, 'latest');
        NEW.catch_up_paused := coalesce(NEW.catch_up_paused, 'none');
        NEW.catch_up_limit := coalesce(NEW.catch_up_limit, 100);
        IF TG_OP = 'INSERT' OR (NEW.cron, NEW.time_zone) IS DISTINCT FROM (OLD.cron, OLD.time_zone) THEN
            NEW.planned_wall := NULL; -- a fire that is owed was planned by other rules
            NEW.planned_zone_data := NULL;
            broken := tasktable.cron_fault(NEW.cron);
            IF broken IS NOT NULL THEN
                RAISE EXCEPTION 'task "%": cron: %, in "%"', NEW.id, broken, left(NEW.cron, 100)
                    USING ERRCODE = 'check_violation', COLUMN = 'cron';
            ELSIF NOT tasktable.knows_time_zone(NEW.time_zone) THEN
                RAISE EXCEPTION 'task "%": time_zone must be an IANA zone that this Postgres knows, such as Europe/Berlin, got "%"',
                    NEW.id, NEW.time_zone USING ERRCODE = 'check_violation', COLUMN = 'time_zone';
            END IF;
        END IF;
    END IF;
    IF TG_OP = 'INSERT' THEN
        NEW.attempt := 0;
        NEW.fence := NULL;
        NEW.lease_expires_at := NULL;
    ELSE
        IF NEW.id IS DISTINCT FROM OLD.id THEN
            RAISE EXCEPTION 'id of task "%" cannot be changed: schedule another id and cancel this one', OLD.id
                USING ERRCODE = 'check_violation', COLUMN = 'id';
        END IF;
        same := (NEW.payload, NEW.scheduled_at, NEW.priority, NEW.queue, NEW.expected_execution_time, NEW.max_attempts)
            = (OLD.payload, OLD.scheduled_at, OLD.priority, OLD.queue, OLD.expected_execution_time, OLD.max_attempts)
            AND NEW.expiration IS NOT DISTINCT FROM OLD.expiration
            AND NEW.entity IS NOT DISTINCT FROM OLD.entity
            AND NEW.tenant_id IS NOT DISTINCT FROM OLD.tenant_id
            AND NEW.run_now_at IS NOT DISTINCT FROM OLD.run_now_at
            AND (NEW.cron, NEW.time_zone, NEW.overlap, NEW.catch_up, NEW.catch_up_paused, NEW.catch_up_limit, NEW.jitter, NEW.ends_at,
                 NEW.max_occurrences, NEW.parent_id, NEW.retention, NEW.archived_at)
                IS NOT DISTINCT FROM
                (OLD.cron, OLD.time_zone, OLD.overlap, OLD.catch_up, OLD.catch_up_paused, OLD.catch_up_limit, OLD.jitter, OLD.ends_at,
                 OLD.max_occurrences, OLD.parent_id, OLD.retention, OLD.archived_at);
        IF same AND NEW.status = OLD.status AND NEW.paused_until IS NOT DISTINCT FROM OLD.paused_until THEN
            RETURN NEW; -- nothing was changed: no revision, so a running attempt stays current
        END IF;
        -- A claimed task is paused, or its pause ends. It keeps its revision, so that an attempt that has begun stays current and is
        -- recorded. A fence above the revision says that nobody has edited the task since the claim.
        IF same AND OLD.fence > OLD.revision AND (OLD.status = 'EXECUTING' AND NEW.status = 'PAUSED'
            OR OLD.status = 'PAUSED' AND NEW.status IN ('PAUSED', 'QUEUED', 'EXECUTING'))
        THEN
            IF NEW.status <> 'PAUSED' THEN
                NEW.status := 'EXECUTING';
                NEW.paused_until := NULL;
            END IF;
            IF NEW.status <> OLD.status THEN
                NEW.last_status_update := clock_timestamp();
            END IF;
            RETURN NEW;
        END IF;
        IF NEW.status = 'EXECUTING' THEN
            IF OLD.status <> 'EXECUTING' THEN
                RAISE EXCEPTION 'status of task "%" cannot be set to EXECUTING: only a claim does that', OLD.id
                    USING ERRCODE = 'check_violation', COLUMN = 'status';
            END IF;
            NEW.status := 'QUEUED'; -- an edit of a running task: it runs again, once the hold ends
        END IF;
        owed := NEW.cron IS NOT NULL AND OLD.cron IS NOT NULL AND NEW.status = 'QUEUED' AND OLD.planned_revision = OLD.revision
            AND NEW.scheduled_at = OLD.scheduled_at AND coalesce(OLD.next_attempt_at <= clock_timestamp(), false);
        waits := NEW.cron = OLD.cron AND NEW.time_zone = OLD.time_zone AND NEW.scheduled_at = OLD.scheduled_at AND OLD.status = 'QUEUED'
            AND NEW.status = 'QUEUED' AND OLD.next_attempt_at IS NOT NULL AND OLD.planned_revision IS DISTINCT FROM OLD.revision;
        IF OLD.finished_at IS NOT NULL AND NEW.status = 'QUEUED' AND NEW.scheduled_at <> OLD.scheduled_at THEN
            NEW.occurrence_count := 0;
        END IF;
        IF NEW.scheduled_at <> OLD.scheduled_at AND NEW.run_now_at IS NOT DISTINCT FROM OLD.run_now_at THEN
            NEW.run_now_at := NULL; -- another time was asked for: the earlier "now" is over
        END IF;
    END IF;
    -- Rules between columns. Not CHECKs of the table: see 00001.
    IF NEW.cron IS NULL AND num_nonnulls(NEW.time_zone, NEW.overlap, NEW.catch_up, NEW.catch_up_paused, NEW.catch_up_limit, NEW.ends_at, NEW.max_occurrences) > 0 THEN
        broken := 'settings of recurrence need cron';
    ELSIF NEW.cron IS NOT NULL AND octet_length(NEW.id) > 480 THEN
        broken := 'id of a recurring task must be at most 480 bytes';
    ELSIF NEW.cron IS NOT NULL AND NEW.parent_id IS NOT NULL THEN
        broken := 'an occurrence does not recur itself';
    END IF;
    IF broken IS NOT NULL THEN
        RAISE EXCEPTION 'task "%" violates check constraint "%"', NEW.id, broken USING ERRCODE = 'check_violation', CONSTRAINT = broken;
    END IF;
    NEW.revision := nextval('tasktable.task_numbers');
    IF NEW.status <> 'PAUSED' THEN
        NEW.paused_until := NULL;
    END IF;
    IF NEW.status NOT IN ('FAILED', 'EXPIRED') THEN
        NEW.archived_at := NULL;
        NEW.archived_note := NULL;
    END IF;
    IF NEW.cron IS NOT NULL THEN
        NEW.planned_revision := CASE WHEN owed THEN NEW.revision WHEN TG_OP = 'UPDATE' THEN NEW.planned_revision END;
        NEW.run_now_at := NULL; -- running it now is forking an occurrence, which leaves the task itself as it is
    ELSE
        NEW.planned_revision := NULL;
        NEW.open_occurrences_from := NULL;
    END IF;
    IF NEW.status IN ('QUEUED', 'PAUSED') THEN
        NEW.attempt := 0;
        NEW.finished_at := NULL;
        IF TG_OP = 'UPDATE' AND OLD.finished_at IS NOT NULL THEN
            NEW.message := NULL;
            NEW.result := NULL;
            NEW.started_at := NULL;
        END IF;
    ELSIF TG_OP = 'INSERT' THEN
        NEW.finished_at := coalesce(NEW.finished_at, clock_timestamp());
    ELSIF NEW.status <> OLD.status THEN
        NEW.finished_at := clock_timestamp();
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.status <> OLD.status THEN
        NEW.last_status_update := clock_timestamp();
    END IF;
    NEW.next_attempt_at := CASE WHEN NEW.status <> 'QUEUED' OR NEW.fence IS NOT NULL THEN NULL
        WHEN owed THEN OLD.next_attempt_at
        WHEN waits THEN OLD.next_attempt_at
        -- The leader is to plan the next fire from here, at once; this is not a fire itself.
        WHEN NEW.cron IS NOT NULL THEN clock_timestamp()
        ELSE tasktable.due_of(NEW.id, NEW.scheduled_at, NEW.run_now_at, NEW.jitter) END;
    -- Here, not by a trigger of its own: that one's condition would cost each insert of a task more than this.
    IF TG_OP = 'INSERT' AND NEW.parent_id IS NOT NULL AND NEW.status IN ('QUEUED', 'PAUSED') THEN
        UPDATE tasktable.scheduled_tasks AS p SET open_occurrences_from = NEW.scheduled_at
        WHERE p.id = NEW.parent_id AND p.cron IS NOT NULL AND p.open_occurrences_from > NEW.scheduled_at;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION tasktable.task_content(task tasktable.scheduled_tasks) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'status', task.status, 'payload', task.payload, 'scheduled_at', task.scheduled_at, 'run_now_at', task.run_now_at,
        'priority', task.priority, 'queue', task.queue, 'expiration', task.expiration,
        'expected_execution_time', task.expected_execution_time, 'max_attempts', task.max_attempts,
        'entity', task.entity, 'tenant_id', task.tenant_id)
        || jsonb_strip_nulls(jsonb_build_object(
        'cron', task.cron, 'time_zone', task.time_zone, 'overlap', task.overlap, 'catch_up', task.catch_up,
        'catch_up_paused', task.catch_up_paused, 'catch_up_limit', task.catch_up_limit, 'jitter', task.jitter, 'ends_at', task.ends_at,
        'max_occurrences', task.max_occurrences, 'parent_id', task.parent_id, 'paused_until', task.paused_until, 'retention', task.retention,
        'archived_at', task.archived_at, 'archived_note', task.archived_note))
$$;
-- +goose StatementEnd

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
    IF TG_OP = 'UPDATE' AND NEW.cron IS NULL
        AND NEW.next_attempt_at <> tasktable.due_of(NEW.id, NEW.scheduled_at, NEW.run_now_at, NEW.jitter)
    THEN
        RAISE EXCEPTION 'time of task "%" was changed by a trigger that fires after zzz_task_1_edit: give that trigger a name'
            ' that sorts before it', NEW.id USING ERRCODE = 'check_violation', COLUMN = 'scheduled_at';
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
        SELECT CASE WHEN NEW.revision = OLD.revision THEN nextval('tasktable.task_numbers') ELSE NEW.revision END, NEW.id, verb,
               CASE WHEN NEW.status = 'CANCELLED' AND OLD.status <> 'CANCELLED' THEN 'cancelled'
                    WHEN NEW.status = 'PAUSED' AND OLD.status <> 'PAUSED' THEN 'paused'
                    WHEN NEW.archived_at IS NOT NULL AND OLD.archived_at IS NULL THEN 'archived'
                    WHEN NEW.status = 'PAUSED' AND verb = 'pause' THEN 'paused'
                    WHEN verb IN ('run_now', 'retry', 'resume') THEN 'queued'
                    WHEN NEW.finished_at IS NOT NULL THEN 'edited'
                    WHEN OLD.finished_at IS NOT NULL THEN 'rearmed'
                    WHEN OLD.status = 'PAUSED' AND NEW.status IN ('QUEUED', 'EXECUTING') THEN 'queued'
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

DROP TRIGGER zzz_task_1_edit ON tasktable.scheduled_tasks;
CREATE TRIGGER zzz_task_1_edit BEFORE INSERT OR UPDATE OF id, payload, type, scheduled_at, run_now_at, priority, queue, expiration,
    expected_execution_time, max_attempts, entity, tenant_id, cron, time_zone, overlap, catch_up, catch_up_paused, catch_up_limit,
    jitter, ends_at, max_occurrences, parent_id, retention, archived_at ON tasktable.scheduled_tasks
    FOR EACH ROW EXECUTE FUNCTION tasktable.before_task_change();
COMMENT ON TRIGGER zzz_task_1_edit ON tasktable.scheduled_tasks IS 'Every insert and every edit.';
DROP TRIGGER zzz_task_2_status ON tasktable.scheduled_tasks;
CREATE TRIGGER zzz_task_2_status BEFORE UPDATE OF status, paused_until ON tasktable.scheduled_tasks
    FOR EACH ROW WHEN (OLD.fence IS NOT DISTINCT FROM NEW.fence
        AND (OLD.status IS DISTINCT FROM NEW.status OR OLD.paused_until IS DISTINCT FROM NEW.paused_until)
        AND OLD.revision = NEW.revision AND current_setting('tasktable_change.context', true) IS DISTINCT FROM 'engine')
    EXECUTE FUNCTION tasktable.before_task_change();
COMMENT ON TRIGGER zzz_task_2_status ON tasktable.scheduled_tasks IS 'A change of status, or of the end of a pause, that is not the engine''s.';
-- The pause of a claimed task draws no revision.
DROP TRIGGER task_4_update ON tasktable.scheduled_tasks;
CREATE TRIGGER task_4_update AFTER UPDATE ON tasktable.scheduled_tasks
    FOR EACH ROW WHEN (OLD.revision IS DISTINCT FROM NEW.revision OR OLD.fence = NEW.fence
        AND (OLD.status IS DISTINCT FROM NEW.status OR OLD.paused_until IS DISTINCT FROM NEW.paused_until))
    EXECUTE FUNCTION tasktable.after_task_change();
COMMENT ON TRIGGER task_4_update ON tasktable.scheduled_tasks IS 'The change line of an edited task.';

-- +goose StatementBegin
CREATE FUNCTION tasktable.reopen_occurrence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tasktable.scheduled_tasks AS p SET open_occurrences_from = NEW.scheduled_at
    WHERE p.id = NEW.parent_id AND p.cron IS NOT NULL AND p.open_occurrences_from > NEW.scheduled_at;
    RETURN NULL;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.reopen_occurrence() IS 'An occurrence that waits again counts as one that has not ended.';
CREATE TRIGGER task_7_reopen AFTER UPDATE OF status, scheduled_at, parent_id ON tasktable.scheduled_tasks
    FOR EACH ROW WHEN (NEW.parent_id IS NOT NULL AND NEW.status IN ('QUEUED', 'PAUSED') AND NEW.fence IS NULL AND NEW.attempt = 0)
    EXECUTE FUNCTION tasktable.reopen_occurrence();
COMMENT ON TRIGGER task_7_reopen ON tasktable.scheduled_tasks IS 'An occurrence that waits again.';

DROP FUNCTION tasktable.schedule(jsonb, timestamptz, text, int, text, interval, interval, int, text, text, text, text, boolean, text, text);
-- +goose StatementBegin
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
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.schedule(jsonb, timestamptz, text, int, text, interval, interval, int, text, text, text, text, boolean, text, interval, interval, text, text, text, text, text, int, timestamptz, int, text) IS
    'Upserts a task by its id. scheduled_at null, the default, keeps the time of an existing task; a new one is due now. A finished task runs again only at another time; if_finished => ''rearm'' without scheduled_at runs it again now, ''keep'' never. Outcome: created, rescheduled, rearmed, unchanged or finished; the last two write nothing.';

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION tasktable.schedule_many(tasks jsonb, scheduled_by text DEFAULT NULL, wake boolean DEFAULT true, verb text DEFAULT 'schedule')
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

-- +goose StatementBegin
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
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.schedule_recurring(jsonb, text, text, text, timestamptz, timestamptz, int, text, text, int, text, interval, int, text, interval, interval, int, text, text, interval, text, text, text) IS
    'Upserts a recurring task by its id. It never runs itself: each fire of cron, on the clocks of time_zone, forks an occurrence. Editing it does not fire it.';

-- +goose StatementBegin
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
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.fork_occurrence(text, timestamptz, text, text, boolean, boolean) IS 'Makes the occurrence of a recurring task for one fire time, or the SKIPPED row that says why it did not run, and returns its id; null where it is there already. at_once: as by run_now, without jitter, its expiration counted from now.';

DROP FUNCTION tasktable.apply_verb(text, text, text, boolean);
-- +goose StatementBegin
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
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.apply_verb(text, text, text, boolean, timestamptz) IS 'Does cancel, pause, resume, run_now, retry and delete: each has a function of its own name to call.';
DROP FUNCTION tasktable.pause(text, text);
CREATE FUNCTION tasktable.pause(id text, by text DEFAULT NULL, until timestamptz DEFAULT NULL) RETURNS tasktable.verb_outcome LANGUAGE sql VOLATILE
    AS $$ SELECT tasktable.apply_verb('pause', id, by, true, until) $$;
COMMENT ON FUNCTION tasktable.pause(text, text, timestamptz) IS 'Keeps a task from starting until resumed, or until a time. An attempt that has begun ends as it would, and a retry waits for the resume. Outcome: paused, unchanged, finished or absent.';

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION tasktable.sync(entity text, tasks jsonb, by text DEFAULT NULL, wake boolean DEFAULT true)
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
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.sync(text, jsonb, text, boolean) IS
    'Makes the waiting and running tasks of an entity exactly these: schedules each (as schedule_many, which see; ids are required) and cancels the others, returned with a null position. The occurrences of a recurring one among these are left alone, and so are follow-ups, which handlers have asked for.';

CREATE VIEW tasktable.recurring_tasks AS
    SELECT t.id, t.type, t.queue, t.status, t.cron, t.time_zone, CASE WHEN t.planned_revision = t.revision THEN t.next_attempt_at END AS next_fire,
           t.started_at AS last_fire, t.occurrence_count, t.overlap, t.catch_up, t.catch_up_paused, t.catch_up_limit, t.jitter, t.ends_at,
           t.max_occurrences, t.paused_until, t.declared_by, t.message
    FROM tasktable.scheduled_tasks AS t
    WHERE t.cron IS NOT NULL;
COMMENT ON VIEW tasktable.recurring_tasks IS 'Recurring tasks with their next and last fire; next_fire is null until the leader has planned it.';

-- +goose Down
DROP VIEW tasktable.recurring_tasks;
DROP FUNCTION tasktable.pause(text, text, timestamptz);
DROP FUNCTION tasktable.apply_verb(text, text, text, boolean, timestamptz);
DROP FUNCTION tasktable.fork_occurrence(text, timestamptz, text, text, boolean, boolean);
DROP FUNCTION tasktable.schedule_recurring(jsonb, text, text, text, timestamptz, timestamptz, int, text, text, int, text, interval, int, text, interval, interval, int, text, text, interval, text, text, text);
DROP FUNCTION tasktable.schedule(jsonb, timestamptz, text, int, text, interval, interval, int, text, text, text, text, boolean, text, interval, interval, text, text, text, text, text, int, timestamptz, int, text);
DROP TRIGGER task_7_reopen ON tasktable.scheduled_tasks;
DROP FUNCTION tasktable.reopen_occurrence();
DROP TRIGGER zzz_task_1_edit ON tasktable.scheduled_tasks;
DROP TRIGGER zzz_task_2_status ON tasktable.scheduled_tasks;
CREATE TRIGGER zzz_task_2_status BEFORE UPDATE OF status ON tasktable.scheduled_tasks
    FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status AND OLD.fence IS NOT DISTINCT FROM NEW.fence
        AND OLD.revision = NEW.revision AND current_setting('tasktable_change.context', true) IS DISTINCT FROM 'engine')
    EXECUTE FUNCTION tasktable.before_task_change();
COMMENT ON TRIGGER zzz_task_2_status ON tasktable.scheduled_tasks IS 'A change of status that is not the engine''s.';
DROP TRIGGER task_4_update ON tasktable.scheduled_tasks;
CREATE TRIGGER task_4_update AFTER UPDATE ON tasktable.scheduled_tasks
    FOR EACH ROW WHEN (OLD.revision IS DISTINCT FROM NEW.revision) EXECUTE FUNCTION tasktable.after_task_change();
COMMENT ON TRIGGER task_4_update ON tasktable.scheduled_tasks IS 'The change line of an edited task.';
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION tasktable.before_task_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.type IS DISTINCT FROM NEW.payload ->> 'type' THEN
        IF NEW.type IS NOT NULL AND (TG_OP = 'INSERT' OR NEW.type <> OLD.type) THEN
            RAISE EXCEPTION 'type of task "%" must be what its payload says: write the payload''s field "type"', NEW.id
                USING ERRCODE = 'check_violation', COLUMN = 'type';
        END IF;
        NEW.type := NEW.payload ->> 'type';
    END IF;
    IF TG_OP = 'INSERT' THEN
        NEW.attempt := 0;
        NEW.fence := NULL;
        NEW.lease_expires_at := NULL;
    ELSE
        IF NEW.id IS DISTINCT FROM OLD.id THEN
            RAISE EXCEPTION 'id of task "%" cannot be changed: schedule another id and cancel this one', OLD.id
                USING ERRCODE = 'check_violation', COLUMN = 'id';
        END IF;
        IF NEW.status = OLD.status
            AND (NEW.payload, NEW.scheduled_at, NEW.priority, NEW.queue, NEW.expected_execution_time, NEW.max_attempts)
              = (OLD.payload, OLD.scheduled_at, OLD.priority, OLD.queue, OLD.expected_execution_time, OLD.max_attempts)
            AND NEW.expiration IS NOT DISTINCT FROM OLD.expiration
            AND NEW.entity IS NOT DISTINCT FROM OLD.entity
            AND NEW.tenant_id IS NOT DISTINCT FROM OLD.tenant_id
            AND NEW.run_now_at IS NOT DISTINCT FROM OLD.run_now_at
        THEN
            RETURN NEW; -- nothing was changed: no revision, so a running attempt stays current
        END IF;
        IF NEW.status = 'EXECUTING' THEN
            IF OLD.status <> 'EXECUTING' THEN
                RAISE EXCEPTION 'status of task "%" cannot be set to EXECUTING: only a claim does that', OLD.id
                    USING ERRCODE = 'check_violation', COLUMN = 'status';
            END IF;
            NEW.status := 'QUEUED'; -- an edit of a running task: it runs again, once the hold ends
        END IF;
        IF NEW.scheduled_at <> OLD.scheduled_at AND NEW.run_now_at IS NOT DISTINCT FROM OLD.run_now_at THEN
            NEW.run_now_at := NULL; -- another time was asked for: the earlier "now" is over
        END IF;
    END IF;
    NEW.revision := nextval('tasktable.task_numbers');
    IF NEW.status IN ('QUEUED', 'PAUSED') THEN
        NEW.attempt := 0;
        NEW.finished_at := NULL;
        IF TG_OP = 'UPDATE' AND OLD.finished_at IS NOT NULL THEN
            NEW.message := NULL;
            NEW.result := NULL;
            NEW.started_at := NULL;
        END IF;
    ELSIF TG_OP = 'INSERT' THEN
        NEW.finished_at := coalesce(NEW.finished_at, clock_timestamp());
    ELSIF NEW.status <> OLD.status THEN
        NEW.finished_at := clock_timestamp();
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.status <> OLD.status THEN
        NEW.last_status_update := clock_timestamp();
    END IF;
    NEW.next_attempt_at := CASE WHEN NEW.status = 'QUEUED' AND NEW.fence IS NULL THEN coalesce(NEW.run_now_at, NEW.scheduled_at) END;
    RETURN NEW;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION tasktable.task_content(task tasktable.scheduled_tasks) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'status', task.status, 'payload', task.payload, 'scheduled_at', task.scheduled_at, 'run_now_at', task.run_now_at,
        'priority', task.priority, 'queue', task.queue, 'expiration', task.expiration,
        'expected_execution_time', task.expected_execution_time, 'max_attempts', task.max_attempts,
        'entity', task.entity, 'tenant_id', task.tenant_id)
$$;
-- +goose StatementEnd
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
                    WHEN verb IN ('run_now', 'retry', 'resume') THEN 'queued'
                    WHEN NEW.finished_at IS NOT NULL THEN 'edited'
                    WHEN OLD.finished_at IS NOT NULL THEN 'rearmed'
                    WHEN OLD.status = 'PAUSED' AND NEW.status = 'QUEUED' THEN 'queued'
                    ELSE 'rescheduled' END,
               author, jsonb_object_agg(key, was -> key), jsonb_object_agg(key, is_now -> key)
        FROM jsonb_object_keys(is_now) AS key
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
CREATE TRIGGER zzz_task_1_edit BEFORE INSERT OR UPDATE OF id, payload, type, scheduled_at, run_now_at, priority, queue, expiration,
    expected_execution_time, max_attempts, entity, tenant_id ON tasktable.scheduled_tasks
    FOR EACH ROW EXECUTE FUNCTION tasktable.before_task_change();
COMMENT ON TRIGGER zzz_task_1_edit ON tasktable.scheduled_tasks IS 'Every insert and every edit.';
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
CREATE OR REPLACE FUNCTION tasktable.schedule_many(tasks jsonb, scheduled_by text DEFAULT NULL, wake boolean DEFAULT true, verb text DEFAULT 'schedule')
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
CREATE FUNCTION tasktable.pause(id text, by text DEFAULT NULL) RETURNS tasktable.verb_outcome LANGUAGE sql VOLATILE
    AS $$ SELECT tasktable.apply_verb('pause', id, by, true) $$;
COMMENT ON FUNCTION tasktable.pause(text, text) IS 'Keeps a task from running until resumed. Outcome: paused, unchanged, running, finished or absent.';
COMMENT ON FUNCTION tasktable.schedule_many(jsonb, text, boolean, text) IS
    'schedule for each object of a JSON array with the keys payload, scheduled_at (absent: now; null: keep), id, priority, queue, expiration, expected_execution_time, max_attempts, tenant_id, entity, if_finished, trace. position counts from 1 in the array. Of two with one id the later wins.';
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION tasktable.sync(entity text, tasks jsonb, by text DEFAULT NULL, wake boolean DEFAULT true)
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
DROP FUNCTION tasktable.due_of(text, timestamptz, timestamptz, interval);
DROP FUNCTION tasktable.in_hours(interval);
DROP FUNCTION tasktable.asked_now();
DROP FUNCTION tasktable.knows_time_zone(text);
DROP FUNCTION tasktable.cron_fault(text);
DROP INDEX tasktable.scheduled_tasks_recurring;
DROP INDEX tasktable.scheduled_tasks_claimable;
CREATE INDEX scheduled_tasks_claimable ON tasktable.scheduled_tasks (queue, type, priority, next_attempt_at)
    WHERE next_attempt_at IS NOT NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_claimable IS 'What can be claimed, by lane and time: serves the peek, the list of lanes and the claim. Holds waiting tasks only.';
DROP INDEX tasktable.scheduled_tasks_paused_until;
DROP INDEX tasktable.scheduled_tasks_spawned_by;
DROP INDEX tasktable.scheduled_tasks_parent;
ALTER TABLE tasktable.nodes DROP COLUMN zone_data, DROP COLUMN retention_refused, DROP COLUMN receives_failures, DROP COLUMN declaration_hash,
    DROP COLUMN shares_slots;
-- Recurring tasks are lost with it: without their expression they would be tasks that run themselves.
SELECT set_config('tasktable_change.context', 'retention', true);
DELETE FROM tasktable.scheduled_tasks WHERE cron IS NOT NULL;
SELECT set_config('tasktable_change.context', '', true);
ALTER TABLE tasktable.scheduled_tasks
    DROP COLUMN spawned_by,
    DROP COLUMN declared_by,
    DROP COLUMN archived_note,
    DROP COLUMN archived_at,
    DROP COLUMN retention,
    DROP COLUMN paused_until,
    DROP COLUMN open_occurrences_from,
    DROP COLUMN planned_zone_data,
    DROP COLUMN planned_wall,
    DROP COLUMN planned_revision,
    DROP COLUMN parent_id,
    DROP COLUMN occurrence_count,
    DROP COLUMN max_occurrences,
    DROP COLUMN ends_at,
    DROP COLUMN jitter,
    DROP COLUMN catch_up_limit,
    DROP COLUMN catch_up_paused,
    DROP COLUMN catch_up,
    DROP COLUMN overlap,
    DROP COLUMN time_zone,
    DROP COLUMN cron;
DROP DOMAIN tasktable.task_retention;
DROP DOMAIN tasktable.task_limit_time;
DROP DOMAIN tasktable.task_max_occurrences;
DROP DOMAIN tasktable.task_catch_up_limit;
DROP DOMAIN tasktable.task_jitter;
DROP DOMAIN tasktable.task_catch_up;
DROP DOMAIN tasktable.task_overlap;
DROP DOMAIN tasktable.task_time_zone;
DROP DOMAIN tasktable.task_cron;
