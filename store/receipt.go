package store

// Outcome is what a verb did.
type Outcome string

// The outcomes. Only the first eight wrote anything.
const (
	Created     Outcome = "created"     // a new task
	Rescheduled Outcome = "rescheduled" // a waiting or running task was edited; a running one runs again
	Rearmed     Outcome = "rearmed"     // a finished or cancelled task waits again
	Cancelled   Outcome = "cancelled"
	Paused      Outcome = "paused"
	Queued      Outcome = "queued" // resumed, retried, or run now
	Deleted     Outcome = "deleted"
	Archived    Outcome = "archived"  // a dead letter was marked as dealt with
	Unchanged   Outcome = "unchanged" // the task is as asked already
	Finished    Outcome = "finished"  // the task has ended, and what was asked does not start it again
	Running     Outcome = "running"   // the task is running, or claimed to run, and the verb must not touch it
	Absent      Outcome = "absent"    // there is no such task
)

// Receipt is the answer of a verb.
type Receipt struct {
	ID       string  `json:"id"`
	Revision int64   `json:"revision,omitempty"` // 0 when the task is absent or deleted
	Outcome  Outcome `json:"outcome"`
}

// receiptRow is a Receipt as the SQL functions return it.
type receiptRow struct {
	Position *int64
	ID       string
	Revision *int64
	Outcome  string
}

func (r receiptRow) receipt() Receipt {
	receipt := Receipt{ID: r.ID, Outcome: Outcome(r.Outcome)}
	if r.Revision != nil {
		receipt.Revision = *r.Revision
	}
	return receipt
}

func receipts(rows []receiptRow) []Receipt {
	done := make([]Receipt, len(rows))
	for i, row := range rows {
		done[i] = row.receipt()
	}
	return done
}
