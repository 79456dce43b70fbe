package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store"
)

// StoryLine is one thing that happened.
type StoryLine struct {
	At time.Time `json:"at"`
	// Kind is change, due, execution, pause, node, occurrence or follow-up.
	Kind  string `json:"kind"`
	Text  string `json:"text"`
	Facts []Fact `json:"facts,omitempty"`
}

// Fact belongs to a line. Its values are strings, or times (time.Time) and durations (time.Duration, nanoseconds in
// JSON).
type Fact struct {
	Name string `json:"name"`
	// Was is what a changed field was before; nil: nothing, or the fact is no change.
	Was any `json:"was,omitempty"`
	// Value is what it is; nil: nothing any more.
	Value any `json:"value"`
}

// factMost is how much of a value a fact has, in bytes.
const factMost = 200

// tell puts the story together.
func (e *Explanation) tell(known life) {
	e.Shortened = known.shortened
	for _, c := range known.changes {
		e.Story = append(e.Story, changeLine(c))
	}
	if line, ok := known.putOffLine(e.Row); ok {
		e.Story = append(e.Story, line)
	}
	for _, x := range known.executions {
		e.Story = append(e.Story, known.executionLines(x)...)
	}
	if note := known.note(e.Row); note != nil { // the last line so far is that of the last attempt's end
		end := &e.Story[len(e.Story)-1]
		end.Facts = append(end.Facts, Fact{Name: "note", Value: brief(*note, factMost)})
	}
	if e.Row != nil && e.Row.Fence != nil {
		e.Story = append(e.Story, known.claimLines(*e.Row)...)
	}
	for _, o := range known.occurrences {
		e.Story = append(e.Story, occurrenceLine(o))
	}
	for _, f := range known.followUps {
		e.Story = append(e.Story, followUpLine(f))
	}
	for _, w := range known.waits(e) {
		e.Story = append(e.Story, known.around(w)...)
	}
	slices.SortStableFunc(e.Story, func(a, b StoryLine) int { return a.At.Compare(b.At) })
	e.Story = slices.CompactFunc(e.Story, func(a, b StoryLine) bool {
		return a.At.Equal(b.At) && a.Kind == b.Kind &&
			a.Text == b.Text
	})
}

// verbs are what changes are called, by outcome.
var verbs = map[string]string{
	"created": "scheduled", "rescheduled": "edited", "rearmed": "scheduled anew", "cancelled": "cancelled",
	"paused": "paused",
	"queued": "queued", "edited": "edited", "deleted": "deleted", "archived": "archived",
}

// special are verbs that say more than their outcome.
var special = map[string]string{
	"resume": "resumed", "run_now": "run at once", "retry": "retried", "fork": "made, as an occurrence,",
}

func changeLine(c store.Change) StoryLine {
	was, is := decodeFields(c.Old), decodeFields(c.New)
	text := verbs[c.Outcome]
	if said, ok := special[c.Verb]; ok {
		text = said
	}
	if is["status"] == string(store.StatusSkipped) && c.Outcome == "created" {
		text = "left out"
	}
	text += " by " + c.ChangedBy
	switch c.Verb {
	case "again":
		text = "scheduled again by its handler, on " + c.ChangedBy
	case "sql":
		text += ", by plain SQL"
	case "sync", "reconcile":
		text += ", by " + c.Verb
	}
	line := StoryLine{At: c.ChangedAt, Kind: "change", Text: text}
	if c.Outcome == "deleted" {
		was, is = nil, map[string]any{"status": was["status"], "scheduled_at": was["scheduled_at"]}
	}
	fields := map[string]bool{}
	for _, side := range []map[string]any{was, is} {
		for name := range side {
			fields[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch {
		case name == "type" && c.Outcome == "created", name == "status" && c.Outcome != "edited" &&
			c.Outcome != "deleted":
		case name == "payload":
			line.Facts = append(line.Facts, payloadFacts(was[name], is[name])...)
		default:
			line.Facts = append(line.Facts, Fact{Name: name, Was: value(name, was[name]), Value: value(name, is[name])})
		}
	}
	return line
}

// payloadFacts are the fields of the payload that differ.
func payloadFacts(was, is any) (facts []Fact) {
	before, _ := was.(map[string]any)
	after, _ := is.(map[string]any)
	fields := map[string]bool{}
	for _, side := range []map[string]any{before, after} {
		for name := range side {
			fields[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		from, to := value("", before[name]), value("", after[name])
		if encode(before[name]) != encode(after[name]) {
			facts = append(facts, Fact{Name: "payload." + name, Was: from, Value: to})
		}
	}
	return facts
}

// decodeFields reads one side of a change; numbers stay as they are written.
func decodeFields(side json.RawMessage) map[string]any {
	decoder := json.NewDecoder(bytes.NewReader(side))
	decoder.UseNumber()
	var fields map[string]any
	_ = decoder.Decode(&fields) // what the triggers wrote is an object, or null
	return fields
}

func encode(v any) string {
	text, _ := json.Marshal(v) // it came from JSON
	return string(text)
}

// value is a changed field's value for people: a time, or some text.
func value(name string, v any) any {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		if strings.HasSuffix(name, "_at") || strings.HasSuffix(name, "_until") {
			if at, err := time.Parse(time.RFC3339Nano, v); err == nil {
				return at
			}
		}
		return brief(v, factMost)
	}
	return brief(encode(v), factMost)
}

// endings are what becomes of claims, by outcome, behind the attempt's number.
var endings = map[string]string{
	"COMPLETED": "attempt %d completed", "FAILED": "attempt %d failed for good",
	"RETRIED": "attempt %d failed, to be retried",
	"SNOOZED": "attempt %d was put off by its handler, and does not count", "LOST": "attempt %d was lost",
	"SUPERSEDED":  "attempt %d ended, but the task had been edited or cancelled meanwhile: its outcome does not count",
	"INTERRUPTED": "attempt %d was interrupted, and does not count",
	"RELEASED":    "a claim was handed back unstarted, for attempt %d",
	"CANCELLED":   "attempt %d did not begin",
}

// executionLines are when an attempt was due, began, and ended.
func (l *life) executionLines(x store.Execution) (lines []StoryLine) {
	where := ""
	if x.Node != nil {
		where = " on " + l.node(*x.Node)
	}
	if x.StartedAt != nil {
		text := fmt.Sprintf("attempt %d began%s", x.Attempt, where)
		if x.DueAt != nil {
			delay := x.StartedAt.Sub(*x.DueAt)
			text += fmt.Sprintf(", %s after it was due", rounded(delay))
			if delay >= time.Second && !l.madeAfter(x.Revision, *x.DueAt) {
				lines = append(lines, StoryLine{At: *x.DueAt, Kind: "due",
					Text: fmt.Sprintf("attempt %d was due", x.Attempt)})
			}
		}
		lines = append(lines, StoryLine{At: *x.StartedAt, Kind: "execution", Text: text})
		where = "" // said already
	}
	end := StoryLine{At: x.FinishedAt, Kind: "execution", Text: "expired before it could start"}
	if text, ok := endings[x.Outcome]; ok {
		end.Text = fmt.Sprintf(text, x.Attempt) + where
		switch {
		case x.Outcome == "LOST" && x.Error != nil:
			end.Text += ": " + brief(*x.Error, factMost)
		case x.Outcome == "CANCELLED":
			end.Text += ", because the task had been cancelled"
		}
	}
	if x.StartedAt != nil {
		end.Facts = append(end.Facts, Fact{Name: "took", Value: x.FinishedAt.Sub(*x.StartedAt)})
	}
	switch {
	case x.Error == nil, x.Outcome == "LOST", x.Outcome == "EXPIRED", x.Outcome == "CANCELLED": // the text has said it
	case x.Outcome == "RELEASED": // nothing has failed
		end.Facts = append(end.Facts, Fact{Name: "reason", Value: brief(*x.Error, factMost)})
	default:
		end.Facts = append(end.Facts, Fact{Name: "error", Value: brief(*x.Error, factMost)})
	}
	return append(lines, end)
}

// note is what the handler said of the last attempt, which completed; nil: nothing, or the row's message is of
// something else.
func (l *life) note(row *store.Row) *string {
	last := len(l.executions) - 1
	if row == nil || row.Message == nil || *row.Message == "" || last < 0 || l.executions[last].Outcome != "COMPLETED" {
		return nil
	}
	// A handler that schedules its task again leaves its note with the new revision.
	again := len(l.changes) > 0 && l.changes[len(l.changes)-1].Verb == "again" &&
		l.changes[len(l.changes)-1].Revision == row.Revision
	if again || row.Status == store.StatusCompleted && l.executions[last].Revision == row.Revision {
		return row.Message
	}
	return nil
}

// madeAfter says whether a revision was made after a time, for which it then was scheduled late.
func (l *life) madeAfter(revision int64, at time.Time) bool {
	return slices.ContainsFunc(l.changes, func(c store.Change) bool {
		return c.Revision == revision &&
			c.ChangedAt.After(at)
	})
}

// claimLines are of the claim that holds the task now. Its line in the history comes when it ends.
func (l *life) claimLines(row store.Row) (lines []StoryLine) {
	add := func(at time.Time, text string) {
		lines = append(lines, StoryLine{At: at, Kind: "execution",
			Text: fmt.Sprintf("attempt %d ", l.attempt(row)) + text})
	}
	switch {
	case row.Status == store.StatusExecuting:
		add(row.LastStatusUpdate, "was claimed")
	case l.claim != nil:
		add(l.claim.ClaimedAt, "was claimed")
	}
	if l.claim != nil && l.claim.State == "running" && l.claim.Node != nil && l.claim.Since != nil {
		add(*l.claim.Since, "was taken up by "+l.node(*l.claim.Node))
	}
	if startedAt, node, ok := running(row); ok {
		add(startedAt, "began on "+l.node(node))
	}
	return lines
}

// attempt is the number of the attempt that holds the task. After an edit the row counts anew, and River's job has
// the number.
func (l *life) attempt(row store.Row) int {
	if row.Status != store.StatusExecuting && l.claim != nil {
		return l.claim.Attempt
	}
	return row.Attempt
}

func occurrenceLine(o occurrenceLife) StoryLine {
	line := StoryLine{At: o.CreatedAt, Kind: "occurrence", Text: "occurrence " + o.ID + " is " + string(o.Status)}
	if o.Status == store.StatusSkipped {
		line.Text = "occurrence " + o.ID + " was left out"
	}
	if o.StartedAt != nil {
		line.Facts = append(line.Facts, Fact{Name: "started_at", Value: *o.StartedAt})
	}
	if o.FinishedAt != nil && o.Status != store.StatusSkipped {
		line.Facts = append(line.Facts, Fact{Name: "finished_at", Value: *o.FinishedAt})
	}
	if o.Message != nil {
		line.Facts = append(line.Facts, Fact{Name: "message", Value: brief(*o.Message, factMost)})
	}
	return line
}

// running returns when and where the attempt that holds the task started. The node writes both when the attempt has
// run for a second.
func running(r store.Row) (startedAt time.Time, node int64, ok bool) {
	if r.Fence == nil || r.StartedFence == nil || *r.StartedFence != *r.Fence || r.StartedAt == nil || r.Node == nil {
		return startedAt, 0, false
	}
	return *r.StartedAt, *r.Node, true
}
