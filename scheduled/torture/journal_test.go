//go:build unix

package torture

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/tasktable/tasktable/scheduled"
)

// Kinds of marks.
const (
	markUp    = "up"    // the process is up
	markStart = "start" // a handler is called
	markAsks  = "asks"  // it asks something of the engine
	markEnd   = "end"   // it has returned, panicked or ended its goroutine
	markQuiet = "quiet" // the node is quiet, since SIGTSTP
	markOn    = "on"    // the node is told to go on; it may have been told before
	markDead  = "dead"  // OnDead is called
	markStall = "stall" // the process did not get on from At to Until
)

// mark is a line of a journal. Its times are the machine's, which are the database's too: both run on it.
type mark struct {
	Kind     string    `json:"kind"`
	At       time.Time `json:"at"`
	ID       string    `json:"id,omitempty"`
	Type     string    `json:"type,omitempty"`
	Group    string    `json:"group,omitempty"`
	Fence    int64     `json:"fence,omitempty"`
	Revision int64     `json:"revision,omitempty"`
	Attempt  int       `json:"attempt,omitempty"`
	Gate     time.Time `json:"gate,omitzero"` // when the gate let it through, as the engine tells its handler
	Due      time.Time `json:"due,omitzero"`
	Sum      string    `json:"sum,omitempty"`   // of the payload that the handler got
	Deaf     bool      `json:"deaf,omitempty"`  // the handler will not mind its context
	How      string    `json:"how,omitempty"`   // ok, error, panic or goexit
	Cause    string    `json:"cause,omitempty"` // why its context had ended
	Ended    time.Time `json:"ended,omitzero"`  // when its context ended
	Until    time.Time `json:"until,omitzero"`
	PID      int       `json:"pid,omitempty"`

	// What a handler asks of the engine.
	Wait    time.Duration `json:"wait,omitempty"`    // before the next attempt
	Again   time.Time     `json:"again,omitzero"`    // when to run again
	Child   string        `json:"child,omitempty"`   // the follow-up's id
	IfDead  bool          `json:"ifdead,omitempty"`  // it is for the case that this attempt is the last one
	Note    string        `json:"note,omitempty"`    // the note, and the result's text
	Error   string        `json:"error,omitempty"`   // the error that it is about to return
	Snoozed bool          `json:"snoozed,omitempty"` // the task waits for its host
	Longer  time.Duration `json:"longer,omitempty"`  // by Extend, which was granted before At
	Called  time.Time     `json:"called,omitzero"`   // when Extend was called
}

// contextEnd is when a run's context ended, as far as is known. A context that ended at about the same time as its
// handler may have no time of its own, because another goroutine notes it.
func (m *mark) contextEnd() time.Time {
	if m.Ended.IsZero() {
		return m.At
	}
	return m.Ended
}

// wallNow is the machine's time, from the system itself: a node's own clock may be made to lie (see TestClocks).
func wallNow() time.Time {
	var now syscall.Timeval
	_ = syscall.Gettimeofday(&now) // it cannot fail with a pointer that is one
	return time.Unix(now.Unix())
}

// journal is a file that a node's process appends to. What is written survives the process: each mark is one write.
type journal struct{ file *os.File }

func openJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	return &journal{file}, nil
}

func (d *journal) write(m mark) {
	line, err := json.Marshal(m)
	if err == nil {
		_, err = d.file.Write(append(line, '\n'))
	}
	if err != nil { // without its journal the process proves nothing
		fmt.Fprintln(os.Stderr, "journal:", err)
		os.Exit(nodeFailed)
	}
}

// dead is a node's OnDead.
func (d *journal) dead(_ context.Context, dead scheduled.Failure) {
	d.write(
		mark{Kind: markDead, At: wallNow(), ID: dead.ID, Type: dead.Type, Revision: dead.Revision,
			Attempt: dead.Attempt, How: string(dead.Outcome)},
	)
}

// stallLeast is from when on a process that did not get on is recorded: as frozen, or starved by the machine.
const stallLeast = 40 * time.Millisecond

// watchStalls records when the process did not get on, until stop is closed. A frozen process writes this
// when it is thawed.
func (d *journal) watchStalls(stop <-chan struct{}) {
	const every = 10 * time.Millisecond
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	last := wallNow()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		now := wallNow()
		if now.Sub(last) >= stallLeast {
			d.write(mark{Kind: markStall, At: last, Until: now})
		}
		last = now
	}
}

// readJournal reads a journal. A last line that a kill has cut short is left out.
func readJournal(path string) ([]mark, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // the process was killed before it began
	}
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	defer func() { _ = file.Close() }()
	var marks []mark
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var m mark
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			if lines.Scan() {
				return nil, fmt.Errorf("read journal %s: %w", path, err)
			}
			break
		}
		marks = append(marks, m)
	}
	return marks, lines.Err()
}
