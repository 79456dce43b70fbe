package inspect_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/internal/testbench"
)

func TestGroupsOfDeadLetters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.dead()
	long := strings.Repeat("ü", 130)
	for i, message := range []string{long + "a\nand its stack 1", long + "b", long + "c"} {
		b.failed(fmt.Sprint("long ", i), message, 10-i)
	}
	b.failed("two lines", "550 no such user\nhe said", 5)
	b.failed("another", "551 no such user", 6)
	group := func(kind, status, pattern, message string, count, oldest, latest int, example string) inspect.Group {
		return inspect.Group{
			Type: kind, Status: store.Status(status), Pattern: pattern, Message: message, Count: count,
			Oldest: new(farSecond(oldest)), Latest: new(farSecond(latest)), Example: example,
		}
	}
	refused := "dial tcp: connection refused"
	all := []inspect.Group{
		group("TEST", "FAILED", long[:2*120], long[:2*120], 3, 8, 10, "long 0"),
		group("TEST", "FAILED", "* no such user", "* no such user", 3, 1, 6, "1"),
		group("TEST", "EXPIRED", "", "", 1, 5, 5, "5"),
		group("OTHER", "FAILED", "Connection refused", "Connection refused", 1, 4, 4, "4"),
		group("TEST", "FAILED", "", "", 1, 3, 3, "3"),
		group("OTHER", "EXPIRED", "* late_by *", "50% late_by 'far'", 1, 2, 2, "2"),
		group("TEST", "FAILED", refused, refused, 1, 0, 0, "0"),
	}
	for name, c := range map[string]struct {
		filter inspect.Filter
		total  int
		want   []inspect.Group
	}{
		"all": {inspect.Filter{}, 11, all}, "some": {inspect.Filter{Limit: 2}, 11, all[:2]},
		"a type": {inspect.Filter{Type: "OTHER"}, 2, []inspect.Group{all[3], all[5]}},
		"a message": {
			inspect.Filter{Message: "he said"}, 1,
			[]inspect.Group{group("TEST", "FAILED", "* no such user", "550 no such user", 1, 5, 5, "two lines")},
		},
		"a pattern": {inspect.Filter{Pattern: "* no such user"}, 3, all[1:2]},
		"none":      {inspect.Filter{Archived: new(true)}, 0, []inspect.Group{}},
	} {
		for driver, db := range b.Readers() {
			groups, err := b.Inspector.Groups(b.Ctx, db, dead(c.filter), "")
			b.Check(err)
			for i := range groups {
				groups[i].Oldest, groups[i].Latest = new(groups[i].Oldest.UTC()), new(groups[i].Latest.UTC())
				same(b, name+": total: "+driver, groups[i].Total, c.total)
				groups[i].Total = 0
			}
			same(b, name+": "+driver, groups, c.want)
		}
	}
}

// failed makes a dead letter with a message, which ended at a second.
func (b *bench) failed(id, message string, second int) {
	b.Helper()
	b.Make(id, "FAILED")
	b.AsEngine(func(tx pgx.Tx) {
		b.Exec(tx, `UPDATE tasktable.scheduled_tasks SET message = $2, finished_at = $3 WHERE id = $1`,
			id, message, farSecond(second))
	})
}

// Messages that differ only in what is of one task are one group, and a verb takes exactly the tasks of a group.
func TestPatternsOfMessages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for pattern, messages := range map[string][]string{
		"image * too large": {"image 9: too large", "image 110: too large"},
		"order * was refused": {
			"order 018f3f0c-7d1c-7e0a-9b59-2f6f3c1e8a11 was refused", "order x_7 was refused", "order 0xdeadbeef was refused",
		},
		"dial tcp * connect: connection refused": {
			"dial tcp 10.0.0.7:5432: connect: connection refused", "dial tcp [fe80::1]:80: connect: connection refused",
		},
		"mail to * failed":       {"mail to ada@example.org failed", "mail to bob+x@mail.example.org failed"},
		"no user * in team *":    {`no user "Ada L." in team 'red'`, "no user `bob` in team \"blue team\""},
		"get * * late":           {"get https://example.org/a/1?b=2 3s late", "get /a/2 1m30s late"},
		"field name=* is empty":  {`field name="first name" is empty`, `field name="x" is empty`},
		"it can't find the file": {"it can't find the file\nat line 3", "it can't find the file"},
		"it can't find the wife": {"it can't find the wife"},
		"":                       {""},
	} {
		for _, message := range messages {
			got := testbench.One[string](b.Bench, b.Pool, `SELECT tasktable.message_pattern($1::text)`, message)
			same(b, message, got, pattern)
		}
	}
	// However long the ids before the cut are.
	tail := strings.Repeat(" and on", 60)
	for _, id := range []string{"1", strings.Repeat("9", 90)} {
		got := testbench.One[string](b.Bench, b.Pool, `SELECT tasktable.message_pattern($1::text)`, id+tail)
		same(b, "a long message", got, ("*" + tail)[:120])
	}
	b.failed("1", "image 9: too large", 1)
	b.failed("2", "image 110: too large", 2)
	b.failed("3", "image 110: too large, and more", 3)
	for driver, db := range b.Readers() {
		filter := dead(inspect.Filter{Pattern: "image * too large"})
		rows, err := b.Inspector.List(b.Ctx, db, filter)
		b.Check(err)
		same(b, driver, ids(rows), "1 2")
	}
	receipts := b.do(inspect.Action{Verb: inspect.Archive}, dead(inspect.Filter{Pattern: "image * too large"}))
	same(b, "archived", strings.Join(outcomes(receipts), ", "), "1 archived, 2 archived")
}

func TestGroupsByAnotherField(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, task := range []struct{ id, entity, tenant, message string }{
		{"a", "order:1", "north", "card declined"}, {"b", "order:1", "south", "card declined"},
		{"c", "order:2", "south", "card declined"}, {"d", "", "", "card declined"},
	} {
		b.Schedule(store.Task{ID: task.id, Payload: payload(1), At: far(0), Entity: task.entity, TenantID: task.tenant})
		b.AsEngine(func(tx pgx.Tx) {
			b.Exec(tx, `UPDATE tasktable.scheduled_tasks
				SET status = 'FAILED', next_attempt_at = NULL, message = $2, finished_at = $3 WHERE id = $1`,
				task.id, task.message, far(1))
		})
	}
	for by, want := range map[inspect.Grouping]string{
		inspect.ByEntity: "2 of order:1 1 of - 1 of order:2", inspect.ByTenant: "2 of south 1 of - 1 of north",
	} {
		for driver, db := range b.Readers() {
			groups, err := b.Inspector.Groups(b.Ctx, db, inspect.DeadLetters(), by)
			b.Check(err)
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
	latest, err := inspect.Limited(b.Inspector, 9, 3).Groups(b.Ctx, b.Pool, inspect.DeadLetters(), "")
	b.Check(err)
	if len(latest) != 1 || latest[0].Count != 3 || latest[0].Total != 3 || !latest[0].More {
		t.Errorf("of more than three it counts %+v", latest)
	}
	if _, err := b.Inspector.Groups(b.Ctx, b.Pool, inspect.DeadLetters(), "queue"); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("by queue: %v", err)
	}
}
