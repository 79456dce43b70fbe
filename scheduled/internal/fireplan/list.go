package fireplan

import (
	"math"
	"slices"
	"time"
)

// missed is a due fire, with the policy that applies to it.
type missed struct {
	at     time.Time
	policy string // a CatchUp
	paused bool
	later  int  // how many fires come after it with the same value of paused
	alone  bool // no other fire is due
}

// Rule says when a task fires. It is a *recurrence.Rule, which describes the methods.
type Rule interface {
	Next(after time.Time) time.Time
	Between(from, to time.Time, most int) (fires []time.Time, more bool)
	Last(from, to time.Time) time.Time
}

// List lists the due fires of a task. The fires of a planned task begin with its NextFire, whatever its expression
// says, unless the zone data have changed since. An edit or a resume does not make a task fire. The exceptions are
// fires that the task missed while it was paused, if its setting catch_up_paused says so.
//
// A task may have missed millions of fires. Of the fires that were missed while paused, and of the others, List lists
// only the first and the latest, as many as may run or get a row. Thus it takes a bounded number of steps.
func (r Task) List(rule Rule, pauses []Interval) Due {
	from, until := r.from(), r.Now
	if r.GoesOn() {
		until = *r.LastFire
	}
	if r.EndsAt != nil && r.EndsAt.Before(until) {
		until = *r.EndsAt
	}
	isPlanned := r.Planned && r.MovedFrom == nil
	if isPlanned && r.NextFire.After(until) {
		return Due{Task: r, next: r.NextFire}
	}
	d := Due{Task: r, next: rule.Next(later(from, until))}
	policies := map[bool]string{false: r.CatchUp, true: r.CatchUpPaused}
	found, omitted := map[bool]int{}, map[bool]time.Time{} // by whether they are paused
	most := func(paused bool) int {                        // how many more fires to list
		if policies[paused] == "all" {
			return MaxSkipped + r.CatchUpLimit - found[paused]
		}
		return MaxSkipped + 1 - found[paused]
	}
	list := func(paused bool, first, latest []time.Time) {
		for _, at := range slices.Backward(latest) {
			d.fires = append(d.fires, missed{at: at, policy: policies[paused], paused: paused, later: found[paused]})
			found[paused]++
		}
		if len(first) > 0 && (len(latest) == 0 || first[0].Before(latest[0])) {
			omitted[paused] = first[0]
		}
	}
	for _, span := range slices.Backward(r.spans(from, until, pauses)) {
		first, _ := rule.Between(span.from, span.to, 1)
		list(span.paused, first, span.latest(rule, most(span.paused)))
	}
	if isPlanned {
		planned, paused := []time.Time{r.NextFire}, r.isPaused(r.NextFire, pauses)
		list(paused, planned, planned[:min(most(paused), 1)])
	}
	for paused, at := range omitted {
		d.fires = append(d.fires, missed{at: at, policy: policies[paused], paused: paused, later: math.MaxInt})
	}
	slices.SortFunc(d.fires, func(a, b missed) int { return a.at.Compare(b.at) })
	if len(d.fires) > 0 {
		d.fires[0].alone = len(d.fires) == 1 && !r.GoesOn()
	}
	return d
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// from returns the time after which the due fires begin. A fire at this time itself is not due.
func (r Task) from() time.Time {
	switch {
	case r.MovedFrom != nil:
		return *r.MovedFrom
	case r.Planned:
		return r.NextFire
	}
	// LastFire may be later than NextFire if a clock was set back, or in a test.
	bounds := []*time.Time{r.LastFire, &r.NextFire}
	if r.Resumed {
		bounds = []*time.Time{r.LastFire, r.EditedAt}
	}
	from := r.begins()
	for _, at := range bounds {
		if at != nil {
			from = later(from, *at)
		}
	}
	return from
}

// begins is just before ScheduledAt, which may be the first fire.
func (r Task) begins() time.Time { return r.ScheduledAt.Add(-time.Nanosecond) }

// isPaused reports whether a fire falls into a pause. A task that was paused and resumed by itself counts as paused
// for as long as it did not fire.
func (r Task) isPaused(at time.Time, pauses []Interval) bool {
	return r.Resumed && at.Before(r.NextFire) ||
		slices.ContainsFunc(pauses, func(one Interval) bool { return one.holds(at) })
}

// span is a time in which either all fires are paused or none is. A fire at from is not in it, and a fire at to is.
type span struct {
	from, to time.Time
	paused   bool
}

// spans divides a time by the pauses, in order.
func (r Task) spans(from, until time.Time, pauses []Interval) (spans []span) {
	edges := []time.Time{until}
	edge := func(at time.Time) {
		// A pause has the instant at which it begins, and not the one at which it ends.
		if at = at.Add(-time.Nanosecond); at.After(from) && at.Before(until) {
			edges = append(edges, at)
		}
	}
	if r.Resumed {
		edge(r.NextFire)
	}
	for _, pause := range pauses {
		edge(pause.From)
		edge(pause.Until)
	}
	slices.SortFunc(edges, time.Time.Compare)
	for _, to := range edges {
		if to.After(from) {
			spans = append(spans, span{from, to, r.isPaused(to, pauses)})
			from = to
		}
	}
	return spans
}

// latest lists the latest fires of a span, in order, at most `most` of them.
func (s span) latest(rule Rule, most int) (fires []time.Time) {
	if all, more := rule.Between(s.from, s.to, most); !more {
		return all
	}
	// It goes back from the last fire, in pieces that become longer until they have too many fires.
	for length := time.Second; len(fires) < most; {
		to := rule.Last(s.from, s.to)
		if to.IsZero() {
			break
		}
		from := later(s.from, to.Add(-length))
		piece, more := rule.Between(from, to, 2*most)
		if more && length > time.Second {
			length /= 4
			continue
		}
		fires, length, s.to = append(piece, fires...), 2*length, from
	}
	return fires[max(len(fires)-most, 0):]
}
