//go:build unix

package torture

import (
	"cmp"
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// What writers do, and how often.
var allWork = []weighted{
	{"herd", 30}, {"one", 120}, {"edit", 90}, {"shared", 30}, {"sync", 8}, {"scope", 2}, {"recur", 4}, {"offclock", 6},
	{"nobody", 1}, {"pair", 8}, {"hold", 3}, {"regret", 4}, {"rest", 4}, {"hook", 40}, {"long", 4}, {"again", 6},
	{"lock schedule", 1},
	// These are for runs that are steered at something.
	{"now", 0}, {"backlog", 0}, {"groups", 0}, {"refused", 0},
}

// What single tasks do.
var allChores = []weighted{
	{doWork, 40}, {doTell, 10}, {doFail, 10}, {doPermanent, 3}, {doAfter, 4}, {doPanic, 4}, {doGoexit, 4},
	{doOverrun, 2}, {doDeaf, 1}, {doPoison, 4}, {doSnooze, 4},
	{doAgain, 4}, {doFollow, 12}, {doHog, 1}, {doExtend, 2},
}

// The ids that all writers edit.
const sharedMost = 8

// step does one thing.
func (w *writer) step(what string) {
	switch what {
	case "herd":
		w.herd()
	case "one":
		kinds := []string{"PLAIN", "PLAIN", "IN_TX", "IN_TX", "IN_SQL", "RARE"}
		if w.Nodes > 3 {
			kinds = append(kinds, "OTHER")
		}
		kind := kinds[w.random.IntN(len(kinds))]
		w.scheduleOne(w.newID(kind), kind)
	case "edit":
		w.edit()
	case "shared":
		id := "shared/" + strconv.Itoa(w.random.IntN(sharedMost))
		w.ids[id] = "PLAIN"
		if w.random.IntN(2) == 0 {
			w.scheduleOne(id, "PLAIN")
		} else {
			w.verb(id, "PLAIN")
		}
	case "sync":
		w.sync()
	case "scope":
		w.pauseScope()
	case "recur":
		w.recur()
	case "offclock":
		w.offClock()
	case "nobody":
		w.scheduleOne(w.newID("NOBODY"), "NOBODY")
	case "pair":
		w.pair()
	case "hold":
		w.hold()
	case "lock schedule":
		w.lockSchedule()
	case "regret":
		w.regret()
	case "rest":
		w.rest()
	case "hook":
		w.scheduleOne(w.newID(hookType), hookType)
	case "long":
		w.long()
	case "again":
		w.onceMore()
	case "now":
		w.oneNow()
	case "backlog":
		w.backlog("HERD", "PLAIN", "RARE")
	case "groups":
		w.backlog("RARE", ratedType)
	case "refused":
		w.refused()
	}
}

// chore draws what a task is to do.
func (w *writer) chore(kind string) chore {
	c := chore{Nonce: w.random.Int64N(1 << 50), Do: w.chores.roll(w.random), Millis: w.random.IntN(15)}
	if kind == (herd{}.TaskType()) || kind == (tick{}.TaskType()) {
		c.Do = doWork
	}
	switch w.random.IntN(16) {
	case 0, 1, 2:
		c.Millis = 200 + w.random.IntN(2500)
	case 3, 4:
		c.Millis = w.random.IntN(200)
	}
	c.Times = 1 + w.random.IntN(2)
	switch c.Do {
	case doDeaf:
		c.Millis = int((leaseTime / time.Millisecond)) + w.random.IntN(2000)
	case doSnooze, doAgain:
		c.Until = time.Now().Add(time.Duration(300+w.random.IntN(1500)) * time.Millisecond).UnixMilli()
	case doOverrun, doHog, doExtend:
		c.Millis, c.Times = 0, 1
		if c.Do == doExtend && w.Length >= minute { // what begins last in a short run would make it longer
			c.Times = 1 + w.random.IntN(3)
		}
	case doFollow:
		w.followed(&c)
	}
	if c.Do == doWork && w.Millis > 0 && kind != (herd{}.TaskType()) && kind != (tick{}.TaskType()) {
		c.Millis = w.Millis
	}
	return c
}

// expiringTasks is how many tasks there are for each that may expire.
const expiringTasks = 8

// largeTasks is how many single tasks there are for each with a large payload, and largestPad makes one as large as a
// payload may be.
const (
	largeTasks = 60
	largestPad = store.MaxPayloadBytes - 1<<10
)

// text is so many letters that do not compress well.
func (w *writer) text(n int) string {
	letters := make([]byte, n)
	for i := range letters {
		letters[i] = 'a' + byte(w.random.IntN(26))
	}
	return string(letters)
}

// longTime is how long some tasks are expected to take: far longer than a death takes to be noticed.
const longTime = 20 * time.Second

// task draws a task of a type. Its times are by the writer's clock.
func (w *writer) task(id, kind string) store.Task {
	if kind == hookType {
		return w.hookTask(id)
	}
	c := w.chore(kind)
	if c.Do == doFollow {
		c.Child = id + childSuffix
	}
	if w.random.IntN(largeTasks) == 0 {
		c.Pad = w.text(1 + w.random.IntN(largestPad))
	}
	task := store.Task{
		ID: id, Payload: payloadOf(kind, c), ExpectedExecutionTime: w.Expected, Priority: []int{-10, 0, 0, 0, 10,
			60}[w.random.IntN(6)],
	}
	task.MaxAttempts = 3 + w.random.IntN(10)
	if w.random.IntN(8) == 0 {
		task.MaxAttempts = 1 + w.random.IntN(2)
	}
	if c.Do == doDeaf { // each attempt outlives its lease: more of them would only take longer
		task.MaxAttempts = 2
	}
	if c.Do != doOverrun && c.Do != doDeaf { // what a dead node ran of these comes back before their leases end
		switch w.random.IntN(6) {
		case 0, 1:
			task.ExpectedExecutionTime = max(longTime, w.Expected)
		case 2:
			task.ExpectedExecutionTime = 0 // the default, minutes
		}
	}
	if w.random.IntN(2) == 0 {
		task.IfDead = ifDead(id, c.Nonce)
	}
	task.Group = groupOf(kind, id)
	if w.random.IntN(w.Expiring) == 0 {
		task.Expiration = time.Duration(200+w.random.IntN(3000)) * time.Millisecond
	}
	if w.random.IntN(4) == 0 {
		task.Queue = slowQueue
	}
	switch w.random.IntN(4) {
	case 0: // at once
	case 1, 2:
		task.At = w.now().Add(time.Duration(w.random.IntN(2500)) * time.Millisecond)
	default:
		task.At = w.now().Add(time.Duration(-w.random.IntN(1000)) * time.Millisecond)
	}
	return task
}

// deedsOf makes deeds of receipts.
func deedsOf(tasks []store.Task, receipts []store.Receipt) []deed {
	deeds := make([]deed, len(receipts))
	for i, receipt := range receipts {
		deeds[i] = deed{Verb: "schedule", ID: receipt.ID, Outcome: string(receipt.Outcome), Revision: receipt.Revision,
			Due: tasks[i].At, Content: contentOf(tasks[i])}
	}
	return deeds
}

// contentOf is what a task is to be like.
func contentOf(task store.Task) *content {
	c := &content{Queue: cmp.Or(task.Queue, store.DefaultQueue), Priority: task.Priority,
		MaxAttempts: cmp.Or(task.MaxAttempts, store.DefaultMaxAttempts)}
	if payload, ok := task.Payload.(interface{ nonce() int64 }); ok {
		c.Nonce = payload.nonce()
	}
	return c
}

// rollsBack is one time in five.
func rollsBack(random *rand.Rand) bool { return random.IntN(5) == 0 }

// linger is mostly nothing.
func (w *writer) linger() time.Duration {
	if w.random.IntN(25) != 0 {
		return 0
	}
	return time.Duration(w.random.IntN(1500)) * time.Millisecond
}

func (w *writer) scheduleOne(id, kind string) {
	task := w.task(id, kind)
	w.remember(id, kind)
	w.transact([]string{id}, w.linger(), rollsBack(w.random), w.scheduling(task))
}

// herd schedules many small tasks, of several priorities, often for one time.
func (w *writer) herd() {
	n := 1 + w.random.IntN(2*w.Bulk)
	at := w.now().Add(time.Duration(w.random.IntN(1500)-500) * time.Millisecond)
	list, ids := make([]store.Task, n), make([]string, n)
	for i := range list {
		c := chore{Do: doWork, Nonce: w.random.Int64N(1 << 50), Millis: w.random.IntN(3)}
		switch w.random.IntN(20) {
		case 0:
			c.Millis = 500 // some are always running, when a node is killed
		case 1, 2:
			c.Do, c.Kids = doFollow, 1
		}
		list[i] = store.Task{
			ID: w.newID("HERD"), Payload: herd{c},
			At: at, ExpectedExecutionTime: expectedTime, Priority: []int{-10, 0, 0, 10}[w.random.IntN(4)],
			MaxAttempts: 50,
		}
		ids[i] = list[i].ID
	}
	w.scheduleMany(list, ids, rollsBack(w.random))
}

func (w *writer) scheduleMany(list []store.Task, ids []string, rollback bool) {
	w.transact(ids, 0, rollback, func(ctx context.Context, tx pgx.Tx) ([]deed, error) {
		receipts, err := w.tasks.ScheduleMany(ctx, tx, list)
		return deedsOf(list, receipts), err
	})
}

// oneNow schedules a task that is due at once.
func (w *writer) oneNow() {
	task := store.Task{ID: w.newID("PLAIN"), ExpectedExecutionTime: w.Expected}
	task.Payload = plain{chore{Do: doWork, Nonce: w.random.Int64N(1 << 50), Millis: w.Millis}}
	w.transact([]string{task.ID}, 0, false, w.scheduling(task))
}

// backlog schedules more of some types for one time than can run at once, of several priorities.
func (w *writer) backlog(kinds ...string) {
	list, ids := make([]store.Task, w.Bulk), make([]string, w.Bulk)
	at := w.now().Add(2 * time.Second) // after it is committed
	for i := range list {
		list[i] = store.Task{
			At: at, ExpectedExecutionTime: w.Expected, Priority: w.random.IntN(5) * 10,
		}
		kind := kinds[w.random.IntN(len(kinds))]
		list[i].ID = w.newID(kind)
		list[i].Group = groupOf(kind, list[i].ID)
		list[i].Payload = payloadOf(kind, chore{Do: doWork, Nonce: w.random.Int64N(1 << 50), Millis: w.Millis})
		ids[i] = list[i].ID
	}
	w.scheduleMany(list, ids, false)
}

// pair changes two tasks in one transaction, in any order, as an application may.
func (w *writer) pair() {
	if len(w.known) < 2 {
		return
	}
	a, b := w.known[w.random.IntN(len(w.known))], w.known[w.random.IntN(len(w.known))]
	at := w.now().Add(time.Duration(w.random.IntN(800)) * time.Millisecond)
	linger := time.Duration(w.random.IntN(200)) * time.Millisecond
	w.transact([]string{a, b}, linger, rollsBack(w.random), func(ctx context.Context, tx pgx.Tx) ([]deed, error) {
		var deeds []deed
		for _, id := range []string{a, b} {
			receipt, err := w.tasks.Reschedule(ctx, tx, id, at)
			if err != nil {
				return nil, err
			}
			done := did("reschedule", id, receipt)
			done.Due = at
			deeds = append(deeds, done)
		}
		return deeds, nil
	})
}

// sync makes the tasks of an entity exactly some.
func (w *writer) sync() {
	entity := w.name + "/entity-" + strconv.Itoa(w.random.IntN(3))
	var list []store.Task
	var ids []string
	for i := range 4 {
		ids = append(ids, entity+"/"+strconv.Itoa(i))
		if w.random.IntN(2) == 0 {
			task := w.task(ids[i], "PLAIN")
			task.Entity = entity
			list = append(list, task)
		}
	}
	sync := &entry{IDs: ids, Entity: entity}
	for _, task := range list {
		sync.Listed = append(sync.Listed, task.ID)
	}
	w.transactAs(sync, w.linger(), rollsBack(w.random), func(ctx context.Context, tx pgx.Tx) ([]deed, error) {
		receipts, err := w.tasks.Sync(ctx, tx, entity, list...)
		if err != nil {
			return nil, err
		}
		var deeds []deed
		for i, receipt := range receipts {
			d := did("sync", receipt.ID, receipt)
			if i < len(list) {
				d.Due, d.Content = list[i].At, contentOf(list[i])
			}
			deeds = append(deeds, d)
		}
		return deeds, nil
	})
}

// offClock schedules by a clock that is an hour off. The instant that is asked for is what the clock makes it, an
// hour ago or an hour ahead; the engine is to go by that and by the database's clock alone.
func (w *writer) offClock() {
	former := w.clock
	w.clock += []time.Duration{-time.Hour, time.Hour}[w.random.IntN(2)]
	w.scheduleOne(w.newID("PLAIN"), "PLAIN")
	w.clock = former
}
