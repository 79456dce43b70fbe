package store

import (
	"encoding/json"
	"fmt"
	"regexp"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/tasktable/tasktable/store/internal/check"
)

// Limits of a task's fields. The database checks them again.
const (
	MaxIDBytes               = check.MaxIDBytes
	MaxPayloadBytes          = 256 << 10
	MaxExpiration            = 87660 * time.Hour // 10 years
	MaxExpectedExecutionTime = 7 * 24 * time.Hour
	MaxMaxAttempts           = 1000
	MaxJitter                = 24 * time.Hour
	MaxRetention             = 876600 * time.Hour // 100 years
	MaxRecurringIDBytes      = 480                // leaves room for @ and a fire time
	MinPriority              = -100
	MaxPriority              = 100
)

// What a zero field of a Task stands for.
const (
	DefaultQueue                 = "default"
	DefaultExpectedExecutionTime = 5 * time.Minute
	DefaultMaxAttempts           = 5
)

var (
	typeSyntax  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_\-\[\]<>/.·:+]+$`)
	queueSyntax = regexp.MustCompile(`^[a-z0-9]+([_-][a-z0-9]+)*$`)
)

// Payload is a variant of the union: a struct that encoding/json makes an object of, and its type's name. The name
// becomes the object's field "type".
type Payload interface {
	// TaskType is 2 to 127 letters, digits or _-[]<>/.·:+ and must not depend on the value.
	TaskType() string
}

// Keyed is a Payload whose task has a deterministic id, task-{type}-{key}: scheduling it again edits that task. A
// payload that is not Keyed gets a new id, a UUID version 7, each time it is scheduled.
type Keyed interface {
	Payload
	// TaskKey must not be empty.
	TaskKey() string
}

// IfFinished says what scheduling a finished task does. "", the default, runs the task again if it is scheduled for
// another time, and leaves it finished if the time is the same or none is given. A cancelled task, which has not run,
// is always queued again.
type IfFinished string

const (
	// Rearm is as the default, but a finished task that is scheduled without a time runs again now.
	Rearm IfFinished = "rearm"
	// Keep leaves a finished task finished, whatever its time.
	Keep IfFinished = "keep"
)

// Task is what is scheduled: the whole of what the application wants. A field left zero asks for its default, also
// when the task exists with another value; only At keeps what is there.
type Task struct {
	// ID overrides the id that the payload gives (see Keyed): 1 to 512 bytes without control characters.
	ID string
	// Payload is required: at most 256 KiB of JSON.
	Payload Payload
	// At is when the task is due; years 1 to 9999. Nanoseconds are cut off. Two times that are stored one microsecond
	// apart, or less, are the same time: scheduling the task for the other one does not move it. Zero means now for a
	// new task. An existing task keeps its time, and a finished one stays finished unless IfFinished is Rearm.
	At time.Time
	// Expiration is how long after At an attempt may still start; 0: for ever, else 1 µs to 10 years.
	Expiration time.Duration
	// ExpectedExecutionTime is how long an attempt may take before it is given up as lost; 0: 5 minutes, at most 7
	// days.
	ExpectedExecutionTime time.Duration
	// MaxAttempts is how many attempts may fail before the task is FAILED; 0: 5, at most 1000.
	MaxAttempts int
	// Priority is -100 to 100; the higher runs first. 0 is the default.
	Priority int
	// Queue is which nodes may run it; "": default.
	Queue string
	// Entity is what the task is about, as "event:42", for Sync and for audit; optional, at most 512 bytes.
	Entity string
	// TenantID is whose task it is; optional, at most 512 bytes.
	TenantID string
	// IfFinished says whether a finished task runs again.
	IfFinished IfFinished
	// Jitter spreads tasks of one time, against herds: the task is due up to so much after At, always by the same
	// amount for the same id and time. 0: none; at most 24 h. With Recurrence it is each occurrence's.
	Jitter time.Duration
	// Retention is how long the finished task is kept, in place of what the engine is configured to; 0: as
	// configured, at most 100 years. With Recurrence it is each occurrence's.
	Retention time.Duration
	// Recurrence makes the task a recurring one. It never runs itself: each fire forks an occurrence, with this
	// task's content and the id {id}@{fire time}. The id must be given, or the payload Keyed, and at most 480 bytes.
	// At is when it begins.
	Recurrence *Recurrence
}

// IDOf is the id under which Schedule puts a Keyed payload; "" for another, whose ids are new each time.
func IDOf(payload Payload) string {
	if keyed, ok := payload.(Keyed); ok {
		return "task-" + keyed.TaskType() + "-" + keyed.TaskKey()
	}
	return ""
}

// NewID is a new id, as a task gets whose payload is not Keyed.
func NewID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make a task id: %w", err)
	}
	return id.String(), nil
}

// wireTask is a Task as the SQL functions take it, defaults filled in and every field checked. Times and intervals
// are text.
type wireTask struct {
	ID                    string          `json:"id"`
	Payload               json.RawMessage `json:"payload"`
	ScheduledAt           *string         `json:"scheduled_at"`
	Priority              int             `json:"priority"`
	Queue                 string          `json:"queue"`
	Expiration            *string         `json:"expiration"`
	ExpectedExecutionTime string          `json:"expected_execution_time"`
	MaxAttempts           int             `json:"max_attempts"`
	TenantID              *string         `json:"tenant_id"`
	Entity                *string         `json:"entity"`
	IfFinished            *string         `json:"if_finished"`
	Jitter                *string         `json:"jitter"`
	Retention             *string         `json:"retention"`
	Trace                 *string         `json:"trace,omitempty"`
	ScheduledBy           *string         `json:"scheduled_by,omitempty"` // nil: as the call says
	wireRecurrence
}

// Fixed is the task with its id and its payload as they are now, so that later changes of what the payload points to
// do not reach it. It returns what Schedule would refuse the task for.
func (t Task) Fixed() (Task, error) {
	wire, err := t.wire()
	if err != nil {
		return Task{}, err
	}
	t.ID, t.Payload = wire.ID, JSON(wire.Payload)
	return t, nil
}

// Check returns what Schedule would refuse the task for, wrapping ErrInvalid, or nil.
func (t Task) Check() error {
	_, err := t.wire()
	return err
}

func (t Task) wire() (wireTask, error) {
	if isNil(t.Payload) {
		return wireTask{}, check.Invalid("payload", "must not be nil", fmt.Sprintf("%T", t.Payload))
	}
	id, err := t.id()
	if err != nil {
		return wireTask{}, err
	}
	payload, err := encodePayload(t.Payload)
	if err != nil {
		return wireTask{}, err
	}
	wire := wireTask{ID: id, Payload: payload, Priority: t.Priority, Queue: t.Queue, MaxAttempts: t.MaxAttempts}
	if wire.Queue == "" {
		wire.Queue = DefaultQueue
	}
	if len(wire.Queue) > 64 || !queueSyntax.MatchString(wire.Queue) {
		return wireTask{}, check.Invalid("queue", "must be 1 to 64 of a-z, 0-9, inner - or _",
			fmt.Sprintf("%q", t.Queue))
	}
	if t.Priority < MinPriority || t.Priority > MaxPriority {
		return wireTask{}, check.Invalid("priority", "must be between -100 and 100", t.Priority)
	}
	if wire.MaxAttempts == 0 {
		wire.MaxAttempts = DefaultMaxAttempts
	}
	if wire.MaxAttempts < 1 || wire.MaxAttempts > MaxMaxAttempts {
		return wireTask{}, check.Invalid("max_attempts", "must be between 1 and 1000 (0: the default, 5)",
			t.MaxAttempts)
	}
	if !t.At.IsZero() {
		at, err := check.TimeText("scheduled_at", t.At)
		if err != nil {
			return wireTask{}, err
		}
		wire.ScheduledAt = &at
	}
	if err := t.wireDurations(&wire); err != nil {
		return wireTask{}, err
	}
	if wire.Entity, err = label("entity", t.Entity); err != nil {
		return wireTask{}, err
	}
	if wire.TenantID, err = label("tenant_id", t.TenantID); err != nil {
		return wireTask{}, err
	}
	if err := t.wireRecurrence(&wire); err != nil {
		return wireTask{}, err
	}
	switch t.IfFinished {
	case "", Rearm, Keep:
		wire.IfFinished = check.OrNil(string(t.IfFinished))
	default:
		return wireTask{}, check.Invalid("if_finished", "must be Rearm, Keep or empty", fmt.Sprintf("%q", t.IfFinished))
	}
	return wire, nil
}

func (t Task) wireDurations(wire *wireTask) error {
	if t.Expiration != 0 {
		if t.Expiration < time.Microsecond || t.Expiration > MaxExpiration {
			return check.Invalid("expiration", "must be between 1µs and 10 years (0: none)", t.Expiration)
		}
		text := check.IntervalText(t.Expiration)
		wire.Expiration = &text
	}
	expected := t.ExpectedExecutionTime
	if expected == 0 {
		expected = DefaultExpectedExecutionTime
	}
	if expected < time.Microsecond || expected > MaxExpectedExecutionTime {
		return check.Invalid("expected_execution_time", "must be between 1µs and 7 days (0: the default, 5m)",
			t.ExpectedExecutionTime)
	}
	wire.ExpectedExecutionTime = check.IntervalText(expected)
	if t.Jitter != 0 {
		if t.Jitter < time.Microsecond || t.Jitter > MaxJitter {
			return check.Invalid("jitter", "must be between 1µs and 24h (0: none)", t.Jitter)
		}
		wire.Jitter = new(check.IntervalText(t.Jitter))
	}
	if t.Retention != 0 {
		if t.Retention < time.Microsecond || t.Retention > MaxRetention {
			return check.Invalid("retention", "must be between 1µs and 100 years (0: as configured)", t.Retention)
		}
		wire.Retention = new(check.IntervalText(t.Retention))
	}
	return nil
}

func (t Task) id() (string, error) {
	if t.ID != "" {
		return t.ID, check.ID(t.ID)
	}
	keyed, ok := t.Payload.(Keyed)
	if !ok {
		return NewID()
	}
	if keyed.TaskKey() == "" {
		return "", check.Invalid("id", "needs a TaskKey that is not empty",
			fmt.Sprintf("an empty key from %T", t.Payload))
	}
	id := IDOf(keyed)
	return id, check.ID(id)
}

func label(field, value string) (*string, error) {
	if value == "" {
		return nil, nil //nolint:nilnil // no label is not an error
	}
	return &value, check.Text(field, value)
}

// CheckType returns what is wrong with the name of a type, wrapping ErrInvalid, or nil.
func CheckType(name string) error {
	if utf8.RuneCountInString(name) > 127 || !typeSyntax.MatchString(name) {
		return check.Invalid("type", "must be 2 to 127 letters, digits or _-[]<>/.·:+", fmt.Sprintf("%q", name))
	}
	return nil
}

// CheckQueue returns what is wrong with the name of a queue, wrapping ErrInvalid, or nil.
func CheckQueue(name string) error {
	if len(name) > 64 || !queueSyntax.MatchString(name) {
		return check.Invalid("queue", "must be 1 to 64 of a-z, 0-9, inner - or _", fmt.Sprintf("%q", name))
	}
	return nil
}
