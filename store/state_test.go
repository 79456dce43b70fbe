package store_test

import (
	"encoding/json"
	"fmt"
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
	found := state{Row: b.Get(id)}
	if changes := b.Changes(id); len(changes) > 0 {
		found.Changes = changes
	}
	for i, change := range found.Changes {
		found.Changes[i].Old, found.Changes[i].New = encoded(b, b.recorded(change.Old)), encoded(b, b.recorded(change.New))
		found.Changes[i].ChangedAt = change.ChangedAt.UTC()
	}
	if found.Row != nil {
		*found.Row = utc(*found.Row)
		found.Version = one[string](b, b.Pool, `SELECT xmin || ' ' || ctid FROM tasktable.scheduled_tasks
			WHERE id = $1`, id)
	}
	return found
}

// content is what change lines compare, in their form. What only a recurring, a paused or an archived task has is left
// out of other tasks.
func content(row *store.Row) map[string]any {
	var body any
	_ = json.Unmarshal(row.Payload, &body)
	fields := map[string]any{
		"status": string(row.Status), "payload": body, "scheduled_at": instant(&row.ScheduledAt),
		"run_now_at": instant(row.RunNowAt), "priority": float64(row.Priority), "queue": row.Queue,
		"expiration": clock(row.Expiration), "expected_execution_time": clock(&row.ExpectedExecutionTime),
		"max_attempts": float64(row.MaxAttempts), "entity": text(row.Entity), "tenant_id": text(row.TenantID),
	}
	for key, value := range map[string]any{
		"cron": text(row.Cron), "time_zone": text(row.TimeZone), "overlap": text((*string)(row.Overlap)),
		"catch_up": text((*string)(row.CatchUp)), "catch_up_paused": text((*string)(row.CatchUpPaused)),
		"catch_up_limit": digits(row.CatchUpLimit), "jitter": clock(row.Jitter), "ends_at": instant(row.EndsAt),
		"max_occurrences": digits(row.MaxOccurrences), "parent_id": text(row.ParentID),
		"paused_until": instant(row.PausedUntil), "retention": clock(row.Retention),
		"archived_at": instant(row.ArchivedAt), "archived_note": text(row.ArchivedNote),
	} {
		if value != nil {
			fields[key] = value
		}
	}
	return fields
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
	b.Check(json.Unmarshal(line, &fields))
	for _, key := range []string{"scheduled_at", "run_now_at", "ends_at", "paused_until", "archived_at", "deadline"} {
		if value, ok := fields[key].(string); ok {
			at, err := time.Parse(time.RFC3339Nano, value)
			b.Check(err)
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
	b.Check(err)
	return text
}

// edits are the fields that differ, as they were and as they became.
func edits(before, after *store.Row) (was, is map[string]any) {
	from, to := content(before), content(after)
	was, is = map[string]any{}, map[string]any{}
	for _, fields := range []map[string]any{from, to} {
		for key := range fields {
			if pretty(from[key]) != pretty(to[key]) {
				was[key], is[key] = from[key], to[key]
			}
		}
	}
	return was, is
}
