package session

import (
	"testing"
	"testing/synctest"
	"time"
)

// This process's clock may be an hour off, either way: how long until a time of the database is what the database says.
func TestClock(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour, 10 * 365 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			c := NewClock()
			database := func() time.Time { return time.Now().Add(-ahead) }
			sent := time.Now()
			time.Sleep(10 * time.Millisecond) // on the way
			answer := database()
			time.Sleep(10 * time.Millisecond) // and back
			c.Learn(answer, sent, time.Now())
			if got := c.Until(database().Add(time.Minute)); got != time.Minute {
				t.Errorf("a clock %s ahead: %s until a minute from now", ahead, got)
			}
			time.Sleep(time.Hour)
			if got := c.Until(answer); got != -time.Hour-10*time.Millisecond {
				t.Errorf("a clock %s ahead: %s until an hour ago", ahead, got)
			}
			// The process is stopped, before or after the database reads its clock: what is known stays.
			for _, before := range []time.Duration{time.Second, 0} {
				sent = time.Now()
				time.Sleep(before)
				answer = database()
				time.Sleep(time.Second - before)
				c.Learn(answer, sent, time.Now())
				if got := c.Until(database()); got != 0 {
					t.Errorf("off by %s after a round trip of a second", got)
				}
			}
			// The database's clock is set: the guess is off by half the round trip, and no more.
			ahead += time.Minute
			sent = time.Now()
			time.Sleep(time.Second)
			c.Learn(database(), sent, time.Now())
			if got := c.Until(database()); got.Abs() > 500*time.Millisecond {
				t.Errorf("off by %s after the database's clock was set", got)
			}
			// The next answer is fast, so it is a better guess.
			sent = time.Now()
			time.Sleep(slowAnswer / 2)
			answer = database()
			time.Sleep(slowAnswer / 2)
			c.Learn(answer, sent, time.Now())
			if got := c.Until(database()); got != 0 {
				t.Errorf("off by %s after a fast answer", got)
			}
		})
	}
}
