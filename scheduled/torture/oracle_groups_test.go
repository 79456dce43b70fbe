//go:build unix

package torture

import (
	"fmt"
	"time"

	"github.com/tasktable/tasktable/store"
)

// rated has tasks of groups begin one after the other, so long after each other.
func rated(t *script, apart time.Duration, groups string) {
	t.GroupRates = map[string]int{"RARE": 10}
	for i, group := range groups {
		id := fmt.Sprint(i)
		t.schedule(id, func(a *auditRow) { a.Type = "RARE" })
		fence := t.claim(id)
		t.starts(fence).Group = string(group)
		t.finishes(fence)
		t.passes(apart)
	}
}

// weighed has many tasks of two groups begin, in these turns.
func weighed(t *script, turns string) {
	t.GroupWeights = map[string]store.Weights{"RARE": {"a": 3}}
	const each = 60
	for i := range each {
		for _, group := range "ab" {
			t.schedule(fmt.Sprint(string(group), i), func(a *auditRow) { a.Type = "RARE" })
		}
	}
	t.passes(2 * weighedAfter)
	begun := map[string]int{}
	for i := range 2 * each {
		group := string(turns[i%len(turns)])
		if begun[group] == each {
			group = map[string]string{"a": "b", "b": "a"}[group]
		}
		id := fmt.Sprint(group, begun[group])
		begun[group]++
		fence := t.claim(id)
		t.starts(fence).Group = group
		t.finishes(fence)
	}
}

// groupCases are about the rates and weights of groups.
var groupCases = []oracleCase{
	{name: "tasks of a group begin at its rate", steps: func(t *script) { rated(t, 100*time.Millisecond, "aaaa") }},
	{name: "tasks of a group begin faster than its rate", wrong: []string{"group rate"}, steps: func(t *script) {
		rated(t, 30*time.Millisecond, "aaaa")
	}},
	{name: "tasks of several groups begin at once", steps: func(t *script) { rated(t, time.Millisecond, "ababcc") }},
	{name: "a group of weight 3 has three turns", steps: func(t *script) { weighed(t, "aaab") }},
	{name: "a group of weight 3 has one turn", wrong: []string{"weights"}, steps: func(t *script) { weighed(t, "ab") }},
}
