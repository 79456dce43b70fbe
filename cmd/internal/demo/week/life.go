package week

import (
	"fmt"
	"time"

	"github.com/tasktable/tasktable/store"
)

// change is a row of scheduled_task_changes.
type change struct {
	revision                  *number
	taskID, verb, outcome, by string
	before, after             map[string]any
}

// execution is a row of scheduled_task_executions.
type execution struct {
	fence, revision    *number
	task               *task // for the notices; its fields may be those of later
	attempt            int
	scheduledAt, dueAt time.Time
	startedAt, endedAt time.Time
	outcome, errorText string
	node               *node
}

// number makes a number that is drawn for a time.
func (w *week) number(at time.Time) *number {
	n := &number{at: micros(at)}
	w.numbers = append(w.numbers, n)
	return n
}

// insert schedules a task, as Schedule, Sync and a fork do.
func (w *week) insert(at time.Time, verb, by string, t *task) *task {
	at = micros(at)
	if t.queue == "" {
		t.queue = store.DefaultQueue
	}
	if t.maxAttempts == 0 {
		t.maxAttempts = defaultAttempts
	}
	if t.expected == 0 {
		t.expected = defaultExpected
	}
	if t.scheduledBy == "" {
		t.scheduledBy = by
	}
	if t.status == "" {
		t.status = store.StatusQueued
	}
	t.scheduledAt = micros(t.scheduledAt)
	t.revision, t.createdAt, t.changedAt = w.number(at), at, at
	t.asked = t.revision
	if t.status == store.StatusQueued {
		t.next = t.due()
	} else {
		t.finishedAt = at
	}
	w.tasks = append(w.tasks, t)
	w.changes = append(w.changes, &change{
		revision: t.revision, taskID: t.id, verb: verb, outcome: string(store.Created), by: by,
		after: map[string]any{"status": string(t.status), "type": t.kind, "scheduled_at": timeJSON(t.scheduledAt)},
	})
	return t
}

// edit changes a task, as the verbs and the triggers do.
func (w *week) edit(t *task, at time.Time, verb string, outcome store.Outcome, by string, do func()) {
	at = micros(at)
	was, former := t.content(), t.status
	final := !t.finishedAt.IsZero()
	do()
	t.revision = w.number(at)
	if t.status != former {
		t.changedAt = at
	}
	if t.status != store.StatusPaused {
		t.pausedUntil = time.Time{}
	}
	if t.status != store.StatusFailed && t.status != store.StatusExpired {
		t.archivedAt, t.archivedNote = time.Time{}, ""
	}
	t.next = time.Time{}
	switch {
	case t.waits():
		t.attempt, t.finishedAt = 0, time.Time{}
		if final {
			t.message, t.result, t.startedAt = "", nil, time.Time{}
		}
		if t.status == store.StatusQueued {
			t.next = t.due()
		}
	case t.status != former:
		t.finishedAt = at
	}
	before, after := difference(was, t.content())
	if before["payload"] != nil || before["scheduled_at"] != nil ||
		former == store.StatusCompleted && t.status != former {
		t.asked = t.revision
	}
	w.changes = append(w.changes, &change{
		revision: t.revision, taskID: t.id, verb: verb, outcome: string(outcome), by: by, before: before, after: after,
	})
}

func (w *week) move(t *task, at time.Time, by string, to time.Time) {
	w.edit(t, at, "sync", store.Rescheduled, by, func() { t.scheduledAt = micros(to) })
}

func (w *week) cancel(t *task, at time.Time, verb, by string) {
	w.edit(t, at, verb, store.Cancelled, by, func() { t.status = store.StatusCancelled })
}

func (w *week) pause(t *task, at time.Time, by string, until time.Time) {
	w.edit(t, at, "pause", store.Paused, by, func() {
		t.status, t.pausedUntil = store.StatusPaused, micros(until)
	})
}

func (w *week) resume(t *task, at time.Time, by string) {
	w.edit(t, at, "resume", store.Queued, by, func() { t.status = store.StatusQueued })
}

func (w *week) retry(t *task, at time.Time, by string) {
	w.edit(t, at, "retry", store.Queued, by, func() { t.status, t.runNowAt = store.StatusQueued, micros(at) })
}

func (w *week) archive(t *task, at time.Time, by, note string) {
	w.edit(t, at, "archive", store.Archived, by, func() { t.archivedAt, t.archivedNote = micros(at), note })
}

func (w *week) remove(t *task, at time.Time, by string) {
	t.deleted = true
	w.changes = append(w.changes, &change{
		revision: w.number(at), taskID: t.id, verb: "delete", outcome: string(store.Deleted), by: by,
		before: t.content(),
	})
}

// ending is how an attempt ends.
type ending struct {
	outcome string        // "": COMPLETED
	err     string        // the error of the handler
	took    time.Duration // 0: as usual for the type
	lag     time.Duration // how much later than usual it starts
	wait    time.Duration // RETRIED and SNOOZED: until the next attempt
	note    string
	result  any
}

// run lets the attempts of a task end one after another. An attempt after the last ending completes. What would start
// or end after the week is left to the live nodes.
func (w *week) run(t *task, endings ...ending) {
	for i := 0; t.status == store.StatusQueued; i++ {
		var e ending
		if i < len(endings) {
			e = endings[i]
		}
		if e.took == 0 {
			e.took = w.took(t.kind)
		}
		ready := t.next
		if ready.Before(t.revision.at) { // it was resumed after its time
			ready = t.revision.at
		}
		start := w.start(ready).Add(e.lag)
		if t.expiration > 0 && !start.Before(t.due().Add(t.expiration)) {
			e.outcome, e.took = "EXPIRED", 0
		}
		if !start.Add(e.took + time.Second).Before(w.until) {
			return
		}
		w.attempt(t, start, e)
	}
}

const expiredText = "expired before it could start"

// attempt claims a task, runs it and settles it, on one of the nodes that work.
func (w *week) attempt(t *task, start time.Time, e ending) { w.attemptOn(w.nodeAt(start), t, start, e) }

func (w *week) attemptOn(on *node, t *task, start time.Time, e ending) {
	start = micros(start)
	claimed := start.Add(-2 * time.Millisecond)
	x := &execution{
		fence: w.number(claimed), revision: t.revision, task: t, attempt: t.attempt + 1, scheduledAt: t.scheduledAt,
		dueAt: t.next, startedAt: start, endedAt: micros(start.Add(e.took)), outcome: e.outcome, errorText: e.err,
		node: on,
	}
	w.endWithNode(x, &e)
	w.executions = append(w.executions, x)
	t.message, t.next, t.changedAt = e.err, time.Time{}, x.endedAt
	switch x.outcome {
	case "EXPIRED": // by the claim, before an attempt
		x.attempt, x.startedAt, x.node, x.errorText = t.attempt, time.Time{}, nil, expiredText
		t.status, t.message, t.finishedAt = store.StatusExpired, expiredText, x.endedAt
		return
	case "RETRIED":
		t.attempt, t.next = x.attempt, x.endedAt.Add(max(e.wait, w.backoff(x.attempt)))
	case "LOST":
		t.attempt, t.next, x.dueAt = x.attempt, x.endedAt, time.Time{}
	case "SNOOZED":
		x.errorText = fmt.Sprintf("snoozed for %s", e.wait)
		t.message, t.next = x.errorText, x.endedAt.Add(e.wait)
	case "INTERRUPTED":
		t.next = x.endedAt
	case "FAILED":
		t.attempt, t.status, t.finishedAt = x.attempt, store.StatusFailed, x.endedAt
	default:
		x.outcome = "COMPLETED"
		t.attempt, t.status, t.finishedAt = x.attempt, store.StatusCompleted, x.endedAt
		t.message, t.result = e.note, e.result
	}
	t.next = micros(t.next)
	t.startedAt = x.startedAt
	if x.endedAt.Sub(x.startedAt) > 2*time.Second {
		t.startedFence, t.node = x.fence, x.node
	}
}

// endWithNode ends an attempt that its node did not survive.
func (w *week) endWithNode(x *execution, e *ending) {
	if x.node == nil || !x.endedAt.After(x.node.end) {
		return
	}
	if x.node.killed {
		x.outcome, x.endedAt = "LOST", micros(x.node.end.Add(deadAfter))
		e.err = fmt.Sprintf("node %d died", x.node.number)
	} else {
		x.outcome, x.endedAt, e.err = "INTERRUPTED", micros(x.node.end), "the node is shutting down"
	}
	x.errorText = e.err
}

// supersede lets an attempt run while somebody moves its task.
func (w *week) supersede(t *task, took time.Duration, by string, to time.Time) {
	start := micros(w.start(t.next))
	x := &execution{
		fence: w.number(start.Add(-2 * time.Millisecond)), revision: t.revision, task: t, attempt: 1,
		scheduledAt: t.scheduledAt, dueAt: t.next, startedAt: start, endedAt: micros(start.Add(took)),
		outcome: "SUPERSEDED", node: w.nodeAt(start),
	}
	w.executions = append(w.executions, x)
	t.status = store.StatusExecuting
	w.edit(t, start.Add(took/2), "sync", store.Rescheduled, by, func() {
		t.status, t.scheduledAt = store.StatusQueued, micros(to)
	})
}

// micros is what Postgres keeps of a time.
func micros(at time.Time) time.Time { return at.Truncate(time.Microsecond) }
