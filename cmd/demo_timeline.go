package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const timelineSQL = `
SELECT l.task_id, l.at, l.kind, l.event, l.outcome, l.by, l.revision, coalesce(l.fence, 0) AS fence, coalesce(l.attempt, 0) AS attempt,
    coalesce(extract(epoch FROM l.delay), -1)::float8 AS delay, coalesce(extract(epoch FROM l.took), -1)::float8 AS took,
    coalesce(l.detail, '') AS detail, coalesce(t.type, '') AS type
FROM tasktable_demo.task_timeline AS l LEFT JOIN tasktable_demo.scheduled_tasks AS t ON t.id = l.task_id
WHERE l.at >= $1 ORDER BY l.at, l.revision`

type timelineRow struct {
	TaskID   string
	At       time.Time
	Kind     string
	Event    string
	Outcome  string
	By       string
	Revision int64
	Fence    int64
	Attempt  int
	Delay    float64
	Took     float64
	Detail   string
	Type     string
}

// timeline prints the lines of the history as they appear.
type timeline struct {
	*demo
	seen map[[2]int64]bool
}

func (d *demo) newTimeline() *timeline { return &timeline{demo: d, seen: map[[2]int64]bool{}} }

func (l *timeline) print(ctx context.Context) error {
	rows, err := l.d.pool.Query(ctx, timelineSQL, l.start)
	if err != nil {
		return fmt.Errorf("read the timeline: %w", err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowToStructByName[timelineRow])
	if err != nil {
		return fmt.Errorf("read the timeline: %w", err)
	}
	for _, line := range lines {
		key := [2]int64{line.Revision, line.Fence}
		if !l.seen[key] {
			l.seen[key] = true
			fmt.Fprintf(l.stdout, "%s   %-24s %-14s %-12s %s\n", l.clockText(line.At), line.Type, l.name(line.TaskID), line.Outcome, l.detail(line))
		}
	}
	return nil
}

// clockText is an instant as seconds from the demo's beginning.
func (d *demo) clockText(at time.Time) string {
	return fmt.Sprintf("%+6.1fs", at.Sub(d.start).Seconds())
}

// name is the end of an id that tells the tasks of the demo apart.
func (l *timeline) name(id string) string {
	if before, ok := strings.CutSuffix(id, "-"+l.run); ok {
		id = before
	}
	for _, prefix := range []string{"task-SEND_EVENT_REMINDER-", "task-PUBLISH_EVENT-", "task-PUBLISH_SCHEDULED_POST-", "task-WELCOME_MEMBER-"} {
		id = strings.TrimPrefix(id, prefix)
	}
	return "…"[:3*min(1, len(id)/13)] + id[max(0, len(id)-12):]
}

func (l *timeline) detail(line timelineRow) string {
	if line.Kind == "execution" {
		said := fmt.Sprintf("attempt %d", line.Attempt)
		if line.Delay >= 0 {
			said += fmt.Sprintf(", started %.0f ms after its time", line.Delay*1000)
		}
		if line.Took >= 0 {
			said += fmt.Sprintf(", took %.0f ms", line.Took*1000)
		}
		if line.Detail != "" {
			said += ": " + line.Detail
		}
		return said
	}
	said := "by " + line.By
	was, is, _ := strings.Cut(line.Detail, " -> ")
	if line.Outcome == "created" {
		was, is = "", was
	}
	if from, to := l.time(was), l.time(is); from != "" && to != "" {
		said += ": " + from + " → " + to
	} else if to != "" {
		said += ": due at " + to
	}
	return said
}

// time is the scheduled_at of one side of a change.
func (l *timeline) time(side string) string {
	var change struct {
		ScheduledAt *time.Time `json:"scheduled_at"`
	}
	if json.Unmarshal([]byte(side), &change) != nil || change.ScheduledAt == nil {
		return ""
	}
	if in := change.ScheduledAt.Sub(l.start); in > day/2 {
		return fmt.Sprintf("+%.0f d", in.Hours()/24)
	}
	return strings.TrimSpace(l.clockText(*change.ScheduledAt))
}
