package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

const tasksShowHelp = `Shows a task with its payload, its follow-ups, and the last lines of its history: each edit and
who made it, and each attempt and its outcome. For a deleted task it shows the history. The exit code is 1 for a
deleted task, and for an id that was never scheduled.

With --output json it prints an object: the columns of the task, "follow_ups" if it has any, and "history" with
"changes" and "executions", at most --history of each, the oldest first.`

// tasksShow is the command tasks show.
type tasksShow struct {
	*client
	given []string
	lines int
}

func (p *program) tasksShowCommand() *cobra.Command {
	s := &tasksShow{client: p.client()}
	opts := []options.Option{{Flag: "history", Kind: "number", Default: "20", Set: options.Int(&s.lines, 0, 10000),
		Usage: "how many lines of the history, the latest ones"}}
	return p.BindArguments(&cobra.Command{
		Use:   "show ID",
		Short: "Shows a task and its history",
		Long:  tasksShowHelp,
		Example: `  tasktable tasks show task-SEND_EVENT_REMINDER-42
  tasktable tasks show task-SEND_EVENT_REMINDER-42 --output json | jq .payload`,
	}, append(opts, s.options()...), options.IDs(&s.given, 1, 1, s.ids()), s.opened(s.run))
}

// shownTask is a task in JSON. The row is nil if the task was deleted.
type shownTask struct {
	*store.Row
	FollowUps []inspect.FollowUp `json:"follow_ups,omitempty"`
	History   store.History      `json:"history"`
}

func (s *tasksShow) run(ctx context.Context) error {
	id := s.given[0]
	shown := shownTask{History: store.History{Changes: []store.Change{}, Executions: []store.Execution{}}}
	row, missing := s.tasks.Get(ctx, s.pool, id)
	switch {
	case missing == nil:
		shown.Row = &row
		var err error
		if shown.FollowUps, err = s.inspector.FollowUps(ctx, s.pool, id); err != nil {
			return err
		}
	case !errors.Is(missing, store.ErrNotFound):
		return missing
	}
	if s.lines > 0 {
		history, err := s.tasks.RecentHistory(ctx, s.pool, id, s.lines)
		if err != nil {
			return err
		}
		shown.History.Changes = append(shown.History.Changes, history.Changes...)
		shown.History.Executions = append(shown.History.Executions, history.Executions...)
	}
	recorded := len(shown.History.Changes)+len(shown.History.Executions) > 0
	if missing != nil && !recorded {
		return s.unknown(ctx, missing)
	}
	if err := s.print(shown); err != nil {
		return err
	}
	if missing != nil {
		return fmt.Errorf("%w: it was deleted, and this is its history", missing)
	}
	return nil
}

// unknown is the error for an id that was never scheduled. It names similar ids if the role may ask for them.
func (s *tasksShow) unknown(ctx context.Context, missing error) error {
	id := s.given[0]
	if e, err := s.inspector.Why(ctx, s.pool, id); err == nil && len(e.Nearest) > 0 {
		return fmt.Errorf("%w%s", missing, theNearest(e.Nearest))
	}
	return fmt.Errorf("%w: tasktable tasks list shows those there are", missing)
}

func (s *tasksShow) print(shown shownTask) error {
	if s.JSON {
		return s.Document(shown)
	}
	if shown.Row != nil {
		if err := s.fields(*shown.Row).Print(s.Data, s.Colors, 0); err != nil {
			return err
		}
		if err := s.sections(*shown.Row); err != nil {
			return err
		}
	}
	if err := s.followUps(shown.FollowUps); err != nil {
		return err
	}
	lines := historyLines(s.Clock, shown.History)
	if len(lines) == 0 {
		return nil
	}
	if shown.Row != nil {
		fmt.Fprintln(s.Data)
	}
	return historyTable(lines[max(0, len(lines)-s.lines):]).Print(s.Data, s.Colors, s.Width)
}

// followUps lists the tasks that the handler asked for.
func (s *tasksShow) followUps(listed []inspect.FollowUp) error {
	if len(listed) == 0 {
		return nil
	}
	fmt.Fprintln(s.Data)
	t := term.NewTable("FOLLOW-UP", "TYPE", "STATUS", "SCHEDULED AT", "FINISHED AT", "MESSAGE")
	for _, one := range listed {
		t.Add(one.ID, one.Type, one.Status, s.When(&one.ScheduledAt), s.When(one.FinishedAt), one.Message)
	}
	return t.Print(s.Data, s.Colors, s.Width)
}

// fields returns the columns that have a value, in the order of the table.
func (s *tasksShow) fields(row store.Row) *term.Table {
	t := term.NewFields()
	for _, field := range []struct {
		name  string
		value any
	}{
		{"id", row.ID}, {"type", row.Type}, {"status", row.Status}, {"queue", row.Queue}, {"entity", row.Entity},
		{"tenant_id", row.TenantID}, {"group_key", row.GroupKey},
		{"priority", row.Priority}, {"scheduled_at", s.When(&row.ScheduledAt)}, {"run_now_at", s.When(row.RunNowAt)},
		{"next_attempt_at", s.When(row.NextAttemptAt)}, {"paused_until", s.When(row.PausedUntil)},
		{"expiration", row.Expiration}, {"expected_execution_time", row.ExpectedExecutionTime}, {"jitter", row.Jitter},
		{"retention", row.Retention}, {"backoff", row.Backoff}, {"timeout", row.Timeout},
		{"deadline", s.When(row.Deadline)}, {"attempt", fmt.Sprintf("%d of %d", row.Attempt, row.MaxAttempts)},
		{"revision", row.Revision}, {"asked_revision", row.AskedRevision},
		{"fence", row.Fence}, {"lease_expires_at", s.When(row.LeaseExpiresAt)}, {"parent_id", row.ParentID},
		{"spawned_by", row.SpawnedBy},
		{"cron", row.Cron}, {"time_zone", row.TimeZone}, {"overlap", row.Overlap}, {"catch_up", row.CatchUp},
		{"catch_up_paused", row.CatchUpPaused}, {"catch_up_limit", row.CatchUpLimit}, {"ends_at", s.When(row.EndsAt)},
		{"max_occurrences", row.MaxOccurrences}, {"occurrence_count", occurrences(row)},
		{"planned_revision", row.PlannedRevision},
		{"scheduled_by", row.ScheduledBy}, {"created_at", s.When(&row.CreatedAt)},
		{"last_status_update", s.When(&row.LastStatusUpdate)},
		{"started_at", s.When(row.StartedAt)}, {"node", row.Node}, {"finished_at", s.When(row.FinishedAt)},
		{"archived_at", s.When(row.ArchivedAt)}, {"archived_note", row.ArchivedNote}, {"message", row.Message},
	} {
		value := term.CellOf(field.value)
		if value.Text == "" || field.name == "message" && strings.Contains(value.Text, "\n") {
			continue
		}
		t.Add(field.name, value)
	}
	return t
}

// occurrences returns the number of occurrences of a recurring task, and nil for any other task.
func occurrences(row store.Row) any {
	if row.Cron == nil {
		return nil
	}
	return row.OccurrenceCount
}

// sections prints the fields that take several lines.
func (s *tasksShow) sections(row store.Row) error {
	message := ""
	if row.Message != nil && strings.Contains(*row.Message, "\n") {
		message = *row.Message
	}
	for _, section := range []struct{ name, text string }{
		{"payload", pretty(row.Payload)}, {"result", pretty(row.Result)}, {"message", message},
	} {
		if section.text == "" {
			continue
		}
		fmt.Fprintf(s.Data, "\n%s\n", term.Paint(section.name, term.Bold, s.Colors))
		for line := range strings.SplitSeq(strings.TrimRight(section.text, "\n"), "\n") {
			fmt.Fprintln(s.Data, "  "+term.Printable(line))
		}
	}
	return nil
}

func pretty(body json.RawMessage) string {
	if len(body) == 0 {
		return ""
	}
	var out bytes.Buffer
	if err := json.Indent(&out, body, "", "  "); err != nil {
		return string(body) // cannot happen, because the column is jsonb
	}
	return out.String()
}
