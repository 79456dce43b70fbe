//go:build unix

package torture

import (
	"context"
	"fmt"
	"hash/fnv"

	"github.com/jackc/pgx/v5/pgxpool"
)

// The test's own tables. audit has each change of a task's row that says something about its life, written by a
// trigger in the transaction that makes it: what is rolled back leaves nothing. Changes of one row lie in its order:
// a row's lock is held while the number is drawn. lines is the same for the two histories, executions is a copy of
// the lines of executions as they were written, effects is what transactional handlers write, without any key, and
// ops what writers write beside their tasks, in the same transaction. For the writers that work over HTTP, a trigger
// writes it in the transaction that stores the answer of its call.
//
// A rule tells of each death. Its window is a week long, so the run makes one notice, or two, that no node has to run.
// The tables leave these out, because no writer has asked for them.
const auditSQL = `
CREATE SCHEMA torture;
CREATE TABLE torture.audit (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL, began timestamptz NOT NULL, txid bigint NOT NULL,
    backend int NOT NULL, app text NOT NULL,
    op text NOT NULL, id text NOT NULL, type text NOT NULL, queue text NOT NULL, parent text, recurs boolean NOT NULL,
    old_status text, status text, old_revision bigint, revision bigint, old_fence bigint, fence bigint,
    old_attempt int, attempt int, old_next timestamptz, next timestamptz, old_held timestamptz, held timestamptz,
    priority int NOT NULL, first_due timestamptz NOT NULL, asked timestamptz NOT NULL, expires timestamptz,
    max_attempts int NOT NULL, expected interval NOT NULL, does text NOT NULL,
    nonce bigint NOT NULL, sum text NOT NULL, entity text, message text, told text, until timestamptz,
    response text, bad int, waits int NOT NULL, again timestamptz, if_dead bigint);
CREATE TABLE torture.executions AS SELECT * FROM tasktable.scheduled_task_executions;
CREATE TABLE torture.lines (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(), txid bigint NOT NULL DEFAULT txid_current(),
    history text NOT NULL, op text NOT NULL, number bigint NOT NULL,
    task_id text NOT NULL, revision bigint NOT NULL, hash text NOT NULL);
CREATE TABLE torture.effects (
    task_id text NOT NULL, revision bigint NOT NULL, fence bigint NOT NULL, attempt int NOT NULL, pid int NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(), txid bigint NOT NULL DEFAULT txid_current());
CREATE TABLE torture.ops (
    op bigint NOT NULL, task_id text NOT NULL, verb text NOT NULL, outcome text NOT NULL, revision bigint NOT NULL,
    txid bigint NOT NULL DEFAULT txid_current());

-- Who claims, once a transaction, and whether that node was the last to be elected when the transaction committed.
CREATE TABLE torture.leaders (txid bigint PRIMARY KEY, app text NOT NULL, leads boolean);
CREATE FUNCTION torture.leads() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE torture.leaders SET leads = app = 'tasktable leader of node ' || (
        SELECT number FROM tasktable.nodes WHERE elected_at IS NOT NULL ORDER BY elected_at DESC LIMIT 1)
    WHERE txid = NEW.txid;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER torture_leads AFTER INSERT ON torture.leaders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION torture.leads();

CREATE FUNCTION torture.audit() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    task tasktable.scheduled_tasks := coalesce(NEW, OLD);
BEGIN
    IF task.type = 'NOTICE' THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'UPDATE' AND (OLD.status, OLD.revision, OLD.fence, OLD.attempt, OLD.next_attempt_at,
    OLD.lease_expires_at, OLD.paused_until, OLD.again_at)
        IS NOT DISTINCT FROM (NEW.status, NEW.revision, NEW.fence, NEW.attempt, NEW.next_attempt_at,
        NEW.lease_expires_at, NEW.paused_until, NEW.again_at)
    THEN
        RETURN NULL;
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.fence IS NOT NULL AND (TG_OP = 'INSERT' OR OLD.fence IS DISTINCT FROM NEW.fence) THEN
        INSERT INTO torture.leaders (txid, app) VALUES (txid_current(), current_setting('application_name'))
            ON CONFLICT DO NOTHING;
    END IF;
    INSERT INTO torture.audit (at, began, txid, backend, app, op, id, type, queue, parent, recurs,
        old_status, status, old_revision, revision, old_fence, fence, old_attempt, attempt, old_next, next,
        old_held, held,
        priority, first_due, asked, expires, max_attempts, expected, does, nonce, sum, entity, message, told, until,
        response, bad, waits, again, if_dead)
    VALUES (clock_timestamp(), transaction_timestamp(), txid_current(), pg_backend_pid(),
        current_setting('application_name'),
        TG_OP, task.id, task.type, task.queue, task.parent_id, task.cron IS NOT NULL,
        OLD.status, NEW.status, OLD.revision, NEW.revision, OLD.fence, NEW.fence, OLD.attempt, NEW.attempt,
        OLD.next_attempt_at, NEW.next_attempt_at, OLD.lease_expires_at, NEW.lease_expires_at,
        task.priority, coalesce(task.run_now_at, task.scheduled_at), task.scheduled_at,
        coalesce(task.run_now_at, task.scheduled_at) + task.expiration, task.max_attempts, task.expected_execution_time,
        coalesce(task.payload ->> 'do', ''), coalesce((task.payload ->> 'n')::bigint, 0), md5(task.payload::text),
        task.entity, task.message, task.result ->> 'told', task.paused_until,
        CASE WHEN task.type = 'HTTP_REQUEST' AND task.result IS NOT NULL THEN concat_ws(' ', task.result ->> 'status',
            coalesce(task.result ->> 'truncated', 'false'), length(task.result ->> 'body')) END,
        CASE WHEN task.type = 'HTTP_REQUEST' THEN substring(task.payload ->> 'url' from '[0-9]+$')::int END,
        coalesce(task.waits, 0), NEW.again_at, (task.if_dead::jsonb #>> '{0,payload,n}')::bigint);
    RETURN NULL;
END $$;
CREATE TRIGGER torture_audit AFTER INSERT OR UPDATE OR DELETE ON tasktable.scheduled_tasks
    FOR EACH ROW EXECUTE FUNCTION torture.audit();

CREATE FUNCTION torture.line() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'scheduled_task_executions' THEN
        INSERT INTO torture.lines (history, op, number, task_id, revision, hash)
        SELECT 'executions', TG_OP, e.fence, e.task_id, e.revision, md5(e::text)
            FROM (SELECT (coalesce(NEW, OLD)).*) AS e;
        IF TG_OP = 'INSERT' THEN
            INSERT INTO torture.executions SELECT NEW.*;
        END IF;
    ELSIF NOT starts_with((coalesce(NEW, OLD)).task_id, 'notice/') THEN
        INSERT INTO torture.lines (history, op, number, task_id, revision, hash)
        SELECT 'changes', TG_OP, c.revision, c.task_id, c.revision, md5(c::text)
            FROM (SELECT (coalesce(NEW, OLD)).*) AS c;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER torture_lines AFTER INSERT OR UPDATE OR DELETE ON tasktable.scheduled_task_executions
    FOR EACH ROW EXECUTE FUNCTION torture.line();
CREATE TRIGGER torture_lines AFTER INSERT OR UPDATE OR DELETE ON tasktable.scheduled_task_changes
    FOR EACH ROW EXECUTE FUNCTION torture.line();

CREATE FUNCTION torture.answer() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN -- the key is the number of the call and its verb
    INSERT INTO torture.ops (op, task_id, verb, outcome, revision)
    SELECT split_part(NEW.idempotency_key, '/', 1)::bigint, r ->> 'id', split_part(NEW.idempotency_key, '/', 2),
        r ->> 'outcome', coalesce((r ->> 'revision')::bigint, 0)
    FROM jsonb_array_elements(coalesce(NEW.answer #> '{Body,receipts}', jsonb_build_array(NEW.answer -> 'Body'))) AS r;
    RETURN NULL;
END $$;
CREATE TRIGGER torture_answer AFTER INSERT OR UPDATE ON tasktable.api_answers
    FOR EACH ROW EXECUTE FUNCTION torture.answer();

CREATE FUNCTION torture.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the application takes no occurrence of %', NEW.parent_id USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER torture_refuse BEFORE INSERT ON tasktable.scheduled_tasks
    FOR EACH ROW WHEN (starts_with(NEW.parent_id, '` + refusedPrefix + `')) EXECUTE FUNCTION torture.refuse();

INSERT INTO tasktable.notice_recipients (name, target) VALUES ('nobody', 'nowhere');
INSERT INTO tasktable.notice_rules (name, events, digest) VALUES ('deaths', '{failed,expired,lost}', '168 hours');
INSERT INTO tasktable.notice_rule_recipients (rule, recipient) VALUES ('deaths', 'nobody');`

// lockClass is the first key of the engine's advisory locks: of the leader's, whose second is 0, and of the nodes',
// whose second is their number. Were it another, no node at all would seem to lead.
func lockClass(kind string) int64 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte("tasktable " + kind + " tasktable"))
	return int64(hash.Sum32())
}

// prepareAudit makes the test's tables and triggers, on a migrated database.
func prepareAudit(ctx context.Context, pool *pgxpool.Pool) error {
	if _, err := pool.Exec(ctx, auditSQL); err != nil {
		return fmt.Errorf("prepare the audit: %w", err)
	}
	return nil
}
