package dashboard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store/inspect"
)

// Pages that ask at once cause one read. An error is not kept.
func TestKeptIsReadOnce(t *testing.T) {
	t.Parallel()
	k := newKept[int]()
	failed := errors.New("no answer")
	if _, err := k.get(t.Context(), time.Hour, func(int) (int, error) { return 1, failed }); !errors.Is(err, failed) {
		t.Fatalf("the error is %v", err)
	}
	var reads atomic.Int32
	var pages sync.WaitGroup
	for range 20 {
		pages.Go(func() {
			value, err := k.get(t.Context(), time.Hour, func(former int) (int, error) {
				return former + int(reads.Add(1)), nil
			})
			if value != 1 || err != nil {
				t.Errorf("got %d, %v", value, err)
			}
		})
	}
	pages.Wait()
	if reads.Load() != 1 {
		t.Errorf("%d reads", reads.Load())
	}
	if value, _ := k.get(t.Context(), 0, func(former int) (int, error) { return former + 1, nil }); value != 2 {
		t.Errorf("an old value is %d", value)
	}
	k.turn <- struct{}{} // somebody reads
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.get(ended, 0, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a page that is gone waits: %v", err)
	}
}

func TestEndedBucketsAreKept(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	minute := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }
	var buckets []inspect.Bucket
	for i := range 10 {
		buckets = append(buckets, inspect.Bucket{From: minute(i), To: minute(i + 1)})
	}
	for name, c := range map[string]struct {
		from, at time.Time
		want     string
	}{
		"all but the newest":    {noon, minute(9).Add(30 * time.Second), "0-9"},
		"the last just ended":   {noon, minute(9).Add(5 * time.Second), "0-8"},
		"the window went on":    {minute(3), minute(9).Add(30 * time.Second), "3-9"},
		"long ago":              {minute(100), minute(9), ""},
		"the first are unknown": {minute(-1), minute(9), ""},
	} {
		known := ended(bucketsRead{buckets, c.at}, c.from)
		got := ""
		if len(known) > 0 {
			got = fmt.Sprintf("%d-%d", int(known[0].From.Sub(noon).Minutes()), int(known[len(known)-1].To.Sub(noon).Minutes()))
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestNodesSummary(t *testing.T) {
	t.Parallel()
	for want, states := range map[string][]inspect.NodeState{
		"bad 0: No node runs. Tasks wait until one does.": nil,
		"good 1: ": {inspect.NodeLeads},
		"good 2: Other nodes: 1 working, 1 quiet.":                                                {inspect.NodeWorks, inspect.NodeLeads, inspect.NodeQuiet},
		"warn 1: Other nodes: 1 silent.":                                                          {inspect.NodeLeads, inspect.NodeSilent},
		"bad 0: No node leads, so nobody claims due tasks. Nodes: 2 working.":                     {inspect.NodeWorks, inspect.NodeWorks},
		"warn 0: This database is a standby. It does not know which nodes run. 2 have not ended.": {inspect.NodeUnknown, inspect.NodeUnknown},
	} {
		var nodes []inspect.Node
		for i, state := range states {
			nodes = append(nodes, inspect.Node{Number: int64(i + 1), State: state})
		}
		summary, leader := nodesSummaryOf(nodes), int64(0)
		if summary.Leader != nil {
			leader = summary.Leader.Number
		}
		if got := fmt.Sprintf("%s %d: %s", summary.Tone, leader, summary.Text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
