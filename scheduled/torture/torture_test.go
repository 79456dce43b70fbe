//go:build unix

package torture

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestTorture runs the engine under faults and sees whether the promises were kept.
func TestTorture(t *testing.T) {
	s, err := readSettings()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d, %s", s.Seed, s.Length)
	r := newHarness(t, s)
	h := r.torture()
	judged := judge(h)
	for _, one := range judged {
		for i, v := range one.wrong {
			if i == shownMost {
				t.Errorf("violation: %s: and %d more", one.name, len(one.wrong)-i)
				break
			}
			t.Errorf("violation: %s", v)
			if v.ID != "" && i < 3 {
				t.Log(h.story(v.ID))
			}
		}
		if s.ordinary() && s.Length >= one.within && one.samples == 0 {
			t.Errorf("blind: %q has judged nothing in %s", one.name, s.Length)
		}
	}
	t.Log(report(s, h, judged))
	if t.Failed() {
		t.Logf("seed %d; the faults:\n%s", s.Seed, printFaults(h.Faults, h.Began))
	}
}

// shownMost is how many violations of a check are told one by one.
const shownMost = 10

// torture runs the writers and the faults, then waits for everything to end, and collects the evidence.
func (r *harness) torture() *history {
	working, stopWorking := context.WithTimeout(context.Background(), r.settings.Length)
	defer stopWorking()
	h := r.newHistory()
	r.writers[0].scheduleSteady()
	var writing, disturbing sync.WaitGroup
	for _, w := range r.writers {
		writing.Go(func() { w.run(working) })
	}
	for _, c := range r.callers {
		writing.Go(func() { c.run(working) })
	}
	if r.api != nil {
		disturbing.Go(func() { r.disturbServer(working) })
	}
	disturbing.Go(func() { r.disturb(working) })
	disturbing.Wait()
	writing.Wait()
	r.calm()
	h.Calmed, h.Patience = time.Now(), r.settings.Patience
	h.Quiet = r.awaitQuiet(h)
	if r.follower != nil {
		h.Events = r.follower.events(r.admin)
	}
	r.endNodes(h)
	h.Until = time.Now()
	h.Faults = r.timeline.all()
	h.Entries, h.Pauses = r.opLog.all()
	h.Received = r.receivers.all()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := h.load(ctx, r.admin); err != nil {
		r.t.Fatal(err)
	}
	if err := h.readProcesses(r.processes); err != nil {
		r.t.Fatal(err)
	}
	h.learn()
	return h
}

// check is a promise. find returns how many samples it judged, and reports the broken ones. A run that takes at least within
// and judges no sample is a failure: the promise was not tested.
type check struct {
	name   string
	find   func(h *history, wrong reportFunc) (samples int)
	within time.Duration
}

// judgement is what a check found.
type judgement struct {
	check
	samples int
	wrong   []violation
}

// judge asks all checks, in their order.
func judge(h *history) []judgement {
	found := make([]judgement, len(checks))
	for i, c := range checks {
		one := &found[i]
		one.check = c
		one.samples = c.find(h, func(id, format string, args ...any) {
			one.wrong = append(one.wrong, violation{c.name, id, fmt.Sprintf(format, args...)})
		})
	}
	return found
}

// story is what is known of a task, in order, for who wants to know how it came to a violation.
func (h *history) story(id string) string {
	var told []string
	tell := func(at time.Time, format string, args ...any) {
		told = append(told, h.offset(at)+"  "+fmt.Sprintf(format, args...))
	}
	x := h.in()
	for _, a := range x.byID[id] {
		tell(a.At, "row %s %s→%s revision %s→%s fence %s→%s attempt %s→%s next %s held %s by %q (tx %d, began %s)",
			a.Op, of(a.OldStatus), of(a.Status), of(a.OldRevision), of(a.Revision), of(a.OldFence), of(a.Fence),
			of(a.OldAttempt), of(a.Attempt), h.instant(a.Next), h.instant(a.Held), a.App, a.TxID, h.offset(a.Began))
	}
	for _, r := range h.Runs {
		if r.ID == id {
			tell(r.At, "handler called in process %d: revision %d fence %d attempt %d, gate %s, due %s", r.PID,
				r.Revision, r.Fence, r.Attempt, h.offset(r.Gate), h.offset(r.Due))
			if r.End != nil {
				tell(r.End.At, "handler ended: %s, context %q", r.End.How, r.End.Cause)
			}
		}
	}
	for _, e := range h.Executions {
		if e.TaskID == id {
			tell(e.FinishedAt, "execution line: fence %d revision %d attempt %d %s %q", e.Fence, e.Revision, e.Attempt,
				e.Outcome, of(e.Error))
		}
	}
	for _, got := range h.Received {
		if got.Task == id {
			tell(got.At, "a receiver got the request %q, attempt %d", got.Key, got.Attempt)
		}
	}
	for _, e := range h.Entries {
		for _, d := range e.Deeds {
			if d.ID == id {
				tell(e.Began, "%s: %s → %s revision %d due %s, %s at %s", e.Writer, d.Verb, d.Outcome, d.Revision,
					h.offset(d.Due), e.Answer, h.offset(e.Ended))
			}
		}
	}
	sortTold(told)
	return "the story of " + id + ":\n" + strings.Join(told, "\n")
}
