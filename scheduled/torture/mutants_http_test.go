//go:build unix && mutants

package torture

import "time"

var (
	// Calls over HTTP, of which many answers are lost.
	called = steered("called", func(s *settings) {
		s.Length, s.Callers, s.Work, s.Chores = 15*time.Second, 2, map[string]int{"one": 1}, map[string]int{doWork: 1}
		s.Pace = 30 * time.Millisecond
	})
	// Nothing but HTTP requests.
	hooked = steered("hooked", func(s *settings) {
		s.Work, s.Pace, s.Patience = map[string]int{"hook": 1}, 40*time.Millisecond, 60*time.Second
	})
)

// httpMutants break the HTTP API's keys, and the handler of HTTP requests.
var httpMutants = []mutant{
	{name: "an idempotency key is ignored", by: []string{"application row"}, steer: called, edits: []edit{
		{engine + "api/idempotency.go", "if asked.key == \"\" {", "if asked.key == \"\" || true {"},
	}},
	{name: "the change is not in the transaction of its answer",
		by: []string{"application row"}, steer: called, edits: []edit{
			{engine + "api/call.go", "		c.db, c.batches = tx, tx\n",
				"		c.db, c.batches = a.config.Pool, a.config.Pool\n"},
		}},
	{name: "a repeated answer is not the first one", by: []string{"idempotency key"}, steer: called, edits: []edit{
		{engine + "api/tasks.go", "	ETag   string `header:\"ETag\"`\n",
			"	ETag   string `header:\"ETag\" json:\"-\"`\n"},
	}},
	{name: "an answer of 404 is tried again", by: []string{"hook"}, steer: hooked, edits: []edit{
		{"handlers/webhook/outcome.go", "	return handlers.Permanent(err)\n}\n\n// retryAfter",
			"	return err\n}\n\n// retryAfter"},
	}},
	{name: "Retry-After is not obeyed", by: []string{"wait"}, steer: hooked, edits: []edit{
		{"handlers/webhook/outcome.go", "now); given {", "now); given && false {"},
	}},
	{name: "a circuit opens after one failure", by: []string{"circuit"}, steer: hooked, edits: []edit{
		{"handlers/webhook/circuit.go", "ended < c.settings.Calls || 2*failed", "2*failed"},
	}},
	{name: "each wait has a line", by: []string{"fold"}, steer: hooked, edits: []edit{
		{engine + "internal/taskdb/settle.go",
			"WHERE l.tid IS NOT NULL AND NOT coalesce(l.current AND l.waits AND l.row_waits > 0, false)",
			"WHERE l.tid IS NOT NULL"},
	}},
	{name: "a request has no revision in its key", by: []string{"request"}, steer: hooked, edits: []edit{
		{"handlers/webhook/request.go", "key := visible(t.IdempotencyKey())", "key := visible(t.ID)"},
	}},
}
