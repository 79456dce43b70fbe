//go:build unix

package torture

import (
	"fmt"
	"time"
)

// claimCases are about who claims what.
var claimCases = []oracleCase{
	{name: "who claims does not lead", wrong: []string{"leadership"},
		steps: whenRan(func(t *script) { t.Audit[1].Leads = new(false) })},
	{name: "a number is drawn twice", wrong: []string{"leadership"}, steps: func(t *script) {
		t.schedule("a", nil)
		t.number--
		t.runs("a")
	}},
	{name: "a held task is claimed", wrong: []string{"leadership", "execution line"}, steps: func(t *script) {
		t.schedule("a", nil)
		t.claim("a")
		t.rows["a"].Next = new(t.now)
		fence := t.claim("a")
		t.carriesOut(fence)
		t.Audit[2].Attempt, t.Audit[3].OldAttempt, t.Audit[3].Attempt = new(2), new(2), new(2)
	}},
	{name: "a lease is too short", wrong: []string{"lease", "time"},
		steps: whenRan(func(t *script) { t.Audit[1].Held = new(t.Audit[1].Held.Add(-time.Second)) })},
	{name: "a lease gets shorter", wrong: []string{"lease"}, steps: func(t *script) {
		fence := t.takes("a")
		t.begin()
		t.change("a", "tasktable engine", func(a *auditRow) { a.Held = new(a.OldHeld.Add(-time.Millisecond)) })
		t.carriesOut(fence)
	}},
	{name: "a lease gets longer", steps: func(t *script) {
		fence := t.takes("a")
		t.begin()
		t.change("a", "tasktable engine", func(a *auditRow) { a.Held = new(a.OldHeld.Add(time.Second)) })
		t.carriesOut(fence)
	}},
	{name: "an expired task is claimed", wrong: []string{"claimed expired"}, steps: func(t *script) {
		t.schedule("a", func(a *auditRow) { a.Expires = new(t.now.Add(time.Millisecond)) })
		t.passes(time.Second)
		t.settle(t.claim("a"), "EXPIRED")
	}},
	{name: "a paused task is claimed", wrong: []string{"claimed paused"}, steps: func(t *script) {
		t.schedule("a", nil)
		t.Pauses = []pauseEntry{{Queue: "default", Asked: t.now, Held: t.now, Resuming: t.now.Add(startAllowance / 2),
			Over: t.now.Add(startAllowance / 2)}}
		fence := t.claim("a")
		t.passes(startAllowance / 2)
		t.carriesOut(fence)
	}},
	{name: "a lower priority is claimed first", wrong: []string{"priority"},
		steps: func(t *script) { twoPriorities(t); t.runs("low"); t.runs("high") }},
	{name: "a lower priority is claimed before one that is scheduled for the past", wrong: []string{"priority"},
		steps: func(t *script) {
			t.schedule("low", func(a *auditRow) { a.Priority = -10 })
			t.schedule("high", func(a *auditRow) { a.Priority, a.FirstDue = 10, t.now.Add(-time.Second) })
			t.runs("low")
			t.runs("high")
		}},
	{name: "a lower priority is claimed just after the higher one's long transaction", steps: func(t *script) {
		twoPriorities(t)
		t.Audit[len(t.Audit)-1].Began = t.now.Add(-openFor - 2*time.Second)
		t.runs("low")
		t.runs("high")
	}},
	{name: "a lower priority is claimed long after the higher one's long transaction",
		wrong: []string{"priority", "start latency"},
		steps: func(t *script) {
			twoPriorities(t)
			t.Audit[len(t.Audit)-1].Began = t.now.Add(-openFor - 2*time.Second)
			t.passes(walkedWithin + startedWithin)
			t.runs("low")
			t.runs("high")
		}},
	{
		name:  "a higher priority is claimed first",
		steps: func(t *script) { twoPriorities(t); t.runs("high"); t.runs("low") },
	},
	{name: "both are claimed together", steps: func(t *script) {
		twoPriorities(t)
		t.claim("low", "high")
		for _, fence := range []int64{3, 4} {
			t.carriesOut(fence)
		}
	}},
	{name: "a newcomer takes the place of the higher one", steps: func(t *script) { thirdOfLane(t, time.Second) }},
	{
		name: "an older one is claimed together with the lower one", wrong: []string{"priority"},
		steps: func(t *script) { thirdOfLane(t, 0) },
	},
	{name: "a writer has locked the higher one", steps: func(t *script) {
		twoPriorities(t)
		t.Entries = append(t.Entries, &entry{Op: 99, Began: t.now, Ended: t.now.Add(time.Second), Answer: refused,
			IDs: []string{"high"}})
		t.runs("low")
		t.runs("high")
	}},
	{name: "the leader before has locked the higher one", steps: func(t *script) {
		twoPriorities(t)
		t.Faults = append(t.Faults, fault{Kind: faultFreeze, Target: "node-1", Leader: true, From: t.now, To: t.now})
		t.runs("low")
		t.runs("high")
	}},
	{name: "the higher one's type is paused", steps: func(t *script) {
		t.Pauses = []pauseEntry{{Type: "HERD", Asked: t.now, Held: t.now, Resuming: t.now.Add(2 * time.Second),
			Over: t.now.Add(2 * time.Second)}}
		highWaits(t, "HERD")
		t.runs("low")
		t.passes(time.Second)
		t.runs("high")
	}},
	{
		name: "the higher one is of another type", wrong: []string{"priority"},
		steps: func(t *script) { twoTypes(t, "HERD") },
	},
	{name: "the higher one is of a type that other nodes work", steps: func(t *script) {
		t.Working = map[string]string{"PLAIN": "node-1 node-2 ", "HERD": "node-2 "}
		twoTypes(t, "HERD")
	}},
	{
		name:  "the higher one is of another type and waits for a connection",
		steps: func(t *script) { twoTypes(t, "IN_TX") },
	},
}

// twoTypes has a task claimed before one of a higher priority and of another type.
func twoTypes(t *script, higher string) {
	highWaits(t, higher)
	t.runs("low")
	t.runs("high")
}

// highWaits has two tasks due, of which the more urgent one is of another type.
func highWaits(t *script, higher string) {
	t.schedule("low", func(a *auditRow) { a.Priority = -10 })
	t.schedule("high", func(a *auditRow) { a.Type, a.Priority, a.FirstDue = higher, 10, t.now.Add(time.Second) })
	t.passes(time.Second)
}

func twoPriorities(t *script) {
	t.schedule("low", func(a *auditRow) { a.Priority = -10 })
	t.schedule("high", func(a *auditRow) { a.Priority, a.FirstDue = 10, t.now.Add(time.Second) })
	t.passes(time.Second)
}

// thirdOfLane has a pass claim a task instead of one of the same lane, and of one that has a lower priority. The writer
// of that task knows after so long that it is committed.
func thirdOfLane(t *script, known time.Duration) {
	twoPriorities(t)
	t.schedule("older", func(a *auditRow) { a.Priority, a.FirstDue = 10, t.now.Add(-10*time.Millisecond) })
	t.Entries[len(t.Entries)-1].Ended = t.now.Add(known)
	first := t.claim("older", "low") - 1
	for _, fence := range []int64{first, first + 1} {
		t.carriesOut(fence)
	}
	t.runs("high")
}

// recurs schedules a recurring task.
func (t *script) recurs(id string) {
	t.schedule(id, func(a *auditRow) { a.Type, a.Recurs = "TICK", true })
}

// fires makes the occurrences of a recurring task for the seconds since its beginning, in one transaction that plans
// the next. A negative number is of one that is skipped.
func (t *script) fires(id string, seconds ...int) {
	t.begin()
	var next time.Time
	for _, second := range seconds {
		status := "QUEUED"
		if second < 0 {
			status, second = "SKIPPED", -second
		}
		at := t.Began.Add(time.Duration(second) * time.Second)
		revision := t.draw()
		name := occurrenceOf(id, second)
		t.change(name, "tasktable session x", func(a *auditRow) {
			a.Type, a.Parent, a.Status, a.Revision, a.Attempt, a.FirstDue, a.Asked = "TICK", new(id), new(status),
				new(revision), new(0), at, at
			if status == "QUEUED" {
				a.Next = new(at)
			}
		})
		t.line("changes", name, revision, revision)
		next = at.Add(time.Second)
	}
	t.change(id, "tasktable session x", func(a *auditRow) { a.Next = new(next) })
	t.passes(time.Millisecond)
}

func occurrenceOf(id string, second int) string { return fmt.Sprintf("%s@%d", id, second) }

// firesAndRuns makes an occurrence, which runs at once.
func (t *script) firesAndRuns(id string, second int) {
	t.fires(id, second)
	t.runs(occurrenceOf(id, second))
}

// firesAndBegins makes an occurrence, and calls its handler.
func (t *script) firesAndBegins(id string, second int) (fence int64) {
	t.fires(id, second)
	return t.tries(occurrenceOf(id, second))
}

// clock lets time go by until so many seconds after the beginning.
func (t *script) clock(second int) {
	t.now = t.Began.Add(time.Duration(second)*time.Second + time.Millisecond)
}

// missed freezes the leader for some seconds, counted from the beginning.
func (t *script) missed(from, until int) {
	t.clock(from)
	frozen := fault{Kind: faultFreeze, Target: "node-1", PID: scriptProcess, Leader: true, From: t.now}
	t.clock(until)
	frozen.To = t.now
	t.Faults = append(t.Faults, frozen)
}

// beats has a recurring task fire at some seconds, each alone and run at once.
func (t *script) beats(id string, seconds ...int) {
	for _, second := range seconds {
		t.clock(second)
		t.firesAndRuns(id, second)
	}
}

// fireCases are about recurring tasks.
var fireCases = []oracleCase{
	{name: "each second a fire",
		recurs: "steady/all", steps: func(t *script) { t.beats("steady/all", 1, 2, 3) }},
	{name: "a fire is missing", wrong: []string{"steady fires"},
		recurs: "steady/all", steps: func(t *script) { t.beats("steady/all", 1, 3) }},
	{name: "it never fires", wrong: []string{"steady fires"},
		recurs: "steady/all", steps: func(t *script) { t.clock(3) }},
	{name: "a fire is late", wrong: []string{"steady fires"}, recurs: "steady/all", steps: func(t *script) {
		t.clock(1)
		t.passes(startedWithin + 100*time.Millisecond)
		t.firesAndRuns("steady/all", 1)
	}},
	{name: "a fire is made by a plan of before the last edit", wrong: []string{"fork"},
		recurs: "other", steps: func(t *script) {
			t.clock(1)
			t.verb("schedule", "other", "rescheduled", func(a *auditRow) { a.FirstDue = t.now })
			t.firesAndRuns("other", 1)
		}},
	{name: "a fire that should run is skipped", wrong: []string{"steady fires"},
		recurs: "steady/all", steps: func(t *script) {
			t.beats("steady/all", 1)
			t.clock(2)
			t.fires("steady/all", -2)
		}},
	{name: "a fire is made twice", wrong: []string{"fires", "steady fires", "fork"},
		recurs: "steady/all", steps: func(t *script) {
			t.beats("steady/all", 1, 2)
			t.begin()
			t.change("again", "tasktable session x", func(a *auditRow) {
				a.Type, a.Parent, a.Status, a.Revision, a.Attempt, a.Asked = "TICK", new("steady/all"), new("SKIPPED"),
					new(t.draw()), new(0), t.Began.Add(2*time.Second)
			})
			t.line("changes", "again", t.number, t.number)
			t.change("steady/all", "tasktable session x", func(a *auditRow) { a.Next = new(t.Began.Add(3 * time.Second)) })
		}},
	{name: "a fire is made before its time", wrong: []string{"fires", "claimed start"}, steps: func(t *script) {
		t.recurs("other")
		t.clock(1)
		t.fires("other", 2)
		t.clock(2)
		t.runs(occurrenceOf("other", 2))
		t.cancel("other")
		t.Runs[0].Revision++
	}},
	{name: "a fire is made, and the next not planned with it", wrong: []string{"fork"}, steps: func(t *script) {
		t.recurs("other")
		t.beats("other", 1)
		t.cancel("other")
		for _, a := range t.Audit {
			if a.ID == "other" && !a.edits() {
				a.TxID += 1000
			}
		}
	}},
	{name: "some were missed, and the latest runs", recurs: "steady/latest", steps: func(t *script) {
		t.beats("steady/latest", 1)
		t.missed(2, 4)
		t.fires("steady/latest", -2, -3, 4)
		t.runs(occurrenceOf("steady/latest", 4))
	}},
	{name: "some were missed, and none runs", wrong: []string{"skipped"},
		recurs: "steady/latest", steps: func(t *script) {
			t.beats("steady/latest", 1)
			t.missed(2, 4)
			t.fires("steady/latest", -2, -3, -4)
		}},
	{name: "an earlier one goes on beside the next", wrong: []string{"policy"},
		recurs: "steady/cancel", steps: func(t *script) {
			t.clock(2)
			fence := t.firesAndBegins("steady/cancel", 2)
			t.clock(4)
			t.fires("steady/cancel", 4)
			t.finishes(fence)
			t.runs(occurrenceOf("steady/cancel", 4))
		}},
	{name: "an earlier one is cancelled by the next", recurs: "steady/cancel", steps: func(t *script) {
		t.clock(2)
		fence := t.firesAndBegins("steady/cancel", 2)
		t.clock(4)
		t.begin()
		revision := t.draw()
		t.change(occurrenceOf("steady/cancel", 2), "tasktable session x", func(a *auditRow) {
			a.Status, a.Revision = new("CANCELLED"), new(revision)
		})
		t.line("changes", occurrenceOf("steady/cancel", 2), revision, revision)
		t.fires("steady/cancel", 4)
		t.endsAs(fence, "error", "SUPERSEDED")
		t.runs(occurrenceOf("steady/cancel", 4))
	}},
	{name: "some were missed, and run though none is to", wrong: []string{"policy"},
		recurs: "steady/none", steps: func(t *script) {
			t.clock(2)
			t.fires("steady/none", -1, 2)
			t.runs(occurrenceOf("steady/none", 2))
		}},
	{name: "one is skipped though it is on time", wrong: []string{"policy"},
		recurs: "steady/none", steps: func(t *script) {
			t.clock(1)
			t.fires("steady/none", -1)
		}},
	{name: "some were missed, and all run though the latest is to", wrong: []string{"policy"},
		recurs: "steady/latest", steps: func(t *script) {
			t.clock(2)
			t.fires("steady/latest", 1, 2)
			t.runs(occurrenceOf("steady/latest", 1))
			t.runs(occurrenceOf("steady/latest", 2))
		}},
	{name: "an earlier one has not ended", recurs: "steady/skip", steps: func(t *script) {
		t.clock(1)
		fence := t.firesAndBegins("steady/skip", 1)
		t.clock(2)
		t.fires("steady/skip", -2)
		t.finishes(fence)
	}},
	{name: "an earlier one has not ended, and the next is to run", wrong: []string{"skipped"},
		recurs: "steady/skip", steps: func(t *script) {
			t.clock(1)
			fence := t.firesAndBegins("steady/skip", 1)
			t.clock(2)
			t.fires("steady/skip", 2)
			t.finishes(fence)
			t.runs(occurrenceOf("steady/skip", 2))
		}},
}
