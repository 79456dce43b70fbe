package leader

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// A claim whose River job is gone, and which no node has, is taken back a minute after its lease has ended; others
// are left.
func TestAbandonedClaimsAreTakenBack(t *testing.T) {
	b := newBench(t)
	now := time.Now()
	for _, id := range []string{"abandoned", "lapsed", "held", "locked"} {
		b.Schedule(store.Task{ID: id, Payload: enginetest.Job{Name: id}, At: now.Add(-time.Hour)})
	}
	if taken := b.Take(time.Now()); len(taken) != 4 {
		t.Fatalf("%d claims", len(taken))
	}
	l := b.elected(func(_ *Config, node *session.Registration) { node.Types = []string{} }) // claims nothing anew
	b.Exec(`UPDATE tasktable.scheduled_tasks SET lease_expires_at = clock_timestamp() - CASE id
		WHEN 'lapsed' THEN interval '50 seconds' WHEN 'held' THEN interval '-1 minute' ELSE interval '61 seconds' END`)
	step := func() {
		t.Helper()
		found, err := l.newWalk().abandoned(t.Context(), nil)
		b.OK(err)
		l.abandoned = found
		b.tick(l)
	}
	held := func() (ids string) {
		t.Helper()
		const sql = `
			SELECT coalesce(string_agg(id, ' ' ORDER BY id), '') FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL`
		b.OK(b.Pool.QueryRow(t.Context(), sql).Scan(&ids))
		return ids
	}
	becomes := func(want string) {
		t.Helper()
		// Not at the first step for sure, because a round of the leader's own walk may have locked the rows.
		enginetest.Eventually(t, time.Minute, "held: "+want, func() bool { step(); return held() == want })
	}
	b.InTx(func(tx pgx.Tx) {
		const sql = `SELECT FROM tasktable.scheduled_tasks WHERE id = 'locked' FOR UPDATE`
		b.Did(tx.Exec(t.Context(), sql))
		becomes("held lapsed locked")
	})
	becomes("held lapsed")
	if got := enginetest.Outcomes(t, b.Pool, "abandoned"); len(got) != 1 || got[0] != taskdb.OutcomeLost {
		t.Errorf("history %v", got)
	}
}

// More claims than the walk reads at once can neither be taken back nor failed, because a trigger of the application
// forbids it. They do not hide a claim whose lease has ended later.
func TestClaimsThatNobodyCanEndHideNoOther(t *testing.T) {
	b := newBench(t)
	l := b.elected(func(c *Config, node *session.Registration) {
		c.AbandonedAfter, node.Types = 100*time.Millisecond, []string{} // it claims nothing anew
	})
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER`)
	b.Exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, queue, revision, status, attempt, fence,
			lease_expires_at)
		SELECT CASE WHEN i > $1 THEN 'abandoned' ELSE 'refused ' || i END, '{"type": "JOB"}', 'JOB', 'default', i,
			'EXECUTING', 1, i, '2025-01-01'::timestamptz + i * interval '1 second'
		FROM generate_series(1, $1::int + 1) AS i`, maxAbandoned)
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER`)
	b.Exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'
		USING ERRCODE = '22000'; END $$`)
	b.Exec(`CREATE TRIGGER refuse BEFORE UPDATE ON tasktable.scheduled_tasks FOR EACH ROW
		WHEN (OLD.id <> 'abandoned') EXECUTE FUNCTION refuse()`)
	enginetest.Eventually(t, time.Minute, "the claim behind those is ended", func() bool {
		b.tick(l)
		return b.Count(`SELECT count(*) FROM tasktable.scheduled_task_executions WHERE task_id = 'abandoned'`) > 0
	})
	b.Is("abandoned", store.StatusQueued, taskdb.OutcomeLost)
}
