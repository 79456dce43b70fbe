package inspect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/when"
)

const reasonSQL = `
SELECT r.code, coalesce(r.detail, '') AS detail, r.since, r.until, coalesce(r.missing, '') AS missing,
    r.data::text AS data_text
FROM tasktable.reason_of($1::text) AS r`

// reasonRow is a row of the SQL function reason_of.
type reasonRow struct {
	Code    string
	Detail  string
	Since   *time.Time
	Until   *time.Time
	Missing string

	DataText string
	Data     reasonData `db:"-"`
}

// reasonData has the numbers and names that the text of a reason needs.
type reasonData struct {
	Pause   *pauseLife  `json:"pause"`    // the pause that holds the task, for the code paused_scope
	Pauses  []pauseLife `json:"pauses"`   // other pauses that will keep it from running
	Quiet   int         `json:"quiet"`    // quiet nodes
	MayLead bool        `json:"may_lead"` // some node may lead
	Slots   int         `json:"slots"`    // slots of its queue, on nodes that have its type
	Higher  int         `json:"higher"`   // due tasks of a higher priority
	Earlier int         `json:"earlier"`  // due tasks of queues that come first in a strict order
	Equal   int         `json:"equal"`    // due tasks of its priority that are due before it
	Claimed int         `json:"claimed"`  // claimed tasks of its queue

	TypeSlots   *int `json:"type_slots"`   // slots of its type; nil: some of its nodes have no limit
	TypeClaimed int  `json:"type_claimed"` // claimed tasks of its type
	Hung        int  `json:"hung"`         // handlers of its nodes that do not return

	Limit *limitOf   `json:"limit"`  // that is reached, for the code limited
	DueAt *time.Time `json:"due_at"` // when it is due after its pause, for the code paused
}

// maxAhead is the greatest number of tasks before a task that reason_of counts.
const maxAhead = 10_000

func (p pauseLife) String() string { return p.what() + " is paused by " + p.PausedBy }

// limitOf is a limit that is reached.
type limitOf struct {
	Name        string  `json:"name"`
	Scope       string  `json:"scope"`
	ScopeName   string  `json:"scope_name"`
	Per         string  `json:"per"`
	Key         string  `json:"key"` // g: and the group, or t: and the tenant; empty: the limit is for all together
	MaxRunning  *int    `json:"max_running"`
	Running     int     `json:"running"`
	Rate        int     `json:"rate"`
	RateSeconds float64 `json:"rate_seconds"`

	// First is the task that goes first of the group or tenant, and waits for its next attempt. It is "" if the caller
	// may not read it.
	First *string `json:"first"`
}

func (l *limitOf) String() string {
	of := map[string]string{"queue": " of queue " + l.ScopeName, "type": " of type " + l.ScopeName}[l.Scope]
	if len(l.Key) > 2 {
		of += " of " + l.Per + " " + l.Key[2:]
	}
	if l.First != nil {
		first := "another task"
		if *l.First != "" {
			first = "task " + *l.First
		}
		return fmt.Sprintf("waits: %s%s comes first, and waits for its next attempt (limit %s)", first, of, l.Name)
	}
	if l.MaxRunning != nil && l.Running >= *l.MaxRunning {
		return fmt.Sprintf("waits: %d of %d tasks%s run (limit %s)", l.Running, *l.MaxRunning, of, l.Name)
	}
	interval := when.LengthText(time.Duration(l.RateSeconds * float64(time.Second)))
	return fmt.Sprintf("waits, because at most %s%s may start in %s (limit %s)", tasks(l.Rate), of, interval, l.Name)
}

// limited tells of the limit for which a task waits, and of handlers that may hold it for ever.
func (d reasonData) limited() string {
	text := d.Limit.String()
	if d.Limit.MaxRunning == nil || d.Limit.Running < *d.Limit.MaxRunning {
		return text
	}
	return text + some(d.Hung, ", and 1 handler that does not return may hold it until its node is restarted",
		", and %d handlers that do not return may hold it until their nodes are restarted")
}

// text returns the text for the code. It has no times, so that a program can show the times in any zone.
func (r reasonRow) text(row store.Row, known life) string {
	switch r.Code {
	case "not_due":
		return "its time has not come"
	case "retry":
		return known.retry(row)
	case "waits":
		return "its handler puts it off, because something is out of order" + howOften(row.Waits)
	case "in_line":
		return r.Data.line()
	case "limited":
		return r.Data.limited()
	case "expires":
		return "its time is over: it does not run any more, and becomes EXPIRED when the leader comes to it"
	case "running":
		return fmt.Sprintf("attempt %d of %d runs, or is about to", row.Attempt, row.MaxAttempts)
	case "edited":
		return "it was edited while an attempt ran, and runs again when that attempt has ended"
	case "lapsed":
		return "the lease of its claim has ended, and nobody has taken it back yet"
	case "paused_scope":
		return r.Data.Pause.String()
	case "paused":
		return "it is paused" + known.by(r.Code) + stillHeld(row)
	case "recurring":
		return "it waits for its next fire"
	case "planning":
		if row.Message != nil { // only a task that rests has one
			return "it has " + *row.Message + ", and the leader plans it when somebody changes them"
		}
		return "the leader is about to plan its next fire"
	case "firing":
		return "it fires, and the leader is about to make the occurrence that runs"
	case r.Missing:
		return r.lack(row)
	}
	return finishedText(r.Code, row, known)
}

// finishedText returns the text for a task that has ended.
func finishedText(code string, row store.Row, known life) string {
	switch {
	case code == "cancelled":
		return code + known.by(code) + stillHeld(row)
	case code == "skipped" && row.ParentID == nil:
		return "left out"
	case code == "skipped":
		return "this fire of task " + *row.ParentID + " was left out"
	case code == "expired" && row.Attempt == 0:
		return "expired before it could start"
	case code == "expired":
		return fmt.Sprintf("expired before attempt %d of %d could start", row.Attempt+1, row.MaxAttempts)
	case code == "failed" && row.Cron != nil:
		return "its next fire cannot be planned"
	case code == "failed" && row.Attempt == 0:
		return "failed for good before its first attempt"
	case code == "failed" && row.Attempt < row.MaxAttempts:
		return fmt.Sprintf("failed for good at attempt %d of %d", row.Attempt, row.MaxAttempts)
	case code == "failed":
		return fmt.Sprintf("failed for good after %d of %d attempts", row.Attempt, row.MaxAttempts)
	}
	return code
}

// retry tells why the next attempt waits.
func (l *life) retry(row store.Row) string {
	if len(l.executions) > 0 {
		switch last := l.executions[len(l.executions)-1]; last.Outcome {
		case store.AttemptSnoozed:
			return "its handler put it off"
		case store.AttemptRetried:
			return fmt.Sprintf("attempt %d of %d failed, and the next waits for its time",
				last.Attempt, row.MaxAttempts)
		}
	}
	return fmt.Sprintf("attempt %d of %d waits for its time", row.Attempt+1, row.MaxAttempts)
}

// by tells who made the latest change with an outcome, if that is known.
func (l *life) by(outcome string) string {
	for _, change := range slices.Backward(l.changes) {
		if change.Outcome == outcome {
			return " by " + change.ChangedBy
		}
	}
	return ""
}

func stillHeld(row store.Row) string {
	if row.Fence == nil {
		return ""
	}
	return ", and an attempt that had begun has not ended yet"
}

// line tells how many tasks run before a task that is due.
func (d reasonData) line() string {
	text := "it is due, and next to be claimed"
	if d.Earlier+d.Higher+d.Equal > 0 {
		var ahead []string
		if d.Earlier > 0 {
			ahead = append(ahead, tasks(d.Earlier)+" of queues that come first")
		}
		if d.Higher > 0 {
			ahead = append(ahead, tasks(d.Higher)+" of higher priority")
		}
		if d.Equal > 0 {
			ahead = append(ahead, tasks(d.Equal)+" of its priority due before it")
		}
		text = "waits behind "
		if max(d.Earlier, d.Higher+d.Equal) >= maxAhead {
			text += "at least "
		}
		text += strings.Join(ahead, " and ")
	}
	text = fmt.Sprintf("%s, while %d of its queue are claimed for %s", text, d.Claimed, plural(d.Slots, "slot"))
	if d.TypeSlots != nil && d.TypeClaimed >= *d.TypeSlots {
		text += fmt.Sprintf(", and all slots of its type are taken (%d)", *d.TypeSlots)
	}
	return text + some(d.Hung, ", and 1 handler that does not return holds a slot of its nodes",
		", and %d handlers that do not return hold slots of its nodes")
}

// howOften tells how many times something happened.
func howOften(n *int) string {
	if n == nil {
		return ""
	}
	return some(*n, ", once", ", %d times")
}

// some tells a number: nothing of 0, the text for one, or that for several with the number.
func some(n int, one, several string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return one
	}
	return fmt.Sprintf(several, n)
}

func tasks(n int) string { return plural(n, "task") }

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return strconv.Itoa(n) + " " + word + "s"
}

// lack tells what the nodes lack to run the task. It mentions quiet nodes, because one of them may have it.
func (r reasonRow) lack(row store.Row) string {
	text := ""
	switch r.Missing {
	case "no_node":
		text = "no node is running"
	case "no_worker":
		text = "the running nodes only lead, and run no task"
	case "no_type":
		text = "no running node has a handler for type " + row.Type
	case "no_queue":
		text = "no running node works queue " + row.Queue
	case "no_both":
		text = "no running node has both queue " + row.Queue + " and a handler for type " + row.Type
	case "no_leader":
		text = "no running node leads, so nothing is claimed"
		if !r.Data.MayLead {
			text = "no running node may lead, so nothing is claimed"
		}
	}
	return text + some(r.Data.Quiet, " (1 node is quiet)", " (%d nodes are quiet)")
}

// obstacle tells what else will keep the task from running. A running task needs only its own node and the leader.
func (r reasonRow) obstacle(row store.Row) string {
	var found []string
	for _, pause := range r.Data.Pauses {
		found = append(found, pause.String())
	}
	needed := r.Code != "running" || r.Missing == "no_node" || r.Missing == "no_leader"
	if r.Missing != "" && r.Missing != r.Code && needed {
		found = append(found, r.lack(row))
	}
	return strings.Join(found, ", and ")
}
