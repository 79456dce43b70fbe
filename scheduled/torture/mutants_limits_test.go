//go:build unix && mutants

package torture

// limitMutants break limits over all nodes.
var limitMutants = []mutant{
	{
		name: "what runs does not count for a limit", by: []string{"limit"}, steer: wide,
		edits: []edit{
			{engine + "internal/plan/limits.go", "one.jobs = *limit.MaxRunning - limit.Running",
				"one.jobs = *limit.MaxRunning"},
		},
	},
	{
		name: "what was just granted does not count for a limit", by: []string{"limit"}, steer: wide,
		edits: []edit{{engine + "internal/plan/limits.go", "one.jobs -= jobs", ""}},
	},
	{
		name: "the leader does not read limits", by: []string{"limit"}, steer: wide,
		edits: []edit{{engine + "internal/leader/leader.go", "Limits: listed.Limits, ", ""}},
	},
	{
		name: "a job that no node has fetched does not count for a limit", by: []string{"limit"}, steer: wide,
		edits: []edit{
			{engine + "internal/plan/limits.go", "job.State == Available || job.State == Running",
				"job.State == Running"},
		},
	},
	{
		name: "a limit counts the jobs of one type alone", by: []string{"limit"}, steer: wide,
		edits: []edit{
			{engine + "internal/taskdb/limits.go", `l.Scope == "type" && l.ScopeName == kind`,
				`l.Scope == "type" && l.ScopeName != kind`},
		},
	},
}
