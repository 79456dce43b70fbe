package scheduledtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/scheduled/scheduledtest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// limited is a harness with limits, whose tasks have their events as ids.
type limited struct {
	*scheduledtest.Harness
	t  *testing.T
	tx pgx.Tx
}

// newLimited makes a harness whose handler returns the errors of the function.
func newLimited(t *testing.T, run func(*handlers.Task[reminder]) error, limits ...store.Limit) *limited {
	tx := begin(t, storetest.Pool(t))
	for _, limit := range limits {
		if _, err := tasks.SetLimit(t.Context(), tx, limit); err != nil {
			t.Fatal(err)
		}
	}
	return &limited{scheduledtest.New(t, tx, registry(t,
		handlers.Handle(func(_ context.Context, task *handlers.Task[reminder]) error {
			if run == nil {
				return nil
			}
			return run(task)
		}))), t, tx}
}

// add schedules tasks for fivePM and the seconds after.
func (l *limited) add(change func(*store.Task), ids ...string) {
	l.t.Helper()
	for i, id := range ids {
		task := store.Task{ID: id, Payload: reminder{id}, At: fivePM.Add(time.Duration(i-len(ids)) * time.Second)}
		if change != nil {
			change(&task)
		}
		if _, err := tasks.Schedule(l.t.Context(), l.tx, task); err != nil {
			l.t.Fatal(err)
		}
	}
}

// runs fails the test unless these tasks run at a time after fivePM, in this order.
func (l *limited) runs(after time.Duration, want string) {
	l.t.Helper()
	var got []string
	for _, one := range l.RunDueAt(l.t.Context(), fivePM.Add(after)) {
		got = append(got, one.ID)
	}
	if strings.Join(got, " ") != want {
		l.t.Errorf("after %s ran %q, want %q", after, strings.Join(got, " "), want)
	}
}

// hold makes a task one that runs on some node.
func (l *limited) hold(id string) {
	l.t.Helper()
	for _, sql := range []string{taskdb.EnterSQL, `UPDATE tasktable.scheduled_tasks SET status = 'EXECUTING',
		attempt = 1, fence = nextval('tasktable.task_numbers'), lease_expires_at = now() + interval '1 hour',
		next_attempt_at = NULL, goes_first = true WHERE id = '` + id + `'`, taskdb.LeaveSQL} {
		if _, err := l.tx.Exec(l.t.Context(), sql); err != nil {
			l.t.Fatal(err)
		}
	}
}

func groupOf(task *store.Task) { task.Group = task.ID[:1] }

// At each time as many tasks run as the bucket has, the most urgent first. Tasks of other types do not wait.
func TestRateAtEachTime(t *testing.T) {
	t.Parallel()
	l := newLimited(t, nil,
		store.Limit{Name: "minute", Of: store.Type("REMINDER"), Rate: 2, Interval: time.Minute, Burst: 3},
		store.Limit{Name: "queue", Of: store.Queue("slow"), Rate: 1, Interval: time.Hour})
	l.add(nil, "a", "b", "c", "d", "e")
	l.add(func(task *store.Task) { task.Priority = 5 }, "urgent")
	l.runs(0, "urgent a b")
	l.runs(0, "")
	l.runs(29*time.Second, "")
	l.runs(30*time.Second, "c")
	l.runs(time.Hour, "d e")
	l.add(func(task *store.Task) { task.Queue = "slow" }, "s1", "s2")
	l.runs(time.Hour, "s1")
	l.runs(90*time.Minute, "")
	l.runs(2*time.Hour, "s2")
}

// Each group has a bucket of its own, which fills by the times that the test gives. Tasks without a group do not wait.
func TestRateOfEachGroup(t *testing.T) {
	t.Parallel()
	l := newLimited(t, nil,
		store.Limit{Name: "each", Of: store.Type("REMINDER"), Per: store.PerGroup, Rate: 1, Interval: time.Minute, Burst: 2})
	l.add(groupOf, "b1", "a1", "a2", "a3", "a4")
	l.add(nil, "n1", "n2")
	l.runs(0, "b1 a1 a2 n1 n2")
	l.add(groupOf, "b2", "b3")
	l.runs(0, "b2")
	l.runs(59*time.Second, "")
	l.runs(time.Minute, "a3 b3")
	l.runs(time.Minute, "")
	l.runs(2*time.Minute, "a4")
}

// With database/sql it is the same.
func TestRateInASQLTransaction(t *testing.T) {
	t.Parallel()
	db := stdlib.OpenDBFromPool(storetest.Pool(t))
	t.Cleanup(func() { _ = db.Close() })
	tx, err := db.BeginTx(t.Context(), nil)
	enginetest.OK(t, err)
	defer func() { _ = tx.Rollback() }()
	if _, err := tasks.SetLimit(t.Context(), store.SQL(tx), store.Limit{
		Name: "order", Of: store.Everything(), Per: store.PerTenant, InOrder: true,
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := tasks.SetLimit(t.Context(), store.SQL(tx), store.Limit{
		Name: "rate", Of: store.Everything(), Rate: 1, Burst: 2,
	}); err != nil {
		t.Fatal(err)
	}
	h := scheduledtest.NewSQL(t, tx, registry(t,
		handlers.Handle(func(context.Context, *handlers.Task[reminder]) error { return nil })))
	for i := range 5 {
		schedule(t, store.SQL(tx), store.Task{Payload: reminder{fmt.Sprint(i)}, At: fivePM, TenantID: "clinic"})
	}
	for after, want := range []int{2, 1, 1} {
		if ran := h.RunDueAt(t.Context(), fivePM.Add(time.Duration(after)*time.Second)); len(ran) != want {
			t.Errorf("after %d s ran %+v, want %d", after, ran, want)
		}
	}
}

// A task of a group waits for the end of the one before, over its retries. Others do not.
func TestOrderOfGroups(t *testing.T) {
	t.Parallel()
	fails := map[string]int{"a1": 2, "b2": 1}
	run := func(task *handlers.Task[reminder]) error {
		if task.Attempt > fails[task.ID] {
			return nil
		}
		return handlers.RetryAfter(time.Minute, errors.New("no"))
	}
	l := newLimited(t, run, store.Limit{
		Name: "order", Of: store.Type("REMINDER"), Per: store.PerGroup, InOrder: true,
	})
	l.add(groupOf, "a1", "a2", "b1", "b2", "b3")
	l.add(nil, "n1", "n2")
	l.runs(0, "a1 b1 n1 n2 b2")
	l.add(func(task *store.Task) { task.Group, task.Priority, task.Queue = "a", 9, "other" }, "urgent")
	l.runs(59*time.Second, "")
	l.runs(time.Minute, "a1 b2 b3")
	l.runs(2*time.Minute, "a1 urgent a2")
	if row, err := tasks.Get(t.Context(), l.tx, "a1"); err != nil || row.Attempt != 3 {
		t.Errorf("a1 is %+v, %v", row, err)
	}
}

// A limit that is set later holds for the tasks that wait already. What is cancelled holds up nothing.
func TestOrderThatIsSetLater(t *testing.T) {
	t.Parallel()
	l := newLimited(t, func(task *handlers.Task[reminder]) error {
		if task.ID == "a1" {
			return errors.New("no")
		}
		return nil
	})
	l.add(groupOf, "a1", "a2", "a3")
	if _, err := tasks.SetLimit(t.Context(), l.tx, store.Limit{
		Name: "order", Of: store.Everything(), Per: store.PerGroup, InOrder: true,
	}); err != nil {
		t.Fatal(err)
	}
	l.runs(0, "a1")
	l.runs(time.Second, "")
	if _, err := tasks.Cancel(t.Context(), l.tx, "a1"); err != nil {
		t.Fatal(err)
	}
	l.runs(2*time.Second, "a2 a3")
}

// One after the other, any number may run. A task that somebody else holds counts, and so do the tasks of its group.
func TestMaxRunningCountsWhatOthersHold(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]store.Limit{
		"b a c": {Name: "two", Of: store.Type("REMINDER"), MaxRunning: 2},
		"":      {Name: "one", Of: store.Type("REMINDER"), MaxRunning: 1},
		"b c":   {Name: "one", Of: store.Everything(), Per: store.PerGroup, MaxRunning: 1},
		"b":     {Name: "order", Of: store.Everything(), Per: store.PerGroup, InOrder: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLimited(t, func(task *handlers.Task[reminder]) error {
				if task.ID == "b" && limit.InOrder {
					return errors.New("no")
				}
				return nil
			}, limit)
			l.add(groupOf, "a held")
			l.hold("a held")
			l.add(func(task *store.Task) { task.Group = "a" }, "a")
			l.add(func(task *store.Task) { task.Group = "b" }, "b", "c")
			l.runs(0, name)
		})
	}
}

// Tenants take turns over the calls. One of weight 3 has three turns for one of another.
func TestWeights(t *testing.T) {
	t.Parallel()
	l := newLimited(t, nil,
		store.Limit{Name: "turns", Of: store.Everything(), Per: store.PerTenant, Weights: store.Weights{"b": 3}},
		store.Limit{Name: "rate", Of: store.Everything(), Rate: 1})
	for _, tenant := range []string{"a", "b"} { // all of the first are due before
		l.add(func(task *store.Task) { task.TenantID = tenant }, tenant+"1", tenant+"2", tenant+"3", tenant+"4")
	}
	for i, want := range []string{"a1", "b1", "b2", "b3", "a2", "b4", "a3", "a4"} {
		l.runs(time.Duration(i)*time.Second, want)
	}
}
