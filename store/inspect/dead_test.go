package inspect_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// dead makes tasks that have failed or expired, one a second from far(0), of ids 0, 1, 2 and so on.
func (b *bench) dead() {
	b.Helper()
	for i, task := range []struct {
		change  func(*store.Task)
		status  string
		message any
	}{
		{func(*store.Task) {}, "FAILED", "dial tcp: connection refused"},
		{func(t *store.Task) { t.Queue = "mail" }, "FAILED", "550 no such user"},
		{func(t *store.Task) { t.Payload = typed("OTHER") }, "EXPIRED", "50% late_by 'far'"},
		{func(t *store.Task) { t.Entity, t.TenantID = "event:2", "other" }, "FAILED", nil},
		{func(t *store.Task) { t.Payload, t.Queue = typed("OTHER"), "mail" }, "FAILED", "Connection refused"},
		{func(*store.Task) {}, "EXPIRED", ""},
	} {
		made := base(fmt.Sprint(i))
		task.change(&made)
		b.Schedule(made)
		b.AsEngine(func(tx pgx.Tx) {
			b.Exec(tx, `UPDATE tasktable.scheduled_tasks
				SET status = $2, next_attempt_at = NULL, attempt = 5, message = $3, result = '{"r": 1}',
				started_at = '2100-01-01Z', finished_at = '2100-01-01Z'::timestamptz + $4::int * interval '1 second'
				WHERE id = $1`, made.ID, task.status, task.message, i)
		})
	}
}

// dead is the filter of dead letters with the fields that this one has.
func dead(filter inspect.Filter) inspect.Filter {
	all := inspect.DeadLetters()
	filter.Order = all.Order
	if filter.Statuses == nil {
		filter.Statuses = all.Statuses
	}
	if filter.Archived == nil {
		filter.Archived = all.Archived
	}
	return filter
}

// farSecond is when the task of dead with that id ended.
func farSecond(second int) time.Time { return time.Date(2100, 1, 1, 0, 0, second, 0, time.UTC) }

func ids(rows []store.Row) string {
	var found []string
	for _, row := range rows {
		found = append(found, row.ID)
	}
	return strings.Join(found, " ")
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.dead()
	for _, kind := range []string{"QUEUED", "PAUSED", "EXECUTING", "CANCELLED", "COMPLETED", "SKIPPED", "held QUEUED"} {
		b.Make(kind, kind)
	}
	for _, c := range []struct {
		name   string
		filter inspect.Filter
		ids    string
	}{
		{"all", inspect.Filter{}, "0 1 2 3 4 5"},
		{"message", inspect.Filter{Message: "connection refused"}, "0"},
		{"part of it", inspect.Filter{Message: "onnection ref"}, "0 4"},
		{"no pattern", inspect.Filter{Message: "%"}, "2"},
		{"nor this", inspect.Filter{Message: "e_b"}, "2"},
		{"a quote", inspect.Filter{Message: "'far'"}, "2"},
		{"all at once", inspect.Filter{Type: "OTHER", Queue: "mail", Entity: "event:1", TenantID: "acme",
			Message: "refused", Statuses: []store.Status{store.StatusFailed}}, "4"},
		{"the oldest", inspect.Filter{Limit: 2}, "0 1"},
	} {
		rows, err := b.Inspector.List(b.Ctx, b.Pool, dead(c.filter))
		if err != nil || ids(rows) != c.ids {
			t.Errorf("%s: %s instead of %s, %v", c.name, ids(rows), c.ids, err)
		}
		from := b.Now()
		total, err := b.Inspector.Count(b.Ctx, b.Pool, dead(c.filter))
		if c.filter.Limit == 0 && total.Count != len(rows) || err != nil || total.At.Before(from) ||
			total.At.After(b.Now()) {
			t.Errorf("%s: %+v instead of %d, %v", c.name, total, len(rows), err)
		}
	}
	rows, err := b.Inspector.List(b.Ctx, b.Pool, dead(inspect.Filter{Type: "OTHER"}))
	b.Check(err)
	for _, row := range rows {
		same(b, "row", row, *b.Get(row.ID))
	}

	// Of one time by their ids.
	b.AsEngine(func(tx pgx.Tx) {
		b.Exec(tx, `UPDATE tasktable.scheduled_tasks SET finished_at = '2099-01-01Z' WHERE id IN ('5', '3', '4')`)
	})
	rows, err = b.Inspector.List(b.Ctx, b.Pool, dead(inspect.Filter{Limit: 4}))
	if err != nil || ids(rows) != "3 4 5 0" {
		t.Errorf("%s, %v", ids(rows), err)
	}
}

// The hundred oldest are listed, and retried, unless another limit is asked for.
func TestLimitOfDeadLetters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var tasks []store.Task
	for i := range 120 {
		tasks = append(tasks, store.Task{ID: fmt.Sprintf("%03d", i), Payload: payload(i), At: far(0)})
	}
	b.must(b.Tasks.ScheduleMany(b.Ctx, b.Pool, tasks))
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks
		SET status = 'FAILED', finished_at = clock_timestamp() - id::int * interval '1 second'`)
	b.AsEngine(func(tx pgx.Tx) {
		b.Exec(tx, `UPDATE tasktable.scheduled_tasks
			SET finished_at = '2020-01-01Z'::timestamptz - id::int * interval '1 second'`)
	})
	rows, err := b.Inspector.List(b.Ctx, b.Pool, dead(inspect.Filter{}))
	if err != nil || len(rows) != 100 || rows[0].ID != "119" || rows[99].ID != "020" {
		t.Errorf("%d listed, %v: %s", len(rows), err, ids(rows))
	}
	for _, want := range []int{100, 20, 0} {
		receipts := b.do(inspect.Action{Verb: inspect.Retry}, inspect.DeadLetters())
		if len(receipts) != want {
			t.Errorf("%d retried instead of %d", len(receipts), want)
		}
	}
}

func TestBadFiltersAreRefusedBeforeTheDatabase(t *testing.T) {
	t.Parallel()
	b := benchOn(t, nil)
	year10000 := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	statuses := func(status store.Status) inspect.Filter { return inspect.Filter{Statuses: []store.Status{status}} }
	for rule, filters := range map[string][]inspect.Filter{
		"status must be one or several of QUEUED": {statuses("failed"), statuses("\x00")},
		"type must be 2 to 127 letters":           {{Type: "a\x00"}, {Type: "a"}},
		"queue must be 1 to 64 of a-z":            {{Queue: "\xff"}, {Queue: strings.Repeat("a", 65)}},
		"entity must be at most":                  {{Entity: strings.Repeat("x", 513)}},
		"tenant_id must be at most":               {{TenantID: "a\nb"}},
		"id_prefix must be at most":               {{IDPrefix: "a\x00"}},
		"spawned_by must be at most":              {{SpawnedBy: "\xff"}},
		"parent_id must be at most":               {{ParentID: "\xff"}},
		"message must be at most 4096":            {{Message: "a\x00b"}, {Message: "\xff"}, {Message: strings.Repeat("a", 4097)}},
		"pattern must be at most 4096":            {{Pattern: "a\x00b"}, {Pattern: "\xff"}},
		"payload must be a path and a text":       {{Payload: "a"}, {Payload: "=1"}, {Payload: "a..b=1"}, {Payload: "a=\x00"}},
		"finished_from must be in the years":      {{FinishedFrom: year10000}},
		"finished_to must be in the years":        {{FinishedTo: time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)}},
		"scheduled_from must be in the years":     {{ScheduledFrom: year10000}},
		"scheduled_to must be in the years":       {{ScheduledTo: year10000}},
		"limit must be between 1 and":             {{Limit: -1}, {Limit: inspect.MaxNames + 1}},
		"order must be scheduled_at":              {{Order: "status"}},
		"after must be a task that has ended":     {{Order: inspect.ByFinished, After: &store.Row{ID: "one"}}},
		"after must be at most": {
			{After: &store.Row{ID: "a\x00"}}, {Order: inspect.ByID, After: &store.Row{ID: "\xff"}},
		},
		"after must be in the years": {{After: &store.Row{ID: "one", ScheduledAt: year10000}}},
	} {
		ofPages := strings.HasPrefix(rule, "after") || strings.HasPrefix(rule, "order") // of lists alone
		for _, filter := range filters {
			_, listed := b.Inspector.List(b.Ctx, noDB(b), filter)
			_, named := b.Inspector.Names(b.Ctx, noDB(b), filter)
			_, all := b.Inspector.Do(b.Ctx, noDB(b), inspect.Action{Verb: inspect.Retry}, inspect.Targets{Filter: &filter})
			errs := []error{listed, named, all}
			if !ofPages {
				_, grouped := b.Inspector.Groups(b.Ctx, noDB(b), filter, "")
				errs = append(errs, grouped)
			}
			if !ofPages && !strings.HasPrefix(rule, "limit") {
				_, counted := b.Inspector.Count(b.Ctx, noDB(b), filter)
				_, applied := b.Inspector.Do(b.Ctx, noDB(b), inspect.Action{Verb: inspect.Retry},
					inspect.Targets{IDs: []string{"one"}, Filter: &filter})
				errs = append(errs, counted, applied)
			}
			for _, err := range errs {
				if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), rule) {
					t.Errorf("%v does not say %s", err, rule)
				}
			}
		}
	}
	if _, err := b.Inspector.List(b.Ctx, noDB(b), inspect.Filter{Limit: 10001}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a long page: %v", err)
	}
}
