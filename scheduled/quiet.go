package scheduled

// Quiet stops the node from starting anything new until Unquiet. A quiet node does not lead, so that another node
// leads. It claims no tasks and takes up none. It hands back the tasks that it holds and has not begun, at once and
// without using up an attempt. A task that waits for a connection for its transaction goes back once it has that
// connection. Running handlers go on with all their time, and their outcomes are recorded. The node stays alive and
// ready, and Run ends as it always does.
//
// Quiet returns at once. It may be called at any time, also before Run, and by several goroutines. The other nodes
// know within about a second. Tasks that the leader claims for this node until then wait for another node with the
// queue and type. If there is none, they go back too.
//
// If all nodes are quiet, nobody claims. Then all due tasks wait, and so do fires of recurring tasks, ends of pauses,
// and the tasks of dead nodes.
func (n *Node) Quiet() { n.quiet.Set(true) }

// Unquiet undoes Quiet. Within about a second, the node takes up tasks again and tries to lead.
func (n *Node) Unquiet() { n.quiet.Set(false) }
