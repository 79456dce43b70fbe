package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Handlers that have all connections of their pool keep no task from being claimed, started and settled.
func TestExhaustedPoolStopsNothing(t *testing.T) {
	s := newBench(t)
	s.node(nil)
	release := enginetest.Exhaust(t, s.txPool)
	for i := range 30 {
		s.Add(fmt.Sprint(i), func(task *store.Task) {
			if i%3 == 0 {
				task.MaxAttempts = 1
			}
		})
	}
	for i := range 30 {
		a := s.Begins(fmt.Sprint(i))
		switch i % 3 {
		case 0:
			a.End <- errors.New("oops")
		case 1:
			a.FollowUp(store.Task{ID: "next", Payload: enginetest.Job{Name: "next"}, At: time.Now().Add(time.Hour)})
			a.End <- a.Extend(t.Context(), time.Minute)
		case 2:
			a.Again(time.Now().Add(time.Hour))
			a.End <- nil
		}
	}
	for i := range 30 {
		switch i % 3 {
		case 0:
			s.Is(fmt.Sprint(i), store.StatusFailed, taskdb.OutcomeFailed)
		case 1:
			s.Is(fmt.Sprint(i), store.StatusCompleted, taskdb.OutcomeCompleted)
		case 2:
			s.Is(fmt.Sprint(i), store.StatusQueued, taskdb.OutcomeCompleted)
		}
	}
	release()
}

// A transactional handler that has waited long for its connection starts by what the task has become: not at all, if
// it was cancelled meanwhile, and with the time of its start.
func TestTransactionWaitsForAConnection(t *testing.T) {
	t.Parallel()
	s, both := effectful(t, nil)
	release := enginetest.Exhaust(t, s.txPool)
	names := []string{"cancelled", "moved", "goes on"}
	both(func(kind string, schedule func(string, func(*store.Task))) {
		for _, name := range names {
			schedule(name, nil)
			enginetest.Await(t, s.Pool, kind+name, patience, store.StatusExecuting)
		}
	})
	s.Passes(time.Now().Add(600 * time.Millisecond)) // by then they are waiting
	both(func(kind string, _ func(string, func(*store.Task))) {
		if _, err := s.Tasks.Cancel(t.Context(), s.Pool, kind+"cancelled"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Tasks.Reschedule(t.Context(), s.Pool, kind+"moved", time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	})
	released := time.Now()
	release()
	both(func(kind string, _ func(string, func(*store.Task))) {
		a := s.Begins(kind + "goes on")
		if early := released.Sub(a.StartedAt); early > 100*time.Millisecond {
			t.Errorf("%s started %s before it had a connection", a.ID, early)
		}
		a.End <- nil
		s.Is(a.ID, store.StatusCompleted, taskdb.OutcomeCompleted)
		s.Is(kind+"cancelled", store.StatusCancelled, taskdb.OutcomeCancelled)
		s.Is(kind+"moved", store.StatusQueued, taskdb.OutcomeReleased)
		s.Idle(kind+"cancelled", kind+"moved")
	})
}

// An application's open transaction on one row stalls the outcome of that task alone, whatever kind it is: all others
// are recorded, and new ones claimed, started and recorded.
func TestALockedRowStallsNoOther(t *testing.T) {
	s := newBench(t)
	limit := enginetest.Limits(t, s.Pool)
	s.node(nil)
	kinds := []string{"plain", "again", "followed", "into a locked row"}
	follow := func(a *enginetest.Attempt) {
		switch a.Payload.Name {
		case "again":
			a.Again(time.Now().Add(time.Hour))
		case "followed":
			a.FollowUp(store.Task{
				ID: "after " + a.ID, Payload: enginetest.Job{Name: "after"}, At: time.Now().Add(time.Hour),
			})
		case "into a locked row":
			a.FollowUp(store.Task{
				ID: "target", Payload: enginetest.Job{Name: "target"}, At: time.Now().Add(2 * time.Hour),
			})
		}
		a.End <- nil
	}
	s.Add("target", func(task *store.Task) { task.At = time.Now().Add(time.Hour) })
	unlockTarget := enginetest.Lock(t, s.Pool, "target")
	var unlock []func()
	locked := map[string]*enginetest.Attempt{}
	for _, kind := range kinds {
		id := "locked " + kind
		s.Add(id, func(task *store.Task) { task.Payload = enginetest.Job{Name: kind} })
		locked[id] = s.Begins(id)
		if kind != "into a locked row" {
			unlock = append(unlock, enginetest.Lock(t, s.Pool, id))
		}
	}
	for _, a := range locked {
		follow(a)
	}
	var worst time.Duration
	for i := range 20 {
		for _, kind := range kinds[:3] {
			id := fmt.Sprint(kind, " ", i)
			s.Add(id, func(task *store.Task) { task.Payload = enginetest.Job{Name: kind} })
		}
		began := time.Now()
		for _, kind := range kinds[:3] {
			follow(s.Begins(fmt.Sprint(kind, " ", i)))
		}
		for _, kind := range kinds[:3] {
			want := store.StatusCompleted
			if kind == "again" {
				want = store.StatusQueued
			}
			s.Is(fmt.Sprint(kind, " ", i), want, taskdb.OutcomeCompleted)
		}
		worst = max(worst, time.Since(began))
	}
	t.Logf("beside locked rows a task is begun and recorded within %s", worst)
	if worst > limit(1500*time.Millisecond) {
		t.Errorf("beside locked rows it took %s to begin and record a task", worst)
	}
	for id := range locked {
		if row, err := enginetest.Tasks.Get(t.Context(), s.Pool, id); err != nil ||
			row.Status != store.StatusExecuting {
			t.Errorf("%s is %s, %v", id, row.Status, err)
		}
	}
	for _, unlock := range unlock {
		unlock()
	}
	for _, kind := range kinds[:3] {
		want := store.StatusCompleted
		if kind == "again" {
			want = store.StatusQueued
		}
		s.Is("locked "+kind, want, taskdb.OutcomeCompleted)
	}
	unlockTarget()
	s.Is("locked into a locked row", store.StatusCompleted, taskdb.OutcomeCompleted)
}

// Connections of the pool alone that lead to a standby are given up.
func TestReadOnlyPoolIsEvicted(t *testing.T) {
	s := newBench(t)
	tr := s.prepare(nil)
	var taken []*pgxpool.Conn
	for range int(tr.config.EnginePool.Config().MaxConns) {
		conn, err := tr.config.EnginePool.Acquire(t.Context())
		s.OK(err)
		s.Did(conn.Exec(t.Context(), "SET default_transaction_read_only = on"))
		taken = append(taken, conn)
	}
	for _, conn := range taken {
		conn.Release()
	}
	tr.begin()
	tr.askPool(t.Context())
	conn, err := tr.config.EnginePool.Acquire(t.Context())
	s.OK(err)
	if err := pg.RefuseReadOnly(conn.QueryRow(t.Context(), pg.ReadOnlySQL)); err != nil {
		t.Error(err)
	}
	conn.Release()
	s.Add("a", nil)
	tr.batch(1, 0)
	s.Begins("a").End <- nil
	s.Is("a", store.StatusCompleted, "COMPLETED")
}

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
