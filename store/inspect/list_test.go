package inspect_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

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
