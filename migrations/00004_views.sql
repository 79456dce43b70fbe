-- Views for audit. They read the tables as they are; nothing in the engine reads them.

-- +goose Up
CREATE VIEW tasktable.task_timeline AS
    SELECT c.task_id, c.changed_at AS at, 'change' AS kind, c.verb AS event, c.outcome, c.changed_by AS by,
           c.revision, NULL::bigint AS fence, NULL::integer AS attempt, NULL::interval AS delay, NULL::interval AS took,
           nullif(concat_ws(' -> ', c.old::text, c.new::text), '') AS detail
    FROM tasktable.scheduled_task_changes AS c
    UNION ALL
    SELECT e.task_id, e.finished_at, 'execution', 'attempt', e.outcome, coalesce('node ' || e.node, 'leader'),
           e.revision, e.fence, e.attempt, e.started_at - e.due_at, e.finished_at - e.started_at, e.error
    FROM tasktable.scheduled_task_executions AS e;
COMMENT ON VIEW tasktable.task_timeline IS 'Everything that happened to a task, edits and attempts: filter by task_id, order by at.';

CREATE VIEW tasktable.late_tasks AS
    SELECT t.id, t.type, t.queue, t.priority, t.next_attempt_at AS due_at, clock_timestamp() - t.next_attempt_at AS late_by, t.attempt, t.message,
           EXISTS (SELECT 1 FROM tasktable.nodes AS n WHERE n.dead_at IS NULL AND t.type = ANY (n.types) AND n.queues ? t.queue) AS has_node
    FROM tasktable.scheduled_tasks AS t
    WHERE t.next_attempt_at < clock_timestamp();
COMMENT ON VIEW tasktable.late_tasks IS 'Tasks that are due and not claimed yet; has_node false: no live node works both its queue and its type.';

CREATE VIEW tasktable.running_tasks AS
    SELECT t.id, t.type, t.queue, t.status, t.attempt, t.fence, t.last_status_update AS claimed_at, t.lease_expires_at,
           t.lease_expires_at < clock_timestamp() AS stuck,
           CASE WHEN t.started_fence = t.fence THEN t.started_at END AS started_at, CASE WHEN t.started_fence = t.fence THEN t.node END AS node
    FROM tasktable.scheduled_tasks AS t
    WHERE t.lease_expires_at IS NOT NULL;
COMMENT ON VIEW tasktable.running_tasks IS 'Claimed tasks; stuck: the lease has ended and nobody has taken the task back yet.';

CREATE VIEW tasktable.dead_letters AS
    SELECT t.id, t.type, t.queue, t.entity, t.tenant_id, t.status, t.attempt, t.message, t.scheduled_at, t.finished_at
    FROM tasktable.scheduled_tasks AS t
    WHERE t.status IN ('FAILED', 'EXPIRED');
COMMENT ON VIEW tasktable.dead_letters IS 'Tasks that will not run unless somebody retries or reschedules them, with the reason.';

-- +goose Down
DROP VIEW tasktable.dead_letters;
DROP VIEW tasktable.running_tasks;
DROP VIEW tasktable.late_tasks;
DROP VIEW tasktable.task_timeline;
