package store

import (
	"encoding/json"
	"errors"
	"fmt"
)

// TaskOf returns the task of a row. Use it to change some fields of a task: read the row, change the Task, and schedule
// it. Schedule changes nothing else, and writes nothing if no field differs.
//
//	row, err := tasks.Get(ctx, tx, id)
//	task, err := store.TaskOf(row)
//	task.Priority = 10
//	receipt, err := tasks.Schedule(ctx, tx, task)
//
// The Defaults of the type do not fill the fields that the row has no value for, because NoDefaults is set.
//
// To be safe from other writers, lock the row in the same transaction, or compare the Revision of the receipt.
//
// Schedule leaves a task that has finished as it is, unless At is another time or IfFinished is Rearm. It queues a
// cancelled task again.
//
// The payloads are as they are stored, also those of IfDead. Schedule does not encode an encoded one again, so no Codec
// is needed. Store.Payload decodes a payload. An encoded payload may be bound to its task, so do not give it to a task
// with another ID.
//
// The error is about a row that was not read by this package.
func TaskOf(row Row) (Task, error) {
	ifDead, err := ifDeadOf(row.ID, row.IfDead)
	if err != nil {
		return Task{}, err
	}
	task := Task{
		ID: row.ID, Payload: storedPayload(row.Payload), At: row.ScheduledAt, Priority: row.Priority, Queue: row.Queue,
		Expiration: orZero(row.Expiration), ExpectedExecutionTime: row.ExpectedExecutionTime,
		MaxAttempts: row.MaxAttempts, Entity: orZero(row.Entity), TenantID: orZero(row.TenantID),
		Group: orZero(row.GroupKey), Backoff: orZero(row.Backoff), Timeout: orZero(row.Timeout),
		Deadline: orZero(row.Deadline), NoDefaults: true,
		Jitter: orZero(row.Jitter), Retention: orZero(row.Retention), IfDead: ifDead,
	}
	if row.Cron != nil {
		r := recurrenceOf(*row.Cron)
		r.TimeZone, r.Overlap, r.CatchUp = orZero(row.TimeZone), orZero(row.Overlap), orZero(row.CatchUp)
		r.CatchUpPaused, r.CatchUpLimit = orZero(row.CatchUpPaused), orZero(row.CatchUpLimit)
		r.EndsAt, r.MaxOccurrences = orZero(row.EndsAt), orZero(row.MaxOccurrences)
		task.Recurrence = &r
	}
	return task, nil
}

func orZero[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}

// Typed returns a payload that is given as the name of its type and JSON text. The text must be an object. Its field
// "type" must be the name, or missing. If name is "", the field has the name. An empty text stands for {}.
//
// The error wraps ErrInvalid. It does not quote the text, because a payload may be secret.
func Typed(name string, text []byte) (Payload, error) {
	if len(text) == 0 {
		text = []byte("{}")
	}
	var fields map[string]json.RawMessage
	err := json.Unmarshal(text, &fields)
	where := new(json.SyntaxError)
	switch {
	case errors.As(err, &where):
		return nil, fmt.Errorf("%w: payload must be a JSON object: it is wrong at byte %d", ErrInvalid, where.Offset)
	case err != nil || fields == nil:
		return nil, fmt.Errorf("%w: payload must be a JSON object", ErrInvalid)
	}
	if name == "" {
		if name = JSON(text).TaskType(); name == "" {
			return nil, fmt.Errorf("%w: type must be given, because the payload has no field type that says it",
				ErrInvalid)
		}
	}
	body, err := encodePayload(typedJSON{text, name})
	return JSON(body), err
}
