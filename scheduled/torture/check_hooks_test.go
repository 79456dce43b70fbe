//go:build unix

package torture

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// requestKey is what a receiver knows of an attempt. asked is the number in the idempotency key.
type requestKey struct {
	id      string
	asked   int64
	attempt int
}

// askedRevisions lists the number in the idempotency key of each claim, by its fence: the revision that last asked for
// another payload or time, or for a run after a completed one. If somebody has asked for one more run during an attempt,
// each edit before that attempt has ended makes the next run that one.
func (h *history) askedRevisions() map[int64]int64 {
	again, owed := map[taskTx]bool{}, map[string]bool{}
	for _, o := range h.Ops {
		if o.Outcome == "again" {
			again[taskTx{o.TaskID, o.TxID}] = true
		}
	}
	byFence, asked, last := map[int64]int64{}, map[string]int64{}, map[string]*auditRow{}
	for _, a := range h.Audit {
		before := last[a.ID]
		last[a.ID] = a
		if a.Op != "DELETE" && a.edits() && (before == nil || a.Op == "INSERT" || a.Sum != before.Sum || owed[a.ID] ||
			!a.Asked.Equal(before.Asked) || of(a.OldStatus) == "COMPLETED" || a.releases()) {
			asked[a.ID] = *a.Revision
		}
		owed[a.ID] = again[taskTx{a.ID, a.TxID}] || owed[a.ID] && !a.edits() && !a.releases()
		if a.claims() {
			byFence[*a.Fence] = asked[a.ID]
		}
	}
	return byFence
}

// hookRun is an attempt of an HTTP request, with the requests that arrived from its start until the next start with
// the same number: an attempt that used up none is followed by another.
type hookRun struct {
	*run

	claim    *auditRow
	requests []*received
	repeats  bool // an earlier one with the same number may have sent a request that arrives late
}

// hookRuns lists the attempts. strays are the requests that belong to none of them.
func (h *history) hookRuns() (runs []*hookRun, strays []*received) {
	byKey, asked := map[requestKey][]*hookRun{}, h.askedRevisions()
	for r, c := range h.claimedRuns() {
		if r.Type == hookType {
			one := &hookRun{run: r, claim: c}
			runs = append(runs, one)
			k := requestKey{r.ID, asked[r.Fence], r.Attempt}
			byKey[k] = append(byKey[k], one)
		}
	}
	for _, one := range runs {
		others := byKey[requestKey{one.ID, asked[one.Fence], one.Attempt}]
		one.repeats = slices.ContainsFunc(others, func(other *hookRun) bool {
			return other.At.Before(one.At) && !other.snoozed()
		})
	}
	for i := range h.Received {
		got := &h.Received[i]
		var from *hookRun
		for _, one := range byKey[got.from()] {
			if !one.At.After(got.At) && (from == nil || one.At.After(from.At)) && one.claim.Does == got.Do {
				from = one
			}
		}
		if from == nil {
			strays = append(strays, got)
		} else {
			from.requests = append(from.requests, got)
		}
	}
	return runs, strays
}

// from is which attempt a request says it is of.
func (r *received) from() (k requestKey) {
	k.id, k.attempt = r.Task, r.Attempt
	var asked int64
	if rest, found := strings.CutPrefix(r.Key, r.Task+":"); found {
		if _, err := fmt.Sscanf(rest, "%d", &asked); err == nil && fmt.Sprint(asked) == rest {
			k.asked = asked
		}
	}
	return k
}

// requestsAreOfAttempts: a request that arrives is of an attempt that began before, and has the key and the
// number of that attempt.
func requestsAreOfAttempts(h *history, wrong reportFunc) (samples int) {
	_, strays := h.hookRuns()
	for _, got := range strays {
		wrong(got.Task, "a request with the key %q and attempt %d arrived at %s, and "+"no such attempt had begun",
			got.Key, got.Attempt, h.offset(got.At))
	}
	return len(h.Received)
}

// hooksEndAsDocumented: an attempt of an HTTP request is completed, is retried or fails for good as the documentation
// says of the receiver's behaviour, and the receiver got its request once. No samples are attempts that were ended from
// outside, and those that a slow machine let run into their timeout.
func hooksEndAsDocumented(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	runs, _ := h.hookRuns()
	for _, r := range runs {
		e, b := x.executions[r.Fence], behaviourOf(r.claim.Does)
		if e == nil || b == nil || r.End == nil || r.End.Cause != "" || r.snoozed() {
			continue
		}
		text := r.error()
		want, requests := b, max(b.requests, 1)
		if r.Attempt > r.claim.Bad {
			want, requests = &behaviours[0], 1
		}
		if slow.MatchString(text) && (want.says == nil || !want.says.MatchString(text)) {
			continue
		}
		samples++
		say := wrong.about(r.ID, "fence %d, attempt %d of %q, came to %s with %q: ", r.Fence, r.Attempt, r.claim.Does,
			e.Outcome, text)
		if what := want.unlike(r, e, x.releases[r.Fence], text); what != "" {
			say("%s", what)
		}
		if n := len(r.requests); n > requests && !r.repeats || n < requests && !slow.MatchString(text) {
			say("%d requests arrived, want %d", n, requests)
		}
	}
	return samples
}

// slow matches the error of a request that ran into its timeout.
var slow = regexp.MustCompile("the server took longer than")

// unlike says what is wrong with how an attempt ended, or "". Edits may supersede an attempt meanwhile, and a node may
// die before it has recorded it.
func (b *behaviour) unlike(r *hookRun, e *execution, release *auditRow, text string) string {
	switch e.Outcome {
	case "COMPLETED":
		if b.comes != completes {
			return "it " + b.comes
		}
		if release != nil && release.Op != "DELETE" && of(release.Response) != b.result {
			return fmt.Sprintf("its result is %q, want %q", of(release.Response), b.result)
		}
		return ""
	case "RETRIED":
		if b.comes != retries {
			return "it " + b.comes
		}
	case "FAILED":
		if b.comes != isRefused && (b.comes != retries || e.Attempt < r.claim.MaxAttempts) {
			return "it " + b.comes
		}
	default:
		if (b.comes == completes) != (text == "") {
			return "it " + b.comes
		}
	}
	if b.says != nil && !b.says.MatchString(text) {
		return "its error is another"
	}
	return ""
}

// error is the error that the handler returned, or "".
func (r *run) error() string {
	if asked := r.asked(func(m mark) bool { return m.Error != "" }); asked != nil {
		return asked.Error
	}
	return ""
}

// snoozed says whether the handler put the task off, because the circuit of its host is open.
func (r *run) snoozed() bool { return r.asked(func(m mark) bool { return m.Snoozed }) != nil }

// What the documentation says of an open circuit: more than half of 20 calls failed. The tasks come back within twice
// its open time, which doubles up to a limit. After that time one call is a probe, and the others wait a second at
// least.
const (
	failuresLeast = 11
	snoozeLeast   = time.Second
	snoozeMost    = 2 * circuitMost
)

// circuitsPutOff: an attempt is put off only after many failures of its host and path in the same process. It sends no
// request, uses up no attempt, and the next one comes in time. Its error names the host.
func circuitsPutOff(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	runs, _ := h.hookRuns()
	type place struct {
		pid int
		do  string
		bad int // the path
	}
	failures := map[place][]time.Time{}
	for _, r := range runs {
		b := behaviourOf(r.claim.Does)
		if b == nil || r.End == nil || r.error() == "" || r.snoozed() {
			continue
		}
		if b.failing || slow.MatchString(r.error()) {
			k := place{r.PID, r.claim.Does, r.claim.Bad}
			failures[k] = append(failures[k], r.End.At)
		}
	}
	for _, r := range runs {
		if !r.snoozed() || r.End == nil {
			continue
		}
		samples++
		say := wrong.about(r.ID, "fence %d of %q was put off at %s: ", r.Fence, r.claim.Does, h.offset(r.End.At))
		before := 0
		for _, at := range failures[place{r.PID, r.claim.Does, r.claim.Bad}] {
			if at.Before(r.End.At) {
				before++
			}
		}
		if before < failuresLeast {
			say("%d attempts had failed in process %d", before, r.PID)
		}
		if len(r.requests) > 0 {
			say("%d requests arrived", len(r.requests))
		}
		if !strings.Contains(r.error(), "host 127.0.0.1:") {
			say("its error does not name the host: %s", r.error())
		}
		a := x.releases[r.Fence]
		if a == nil || a.Op == "DELETE" || !x.waits(a) || *a.OldStatus != "EXECUTING" || a.Next == nil {
			continue
		}
		if a.Next.Before(r.End.At.Add(snoozeLeast)) || a.Next.After(a.At.Add(snoozeMost)) {
			say("it is due again at %s", h.offset(*a.Next))
		}
		if *a.Attempt != *a.OldAttempt-1 {
			say("attempt %d became %d", *a.OldAttempt, *a.Attempt)
		}
	}
	return samples
}
