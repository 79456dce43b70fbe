package inspect

import (
	"time"

	"github.com/tasktable/tasktable/store"
)

// Health is a verdict about a recurring task.
type Health string

// The verdicts. If several hold, the first of this list counts.
const (
	// HealthEnded means that the task fires no more.
	HealthEnded Health = "ended"
	// HealthPaused means that the task, its queue, its type or everything is paused.
	HealthPaused Health = "paused"
	// HealthOverdue means that the task has not succeeded for two intervals. See OverdueFires.
	HealthOverdue Health = "overdue"
	// HealthFailing means that the last occurrence that ended has FAILED or EXPIRED.
	HealthFailing Health = "failing"
	// HealthOK means that the last occurrence that ended has COMPLETED.
	HealthOK Health = "ok"
	// HealthNew means that no occurrence has ended yet.
	HealthNew Health = "new"
)

// OverdueFires is how many fires must have passed without a success until the task is overdue. They count from the
// last success. A task that has not succeeded since its last edit or resume, or since the end of the last pause of its
// queue, of its type or of everything, has its first fire after that free. A fire counts when the jitter and the
// expected execution time of its occurrence have passed, too.
const OverdueFires = 2

// HealthBasis has what health is judged by, besides the other fields of a RecurringTask.
type HealthBasis struct {
	ExpectedSince *time.Time    // the last edit, resume, or end of a pause
	Allowance     time.Duration // how long after its fire an occurrence may end: jitter and expected execution time
	ReadAt        time.Time     // the database's time
}

func (t RecurringTask) health() Health {
	switch {
	case t.Status != store.StatusQueued && t.Status != store.StatusPaused:
		return HealthEnded
	case t.Status == store.StatusPaused || t.IsPaused:
		return HealthPaused
	case t.missed() >= OverdueFires:
		return HealthOverdue
	case t.FailuresInARow > 0:
		return HealthFailing
	case t.LastSuccess != nil:
		return HealthOK
	}
	return HealthNew
}

// missed is 0 if the expression cannot be read. The leader fails this task soon. To parse the expression takes longest,
// so missed first asks whether any fire can have passed since the last success: the leader has planned that none is
// between the last fire and the next one.
func (t RecurringTask) missed() int {
	until := t.ReadAt.Add(-t.Allowance)
	if t.LastSuccess != nil && t.LastFire != nil && t.NextFire != nil &&
		!t.LastSuccess.Before(*t.LastFire) && t.NextFire.After(until) {
		return 0
	}
	rule, err := t.Rule()
	if err != nil {
		return 0
	}
	since := t.StartsAt.Add(-time.Nanosecond) // the task may fire at the time at which it begins
	if t.ExpectedSince != nil {
		since = later(since, *t.ExpectedSince)
	}
	return rule.Anchored(t.StartsAt).Missed(t.LastSuccess, since, until, OverdueFires)
}
