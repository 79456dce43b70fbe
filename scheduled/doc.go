// Package scheduled is the engine: a Node runs the tasks of the table scheduled_tasks whose types it has handlers for.
//
// Every node works; one of them, which holds an advisory lock, also leads. The leader looks when the next task is due, when
// NOTIFY says that one is due at once, and in any case every PollInterval. A pass claims what is due and hands it to River in
// one transaction (leader.go, claim.go); River brings it to a worker (river.go, worker.go), which waits for its time and a
// slot, asks the gate whether the task is still wanted (asking.go, gate.go), runs the handler (start.go, transactional.go), and has the
// outcome recorded with those of others in one commit (settler.go, settle.go). The leader takes back what dead nodes held and
// what outlived its lease (reclaim.go). A node ends lapsed claims in its own hand (keeper.go), and releases what River fetched for it and
// it never got (janitor.go). The session (session.go) is the connection that says that a node lives.
//
// What the parts note of themselves answers probes (health.go); a node that is quiet starts nothing new (quiet.go).
//
// A node is started by New and Run; see the example. Tests of handlers need none of this: see package scheduledtest.
package scheduled
