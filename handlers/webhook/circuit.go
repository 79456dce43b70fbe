package webhook

import (
	"time"
)

const (
	window  = time.Minute
	buckets = 6 // the window slides by a sixth of its length

	// turnGrace is how long after its time a task that was put off is still expected. It may wait for a slot, and it
	// may have gone to another node.
	turnGrace = time.Minute
	// maxTurns is how many tasks a circuit remembers. Further ones count as tasks that have not been tried.
	maxTurns = 1000
)

// circuit decides whether a call may go through. It is closed at first. It opens when more than half of at least
// Circuit.Calls calls within the window have failed. When its open time is over, it lets one call through, the probe.
// A probe that fails opens it for twice the time, and one that succeeds closes it. It is not safe for concurrent use.
type circuit struct {
	settings Circuit
	counts   [buckets]struct{ ended, failed int }
	bucket   int64 // the number of the newest bucket since 1970

	openFor time.Duration // 0: it is closed
	until   time.Time     // with openFor: when a probe may go through
	probing bool
	asked   bool   // a task is to come back at until
	fault   string // what the last failure was
	used    time.Time

	// The tasks that were put off probe in turn. A task that has probed in a round lets those go first that have not.
	round int
	last  uint64 // the last task that probed
	turns map[uint64]turn
}

// turn is what a circuit knows of a task that it has put off.
type turn struct {
	round int       // the last round in which it probed
	back  time.Time // when it is expected
}

// verdict is what a call says about the host.
type verdict int

const (
	nothing verdict = iota
	works
	fails
)

// change is what a verdict did to a circuit.
type change int

const (
	none change = iota
	opened
	closed
)

// admit reports whether a call of a task may go through, and whether it is a probe. random is from 0 to 1. If the call
// may not go through, the task is to come back after wait.
func (c *circuit) admit(task uint64, now time.Time, random float64) (ok, probe bool, wait time.Duration) {
	c.used = now
	switch {
	case c.openFor == 0:
		return true, false, 0
	case !c.probing && !now.Before(c.until) && c.inTurn(task, now):
		c.probing, c.last = true, task
		c.turns[task] = turn{round: c.round, back: now}
		return true, true, 0
	}
	// The tasks come back one after the other, and not in one moment. The first of them comes when a probe may go
	// through, so that a host that works again is found soon.
	wait = max(c.until.Sub(now), time.Second)
	if c.asked {
		wait += time.Duration(random * float64(c.openFor))
	}
	c.asked = true
	known, found := c.turns[task]
	if !found && len(c.turns) >= maxTurns {
		c.forgetTurns(now)
	}
	if found || len(c.turns) < maxTurns {
		c.turns[task] = turn{round: known.round, back: now.Add(wait)}
	}
	return false, false, wait
}

// inTurn reports whether a task may probe.
func (c *circuit) inTurn(task uint64, now time.Time) bool {
	if c.turns[task].round < c.round {
		return true
	}
	others := false
	for one, of := range c.turns {
		if one == task || now.After(of.back.Add(turnGrace)) {
			continue
		}
		if of.round < c.round {
			return false
		}
		others = true
	}
	if others && c.last == task {
		return false
	}
	c.round++
	return true
}

func (c *circuit) forgetTurns(now time.Time) {
	for one, of := range c.turns {
		if now.After(of.back.Add(turnGrace)) {
			delete(c.turns, one)
		}
	}
}

// end counts a call that went through. fault says what went wrong.
func (c *circuit) end(probe bool, said verdict, fault string, now time.Time) change {
	if said == fails {
		c.fault = fault
	}
	switch {
	case probe:
		c.probing = false
		switch said {
		case works:
			c.openFor, c.turns = 0, nil
			c.counts = [buckets]struct{ ended, failed int }{}
			return closed
		case fails:
			c.open(now, min(2*c.openFor, c.settings.MaxOpen))
		}
		return none
	case c.openFor > 0 || said == nothing: // a call that began before the circuit opened changes nothing
		return none
	}
	c.slide(now)
	count := &c.counts[c.bucket%buckets]
	count.ended++
	if said == fails {
		count.failed++
	}
	ended, failed := 0, 0
	for _, one := range c.counts {
		ended, failed = ended+one.ended, failed+one.failed
	}
	if said != fails || ended < c.settings.Calls || 2*failed <= ended {
		return none
	}
	c.round, c.turns = 1, map[uint64]turn{}
	c.open(now, c.settings.Open)
	return opened
}

func (c *circuit) open(now time.Time, openFor time.Duration) {
	c.openFor, c.until, c.asked = openFor, now.Add(openFor), false
}

// slide forgets the calls that are older than the window.
func (c *circuit) slide(now time.Time) {
	newest := now.UnixNano() / int64(window/buckets)
	for i := max(c.bucket+1, newest-buckets+1); i <= newest; i++ {
		c.counts[i%buckets] = struct{ ended, failed int }{}
	}
	c.bucket = newest
}

// idle reports whether nobody needs the circuit any more. A closed one has no call in its window. Of an open one no
// task came back in time.
func (c *circuit) idle(now time.Time) bool {
	if c.openFor == 0 {
		return now.Sub(c.used) > 2*window
	}
	return !c.probing && now.Sub(c.until) > c.openFor+turnGrace && now.Sub(c.used) > c.openFor+turnGrace
}
