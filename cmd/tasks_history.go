package cmd

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
)

// historyLine is an edit or an attempt, as text for people.
type historyLine struct {
	at                                            time.Time
	when, event, outcome, by, delay, took, detail string
}

// historyLines returns the edits and the attempts, ordered by time.
func historyLines(c term.Clock, history store.History) []historyLine {
	var lines []historyLine
	for _, change := range history.Changes {
		lines = append(lines, historyLine{
			at:      change.ChangedAt,
			when:    c.Exact(&change.ChangedAt),
			event:   change.Verb,
			outcome: change.Outcome,
			by:      change.ChangedBy,
			detail:  changedText(c, change),
		})
	}
	for _, execution := range history.Executions {
		line := historyLine{
			at:      execution.FinishedAt,
			when:    c.Exact(&execution.FinishedAt),
			event:   fmt.Sprintf("attempt %d", execution.Attempt),
			outcome: string(execution.Outcome),
			by:      "leader",
		}
		if execution.Node != nil {
			line.by = fmt.Sprintf("node %d", *execution.Node)
		}
		if execution.StartedAt != nil {
			line.took = term.Took(execution.FinishedAt.Sub(*execution.StartedAt))
			if execution.DueAt != nil {
				line.delay = term.Took(execution.StartedAt.Sub(*execution.DueAt))
			}
		}
		if execution.Error != nil {
			line.detail = *execution.Error
		}
		lines = append(lines, line)
	}
	slices.SortStableFunc(lines, func(a, b historyLine) int { return a.at.Compare(b.at) })
	return lines
}

func historyTable(lines []historyLine) *term.Table {
	t := term.NewTable("AT", "EVENT", "OUTCOME", "BY", "DELAY", "TOOK", "DETAIL")
	for _, line := range lines {
		t.Add(line.when, line.event, term.Painted(line.outcome), line.by, line.delay, line.took, line.detail)
	}
	return t
}

// changedText says what an edit has changed: "scheduled_at: … → …, queue: …". For a delete it says what the task was.
func changedText(c term.Clock, change store.Change) string {
	was, is := sides(change.Old), sides(change.New)
	if change.New == nil && change.Old != nil {
		return "was " + valueText(c, was["status"]) + ", " + valueText(c, was["scheduled_at"])
	}
	var said []string
	for _, key := range slices.Sorted(maps.Keys(is)) {
		one := key + ": "
		if before, ok := was[key]; ok {
			one += valueText(c, before) + " → "
		}
		said = append(said, one+valueText(c, is[key]))
	}
	return strings.Join(said, ", ")
}

func sides(body json.RawMessage) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return nil // the change has no such side
	}
	return fields
}

const longestValue = 60 // a payload may have 256 KiB

// valueText returns a JSON value as text for people.
func valueText(c term.Clock, body json.RawMessage) string {
	var text string
	if json.Unmarshal(body, &text) != nil {
		return term.Cut(string(body), longestValue)
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return c.Exact(&at)
	}
	return term.Cut(text, longestValue)
}
