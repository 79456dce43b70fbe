package store_test

import (
	"testing"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

func TestArchive(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	kinds := append([]string{"recurring FAILED"}, rowKinds...)
	for _, kind := range kinds {
		b.each(kind, func(b *bench) {
			if kind == "recurring FAILED" {
				b.MakeRecurring(kind, "FAILED")
			} else {
				b.Make(kind, kind)
			}
			before, from := b.state(kind), b.Now()
			receipt, err := b.Tasks.Archive(b.Ctx, b.Pool, kind, "refunded\nby hand")
			b.Check(err)
			after := b.state(kind)
			switch {
			case before.Row == nil:
				same(b, "receipt", receipt, store.Receipt{ID: kind, Outcome: store.Absent})
				same(b, "task", after, before)
				return
			case before.Row.Status != "FAILED" && before.Row.Status != "EXPIRED":
				same(b, "receipt", receipt, store.Receipt{
					ID: kind, Outcome: store.Unchanged, Revision: before.Row.Revision,
				})
				same(b, "task", after, before)
				return
			}
			same(b, "receipt", receipt, store.Receipt{ID: kind, Outcome: store.Archived, Revision: after.Row.Revision})
			w := &want{b: b, before: before.Row, row: *before.Row, found: after.Row, from: from, until: b.Now()}
			w.row.ArchivedAt, w.row.ArchivedNote, w.row.Revision = w.during(
				"archived_at", after.Row.ArchivedAt,
			), pointerTo("refunded\nby hand"), after.Row.Revision
			b.checkWhole(before, after, &w.row, "archive", "archived", service)
			if after.Row.Revision <= before.Row.Revision {
				b.Errorf("revision %d after %d", after.Row.Revision, before.Row.Revision)
			}

			receipt, err = b.Tasks.Archive(b.Ctx, b.Pool, kind, "another note")
			b.Check(err)
			same(b, "receipt", receipt, store.Receipt{ID: kind, Outcome: store.Unchanged, Revision: after.Row.Revision})
			same(b, "archived again", b.state(kind), after)
		})
	}
}

// What is archived is listed and counted no more, but it is there, and whoever runs it again makes it a
// task like any other.
func TestWhatBecomesOfAnArchivedTask(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, c := range map[string]struct {
		verb    string
		outcome store.Outcome
		stays   bool
	}{
		"moved": {"other_time", store.Rearmed, false}, "retried": {"retry", store.Queued, false},
		"run now": {"run_now", store.Queued, false}, "the same again": {"identical", store.Finished, true},
		"cancelled": {"cancel", store.Finished, true}, "kept": {"keep_time", store.Finished, true},
	} {
		b.Make(name, "FAILED")
		b.succeeds(b.Tasks.Archive(b.Ctx, b.Pool, name, "done with"))
		if receipt := b.do(c.verb, name); receipt.Outcome != c.outcome {
			t.Errorf("%s: %+v", name, receipt)
		}
		row := b.Get(name)
		if archived := row.ArchivedAt != nil && row.ArchivedNote != nil &&
			*row.ArchivedNote == "done with"; archived != c.stays || c.stays != (row.Status == "FAILED") {
			t.Errorf("%s: %s", name, pretty(row))
		}
		if !c.stays && (row.ArchivedAt != nil || row.ArchivedNote != nil) {
			t.Errorf("%s: a mark is left: %s", name, pretty(row))
		}
	}
	rows, err := b.Inspector.List(b.Ctx, b.Pool, inspect.DeadLetters())
	if err != nil || len(rows) != 0 {
		t.Errorf("listed: %s, %v", pretty(rows), err)
	}
	total, err := b.Inspector.Count(b.Ctx, b.Pool, inspect.DeadLetters())
	if err != nil || total.Count != 0 {
		t.Errorf("counted: %v, %v", total, err)
	}
	view := one[string](b, b.Pool, `SELECT string_agg(concat_ws(' ', id, status, archived_at IS NOT NULL, archived_note,
		message), ', ' ORDER BY id) FROM tasktable.dead_letters`)
	same(
		b, "view", view,
		"cancelled FAILED t done with it was so, kept FAILED t done with it was so, "+
			"the same again FAILED t done with it was so",
	)
	b.Make("failed again", "FAILED")
	b.succeeds(b.Tasks.Archive(b.Ctx, b.Pool, "failed again", ""))
	b.do("retry", "failed again")
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET status = 'FAILED' WHERE id = 'failed again'`)
	rows, err = b.Inspector.List(b.Ctx, b.Pool, inspect.DeadLetters())
	if err != nil || len(rows) != 1 || rows[0].ID != "failed again" {
		t.Errorf("that failed once more: %s, %v", pretty(rows), err)
	}
}
