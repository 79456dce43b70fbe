//go:build unix

package torture

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// calls makes the last entry of the log a call over HTTP, which was sent several times.
func (t *script) calls(answers int) *entry {
	e := t.Entries[len(t.Entries)-1]
	e.OverHTTP, e.Tries = true, max(answers, 2)
	for range answers {
		one := said{Status: 200, ETag: fmt.Sprintf(`"%d"`, e.Deeds[0].Revision)}
		for _, d := range e.Deeds {
			one.Receipts = append(one.Receipts, receipt{d.ID, d.Revision, d.Outcome})
		}
		e.Told = append(e.Told, one)
	}
	return e
}

// whenCalled are the steps of a case about a call that was answered so many times. Something is wrong with its entry.
func whenCalled(answers int, spoil func(e *entry)) func(t *script) {
	return func(t *script) {
		t.schedule("a", nil)
		spoil(t.calls(answers))
		t.runs("a")
	}
}

// refusesPause has the API refuse a pause that ends so long after the answer.
func (t *script) refusesPause(left time.Duration) {
	t.Entries = append(t.Entries, &entry{
		Op: 1, Began: t.now, Ended: t.now, Answer: refused, OverHTTP: true, Tries: 1,
		Deeds:    []deed{{Verb: "pause", ID: "a", Until: t.now.Add(left)}},
		Refusals: []string{"422 until must be a time to come, and it is later"},
	})
	t.schedule("b", nil)
	t.calls(1)
	t.runs("b")
}

// callCases are about what a writer is told over HTTP.
var callCases = []oracleCase{
	{name: "a call is sent twice, and done once", steps: func(t *script) {
		t.schedule("a", nil)
		t.calls(2)
		t.runs("a")
	}},
	{name: "a call without an answer was done", steps: func(t *script) {
		t.schedule("a", nil)
		e := t.calls(0)
		e.Answer, e.Lost = unknown, 2
		t.runs("a")
	}},
	{name: "a call is done twice", wrong: []string{"idempotency key", "application row"}, steps: func(t *script) {
		t.schedule("a", nil)
		t.calls(2)
		t.verb("resume", "a", "queued", func(a *auditRow) { a.Status = new("QUEUED") })
		t.Ops[1].Op = t.Ops[0].Op
		t.Entries = t.Entries[:1]
		t.runs("a")
	}},
	{name: "a call is answered in two ways", wrong: []string{"idempotency key"},
		steps: whenCalled(2, func(e *entry) { e.Told[1].Receipts[0].Revision++ })},
	{name: "an answer has another revision than the task", wrong: []string{"answer"},
		steps: whenCalled(1, func(e *entry) { e.Told[0].Receipts[0].Revision++ })},
	{name: "an answer has another ETag", wrong: []string{"answer"},
		steps: whenCalled(1, func(e *entry) { e.Told[0].ETag = `"77"` })},
	{name: "an answer leaves out a task", wrong: []string{"answer"},
		steps: whenCalled(1, func(e *entry) { e.Told[0].Receipts = nil })},
	{name: "an answer says created of what was edited", wrong: []string{"answer"}, steps: func(t *script) {
		t.schedule("a", nil)
		t.verb("schedule", "a", "created", func(*auditRow) {})
		t.calls(1)
		t.runs("a")
	}},
	{name: "an answer comes before the change", wrong: []string{"answer"},
		steps: whenCalled(1, func(e *entry) { e.Ended = e.Began })},
	{name: "a call is refused because others edited the task", steps: func(t *script) {
		t.Entries = append(t.Entries, &entry{
			Op: 1, Began: t.now, Ended: t.now, Answer: refused, OverHTTP: true, Tries: 1, Refusals: []string{"412 other"},
		})
	}},
	{name: "a call is answered with 500", wrong: []string{"answer"},
		steps: whenCalled(1, func(e *entry) { e.Faults = []string{"the call failed"} })},
	{name: "a pause is refused because its end has passed", steps: func(t *script) { t.refusesPause(0) }},
	{name: "a pause is refused though its end is to come", wrong: []string{"answer"}, steps: func(t *script) {
		t.refusesPause(time.Second)
	}},
	{name: "a call is refused without a reason", wrong: []string{"answer"},
		steps: whenCalled(1, func(e *entry) { e.Refusals = []string{"401 no key"} })},
}

// hook lets an attempt of an HTTP request begin, whose receiver behaves badly in the first attempts.
func (t *script) hook(id, name string, bad int) (fence int64) {
	t.schedule(id, func(a *auditRow) { a.Type, a.Does, a.Bad = hookType, hookPrefix+name, bad })
	return t.tries(id)
}

// arrives has the receiver get the request of an attempt that runs.
func (t *script) arrives(fence int64) *received {
	r := t.runsOf(fence)[0]
	t.Received = append(t.Received, received{
		At: t.now, Do: t.claimed(fence).Does, Key: fmt.Sprintf("%s:%d", r.ID, r.Revision), Task: r.ID,
		Attempt: r.Attempt,
	})
	return &t.Received[len(t.Received)-1]
}

// comes ends an attempt. An empty text means that the handler returned nil.
func (t *script) comes(fence int64, outcome, text string) {
	how := "ok"
	if text != "" {
		t.asks(fence, mark{Error: text, Snoozed: outcome == "SNOOZED"})
		how = "error"
	}
	t.endsAs(fence, how, outcome)
	if last := t.Executions[len(t.Executions)-1]; text != "" && last.Fence == fence {
		last.Error = new("send HTTP request: " + text)
	}
}

// fails has the receiver behave badly in the first attempt.
func (t *script) fails(name, outcome, text string) {
	fence := t.hook("a", name, 1)
	t.arrives(fence)
	t.comes(fence, outcome, text)
}

// completes is a request that is answered well.
func (t *script) completes(fence int64) {
	t.arrives(fence)
	t.comes(fence, "COMPLETED", "")
	t.Audit[len(t.Audit)-1].Response = new(fineResult)
}

// opens has so many requests of a host fail, and then one that is put off.
func (t *script) opens(failures int, text string, again time.Duration) (fence int64) {
	for i := range failures {
		failed := t.hook(fmt.Sprint("h", i), "500", alwaysBad)
		t.arrives(failed)
		t.comes(failed, "RETRIED", "answered 500")
		t.cancel(fmt.Sprint("h", i))
	}
	fence = t.hook("a", "500", alwaysBad)
	t.waits(fence, text, again)
	t.Audit[len(t.Audit)-1].Bad, t.rows["a"].Bad = 0, 0
	t.completes(t.tries("a"))
	return fence
}

// waits puts an attempt off for so long.
func (t *script) waits(fence int64, text string, again time.Duration) {
	t.comes(fence, "SNOOZED", text)
	last := t.Audit[len(t.Audit)-1]
	for _, a := range []*auditRow{t.rows[last.ID], last} {
		a.Next = new(a.At.Add(again))
	}
	t.passes(again)
}

// waitsThrice has a request wait three times, and returns its last fence.
func (t *script) waitsThrice() (fence int64) {
	t.opens(failuresLeast, open, 10*time.Second)
	t.schedule("b", func(a *auditRow) { a.Type, a.Does, a.Bad = hookType, hookPrefix+"500", alwaysBad })
	for range 3 {
		fence = t.tries("b")
		t.waits(fence, open, 5*time.Second)
	}
	t.cancel("b")
	return fence
}

// released is the change that ended a claim.
func (t *script) released(fence int64) *auditRow {
	i := slices.IndexFunc(t.Audit, func(a *auditRow) bool { return a.releases() && *a.OldFence == fence })
	return t.Audit[i]
}

const open = "host 127.0.0.1:1 does not answer"

// hookCases are about HTTP requests and those who receive them.
var hookCases = []oracleCase{
	{name: "a request is answered well", steps: func(t *script) { t.completes(t.hook("a", "500", 0)) }},
	{name: "a request is answered badly, and then well", steps: func(t *script) {
		t.fails("500", "RETRIED", "answered 500")
		t.completes(t.tries("a"))
	}},
	{name: "a request of nobody", wrong: []string{"request"}, steps: func(t *script) {
		t.completes(t.hook("a", "500", 0))
		t.Received = append(t.Received, received{At: t.now, Key: "b:1", Task: "b", Attempt: 1})
	}},
	{name: "a request of another revision", wrong: []string{"request"}, steps: func(t *script) {
		t.completes(t.hook("a", "500", 0))
		t.Received = append(t.Received, t.Received[0])
		t.Received[1].Key = "a:99"
	}},
	{name: "a request with the number of another attempt", wrong: []string{"request"}, steps: func(t *script) {
		t.completes(t.hook("a", "500", 0))
		t.Received = append(t.Received, t.Received[0])
		t.Received[1].Attempt = 2
	}},
	{name: "a request before its attempt", wrong: []string{"request", "hook"}, steps: func(t *script) {
		t.completes(t.hook("a", "500", 0))
		t.Received[0].At = t.Began
	}},
	{name: "completed, and nothing arrived", wrong: []string{"hook"}, steps: func(t *script) {
		t.completes(t.hook("a", "500", 0))
		t.Received = nil
	}},
	{name: "sent twice in one attempt", wrong: []string{"hook"}, steps: func(t *script) {
		fence := t.hook("a", "500", 0)
		t.arrives(fence)
		t.completes(fence)
	}},
	{name: "completed, though it was answered with 500", wrong: []string{"hook"}, steps: func(t *script) {
		t.completes(t.hook("a", "500", 1))
	}},
	{name: "completed with another result", wrong: []string{"hook"}, steps: func(t *script) {
		t.completes(t.hook("a", "long", 1))
	}},
	{name: "tried again, though it was answered with 404", wrong: []string{"hook"}, steps: func(t *script) {
		t.fails("404", "RETRIED", "answered 404")
		t.completes(t.tries("a"))
	}},
	{name: "failed for good, as it was answered with 404", steps: func(t *script) {
		t.fails("404", "FAILED", "answered 404")
	}},
	{name: "failed for good, though it had a 500", wrong: []string{"hook", "given up"}, steps: func(t *script) {
		t.fails("500", "FAILED", "answered 500")
	}},
	{name: "failed with another error", wrong: []string{"hook"}, steps: func(t *script) {
		t.fails("404", "FAILED", "answered 410")
	}},
	{name: "too slow for its timeout", steps: func(t *script) {
		fence := t.hook("a", "500", 0)
		t.comes(fence, "RETRIED", "the server took longer than 1s")
		t.completes(t.tries("a"))
	}},
	{name: "nothing arrives before the timeout", steps: func(t *script) {
		fence := t.hook("a", "hangs", 1)
		t.comes(fence, "RETRIED", "the server took longer than 1s")
		t.completes(t.tries("a"))
	}},
	{name: "a request of an interrupted attempt arrives late", steps: func(t *script) {
		fence := t.hook("a", "500", 0)
		t.ends(fence, "error")
		t.runsOf(fence)[0].End.Cause = "shutdown"
		t.settle(fence, "INTERRUPTED")
		fence = t.tries("a")
		t.arrives(fence)
		t.completes(fence)
	}},
	{name: "a circuit opens", steps: func(t *script) { t.opens(failuresLeast, open, 10*time.Second) }},
	{name: "a task waits three times, with one line", steps: func(t *script) { t.waitsThrice() }},
	{name: "each wait has a line", wrong: []string{"fold"}, steps: func(t *script) {
		fence := t.waitsThrice()
		t.begin()
		c := t.claimed(fence)
		t.line("executions", c.ID, fence, *c.Revision)
		t.Lines[len(t.Lines)-1].TxID = t.released(fence).TxID
		t.Executions = append(t.Executions, &execution{Fence: fence, TaskID: c.ID, Type: c.Type, Revision: *c.Revision,
			Attempt: *c.Attempt, ScheduledAt: c.Asked, StartedAt: new(t.runsOf(fence)[0].Gate), FinishedAt: t.now,
			Outcome: "SNOOZED"})
		t.Kept = append(t.Kept, kept{fence, "as written"})
	}},
	{name: "a wait is not counted", wrong: []string{"fold"}, steps: func(t *script) {
		t.released(t.waitsThrice()).Waits--
	}},
	{name: "the first wait has no line", wrong: []string{"execution line"}, steps: func(t *script) {
		t.waitsThrice()
		first := slices.IndexFunc(t.Executions, func(e *execution) bool { return e.Outcome == "SNOOZED" })
		fence := t.Executions[first].Fence
		t.Executions = slices.Delete(t.Executions, first, first+1)
		t.Lines = slices.DeleteFunc(t.Lines, func(l line) bool { return l.History == "executions" && l.Number == fence })
	}},
	{name: "a wait after an edit has no line", wrong: []string{"fold", "execution line"}, steps: func(t *script) {
		t.waitsThrice()
		t.verb("retry", "b", "queued", func(a *auditRow) { a.Status, a.FirstDue = new("QUEUED"), t.now })
		t.rows["b"].Waits = 1
		t.waits(t.tries("b"), open, 5*time.Second)
		t.cancel("b")
	}},
	{name: "a circuit opens too soon", wrong: []string{"circuit"}, steps: func(t *script) {
		t.opens(failuresLeast-1, open, 10*time.Second)
	}},
	{name: "a circuit is open for too short a time", wrong: []string{"circuit"}, steps: func(t *script) {
		t.opens(failuresLeast, open, snoozeLeast/2)
	}},
	{name: "a circuit is open for too long", wrong: []string{"circuit"}, steps: func(t *script) {
		t.opens(failuresLeast, open, 2*snoozeMost)
	}},
	{name: "a circuit without a name", wrong: []string{"circuit"}, steps: func(t *script) {
		t.opens(failuresLeast, "put off", 10*time.Second)
	}},
	{name: "a request of what was put off", wrong: []string{"circuit"}, steps: func(t *script) {
		fence := t.opens(failuresLeast, open, 10*time.Second)
		t.arrives(fence).At = t.runsOf(fence)[0].At
	}},
	{name: "what is put off uses up an attempt", wrong: []string{"circuit", "attempts"}, steps: func(t *script) {
		t.opens(failuresLeast, open, 10*time.Second)
	}, spoils: func(h *history) {
		for _, a := range h.Audit {
			if a.ID == "a" && a.releases() && *a.Status == "QUEUED" {
				a.Attempt = new(*a.OldAttempt)
			}
		}
	}},
}

// An edit during an attempt has a key of its own if one more run was asked for before, and only then.
func TestAskedRevisions(t *testing.T) {
	t.Parallel()
	executing, queued := new("EXECUTING"), new("QUEUED")
	h := history{Audit: []*auditRow{
		{ID: "a", TxID: 1, Op: "INSERT", Status: queued, Revision: new(int64(1))},
		{ID: "a", TxID: 2, Op: "UPDATE", OldStatus: queued, Status: executing, OldRevision: new(int64(1)),
			Revision: new(int64(1)), Fence: new(int64(2))},
		{ID: "a", TxID: 3, Op: "UPDATE", OldStatus: executing, Status: executing, OldRevision: new(int64(1)),
			Revision: new(int64(1)), OldFence: new(int64(2)), Fence: new(int64(2))},
		{ID: "a", TxID: 4, Op: "UPDATE", OldStatus: executing, Status: queued, OldRevision: new(int64(1)),
			Revision: new(int64(5)), OldFence: new(int64(2)), Fence: new(int64(2))},
		{ID: "a", TxID: 5, Op: "UPDATE", OldStatus: queued, Status: queued, OldRevision: new(int64(5)),
			Revision: new(int64(5)), OldFence: new(int64(2))},
		{ID: "a", TxID: 6, Op: "UPDATE", OldStatus: queued, Status: executing, OldRevision: new(int64(5)),
			Revision: new(int64(5)), Fence: new(int64(9))},
	}}
	if got, want := fmt.Sprint(h.askedRevisions()), "map[2:1 9:1]"; got != want {
		t.Errorf("a plain edit: %s, want %s", got, want)
	}
	h.Ops = []*opRow{{TaskID: "a", TxID: 3, Outcome: "again"}}
	if got, want := fmt.Sprint(h.askedRevisions()), "map[2:1 9:5]"; got != want {
		t.Errorf("after once more: %s, want %s", got, want)
	}
}
