package scheduled

import "github.com/tasktable/tasktable/scheduled/internal/taskdb"

// warn logs settings that are valid but most likely a mistake. Run calls it once, before the node begins.
func (c Config) warn() {
	for _, task := range c.Recurring {
		if kind := task.Payload.TaskType(); c.Handlers.Variant(kind) == nil {
			c.Logger.Warn("this node has no handler for the type of a declared recurring task; "+
				"the occurrences wait for another node",
				"task", taskdb.IDOf(task), "type", kind, "handlers", c.Handlers.Types())
		}
	}
	c.warnOfConnections()
}

// warnOfConnections warns if the slots allow far more transactional handlers than the pool has connections. The
// handlers beyond that wait for a connection, which looks like a slow handler.
func (c Config) warnOfConnections() {
	kinds := c.transactional()
	slots := 0
	for _, each := range c.Queues {
		slots += each
	}
	// Some of the slots run other handlers or wait. Therefore somewhat fewer connections than slots are no mistake.
	if most := c.places(); len(kinds) > 0 && slots > 4*most {
		c.Logger.Warn("transactional handlers have far fewer connections than slots; "+
			"give Pool more connections, or the queues fewer slots",
			"slots", slots, "pool", c.Pool.Config().MaxConns, "at_once", most, "types", kinds)
	}
}
