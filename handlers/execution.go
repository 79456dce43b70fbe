package handlers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tasktable/tasktable/store"
)

// Execution is one attempt of a task of any type: what middleware sees, and what every Task embeds. It belongs to the
// handler's goroutine; only Extend may be called from others.
type Execution struct {
	ID          string
	Type        string // as the task has it: with an Alias, the old name
	Queue       string
	Entity      string // "" when the task has none
	TenantID    string // "" when the task has none
	Priority    int
	Payload     json.RawMessage
	ScheduledAt time.Time // as asked
	DueAt       time.Time // when this attempt was due: later than ScheduledAt for a retry
	StartedAt   time.Time // by the database's clock
	Revision    int64
	Fence       int64
	Attempt     int // from 1
	MaxAttempts int
	ScheduledIn trace.SpanContext // the span in which the task was scheduled, to link to; not valid where there was none

	effects Effects
	extend  func(context.Context, time.Duration) error
}

// Effects is what a handler asked for on its task. The engine applies it when the attempt is settled as completed.
type Effects struct {
	Again     *time.Time      // schedule the same task again
	FollowUps []store.Task    // schedule others; their ids are set, and their payloads are store.JSON
	Result    json.RawMessage // nil: none
	Note      string
	Trace     string // the span that Again and FollowUps are scheduled in, as store.TraceOf gives it; "": none
	Err       error  // an effect that cannot be applied: the attempt fails for good
}

// IdempotencyKey is the same for every attempt of this revision of the task, and different for every other: "id:revision".
// Give it to services that drop repeated requests, since an attempt may be repeated after a crash.
func (e *Execution) IdempotencyKey() string { return fmt.Sprintf("%s:%d", e.ID, e.Revision) }

// Again schedules the same task again, at that time, with its content as it is; it is applied only if the handler returns
// nil. An edit that came while the handler ran wins over it. The last call counts. A chain of tasks kept going by Again ends when
// one of them expires, fails for good or is cancelled: what must go on for ever should not expire.
//
// The next run is due one second after this attempt's start at the earliest. A handler that always asks for "now" runs
// once a second.
func (e *Execution) Again(at time.Time) {
	at = at.Truncate(time.Microsecond) // as Schedule does: the two then mean the same time
	e.effects.Again = &at
}

// FollowUp schedules another task, in the transaction that completes this one; it is applied only if the handler returns
// nil. A task that Schedule would refuse fails this one. One with this task's own id schedules this task anew, as Schedule
// does to a finished task: it runs again if the time is another. An edit that came while the handler ran wins over that.
//
// A follow-up without an Entity has this task's entity, and one without a TenantID has this task's tenant. So an erasure of either
// removes the follow-up too.
//
// A follow-up whose id is that of a finished task stays finished, unless its time is another or its IfFinished is store.Rearm. A
// task that is FAILED is finished too. So a nightly fan-out whose follow-ups have keys, and no time, does not run again what failed
// in an earlier night. FollowUp returns no receipt that would tell.
//
// A follow-up that is due now starts at once, unless this task is itself a follow-up, or schedules itself: then it is
// due one second after this attempt's start at the earliest, so that tasks which schedule each other for ever do not
// fill the database. A fan-out does not wait, nor does the first step of a chain; each further step may wait up to a
// second.
func (e *Execution) FollowUp(task store.Task) {
	task.Entity, task.TenantID = cmp.Or(task.Entity, e.Entity), cmp.Or(task.TenantID, e.TenantID)
	// Encoded here: a payload's methods are the handler's code, and what it points to may change later.
	fixed, err := task.Fixed()
	if err != nil {
		e.effects.Err = errors.Join(e.effects.Err, fmt.Errorf("follow-up %d: %w", len(e.effects.FollowUps)+1, err))
		return
	}
	e.effects.FollowUps = append(e.effects.FollowUps, fixed)
}

// Result keeps a value as JSON with the completed task. A value that cannot be encoded fails the attempt.
func (e *Execution) Result(value any) {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Errorf("result of task %s: %w", e.ID, err)) // becomes the attempt's error
	}
	e.effects.Result = encoded
}

// Note keeps a sentence with the completed task, as its message.
func (e *Execution) Note(format string, args ...any) { e.effects.Note = fmt.Sprintf(format, args...) }

// Extend makes the lease, and with it the handler's context, end no sooner than so long from now. It returns an error when
// the task is not this attempt's any more; the handler should then stop.
func (e *Execution) Extend(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("extend task %s: %w: duration must be over 0, got %s", e.ID, store.ErrInvalid, d)
	}
	if e.extend == nil {
		return errors.New("extend: the task is not running")
	}
	return e.extend(ctx, d)
}

// Effects is what the handler has asked for so far.
func (e *Execution) Effects() Effects { return e.effects }

// WithExtend sets what Extend calls. It is for engines, and returns e.
func (e *Execution) WithExtend(extend func(context.Context, time.Duration) error) *Execution {
	e.extend = extend
	return e
}

// WithSpan notes the span of ctx as the attempt's: tasks scheduled by Again and FollowUp link to it. It is for engines, and for
// middleware that makes spans of its own; it returns e.
func (e *Execution) WithSpan(ctx context.Context) *Execution {
	e.effects.Trace = store.TraceOf(ctx)
	return e
}

// Task is one attempt of a task whose payload is a P. It is the handler's argument. Its methods are those of Execution: FollowUp,
// Again, Note, Result, Extend and IdempotencyKey.
type Task[P store.Payload] struct {
	*Execution
	Payload P
}
