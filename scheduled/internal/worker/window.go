package worker

import (
	"context"
	"sync"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/session"
)

// window bounds how far a batch goes ahead of what is recorded. A task begins only if it is among the next `size` tasks
// from the first one whose claim is not over. If this node dies, the leader therefore knows which tasks of the job
// cannot have begun (leader/reclaim.go), although nobody has written anything.
//
// When a batch has to wait for its window, because a task takes long or its row is locked, the node writes into the
// River job how far it goes on. It is safe for concurrent use.
type window struct {
	size int

	mu    sync.Mutex
	over  []bool // by the task's place in the job: its claim is over
	first int    // the first place whose claim is not over
	began int    // the job says that tasks before this place may have begun
}

func newWindow(size, tasks int) *window { return &window{size: size, over: make([]bool, tasks)} }

// ends notes that the claim of the task at this place is over.
func (w *window) ends(place int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over[place] = true
	for w.first < len(w.over) && w.over[w.first] {
		w.first++
	}
}

// goesOn notes that the job says how far the batch goes on.
func (w *window) goesOn(began int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began = max(w.began, began)
}

// has reports whether the task at this place may begin.
func (w *window) has(place int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return place < max(w.first+w.size, w.began)
}

// A task looks windowLooks times whether its window has moved, with this pause, before the node writes that it goes on.
// Recording takes some milliseconds.
const (
	windowLooks = 4
	windowPause = 5 * time.Millisecond
)

// inWindow reports whether a task may begin. It waits for a moment, and then has the job say that the batch goes on. It
// returns false if that cannot be written, or if the node stops or is quiet.
func (j *job) inWindow(r *run) bool {
	if j.window == nil {
		return true
	}
	for range windowLooks {
		if j.window.has(r.place) {
			return true
		}
		j.wait(nil, nil, windowPause)
	}
	if j.window.has(r.place) {
		return true
	}
	if j.halted() != "" {
		return false
	}
	return j.writeBegan(r.place + j.window.size)
}

// writeBegan writes that the tasks before this place may have begun. If the job is gone, nobody goes by it.
func (j *job) writeBegan(began int) bool {
	ctx, cancel := context.WithTimeout(j.settling, session.AnswerLimit)
	defer cancel()
	_, err := j.config.EnginePool.Exec(ctx, j.config.Statements.Schema.SQL(riverjobs.BeganSQL), j.id, began)
	if j.config.Answered(err); err != nil {
		j.config.Log.Warn("the node could not write how far it goes on with a River job; trying again",
			"job", j.id, "type", j.kind, "error", err)
		return false
	}
	j.window.goesOn(began)
	return true
}
