package scheduled

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// flaky is a payload with defaults.
type flaky struct{}

func (flaky) TaskType() string { return "FLAKY" }
func (flaky) TaskDefaults() store.Defaults {
	return store.Defaults{MaxAttempts: 2, Backoff: "1s", Retention: time.Hour}
}

// A node publishes the defaults of its code, so that SQL clients have them. The wait before a retry is the type's.
func TestDefaultsOfTheCodeAreForAll(t *testing.T) {
	s := newBench(t)
	starts := make(chan time.Time, 2)
	s.node(func(c *Config) { c.Defaults.Timeout = time.Minute },
		handlers.Handle(func(_ context.Context, task *handlers.Task[flaky]) error {
			starts <- task.StartedAt
			return errors.New("no")
		}))
	s.Sees("the node's row has those of all types", `SELECT count(*) = 1 FROM tasktable.nodes
		WHERE defaults = '{"timeout": 60000000000}'`)
	s.Sees("the defaults are published", `SELECT count(*) = 2 FROM tasktable.task_defaults WHERE declared_by IS NOT NULL`)
	s.Exec(`SELECT tasktable.schedule('{"type": "FLAKY"}', id => 'one')`)
	if wait := -(<-starts).Sub(<-starts); wait < time.Second || wait > 5*time.Second {
		t.Errorf("tried again after %s", wait)
	}
	s.Sees("it has failed for good", `SELECT status = 'FAILED' FROM tasktable.scheduled_tasks WHERE id = 'one'`)
	row := s.Is("one", store.StatusFailed, taskdb.OutcomeRetried, taskdb.OutcomeFailed)
	if *row.Timeout != time.Minute || *row.Retention != time.Hour || row.MaxAttempts != 2 {
		t.Errorf("the row: %+v", row)
	}
}
