package prove

import (
	"errors"
	"slices"
	"testing"

	"github.com/tasktable/tasktable/store/storetest"
)

// Two tasks that ran as they ought to, one that was cut off first, one that was cancelled, and one that expired.
const playedSQL = `
INSERT INTO tasktable.scheduled_tasks (id, payload, scheduled_at, expiration)
SELECT id, jsonb_build_object('type', type), timestamptz '2030-01-01 12:00Z', expiration
FROM (VALUES ('plain', 'PROVE', NULL::interval), ('tx', 'PROVE_TX', '1 hour'), ('cancelled', 'PROVE_TX', NULL),
    ('expired', 'PROVE', '3 seconds')) AS v (id, type, expiration);
INSERT INTO proof.accepted
SELECT id, type = 'PROVE_TX', false, scheduled_at, scheduled_at + expiration FROM tasktable.scheduled_tasks;
UPDATE tasktable.scheduled_tasks SET finished_at = now(), next_attempt_at = NULL,
    status = CASE id WHEN 'cancelled' THEN 'CANCELLED' WHEN 'expired' THEN 'EXPIRED' ELSE 'COMPLETED' END;
INSERT INTO proof.kills VALUES (1, true, '2030-01-01 12:00:01Z', '2030-01-01 12:00:02Z');
INSERT INTO proof.runs (task_id, fence, process, began_at, ended_at) VALUES
    ('plain', 1, 1, '2030-01-01 12:00:00Z', NULL), ('plain', 2, 2, '2030-01-01 12:00:07Z', '2030-01-01 12:00:08Z'),
    ('tx', 3, 2, '2030-01-01 12:00:00Z', '2030-01-01 12:00:01Z');
INSERT INTO proof.effects VALUES ('plain', 1), ('plain', 2), ('tx', 3);
INSERT INTO proof.cancelled VALUES ('cancelled', '2030-01-01 11:59Z');
INSERT INTO tasktable.scheduled_task_executions
    (fence, task_id, type, revision, attempt, scheduled_at, due_at, started_at, finished_at, outcome)
SELECT v.fence, t.id, t.type, t.revision, 1, t.scheduled_at, t.scheduled_at, t.scheduled_at + v.after, now(), v.outcome
FROM (VALUES (1, 'plain', NULL::interval, 'LOST'), (2, 'plain', '7 seconds', 'COMPLETED'), (3, 'tx', '0', 'COMPLETED'),
    (4, 'expired', NULL, 'EXPIRED')) AS v (fence, id, after, outcome)
        JOIN tasktable.scheduled_tasks AS t ON t.id = v.id`

const executionSQL = `
INSERT INTO tasktable.scheduled_task_executions
    (fence, task_id, type, revision, attempt, scheduled_at, due_at, started_at, finished_at, outcome)
SELECT 9, id, type, revision, 1, scheduled_at, scheduled_at, `

// Each promise's query finds what breaks it, and nothing else does.
func TestBrokenPromisesAreFound(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t)
	ctx := t.Context()
	for _, sql := range []string{tablesSQL, playedSQL} {
		if _, err := pool.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	for what, c := range map[string]struct {
		sql    string
		broken []string
	}{
		"all is well": {`SELECT 1`, nil},
		"a task that is gone": {`DELETE FROM tasktable.scheduled_tasks WHERE id = 'plain'`,
			[]string{"no accepted task is lost"}},
		"a task that failed": {`UPDATE tasktable.scheduled_tasks SET status = 'FAILED' WHERE id = 'plain'`,
			[]string{"no accepted task is lost"}},
		"cancelled by nobody": {`DELETE FROM proof.cancelled`, []string{"no accepted task is lost"}},
		"expired without a limit": {`UPDATE proof.accepted SET expires_at = NULL WHERE task_id = 'expired'`,
			[]string{"no accepted task is lost"}},
		"early": {
			executionSQL +
				`scheduled_at - interval '1 us', now(), 'RETRIED' FROM tasktable.scheduled_tasks WHERE id = 'tx'`,
			[]string{"a task never starts before its time"}},
		"after its expiry": {executionSQL + `scheduled_at + interval '3 s', now(), 'RETRIED'
			FROM tasktable.scheduled_tasks WHERE id = 'expired'`,
			[]string{"… after its expiry"}},
		"after a cancel": {
			executionSQL + `scheduled_at, now(), 'SUPERSEDED' FROM tasktable.scheduled_tasks WHERE id = 'cancelled'`,
			[]string{"… or after a committed cancel"}},
		"completed twice": {
			executionSQL + `scheduled_at, now(), 'COMPLETED' FROM tasktable.scheduled_tasks WHERE id = 'plain'`,
			[]string{"at most one settled completion per revision"}},
		"no effect": {`DELETE FROM proof.effects WHERE task_id = 'plain'`, []string{"effects at least once"}},
		"no effect in the transaction": {`DELETE FROM proof.effects WHERE task_id = 'tx'`,
			[]string{"… exactly once with HandleTx"}},
		"two effects": {`INSERT INTO proof.effects VALUES ('tx', 3)`, []string{"… exactly once with HandleTx"}},
		"two effects of a cancelled one": {`INSERT INTO proof.effects VALUES ('cancelled', 9), ('cancelled', 9)`,
			[]string{"… exactly once with HandleTx"}},
		"again before it had ended": {`INSERT INTO proof.runs (task_id, fence, process, began_at, ended_at)
			VALUES ('tx', 9, 3, '2030-01-01 12:00:00.5Z',
				'2030-01-01 12:00:03Z')`, []string{"one id never runs twice at once"}},
		"again before the process was gone": {`UPDATE proof.runs SET began_at = '2030-01-01 12:00:01.9Z'
			WHERE fence = 2`,
			[]string{"one id never runs twice at once"}},
	} {
		t.Run(what, func(t *testing.T) {
			tx, err := pool.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(ctx) }()
			if _, err := tx.Exec(ctx, c.sql); err != nil {
				t.Fatal(err)
			}
			result, err := verify(ctx, tx)
			if err != nil {
				t.Fatal(err)
			}
			var broken []string
			for _, v := range result.Verdicts {
				if !v.Held {
					broken = append(broken, v.Promise)
				}
			}
			if !slices.Equal(broken, c.broken) || errors.Is(result.broken(), ErrBroken) != (c.broken != nil) {
				t.Errorf("broken %q, want %q; %v", broken, c.broken, result.broken())
			}
			if k := result.Kills; c.broken == nil && (k != Kills{1, 1, 1, 1, 6, 6}) {
				t.Errorf("kills %+v", k)
			}
		})
	}
}
