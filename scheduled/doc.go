// Package scheduled is the engine. A [Node] runs the tasks of the table scheduled_tasks whose types it has handlers
// for. Every node works, and one node also leads.
//
// Start a node with [New] and [Node.Run]; see the example. Tests of handlers do not need a node: see package
// scheduledtest. The page README.md beside this file is a map of the engine.
package scheduled
