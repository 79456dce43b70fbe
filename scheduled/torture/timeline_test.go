//go:build unix

package torture

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// fault is something that was done to the system.
type fault struct {
	Kind     string
	Target   string // as "node-2", "writer-1" or "postgres"
	PID      int    // of the process it struck; 0: none
	Leader   bool   // it struck the process that led, or its session
	Headless bool   // nobody led then
	Alone    bool   // nothing else that could matter was done at the time, on purpose
	From     time.Time
	To       time.Time // when it was over; for what happens in an instant, when it had happened
}

func (f fault) String() string {
	leader := ""
	if f.Leader {
		leader = " (which led)"
	}
	return fmt.Sprintf("%s %s %s%s", f.Kind, f.Target, f.To.Sub(f.From).Round(time.Millisecond), leader)
}

// timeline is what was done, in order.
type timeline struct {
	mu     sync.Mutex
	faults []*fault
}

// begin notes a fault that begins now. The one that makes it says when it is over.
func (l *timeline) begin(f fault) *fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.From = time.Now()
	l.faults = append(l.faults, &f)
	return &f
}

func (l *timeline) end(f *fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.To = time.Now()
}

// all is a copy of it.
func (l *timeline) all() []fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	faults := make([]fault, len(l.faults))
	for i, f := range l.faults {
		faults[i] = *f
	}
	return faults
}

// print is the faults as lines, with times since began.
func printFaults(faults []fault, began time.Time) string {
	var text strings.Builder
	sorted := slices.SortedFunc(slices.Values(faults), func(a, b fault) int { return a.From.Compare(b.From) })
	for _, f := range sorted {
		fmt.Fprintf(&text, "%9.3f  %s\n", f.From.Sub(began).Seconds(), f)
	}
	return text.String()
}
