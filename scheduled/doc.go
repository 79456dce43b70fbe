// Package scheduled is the engine. A [Node] runs the tasks of the table scheduled_tasks whose types it has handlers
// for.
//
// Every node works. One node also leads, and that node holds an advisory lock. The leader looks for due tasks at the
// time at which the next task is due, when NOTIFY says that a task is due at once, and in any case every
// PollInterval. In a pass it claims the due tasks and inserts River jobs for them, in one transaction
// (leader_claims.go, taskdb/claim.go). River gives each job to a worker (worker_river.go, worker.go). The worker
// waits until a task is due and a slot is free. Then it asks the gate whether the task is still wanted
// (worker_gate.go, taskdb/gate.go), and runs the handler (worker_attempt.go, worker_transactions.go). The settler
// records the outcome together with the outcomes of other tasks, in one commit (worker_settler.go, taskdb/settle.go).
//
// The leader takes back the claims of dead nodes (leader_reclaim.go), and those whose River job is gone
// (maintenance_abandoned.go). Each node ends the claims in its own hands when their leases are over
// (worker_renewer.go). It releases the claims that River fetched for it but that it never received
// (leader_janitor.go). The session is the connection that says that a node lives (session.go).
//
// Probes are answered from memory (node_health.go). A quiet node starts nothing new (node_quiet.go).
//
// The page README.md beside this file is a map of the engine.
//
// Start a node with [New] and [Node.Run]; see the example. Tests of handlers do not need a node: see package
// scheduledtest.
package scheduled
