//go:build unix

package torture

import (
	"time"

	"github.com/tasktable/tasktable/handlers"
)

// asksFor has the handler of a claim ask for a follow-up, and the claim come to something.
func (t *script) asksFor(id string, m mark, how, outcome string) {
	fence := t.tries(id)
	t.asks(fence, m)
	t.endsAs(fence, how, outcome)
}

// asked schedules a task whose handler asks for a follow-up, and whose claim comes to something.
func (t *script) asked(m mark, how, outcome string) {
	t.schedule("a", nil)
	t.asksFor("a", m, how, outcome)
}

// spawns makes a task of another one, in the transaction under way. Its nonce is the revision that ran last.
func (t *script) spawns(id string) {
	revision, parent := t.draw(), t.Executions[len(t.Executions)-1].Revision
	t.change(id, "tasktable engine", func(a *auditRow) {
		a.Nonce, a.IfDead = parent, nil
		a.Status, a.Revision, a.Attempt, a.Next = new("QUEUED"), new(revision), new(0), new(t.now)
	})
	t.line("changes", id, revision, revision)
}

// follows makes a task of another one, and runs it.
func (t *script) follows(id string) {
	t.spawns(id)
	t.runs(id)
}

const (
	childOfA = "a" + childSuffix
	ownOfA   = "a/2.0" + childSuffix
	deadOfA  = "a" + deadSuffix
)

// mortalA is a task with one attempt and another task for its death, whose nonce is that of its first revision.
func mortalA(t *script) {
	t.schedule("a", func(a *auditRow) { a.MaxAttempts, a.IfDead = 1, new(int64(1)) })
}

// diesA has that task fail.
func diesA(t *script) {
	mortalA(t)
	t.runsTo("a", "error", "FAILED")
}

// followCases are about what attempts and deaths schedule.
var followCases = []oracleCase{
	{name: "a follow-up with its completion", steps: func(t *script) {
		t.asked(mark{Child: childOfA}, "ok", "COMPLETED")
		t.follows(childOfA)
	}},
	{name: "a follow-up that was there already, and has ended", steps: func(t *script) {
		t.asked(mark{Child: childOfA}, "ok", "COMPLETED")
		t.follows(childOfA)
		t.verb("run_now", "a", "queued", func(a *auditRow) { a.Status = new("QUEUED") })
		t.asksFor("a", mark{Child: childOfA}, "ok", "COMPLETED")
	}},
	{name: "a follow-up of its own with its completion", steps: func(t *script) {
		t.asked(mark{Child: ownOfA}, "ok", "COMPLETED")
		t.follows(ownOfA)
	}},
	{name: "a follow-up with another payload", wrong: []string{"follow-up"}, steps: func(t *script) {
		t.asked(mark{Child: childOfA}, "ok", "COMPLETED")
		t.spawns(childOfA)
		t.Audit[len(t.Audit)-1].Nonce++
		t.runs(childOfA)
	}},
	{name: "no follow-up", wrong: []string{"follow-up"}, steps: func(t *script) {
		t.asked(mark{Child: childOfA}, "ok", "COMPLETED")
	}},
	{name: "one of two follow-ups is missing", wrong: []string{"follow-up"}, steps: func(t *script) {
		fence := t.begins("a")
		t.asks(fence, mark{Child: childOfA})
		t.asks(fence, mark{Child: ownOfA})
		t.finishes(fence)
		t.follows(childOfA)
	}},
	{name: "a follow-up of a later transaction", wrong: []string{"follow-up"}, steps: func(t *script) {
		t.asked(mark{Child: ownOfA}, "ok", "COMPLETED")
		t.begin()
		t.follows(ownOfA)
	}},
	{name: "a follow-up of an attempt that failed", wrong: []string{"follow-up"}, steps: func(t *script) {
		t.asked(mark{Child: ownOfA}, "error", "RETRIED")
		t.follows(ownOfA)
		t.runs("a")
	}},
	{name: "a follow-up of an attempt that was cancelled", wrong: []string{"follow-up"}, steps: func(t *script) {
		supersededA(t, "PLAIN", true)
		t.follows(ownOfA)
	}},
	{name: "no follow-up of an attempt that was cancelled", steps: func(t *script) { supersededA(t, "PLAIN", true) }},
	{name: "no follow-up of a cancelled attempt whose writes are committed", wrong: []string{"follow-up"},
		steps: func(t *script) { supersededA(t, "IN_TX", true) }},
	{name: "no follow-up of an attempt that was edited", wrong: []string{"follow-up"},
		steps: func(t *script) { supersededA(t, "PLAIN", false); t.runs("a") }},
	{name: "a follow-up of an attempt that was edited", steps: func(t *script) {
		supersededA(t, "PLAIN", false)
		t.follows(ownOfA)
		t.runs("a")
	}},
	{name: "a follow-up of an attempt that was not the last", wrong: []string{"follow-up"}, steps: func(t *script) {
		t.asked(mark{Child: ownOfA, IfDead: true}, "error", "RETRIED")
		t.follows(ownOfA)
		t.runs("a")
	}},
	{name: "no follow-up of an attempt that was the last", wrong: []string{"follow-up"}, steps: func(t *script) {
		t.schedule("a", func(a *auditRow) { a.MaxAttempts = 1 })
		t.asksFor("a", mark{Child: ownOfA, IfDead: true}, "error", "FAILED")
	}},
	{name: "a follow-up of an attempt that was the last", steps: func(t *script) {
		t.schedule("a", func(a *auditRow) { a.MaxAttempts = 1 })
		t.asksFor("a", mark{Child: ownOfA, IfDead: true}, "error", "FAILED")
		t.follows(ownOfA)
	}},
	{name: "a death is followed", steps: func(t *script) {
		diesA(t)
		t.follows(deadOfA)
	}},
	{name: "a death is not followed", wrong: []string{"if dead"}, steps: func(t *script) {
		diesA(t)
	}},
	{name: "a death is followed twice", wrong: []string{"if dead"}, steps: func(t *script) {
		diesA(t)
		t.spawns(deadOfA)
		t.follows(deadOfA)
	}},
	{name: "a death is followed by another transaction", wrong: []string{"if dead"}, steps: func(t *script) {
		diesA(t)
		t.begin()
		t.follows(deadOfA)
	}},
	{name: "a death is followed by another payload", wrong: []string{"if dead"}, steps: func(t *script) {
		diesA(t)
		t.spawns(deadOfA)
		t.Audit[len(t.Audit)-1].Nonce++
		t.runs(deadOfA)
	}},
	{name: "a task that lives is followed", wrong: []string{"if dead"}, steps: func(t *script) {
		mortalA(t)
		t.runsTo("a", "ok", "COMPLETED")
		t.follows(deadOfA)
		mortalB(t)
	}},
	{name: "a second death, and the first is not dealt with yet", steps: func(t *script) {
		diesA(t)
		t.spawns(deadOfA)
		t.verb("retry", "a", "queued", func(a *auditRow) { a.Status = new("QUEUED") })
		t.runsTo("a", "error", "FAILED")
		t.runs(deadOfA)
	}},
	{name: "a second death is not followed", wrong: []string{"if dead"}, steps: func(t *script) {
		diesA(t)
		t.follows(deadOfA)
		t.verb("retry", "a", "queued", func(a *auditRow) { a.Status = new("QUEUED") })
		t.runsTo("a", "error", "FAILED")
	}},
}

// mortalB is another task that dies and is followed: so there is a sample.
func mortalB(t *script) {
	t.schedule("b", func(a *auditRow) { a.MaxAttempts, a.IfDead = 1, new(t.number) })
	t.runsTo("b", "error", "FAILED")
	t.spawns("b" + deadSuffix)
	t.runs("b" + deadSuffix)
}

// supersededA has a task cancelled or edited after its handler has asked for a follow-up.
func supersededA(t *script, kind string, cancelled bool) {
	t.schedule("a", func(a *auditRow) { a.Type = kind })
	fence := t.tries("a")
	t.asks(fence, mark{Child: ownOfA})
	if cancelled {
		t.cancel("a")
	} else {
		t.verb("reschedule", "a", "rescheduled", func(a *auditRow) { a.Status, a.FirstDue = new("QUEUED"), t.now })
	}
	t.endsAs(fence, "ok", "SUPERSEDED")
}

// cutOff has a handler's node cut off, and the handler's context end so much later.
func cutOff(t *script, later time.Duration) {
	fence := t.begins("a")
	from := t.passes(time.Millisecond).now
	t.Faults = []fault{{Kind: faultHush, Target: "node-1", PID: scriptProcess, From: from, To: from.Add(8 * time.Second)}}
	t.passes(later)
	t.ends(fence, "error")
	end := t.runsOf(fence)[0].End
	end.Ended, end.Cause = from.Add(later), handlers.ErrLeaseLost.Error()
	t.settle(fence, "LOST")
	t.runs("a")
}

// fenceCases are about handlers of nodes that are cut off, and about the time that handlers have.
var fenceCases = []oracleCase{
	{name: "a node that is cut off ends its handlers",
		steps: func(t *script) { cutOff(t, fencedWithin-time.Millisecond) }},
	{name: "a node that is cut off ends its handlers late", wrong: []string{"fenced"},
		steps: func(t *script) { cutOff(t, fencedWithin+time.Millisecond) }},
	{name: "a node that is cut off ends its handlers late, since it was starved", steps: func(t *script) {
		cutOff(t, fencedWithin+time.Second)
		from := t.Faults[0].From
		t.Stalls = []span{{scriptProcess, from.Add(time.Second), from.Add(2*time.Second + 2*time.Millisecond)}}
	}},
	{name: "it begins under a lease that is nearly over", wrong: []string{"time"}, steps: func(t *script) {
		fence := t.takes("a")
		t.passes(startAllowance + 10*time.Millisecond)
		t.carriesOut(fence)
	}},
	{name: "it begins under a lease that was renewed", steps: func(t *script) {
		fence := t.takes("a")
		t.passes(startAllowance)
		t.begin()
		t.change("a", "tasktable engine", func(a *auditRow) { a.Held = new(t.now.Add(startAllowance + a.Expected)) })
		t.passes(10 * time.Millisecond)
		t.carriesOut(fence)
	}},
	{name: "its node loses its session, and nothing was done to it", wrong: []string{"interrupted"},
		steps: func(t *script) { interrupted(t) }},
	{name: "its node loses its session, since its wire was cut", steps: func(t *script) {
		t.Faults = []fault{{Kind: faultCut, Target: "node-1", PID: scriptProcess, From: t.now, To: t.now.Add(time.Second)}}
		interrupted(t)
	}},
	{name: "its context ends before its time", wrong: []string{"time"}, steps: func(t *script) {
		fence := t.begins("a")
		t.ends(fence, "error")
		t.runsOf(fence)[0].End.Cause = handlers.ErrDeadline.Error()
		t.settle(fence, "RETRIED")
		t.runs("a")
	}},
}

// interrupted has a handler end because its node has lost its session.
func interrupted(t *script) {
	fence := t.begins("a")
	t.ends(fence, "error")
	t.runsOf(fence)[0].End.Cause = handlers.ErrLeaseLost.Error()
	t.settle(fence, "LOST")
	t.runs("a")
}

// passedOver has a task of another type wait for so long, and then a less urgent one begin.
func passedOver(t *script, kind string, long time.Duration) {
	t.schedule("high", func(a *auditRow) { a.Type, a.Priority, a.FirstDue = kind, 10, t.now.Add(time.Second) })
	t.passes(time.Second + long)
	t.schedule("low", func(a *auditRow) { a.Priority = -10 })
	t.runs("low")
	t.runs("high")
}

// urgencyCases are about what begins while something more urgent waits.
var urgencyCases = []oracleCase{
	{name: "a more urgent one waits for long", wrong: []string{"urgency", "priority", "start latency"},
		steps: func(t *script) { passedOver(t, "HERD", passedOverFor) }},
	{name: "a more urgent one waits for long after a pause", wrong: []string{"urgency", "priority"},
		steps: func(t *script) {
			t.Pauses = []pauseEntry{{Asked: t.now, Held: t.now, Resuming: t.now, Over: t.now.Add(1500 * time.Millisecond)}}
			passedOver(t, "HERD", passedOverFor+time.Second)
		}},
	{name: "a more urgent one is paused", steps: func(t *script) {
		over := t.now.Add(passedOverFor + 2*time.Second + 10*time.Millisecond)
		t.Pauses = []pauseEntry{{Type: "HERD", Asked: t.now, Held: t.now, Resuming: over, Over: over}}
		passedOver(t, "HERD", passedOverFor+time.Second)
	}},
	{name: "a more urgent one waits, of a type that the node does not work", wrong: []string{"start latency"},
		steps: func(t *script) {
			t.Working = map[string]string{"PLAIN": "node-1 ", "HERD": "node-2 "}
			passedOver(t, "HERD", passedOverFor)
		}},
	{name: "a more urgent one waits, of a type that more nodes work", wrong: []string{"start latency"},
		steps: func(t *script) {
			t.Working = map[string]string{"PLAIN": "node-1 ", "HERD": "node-1 node-2 "}
			passedOver(t, "HERD", passedOverFor)
		}},
	{name: "a more urgent one waits for a connection", steps: func(t *script) { passedOver(t, "IN_TX", passedOverFor) }},
}
