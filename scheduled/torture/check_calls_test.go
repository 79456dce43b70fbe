//go:build unix

package torture

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// keysApplyOnce: however often a call with an Idempotency-Key was sent, it was done in one transaction at most, and all
// its answers are the same. The samples are the calls that were done and were sent more than once.
func keysApplyOnce(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	for _, e := range h.Entries {
		rows := x.opsOf[e.Op]
		if !e.OverHTTP || len(rows) == 0 || e.Tries < 2 {
			continue
		}
		samples++
		for _, o := range rows[1:] {
			if o.TxID != rows[0].TxID {
				wrong(e.about(), "call %d, sent %d times, was done by the transactions %d and %d", e.Op, e.Tries,
					rows[0].TxID, o.TxID)
				break
			}
		}
		for _, later := range e.Told {
			if !reflect.DeepEqual(later, e.Told[0]) {
				wrong(e.about(), "call %d was answered with %+v, and then with %+v", e.Op, e.Told[0], later)
				break
			}
		}
	}
	return samples
}

// Refusals that the documentation has for the calls of the writers. They depend on a task that others change.
var mayRefuse = []string{"404 ", "409 ", "412 "}

// answersAreTrue: what an answer says was done was done before the answer, with the ids and the revisions that it says.
// A call is refused for a reason, and never with 500: what the test does to the database ends by itself.
func answersAreTrue(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	for _, e := range h.Entries {
		say := wrong.about(e.about(), "call %d: ", e.Op)
		for _, refusal := range e.Refusals {
			if !slices.ContainsFunc(mayRefuse, func(status string) bool { return strings.HasPrefix(refusal, status) }) &&
				!e.cameTooLate(refusal) {
				say("it was refused with %s", refusal)
			}
		}
		if len(e.Faults) > 0 {
			say("it was answered with 500 %s", e.Faults[0])
		}
		if !e.OverHTTP || e.Answer != acknowledged {
			continue
		}
		samples++
		if len(e.Told[0].Receipts) != len(e.Deeds) {
			say("%d tasks were asked for, and the answer is about %d", len(e.Deeds), len(e.Told[0].Receipts))
		}
		for _, got := range e.Told[0].Receipts {
			if what := x.untrue(e, got); what != "" {
				say("the answer says that %s was %s with revision %d, %s", got.ID, got.Outcome, got.Revision, what)
			}
		}
		one := e.Told[0]
		if len(one.Receipts) == 1 && one.ETag != "" && one.ETag != fmt.Sprintf("%q", fmt.Sprint(one.Receipts[0].Revision)) {
			say("its ETag is %s, and its revision %d", one.ETag, one.Receipts[0].Revision)
		}
	}
	return samples
}

// cameTooLate says whether a call was refused because the end of its pause had passed when it arrived.
func (e *entry) cameTooLate(refusal string) bool {
	return strings.HasPrefix(refusal, "422 ") && strings.Contains(refusal, "until must be a time to come") &&
		len(e.Deeds) == 1 && !e.Deeds[0].Until.IsZero() && !e.Deeds[0].Until.After(e.Ended)
}

// untrue says what is wrong with a receipt of an answer, or "".
func (x *index) untrue(e *entry, got receipt) string {
	rows := x.opsOf[e.Op]
	i := slices.IndexFunc(rows, func(o *opRow) bool {
		return o.TaskID == got.ID && o.Outcome == got.Outcome && o.Revision == got.Revision
	})
	if i < 0 {
		return "and no such answer was stored"
	}
	if !wrote[got.Outcome] {
		return ""
	}
	for _, a := range x.byID[got.ID] {
		if a.TxID != rows[i].TxID {
			continue
		}
		switch {
		case a.At.After(e.Ended):
			return "before it was"
		case got.Outcome == "created" && a.Op == "INSERT" && *a.Revision == got.Revision, got.Outcome != "created":
			return ""
		}
	}
	return "and no row shows it"
}

// learn fills in what came of the calls whose answer was lost.
func (h *history) learn() {
	for _, e := range h.Entries {
		if !e.OverHTTP || e.Answer != unknown {
			continue
		}
		for _, o := range h.in().opsOf[e.Op] {
			for j := range e.Deeds {
				if d := &e.Deeds[j]; d.Outcome == "" && (d.ID == o.TaskID || d.ID == "") {
					d.ID, d.Outcome, d.Revision = o.TaskID, o.Outcome, o.Revision
					break
				}
			}
		}
	}
}
