//go:build unix

package torture

import (
	"context"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

// childSuffix makes the id of a follow-up, and deadSuffix that of the task which is scheduled if another dies.
const (
	childSuffix = "/child"
	deadSuffix  = "/dead" + childSuffix
)

// followed draws what a task that has follow-ups does besides.
func (w *writer) followed(c *chore) {
	c.Kids, c.Steps = 1+w.random.IntN(3), w.random.IntN(3)
	if w.random.IntN(5) == 0 { // time for an edit or a cancel; a transactional one keeps its connection meanwhile
		c.Linger = w.random.IntN(800)
	}
	c.Broken = w.random.IntN(3) == 0
}

// ifDead is the task that is scheduled if another one dies. A second death schedules it again.
func ifDead(id string, nonce int64) []store.Task {
	return []store.Task{{
		ID: id + deadSuffix, Payload: plain{chore{Do: doWork, Nonce: nonce}}, ExpectedExecutionTime: expectedTime,
		IfFinished: store.Rearm,
	}}
}

// ownChild is the id of a follow-up that no other attempt has.
func ownChild(e *handlers.Execution, n int) string {
	return fmt.Sprintf("%s/%d.%d%s", e.ID, e.Fence, n, childSuffix)
}

// follow asks for follow-ups. One has the same id in each attempt of the task, and the others have ids of their own.
func (w *worker) follow(ctx context.Context, e *handlers.Execution, c chore) error {
	next := chore{Do: doWork, Nonce: e.Revision}
	if c.Steps > 0 {
		next.Do, next.Kids, next.Steps = doFollow, 1, c.Steps-1
	}
	ids := make([]string, 0, c.Kids+1)
	if c.Child != "" {
		ids = append(ids, c.Child)
	}
	for n := range c.Kids {
		ids = append(ids, ownChild(e, n))
	}
	for _, id := range ids {
		w.asks(e, mark{Child: id})
		e.FollowUp(store.Task{ID: id, Payload: plain{next}, ExpectedExecutionTime: expectedTime})
	}
	select { // an attempt that is cancelled meanwhile has done its work, too
	case <-time.After(time.Duration(c.Linger) * time.Millisecond):
	case <-ctx.Done():
	}
	if c.Broken && e.Attempt <= c.Times {
		return w.failing(e, retryDelay, "after it asked for follow-ups")
	}
	return nil
}

// ifDead asks for a task in case that this attempt is the last one.
func (w *worker) ifDead(e *handlers.Execution) {
	id := ownChild(e, 0)
	w.asks(e, mark{Child: id, IfDead: true})
	e.FollowUpIfDead(store.Task{
		ID: id, Payload: plain{chore{Do: doWork, Nonce: e.Revision}}, ExpectedExecutionTime: expectedTime,
	})
}
