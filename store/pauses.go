package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

// Scope is a set of tasks that can be paused as a whole: all tasks, the tasks of a queue, or the tasks of a type.
// While a scope is paused, none of its tasks is claimed, and after the commit no attempt of them starts. Handlers
// that run already continue to their end. The pause holds until ResumeScope, or until a given time. A task that is
// paused in two ways starts only after both pauses have ended. The zero Scope is invalid.
type Scope struct{ scope, name string }

// Everything returns the scope of all tasks.
func Everything() Scope { return Scope{"all", ""} }

// Queue returns the scope of the tasks of a queue.
func Queue(name string) Scope { return Scope{"queue", name} }

// Type returns the scope of the tasks of a type.
func Type(name string) Scope { return Scope{"type", name} }

// ParseScope parses "all", "queue:NAME" or "type:NAME". Its error wraps ErrInvalid.
func ParseScope(text string) (Scope, error) {
	kind, name, _ := strings.Cut(text, ":")
	scope := Scope{kind, name}
	if kind != "queue" && kind != "type" && text != "all" {
		return Scope{}, check.Invalid("scope", "must be all, queue:NAME or type:NAME", fmt.Sprintf("%q", text))
	}
	return scope, scope.Check()
}

// String returns the text that ParseScope parses.
func (p Scope) String() string {
	if p.name == "" {
		return p.scope
	}
	return p.scope + ":" + p.name
}

// Check returns an error that wraps ErrInvalid if the scope is the zero Scope or its name is invalid, otherwise nil.
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

// Has reports whether a task of the given queue and type belongs to the scope.
func (p Scope) Has(queue, taskType string) bool {
	return p.scope == "all" || p.scope == "queue" && p.name == queue || p.scope == "type" && p.name == taskType
}

const pauseScopeSQL = `SELECT tasktable.pause_scope($1::text, $2::text, $3::text::timestamptz, $4::text, $5::text)`

// PauseScope pauses a scope. If until is zero, the pause holds until ResumeScope. The reason is shown to people who
// look at the pause. It may be empty. PauseScope returns Paused, or Unchanged if the scope is paused already with the
// same until and reason. If the scope is paused with others, PauseScope changes them. Its error wraps ErrInvalid for
// a bad argument.
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

// ResumeScope ends the pause of a scope. It returns Queued, or Unchanged if the scope is not paused.
func (s *Store) ResumeScope(ctx context.Context, db DB, scope Scope) (Outcome, error) {
	if err := scope.Check(); err != nil {
		return "", fmt.Errorf("resume: %w", err)
	}
	outcome, err := query.Value[string](ctx, s.source, db, "resume "+scope.scope+" "+scope.name, resumeScopeSQL,
		scope.scope, scope.name, s.author())
	return Outcome(outcome), err
}

// Pause is a row of the table pauses.
type Pause struct {
	Scope    string     `json:"scope"` // all, queue or type
	Name     string     `json:"name"`  // of the queue or type; "" if Scope is all
	PausedAt time.Time  `json:"paused_at"`
	PausedBy string     `json:"paused_by"`
	EndsAt   *time.Time `json:"ends_at,omitempty"` // nil: until ResumeScope
	Reason   *string    `json:"reason,omitempty"`
}

// Of returns the scope that the pause holds back.
func (p Pause) Of() Scope { return Scope{p.Scope, p.Name} }

const listPausesSQL = `
SELECT scope, name, paused_at, paused_by, ends_at, reason FROM tasktable.pauses
WHERE ends_at IS NULL OR ends_at > clock_timestamp() ORDER BY scope, name COLLATE "C"`

// Pauses lists the pauses that hold now, sorted by scope and name.
func (s *Store) Pauses(ctx context.Context, db DB) ([]Pause, error) {
	return query.Collect[Pause](ctx, s.source, db, "list pauses", listPausesSQL)
}
