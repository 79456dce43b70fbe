package store

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store/internal/check"
)

// MaxIfDead is the greatest number of tasks in Task.IfDead.
const MaxIfDead = 10

// wireIfDead checks the tasks of IfDead, and brings them into the form that the SQL functions take. A task whose
// payload is not Keyed has no id there, because the database makes its id of the dead task's id.
func (t Task) wireIfDead(wire *wireTask) error {
	if len(t.IfDead) > MaxIfDead {
		return check.Invalid("if_dead", "must be at most 10 tasks", len(t.IfDead))
	}
	for i, child := range t.IfDead {
		one, err := child.wireAsIfDead(t, wire.ID)
		if err != nil {
			return inIfDead(err, i+1)
		}
		if one.ID != "" && slices.ContainsFunc(wire.IfDead, func(other wireTask) bool { return other.ID == one.ID }) {
			return inIfDead(check.Invalid("id", "must not be that of another task of if_dead",
				fmt.Sprintf("%q", one.ID)), i+1)
		}
		wire.IfDead = append(wire.IfDead, one)
	}
	if encoded, err := json.Marshal(wire.IfDead); err == nil && len(encoded) > MaxPayloadBytes {
		return check.Invalid("if_dead", "must be at most 256 KiB of JSON text", fmt.Sprintf("%d bytes", len(encoded)))
	}
	return nil
}

func (t Task) wireAsIfDead(of Task, ofID string) (wireTask, error) {
	switch {
	case t.Recurrence != nil:
		return wireTask{}, check.Invalid("cron", "must be empty in a task of if_dead", "one")
	case len(t.IfDead) > 0:
		return wireTask{}, check.Invalid("if_dead", "must be empty in a task of if_dead", "one")
	case t.Replace:
		return wireTask{}, check.Invalid("replace", "must be false in a task of if_dead", "true")
	case t.NoDefaults:
		return wireTask{}, check.Invalid("defaults", "must not be kept away from a task of if_dead", "NoDefaults")
	case t.TenantID != "" && t.TenantID != of.TenantID:
		return wireTask{}, check.Invalid("tenant_id", "must be that of the task, or empty",
			fmt.Sprintf("%q", t.TenantID))
	}
	if err := t.refuseWish(); err != nil {
		return wireTask{}, err
	}
	_, keyed := t.Payload.(Keyed)
	named := t.ID != "" || keyed
	wire, err := t.wire()
	switch {
	case err != nil:
		return wireTask{}, err
	case !named:
		wire.ID = ""
	case wire.ID == ofID:
		return wireTask{}, check.Invalid("id", "must not be that of the task itself", fmt.Sprintf("%q", wire.ID))
	}
	return wire, nil
}

// ifDeadID is the id that a task of IfDead without an id gets when the task with the id `of` dies. place counts
// from 1.
func ifDeadID(of string, place int) string { return of + "/dead/" + strconv.Itoa(place) }

var ifDeadSuffix = regexp.MustCompile(`/dead/([1-9]|10)$`)

// encodeIfDead is encode for the tasks of IfDead.
func (w *wireTask) encodeIfDead(ctx context.Context, codec Codec, tasks []Task) error {
	for i, task := range tasks {
		one := &w.IfDead[i]
		id := one.ID
		if id == "" {
			one.ID = ifDeadID(w.ID, i+1) // the codec may bind the payload to it
		}
		err := one.encode(ctx, codec, task.Payload)
		one.Former = nil // a changed key changes if_dead, which is no part of the idempotency key
		if one.ID = id; err != nil {
			return inIfDead(err, i+1)
		}
	}
	return nil
}

// inIfDead says in an error which task of IfDead it is about, in the place of the field's name.
func inIfDead(err error, place int) error {
	if rule, found := strings.CutPrefix(err.Error(), ErrInvalid.Error()+": "); found {
		return fmt.Errorf("%w: if_dead: task %d: %s", ErrInvalid, place, rule)
	}
	return fmt.Errorf("if_dead: task %d: %w", place, err)
}

// withIfDead returns the task with the tasks of IfDead as they are in wire.
func (t Task) withIfDead(wire wireTask) Task {
	t.IfDead = slices.Clone(t.IfDead)
	for i, one := range wire.IfDead {
		t.IfDead[i].ID, t.IfDead[i].Payload = one.ID, storedPayload(one.Payload)
	}
	return t
}

// storedPayload is a payload as it is stored. A payload that is encoded already is not encoded again.
func storedPayload(payload json.RawMessage) Payload {
	var fields map[string]json.RawMessage
	if json.Unmarshal(payload, &fields) == nil && fields[codecField] != nil {
		return inEnvelope{JSON: JSON(payload)}
	}
	return JSON(payload)
}

// ifDeadOf returns the tasks that the column if_dead has, so that scheduling the task with them again changes nothing.
// Their payloads are as they are stored.
func ifDeadOf(id string, ifDead json.RawMessage) ([]Task, error) {
	if len(ifDead) == 0 {
		return nil, nil
	}
	var stored []struct {
		ID                    string          `json:"id"`
		Payload               json.RawMessage `json:"payload"`
		ScheduledAt           time.Time       `json:"scheduled_at"`
		Priority              int             `json:"priority"`
		Queue                 string          `json:"queue"`
		Expiration            string          `json:"expiration"`
		ExpectedExecutionTime string          `json:"expected_execution_time"`
		MaxAttempts           int             `json:"max_attempts"`
		Entity                string          `json:"entity"`
		GroupKey              string          `json:"group_key"`
		IfFinished            Choice          `json:"if_finished"`
		Jitter                string          `json:"jitter"`
		Retention             string          `json:"retention"`
		Backoff               string          `json:"backoff"`
		Timeout               string          `json:"timeout"`
		Deadline              time.Time       `json:"deadline"`
	}
	if err := json.Unmarshal(ifDead, &stored); err != nil {
		return nil, fmt.Errorf("read if_dead of task %s: %w", id, err)
	}
	tasks := make([]Task, len(stored))
	for i, one := range stored {
		tasks[i] = Task{
			ID: one.ID, Payload: storedPayload(one.Payload), At: one.ScheduledAt, Priority: one.Priority,
			Queue: one.Queue, Expiration: ofSeconds(one.Expiration),
			ExpectedExecutionTime: ofSeconds(one.ExpectedExecutionTime), MaxAttempts: one.MaxAttempts,
			Entity: one.Entity, Group: one.GroupKey, IfFinished: one.IfFinished, Jitter: ofSeconds(one.Jitter),
			Retention: ofSeconds(one.Retention), Backoff: one.Backoff, Timeout: ofSeconds(one.Timeout),
			Deadline: one.Deadline,
		}
	}
	return tasks, nil
}

// ofSeconds reads an interval as the function seconds_text writes it. "" is 0.
func ofSeconds(text string) time.Duration {
	whole, fraction, _ := strings.Cut(strings.TrimSuffix(text, " seconds"), ".")
	seconds, _ := strconv.ParseInt(whole, 10, 64)
	micros, _ := strconv.ParseInt((fraction + "000000")[:6], 10, 64)
	return time.Duration(seconds)*time.Second + time.Duration(micros)*time.Microsecond
}
