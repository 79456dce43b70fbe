package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
)

const timelineSQL = `
SELECT l.task_id, l.at, l.kind, l.event, l.outcome, l.by, l.revision, coalesce(l.fence, 0) AS fence,
    coalesce(l.attempt, 0) AS attempt,
    coalesce(extract(epoch FROM l.delay), -1)::float8 AS delay,
    coalesce(extract(epoch FROM l.took), -1)::float8 AS took,
    coalesce(l.detail, '') AS detail, coalesce(t.type, '') AS type, coalesce(t.message, '') AS message
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
	Message  string // of the task as it is now
}

// timeline prints the lines of the history as they appear.
type timeline struct {
	*demo
	seen map[[2]int64]bool
}

func (d *demo) newTimeline() *timeline { return &timeline{demo: d, seen: map[[2]int64]bool{}} }

func (l *timeline) print(ctx context.Context) error {
	rows, err := l.Pool.Query(ctx, timelineSQL, l.start)
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
			outcome, detail := line.Outcome, l.detail(line)
			if line.skipped() {
				outcome, detail = string(store.StatusSkipped), line.Message
			}
			fmt.Fprintf(l.Out, "%s   %-24s %-16s %-12s %s\n", l.clockText(line.At), line.Type, l.name(line.TaskID),
				outcome, detail)
		}
	}
	return nil
}

// clockText is an instant as seconds from the demo's beginning.
func (d *demo) clockText(at time.Time) string {
	return fmt.Sprintf("%+6.1fs", at.Sub(d.start).Seconds())
}

// skipped says whether the line is that of an occurrence that does not run.
func (l timelineRow) skipped() bool {
	_, is := l.change()
	return is.Status == store.StatusSkipped
}

// name is the end of an id, which tells the tasks of the demo apart. An occurrence has the name of its recurring task.
func (d *demo) name(id string) string {
	id, _, _ = strings.Cut(id, "@")
	id = strings.TrimSuffix(id, "-"+d.run)
	for _, prefix := range []string{"task-SEND_EVENT_REMINDER-", "task-PUBLISH_EVENT-",
		"task-PUBLISH_SCHEDULED_POST-", "task-WELCOME_MEMBER-", "task-PRINT_BADGE-", "community-"} {
		id = strings.TrimPrefix(id, prefix)
	}
	return "…"[:3*min(1, len(id)/16)] + id[max(0, len(id)-15):]
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
	was, is := line.change()
	from, to := l.time(was.ScheduledAt), l.time(is.ScheduledAt)
	switch until := l.time(is.PausedUntil); {
	case until != "":
		said += ": until " + until
	case from != "" && to != "":
		said += ": " + from + " → " + to
	case to != "":
		said += ": due at " + to
	}
	return said
}

// changed is one side of a change.
type changed struct {
	Status      store.Status `json:"status"`
	ScheduledAt *time.Time   `json:"scheduled_at"`
	PausedUntil *time.Time   `json:"paused_until"`
}

// change returns the task before and after a change. Both are empty for an attempt.
func (l timelineRow) change() (was, is changed) {
	if l.Kind == "execution" {
		return was, is
	}
	before, after, both := strings.Cut(l.Detail, " -> ")
	if !both && l.Outcome == "created" { // there was nothing before
		before, after = "", before
	}
	return side(before), side(after)
}

// side reads one side of a change. A missing side is empty.
func side(text string) (c changed) {
	if json.Unmarshal([]byte(text), &c) != nil {
		return changed{}
	}
	return c
}

// time is an instant of a change, or "".
func (d *demo) time(at *time.Time) string {
	if at == nil {
		return ""
	}
	if in := at.Sub(d.start); in > term.Day/2 {
		return fmt.Sprintf("+%.1f d", in.Hours()/24)
	}
	return strings.TrimSpace(d.clockText(*at))
}
