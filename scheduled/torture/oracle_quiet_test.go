//go:build unix

package torture

import "time"

// quietCases are about nodes that are quiet.
var quietCases = []oracleCase{
	{name: "it starts on a quiet node", wrong: []string{"quiet start"}, steps: func(t *script) {
		fence := t.takes("a")
		t.says(markQuiet)
		t.passes(10 * time.Millisecond)
		t.starts(fence)
		t.says(markOn)
		t.finishes(fence)
	}},
	{
		name: "it starts on a node quiet to its end", wrong: []string{"quiet start", "start latency"},
		steps: func(t *script) {
			t.schedule("a", nil)
			t.says(markQuiet)
			t.passes(time.Minute)
			t.runs("a")
		},
	},
	{name: "it is called long after the node was quiet, by a gate from before",
		wrong: []string{"quiet start", "call after the gate"},
		steps: func(t *script) { gatedBefore(t, callWithin+unseenStall+time.Millisecond) }},
	{
		name:  "it is called at once, by a gate from before the node was quiet",
		steps: func(t *script) { gatedBefore(t, callWithin) },
	},
	{name: "it is called by a gate from before, and the process was frozen meanwhile", steps: func(t *script) {
		gatedBefore(t, time.Second)
		t.Stalls = []span{{scriptProcess, t.Runs[0].Gate, t.Runs[0].At.Add(-callWithin)}}
	}},
	{name: "it starts when the node was told to go on", steps: func(t *script) {
		t.schedule("a", nil)
		t.says(markQuiet)
		fence := t.claim("a")
		t.passes(startAllowance / 2)
		t.says(markOn)
		t.carriesOut(fence)
	}},
	{name: "what ran when the node became quiet ends, and others start elsewhere", steps: func(t *script) {
		fence := t.begins("a")
		t.says(markQuiet)
		other := t.takes("b")
		t.starts(other).PID++
		t.finishes(other)
		t.finishes(fence)
		t.says(markOn)
	}},
	{
		name: "a node is told to go on that was not quiet, and is quiet twice", wrong: []string{"quiet start"},
		steps: func(t *script) {
			t.says(markOn)
			t.says(markQuiet)
			t.passes(time.Second)
			t.says(markOn)
			t.says(markQuiet)
			t.ran("a")
		},
	},
	{name: "a process that ended while it was quiet has a successor", steps: func(t *script) {
		t.says(markQuiet)
		t.endQuiet(life{PID: scriptProcess, Until: t.passes(time.Second).now})
		t.ran("a")
	}},
	{name: "nothing is claimed for long, since a leader is quiet", wrong: []string{"gap"}, steps: func(t *script) {
		t.Faults = []fault{{
			Kind: faultQuiet, Target: "node-1", PID: scriptProcess, Leader: true, From: t.now, To: t.now.Add(time.Minute),
		}}
		waitLong(t)
	}},
	{name: "nothing is claimed for long, since what is not quiet is full", steps: func(t *script) {
		t.SlotsEach = 9
		t.Quiets = []span{{PID: scriptProcess + 1, From: t.now}}
		t.Faults = []fault{{Kind: faultQuiet, Target: "node-2", PID: scriptProcess + 1, From: t.now}}
		fence := t.begins("a")
		t.schedule("b", nil)
		t.passes(10 * time.Second)
		t.runs("b")
		t.finishes(fence)
	}},
}

// says has the process say something of being quiet.
func (t *script) says(kind string) {
	t.passes(time.Microsecond)
	t.addQuiet(t.Processes[0], mark{Kind: kind, At: t.now})
	t.passes(time.Microsecond)
}

// gatedBefore has a task pass its gate, the node then say that it is quiet, and the handler be called so much later.
func gatedBefore(t *script, later time.Duration) {
	fence := t.takes("a")
	gate := t.now
	t.says(markQuiet)
	quiet := t.now.Add(-time.Microsecond)
	t.passes(later - 2*time.Millisecond)
	r := t.starts(fence)
	r.Gate, r.At = gate, quiet.Add(later)
	t.finishes(fence)
}
