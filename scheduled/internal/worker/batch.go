package worker

import (
	"context"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/slots"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// maxStint is how long a batch waits for its places, once tasks are due, and how long it goes on to begin them then.
// Batches are made to take a quarter of it.
const maxStint = time.Second

// batch is tasks of one job that run one after the other in one slot. When one takes long, the rest becomes a batch of
// its own and goes on in another slot. The rest goes back to the queue if that takes too long as well, so that a more
// urgent task, or one of another type, does not wait behind it. One goroutine serves a batch.
type batch struct {
	*job
	runs      []*run           // the tasks that have not begun, the first due first
	notBefore time.Time        // when they are due by the gate, by this process's clock; zero: the gate has not said
	held      []*slots.Request // the places that the batch has or waits for, in the order of job.places
	since     time.Time        // when the batch got its places; zero: it has not
	answers   gateAnswer
	patience  *time.Timer // of the running task; one for all, because a task often takes less time than to make a timer
}

// serve runs the tasks, each at its time.
func (b *batch) serve() {
	defer b.leave()
	for r := b.next(); r != nil; r = b.next() {
		answer := b.gate(r)
		switch {
		case answer.Verdict == taskdb.VerdictGo:
			b.try(r, answer)
		case answer.Verdict == taskdb.VerdictEarly && answer.DueIn <= maxEarly.Seconds() && !b.serial:
			dueIn := time.Duration(answer.DueIn * float64(time.Second))
			apart := &batch{job: b.job, runs: []*run{r}, notBefore: b.answers.asked.Add(dueIn)}
			b.serving.Go(apart.serve)
		default:
			b.refuse(r, answer)
		}
	}
}

// next waits until the first task that is left is due and the batch has its places. It hands back the tasks that must
// not wait any longer. It returns nil when none is left.
func (b *batch) next() *run {
	for len(b.runs) > 0 {
		first, why := b.runs[0], b.halted()
		switch {
		case why != "":
			b.release(len(b.runs), why)
		case first.decided.Load(): // it was edited while it waited
			b.runs = b.runs[1:]
		case b.early(first) > 0:
			b.awaitDue(first)
		case !b.enter(): // some time has passed, or tasks went back
		case b.lateIn(first) < 0 && time.Since(b.since) > maxStint:
			b.release(b.due(), "the tasks before it took too long")
		case b.inWindow(first):
			b.runs = b.runs[1:]
			return first
		}
	}
	return nil
}

// awaitDue waits until the first task is due, but not for long, because the database's clock may be set meanwhile. If
// it was set back so far that the task is due much later, all tasks go back.
func (b *batch) awaitDue(first *run) {
	b.leave()
	b.wait(nil, first.givenUp(), min(b.early(first), checkEvery))
	if b.early(first) > maxEarly && !first.decided.Load() {
		b.release(len(b.runs), "the database's clock was set back, and it is due much later now")
	}
}

// early is how long from now a task will be due.
func (b *batch) early(r *run) time.Duration {
	return max(b.config.Clock.Until(r.Due), time.Until(b.notBefore))
}

// lateIn is how long from now a task that has not begun will have been kept for too long. It is negative after that.
func (b *batch) lateIn(r *run) time.Duration {
	return max(b.config.Clock.Until(r.Due), time.Until(r.since)) + maxStint
}

// due is how many of the first tasks are due.
func (b *batch) due() int {
	for i, r := range b.runs {
		if b.early(r) > 0 {
			return i
		}
	}
	return len(b.runs)
}

// wait waits until a place is granted, the claim is given up, or the time is over. It ends early when nothing new may
// start.
func (w *Worker) wait(granted, givenUp <-chan struct{}, atMost time.Duration) {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-granted:
	case <-givenUp:
	case <-timer.C:
	case <-w.starting.Done():
	case <-w.config.Quiet.Begins():
	}
}

// enter takes the places that a handler needs, at once if they are free. Otherwise it waits for the next one. It
// reports whether the batch has all of them. Due tasks that have waited for too long go back. They keep their due time,
// so that operators see how late they are. They are not claimed over and over in a fast loop, because each claim waits
// for maxStint, and the leader claims no more tasks than there are places.
func (b *batch) enter() bool {
	for i, at := range b.places {
		if i == len(b.held) {
			b.held = append(b.held, at.Slots.Request(at.Queue))
		}
		if b.held[i].Has() { // this is nearly always so, and saves a timer for each task
			continue
		}
		if late := b.lateIn(b.runs[0]); late > 0 {
			b.wait(b.held[i].Granted, b.runs[0].givenUp(), late)
		} else {
			b.release(b.due(), "it waited too long for "+at.One)
		}
		return false
	}
	if b.since.IsZero() {
		b.since = time.Now()
	}
	return true
}

// leave gives the places back.
func (b *batch) leave() {
	for i, slot := range b.held {
		b.places[i].Slots.Release(slot)
	}
	b.held, b.since = nil, time.Time{}
}

// release hands back the first tasks, which have not begun.
func (b *batch) release(tasks int, why string) {
	for _, r := range b.runs[:tasks] {
		b.end(r, taskdb.Released(r.Claim, why))
	}
	b.runs = b.runs[tasks:]
}

// halted says why nothing new may start, or nothing if it may.
func (w *Worker) halted() string {
	select {
	case <-w.starting.Done():
		return context.Cause(w.starting).Error()
	case <-w.config.Quiet.Begins():
		return "the node is quiet"
	default:
		return ""
	}
}
