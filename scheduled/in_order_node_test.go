package scheduled

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

// ledger notes in which order the tasks of each group begin. Most attempts do not end their task.
type ledger struct {
	mu    sync.Mutex
	dice  *rand.Rand
	open  map[string]string   // the task of each group that has begun and has not ended
	begun map[string][]string // the tasks of each group, in the order of their first attempts
	tries int
	wrong []string
}

func (l *ledger) run(_ context.Context, about *handlers.Task[quick]) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tries++
	switch open := l.open[about.Group]; {
	case open == "":
		l.begun[about.Group] = append(l.begun[about.Group], about.ID)
	case open != about.ID:
		l.wrong = append(l.wrong, fmt.Sprintf("%s began, and %s has not ended", about.ID, open))
	}
	l.open[about.Group] = about.ID
	switch l.dice.IntN(10) {
	case 0, 1, 2:
		return handlers.RetryAfter(time.Duration(l.dice.IntN(100))*time.Millisecond, errors.New("no"))
	case 3:
		return handlers.Snooze(0) // for a second
	case 4:
		delete(l.open, about.Group)
		return handlers.Permanent(errors.New("never"))
	}
	delete(l.open, about.Group)
	return nil
}

// Over two nodes, of which one is stopped and another is started, the tasks of each group begin in the order of their
// priorities and times, each after the end of the one before.
func TestTasksOfGroupsRunInOrder(t *testing.T) {
	s := newBench(t)
	seed := rand.Uint64()
	t.Log("seed", seed)
	l := &ledger{dice: rand.New(rand.NewPCG(seed, 0)), open: map[string]string{}, begun: map[string][]string{}}
	s.set(store.Limit{Name: "order", Of: store.Type("QUICK"), Per: store.PerGroup, InOrder: true})
	const groups, each = 8, 6
	began, want := time.Now(), map[string][]string{}
	var tasks []store.Task
	for i := range groups * each {
		tasks = append(tasks, store.Task{ID: fmt.Sprint("task ", i), Payload: quick{}, Group: fmt.Sprint("group ", i%groups),
			Priority: l.dice.IntN(3), At: began.Add(time.Second + time.Duration(l.dice.IntN(1000))*time.Microsecond*1000)})
	}
	slices.SortFunc(tasks, func(a, b store.Task) int { return a.At.Compare(b.At) })
	for i := range tasks { // no two have the same time
		tasks[i].At = tasks[i].At.Add(time.Duration(i) * time.Microsecond)
	}
	s.Did(s.Tasks.ScheduleMany(t.Context(), s.Pool, tasks))
	slices.SortStableFunc(tasks, func(a, b store.Task) int { return b.Priority - a.Priority })
	for _, task := range tasks {
		want[task.Group] = append(want[task.Group], task.ID)
	}
	s.Sees("all are due", `SELECT count(*) = $1 FROM tasktable.scheduled_tasks WHERE next_attempt_at < clock_timestamp()`,
		len(tasks))
	node := func() (stop func()) {
		return s.node(func(c *Config) { c.Queues = map[string]int{"default": 5} }, handlers.Handle(l.run))
	}
	stop := node()
	node()
	const ended = `SELECT count(*) >= $1 FROM tasktable.scheduled_tasks WHERE finished_at IS NOT NULL`
	s.Sees("some have ended", ended, len(tasks)/3)
	stop()
	node()
	s.Sees("all have ended", ended, len(tasks))
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, fault := range l.wrong {
		t.Error(fault)
	}
	for group, ids := range want {
		if !slices.Equal(l.begun[group], ids) {
			t.Errorf("%s began in the order %s, want %s", group, strings.Join(l.begun[group], ", "), strings.Join(ids, ", "))
		}
	}
	if l.tries <= len(tasks) {
		t.Error("no task was tried again")
	}
}
