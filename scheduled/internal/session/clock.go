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
}

// NewClock makes a clock. It shows the time of the database after the first Learn.
func NewClock() *Clock { return &Clock{base: time.Now()} }

// Learn takes one answer of the database: its time, when the question was sent, and when the answer arrived. The
// database read its clock at some moment between these two. The middle is the best guess.
func (c *Clock) Learn(database, sent, received time.Time) {
	middle := sent.Add(received.Sub(sent) / 2)
	c.offset.Store(int64(database.Sub(c.base) - middle.Sub(c.base)))
}

// Until is how long from now the database's clock will show the given time.
func (c *Clock) Until(database time.Time) time.Duration {
	return database.Sub(c.base) - time.Since(c.base) - time.Duration(c.offset.Load())
}

// Now is the time that the database's clock shows now, by the last answer.
func (c *Clock) Now() time.Time {
	return c.base.Add(time.Since(c.base) + time.Duration(c.offset.Load()))
}
