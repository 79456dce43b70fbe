package week

import (
	"math"
	"time"
)

// node is a node of the week. The live ones of the demo come after it.
type node struct {
	number     int64 // from the table's own sequence
	version    string
	host       string
	hash       string // of what its code declares
	start, end time.Time
	leads      bool // was elected
	killed     bool // did not say farewell
}

// deadAfter is how long a node was silent when the leader declared it dead.
const deadAfter = 5 * time.Second

// calendar is what happened to all in the week.
type calendar struct {
	held, freed time.Time // everything is paused
	rollout     time.Time // of 2.4.0, one node after another
	down, up    time.Time // nobody works
	death       time.Time // of a node
	burst       time.Time // a newsletter goes to all
	mailThrows  time.Time // the mail server refuses much for an hour
}

func calendarOf(now time.Time) calendar {
	day := func(ago, hour int) time.Time {
		return now.UTC().Truncate(24 * time.Hour).Add(time.Duration(hour-24*ago) * time.Hour)
	}
	down := day(3, 11).Add(20*time.Minute + 30*time.Second)
	held := day(5, 8).Add(51 * time.Minute) // no occurrence that is kept has its fire in these minutes
	return calendar{
		held: held, freed: held.Add(3 * time.Minute),
		rollout: day(5, 9), down: down, up: down.Add(40 * time.Minute), death: day(1, 15).Add(7 * time.Minute),
		burst: day(2, 18), mailThrows: day(4, 16),
	}
}

func (w *week) makeNodes() {
	c := w.calendar
	long := w.from.Add(-48 * time.Hour)
	second := c.rollout.Add(2 * time.Minute)
	w.nodes = []*node{
		{version: "2.3.1", host: "worker-a/11", hash: "3c9d1f60ab52e784", start: long, end: c.rollout, leads: true},
		{version: "2.3.1", host: "worker-b/11", hash: "3c9d1f60ab52e784", start: long.Add(time.Minute), end: second},
		{version: "2.4.0", host: "worker-a/12", hash: "90b7e2d4415fc836", start: c.rollout.Add(10 * time.Second),
			end: c.down},
		{version: "2.4.0", host: "worker-b/12", hash: "90b7e2d4415fc836", start: second.Add(10 * time.Second),
			end: c.down.Add(time.Second), leads: true},
		{version: "2.4.1", host: "worker-a/13", hash: "90b7e2d4415fc836", start: c.up, end: w.until, leads: true},
		{version: "2.4.1", host: "worker-b/13", hash: "90b7e2d4415fc836", start: c.up.Add(2 * time.Second),
			end: c.death, killed: true},
		{version: "2.4.1", host: "worker-b/14", hash: "90b7e2d4415fc836", start: c.death.Add(40 * time.Second),
			end: w.until},
	}
}

// nodeAt picks one of the nodes that work at a time.
func (w *week) nodeAt(at time.Time) *node {
	var live []*node
	for _, n := range w.nodes {
		if !at.Before(n.start) && at.Before(n.end) {
			live = append(live, n)
		}
	}
	if len(live) == 0 {
		return nil
	}
	return live[w.random.IntN(len(live))]
}

// killed is the node that died.
func (w *week) killed() *node {
	for _, n := range w.nodes {
		if n.killed {
			return n
		}
	}
	return nil
}

// start is when an attempt starts that is due at a time. What became due in the downtime starts in the order of the
// due times when it is over.
func (w *week) start(due time.Time) time.Time {
	c := w.calendar
	if !due.Before(c.held) && due.Before(c.freed) {
		due = c.freed
	}
	// A task that is due just before the downtime no longer starts.
	if !due.Before(c.down.Add(-5*time.Second)) && due.Before(c.up) {
		late := float64(due.Sub(c.down)) / float64(c.up.Sub(c.down))
		due = c.up.Add(3*time.Second + time.Duration(max(late, 0)*float64(100*time.Second)))
	}
	delay := 4 + 12*w.random.ExpFloat64()
	if w.random.IntN(100) == 0 {
		delay += 300 * w.random.ExpFloat64()
	}
	return due.Add(time.Duration(delay * float64(time.Millisecond)))
}

// took is a usual run time.
func (w *week) took(kind string) time.Duration {
	median, spread := 6.0, 0.4 // milliseconds: a transaction
	switch kind {
	case "SEND_EMAIL":
		median, spread = 140, 0.5
	case "HTTP_REQUEST", PartnerSync:
		median, spread = 210, 0.8
	case "SEND_EVENT_REMINDER":
		median, spread = 18, 0.5
	case "GEO_SUMMARY_REFRESH", "STATUS_UPDATE":
		median, spread = 45, 0.4
	case exportStatistics:
		median, spread = 48000, 0.2
	}
	return time.Duration(median * math.Exp(spread*w.random.NormFloat64()) * float64(time.Millisecond))
}

// backoff is the wait after a failed attempt.
func (w *week) backoff(attempt int) time.Duration {
	wait := 10 * math.Pow(3, float64(attempt-1))
	return time.Duration(wait * (1 + 0.25*w.random.Float64()) * float64(time.Second))
}
