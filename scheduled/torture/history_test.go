//go:build unix

package torture

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/tasktable/tasktable/store"
)

// history is all the evidence of a run. Checks are functions of it alone.
type history struct {
	Audit      []*auditRow
	Lines      []line
	Effects    []effect
	Ops        []*opRow
	Executions []*execution // as they were written
	Kept       []kept       // those that are there at the end
	Causes     []cause      // of notices
	Nodes      []nodeRow
	Tasks      []taskRow
	Changes    []int64 // the numbers of the lines of changes
	Entries    []*entry
	Pauses     []pauseEntry
	Received   []received      // HTTP requests of tasks
	Events     map[lineKey]int // how many times a client of the API got the event of a line; nil: none followed them
	Runs       []*run
	Processes  []life
	Dead       []mark // the calls of OnDead
	Stalls     []span
	Quiets     []span // when nodes were quiet: from when they had said so until they were told to go on, or zero
	Faults     []fault
	Unfinished []string // tasks that were left to do, if the nodes did not come to an end in time
	Jobs       []string // River jobs that were left
	Sessions   []string // sessions that were left in a transaction
	Wrong      []string // what nodes did wrong when they stopped, or ended by themselves
	Short      bool     // it is as long as a run of make test
	Began      time.Time
	Calmed     time.Time                 // when the last fault was over and the writers had stopped
	Patience   time.Duration             // how long the nodes had from then on
	Quiet      time.Time                 // when nothing was left to do; zero: not in time
	Until      time.Time                 // when the evidence was collected
	Unserved   map[string]bool           // types that no node has
	Working    map[string]string         // by type: the nodes that have it; nil: all of them have all
	Slots      int                       // of all nodes for the queue default
	SlotsEach  int                       // of one
	TypeSlots  map[string]map[string]int // by node and type: how many of a type it may run at once
	Limits     map[string]int            // by type: how many all nodes together may run at once
	// GroupLimits is how many tasks of each group of a type they may run.
	GroupLimits map[string]int
	// GroupRates is how many tasks of each group of a type may start in a second, with a burst of rateBurst.
	GroupRates   map[string]int
	GroupWeights map[string]store.Weights // by type

	index  *index
	waited map[pool][]latency
}

// auditRow is a change of a task's row.
type auditRow struct {
	Seq         int64
	At          time.Time // when it was made, before its transaction was committed
	Began       time.Time // its transaction
	TxID        int64
	Backend     int
	App         string
	Leads       *bool // of a claim: the connection held the leader's lock
	Op          string
	ID          string
	Type        string
	Queue       string
	Parent      *string
	Recurs      bool
	OldStatus   *string
	Status      *string
	OldRevision *int64
	Revision    *int64
	OldFence    *int64
	Fence       *int64
	OldAttempt  *int
	Attempt     *int
	OldNext     *time.Time
	Next        *time.Time
	OldHeld     *time.Time
	Held        *time.Time
	Priority    int
	FirstDue    time.Time // the time asked for, or when run_now asked
	Asked       time.Time // the time asked for
	Expires     *time.Time
	MaxAttempts int
	Expected    time.Duration
	Does        string // what the payload asks for
	Nonce       int64  // of the payload
	Sum         string // of the whole payload
	Entity      *string
	Message     *string
	Told        *string    // what the result says
	Until       *time.Time // of a paused task: until when
	Bad         int        // of an HTTP request: up to which attempt its receiver behaves badly
	Response    *string    // of an HTTP request: the status, whether the body was cut, and its length
	Waits       int        // how many times in a row it has waited for its host
	Again       *time.Time // since when it is to run once more after its attempt
	IfDead      *int64     // the nonce of the task that is scheduled if it dies; nil: none is
}

// claims says whether the change is a claim: a fence where there was none, or another.
func (a *auditRow) claims() bool {
	return a.Fence != nil && (a.OldFence == nil || *a.OldFence != *a.Fence)
}

// releases says whether the change ends a hold.
func (a *auditRow) releases() bool {
	return a.OldFence != nil && (a.Fence == nil || *a.Fence != *a.OldFence)
}

// edits says whether the change draws a revision, or deletes.
func (a *auditRow) edits() bool {
	return a.Op != "UPDATE" || *a.Revision != *a.OldRevision
}

// turns says whether the change pauses a claimed task, or ends its pause: that draws no revision.
func (a *auditRow) turns() bool {
	return a.Op == "UPDATE" && !a.edits() && a.Fence != nil && a.OldFence != nil && *a.Fence == *a.OldFence &&
		*a.Status != *a.OldStatus
}

// pauses says whether the change pauses or resumes a plain task that waits, which keeps its attempts. A run_now that
// ends a pause looks alike.
func (a *auditRow) pauses() bool {
	return a.Op == "UPDATE" && a.edits() && a.Fence == nil && a.OldFence == nil && !a.Recurs &&
		(*a.OldStatus == "PAUSED" && (*a.Status == "QUEUED" || *a.Status == "PAUSED") ||
			*a.OldStatus == "QUEUED" && *a.Status == "PAUSED")
}

// pausesClaim says whether a claimed task is paused after the change, which draws no revision: until another
// time, for example.
func (a *auditRow) pausesClaim() bool {
	return a.Op == "UPDATE" && a.Fence != nil && *a.Status == "PAUSED"
}

// wasCurrent says whether the row, before the change, was still that of a claim: a pause of a claim leaves it so.
func (a *auditRow) wasCurrent(c *auditRow) bool {
	return (*a.OldStatus == "EXECUTING" || *a.OldStatus == "PAUSED") && *a.OldRevision == *c.Revision
}

// retired says whether retention removed the task.
func (a *auditRow) retired() bool { return a.Op == "DELETE" && !a.byWriter() }

// becomes says whether the status becomes this one.
func (a *auditRow) becomes(status string) bool {
	return a.Status != nil && *a.Status == status && (a.OldStatus == nil || *a.OldStatus != status)
}

// line is a line of one of the two histories, as a trigger saw it written.
type line struct {
	Seq      int64
	At       time.Time
	TxID     int64
	History  string
	Op       string
	Number   int64 // a fence, or a revision
	TaskID   string
	Revision int64
	Hash     string
}

// taskRow is a task as it is at the end.
type taskRow struct {
	ID       string
	Status   string
	Revision int64
	Fence    *int64
}

type effect struct {
	TaskID string
	Fence  int64
	TxID   int64
}

type opRow struct {
	Op       int64
	TaskID   string
	Verb     string
	Outcome  string
	Revision int64
	TxID     int64
}

// execution is a line of scheduled_task_executions as it was written.
type execution struct {
	Fence       int64
	TaskID      string
	Type        string
	Revision    int64
	Attempt     int
	ScheduledAt time.Time
	DueAt       *time.Time
	StartedAt   *time.Time
	FinishedAt  time.Time
	Outcome     string
	Error       *string
	Node        *int64
}

// kept is a line of scheduled_task_executions as it is at the end.
type kept struct {
	Fence int64
	Hash  string
}

// cause is a death that a notice tells.
type cause struct {
	Fence     int64
	TaskID    string
	Event     string
	Scheduled bool // its notice is in the table
}

// nodeRow is which process a node's number is of.
type nodeRow struct {
	Number int64
	PID    int
}

// run is one call of a handler.
type run struct {
	mark
	PID    int
	Asks   []mark    // what the handler asked of the engine, in order
	End    *mark     // nil: the process ended before the handler
	Latest time.Time // when it had surely begun to be over: at its end, or when its process was about to be killed
}

// life is a process.
type life struct {
	PID     int
	Slot    string
	From    time.Time
	Until   time.Time // when it was about to be killed, or had ended
	Journal string
}

// span is a time during which a process did not get on.
type span struct {
	PID      int
	From, To time.Time
}

// violation is a broken promise.
type violation struct {
	Check string
	ID    string // of the task; "": it is not about one
	What  string
}

// reportFunc notes that a promise was broken. id is of the task; "": it is not about one.
type reportFunc func(id, format string, args ...any)

// about reports what is wrong with one thing, each time behind the text that names it.
func (wrong reportFunc) about(id, name string, args ...any) func(format string, args ...any) {
	return func(format string, more ...any) {
		wrong(id, "%s%s", fmt.Sprintf(name, args...), fmt.Sprintf(format, more...))
	}
}

func (v violation) String() string {
	if v.ID == "" {
		return v.Check + ": " + v.What
	}
	return v.Check + ": " + v.ID + ": " + v.What
}

// index is a history sorted for looking up.
type index struct {
	byID       map[string][]*auditRow
	claims     map[int64]*auditRow
	releases   map[int64]*auditRow
	executions map[int64]*execution
	kept       map[int64]string // the sums of the lines of executions that are there at the end
	nodes      map[int64]int    // by number: the process
	written    map[int64]*line  // executions as they were written, by fence
	folded     map[int64]bool   // claims that need no line, because their tasks went on waiting
	runs       map[int64][]*run
	known      map[int64]time.Time // by transaction: when it was surely committed, as far as is known
	entryOf    map[int64]*entry    // by op
	opsOf      map[int64][]*opRow  // by op
	byTask     map[string][]*entry // the writers' transactions, by task; nil: not looked for yet
}

// in indexes the history, once.
func (h *history) in() *index {
	if h.index != nil {
		return h.index
	}
	x := &index{
		byID: map[string][]*auditRow{}, claims: map[int64]*auditRow{}, releases: map[int64]*auditRow{},
		executions: map[int64]*execution{}, kept: map[int64]string{}, nodes: map[int64]int{},
		written: map[int64]*line{}, folded: map[int64]bool{}, runs: map[int64][]*run{},
		known: map[int64]time.Time{}, entryOf: map[int64]*entry{}, opsOf: map[int64][]*opRow{},
	}
	slices.SortStableFunc(h.Audit, func(a, b *auditRow) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, a := range h.Audit {
		x.byID[a.ID] = append(x.byID[a.ID], a)
		if a.claims() {
			x.claims[*a.Fence] = a
		}
		if a.releases() {
			x.releases[*a.OldFence] = a
		}
	}
	for _, e := range h.Executions {
		x.executions[e.Fence] = e
	}
	for _, k := range h.Kept {
		x.kept[k.Fence] = k.Hash
	}
	for _, n := range h.Nodes {
		x.nodes[n.Number] = n.PID
	}
	for i := range h.Lines {
		if l := &h.Lines[i]; l.History == "executions" && l.Op == "INSERT" {
			x.written[l.Number] = l
		}
	}
	for _, r := range h.Runs {
		x.runs[r.Fence] = append(x.runs[r.Fence], r)
	}
	x.commits(h)
	x.fold()
	h.index = x
	return x
}

// claimedRuns pairs each run with its claim. startsAreClaimed judges runs without one.
func (h *history) claimedRuns() iter.Seq2[*run, *auditRow] {
	return func(yield func(*run, *auditRow) bool) {
		for _, r := range h.Runs {
			if c := h.in().claims[r.Fence]; c != nil && !yield(r, c) {
				return
			}
		}
	}
}

// commits finds out by when transactions were surely committed: when the writer had the answer, or when another
// transaction changed a row after them.
func (x *index) commits(h *history) {
	by := func(tx int64, at time.Time) {
		if known, ok := x.known[tx]; !ok || at.Before(known) {
			x.known[tx] = at
		}
	}
	for _, e := range h.Entries {
		x.entryOf[e.Op] = e
	}
	for _, o := range h.Ops {
		x.opsOf[o.Op] = append(x.opsOf[o.Op], o)
		if e := x.entryOf[o.Op]; e != nil && e.Answer == acknowledged {
			by(o.TxID, e.Ended)
		}
	}
	for _, changes := range x.byID {
		for i, a := range changes[:len(changes)-1] {
			if next := changes[i+1]; next.TxID != a.TxID {
				by(a.TxID, next.At)
			}
		}
	}
}

// offset is an instant as seconds since the run began, for reading beside the timeline.
func (h *history) offset(at time.Time) string { return fmt.Sprintf("%.3f", at.Sub(h.Began).Seconds()) }
