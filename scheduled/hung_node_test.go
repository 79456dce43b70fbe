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
	t.Parallel()
	s := newStage(t)
	registry := prometheus.NewPedanticRegistry()
	node, _ := runNode(t, s.nodes, func(c *Config) {
		c.Metrics, c.Queues = registry, map[string]int{"default": 2, "other": 2}
		c.StartAllowance, c.ShutdownTimeout, c.hungAfter = time.Second, time.Second, time.Millisecond
	}, handlers.Handle(s.handleDeaf))
	t.Cleanup(s.end)
	var hung []*act
	hang := func(n int) {
		for i := range n {
			name := fmt.Sprint("hangs ", len(hung), i)
			s.schedule(name, func(task *store.Task) { task.ExpectedExecutionTime, task.MaxAttempts = time.Second, 1 })
			hung = append(hung, s.begins(name))
		}
	}
	published := func(want string) {
		t.Helper()
		s.sees("the row says "+want, fmt.Sprintf(`SELECT hung = '%s' FROM tasktable.nodes`, want))
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
		one.end <- nil
	}
	enginetest.Eventually(t, patience, "the node is live", func() bool { return node.Live().OK })
	published(`{}`)
	s.schedule("after", nil)
	s.begins("after").end <- nil
	enginetest.Await(t, s.pool, "after", patience, store.StatusCompleted)
}
