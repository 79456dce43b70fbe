package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/query"
)

// Reason tells why a task does not run, or that it ran. Its texts have no times, so that a program can show the times
// in any zone.
type Reason struct {
	// Code is a code of the view task_reasons. The view has no code for some tasks. For these Code is completed if
	// the task ran, and deleted or removed if the task no longer exists. For an unknown id it is never_scheduled, or
	// no_fire for an occurrence whose recurring task has not fired at that time.
	Code string `json:"code"`
	// Text is the reason in words.
	Text string `json:"text"`
	// Detail is the last error, or the reason that somebody gave. It may be long. "" means that there is none.
	Detail string `json:"detail,omitempty"`
	// Since is the time since which the reason holds, or at which the task ended. Nil means that it is unknown.
	Since *time.Time `json:"since,omitempty"`
	// Until is the time until which the reason holds if nothing changes. Nil means until something else happens.
	Until *time.Time `json:"until,omitempty"`
	// Obstacle tells which other pauses and which missing nodes will keep the task from running if nothing changes.
	// It is "" if there are none.
	Obstacle string `json:"obstacle,omitempty"`
	// Missing tells what the nodes lack to run the task, even while the task waits for something else. It is no_node,
	// no_worker, no_type, no_queue, no_both or no_leader, or "" if the nodes can run the task.
	Missing string `json:"missing,omitempty"`
	// Further is another important time, or nil. It is the time at which the task expires if that is before it can
	// run, at which a dead letter was archived, at which a deleted task had completed, or at which the running
	// attempt began.
	Further *Moment `json:"further,omitempty"`
	// FollowUp tells which work that the task handed over to follow-ups is not done. "" means none.
	FollowUp string `json:"follow_up,omitempty"`
	// Elsewhere tells which running nodes have the command or the statement that the task names, if it failed on a node
	// without it. "" means that the task did not fail for that reason.
	Elsewhere string `json:"elsewhere,omitempty"`
	// Late tells why the task started late, or did not start before it expired. Nil means that it was not late.
	Late *Lateness `json:"late,omitempty"`
	// Trouble tells that the occurrences of a recurring task fail, or that it has not succeeded for two intervals. Nil
	// means that its health is neither HealthFailing nor HealthOverdue.
	Trouble *Trouble `json:"trouble,omitempty"`
}

// Moment is a time and the words that come before it.
type Moment struct {
	Text string    `json:"text"`
	At   time.Time `json:"at"`
}

// detailMost is the greatest length of an error in a sentence, in bytes.
const detailMost = 300

// times has, for each code, the words before since and until. The defaults are "since" and "until".
var times = map[string][2]string{
	"completed": {"at"}, "cancelled": {"at"}, "failed": {"at"}, "skipped": {"at"}, "expired": {"at"}, "deleted": {"at"},
	"removed": {"at"}, "no_node": {"the last that is known of one is of"},
	"running": {"claimed at", "its lease ends at"}, "edited": {"", "its lease ends at"},
	"not_due": {"", "due at"}, "retry": {"", "due at"}, "recurring": {"", "which makes an occurrence at"},
	"waits":   {"was due at", "tried again at"},
	"in_line": {"due since"}, "limited": {"due since", "the next may start at"}, "firing": {"due since"},
	"no_fire": {"", "the next is at"},
}

// Sentence returns the reason in one sentence without a full stop. It calls at to format the times.
func (r Reason) Sentence(at func(time.Time) string) string {
	words := times[r.Code]
	if words[0] == "" {
		words[0] = "since"
	}
	if words[1] == "" {
		words[1] = "until"
	}
	text := r.Text
	news := r.Code == "recurring" && r.Trouble != nil // that a recurring task waits for its next fire is none
	if news {
		text = r.Trouble.sentence(at) + "; " + text
	}
	if r.Since != nil {
		text += join(words[0], " ") + at(*r.Since)
	}
	if r.Until != nil {
		text += ", " + words[1] + " " + at(*r.Until)
	}
	if r.Detail != "" {
		text += ": " + brief(r.Detail, detailMost)
	}
	if r.Late != nil {
		text += "; " + r.Late.sentence(at)
	}
	if r.Elsewhere != "" {
		text += "; " + r.Elsewhere
	}
	if r.Trouble != nil && !news {
		text += "; " + r.Trouble.sentence(at)
	}
	if r.Obstacle != "" {
		text += "; besides, " + r.Obstacle
	}
	if r.FollowUp != "" {
		text += "; " + r.FollowUp
	}
	if r.Further != nil {
		text += "; " + r.Further.Text + " " + at(r.Further.At)
	}
	return text
}

func join(word, after string) string {
	if word == "at" {
		return " at" + after
	}
	return ", " + word + after
}

// brief returns the first line of a text. It cuts the line off if it is longer than most bytes.
func brief(text string, most int) string {
	line, _, more := strings.Cut(strings.TrimSpace(text), "\n")
	if len(line) > most {
		line, more = line[:most], true
		for !utf8.ValidString(line) {
			line = line[:len(line)-1]
		}
	}
	if more {
		line = strings.TrimRight(line, " \r") + " …"
	}
	return line
}

// minNotBegun is how long a node must have had a task before the reason says that it has not begun. It is more than a
// second, because a node writes the start of a handler only when the handler has run for a second.
const minNotBegun = 5 * time.Second

// reason finds out why the task does not run.
func (i *Inspector) reason(ctx context.Context, db store.DB, e *Explanation, known life) error {
	switch {
	case e.Row == nil && (len(known.changes) > 0 || len(known.executions) > 0):
		e.Reason = known.gone()
		return nil
	case e.Row == nil:
		return i.unknown(ctx, db, e)
	}
	found, err := query.Collect[reasonRow](ctx, i.source, db, "explain task "+e.ID, reasonSQL, e.ID)
	if err != nil {
		return err
	}
	if len(found) == 0 { // COMPLETED, perhaps only since its row was read
		e.Reason = known.completed(*e.Row)
		return nil
	}
	r := found[0]
	if err := json.Unmarshal([]byte(r.DataText), &r.Data); err != nil {
		return fmt.Errorf("explain task %s: %w", e.ID, err)
	}
	e.Reason = Reason{Code: r.Code, Text: r.text(*e.Row, known), Detail: r.Detail, Since: r.Since, Until: r.Until,
		Obstacle: r.obstacle(*e.Row), Missing: r.Missing}
	e.due = r.Data.DueAt
	if e.Reason.Elsewhere, err = i.elsewhere(ctx, db, *e.Row, r.Detail, known.mayRead); err != nil {
		return err
	}
	if e.Row.ArchivedAt != nil {
		e.Reason.Further = &Moment{"archived" + known.by("archived") + " at", *e.Row.ArchivedAt}
	}
	if e.Row.Cron != nil {
		return i.trouble(ctx, db, e)
	}
	if startedAt, node, ok := running(*e.Row); ok && (r.Code == "running" || r.Code == "edited" || r.Code == "lapsed") {
		if r.Code == "running" {
			e.Reason.Text = fmt.Sprintf("attempt %d of %d runs on %s",
				e.Row.Attempt, e.Row.MaxAttempts, known.node(node))
		}
		e.Reason.Further = &Moment{"it began at", startedAt}
		return nil
	}
	switch {
	case r.Code == "expired" && e.Row.FinishedAt != nil:
		e.Reason.Late = known.late(*e.Row, known.due(*e.Row), *e.Row.FinishedAt)
	case r.Code == "running" && known.claim != nil && known.claim.State == "running" && known.claim.Node != nil:
		e.Reason.Text = fmt.Sprintf("attempt %d of %d is with %s",
			e.Row.Attempt, e.Row.MaxAttempts, known.node(*known.claim.Node))
		if since := known.claim.Since; since != nil && e.At.Sub(*since) >= minNotBegun {
			e.Reason.Text += ", and is not known to have begun: " +
				"it probably waits there for a slot, a connection or a lock"
		}
	case r.Code == "running" && known.unfetched():
		e.Reason.Text = fmt.Sprintf("attempt %d of %d is claimed, and no node has fetched it yet",
			e.Row.Attempt, e.Row.MaxAttempts)
		if e.Reason.unworked() {
			e.Reason.Text += ", because no running node works its queue and its type"
		}
	}
	return nil
}

// unworked reports whether nodes run, but none of them has both the task's queue and its type.
func (r Reason) unworked() bool {
	return slices.Contains([]string{"no_worker", "no_type", "no_queue", "no_both"}, r.Missing)
}

// unfetched reports whether the task is claimed, but no node has fetched it.
func (l *life) unfetched() bool { return l.claim != nil && l.claim.State == "available" }

// node returns the name of a node. If the node is not known any more, the name is only its number.
func (l *life) node(number int64) string {
	if node, ok := l.nodes[number]; ok {
		return node.String()
	}
	return fmt.Sprintf("node %d", number)
}

// completed tells when and where the task ran, and how late.
func (l *life) completed(row store.Row) Reason {
	r := Reason{Code: "completed", Text: "completed", Since: row.FinishedAt, Detail: ""}
	if row.Cron != nil {
		r.Text, r.Detail = "this recurring task has ended", query.OrEmpty(row.Message)
		return r
	}
	for _, x := range slices.Backward(l.executions) {
		if x.Outcome != store.AttemptCompleted {
			continue
		}
		r.Text = fmt.Sprintf("completed by attempt %d of %d", x.Attempt, row.MaxAttempts)
		if x.Node != nil {
			r.Text += " on " + l.node(*x.Node)
		}
		r.Since = &x.FinishedAt
		if x.DueAt != nil && x.StartedAt != nil {
			r.Late = l.late(row, *x.DueAt, *x.StartedAt)
		}
		break
	}
	return r
}

// gone returns the reason for a task that has a history, but no row.
func (l *life) gone() Reason {
	var ran *Moment
	for _, x := range l.executions {
		if x.Outcome == store.AttemptCompleted {
			ran = &Moment{"it had completed at", x.FinishedAt}
		}
	}
	if len(l.changes) > 0 {
		if last := l.changes[len(l.changes)-1]; last.Outcome == "deleted" {
			return Reason{Code: "deleted", Text: "deleted by " + last.ChangedBy, Since: &last.ChangedAt, Further: ran}
		}
	}
	return Reason{Code: "removed", Text: "the task no longer exists", Further: ran}
}

// named are the types whose payload names something in the configuration of nodes, with the field that has the name. A
// node announces the type TYPE:NAME for each name that it has.
var named = map[string]string{"EXEC": "command", "RUN_SQL": "statement"}

// NamedIn returns what a payload names in the configuration of nodes: the field, such as command, the name, and the
// type that the nodes with the name announce, such as EXEC:backup. They are empty for a payload that names nothing.
func NamedIn(taskType string, payload json.RawMessage) (field, name, announced string) {
	if field = named[taskType]; field == "" {
		return "", "", ""
	}
	var fields map[string]any
	if err := json.Unmarshal(payload, &fields); err != nil {
		return "", "", "" // a sealed payload
	}
	name, _ = fields[field].(string)
	return field, name, taskType + ":" + name
}

const nodesWithTypeSQL = `
SELECT n.number, n.service, n.version, n.host, n.started_at, NULL::timestamptz AS gone_at, true AS able
FROM tasktable.nodes AS n WHERE n.dead_at IS NULL AND $1::text = ANY (n.types)
ORDER BY n.number LIMIT 1000`

// elsewhere tells which running nodes have what a failed task names, if the task failed on a node that lacks it. It
// returns "" for other tasks, and for a role that may not read the nodes.
func (i *Inspector) elsewhere(
	ctx context.Context, db store.DB, row store.Row, detail string, may mayRead,
) (string, error) {
	field, name, kind := NamedIn(row.Type, row.Payload)
	if field == "" || !may.Nodes || !strings.HasPrefix(detail, "this node has no "+field+" ") {
		return "", nil
	}
	nodes, err := query.Collect[nodeLife](ctx, i.source, db, "explain task "+row.ID, nodesWithTypeSQL, kind)
	switch {
	case err != nil:
		return "", err
	case len(nodes) == 0:
		return "no running node has " + field + " " + name, nil
	case len(nodes) == 1:
		return fmt.Sprintf("%s has %s %s, and runs tasks of type %s", nodes[0], field, name, kind), nil
	}
	return fmt.Sprintf("%d running nodes have %s %s, and run tasks of type %s", len(nodes), field, name, kind), nil
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
