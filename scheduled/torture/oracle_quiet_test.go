//go:build unix

package torture

import "time"

// quietTales are about nodes that are quiet.
var quietTales = []told{
	{name: "it starts on a quiet node", wrong: []string{"quiet start"}, tell: func(t *tale) {
		t.schedule("a", nil)
		fence := t.claim("a")
		t.says(markQuiet)
		t.passes(10 * time.Millisecond)
		t.starts(fence)
		t.says(markOn)
		t.ends(fence, "ok")
		t.settle(fence, "COMPLETED")
	}},
	{
		name: "it starts on a node quiet to its end", wrong: []string{"quiet start", "start latency"},
		tell: func(t *tale) {
			t.schedule("a", nil)
			t.says(markQuiet)
			t.passes(time.Minute)
			t.runs("a")
		},
	},
	{name: "it is called long after the node was quiet, by a gate from before",
		wrong: []string{"quiet start", "call after the gate"},
		tell:  func(t *tale) { gatedBefore(t, callWithin+unseenStall+time.Millisecond) }},
	{
		name: "it is called at once, by a gate from before the node was quiet",
		tell: func(t *tale) { gatedBefore(t, callWithin) },
	},
	{name: "it is called by a gate from before, and the process was frozen meanwhile", tell: func(t *tale) {
		gatedBefore(t, time.Second)
		t.Stalls = []span{{taleProcess, t.Runs[0].Gate, t.Runs[0].At.Add(-callWithin)}}
	}},
	{name: "it starts when the node was told to go on", tell: func(t *tale) {
		t.schedule("a", nil)
		t.says(markQuiet)
		fence := t.claim("a")
		t.passes(startAllowance / 2)
		t.says(markOn)
		t.starts(fence)
		t.ends(fence, "ok")
		t.settle(fence, "COMPLETED")
	}},
	{name: "what ran when the node became quiet ends, and others start elsewhere", tell: func(t *tale) {
		t.schedule("a", nil)
		fence := t.claim("a")
		t.starts(fence)
		t.says(markQuiet)
		t.schedule("b", nil)
		other := t.claim("b")
		t.starts(other).PID++
		t.ends(other, "ok")
		t.settle(other, "COMPLETED")
		t.ends(fence, "ok")
		t.settle(fence, "COMPLETED")
		t.says(markOn)
	}},
	{
		name: "a node is told to go on that was not quiet, and is quiet twice", wrong: []string{"quiet start"},
		tell: func(t *tale) {
			t.says(markOn)
			t.says(markQuiet)
			t.passes(time.Second)
			t.says(markOn)
			t.says(markQuiet)
			t.schedule("a", nil)
			t.runs("a")
		},
	},
	{name: "a process that ended while it was quiet has a successor", tell: func(t *tale) {
		t.says(markQuiet)
		t.endQuiet(life{PID: taleProcess, Until: t.passes(time.Second).now})
		t.schedule("a", nil)
		t.runs("a")
	}},
	{name: "nothing is claimed for long, since a leader is quiet", wrong: []string{"gap"}, tell: func(t *tale) {
		t.Faults = []fault{{
			Kind: faultQuiet, Target: "node-1", PID: taleProcess, Leader: true, From: t.now, To: t.now.Add(time.Minute),
		}}
		waitLong(t)
	}},
	{name: "nothing is claimed for long, since what is not quiet is full", tell: func(t *tale) {
		t.SlotsEach = 9
		t.Quiets = []span{{PID: taleProcess + 1, From: t.now}}
		t.Faults = []fault{{Kind: faultQuiet, Target: "node-2", PID: taleProcess + 1, From: t.now}}
		t.schedule("a", nil)
		fence := t.claim("a")
		t.starts(fence)
		t.schedule("b", nil)
		t.passes(10 * time.Second)
		t.runs("b")
		t.ends(fence, "ok")
		t.settle(fence, "COMPLETED")
	}},
}

// says has the process say something of being quiet.
func (t *tale) says(kind string) {
	t.passes(time.Microsecond)
	t.addQuiet(t.Processes[0], mark{Kind: kind, At: t.now})
	t.passes(time.Microsecond)
}

// gatedBefore has a task pass its gate, the node then say that it is quiet, and the handler be called so much later.
func gatedBefore(t *tale, later time.Duration) {
	t.schedule("a", nil)
	fence := t.claim("a")
	gate := t.now
	t.says(markQuiet)
	quiet := t.now.Add(-time.Microsecond)
	t.passes(later - 2*time.Millisecond)
	r := t.starts(fence)
	r.Gate, r.At = gate, quiet.Add(later)
	t.ends(fence, "ok")
	t.settle(fence, "COMPLETED")
}
