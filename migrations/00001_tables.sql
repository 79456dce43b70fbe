-- The tables: one for the tasks, two append-only ones for what happened to them, one for the nodes.
--
-- Written for the default schema; another is had by replacing "tasktable." (the Go package does it, and
-- `tasktable migrate print --schema NAME` prints the result). Rules on single fields are domains, not CHECKs of the
-- table: a domain is checked when its own column is written, a CHECK at every update of the row, and each task is updated
-- twice by the engine; and Postgres parses each CHECK anew for each statement, some 5 us that one insert alone pays for. So the
-- few CHECKs are those of the engine's own columns, and the triggers see to the rest. A constraint's name is its rule: Postgres's own
-- error message names the field and the rule.

-- +goose Up
CREATE SEQUENCE tasktable.task_numbers AS bigint;
COMMENT ON SEQUENCE tasktable.task_numbers IS 'Revisions and fences. One sequence for both and for all tasks, so no number is ever used twice, not even after a task is deleted and created again.';

CREATE DOMAIN tasktable.task_id AS text COLLATE "C"
    CONSTRAINT "id must be 1 to 512 bytes without control characters"
        CHECK (octet_length(VALUE) BETWEEN 1 AND 512 AND VALUE !~ '[\u0001-\u001f\u007f-\u009f]');
COMMENT ON DOMAIN tasktable.task_id IS 'Id of a task: 1 to 512 bytes, no control characters.';

CREATE DOMAIN tasktable.task_payload AS jsonb
    CONSTRAINT "payload must be a JSON object"
        CHECK (jsonb_typeof(VALUE) = 'object')
    CONSTRAINT "payload must have a field type that is a string"
        CHECK (jsonb_typeof(VALUE) <> 'object' OR coalesce(jsonb_typeof(VALUE -> 'type') = 'string', false))
    CONSTRAINT "payload must be at most 256 KiB of JSON text"
        CHECK (octet_length(VALUE::text) <= 262144);
COMMENT ON DOMAIN tasktable.task_payload IS 'Payload of a task: a JSON object with a string field "type", at most 256 KiB as text.';

CREATE DOMAIN tasktable.task_type AS text COLLATE "C"
    CONSTRAINT "type must be 2 to 127 letters, digits or _-[]<>/.·:+"
        CHECK (char_length(VALUE) <= 127 AND VALUE ~ '^[A-Za-z0-9_][A-Za-z0-9_\-\[\]<>/.·:+]+$');
COMMENT ON DOMAIN tasktable.task_type IS 'Name of a variant of the payload union, in the syntax of a River job kind: a River job carries it.';

CREATE DOMAIN tasktable.task_queue AS text COLLATE "C"
    CONSTRAINT "queue must be 1 to 64 of a-z, 0-9, inner - or _"
        CHECK (char_length(VALUE) <= 64 AND VALUE ~ '^[a-z0-9]+([_-][a-z0-9]+)*$');
COMMENT ON DOMAIN tasktable.task_queue IS 'Name of a queue, in the syntax of a River queue.';

-- One domain a column where one for all would do: Postgres's message then names the column.
CREATE DOMAIN tasktable.task_entity AS text COLLATE "C"
    CONSTRAINT "entity must be 1 to 512 bytes without control characters"
        CHECK (octet_length(VALUE) BETWEEN 1 AND 512 AND VALUE !~ '[\u0001-\u001f\u007f-\u009f]');
COMMENT ON DOMAIN tasktable.task_entity IS 'What a task is about: 1 to 512 bytes, no control characters.';

CREATE DOMAIN tasktable.task_tenant_id AS text COLLATE "C"
    CONSTRAINT "tenant_id must be 1 to 512 bytes without control characters"
        CHECK (octet_length(VALUE) BETWEEN 1 AND 512 AND VALUE !~ '[\u0001-\u001f\u007f-\u009f]');
COMMENT ON DOMAIN tasktable.task_tenant_id IS 'Tenant of a task: 1 to 512 bytes, no control characters.';

CREATE DOMAIN tasktable.task_author AS text
    CONSTRAINT "scheduled_by must be 1 to 512 bytes without control characters"
        CHECK (octet_length(VALUE) BETWEEN 1 AND 512 AND VALUE !~ '[\u0001-\u001f\u007f-\u009f]');
COMMENT ON DOMAIN tasktable.task_author IS 'Who scheduled a task: 1 to 512 bytes, no control characters.';

-- What W3C Trace Context calls version 00; all zeros are no id there. The tracestate is behind a space.
CREATE DOMAIN tasktable.task_trace AS text
    CONSTRAINT "trace must be a W3C traceparent, at most 512 bytes in all"
        CHECK (octet_length(VALUE) <= 512
            AND VALUE ~ '^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-0[0-3]( [ -~]+)?$');
COMMENT ON DOMAIN tasktable.task_trace IS 'A traceparent of W3C Trace Context, version 00; behind it, if need be, a space and the tracestate. At most 512 bytes.';

CREATE DOMAIN tasktable.task_priority AS integer
    CONSTRAINT "priority must be between -100 and 100"
        CHECK (VALUE BETWEEN -100 AND 100);
COMMENT ON DOMAIN tasktable.task_priority IS 'Priority of a task, -100 to 100; the higher runs first.';

CREATE DOMAIN tasktable.task_time AS timestamptz
    CONSTRAINT "scheduled_at, run_now_at must be finite, in the years 1 to 9999"
        CHECK (VALUE >= '0001-01-01 00:00:00+00' AND VALUE < '10000-01-01 00:00:00+00');
COMMENT ON DOMAIN tasktable.task_time IS 'An instant that every client language can hold: finite, years 1 to 9999.';

-- Months are refused, because a month has no length. The triggers write a day as 24 hours: '1 day' = '24 hours' is true, yet they
-- differ by an hour over a change of daylight saving.
CREATE DOMAIN tasktable.task_expiration AS interval
    CONSTRAINT "expiration must be over 0 and at most 10 years"
        CHECK (VALUE > interval '0' AND VALUE <= interval '87660 hours')
    CONSTRAINT "expiration must be in days or less: '30 days', not '1 month'"
        CHECK (extract(year FROM VALUE) = 0 AND extract(month FROM VALUE) = 0);
COMMENT ON DOMAIN tasktable.task_expiration IS 'How long after its time a task may still start; over 0, at most 10 years (87660 hours), without months; a day is 24 hours.';

CREATE DOMAIN tasktable.task_execution_time AS interval
    CONSTRAINT "expected_execution_time must be over 0 and at most 168 hours"
        CHECK (VALUE > interval '0' AND VALUE <= interval '168 hours')
    CONSTRAINT "expected_execution_time must be in days or less, not months"
        CHECK (extract(year FROM VALUE) = 0 AND extract(month FROM VALUE) = 0);
COMMENT ON DOMAIN tasktable.task_execution_time IS 'How long one attempt may take; over 0, at most 7 days (168 hours), without months; a day is 24 hours.';

CREATE DOMAIN tasktable.task_max_attempts AS integer
    CONSTRAINT "max_attempts must be between 1 and 1000"
        CHECK (VALUE BETWEEN 1 AND 1000);
COMMENT ON DOMAIN tasktable.task_max_attempts IS 'How many attempts a revision of a task has before it is FAILED, 1 to 1000.';

CREATE DOMAIN tasktable.task_status AS text
    CONSTRAINT "status must be one of the eight words"
        CHECK (VALUE IN ('QUEUED', 'EXECUTING', 'COMPLETED', 'FAILED', 'EXPIRED', 'CANCELLED', 'PAUSED', 'SKIPPED'));
COMMENT ON DOMAIN tasktable.task_status IS 'QUEUED, EXECUTING, COMPLETED, FAILED (dead letter), EXPIRED, CANCELLED, PAUSED or SKIPPED.';

CREATE DOMAIN tasktable.task_attempt AS integer
    CONSTRAINT "attempt must not be negative"
        CHECK (VALUE >= 0);
COMMENT ON DOMAIN tasktable.task_attempt IS 'How many attempts have begun.';

CREATE DOMAIN tasktable.task_instant AS timestamptz
    CONSTRAINT "next_attempt_at and lease_expires_at must be finite"
        CHECK (isfinite(VALUE));
COMMENT ON DOMAIN tasktable.task_instant IS 'A finite instant.';

CREATE TABLE tasktable.scheduled_tasks (
    id                      tasktable.task_id             PRIMARY KEY,
    payload                 tasktable.task_payload        NOT NULL,
    type                    tasktable.task_type           NOT NULL,
    entity                  tasktable.task_entity,
    tenant_id               tasktable.task_tenant_id,
    queue                   tasktable.task_queue          NOT NULL DEFAULT 'default',
    status                  tasktable.task_status         NOT NULL DEFAULT 'QUEUED',
    priority                tasktable.task_priority       NOT NULL DEFAULT 0,
    scheduled_at            tasktable.task_time           NOT NULL DEFAULT clock_timestamp(),
    run_now_at              tasktable.task_time,
    expiration              tasktable.task_expiration,
    expected_execution_time tasktable.task_execution_time NOT NULL DEFAULT interval '5 minutes',
    max_attempts            tasktable.task_max_attempts   NOT NULL DEFAULT 5,
    attempt                 tasktable.task_attempt        NOT NULL DEFAULT 0,
    revision                bigint      NOT NULL,
    next_attempt_at         tasktable.task_instant,
    fence                   bigint,
    lease_expires_at              tasktable.task_instant,
    message                 text,
    result                  jsonb,
    scheduled_by            tasktable.task_author,
    trace                   tasktable.task_trace,
    created_at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_status_update      timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at              timestamptz,
    finished_at             timestamptz,
    started_fence           bigint,
    node                    bigint,
    CONSTRAINT "next_attempt_at is set exactly when QUEUED and not held"
        CHECK ((next_attempt_at IS NOT NULL) = (status = 'QUEUED' AND fence IS NULL)),
    CONSTRAINT "fence and lease_expires_at are set together"
        CHECK ((fence IS NULL) = (lease_expires_at IS NULL)),
    CONSTRAINT "an EXECUTING task holds a fence"
        CHECK (status <> 'EXECUTING' OR fence IS NOT NULL),
    CONSTRAINT "finished_at is set exactly when the status is final"
        CHECK ((finished_at IS NULL) = (status IN ('QUEUED', 'EXECUTING', 'PAUSED')))
) WITH (
    -- Room on each page for the claim's version of a row, whose predecessor then makes room for the settle's: neither has to be
    -- written to another page. With 70 the table became larger, not smaller.
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.05
);
COMMENT ON TABLE tasktable.scheduled_tasks IS 'Every piece of work that must happen at a later time, one row a task. Rows may be inserted, edited and deleted by plain SQL too: triggers check, fence and record it.';
COMMENT ON COLUMN tasktable.scheduled_tasks.id IS 'Chosen by the application, task-{TYPE}-{key} by habit: scheduling the same id again edits this row.';
COMMENT ON COLUMN tasktable.scheduled_tasks.payload IS 'A discriminated union: the field "type" names the variant, the others are the handler''s.';
COMMENT ON COLUMN tasktable.scheduled_tasks.type IS 'The variant, taken from the payload; nothing else may be written to it.';
COMMENT ON COLUMN tasktable.scheduled_tasks.entity IS 'What the task is about, as "event:42"; all tasks of an entity can be found, synced and cancelled together.';
COMMENT ON COLUMN tasktable.scheduled_tasks.tenant_id IS 'Whose task it is, for filters and erasure; the engine does not read it.';
COMMENT ON COLUMN tasktable.scheduled_tasks.queue IS 'Which nodes may run it: a node lists the queues it works and the slots for each.';
COMMENT ON COLUMN tasktable.scheduled_tasks.status IS 'QUEUED waits for its time; EXECUTING is claimed; COMPLETED, FAILED, EXPIRED, CANCELLED and SKIPPED are final; PAUSED waits for a resume.';
COMMENT ON COLUMN tasktable.scheduled_tasks.priority IS 'Among due tasks the higher runs first; -100 to 100.';
COMMENT ON COLUMN tasktable.scheduled_tasks.scheduled_at IS 'The time asked for. Retries and run_now leave it as it was asked.';
COMMENT ON COLUMN tasktable.scheduled_tasks.run_now_at IS 'When run_now or retry asked to run the task at once: from then it counts as due, in place of scheduled_at, until it is scheduled for another time.';
COMMENT ON COLUMN tasktable.scheduled_tasks.expiration IS 'No attempt starts this long after the task''s time; null: better late than never.';
COMMENT ON COLUMN tasktable.scheduled_tasks.expected_execution_time IS 'How long an attempt may take before its lease ends and the task is given to another.';
COMMENT ON COLUMN tasktable.scheduled_tasks.max_attempts IS 'After so many failed attempts of one revision the task is FAILED.';
COMMENT ON COLUMN tasktable.scheduled_tasks.attempt IS 'How many attempts of this revision have begun; it only counts, nothing is matched by it.';
COMMENT ON COLUMN tasktable.scheduled_tasks.revision IS 'Which edit of the task this is; every edit draws a new number.';
COMMENT ON COLUMN tasktable.scheduled_tasks.next_attempt_at IS 'When the task is due next; set exactly when it can be claimed, so one small index serves all looking.';
COMMENT ON COLUMN tasktable.scheduled_tasks.fence IS 'Number of the claim that holds the task. A held task cannot be claimed, however it is edited; only the holder or the reclaimer ends the hold.';
COMMENT ON COLUMN tasktable.scheduled_tasks.lease_expires_at IS 'The lease: past it the claim is lost and the task is given to another.';
COMMENT ON COLUMN tasktable.scheduled_tasks.message IS 'The last error, or the note of the handler.';
COMMENT ON COLUMN tasktable.scheduled_tasks.result IS 'What the handler returned with Result.';
COMMENT ON COLUMN tasktable.scheduled_tasks.scheduled_by IS 'The service that scheduled the task first.';
COMMENT ON COLUMN tasktable.scheduled_tasks.trace IS 'The span in which the task was scheduled, to which its executions link. Not content: a change of it alone is no edit, and no line of changes has it.';
COMMENT ON COLUMN tasktable.scheduled_tasks.created_at IS 'When the row was inserted.';
COMMENT ON COLUMN tasktable.scheduled_tasks.last_status_update IS 'When the status changed last.';
COMMENT ON COLUMN tasktable.scheduled_tasks.started_at IS 'When the last settled attempt began; where started_fence is fence, when the one that runs began.';
COMMENT ON COLUMN tasktable.scheduled_tasks.finished_at IS 'When the status became final; null while it is not.';
COMMENT ON COLUMN tasktable.scheduled_tasks.started_fence IS 'The latest claim whose attempt ran for a second or longer: then its node writes started_at and node while it runs. Null: none has.';
COMMENT ON COLUMN tasktable.scheduled_tasks.node IS 'Number of the node that runs, or ran, the attempt of started_fence.';

CREATE INDEX scheduled_tasks_claimable ON tasktable.scheduled_tasks (queue, type, priority, next_attempt_at)
    WHERE next_attempt_at IS NOT NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_claimable IS 'What can be claimed, by lane and time: serves the peek, the list of lanes and the claim. Holds waiting tasks only.';
CREATE INDEX scheduled_tasks_lease_expires_at ON tasktable.scheduled_tasks (lease_expires_at)
    WHERE lease_expires_at IS NOT NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_lease_expires_at IS 'Claims by the end of their lease. Views and the doctor find running and stuck tasks by it. The engine does not read it.';
CREATE INDEX scheduled_tasks_entity ON tasktable.scheduled_tasks (entity)
    WHERE entity IS NOT NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_entity IS 'All tasks of an entity, for sync and for audit.';

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
    CONSTRAINT "outcome must be one of the ten words"
        CHECK (outcome IN ('COMPLETED', 'FAILED', 'RETRIED', 'SNOOZED', 'LOST', 'SUPERSEDED', 'EXPIRED', 'INTERRUPTED', 'RELEASED', 'CANCELLED'))
);
COMMENT ON TABLE tasktable.scheduled_task_executions IS 'What came of each claim, one line a claim, written when it ends. Append-only: updates are refused, deletes too but for retention.';
COMMENT ON COLUMN tasktable.scheduled_task_executions.fence IS 'The claim''s number.';
COMMENT ON COLUMN tasktable.scheduled_task_executions.task_id IS 'The task; no foreign key, the line outlives the task.';
COMMENT ON COLUMN tasktable.scheduled_task_executions.type IS 'The task''s type at the claim.';
COMMENT ON COLUMN tasktable.scheduled_task_executions.revision IS 'The revision that was claimed.';
COMMENT ON COLUMN tasktable.scheduled_task_executions.attempt IS 'Which attempt of the revision it was.';
COMMENT ON COLUMN tasktable.scheduled_task_executions.scheduled_at IS 'The time the task had been scheduled for.';
COMMENT ON COLUMN tasktable.scheduled_task_executions.due_at IS 'When this attempt was due: scheduled_at, or later after a retry, or when run_now was asked. Null where the claim was lost.';
COMMENT ON COLUMN tasktable.scheduled_task_executions.started_at IS 'When the handler was let go; null where it never was, or where the node died within the attempt''s first two seconds.';
COMMENT ON COLUMN tasktable.scheduled_task_executions.finished_at IS 'When the claim ended.';
COMMENT ON COLUMN tasktable.scheduled_task_executions.outcome IS 'COMPLETED; FAILED (for good); RETRIED (failed, runs again); SNOOZED; LOST (its node or lease ended); SUPERSEDED (edited or cancelled meanwhile); EXPIRED; INTERRUPTED (shutdown); RELEASED (claimed, never started, handed back); CANCELLED (cancelled before it started).';
COMMENT ON COLUMN tasktable.scheduled_task_executions.error IS 'What the handler returned, or why the claim ended.';
COMMENT ON COLUMN tasktable.scheduled_task_executions.node IS 'Number of the node that ran it.';
CREATE INDEX scheduled_task_executions_task ON tasktable.scheduled_task_executions (task_id, fence);
COMMENT ON INDEX tasktable.scheduled_task_executions_task IS 'The history of one task.';

CREATE TABLE tasktable.scheduled_task_changes (
    revision   bigint      PRIMARY KEY,
    task_id    text COLLATE "C"        NOT NULL,
    verb       text        NOT NULL,
    outcome    text        NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_by text        NOT NULL,
    old        jsonb,
    new        jsonb
);
COMMENT ON TABLE tasktable.scheduled_task_changes IS 'Each edit, verb and delete of a task, one line each, by whatever way it came. Append-only: updates are refused, deletes too but for retention.';
COMMENT ON COLUMN tasktable.scheduled_task_changes.revision IS 'The revision that the change made; of a delete, and of the pause or resume of a claimed task, a number of its own.';
COMMENT ON COLUMN tasktable.scheduled_task_changes.task_id IS 'The task; no foreign key, the line outlives the task.';
COMMENT ON COLUMN tasktable.scheduled_task_changes.verb IS 'schedule, reschedule, sync, cancel, pause, resume, run_now, retry, delete, again, or sql for an edit by plain SQL.';
COMMENT ON COLUMN tasktable.scheduled_task_changes.outcome IS 'created, rescheduled, rearmed, cancelled, paused, queued, edited (a finished task, by plain SQL) or deleted.';
COMMENT ON COLUMN tasktable.scheduled_task_changes.changed_at IS 'When.';
COMMENT ON COLUMN tasktable.scheduled_task_changes.changed_by IS 'The service or task that asked, else the setting tasktable_change.by, else the database role.';
COMMENT ON COLUMN tasktable.scheduled_task_changes.old IS 'The changed fields as they were; of a deleted task, all.';
COMMENT ON COLUMN tasktable.scheduled_task_changes.new IS 'The changed fields as they became; of a created task, its type and time.';
CREATE INDEX scheduled_task_changes_task ON tasktable.scheduled_task_changes (task_id, revision);
COMMENT ON INDEX tasktable.scheduled_task_changes_task IS 'The changes of one task.';

CREATE TABLE tasktable.nodes (
    number     bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    service    text        NOT NULL,
    version    text        NOT NULL,
    host       text        NOT NULL,
    queues     jsonb       NOT NULL,
    types      text[]      NOT NULL,
    transactional text[]   NOT NULL DEFAULT '{}',
    places     integer     NOT NULL DEFAULT 0,
    averages   jsonb       NOT NULL DEFAULT '{}',
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    elected_at     timestamptz,
    last_seen_at  timestamptz,
    dead_at    timestamptz
);
COMMENT ON TABLE tasktable.nodes IS 'One line for each running engine and each that ever ran. A live one holds an advisory lock on its number.';
COMMENT ON COLUMN tasktable.nodes.number IS 'New for each process and each new session; also the id of its River client.';
COMMENT ON COLUMN tasktable.nodes.service IS 'The service it belongs to.';
COMMENT ON COLUMN tasktable.nodes.version IS 'The service''s version.';
COMMENT ON COLUMN tasktable.nodes.host IS 'Host and process id.';
COMMENT ON COLUMN tasktable.nodes.queues IS 'The queues it works, with the slots for each; none while it is quiet.';
COMMENT ON COLUMN tasktable.nodes.types IS 'The types it has handlers for; none while it is quiet.';
COMMENT ON COLUMN tasktable.nodes.transactional IS 'Those of its types whose handlers run in a transaction.';
COMMENT ON COLUMN tasktable.nodes.places IS 'How many such handlers it runs at once.';
COMMENT ON COLUMN tasktable.nodes.averages IS 'How long its handlers run, by type, in microseconds; types that have run often enough to tell.';
COMMENT ON COLUMN tasktable.nodes.started_at IS 'When it began.';
COMMENT ON COLUMN tasktable.nodes.elected_at IS 'When it last began to lead; null if it never did. Who leads is the newest of those that live.';
COMMENT ON COLUMN tasktable.nodes.last_seen_at IS 'Its last sign of life, noted when its lock is found free; 5 seconds after it the node counts as dead.';
COMMENT ON COLUMN tasktable.nodes.dead_at IS 'When it ended: said by itself on a graceful stop, else by the leader; null while it lives.';
CREATE INDEX nodes_live ON tasktable.nodes (number) WHERE dead_at IS NULL;
COMMENT ON INDEX tasktable.nodes_live IS 'The nodes not known to be dead.';

-- +goose Down
DROP TABLE tasktable.nodes;
DROP TABLE tasktable.scheduled_task_changes;
DROP TABLE tasktable.scheduled_task_executions;
DROP TABLE tasktable.scheduled_tasks;
DROP DOMAIN tasktable.task_status;
DROP DOMAIN tasktable.task_attempt;
DROP DOMAIN tasktable.task_instant;
DROP DOMAIN tasktable.task_max_attempts;
DROP DOMAIN tasktable.task_execution_time;
DROP DOMAIN tasktable.task_expiration;
DROP DOMAIN tasktable.task_time;
DROP DOMAIN tasktable.task_priority;
DROP DOMAIN tasktable.task_trace;
DROP DOMAIN tasktable.task_author;
DROP DOMAIN tasktable.task_tenant_id;
DROP DOMAIN tasktable.task_entity;
DROP DOMAIN tasktable.task_queue;
DROP DOMAIN tasktable.task_type;
DROP DOMAIN tasktable.task_payload;
DROP DOMAIN tasktable.task_id;
DROP SEQUENCE tasktable.task_numbers;
