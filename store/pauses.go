package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

// Scope is what can be paused as a whole: everything, a queue, or a type. Nothing of it is claimed, and after the
// commit nothing is started; running handlers finish. It holds until resumed, or until a time. What is paused in two
// ways needs both resumed.
type Scope struct{ scope, name string }

// Everything is all tasks.
func Everything() Scope { return Scope{"all", ""} }

// Queue is the tasks of a queue.
func Queue(name string) Scope { return Scope{"queue", name} }

// Type is the tasks of a type.
func Type(name string) Scope { return Scope{"type", name} }

// ParseScope reads "all", "queue:" and a queue's name, or "type:" and a type's.
func ParseScope(text string) (Scope, error) {
	kind, name, _ := strings.Cut(text, ":")
	scope := Scope{kind, name}
	if kind != "queue" && kind != "type" && text != "all" {
		return Scope{}, check.Invalid("scope", "must be all, queue:NAME or type:NAME", fmt.Sprintf("%q", text))
	}
	return scope, scope.Check()
}

// String is what ParseScope reads.
func (p Scope) String() string {
	if p.name == "" {
		return p.scope
	}
	return p.scope + ":" + p.name
}

// Check says what is wrong with the scope's name; the error wraps ErrInvalid.
func (p Scope) Check() error {
	switch p.scope {
	case "all":
		return nil
	case "queue":
		return CheckQueue(p.name)
	case "type":
		return CheckType(p.name)
	}
	return check.Invalid("scope", "must be Everything, Queue or Type", "the zero Scope")
}

// Has says whether a queue's tasks of a type belong to the scope.
func (p Scope) Has(queue, taskType string) bool {
	return p.scope == "all" || p.scope == "queue" && p.name == queue || p.scope == "type" && p.name == taskType
}

const pauseScopeSQL = `SELECT tasktable.pause_scope($1::text, $2::text, $3::text::timestamptz, $4::text, $5::text)`

// PauseScope pauses a scope, with a reason for those who wonder; until zero: until ResumeScope. Paused or Unchanged.
func (s *Store) PauseScope(ctx context.Context, db DB, scope Scope, until time.Time, reason string) (Outcome, error) {
	if err := scope.Check(); err != nil {
		return "", fmt.Errorf("pause: %w", err)
	}
	if err := check.Note("reason", reason); err != nil {
		return "", fmt.Errorf("pause: %w", err)
	}
	var ends *string
	if !until.IsZero() {
		text, err := check.TimeText("until", until)
		if err != nil {
			return "", fmt.Errorf("pause: %w", err)
		}
		ends = &text
	}
	outcome, err := query.Value[string](ctx, s.source, db, "pause "+scope.scope+" "+scope.name, pauseScopeSQL,
		scope.scope, scope.name, ends, check.OrNil(reason), s.author())
	return Outcome(outcome), err
}

const resumeScopeSQL = `SELECT tasktable.resume_scope($1::text, $2::text, $3::text)`

// ResumeScope ends a pause: Queued or Unchanged.
func (s *Store) ResumeScope(ctx context.Context, db DB, scope Scope) (Outcome, error) {
	if err := scope.Check(); err != nil {
		return "", fmt.Errorf("resume: %w", err)
	}
	outcome, err := query.Value[string](ctx, s.source, db, "resume "+scope.scope+" "+scope.name, resumeScopeSQL,
		scope.scope, scope.name, s.author())
	return Outcome(outcome), err
}

// Pause is a line of the table pauses.
type Pause struct {
	Scope    string     `json:"scope"`
	Name     string     `json:"name"`
	PausedAt time.Time  `json:"paused_at"`
	PausedBy string     `json:"paused_by"`
	EndsAt   *time.Time `json:"ends_at,omitempty"`
	Reason   *string    `json:"reason,omitempty"`
}

// Of is what the pause holds.
func (p Pause) Of() Scope { return Scope{p.Scope, p.Name} }

const listPausesSQL = `
SELECT scope, name, paused_at, paused_by, ends_at, reason FROM tasktable.pauses
WHERE ends_at IS NULL OR ends_at > clock_timestamp() ORDER BY scope, name`

// Pauses lists the pauses that hold.
func (s *Store) Pauses(ctx context.Context, db DB) ([]Pause, error) {
	return query.Collect[Pause](ctx, s.source, db, "list pauses", listPausesSQL)
}
