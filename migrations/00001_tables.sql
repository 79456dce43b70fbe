-- The tables: one for the tasks, two append-only ones for what happened to them, and those for the nodes, the pauses and the rights.
--
-- Written for the default schema; another is had by replacing "tasktable." (the Go package does it, and
-- `tasktable migrate print --schema NAME` prints the result). Rules on single fields are domains, not CHECKs of the
-- table: a domain is checked when its own column is written, a CHECK at every update of the row, and each task is updated
-- twice by the engine; and Postgres parses each CHECK anew for each statement, some 5 us that one insert alone pays for. So the
-- few CHECKs are those of the engine's own columns, and the triggers see to the rest. A constraint's name is its rule: Postgres's own
-- error message names the field and the rule.

-- +goose Up
-- +goose StatementBegin
CREATE SEQUENCE tasktable.task_numbers AS bigint;
COMMENT ON SEQUENCE tasktable.task_numbers IS
    'Revisions and fences. One sequence for both and for all tasks, so no number is ever used twice, not even after a '
    'task is deleted and created again.';

CREATE DOMAIN tasktable.task_id AS text COLLATE "C"
    CONSTRAINT "id must be 1 to 512 bytes without control characters"
        CHECK (octet_length(VALUE) BETWEEN 1 AND 512 AND VALUE !~ '[\u0001-\u001f\u007f-\u009f]');
COMMENT ON DOMAIN tasktable.task_id IS 'Id of a task: 1 to 512 bytes, no control characters.';

CREATE DOMAIN tasktable.task_type AS text COLLATE "C"
    CONSTRAINT "type must be 2 to 127 letters, digits or _-[]<>/.·:+"
        CHECK (char_length(VALUE) <= 127 AND VALUE ~ '^[A-Za-z0-9_][A-Za-z0-9_\-\[\]<>/.·:+]+$');
COMMENT ON DOMAIN tasktable.task_type IS
    'Name of a variant of the payload union, in the syntax of a River job kind: a River job carries it.';

CREATE DOMAIN tasktable.task_payload AS jsonb
    CONSTRAINT "payload must be a JSON object"
        CHECK (jsonb_typeof(VALUE) = 'object')
    CONSTRAINT "payload must have a field type that is a string"
        CHECK (jsonb_typeof(VALUE) <> 'object' OR coalesce(jsonb_typeof(VALUE -> 'type') = 'string', false))
    CONSTRAINT "payload must be at most 256 KiB of JSON text"
        CHECK (octet_length(VALUE::text) <= 262144);
COMMENT ON DOMAIN tasktable.task_payload IS
    'Payload of a task: a JSON object with a string field "type", at most 256 KiB as text.';

-- One domain a column where one for all would do: Postgres's message then names the column.
CREATE DOMAIN tasktable.task_entity AS text COLLATE "C"
    CONSTRAINT "entity must be 1 to 512 bytes without control characters"
        CHECK (octet_length(VALUE) BETWEEN 1 AND 512 AND VALUE !~ '[\u0001-\u001f\u007f-\u009f]');
COMMENT ON DOMAIN tasktable.task_entity IS 'What a task is about: 1 to 512 bytes, no control characters.';

CREATE DOMAIN tasktable.task_tenant_id AS text COLLATE "C"
    CONSTRAINT "tenant_id must be 1 to 512 bytes without control characters"
        CHECK (octet_length(VALUE) BETWEEN 1 AND 512 AND VALUE !~ '[\u0001-\u001f\u007f-\u009f]');
COMMENT ON DOMAIN tasktable.task_tenant_id IS 'Tenant of a task: 1 to 512 bytes, no control characters.';

CREATE DOMAIN tasktable.task_queue AS text COLLATE "C"
    CONSTRAINT "queue must be 1 to 64 of a-z, 0-9, inner - or _"
        CHECK (char_length(VALUE) <= 64 AND VALUE ~ '^[a-z0-9]+([_-][a-z0-9]+)*$');
COMMENT ON DOMAIN tasktable.task_queue IS 'Name of a queue, in the syntax of a River queue.';

CREATE DOMAIN tasktable.task_time AS timestamptz
    CONSTRAINT "scheduled_at, run_now_at must be finite, in the years 1 to 9999"
        CHECK (VALUE >= '0001-01-01 00:00:00+00' AND VALUE < '10000-01-01 00:00:00+00');
COMMENT ON DOMAIN tasktable.task_time IS 'An instant that every client language can hold: finite, years 1 to 9999.';

CREATE DOMAIN tasktable.task_limit_time AS timestamptz
    CONSTRAINT "ends_at, paused_until must be finite, in the years 1 to 9999"
        CHECK (VALUE >= '0001-01-01 00:00:00+00' AND VALUE < '10000-01-01 00:00:00+00');
COMMENT ON DOMAIN tasktable.task_limit_time IS 'An instant until which something holds: finite, years 1 to 9999.';

CREATE DOMAIN tasktable.task_instant AS timestamptz
    CONSTRAINT "next_attempt_at and lease_expires_at must be finite"
        CHECK (isfinite(VALUE));
COMMENT ON DOMAIN tasktable.task_instant IS 'A finite instant.';

-- Months are refused, because a month has no length. The triggers write a day as 24 hours: '1 day' = '24 hours' is true, yet they
-- differ by an hour over a change of daylight saving.
CREATE DOMAIN tasktable.task_expiration AS interval
    CONSTRAINT "expiration must be over 0 and at most 10 years"
        CHECK (VALUE > interval '0' AND VALUE <= interval '87660 hours')
    CONSTRAINT "expiration must be in days or less: '30 days', not '1 month'"
        CHECK (extract(year FROM VALUE) = 0 AND extract(month FROM VALUE) = 0);
COMMENT ON DOMAIN tasktable.task_expiration IS
    'How long after its time a task may still start; over 0, at most 10 years (87660 hours), without months; a day is '
    '24 hours.';

CREATE DOMAIN tasktable.task_execution_time AS interval
    CONSTRAINT "expected_execution_time must be over 0 and at most 168 hours"
        CHECK (VALUE > interval '0' AND VALUE <= interval '168 hours')
    CONSTRAINT "expected_execution_time must be in days or less, not months"
        CHECK (extract(year FROM VALUE) = 0 AND extract(month FROM VALUE) = 0);
COMMENT ON DOMAIN tasktable.task_execution_time IS
    'How long one attempt may take; over 0, at most 7 days (168 hours), without months; a day is 24 hours.';

CREATE DOMAIN tasktable.task_jitter AS interval
    CONSTRAINT "jitter must be over 0 and at most 24 hours, without months"
        CHECK (VALUE > interval '0' AND VALUE <= interval '24 hours'
            AND extract(year FROM VALUE) = 0 AND extract(month FROM VALUE) = 0);
COMMENT ON DOMAIN tasktable.task_jitter IS 'Over how long tasks of one time are spread.';

CREATE DOMAIN tasktable.task_retention AS interval
    CONSTRAINT "retention must be over 0 and at most 100 years, in days or less"
        CHECK (VALUE > interval '0' AND VALUE <= interval '876600 hours'
            AND extract(year FROM VALUE) = 0 AND extract(month FROM VALUE) = 0);
COMMENT ON DOMAIN tasktable.task_retention IS 'How long a finished task is kept.';

CREATE DOMAIN tasktable.task_priority AS integer
    CONSTRAINT "priority must be between -100 and 100"
        CHECK (VALUE BETWEEN -100 AND 100);
COMMENT ON DOMAIN tasktable.task_priority IS 'Priority of a task, -100 to 100; the higher runs first.';

CREATE DOMAIN tasktable.task_max_attempts AS integer
    CONSTRAINT "max_attempts must be between 1 and 1000"
        CHECK (VALUE BETWEEN 1 AND 1000);
COMMENT ON DOMAIN tasktable.task_max_attempts IS
    'How many attempts a revision of a task has before it is FAILED, 1 to 1000.';

CREATE DOMAIN tasktable.task_attempt AS integer
    CONSTRAINT "attempt must not be negative"
        CHECK (VALUE >= 0);
COMMENT ON DOMAIN tasktable.task_attempt IS 'How many attempts have begun.';

CREATE DOMAIN tasktable.task_status AS text
    CONSTRAINT "status must be one of the eight words"
        CHECK (VALUE IN ('QUEUED', 'EXECUTING', 'COMPLETED', 'FAILED', 'EXPIRED', 'CANCELLED', 'PAUSED', 'SKIPPED'));
COMMENT ON DOMAIN tasktable.task_status IS
    'QUEUED, EXECUTING, COMPLETED, FAILED (dead letter), EXPIRED, CANCELLED, PAUSED or SKIPPED.';

CREATE DOMAIN tasktable.task_cron AS text
    CONSTRAINT "cron must be 1 to 256 printable ASCII characters"
        CHECK (char_length(VALUE) <= 256 AND VALUE ~ '^[ -~]+$');
COMMENT ON DOMAIN tasktable.task_cron IS
    'A cron expression of 5 or 6 fields, a descriptor such as @daily, or @every and a duration. An expression that '
    'cannot be read is refused; the leader fails a task that can never fire.';

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

CREATE DOMAIN tasktable.task_catch_up_limit AS integer
    CONSTRAINT "catch_up_limit must be between 1 and 10000"
        CHECK (VALUE BETWEEN 1 AND 10000);
COMMENT ON DOMAIN tasktable.task_catch_up_limit IS 'How many missed fires run, 1 to 10000.';

CREATE DOMAIN tasktable.task_max_occurrences AS integer
    CONSTRAINT "max_occurrences must be between 1 and 1000000"
        CHECK (VALUE BETWEEN 1 AND 1000000);
COMMENT ON DOMAIN tasktable.task_max_occurrences IS 'After how many occurrences a recurring task ends, 1 to 1000000.';

CREATE DOMAIN tasktable.task_author AS text
    CONSTRAINT "scheduled_by must be 1 to 512 bytes without control characters"
        CHECK (octet_length(VALUE) BETWEEN 1 AND 512 AND VALUE !~ '[\u0001-\u001f\u007f-\u009f]');
COMMENT ON DOMAIN tasktable.task_author IS 'Who scheduled a task: 1 to 512 bytes, no control characters.';

-- What W3C Trace Context calls version 00; all zeros are no id there. The tracestate is behind a space.
CREATE DOMAIN tasktable.task_trace AS text
    CONSTRAINT "trace must be a W3C traceparent, at most 512 bytes in all"
        CHECK (octet_length(VALUE) <= 512
            AND VALUE ~ '^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-0[0-3]( [ -~]+)?$');
COMMENT ON DOMAIN tasktable.task_trace IS
    'A traceparent of W3C Trace Context, version 00; behind it, if need be, a space and the tracestate. At most 512 '
    'bytes.';

CREATE TABLE tasktable.scheduled_tasks (
    id                      tasktable.task_id             PRIMARY KEY,
    -- What is to be done, and for whom.
    payload                 tasktable.task_payload        NOT NULL,
    type                    tasktable.task_type           NOT NULL,
    entity                  tasktable.task_entity,
    tenant_id               tasktable.task_tenant_id,
    queue                   tasktable.task_queue          NOT NULL DEFAULT 'default',
    status                  tasktable.task_status         NOT NULL DEFAULT 'QUEUED',
    priority                tasktable.task_priority       NOT NULL DEFAULT 0,
    -- When.
    scheduled_at            tasktable.task_time           NOT NULL DEFAULT clock_timestamp(),
    run_now_at              tasktable.task_time,
    expiration              tasktable.task_expiration,
    jitter                  tasktable.task_jitter,
    -- How.
    expected_execution_time tasktable.task_execution_time NOT NULL DEFAULT interval '5 minutes',
    retention               tasktable.task_retention,
    max_attempts            tasktable.task_max_attempts   NOT NULL DEFAULT 5,
    -- Its state.
    attempt                 tasktable.task_attempt        NOT NULL DEFAULT 0,
    revision                bigint                        NOT NULL,
    next_attempt_at         tasktable.task_instant,
    fence                   bigint,
    lease_expires_at        tasktable.task_instant,
    started_fence           bigint,
    node                    bigint,
    started_at              timestamptz,
    finished_at             timestamptz,
    last_status_update      timestamptz                   NOT NULL DEFAULT clock_timestamp(),
    created_at              timestamptz                   NOT NULL DEFAULT clock_timestamp(),
    paused_until            tasktable.task_limit_time,
    archived_at             timestamptz,
    archived_note           text,
    message                 text,
    result                  jsonb,
    -- Its recurrence.
    cron                    tasktable.task_cron,
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
    open_occurrences_from   timestamptz,
    -- Where it comes from.
    parent_id               tasktable.task_id,
    spawned_by              tasktable.task_id,
    scheduled_by            tasktable.task_author,
    declared_by             text,
    trace                   tasktable.task_trace,
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
COMMENT ON TABLE tasktable.scheduled_tasks IS
    'Every piece of work that must happen at a later time, one row a task. Rows may be inserted, edited and deleted '
    'by plain SQL too: triggers check, fence and record it.';
COMMENT ON COLUMN tasktable.scheduled_tasks.id IS
    'Chosen by the application, task-{TYPE}-{key} by habit: scheduling the same id again edits this row.';
COMMENT ON COLUMN tasktable.scheduled_tasks.type IS
    'The variant, taken from the payload; nothing else may be written to it.';
COMMENT ON COLUMN tasktable.scheduled_tasks.payload IS
    'A discriminated union: the field "type" names the variant, the others are the handler''s.';
COMMENT ON COLUMN tasktable.scheduled_tasks.entity IS
    'What the task is about, as "event:42"; all tasks of an entity can be found, synced and cancelled together.';
COMMENT ON COLUMN tasktable.scheduled_tasks.tenant_id IS
    'Whose task it is, for filters and erasure; the engine does not read it.';
COMMENT ON COLUMN tasktable.scheduled_tasks.queue IS
    'Which nodes may run it: a node lists the queues it works and the slots for each.';
COMMENT ON COLUMN tasktable.scheduled_tasks.status IS
    'QUEUED waits for its time; EXECUTING is claimed; COMPLETED, FAILED, EXPIRED, CANCELLED and SKIPPED are final; '
    'PAUSED waits for a resume.';
COMMENT ON COLUMN tasktable.scheduled_tasks.priority IS 'Among due tasks the higher runs first; -100 to 100.';
COMMENT ON COLUMN tasktable.scheduled_tasks.scheduled_at IS
    'The time asked for. Retries and run_now leave it as it was asked.';
COMMENT ON COLUMN tasktable.scheduled_tasks.run_now_at IS
    'When run_now or retry asked to run the task at once: from then it counts as due, in place of scheduled_at, until '
    'it is scheduled for another time.';
COMMENT ON COLUMN tasktable.scheduled_tasks.expiration IS
    'No attempt starts this long after the task''s time; null: better late than never.';
COMMENT ON COLUMN tasktable.scheduled_tasks.jitter IS
    'Spreads tasks of one time: each is due up to so much later, always by the same amount for the same id and time.';
COMMENT ON COLUMN tasktable.scheduled_tasks.expected_execution_time IS
    'How long an attempt may take before its lease ends and the task is given to another.';
COMMENT ON COLUMN tasktable.scheduled_tasks.retention IS
    'How long the finished task is kept, in place of the configured time.';
COMMENT ON COLUMN tasktable.scheduled_tasks.max_attempts IS
    'After so many failed attempts of one revision the task is FAILED.';
COMMENT ON COLUMN tasktable.scheduled_tasks.attempt IS
    'How many attempts of this revision have begun; it only counts, nothing is matched by it.';
COMMENT ON COLUMN tasktable.scheduled_tasks.revision IS
    'Which edit of the task this is; every edit draws a new number.';
COMMENT ON COLUMN tasktable.scheduled_tasks.next_attempt_at IS
    'When the task is due next; set exactly when it can be claimed, so one small index serves all looking.';
COMMENT ON COLUMN tasktable.scheduled_tasks.fence IS
    'Number of the claim that holds the task. A held task cannot be claimed, however it is edited; only the holder or '
    'the reclaimer ends the hold.';
COMMENT ON COLUMN tasktable.scheduled_tasks.lease_expires_at IS
    'The lease: past it the claim is lost and the task is given to another.';
COMMENT ON COLUMN tasktable.scheduled_tasks.started_fence IS
    'The latest claim whose attempt ran for a second or longer: then its node writes started_at and node while it '
    'runs. Null: none has.';
COMMENT ON COLUMN tasktable.scheduled_tasks.node IS
    'Number of the node that runs, or ran, the attempt of started_fence.';
COMMENT ON COLUMN tasktable.scheduled_tasks.started_at IS
    'When the last settled attempt began; where started_fence is fence, when the one that runs began.';
COMMENT ON COLUMN tasktable.scheduled_tasks.finished_at IS 'When the status became final; null while it is not.';
COMMENT ON COLUMN tasktable.scheduled_tasks.last_status_update IS 'When the status changed last.';
COMMENT ON COLUMN tasktable.scheduled_tasks.created_at IS 'When the row was inserted.';
COMMENT ON COLUMN tasktable.scheduled_tasks.paused_until IS 'When a PAUSED task is resumed by itself.';
COMMENT ON COLUMN tasktable.scheduled_tasks.archived_at IS 'When somebody marked the dead letter as dealt with.';
COMMENT ON COLUMN tasktable.scheduled_tasks.archived_note IS 'What they noted.';
COMMENT ON COLUMN tasktable.scheduled_tasks.message IS 'The last error, or the note of the handler.';
COMMENT ON COLUMN tasktable.scheduled_tasks.result IS 'What the handler returned with Result.';
COMMENT ON COLUMN tasktable.scheduled_tasks.cron IS
    'Makes the task a recurring one: the leader forks an occurrence, {id}@{fire time}, at each fire.';
COMMENT ON COLUMN tasktable.scheduled_tasks.time_zone IS
    'The zone whose clocks the expression means; UTC unless given.';
COMMENT ON COLUMN tasktable.scheduled_tasks.overlap IS
    'A fire while an earlier occurrence has not ended: skip (it becomes a SKIPPED row), allow, or cancel_running.';
COMMENT ON COLUMN tasktable.scheduled_tasks.catch_up IS
    'Fires missed while no leader was there: latest runs one, all runs each up to catch_up_limit, none runs none. '
    'What does not run becomes a SKIPPED row.';
COMMENT ON COLUMN tasktable.scheduled_tasks.catch_up_paused IS
    'The same for fires missed while this task, its queue, its type or everything was paused; none unless given.';
COMMENT ON COLUMN tasktable.scheduled_tasks.catch_up_limit IS
    'How many missed fires catch_up = all runs at most, the latest; 100 unless given.';
COMMENT ON COLUMN tasktable.scheduled_tasks.ends_at IS 'No fire after this.';
COMMENT ON COLUMN tasktable.scheduled_tasks.max_occurrences IS 'No fire after so many occurrences.';
COMMENT ON COLUMN tasktable.scheduled_tasks.occurrence_count IS
    'How many occurrences were forked to run; skipped ones do not count.';
COMMENT ON COLUMN tasktable.scheduled_tasks.planned_revision IS
    'Of a recurring task: the revision whose next fire is in next_attempt_at. Another than revision asks the leader '
    'to plan it.';
COMMENT ON COLUMN tasktable.scheduled_tasks.planned_wall IS
    'Of a recurring task: what the clocks of its zone are to show at the next fire; null for @every.';
COMMENT ON COLUMN tasktable.scheduled_tasks.planned_zone_data IS
    'Fingerprint of the zone data that the next fire was planned with. The leader plans anew with other data.';
COMMENT ON COLUMN tasktable.scheduled_tasks.open_occurrences_from IS
    'Of a recurring task: all occurrences of earlier times have ended; where the look for one that has not begins.';
COMMENT ON COLUMN tasktable.scheduled_tasks.parent_id IS
    'Of an occurrence: the recurring task; no foreign key, the occurrence outlives it.';
COMMENT ON COLUMN tasktable.scheduled_tasks.spawned_by IS
    'Of a follow-up: the task whose handler asked for it; no foreign key, the follow-up outlives it.';
COMMENT ON COLUMN tasktable.scheduled_tasks.scheduled_by IS 'The service that scheduled the task first.';
COMMENT ON COLUMN tasktable.scheduled_tasks.declared_by IS
    'The service in whose code the recurring task is declared; null for one that was scheduled.';
COMMENT ON COLUMN tasktable.scheduled_tasks.trace IS
    'The span in which the task was scheduled, to which its executions link. Not content: a change of it alone is no '
    'edit, and no line of changes has it.';

CREATE INDEX scheduled_tasks_claimable ON tasktable.scheduled_tasks (queue, type, priority, next_attempt_at)
    WHERE next_attempt_at IS NOT NULL AND cron IS NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_claimable IS
    'What can be claimed, by lane and time: serves the peek, the list of lanes and the claim. Holds waiting tasks '
    'only.';

CREATE INDEX scheduled_tasks_recurring ON tasktable.scheduled_tasks (queue, type, next_attempt_at)
    WHERE next_attempt_at IS NOT NULL AND cron IS NOT NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_recurring IS 'Recurring tasks by their next fire.';

CREATE INDEX scheduled_tasks_lease_expires_at ON tasktable.scheduled_tasks (lease_expires_at)
    WHERE lease_expires_at IS NOT NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_lease_expires_at IS
    'Claims by the end of their lease. Views and the doctor find running and stuck tasks by it. The engine does not '
    'read it.';

CREATE INDEX scheduled_tasks_paused_until ON tasktable.scheduled_tasks (paused_until) WHERE paused_until IS NOT NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_paused_until IS 'Paused tasks that resume by themselves.';

CREATE INDEX scheduled_tasks_entity ON tasktable.scheduled_tasks (entity)
    WHERE entity IS NOT NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_entity IS 'All tasks of an entity, for sync and for audit.';

CREATE INDEX scheduled_tasks_parent ON tasktable.scheduled_tasks (parent_id, scheduled_at) WHERE parent_id IS NOT NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_parent IS 'The occurrences of a recurring task, by time.';

CREATE INDEX scheduled_tasks_spawned_by ON tasktable.scheduled_tasks (spawned_by) WHERE spawned_by IS NOT NULL;
COMMENT ON INDEX tasktable.scheduled_tasks_spawned_by IS 'The follow-ups of a task. Holds nothing of other tasks.';

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
COMMENT ON TABLE tasktable.scheduled_task_executions IS
    'What came of each claim, one line a claim, written when it ends. Append-only: updates are refused, deletes too '
    'but for retention.';
COMMENT ON COLUMN tasktable.scheduled_task_executions.fence IS 'The claim''s number.';
COMMENT ON COLUMN tasktable.scheduled_task_executions.task_id IS
    'The task; no foreign key, the line outlives the task.';
COMMENT ON COLUMN tasktable.scheduled_task_executions.type IS 'The task''s type at the claim.';
COMMENT ON COLUMN tasktable.scheduled_task_executions.revision IS 'The revision that was claimed.';
COMMENT ON COLUMN tasktable.scheduled_task_executions.attempt IS 'Which attempt of the revision it was.';
COMMENT ON COLUMN tasktable.scheduled_task_executions.scheduled_at IS 'The time the task had been scheduled for.';
COMMENT ON COLUMN tasktable.scheduled_task_executions.due_at IS
    'When this attempt was due: scheduled_at, or later after a retry, or when run_now was asked. Null where the claim '
    'was lost.';
COMMENT ON COLUMN tasktable.scheduled_task_executions.started_at IS
    'When the handler was let go; null where it never was, or where the node died within the attempt''s first two '
    'seconds.';
COMMENT ON COLUMN tasktable.scheduled_task_executions.finished_at IS 'When the claim ended.';
COMMENT ON COLUMN tasktable.scheduled_task_executions.outcome IS
    'COMPLETED; FAILED (for good); RETRIED (failed, runs again); SNOOZED; LOST (its node or lease ended); SUPERSEDED '
    '(edited or cancelled meanwhile); EXPIRED; INTERRUPTED (shutdown); RELEASED (claimed, never started, handed '
    'back); CANCELLED (cancelled before it started).';
COMMENT ON COLUMN tasktable.scheduled_task_executions.error IS 'What the handler returned, or why the claim ended.';
COMMENT ON COLUMN tasktable.scheduled_task_executions.node IS 'Number of the node that ran it.';

CREATE INDEX scheduled_task_executions_task ON tasktable.scheduled_task_executions (task_id, fence);
COMMENT ON INDEX tasktable.scheduled_task_executions_task IS 'The history of one task.';

-- Of ranges of pages, not of rows: it stays a few pages large, and costs a settle next to nothing. New lines lie together by time.
CREATE INDEX scheduled_task_executions_time ON tasktable.scheduled_task_executions
    USING brin (finished_at, date_bin('1 hour', finished_at, '2000-01-01 00:00:00+00')) WITH (autosummarize = on);
COMMENT ON INDEX tasktable.scheduled_task_executions_time IS
    'The history of a time, and of an hour as the views by hour have it.';

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
COMMENT ON TABLE tasktable.scheduled_task_changes IS
    'Each edit, verb and delete of a task, one line each, by whatever way it came. Append-only: updates are refused, '
    'deletes too but for retention.';
COMMENT ON COLUMN tasktable.scheduled_task_changes.revision IS
    'The revision that the change made; of a delete, and of the pause or resume of a claimed task, a number of its '
    'own.';
COMMENT ON COLUMN tasktable.scheduled_task_changes.task_id IS 'The task; no foreign key, the line outlives the task.';
COMMENT ON COLUMN tasktable.scheduled_task_changes.verb IS
    'schedule, reschedule, sync, cancel, pause, resume, run_now, retry, delete, again, or sql for an edit by plain '
    'SQL.';
COMMENT ON COLUMN tasktable.scheduled_task_changes.outcome IS
    'created, rescheduled, rearmed, cancelled, paused, queued, edited (a finished task, by plain SQL) or deleted.';
COMMENT ON COLUMN tasktable.scheduled_task_changes.changed_at IS 'When.';
COMMENT ON COLUMN tasktable.scheduled_task_changes.changed_by IS
    'The service or task that asked, else the setting tasktable_change.by, else the database role.';
COMMENT ON COLUMN tasktable.scheduled_task_changes.old IS 'The changed fields as they were; of a deleted task, all.';
COMMENT ON COLUMN tasktable.scheduled_task_changes.new IS
    'The changed fields as they became; of a created task, its type and time.';

CREATE INDEX scheduled_task_changes_task ON tasktable.scheduled_task_changes (task_id, revision);
COMMENT ON INDEX tasktable.scheduled_task_changes_task IS 'The changes of one task.';

CREATE TABLE tasktable.nodes (
    number            bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    service           text        NOT NULL,
    version           text        NOT NULL,
    host              text        NOT NULL,
    queues            jsonb       NOT NULL,
    types             text[]      NOT NULL,
    shares_slots      boolean     NOT NULL DEFAULT false,
    transactional     text[]      NOT NULL DEFAULT '{}',
    places            integer     NOT NULL DEFAULT 0,
    averages          jsonb       NOT NULL DEFAULT '{}',
    declaration_hash  text,
    receives_failures boolean     NOT NULL DEFAULT false,
    retention_refused text,
    zone_data         jsonb,
    started_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    elected_at        timestamptz,
    last_seen_at      timestamptz,
    dead_at           timestamptz
);
COMMENT ON TABLE tasktable.nodes IS
    'One line for each running engine and each that ever ran. A live one holds an advisory lock on its number.';
COMMENT ON COLUMN tasktable.nodes.number IS
    'New for each process and each new session; also the id of its River client.';
COMMENT ON COLUMN tasktable.nodes.service IS 'The service it belongs to.';
COMMENT ON COLUMN tasktable.nodes.version IS 'The service''s version.';
COMMENT ON COLUMN tasktable.nodes.host IS 'Host and process id.';
COMMENT ON COLUMN tasktable.nodes.queues IS 'The queues it works, with the slots for each; none while it is quiet.';
COMMENT ON COLUMN tasktable.nodes.types IS 'The types it has handlers for; none while it is quiet.';
COMMENT ON COLUMN tasktable.nodes.shares_slots IS 'Idle slots of one of its queues serve the others.';
COMMENT ON COLUMN tasktable.nodes.transactional IS 'Those of its types whose handlers run in a transaction.';
COMMENT ON COLUMN tasktable.nodes.places IS 'How many such handlers it runs at once.';
COMMENT ON COLUMN tasktable.nodes.averages IS
    'How long its handlers run, by type, in microseconds; types that have run often enough to tell.';
COMMENT ON COLUMN tasktable.nodes.declaration_hash IS
    'Which set of recurring tasks its code declares, as a hash; null: none.';
COMMENT ON COLUMN tasktable.nodes.receives_failures IS 'It is told of dead tasks and lost claims of its types.';
COMMENT ON COLUMN tasktable.nodes.retention_refused IS
    'What retention could not remove when this node last went through the tables; null: nothing.';
COMMENT ON COLUMN tasktable.nodes.zone_data IS
    'Fingerprints of the node''s data of the time zones that recurring tasks use. Nodes with others plan other fires.';
COMMENT ON COLUMN tasktable.nodes.started_at IS 'When it began.';
COMMENT ON COLUMN tasktable.nodes.elected_at IS
    'When it last began to lead; null if it never did. Who leads is the newest of those that live.';
COMMENT ON COLUMN tasktable.nodes.last_seen_at IS
    'Its last sign of life, noted when its lock is found free; 5 seconds after it the node counts as dead.';
COMMENT ON COLUMN tasktable.nodes.dead_at IS
    'When it ended: said by itself on a graceful stop, else by the leader; null while it lives.';

CREATE INDEX nodes_live ON tasktable.nodes (number) WHERE dead_at IS NULL;
COMMENT ON INDEX tasktable.nodes_live IS 'The nodes not known to be dead.';

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
COMMENT ON TABLE tasktable.pauses IS
    'What is or was paused as a whole: everything, a queue or a type. Nothing of it is claimed or started; running '
    'handlers finish. One line a pause, also of those that are over.';
COMMENT ON COLUMN tasktable.pauses.number IS 'From the sequence of revisions and fences.';
COMMENT ON COLUMN tasktable.pauses.scope IS 'all, queue or type.';
COMMENT ON COLUMN tasktable.pauses.name IS 'Which queue or type; empty for all.';
COMMENT ON COLUMN tasktable.pauses.paused_at IS 'Since when.';
COMMENT ON COLUMN tasktable.pauses.paused_by IS 'Who asked for it.';
COMMENT ON COLUMN tasktable.pauses.ends_at IS 'When the pause ends by itself, or ended; null: when somebody resumes.';
COMMENT ON COLUMN tasktable.pauses.resumed_by IS 'Who ended it; null: nobody did yet, or it ended by itself.';
COMMENT ON COLUMN tasktable.pauses.reason IS 'Why.';
COMMENT ON COLUMN tasktable.pauses.planned_end IS
    'Of a pause that somebody ended: when it would have ended by itself. Null: only when somebody resumed it, or '
    'nobody has ended it.';

CREATE INDEX pauses_ends_at ON tasktable.pauses (ends_at);
COMMENT ON INDEX tasktable.pauses_ends_at IS 'The pauses that hold, and those of a time.';

CREATE TABLE tasktable.applications (
    role    text NOT NULL,
    service text NOT NULL,
    PRIMARY KEY (role, service)
);
COMMENT ON TABLE tasktable.applications IS
    'Which application role schedules and reads the tasks of which service. Written by the script of the roles; empty '
    'without it.';
COMMENT ON COLUMN tasktable.applications.role IS 'The database role.';
COMMENT ON COLUMN tasktable.applications.service IS
    'What its tasks have in scheduled_by; empty: it has those of all services.';
-- +goose StatementEnd

-- +goose Down
DROP TABLE tasktable.applications, tasktable.pauses, tasktable.nodes, tasktable.scheduled_task_changes,
    tasktable.scheduled_task_executions, tasktable.scheduled_tasks;
DROP DOMAIN tasktable.task_trace, tasktable.task_author, tasktable.task_max_occurrences, tasktable.task_catch_up_limit,
    tasktable.task_catch_up, tasktable.task_overlap, tasktable.task_time_zone, tasktable.task_cron,
    tasktable.task_status, tasktable.task_attempt, tasktable.task_max_attempts, tasktable.task_priority,
    tasktable.task_retention, tasktable.task_jitter, tasktable.task_execution_time, tasktable.task_expiration,
    tasktable.task_instant, tasktable.task_limit_time, tasktable.task_time, tasktable.task_queue,
    tasktable.task_tenant_id, tasktable.task_entity, tasktable.task_payload, tasktable.task_type, tasktable.task_id;
DROP SEQUENCE tasktable.task_numbers;
