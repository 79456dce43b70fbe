package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/query"
)

// LateAfter is how long a task must have been due until it is late. A task that waits for something that is out of
// order is due since before it waited. Tasks that a limit, or a pause of everything, of their queue or of their type,
// holds back are not late, because somebody wants that. A fire of a recurring task is late after the same time.
const LateAfter = time.Minute

// Level tells how bad a finding is.
type Level string

// The levels, from good to bad.
const (
	LevelInfo    Level = "info"    // worth knowing, and perhaps wanted
	LevelWarning Level = "warning" // works, but not as it should
	LevelError   Level = "error"   // does not work
)

// Finding is something that needs a person.
type Finding struct {
	// Kind is the Name of a FindingKind.
	Kind  string `json:"kind"`
	Level Level  `json:"level"`
	// Found says it in a sentence, with figures. Do says what to do about it.
	Found string `json:"found"`
	Do    string `json:"do"`
	// Count is how many tasks it is about, or 1. More tells that there are perhaps more. Attention counts up to 10,000.
	Count int  `json:"count"`
	More  bool `json:"more,omitempty"`
	// OldestID and OldestAt are the first of the tasks, and since when it is so. They are nil if it is not about tasks.
	OldestID *string    `json:"oldest_id,omitempty"`
	OldestAt *time.Time `json:"oldest_at,omitempty"`
}

// FindingKind is a kind of findings.
type FindingKind struct {
	Name  string
	Label string // of its card in the dashboard
	Rule  string // such as "due for over a minute"
	Path  string // of the dashboard's list
	List  string // the name of the list

	do     string // what to do, unless the statement tells
	sql    string // its rows are findingRows; $1 is maxCounted
	single bool   // a row is one thing, so the sentence has no count
}

const (
	kindNodes     = "nodes"
	kindRecurring = "recurring"

	maxCounted  = 10000 // up to which number a statement counts
	maxFindings = 10    // of a kind; the last one stands for all others
)

// findingKinds has all kinds, in the order in which people look at them. To add one, add it here.
var findingKinds = []FindingKind{
	{Name: kindNodes, Label: "Nodes", Rule: "missing, silent or hung", Path: "/nodes", List: "Nodes", single: true,
		do: "see the logs of the nodes", sql: nodesFindingsSQL},
	{Name: "late", Label: "Late", Rule: "due for over a minute", List: "Waiting tasks",
		Path: "/tasks?order=scheduled_at&scheduled_to=-1m&status=QUEUED", sql: lateSQL,
		do: "see why the first waits: tasktable why ID; if nodes and leader are well and no limit holds them back, " +
			"the slots are too few or busy: more slots (--queue NAME=…, --type-slots TYPE=…), or more nodes"},
	{Name: "limits", Label: "Limits", Rule: "that due tasks wait for", Path: "/limits", List: "Limits", single: true,
		sql: limitsFindingsSQL},
	{Name: "waiting", Label: "Waiting", Rule: "for something out of order", List: "Tasks put off",
		Path: "/tasks?order=scheduled_at&waiting=true", sql: waitingSQL,
		do: "mend what the message names; the tasks then run by themselves, within twice the time for which a " +
			"circuit is open"},
	{Name: "dead", Label: "Dead letters", Rule: "failed or expired", Path: "/dead", List: "Dead letters", sql: deadSQL,
		do: "tasktable dead list --group; then tasktable dead retry ID, or tasktable dead archive ID --note why"},
	{Name: "paused", Label: "Paused tasks", Rule: "paused one by one", Path: "/tasks?status=PAUSED",
		List: "Paused tasks", do: "tasktable tasks resume ID", sql: pausedSQL},
	{Name: "pauses", Label: "Paused scopes", Rule: "everything, queues, types", Path: "/queues#pauses", List: "Pauses",
		single: true, sql: pausesSQL},
	{Name: "stuck", Label: "Stuck", Rule: "claimed, and the lease has ended", Path: "/tasks?status=EXECUTING",
		List: "Executing tasks", sql: stuckSQL,
		do: "see whether a node leads; if one does, a transaction has locked the rows: " +
			"tasktable doctor --check snapshots"},
	{Name: kindRecurring, Label: "Recurring tasks", Rule: "failing, overdue or not fired", Path: "/recurring",
		List: "Recurring tasks", sql: recurringFindingsSQL,
		do: "tasktable why ID; a node must lead, and the cron and the time zone must be right"},
}

// FindingKinds returns all kinds of findings.
func FindingKinds() []FindingKind { return slices.Clone(findingKinds) }

// findingRow is a row of a kind's statement. In what, {s} is the s of a plural.
type findingRow struct {
	Level    Level
	What     string
	Count    int
	More     bool
	OldestID *string
	OldestAt *time.Time
	Detail   string // after a colon
	Do       string
}

// Attention tells what needs a person, and is nil if nothing does. The dashboard's overview, doctor and stats of the
// command line show its answer. It reads the indexes of waiting and rare tasks, and up to 500 recurring tasks. It needs
// the right to read the table nodes, which the application role of `tasktable migrate roles` does not have.
func (i *Inspector) Attention(ctx context.Context, db store.DB) (all []Finding, err error) {
	for _, kind := range findingKinds {
		rows, err := query.Collect[findingRow](ctx, i.source, db, "find "+kind.Name, kind.sql, strconv.Itoa(maxCounted))
		if err != nil {
			return nil, err
		}
		var found []Finding
		for _, row := range rows {
			found = append(found, kind.finding(row))
		}
		if kind.Name == kindRecurring {
			tasks, err := i.RecurringTrouble(ctx, db)
			if err != nil {
				return nil, err
			}
			for _, task := range tasks {
				found = append(found, kind.trouble(task))
			}
		}
		all = append(all, kind.shortened(found)...)
	}
	return all, nil
}

func (k FindingKind) finding(row findingRow) Finding {
	found := Finding{Kind: k.Name, Level: row.Level, Found: row.What, Do: cmp.Or(row.Do, k.do), Count: row.Count,
		More: row.More, OldestID: row.OldestID, OldestAt: row.OldestAt}
	if !k.single {
		count, plural := strconv.Itoa(row.Count), "s"
		if row.Count == 1 {
			plural = ""
		}
		if found.More {
			count += " or more"
		}
		found.Found = count + " " + strings.Replace(row.What, "{s}", plural, 1)
	}
	if row.OldestID != nil && row.OldestAt != nil {
		found.Found += fmt.Sprintf(", the first (%s) since %s", *row.OldestID, row.OldestAt.UTC().Format(time.RFC3339))
	}
	if row.Detail != "" {
		found.Found += ": " + row.Detail
	}
	// Ids and messages are texts of other people.
	apart := func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }
	found.Found = strings.Join(strings.FieldsFunc(found.Found, apart), " ")
	return found
}

// trouble is the finding of a recurring task that is failing or overdue.
func (k FindingKind) trouble(task RecurringTask) Finding {
	what := fmt.Sprintf("recurring task{s} %s", task.Health)
	if task.FailuresInARow > 0 {
		what += fmt.Sprintf(", %d failures in a row", task.FailuresInARow)
	}
	row := findingRow{Level: LevelWarning, What: what, Count: 1, OldestID: &task.ID, OldestAt: task.LastFailure}
	if task.LastFailure == nil {
		row.OldestAt = &task.StartsAt
		if task.LastSuccess != nil {
			row.OldestAt = task.LastSuccess
		}
	}
	if task.LastError != nil {
		row.Detail = *task.LastError
	}
	return k.finding(row)
}

// shortened puts one finding in the place of the many at the end.
func (k FindingKind) shortened(found []Finding) []Finding {
	if len(found) <= maxFindings {
		return found
	}
	last := found[maxFindings-1]
	last.Found = fmt.Sprintf("%d findings more about %s", len(found)-maxFindings+1, strings.ToLower(k.Label))
	for _, one := range found[maxFindings:] {
		last.Count, last.More = last.Count+one.Count, last.More || one.More
	}
	return append(found[:maxFindings-1:maxFindings-1], last)
}
