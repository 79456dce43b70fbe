package scheduled

import (
	"slices"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
)

// Role is the part of the work that a node does.
type Role string

// The roles. At any time one of the nodes that may lead is the leader.
const (
	RoleBoth   Role = "both"   // it runs tasks, and it may lead
	RoleWorker Role = "worker" // it runs tasks, and it never leads
	RoleLeader Role = "leader" // it may lead, and it runs no tasks
)

var roles = []Role{RoleWorker, RoleLeader, RoleBoth}

func (c Config) checkRole() error {
	return must(slices.Contains(roles, c.Role), "Role must be worker, leader or both, got %q", c.Role)
}

func (c Config) checkStrictQueues() (errs []error) {
	for i, queue := range c.StrictQueues {
		if err := store.CheckQueue(queue); err != nil {
			errs = append(errs, pg.Annotate(err, "StrictQueues"))
			continue
		}
		errs = append(errs, must(!slices.Contains(c.StrictQueues[:i], queue),
			"StrictQueues must name each queue once, and names %q twice", queue),
			must(c.Queues[queue] > 0, "StrictQueues must name queues of Queues, and %q is none of them", queue))
	}
	return errs
}

// strictQueues leaves out the queues that the node does not work.
func (c Config) strictQueues() []string {
	working, _ := c.works()
	return slices.DeleteFunc(slices.Clone(c.StrictQueues), func(queue string) bool { return working[queue] == 0 })
}
