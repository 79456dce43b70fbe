package week

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/tasktable/tasktable/store"
)

// number is a revision, a fence or the number of a pause. The values are drawn from the sequence when the week is
// complete, in the order of the times.
type number struct {
	at    time.Time
	value int64
}

// task is a row of scheduled_tasks. A zero value stands for null where the column may be null.
type task struct {
	id, kind       string
	payload        map[string]any // without the type
	entity, tenant string
	queue          string
	status         store.Status
	priority       int
	scheduledAt    time.Time
	runNowAt       time.Time
	expiration     time.Duration
	expected       time.Duration
	retention      time.Duration
	maxAttempts    int
	attempt        int
	revision       *number
	asked          *number // the revision of the idempotency key
	next           time.Time
	startedFence   *number
	node           *node // of startedFence
	startedAt      time.Time
	finishedAt     time.Time
	changedAt      time.Time // the status
	createdAt      time.Time
	pausedUntil    time.Time
	archivedAt     time.Time
	archivedNote   string
	message        string
	result         any
	recurs         *recurs
	parent         string
	spawnedBy      string
	scheduledBy    string
	deleted        bool
}

// recurs has the columns of a recurring task.
type recurs struct {
	cron, zone, catchUpPaused string
	count                     int
	planned                   *number
	wall                      time.Time
	zoneData                  string
	openFrom                  time.Time
	declaredBy                string
}

// defaultExpected and defaultAttempts are the defaults of the table.
const (
	defaultExpected = 5 * time.Minute
	defaultAttempts = 10
)

func (t *task) payloadJSON() string {
	all := map[string]any{"type": t.kind}
	for name, value := range t.payload {
		all[name] = value
	}
	encoded, err := json.Marshal(all)
	if err != nil {
		panic(fmt.Sprintf("payload of task %s: %v", t.id, err)) // the week has only texts and numbers
	}
	return string(encoded)
}

// due is the first due time of the revision, as the function due_of has it. No task of the week has a jitter.
func (t *task) due() time.Time {
	if !t.runNowAt.IsZero() {
		return t.runNowAt
	}
	return t.scheduledAt
}

func (t *task) waits() bool { return t.status == store.StatusQueued || t.status == store.StatusPaused }

// content is what the function task_content gives: the fields that a change records.
func (t *task) content() map[string]any {
	content := map[string]any{
		"status": string(t.status), "payload": json.RawMessage(t.payloadJSON()),
		"scheduled_at": timeJSON(t.scheduledAt), "run_now_at": timeJSON(t.runNowAt), "priority": t.priority,
		"queue":      t.queue,
		"expiration": intervalJSON(t.expiration), "expected_execution_time": intervalJSON(t.expected),
		"max_attempts": t.maxAttempts, "entity": textJSON(t.entity), "tenant_id": textJSON(t.tenant),
	}
	optional := map[string]any{
		"parent_id": textJSON(t.parent), "paused_until": timeJSON(t.pausedUntil),
		"retention": intervalJSON(t.retention), "archived_at": timeJSON(t.archivedAt),
		"archived_note": textJSON(t.archivedNote),
	}
	if r := t.recurs; r != nil {
		optional["cron"], optional["time_zone"], optional["overlap"] = r.cron, r.zone, "skip"
		optional["catch_up"], optional["catch_up_paused"], optional["catch_up_limit"] = "latest", r.catchUpPaused, 100
	}
	for name, value := range optional {
		if value != nil {
			content[name] = value
		}
	}
	return content
}

// difference returns the old and the new values of the fields that differ. A field that one side lacks is null there.
func difference(was, is map[string]any) (before, after map[string]any) {
	before, after = map[string]any{}, map[string]any{}
	for _, side := range []map[string]any{was, is} {
		for name := range side {
			if !reflect.DeepEqual(was[name], is[name]) {
				before[name], after[name] = was[name], is[name]
			}
		}
	}
	return before, after
}

// timeJSON is a time as Postgres writes it to JSON, in UTC.
func timeJSON(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at.UTC().Format("2006-01-02T15:04:05.999999-07:00")
}

func intervalJSON(d time.Duration) any {
	if d == 0 {
		return nil
	}
	return fmt.Sprintf("%02d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}

func textJSON(text string) any {
	if text == "" {
		return nil
	}
	return text
}
