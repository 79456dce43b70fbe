package scheduled

import (
	"sync/atomic"
	"time"
)

// clock tells when, by this process's clock, an instant of the database's clock comes. All times in the table are the
// database's; this process's may be an hour off, drift, and be set anew: only what it says has passed is used.
type clock struct {
	base   time.Time    // with its monotonic reading, which no setting of the clock changes
	offset atomic.Int64 // the database's time less base, at base
}

func newClock() *clock { return &clock{base: time.Now()} }

// learn takes one answer of the database: its time, and when the question was sent and the answer came. The truth lies
// between those two; the middle is the best guess.
func (c *clock) learn(database, sent, received time.Time) {
	middle := sent.Add(received.Sub(sent) / 2)
	c.offset.Store(int64(database.Sub(c.base) - middle.Sub(c.base)))
}

// until is how long from now the database's clock will show an instant.
func (c *clock) until(database time.Time) time.Duration {
	return database.Sub(c.base) - time.Since(c.base) - time.Duration(c.offset.Load())
}

// now is what the database's clock shows now, as far as is known.
func (c *clock) now() time.Time {
	return c.base.Add(time.Since(c.base) + time.Duration(c.offset.Load()))
}
