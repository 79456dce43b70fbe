package store_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/tasktable/tasktable/store"
)

// state is all there is of a task.
type state struct {
	Row *store.Row
	// Version changes whenever the row is written to, even with what it held before.
	Version string
	Changes []store.Change
}

func (b *bench) state(id string) state {
	b.Helper()
	found := state{Row: b.get(id)}
	if changes := b.changes(id); len(changes) > 0 {
		found.Changes = changes
	}
	for i, change := range found.Changes {
		found.Changes[i].Old, found.Changes[i].New = encoded(
			b, b.recorded(change.Old),
		), encoded(b, b.recorded(change.New))
	}
	if found.Row != nil {
		found.Version = one[string](b, b.pool, `SELECT xmin || ' ' || ctid FROM tasktable.scheduled_tasks
			WHERE id = $1`, id)
	}
	return found
}

// content is what change lines compare, in their form.
func content(row *store.Row) map[string]any {
	var body any
	_ = json.Unmarshal(row.Payload, &body)
	return map[string]any{
		"status": string(row.Status), "payload": body, "scheduled_at": instant(&row.ScheduledAt),
		"run_now_at": instant(row.RunNowAt), "priority": float64(row.Priority), "queue": row.Queue,
		"expiration": clock(row.Expiration), "expected_execution_time": clock(&row.ExpectedExecutionTime),
		"max_attempts": float64(row.MaxAttempts), "entity": text(row.Entity), "tenant_id": text(row.TenantID),
	}
}

func instant(at *time.Time) any {
	if at == nil {
		return nil
	}
	return at.UTC().Format(time.RFC3339Nano)
}

func clock(d *time.Duration) any {
	if d == nil {
		return nil
	}
	return fmt.Sprintf("%02d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}

func text(s *string) any {
	if s == nil {
		return nil
	}
	return *s
}

// recorded reads old or new of a change line, times in UTC.
func (b *bench) recorded(line json.RawMessage) map[string]any {
	b.Helper()
	if line == nil {
		return nil
	}
	var fields map[string]any
	b.check(json.Unmarshal(line, &fields))
	for _, key := range []string{"scheduled_at", "run_now_at"} {
		if value, ok := fields[key].(string); ok {
			at, err := time.Parse(time.RFC3339Nano, value)
			b.check(err)
			fields[key] = instant(&at)
		}
	}
	return fields
}

func encoded(b *bench, fields map[string]any) json.RawMessage {
	if fields == nil {
		return nil
	}
	text, err := json.Marshal(fields)
	b.check(err)
	return text
}

// edits are the fields that differ, as they were and as they became.
func edits(before, after *store.Row) (was, is map[string]any) {
	was, is = content(before), content(after)
	for key := range maps.Clone(was) {
		if pretty(was[key]) == pretty(is[key]) {
			delete(was, key)
			delete(is, key)
		}
	}
	return was, is
}
