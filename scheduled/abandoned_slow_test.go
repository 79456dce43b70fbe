package scheduled

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

// Where a trigger of the application's makes rows slow, the walk takes fewer pages at a time. It gets on.
func TestAbandonedClaimsThatAreSlow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	now := time.Now()
	const n = 60
	for i := range n {
		b.schedule(store.Task{
			ID: fmt.Sprintf("%02d", i), Payload: job{"a"}, At: now.Add(-time.Hour),
		})
	}
	if taken := b.take(now); len(taken) != n {
		t.Fatalf("%d claims", len(taken))
	}
	b.exec(`UPDATE tasktable.scheduled_tasks SET lease_expires_at = clock_timestamp() - interval '1 hour'`)
	b.exec(`
		CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN NEW; END $$`)
	b.exec(`
		CREATE TRIGGER slow BEFORE UPDATE ON tasktable.scheduled_tasks
		FOR EACH ROW WHEN (OLD.fence IS NOT NULL AND NEW.fence IS NULL) EXECUTE FUNCTION slow()`)
	a := &abandoned{
		pool: b.pool, statements: b.Queries, leads: func() bool { return true }, after: 10 * time.Millisecond,
		within: time.Second, metrics: newMetrics(Config{Logger: testLogger()}),
		dead: newFailureNotifier(nil, nil, testLogger()), log: testLogger(),
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { a.run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	eventually(t, 60*time.Second, "the claims are taken back", func() bool {
		var held int
		err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM tasktable.scheduled_tasks
			WHERE fence IS NOT NULL`).Scan(&held)
		return err == nil && held == 0
	})
}
