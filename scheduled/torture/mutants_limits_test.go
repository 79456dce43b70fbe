//go:build unix && mutants

package torture

import "time"

// failingFirst has much of all types, of which most fails at first.
var failingFirst = steered("failingFirst", func(s *settings) {
	s.Work, s.Chores = map[string]int{"one": 1}, map[string]int{doWork: 1, doFail: 2}
})

// grouped has backlogs of the types whose groups have rates and weights.
var grouped = steered("grouped", func(s *settings) {
	s.Work, s.Writers, s.Bulk, s.Pace, s.Millis = map[string]int{"groups": 1}, 1, 300, 4*time.Second, 100
})

// limitMutants break limits over all nodes.
var limitMutants = []mutant{
	{name: "what runs does not count for a limit", by: []string{"limit"}, steer: wide, edits: []edit{
		{engine + "internal/plan/limits.go", "one.jobs = *one.MaxRunning - m.running[of]",
			"one.jobs = *one.MaxRunning"},
	}},
	{name: "what was just granted does not count for a limit", by: []string{"limit"}, steer: wide, edits: []edit{
		{engine + "internal/plan/limits.go", "one.jobs -= jobs", ""},
	}},
	{name: "the leader does not read limits", by: []string{"limit"}, steer: wide, edits: []edit{
		{engine + "internal/leader/leader.go", "Limits: listed.Limits, ", ""},
	}},
	{name: "a job that no node has fetched does not count for a limit",
		by: []string{"limit"}, steer: wide, edits: []edit{
			{engine + "internal/plan/limits.go", "job.State != Available && job.State != Running",
				"job.State != Running"},
		}},
	{name: "a limit counts the jobs of one type alone",
		by: []string{"limit", "group limit"}, steer: wide, edits: []edit{
			{engine + "internal/taskdb/limits.go", `l.Scope == "type" && l.ScopeName == kind`,
				`l.Scope == "type" && l.ScopeName != kind`},
		}},
	{name: "jobs do not say of which group they are", by: []string{"group limit"}, steer: wide, edits: []edit{
		{engine + "internal/riverjobs/view.go", "Key: metadata.Key, ", ""},
	}},
	{name: "a claim takes tasks of any group", by: []string{"group limit"}, steer: wide, edits: []edit{
		{engine + "internal/taskdb/claim.go", "AND (lane.limit_key, clock.now + lane.ahead)",
			"AND ('~', clock.now + lane.ahead)"},
	}},
	{name: "the bucket of a group is not taken from", by: []string{"group rate"}, steer: grouped, edits: []edit{
		{engine + "internal/plan/limits.go", "tokens[taskdb.BucketOf{Name: limit.Name, Key: key}] +=",
			"tokens[taskdb.BucketOf{Name: limit.Name, Key: key[:0]}] +="},
	}},
	{name: "groups have no weights", by: []string{"weights"}, steer: grouped, edits: []edit{
		{engine + "internal/taskdb/limits.go", `return max(l.Weights[strings.TrimPrefix(key, l.Prefix())], 1)`,
			`return max(l.Weights[""], 1)`},
	}},
	{name: "a claim does not ask which task of a group goes first",
		by: []string{"group order"}, steer: failingFirst, edits: []edit{
			{engine + "internal/taskdb/inorder.go", ") AS first ON true`", ") AS first ON false`"},
		}},
	{name: "a job has two tasks of a group", by: []string{"group order"}, steer: failingFirst, edits: []edit{
		{engine + "internal/plan/plan.go", "return 1\n	}\n	return p.input.Rates.fits(one.Type)",
			"return 2\n	}\n	return p.input.Rates.fits(one.Type)"},
	}},
}
