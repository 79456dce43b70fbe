package handlers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tasktable/tasktable/store"
)

// Execution is one attempt of a task of any type. Middleware gets an Execution, and every Task embeds one. It belongs
// to the handler's goroutine. Other goroutines may call Extend, and no other method. A call after the handler has
// returned has no effect. The node logs the first such call of an attempt.
type Execution struct {
	ID          string
	Type        string // the type in the task's row: the old name if the task was found by an Alias
	Queue       string
	Entity      string // "" when the task has none
	TenantID    string // "" when the task has none
	Group       string // "" when the task has none
	Priority    int
	Payload     json.RawMessage
	ScheduledAt time.Time // the time that was asked for
	DueAt       time.Time // when this attempt was due, before any Wait; for a retry it is later than ScheduledAt
	StartedAt   time.Time // by the database's clock
	Revision    int64
	Fence       int64
	Attempt     int // from 1
	MaxAttempts int
	ScheduledIn trace.SpanContext // the span that scheduled the task, to link to; invalid if there was none

	// AskedRevision is the revision that last asked for another payload or time, or to run again after COMPLETED.
	AskedRevision int64

	effects Effects
	extend  func(context.Context, time.Duration) error
	late    *lateCalls
}

const (
	// MaxFollowUps is how many follow-ups one attempt may ask for. A handler that has more to schedule asks for a
	// follow-up that goes on where this attempt ended, or calls ScheduleMany in the transaction of HandleTx.
	MaxFollowUps = 10_000
	// MaxResultBytes bounds the JSON text of a result. Payloads have the same bound.
	MaxResultBytes = store.MaxPayloadBytes
)

var errTooManyFollowUps = fmt.Errorf("%w: an attempt may ask for at most %d follow-ups", store.ErrInvalid, MaxFollowUps)

// Effects holds the requests of a handler about its task. The engine applies them when it settles the attempt as
// completed. It is for engines.
//
// An attempt whose task was edited or cancelled while its handler ran is recorded as SUPERSEDED, also if the handler
// returns nil. Then Again, Result and Note do not count. After an edit the follow-ups are scheduled, except one with
// the task's own id. After a cancel they are not, unless the handler takes a transaction, because they are then among
// the writes that commit.
type Effects struct {
	Again     *time.Time      // schedule the same task again
	FollowUps []store.Task    // schedule others; their ids are set, and their payloads are store.JSON
	IfDead    []store.Task    // as FollowUps, but if this attempt makes the task FAILED
	Result    json.RawMessage // nil: none
	Note      string
	Trace     string // the span that Again and FollowUps are scheduled in, as store.TraceOf gives it; "": none
	Err       error  // an effect that cannot be applied: the attempt fails for good
}

// IdempotencyKey returns "ID:AskedRevision". Give it to services that drop repeated requests, because an attempt may
// be repeated after a crash.
//
// The key is the same for every attempt while the payload and ScheduledAt are the same. A retry of a dead letter,
// RunNow of a task that has not completed, and an edit of any other field keep it. A new payload or a new time draws a
// new key, and so does each run that is asked for after a completed one, by RunNow, by Schedule or by Again. Two tasks
// never have the same key.
func (e *Execution) IdempotencyKey() string { return fmt.Sprintf("%s:%d", e.ID, e.AskedRevision) }

// Again schedules the same task again, at the given time and with the same content. It is applied only if the handler
// returns nil. If somebody edited the task while the handler ran, the edit wins. If a handler calls Again several
// times, the last call counts.
//
// A chain of runs that Again keeps going ends when one of them expires, fails for good or is cancelled. So a task
// that must go on for ever should have no expiration.
//
// The next run is due one second after the start of this attempt at the earliest. So a handler that always asks for
// "now" runs once a second.
func (e *Execution) Again(at time.Time) {
	if e.late.call("Again") {
		return
	}
	at = at.Truncate(time.Microsecond) // Schedule truncates too, so both mean the same time
	e.effects.Again = &at
}

// FollowUp schedules another task, in the transaction that completes this one. It is applied only if the handler
// returns nil. If Schedule would refuse the follow-up, this attempt fails for good. So does an attempt that asks for
// more than MaxFollowUps, and one whose follow-ups cannot be scheduled in time. A follow-up with this task's own
// id schedules this task anew, as Schedule does to a finished task: it runs again if the time differs. If somebody
// edited the task while the handler ran, the edit wins.
//
// A follow-up without an Entity gets this task's entity, and a follow-up without a TenantID gets this task's tenant.
// So an erasure of the entity or of the tenant removes the follow-up too.
//
// If the follow-up has the id of a finished task, that task stays finished, unless the follow-up has another time or
// its IfFinished is store.Rearm. A FAILED task is finished too. So if the follow-ups of a nightly fan-out have keys
// and no time, the fan-out does not repeat the tasks that failed in an earlier night. FollowUp returns no receipt, so
// the handler is not told.
//
// A follow-up that is due now starts at once, also as a step of a chain of follow-ups. Nothing slows down a chain of
// new tasks, so the handlers must see to it that it ends. A task that has run before starts one second after its last
// start at the earliest, so that tasks which schedule each other for ever do not fill the database.
func (e *Execution) FollowUp(task store.Task) {
	if e.late.call("FollowUp") {
		return
	}
	if len(e.effects.FollowUps) == MaxFollowUps {
		if !errors.Is(e.effects.Err, errTooManyFollowUps) {
			e.effects.Err = errors.Join(e.effects.Err, errTooManyFollowUps)
		}
		return
	}
	if fixed, ok := e.fixed(task, "follow-up", len(e.effects.FollowUps)+1); ok {
		e.effects.FollowUps = append(e.effects.FollowUps, fixed)
	}
}

// MaxIfDead is how many tasks one attempt can ask for with FollowUpIfDead.
const MaxIfDead = store.MaxIfDead

// FollowUpIfDead schedules another task if this attempt turns out to be the last one. An attempt is the last one if it
// makes the task FAILED, because its error is Permanent or no attempt is left. The transaction that records this
// schedules the other task. A panic and the end of the ExpectedExecutionTime count as errors. If the handler returns
// nil, or if the task is tried again, nothing is scheduled, so each attempt asks anew, as early as it can. If somebody
// edited or cancelled the task meanwhile, it has not died, and nothing is scheduled.
//
// An attempt that is LOST, because its node crashed, cannot schedule what it asked for. Neither is anything scheduled
// when the task expires before a retry. Task.IfDead of package store holds in these cases, too.
//
// Entity, TenantID and finished tasks are as with FollowUp. An attempt can ask for at most 10 tasks. A task that
// Schedule would refuse, or that has this task's own id, fails the attempt for good.
func (e *Execution) FollowUpIfDead(task store.Task) {
	if e.late.call("FollowUpIfDead") {
		return
	}
	place := len(e.effects.IfDead) + 1
	fixed, ok := e.fixed(task, "follow-up if dead", place)
	switch {
	case !ok:
	case place > MaxIfDead:
		e.refuse("follow-up if dead", place, fmt.Errorf("%w: at most %d are allowed", store.ErrInvalid, MaxIfDead))
	case fixed.ID == e.ID:
		e.refuse("follow-up if dead", place, fmt.Errorf("%w: id must not be that of the task itself", store.ErrInvalid))
	default:
		e.effects.IfDead = append(e.effects.IfDead, fixed)
	}
}

// fixed returns the task with the entity and the tenant that it inherits. It notes the error if Schedule would refuse
// the task.
func (e *Execution) fixed(task store.Task, kind string, place int) (fixed store.Task, ok bool) {
	task.Entity, task.TenantID = cmp.Or(task.Entity, e.Entity), cmp.Or(task.TenantID, e.TenantID)
	// The payload is encoded here, because its methods are the handler's code, and because the handler may change the
	// data it points to later.
	fixed, err := task.Fixed()
	if err != nil {
		e.refuse(kind, place, err)
	}
	return fixed, err == nil
}

func (e *Execution) refuse(kind string, place int, err error) {
	e.effects.Err = errors.Join(e.effects.Err, fmt.Errorf("%s %d: %w", kind, place, err))
}

// Result keeps a value as JSON with the completed task. It replaces the value of an earlier call. A value that cannot
// be encoded fails the attempt. If the JSON has more than MaxResultBytes, the attempt fails for good. Keep what is
// larger elsewhere, and give Result its address.
func (e *Execution) Result(value any) {
	if e.late.call("Result") {
		return
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Errorf("result of task %s: %w", e.ID, err)) // becomes the attempt's error
	}
	e.effects.Result = encoded
}

// Note keeps a sentence with the completed task, as its message.
func (e *Execution) Note(format string, args ...any) {
	if !e.late.call("Note") {
		e.effects.Note = fmt.Sprintf(format, args...)
	}
}

// Extend makes the lease, and with it the handler's context, last at least the given duration from now. It never
// shortens them. It returns an error if d is not over 0, or if this attempt does not hold the task any more. After
// the second error the handler should stop.
func (e *Execution) Extend(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("extend task %s: %w: duration must be over 0, got %s", e.ID, store.ErrInvalid, d)
	}
	if e.extend == nil {
		return errors.New("extend: the task is not running")
	}
	return e.extend(ctx, d)
}

// Effects returns the requests that the handler has made so far. It is for engines.
func (e *Execution) Effects() Effects { return e.effects }

// WithExtend sets the function that Extend calls, and returns e. It is for engines.
func (e *Execution) WithExtend(extend func(context.Context, time.Duration) error) *Execution {
	e.extend = extend
	return e
}

// WithLate sets the function that gets the first method of e that is called after the handler has returned, and returns
// e. It is for engines.
func (e *Execution) WithLate(report func(method string)) *Execution {
	e.late = &lateCalls{report: report}
	return e
}

// lateCalls finds calls that come after the end of the attempt, from a goroutine that the handler has left behind.
type lateCalls struct {
	state  atomic.Int32
	report func(method string)
}

const (
	stillRuns int32 = iota
	hasEnded
	isReported
)

// end is called when the handler has returned.
func (l *lateCalls) end() {
	if l != nil {
		l.state.CompareAndSwap(stillRuns, hasEnded)
	}
}

// call reports whether a call of the method comes too late.
func (l *lateCalls) call(method string) bool {
	if l == nil || l.state.Load() == stillRuns {
		return false
	}
	if l.state.CompareAndSwap(hasEnded, isReported) {
		l.report(method)
	}
	return true
}

// WithSpan notes the span of ctx as the attempt's span, and returns e. Tasks that Again and FollowUp schedule link to
// this span. It is for engines, and for middleware that makes spans of its own.
func (e *Execution) WithSpan(ctx context.Context) *Execution {
	e.effects.Trace = store.TraceOf(ctx)
	return e
}

// Task is one attempt of a task whose payload is a P. It is the argument of a handler. It has the methods of
// Execution: FollowUp, FollowUpIfDead, Again, Note, Result, Extend and IdempotencyKey.
type Task[P store.Payload] struct {
	*Execution
	Payload P
}
