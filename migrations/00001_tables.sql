-- The tables: the tasks, two append-only tables of their history, the nodes, the pauses and the services of roles.
--
-- The files are written for the schema tasktable. The Go package replaces "tasktable." by the name of another schema.
--
-- Rules about one column are domains, and rules about several columns are in the triggers. A CHECK of the table would
-- be slower, for two reasons. Postgres evaluates it at each update of the row, and the engine updates each task twice.
-- Postgres also parses each CHECK again for each statement. Therefore the only CHECKs are about the engine's own
-- columns. The name of a constraint is its rule, so that the error message of Postgres says which rule a value breaks.

-- +goose Up
-- +goose StatementBegin
CREATE SEQUENCE tasktable.task_numbers AS bigint;
COMMENT ON SEQUENCE tasktable.task_numbers IS 'Revisions and fences of all tasks. No number is ever used twice, not '
    'even after a task was deleted and created again.';

CREATE DOMAIN tasktable.task_id AS text COLLATE "C"
    CONSTRAINT "id must be 1 to 512 bytes without control characters"
        CHECK (octet_length(VALUE) BETWEEN 1 AND 512 AND VALUE !~ '[\u0001-\u001f\u007f-\u009f]');
COMMENT ON DOMAIN tasktable.task_id IS 'Id of a task: 1 to 512 bytes, no control characters.';
CREATE DOMAIN tasktable.task_type AS text COLLATE "C"
    CONSTRAINT "type must be 2 to 127 letters, digits or _-[]<>/.·:+"
        CHECK (char_length(VALUE) <= 127 AND VALUE ~ '^[A-Za-z0-9_][A-Za-z0-9_\-\[\]<>/.·:+]+$');
COMMENT ON DOMAIN tasktable.task_type IS 'Name of a variant of the payload union. It is also the kind of a River job.';
CREATE DOMAIN tasktable.task_payload AS jsonb
    CONSTRAINT "payload must be a JSON object" CHECK (jsonb_typeof(VALUE) = 'object')
    CONSTRAINT "payload must have a field type that is a string"
        CHECK (jsonb_typeof(VALUE) <> 'object' OR coalesce(jsonb_typeof(VALUE -> 'type') = 'string', false))
    CONSTRAINT "payload must be at most 256 KiB of JSON text" CHECK (octet_length(VALUE::text) <= 262144);
COMMENT ON DOMAIN tasktable.task_payload IS 'Payload of a task: an object with a string field "type", at most 256 KiB.';
-- Each column has its own domain, so that the error message of Postgres names the column.
CREATE DOMAIN tasktable.task_entity AS text COLLATE "C"
    CONSTRAINT "entity must be 1 to 512 bytes without control characters"
        CHECK (octet_length(VALUE) BETWEEN 1 AND 512 AND VALUE !~ '[\u0001-\u001f\u007f-\u009f]');
COMMENT ON DOMAIN tasktable.task_entity IS 'Subject of a task: 1 to 512 bytes, no control characters.';
CREATE DOMAIN tasktable.task_tenant_id AS text COLLATE "C"
    CONSTRAINT "tenant_id must be 1 to 512 bytes without control characters"
        CHECK (octet_length(VALUE) BETWEEN 1 AND 512 AND VALUE !~ '[\u0001-\u001f\u007f-\u009f]');
COMMENT ON DOMAIN tasktable.task_tenant_id IS 'Tenant of a task: 1 to 512 bytes, no control characters.';
CREATE DOMAIN tasktable.task_group_key AS text COLLATE "C"
    CONSTRAINT "group_key must be 1 to 512 bytes without control characters"
        CHECK (octet_length(VALUE) BETWEEN 1 AND 512 AND VALUE !~ '[\u0001-\u001f\u007f-\u009f]');
COMMENT ON DOMAIN tasktable.task_group_key IS 'Group of a task: 1 to 512 bytes, no control characters.';
CREATE DOMAIN tasktable.task_author AS text
    CONSTRAINT "scheduled_by must be 1 to 512 bytes without control characters"
        CHECK (octet_length(VALUE) BETWEEN 1 AND 512 AND VALUE !~ '[\u0001-\u001f\u007f-\u009f]');
COMMENT ON DOMAIN tasktable.task_author IS 'Service that scheduled a task: 1 to 512 bytes, no control characters.';
CREATE DOMAIN tasktable.task_queue AS text COLLATE "C"
    CONSTRAINT "queue must be 1 to 64 of a-z, 0-9, inner - or _"
        CHECK (char_length(VALUE) <= 64 AND VALUE ~ '^[a-z0-9]+([_-][a-z0-9]+)*$');
COMMENT ON DOMAIN tasktable.task_queue IS 'Name of a queue, in the syntax of a River queue.';
CREATE DOMAIN tasktable.task_status AS text
    CONSTRAINT "status must be one of the eight words"
        CHECK (VALUE IN ('QUEUED', 'EXECUTING', 'COMPLETED', 'FAILED', 'EXPIRED', 'CANCELLED', 'PAUSED', 'SKIPPED'));
COMMENT ON DOMAIN tasktable.task_status IS 'Status of a task: one of eight words.';
CREATE DOMAIN tasktable.task_priority AS integer
    CONSTRAINT "priority must be between -100 and 100" CHECK (VALUE BETWEEN -100 AND 100);
COMMENT ON DOMAIN tasktable.task_priority IS 'Priority of a task, -100 to 100. The higher runs first.';
CREATE DOMAIN tasktable.task_time AS timestamptz
    CONSTRAINT "scheduled_at, run_now_at must be finite, in the years 1 to 9999"
        CHECK (VALUE >= '0001-01-01 00:00:00+00' AND VALUE < '10000-01-01 00:00:00+00');
COMMENT ON DOMAIN tasktable.task_time IS 'A time that every client language can hold: finite, years 1 to 9999.';
CREATE DOMAIN tasktable.task_limit_time AS timestamptz
    CONSTRAINT "ends_at, paused_until must be finite, in the years 1 to 9999"
        CHECK (VALUE >= '0001-01-01 00:00:00+00' AND VALUE < '10000-01-01 00:00:00+00');
COMMENT ON DOMAIN tasktable.task_limit_time IS 'A time at which something ends: finite, years 1 to 9999.';
CREATE DOMAIN tasktable.task_instant AS timestamptz
    CONSTRAINT "next_attempt_at and lease_expires_at must be finite" CHECK (isfinite(VALUE));
COMMENT ON DOMAIN tasktable.task_instant IS 'A finite time.';
-- A month has no fixed length, so intervals with months are refused. The triggers store a day as 24 hours, because '1
-- day' and '24 hours' are equal, but differ by an hour when the clocks change.
CREATE DOMAIN tasktable.task_expiration AS interval
    CONSTRAINT "expiration must be over 0 and at most 10 years"
        CHECK (VALUE > interval '0' AND VALUE <= interval '87660 hours')
    CONSTRAINT "expiration must be in days or less: '30 days', not '1 month'"
        CHECK (extract(year FROM VALUE) = 0 AND extract(month FROM VALUE) = 0);
COMMENT ON DOMAIN tasktable.task_expiration IS 'Over 0, at most 10 years (87660 hours), no months. A day is 24 hours.';
CREATE DOMAIN tasktable.task_execution_time AS interval
    CONSTRAINT "expected_execution_time must be over 0 and at most 168 hours"
        CHECK (VALUE > interval '0' AND VALUE <= interval '168 hours')
    CONSTRAINT "expected_execution_time must be in days or less, not months"
        CHECK (extract(year FROM VALUE) = 0 AND extract(month FROM VALUE) = 0);
COMMENT ON DOMAIN tasktable.task_execution_time IS 'Over 0, at most 7 days (168 hours), no months. A day is 24 hours.';
CREATE DOMAIN tasktable.task_jitter AS interval
    CONSTRAINT "jitter must be over 0 and at most 24 hours, without months"
        CHECK (VALUE > interval '0' AND VALUE <= interval '24 hours'
            AND extract(year FROM VALUE) = 0 AND extract(month FROM VALUE) = 0);
COMMENT ON DOMAIN tasktable.task_jitter IS 'Over 0, at most 24 hours, no months.';
CREATE DOMAIN tasktable.task_retention AS interval
    CONSTRAINT "retention must be over 0 and at most 100 years, in days or less"
        CHECK (VALUE > interval '0' AND VALUE <= interval '876600 hours'
            AND extract(year FROM VALUE) = 0 AND extract(month FROM VALUE) = 0);
COMMENT ON DOMAIN tasktable.task_retention IS 'Over 0, at most 100 years (876600 hours), no months. A day is 24 hours.';
CREATE DOMAIN tasktable.task_max_attempts AS integer
    CONSTRAINT "max_attempts must be between 1 and 1000" CHECK (VALUE BETWEEN 1 AND 1000);
COMMENT ON DOMAIN tasktable.task_max_attempts IS 'Number of attempts, 1 to 1000.';
CREATE DOMAIN tasktable.task_backoff AS text COLLATE "C"
    CONSTRAINT "backoff must be a wait such as 1m, or 10s x3 max 1h jitter 25%"
        CHECK (VALUE ~ '^[1-9][0-9]{0,3}[smh]( x([1-9]|10)([.][0-9]{1,2})?)?( max [1-9][0-9]{0,3}[smh])?'
            '( jitter ([1-9]?[0-9]|100)%)?$');
COMMENT ON DOMAIN tasktable.task_backoff IS 'The wait before a retry: the first wait, the factor of each next one, the '
    'longest, and the greatest random part that is added, of which only the first must be given.';
CREATE DOMAIN tasktable.task_timeout AS interval
    CONSTRAINT "timeout must be over 0 and at most 168 hours, without months"
        CHECK (VALUE > interval '0' AND VALUE <= interval '168 hours'
            AND extract(year FROM VALUE) = 0 AND extract(month FROM VALUE) = 0);
COMMENT ON DOMAIN tasktable.task_timeout IS 'Over 0, at most 7 days (168 hours), no months. A day is 24 hours.';
CREATE DOMAIN tasktable.task_deadline AS timestamptz
    CONSTRAINT "deadline must be finite, in the years 1 to 9999"
        CHECK (VALUE >= '0001-01-01 00:00:00+00' AND VALUE < '10000-01-01 00:00:00+00');
COMMENT ON DOMAIN tasktable.task_deadline IS 'A time after which nothing of a task runs: finite, years 1 to 9999.';
CREATE DOMAIN tasktable.task_attempt AS integer CONSTRAINT "attempt must not be negative" CHECK (VALUE >= 0);
COMMENT ON DOMAIN tasktable.task_attempt IS 'How many attempts have begun.';
CREATE DOMAIN tasktable.task_cron AS text
    CONSTRAINT "cron must be 1 to 256 printable ASCII characters"
        CHECK (char_length(VALUE) <= 256 AND VALUE ~ '^[ -~]+$');
COMMENT ON DOMAIN tasktable.task_cron IS 'A cron expression of 5 or 6 fields, a descriptor such as @daily, or @every '
    'and a duration. Options may follow: every=2 from=2027-01-05, out-of= and keep-to= with names of calendars, and '
    'move=skip, next or previous. A trigger refuses an expression that cannot be parsed. The leader fails a task that '
    'can never fire.';
CREATE DOMAIN tasktable.task_time_zone AS text
    CONSTRAINT "time_zone must be an IANA name of 1 to 64 characters" CHECK (VALUE ~ '^[A-Za-z0-9_+/-]{1,64}$');
COMMENT ON DOMAIN tasktable.task_time_zone IS 'Name of an IANA time zone.';
CREATE DOMAIN tasktable.task_overlap AS text
    CONSTRAINT "overlap must be skip, allow or cancel_running" CHECK (VALUE IN ('skip', 'allow', 'cancel_running'));
COMMENT ON DOMAIN tasktable.task_overlap IS 'Policy for a fire while an earlier occurrence has not ended.';
CREATE DOMAIN tasktable.task_catch_up AS text
    CONSTRAINT "catch_up must be latest, all or none" CHECK (VALUE IN ('latest', 'all', 'none'));
COMMENT ON DOMAIN tasktable.task_catch_up IS 'Policy for missed fires.';
CREATE DOMAIN tasktable.task_catch_up_limit AS integer
    CONSTRAINT "catch_up_limit must be between 1 and 10000" CHECK (VALUE BETWEEN 1 AND 10000);
COMMENT ON DOMAIN tasktable.task_catch_up_limit IS 'Number of missed fires, 1 to 10000.';
CREATE DOMAIN tasktable.task_max_occurrences AS integer
    CONSTRAINT "max_occurrences must be between 1 and 1000000" CHECK (VALUE BETWEEN 1 AND 1000000);
COMMENT ON DOMAIN tasktable.task_max_occurrences IS 'Number of occurrences, 1 to 1000000.';
-- Version 00 of W3C Trace Context. It does not allow ids of zeros only.
CREATE DOMAIN tasktable.task_trace AS text
    CONSTRAINT "trace must be a W3C traceparent, at most 512 bytes in all"
        CHECK (octet_length(VALUE) <= 512
            AND VALUE ~ '^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-0[0-3]( [ -~]+)?$');
COMMENT ON DOMAIN tasktable.task_trace IS 'A traceparent of W3C Trace Context, version 00, and optionally a space and '
    'the tracestate. At most 512 bytes.';
-- What the tasks may be is checked by if_dead_of.
CREATE DOMAIN tasktable.task_if_dead AS jsonb
    CONSTRAINT "if_dead must be an array of at most 10 tasks" CHECK (CASE jsonb_typeof(VALUE)
        WHEN 'array' THEN jsonb_array_length(VALUE) BETWEEN 1 AND 10 ELSE VALUE IS NULL END)
    CONSTRAINT "if_dead must be at most 256 KiB of JSON text" CHECK (octet_length(VALUE::text) <= 262144);
COMMENT ON DOMAIN tasktable.task_if_dead IS 'Tasks for the case that a task dies: 1 to 10, at most 256 KiB in all.';

CREATE TABLE tasktable.scheduled_tasks (
    -- The order of the columns makes updates cheap. Postgres reads the columns of indexes, rules and triggers at each
    -- update, and to find a column it steps over those before it. So these columns come first. The write-ahead log does
    -- not repeat the columns before the first changed one, nor those behind the last. So the columns that claim and
    -- settle change lie together. The payload comes before the type, so that an error about both names the payload.
    id                      tasktable.task_id             PRIMARY KEY,
    payload                 tasktable.task_payload        NOT NULL,
    type                    tasktable.task_type           NOT NULL,
    queue                   tasktable.task_queue          NOT NULL DEFAULT 'default',
    priority                tasktable.task_priority       NOT NULL DEFAULT 0,
    scheduled_at            tasktable.task_time           NOT NULL DEFAULT clock_timestamp(),
    created_at              timestamptz                   NOT NULL DEFAULT clock_timestamp(),
    revision                bigint                        NOT NULL,
    asked_revision          bigint                        NOT NULL DEFAULT 0, -- the trigger sets it at each insert
    entity                  tasktable.task_entity,
    tenant_id               tasktable.task_tenant_id,
    group_key               tasktable.task_group_key,
    limit_key               text COLLATE "C"              NOT NULL DEFAULT '',
    cron                    tasktable.task_cron,
    parent_id               tasktable.task_id,
    spawned_by              tasktable.task_id,
    if_dead                 tasktable.task_if_dead,
    paused_until            tasktable.task_limit_time,
    archived_at             timestamptz,
    -- Its state.
    status                  tasktable.task_status         NOT NULL DEFAULT 'QUEUED',
    attempt                 tasktable.task_attempt        NOT NULL DEFAULT 0,
    goes_first              boolean,
    next_attempt_at         tasktable.task_instant,
    fence                   bigint,
    lease_expires_at        tasktable.task_instant,
    finished_at             timestamptz,
    last_status_update      timestamptz                   NOT NULL DEFAULT clock_timestamp(),
    started_at              timestamptz,
    started_fence           bigint,
    node                    bigint,
    archived_note           text,
    message                 text,
    result                  jsonb,
    due_at                  timestamptz,
    waiting_since           timestamptz,
    waits                   integer,
    -- How it is to run.
    run_now_at              tasktable.task_time,
    again_at                timestamptz,
    expiration              tasktable.task_expiration,
    jitter                  tasktable.task_jitter,
    expected_execution_time tasktable.task_execution_time NOT NULL DEFAULT interval '5 minutes',
    retention               tasktable.task_retention,
    max_attempts            tasktable.task_max_attempts   NOT NULL DEFAULT 10,
    backoff                 tasktable.task_backoff,
    timeout                 tasktable.task_timeout,
    deadline                tasktable.task_deadline,
    -- Its recurrence.
    time_zone               tasktable.task_time_zone,
    overlap                 tasktable.task_overlap,
    catch_up                tasktable.task_catch_up,
    catch_up_paused         tasktable.task_catch_up,
    catch_up_limit          tasktable.task_catch_up_limit,
    ends_at                 tasktable.task_limit_time,
    max_occurrences         tasktable.task_max_occurrences,
    occurrence_count        integer                       NOT NULL DEFAULT 0,
    planned_revision        bigint,
    planned_wall            timestamp,
    planned_zone_data       text,
    planned_day             date,
    open_occurrences_from   timestamptz,
    -- Its origin.
    scheduled_by            tasktable.task_author,
    declared_by             text,
    trace                   tasktable.task_trace,
    rearmed_at              timestamptz,
    CONSTRAINT "next_attempt_at is set exactly when QUEUED and not held"
        CHECK ((next_attempt_at IS NOT NULL) = (status = 'QUEUED' AND fence IS NULL)),
    CONSTRAINT "fence and lease_expires_at are set together" CHECK ((fence IS NULL) = (lease_expires_at IS NULL)),
    CONSTRAINT "an EXECUTING task holds a fence" CHECK (status <> 'EXECUTING' OR fence IS NOT NULL),
    CONSTRAINT "finished_at is set exactly when the status is final"
        CHECK ((finished_at IS NULL) = (status IN ('QUEUED', 'EXECUTING', 'PAUSED')))
) WITH (
    -- Half of each page stays free, so that the claim writes the new version of a row to the same page. The settle then
    -- reuses the room of the first version. With a fillfactor of 70 the table became larger, not smaller.
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.05
);
COMMENT ON TABLE tasktable.scheduled_tasks IS 'Work that must happen at a later time, one row a task. You may insert, '
    'edit and delete rows by plain SQL, because triggers check and record each change.';

-- A recurring task is not claimed. It has an index of its own, so that the claim does not have to step over it.
-- The last column lets the leader go through the tasks of one time in parts.
CREATE INDEX scheduled_tasks_claimable ON tasktable.scheduled_tasks
    (queue, type, priority, next_attempt_at, limit_key)
    WHERE next_attempt_at IS NOT NULL AND cron IS NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_claimable IS 'Tasks that can be claimed, by lane and time. Only waiting '
    'tasks.';
CREATE INDEX scheduled_tasks_keyed ON tasktable.scheduled_tasks (queue, type, priority, limit_key, next_attempt_at)
    WHERE next_attempt_at IS NOT NULL AND cron IS NULL AND limit_key <> '';
COMMENT ON INDEX tasktable.scheduled_tasks_keyed IS 'Tasks that can be claimed and have a limit per group or per '
    'tenant, by lane, group or tenant, and time.';
-- Only the claim of a limit in order makes a task go first, so no other task is in it.
CREATE INDEX scheduled_tasks_goes_first ON tasktable.scheduled_tasks (limit_key, scheduled_at, id)
    WHERE goes_first AND next_attempt_at IS NOT NULL AND cron IS NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_goes_first IS 'Tasks that were claimed, wait again, and hold up the other '
    'tasks of their group or tenant.';
CREATE INDEX scheduled_tasks_recurring ON tasktable.scheduled_tasks (queue, type, next_attempt_at)
    WHERE next_attempt_at IS NOT NULL AND cron IS NOT NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_recurring IS 'Recurring tasks by their next fire.';
CREATE INDEX scheduled_tasks_lease_expires_at ON tasktable.scheduled_tasks (lease_expires_at)
    WHERE lease_expires_at IS NOT NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_lease_expires_at IS 'Claims by the end of their lease. Views and the doctor '
    'find running and stuck tasks by it. The leader finds claims that nobody holds by it.';
-- The condition keeps the leader, which looks only at tasks with a next fire, away from it.
CREATE INDEX scheduled_tasks_resting ON tasktable.scheduled_tasks (id)
    WHERE cron IS NOT NULL AND next_attempt_at IS NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_resting IS 'Recurring tasks that are paused or have ended.';
-- The indexes below are for lists. A list walks an index in its own order, so that it reads little more than its page.
-- A row is in the index of waiting tasks, or in that of ended ones. Otherwise a list of waiting tasks would step over
-- all that have ended. These indexes do not have the id, so that their entries are small, and equal ones are stored
-- once. They take no HOT updates away: the claim changes next_attempt_at and both claim and settle change
-- lease_expires_at, so no update of the engine is HOT. Each of them costs claim and settle 1 to 2 %.
CREATE INDEX scheduled_tasks_waiting ON tasktable.scheduled_tasks (scheduled_at)
    WHERE finished_at IS NULL AND lease_expires_at IS NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_waiting IS 'Tasks that wait and are not claimed, by the time that was asked '
    'for.';
CREATE INDEX scheduled_tasks_ended ON tasktable.scheduled_tasks (scheduled_at) WHERE finished_at IS NOT NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_ended IS 'Tasks that have ended, by the time that was asked for.';
CREATE INDEX scheduled_tasks_finished ON tasktable.scheduled_tasks (finished_at) WHERE finished_at IS NOT NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_finished IS 'Tasks that have ended, by the time of their end.';
-- A task that runs as planned is never in it. The included columns are those of the usual filters, so that Postgres
-- reads rows only for the page. To read the rows of 25,000 dead letters takes 70 ms, and their index entries 6 ms.
CREATE INDEX scheduled_tasks_rare ON tasktable.scheduled_tasks (status, finished_at, id)
    INCLUDE (scheduled_at, archived_at, type, queue, tenant_id)
    WHERE status NOT IN ('QUEUED', 'EXECUTING', 'COMPLETED');
COMMENT ON INDEX tasktable.scheduled_tasks_rare IS 'Dead letters and the tasks of other rare statuses, by the time of '
    'their end.';
CREATE INDEX scheduled_tasks_put_off ON tasktable.scheduled_tasks (waiting_since)
    WHERE waiting_since IS NOT NULL AND next_attempt_at IS NOT NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_put_off IS 'Tasks that wait for something that is out of order, by the time '
    'at which they were due.';
CREATE INDEX scheduled_tasks_paused_until ON tasktable.scheduled_tasks (paused_until) WHERE paused_until IS NOT NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_paused_until IS 'Paused tasks that the leader resumes at a time.';
CREATE INDEX scheduled_tasks_entity ON tasktable.scheduled_tasks (entity) WHERE entity IS NOT NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_entity IS 'All tasks of an entity, for sync and for audit.';
-- Without a tenant a task is not in it. No verb or statement of the engine writes these columns but an edit of the
-- time, so that claim and settle stay HOT.
CREATE INDEX scheduled_tasks_tenant ON tasktable.scheduled_tasks (tenant_id, scheduled_at, id)
    WHERE tenant_id IS NOT NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_tenant IS 'The tasks of a tenant, in the order of their lists.';
CREATE INDEX scheduled_tasks_group_key ON tasktable.scheduled_tasks (group_key) WHERE group_key IS NOT NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_group_key IS 'All tasks of a group.';
CREATE INDEX scheduled_tasks_parent ON tasktable.scheduled_tasks (parent_id, scheduled_at) WHERE parent_id IS NOT NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_parent IS 'The occurrences of a recurring task, by time.';
-- It has few rows, because the leader mostly forks a fire within a second. No claim or settle writes these columns, so
-- that they stay HOT.
CREATE INDEX scheduled_tasks_made_late ON tasktable.scheduled_tasks (created_at)
    WHERE parent_id IS NOT NULL AND created_at - scheduled_at > interval '1 second';
COMMENT ON INDEX tasktable.scheduled_tasks_made_late IS 'Occurrences that were made more than a second after their '
    'fire. The watch of notices finds missed fires by it.';
CREATE INDEX scheduled_tasks_spawned_by ON tasktable.scheduled_tasks (spawned_by) WHERE spawned_by IS NOT NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_spawned_by IS 'The follow-ups of a task.';

-- A loose index scan. From the head of each lane it jumps to the head of the next, so that it reads one index entry a
-- lane. A type that is null, which only an insert without triggers can bring, would end the scan.
CREATE VIEW tasktable.lanes AS
    WITH RECURSIVE lane AS (
        (SELECT t.queue::text AS queue, t.type::text AS type, t.priority::int AS priority,
            t.next_attempt_at::timestamptz AS next_attempt_at
        FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL AND t.type IS NOT NULL
        ORDER BY t.queue, t.type, t.priority, t.next_attempt_at LIMIT 1)
        UNION ALL
        SELECT next.queue, next.type, next.priority, next.next_attempt_at
        FROM lane CROSS JOIN LATERAL (
            SELECT t.queue::text AS queue, t.type::text AS type, t.priority::int AS priority,
                t.next_attempt_at::timestamptz AS next_attempt_at
            FROM tasktable.scheduled_tasks AS t
            WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL AND t.type IS NOT NULL
                AND (t.queue, t.type, t.priority) > (lane.queue, lane.type, lane.priority)
            ORDER BY t.queue, t.type, t.priority, t.next_attempt_at LIMIT 1
        ) AS next
    )
    SELECT lane.queue, lane.type, lane.priority, lane.next_attempt_at FROM lane;
COMMENT ON VIEW tasktable.lanes IS 'The queues, types and priorities of waiting tasks, with their earliest due time.';

CREATE TABLE tasktable.scheduled_task_executions (
    fence        bigint      PRIMARY KEY,
    task_id      text COLLATE "C"        NOT NULL,
    type         text        NOT NULL,
    revision     bigint      NOT NULL,
    attempt      integer     NOT NULL,
    scheduled_at timestamptz NOT NULL,
    due_at       timestamptz,
    started_at   timestamptz,
    finished_at  timestamptz NOT NULL,
    outcome      text        NOT NULL,
    error        text,
    node         bigint,
    tx           bigint      NOT NULL DEFAULT txid_current(),
    CONSTRAINT "outcome must be one of the ten words" CHECK (outcome IN ('COMPLETED', 'FAILED', 'RETRIED', 'SNOOZED',
        'LOST', 'SUPERSEDED', 'EXPIRED', 'INTERRUPTED', 'RELEASED', 'CANCELLED'))
);
COMMENT ON TABLE tasktable.scheduled_task_executions IS 'The outcome of each claim, one row a claim, written when the '
    'claim ends. Append-only: triggers refuse updates, and deletes except by retention.';
CREATE INDEX scheduled_task_executions_task ON tasktable.scheduled_task_executions (task_id, fence);
COMMENT ON INDEX tasktable.scheduled_task_executions_task IS 'The executions of one task.';
-- A BRIN index stays a few pages large, and costs a settle next to nothing. It works because rows of one time lie
-- together.
CREATE INDEX scheduled_task_executions_time ON tasktable.scheduled_task_executions
    USING brin (finished_at, date_bin('1 hour', finished_at, '2000-01-01 00:00:00+00'), tx)
    WITH (autosummarize = on);
COMMENT ON INDEX tasktable.scheduled_task_executions_time IS 'The executions of a time, of an hour as in the '
    'views, and of a transaction. It finds the events that a stream has not read.';

CREATE TABLE tasktable.scheduled_task_changes (
    revision   bigint      PRIMARY KEY,
    task_id    text COLLATE "C"        NOT NULL,
    verb       text        NOT NULL,
    outcome    text        NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_by text        NOT NULL,
    tx         bigint      NOT NULL DEFAULT txid_current(),
    old        jsonb,
    new        jsonb
);
COMMENT ON TABLE tasktable.scheduled_task_changes IS 'Each change and delete of a task, one row each, by verbs and by '
    'plain SQL. Append-only: triggers refuse updates, and deletes except by retention.';
CREATE INDEX scheduled_task_changes_task ON tasktable.scheduled_task_changes (task_id, revision);
COMMENT ON INDEX tasktable.scheduled_task_changes_task IS 'The changes of one task.';
-- A B-tree would write 87 bytes more of WAL for each change.
CREATE INDEX scheduled_task_changes_tx ON tasktable.scheduled_task_changes USING brin (tx) WITH (autosummarize = on);
COMMENT ON INDEX tasktable.scheduled_task_changes_tx IS 'The changes of a transaction. It finds the events that a '
    'stream has not read.';

CREATE TABLE tasktable.nodes (
    number            bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    service           text        NOT NULL,
    version           text        NOT NULL,
    host              text        NOT NULL,
    queues            jsonb       NOT NULL,
    types             text[]      NOT NULL,
    shares_slots      boolean     NOT NULL DEFAULT false,
    type_slots        jsonb       NOT NULL DEFAULT '{}',
    strict_queues     text[]      NOT NULL DEFAULT '{}',
    may_lead          boolean     NOT NULL DEFAULT true,
    transactional     text[]      NOT NULL DEFAULT '{}',
    places            integer     NOT NULL DEFAULT 0,
    averages          jsonb       NOT NULL DEFAULT '{}',
    hung              jsonb       NOT NULL DEFAULT '{}',
    defaults          jsonb,
    declaration_hash  text,
    receives_failures boolean     NOT NULL DEFAULT false,
    retention_refused text,
    started_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    elected_at        timestamptz,
    marks             jsonb,
    timeline          text,
    last_seen_at      timestamptz,
    dead_at           timestamptz
);
COMMENT ON TABLE tasktable.nodes IS 'One row for each running engine, and for each that ever ran. A live node holds an '
    'advisory lock on its number.';
CREATE INDEX nodes_live ON tasktable.nodes (number) WHERE dead_at IS NULL;
COMMENT ON INDEX tasktable.nodes_live IS 'The nodes that are not known to be dead.';
CREATE INDEX nodes_elected ON tasktable.nodes (elected_at);
COMMENT ON INDEX tasktable.nodes_elected IS 'Which node was elected last. The leader asks at each commit.';

-- A transaction of a leader ends with this function and its commit, in one message. A lock of advisory locks is taken
-- instead of a row's, because the lock of a row would be written to the WAL.
CREATE FUNCTION tasktable.must_lead(lock_class integer, term timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF pg_current_xact_id_if_assigned() IS NULL THEN
        RETURN; -- it has written nothing
    END IF;
    -- A new leader takes this lock alone before it writes its term, so it waits until the commit is done.
    PERFORM pg_advisory_xact_lock_shared(lock_class, 1);
    IF term IS DISTINCT FROM (SELECT max(n.elected_at) FROM tasktable.nodes AS n) THEN
        RAISE EXCEPTION 'the node does not lead any more: another term has begun'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
END $$;
COMMENT ON FUNCTION tasktable.must_lead IS 'Refuses the commit of a leader that was replaced. The term is the '
    'elected_at with which it began.';

CREATE TABLE tasktable.pauses (
    number      bigint      PRIMARY KEY DEFAULT nextval('tasktable.task_numbers'),
    scope       text        NOT NULL
        CONSTRAINT "scope must be all, queue or type" CHECK (scope IN ('all', 'queue', 'type')),
    name        text        NOT NULL DEFAULT '',
    paused_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    paused_by   text        NOT NULL DEFAULT session_user,
    ends_at     tasktable.task_limit_time,
    resumed_by  text,
    reason      text,
    planned_end tasktable.task_limit_time,
    CONSTRAINT "name must be a queue or a type, and empty for all" CHECK (CASE scope WHEN 'all' THEN name = ''
        WHEN 'queue' THEN name::tasktable.task_queue IS NOT NULL
        WHEN 'type' THEN name::tasktable.task_type IS NOT NULL END)
);
COMMENT ON TABLE tasktable.pauses IS 'Pauses of everything, of a queue or of a type, one row a pause, also after its '
    'end. While a pause holds, none of its tasks is claimed or started. Handlers that run are not stopped.';
CREATE INDEX pauses_ends_at ON tasktable.pauses (ends_at);
COMMENT ON INDEX tasktable.pauses_ends_at IS 'The pauses that hold, and those of a time.';

CREATE TABLE tasktable.limits (
    name          text COLLATE "C" PRIMARY KEY
        CONSTRAINT "name must be 1 to 64 of a-z, 0-9, inner - or _"
            CHECK (char_length(name) <= 64 AND name ~ '^[a-z0-9]+([_-][a-z0-9]+)*$'),
    scope         text        NOT NULL
        CONSTRAINT "scope must be all, queue or type" CHECK (scope IN ('all', 'queue', 'type')),
    scope_name    text        NOT NULL DEFAULT '',
    per           text
        CONSTRAINT "per must be group or tenant" CHECK (per IN ('group', 'tenant')),
    in_order      boolean     NOT NULL DEFAULT false,
    max_running   integer
        CONSTRAINT "max_running must be between 1 and 1000000" CHECK (max_running BETWEEN 1 AND 1000000),
    rate          integer
        CONSTRAINT "rate must be between 1 and 1000000" CHECK (rate BETWEEN 1 AND 1000000),
    rate_interval interval
        CONSTRAINT "rate_interval must be between 1 second and 24 hours, without months"
            CHECK (rate_interval BETWEEN interval '1 second' AND interval '24 hours'
                AND extract(year FROM rate_interval) = 0 AND extract(month FROM rate_interval) = 0),
    burst         integer
        CONSTRAINT "burst must be between 1 and 1000000" CHECK (burst BETWEEN 1 AND 1000000),
    -- The leader reads them as integers, so 3.0 and "3" are refused.
    weights       jsonb
        CONSTRAINT "weights must be an object of whole numbers between 1 and 1000" CHECK (jsonb_typeof(weights) =
            'object' AND jsonb_path_query_array(weights, '$.*')::text
                ~ '^\[([1-9]\d{0,2}|1000)(, ([1-9]\d{0,2}|1000))*\]$')
        CONSTRAINT "weights must have at most 1000 entries"
            CHECK (jsonb_array_length(jsonb_path_query_array(weights, '$.*')) <= 1000),
    changed_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_by    text        NOT NULL DEFAULT session_user,
    declared_by   text,
    CONSTRAINT "scope_name must be a queue or a type, and empty for all" CHECK (CASE scope WHEN 'all'
        THEN scope_name = '' WHEN 'queue' THEN scope_name::tasktable.task_queue IS NOT NULL
        WHEN 'type' THEN scope_name::tasktable.task_type IS NOT NULL END),
    CONSTRAINT "a limit must have max_running, rate or per" CHECK (num_nonnulls(max_running, rate, per) > 0),
    CONSTRAINT "in_order must be given together with per" CHECK (per IS NOT NULL OR NOT in_order),
    CONSTRAINT "max_running must be 1 with in_order" CHECK (max_running IS NOT DISTINCT FROM 1 OR NOT in_order),
    CONSTRAINT "weights must be given together with per" CHECK (per IS NOT NULL OR weights IS NULL),
    CONSTRAINT "rate, rate_interval and burst must be given together"
        CHECK (num_nonnulls(rate, rate_interval, burst) IN (0, 3)),
    CONSTRAINT "burst must be what the rate gives in at most 10 years"
        CHECK (burst * rate_interval / nullif(rate, 0) <= interval '87660 hours')
);
COMMENT ON TABLE tasktable.limits IS 'How many tasks may run at once, or start in an interval, over all nodes. The '
    'leader reads it at each look. Use set_limit and remove_limit.';

-- It is a table of its own, so that the leader never waits for somebody who changes a limit in an open transaction.
CREATE TABLE tasktable.limit_buckets (
    name      text        COLLATE "C",
    full_at   timestamptz NOT NULL,
    limit_key text        COLLATE "C" DEFAULT '',
    PRIMARY KEY (name, limit_key)
);
COMMENT ON TABLE tasktable.limit_buckets IS 'How far the rates of limits are used. Only the leader writes it, and '
    'retention removes rows that say no more than no row would.';

CREATE TABLE tasktable.task_defaults (
    type                    text COLLATE "C" PRIMARY KEY
        CONSTRAINT "type must be a type, or * for all types"
            CHECK (type = '*' OR type::tasktable.task_type IS NOT NULL),
    queue                   tasktable.task_queue,
    priority                tasktable.task_priority,
    expiration              tasktable.task_expiration,
    expected_execution_time tasktable.task_execution_time,
    max_attempts            tasktable.task_max_attempts,
    backoff                 tasktable.task_backoff,
    timeout                 tasktable.task_timeout,
    retention               tasktable.task_retention,
    group_key               tasktable.task_group_key,
    changed_at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_by              text        NOT NULL DEFAULT session_user,
    declared_by             text
);
COMMENT ON TABLE tasktable.task_defaults IS 'The values of fields that a call of schedule leaves out, by type. Use '
    'set_defaults and remove_defaults. A plain INSERT does not use them, and no change touches tasks that were '
    'scheduled before.';

-- Days and no times, because a rule reads them in its own time zone.
CREATE TABLE tasktable.calendars (
    name        text COLLATE "C"
        CONSTRAINT "name must be a-z, then at most 62 of a-z, 0-9, _ or -"
            CHECK (name ~ '^[a-z][a-z0-9_-]{0,62}$')
        CONSTRAINT "name must not be workdays, which is built in" CHECK (name <> 'workdays'),
    tenant_id   text COLLATE "C" DEFAULT ''
        CONSTRAINT "tenant_id must be a tenant, or empty" CHECK (tenant_id = ''
            OR tenant_id::tasktable.task_tenant_id IS NOT NULL),
    days        jsonb       NOT NULL DEFAULT '[]',
    changed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_by  text        NOT NULL DEFAULT session_user,
    declared_by text,
    PRIMARY KEY (tenant_id, name)
);
COMMENT ON TABLE tasktable.calendars IS 'Sets of days, such as holidays, that the column cron of recurring tasks names '
    'by out-of and keep-to. You may write it by plain SQL, because triggers check each change and have the fires of '
    'its tasks planned anew. Use set_calendar, add_days, remove_days and remove_calendar.';

CREATE VIEW tasktable.calendar_days AS
    SELECT c.name, c.tenant_id, (span.value ->> 'from')::date AS day_from, (span.value ->> 'to')::date AS day_to,
        span.value ->> 'note' AS note
    FROM tasktable.calendars AS c CROSS JOIN jsonb_array_elements(c.days) AS span (value);
COMMENT ON VIEW tasktable.calendar_days IS 'The days of calendars, one row a span. day_to is in it.';

CREATE TABLE tasktable.applications (
    role      text    NOT NULL,
    service   text    NOT NULL,
    by_tenant boolean NOT NULL DEFAULT false,
    PRIMARY KEY (role, service)
);
COMMENT ON TABLE tasktable.applications IS 'Which database role may schedule and read the tasks of which service, or '
    'of one tenant at a time. The script of "migrate roles" writes it. Without that script it stays empty.';

DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT 'scheduled_tasks' AS relation, c.* FROM (VALUES
            ('id', 'Chosen by the application, usually task-{TYPE}-{key}. To schedule an id again edits its row.'),
            ('payload', 'A discriminated union. The field "type" names the variant, and the handler reads the others.'),
            ('type', 'The variant, copied from the payload by a trigger. You cannot set it to anything else.'),
            ('entity', 'Subject of the task, such as "event:42". You can find, sync and cancel by it.'),
            ('tenant_id', 'Owner of the task, for filters, for erase and for limits per tenant.'),
            ('group_key', 'Group of the task, such as "customer:42". You can find by it.'),
            ('limit_key', 'By which limits per group or per tenant count it, see limit_key_of. Empty: by none yet.'),
            ('queue', 'Only a node that works this queue runs the task.'),
            ('status', 'QUEUED waits for its time. EXECUTING is claimed. PAUSED waits for a resume. COMPLETED, FAILED, '
                'EXPIRED, CANCELLED and SKIPPED are final.'),
            ('priority', 'Of two due tasks the one with the higher priority runs first; -100 to 100.'),
            ('scheduled_at', 'The time that was asked for. Retries and run_now do not change it.'),
            ('run_now_at', 'When the task is due by run_now or retry, until it is scheduled again for another time. It '
                'is the time of the call, unless retry was given a delay.'),
            ('again_at', 'Since when somebody wants one more run after the attempt that runs, by run_now or '
                'if_running. When that attempt has ended in any way, run_now is called for the task. '
                'Null: nobody does.'),
            ('expiration', 'No attempt starts later than this after the due time. Null: the task never expires.'),
            ('jitter', 'Spreads tasks of one time: each is late by up to this, always by the same for one id and '
                'latest time.'),
            ('expected_execution_time', 'How long an attempt may take. Then its lease ends, and the task runs again.'),
            ('retention', 'How long the task is kept after its end. Null: as long as the nodes are configured for.'),
            ('max_attempts', 'After this many failed attempts since the last edit the task is FAILED.'),
            ('backoff', 'The wait before a retry, such as "1m" or "10s x3 max 1h jitter 25%". Null: as its type or the '
                'nodes are configured.'),
            ('timeout', 'How long after its start the context of a handler ends. Null: at the end of '
                'expected_execution_time.'),
            ('deadline', 'No attempt starts after it, and the context of a running handler ends at it. Null: none.'),
            ('attempt', 'How many attempts have begun since the last edit. A pause is no edit. It only counts.'),
            ('goes_first', 'The task was claimed by a limit in order. So it comes before the other tasks of its group '
                'or tenant until it has ended, or is resumed, or has another time, group, queue or type. Null: it '
                'was not.'),
            ('revision', 'Number of the latest edit. Every edit draws a new number.'),
            ('asked_revision', 'The revision that last asked for another payload or time, or to run again after '
                'COMPLETED. The idempotency key of an attempt is {id}:{asked_revision}.'),
            ('next_attempt_at', 'From when on the task can be claimed. It is set exactly while the task waits for its '
                'claim. In a lane, which is a queue, a type and a priority, the smallest goes first. A task '
                'that is due already when it is written can be claimed from then on, behind the others.'),
            ('due_at', 'When the waiting task was due, if that is before next_attempt_at. Lateness counts from here. '
                'Null: it is due at next_attempt_at. While a task is PAUSED: when it is due after that.'),
            ('fence', 'Number of the claim that holds the task, or null. Nobody can claim a held task, even after an '
                'edit. The hold ends when the holder records an outcome, or when the leader takes the task back.'),
            ('lease_expires_at', 'End of the lease. After it the claim is lost, and the task can be claimed again.'),
            ('started_fence', 'The latest claim whose attempt ran for at least a second. Its node writes started_at '
                'and node during the attempt. Null: none yet.'),
            ('node', 'Number of the node that runs or ran the attempt of started_fence.'),
            ('started_at', 'When the last recorded attempt began. While started_fence = fence: when the current one '
                'began.'),
            ('finished_at', 'When the status became final. Null: it is not final.'),
            ('last_status_update', 'When the status changed last.'),
            ('created_at', 'When the row was inserted.'),
            ('rearmed_at', 'When the task was queued again after it had ended. debounce and unique_for count from '
                'here. Null: since created_at.'),
            ('paused_until', 'When the leader resumes the PAUSED task. Null: somebody has to resume it.'),
            ('archived_at', 'When somebody marked the dead letter as dealt with.'),
            ('archived_note', 'The note that they left.'),
            ('message', 'The last error, or the note of the handler.'),
            ('result', 'The result of the handler.'),
            ('waiting_since', 'When the task was due, if its handler has put it off since then because something is '
                'out of order. Lateness counts from here. An edit, a pause, and an attempt that fails, clear it.'),
            ('waits', 'How many times it was put off like this. Null: never.'),
            ('cron', 'Makes this a recurring task. At each fire the leader forks an occurrence, {id}@{fire time}.'),
            ('time_zone', 'Time zone of the cron expression; UTC by default.'),
            ('overlap', 'For a fire while an earlier occurrence has not ended: skip (it becomes a SKIPPED row), allow, '
                'or cancel_running.'),
            ('catch_up', 'For fires missed while no leader was there: latest runs one, all runs each up to '
                'catch_up_limit, none runs none. The others become SKIPPED rows.'),
            ('catch_up_paused', 'The same for fires missed during a pause; none by default.'),
            ('catch_up_limit', 'How many missed fires catch_up = all runs at most; 100 by default.'),
            ('ends_at', 'No fire after this time.'),
            ('max_occurrences', 'No fire after this many occurrences.'),
            ('occurrence_count', 'How many occurrences were forked to run. Skipped ones do not count.'),
            ('planned_revision', 'The revision for which the leader planned the next fire, next_attempt_at. If it is '
                'not equal to revision, the leader plans again.'),
            ('planned_wall', 'Local time of the next fire in the time zone. Null for @every.'),
            ('planned_zone_data', 'Fingerprint of the zone data that the next fire was planned with. With other data '
                'the leader plans again. After an edit of a calendar: the word calendar, its name, and the fire that '
                'was planned before.'),
            ('planned_day', 'The first day whose fires have not come, if calendars may move them to other days.'),
            ('open_occurrences_from', 'All occurrences before this time have ended. The search for open ones begins '
                'here.'),
            ('parent_id', 'The recurring task of this occurrence. No foreign key, because the occurrence outlives it.'),
            ('spawned_by', 'The task whose handler asked for this follow-up, or whose death scheduled it. No foreign '
                'key, as for parent_id.'),
            ('if_dead', 'Tasks that the commit schedules in which this task becomes FAILED or EXPIRED. An array of '
                'objects as for schedule_many. A task without an id gets {id}/dead/{place in the array}. Occurrences '
                'inherit it. Null: none.'),
            ('scheduled_by', 'The service that scheduled the task first.'),
            ('declared_by', 'The service whose code declares the recurring task. Null: it was scheduled.'),
            ('trace', 'The span in which the task was scheduled. Its executions link to it. A change of it alone is no '
                'edit, and is not recorded.')
        ) AS c (name, text)
        UNION ALL
        SELECT 'scheduled_task_executions', c.* FROM (VALUES
            ('fence', 'Number of the claim.'),
            ('task_id', 'The task. No foreign key, because the row outlives the task.'),
            ('type', 'Type of the task at the claim.'),
            ('revision', 'The revision that was claimed.'),
            ('attempt', 'Number of the attempt within the revision.'),
            ('scheduled_at', 'The time that the task was scheduled for.'),
            ('due_at', 'When the attempt was due: scheduled_at, or later after a retry, a snooze or run_now. A wait '
                'for something that is out of order does not change it. Null for a lost claim.'),
            ('started_at', 'When the handler was called. Null if it was not, or if its node died within two seconds.'),
            ('finished_at', 'When the claim ended.'),
            ('outcome', 'COMPLETED; FAILED (for good); RETRIED (failed, runs again); SNOOZED (of waits that follow '
                'each other, only the first has a row, and the task counts them in "waits"); LOST (its node died or '
                'its lease ended); SUPERSEDED (edited or cancelled meanwhile); EXPIRED; INTERRUPTED (by a shutdown); '
                'RELEASED (never started, handed back); CANCELLED (cancelled before it started).'),
            ('error', 'The error of the handler, or why the claim ended.'),
            ('node', 'Number of the node that ran it.'),
            ('tx', 'The transaction that wrote the row. A number and no xid8, because no BRIN index can have an xid8.')
        ) AS c (name, text)
        UNION ALL
        SELECT 'scheduled_task_changes', c.* FROM (VALUES
            ('revision', 'The new revision. A delete, and a pause or resume of a claimed task, have their own number.'),
            ('task_id', 'The task. No foreign key, because the row outlives the task.'),
            ('verb', 'schedule, reschedule, sync, cancel, pause, resume, run_now, retry, delete, again, fork or '
                'archive, or sql for an edit by plain SQL.'),
            ('outcome', 'created, rescheduled, rearmed, cancelled, paused, queued, archived, edited (a finished task, '
                'by plain SQL) or deleted.'),
            ('changed_at', 'When.'),
            ('changed_by', 'The service or task that asked, else the setting tasktable_change.by, else the database '
                'role.'),
            ('tx', 'The transaction that wrote the row.'),
            ('old', 'The old values of the changed fields. For a delete: of all fields.'),
            ('new', 'The new values of the changed fields. For a new task: its status, type and time.')
        ) AS c (name, text)
        UNION ALL
        SELECT 'nodes', c.* FROM (VALUES
            ('number', 'New for each process and for each new session. It is also the id of the River client.'),
            ('service', 'The service that the node is part of.'),
            ('version', 'Version of the service.'),
            ('host', 'Host name and process id.'),
            ('queues', 'The queues it works, with their slots. Empty while it is quiet.'),
            ('types', 'The types it has handlers for. Empty while it is quiet.'),
            ('shares_slots', 'Idle slots of one of its queues serve its other queues.'),
            ('type_slots', 'Of the types with a limit: how many of its handlers run at once, in all its queues.'),
            ('strict_queues', 'Those of its queues whose tasks come first, in this order, whatever their priorities.'),
            ('may_lead', 'It tries to lead. False for a node that only works, and while it is quiet.'),
            ('transactional', 'Those of its types whose handlers run in a transaction.'),
            ('places', 'How many transactional handlers it runs at once.'),
            ('averages', 'Average run time by type, in microseconds, for types that have run often enough.'),
            ('hung', 'By type, how many handlers have not returned for half a minute after the end of their claims.'),
            ('defaults', 'The defaults of all types with which the node was started. Null: none.'),
            ('declaration_hash', 'Hash of the recurring tasks that its code declares. Null: none.'),
            ('receives_failures', 'It is told of failures and lost claims of its types.'),
            ('retention_refused', 'Rows that retention could not remove in the last run of this node. Null: none.'),
            ('started_at', 'When it began.'),
            ('elected_at', 'When its last term as the leader began, or null. The leader is the live node with the '
                'latest time.'),
            ('marks', 'As leader, from where on it looks at each lane and at what River has. The next leader goes on '
                'from there.'),
            ('timeline', 'The timeline of the database when it last became leader, or null. Another one than that of '
                'the leader before tells of a failover.'),
            ('last_seen_at', 'Its last sign of life, written when its lock is found free. 5 seconds later it is dead.'),
            ('dead_at', 'When it ended. It writes this when it stops, else the leader does. Null: it is not known '
                'dead.')
        ) AS c (name, text)
        UNION ALL
        SELECT 'pauses', c.* FROM (VALUES
            ('number', 'From the sequence of revisions and fences.'),
            ('scope', 'all, queue or type.'),
            ('name', 'The queue or type. Empty for all.'),
            ('paused_at', 'When the pause began.'),
            ('paused_by', 'Who paused.'),
            ('ends_at', 'When the pause ends or ended. Null: it ends when somebody resumes.'),
            ('resumed_by', 'Who resumed. Null: nobody.'),
            ('reason', 'Why.'),
            ('planned_end', 'When a pause that somebody ended early would have ended. Null: not planned, or not ended '
                'early.')
        ) AS c (name, text)
        UNION ALL
        SELECT 'limits', c.* FROM (VALUES
            ('name', 'Name of the limit.'),
            ('scope', 'The tasks that count: all, those of a queue, or those of a type.'),
            ('scope_name', 'The queue or type. Empty for all.'),
            ('per', 'group or tenant: each group or tenant counts by itself. Null: all tasks count together.'),
            ('in_order', 'The tasks of a group or tenant run one after the other, each until it has ended.'),
            ('max_running', 'How many of the tasks may run at once. Null: any number.'),
            ('rate', 'How many of the tasks may start in rate_interval. Null: any number.'),
            ('rate_interval', 'The interval of rate.'),
            ('burst', 'How many of the tasks may start at once after a time in which none started.'),
            ('weights', 'How many turns a group or tenant has, 1 to 1000, for one turn of the others. Null: one each.'),
            ('changed_at', 'When the limit was last changed.'),
            ('changed_by', 'Who changed it.'),
            ('declared_by', 'The service whose code declares it. Null: somebody has set it.')
        ) AS c (name, text)
        UNION ALL
        SELECT 'limit_buckets', c.* FROM (VALUES
            ('name', 'Name of the limit.'),
            ('full_at', 'From when on burst tasks may start at once. Each claim moves it by rate_interval / rate.'),
            ('limit_key', 'The group or tenant, see limit_key_of. Empty: the limit counts all tasks together.')
        ) AS c (name, text)
        UNION ALL
        SELECT 'task_defaults', c.* FROM (VALUES
            ('type', 'The type of the tasks. * stands for all types, for fields without a value for the type itself.'),
            ('changed_at', 'When the defaults were last changed.'),
            ('changed_by', 'Who changed them.'),
            ('declared_by', 'The service whose code declares them. Null: somebody has set them.')
        ) AS c (name, text)
        UNION ALL
        SELECT 'calendars', c.* FROM (VALUES
            ('name', 'The name that rules give.'),
            ('tenant_id', 'The tenant whose tasks it is for. For them it hides the general calendar of its name. '
                'Empty: it is general.'),
            ('days', 'An array of objects with from, to and note, sorted. to is in the span.'),
            ('changed_at', 'When its days were last changed.'),
            ('changed_by', 'Who changed them.'),
            ('declared_by', 'The service whose code declares it. Null: somebody has set it.')
        ) AS c (name, text)
        UNION ALL
        SELECT 'calendar_days', c.* FROM (VALUES
            ('day_from', 'The first day.'),
            ('day_to', 'The last day.'),
            ('note', 'What the days are, such as Christmas.')
        ) AS c (name, text)
        UNION ALL
        SELECT 'applications', c.* FROM (VALUES
            ('role', 'The database role.'),
            ('service', 'The service, as in scheduled_by. Empty: all services.'),
            ('by_tenant', 'The role has the tasks of one tenant alone, which the setting tasktable.tenant names.')
        ) AS c (name, text)
    LOOP
        EXECUTE format('COMMENT ON COLUMN tasktable.%I.%I IS %L', one.relation, one.name, one.text);
    END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION tasktable.must_lead;
DROP VIEW tasktable.calendar_days, tasktable.lanes;
DROP TABLE tasktable.applications, tasktable.calendars, tasktable.task_defaults, tasktable.limit_buckets,
    tasktable.limits, tasktable.pauses, tasktable.nodes, tasktable.scheduled_task_changes,
    tasktable.scheduled_task_executions, tasktable.scheduled_tasks;
DROP DOMAIN tasktable.task_if_dead, tasktable.task_deadline, tasktable.task_timeout,
    tasktable.task_backoff, tasktable.task_trace, tasktable.task_max_occurrences, tasktable.task_catch_up_limit,
    tasktable.task_catch_up, tasktable.task_overlap, tasktable.task_time_zone, tasktable.task_cron,
    tasktable.task_attempt, tasktable.task_max_attempts, tasktable.task_retention, tasktable.task_jitter,
    tasktable.task_execution_time, tasktable.task_expiration, tasktable.task_instant, tasktable.task_limit_time,
    tasktable.task_time, tasktable.task_priority, tasktable.task_status, tasktable.task_queue, tasktable.task_author,
    tasktable.task_group_key, tasktable.task_tenant_id, tasktable.task_entity, tasktable.task_payload,
    tasktable.task_type, tasktable.task_id;
DROP SEQUENCE tasktable.task_numbers;
