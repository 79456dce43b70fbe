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

// historyLine is an edit or an attempt, as a row of a table.
type historyLine struct {
	at    time.Time
	cells []any
}

// historyLines returns the edits and the attempts, ordered by time.
func historyLines(c term.Clock, history store.History) (lines []historyLine) {
	for _, change := range history.Changes {
		lines = append(lines, historyLine{change.ChangedAt, []any{c.Exact(&change.ChangedAt), change.Verb,
			term.Painted(change.Outcome), change.ChangedBy, "", "", changedText(c, change)}})
	}
	for _, execution := range history.Executions {
		by, delay, took := "leader", "", ""
		if execution.Node != nil {
			by = fmt.Sprintf("node %d", *execution.Node)
		}
		if execution.StartedAt != nil {
			took = term.Took(execution.FinishedAt.Sub(*execution.StartedAt))
			if execution.DueAt != nil {
				delay = term.Took(execution.StartedAt.Sub(*execution.DueAt))
			}
		}
		lines = append(lines, historyLine{execution.FinishedAt, []any{c.Exact(&execution.FinishedAt),
			fmt.Sprintf("attempt %d", execution.Attempt), term.Painted(string(execution.Outcome)), by, delay, took,
			execution.Error}})
	}
	slices.SortStableFunc(lines, func(a, b historyLine) int { return a.at.Compare(b.at) })
	return lines
}

func historyTable(lines []historyLine) *term.Table {
	t := term.NewTable("AT", "EVENT", "OUTCOME", "BY", "DELAY", "TOOK", "DETAIL")
	for _, line := range lines {
		t.Add(line.cells...)
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
