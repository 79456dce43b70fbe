package dashboard

import (
	"fmt"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store"
)

// taskRow is a task in a list. The template task-row shows it.
type taskRow struct {
	store.Row

	At       *time.Time // when it runs, or fires next
	Event    string     // the other time that matters, in a word: started, ended, …
	EventAt  *time.Time
	Attempts string
	Message  string // its first line
	// Seen is the value of the box that selects the task: its revision, status and id as the person saw them.
	Seen string
}

func taskRowOf(row store.Row) taskRow {
	made := taskRow{
		Row: row, At: &row.ScheduledAt, Attempts: fmt.Sprintf("%d/%d", row.Attempt, row.MaxAttempts),
		Seen: fmt.Sprintf("%d %s %s", row.Revision, row.Status, row.ID),
	}
	if row.Status != store.StatusExecuting { // else it is of the attempt before
		made.Message, _, _ = strings.Cut(textOf(row.Message), "\n")
	}
	made.Event, made.EventAt = eventOf(row)
	if row.Cron != nil {
		made.At, made.Attempts = nextFire(row), ""
	}
	return made
}

// eventOf returns the time that matters for a task besides the one that it is scheduled for.
func eventOf(row store.Row) (event string, at *time.Time) {
	switch {
	case row.FinishedAt != nil:
		return "ended", row.FinishedAt
	case row.Status == store.StatusPaused && row.PausedUntil != nil:
		return "resumes", row.PausedUntil
	case row.Status == store.StatusExecuting && startOf(row) != nil:
		return "started", row.StartedAt
	case row.Status == store.StatusQueued && row.Cron == nil && row.NextAttemptAt != nil &&
		!row.NextAttemptAt.Equal(row.ScheduledAt):
		return "next attempt", row.NextAttemptAt
	}
	return "", nil
}

// startOf returns when the attempt started that the row is about. A task that was claimed, and has not started yet,
// still has the start of the attempt before.
func startOf(row store.Row) *time.Time {
	if row.Status == store.StatusExecuting &&
		(row.StartedFence == nil || row.Fence == nil || *row.StartedFence != *row.Fence) {
		return nil
	}
	return row.StartedAt
}

// nextFire returns when a recurring task fires next. Its scheduled_at is its start, and would look overdue.
func nextFire(row store.Row) *time.Time {
	switch {
	case row.Status != store.StatusQueued:
		return nil
	case row.NextAttemptAt != nil && row.PlannedRevision != nil && *row.PlannedRevision == row.Revision:
		return row.NextAttemptAt
	}
	return &row.ScheduledAt
}
