package api

import (
	"encoding/json"
	"math"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tasktable/tasktable/store"
)

// Seconds is a duration in JSON: a number of seconds, with up to six decimals.
type Seconds float64

// secondsOf returns nil for nil.
func secondsOf(d *time.Duration) *Seconds {
	if d == nil {
		return nil
	}
	return new(Seconds(float64(d.Microseconds()) / 1e6))
}

// duration rounds to microseconds, which is what Postgres stores. A number that is too large stays too large for every
// limit, and NaN, which a query can have, is below every limit.
func (s Seconds) duration() time.Duration {
	micros := math.Round(float64(s) * 1e6)
	switch {
	case micros > math.MaxInt64/1000:
		return math.MaxInt64
	case micros >= -math.MaxInt64/1000:
		return time.Duration(micros) * time.Microsecond
	}
	return math.MinInt64
}

// Payload is the content of a task: a JSON object whose field "type" names the type of the task.
type Payload json.RawMessage

// TaskType returns the field type.
func (p Payload) TaskType() string { return store.JSON(p).TaskType() }

// MarshalJSON returns the payload as it is.
func (p Payload) MarshalJSON() ([]byte, error) { return p, nil }

// UnmarshalJSON keeps the payload as it is, so that large numbers keep their digits.
func (p *Payload) UnmarshalJSON(given []byte) error {
	*p = append((*p)[:0], given...)
	return nil
}

// Schema describes a payload for OpenAPI.
func (Payload) Schema(schemas huma.Registry) *huma.Schema {
	return named(schemas, "Payload", &huma.Schema{
		Type: huma.TypeObject, Required: []string{"type"}, AdditionalProperties: true,
		Description: "The content of the task. The field type names the handler. The handler reads the other fields.",
		Properties: map[string]*huma.Schema{"type": {
			Type: huma.TypeString, MinLength: new(2), MaxLength: new(127), Examples: []any{"LOG"},
		}},
		Examples: []any{map[string]any{"type": "LOG", "message": "hi"}},
	})
}

// Value is any JSON value. It is kept as it is, so that large numbers keep their digits.
type Value json.RawMessage

// MarshalJSON returns the value as it is.
func (v Value) MarshalJSON() ([]byte, error) { return v, nil }

// UnmarshalJSON keeps the value as it is.
func (v *Value) UnmarshalJSON(given []byte) error {
	*v = append((*v)[:0], given...)
	return nil
}

// Schema allows every JSON value.
func (Value) Schema(huma.Registry) *huma.Schema { return &huma.Schema{} }

// Content is everything that a caller wants of a task. A field that is missing gets its default, also if the task
// exists. Only scheduled_at keeps the time of an existing task.
type Content struct {
	Payload               Payload    `json:"payload"`
	ScheduledAt           *time.Time `json:"scheduled_at,omitempty"`
	Priority              int        `json:"priority,omitempty" minimum:"-100" maximum:"100"`
	Queue                 string     `json:"queue,omitempty" maxLength:"64" pattern:"^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$"`
	Expiration            Seconds    `json:"expiration,omitempty" minimum:"0.000001" maximum:"315576000"`
	ExpectedExecutionTime Seconds    `json:"expected_execution_time,omitempty" minimum:"0.000001" maximum:"604800"`
	MaxAttempts           int        `json:"max_attempts,omitempty" minimum:"1" maximum:"1000"`
	Entity                string     `json:"entity,omitempty" minLength:"1" maxLength:"512"`
	TenantID              string     `json:"tenant_id,omitempty" minLength:"1" maxLength:"512"`
	IfFinished            string     `json:"if_finished,omitempty" enum:"rearm,keep"`
	IfRunning             string     `json:"if_running,omitempty" enum:"again"`
	Jitter                Seconds    `json:"jitter,omitempty" minimum:"0.000001" maximum:"86400"`
	Retention             Seconds    `json:"retention,omitempty" minimum:"0.000001" maximum:"3155760000"`
	Cron                  string     `json:"cron,omitempty" minLength:"1" maxLength:"256"`
	TimeZone              string     `json:"time_zone,omitempty" minLength:"1" maxLength:"64"`
	Overlap               string     `json:"overlap,omitempty" enum:"skip,allow,cancel_running"`
	CatchUp               string     `json:"catch_up,omitempty" enum:"latest,all,none"`
	CatchUpPaused         string     `json:"catch_up_paused,omitempty" enum:"latest,all,none"`
	CatchUpLimit          int        `json:"catch_up_limit,omitempty" minimum:"1" maximum:"10000"`
	EndsAt                *time.Time `json:"ends_at,omitempty"`
	IfDead                []IfDead   `json:"if_dead,omitempty" maxItems:"10" nullable:"false"`
	MaxOccurrences        int        `json:"max_occurrences,omitempty" minimum:"1" maximum:"1000000"`
}

// task returns the task to schedule. A caller with a tenant schedules for its tenant alone.
func (c Content) task(id string, caller Caller) (store.Task, error) {
	task := store.Task{
		ID: id, Payload: c.Payload, Priority: c.Priority, Queue: c.Queue, Expiration: c.Expiration.duration(),
		ExpectedExecutionTime: c.ExpectedExecutionTime.duration(), MaxAttempts: c.MaxAttempts, Entity: c.Entity,
		TenantID: c.TenantID, IfFinished: store.IfFinished(c.IfFinished),
		IfRunning: store.IfRunning(c.IfRunning), Jitter: c.Jitter.duration(),
		Retention: c.Retention.duration(),
	}
	if caller.Tenant != "" {
		if c.TenantID != "" && c.TenantID != caller.Tenant {
			return task, refusal(CodeTenantNotAllowed, "tenant_id must be the tenant of the key, or missing")
		}
		task.TenantID = caller.Tenant
	}
	if c.ScheduledAt != nil {
		if c.ScheduledAt.IsZero() {
			return task, invalid("scheduled_at must be after 0001-01-01T00:00:00Z")
		}
		task.At = *c.ScheduledAt
	}
	var err error
	if task.IfDead, err = c.ifDead(caller); err != nil {
		return task, err
	}
	recurrence := store.Recurrence{
		Cron: c.Cron, TimeZone: c.TimeZone, Overlap: store.Overlap(c.Overlap), CatchUp: store.CatchUp(c.CatchUp),
		CatchUpPaused: store.CatchUp(c.CatchUpPaused), CatchUpLimit: c.CatchUpLimit, MaxOccurrences: c.MaxOccurrences,
	}
	if c.EndsAt != nil {
		recurrence.EndsAt = *c.EndsAt
	}
	switch {
	case c.Cron != "":
		task.Recurrence = &recurrence
	case recurrence != store.Recurrence{}:
		return task, invalid("cron is missing: time_zone, overlap, catch_up, " +
			"catch_up_paused, catch_up_limit, ends_at and max_occurrences are for a task that recurs")
	}
	return task, nil
}

// contentOf returns the content of a task.
func contentOf(task store.Task) Content {
	payload, _ := json.Marshal(task.Payload) // it is JSON already
	c := Content{
		Payload: payload, ScheduledAt: &task.At, Priority: task.Priority, Queue: task.Queue,
		Expiration:            *secondsOf(&task.Expiration),
		ExpectedExecutionTime: *secondsOf(&task.ExpectedExecutionTime), MaxAttempts: task.MaxAttempts,
		Entity: task.Entity, TenantID: task.TenantID, Jitter: *secondsOf(&task.Jitter),
		Retention: *secondsOf(&task.Retention), IfDead: ifDeadOf(task.IfDead),
	}
	if r := task.Recurrence; r != nil {
		c.Cron, c.TimeZone, c.Overlap = r.Cron, r.TimeZone, string(r.Overlap)
		c.CatchUp, c.CatchUpPaused = string(r.CatchUp), string(r.CatchUpPaused)
		c.CatchUpLimit, c.MaxOccurrences = r.CatchUpLimit, r.MaxOccurrences
		if !r.EndsAt.IsZero() {
			c.EndsAt = &r.EndsAt
		}
	}
	return c
}

func deref[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}

// Task is a task as it is stored.
type Task struct {
	ID string `json:"id"`
	Content

	Type             string       `json:"type"`
	Status           store.Status `json:"status"`
	Revision         int64        `json:"revision"`
	AskedRevision    int64        `json:"asked_revision"`
	Attempt          int          `json:"attempt"`
	Message          string       `json:"message,omitempty"`
	Result           Value        `json:"result,omitempty"`
	NextAttemptAt    *time.Time   `json:"next_attempt_at,omitempty"`
	RunNowAt         *time.Time   `json:"run_now_at,omitempty"`
	PausedUntil      *time.Time   `json:"paused_until,omitempty"`
	StartedAt        *time.Time   `json:"started_at,omitempty"`
	FinishedAt       *time.Time   `json:"finished_at,omitempty"`
	LastStatusUpdate time.Time    `json:"last_status_update"`
	CreatedAt        time.Time    `json:"created_at"`
	ScheduledBy      string       `json:"scheduled_by,omitempty"`
	OccurrenceCount  int          `json:"occurrence_count,omitempty"`
	ParentID         string       `json:"parent_id,omitempty"`
	SpawnedBy        string       `json:"spawned_by,omitempty"`
	ArchivedAt       *time.Time   `json:"archived_at,omitempty"`
	ArchivedNote     string       `json:"archived_note,omitempty"`

	Executions []store.Execution `json:"executions,omitzero" nullable:"false"`
}

func taskOf(row store.Row) Task {
	of, _ := store.TaskOf(row) // the database has checked the row
	return Task{
		ID: row.ID, Content: contentOf(of), Type: row.Type, Status: row.Status,
		Revision: row.Revision, AskedRevision: row.AskedRevision, Attempt: row.Attempt, Message: deref(row.Message),
		Result: Value(row.Result), NextAttemptAt: row.NextAttemptAt,
		RunNowAt: row.RunNowAt, PausedUntil: row.PausedUntil, StartedAt: row.StartedAt, FinishedAt: row.FinishedAt,
		LastStatusUpdate: row.LastStatusUpdate, CreatedAt: row.CreatedAt, ScheduledBy: deref(row.ScheduledBy),
		OccurrenceCount: row.OccurrenceCount, ParentID: deref(row.ParentID), SpawnedBy: deref(row.SpawnedBy),
		ArchivedAt: row.ArchivedAt, ArchivedNote: deref(row.ArchivedNote),
	}
}

func tasksOf(rows []store.Row) []Task {
	tasks := make([]Task, len(rows))
	for i, row := range rows {
		tasks[i] = taskOf(row)
	}
	return tasks
}
