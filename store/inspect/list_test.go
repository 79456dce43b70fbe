package inspect_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/internal/testbench"
)

func TestListFilters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i, kind := range testbench.Kinds[1:] {
		b.Make(kind, kind)
		if i%2 == 0 {
			b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks
				SET queue = 'mail', entity = NULL, tenant_id = NULL, payload = '{"type": "OTHER"}',
				scheduled_at = '2100-01-01 00:05Z' WHERE id = $1`, kind)
		}
	}
	ended := b.Get("FAILED").FinishedAt.Add(-time.Minute)
	b.Exec(b.Pool, `SELECT tasktable.archive('EXPIRED')`)
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET spawned_by = 'COMPLETED' WHERE id = 'FAILED'`)
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET parent_id = 'recurs' WHERE id IN ('FAILED', 'SKIPPED')`)
	for name, c := range map[string]struct {
		filter inspect.Filter
		want   string
	}{
		"none": {
			inspect.Filter{},
			"CANCELLED FAILED PAUSED SKIPPED held PAUSED COMPLETED EXECUTING EXPIRED QUEUED held CANCELLED held QUEUED",
		},
		"type":   {inspect.Filter{Type: "OTHER"}, "COMPLETED EXECUTING EXPIRED QUEUED held CANCELLED held QUEUED"},
		"status": {inspect.Filter{Statuses: []store.Status{store.StatusCancelled}}, "CANCELLED held CANCELLED"},
		"queue":  {inspect.Filter{Queue: "default"}, "CANCELLED FAILED PAUSED SKIPPED held PAUSED"},
		"entity": {
			inspect.Filter{Entity: "event:1", Statuses: []store.Status{store.StatusPaused}}, "PAUSED held PAUSED",
		},
		"tenant": {inspect.Filter{TenantID: "acme", Limit: 2}, "CANCELLED FAILED"},
		"from": {
			inspect.Filter{ScheduledFrom: far(0).Add(time.Microsecond)},
			"COMPLETED EXECUTING EXPIRED QUEUED held CANCELLED held QUEUED",
		},
		"to":       {inspect.Filter{ScheduledTo: far(5)}, "CANCELLED FAILED PAUSED SKIPPED held PAUSED"},
		"from to":  {inspect.Filter{ScheduledFrom: far(0), ScheduledTo: far(0)}, ""},
		"no such":  {inspect.Filter{Type: "NO_SUCH"}, ""},
		"statuses": {inspect.Filter{Statuses: []store.Status{"FAILED", "EXPIRED"}}, "FAILED EXPIRED"},
		"both":     {inspect.Filter{Statuses: []store.Status{"PAUSED", "FAILED"}}, "FAILED PAUSED held PAUSED"},
		"prefix":   {inspect.Filter{IDPrefix: "held "}, "held PAUSED held CANCELLED held QUEUED"},
		"message":  {inspect.Filter{Message: "first"}, "held PAUSED EXECUTING QUEUED held CANCELLED held QUEUED"},
		"finished": {
			inspect.Filter{FinishedFrom: ended, FinishedTo: ended.Add(time.Hour)},
			"CANCELLED FAILED SKIPPED COMPLETED EXPIRED held CANCELLED",
		},
		"before":     {inspect.Filter{FinishedTo: ended}, ""},
		"after":      {inspect.Filter{FinishedFrom: ended.Add(time.Hour)}, ""},
		"spawned by": {inspect.Filter{SpawnedBy: "COMPLETED"}, "FAILED"},
		"parent":     {inspect.Filter{ParentID: "recurs"}, "FAILED SKIPPED"},
		"archived":   {inspect.Filter{Archived: new(false), Statuses: []store.Status{"FAILED", "EXPIRED"}}, "FAILED"},
		"latest":     {inspect.Filter{LatestFirst: true, Limit: 3}, "held QUEUED held CANCELLED QUEUED"},
		"everything": {
			inspect.Filter{
				Type: "OTHER", Statuses: []store.Status{"QUEUED"}, Queue: "mail", ScheduledFrom: far(5),
				ScheduledTo: far(6), Limit: 10000,
			},
			"EXECUTING QUEUED held QUEUED",
		},
	} {
		rows, err := b.Inspector.List(b.Ctx, b.Pool, c.filter)
		b.Check(err)
		same(b, name, ids(rows), c.want)
		if c.filter.Limit == 0 {
			total, err := b.Inspector.Count(b.Ctx, b.Pool, c.filter)
			b.Check(err)
			same(b, name+", counted", total.Count, len(rows))
		}
	}
}

// Pages go on where they left off, also after the last task of a page was deleted or moved.
func TestPagesOfAList(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var tasks []store.Task
	for i := range 25 {
		// Four of a time.
		tasks = append(tasks, store.Task{ID: fmt.Sprintf("%02d", i), Payload: payload(i), At: far(i / 4)})
	}
	tasks = append(tasks, store.Task{ID: "other", Payload: typed("OTHER"), At: far(3)})
	b.must(b.Tasks.ScheduleMany(b.Ctx, b.Pool, tasks))
	for name, db := range b.Readers() {
		pagesOf(b, name, db, tasks[:25], inspect.Filter{Type: "TEST", Limit: 7})
		backwards := slices.Clone(tasks[:25])
		slices.Reverse(backwards)
		pagesOf(b, name+" backwards", db, backwards, inspect.Filter{Type: "TEST", Limit: 7, LatestFirst: true})
	}
	leftOff(b)
}

// pagesOf reads the pages to the last.
func pagesOf(b *bench, name string, db store.DB, tasks []store.Task, filter inspect.Filter) {
	b.Helper()
	var seen, sizes []string
	for {
		rows, err := b.Inspector.List(b.Ctx, db, filter)
		b.Check(err)
		sizes = append(sizes, fmt.Sprint(len(rows)))
		for _, row := range rows {
			seen = append(seen, row.ID)
		}
		if len(rows) == 0 {
			break
		}
		filter.After = &rows[len(rows)-1]
	}
	same(b, name+": sizes of pages", sizes, []string{"7", "7", "7", "4", "0"})
	for i, id := range seen {
		if id != tasks[i].ID {
			b.Fatalf("%s: place %d has %s", name, i, id)
		}
	}
}

func leftOff(b *bench) {
	b.Helper()
	first, err := b.Inspector.List(b.Ctx, b.Pool, inspect.Filter{Limit: 6})
	b.Check(err)
	for name, then := range map[string]func() error{
		"moved":   func() error { _, err := b.Tasks.Reschedule(b.Ctx, b.Pool, "05", far(100)); return err },
		"deleted": func() error { _, err := b.Tasks.Delete(b.Ctx, b.Pool, "05"); return err },
	} {
		b.Check(then())
		next, err := b.Inspector.List(b.Ctx, b.Pool, inspect.Filter{Limit: 1, After: &first[5]})
		if err != nil || len(next) != 1 || next[0].ID != "06" {
			b.Errorf("%s: %v, %s", name, err, pretty(next))
		}
	}
}
