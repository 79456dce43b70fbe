//go:build unix

package torture

import (
	"sync"
	"time"
)

// answer is what a writer knows of a transaction of its own.
type answer string

const (
	acknowledged answer = "acknowledged" // the database has said that it is committed
	refused      answer = "refused"      // it was rolled back, or never asked to commit
	unknown      answer = "unknown"      // the answer to the commit was lost
)

// deed is what one verb did to one task, as the engine said.
type deed struct {
	Verb     string
	ID       string
	Outcome  string
	Revision int64
	Due      time.Time // the instant that was asked for; zero: the verb asks for none
	Content  *content  // nil: the verb gives none
	Until    time.Time // of a pause: until when
}

// content is a task as a writer asked for it.
type content struct {
	Nonce       int64
	Queue       string
	Priority    int
	MaxAttempts int
}

// entry is a entry of the log: one transaction of a writer.
type entry struct {
	Op     int64
	Writer string
	Began  time.Time // before its first statement was sent
	Ended  time.Time // when it was answered, or given up
	Answer answer
	Closed bool // the server has answered its rollback
	Deeds  []deed
	IDs    []string // the tasks it may have locked, whatever came of it
	Entity string   // of which it made a Sync; "": it did not
	Listed []string // the tasks that the entity was to have

	// Of a call over HTTP.
	OverHTTP bool
	Tries    int      // requests that were sent
	Lost     int      // those of them that may have been done or may yet be, for all that the writer knows
	Told     []said   // the answers
	Refusals []string // statuses and reasons of final refusals
	Faults   []string // answers that say that the API is at fault
}

// pauseEntry is a pause of a whole scope. While it is not certain to hold, or not certain to have ended,
// nothing is said of it.
type pauseEntry struct {
	Queue, Type string    // both empty: everything
	Asked       time.Time // when the pause was asked for
	Held        time.Time // when it was acknowledged; zero: it never was
	Resuming    time.Time // when its end was first asked for; zero: never
	Over        time.Time // when its end was acknowledged; zero: never
}

// covers says whether the pause is of a queue's tasks of a type.
func (p pauseEntry) covers(queue, kind string) bool {
	return (p.Queue == "" || p.Queue == queue) && (p.Type == "" || p.Type == kind)
}

// opLog is what the writers know.
type opLog struct {
	mu      sync.Mutex
	ops     int64
	entries []*entry
	pauses  []*pauseEntry
}

func (l *opLog) op() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops++
	return l.ops
}

func (l *opLog) add(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, e)
}

// pause notes a pause that is about to be asked for, unless the same scope may be paused already.
func (l *opLog) pause(p *pauseEntry) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, other := range l.pauses {
		if other.Queue == p.Queue && other.Type == p.Type && other.Over.IsZero() {
			return false
		}
	}
	p.Asked = time.Now()
	l.pauses = append(l.pauses, p)
	return true
}

// edit changes what is known of a pause.
func (l *opLog) edit(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// all is a copy of what is known.
func (l *opLog) all() (entries []*entry, pauses []pauseEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.pauses {
		pauses = append(pauses, *p)
	}
	return append(entries, l.entries...), pauses
}

// about is one of the tasks that a transaction had to do with.
func (e *entry) about() string {
	if len(e.IDs) == 0 {
		return ""
	}
	return e.IDs[0]
}

// mayLock says whether a transaction may have held locks at some time of an interval. One whose answer was lost may
// have lasted until its connection ended, which the server sees to.
func (e *entry) mayLock(from, to time.Time) bool {
	until := e.Ended
	if e.Answer != acknowledged && !e.Closed {
		until = until.Add(15 * time.Second)
	}
	return e.Began.Before(to) && until.After(from)
}
