//go:build unix

package torture

import "time"

// asksAgain has a writer call run_now during an attempt, which then ends.
func (t *script) asksAgain() {
	fence := t.begins("a")
	revision := *t.rows["a"].Revision
	t.begin()
	t.change("a", "writer-1", func(a *auditRow) { a.Again = new(t.now) })
	t.Ops = append(t.Ops, &opRow{Op: 2, TaskID: "a", Verb: "run_now", Outcome: "again", Revision: revision, TxID: t.tx})
	t.Entries = append(t.Entries, &entry{
		Op: 2, Writer: "writer-1", Began: t.now, Ended: t.passes(time.Millisecond).now, Answer: acknowledged,
		IDs:   []string{"a"},
		Deeds: []deed{{Verb: "run_now", ID: "a", Outcome: "again", Revision: revision}},
	})
	t.finishes(fence)
}

// queuedAgain queues the task once more, in the transaction under way.
func (t *script) queuedAgain() {
	revision := t.draw()
	t.change("a", "tasktable engine", func(a *auditRow) {
		a.Status, a.Revision, a.Attempt, a.Next, a.Again = new("QUEUED"), new(revision), new(0), new(t.now), nil
	})
	t.line("changes", "a", revision, revision)
}

// againCases are about tasks that are asked for during an attempt.
var againCases = []oracleCase{
	{name: "asked for during an attempt, it runs once more", steps: func(t *script) {
		t.asksAgain()
		t.queuedAgain()
		t.runs("a")
	}},
	{name: "asked for during an attempt, it does not run again", wrong: []string{"again"}, steps: (*script).asksAgain},
	{name: "asked for during an attempt, and forgotten before its end", wrong: []string{"again"}, steps: func(t *script) {
		t.asksAgain()
		for _, a := range t.Audit {
			if a.releases() {
				a.Again = nil
			}
		}
	}},
	{name: "asked for during an attempt, it is queued and does not run", wrong: []string{"again", "lost"},
		steps: func(t *script) {
			t.asksAgain()
			t.queuedAgain()
		}},
	{name: "again is said and not noted", wrong: []string{"again"}, steps: (*script).asksAgain, spoils: func(h *history) {
		for _, a := range h.Audit {
			a.Again = nil
		}
	}},
}
