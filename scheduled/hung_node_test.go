package scheduled

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// Handlers that ignore their contexts keep their slots after their claims are over. The node says so in its metrics and
// in its row, and when they have all slots of a queue, it is not live. When they return, it is again.
func TestHandlersThatHang(t *testing.T) {
	s := newBench(t)
	registry := prometheus.NewPedanticRegistry()
	node, _ := runNode(t, s.nodes, func(c *Config) {
		c.Metrics, c.Queues = registry, map[string]int{"default": 2, "other": 2}
		c.StartAllowance, c.ShutdownTimeout, c.hungAfter = time.Second, time.Second, time.Millisecond
	}, handlers.Handle(s.HandleDeaf))
	t.Cleanup(s.LetGo)
	var hung []*enginetest.Attempt
	hang := func(n int) {
		for i := range n {
			name := fmt.Sprint("hangs ", len(hung), i)
			s.Add(name, func(task *store.Task) { task.ExpectedExecutionTime, task.MaxAttempts = time.Second, 1 })
			hung = append(hung, s.Begins(name))
		}
	}
	published := func(want string) {
		t.Helper()
		s.Sees("the row says "+want, fmt.Sprintf(`SELECT hung = '%s' FROM tasktable.nodes`, want))
	}
	hang(1)
	published(`{"JOB": 1}`)
	if live := node.Live(); !live.OK {
		t.Errorf("with one slot left: %+v", live)
	}
	hang(1)
	enginetest.Eventually(t, patience, "the node is not live", func() bool { return !node.Live().OK })
	if got, want := said(node.Live()), "slots: all slots of queue default"; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	published(`{"JOB": 2}`)
	if got := enginetest.Scraped(t, registry)["hung_handlers JOB"]; got != 2 {
		t.Errorf("the metric says %v", got)
	}
	for _, one := range hung {
		one.End <- nil
	}
	enginetest.Eventually(t, patience, "the node is live", func() bool { return node.Live().OK })
	published(`{}`)
	s.Add("after", nil)
	s.Begins("after").End <- nil
	enginetest.Await(t, s.Pool, "after", patience, store.StatusCompleted)
}
