package store

// Outcome is what a verb did to a task. In contrast, an AttemptOutcome is how an attempt has ended.
type Outcome string

// The outcomes. Only those before Unchanged mean that the verb wrote something.
const (
	Created     Outcome = "created"     // the task is new
	Rescheduled Outcome = "rescheduled" // a waiting or running task was edited. A running one runs again.
	Rearmed     Outcome = "rearmed"     // a finished or cancelled task waits again
	Cancelled   Outcome = "cancelled"
	Paused      Outcome = "paused"
	Queued      Outcome = "queued" // resumed, retried, or run now
	RunsAgain   Outcome = "again"  // the task runs, and runs once more after this attempt has ended
	Deleted     Outcome = "deleted"
	Archived    Outcome = "archived"  // a dead letter was marked as dealt with
	Changed     Outcome = "changed"   // only of a limit
	Unchanged   Outcome = "unchanged" // the task is already as the call asks
	Duplicate   Outcome = "duplicate" // the task exists, and the call asks to leave it: IfExists or UniqueFor
	Finished    Outcome = "finished"  // the task has ended, and the call does not start it again
	Running     Outcome = "running"   // a node has claimed the task, therefore the verb changes nothing
	Absent      Outcome = "absent"    // there is no such task
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome {
	return []Outcome{Created, Rescheduled, Rearmed, Cancelled, Paused, Queued, RunsAgain, Deleted, Archived, Changed,
		Unchanged, Duplicate, Finished, Running, Absent}
}

// Receipt is the result of a verb for one task.
type Receipt struct {
	ID       string  `json:"id"`
	Revision int64   `json:"revision,omitempty"` // 0 if the task is absent or deleted
	Outcome  Outcome `json:"outcome"`
}

// selectReceipt is the beginning of a statement that returns Receipts.
const selectReceipt = `SELECT id, coalesce(revision, 0) AS revision, outcome FROM tasktable.`
