-- Notices: messages to people about what happened to tasks. A notice is itself a task, of type NOTICE.
--
-- The transaction that settles a cause also schedules its notice, so that neither exists without the other. A rule says
-- which causes make a notice, and who gets it. Causes of one rule, recipient and window share one notice, a digest.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE tasktable.notice_recipients (
    name   text COLLATE "C" PRIMARY KEY,
    email  text,
    target text,
    events text[],
    CONSTRAINT "name must be 1 to 63 letters, digits or _.-" CHECK (name ~ '^[A-Za-z0-9_.-]{1,63}$'),
    CONSTRAINT "a recipient has either an email or a target" CHECK (num_nonnulls(email, target) = 1),
    CONSTRAINT "email must be one address without spaces"
        CHECK (email ~ '^[^[:space:][:cntrl:]@]+@[^[:space:][:cntrl:]@]+$' AND octet_length(email) <= 320),
    CONSTRAINT "target must be 1 to 63 letters, digits or _.-" CHECK (target ~ '^[A-Za-z0-9_.-]{1,63}$'),
    CONSTRAINT "events must be of failed, expired, lost, late, missed, unsuccessful, recovered"
        CHECK (events <@ ARRAY['failed', 'expired', 'lost', 'late', 'missed', 'unsuccessful', 'recovered'])
);
COMMENT ON TABLE tasktable.notice_recipients IS 'Who gets notices, one row a recipient: an address, and what the '
    'recipient wants to be told. It has no URLs and no tokens. Those are in the configuration of the nodes.';

CREATE TABLE tasktable.notice_rules (
    name        text COLLATE "C"           PRIMARY KEY,
    events      text[]                     NOT NULL,
    types       tasktable.task_type[],
    queues      tasktable.task_queue[],
    tenants     tasktable.task_tenant_id[],
    entities    tasktable.task_entity[],
    recurring   tasktable.task_id[],
    after       interval                   NOT NULL DEFAULT interval '5 minutes',
    digest      interval                   DEFAULT interval '1 minute',
    details     boolean                    NOT NULL DEFAULT true,
    enabled     boolean                    NOT NULL DEFAULT true,
    declared_by text,
    CONSTRAINT "name must be 1 to 63 letters, digits or _.-" CHECK (name ~ '^[A-Za-z0-9_.-]{1,63}$'),
    CONSTRAINT "events must be of failed, expired, lost, late, missed, unsuccessful, recovered" CHECK (
        cardinality(events) > 0
        AND events <@ ARRAY['failed', 'expired', 'lost', 'late', 'missed', 'unsuccessful', 'recovered']),
    CONSTRAINT "types, queues, tenants, entities, recurring: null, or 1 to 100 values" CHECK (
        (cardinality(types) BETWEEN 1 AND 100) IS NOT FALSE AND (cardinality(queues) BETWEEN 1 AND 100) IS NOT FALSE
        AND (cardinality(tenants) BETWEEN 1 AND 100) IS NOT FALSE
        AND (cardinality(entities) BETWEEN 1 AND 100) IS NOT FALSE
        AND (cardinality(recurring) BETWEEN 1 AND 100) IS NOT FALSE
        AND num_nonnulls(array_position(types, NULL), array_position(queues, NULL), array_position(tenants, NULL),
            array_position(entities, NULL), array_position(recurring, NULL)) = 0),
    -- date_bin refuses months.
    CONSTRAINT "digest must be between 1 second and 7 days" CHECK (digest BETWEEN interval '1 second'
        AND interval '168 hours' AND extract(year FROM digest) = 0 AND extract(month FROM digest) = 0),
    CONSTRAINT "after must be between 1 second and 366 days" CHECK (after BETWEEN interval '1 second'
        AND interval '8784 hours' AND extract(year FROM after) = 0 AND extract(month FROM after) = 0)
);
COMMENT ON TABLE tasktable.notice_rules IS 'Which causes make a notice, one row a rule. A column of tasks that is null '
    'matches all tasks.';

CREATE TABLE tasktable.notice_rule_recipients (
    rule      text COLLATE "C" NOT NULL REFERENCES tasktable.notice_rules ON DELETE CASCADE,
    recipient text COLLATE "C" NOT NULL REFERENCES tasktable.notice_recipients,
    PRIMARY KEY (rule, recipient)
);
COMMENT ON TABLE tasktable.notice_rule_recipients IS 'Who gets the notices of a rule.';
CREATE INDEX notice_rule_recipients_recipient ON tasktable.notice_rule_recipients (recipient);
COMMENT ON INDEX tasktable.notice_rule_recipients_recipient IS 'The rules of a recipient.';

-- A notice does not find its causes in the history by their time. The settle of a cause could commit after the notice
-- was sent, although the cause has an earlier time, and nobody would be told.
CREATE TABLE tasktable.notice_causes (
    notice_id text COLLATE "C" NOT NULL,
    number    bigint           NOT NULL,
    event     text             NOT NULL,
    task_id   text COLLATE "C" NOT NULL,
    type      text             NOT NULL,
    at        timestamptz      NOT NULL,
    detail    text,
    PRIMARY KEY (notice_id, number)
);
COMMENT ON TABLE tasktable.notice_causes IS 'What each notice tells, one row a cause. The notice reads them when it is '
    'sent. Retention removes them after 30 days.';
CREATE INDEX notice_causes_task ON tasktable.notice_causes (task_id);
COMMENT ON INDEX tasktable.notice_causes_task IS 'The causes of one task, for erase.';
CREATE INDEX notice_causes_at ON tasktable.notice_causes USING brin (at);
COMMENT ON INDEX tasktable.notice_causes_at IS 'The causes that are older than 30 days.';

CREATE TABLE tasktable.notice_episodes (
    rule      text COLLATE "C" NOT NULL REFERENCES tasktable.notice_rules ON DELETE CASCADE,
    event     text             NOT NULL,
    subject   text COLLATE "C" NOT NULL,
    task_id   text COLLATE "C" NOT NULL,
    type      text             NOT NULL,
    queue     text             NOT NULL,
    tenant_id text,
    entity    text,
    began_at  timestamptz      NOT NULL,
    PRIMARY KEY (rule, event, subject)
);
COMMENT ON TABLE tasktable.notice_episodes IS 'What is late, missed, unsuccessful or a dead letter now, one row each. '
    'A row is made when it is told, and removed when it has recovered. So each episode is told once.';

CREATE FUNCTION tasktable.insert_notice(id text, rule text, recipient text, at timestamptz) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    former CONSTANT text := tasktable.enter_change('schedule', 'notices', at <= tasktable.asked_now()
        + interval '2 seconds');
    made   boolean;
BEGIN
    INSERT INTO tasktable.scheduled_tasks AS t (id, payload, queue, scheduled_at, priority, expiration, max_attempts,
        scheduled_by)
    VALUES (insert_notice.id, jsonb_build_object('type', 'NOTICE', 'rule', rule, 'recipient', recipient),
        coalesce((SELECT w.queue FROM tasktable.scheduled_tasks AS w WHERE w.id = 'notice-watch'), 'default'), at, 100,
        interval '168 hours', 10, 'notices')
    ON CONFLICT ON CONSTRAINT scheduled_tasks_pkey DO NOTHING;
    made := FOUND;
    PERFORM tasktable.leave_change(former);
    RETURN made;
EXCEPTION WHEN OTHERS THEN
    -- A settle is repeated after an error of these classes: rollback, resources, locks, operators, the system, and
    -- faults of Postgres itself. Any other error, such as that of an application's own trigger, or a row too large for
    -- an application's index, would come again, and must not keep a task from being settled.
    IF left(SQLSTATE, 2) IN ('25', '40', '53', '55', '57', '58', 'XX') THEN
        RAISE;
    END IF;
    PERFORM tasktable.leave_change(former);
    RAISE WARNING 'notice "%" could not be scheduled: %', insert_notice.id, SQLERRM;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION tasktable.insert_notice IS 'Schedules a notice, in the queue of the recurring task notice-watch. '
    'False: there is a task with its id. Null: an error that would come again, which is in the log of Postgres.';

CREATE FUNCTION tasktable.open_notice(
    rule text, recipient text, number bigint, at timestamptz, digest interval
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    notice text;
    due    timestamptz;
    locked boolean := false;
BEGIN
    FOR tries IN 1..100 LOOP
        due := coalesce(date_bin(digest, at, '2000-01-01 00:00:00+00') + digest, at); -- the end of the window
        EXIT WHEN due = at; -- at once, and so alone
        notice := format('notice/%s/%s/%s', rule, recipient,
            to_char(due AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'));
        -- Until this transaction ends, the lock keeps the leader from claiming the notice. Otherwise the notice could
        -- be sent before it shows this cause. A notice that was claimed once is closed, because each of its attempts
        -- must say the same.
        PERFORM FROM tasktable.scheduled_tasks AS t
        WHERE t.id = notice AND t.type = 'NOTICE' AND t.status IN ('QUEUED', 'PAUSED') AND t.fence IS NULL
            AND t.attempt = 0
        FOR KEY SHARE SKIP LOCKED;
        IF FOUND THEN
            RETURN notice;
        END IF;
        IF EXISTS (SELECT FROM tasktable.scheduled_tasks AS t WHERE t.id = notice) THEN
            at := due; -- it is closed, so the cause goes to the next window
            CONTINUE;
        END IF;
        -- Without the lock, two transactions that make the notices of two rules in different orders would wait for
        -- each other.
        IF NOT locked THEN
            PERFORM pg_advisory_xact_lock(hashtextextended('tasktable.notices', 0));
            locked := true;
        END IF;
        CASE tasktable.insert_notice(notice, rule, recipient, due)
            WHEN true THEN RETURN notice;
            WHEN false THEN CONTINUE; -- another transaction has just made it
            ELSE RETURN NULL;
        END CASE;
    END LOOP;
    notice := format('notice/%s/%s/%s', rule, recipient, number);
    RETURN CASE WHEN tasktable.insert_notice(notice, rule, recipient, due) IS NOT NULL THEN notice END;
END $$;
COMMENT ON FUNCTION tasktable.open_notice IS 'The id of the notice that tells a cause to a recipient. The notice is '
    'scheduled, unless it was. Null: it could not be.';

CREATE FUNCTION tasktable.recurring_id(task_id text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT regexp_replace(task_id, '@[^@]*$', '')
$$;
COMMENT ON FUNCTION tasktable.recurring_id IS 'The id of the recurring task of an occurrence, by the id of the '
    'occurrence. Another id without an @ stays as it is.';

CREATE FUNCTION tasktable.add_cause(
    events text[], number bigint, at timestamptz, task_id text, type text, queue text, tenant_id text, entity text,
    detail text DEFAULT NULL, rule text DEFAULT NULL
) RETURNS integer LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    one    record;
    notice text;
    told   integer := 0;
BEGIN
    IF add_cause.type IN ('NOTICE', 'NOTICE_WATCH') THEN
        RETURN 0; -- a notice that fails must not make a notice
    END IF;
    FOR one IN
        SELECT r.name AS rule, p.name AS recipient, e.event, r.digest, 'recovered' = ANY (r.events) AS recovers
        FROM tasktable.notice_rules AS r
        JOIN tasktable.notice_rule_recipients AS m ON m.rule = r.name
        JOIN tasktable.notice_recipients AS p ON p.name = m.recipient
        CROSS JOIN LATERAL (
            -- The first of the events that the rule and the recipient have.
            SELECT u.event FROM unnest(add_cause.events) WITH ORDINALITY AS u (event, place)
            WHERE u.event = ANY (r.events) AND (p.events IS NULL OR u.event = ANY (p.events))
            ORDER BY u.place LIMIT 1
        ) AS e
        WHERE r.enabled AND (add_cause.rule IS NULL OR r.name = add_cause.rule)
            AND (r.types IS NULL OR add_cause.type = ANY (r.types::text[]))
            AND (r.queues IS NULL OR add_cause.queue = ANY (r.queues::text[]))
            AND (r.tenants IS NULL OR add_cause.tenant_id = ANY (r.tenants::text[]))
            AND (r.entities IS NULL OR add_cause.entity = ANY (r.entities::text[]))
            AND (r.recurring IS NULL OR add_cause.task_id = ANY (r.recurring::text[])
                OR tasktable.recurring_id(add_cause.task_id) = ANY (r.recurring::text[]))
        ORDER BY r.name, p.name
    LOOP
        notice := tasktable.open_notice(one.rule, one.recipient, add_cause.number, add_cause.at, one.digest);
        IF notice IS NOT NULL THEN
            INSERT INTO tasktable.notice_causes (notice_id, number, event, task_id, type, at, detail)
            VALUES (notice, add_cause.number, one.event, add_cause.task_id, add_cause.type, add_cause.at,
                add_cause.detail);
            told := told + 1;
            -- The watch ends it when the task has completed after all. A task without a queue is gone.
            IF one.recovers AND one.event IN ('failed', 'expired') AND add_cause.queue IS NOT NULL THEN
                INSERT INTO tasktable.notice_episodes (rule, event, subject, task_id, type, queue, tenant_id, entity,
                    began_at)
                VALUES (one.rule, one.event, add_cause.task_id, add_cause.task_id, add_cause.type, add_cause.queue,
                    add_cause.tenant_id, add_cause.entity, add_cause.at)
                ON CONFLICT DO NOTHING;
            END IF;
        END IF;
    END LOOP;
    RETURN told;
END $$;
COMMENT ON FUNCTION tasktable.add_cause IS 'Adds a cause to the notices of all rules that match it, or of one rule. Of '
    'several events each rule takes the first that it has. Returns the number of notices.';

CREATE FUNCTION tasktable.after_death() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    patience CONSTANT text := current_setting('lock_timeout');
    task     record;
    events   text[] := ARRAY[lower(NEW.outcome)];
BEGIN
    IF NOT EXISTS (SELECT FROM tasktable.notice_rules) THEN
        RETURN NULL;
    END IF;
    SELECT t.queue::text, t.tenant_id::text, t.entity::text, t.status::text, t.revision INTO task
    FROM tasktable.scheduled_tasks AS t WHERE t.id = NEW.task_id;
    -- The last attempt was lost, so the task runs no more.
    IF NEW.outcome = 'LOST' AND task.status = 'FAILED' AND task.revision = NEW.revision THEN
        events := ARRAY['failed', 'lost'];
    END IF;
    -- Another transaction may be making the same notice, and its process may be stopped. After this time the settle
    -- fails, and the node repeats it in smaller parts, as after_task_end explains.
    PERFORM set_config('lock_timeout', '20ms', true);
    PERFORM tasktable.add_cause(events, NEW.fence, NEW.finished_at, NEW.task_id, NEW.type, task.queue, task.tenant_id,
        task.entity);
    PERFORM set_config('lock_timeout', patience, true);
    RETURN NULL;
END $$;
COMMENT ON FUNCTION tasktable.after_death IS 'Adds a task that failed for good or expired, and an attempt that was '
    'lost, to the notices of the rules that match.';

CREATE TRIGGER notice AFTER INSERT ON tasktable.scheduled_task_executions
    FOR EACH ROW WHEN (NEW.outcome IN ('FAILED', 'EXPIRED', 'LOST')) EXECUTE FUNCTION tasktable.after_death();
COMMENT ON TRIGGER notice ON tasktable.scheduled_task_executions IS 'Schedules notices in the transaction that records '
    'their cause. Of other outcomes it costs only its condition.';

DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT 'notice_recipients' AS relation, c.* FROM (VALUES
            ('name', 'Chosen by the operator.'),
            ('email', 'The address of an e-mail. Null: the recipient has a target.'),
            ('target', 'Name of a target in the configuration of the nodes, which has the URL. Null: there is an '
                'email.'),
            ('events', 'The events that the recipient wants to be told. Null: all those of the rules.')
        ) AS c (name, text)
        UNION ALL
        SELECT 'notice_rules', c.* FROM (VALUES
            ('name', 'Chosen by the operator or by the code.'),
            ('events', 'failed (for good), expired, lost (an attempt), late (due since more than "after"), missed (a '
                'fire of a recurring task is more than "after" late, or came so late), unsuccessful (a recurring '
                'task has not succeeded for more than "after") and recovered (late, missed or unsuccessful no more, or '
                'a task that had failed or expired has completed).'),
            ('types', 'The types of the tasks. Null: all.'),
            ('queues', 'Their queues. Null: all.'),
            ('tenants', 'Their tenants. Null: all, and tasks without one.'),
            ('entities', 'Their entities. Null: all, and tasks without one.'),
            ('recurring', 'Ids of recurring tasks. They and their occurrences match. Null: all tasks.'),
            ('after', 'How long something lasts before it is late, missed or unsuccessful.'),
            ('digest', 'Length of the windows. All causes of a window are one notice at its end. Null: each cause is '
                'a notice of its own, at once.'),
            ('details', 'Whether the text has the errors of the tasks.'),
            ('enabled', 'Whether the rule makes notices.'),
            ('declared_by', 'The service whose code declares the rule. Null: an operator made it.')
        ) AS c (name, text)
        UNION ALL
        SELECT 'notice_rule_recipients', c.* FROM (VALUES
            ('rule', 'The rule.'),
            ('recipient', 'The recipient.')
        ) AS c (name, text)
        UNION ALL
        SELECT 'notice_episodes', c.* FROM (VALUES
            ('rule', 'The rule that tells it.'),
            ('event', 'late, missed, unsuccessful, failed or expired. The last two are only of rules that have the '
                'event recovered.'),
            ('subject', 'For late: the queue and the type. Else: the task.'),
            ('task_id', 'The first late task, the recurring task or the dead letter.'),
            ('type', 'Its type.'),
            ('queue', 'Its queue.'),
            ('tenant_id', 'Its tenant, or null.'),
            ('entity', 'Its entity, or null.'),
            ('began_at', 'When it was told.')
        ) AS c (name, text)
        UNION ALL
        SELECT 'notice_causes', c.* FROM (VALUES
            ('notice_id', 'The task that tells this cause. No foreign key, because the cause is kept apart.'),
            ('number', 'Number of the claim that ended, or else a number of its own.'),
            ('event', 'The event, as in notice_rules.'),
            ('task_id', 'The task. No foreign key, because the row outlives the task.'),
            ('type', 'Type of the task.'),
            ('at', 'When it happened.'),
            ('detail', 'What happened, in words. Null: the history has the error, by the number.')
        ) AS c (name, text)
    LOOP
        EXECUTE format('COMMENT ON COLUMN tasktable.%I.%I IS %L', one.relation, one.name, one.text);
    END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER notice ON tasktable.scheduled_task_executions;
DROP FUNCTION tasktable.after_death, tasktable.add_cause, tasktable.recurring_id, tasktable.open_notice,
    tasktable.insert_notice;
DROP TABLE tasktable.notice_episodes, tasktable.notice_causes, tasktable.notice_rule_recipients, tasktable.notice_rules,
    tasktable.notice_recipients;
