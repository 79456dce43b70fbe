-- What operators do to many tasks at once: pauses of everything, a queue or a type, dead letters dealt with, erasure.

-- +goose Up
CREATE TABLE tasktable.pauses (
    number      bigint      PRIMARY KEY DEFAULT nextval('tasktable.task_numbers'),
    scope       text        NOT NULL CONSTRAINT "scope must be all, queue or type" CHECK (scope IN ('all', 'queue', 'type')),
    name        text        NOT NULL DEFAULT '',
    paused_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    paused_by   text        NOT NULL DEFAULT session_user,
    ends_at     tasktable.task_limit_time,
    resumed_by  text,
    reason      text,
    planned_end tasktable.task_limit_time,
    CONSTRAINT "name must be a queue or a type, and empty for all" CHECK (CASE scope WHEN 'all' THEN name = ''
        WHEN 'queue' THEN name::tasktable.task_queue IS NOT NULL WHEN 'type' THEN name::tasktable.task_type IS NOT NULL END)
);
COMMENT ON TABLE tasktable.pauses IS 'What is or was paused as a whole: everything, a queue or a type. Nothing of it is claimed or started; running handlers finish. One line a pause, also of those that are over.';
COMMENT ON COLUMN tasktable.pauses.number IS 'From the sequence of revisions and fences.';
COMMENT ON COLUMN tasktable.pauses.scope IS 'all, queue or type.';
COMMENT ON COLUMN tasktable.pauses.name IS 'Which queue or type; empty for all.';
COMMENT ON COLUMN tasktable.pauses.paused_at IS 'Since when.';
COMMENT ON COLUMN tasktable.pauses.paused_by IS 'Who asked for it.';
COMMENT ON COLUMN tasktable.pauses.ends_at IS 'When the pause ends by itself, or ended; null: when somebody resumes.';
COMMENT ON COLUMN tasktable.pauses.resumed_by IS 'Who ended it; null: nobody did yet, or it ended by itself.';
COMMENT ON COLUMN tasktable.pauses.reason IS 'Why.';
COMMENT ON COLUMN tasktable.pauses.planned_end IS 'Of a pause that somebody ended: when it would have ended by itself. Null: only when somebody resumed it, or nobody has ended it.';
CREATE INDEX pauses_ends_at ON tasktable.pauses (ends_at);
COMMENT ON INDEX tasktable.pauses_ends_at IS 'The pauses that hold, and those of a time.';

-- +goose StatementBegin
CREATE FUNCTION tasktable.pause_scope(scope text, name text DEFAULT '', until timestamptz DEFAULT NULL, reason text DEFAULT NULL, by text DEFAULT NULL)
RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    held tasktable.pauses;
BEGIN
    -- One at a time: two that pause the same would leave two lines, and a resume would end one.
    PERFORM pg_advisory_xact_lock(hashtextextended('tasktable.pause ' || pause_scope.scope || ' ' || pause_scope.name, 0));
    SELECT * INTO held FROM tasktable.pauses AS p
    WHERE p.scope = pause_scope.scope AND p.name = pause_scope.name AND (p.ends_at IS NULL OR p.ends_at > clock_timestamp());
    IF NOT FOUND THEN
        INSERT INTO tasktable.pauses (scope, name, ends_at, reason, paused_by)
        VALUES (pause_scope.scope, pause_scope.name, pause_scope.until, pause_scope.reason, coalesce(pause_scope.by, session_user));
        RETURN 'paused';
    END IF;
    IF held.ends_at IS NOT DISTINCT FROM pause_scope.until AND held.reason IS NOT DISTINCT FROM pause_scope.reason THEN
        RETURN 'unchanged';
    END IF;
    UPDATE tasktable.pauses AS p SET ends_at = pause_scope.until, reason = pause_scope.reason, paused_by = coalesce(pause_scope.by, session_user)
    WHERE p.number = held.number;
    RETURN 'paused';
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.pause_scope(text, text, timestamptz, text, text) IS 'Pauses everything (scope all), a queue or a type, optionally until a time. After its commit nothing of it starts; running handlers finish. Outcome: paused or unchanged.';

-- +goose StatementBegin
CREATE FUNCTION tasktable.resume_scope(scope text, name text DEFAULT '', by text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF resume_scope.scope IS NULL OR resume_scope.scope NOT IN ('all', 'queue', 'type') THEN
        RAISE EXCEPTION 'scope must be all, queue or type, not %', quote_nullable(resume_scope.scope) USING ERRCODE = 'check_violation', COLUMN = 'scope';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('tasktable.pause ' || resume_scope.scope || ' ' || resume_scope.name, 0));
    UPDATE tasktable.pauses AS p SET planned_end = p.ends_at, ends_at = clock_timestamp(), resumed_by = coalesce(resume_scope.by, session_user)
    WHERE p.scope = resume_scope.scope AND p.name = resume_scope.name AND (p.ends_at IS NULL OR p.ends_at > clock_timestamp());
    IF NOT FOUND THEN
        RETURN 'unchanged';
    END IF;
    IF pg_notification_queue_usage() < 0.5 THEN
        PERFORM pg_notify('tasktable.wake', '');
    END IF;
    RETURN 'queued';
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.resume_scope(text, text, text) IS 'Ends the pause of everything, a queue or a type. Outcome: queued or unchanged.';

-- +goose StatementBegin
CREATE FUNCTION tasktable.archive(id text, note text DEFAULT NULL, by text DEFAULT NULL) RETURNS tasktable.verb_outcome
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    task   record;
    former text;
    result tasktable.verb_outcome;
BEGIN
    result.id := archive.id;
    SELECT t.status, t.revision, t.archived_at INTO task FROM tasktable.scheduled_tasks AS t WHERE t.id = archive.id FOR UPDATE;
    IF NOT FOUND THEN
        result.outcome := 'absent';
        RETURN result;
    END IF;
    result.revision := task.revision;
    IF task.status NOT IN ('FAILED', 'EXPIRED') OR task.archived_at IS NOT NULL THEN
        result.outcome := 'unchanged';
        RETURN result;
    END IF;
    former := tasktable.enter_change('archive', archive.by, false);
    UPDATE tasktable.scheduled_tasks AS t SET archived_at = clock_timestamp(), archived_note = archive.note
    WHERE t.id = archive.id RETURNING t.revision INTO result.revision;
    former := tasktable.leave_change(former);
    result.outcome := 'archived';
    RETURN result;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.archive(text, text, text) IS 'Marks a dead letter as dealt with, with a note. Outcome: archived, unchanged or absent.';

-- +goose StatementBegin
CREATE FUNCTION tasktable.erase(entity text DEFAULT NULL, tenant_id text DEFAULT NULL)
RETURNS TABLE (tasks bigint, executions bigint, changes bigint, running bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    former text := coalesce(current_setting('tasktable_change.context', true), '');
    ids    text[];
    untils bigint[];
    held   text;
BEGIN
    IF num_nonnulls(erase.entity, erase.tenant_id) <> 1 THEN
        RAISE EXCEPTION 'erase needs one of entity and tenant_id' USING ERRCODE = 'check_violation', COLUMN = 'entity';
    END IF;
    ids := ARRAY(SELECT t.id::text FROM tasktable.scheduled_tasks AS t WHERE t.entity = erase.entity OR t.tenant_id = erase.tenant_id);
    running := 0;
    FOR held IN SELECT t.id::text FROM tasktable.scheduled_tasks AS t
        WHERE t.id = ANY (ids) AND t.fence IS NOT NULL ORDER BY t.id::text COLLATE "C" FOR UPDATE
    LOOP
        PERFORM tasktable.cancel(held, 'erase');
        running := running + 1;
        ids := array_remove(ids, held);
    END LOOP;
    PERFORM set_config('tasktable_change.context', 'retention', true);
    -- One that was claimed since is held now: it stays whole, to be erased when it has ended.
    WITH gone AS (DELETE FROM tasktable.scheduled_tasks AS t WHERE t.id = ANY (ids) AND t.fence IS NULL RETURNING 1)
    SELECT count(*) INTO tasks FROM gone;
    -- Also what happened to tasks that were deleted, or are another's by now, up to the change that ended it: its line has whose they were.
    SELECT array_agg(past.id), array_agg(past.until) INTO ids, untils
    FROM (
        SELECT one AS id, 9223372036854775807 AS until FROM unnest(ids) AS one
        WHERE NOT EXISTS (SELECT 1 FROM tasktable.scheduled_tasks AS t WHERE t.id = one)
        UNION ALL
        SELECT c.task_id, max(c.revision) FROM tasktable.scheduled_task_changes AS c
        WHERE (c.old ->> 'entity' = erase.entity OR c.old ->> 'tenant_id' = erase.tenant_id)
            AND NOT EXISTS (SELECT 1 FROM tasktable.scheduled_tasks AS t
                WHERE t.id = c.task_id AND (t.entity = erase.entity OR t.tenant_id = erase.tenant_id))
        GROUP BY c.task_id
    ) AS past;
    WITH gone AS (
        DELETE FROM tasktable.scheduled_task_executions AS e USING unnest(ids, untils) AS past (id, until)
        WHERE e.task_id = past.id AND e.fence < past.until RETURNING 1
    )
    SELECT count(*) INTO executions FROM gone;
    WITH gone AS (
        DELETE FROM tasktable.scheduled_task_changes AS c USING unnest(ids, untils) AS past (id, until)
        WHERE c.task_id = past.id AND c.revision <= past.until RETURNING 1
    )
    SELECT count(*) INTO changes FROM gone;
    former := tasktable.leave_change(former);
    RETURN NEXT;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION tasktable.erase(text, text) IS 'Removes all tasks of an entity or a tenant with their history, also that of tasks that were deleted or became another''s before. Running ones are cancelled and counted: erase again when they have ended.';

CREATE OR REPLACE VIEW tasktable.dead_letters AS
    SELECT t.id, t.type, t.queue, t.entity, t.tenant_id, t.status, t.attempt, t.message, t.scheduled_at, t.finished_at,
           t.archived_at, t.archived_note
    FROM tasktable.scheduled_tasks AS t
    WHERE t.status IN ('FAILED', 'EXPIRED');
COMMENT ON VIEW tasktable.dead_letters IS 'Tasks that will not run unless somebody retries or reschedules them, with the reason; archived_at: somebody has dealt with it.';

CREATE OR REPLACE VIEW tasktable.late_tasks AS
    SELECT t.id, t.type, t.queue, t.priority, t.next_attempt_at AS due_at, clock_timestamp() - t.next_attempt_at AS late_by, t.attempt, t.message,
           EXISTS (SELECT 1 FROM tasktable.nodes AS n WHERE n.dead_at IS NULL AND t.type = ANY (n.types) AND n.queues ? t.queue) AS has_node,
           EXISTS (SELECT 1 FROM tasktable.pauses AS p WHERE (p.ends_at IS NULL OR p.ends_at > clock_timestamp())
               AND (p.scope = 'all' OR p.scope = 'queue' AND p.name = t.queue OR p.scope = 'type' AND p.name = t.type)) AS is_paused
    FROM tasktable.scheduled_tasks AS t
    WHERE t.next_attempt_at < clock_timestamp();
COMMENT ON VIEW tasktable.late_tasks IS 'Tasks that are due and not claimed yet; has_node false: no live node works both its queue and its type; is_paused: everything, its queue or its type is paused.';

-- +goose Down
DROP VIEW tasktable.late_tasks;
DROP VIEW tasktable.dead_letters;
DROP FUNCTION tasktable.erase(text, text);
DROP FUNCTION tasktable.archive(text, text, text);
DROP FUNCTION tasktable.resume_scope(text, text, text);
DROP FUNCTION tasktable.pause_scope(text, text, timestamptz, text, text);
DROP TABLE tasktable.pauses;
CREATE VIEW tasktable.late_tasks AS
    SELECT t.id, t.type, t.queue, t.priority, t.next_attempt_at AS due_at, clock_timestamp() - t.next_attempt_at AS late_by, t.attempt, t.message,
           EXISTS (SELECT 1 FROM tasktable.nodes AS n WHERE n.dead_at IS NULL AND t.type = ANY (n.types) AND n.queues ? t.queue) AS has_node
    FROM tasktable.scheduled_tasks AS t
    WHERE t.next_attempt_at < clock_timestamp();
COMMENT ON VIEW tasktable.late_tasks IS 'Tasks that are due and not claimed yet; has_node false: no live node works both its queue and its type.';
CREATE VIEW tasktable.dead_letters AS
    SELECT t.id, t.type, t.queue, t.entity, t.tenant_id, t.status, t.attempt, t.message, t.scheduled_at, t.finished_at
    FROM tasktable.scheduled_tasks AS t
    WHERE t.status IN ('FAILED', 'EXPIRED');
COMMENT ON VIEW tasktable.dead_letters IS 'Tasks that will not run unless somebody retries or reschedules them, with the reason.';
