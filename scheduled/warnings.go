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
	kinds, slots := c.transactional(), 0
	working, _ := c.works()
	for _, each := range working {
		slots += each
	}
	// Handlers beyond the connections wait for one, which looks like a slow handler. Some of the slots run other
	// handlers or wait, so somewhat fewer connections than slots are no mistake.
	if most := c.places(); len(kinds) > 0 && slots > 4*most {
		c.Logger.Warn("transactional handlers have far fewer connections than slots; "+
			"give Pool more connections, or the queues fewer slots",
			"slots", slots, "pool", c.Pool.Config().MaxConns, "at_once", most, "types", kinds)
	}
}
