package store

import (
	"fmt"
	"regexp"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/tasktable/tasktable/store/internal/check"
)

// Limits of a task's fields. The database checks them again, because SQL clients can write tasks, too.
const (
	MaxIDBytes               = check.MaxIDBytes  // 512
	MaxPayloadBytes          = 256 << 10         // of the payload's JSON text
	MaxExpiration            = 87660 * time.Hour // 10 years
	MaxExpectedExecutionTime = 7 * 24 * time.Hour
	MaxMaxAttempts           = 1000
	MaxJitter                = 24 * time.Hour
	MaxRetention             = 876600 * time.Hour // 100 years
	MaxTimeout               = 7 * 24 * time.Hour
	MaxRecurringIDBytes      = 480 // leaves room for the suffix of an occurrence: @ and the fire time
	MinPriority              = -100
	MaxPriority              = 100
)

// The defaults that a zero field of a Task stands for, if neither its type nor all types have others, see Defaults.
const (
	DefaultQueue                 = "default"
	DefaultExpectedExecutionTime = 5 * time.Minute
	DefaultMaxAttempts           = 10
)

var (
	typeSyntax  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_\-\[\]<>/.·:+]+$`)
	queueSyntax = regexp.MustCompile(`^[a-z0-9]+([_-][a-z0-9]+)*$`)
)

// Payload is the content of a task: a struct that encoding/json encodes as a JSON object, with the name of its type.
// The JSON object gets the name as its field "type". The engine chooses the handler by that name.
type Payload interface {
	// TaskType returns the name of the type. The name has 2 to 127 characters. Letters, digits and _-[]<>/.·:+ are
	// allowed. The name must not depend on the value.
	TaskType() string
}

// Keyed is a Payload whose task has a deterministic id, task-{type}-{key}. Scheduling the payload again edits that
// task. A payload that is not Keyed gets a new id, a UUID of version 7, each time it is scheduled.
type Keyed interface {
	Payload
	// TaskKey returns the key. It must not be empty.
	TaskKey() string
}

// Choice decides what Schedule does to a task that exists, in the fields IfFinished, IfRunning and IfExists of a Task.
type Choice string

// The choices. "" is the default of each field.
const (
	// Rearm is for IfFinished. It is like the default, except that a finished task that is scheduled without a time
	// runs again now. This asks for a new time, so the run has a new idempotency key. To repeat what has failed under
	// its key, use [Store.Retry].
	Rearm Choice = "rearm"
	// Keep leaves the task as it is: for IfFinished a finished one, whatever its time, and for IfExists one that has
	// not finished. A cancelled task has not run, and is not kept.
	Keep Choice = "keep"
	// Again is for IfRunning. It lets the task run once more after the attempt that runs, as RunNow does. The attempt
	// keeps its revision and its idempotency key, and its outcome counts. A task that waits is locked until the
	// caller's transaction ends. Therefore a run begins after each commit of such a call, and sees what the transaction
	// has written.
	Again Choice = "again"
	// Reject is for IfExists. It is Keep, and Schedule returns ErrDuplicate beside the receipt. A call for many tasks
	// returns no error, because the receipts tell.
	Reject Choice = "reject"
)

// Validator is a Payload with rules of its own. Schedule and its like ask it before they ask the database, and refuse
// the task with an error that wraps ErrInvalid. FollowUp of package handlers asks it, too. A node asks it before the
// handler runs, and an error makes the task FAILED without another attempt. So a payload whose field was renamed, and
// which therefore decodes to a zero value, does not reach the handler.
//
// A task that is scheduled by SQL, over HTTP or as a JSON is asked for the first time by the node.
type Validator interface {
	Payload
	// Validate returns nil, or an error that names the field and the rule. The error's text goes to logs and to the
	// history, so it should not contain the field's value. The receiver may be a pointer.
	Validate() error
}

// Task is a task to schedule. It states everything that the application wants of the task: a field that is zero asks
// for its default, even if the stored task has another value. The only exception is At, because a zero At keeps the
// stored time. The defaults that the fields name hold unless the type has others, see Defaults.
type Task struct {
	// ID overrides the id that the payload gives (see Keyed). It has 1 to 512 bytes and no control characters. It must
	// not end in @ and a time as those of occurrences do, see Recurrence, unless the occurrence exists. If a task of
	// another type has the id, Schedule edits that task, which then has the new type. So give two types no common id.
	ID string
	// Payload is required. It is at most 256 KiB of JSON.
	Payload Payload
	// At is the time at which the task is due, in the years 1 to 9999. The database stores microseconds, therefore
	// nanoseconds are cut off. If At differs from the stored time by one microsecond or less, both count as the same
	// time, and Schedule does not move the task.
	//
	// A zero At means now for a new task. An existing task keeps its time. A finished task stays finished unless
	// IfFinished is Rearm.
	At time.Time
	// In makes a task that is new, or runs again, due so long after now by the database's clock. It is at most 10
	// years. An existing task that waits keeps its time, unless Debounce is set. At must be zero then. It is not for a
	// task with a Recurrence.
	In time.Duration
	// Debounce makes each call move the task that waits to In from now, but at most to Debounce after the first call.
	// So a burst of calls becomes one run. A call during a run asks for one more, as IfRunning does. A call that would
	// move the task by less than a tenth of In changes nothing. Debounce is at least In, and at most 10 years. 0 means
	// that In does not move the task.
	Debounce time.Duration
	// UniqueFor leaves the task as it is if it was scheduled, or queued again, within this time, even if it has
	// finished. The outcome is Duplicate. After that time a call without an At runs a finished task again. It is at
	// most 10 years. It needs an ID or a Keyed payload, and is not for a task with a Recurrence. 0 means that no time
	// counts.
	UniqueFor time.Duration
	// Expiration is how long after At an attempt may still start, from 1 µs to 10 years. 0 means for ever.
	Expiration time.Duration
	// ExpectedExecutionTime is how long an attempt may take before the engine gives it up as lost. It is at most 7
	// days. 0 means 5 minutes, or Timeout if that is longer.
	ExpectedExecutionTime time.Duration
	// MaxAttempts is the number of attempts that may fail before the task becomes FAILED. It is at most 1000. 0 means
	// 10, which the default backoff spreads over at least four hours, so that most outages end before.
	MaxAttempts int
	// Backoff is the wait before each retry, for example "1m" or "10s x3 max 1h jitter 25%", in the form of package
	// backoff. RetryAfter of a handler, and the function of its type (handlers.WithBackoff), win over it. "" means as
	// the nodes are configured.
	Backoff string
	// Timeout is how long after its start the context of a handler ends, at most 7 days. The attempt has then failed,
	// and is retried. A handler that extends its lease does not move that end. If ExpectedExecutionTime is shorter, the
	// context ends after that time, unless the handler extends its lease. 0 means that there is no such end.
	Timeout time.Duration
	// Deadline is a time, later than At and in the years 1 to 9999, after which nothing of the task runs. The context
	// of a running handler ends at it, and no later attempt starts, so that the task becomes EXPIRED. In contrast,
	// Expiration moves with At. RunNow and Retry take away a deadline that has passed. A task with a Recurrence must
	// not have a Deadline. The zero time means none.
	Deadline time.Time
	// Priority is from -100 to 100. Tasks with a higher priority run first. 0 means the default of the type, and 0 if
	// it has none. This is so over HTTP and in IfDead, too. In a call of the SQL function schedule 0 is a value, and
	// null means the default.
	Priority int
	// Queue is the name of the task's queue. Only nodes that work this queue run the task. "" means the queue
	// "default".
	Queue string
	// Entity names the thing that the task is about, for example "event:42". Sync and audits use it. It is optional
	// and has at most 512 bytes.
	Entity string
	// TenantID names the tenant that the task belongs to. It is optional and has at most 512 bytes.
	TenantID string
	// Group names the group that the task belongs to, for example "customer:42". It is optional and has at most 512
	// bytes. A Limit may count the tasks of each group by themselves. A follow-up and a task of IfDead do not get it
	// from this task.
	Group string
	// IfFinished decides whether a finished task runs again: Rearm or Keep. The default is "": the task runs again if
	// it is scheduled for another time, and stays finished if the time is the same or none is given. A cancelled task
	// has not run, therefore Schedule always queues it again.
	IfFinished Choice
	// IfExists decides what becomes of a task that waits or runs: Keep or Reject leave it as it is, and the outcome is
	// Duplicate. The default is "": Schedule edits it.
	IfExists Choice
	// IfRunning decides whether a running task that is scheduled unchanged runs once more: Again. The default is "": it
	// stays as it is. A task with a Recurrence, and one of IfDead, must not have it.
	IfRunning Choice
	// Jitter spreads tasks that have the same time, so that they do not all start at once. It is at most 24 hours.
	// The task is due at At plus a delay shorter than Jitter. The delay is always the same for the same id and time.
	// 0 means no jitter. If the task has a Recurrence, the jitter applies to each occurrence.
	Jitter time.Duration
	// Retention is how long the finished task is kept. It overrides the engine's configuration, and is at most 100
	// years. 0 means as the engine is configured. If the task has a Recurrence, the retention applies to each
	// occurrence.
	Retention time.Duration
	// Days moves At to a day that calendars leave in. It is not for a task with a Recurrence, nor for a follow-up or a
	// task of IfDead.
	Days *Days
	// Recurrence makes the task a recurring one, which never runs itself. Each time it fires, an occurrence is
	// created: a task with this task's content and the id {id}@{fire time}. The recurring task needs an ID or a Keyed
	// payload, and its id has at most 480 bytes. At is the time from which it fires.
	Recurrence *Recurrence
	// NoDefaults keeps the Defaults of the type away, so that a zero Expiration, Retention, Timeout, Backoff or Group
	// means none, a zero Priority means 0, and other zero fields mean what this documentation says. TaskOf sets it.
	NoDefaults bool
	// Replace lets Schedule make a recurring task of one that does not recur, or the other way. Without it, Schedule
	// refuses that with ErrKindDiffers, because a Recurrence that was only forgotten would end a nightly task, and run
	// it at once. Such an error of the database aborts the transaction.
	Replace bool
	// IfDead are tasks that are scheduled if this task dies, which means that it becomes FAILED or EXPIRED. The same
	// commit that records the death schedules them, so that each death has them, also if its node or the leader
	// crashes. There are at most 10, of 256 KiB of JSON in all. They must not recur, and must not have IfDead
	// themselves. Without an Entity they get this task's entity. They have this task's tenant.
	//
	// A zero At means at the death. A task of them that has neither an ID nor a Keyed payload gets the id
	// {id of the dead task}/dead/{its place in IfDead, from 1}. If this task dies again after a Retry, they are
	// scheduled again by the rules of Schedule. So a task that has finished stays finished, unless it has IfFinished
	// Rearm. If one cannot be scheduled at the death, the dead task's message says why, and the others are scheduled.
	//
	// If the task has a Recurrence, its occurrences have IfDead, too.
	IfDead []Task
}

// IDOf returns the id that Schedule gives to the task of a Keyed payload. For another payload it returns "", because
// such a payload gets a new id each time.
func IDOf(payload Payload) string {
	if keyed, ok := payload.(Keyed); ok {
		return "task-" + keyed.TaskType() + "-" + keyed.TaskKey()
	}
	return ""
}

// NewID returns a new id, of the kind that a task gets whose payload is not Keyed.
func NewID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make a task id: %w", err)
	}
	return id.String(), nil
}

// CheckType returns an error that wraps ErrInvalid if name cannot be the name of a type, otherwise nil.
func CheckType(name string) error {
	if utf8.RuneCountInString(name) > 127 || !typeSyntax.MatchString(name) {
		return check.Invalid("type", "must be 2 to 127 letters, digits or _-[]<>/.·:+", fmt.Sprintf("%q", name))
	}
	return nil
}

// CheckQueue returns an error that wraps ErrInvalid if name cannot be the name of a queue, otherwise nil.
func CheckQueue(name string) error {
	return checkSlug("queue", name)
}

// checkSlug checks the name of a queue or of a limit.
func checkSlug(field, name string) error {
	if len(name) > 64 || !queueSyntax.MatchString(name) {
		return check.Invalid(field, "must be 1 to 64 of a-z, 0-9, inner - or _", fmt.Sprintf("%.100q", name))
	}
	return nil
}
