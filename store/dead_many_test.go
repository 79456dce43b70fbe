package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// However long the pages are, and whichever way round: each dead letter is on one of them.
func TestPagesOfDeadLetters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.dead()
	b.asEngine(func(tx pgx.Tx) { // some end at one time
		b.exec(tx, `UPDATE tasktable.scheduled_tasks SET finished_at = '2100-01-01 00:00:03Z' WHERE id IN ('2', '3', '4')`)
	})
	want := strings.Fields("0 1 2 3 4 5")
	for driver, db := range b.readers() {
		for _, latest := range []bool{false, true} {
			for _, size := range []int{1, 2, 4, 6, 7} {
				var listed []string
				filter := store.DeadFilter{Limit: size, LatestFirst: latest}
				for range 10 {
					rows, err := b.tasks.DeadLetters(b.ctx, db, filter)
					b.check(err)
					if len(rows) == 0 {
						break
					}
					listed = append(listed, strings.Fields(ids(rows))...)
					filter.After = &rows[len(rows)-1]
				}
				if latest {
					slices.Reverse(listed)
				}
				if !slices.Equal(listed, want) {
					t.Errorf("%s, latest first %v, %d a page: %v", driver, latest, size, listed)
				}
			}
		}
	}
}

func TestCountDead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.dead()
	_, err := b.tasks.Archive(b.ctx, b.pool, "1", "")
	b.check(err)
	for _, c := range deadFilters {
		if c.filter.Limit != 0 {
			continue
		}
		want := len(slices.DeleteFunc(strings.Fields(c.ids), func(id string) bool { return id == "1" }))
		if c.filter.Archived {
			want = 1
		}
		from := b.now()
		total, err := b.tasks.CountDead(b.ctx, b.pool, c.filter)
		if err != nil || total.Count != want || total.At.Before(from) || total.At.After(b.now()) {
			t.Errorf("%s: %+v instead of %d, %v", c.name, total, want, err)
		}
	}
	// A limit is for others.
	if total, err := b.tasks.CountDead(b.ctx, b.pool, store.DeadFilter{Limit: 1}); err != nil || total.Count != 5 {
		t.Errorf("%+v, %v", total, err)
	}
}

func TestDeadGroups(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.dead()
	long := strings.Repeat("ü", 60)
	for i := range 3 {
		b.make(fmt.Sprint("long ", i), "FAILED")
		b.asEngine(func(tx pgx.Tx) {
			b.exec(tx, `UPDATE tasktable.scheduled_tasks SET message = $2, finished_at = '2100-01-01Z'::timestamptz + $3::int * interval '1 second' WHERE id = $1`,
				fmt.Sprint("long ", i), fmt.Sprintf("%s%d\nand its stack %d", long, i, i), 10-i)
		})
	}
	b.make("two lines", "FAILED")
	b.asEngine(func(tx pgx.Tx) {
		b.exec(tx, `UPDATE tasktable.scheduled_tasks SET message = E'550 no such user\nhe said', finished_at = '2100-01-01 00:00:05Z' WHERE id = 'two lines'`)
	})
	group := func(kind, status, message string, count, oldest, latest int, example string) store.DeadGroup {
		return store.DeadGroup{Type: kind, Status: store.Status(status), Message: message, Count: count, Oldest: farSecond(oldest), Latest: farSecond(latest), Example: example}
	}
	all := []store.DeadGroup{
		group("TEST", "FAILED", long, 3, 8, 10, "long 0"),
		group("TEST", "FAILED", "550 no such user", 2, 1, 5, "1"),
		group("TEST", "EXPIRED", "", 1, 5, 5, "5"),
		group("OTHER", "FAILED", "Connection refused", 1, 4, 4, "4"),
		group("TEST", "FAILED", "", 1, 3, 3, "3"),
		group("OTHER", "EXPIRED", "50% late_by 'far'", 1, 2, 2, "2"),
		group("TEST", "FAILED", "dial tcp: connection refused", 1, 0, 0, "0"),
	}
	all[0].Shortened = true
	for name, c := range map[string]struct {
		filter store.DeadFilter
		want   []store.DeadGroup
	}{
		"all": {store.DeadFilter{}, all}, "some": {store.DeadFilter{Limit: 2}, all[:2]}, "a type": {store.DeadFilter{Type: "OTHER"}, []store.DeadGroup{all[3], all[5]}},
		"a message": {store.DeadFilter{Message: "he said"}, []store.DeadGroup{group("TEST", "FAILED", "550 no such user", 1, 5, 5, "two lines")}},
		"none":      {store.DeadFilter{Archived: true}, []store.DeadGroup{}},
	} {
		for driver, db := range b.readers() {
			groups, err := b.tasks.DeadGroups(b.ctx, db, c.filter)
			b.check(err)
			for i := range groups {
				groups[i].Oldest, groups[i].Latest = groups[i].Oldest.UTC(), groups[i].Latest.UTC()
			}
			same(b, name+": "+driver, groups, c.want)
		}
	}
}

func TestDeadGroupsBy(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, task := range []struct{ id, entity, tenant, message string }{
		{"a", "order:1", "north", "card declined"}, {"b", "order:1", "south", "card declined"}, {"c", "order:2", "south", "card declined"},
		{"d", "", "", "card declined"},
	} {
		b.schedule(store.Task{ID: task.id, Payload: payload(1), At: far(0), Entity: task.entity, TenantID: task.tenant})
		b.asEngine(func(tx pgx.Tx) {
			b.exec(tx, `UPDATE tasktable.scheduled_tasks SET status = 'FAILED', next_attempt_at = NULL, message = $2, finished_at = $3 WHERE id = $1`,
				task.id, task.message, far(1))
		})
	}
	for by, want := range map[store.DeadGrouping]string{
		store.DeadByEntity: "2 of order:1 1 of - 1 of order:2", store.DeadByTenant: "2 of south 1 of - 1 of north",
	} {
		for driver, db := range b.readers() {
			groups, err := b.tasks.DeadGroupsBy(b.ctx, db, by, store.DeadFilter{})
			b.check(err)
			var got []string
			for _, group := range groups {
				key := "-"
				for _, value := range []*string{group.Entity, group.TenantID} {
					if value != nil {
						key = *value
					}
				}
				got = append(got, fmt.Sprintf("%d of %s", group.Count, key))
			}
			slices.Sort(got[1:]) // the first is the largest
			same(b, string(by)+": "+driver, strings.Join(got, " "), want)
		}
	}
	if _, err := b.tasks.DeadGroupsBy(b.ctx, b.pool, "queue", store.DeadFilter{}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("by queue: %v", err)
	}
}

func TestArchiveOfDeadLetters(t *testing.T) {
	t.Parallel()
	for _, c := range deadFilters {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.dead()
			_, err := b.tasks.Archive(b.ctx, b.pool, "1", "before") // which stays as it is
			b.check(err)
			before := map[string]state{}
			for i := range 6 {
				before[fmt.Sprint(i)] = b.wholeState(fmt.Sprint(i))
			}
			wanted := strings.Fields(strings.Replace(" "+c.ids, " 1", "", 1))
			if c.name == "the oldest" {
				wanted = []string{"0", "2"}
			}
			from := b.now()
			receipts, err := b.tasks.ArchiveDead(b.ctx, b.pool, c.filter, "by hand")
			b.check(err)
			if c.filter.Archived { // those are archived already
				same(b, "receipts", receipts, []store.Receipt{{ID: "1", Outcome: store.Unchanged, Revision: b.get("1").Revision}})
				receipts = nil
			}
			if len(receipts) != len(wanted) {
				b.Fatalf("%v instead of %v", outcomes(receipts), wanted)
			}
			for i, id := range wanted {
				after := b.wholeState(id)
				same(b, "receipt", receipts[i], store.Receipt{ID: id, Outcome: store.Archived, Revision: after.Row.Revision})
				w := &want{b: b, before: before[id].Row, row: *before[id].Row, found: after.Row, from: from, until: b.now()}
				w.row.ArchivedAt, w.row.ArchivedNote, w.row.Revision = w.during("archived_at", after.Row.ArchivedAt), pointerTo("by hand"), after.Row.Revision
				b.checkWhole(before[id], after, &w.row, "archive", "archived", service)
				delete(before, id)
			}
			for id, state := range before {
				same(b, "left alone: "+id, b.wholeState(id), state)
			}
		})
	}
}

// All that were counted are retried, a few at a time, and those that fail again meanwhile are not.
func TestRetryOfWhatWasCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.dead()
	b.asEngine(func(tx pgx.Tx) {
		b.exec(tx, `UPDATE tasktable.scheduled_tasks SET finished_at = clock_timestamp() - id::int * interval '1 second' - interval '1 second'`)
	})
	total, err := b.tasks.CountDead(b.ctx, b.pool, store.DeadFilter{})
	b.check(err)
	filter := store.DeadFilter{FinishedTo: total.At, Limit: 4}
	var retried []string
	for range 5 {
		receipts, err := b.tasks.RetryDead(b.ctx, b.pool, filter)
		b.check(err)
		for _, receipt := range receipts {
			retried = append(retried, receipt.ID)
			b.asEngine(func(tx pgx.Tx) {
				b.exec(tx, `UPDATE tasktable.scheduled_tasks SET status = 'FAILED', next_attempt_at = NULL, finished_at = clock_timestamp() WHERE id = $1`, receipt.ID)
			})
		}
	}
	if got := strings.Join(retried, " "); total.Count != 6 || got != "2 3 4 5 0 1" {
		t.Errorf("%d counted, retried %s", total.Count, got)
	}
}
