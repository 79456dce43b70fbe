// Package scheduled is the engine. A [Node] runs the tasks of the table scheduled_tasks whose types it has handlers
// for.
//
// Every node works. One node also leads, and that node holds an advisory lock. The leader looks for due tasks at the
// time at which the next task is due, when NOTIFY says that a task is due at once, and in any case every
// PollInterval. In a pass it claims the due tasks and inserts River jobs for them, in one transaction
// (leader/claims.go, taskdb/claim.go). River gives each job to a worker (riverjobs/client.go, worker/worker.go). The
// worker waits until a task is due and a slot is free. Then it asks the gate whether the task is still wanted
// (worker/gate.go, taskdb/gate.go), and runs the handler (worker/attempt.go, worker/transactions.go). The settler
// records the outcome together with the outcomes of other tasks, in one commit (worker/settler.go, taskdb/settle.go).
//
// These paths are below scheduled/internal. The files health.go and quiet.go are beside this file.
//
// The leader takes back the claims of dead nodes (leader/reclaim.go), and those whose River job is gone
// (maintenance/abandoned.go). Each node ends the claims in its own hands when their leases are over
// (worker/lease.go). It releases the claims that River fetched for it but that it never received
// (worker/jobs.go). The session is the connection that says that a node lives (session/session.go).
//
// Probes are answered from memory (health.go). A quiet node starts nothing new (quiet.go).
//
// The page README.md beside this file is a map of the engine.
//
// Start a node with [New] and [Node.Run]; see the example. Tests of handlers do not need a node: see package
// scheduledtest.
package scheduled
