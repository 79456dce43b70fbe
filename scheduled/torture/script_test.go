//go:build unix

package torture

import (
	"fmt"
	"slices"
	"time"
)

// script makes a history by hand, step by step, as the evidence of a run without faults would be. A case may change it
// afterwards.
type script struct {
	*history
	now    time.Time
	number int64 // of revisions and fences
	tx     int64
	rows   map[string]*auditRow // the last change of each task
}

const scriptProcess, scriptBackend = 7, 70

func newScript() *script {
	began := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	t := &script{now: began, rows: map[string]*auditRow{}}
	t.history = &history{
		Began: began, Unserved: map[string]bool{"NOBODY": true}, Slots: 10,
		Processes: []life{{PID: scriptProcess, Slot: "node-1", From: began}}, SlotsEach: 10,
		Nodes: []nodeRow{{nodeOf(scriptProcess), scriptProcess}, {nodeOf(scriptProcess + 1), scriptProcess + 1}},
	}
	return t
}

// nodeOf is the number of a process's node.
func nodeOf(pid int) int64 { return int64(100 * pid) }

// passes lets time go by.
func (t *script) passes(d time.Duration) *script {
	t.now = t.now.Add(d)
	return t
}

func (t *script) draw() int64 {
	t.number++
	return t.number
}

// begin begins a transaction.
func (t *script) begin() int64 {
	t.passes(time.Millisecond)
	t.tx++
	return t.tx
}

// change records a change of a task's row, made of its last one.
func (t *script) change(id, app string, edit func(a *auditRow)) *auditRow {
	a := auditRow{Op: "INSERT", ID: id, Type: "PLAIN", Queue: "default", FirstDue: t.now, Asked: t.now, MaxAttempts: 3,
		Expected: expectedTime, Does: doWork}
	if last := t.rows[id]; last != nil && last.Op != "DELETE" {
		a = *last
		a.Op, a.OldStatus, a.OldRevision, a.OldFence, a.OldAttempt, a.OldNext, a.OldHeld = "UPDATE", a.Status,
			a.Revision, a.Fence, a.Attempt, a.Next, a.Held
	}
	a.Seq, a.At, a.Began, a.TxID, a.App, a.Backend, a.Leads = int64(len(t.Audit)+1), t.now, t.now, t.tx, app,
		scriptBackend, nil
	edit(&a)
	recorded := a // a case may change it, and not the row
	t.Audit = append(t.Audit, &recorded)
	t.rows[id] = &a
	return &recorded
}

// line records a line of one of the histories, in the transaction under way.
func (t *script) line(history, id string, number, revision int64) {
	t.Lines = append(t.Lines, line{
		Seq: int64(len(t.Lines) + 1), At: t.now, TxID: t.tx, History: history, Op: "INSERT", Number: number, TaskID: id,
		Revision: revision, Hash: "as written",
	})
	if history == "changes" {
		t.Changes = append(t.Changes, number)
	}
}

// verb is a transaction of a writer that does one thing to a task.
func (t *script) verb(verb, id, outcome string, edit func(a *auditRow)) {
	e := &entry{Op: int64(len(t.Entries) + 1), Writer: "writer-1", Began: t.now, Answer: acknowledged, IDs: []string{id}}
	t.begin()
	revision := t.draw()
	due := time.Time{}
	a := t.change(id, "writer-1", func(a *auditRow) {
		a.Revision, a.Attempt, a.Waits = new(revision), new(0), 0
		edit(a)
		if a.Status != nil && *a.Status == "QUEUED" && a.Fence == nil {
			a.Next = new(a.FirstDue)
		} else {
			a.Next = nil
		}
	})
	if verb == "schedule" || verb == "reschedule" {
		due = a.FirstDue
	}
	t.line("changes", id, revision, revision)
	t.Ops = append(t.Ops, &opRow{Op: e.Op, TaskID: id, Verb: verb, Outcome: outcome, Revision: revision, TxID: t.tx})
	e.Deeds = []deed{{Verb: verb, ID: id, Outcome: outcome, Revision: revision, Due: due}}
	t.passes(time.Millisecond)
	e.Ended = t.now
	t.Entries = append(t.Entries, e)
}

// schedule schedules a task for now.
func (t *script) schedule(id string, edit func(a *auditRow)) {
	t.verb("schedule", id, "created", func(a *auditRow) {
		a.Status = new("QUEUED")
		if edit != nil {
			edit(a)
		}
	})
}

func (t *script) cancel(id string) {
	t.verb("cancel", id, "cancelled", func(a *auditRow) { a.Status, a.Attempt = new("CANCELLED"), a.OldAttempt })
}

// claim has the leader claim tasks in one pass; it returns the last one's fence.
func (t *script) claim(ids ...string) (fence int64) {
	t.begin()
	for _, id := range ids {
		fence = t.draw()
		t.change(id, "tasktable session x", func(a *auditRow) {
			a.Status, a.Fence, a.Attempt, a.Next, a.Leads = new("EXECUTING"), new(fence), new(*a.OldAttempt+1), nil,
				new(true)
			a.Held = new(later(t.now, *a.OldNext).Add(startAllowance + a.Expected))
		})
	}
	t.passes(time.Millisecond)
	return fence
}

// starts calls the handler of a claim.
func (t *script) starts(fence int64) *run {
	c := t.claimed(fence)
	t.passes(2 * time.Millisecond)
	t.Runs = append(t.Runs, &run{
		mark: mark{Kind: markStart, At: t.now, ID: c.ID, Type: c.Type, Fence: fence, Revision: *c.Revision,
			Attempt: *c.Attempt, Gate: t.now.Add(-time.Millisecond), Due: *c.OldNext},
		PID: scriptProcess, Latest: t.now.Add(time.Hour),
	})
	return t.Runs[len(t.Runs)-1]
}

// ends lets the handler of a claim end, 10 ms later.
func (t *script) ends(fence int64, how string) {
	t.passes(10 * time.Millisecond)
	for _, r := range t.Runs {
		if r.Fence == fence && r.End == nil {
			r.End, r.Latest = &mark{Kind: markEnd, At: t.now, Fence: fence, How: how}, t.now
		}
	}
}

// runsOf are the runs of a claim.
func (t *script) runsOf(fence int64) []*run {
	return slices.DeleteFunc(slices.Clone(t.Runs), func(r *run) bool { return r.Fence != fence })
}

func (t *script) claimed(fence int64) *auditRow {
	for _, a := range t.Audit {
		if a.claims() && *a.Fence == fence {
			return a
		}
	}
	panic(fmt.Sprintf("fence %d was not claimed in this script", fence))
}

// settle records what came of a claim, and releases the row in the same transaction.
func (t *script) settle(fence int64, outcome string) {
	t.begin()
	c := t.claimed(fence)
	id, revision := c.ID, *c.Revision
	t.change(id, "tasktable engine", func(a *auditRow) {
		a.Fence, a.Held = nil, nil
		if *a.OldStatus != "EXECUTING" || *a.OldRevision != revision { // edited meanwhile: only released
			if *a.Status == "QUEUED" {
				a.Next = new(a.FirstDue)
			}
			return
		}
		switch outcome {
		case "COMPLETED", "FAILED", "EXPIRED":
			a.Status = new(outcome)
		default:
			a.Status, a.Next = new("QUEUED"), new(t.now.Add(waitAfter[outcome]))
		}
		switch {
		case outcome == "SNOOZED" && t.runsOf(fence)[0].snoozed():
			a.Waits++
		case outcome == "SNOOZED" || outcome == "RETRIED":
			a.Waits = 0
		}
		if refunded[outcome] {
			a.Attempt = new(*a.OldAttempt - 1)
		}
	})
	if t.rows[id].Waits > 1 && outcome == "SNOOZED" {
		t.passes(time.Millisecond + waitAfter[outcome])
		return // only the first of its waits has a line
	}
	t.line("executions", id, fence, revision)
	line := &execution{Fence: fence, TaskID: id, Type: c.Type, Revision: revision, Attempt: *c.Attempt,
		ScheduledAt: c.Asked, DueAt: new(c.FirstDue), FinishedAt: t.now, Outcome: outcome}
	if runs := t.runsOf(fence); len(runs) > 0 && outcome != "LOST" {
		line.StartedAt, line.Node = new(runs[0].Gate), new(nodeOf(runs[0].PID))
	}
	t.Executions, t.Kept = append(t.Executions, line), append(t.Kept, kept{fence, "as written"})
	if events := eventsOf[outcome]; events != nil {
		t.Causes = append(t.Causes, cause{Fence: fence, TaskID: id, Event: events[0], Scheduled: true})
	}
	if transactional(c.Type) && (outcome == "COMPLETED" || outcome == "SUPERSEDED") {
		t.Effects = append(t.Effects, effect{TaskID: id, Fence: fence, TxID: t.tx})
	}
	if outcome == "FAILED" || outcome == "EXPIRED" {
		t.Dead = append(t.Dead, mark{Kind: markDead, At: t.now, ID: id, Revision: revision, How: outcome})
	}
	t.passes(time.Millisecond + waitAfter[outcome])
}

// waitAfter is how long a task waits after an outcome.
var waitAfter = map[string]time.Duration{"RETRIED": retryDelay, "SNOOZED": snoozeFor}

// takes schedules a task, and has the leader claim it.
func (t *script) takes(id string) (fence int64) {
	t.schedule(id, nil)
	return t.claim(id)
}

// tries has a task claimed, and calls its handler.
func (t *script) tries(id string) (fence int64) {
	fence = t.claim(id)
	t.starts(fence)
	return fence
}

// begins schedules a task, and calls its handler.
func (t *script) begins(id string) (fence int64) {
	t.schedule(id, nil)
	return t.tries(id)
}

// endsAs lets the handler of a claim end somehow, and the claim come to something.
func (t *script) endsAs(fence int64, how, outcome string) {
	t.ends(fence, how)
	t.settle(fence, outcome)
}

// finishes ends the handlers of claims, and completes their tasks.
func (t *script) finishes(fences ...int64) {
	for _, fence := range fences {
		t.endsAs(fence, "ok", "COMPLETED")
	}
}

// carriesOut calls the handler of a claim, which completes its task.
func (t *script) carriesOut(fence int64) {
	t.starts(fence)
	t.finishes(fence)
}

// runsTo is a task's life from its claim on, which ends somehow and comes to something.
func (t *script) runsTo(id, how, outcome string) { t.endsAs(t.tries(id), how, outcome) }

// comesTo is the whole life of a task.
func (t *script) comesTo(id, how, outcome string) {
	t.schedule(id, nil)
	t.runsTo(id, how, outcome)
}

// runs is the life of a task from its claim on, which completes it.
func (t *script) runs(id string) (fence int64) {
	fence = t.claim(id)
	t.carriesOut(fence)
	return fence
}

// ran is the whole life of a task that completes.
func (t *script) ran(id string) (fence int64) {
	t.schedule(id, nil)
	return t.runs(id)
}

// end is the end of the run: all is quiet.
func (t *script) end() *history {
	t.Calmed, t.Quiet = t.now, t.passes(time.Second).now
	t.Until = t.Quiet
	for id, a := range t.rows {
		if a.Op != "DELETE" {
			t.Tasks = append(t.Tasks, taskRow{ID: id, Status: *a.Status, Revision: *a.Revision, Fence: a.Fence})
		}
	}
	return t.history
}
