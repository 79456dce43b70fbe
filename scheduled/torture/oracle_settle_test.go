//go:build unix

package torture

import "time"

// settleCases are about what is recorded of claims.
var settleCases = []oracleCase{
	{name: "a failure, and a success", steps: func(t *script) {
		t.comesTo("a", "panic", "RETRIED")
		t.passes(time.Second)
		t.runsTo("a", "ok", "COMPLETED")
	}},
	{name: "one revision is completed twice", wrong: []string{"completed twice"}, steps: whenRan(func(t *script) {
		t.change("a", "tasktable engine", func(a *auditRow) { a.Status, a.Next = new("QUEUED"), new(t.now) })
		t.runs("a")
	})},
	{
		name: "an edited task is completed by the claim of before", wrong: []string{"stale completion"},
		steps: func(t *script) {
			fence := t.begins("a")
			t.verb("reschedule", "a", "rescheduled", func(a *auditRow) { a.Status, a.FirstDue = new("QUEUED"), t.now })
			t.finishes(fence)
			t.runs("a")
		},
	},
	{name: "an edited task runs again", steps: func(t *script) {
		fence := t.begins("a")
		t.verb("reschedule", "a", "rescheduled", func(a *auditRow) { a.Status, a.FirstDue = new("QUEUED"), t.now })
		t.endsAs(fence, "ok", "SUPERSEDED")
		t.runs("a")
	}},
	{
		name: "a cancelled task is finished by the claim of before", wrong: []string{"stale completion", "lost"},
		steps: func(t *script) {
			fence := t.begins("a")
			t.cancel("a")
			t.endsAs(fence, "ok", "SUPERSEDED")
			t.Audit[len(t.Audit)-1].Status, t.rows["a"].Status = new("COMPLETED"), new("COMPLETED")
		},
	},
	{name: "nothing superseded it", wrong: []string{"stale completion"}, steps: func(t *script) {
		t.comesTo("a", "ok", "SUPERSEDED")
		t.runs("a")
	}},
	{name: "completed, though its handler failed", wrong: []string{"outcome"}, steps: func(t *script) {
		t.comesTo("a", "error", "COMPLETED")
	}},
	{name: "retried, though its handler succeeded", wrong: []string{"outcome"}, steps: func(t *script) {
		t.comesTo("a", "ok", "RETRIED")
		t.runs("a")
	}},
	{name: "never started, though its handler was called", wrong: []string{"outcome"}, steps: func(t *script) {
		t.comesTo("a", "ok", "RELEASED")
		t.runs("a")
	}},
	{name: "completed, and its handler was never called", wrong: []string{"outcome"}, steps: func(t *script) {
		t.schedule("a", nil)
		t.settle(t.claim("a"), "COMPLETED")
	}},
	{name: "completed before its handler ended", wrong: []string{"outcome", "line"}, steps: whenRan(func(t *script) {
		t.Runs[0].End.At = t.now.Add(time.Second)
		t.Runs[0].Latest = t.Runs[0].End.At
	})},
	{name: "recorded long after its handler ended", wrong: []string{"settle"}, steps: func(t *script) { recordedLate(t) }},
	{name: "recorded long after its handler ended, since a writer had locked it", steps: func(t *script) {
		recordedLate(t)
		t.Entries = append(t.Entries, &entry{
			Op: 99, Began: t.Runs[0].End.At, Ended: t.now, Answer: refused, IDs: []string{"a"},
		})
	}},
	{name: "recorded long after its handler ended, since its wire was slow", steps: func(t *script) {
		recordedLate(t)
		t.Faults = []fault{{Kind: faultSlow, Target: "node-1", From: t.Began, To: t.Runs[0].End.At}}
	}},
	{name: "handed back before it started", steps: func(t *script) {
		t.schedule("a", nil)
		t.settle(t.claim("a"), "RELEASED")
		t.runs("a")
	}},
	{name: "an effect with its completion", steps: (*script).ranInTx},
	{name: "an effect with a superseded attempt", steps: func(t *script) {
		t.schedule("a", inATransaction)
		fence := t.tries("a")
		t.cancel("a")
		t.endsAs(fence, "ok", "SUPERSEDED")
	}},
	{name: "two effects", wrong: []string{"effects"}, steps: func(t *script) {
		t.ranInTx()
		t.Effects = append(t.Effects, t.Effects[0])
	}},
	{name: "no effect", wrong: []string{"effects"}, steps: func(t *script) {
		t.ranInTx()
		t.Effects = nil
	}},
	{name: "an effect of a failed attempt", wrong: []string{"effects"}, steps: func(t *script) {
		t.schedule("a", inATransaction)
		t.runsTo("a", "error", "RETRIED")
		t.Effects = append(t.Effects, effect{TaskID: "a", Fence: t.Runs[0].Fence, TxID: t.tx})
		t.runs("a")
	}},
	{name: "an effect of another transaction", wrong: []string{"effects"}, steps: func(t *script) {
		t.ranInTx()
		t.Effects[0].TxID--
	}},
	{name: "an effect of no execution", wrong: []string{"effects"}, steps: func(t *script) {
		t.ranInTx()
		t.Effects = append(t.Effects, effect{TaskID: "a", Fence: 999})
	}},
	{name: "an attempt is not counted", wrong: []string{"attempts"}, steps: func(t *script) {
		fence := t.takes("a")
		t.Audit[len(t.Audit)-1].Attempt, t.rows["a"].Attempt = new(0), new(0)
		t.carriesOut(fence)
	}},
	{name: "a failed attempt is given back", wrong: []string{"attempts"}, steps: func(t *script) {
		t.comesTo("a", "error", "RETRIED")
		t.Audit[len(t.Audit)-1].Attempt, t.rows["a"].Attempt = new(0), new(0)
		t.runs("a")
	}},
	{name: "an interrupted attempt is counted", wrong: []string{"attempts"}, steps: func(t *script) {
		t.comesTo("a", "error", "INTERRUPTED")
		t.Audit[len(t.Audit)-1].Attempt, t.rows["a"].Attempt = new(1), new(1)
		t.runs("a")
	}},
	{name: "more attempts than it has", wrong: []string{"attempts", "given up"}, steps: func(t *script) {
		t.schedule("a", func(a *auditRow) { a.MaxAttempts = 1 })
		t.runsTo("a", "error", "RETRIED")
		t.runs("a")
	}},
	{name: "its last attempt fails", steps: failed},
	{name: "nobody is told of a dead letter", wrong: []string{"told of the dead"},
		steps: whenFailed(func(t *script) { t.Dead = nil })},
	{name: "somebody is told twice of a dead letter", wrong: []string{"told of the dead"},
		steps: whenFailed(func(t *script) { t.Dead = append(t.Dead, t.Dead...) })},
	{name: "somebody is told of a dead letter that is none", wrong: []string{"told of the dead"}, steps: func(t *script) {
		failed(t)
		t.schedule("b", nil)
		fence := t.runs("b")
		t.Dead = append(t.Dead, mark{ID: "b", Revision: *t.claimed(fence).Revision, How: "FAILED"})
	}},
	{name: "nobody has a notice of a dead letter", wrong: []string{"notice"},
		steps: whenFailed(func(t *script) { t.Causes = nil })},
	{name: "the notice of a dead letter is not scheduled", wrong: []string{"notice"},
		steps: whenFailed(func(t *script) { t.Causes[0].Scheduled = false })},
	{name: "a dead letter is told twice", wrong: []string{"notice"},
		steps: whenFailed(func(t *script) { t.Causes = append(t.Causes, t.Causes...) })},
	{name: "a notice tells of a settle that was rolled back", wrong: []string{"notice"},
		steps: whenFailed(func(t *script) {
			t.Causes = append(t.Causes, cause{Fence: 999, TaskID: "b", Event: "failed", Scheduled: true})
		})},
	{name: "it fails though it has attempts left", wrong: []string{"given up"}, steps: func(t *script) {
		t.comesTo("a", "error", "FAILED")
	}},
	{name: "its handler says that no other attempt would do", steps: func(t *script) {
		t.schedule("a", func(a *auditRow) { a.Does = doPermanent })
		t.runsTo("a", "error", "FAILED")
	}},
	{name: "it expires before its time", wrong: []string{"given up"}, steps: func(t *script) {
		t.schedule("a", func(a *auditRow) { a.Expires = new(t.now.Add(time.Hour)) })
		t.settle(t.claim("a"), "EXPIRED")
	}},
	{name: "recorded late in the beginning", steps: func(t *script) {
		fence := t.begins("a")
		t.ends(fence, "ok")
		t.passes(settledWithin + 100*time.Millisecond)
		t.settle(fence, "COMPLETED")
	}},
	{name: "it expires at its gate", steps: func(t *script) {
		t.schedule("a", func(a *auditRow) { a.Expires = new(t.now.Add(20 * time.Millisecond)) })
		fence := t.claim("a")
		t.passes(30 * time.Millisecond)
		t.settle(fence, "EXPIRED")
	}},
}

// whenFailed are the steps of a case about a dead letter. Something is wrong with the evidence.
func whenFailed(spoil func(t *script)) func(t *script) {
	return func(t *script) {
		failed(t)
		spoil(t)
	}
}

func recordedLate(t *script) {
	t.passes(beginningFor)
	fence := t.begins("a")
	t.ends(fence, "ok")
	t.passes(settledWithin + 100*time.Millisecond)
	t.settle(fence, "COMPLETED")
}

// failed has a task use its only attempt.
func failed(t *script) {
	t.schedule("a", func(a *auditRow) { a.MaxAttempts = 1 })
	t.runsTo("a", "error", "FAILED")
}

// ranInTx is the whole life of a task whose handler takes a transaction.
func (t *script) ranInTx() {
	t.schedule("a", inATransaction)
	t.runs("a")
}

func inATransaction(a *auditRow) { a.Type = "IN_TX" }

// rowCases are about what writers are told, and what the histories keep.
var rowCases = []oracleCase{
	{name: "an acknowledged row is gone", wrong: []string{"application row"},
		steps: whenRan(func(t *script) { t.Ops = nil })},
	{name: "a row of a transaction that was rolled back", wrong: []string{"application row"},
		steps: whenRan(func(t *script) { t.Entries[0].Answer = refused })},
	{name: "a lost answer to a commit that was made",
		steps: whenRan(func(t *script) { t.Entries[0].Answer = unknown })},
	{name: "the task shows nothing of what was done", wrong: []string{"application row"},
		steps: whenRan(func(t *script) {
			t.Ops = append(t.Ops, &opRow{Op: 99, TaskID: "a", Verb: "cancel", Outcome: "cancelled", Revision: 98, TxID: 97})
		})},
	{name: "a task that waits for a node that nobody has", steps: func(t *script) {
		t.schedule("a", func(a *auditRow) { a.Type = "NOBODY" })
	}},
	{name: "a task that waits for its time", steps: func(t *script) {
		t.schedule("a", func(a *auditRow) { a.FirstDue = t.now.Add(time.Hour); a.Asked = a.FirstDue })
	}},
	{name: "a task that just waits", wrong: []string{"lost"}, steps: func(t *script) { t.schedule("a", nil) }},
	{name: "a task that is gone", wrong: []string{"lost"}, steps: func(t *script) { t.ran("a") },
		spoils: func(h *history) { h.Tasks = nil }},
	{name: "a task that was deleted", steps: whenRan(func(t *script) { deleted(t, "a") })},
	{name: "a task that was removed when its time was over",
		steps: whenRan(func(t *script) { retired(t, retention) })},
	{name: "a task that was removed too soon", wrong: []string{"retention"},
		steps: whenRan(func(t *script) { retired(t, retention-time.Second) })},
	{name: "a task that was removed in time, and its last line was young", steps: func(t *script) {
		heldLong(t)
		retired(t, retention/2)
	}},
	{name: "a line was removed too soon, and its task is there", wrong: []string{"append-only"}, steps: func(t *script) {
		heldLong(t)
		removed(t, "executions", retention/2)
	}},
	{name: "a line was removed in time, since what it says had happened long before", steps: func(t *script) {
		heldLong(t)
		t.Executions[0].FinishedAt = t.now.Add(-retention / 2)
		removed(t, "executions", retention/2)
	}},
	{name: "a task that was removed before it ended", wrong: []string{"retention"}, steps: func(t *script) {
		t.schedule("a", func(a *auditRow) { a.FirstDue = t.now.Add(time.Hour); a.Asked = a.FirstDue })
		retired(t, retention)
	}},
	{name: "a task that was cancelled by nobody", wrong: []string{"lost", "change line"}, steps: func(t *script) {
		t.schedule("a", nil)
		t.begin()
		t.change("a", "tasktable engine", func(a *auditRow) {
			a.Status, a.Next, a.Revision = new("CANCELLED"), nil, new(t.draw())
		})
	}},
	{name: "a line was edited", wrong: []string{"append-only"}, steps: func(t *script) {
		t.ran("a")
		t.Lines[1].Op = "UPDATE"
		t.line("executions", "a", t.Runs[0].Fence, 1)
	},
		spoils: func(h *history) { h.Lines[len(h.Lines)-1].TxID = h.Lines[1].TxID }},
	{name: "a line is another than was written", wrong: []string{"append-only"},
		steps: whenRan(func(t *script) { t.Kept[0].Hash = "edited" })},
	{name: "a line of changes is gone", wrong: []string{"append-only"},
		steps: whenRan(func(t *script) { t.Changes = nil })},
	{name: "a claim has no line", wrong: []string{"execution line", "lost"},
		steps: whenRan(func(t *script) { t.Lines, t.Executions, t.Kept = t.Lines[:1], nil, nil })},
	{name: "a claim's line is of another transaction", wrong: []string{"execution line"},
		steps: whenRan(func(t *script) { t.Lines[1].TxID++ })},
	{name: "a line of no claim", wrong: []string{"notice", "execution line"}, steps: whenRan(func(t *script) {
		t.line("executions", "a", 999, 1)
		t.Executions = append(t.Executions, &execution{Fence: 999, TaskID: "a", Revision: 1, Outcome: "LOST"})
		t.Kept = append(t.Kept, kept{999, "as written"})
	})},
	{name: "an edit has no line", wrong: []string{"change line"}, steps: func(t *script) {
		t.ran("a")
		t.Lines[0].Number += 1000
	},
		spoils: func(h *history) { h.Changes = append(h.Changes, h.Lines[0].Number) }},
	{name: "each event comes once", steps: followed},
	{name: "an event is skipped", wrong: []string{"event"}, steps: followed, spoils: func(h *history) {
		delete(h.Events, lineKey{"executions", h.Runs[0].Fence})
	}},
	{name: "an event is repeated", wrong: []string{"event"}, steps: followed, spoils: func(h *history) {
		h.Events[lineKey{"changes", h.Runs[0].Revision}]++
	}},
	{name: "a delete has no line", wrong: []string{"change line"}, steps: whenRan(func(t *script) {
		deleted(t, "a")
		t.Lines = t.Lines[:2]
	})},
}

// followed has somebody follow the events of a task.
func followed(t *script) {
	t.ran("a")
	t.Events = map[lineKey]int{}
	for _, l := range t.Lines {
		t.Events[lineKey{l.History, l.Number}]++
	}
}

// heldLong has a task cancelled during its attempt, whose claim is taken back much later.
func heldLong(t *script) {
	fence := t.takes("a")
	t.starts(fence).Latest = t.now.Add(time.Millisecond)
	t.cancel("a")
	t.passes(retention / 2)
	t.settle(fence, "LOST")
}

// removed has retention remove the lines of one of the histories so much later.
func removed(t *script, history string, later time.Duration) {
	t.passes(later)
	t.begin()
	for _, l := range t.Lines {
		if l.History == history {
			l.Op, l.At, l.TxID = "DELETE", t.now, t.tx
			t.Lines = append(t.Lines, l)
		}
	}
	t.Kept = nil
}

// retired has retention remove a task and its history so much later.
func retired(t *script, later time.Duration) {
	t.passes(later)
	t.begin()
	t.change("a", "tasktable engine", func(a *auditRow) {
		a.Op, a.Status, a.Revision, a.Attempt = "DELETE", nil, nil, nil
	})
	for _, l := range t.Lines {
		l.Op, l.At, l.TxID = "DELETE", t.now, t.tx
		t.Lines = append(t.Lines, l)
	}
	t.Changes, t.Kept = nil, nil
}

// deleted has a writer delete a task.
func deleted(t *script, id string) {
	t.verb("delete", id, "deleted", func(a *auditRow) {
		a.Op, a.Status, a.Revision, a.Attempt = "DELETE", nil, nil, nil
	})
}
