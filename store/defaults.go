package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

// AllTypes is the Type of Defaults for all types.
const AllTypes = "*"

// Defaults are the values of fields that a Task leaves zero, for the tasks of a type. A change of defaults touches no
// task that was scheduled before. It is an edit only of the tasks that are scheduled again.
//
// A payload that has the method TaskDefaults() Defaults brings defaults of its own, without a Type. They win over those
// that the database has. A node writes those of its handlers' payloads to the database, so that SQL clients, the HTTP
// API and the command line use them, too.
//
//	func (Reminder) TaskDefaults() store.Defaults { return store.Defaults{MaxAttempts: 3, Backoff: "1m"} }
//
// A task's field wins over all defaults, then come those of its type, then those of AllTypes. Only Task.NoDefaults
// keeps a default from a field that is to stay zero.
type Defaults struct {
	// Type is the type of the tasks, or AllTypes.
	Type string `json:"type"`

	// For the fields see Task. A zero field means that there is no default of its own.
	// Lengths of time are nanoseconds in JSON.
	Queue                 string        `json:"queue,omitempty"`
	Priority              int           `json:"priority,omitempty"`
	Expiration            time.Duration `json:"expiration,omitempty"`
	ExpectedExecutionTime time.Duration `json:"expected_execution_time,omitempty"`
	MaxAttempts           int           `json:"max_attempts,omitempty"`
	Backoff               string        `json:"backoff,omitempty"`
	Timeout               time.Duration `json:"timeout,omitempty"`
	Retention             time.Duration `json:"retention,omitempty"`
	Group                 string        `json:"group_key,omitempty"`

	// ChangedAt, ChangedBy and DeclaredBy say when and by whom they were set, and which service's code declares them.
	// Store.Defaults fills them in. SetDefaults records DeclaredBy, for engines, and ignores the others.
	ChangedAt  time.Time `json:"changed_at"`
	ChangedBy  string    `json:"changed_by"`
	DeclaredBy string    `json:"declared_by,omitempty"`
}

// defaulter is a payload with defaults of its own.
type defaulter interface{ TaskDefaults() Defaults }

// DefaultsOf returns the defaults that a payload brings, and whether it has any. It is for engines.
func DefaultsOf(payload Payload) (defaults Defaults, has bool) {
	own, has := methodOf[defaulter](payload)
	if has {
		defaults = own.TaskDefaults()
		defaults.Type = payload.TaskType()
	}
	return defaults, has
}

// Check returns the error, wrapping ErrInvalid, with which SetDefaults would refuse the defaults, or nil.
func (d Defaults) Check() error {
	_, err := d.wire()
	return err
}

// wire checks the defaults as the fields of a task, so that both have the same rules.
func (d Defaults) wire() (wireTask, error) {
	name := d.Type
	if name == AllTypes {
		name = "ALL"
	}
	return d.On(Task{ID: "defaults", Payload: typedJSON{[]byte("{}"), name}, NoDefaults: true}).wire()
}

// On returns the task with the defaults in its zero fields.
func (d Defaults) On(t Task) Task {
	t.Queue, t.Backoff, t.Group = cmp.Or(t.Queue, d.Queue), cmp.Or(t.Backoff, d.Backoff), cmp.Or(t.Group, d.Group)
	t.Priority, t.MaxAttempts = cmp.Or(t.Priority, d.Priority), cmp.Or(t.MaxAttempts, d.MaxAttempts)
	t.Expiration = cmp.Or(t.Expiration, d.Expiration)
	t.ExpectedExecutionTime = cmp.Or(t.ExpectedExecutionTime, d.ExpectedExecutionTime)
	t.Timeout, t.Retention = cmp.Or(t.Timeout, d.Timeout), cmp.Or(t.Retention, d.Retention)
	return t
}

// withDefaults fills the zero fields of the task with the defaults that its payload brings.
func (t Task) withDefaults() (Task, error) {
	own, has := DefaultsOf(t.Payload)
	if !has || t.NoDefaults {
		return t, nil
	}
	if err := own.Check(); err != nil {
		return t, fmt.Errorf("TaskDefaults of type %s: %w", own.Type, err)
	}
	return own.On(t), nil
}

// withAllDefaults is withDefaults, also for the tasks of IfDead. The task has been checked, so the defaults are good.
func (t Task) withAllDefaults() Task {
	t, _ = t.withDefaults()
	t.IfDead = slices.Clone(t.IfDead)
	for i, child := range t.IfDead {
		t.IfDead[i], _ = child.withDefaults()
	}
	return t
}

const setDefaultsSQL = `
SELECT tasktable.set_defaults(type => $1::text, queue => $2::text, priority => $3::text::int,
    expiration => $4::text::interval, expected_execution_time => $5::text::interval, max_attempts => $6::text::int,
    backoff => $7::text, timeout => $8::text::interval, retention => $9::text::interval, group_key => $10::text,
    by => $11::text, declared_by => $12::text)`

// SetDefaults sets the defaults of a type, in the place of all that it had. It returns Created, Changed or Unchanged.
// At most 10,000 types have defaults. The error wraps ErrInvalid for a bad field. The role of an application must not
// call it, because other services may schedule tasks of the type.
func (s *Store) SetDefaults(ctx context.Context, db DB, d Defaults) (Outcome, error) {
	wire, err := d.wire()
	if err != nil {
		return "", fmt.Errorf("set defaults: %w", err)
	}
	outcome, err := query.Value[string](ctx, s.source, db, "set defaults of "+d.Type, setDefaultsSQL, d.Type,
		wire.Queue, nonZero(wire.Priority), wire.Expiration, wire.ExpectedExecutionTime, nonZero(wire.MaxAttempts),
		wire.Backoff, wire.Timeout, wire.Retention, wire.GroupKey, s.author(), check.OrNil(d.DeclaredBy))
	return Outcome(outcome), err
}

const removeDefaultsSQL = `SELECT tasktable.remove_defaults($1::text)`

// RemoveDefaults removes the defaults of a type. It returns Deleted, or Absent if it has none.
func (s *Store) RemoveDefaults(ctx context.Context, db DB, name string) (Outcome, error) {
	if err := check.Text("type", name); err != nil {
		return "", fmt.Errorf("remove defaults: %w", err)
	}
	outcome, err := query.Value[string](ctx, s.source, db, "remove defaults of "+name, removeDefaultsSQL, name)
	return Outcome(outcome), err
}

// The columns have the names of the fields in lower case, with _ between words, as pgx matches them.
const listDefaultsSQL = `
SELECT type, coalesce(queue, '') AS queue, coalesce(priority, 0) AS priority,
    (extract(epoch FROM coalesce(expiration, '0')) * 1000000000)::bigint AS expiration,
    (extract(epoch FROM coalesce(expected_execution_time, '0')) * 1000000000)::bigint AS expected_execution_time,
    coalesce(max_attempts, 0) AS max_attempts, coalesce(backoff, '') AS backoff,
    (extract(epoch FROM coalesce(timeout, '0')) * 1000000000)::bigint AS timeout,
    (extract(epoch FROM coalesce(retention, '0')) * 1000000000)::bigint AS retention,
    coalesce(group_key, '') AS "group", changed_at, changed_by, coalesce(declared_by, '') AS declared_by
FROM tasktable.task_defaults ORDER BY type COLLATE "C"`

// Defaults lists the defaults that the database has, sorted by type.
func (s *Store) Defaults(ctx context.Context, db DB) ([]Defaults, error) {
	return query.Collect[Defaults](ctx, s.source, db, "list defaults", listDefaultsSQL)
}
