package session

import (
	"sync/atomic"
	"time"
)

// Clock tells when, by this process's clock, the database's clock will show a given time. All times in the table are
// by the database's clock. This process's clock may be an hour off, may drift, and may be set anew. Therefore only
// the time that has passed on it is used.
type Clock struct {
	base   time.Time    // with its monotonic reading, which no setting of the clock changes
	offset atomic.Int64 // the difference of the database's time and base, at base
	known  bool         // offset has been learned; for Learn alone
}

// NewClock makes a clock. It shows the time of the database after the first Learn.
func NewClock() *Clock { return &Clock{base: time.Now()} }

// slowAnswer is how long an answer may take to be a better guess than the one before, if the two agree.
const slowAnswer = 20 * time.Millisecond

// Learn takes one answer of the database: its time, when the question was sent, and when the answer arrived. The
// database read its clock at some moment between these two. The middle is the best guess. A slow answer that agrees
// with what is known changes nothing. A process that was stopped between the question and the answer would guess
// wrong by half of that time, and the leader would look for due tasks in the future.
//
// The leader's tick reads the time near the end of its answer, so the guess is up to a millisecond ahead. That is
// harmless, because the database decides whether a task is due. It even helps, because a timer of Go is up to a
// millisecond late.
//
// One goroutine may call Learn.
func (c *Clock) Learn(database, sent, received time.Time) {
	since := database.Sub(c.base)
	least, most := int64(since-received.Sub(c.base)), int64(since-sent.Sub(c.base))
	offset := c.offset.Load()
	if c.known && received.Sub(sent) > slowAnswer && least <= offset && offset <= most {
		return
	}
	c.offset.Store(least + (most-least)/2)
	c.known = true
}

// Until is how long from now the database's clock will show the given time.
func (c *Clock) Until(database time.Time) time.Duration {
	return database.Sub(c.base) - time.Since(c.base) - time.Duration(c.offset.Load())
}

// Now is the time that the database's clock shows now, by the last answer.
func (c *Clock) Now() time.Time {
	return c.base.Add(time.Since(c.base) + time.Duration(c.offset.Load()))
}
