-- A week of an application in the schema tasktable, which is new: its tasks with their attempts and changes, its nodes,
-- keys and notices. The rows are those that the engine and the verbs would have left. The triggers are off meanwhile,
-- because they date each change with the present time. There is no randomness beside the seed.
SELECT setseed(0.7);
ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER;
ALTER TABLE tasktable.scheduled_task_executions DISABLE TRIGGER USER;
ALTER TABLE tasktable.scheduled_task_changes DISABLE TRIGGER USER;

-- What happened to all: a new version, 40 minutes without any node, and the death of a node.
CREATE TEMP TABLE calendar ON COMMIT DROP AS
SELECT now() AS now, now() - interval '7 days' AS began, now() - interval '5 days' AS rollout,
    now() - interval '3 days' AS down, now() - interval '3 days' + interval '40 minutes' AS up,
    now() - interval '1 day' AS death, now() - interval '2 days' AS burst;

INSERT INTO tasktable.nodes (service, version, host, queues, types, started_at, elected_at, last_seen_at, dead_at)
SELECT 'club', n.version, n.host, '{"default": 10, "mail": 4, "webhooks": 4, "newsletter": 2}',
    '{LOG,SEND_EMAIL,SEND_EVENT_REMINDER,PUBLISH_POST,HTTP_REQUEST,SYNC_PARTNER_CALENDAR}', n.started,
    CASE WHEN n.leads THEN n.started + interval '1 s' END, CASE WHEN n.killed THEN n.ended - interval '5 s' END, n.ended
FROM calendar AS c, LATERAL (VALUES
    ('2.3.1', 'worker-a/11', began - interval '2 days', rollout, true, false),
    ('2.3.1', 'worker-b/11', began - interval '2 days', rollout + interval '2 minutes', false, false),
    ('2.4.0', 'worker-a/12', rollout + interval '10 s', down, false, false),
    ('2.4.0', 'worker-b/12', rollout + interval '130 s', down + interval '1 s', true, false),
    ('2.4.1', 'worker-a/13', up, c.now - interval '3 s', true, false),
    ('2.4.1', 'worker-b/13', up + interval '2 s', death, false, true),
    ('2.4.1', 'worker-b/14', death + interval '40 s', c.now - interval '3 s', false, false)
) AS n (version, host, started, ended, leads, killed) ORDER BY n.started;

-- The tasks. Each letter of ends is the outcome of an attempt: Completed, Retried, Failed, Lost, Snoozed, Interrupted,
-- eXpired. A task without one waits, unless rest says otherwise.
CREATE TEMP TABLE plan (
    id text PRIMARY KEY, type text NOT NULL, payload jsonb NOT NULL DEFAULT '{}', queue text NOT NULL DEFAULT 'default',
    priority int NOT NULL DEFAULT 0, at timestamptz NOT NULL, created timestamptz NOT NULL, by text NOT NULL,
    tenant text, entity text, parent text, expiration interval, ends text NOT NULL DEFAULT '', error text,
    took float NOT NULL DEFAULT 20, rest text NOT NULL DEFAULT 'QUEUED', note text
) ON COMMIT DROP;

-- Everyday tasks, more by day than by night, and those of the next two days.
INSERT INTO plan (id, type, payload, queue, priority, at, created, by, tenant, entity, expiration, ends, error, took)
SELECT 'task-' || k.type || '-' || to_char(k.first + n, 'FM00000'), k.type, jsonb_build_object(k.field, 'no-' || n),
    k.queue, k.priority, t.at, least(t.at - (1 + 20 * random()) * interval '1 hour', now() - interval '1 minute'), k.by,
    (ARRAY['book-club', 'chess-club', 'city-runners', 'film-nights', 'home-cooks'])[1 + n % 5],
    split_part(k.field, '_', 1) || ':' || n % 400, k.expiration,
    CASE WHEN t.at > now() - interval '1 s' THEN ''
        WHEN t.at < now() - interval '1 minute' AND random() < k.trouble THEN k.troubled ELSE 'C' END,
    k.error, k.took
FROM (VALUES
    ('SEND_EVENT_REMINDER', 10000, 2400, 'event_id', 'default', 0, 'events-api', interval '1 hour', 0.02, 'SSC',
        'the event is not published yet', 18),
    ('SEND_EMAIL', 20000, 2000, 'member_id', 'mail', 0, 'accounts-api', interval '24 hours', 0.04, 'RC',
        '451 4.3.2 the mail server is not accepting messages just now', 140),
    ('HTTP_REQUEST', 30000, 1200, 'order_id', 'webhooks', 0, 'partner-sync', NULL, 0.05, 'RRC',
        'answered 503 to hooks.partner.example (Service Unavailable)', 210),
    ('PUBLISH_POST', 40000, 600, 'post_id', 'default', 10, 'events-api', NULL, 0.01, 'IC',
        'the node is shutting down', 6),
    ('LOG', 50000, 150, 'backup_id', 'default', -10, 'ops', NULL, 0, '', NULL, 6)
) AS k (type, first, many, field, queue, priority, by, expiration, trouble, troubled, error, took),
    LATERAL generate_series(1, k.many) AS n,
    LATERAL (SELECT date_trunc('day', now()) + (n % 9 - 6) * interval '1 day'
        + 8 * (random() + random() + random()) * interval '1 hour' AS at) AS t;

-- A newsletter goes to all, and a second one waits, because its queue is paused.
INSERT INTO plan (id, type, payload, queue, priority, at, created, by, tenant, ends, took)
SELECT 'newsletter-' || s.season || '-' || to_char(n, 'FM0000'), 'SEND_EMAIL',
    jsonb_build_object('subject', 'The programme of ' || s.season, 'member_id', 'no-' || n), s.queue, -20, s.at, s.at,
    'accounts-api', 'book-club', s.ends, 140
FROM calendar AS c,
    LATERAL (VALUES ('summer', 'mail', 900, c.burst, 'C'),
        ('autumn', 'newsletter', 240, now() - interval '3 hours', '')) AS s (season, queue, many, at, ends), LATERAL generate_series(1, s.many) AS n;

-- Dead letters of a few errors, reminders that expired while no node ran, and mails of the node that died.
INSERT INTO plan (id, type, payload, queue, at, created, by, tenant, entity, expiration, ends, error, took)
SELECT k.name || '-' || to_char(n, 'FM00'), k.type, jsonb_build_object(split_part(k.name, '-', 2), 'no-' || n), k.queue,
    k.at + n * k.apart, k.at + n * k.apart - interval '1 hour', k.by, k.tenant, 'member:' || n, k.expiration, k.ends,
    k.error, k.took
FROM calendar AS c, LATERAL (VALUES
    ('confirm-address', 'SEND_EMAIL', 'mail', 18, c.began + interval '1 day', interval '7 hours', 'accounts-api',
        'city-runners', NULL::interval, 'F', 'the server refused the recipient: 550 5.1.1 no such user here', 140),
    ('partner-order', 'HTTP_REQUEST', 'webhooks', 14, c.began + interval '3 hours', interval '11 hours', 'partner-sync',
        'film-nights', NULL, 'F', 'answered 404 to hooks.partner.example (Not Found)', 210),
    ('partner-invoice', 'HTTP_REQUEST', 'webhooks', 9, now() - interval '30 hours', interval '3 hours', 'partner-sync',
        'chess-club', NULL, 'RRRF', 'answered 503 to hooks.partner.example (Service Unavailable)', 210),
    ('post-excerpt', 'PUBLISH_POST', 'default', 4, c.rollout - interval '9 hours', interval '2 hours', 'events-api',
        'home-cooks', NULL, 'RF', E'handler panicked: runtime error: index out of range [3] with length 3\n'
            'goroutine 4711 [running]:\nexample.org/club/posts.(*Renderer).Excerpt(...)\n\tposts/renderer.go:118', 6),
    ('mail-with-markup', 'SEND_EMAIL', 'mail', 1, now() - interval '5 hours', interval '0', 'accounts-api',
        '<script>alert(1)</script>', NULL, 'F', repeat('template: welcome.html:12: <script>alert(1)</script> "><img '
            'src=x onerror=alert(2)> ${7*7} {{7*7}} ''; DROP TABLE members; --' || E'\n', 40), 140),
    ('late-reminder', 'SEND_EVENT_REMINDER', 'default', 14, c.down, interval '1 minute', 'events-api', 'book-club',
        interval '15 minutes', 'X', 'expired before it could start', 18),
    ('large-attachment', 'SEND_EMAIL', 'mail', 12, c.death - interval '20 s', interval '1 s', 'accounts-api',
        'book-club', NULL, 'LC', 'node 6 died', 140)
) AS k (name, type, queue, many, at, apart, by, tenant, expiration, ends, error, took),
    LATERAL generate_series(1, k.many) AS n;

-- Tasks at rest, one that has failed twice and waits, and one with a payload of some 40 KB.
INSERT INTO plan (id, type, payload, at, created, by, tenant, ends, error, rest, note)
SELECT k.id, k.type, k.payload, now() + k.at, now() - interval '26 hours', 'events-api', 'home-cooks', k.ends,
    'answered 503 to hooks.partner.example (Service Unavailable)', k.rest, k.note
FROM (VALUES
    ('announcement-draft', 'LOG', '{"message": "announcement"}'::jsonb, interval '-2 hours', '', 'PAUSED', NULL),
    ('announcement-tomorrow', 'LOG', '{"message": "announcement"}', interval '3 hours', '', 'PAUSED', NULL),
    ('event-called-off', 'SEND_EVENT_REMINDER', '{"event_id": "42"}', interval '9 hours', '', 'CANCELLED', NULL),
    ('partner-ticket', 'HTTP_REQUEST', '{"order_id": "7"}', interval '-25 minutes', 'RR', 'QUEUED', NULL),
    ('partner-catalogue', 'HTTP_REQUEST', (SELECT jsonb_build_object('catalogue', jsonb_agg(jsonb_build_object(
        'number', n, 'name', 'recipe ' || n, 'tags', ARRAY['quick', 'for four']))) FROM generate_series(1, 600) AS n),
        interval '-7 hours', 'C', 'QUEUED', NULL)
) AS k (id, type, payload, at, ends, rest, note);

-- The recurring tasks and their occurrences. One has failed since yesterday, one is paused, and one has a type that no
-- node has had since the new version.
CREATE TEMP TABLE series ON COMMIT DROP AS
SELECT * FROM (VALUES
    ('daily-digest', 'LOG', '0 6 * * *', interval '6 hours', interval '1 day', 'C', 'QUEUED', interval '0'),
    ('partner-feed', 'HTTP_REQUEST', '*/15 * * * *', interval '0', interval '15 minutes', 'C', 'QUEUED', interval '0'),
    ('token-cleanup', 'LOG', '0 * * * *', interval '0', interval '1 hour', 'C', 'QUEUED', interval '0'),
    ('status-update', 'LOG', '*/5 * * * *', interval '0', interval '5 minutes', 'C', 'QUEUED', interval '0'),
    ('partner-calendar', 'SYNC_PARTNER_CALENDAR', '25 * * * *', interval '25 minutes', interval '1 hour', 'RRF',
        'QUEUED', interval '0'),
    ('weekly-newsletter', 'LOG', '0 17 * * 5', interval '113 hours', interval '7 days', 'C', 'PAUSED', interval '0'),
    ('export-statistics', 'EXPORT_STATISTICS', '15 2 * * *', interval '135 minutes', interval '1 day', 'C', 'QUEUED',
        interval '5 days')
) AS s (id, type, cron, first, every, ends, status, stopped);
INSERT INTO plan (id, type, at, created, by, parent, ends, error, took, rest, note)
SELECT s.id || to_char(f.fire AT TIME ZONE 'UTC', '"@"YYYY-MM-DD"T"HH24:MI:SS"Z"'), s.type, f.fire,
    CASE WHEN f.missed THEN c.up + interval '2 s' ELSE f.fire + interval '1 ms' END, 'leader', s.id,
    CASE WHEN f.missed THEN '' WHEN s.ends = 'RRF' AND f.fire < now() - interval '1 day' THEN 'C' ELSE s.ends END,
    'calendar of the partner: 503 Service Unavailable', 45, CASE WHEN f.missed THEN 'SKIPPED' ELSE 'QUEUED' END,
    CASE WHEN f.missed THEN 'missed, and catch_up runs only the latest' END
FROM series AS s CROSS JOIN calendar AS c CROSS JOIN LATERAL (
    SELECT fire, fire >= c.down AND fire + s.every < c.up AS missed FROM generate_series(
        date_trunc('week', c.began, 'UTC') + s.first, c.now - s.stopped - interval '1 minute', s.every) AS fire
    WHERE fire >= c.began) AS f;

-- What happened, in the order of time. A number is a revision or a fence.
CREATE TEMP TABLE facts ON COMMIT DROP AS
SELECT nextval('tasktable.task_numbers') AS number, f.* FROM (
    SELECT p.id, p.created AS at, 0 AS attempt, CASE WHEN p.parent IS NULL THEN 'schedule' ELSE 'fork' END AS verb,
        'created' AS outcome, p.by, NULL::timestamptz AS due, NULL::timestamptz AS started, NULL::timestamptz AS ended,
        NULL::jsonb AS was, jsonb_build_object('status', CASE p.rest WHEN 'SKIPPED' THEN p.rest ELSE 'QUEUED' END,
            'type', p.type, 'scheduled_at', p.at) AS new, NULL AS error, NULL::bigint AS node
    FROM plan AS p
    UNION ALL
    SELECT p.id, now() - interval '4 hours', 0, CASE p.rest WHEN 'PAUSED' THEN 'pause' ELSE 'cancel' END,
        lower(p.rest), 'ops', NULL, NULL, NULL, '{"status": "QUEUED"}', jsonb_build_object('status', p.rest), NULL, NULL
    FROM plan AS p WHERE p.rest IN ('PAUSED', 'CANCELLED')
    UNION ALL
    SELECT p.id, a.started - interval '2 ms', CASE a.letter WHEN 'X' THEN 0 ELSE n END, NULL,
        CASE a.letter WHEN 'C' THEN 'COMPLETED' WHEN 'R' THEN 'RETRIED' WHEN 'F' THEN 'FAILED' WHEN 'L' THEN 'LOST'
            WHEN 'S' THEN 'SNOOZED' WHEN 'I' THEN 'INTERRUPTED' ELSE 'EXPIRED' END,
        NULL, CASE WHEN a.letter <> 'L' THEN a.due END, CASE WHEN a.letter <> 'X' THEN a.started END,
        CASE a.letter WHEN 'L' THEN greatest(a.started, c.death) + interval '5 s' WHEN 'X' THEN a.started
            ELSE a.started + p.took * (0.6 + random()) * interval '1 ms' END,
        NULL, NULL, CASE WHEN a.letter <> 'C' THEN p.error END,
        (SELECT n.number FROM tasktable.nodes AS n WHERE a.letter <> 'X' AND n.started_at <= a.started
            AND n.dead_at > a.started ORDER BY (a.letter = 'L') = (n.host = 'worker-b/13') DESC,
            hashtext(p.id || n.host) LIMIT 1)
    FROM plan AS p CROSS JOIN calendar AS c CROSS JOIN LATERAL generate_series(1, length(p.ends)) AS n
    CROSS JOIN LATERAL (SELECT substr(p.ends, n, 1) AS letter, p.at + 5 * (3 ^ (n - 1) - 1) * interval '1 s' AS asked,
        random() AS luck) AS l
    CROSS JOIN LATERAL (SELECT l.letter, l.asked AS due, CASE WHEN l.asked >= c.down AND l.asked < c.up
        THEN c.up + interval '3 s' + (l.asked - c.down) / 24 ELSE l.asked END
        + (4 - 12 * ln(1 - 0.9999 * l.luck)) * interval '1 ms' AS started) AS a
    ORDER BY at) AS f;
CREATE INDEX ON facts (id, number);

INSERT INTO tasktable.scheduled_task_changes (revision, task_id, verb, outcome, changed_at, changed_by, old, new)
SELECT f.number, f.id, f.verb, f.outcome, f.at, f.by, f.was, f.new FROM facts AS f WHERE f.verb IS NOT NULL;
INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt, scheduled_at, due_at,
    started_at, finished_at, outcome, error, node)
SELECT f.number, f.id, p.type, (SELECT min(o.number) FROM facts AS o WHERE o.id = f.id), f.attempt, p.at, f.due,
    f.started, f.ended, f.outcome, f.error, f.node
FROM facts AS f JOIN plan AS p ON p.id = f.id WHERE f.verb IS NULL;

INSERT INTO tasktable.scheduled_tasks (id, payload, type, queue, priority, scheduled_at, created_at, revision,
    asked_revision, entity, tenant_id, parent_id, expiration, scheduled_by, status, attempt, next_attempt_at,
    started_at, finished_at, last_status_update, message)
SELECT p.id, p.payload || jsonb_build_object('type', p.type), p.type, p.queue, p.priority, p.at, p.created, v.revision,
    v.revision, p.entity, p.tenant, p.parent, p.expiration, p.by, s.status, coalesce(l.attempt, 0),
    CASE WHEN s.status = 'QUEUED' THEN coalesce(l.ended + interval '2 hours', p.at) END, l.started,
    CASE WHEN s.status NOT IN ('QUEUED', 'PAUSED') THEN coalesce(l.ended, v.at) END, coalesce(l.ended, v.at),
    coalesce(l.error, p.note)
FROM plan AS p
CROSS JOIN LATERAL (SELECT max(f.number) AS revision, max(f.at) AS at FROM facts AS f
    WHERE f.id = p.id AND f.verb IS NOT NULL) AS v
LEFT JOIN LATERAL (SELECT * FROM facts AS f WHERE f.id = p.id AND f.verb IS NULL
    ORDER BY f.number DESC LIMIT 1) AS l ON true
CROSS JOIN LATERAL (SELECT CASE WHEN l.outcome IN ('COMPLETED', 'FAILED', 'EXPIRED') THEN l.outcome
    ELSE p.rest END AS status) AS s;

-- A recurring task without a plan gets one from the leader. That of the type without a node is overdue instead.
INSERT INTO tasktable.scheduled_tasks (id, payload, type, scheduled_at, created_at, revision, asked_revision,
    scheduled_by, status, next_attempt_at, cron, time_zone, overlap, catch_up, catch_up_paused, catch_up_limit, occurrence_count,
    planned_revision, started_at)
SELECT s.id, jsonb_build_object('type', s.type), s.type, c.began, c.began, n.revision, n.revision, 'events-api',
    s.status, CASE WHEN s.type = 'EXPORT_STATISTICS' THEN o.latest + s.every WHEN s.status = 'QUEUED' THEN now() END,
    s.cron, 'UTC', 'skip', 'latest', 'none', 100, o.many, CASE WHEN s.type = 'EXPORT_STATISTICS' THEN n.revision END, o.latest
FROM series AS s CROSS JOIN calendar AS c
CROSS JOIN LATERAL (SELECT count(*) AS many, max(p.at) AS latest FROM plan AS p WHERE p.parent = s.id) AS o
CROSS JOIN LATERAL (SELECT nextval('tasktable.task_numbers') AS revision WHERE s.id <> '') AS n;

ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER;
ALTER TABLE tasktable.scheduled_task_executions ENABLE TRIGGER USER;
ALTER TABLE tasktable.scheduled_task_changes ENABLE TRIGGER USER;

-- Operators have dealt with some dead letters. A queue is paused.
SELECT tasktable.archive(t.id, 'the address was mistyped', 'ops') FROM tasktable.scheduled_tasks AS t
WHERE t.status = 'FAILED' AND t.id LIKE 'confirm-address-%5';
SELECT tasktable.pause_scope('queue', 'newsletter', now() + interval '5 hours', 'the mail provider is slow today');

INSERT INTO tasktable.notice_recipients (name, email) VALUES ('ops', 'ops@example.org');
INSERT INTO tasktable.notice_rules (name, events, types)
VALUES ('dead-letters', '{failed}', '{SEND_EMAIL,PUBLISH_POST}'), ('lost-attempts', '{lost}', NULL);
INSERT INTO tasktable.notice_rule_recipients (rule, recipient) VALUES ('dead-letters', 'ops'), ('lost-attempts', 'ops');
INSERT INTO tasktable.api_keys (name, prefix, secret_hash, scopes, service, rate, created_at, created_by, last_used_at,
    revoked_at, revoked_by)
SELECT k.name, 'tt_' || k.name, sha256(k.name::bytea), k.scopes, k.name, 50, now() - interval '7 days', 'ops', k.used,
    k.revoked, CASE WHEN k.revoked IS NOT NULL THEN 'ops' END
FROM (VALUES ('partner-sync', ARRAY['read', 'schedule'], now() - interval '90 s', NULL::timestamptz),
    ('status-page', ARRAY['read'], now() - interval '20 s', NULL),
    ('former-agency', ARRAY['read', 'operate'], now() - interval '4 days', now() - interval '3 days')
) AS k (name, scopes, used, revoked);
ANALYZE tasktable.scheduled_tasks, tasktable.scheduled_task_executions, tasktable.scheduled_task_changes;

-- Tasks together: how many of them may run or start, and what their types are given.
SELECT tasktable.set_limit('mail-provider', rate => 100, rate_interval => '1 minute', burst => 20, type => 'SEND_EMAIL');
SELECT tasktable.set_limit('per-tenant', queue => 'newsletter', max_running => 2, per => 'tenant');
SELECT tasktable.set_defaults('SYNC_PARTNER_CALENDAR', max_attempts => 3, backoff => '1m x2 max 1h', timeout => '30 s');
