package maintenance

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/failures"
	"github.com/tasktable/tasktable/scheduled/internal/metrics"
	"github.com/tasktable/tasktable/store"
)

// Where a trigger of the application's makes rows slow, the leader takes back fewer claims at
// a time. It gets on. A claim that takes too long by itself keeps no other.
func TestAbandonedClaimsThatAreSlow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	now := time.Now()
	const n = 60
	for i := range n {
		b.Schedule(store.Task{
			ID: fmt.Sprintf("%02d", i), Payload: enginetest.Job{Name: "a"}, At: now.Add(-time.Hour),
		})
	}
	if taken := b.Take(time.Now()); len(taken) != n {
		t.Fatalf("%d claims", len(taken))
	}
	b.Exec(`UPDATE tasktable.scheduled_tasks SET lease_expires_at = clock_timestamp() - interval '1 hour'`)
	b.Exec(`
		CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			PERFORM pg_sleep(CASE OLD.id WHEN '00' THEN 2 ELSE 0.02 END);
			RETURN NEW;
		END $$`)
	b.Exec(`
		CREATE TRIGGER slow BEFORE UPDATE ON tasktable.scheduled_tasks
		FOR EACH ROW WHEN (OLD.fence IS NOT NULL AND NEW.fence IS NULL) EXECUTE FUNCTION slow()`)
	a := NewAbandoned(AbandonedConfig{
		Config: b.onLeader(), After: 10 * time.Millisecond, Within: time.Second,
		Failures: failures.New(failures.Config{}), Metrics: metrics.New(metrics.Config{}),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { a.Run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	enginetest.Eventually(t, 60*time.Second, "the claims are taken back", func() bool {
		var held int
		err := b.Pool.QueryRow(t.Context(), `SELECT count(*) FROM tasktable.scheduled_tasks
			WHERE fence IS NOT NULL AND id <> '00'`).Scan(&held)
		return err == nil && held == 0
	})
}
