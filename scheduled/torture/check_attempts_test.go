//go:build unix

package torture

// Outcomes whose attempt does not count.
var refunded = map[string]bool{"RELEASED": true, "EXPIRED": true, "INTERRUPTED": true, "SNOOZED": true}

// attemptsAreCounted: each claim counts one, an edit begins anew, unless it only pauses or resumes, and only what never
// began, was interrupted or put off is given back.
func attemptsAreCounted(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	for _, a := range h.Audit {
		if a.Op == "DELETE" {
			continue
		}
		samples++
		say := wrong.about(a.ID, "at %s: ", h.offset(a.At))
		switch {
		case a.pauses() && *a.Attempt == *a.OldAttempt:
		case a.Op == "INSERT" || a.edits():
			if s := *a.Status; (s == "QUEUED" || s == "PAUSED") && *a.Attempt != 0 {
				say("revision %d begins with attempt %d", *a.Revision, *a.Attempt)
			}
		case a.claims():
			if *a.Attempt != *a.OldAttempt+1 {
				say("the claim with fence %d made attempt %d of %d", *a.Fence, *a.Attempt, *a.OldAttempt)
			}
			if *a.Attempt > a.MaxAttempts {
				say("attempt %d of at most %d", *a.Attempt, a.MaxAttempts)
			}
		case a.releases():
			want := *a.OldAttempt
			c, e := x.claims[*a.OldFence], x.executions[*a.OldFence]
			outcome := ""
			if e != nil {
				outcome = e.Outcome
			} else if x.folded[*a.OldFence] {
				outcome = "SNOOZED"
			}
			if c != nil && refunded[outcome] && a.wasCurrent(c) {
				want--
			}
			if *a.Attempt != want && outcome != "" {
				say("fence %d ended as %s: attempt %d became %d, want %d", *a.OldFence, outcome, *a.OldAttempt,
					*a.Attempt, want)
			}
		case *a.Attempt != *a.OldAttempt:
			say("attempt %d became %d by itself", *a.OldAttempt, *a.Attempt)
		}
	}
	return samples
}

// noneIsGivenUpTooSoon: a task fails when its attempts are used up or its handler says that no other would do; until
// then it is tried again.
func noneIsGivenUpTooSoon(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	for fence, a := range x.releases {
		e := x.executions[fence]
		if a.Op == "DELETE" || e == nil || *a.OldStatus != "EXECUTING" {
			continue
		}
		say := wrong.about(a.ID, "fence %d: ", fence)
		samples++
		last := *a.OldAttempt >= a.MaxAttempts
		switch *a.Status {
		case "FAILED":
			if b := behaviourOf(a.Does); !last && a.Does != doPermanent && (b == nil || b.comes != isRefused) {
				say("FAILED after attempt %d of %d", *a.OldAttempt, a.MaxAttempts)
			}
		case "QUEUED":
			if last && (e.Outcome == "LOST" || e.Outcome == "RETRIED") {
				say("%s, and tried again after attempt %d of %d", e.Outcome, *a.OldAttempt, a.MaxAttempts)
			}
		case "EXPIRED":
			if a.Expires == nil || a.At.Before(*a.Expires) {
				say("EXPIRED at %s, expires at %s", h.offset(a.At), h.instant(a.Expires))
			}
		}
	}
	for _, a := range h.Audit {
		if a.becomes("EXPIRED") && (a.Expires == nil || a.At.Before(*a.Expires)) && !a.releases() {
			wrong(a.ID, "EXPIRED at %s, expires at %s", h.offset(a.At), h.instant(a.Expires))
		}
	}
	return samples
}
