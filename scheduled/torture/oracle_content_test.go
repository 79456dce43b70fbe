//go:build unix

package torture

import (
	"fmt"
	"time"

	"github.com/tasktable/tasktable/handlers"
)

// asks has the handler of a claim that runs ask something of the engine.
func (t *script) asks(fence int64, m mark) {
	m.Kind, m.At, m.Fence = markAsks, t.now, fence
	r := t.runsOf(fence)[0]
	r.Asks = append(r.Asks, m)
}

// contentCases are about what rows, handlers and lines contain.
var contentCases = []oracleCase{
	{name: "an edit keeps the old payload", wrong: []string{"content"}, steps: func(t *script) {
		t.schedule("a", nil)
		t.Entries[0].Deeds[0].Content = &content{Nonce: 1, Queue: "default", MaxAttempts: 3}
		t.runs("a")
	}},
	{name: "a row has what its writer gave it", steps: func(t *script) {
		t.schedule("a", func(a *auditRow) { a.Nonce, a.Priority = 1, 5 })
		t.Entries[0].Deeds[0].Content = &content{Nonce: 1, Queue: "default", Priority: 5, MaxAttempts: 3}
		t.runs("a")
	}},
	{name: "a payload changes by itself", wrong: []string{"content"}, steps: func(t *script) {
		t.comesTo("a", "error", "RETRIED")
		t.Audit[len(t.Audit)-1].Sum, t.rows["a"].Sum = "another", "another"
		t.runs("a")
		t.Runs[1].Sum = "another"
	}},
	{name: "an occurrence has another payload than its parent", wrong: []string{"content"}, steps: func(t *script) {
		t.recurs("other")
		t.clock(1)
		t.fires("other", 1)
		t.rows[occurrenceOf("other", 1)].Sum = "another"
		t.Audit[1].Sum = "another"
		t.runs(occurrenceOf("other", 1))
		t.Runs[0].Sum = "another"
		t.cancel("other")
	}},
	{name: "a handler gets another payload", wrong: []string{"handler's payload"},
		steps: whenRan(func(t *script) { t.Runs[0].Sum = "another" })},
	{name: "a verb says it changed nothing, and has", wrong: []string{"written in vain"}, steps: func(t *script) {
		t.schedule("a", nil)
		t.verb("resume", "a", "unchanged", func(*auditRow) {})
		t.runs("a")
	}},
	{name: "a sync leaves a task that it does not list", wrong: []string{"sync"}, steps: func(t *script) {
		t.schedule("a", ofEntity)
		t.schedule("b", ofEntity)
		t.sync("e", "b")
		t.runs("a")
		t.runs("b")
	}},
	{name: "a sync leaves only the tasks that it lists, and what has ended", steps: func(t *script) {
		t.schedule("a", ofEntity)
		t.schedule("b", ofEntity)
		t.schedule("c", ofEntity)
		t.runs("c")
		t.cancel("a")
		t.sync("e", "b")
		t.runs("b")
	}},
	{
		name: "a sync does not make a task that it lists", wrong: []string{"sync"},
		steps: func(t *script) { t.sync("e", "a") },
	},
	{name: "an attempt is another in its line", wrong: []string{"line"},
		steps: whenRan(func(t *script) { t.Executions[0].Attempt++ })},
	{name: "a line has another start than its handler was told", wrong: []string{"line"},
		steps: whenRan(func(t *script) { t.Executions[0].StartedAt = new(t.Runs[0].Gate.Add(time.Second)) })},
	{name: "a line has no start", wrong: []string{"line"},
		steps: whenRan(func(t *script) { t.Executions[0].StartedAt = nil })},
	{name: "a line has another time than was asked for", wrong: []string{"line"}, steps: whenRan(func(t *script) {
		t.Executions[0].ScheduledAt = t.Executions[0].ScheduledAt.Add(time.Second)
	})},
	{name: "a line says that it was due later than it could be claimed", wrong: []string{"line"},
		steps: whenRan(func(t *script) { t.Executions[0].DueAt = new(t.Executions[0].DueAt.Add(time.Second)) })},
	{name: "the leader has put a task behind others", steps: func(t *script) {
		t.schedule("a", nil)
		due := t.rows["a"].Next
		t.passes(time.Second)
		t.begin()
		t.change("a", "tasktable engine", func(a *auditRow) { a.Next = new(t.now) })
		t.runs("a")
		t.Executions[0].DueAt = due
	}},
	{name: "a line has another node", wrong: []string{"line"}, steps: whenRan(func(t *script) { t.Runs[0].PID++ })},
	{name: "a line has another error", wrong: []string{"line"}, steps: func(t *script) {
		fence := t.begins("a")
		t.asks(fence, mark{Error: "oops"})
		t.endsAs(fence, "error", "RETRIED")
		t.runs("a")
	}},
	{name: "a result is lost", wrong: []string{"result"}, steps: func(t *script) { tells(t).Told = nil }},
	{name: "a note is lost", wrong: []string{"result"}, steps: func(t *script) { tells(t).Message = nil }},
	{name: "a note and a result", steps: func(t *script) { tells(t) }},
}

// tells has a task leave a note and a result. It returns the change that completes it.
func tells(t *script) *auditRow {
	fence := t.begins("a")
	t.asks(fence, mark{Note: "done"})
	t.finishes(fence)
	a := t.Audit[len(t.Audit)-1]
	a.Message, a.Told = new("done"), new("done")
	return a
}

func ofEntity(a *auditRow) { a.Entity = new("e") }

// sync is a Sync of an entity that changes nothing.
func (t *script) sync(entity string, listed ...string) {
	t.passes(time.Millisecond)
	e := &entry{Op: int64(len(t.Entries) + 1), Writer: "writer-1", Began: t.now, Answer: acknowledged}
	e.Entity, e.Listed, e.Ended = entity, listed, t.passes(time.Millisecond).now
	t.Entries = append(t.Entries, e)
}

// waitCases are about how long tasks wait.
var waitCases = []oracleCase{
	{name: "a retry does not wait", wrong: []string{"wait"}, steps: func(t *script) {
		t.comesTo("a", "error", "RETRIED")
		t.Audit[len(t.Audit)-1].Next = new(t.Audit[len(t.Audit)-1].At)
		t.runs("a")
	}},
	{name: "a retry waits too long", wrong: []string{"wait"}, steps: func(t *script) {
		t.comesTo("a", "error", "RETRIED")
		a := t.Audit[len(t.Audit)-1]
		a.Next = new(a.At.Add(time.Minute))
		t.rows["a"].Next = a.Next
		t.passes(time.Minute)
		t.runs("a")
	}},
	{name: "a retry waits for less than its error said", wrong: []string{"wait"}, steps: func(t *script) {
		fence := t.begins("a")
		t.asks(fence, mark{Wait: afterDelay})
		t.endsAs(fence, "error", "RETRIED")
		t.runs("a")
	}},
	{name: "a snooze does not wait", wrong: []string{"wait"}, steps: func(t *script) {
		fence := t.begins("a")
		t.asks(fence, mark{Wait: snoozeFor})
		t.endsAs(fence, "error", "SNOOZED")
		t.Audit[len(t.Audit)-1].Next = new(t.Audit[len(t.Audit)-1].At)
		t.runs("a")
	}},
	{name: "a task runs again at another time than it asked for", wrong: []string{"wait"}, steps: func(t *script) {
		fence := t.begins("a")
		t.asks(fence, mark{Again: t.now.Add(time.Hour)})
		t.finishes(fence)
		a := t.Audit[len(t.Audit)-1]
		a.Status, a.Next, a.Asked, a.Revision, a.Attempt = new("QUEUED"), new(t.now), t.now, new(t.draw()), new(0)
		t.rows["a"] = a
		t.line("changes", "a", t.number, t.number)
		t.runs("a")
	}},
	{name: "an extension extends nothing", wrong: []string{"extend"}, steps: func(t *script) { extended(t, time.Minute) }},
	{name: "an extension holds", steps: func(t *script) { extended(t, time.Second) }},
	{name: "a context ends before its extension does", wrong: []string{"extend", "time"}, steps: func(t *script) {
		extended(t, time.Second)
		t.Runs[0].End.Cause, t.Runs[0].End.Ended = handlers.ErrDeadline.Error(), t.Runs[0].End.At
	}},
	{name: "a context and its handler end at once", steps: func(t *script) {
		fence := t.begins("a")
		t.passes(time.Millisecond)
		t.asks(fence, mark{Longer: time.Millisecond, Called: t.now})
		t.passes(expectedTime)
		t.ends(fence, "ok")
		t.Runs[0].End.Cause = handlers.ErrDeadline.Error()
		t.settle(fence, "COMPLETED")
	}},
	{name: "a pause ends when it is to", steps: func(t *script) { pausedFor(t, time.Second) }},
	{name: "a pause ends too early", wrong: []string{"pause until"}, steps: func(t *script) {
		pausedFor(t, 500*time.Millisecond)
	}},
	{name: "an edit leaves a pause as it is", steps: func(t *script) {
		pausedFor(t, time.Second, func() {
			revision := t.draw()
			t.change("a", "tasktable engine", func(a *auditRow) { a.Revision = new(revision) })
			t.line("changes", "a", revision, revision)
		})
	}},
	{name: "a pause without an end takes the place of one", steps: func(t *script) {
		t.schedule("a", nil)
		until := t.now.Add(time.Second)
		t.verb("pause", "a", "paused", func(a *auditRow) { a.Status, a.Until = new("PAUSED"), new(until) })
		t.begin()
		t.change("a", "writer-1", func(a *auditRow) { a.Until = nil })
		t.begin()
		revision := t.draw() // its attempt had begun, and asks for another run
		t.change("a", "tasktable engine", func(a *auditRow) { a.Revision = new(revision) })
		t.line("changes", "a", revision, revision)
		t.verb("cancel", "a", "cancelled", func(a *auditRow) { a.Status = new("CANCELLED") })
	}},
	{name: "a pause ends too late", wrong: []string{"pause until"}, steps: func(t *script) {
		pausedFor(t, time.Second+resumedWithin+100*time.Millisecond)
	}},
	{name: "a pause ends late, since Postgres was away", steps: func(t *script) {
		t.Faults = []fault{{Kind: faultPostgres, Target: "postgres", From: t.now, To: t.now.Add(2 * time.Second)}}
		pausedFor(t, time.Second+resumedWithin+100*time.Millisecond)
	}},
	{name: "a claim waits for long, and goes back", wrong: []string{"in hand", "start latency"}, steps: func(t *script) {
		waitsInHand(t, inHandFor+time.Millisecond)
	}},
	{name: "a claim waits, and goes back soon", steps: func(t *script) { waitsInHand(t, time.Second) }},
	{name: "one in twenty starts late", wrong: []string{"start latency", "fairness"}, steps: func(t *script) {
		late(t, "slow", 0)
	}},
	{
		name: "the tasks of one queue start late", wrong: []string{"fairness"},
		steps: func(t *script) { late(t, "slow", 200) },
	},
}

// waitsInHand has a claim released that has not begun for so long, and the task run later.
func waitsInHand(t *script, long time.Duration) {
	fence := t.takes("a")
	t.passes(long)
	t.settle(fence, "RELEASED")
	t.runs("a")
}

// extended has a handler extend its lease by so much, which the row does not show.
func extended(t *script, long time.Duration) {
	fence := t.begins("a")
	t.passes(time.Millisecond)
	t.asks(fence, mark{Longer: long, Called: t.now})
	t.finishes(fence)
}

// pausedFor has a task paused for a second, and resumed by the leader after so long. Meanwhile the rest happens.
func pausedFor(t *script, long time.Duration, meanwhile ...func()) {
	t.schedule("a", nil)
	until := t.now.Add(time.Second)
	t.verb("pause", "a", "paused", func(a *auditRow) { a.Status, a.Until = new("PAUSED"), new(until) })
	for _, one := range meanwhile {
		t.begin()
		one()
	}
	t.now = until.Add(long - time.Second)
	t.begin()
	revision := t.draw()
	t.change("a", "tasktable session x", func(a *auditRow) {
		a.Status, a.Until, a.Revision, a.Next = new("QUEUED"), nil, new(revision), new(t.now)
	})
	t.line("changes", "a", revision, revision)
	t.runs("a")
}

// late has some tasks of a queue start late, and more of another at once.
func late(t *script, queue string, more int) {
	for i := range fewLatencies {
		id := fmt.Sprint("a", i)
		t.schedule(id, func(a *auditRow) { a.Queue = queue })
		t.passes(startedWithin + 100*time.Millisecond)
		t.runs(id)
	}
	for i := range more {
		id := fmt.Sprint("b", i)
		t.schedule(id, nil)
		t.runs(id)
	}
}
