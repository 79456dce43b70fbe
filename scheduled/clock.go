package scheduled

import (
	"sync/atomic"
	"time"
)

// clock tells when, by this process's clock, an instant of the database's clock comes. All times in the table are the
// database's; this process's clock may be an hour off and drift.
type clock struct{ offset atomic.Int64 }

// learn takes one answer of the database: its time, and when the question was sent and the answer came. The truth lies
// between those two; the middle is the best guess.
func (c *clock) learn(database, sent, received time.Time) {
	middle := sent.Add(received.Sub(sent) / 2)
	c.offset.Store(int64(database.Sub(middle.Round(0))))
}

// until is how long from now the database's clock will show an instant.
func (c *clock) until(database time.Time) time.Duration {
	return database.Sub(time.Now().Round(0).Add(time.Duration(c.offset.Load())))
}
