package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/form"
)

// Seconds is a duration in JSON: a number of seconds, with up to six decimals.
type Seconds = form.Seconds

// secondsOf returns nil for nil.
func secondsOf(d *time.Duration) *Seconds {
	if d == nil {
		return nil
	}
	return new(form.SecondsOf(*d))
}

// payload describes a payload for OpenAPI.
type payload json.RawMessage

// Schema describes a payload for OpenAPI.
func (payload) Schema(schemas huma.Registry) *huma.Schema {
	return named(schemas, "Payload", &huma.Schema{
		Type: huma.TypeObject, Required: []string{"type"}, AdditionalProperties: true,
		Description: "The content of the task. The field type names the handler. The handler reads the other fields.",
		Properties: map[string]*huma.Schema{"type": {
			Type: huma.TypeString, MinLength: new(2), MaxLength: new(127), Examples: []any{"LOG"},
		}},
		Examples: []any{map[string]any{"type": "LOG", "message": "hi"}},
	})
}

func deref[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}

// Task is a task as it is stored.
type Task struct {
	task store.Task // its fields stand beside these

	ID               string          `json:"id"`
	Type             string          `json:"type"`
	Status           store.Status    `json:"status"`
	Revision         int64           `json:"revision"`
	AskedRevision    int64           `json:"asked_revision"`
	Attempt          int             `json:"attempt"`
	Message          string          `json:"message,omitempty"`
	Result           json.RawMessage `json:"result,omitempty"`
	NextAttemptAt    *time.Time      `json:"next_attempt_at,omitempty"`
	RunNowAt         *time.Time      `json:"run_now_at,omitempty"`
	PausedUntil      *time.Time      `json:"paused_until,omitempty"`
	StartedAt        *time.Time      `json:"started_at,omitempty"`
	FinishedAt       *time.Time      `json:"finished_at,omitempty"`
	LastStatusUpdate time.Time       `json:"last_status_update"`
	CreatedAt        time.Time       `json:"created_at"`
	ScheduledBy      string          `json:"scheduled_by,omitempty"`
	OccurrenceCount  int             `json:"occurrence_count,omitempty"`
	ParentID         string          `json:"parent_id,omitempty"`
	SpawnedBy        string          `json:"spawned_by,omitempty"`
	ArchivedAt       *time.Time      `json:"archived_at,omitempty"`
	ArchivedNote     string          `json:"archived_note,omitempty"`

	Executions []store.Execution `json:"executions,omitzero" nullable:"false"`
}

func taskOf(row store.Row) Task {
	task, _ := store.TaskOf(row) // the database has checked the row
	return Task{
		task: task, ID: row.ID, Type: row.Type, Status: row.Status,
		Revision: row.Revision, AskedRevision: row.AskedRevision, Attempt: row.Attempt, Message: deref(row.Message),
		Result: row.Result, NextAttemptAt: row.NextAttemptAt,
		RunNowAt: row.RunNowAt, PausedUntil: row.PausedUntil, StartedAt: row.StartedAt, FinishedAt: row.FinishedAt,
		LastStatusUpdate: row.LastStatusUpdate, CreatedAt: row.CreatedAt, ScheduledBy: deref(row.ScheduledBy),
		OccurrenceCount: row.OccurrenceCount, ParentID: deref(row.ParentID), SpawnedBy: deref(row.SpawnedBy),
		ArchivedAt: row.ArchivedAt, ArchivedNote: deref(row.ArchivedNote),
	}
}

// MarshalJSON writes the fields of the task, and the others beside them.
func (t Task) MarshalJSON() ([]byte, error) {
	type others Task
	of := form.JSON(t.task)
	delete(of, "id")
	first, err := form.Encode(of, "") // it has the payload, so it is not {}
	if err != nil {
		return nil, fmt.Errorf("encode task %s: %w", t.ID, err)
	}
	second, err := form.Encode(others(t), "")
	if err != nil {
		return nil, fmt.Errorf("encode task %s: %w", t.ID, err)
	}
	return slices.Concat(first[:len(first)-1], []byte(","), second[1:]), nil
}

// each returns what of makes of each value. It is never nil, so that its JSON is not null.
func each[A, B any](values []A, of func(A) B) []B {
	made := make([]B, len(values))
	for i, value := range values {
		made[i] = of(value)
	}
	return made
}
