package scheduled

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

// logText is a log that can be read while it is written.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// lines are those that contain all of the words.
func (l *logText) lines(words ...string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
next:
	for one := range strings.Lines(l.text.String()) {
		for _, word := range words {
			if !strings.Contains(one, word) {
				continue next
			}
		}
		found = append(found, one)
	}
	return found
}

// Chains that go on for ever at once, by Again, by follow-ups with new ids or with old ones in a ring: after the first hundred
// links each goes on once a second, the log says so, and others still run at their times. One that pauses is no chain.
func TestEndlessChains(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var log logText
	var over atomic.Bool
	links := map[string]func(task *handlers.Task[job]){
		"again": func(task *handlers.Task[job]) { task.Again(time.Now()) },
		"new":   func(task *handlers.Task[job]) { task.FollowUp(store.Task{Payload: unkeyed{"new"}}) },
		"ring": func(task *handlers.Task[job]) {
			next := "ring 2"
			if task.ID == next {
				next = "ring 1"
			}
			task.FollowUp(store.Task{ID: next, Payload: unkeyed{"ring"}, At: time.Now()})
		},
		"slow": func(task *handlers.Task[job]) { task.Again(time.Now().Add(1100 * time.Millisecond)) },
	}
	s.node(func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) }, handlers.Handle(func(_ context.Context, task *handlers.Task[job]) error {
		if link := links[task.Payload.Name]; link != nil && !over.Load() {
			link(task)
		}
		return nil
	}))
	for id, name := range map[string]string{"again": "again", "new": "new", "ring 1": "ring", "slow": "slow"} {
		s.schedule(id, func(task *store.Task) { task.Payload = job{name} })
	}
	const ofNameSQL = ` FROM tasktable.scheduled_task_executions AS e JOIN tasktable.scheduled_tasks AS t ON t.id = e.task_id WHERE t.payload ->> 'name' = $1`
	for _, name := range []string{"again", "new", "ring"} {
		eventually(t, 30*time.Second, name+" has 103 links", func() bool { return s.count(`SELECT count(*)`+ofNameSQL, name) >= chainMost+3 })
	}
	// Others at the same time.
	var others []string
	for i := range 20 {
		others = append(others, fmt.Sprint("other ", i))
		s.schedule(others[i], func(task *store.Task) { task.At = time.Now().Add(time.Duration(i) * 50 * time.Millisecond) })
	}
	for _, id := range others {
		if row := s.is(id, store.StatusCompleted, outcomeCompleted); row.StartedAt.Sub(row.ScheduledAt) > time.Second {
			t.Errorf("%s started %s late", id, row.StartedAt.Sub(row.ScheduledAt))
		}
	}
	over.Store(true)
	eventually(t, 10*time.Second, "the chains have ended", func() bool {
		return s.count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE finished_at IS NULL`) == 0
	})
	slowed := 0
	for _, name := range []string{"again", "new", "ring"} {
		gaps := `SELECT count(*) FROM (SELECT e.started_at - lag(e.started_at) OVER (ORDER BY e.started_at) AS gap, row_number() OVER (ORDER BY e.started_at) AS n` +
			ofNameSQL + `) AS x WHERE `
		fast, slow := s.count(gaps+`n <= $2 AND gap < interval '500 ms'`, name, chainMost), s.count(gaps+`n > $2 + 1 AND gap >= interval '950 ms'`, name, chainMost)
		n := s.count(`SELECT count(*)`+ofNameSQL, name)
		slowed += n - chainMost
		t.Logf("%s: %d links, %d of the first hundred at once, %d of the others a second later", name, n, fast, slow)
		if fast < chainMost*8/10 || slow != n-chainMost-1 {
			t.Errorf("%s: %d links, %d of the first hundred at once, %d of the others a second later", name, n, fast, slow)
		}
	}
	for _, id := range []string{"again", "ring"} {
		if len(log.lines("level=WARN", "chain of tasks", "task="+id, "links=")) == 0 && len(log.lines("level=WARN", "chain of tasks", `task="`+id, "links=")) == 0 {
			t.Errorf("the log does not tell of %s", id)
		}
	}
	if n := len(log.lines("chain of tasks")); n > slowed {
		t.Errorf("the log tells %d times of %d links that were slowed down", n, slowed)
	}
	if lines := log.lines("chain of tasks", "task=slow"); lines != nil {
		t.Errorf("the log tells of what is no chain: %v", lines)
	}
	if n := s.count(`SELECT chain FROM tasktable.scheduled_tasks WHERE id = 'slow'`); n != 0 {
		t.Errorf("a task that waits has %d links", n)
	}
}

// unkeyed is a job without an id of its own.
type unkeyed struct {
	Name string `json:"name"`
}

func (unkeyed) TaskType() string { return "JOB" }
