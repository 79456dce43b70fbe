package worker

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// What waits for a slot goes back at once, though what has the slot goes on.
func TestQuietNodeHandsBackWhatWaitsForASlot(t *testing.T) {
	s := newBench(t)
	tr := s.prepare(func(c *Config) { c.Slots = map[string]int{"default": 1} }, handlers.Handle(s.Handle))
	for _, id := range []string{"1", "2", "3"} {
		s.Add(id, nil)
	}
	tr.begin()
	tr.batch(3, 0)
	first := s.Begins("1")
	s.Passes(time.Now().Add(2 * gateValid)) // by then the others wait for a slot
	tr.config.Quiet.Set(true)
	for _, id := range []string{"2", "3"} {
		row, why := s.Is(id, store.StatusQueued, taskdb.OutcomeReleased), s.ErrorOf(id)
		late := why == "it waited too long for a slot" // on a busy machine
		if row.Attempt != 0 || why != "the node is quiet" && !late {
			t.Errorf("%s is at attempt %d: %s", id, row.Attempt, why)
		}
	}
	first.End <- nil
	s.Is("1", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Idle("2", "3")
}

// What waits for its transaction when the node becomes quiet does not start once it has one.
func TestQuietNodeStartsNoTransaction(t *testing.T) {
	s := newBench(t)
	tr := s.prepare(
		nil,
		handlers.HandleTx(func(ctx context.Context, _ pgx.Tx, task *handlers.Task[enginetest.Job]) error {
			return s.Handle(ctx, task)
		}),
	)
	s.Add("a", nil)
	release := enginetest.Exhaust(t, s.txPool)
	tr.begin()
	tr.batch(1, 0)
	enginetest.Eventually(t, patience, "its attempt begins", func() bool {
		held := tr.inHand(0)
		return len(held) == 1 && held[0].begun() != nil
	})
	s.Passes(time.Now().Add(gateValid + 50*time.Millisecond)) // by then the first gate's answer is too old
	tr.config.Quiet.Set(true)
	release()
	enginetest.Eventually(t, patience, "it goes back because the node is quiet", func() bool {
		return s.ErrorOf("a") == "the node is quiet"
	})
	// On a busy machine it may have gone back before, for want of a connection.
	if row := s.Is("a", store.StatusQueued, enginetest.Outcomes(t, s.Pool, "a")...); row.Attempt != 0 ||
		slices.Contains(enginetest.Outcomes(t, s.Pool, "a"), taskdb.OutcomeCompleted) {
		t.Errorf("attempt %d: %v", row.Attempt, enginetest.Outcomes(t, s.Pool, "a"))
	}
	s.Idle("a")
}
