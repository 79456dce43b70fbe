//go:build unix

package torture

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/tasktable/tasktable/store"
)

// What writers do over HTTP, and how often.
var allCalls = []weighted{
	{"create", 20}, {"anonymous", 20}, {"bulk", 8}, {"put", 20}, {"hook", 6}, {"patch", 20}, {"verb", 40},
	{"shared", 10},
}

// rushes is of how many calls one is sent several times at once.
const rushes = 12

// step makes one call.
func (c *caller) step(what string) {
	rush := c.random.IntN(rushes) == 0
	switch what {
	case "create":
		kind := []string{"PLAIN", "IN_TX", "IN_SQL", "RARE"}[c.random.IntN(4)]
		task := c.remembered(c.task(c.newID(kind), kind), kind)
		c.schedule(request{method: "POST", path: "/v1/tasks", rush: rush}, task)
	case "anonymous": // each request that is done would make another task
		task := store.Task{Payload: plain{chore{Do: doWork, Nonce: c.random.Int64N(1 << 50)}}}
		c.schedule(request{method: "POST", path: "/v1/tasks", rush: rush}, task)
	case "bulk":
		c.bulk(rush)
	case "put":
		task := c.remembered(c.task(c.newID("PLAIN"), "PLAIN"), "PLAIN")
		c.schedule(request{method: "PUT", path: pathOf(task.ID), rush: rush, absent: c.random.IntN(2) == 0}, task)
	case "hook":
		task := c.remembered(c.task(c.newID(hookType), hookType), hookType)
		c.schedule(request{method: "PUT", path: pathOf(task.ID), rush: rush}, task)
	case "patch":
		if len(c.known) > 0 {
			c.patch(c.known[c.random.IntN(len(c.known))], rush)
		}
	case "verb":
		if len(c.known) > 0 {
			id := c.known[c.random.IntN(len(c.known))]
			c.do(id, c.ids[id], rush)
		}
	case "shared":
		c.do("shared/"+strconv.Itoa(c.random.IntN(sharedMost)), "PLAIN", rush)
	}
}

// remembered keeps a task's id to edit it later.
func (c *caller) remembered(task store.Task, kind string) store.Task {
	c.remember(task.ID, kind)
	task.At = task.At.Truncate(time.Microsecond)
	return task
}

func pathOf(id string, rest ...string) string {
	path := "/v1/tasks/" + url.PathEscape(id)
	for _, part := range rest {
		path += "/" + part
	}
	return path
}

// schedule schedules one task.
func (c *caller) schedule(r request, task store.Task) {
	r.verb, r.body = "schedule", bodyOf(task)
	r.deeds = []deed{{Verb: r.verb, ID: task.ID, Due: task.At, Content: contentOf(task)}}
	c.call(r)
}

// bulk schedules many small tasks, some of which have no id.
func (c *caller) bulk(rush bool) {
	r := request{verb: "schedule", method: "POST", path: "/v1/tasks/bulk", rush: rush}
	at := c.now().Add(time.Duration(c.random.IntN(1500)-500) * time.Millisecond).Truncate(time.Microsecond)
	var bodies []map[string]any
	for range 1 + c.random.IntN(c.Bulk) {
		task := store.Task{
			Payload: herd{chore{Do: doWork, Nonce: c.random.Int64N(1 << 50), Millis: c.random.IntN(3)}}, At: at,
			ExpectedExecutionTime: expectedTime, Priority: []int{-10, 0, 0, 10}[c.random.IntN(4)], MaxAttempts: 50,
		}
		if c.random.IntN(2) == 0 {
			task.ID = c.newID("HERD")
		}
		bodies = append(bodies, bodyOf(task))
		r.deeds = append(r.deeds, deed{
			Verb: r.verb, ID: task.ID, Due: task.At, Content: contentOf(task),
		})
	}
	r.body = map[string]any{"tasks": bodies}
	c.call(r)
}

// patch edits a part of a task, mostly on the condition that nobody else has edited it.
func (c *caller) patch(id string, rush bool) {
	r := request{verb: "patch", method: "PATCH", path: pathOf(id), rush: rush}
	d := deed{Verb: r.verb, ID: id}
	last := c.last[id]
	if last != nil && c.random.IntN(4) != 0 {
		r.match = last.Revision
	}
	switch c.random.IntN(3) {
	case 0:
		d.Due = c.now().Add(time.Duration(c.random.IntN(1500)-200) * time.Millisecond).Truncate(time.Microsecond)
		r.body = map[string]any{"scheduled_at": d.Due}
	case 1:
		r.body = map[string]any{"priority": c.random.IntN(20)}
	default:
		nonce := c.random.Int64N(1 << 50)
		r.body = map[string]any{"payload": map[string]any{"n": nonce}}
		if last == nil || last.Content == nil || !wrote[last.Outcome] {
			return // the rest of its content is not known
		}
		r.match, d.Content = last.Revision, new(*last.Content)
		d.Content.Nonce = nonce
	}
	r.deeds = []deed{d}
	c.call(r)
}

// do does something to a task.
func (c *caller) do(id, kind string, rush bool) {
	r := request{method: "POST", rush: rush}
	d := deed{ID: id}
	path := ""
	switch c.random.IntN(12) {
	case 0, 1:
		d.Verb, path = "cancel", "cancel"
	case 2:
		d.Verb, path = "pause", "pause"
	case 3, 4:
		d.Verb, path = "pause", "pause"
		d.Until = c.now().Add(time.Duration(300+c.random.IntN(1500)) * time.Millisecond).Truncate(time.Microsecond)
		r.body = map[string]any{"until": d.Until}
	case 5, 6:
		d.Verb, path = "resume", "resume"
	case 7, 8:
		d.Verb, path = "run_now", "run-now"
	case 9:
		d.Verb, path = "retry", "retry"
	case 10:
		d.Verb, r.method = "delete", "DELETE"
	default:
		task := c.remembered(c.task(id, kind), kind)
		task.At = time.Time{}
		c.schedule(request{method: "PUT", path: pathOf(id), rush: rush}, task)
		return
	}
	if r.path = pathOf(id); path != "" {
		r.path = pathOf(id, path)
	}
	r.verb, r.deeds = d.Verb, []deed{d}
	c.call(r)
}

// bodyOf is a task as the API takes it.
func bodyOf(task store.Task) map[string]any {
	var payload map[string]any
	text, err := json.Marshal(task.Payload)
	if err == nil {
		err = json.Unmarshal(text, &payload)
	}
	if err != nil {
		panic(fmt.Sprintf("the test itself: %v", err))
	}
	payload["type"] = task.Payload.TaskType()
	body := map[string]any{"payload": payload}
	put := func(name string, value any, given bool) {
		if given {
			body[name] = value
		}
	}
	put("id", task.ID, task.ID != "")
	put("scheduled_at", task.At, !task.At.IsZero())
	put("priority", task.Priority, task.Priority != 0)
	put("queue", task.Queue, task.Queue != "")
	put("max_attempts", task.MaxAttempts, task.MaxAttempts != 0)
	put("expiration", task.Expiration.Seconds(), task.Expiration != 0)
	put("expected_execution_time", task.ExpectedExecutionTime.Seconds(), task.ExpectedExecutionTime != 0)
	put("if_finished", task.IfFinished, task.IfFinished != "")
	var ifDead []map[string]any
	for _, one := range task.IfDead {
		ifDead = append(ifDead, bodyOf(one))
	}
	put("if_dead", ifDead, len(ifDead) > 0)
	return body
}
