package store

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/store/backoff"
	"github.com/tasktable/tasktable/store/internal/check"
)

// wireTask is a Task in the form that the SQL functions take. Its defaults are filled in, and every field is checked.
// Times and intervals are text.
type wireTask struct {
	ID                    string          `json:"id,omitempty"` // only a task of IfDead may have none
	Payload               json.RawMessage `json:"payload"`
	ScheduledAt           *string         `json:"scheduled_at"`
	Priority              int             `json:"priority,omitempty"`
	Queue                 *string         `json:"queue,omitempty"`
	Expiration            *string         `json:"expiration"`
	ExpectedExecutionTime *string         `json:"expected_execution_time,omitempty"`
	MaxAttempts           int             `json:"max_attempts,omitempty"`
	TenantID              *string         `json:"tenant_id"`
	Entity                *string         `json:"entity"`
	GroupKey              *string         `json:"group_key,omitempty"`
	Backoff               *string         `json:"backoff,omitempty"`
	Timeout               *string         `json:"timeout,omitempty"`
	Deadline              *string         `json:"deadline,omitempty"`
	Delay                 *string         `json:"delay,omitempty"`
	Debounce              *string         `json:"debounce,omitempty"`
	UniqueFor             *string         `json:"unique_for,omitempty"`
	IfExists              *string         `json:"if_exists,omitempty"`
	IfFinished            *string         `json:"if_finished"`
	IfRunning             *string         `json:"if_running,omitempty"`
	Replace               bool            `json:"replace,omitempty"`
	Defaults              *bool           `json:"defaults,omitempty"`
	Jitter                *string         `json:"jitter"`
	Retention             *string         `json:"retention"`
	Trace                 *string         `json:"trace,omitempty"`
	ScheduledBy           *string         `json:"scheduled_by,omitempty"` // nil: the call names the author
	IfDead                []wireTask      `json:"if_dead,omitempty"`

	Former []json.RawMessage `json:"former_payloads,omitempty"` // the payload as former codecs encode it, see Rotated
	wireRecurrence
}

// Fixed returns the task with its id, its payload and the payload's defaults as they are now, so that later changes of
// the payload's Go value do not reach the task. It returns the error, wrapping ErrInvalid, with which Schedule would
// refuse the task. It is for engines.
func (t Task) Fixed() (Task, error) {
	wire, err := t.wire()
	if err != nil {
		return Task{}, err
	}
	if t.Days != nil {
		return Task{}, check.Invalid("days", "must be nil, because nobody asks the calendars for this task", "given")
	}
	t = t.withAllDefaults()
	t.ID, t.Payload = wire.ID, JSON(wire.Payload)
	return t.withIfDead(wire), nil
}

// Check returns the error, wrapping ErrInvalid, with which Schedule would refuse the task. It returns nil if Schedule
// would accept the task. The database may still refuse it.
func (t Task) Check() error {
	_, err := t.wire()
	return err
}

func (t Task) wire() (wireTask, error) {
	if check.IsNil(t.Payload) {
		return wireTask{}, check.Invalid("payload", "must not be nil", fmt.Sprintf("%T", t.Payload))
	}
	t, err := t.withDefaults()
	if err != nil {
		return wireTask{}, err
	}
	id, err := t.id()
	if err != nil {
		return wireTask{}, err
	}
	payload, err := encodePayload(t.Payload)
	if err != nil {
		return wireTask{}, err
	}
	wire := wireTask{ID: id, Payload: payload, Priority: t.Priority, Queue: check.OrNil(t.Queue),
		MaxAttempts: t.MaxAttempts, Replace: t.Replace}
	if t.NoDefaults {
		wire.Defaults = new(false)
	}
	if t.Queue != "" {
		if err := CheckQueue(t.Queue); err != nil {
			return wireTask{}, err
		}
	}
	if t.Priority < MinPriority || t.Priority > MaxPriority {
		return wireTask{}, check.Invalid("priority", "must be between -100 and 100", t.Priority)
	}
	if !t.At.IsZero() {
		at, err := check.TimeText("scheduled_at", t.At)
		if err != nil {
			return wireTask{}, err
		}
		wire.ScheduledAt = &at
	}
	if err := t.checkDays(); err != nil {
		return wireTask{}, err
	}
	for _, part := range []func(*wireTask) error{
		t.wireRetries, t.wireDurations, t.wireLabels, t.wireRecurrence, t.wireIfDead, t.wireWish,
	} {
		if err := part(&wire); err != nil {
			return wireTask{}, err
		}
	}
	return wire, nil
}

// wireRetries checks how attempts are repeated and when they end.
func (t Task) wireRetries(wire *wireTask) error {
	if t.MaxAttempts < 0 || t.MaxAttempts > MaxMaxAttempts {
		return check.Invalid("max_attempts", "must be between 1 and 1000 (0: the default, 10)", t.MaxAttempts)
	}
	if t.Backoff != "" {
		if _, err := backoff.Parse(t.Backoff); err != nil {
			return err
		}
		wire.Backoff = &t.Backoff
	}
	if !t.Deadline.IsZero() {
		at, err := check.TimeText("deadline", t.Deadline)
		if err == nil && t.Recurrence != nil {
			err = check.Invalid("deadline", "must be empty for a task that recurs: use expiration", at)
		}
		if err == nil && !t.At.IsZero() && !t.Deadline.After(t.At) {
			err = check.Invalid("deadline", "must be later than the time of the task", at)
		}
		if err != nil {
			return err
		}
		wire.Deadline = &at
	}
	return nil
}

func (t Task) wireDurations(wire *wireTask) error {
	const ten = "must be between 1µs and 10 years (0: none)"
	for _, one := range []struct {
		field, rule string
		value, most time.Duration
		to          **string
	}{
		{"timeout", "must be between 1µs and 7 days (0: none)", t.Timeout, MaxTimeout, &wire.Timeout},
		{"expiration", ten, t.Expiration, MaxExpiration, &wire.Expiration},
		{"expected_execution_time", "must be between 1µs and 7 days (0: the default, 5m)", t.ExpectedExecutionTime,
			MaxExpectedExecutionTime, &wire.ExpectedExecutionTime},
		{"jitter", "must be between 1µs and 24h (0: none)", t.Jitter, MaxJitter, &wire.Jitter},
		{"retention", "must be between 1µs and 100 years (0: as configured)", t.Retention, MaxRetention,
			&wire.Retention},
		{"delay", ten, t.In, maxWish, &wire.Delay},
		{"debounce", ten, t.Debounce, maxWish, &wire.Debounce},
		{"unique_for", ten, t.UniqueFor, maxWish, &wire.UniqueFor},
	} {
		if one.value == 0 {
			continue
		}
		if one.value < time.Microsecond || one.value > one.most {
			return check.Invalid(one.field, one.rule, one.value)
		}
		*one.to = new(check.IntervalText(one.value))
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

func (t Task) wireLabels(wire *wireTask) error {
	wire.Entity, wire.TenantID, wire.GroupKey = check.OrNil(t.Entity), check.OrNil(t.TenantID), check.OrNil(t.Group)
	return cmp.Or(check.Text("entity", t.Entity), check.Text("tenant_id", t.TenantID), check.Text("group_key", t.Group))
}
