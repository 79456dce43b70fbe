//go:build unix

package torture

// rares has three tasks of a type claimed on a node that has two slots for it, and starts two of them.
func rares(t *script) (fences [3]int64) {
	t.TypeSlots = map[string]map[string]int{"node-1": {"RARE": 2}}
	for i, id := range []string{"a", "b", "c"} {
		t.schedule(id, func(a *auditRow) { a.Type = "RARE" })
		fences[i] = t.claim(id)
	}
	t.starts(fences[0])
	t.starts(fences[1])
	return fences
}

// retriedInGroup has tasks of a group run one after the other. The first attempt fails.
func retriedInGroup(t *script, ids ...string) {
	t.GroupLimits = map[string]int{"RARE": 1}
	for _, id := range []string{"a", "b"} {
		t.schedule(id, func(a *auditRow) { a.Type = "RARE" })
	}
	for i, id := range ids {
		fence := t.claim(id)
		if t.starts(fence).Group = "g"; i > 0 {
			t.finishes(fence)
			continue
		}
		t.endsAs(fence, "error", "RETRIED")
	}
}

// slotCases are about how many tasks of a type a node runs at once.
var slotCases = []oracleCase{
	{name: "a type takes a slot that it does not have", wrong: []string{"type slots"}, steps: func(t *script) {
		fences := rares(t)
		t.starts(fences[2])
		t.finishes(fences[:]...)
	}},
	{name: "a type takes the slot of a run that has ended", steps: func(t *script) {
		fences := rares(t)
		t.ends(fences[0], "ok")
		t.starts(fences[2])
		t.settle(fences[0], "COMPLETED")
		t.finishes(fences[1:]...)
	}},
	{name: "a type takes the slot of a handler that ignores its end", steps: func(t *script) {
		fences := rares(t)
		ended := t.now
		t.starts(fences[2])
		t.finishes(fences[:]...)
		t.Runs[0].Deaf, t.Runs[0].End.Ended = true, ended
	}},
	{name: "another type has no limit", steps: func(t *script) {
		fences := rares(t)
		t.schedule("d", nil)
		t.runs("d")
		t.finishes(fences[:2]...)
		t.starts(fences[2])
		t.finishes(fences[2])
	}},
	{name: "more of a type run on all nodes than its limit says", wrong: []string{"limit"}, steps: func(t *script) {
		t.Limits = map[string]int{"RARE": 1}
		fences := rares(t)
		t.finishes(fences[:2]...)
		t.starts(fences[2])
		t.finishes(fences[2])
	}},
	{name: "the limit of a type is reached again and again", steps: func(t *script) {
		t.Limits = map[string]int{"RARE": 2}
		fences := rares(t)
		t.finishes(fences[0])
		t.starts(fences[2])
		t.finishes(fences[1:]...)
	}},
	{name: "the limit of a type counts no run whose process stands still", steps: func(t *script) {
		t.Limits = map[string]int{"RARE": 1}
		fences := rares(t)
		t.finishes(fences[:2]...)
		t.starts(fences[2])
		t.finishes(fences[2])
		t.Stalls = []span{{t.Runs[0].PID, t.Runs[0].At, t.now}}
	}},
	{name: "two tasks of a group run at once", wrong: []string{"group limit"}, steps: func(t *script) {
		t.GroupLimits = map[string]int{"RARE": 1}
		fences := rares(t)
		t.Runs[0].Group, t.Runs[1].Group = "g", "g"
		t.finishes(fences[:2]...)
		t.starts(fences[2])
		t.finishes(fences[2])
	}},
	{name: "tasks of two groups run at once, and one without a group", steps: func(t *script) {
		t.GroupLimits = map[string]int{"RARE": 1}
		fences := rares(t)
		t.Runs[0].Group = "g"
		t.finishes(fences[0])
		t.starts(fences[2])
		t.Runs[2].Group = "g"
		t.finishes(fences[1:]...)
	}},
	{name: "another task of a group begins before a retry", wrong: []string{"group order"}, steps: func(t *script) {
		retriedInGroup(t, "a", "b", "a")
	}},
	{name: "another task of a group begins after a retry", steps: func(t *script) { retriedInGroup(t, "a", "a", "b") }},
	{name: "a type waits for its slots", steps: func(t *script) {
		fences := rares(t)
		t.finishes(fences[0])
		t.starts(fences[2])
		t.schedule("d", func(a *auditRow) { a.Type = "RARE" })
		t.passes(2 * startedWithin)
		t.finishes(fences[1:]...)
		t.runs("d")
	}},
}
