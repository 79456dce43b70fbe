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
	"github.com/tasktable/tasktable/store/form"
)

// StoryLine is one event in the story of a task.
type StoryLine struct {
	At time.Time `json:"at"`
	// Kind is change, due, execution, pause, node, occurrence or follow-up.
	Kind  string `json:"kind"`
	Text  string `json:"text"`
	Facts []Fact `json:"facts,omitempty"`
}

// Fact is a detail of a StoryLine. Its values are strings, times (time.Time) or durations (time.Duration, nanoseconds
// in JSON).
type Fact struct {
	Name string `json:"name"`
	// Was is the former value of a changed field. Nil means that the field had no value, or that the fact is no
	// change.
	Was any `json:"was,omitempty"`
	// Value is the present value. Nil means that the field has no value any more.
	Value any `json:"value"`
}

// factMost is the greatest length of a value in a fact, in bytes.
const factMost = 200

// tell writes the story.
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
	if note := known.note(e.Row); note != nil { // the last line so far is the end of the last attempt
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
		return a.At.Equal(b.At) && a.Kind == b.Kind && a.Text == b.Text
	})
}

// verbs has the words for a change, by its outcome.
var verbs = map[string]string{
	"created": "scheduled", "rescheduled": "edited", "rearmed": "scheduled anew", "cancelled": "cancelled",
	"paused": "paused",
	"queued": "queued", "edited": "edited", "deleted": "deleted", "archived": "archived",
	"moved": "next fire moved or left out by a change of a calendar",
}

// special has the words for the verbs that say more than their outcome.
var special = map[string]string{
	"resume": "resumed", "run_now": "run at once", "retry": "retried", "fork": "made, as an occurrence,",
}

func changeLine(c store.Change) StoryLine {
	was, is := decodeFields(c.Old), decodeFields(c.New)
	text := verbs[c.Outcome]
	if said, ok := special[c.Verb]; ok {
		text = said
	}
	switch {
	case is["status"] == string(store.StatusSkipped) && c.Outcome == "created":
		text = "left out"
	case c.Outcome == string(store.RunsAgain):
		text = "asked to run once more"
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
	for _, name := range fieldsOf(was, is) {
		switch {
		case name == "type" && c.Outcome == "created", name == "status" && c.Outcome != "edited" &&
			c.Outcome != "deleted":
		case name == "payload":
			line.Facts = append(line.Facts, payloadFacts(was[name], is[name])...)
		default:
			line.Facts = append(line.Facts, Fact{Name: name, Was: shown(name, was[name]), Value: shown(name, is[name])})
		}
	}
	return line
}

// payloadFacts returns the fields of the payload that differ.
func payloadFacts(was, is any) (facts []Fact) {
	before, _ := was.(map[string]any)
	after, _ := is.(map[string]any)
	for _, name := range fieldsOf(before, after) {
		from, to := shown("", before[name]), shown("", after[name])
		if encode(before[name]) != encode(after[name]) {
			facts = append(facts, Fact{Name: "payload." + name, Was: from, Value: to})
		}
	}
	return facts
}

// fieldsOf returns the names of the fields that one of the sides has, sorted.
func fieldsOf(was, is map[string]any) []string {
	both := map[string]any{}
	maps.Copy(both, was)
	maps.Copy(both, is)
	return slices.Sorted(maps.Keys(both))
}

// decodeFields reads the old or the new side of a change. Numbers stay as they are written.
func decodeFields(side json.RawMessage) map[string]any {
	decoder := json.NewDecoder(bytes.NewReader(side))
	decoder.UseNumber()
	var fields map[string]any
	_ = decoder.Decode(&fields) // the triggers write an object or null
	return fields
}

func encode(v any) string {
	text, _ := form.Encode(v, "") // v came from JSON, so that it can be encoded
	return string(text)
}

// shown returns the value of a changed field for people: a time, or a text.
func shown(name string, v any) any {
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

// endings has the texts for the end of a claim, by its outcome.
var endings = map[store.AttemptOutcome]string{
	store.AttemptCompleted: "attempt %d completed",
	store.AttemptFailed:    "attempt %d failed for good",
	store.AttemptRetried:   "attempt %d failed, to be retried",
	store.AttemptSnoozed:   "attempt %d was put off by its handler, and does not count",
	store.AttemptLost:      "attempt %d was lost",
	store.AttemptSuperseded: "attempt %d ended, but the task had been edited or cancelled meanwhile: " +
		"its outcome does not count",
	store.AttemptInterrupted: "attempt %d was interrupted, and does not count",
	store.AttemptReleased:    "a claim was handed back unstarted, for attempt %d",
	store.AttemptCancelled:   "attempt %d did not begin",
}

// executionLines tells when an attempt was due, began and ended.
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
		where = "" // the line before has it
	}
	end := StoryLine{At: x.FinishedAt, Kind: "execution", Text: "expired before it could start"}
	if text, ok := endings[x.Outcome]; ok {
		end.Text = fmt.Sprintf(text, x.Attempt) + where
		switch {
		case x.Outcome == store.AttemptLost && x.Error != nil:
			end.Text += ": " + brief(*x.Error, factMost)
		case x.Outcome == store.AttemptCancelled:
			end.Text += ", because the task had been cancelled"
		}
	}
	if x.StartedAt != nil {
		end.Facts = append(end.Facts, Fact{Name: "took", Value: x.FinishedAt.Sub(*x.StartedAt)})
	}
	switch {
	case x.Error == nil, x.Outcome == store.AttemptLost, x.Outcome == store.AttemptExpired,
		x.Outcome == store.AttemptCancelled: // the text has it
	case x.Outcome == store.AttemptReleased: // it is no error
		end.Facts = append(end.Facts, Fact{Name: "reason", Value: brief(*x.Error, factMost)})
	default:
		end.Facts = append(end.Facts, Fact{Name: "error", Value: brief(*x.Error, factMost)})
	}
	return append(lines, end)
}

// note returns the handler's note about the last attempt, which completed. It returns nil if there is none, or if the
// row's message is about something else.
func (l *life) note(row *store.Row) *string {
	last := len(l.executions) - 1
	if row == nil || row.Message == nil || *row.Message == "" || last < 0 ||
		l.executions[last].Outcome != store.AttemptCompleted {
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

// madeAfter reports whether a revision was made after a time. A task that was due at that time was then scheduled
// late.
func (l *life) madeAfter(revision int64, at time.Time) bool {
	return slices.ContainsFunc(l.changes, func(c store.Change) bool {
		return c.Revision == revision && c.ChangedAt.After(at)
	})
}

// claimLines tells about the claim that holds the task now. The history has no row of a claim until it ends.
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
		add(*l.claim.Since, "was fetched by "+l.node(*l.claim.Node))
	}
	if startedAt, node, ok := running(row); ok {
		add(startedAt, "began on "+l.node(node))
	}
	return lines
}

// attempt returns the number of the attempt that holds the task. After an edit the row counts anew, so that only
// River's job has the number.
func (l *life) attempt(row store.Row) int {
	if row.Status != store.StatusExecuting && l.claim != nil {
		return l.claim.Attempt
	}
	return row.Attempt
}

func occurrenceLine(o Occurrence) StoryLine {
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

// running returns when and where the attempt that holds the task started. It knows this only if the attempt has run
// for a second, because the node writes both then.
func running(r store.Row) (startedAt time.Time, node int64, ok bool) {
	if r.Fence == nil || r.StartedFence == nil || *r.StartedFence != *r.Fence || r.StartedAt == nil || r.Node == nil {
		return startedAt, 0, false
	}
	return *r.StartedAt, *r.Node, true
}
