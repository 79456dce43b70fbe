-- The triggers: whoever edits a task, by verb or by plain SQL, draws a revision, is recorded, and cannot break the protocol.
--
-- They read one setting, tasktable_change.context, that the verbs set for the length of their call: verb, who,
-- and whether to wake the leader, separated by chr(31). 'engine' alone marks the leader's own moves.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION tasktable.asked_now() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(nullif(current_setting('tasktable_test.now', true), '')::timestamptz, clock_timestamp())
$$;
COMMENT ON FUNCTION tasktable.asked_now() IS
    'When a task is due that is asked for now: by the clock, or in a test at the time that scheduledtest has set.';

CREATE FUNCTION tasktable.due_of(id text, scheduled_at timestamptz, run_now_at timestamptz, jitter interval) RETURNS timestamptz
LANGUAGE sql STABLE AS $$ -- not IMMUTABLE, which it is: its parts are STABLE, and Postgres would then not inline it
    SELECT coalesce(run_now_at, CASE WHEN jitter IS NULL THEN scheduled_at ELSE scheduled_at + make_interval(secs =>
        ((hashtextextended(id || ' ' || extract(epoch FROM scheduled_at)::text, 0) & 9223372036854775807)
            % greatest((extract(epoch FROM jitter) * 1000000)::bigint, 1))::float8 / 1000000) END)
$$;
COMMENT ON FUNCTION tasktable.due_of(text, timestamptz, timestamptz, interval) IS
    'When a task is first due: run_now_at, else scheduled_at and its jitter, which is the same each time for the same '
    'id and time.';

CREATE FUNCTION tasktable.in_hours(given interval) RETURNS interval LANGUAGE sql IMMUTABLE AS $$
    SELECT given - extract(day FROM given) * interval '1 day' + extract(day FROM given) * interval '24 hours'
$$;
COMMENT ON FUNCTION tasktable.in_hours(interval) IS
    'An interval with each of its days as 24 hours, so that a change of daylight saving does not change it.';

CREATE FUNCTION tasktable.task_content(task tasktable.scheduled_tasks) RETURNS jsonb LANGUAGE sql STABLE AS $$
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
COMMENT ON FUNCTION tasktable.task_content(tasktable.scheduled_tasks) IS
    'What a user can edit of a task, and its status, as JSON: what a change line compares.';

CREATE FUNCTION tasktable.before_task_change() RETURNS trigger LANGUAGE plpgsql AS $$
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
COMMENT ON FUNCTION tasktable.before_task_change() IS
    'Gives every edit of a task its revision, and a waiting task its next_attempt_at.';

CREATE FUNCTION tasktable.after_task_change() RETURNS trigger LANGUAGE plpgsql AS $$
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
COMMENT ON FUNCTION tasktable.after_task_change() IS
    'Writes the change line of every edit of a task, and wakes the leader or the holder where it matters; refuses a '
    'type that is not the payload''s.';

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
COMMENT ON FUNCTION tasktable.after_tasks_insert() IS
    'Writes the change lines of all tasks that one statement inserts, and wakes the leader where one is due; refuses '
    'a type or a time that another trigger has made wrong.';

CREATE FUNCTION tasktable.refuse_held_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'task "%" is running and cannot be deleted: cancel it, and delete it when it has ended', OLD.id
        USING ERRCODE = 'object_in_use', COLUMN = 'fence';
END $$;
COMMENT ON FUNCTION tasktable.refuse_held_delete() IS
    'Keeps the hold of a running task: a row deleted and inserted again would let one id run twice at once.';

CREATE FUNCTION tasktable.refuse_history_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('tasktable_change.context', true) = 'retention' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '% is append-only: % is refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'insufficient_privilege';
END $$;
COMMENT ON FUNCTION tasktable.refuse_history_change() IS
    'Keeps the history append-only for everybody but retention, which says so in tasktable_change.context.';

CREATE FUNCTION tasktable.refuse_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'TRUNCATE of % is refused: DELETE records each task and keeps those that are running', TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END $$;
COMMENT ON FUNCTION tasktable.refuse_truncate() IS
    'Keeps the holds of running tasks, and the record of what was deleted: TRUNCATE calls no row''s triggers.';

-- The search_path is pinned, or the role asking could put a pg_has_role of its own in the way.
CREATE FUNCTION tasktable.services_of(role name) RETURNS text[] LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    -- By to_regrole, null for a role that was dropped: of its name pg_has_role would make an error.
    SELECT ARRAY(SELECT a.service FROM tasktable.applications AS a
        WHERE pg_has_role(services_of.role, to_regrole(quote_ident(a.role)), 'USAGE'))
$$;
COMMENT ON FUNCTION tasktable.services_of(name) IS
    'The services whose tasks a database role may schedule and read, by itself or as a member; an empty one is all.';

CREATE FUNCTION tasktable.refuse_others_task() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- Not current_user, which in a verb is the owner: who has logged in, or was SET ROLE.
    caller   name := coalesce(nullif(current_setting('role'), 'none'), session_user);
    services text[];
    other    record;
BEGIN
    -- As services_of, whose plan is not kept from one call to the next.
    services := ARRAY(SELECT a.service FROM tasktable.applications AS a
        WHERE pg_has_role(caller, to_regrole(quote_ident(a.role)), 'USAGE'));
    IF '' = ANY (services) THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'INSERT' THEN
        SELECT i.id, i.scheduled_by INTO other FROM inserted AS i WHERE (i.scheduled_by = ANY (services)) IS NOT TRUE LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'scheduled_by of task "%" must be a service of role "%", not %', other.id, caller, quote_nullable(other.scheduled_by)
                USING ERRCODE = 'insufficient_privilege', COLUMN = 'scheduled_by';
        END IF;
    ELSIF (OLD.scheduled_by = ANY (services)) IS NOT TRUE THEN
        RAISE EXCEPTION 'task "%" is another service''s: role "%" must not change it', OLD.id, caller
            USING ERRCODE = 'insufficient_privilege', COLUMN = 'scheduled_by';
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION tasktable.refuse_others_task() IS
    'Keeps an application role to the tasks of its services. The script of the roles makes its triggers, where roles '
    'are bound to services.';

CREATE TRIGGER zzz_task_1_edit BEFORE INSERT OR UPDATE OF id, payload, type, scheduled_at, run_now_at, priority, queue, expiration,
    expected_execution_time, max_attempts, entity, tenant_id, cron, time_zone, overlap, catch_up, catch_up_paused, catch_up_limit,
    jitter, ends_at, max_occurrences, parent_id, retention, archived_at ON tasktable.scheduled_tasks
    FOR EACH ROW EXECUTE FUNCTION tasktable.before_task_change();
COMMENT ON TRIGGER zzz_task_1_edit ON tasktable.scheduled_tasks IS 'Every insert and every edit.';

CREATE TRIGGER zzz_task_2_status BEFORE UPDATE OF status, paused_until ON tasktable.scheduled_tasks
    FOR EACH ROW WHEN (OLD.fence IS NOT DISTINCT FROM NEW.fence
        AND (OLD.status IS DISTINCT FROM NEW.status OR OLD.paused_until IS DISTINCT FROM NEW.paused_until)
        AND OLD.revision = NEW.revision AND current_setting('tasktable_change.context', true) IS DISTINCT FROM 'engine')
    EXECUTE FUNCTION tasktable.before_task_change();
COMMENT ON TRIGGER zzz_task_2_status ON tasktable.scheduled_tasks IS
    'A change of status, or of the end of a pause, that is not the engine''s.';

CREATE TRIGGER task_3_insert AFTER INSERT ON tasktable.scheduled_tasks REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION tasktable.after_tasks_insert();
COMMENT ON TRIGGER task_3_insert ON tasktable.scheduled_tasks IS 'The change lines of new tasks.';

CREATE TRIGGER task_3_delete AFTER DELETE ON tasktable.scheduled_tasks
    FOR EACH ROW EXECUTE FUNCTION tasktable.after_task_change();
COMMENT ON TRIGGER task_3_delete ON tasktable.scheduled_tasks IS 'The change line of a deleted task.';

CREATE TRIGGER task_4_update AFTER UPDATE ON tasktable.scheduled_tasks
    FOR EACH ROW WHEN (OLD.revision IS DISTINCT FROM NEW.revision OR OLD.fence = NEW.fence
        AND (OLD.status IS DISTINCT FROM NEW.status OR OLD.paused_until IS DISTINCT FROM NEW.paused_until))
    EXECUTE FUNCTION tasktable.after_task_change();
COMMENT ON TRIGGER task_4_update ON tasktable.scheduled_tasks IS 'The change line of an edited task.';

CREATE TRIGGER task_5_held BEFORE DELETE ON tasktable.scheduled_tasks
    FOR EACH ROW WHEN (OLD.fence IS NOT NULL) EXECUTE FUNCTION tasktable.refuse_held_delete();
COMMENT ON TRIGGER task_5_held ON tasktable.scheduled_tasks IS 'A held task is not deleted.';

CREATE TRIGGER task_6_truncate BEFORE TRUNCATE ON tasktable.scheduled_tasks
    FOR EACH STATEMENT EXECUTE FUNCTION tasktable.refuse_truncate();
COMMENT ON TRIGGER task_6_truncate ON tasktable.scheduled_tasks IS 'Tasks are deleted one by one.';

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON tasktable.scheduled_task_executions
    FOR EACH ROW EXECUTE FUNCTION tasktable.refuse_history_change();
COMMENT ON TRIGGER append_only ON tasktable.scheduled_task_executions IS 'History is not rewritten.';

CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON tasktable.scheduled_task_executions
    FOR EACH STATEMENT EXECUTE FUNCTION tasktable.refuse_history_change();
COMMENT ON TRIGGER append_only_truncate ON tasktable.scheduled_task_executions IS 'History is not rewritten.';

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON tasktable.scheduled_task_changes
    FOR EACH ROW EXECUTE FUNCTION tasktable.refuse_history_change();
COMMENT ON TRIGGER append_only ON tasktable.scheduled_task_changes IS 'History is not rewritten.';

CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON tasktable.scheduled_task_changes
    FOR EACH STATEMENT EXECUTE FUNCTION tasktable.refuse_history_change();
COMMENT ON TRIGGER append_only_truncate ON tasktable.scheduled_task_changes IS 'History is not rewritten.';
-- +goose StatementEnd

-- +goose Down
-- Of a function with its triggers, and with the triggers and policies that the script of the roles has made.
DROP FUNCTION tasktable.refuse_others_task, tasktable.services_of, tasktable.refuse_truncate,
    tasktable.refuse_history_change, tasktable.refuse_held_delete, tasktable.after_tasks_insert,
    tasktable.after_task_change, tasktable.before_task_change CASCADE;
DROP FUNCTION tasktable.task_content, tasktable.in_hours, tasktable.due_of, tasktable.asked_now;
