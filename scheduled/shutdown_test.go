package scheduled

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// A stop interrupts handlers that take too long. The task of one that minds its context runs elsewhere at once, and no
// attempt is used. The task of one that does not is lost with its node, and runs elsewhere when that is dead.
func TestStopInterruptsWhatTakesTooLong(t *testing.T) {
	b := newBench(t)
	parts := []handlers.Part{handlers.Handle(b.Handle), handlers.Handle(
		func(ctx context.Context, task *handlers.Task[quick]) error {
			return b.HandleDeaf(ctx, &handlers.Task[enginetest.Job]{Execution: task.Execution})
		})}
	stop := b.node(func(c *Config) { c.ShutdownTimeout = 500 * time.Millisecond }, parts...)
	b.Add("long", nil)
	b.Add("deaf", func(task *store.Task) { task.Payload = quick{"deaf"} })
	long, deaf := b.Begins("long"), b.Begins("deaf")
	b.node(nil, parts...)
	stop()
	if cause := long.Ends(t, patience); !errors.Is(cause, handlers.ErrInterrupted) {
		t.Errorf("the context ended by %v", cause)
	}
	again := b.Begins("long")
	if again.Attempt != 1 {
		t.Errorf("the second run counts as attempt %d", again.Attempt)
	}
	again.End <- nil
	b.Is("long", store.StatusCompleted, taskdb.OutcomeInterrupted, taskdb.OutcomeCompleted)
	b.Begins("deaf").End <- nil
	b.Is("deaf", store.StatusCompleted, taskdb.OutcomeLost, taskdb.OutcomeCompleted)
	deaf.End <- nil
	b.Idle("long", "deaf")
}
