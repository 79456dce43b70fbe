package prove

// tablesSQL makes the proof's own record, beside the engine's tables: the accepted tasks, and the records of the
// handlers and of the kills. runs and effects have no unique key on the task, so that a task that runs twice has two
// rows. All times are by the database's clock.
const tablesSQL = `
CREATE SCHEMA proof;
CREATE TABLE proof.accepted (
    task_id text PRIMARY KEY, transactional boolean NOT NULL, to_cancel boolean NOT NULL,
    due_at timestamptz NOT NULL, expires_at timestamptz);
CREATE TABLE proof.runs (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, task_id text NOT NULL, fence bigint NOT NULL,
    process int NOT NULL,
    began_at timestamptz NOT NULL DEFAULT clock_timestamp(), ended_at timestamptz);
CREATE INDEX ON proof.runs (process) WHERE ended_at IS NULL;
CREATE INDEX ON proof.runs (task_id);
CREATE TABLE proof.effects (task_id text NOT NULL, fence bigint NOT NULL);
CREATE INDEX ON proof.effects (task_id);
CREATE TABLE proof.cancelled (task_id text NOT NULL, committed_at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE TABLE proof.kills (
    process int PRIMARY KEY, led boolean NOT NULL,
    killed_at timestamptz NOT NULL, gone_at timestamptz NOT NULL DEFAULT clock_timestamp());
COMMENT ON TABLE proof.accepted IS 'Each task whose scheduling was committed, written in the same transaction.';
COMMENT ON TABLE proof.runs IS 'Calls of handlers, written outside their transactions. ended_at null: it was killed.';
COMMENT ON TABLE proof.effects IS 'Rows of handlers: PROVE_TX writes in the transaction that completes the task.';
COMMENT ON TABLE proof.cancelled IS 'Each task that was cancelled, and a time after the commit.';
COMMENT ON TABLE proof.kills IS 'Each node that was killed: a time before it, and one when the process was gone.'`
