-- The triggers. They draw a revision for each change of a task, by a verb or by plain SQL, record it, and check it.
--
-- They read the setting tasktable_change.context, which a verb sets until it returns: the verb, who called it, and
-- 'quiet' if the leader need not be woken, and 'encoded anew' if the payload is the same under another key, separated
-- by chr(31). 'engine' marks the updates of the engine itself.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION tasktable.asked_now() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(nullif(current_setting('tasktable_test.now', true), '')::timestamptz, clock_timestamp())
$$;
COMMENT ON FUNCTION tasktable.asked_now IS 'The due time of a task that is to run now: the time of the clock, or in a '
    'test the time that scheduledtest has set.';

-- The function is STABLE, because Postgres does not inline an IMMUTABLE function whose parts are STABLE.
CREATE FUNCTION tasktable.due_of(id text, scheduled_at timestamptz, run_now_at timestamptz, jitter interval)
RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT coalesce(run_now_at, CASE WHEN jitter IS NULL THEN scheduled_at ELSE scheduled_at + make_interval(secs =>
        ((hashtextextended(id || ' ' || extract(epoch FROM scheduled_at)::text, 0) & 9223372036854775807)
            % greatest((extract(epoch FROM jitter) * 1000000)::bigint, 1))::float8 / 1000000) END)
$$;
COMMENT ON FUNCTION tasktable.due_of IS 'When a task is first due: at run_now_at, else at scheduled_at plus a jitter '
    'that depends on the id and the time alone.';

CREATE FUNCTION tasktable.in_hours(given interval) RETURNS interval LANGUAGE sql IMMUTABLE AS $$
    SELECT given - extract(day FROM given) * interval '1 day' + extract(day FROM given) * interval '24 hours'
$$;
COMMENT ON FUNCTION tasktable.in_hours IS 'An interval with its days as 24 hours each, so that its length does not '
    'change with the clocks.';

-- A full notification queue would fail the commit of the application. Nobody depends on a notification, because nodes
-- and leader look each second anyway. Therefore nothing is sent while the queue is half full.
CREATE FUNCTION tasktable.notify(channel text, payload text) RETURNS void LANGUAGE sql VOLATILE AS $$
    SELECT pg_notify(channel, payload) WHERE pg_notification_queue_usage() < 0.5
$$;
COMMENT ON FUNCTION tasktable.notify IS 'Sends a notification, unless the notification queue is half full.';

CREATE FUNCTION tasktable.task_content(task tasktable.scheduled_tasks) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'status', task.status, 'payload', task.payload, 'scheduled_at', task.scheduled_at,
        'run_now_at', task.run_now_at, 'priority', task.priority, 'queue', task.queue, 'expiration', task.expiration,
        'expected_execution_time', task.expected_execution_time, 'max_attempts', task.max_attempts,
        'entity', task.entity, 'tenant_id', task.tenant_id)
        || jsonb_strip_nulls(jsonb_build_object(
        'cron', task.cron, 'time_zone', task.time_zone, 'overlap', task.overlap, 'catch_up', task.catch_up,
        'catch_up_paused', task.catch_up_paused, 'catch_up_limit', task.catch_up_limit, 'jitter', task.jitter,
        'ends_at', task.ends_at, 'max_occurrences', task.max_occurrences, 'parent_id', task.parent_id,
        'paused_until', task.paused_until, 'retention', task.retention, 'archived_at', task.archived_at,
        'archived_note', task.archived_note, 'again_at', task.again_at, 'group_key', task.group_key,
        'backoff', task.backoff, 'timeout', task.timeout, 'deadline', task.deadline))
        -- Outside of the object above, because jsonb_strip_nulls would also change the payloads in it.
        || CASE WHEN task.if_dead IS NULL THEN '{}' ELSE jsonb_build_object('if_dead', task.if_dead) END
$$;
COMMENT ON FUNCTION tasktable.task_content IS 'The fields of a task that a user can edit, and its status. The rows of '
    'scheduled_task_changes hold them as they were and as they are.';

CREATE FUNCTION tasktable.limit_key_of(queue text, type text, group_key text, tenant_id text)
RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT CASE l.per WHEN 'group' THEN 'g:' || coalesce(limit_key_of.group_key, '')
            ELSE 't:' || coalesce(limit_key_of.tenant_id, '') END
        FROM tasktable.limits AS l
        WHERE l.per IS NOT NULL AND CASE l.scope WHEN 'type' THEN l.scope_name = limit_key_of.type
            WHEN 'queue' THEN l.scope_name = limit_key_of.queue ELSE true END
        LIMIT 1), '')
$$;
COMMENT ON FUNCTION tasktable.limit_key_of IS 'The key by which limits per group or per tenant count a task: g: and '
    'the group, or t: and the tenant. Empty: there is no such limit. The leader sets the keys of tasks that were '
    'scheduled before the limit.';

CREATE FUNCTION tasktable.defaults_of(type text) RETURNS TABLE (
    queue text, priority int, expiration interval, expected_execution_time interval, max_attempts int, backoff text,
    timeout interval, retention interval, group_key text
) LANGUAGE sql STABLE AS $$
    SELECT coalesce(own.queue, every.queue), coalesce(own.priority, every.priority),
        coalesce(own.expiration, every.expiration),
        coalesce(own.expected_execution_time, every.expected_execution_time),
        coalesce(own.max_attempts, every.max_attempts), coalesce(own.backoff, every.backoff),
        coalesce(own.timeout, every.timeout), coalesce(own.retention, every.retention),
        coalesce(own.group_key, every.group_key)
    FROM (SELECT) AS one
    LEFT JOIN tasktable.task_defaults AS own ON own.type = defaults_of.type
    LEFT JOIN tasktable.task_defaults AS every ON every.type = '*'
$$;
COMMENT ON FUNCTION tasktable.defaults_of IS 'The defaults of a type: its own, else those of all types, else null. One '
    'row.';

CREATE FUNCTION tasktable.before_task_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    owed   boolean := false; -- a fire was due before this edit, and still happens
    waits  boolean := false; -- the leader has yet to plan an earlier edit, from the time of that edit on
    same   boolean; -- the edit changes nothing but the status and the end of a pause
    pauses boolean := false; -- a task that waits is paused or resumed, and nothing else
    broken text; -- the rule that the row breaks
    due    timestamptz; -- of a task that is not recurring
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
        OR extract(day FROM NEW.timeout) <> 0
    THEN
        NEW.expected_execution_time := tasktable.in_hours(NEW.expected_execution_time);
        NEW.expiration := tasktable.in_hours(NEW.expiration);
        NEW.jitter := tasktable.in_hours(NEW.jitter);
        NEW.retention := tasktable.in_hours(NEW.retention);
        NEW.timeout := tasktable.in_hours(NEW.timeout);
    END IF;
    IF NEW.cron IS NOT NULL THEN -- before the comparison below, so that null and the default are the same
        NEW.time_zone := coalesce(NEW.time_zone, 'UTC');
        NEW.overlap := coalesce(NEW.overlap, 'skip');
        NEW.catch_up := coalesce(NEW.catch_up, 'latest');
        NEW.catch_up_paused := coalesce(NEW.catch_up_paused, 'none');
        NEW.catch_up_limit := coalesce(NEW.catch_up_limit, 100);
        IF TG_OP = 'INSERT' OR (NEW.cron, NEW.time_zone) IS DISTINCT FROM (OLD.cron, OLD.time_zone) THEN
            NEW.planned_wall := NULL; -- the next fire was planned by another expression
            NEW.planned_zone_data := NULL;
            NEW.planned_day := NULL;
            broken := tasktable.cron_fault(NEW.cron);
            IF broken IS NOT NULL THEN
                RAISE EXCEPTION 'task "%": cron: %, in "%"', NEW.id, broken, left(NEW.cron, 100)
                    USING ERRCODE = 'check_violation', COLUMN = 'cron';
            ELSIF NOT tasktable.knows_time_zone(NEW.time_zone) THEN
                RAISE EXCEPTION 'task "%": time_zone must be an IANA zone that this Postgres knows, '
                    'such as Europe/Berlin, got "%"', NEW.id, NEW.time_zone
                    USING ERRCODE = 'check_violation', COLUMN = 'time_zone';
            END IF;
        END IF;
        IF NEW.cron LIKE '%-%=%' AND (TG_OP = 'INSERT' OR NEW.cron IS DISTINCT FROM OLD.cron
            OR OLD.finished_at IS NOT NULL OR NEW.tenant_id IS DISTINCT FROM OLD.tenant_id)
        THEN
            PERFORM tasktable.refuse_unknown_calendars(NEW.id, NEW.cron, NEW.tenant_id);
        END IF;
    END IF;
    IF NEW.if_dead IS NOT NULL AND (TG_OP = 'INSERT' OR NEW.if_dead IS DISTINCT FROM OLD.if_dead) THEN
        NEW.if_dead := tasktable.if_dead_of(NEW.if_dead, NEW.id, NEW.tenant_id);
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
        same := (NEW.payload, NEW.scheduled_at, NEW.priority, NEW.queue, NEW.expected_execution_time, NEW.max_attempts,
                NEW.expiration, NEW.entity, NEW.tenant_id, NEW.run_now_at, NEW.cron, NEW.time_zone, NEW.overlap,
                NEW.catch_up, NEW.catch_up_paused, NEW.catch_up_limit, NEW.jitter, NEW.ends_at, NEW.max_occurrences,
                NEW.parent_id, NEW.retention, NEW.archived_at, NEW.if_dead, NEW.group_key, NEW.backoff, NEW.timeout,
                NEW.deadline)
            IS NOT DISTINCT FROM (OLD.payload, OLD.scheduled_at, OLD.priority, OLD.queue, OLD.expected_execution_time,
                OLD.max_attempts, OLD.expiration, OLD.entity, OLD.tenant_id, OLD.run_now_at, OLD.cron, OLD.time_zone,
                OLD.overlap, OLD.catch_up, OLD.catch_up_paused, OLD.catch_up_limit, OLD.jitter, OLD.ends_at,
                OLD.max_occurrences, OLD.parent_id, OLD.retention, OLD.archived_at, OLD.if_dead, OLD.group_key,
                OLD.backoff, OLD.timeout, OLD.deadline);
        IF same AND NEW.status = OLD.status AND NEW.paused_until IS NOT DISTINCT FROM OLD.paused_until THEN
            RETURN NEW; -- nothing changed, so there is no new revision, and a running attempt stays current
        END IF;
        -- A claimed task is paused or resumed. It keeps its revision, so that a running attempt stays current and is
        -- recorded. If the fence is above the revision, nobody has edited the task since the claim.
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
        pauses := same AND NEW.cron IS NULL AND OLD.fence IS NULL AND OLD.status IN ('QUEUED', 'PAUSED')
            AND NEW.status IN ('QUEUED', 'PAUSED');
        IF NEW.status = 'EXECUTING' THEN
            IF OLD.status <> 'EXECUTING' THEN
                RAISE EXCEPTION 'status of task "%" cannot be set to EXECUTING: only a claim does that', OLD.id
                    USING ERRCODE = 'check_violation', COLUMN = 'status';
            END IF;
            NEW.status := 'QUEUED'; -- a running task was edited, and runs again after the hold
        END IF;
        owed := NEW.cron IS NOT NULL AND OLD.cron IS NOT NULL AND NEW.status = 'QUEUED'
            AND OLD.planned_revision = OLD.revision AND NEW.scheduled_at = OLD.scheduled_at
            AND coalesce(OLD.next_attempt_at <= clock_timestamp(), false);
        waits := NEW.cron = OLD.cron AND NEW.time_zone = OLD.time_zone AND NEW.scheduled_at = OLD.scheduled_at
            AND NEW.tenant_id IS NOT DISTINCT FROM OLD.tenant_id
            AND OLD.status = 'QUEUED' AND NEW.status = 'QUEUED' AND OLD.next_attempt_at IS NOT NULL
            AND OLD.planned_revision IS DISTINCT FROM OLD.revision;
        IF OLD.finished_at IS NOT NULL AND NEW.status = 'QUEUED' AND NEW.scheduled_at <> OLD.scheduled_at THEN
            NEW.occurrence_count := 0;
        END IF;
        IF NEW.scheduled_at <> OLD.scheduled_at AND NEW.run_now_at IS NOT DISTINCT FROM OLD.run_now_at THEN
            NEW.run_now_at := NULL; -- the new time replaces an earlier run_now
        END IF;
    END IF;
    IF NEW.cron IS NULL AND num_nonnulls(NEW.time_zone, NEW.overlap, NEW.catch_up, NEW.catch_up_paused,
        NEW.catch_up_limit, NEW.ends_at, NEW.max_occurrences) > 0
    THEN
        broken := 'settings of recurrence need cron';
    ELSIF NEW.cron IS NOT NULL AND octet_length(NEW.id) > 480 THEN
        broken := 'id of a recurring task must be at most 480 bytes';
    ELSIF NEW.cron IS NOT NULL AND NEW.parent_id IS NOT NULL THEN
        broken := 'an occurrence does not recur itself';
    ELSIF NEW.cron IS NOT NULL AND NEW.deadline IS NOT NULL THEN
        broken := 'a recurring task has expiration, not deadline';
    END IF;
    IF broken IS NOT NULL THEN
        RAISE EXCEPTION 'task "%" violates check constraint "%"', NEW.id, broken
            USING ERRCODE = 'check_violation', CONSTRAINT = broken;
    END IF;
    NEW.revision := nextval('tasktable.task_numbers');
    -- The idempotency key stays while what is asked stays, so that a retry of a dead letter repeats no effect. Only
    -- Again releases a claim here. An edit during an attempt makes the run that was asked for after the attempt the
    -- next one. With the key of the attempt, a receiver would drop it.
    IF TG_OP = 'INSERT' OR NEW.scheduled_at IS DISTINCT FROM OLD.scheduled_at
        OR NEW.payload IS DISTINCT FROM OLD.payload
            AND split_part(coalesce(current_setting('tasktable_change.context', true), ''), chr(31), 4)
                <> 'encoded anew'
        OR OLD.status = 'COMPLETED' AND NEW.status <> 'COMPLETED' OR NEW.fence IS DISTINCT FROM OLD.fence
        OR OLD.again_at IS NOT NULL AND OLD.fence = NEW.fence
    THEN
        NEW.asked_revision := NEW.revision;
    END IF;
    IF TG_OP = 'UPDATE' AND OLD.again_at IS NOT NULL THEN -- the next run serves it, unless it was given another time
        IF NEW.status IN ('QUEUED', 'PAUSED')
            AND (NEW.scheduled_at = OLD.scheduled_at OR NEW.fence IS DISTINCT FROM OLD.fence)
        THEN
            NEW.run_now_at := tasktable.asked_now();
        END IF;
        NEW.again_at := NULL;
    END IF;
    IF TG_OP = 'UPDATE' AND OLD.finished_at IS NOT NULL AND NEW.status IN ('QUEUED', 'PAUSED') THEN
        NEW.rearmed_at := tasktable.asked_now();
    END IF;
    IF NEW.status <> 'PAUSED' THEN
        NEW.paused_until := NULL;
    END IF;
    IF NEW.status NOT IN ('FAILED', 'EXPIRED') THEN
        NEW.archived_at := NULL;
        NEW.archived_note := NULL;
    END IF;
    IF NEW.cron IS NOT NULL THEN
        NEW.planned_revision := CASE WHEN owed THEN NEW.revision WHEN TG_OP = 'UPDATE' THEN NEW.planned_revision END;
        NEW.run_now_at := NULL; -- run_now forks an occurrence instead
    ELSE
        NEW.planned_revision := NULL;
        NEW.open_occurrences_from := NULL;
    END IF;
    NEW.waiting_since := NULL;
    NEW.waits := NULL;
    IF NEW.status IN ('QUEUED', 'PAUSED') THEN
        IF NOT pauses THEN
            NEW.attempt := 0;
        END IF;
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
    -- Nothing becomes claimable in the past. So the leader need not look again at the part of a lane that it has
    -- claimed, and no task goes before those that are due already. The leader looks at the last second anyway, so a
    -- task that is scheduled for now keeps its time.
    due := tasktable.due_of(NEW.id, NEW.scheduled_at, NEW.run_now_at, NEW.jitter);
    IF pauses THEN -- a retry keeps its time over a pause, as due_at
        due := greatest(due, coalesce(OLD.due_at, OLD.next_attempt_at));
    END IF;
    NEW.next_attempt_at := CASE WHEN NEW.status <> 'QUEUED' OR NEW.fence IS NOT NULL THEN NULL
        WHEN owed OR waits THEN OLD.next_attempt_at
        -- The leader plans the next fire at once, counting from now. This is not a fire.
        WHEN NEW.cron IS NOT NULL THEN clock_timestamp()
        WHEN due < tasktable.asked_now() - interval '500 ms' THEN tasktable.asked_now()
        ELSE due END;
    NEW.due_at := CASE WHEN NEW.cron IS NULL AND due < NEW.next_attempt_at OR pauses AND NEW.status = 'PAUSED'
        THEN due END;
    NEW.limit_key := CASE WHEN NEW.cron IS NULL AND num_nonnulls(NEW.group_key, NEW.tenant_id) > 0
        THEN tasktable.limit_key_of(NEW.queue, NEW.type, NEW.group_key, NEW.tenant_id) ELSE '' END;
    -- A task that runs anew takes its place in the order by its time. So does a task that is resumed or comes from
    -- another group, queue or type, because another one may have gone first meanwhile. Only Again releases a claim
    -- here.
    IF TG_OP = 'UPDATE' AND OLD.goes_first AND (OLD.finished_at IS NOT NULL OR NEW.scheduled_at <> OLD.scheduled_at
        OR (NEW.limit_key, NEW.queue, NEW.type) IS DISTINCT FROM (OLD.limit_key, OLD.queue, OLD.type)
        OR NEW.fence IS DISTINCT FROM OLD.fence
        OR OLD.status = 'PAUSED' AND NEW.status <> 'PAUSED' AND OLD.fence IS NULL)
    THEN
        NEW.goes_first := NULL;
    END IF;
    -- This is not a trigger of its own, because the condition of such a trigger would slow down each insert more.
    IF TG_OP = 'INSERT' AND NEW.parent_id IS NOT NULL AND NEW.status IN ('QUEUED', 'PAUSED') THEN
        UPDATE tasktable.scheduled_tasks AS p SET open_occurrences_from = NEW.scheduled_at
        WHERE p.id = NEW.parent_id AND p.cron IS NOT NULL AND p.open_occurrences_from > NEW.scheduled_at;
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION tasktable.before_task_change IS 'Checks a new or edited task, draws its revision, and computes '
    'next_attempt_at.';

CREATE FUNCTION tasktable.unbound_column(type text, queue text) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    types  text := coalesce(current_setting('tasktable.types', true), '');
    queues text := coalesce(current_setting('tasktable.queues', true), '');
BEGIN
    IF (CASE WHEN types <> '' THEN NOT EXISTS (SELECT FROM unnest(string_to_array(types, ',')) AS t (name)
            WHERE t.name = unbound_column.type OR starts_with(unbound_column.type, t.name || ':'))
        ELSE coalesce(current_setting('tasktable.tenant', true), '') <> ''
            AND split_part(unbound_column.type, ':', 1) IN ('EXEC', 'RUN_SQL', 'SEND_EMAIL') END)
    THEN
        RETURN 'type';
    END IF;
    IF queues <> '' AND unbound_column.queue <> ALL (string_to_array(queues, ',')) THEN
        RETURN 'queue';
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION tasktable.unbound_column IS 'The column, type or queue, for which the key of this call must not '
    'change a task. Null: it may. The settings tasktable.types and tasktable.queues list what the key is bound to. '
    'Without such a list a call of a tenant may change tasks of all types but EXEC, RUN_SQL and SEND_EMAIL.';

CREATE FUNCTION tasktable.refuse_unbound(id text, type text, queue text) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
    wrong text := tasktable.unbound_column(refuse_unbound.type, refuse_unbound.queue);
BEGIN
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'task "%" is of the % %: the key must not change such tasks', refuse_unbound.id, wrong,
            CASE wrong WHEN 'type' THEN refuse_unbound.type ELSE refuse_unbound.queue END
            USING ERRCODE = 'insufficient_privilege', COLUMN = wrong;
    END IF;
END $$;
COMMENT ON FUNCTION tasktable.refuse_unbound IS 'Refuses the change of a task to whose type and queue the key of this '
    'call is not bound.';

CREATE FUNCTION tasktable.is_bound() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce(current_setting('tasktable.types', true), '') <> ''
        OR coalesce(current_setting('tasktable.queues', true), '') <> ''
        OR coalesce(current_setting('tasktable.tenant', true), '') <> ''
$$;
COMMENT ON FUNCTION tasktable.is_bound IS 'Whether this transaction is that of a key that may not change tasks of each '
    'type and queue.';

CREATE FUNCTION tasktable.refuse_unbound_scope(scope text, name text) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
    queues text := coalesce(current_setting('tasktable.queues', true), '');
    wrong  text := CASE WHEN refuse_unbound_scope.scope = 'queue' AND queues <> ''
            AND refuse_unbound_scope.name <> ALL (string_to_array(queues, ',')) THEN 'queue'
        -- No key is bound to the type or queue that has no name.
        ELSE tasktable.unbound_column(
            CASE refuse_unbound_scope.scope WHEN 'type' THEN refuse_unbound_scope.name ELSE '' END,
            CASE refuse_unbound_scope.scope WHEN 'queue' THEN refuse_unbound_scope.name ELSE '' END) END;
BEGIN
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION '% has tasks of a % that the key must not change, so the key must not pause, resume or limit '
            'it, or set its defaults',
            concat_ws(' ', refuse_unbound_scope.scope, nullif(refuse_unbound_scope.name, '')), wrong
            USING ERRCODE = 'insufficient_privilege', COLUMN = wrong;
    END IF;
END $$;
COMMENT ON FUNCTION tasktable.refuse_unbound_scope IS 'Refuses to pause or resume everything, a queue or a type, '
    'unless the key of this call may change all tasks of it.';

-- The triggers below check type and time again, because another trigger may have changed the row after zzz_task_1_edit.
-- A CHECK of the table would read the payload at each update by the engine.
CREATE FUNCTION tasktable.after_task_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    context text := coalesce(current_setting('tasktable_change.context', true), '');
    verb    text := coalesce(nullif(split_part(context, chr(31), 1), ''), 'sql');
    author  text := coalesce(nullif(split_part(context, chr(31), 2), ''),
        nullif(current_setting('tasktable_change.by', true), ''), session_user);
    quiet   boolean := split_part(context, chr(31), 3) = 'quiet';
    was     jsonb;
    is_now  jsonb;
BEGIN
    IF tasktable.is_bound() THEN
        PERFORM tasktable.refuse_unbound(OLD.id, OLD.type, OLD.queue);
        IF TG_OP = 'UPDATE' THEN
            PERFORM tasktable.refuse_unbound(NEW.id, NEW.type, NEW.queue);
        END IF;
    END IF;
    IF TG_OP = 'DELETE' THEN
        IF context <> 'retention' THEN -- retention is nobody's edit, and removes the history as well
            INSERT INTO tasktable.scheduled_task_changes (revision, task_id, verb, outcome, changed_by, old)
            VALUES (nextval('tasktable.task_numbers'), OLD.id, verb, 'deleted', author, tasktable.task_content(OLD));
        END IF;
        RETURN NULL;
    END IF;
    IF NEW.type IS DISTINCT FROM NEW.payload ->> 'type' THEN
        RAISE EXCEPTION 'type of task "%" must be what its payload says: write the payload''s field "type"', NEW.id
            USING ERRCODE = 'check_violation', COLUMN = 'type';
    END IF;
    IF NEW.cron IS NULL
        AND coalesce(NEW.due_at, NEW.next_attempt_at)
            <> tasktable.due_of(NEW.id, NEW.scheduled_at, NEW.run_now_at, NEW.jitter)
        AND coalesce(NEW.due_at, NEW.next_attempt_at) IS DISTINCT FROM coalesce(OLD.due_at, OLD.next_attempt_at)
    THEN
        RAISE EXCEPTION 'time of task "%" was changed by a trigger that fires after zzz_task_1_edit: give that trigger '
            'a name that sorts before it', NEW.id USING ERRCODE = 'check_violation', COLUMN = 'scheduled_at';
    END IF;
    was := tasktable.task_content(OLD);
    is_now := tasktable.task_content(NEW);
    INSERT INTO tasktable.scheduled_task_changes (revision, task_id, verb, outcome, changed_by, old, new)
    SELECT CASE NEW.revision WHEN OLD.revision THEN nextval('tasktable.task_numbers') ELSE NEW.revision END, NEW.id,
        verb, CASE WHEN NEW.again_at IS NOT NULL AND OLD.again_at IS NULL THEN 'again'
            WHEN NEW.status = 'CANCELLED' AND OLD.status <> 'CANCELLED' THEN 'cancelled'
            WHEN NEW.status = 'PAUSED' AND (OLD.status <> 'PAUSED' OR verb = 'pause') THEN 'paused'
            WHEN NEW.archived_at IS NOT NULL AND OLD.archived_at IS NULL THEN 'archived'
            WHEN verb IN ('run_now', 'retry', 'resume') THEN 'queued'
            WHEN NEW.finished_at IS NOT NULL THEN 'edited'
            WHEN OLD.finished_at IS NOT NULL THEN 'rearmed'
            WHEN OLD.status = 'PAUSED' AND NEW.status IN ('QUEUED', 'EXECUTING') THEN 'queued'
            ELSE 'rescheduled' END,
        author, jsonb_object_agg(key, was -> key), jsonb_object_agg(key, is_now -> key)
    FROM jsonb_object_keys(was || is_now) AS key
    WHERE was -> key IS DISTINCT FROM is_now -> key;
    -- Tells the node that holds the task, so that it ends the handler's context, or its wait for the old time, sooner.
    IF OLD.fence IS NOT NULL THEN
        PERFORM tasktable.notify('tasktable.held', OLD.fence::text);
    END IF;
    -- The leader sees later due times by itself early enough.
    IF NOT quiet AND NEW.next_attempt_at <= clock_timestamp() + interval '2 seconds' THEN
        PERFORM tasktable.notify('tasktable.wake', '');
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION tasktable.after_task_change IS 'Records an edit or a delete of a task. Notifies the leader of a '
    'due task, and the node that holds the task.';

CREATE FUNCTION tasktable.run_once_more() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    former text;
BEGIN
    former := tasktable.enter_change('run_now', (SELECT c.changed_by FROM tasktable.scheduled_task_changes AS c
        WHERE c.task_id = NEW.id AND c.outcome = 'again' ORDER BY c.revision DESC LIMIT 1), true);
    -- The edit takes again_at away. A pause since the claim goes on.
    UPDATE tasktable.scheduled_tasks AS t SET status = CASE OLD.status WHEN 'PAUSED' THEN 'PAUSED' ELSE 'QUEUED' END,
        paused_until = OLD.paused_until, run_now_at = tasktable.asked_now()
    WHERE t.id = NEW.id;
    former := tasktable.leave_change(former);
    RETURN NULL;
END $$;
COMMENT ON FUNCTION tasktable.run_once_more IS 'Queues a task again whose attempt has ended, because somebody called '
    'run_now during the attempt.';

CREATE FUNCTION tasktable.after_tasks_insert() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    context text := coalesce(current_setting('tasktable_change.context', true), '');
    verb    text := coalesce(nullif(split_part(context, chr(31), 1), ''), 'sql');
    author  text := nullif(split_part(context, chr(31), 2), '');
    other   text := coalesce(nullif(current_setting('tasktable_change.by', true), ''), session_user);
    quiet   boolean := split_part(context, chr(31), 3) = 'quiet';
    made    record;
BEGIN
    IF tasktable.is_bound() THEN
        PERFORM tasktable.refuse_unbound(t.id, t.type, t.queue) FROM inserted AS t;
    END IF;
    -- The tasks of one schedule_many may be scheduled by several services.
    INSERT INTO tasktable.scheduled_task_changes (revision, task_id, verb, outcome, changed_by, new)
    SELECT t.revision, t.id, verb, 'created',
        coalesce(author, CASE WHEN verb NOT IN ('sql', 'fork') THEN nullif(t.scheduled_by, '') END, other),
        jsonb_build_object('status', t.status, 'type', t.type, 'scheduled_at', t.scheduled_at)
    FROM inserted AS t;
    SELECT min(t.id) FILTER (WHERE t.type IS DISTINCT FROM t.payload ->> 'type') AS wrong_type,
        min(t.id) FILTER (WHERE t.cron IS NULL
            AND coalesce(t.due_at, t.next_attempt_at)
                <> tasktable.due_of(t.id, t.scheduled_at, t.run_now_at, t.jitter)) AS wrong_time,
        -- An occurrence has the id of its recurring task, @ and the fire time. A task that somebody has given such an
        -- id would keep the occurrence from being made, also if the recurring task comes later.
        min(t.id) FILTER (WHERE t.parent_id IS NULL AND t.id LIKE '%@%Z'
            AND t.id ~ '@\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([.]\d{6})?Z$') AS wrong_id,
        min(t.next_attempt_at) AS next_attempt_at
    INTO made FROM inserted AS t;
    IF made.wrong_id IS NOT NULL THEN
        RAISE EXCEPTION 'id must not end in @ and a time, as those of occurrences do, got "%"', made.wrong_id
            USING ERRCODE = 'check_violation', COLUMN = 'id';
    END IF;
    IF made.wrong_type IS NOT NULL THEN
        RAISE EXCEPTION 'type of task "%" must be what its payload says: write the payload''s field "type"',
            made.wrong_type USING ERRCODE = 'check_violation', COLUMN = 'type';
    END IF;
    IF made.wrong_time IS NOT NULL THEN
        RAISE EXCEPTION 'time of task "%" was changed by a trigger that fires after zzz_task_1_edit: give that trigger '
            'a name that sorts before it', made.wrong_time USING ERRCODE = 'check_violation', COLUMN = 'scheduled_at';
    END IF;
    IF NOT quiet AND made.next_attempt_at <= clock_timestamp() + interval '2 seconds' THEN
        PERFORM tasktable.notify('tasktable.wake', '');
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION tasktable.after_tasks_insert IS 'Records all tasks that one statement inserts. Notifies the leader '
    'if one of them is due.';

CREATE FUNCTION tasktable.refuse_held_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'task "%" is running and cannot be deleted: cancel it, and delete it when it has ended', OLD.id
        USING ERRCODE = 'object_in_use', COLUMN = 'fence';
END $$;
COMMENT ON FUNCTION tasktable.refuse_held_delete IS 'Refuses to delete a running task. Otherwise the same id could be '
    'inserted again, and would run twice at once.';

CREATE FUNCTION tasktable.refuse_history_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('tasktable_change.context', true) = 'retention' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '% is append-only: % is refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'insufficient_privilege';
END $$;
COMMENT ON FUNCTION tasktable.refuse_history_change IS 'Keeps the history append-only for everybody except retention, '
    'which sets tasktable_change.context.';

CREATE FUNCTION tasktable.refuse_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'TRUNCATE of % is refused: DELETE records each task and keeps those that are running', TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END $$;
COMMENT ON FUNCTION tasktable.refuse_truncate IS 'Refuses TRUNCATE, because it would remove running tasks, and would '
    'not record the removed ones.';

-- The four functions below are for roles.sql. Their search_path is fixed, so that the calling role cannot put a
-- pg_has_role of its own before the real one.
CREATE FUNCTION tasktable.services_of(role name) RETURNS text[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    -- to_regrole gives null for a role that was dropped, and pg_has_role would fail for its name.
    SELECT ARRAY(SELECT a.service FROM tasktable.applications AS a
        WHERE NOT a.by_tenant AND pg_has_role(services_of.role, to_regrole(quote_ident(a.role)), 'USAGE'))
$$;
COMMENT ON FUNCTION tasktable.services_of IS 'The services whose tasks a database role may schedule and read, itself '
    'or as a member of another role. An empty name means all services. The role of tenants has none.';

CREATE FUNCTION tasktable.tenant_of(role name) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(current_setting('tasktable.tenant', true), '') WHERE EXISTS (
        SELECT FROM tasktable.applications AS a
        WHERE a.by_tenant AND pg_has_role(tenant_of.role, to_regrole(quote_ident(a.role)), 'USAGE'))
$$;
COMMENT ON FUNCTION tasktable.tenant_of IS 'The tenant whose tasks a database role may schedule and read in this '
    'transaction, as the setting tasktable.tenant says. Empty: none, because the setting is missing. Null: the role is '
    'not the role of tenants.';

CREATE FUNCTION tasktable.is_restricted() RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The role that logged in or was SET. In a verb current_user is the owner.
    caller name := coalesce(nullif(current_setting('role'), 'none'), session_user);
BEGIN
    -- The owner and the engine may update the table anyway. Of the other roles with the verbs, only an application of
    -- all services may not call services_of.
    RETURN NOT has_table_privilege(caller, 'tasktable.scheduled_tasks'::regclass, 'UPDATE')
        AND has_function_privilege(caller, 'tasktable.services_of(name)'::regprocedure, 'EXECUTE');
END $$;
COMMENT ON FUNCTION tasktable.is_restricted IS 'Whether the role that calls must keep to the tasks of some services or '
    'of a tenant. It is a function, because Postgres parses the condition of a trigger again for each statement.';

CREATE FUNCTION tasktable.refuse_others_task() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The role that logged in or was SET. current_user is the owner, because verbs run as the owner.
    caller   name := coalesce(nullif(current_setting('role'), 'none'), session_user);
    services text[];
    tenant   text; -- null: the caller is not the role of tenants
    other    record;
BEGIN
    -- The query of services_of is repeated here, because Postgres keeps the plan of a query in PL/pgSQL.
    services := ARRAY(SELECT a.service FROM tasktable.applications AS a
        WHERE NOT a.by_tenant AND pg_has_role(caller, to_regrole(quote_ident(a.role)), 'USAGE'));
    IF '' = ANY (services) THEN
        RETURN NULL;
    END IF;
    -- Otherwise a caller could take the id of a notice in advance, so that it is not sent, or send notices to others.
    IF TG_OP = 'INSERT' THEN
        SELECT i.id INTO other FROM inserted AS i
        WHERE starts_with(i.id, 'notice/') OR i.id = 'notice-watch' OR i.type IN ('NOTICE', 'NOTICE_WATCH') LIMIT 1;
    ELSIF TG_OP = 'UPDATE' THEN
        SELECT NEW.id INTO other WHERE NEW.type IN ('NOTICE', 'NOTICE_WATCH') AND NEW.type <> OLD.type;
    END IF;
    IF TG_OP <> 'DELETE' AND FOUND THEN
        RAISE EXCEPTION 'task "%" would be a notice: ids that begin with notice/, the id notice-watch, and the types '
            'NOTICE and NOTICE_WATCH are the engine''s', other.id
            USING ERRCODE = 'insufficient_privilege', COLUMN = 'id';
    END IF;
    tenant := tasktable.tenant_of(caller);
    IF tenant IS NOT NULL THEN
        IF TG_OP = 'INSERT' THEN
            SELECT i.id, i.tenant_id INTO other
            FROM inserted AS i WHERE (i.tenant_id = tenant) IS NOT TRUE LIMIT 1;
        ELSIF (OLD.tenant_id = tenant) IS NOT TRUE THEN
            RAISE EXCEPTION 'task "%" is another tenant''s: role "%" must not change it', OLD.id, caller
                USING ERRCODE = 'insufficient_privilege', COLUMN = 'tenant_id';
        ELSIF TG_OP = 'UPDATE' THEN
            SELECT NEW.id, NEW.tenant_id INTO other WHERE (NEW.tenant_id = tenant) IS NOT TRUE;
        END IF;
        IF TG_OP <> 'DELETE' AND FOUND THEN
            RAISE EXCEPTION 'tenant_id of task "%" must be the tenant of the call, %, not %', other.id,
                quote_nullable(nullif(tenant, '')), quote_nullable(other.tenant_id)
                USING ERRCODE = 'insufficient_privilege', COLUMN = 'tenant_id';
        END IF;
        RETURN NULL;
    END IF;
    IF TG_OP = 'INSERT' THEN
        SELECT i.id, i.scheduled_by INTO other
        FROM inserted AS i WHERE (i.scheduled_by = ANY (services)) IS NOT TRUE LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'scheduled_by of task "%" must be a service of role "%", not %', other.id, caller,
                quote_nullable(other.scheduled_by) USING ERRCODE = 'insufficient_privilege', COLUMN = 'scheduled_by';
        END IF;
    ELSIF (OLD.scheduled_by = ANY (services)) IS NOT TRUE THEN
        RAISE EXCEPTION 'task "%" is another service''s: role "%" must not change it', OLD.id, caller
            USING ERRCODE = 'insufficient_privilege', COLUMN = 'scheduled_by';
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION tasktable.refuse_others_task IS 'Keeps an application role to the tasks of its services, and the '
    'role of tenants to the tasks of one tenant. The script of "migrate roles" makes its triggers.';

-- Postgres fires triggers in the order of their names. The names of these BEFORE triggers sort last, so that they see
-- the changes of an application's own triggers. The engine's own updates fire none of the triggers. A claim, settle or
-- release writes no column of the list, and changes the status together with the fence, or sets the context to
-- 'engine'.
CREATE TRIGGER zzz_task_1_edit BEFORE INSERT OR UPDATE OF id, payload, type, scheduled_at, run_now_at, priority, queue,
    expiration, expected_execution_time, max_attempts, entity, tenant_id, cron, time_zone, overlap, catch_up,
    catch_up_paused, catch_up_limit, jitter, ends_at, max_occurrences, parent_id, retention, archived_at, if_dead,
    group_key, backoff, timeout, deadline
    ON tasktable.scheduled_tasks FOR EACH ROW EXECUTE FUNCTION tasktable.before_task_change();
COMMENT ON TRIGGER zzz_task_1_edit ON tasktable.scheduled_tasks IS 'Each insert and each edit.';
CREATE TRIGGER zzz_task_2_status BEFORE UPDATE OF status, paused_until ON tasktable.scheduled_tasks
    FOR EACH ROW WHEN (OLD.fence IS NOT DISTINCT FROM NEW.fence
        AND (OLD.status IS DISTINCT FROM NEW.status OR OLD.paused_until IS DISTINCT FROM NEW.paused_until)
        AND OLD.revision = NEW.revision AND current_setting('tasktable_change.context', true) IS DISTINCT FROM 'engine')
    EXECUTE FUNCTION tasktable.before_task_change();
COMMENT ON TRIGGER zzz_task_2_status ON tasktable.scheduled_tasks IS 'A change of the status or of the end of a pause, '
    'except by the engine.';
CREATE TRIGGER task_3_insert AFTER INSERT ON tasktable.scheduled_tasks REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION tasktable.after_tasks_insert();
COMMENT ON TRIGGER task_3_insert ON tasktable.scheduled_tasks IS 'Records new tasks.';
CREATE TRIGGER task_3_delete AFTER DELETE ON tasktable.scheduled_tasks
    FOR EACH ROW EXECUTE FUNCTION tasktable.after_task_change();
COMMENT ON TRIGGER task_3_delete ON tasktable.scheduled_tasks IS 'Records a deleted task.';
-- The pause of a claimed task draws no revision, and neither does a run_now during an attempt.
CREATE TRIGGER task_4_update AFTER UPDATE ON tasktable.scheduled_tasks
    FOR EACH ROW WHEN (OLD.revision IS DISTINCT FROM NEW.revision OR OLD.fence = NEW.fence
        AND (OLD.status IS DISTINCT FROM NEW.status OR OLD.paused_until IS DISTINCT FROM NEW.paused_until
            OR OLD.again_at IS DISTINCT FROM NEW.again_at))
    EXECUTE FUNCTION tasktable.after_task_change();
COMMENT ON TRIGGER task_4_update ON tasktable.scheduled_tasks IS 'Records an edit.';
CREATE TRIGGER task_5_held BEFORE DELETE ON tasktable.scheduled_tasks
    FOR EACH ROW WHEN (OLD.fence IS NOT NULL) EXECUTE FUNCTION tasktable.refuse_held_delete();
COMMENT ON TRIGGER task_5_held ON tasktable.scheduled_tasks IS 'Refuses to delete a running task.';
CREATE TRIGGER task_6_truncate BEFORE TRUNCATE ON tasktable.scheduled_tasks
    FOR EACH STATEMENT EXECUTE FUNCTION tasktable.refuse_truncate();
COMMENT ON TRIGGER task_6_truncate ON tasktable.scheduled_tasks IS 'Refuses TRUNCATE.';

-- Its name sorts last, so that others see the end of the attempt before the next run.
CREATE TRIGGER zzz_task_8_again AFTER UPDATE OF fence ON tasktable.scheduled_tasks
    FOR EACH ROW WHEN (NEW.again_at IS NOT NULL AND OLD.fence IS NOT NULL AND NEW.fence IS NULL)
    EXECUTE FUNCTION tasktable.run_once_more();
COMMENT ON TRIGGER zzz_task_8_again ON tasktable.scheduled_tasks IS
    'The end of an attempt during which somebody called run_now.';

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON tasktable.scheduled_task_executions
    FOR EACH ROW EXECUTE FUNCTION tasktable.refuse_history_change();
COMMENT ON TRIGGER append_only ON tasktable.scheduled_task_executions IS 'The history is append-only.';
CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON tasktable.scheduled_task_executions
    FOR EACH STATEMENT EXECUTE FUNCTION tasktable.refuse_history_change();
COMMENT ON TRIGGER append_only_truncate ON tasktable.scheduled_task_executions IS 'The history is append-only.';
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON tasktable.scheduled_task_changes
    FOR EACH ROW EXECUTE FUNCTION tasktable.refuse_history_change();
COMMENT ON TRIGGER append_only ON tasktable.scheduled_task_changes IS 'The history is append-only.';
CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON tasktable.scheduled_task_changes
    FOR EACH STATEMENT EXECUTE FUNCTION tasktable.refuse_history_change();
COMMENT ON TRIGGER append_only_truncate ON tasktable.scheduled_task_changes IS 'The history is append-only.';
-- +goose StatementEnd

-- +goose Down
-- CASCADE drops the triggers as well, and the triggers and policies that roles.sql has made.
DROP FUNCTION tasktable.refuse_others_task, tasktable.is_restricted, tasktable.tenant_of, tasktable.services_of,
    tasktable.refuse_truncate, tasktable.refuse_history_change, tasktable.refuse_held_delete,
    tasktable.after_tasks_insert, tasktable.run_once_more, tasktable.after_task_change, tasktable.before_task_change,
    tasktable.refuse_unbound_scope, tasktable.is_bound, tasktable.limit_key_of, tasktable.defaults_of,
    tasktable.refuse_unbound, tasktable.unbound_column CASCADE;
DROP FUNCTION tasktable.task_content, tasktable.notify, tasktable.in_hours, tasktable.due_of, tasktable.asked_now;
