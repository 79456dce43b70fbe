-- The triggers: whoever edits a task, by verb or by plain SQL, draws a revision, is recorded, and cannot break the protocol.
--
-- They read one setting, tasktable_change.context, that the functions of 00003 set for the length of their call: verb, who,
-- and whether to wake the leader, separated by chr(31). 'engine' alone marks the leader's own moves.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION tasktable.before_task_change() RETURNS trigger LANGUAGE plpgsql AS $$
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
COMMENT ON FUNCTION tasktable.before_task_change() IS 'Gives every edit of a task its revision, and a waiting task its next_attempt_at.';

-- +goose StatementBegin
CREATE FUNCTION tasktable.task_content(task tasktable.scheduled_tasks) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'status', task.status, 'payload', task.payload, 'scheduled_at', task.scheduled_at, 'run_now_at', task.run_now_at,
        'priority', task.priority, 'queue', task.queue, 'expiration', task.expiration,
        'expected_execution_time', task.expected_execution_time, 'max_attempts', task.max_attempts,
        'entity', task.entity, 'tenant_id', task.tenant_id)
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.task_content(tasktable.scheduled_tasks) IS 'What a user can edit of a task, and its status, as JSON: what a change line compares.';

-- +goose StatementBegin
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
COMMENT ON FUNCTION tasktable.after_task_change() IS 'Writes the change line of every edit of a task, and wakes the leader or the holder where it matters; refuses a type that is not the payload''s.';

-- +goose StatementBegin
CREATE FUNCTION tasktable.refuse_held_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'task "%" is running and cannot be deleted: cancel it, and delete it when it has ended', OLD.id
        USING ERRCODE = 'object_in_use', COLUMN = 'fence';
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.refuse_held_delete() IS 'Keeps the hold of a running task: a row deleted and inserted again would let one id run twice at once.';

-- +goose StatementBegin
CREATE FUNCTION tasktable.refuse_history_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('tasktable_change.context', true) = 'retention' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '% is append-only: % is refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'insufficient_privilege';
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.refuse_history_change() IS 'Keeps the history append-only for everybody but retention, which says so in tasktable_change.context.';

-- +goose StatementBegin
CREATE FUNCTION tasktable.refuse_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'TRUNCATE of % is refused: DELETE records each task and keeps those that are running', TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.refuse_truncate() IS 'Keeps the holds of running tasks, and the record of what was deleted: TRUNCATE calls no row''s triggers.';

-- The names of the BEFORE triggers of inserts and updates sort last, since Postgres fires triggers in the order of their names: so
-- they see what an application's triggers have made of the row.
-- The column lists and WHENs keep all of this away from the engine's own updates: claim, settle and release write none of the
-- listed columns, and their changes of status go with a change of the fence or say 'engine'.
CREATE TRIGGER zzz_task_1_edit BEFORE INSERT OR UPDATE OF id, payload, type, scheduled_at, run_now_at, priority, queue, expiration,
    expected_execution_time, max_attempts, entity, tenant_id ON tasktable.scheduled_tasks
    FOR EACH ROW EXECUTE FUNCTION tasktable.before_task_change();
COMMENT ON TRIGGER zzz_task_1_edit ON tasktable.scheduled_tasks IS 'Every insert and every edit.';

CREATE TRIGGER zzz_task_2_status BEFORE UPDATE OF status ON tasktable.scheduled_tasks
    FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status AND OLD.fence IS NOT DISTINCT FROM NEW.fence
        AND OLD.revision = NEW.revision AND current_setting('tasktable_change.context', true) IS DISTINCT FROM 'engine')
    EXECUTE FUNCTION tasktable.before_task_change();
COMMENT ON TRIGGER zzz_task_2_status ON tasktable.scheduled_tasks IS 'A change of status that is not the engine''s.';

CREATE TRIGGER task_3_insert AFTER INSERT OR DELETE ON tasktable.scheduled_tasks
    FOR EACH ROW EXECUTE FUNCTION tasktable.after_task_change();
COMMENT ON TRIGGER task_3_insert ON tasktable.scheduled_tasks IS 'The change line of a new or deleted task.';

CREATE TRIGGER task_4_update AFTER UPDATE ON tasktable.scheduled_tasks
    FOR EACH ROW WHEN (OLD.revision IS DISTINCT FROM NEW.revision) EXECUTE FUNCTION tasktable.after_task_change();
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

-- +goose Down
DROP TRIGGER append_only_truncate ON tasktable.scheduled_task_changes;
DROP TRIGGER append_only ON tasktable.scheduled_task_changes;
DROP TRIGGER append_only_truncate ON tasktable.scheduled_task_executions;
DROP TRIGGER append_only ON tasktable.scheduled_task_executions;
DROP TRIGGER task_6_truncate ON tasktable.scheduled_tasks;
DROP TRIGGER task_5_held ON tasktable.scheduled_tasks;
DROP TRIGGER task_4_update ON tasktable.scheduled_tasks;
DROP TRIGGER task_3_insert ON tasktable.scheduled_tasks;
DROP TRIGGER zzz_task_2_status ON tasktable.scheduled_tasks;
DROP TRIGGER zzz_task_1_edit ON tasktable.scheduled_tasks;
DROP FUNCTION tasktable.refuse_truncate();
DROP FUNCTION tasktable.refuse_history_change();
DROP FUNCTION tasktable.refuse_held_delete();
DROP FUNCTION tasktable.after_task_change();
DROP FUNCTION tasktable.task_content(tasktable.scheduled_tasks);
DROP FUNCTION tasktable.before_task_change();
