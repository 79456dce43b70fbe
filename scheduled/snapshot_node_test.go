package scheduled

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// Under an old snapshot, with very many dead entries of claimed tasks before the marks, a task that was due long ago
// begins at once. So does the first task of the next leader.
func TestDeadEntriesUnderASnapshot(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	const within = 2 * time.Second
	limit := enginetest.Limits(t, s.Pool)
	stop := s.node(nil, handlers.Handle(s.Handle))
	s.Add("first", nil)
	s.Begins("first").End <- nil
	snapshot, err := s.Pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	s.OK(err)
	t.Cleanup(func() { _ = snapshot.Rollback(context.Background()) })
	s.Did(snapshot.Exec(t.Context(), `SELECT count(*) FROM tasktable.nodes`))
	s.Sees("the leader has written its marks", `SELECT count(*) > 0 FROM tasktable.nodes WHERE marks IS NOT NULL`)
	tx, err := s.Pool.Begin(t.Context())
	s.OK(err)
	for _, sql := range []string{
		`SET LOCAL session_replication_role = replica`, // past the triggers
		`INSERT INTO tasktable.scheduled_tasks (id, payload, type, revision, next_attempt_at)
		SELECT 'dead ' || i, '{"type": "JOB"}', 'JOB', i, now() - i * interval '10 milliseconds'
		FROM generate_series(1, 300000) AS i`,
		`UPDATE tasktable.scheduled_tasks SET status = 'COMPLETED', next_attempt_at = NULL, finished_at = now()
		WHERE id LIKE 'dead %'`,
	} {
		s.Did(tx.Exec(t.Context(), sql))
	}
	s.OK(tx.Commit(t.Context()))
	begins := func(id string) {
		t.Helper()
		began := time.Now()
		s.Add(id, func(task *store.Task) { task.At = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC) })
		s.Begins(id).End <- nil
		if took := time.Since(began); took > limit(within) {
			t.Errorf("%s began after %s", id, took)
		}
	}
	begins("of 2025")
	stop()
	s.node(nil, handlers.Handle(s.Handle))
	s.Sees("the next node leads", `SELECT count(*) = 1 FROM tasktable.node_states WHERE state = 'leads'`)
	begins("of the next leader")
}
