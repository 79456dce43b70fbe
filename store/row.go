package store

import (
	"encoding/json"
	"time"
)

// Status is the status of a task.
type Status string

// The statuses. COMPLETED, FAILED, EXPIRED, CANCELLED and SKIPPED are final.
const (
	StatusQueued    Status = "QUEUED"    // waits for its time, for a retry or for a slot
	StatusExecuting Status = "EXECUTING" // a node runs it
	StatusCompleted Status = "COMPLETED" // its handler has succeeded
	StatusFailed    Status = "FAILED"    // it will not be tried again
	StatusExpired   Status = "EXPIRED"   // its expiration passed before it could run
	StatusCancelled Status = "CANCELLED" // by Cancel, Sync or an erasure, for example
	StatusPaused    Status = "PAUSED"    // waits for Resume
	StatusSkipped   Status = "SKIPPED"   // an occurrence that did not run, by a policy
)

// Statuses returns all statuses.
func Statuses() []Status {
	return []Status{StatusQueued, StatusExecuting, StatusCompleted, StatusFailed, StatusExpired, StatusCancelled,
		StatusPaused, StatusSkipped}
}

// AttemptOutcome is how an attempt, or a claim that came to no attempt, has ended. In contrast, an Outcome is what a
// verb did to a task.
type AttemptOutcome string

// The outcomes of attempts.
const (
	AttemptCompleted   AttemptOutcome = "COMPLETED"
	AttemptFailed      AttemptOutcome = "FAILED"      // for good
	AttemptRetried     AttemptOutcome = "RETRIED"     // it has failed, and the task runs again
	AttemptSnoozed     AttemptOutcome = "SNOOZED"     // its handler has put the task off, or waits
	AttemptLost        AttemptOutcome = "LOST"        // its node died, or its lease ended
	AttemptSuperseded  AttemptOutcome = "SUPERSEDED"  // the task was edited or cancelled meanwhile
	AttemptExpired     AttemptOutcome = "EXPIRED"     // the task expired before the attempt could start
	AttemptInterrupted AttemptOutcome = "INTERRUPTED" // by the shutdown of its node
	AttemptReleased    AttemptOutcome = "RELEASED"    // it never started, and was handed back
	AttemptCancelled   AttemptOutcome = "CANCELLED"   // the task was cancelled before the attempt started
)

// AttemptOutcomes returns all outcomes of attempts.
func AttemptOutcomes() []AttemptOutcome {
	return []AttemptOutcome{AttemptCompleted, AttemptFailed, AttemptRetried, AttemptSnoozed, AttemptLost,
		AttemptSuperseded, AttemptExpired, AttemptInterrupted, AttemptReleased, AttemptCancelled}
}

// Row is a row of the table scheduled_tasks. Comments on the table's columns in the database explain each field. A
// nil pointer stands for null.
type Row struct {
	ID                    string          `json:"id"`
	Payload               json.RawMessage `json:"payload"`
	Type                  string          `json:"type"`
	Entity                *string         `json:"entity,omitempty"`
	TenantID              *string         `json:"tenant_id,omitempty"`
	GroupKey              *string         `json:"group_key,omitempty"`
	Queue                 string          `json:"queue"`
	Status                Status          `json:"status"`
	Priority              int             `json:"priority"`
	ScheduledAt           time.Time       `json:"scheduled_at"`
	RunNowAt              *time.Time      `json:"run_now_at,omitempty"`
	Expiration            *time.Duration  `json:"expiration,omitempty"`    // nanoseconds in JSON
	ExpectedExecutionTime time.Duration   `json:"expected_execution_time"` // nanoseconds in JSON
	MaxAttempts           int             `json:"max_attempts"`
	Backoff               *string         `json:"backoff,omitempty"`
	Timeout               *time.Duration  `json:"timeout,omitempty"` // nanoseconds in JSON
	Deadline              *time.Time      `json:"deadline,omitempty"`
	Attempt               int             `json:"attempt"`
	Revision              int64           `json:"revision"`
	AskedRevision         int64           `json:"asked_revision"` // idempotency key: {ID}:{AskedRevision}
	NextAttemptAt         *time.Time      `json:"next_attempt_at,omitempty"`
	Fence                 *int64          `json:"fence,omitempty"`
	LeaseExpiresAt        *time.Time      `json:"lease_expires_at,omitempty"`
	Message               *string         `json:"message,omitempty"`
	Result                json.RawMessage `json:"result,omitempty"`
	ScheduledBy           *string         `json:"scheduled_by,omitempty"`
	Trace                 *string         `json:"trace,omitempty"` // SpanOf parses it
	CreatedAt             time.Time       `json:"created_at"`
	LastStatusUpdate      time.Time       `json:"last_status_update"`
	StartedAt             *time.Time      `json:"started_at,omitempty"`
	FinishedAt            *time.Time      `json:"finished_at,omitempty"`
	StartedFence          *int64          `json:"started_fence,omitempty"`
	Node                  *int64          `json:"node,omitempty"`
	Cron                  *string         `json:"cron,omitempty"`
	TimeZone              *string         `json:"time_zone,omitempty"`
	Overlap               *Overlap        `json:"overlap,omitempty"`
	CatchUp               *CatchUp        `json:"catch_up,omitempty"`
	CatchUpPaused         *CatchUp        `json:"catch_up_paused,omitempty"`
	CatchUpLimit          *int            `json:"catch_up_limit,omitempty"`
	Jitter                *time.Duration  `json:"jitter,omitempty"` // nanoseconds in JSON
	EndsAt                *time.Time      `json:"ends_at,omitempty"`
	MaxOccurrences        *int            `json:"max_occurrences,omitempty"`
	OccurrenceCount       int             `json:"occurrence_count"`
	ParentID              *string         `json:"parent_id,omitempty"`
	PlannedRevision       *int64          `json:"planned_revision,omitempty"`
	PausedUntil           *time.Time      `json:"paused_until,omitempty"`
	Retention             *time.Duration  `json:"retention,omitempty"` // nanoseconds in JSON
	ArchivedAt            *time.Time      `json:"archived_at,omitempty"`
	ArchivedNote          *string         `json:"archived_note,omitempty"`
	SpawnedBy             *string         `json:"spawned_by,omitempty"`
	IfDead                json.RawMessage `json:"if_dead,omitempty"` // TaskOf reads it
	WaitingSince          *time.Time      `json:"waiting_since,omitempty"`
	Waits                 *int            `json:"waits,omitempty"`
}

// Execution is a row of the table scheduled_task_executions: the result of one claim.
type Execution struct {
	Fence       int64          `json:"fence"`
	TaskID      string         `json:"task_id"`
	Type        string         `json:"type"`
	Revision    int64          `json:"revision"`
	Attempt     int            `json:"attempt"`
	ScheduledAt time.Time      `json:"scheduled_at"`
	DueAt       *time.Time     `json:"due_at,omitempty"`
	StartedAt   *time.Time     `json:"started_at,omitempty"`
	FinishedAt  time.Time      `json:"finished_at"`
	Outcome     AttemptOutcome `json:"outcome"`
	Error       *string        `json:"error,omitempty"`
	Node        *int64         `json:"node,omitempty"`
}

// Change is a row of the table scheduled_task_changes: one edit, verb or delete.
type Change struct {
	Revision  int64           `json:"revision"`
	TaskID    string          `json:"task_id"`
	Verb      string          `json:"verb"`
	Outcome   string          `json:"outcome"`
	ChangedAt time.Time       `json:"changed_at"`
	ChangedBy string          `json:"changed_by"`
	Old       json.RawMessage `json:"old,omitempty" doc:"The columns before, as Postgres writes them."`
	New       json.RawMessage `json:"new,omitempty" doc:"The columns after, as Postgres writes them."`
}
