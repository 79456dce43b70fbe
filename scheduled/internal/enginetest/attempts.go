package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Attempt is an attempt whose handler the test ends.
type Attempt struct {
	*handlers.Task[Job]
	Ctx context.Context
	End chan error // the handler returns the error that the test sends
}

// Ends waits for the attempt's context to end, and returns why it did.
func (a *Attempt) Ends(t *testing.T, within time.Duration) error {
	t.Helper()
	Receive(t, a.Ctx.Done(), within, "the context of task "+a.ID+" ends")
	return context.Cause(a.Ctx)
}

// steering brings the attempts of a bench's handlers to the test.
type steering struct {
	mu       sync.Mutex
	attempts map[string]chan *Attempt
	over     context.Context
	letGo    context.CancelFunc
}

func newSteering() *steering {
	s := &steering{attempts: map[string]chan *Attempt{}}
	s.over, s.letGo = context.WithCancel(context.Background())
	return s
}

// Handle is a handler that tells the test that an attempt has begun. It ends as the test says, or with its context.
func (b *Bench) Handle(ctx context.Context, task *handlers.Task[Job]) error {
	return b.steer(ctx, task, ctx.Done())
}

// HandleDeaf is Handle for a handler that does not mind its context.
func (b *Bench) HandleDeaf(ctx context.Context, task *handlers.Task[Job]) error {
	return b.steer(ctx, task, nil)
}

// errOver is the error of attempts that nobody waits for any more.
var errOver = errors.New("the test is over")

func (b *Bench) steer(ctx context.Context, task *handlers.Task[Job], done <-chan struct{}) error {
	a := &Attempt{Task: task, Ctx: ctx, End: make(chan error, 1)}
	b.Of(task.ID) <- a
	select {
	case err := <-a.End:
		return err
	case <-done:
		return context.Cause(ctx)
	case <-b.steering.over.Done():
		return errOver
	}
}

// LetGo ends all attempts, those to come included. Call it before what runs them stops.
func (b *Bench) LetGo() { b.steering.letGo() }

// Of is the channel of a task's attempts.
func (b *Bench) Of(id string) chan *Attempt {
	s := b.steering
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempts[id] == nil {
		s.attempts[id] = make(chan *Attempt, 1000)
	}
	return s.attempts[id]
}

// Begins waits for the next attempt of a task.
func (b *Bench) Begins(id string) *Attempt {
	b.T.Helper()
	return Receive(b.T, b.Of(id), Patience, "task "+id+" begins")
}

// Idle fails the test if a task has attempts that the test did not wait for.
func (b *Bench) Idle(ids ...string) {
	b.T.Helper()
	for _, id := range ids {
		if n := len(b.Of(id)); n != 0 {
			b.T.Errorf("task %s has run %d times more than it should", id, n)
		}
	}
}

// Add schedules a JOB task with its name as id.
func (b *Bench) Add(name string, change func(*store.Task)) store.Receipt {
	b.T.Helper()
	task := store.Task{ID: name, Payload: Job{Name: name}}
	if change != nil {
		change(&task)
	}
	receipt, err := b.Tasks.Schedule(b.T.Context(), b.Pool, task)
	b.OK(err)
	return receipt
}

// Is waits for a task to be in a status and not held, and compares its history.
func (b *Bench) Is(id string, status store.Status, history ...string) store.Row {
	b.T.Helper()
	var row store.Row
	Eventually(b.T, Patience, fmt.Sprintf("task %s is %s and free", id, status), func() bool {
		var err error
		row, err = Tasks.Get(b.T.Context(), b.Pool, id)
		return err == nil && row.Status == status && row.Fence == nil
	})
	if got := Outcomes(b.T, b.Pool, id); !slices.Equal(got, history) {
		b.T.Errorf("task %s is %s with the history %v, want %v; last error: %s",
			id, row.Status, got, history, b.ErrorOf(id))
	}
	return row
}

// Ends is as Is, for a task with one line of history. It leaves out lines that say that the task went back to the queue
// before it began, because a node on a busy machine hands tasks back that have waited for a second.
func (b *Bench) Ends(id string, status store.Status, outcome string) {
	b.T.Helper()
	Await(b.T, b.Pool, id, Patience, status)
	history := slices.DeleteFunc(Outcomes(b.T, b.Pool, id), func(outcome string) bool {
		return outcome == taskdb.OutcomeReleased
	})
	if !slices.Equal(history, []string{outcome}) {
		b.T.Errorf("task %s is %s with the history %v, want %s; last error: %s",
			id, status, history, outcome, b.ErrorOf(id))
	}
}

// ErrorOf is the error in the last line of a task's history.
func (b *Bench) ErrorOf(id string) string {
	b.T.Helper()
	history, err := Tasks.History(b.T.Context(), b.Pool, id)
	b.OK(err)
	if len(history.Executions) == 0 {
		return ""
	}
	return taskdb.TextOf(history.Executions[len(history.Executions)-1].Error)
}

// Ask returns the one value of a query's one row.
func Ask[T any](b *Bench, query string, args ...any) (answer T) {
	b.T.Helper()
	if err := b.Pool.QueryRow(b.T.Context(), query, args...).Scan(&answer); err != nil {
		b.T.Fatalf("%v: %s", err, query)
	}
	return answer
}

// Count is the number that a query returns.
func (b *Bench) Count(query string, args ...any) int {
	b.T.Helper()
	return Ask[int](b, query, args...)
}

// Counts fails the test if a query counts another number.
func (b *Bench) Counts(what string, want int, query string, args ...any) {
	b.T.Helper()
	if n := b.Count(query, args...); n != want {
		b.T.Errorf("%s: %d, want %d", what, n, want)
	}
}

// Now is the database's time.
func (b *Bench) Now() time.Time {
	b.T.Helper()
	return Ask[time.Time](b, `SELECT clock_timestamp()`)
}

// Passes waits until the database's clock has passed a time.
func (b *Bench) Passes(at time.Time) {
	b.T.Helper()
	Eventually(b.T, time.Until(at)+5*time.Second, "the time comes", func() bool { return b.Now().After(at) })
}

// Sees waits until a query is true. It is not while it returns no row.
func (b *Bench) Sees(what, query string, args ...any) {
	b.T.Helper()
	b.SeesWithin(Patience, what, query, args...)
}

// SeesWithin is Sees with another deadline.
func (b *Bench) SeesWithin(within time.Duration, what, query string, args ...any) {
	b.T.Helper()
	Eventually(b.T, within, what, func() bool { return Ask[bool](b, `SELECT coalesce((`+query+`), false)`, args...) })
}

// Never fails the test if a query counts anything.
func (b *Bench) Never(what, query string, args ...any) {
	b.T.Helper()
	if n := b.Count(query, args...); n != 0 {
		b.T.Errorf("%d times: %s", n, what)
	}
}
