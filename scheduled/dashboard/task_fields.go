package dashboard

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/when"
)

// pairView is the name of a field and its value: a time, or a text that may link to a page.
type pairView struct {
	Name string
	Text string
	At   *time.Time
	Task string // the id of a task to which the text links
	List string // the parameter of the list of tasks to which the text links
	Node bool   // the text is the number of a node
}

// fieldsOfRow lists the fields that have a value, in the order of the table.
func fieldsOfRow(row store.Row) (fields []pairView) {
	add := func(pair pairView) {
		if pair.Text != "" || pair.At != nil {
			fields = append(fields, pair)
		}
	}
	text := func(name, value string) { add(pairView{Name: name, Text: value}) }
	at := func(name string, value *time.Time) { add(pairView{Name: name, At: value}) }
	length := func(name string, value *time.Duration) {
		if value != nil {
			text(name, when.LengthText(*value))
		}
	}
	add(pairView{Name: "queue", Text: row.Queue, List: "queue"})
	add(pairView{Name: "entity", Text: textOf(row.Entity), List: "entity"})
	add(pairView{Name: "tenant_id", Text: textOf(row.TenantID), List: "tenant"})
	add(pairView{Name: "group_key", Text: textOf(row.GroupKey), List: "group_key"})
	text("priority", strconv.Itoa(row.Priority))
	at("scheduled_at", &row.ScheduledAt)
	at("run_now_at", row.RunNowAt)
	at("next_attempt_at", row.NextAttemptAt)
	at("paused_until", row.PausedUntil)
	length("expiration", row.Expiration)
	length("expected_execution_time", &row.ExpectedExecutionTime)
	length("jitter", row.Jitter)
	length("retention", row.Retention)
	text("backoff", textOf(row.Backoff))
	length("timeout", row.Timeout)
	at("deadline", row.Deadline)
	text("attempt", fmt.Sprintf("%d of %d", row.Attempt, row.MaxAttempts))
	at("lease_expires_at", row.LeaseExpiresAt)
	add(pairView{Name: "parent_id", Text: textOf(row.ParentID), Task: textOf(row.ParentID)})
	add(pairView{Name: "spawned_by", Text: textOf(row.SpawnedBy), Task: textOf(row.SpawnedBy)})
	if row.Cron != nil {
		text("cron", *row.Cron)
		text("time_zone", textOf(row.TimeZone))
		text("overlap", textOf(row.Overlap))
		text("catch_up", textOf(row.CatchUp))
		text("catch_up_paused", textOf(row.CatchUpPaused))
		text("catch_up_limit", numberOf(row.CatchUpLimit))
		at("ends_at", row.EndsAt)
		text("max_occurrences", numberOf(row.MaxOccurrences))
		text("occurrence_count", strconv.Itoa(row.OccurrenceCount))
	}
	text("scheduled_by", textOf(row.ScheduledBy))
	at("created_at", &row.CreatedAt)
	at("last_status_update", &row.LastStatusUpdate)
	at("started_at", startOf(row))
	at("finished_at", row.FinishedAt)
	at("archived_at", row.ArchivedAt)
	text("archived_note", textOf(row.ArchivedNote))
	return fields
}

// logFields lists the fields by which somebody finds a task in logs and traces, as the logs name them.
func logFields(row store.Row) []pairView {
	fields := []pairView{
		{Name: "task", Text: row.ID},
		{Name: "revision", Text: strconv.FormatInt(row.Revision, 10)},
		{Name: "idempotency key", Text: row.ID + ":" + strconv.FormatInt(row.AskedRevision, 10)},
	}
	if row.Fence != nil {
		fields = append(fields, pairView{Name: "fence", Text: numberOf(row.Fence)})
	}
	if row.Node != nil {
		fields = append(fields, pairView{Name: "node", Text: numberOf(row.Node), Node: true})
	}
	if span := store.SpanOf(textOf(row.Trace)); span.IsValid() {
		fields = append(fields, pairView{Name: "trace", Text: span.TraceID().String()})
	}
	return fields
}
