package scheduled

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// What the store says of nodes is so of those that run: which leads, that they give signs of life, and
// that they have ended.
func TestNodesAsTheStoreSeesThem(t *testing.T) {
	s := newBench(t)
	work := func(service string, queues map[string]int) func(*Config) {
		return func(c *Config) { c.Service, c.Version, c.Queues = service, "v1", queues }
	}
	nodes := func() []inspect.Node {
		t.Helper()
		found, err := inspect.New(store.Config{}).Nodes(
			context.WithoutCancel(t.Context()), s.Pool, inspect.NodeFilter{Ended: true},
		)
		s.OK(err)
		return found
	}
	stopFirst := s.node(work("first", map[string]int{"default": 3}), handlers.Handle(s.Handle))
	enginetest.Eventually(t, patience, "the first leads", func() bool {
		found := nodes()
		return len(found) == 1 && found[0].State == inspect.NodeLeads && found[0].ElectedAt != nil
	})
	s.node(work("second", map[string]int{"mail": 2}), handlers.Handle(s.Handle))
	enginetest.Eventually(t, patience, "the second works", func() bool {
		found := nodes()
		return len(found) == 2 && found[0].State == inspect.NodeLeads && found[1].State == inspect.NodeWorks
	})
	before := nodes()
	host, err := os.Hostname()
	s.OK(err)
	if n := before[1]; n.Service != "second" || n.Queues["mail"] != 2 || len(n.Types) != 1 || n.Types[0] != "JOB" ||
		n.ElectedAt != nil || n.DeadAt != nil || n.Host != fmt.Sprintf("%s/%d", host, os.Getpid()) {
		t.Errorf("the second is %+v", n)
	}
	enginetest.Eventually(t, patience, "both give another sign of life", func() bool {
		found := nodes()
		return found[0].LastSeen.After(*before[0].LastSeen) && found[1].LastSeen.After(*before[1].LastSeen)
	})
	states, err := inspect.New(store.Config{}).QueueStates(t.Context(), s.Pool, inspect.QueueFilter{})
	if err != nil || len(states) != 2 || states[0].Slots != 3 || states[1].Slots != 2 || states[1].Nodes != 1 {
		t.Errorf("the queues are %+v, %v", states, err)
	}
	stopFirst()
	enginetest.Eventually(t, patience, "the first has ended, and the second leads", func() bool {
		found := nodes()
		return found[0].Service == "second" && found[0].State == inspect.NodeLeads &&
			found[1].State == inspect.NodeEnded && found[1].DeadAt != nil
	})
}
