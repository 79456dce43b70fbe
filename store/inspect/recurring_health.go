package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/query"
	"github.com/tasktable/tasktable/store/recurrence"
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

// missed is 0 if the expression cannot be read. The leader fails this task soon.
func (t RecurringTask) missed() int {
	rule, err := recurrence.Parse(t.Cron, t.TimeZone)
	if err != nil {
		return 0
	}
	since := t.StartsAt.Add(-time.Nanosecond) // the task may fire at the time at which it begins
	if t.ExpectedSince != nil {
		since = later(since, *t.ExpectedSince)
	}
	return rule.Anchored(t.StartsAt).Missed(t.LastSuccess, since, t.ReadAt.Add(-t.Allowance), OverdueFires)
}

// Trouble tells why a recurring task is HealthFailing or HealthOverdue.
type Trouble struct {
	Health         Health     `json:"health"`
	FailuresInARow int        `json:"failures_in_a_row"`
	LastFailure    *time.Time `json:"last_failure,omitempty"`
	LastError      string     `json:"last_error,omitempty"`
	LastSuccess    *time.Time `json:"last_success,omitempty"`
}

// trouble adds to the reason of a recurring task that its occurrences fail.
func (i *Inspector) trouble(ctx context.Context, db store.DB, e *Explanation) error {
	t, err := i.GetRecurring(ctx, db, e.ID)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrNotRecurring) {
		return nil // somebody has changed it since its row was read
	}
	if err == nil && (t.Health == HealthFailing || t.Health == HealthOverdue) {
		e.Reason.Trouble = &Trouble{Health: t.Health, FailuresInARow: t.FailuresInARow, LastFailure: t.LastFailure,
			LastError: query.OrEmpty(t.LastError), LastSuccess: t.LastSuccess}
	}
	return err
}

func (t Trouble) sentence(at func(time.Time) string) (text string) {
	switch {
	case t.FailuresInARow == 1:
		text = "its last occurrence failed"
	case t.FailuresInARow > 1:
		text = fmt.Sprintf("%d occurrences in a row failed, the last one", t.FailuresInARow)
	}
	if t.FailuresInARow > 0 {
		text += " at " + at(*t.LastFailure)
		if t.LastError != "" {
			text += ": " + brief(t.LastError, detailMost)
		}
		text += "; "
	}
	if t.Health == HealthOverdue {
		text += "it is overdue, and "
	}
	if t.LastSuccess == nil {
		return text + "it is not known ever to have succeeded"
	}
	return text + "it last succeeded at " + at(*t.LastSuccess)
}
