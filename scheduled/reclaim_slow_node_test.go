package scheduled

import (
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// A trigger of the application's makes each row slow, so that the claims of a dead node are too many for the time limit
// of one statement. The leader takes them back all the same, a few at a time. It leaves only the one that takes too
// long by itself.
func TestSlowRowsOfADeadNodeAreTakenBack(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	s.Add("slowest", nil)
	const n = 40
	for i := range n - 1 {
		s.Add(fmt.Sprintf("%02d", i), nil)
	}
	tr := s.prepare(nil, handlers.Handle(s.Handle))
	tr.oneBatch("default", n)
	tr.turn()
	s.Exec(`UPDATE tasktable.river_job SET state = 'running', attempted_by = ARRAY[$1::text], attempted_at = now()`,
		taskdb.ClientID(999_999))
	s.Exec(`
		CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			PERFORM pg_sleep(CASE WHEN NEW.id = 'slowest' THEN 3 ELSE 0.06 END);
			RETURN NEW;
		END $$`)
	s.Exec(`
		CREATE TRIGGER slow BEFORE UPDATE ON tasktable.scheduled_tasks
		FOR EACH ROW WHEN (OLD.fence IS NOT NULL AND NEW.fence IS NULL) EXECUTE FUNCTION slow()`)
	s.Exec(`UPDATE tasktable.scheduled_tasks SET queue = 'nobody'`)
	left := func() int {
		return s.Count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL AND id <> 'slowest'`)
	}
	enginetest.Eventually(t, 60*time.Second, "the claims are taken back", func() bool {
		if _, err := tr.leader.Tick(t.Context()); err != nil && !pg.IsTimeout(err) {
			t.Fatal(err)
		}
		return left() == 0
	})
	if lost := s.Count(`SELECT count(*) FROM tasktable.scheduled_task_executions WHERE outcome = 'LOST'`); lost != n-1 {
		t.Errorf("%d claims are lost, want %d", lost, n-1)
	}
	s.Exec(`DROP TRIGGER slow ON tasktable.scheduled_tasks`)
	row, err := s.Tasks.Get(t.Context(), s.Pool, "slowest")
	if err != nil || row.Fence == nil {
		t.Fatalf("the slowest is taken back although it cannot be: %v", err)
	}
	clear(tr.leader.Quarantined) // as after a minute
	tr.run()
	enginetest.Await(t, s.Pool, "slowest", patience, store.StatusQueued)
	s.Sees("the River job is gone", `SELECT count(*) = 0 FROM tasktable.river_job`)
}
