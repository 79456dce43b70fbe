//go:build unix

package torture

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// report says what was done and what came of it.
func report(s settings, h *history, judged []judgement) string {
	var text strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&text, format+"\n", args...) }
	say("seed %d, %.0f s, %d nodes (%d processes in all), %d writers", s.Seed, s.Length.Seconds(), s.Nodes,
		len(h.Processes), s.Writers)
	faults, outcomes, answers := map[string]int{}, map[string]int{}, map[string]int{}
	for _, f := range h.Faults {
		faults[f.Kind]++
	}
	for _, e := range h.Executions {
		outcomes[e.Outcome]++
	}
	for _, e := range h.Entries {
		answers[string(e.Answer)]++
	}
	say("faults: %d (%s)", len(h.Faults), counts(faults))
	say("writers' transactions: %d (%s); pauses of scopes: %d", len(h.Entries), counts(answers), len(h.Pauses))
	say(
		"tasks: %d, revisions %d, handler calls %d, effects %d", len(h.in().byID), h.revisions(), len(h.Runs),
		len(h.Effects),
	)
	say("executions: %d (%s)", len(h.Executions), counts(outcomes))
	say("%s", h.overHTTP())
	recoveries, disturbedKills := h.recoveries()
	failovers, disturbedLosses := h.failovers()
	say("recovery of tasks of killed nodes, from when another leads: p50 %s, p99 %s, "+
		"of %d undisturbed (%d disturbed by another fault or a lock "+
		"are not counted)",
		short(quantile(recoveries, 0.5)), short(p99(recoveries)), len(recoveries), disturbedKills)
	say("failover: p50 %s, p99 %s, of %d undisturbed losses of the leader (%d disturbed are not counted)",
		short(quantile(failovers, 0.5)), short(p99(failovers)), len(failovers), disturbedLosses)
	say("longest unexplained gap in claiming: %s; quiet %s after everything was mended", short(h.longestGap()),
		short(h.Quiet.Sub(h.Calmed)))
	quietFor, elsewhere := h.quietTime()
	say(
		"nodes that said they are quiet: %d, for %s in all; handler calls elsewhere meanwhile: %d", len(h.Quiets),
		short(quietFor), elsewhere,
	)
	say("excused overlaps: %s", counts(h.excused()))
	samples, wrong := make([]string, len(judged)), map[string]int{}
	for i, one := range judged {
		samples[i] = fmt.Sprintf("%s %d", one.name, one.samples)
		if len(one.wrong) > 0 {
			wrong[one.name] = len(one.wrong)
		}
	}
	say("samples that the checks judged: %s", strings.Join(samples, ", "))
	say("violations: %s", counts(wrong))
	return text.String()
}

// overHTTP counts the writers' calls over HTTP, and the requests that tasks sent.
func (h *history) overHTTP() string {
	calls, tries, lost, done, putOff := 0, 0, 0, 0, 0
	for _, e := range h.Entries {
		if e.OverHTTP {
			calls, tries, lost = calls+1, tries+e.Tries, lost+e.Lost
		}
		if e.OverHTTP && e.Answer == acknowledged {
			done++
		}
	}
	for _, r := range h.Runs {
		if r.snoozed() {
			putOff++
		}
	}
	return fmt.Sprintf("calls over HTTP: %d, done %d, sent %d times, of which %d got no answer; "+
		"requests of tasks: %d, put off for their host %d", calls, done, tries, lost, len(h.Received), putOff)
}

// revisions counts all that were drawn.
func (h *history) revisions() int {
	n := 0
	for _, a := range h.Audit {
		if a.edits() {
			n++
		}
	}
	return n
}

func short(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// counts lists counts by name.
func counts(of map[string]int) string {
	if len(of) == 0 {
		return "none"
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, of[name]))
	}
	return strings.Join(parts, ", ")
}
