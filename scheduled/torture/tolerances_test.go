//go:build unix

package torture

import (
	"slices"
	"time"
)

// What the promises leave open, each with where it is said. Nothing else is allowed for: where a figure does not do,
// the engine is wrong or the evidence is.
const (
	// "The handler is called within 250 ms of its gate or the gate is asked again. Starts means the gate's instant."
	callWithin = 250 * time.Millisecond
	// What the journal cannot show: a process that did not get on for less than this is not recorded.
	unseenStall = stallLeast
	// "A frozen process may overlap until it next looks": nodes recheck their running fences each second, and
	// handlers that mind their context then need a moment to return.
	looksWithin = time.Second + 500*time.Millisecond
	// A process counts as frozen when it did not get on for as long as a handler has between the end of its context
	// and that of the lease: a tenth of it.
	frozenLeast = leaseTime / 10
	// "The leader finds a node lock free within about a second, and 5 s after the last sign of life takes it back."
	recoveryLimit = 7 * time.Second
	// Another node tries for the leader's lock each second; then it claims.
	failoverLimit = 3 * time.Second
	// How long a due task may be overlooked in favour of one of lower priority: not at all ("highest priority first").
	overlookedFor = time.Duration(0)
	// "Nodes recheck their running fences each second, NOTIFY only hastens it"; and a moment for the look itself.
	cancelledWithin = time.Second + 500*time.Millisecond
	// "An application's open transaction on one row must not stall the rest": an outcome is recorded with
	// the next commits.
	settledWithin = time.Second
	// All processes of a run begin at once, on few cores, and their first statements are slow.
	beginningFor = 3 * time.Second
	// "The peek each second bounds a lost NOTIFY"; and a moment for claim, River's fetch and gate. It is what one
	// start in twenty may exceed where there is room and nothing is disturbed.
	startedWithin = time.Second + 500*time.Millisecond
	// The leader leaves a fire alone for so long if somebody has locked the earlier occurrence that the fire cancels. The
	// settling of that occurrence locks it, too.
	asideFor = 5 * time.Second
	// Fewer starts of a pool say nothing of one in twenty.
	fewLatencies = 5
	// The leader looks each second for pauses that have ended. Another may have to lead first.
	resumedWithin = silentLimit
	// A claim that could begin and has not goes back: after two seconds in River, or after one on its node; the
	// leader and the nodes look each second, and River's fetch and the release take their time.
	inHandFor = 6 * time.Second
	// The leader sees the tasks of a transaction that was open for ten seconds at once. Those of a longer one wait for
	// the walk, which begins each second; and a moment for that.
	openFor, walkedWithin = 10 * time.Second, 2 * time.Second
	// How long it may take from the instant that a change names to when its triggers record it.
	writtenWithin = 500 * time.Millisecond
	// How long it may take from when the triggers record a change to its commit. Nobody else sees it until then.
	committedWithin = 500 * time.Millisecond
	// "A node that has had no answered ping for 3 s (counted from when that ping was sent) cancels its handlers": it looks
	// each fifth of a second; and a moment for that.
	fencedWithin = 3*time.Second + 500*time.Millisecond
	// Postgres ends the pass of a leader that stands still, and frees its rows, when its transaction has been idle for two
	// seconds.
	openPassFor = 2*time.Second + 500*time.Millisecond
	// How long a task may wait while a less urgent one is claimed that begins on a node that would run it.
	passedOverFor = 2 * time.Second
	// A session that is silent ends after 3 s ("idle_session_timeout 3 s"), before the next can lead.
	silentLimit = failoverLimit + 3*time.Second
)

// slack is what the machine itself takes: twenty times the median of the writers' transactions, which take some
// milliseconds each where nothing else runs. In a run of make test it is two seconds more. Its nodes begin
// while other packages are tested, and their first statements are slow.
func (h *history) slack() time.Duration {
	if h.Short {
		return h.usualSlack() + 2*time.Second
	}
	return h.usualSlack()
}

func (h *history) usualSlack() time.Duration {
	var took []time.Duration
	for _, e := range h.Entries {
		if e.Answer == acknowledged && !e.OverHTTP {
			took = append(took, e.Ended.Sub(e.Began))
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return 20 * took[len(took)/2]
}

// spans are when a process was frozen or starved, by what was done to it and by what it noticed itself.
func (h *history) spans(pid int) []span {
	var found []span
	for _, f := range h.Faults {
		if f.Kind == faultFreeze && f.PID == pid {
			found = append(found, span{pid, f.From, f.To})
		}
	}
	for _, s := range h.Stalls {
		if s.PID == pid {
			found = append(found, s)
		}
	}
	return found
}

// stood is how much of an interval a process did not get on.
func (h *history) stood(pid int, from, to time.Time) time.Duration {
	most := time.Duration(0)
	for _, s := range h.spans(pid) {
		begin, end := later(s.From, from), earlier(s.To, to)
		if s.To.IsZero() {
			end = to
		}
		most += max(end.Sub(begin), 0)
	}
	return most
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
