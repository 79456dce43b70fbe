package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

// recurringTable says what scheduling a recurring task comes to, by what differs from the row: a column for each of
// recurringKinds. Where the recurrence differs, an ended task recurs again; with Keep it does not.
const recurringTable = `
same    created unchanged   unchanged   unchanged   unchanged   rearmed finished finished
content created rescheduled rescheduled rescheduled rescheduled rearmed finished finished
recurs  created rescheduled rescheduled rescheduled rescheduled rearmed rearmed  rearmed
time    created rescheduled rescheduled rescheduled rescheduled rearmed rearmed  rearmed
keep    created rescheduled rescheduled rescheduled rescheduled rearmed finished finished`

// recurringEdits are tasks that differ from recurs in one way each.
var recurringEdits = []struct {
	name, differs string
	change        func(*store.Task)
}{
	{"identical", "same", func(*store.Task) {}},
	{"at zero", "same", func(t *store.Task) { t.At = time.Time{} }},
	{"defaults spelled out", "same", func(t *store.Task) {
		*t.Recurrence = store.Recurrence{
			Cron: "0 9 * * *", TimeZone: "UTC", Overlap: "skip", CatchUp: "latest", CatchUpPaused: "none",
			CatchUpLimit: 100,
		}
	}},
	{"keep, identical", "same", func(t *store.Task) { t.IfFinished = store.Keep }},
	{"payload", "content", func(t *store.Task) { t.Payload = payload(2) }},
	{"queue and priority", "content", func(t *store.Task) { t.Queue, t.Priority = "mail", 9 }},
	{"jitter", "content", func(t *store.Task) { t.Jitter = 90 * time.Second }},
	{"retention", "content", func(t *store.Task) { t.Retention = 48 * time.Hour }},
	{"cron", "recurs", func(t *store.Task) { t.Recurrence.Cron = "@every 90s" }},
	{"time zone", "recurs", func(t *store.Task) { t.Recurrence.TimeZone = "Europe/Berlin" }},
	{"overlap", "recurs", func(t *store.Task) { t.Recurrence.Overlap = store.OverlapCancelRunning }},
	{"catch up", "recurs", func(t *store.Task) { t.Recurrence.CatchUp = store.CatchUpAll }},
	{"catch up paused", "recurs", func(t *store.Task) { t.Recurrence.CatchUpPaused = store.CatchUpLatest }},
	{"catch up limit", "recurs", func(t *store.Task) { t.Recurrence.CatchUpLimit = store.MaxCatchUpLimit }},
	{"ends at", "recurs", func(t *store.Task) { t.Recurrence.EndsAt = far(90) }},
	{"max occurrences", "recurs", func(t *store.Task) { t.Recurrence.MaxOccurrences = 1000000 }},
	{"no recurrence", "recurs", func(t *store.Task) { t.Recurrence, t.Replace = nil, true }},
	{"time", "time", func(t *store.Task) { t.At = far(5) }},
	{"time and cron", "time", func(t *store.Task) { t.At, t.Recurrence.Cron = far(5), "0 0 9 * * MON-FRI" }},
	{"keep, cron", "keep", func(t *store.Task) { t.Recurrence.Cron, t.IfFinished = "@daily", store.Keep }},
	{"keep, time", "keep", func(t *store.Task) { t.At, t.IfFinished = far(5), store.Keep }},
}

// recurringWays are the calls that schedule, with the verb of their change lines. They do the same.
var recurringWays = []struct {
	name, verb string
	call       func(*bench, store.Task) (store.Receipt, error)
}{
	{
		"Schedule", "schedule",
		func(b *bench, task store.Task) (store.Receipt, error) { return b.Tasks.Schedule(b.Ctx, b.Pool, task) },
	},
	{"ScheduleMany", "schedule", func(b *bench, task store.Task) (store.Receipt, error) {
		return only(b.Tasks.ScheduleMany(b.Ctx, b.Pool, []store.Task{task}))
	}},
	{"Sync", "sync", func(b *bench, task store.Task) (store.Receipt, error) {
		return only(b.Tasks.Sync(b.Ctx, b.Pool, task.Entity, task))
	}},
	{"SQL", "schedule", (*bench).scheduleInSQL},
}

func only(receipts []store.Receipt, err error) (store.Receipt, error) {
	if err == nil && len(receipts) != 1 {
		err = fmt.Errorf("%d receipts: %v", len(receipts), outcomes(receipts))
	}
	if err != nil {
		return store.Receipt{}, err
	}
	return receipts[0], nil
}

// scheduleInSQL is Schedule as another language does it: what is left zero is left out.
func (b *bench) scheduleInSQL(task store.Task) (store.Receipt, error) {
	got := b.ask(b.sqlOf(task))
	return store.Receipt{ID: got.ID, Revision: *got.Revision, Outcome: store.Outcome(got.Outcome)}, nil
}

func (b *bench) sqlOf(task store.Task) string {
	arguments := []string{"payload => '" + string(task.Payload.(store.JSON)) + "'"}
	add := func(name string, given bool, value any) {
		if given {
			arguments = append(arguments, fmt.Sprintf("%s => '%v'", name, value))
		}
	}
	name, start := "schedule", "scheduled_at"
	if r := task.Recurrence; r != nil {
		name, start = "schedule_recurring", "starts_at"
		add("cron", true, r.Cron)
		add("time_zone", r.TimeZone != "", r.TimeZone)
		add("overlap", r.Overlap != "", r.Overlap)
		add("catch_up", r.CatchUp != "", r.CatchUp)
		add("catch_up_paused", r.CatchUpPaused != "", r.CatchUpPaused)
		add("catch_up_limit", r.CatchUpLimit != 0, r.CatchUpLimit)
		add("ends_at", !r.EndsAt.IsZero(), r.EndsAt.Format(time.RFC3339Nano))
		add("max_occurrences", r.MaxOccurrences != 0, r.MaxOccurrences)
	}
	add("id", true, task.ID)
	add(start, !task.At.IsZero(), task.At.Format(time.RFC3339Nano))
	add("jitter", task.Jitter != 0, clock(&task.Jitter))
	add("retention", task.Retention != 0, clock(&task.Retention))
	add("expiration", true, clock(&task.Expiration))
	add("queue", task.Queue != "", task.Queue)
	add("priority", true, task.Priority)
	add("entity", true, task.Entity)
	add("tenant_id", true, task.TenantID)
	add("replace", task.Replace, true)
	add("if_finished", task.IfFinished == store.Keep, "keep")
	add("scheduled_by", true, service)
	return `SELECT * FROM tasktable.` + name + `(` + strings.Join(arguments, ", ") + `)`
}

func TestScheduleOfEachRecurringRow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	outcome := map[string][]string{}
	for line := range strings.Lines(strings.TrimSpace(recurringTable)) {
		cells := strings.Fields(line)
		outcome[cells[0]] = cells[1:]
	}
	for _, way := range recurringWays {
		for _, edit := range recurringEdits {
			b.each(way.name+"/"+edit.name, func(b *bench) {
				for i, kind := range recurringKinds {
					id := strings.Join([]string{way.name, edit.name, kind}, " ")
					task := recurs(id)
					edit.change(&task)
					outcome := store.Outcome(outcome[edit.differs][i])
					b.MakeRecurring(id, kind)
					call := func() (store.Receipt, error) { return way.call(b, task) }
					b.checkCall(id, way.verb, outcome, call, func(w *want) {
						status := store.StatusQueued
						switch {
						case outcome == store.Rescheduled:
							status = w.row.Status
						case w.before == nil && task.At.IsZero():
							w.row.ScheduledAt = *w.during("scheduled_at", &w.found.ScheduledAt)
						}
						w.hold(task)
						w.become(status)
					})
				}
			})
		}
	}
}

func TestCronIsARecurringTaskOfItsType(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	task := store.Cron("TOKEN_CLEANUP", "*/5 * * * *")
	task.Recurrence.TimeZone = "Europe/Berlin"
	receipt := b.Schedule(task)
	row := b.Get("recurring-TOKEN_CLEANUP")
	if receipt.ID != "recurring-TOKEN_CLEANUP" || receipt.Outcome != store.Created || row == nil {
		t.Fatalf("%+v", receipt)
	}
	same(b, "row", *row, store.Row{
		ID: receipt.ID, Payload: []byte(`{"type": "TOKEN_CLEANUP"}`), Type: "TOKEN_CLEANUP", Queue: "default",
		Status: "QUEUED", ScheduledAt: row.ScheduledAt, ExpectedExecutionTime: 5 * time.Minute, MaxAttempts: 10,
		Revision: receipt.Revision, AskedRevision: receipt.Revision, NextAttemptAt: row.NextAttemptAt,
		ScheduledBy: pointerTo(service),
		CreatedAt:   row.CreatedAt, LastStatusUpdate: row.LastStatusUpdate, Cron: pointerTo("*/5 * * * *"),
		TimeZone: pointerTo("Europe/Berlin"), Overlap: pointerTo(store.OverlapSkip),
		CatchUp: pointerTo(store.CatchUpLatest), CatchUpPaused: pointerTo(store.CatchUpNone),
		CatchUpLimit: pointerTo(store.DefaultCatchUpLimit),
	})
	b.wantOutcome("again", store.Unchanged, b.Schedule(task))
}

// The id is the task's own, or comes from the payload's key.
func TestIDOfARecurringTask(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	daily := &store.Recurrence{Cron: "@daily"}
	if got := b.Schedule(store.Task{Payload: counted{key: "42"}, Recurrence: daily}); got.ID != "task-TEST-42" {
		t.Errorf("of a keyed payload: %+v", got)
	}
	if got := b.Schedule(store.Task{ID: "mine", Payload: counted{key: "42"}, Recurrence: daily}); got.ID != "mine" {
		t.Errorf("its own: %+v", got)
	}
	for _, id := range []string{strings.Repeat("x", 480), strings.Repeat("€", 160)} {
		b.wantOutcome("of 480 bytes", store.Created, b.Schedule(store.Task{ID: id, Payload: plain{}, Recurrence: daily}))
		occurrence := one[*string](b, b.Pool, `SELECT tasktable.fork_occurrence($1, '2100-01-01 00:00:00.000001Z')`, id)
		if occurrence == nil || *occurrence != id+"@2100-01-01T00:00:00.000001Z" {
			t.Errorf("occurrence: %v", text(occurrence))
		}
	}
	fixed, err := store.Task{Payload: counted{key: "43"}, Recurrence: daily}.Fixed()
	b.Check(err)
	if got := b.Schedule(fixed); got.ID != "task-TEST-43" {
		t.Errorf("fixed: %+v", got)
	}
}
