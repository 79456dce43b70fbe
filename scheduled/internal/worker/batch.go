package worker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/metrics"
	"github.com/tasktable/tasktable/scheduled/internal/slots"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// MaxStint is how long a batch may keep tasks that have not begun, once they are due. Batches are made to take a
// quarter of it.
const MaxStint = time.Second

// batch is the tasks of one River job. They run one after the other in one slot. When one takes long, the rest goes on
// in another slot beside it. The rest goes back to the queue if that takes too long as well, so that a more urgent
// task, or one of another type, does not wait behind it.
type batch struct {
	*Worker
	kind  string          // its tasks' type
	tally *metrics.OfType // of this type
	// The places that each of its handlers needs: a slot, before that one of its type if that has a limit, and a
	// transaction's place if it takes one. A batch waits for all before it asks the gate, so that the wait does not
	// count.
	places []slots.Place
	job    int64   // River's id of the job
	window *window // nil for a job of one task

	serving sync.WaitGroup
	pending sync.WaitGroup // tasks not settled yet

	unrecorded atomic.Bool // the node gave up before an outcome was recorded
}

// serve runs tasks, each at its time.
func (b *batch) serve(runs []*Run) {
	for len(runs) > 0 {
		if why := b.halted(); why != "" {
			b.releaseAll(runs, why)
			return
		}
		first := runs[0]
		wait := max(b.config.Clock.Until(first.Due), time.Until(first.notBefore))
		if wait <= 0 { // in a backlog this is nearly always so, and saves a timer for each task
			runs = b.serveDue(runs)
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			runs = b.serveDue(runs)
		case <-first.poke:
			b.checkWaiting(first)
			runs = b.left(runs)
		case <-b.stopping:
		case <-b.config.Quiet.Begins():
		}
		timer.Stop()
	}
}

// enter waits for a place, and returns the tasks that are left to serve. If the first task's row changes meanwhile, or
// the node stops, it has not entered. Due tasks that have waited for too long are released.
func (b *batch) enter(at slots.Place, slot *slots.Request, runs []*Run) (entered bool, left []*Run) {
	select {
	case <-slot.Granted: // this is nearly always so, and saves a timer for each task
		return true, runs
	default:
	}
	late := time.NewTimer(b.lateIn(runs[0]))
	defer late.Stop()
	select {
	case <-slot.Granted:
		return true, runs
	case <-b.stopping:
		return false, runs // serve releases them
	case <-b.config.Quiet.Begins():
		return false, runs
	case <-runs[0].poke:
		b.checkWaiting(runs[0])
		return false, b.left(runs)
	case <-late.C:
		due := b.due(runs)
		for _, r := range b.left(runs[:due]) {
			b.end(r, at.Refused(r.Claim))
		}
		return false, runs[due:]
	}
}

// lateIn is how long from now a task that has not begun will have been kept for too long. It is negative after that.
func (b *batch) lateIn(r *Run) time.Duration {
	return max(b.config.Clock.Until(r.Due), time.Until(r.Since)) + MaxStint
}

// due is how many of the first tasks are due.
func (b *batch) due(runs []*Run) int {
	due := 1
	for due < len(runs) && b.config.Clock.Until(runs[due].Due) <= 0 {
		due++
	}
	return due
}

// serveDue takes a slot and runs the tasks that are due, as long as they get on. It returns the rest: tasks that are
// not due yet, and tasks that did not get a slot. It returns nothing when it has handed the rest on.
func (b *batch) serveDue(runs []*Run) []*Run {
	for _, at := range b.places {
		slot := at.Slots.Request(at.Queue)
		defer at.Slots.Release(slot) // also where it was not granted
		if entered, left := b.enter(at, slot, runs); !entered {
			return left
		}
	}
	patience := time.NewTimer(GateValid) // one for all of them, set anew for each
	defer patience.Stop()
	now := stint{since: time.Now()}
	for due := b.due(runs); due > 0 && b.halted() == ""; {
		if b.lateIn(runs[0]) < 0 && !now.getsOn(time.Now(), due) {
			b.releaseAll(runs[:due], "the tasks before it took too long")
			return runs[due:]
		}
		done, on := b.servePart(runs, due, &now, patience)
		if !on {
			return nil
		}
		runs, due = runs[done:], due-done
	}
	return runs
}

// servePart asks the gate about some of the first tasks, which are due, and runs those for which the answer is young
// enough. It returns how many it has served, and whether the batch goes on here.
func (b *batch) servePart(runs []*Run, due int, now *stint, patience *time.Timer) (done int, on bool) {
	part := runs[:b.part(due)]
	asked := b.ask(part)
	if asked.rows == nil {
		return 0, true
	}
	for i, r := range part {
		if b.halted() != "" {
			return i, true
		}
		if stale(asked.at) {
			keepPayloads(part[i:], asked)
			return i, true
		}
		if !b.inWindow(r) {
			keepPayloads(part[i:], asked)
			return i, true
		}
		switch b.serveOne(r, asked.rows[r.Fence], asked.at, runs[i+1:], patience) {
		case served:
			now.begun++
		case askAgain:
			keepPayloads(part[i:], asked)
			return i, true
		case handedOn:
			return 0, false
		}
		if b.lateIn(r) < 0 { // serveDue decides whether the rest goes on
			return i + 1, true
		}
	}
	return len(part), true
}

// stint is how a batch gets on while it has its slot.
type stint struct {
	since time.Time
	begun int
}

// getsOn reports whether as many tasks as are left will have begun within MaxStint, at the speed so far. Without a
// speed it returns true, because a gate that answers slowly must not keep every batch from beginning.
func (s stint) getsOn(now time.Time, left int) bool {
	return s.begun == 0 || now.Sub(s.since)/time.Duration(s.begun)*time.Duration(left) <= MaxStint
}

// left drops the tasks that are not this node's any more, or soon will not be.
func (b *batch) left(runs []*Run) []*Run {
	b.mu.Lock()
	defer b.mu.Unlock()
	var left []*Run
	for _, r := range runs {
		if b.runs[r.Fence] == r && !r.ended.Load() {
			left = append(left, r)
		}
	}
	return left
}

// halted says why nothing new may start, or nothing if it may.
func (b *batch) halted() string {
	select {
	case <-b.stopping:
		return "the node is shutting down"
	case <-b.config.Quiet.Begins():
		return "the node is quiet"
	default:
		return ""
	}
}

// releaseAll hands tasks back that have not started.
func (b *batch) releaseAll(runs []*Run, why string) {
	for _, r := range b.left(runs) {
		b.end(r, taskdb.Released(r.Claim, why))
	}
}
