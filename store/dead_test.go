package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
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
		b.schedule(made)
		b.asEngine(func(tx pgx.Tx) {
			b.exec(tx, `UPDATE tasktable.scheduled_tasks SET status = $2, next_attempt_at = NULL, attempt = 5, message = $3, result = '{"r": 1}',
				started_at = '2100-01-01Z', finished_at = '2100-01-01Z'::timestamptz + $4::int * interval '1 second' WHERE id = $1`, made.ID, task.status, task.message, i)
		})
	}
}

// deadFilters are filters with the ids that they select.
var deadFilters = []struct {
	name   string
	filter store.DeadFilter
	ids    string
}{
	{"all", store.DeadFilter{}, "0 1 2 3 4 5"},
	{"type", store.DeadFilter{Type: "OTHER"}, "2 4"},
	{"queue", store.DeadFilter{Queue: "mail"}, "1 4"},
	{"entity", store.DeadFilter{Entity: "event:2"}, "3"},
	{"tenant", store.DeadFilter{TenantID: "acme"}, "0 1 2 4 5"},
	{"failed", store.DeadFilter{Status: store.StatusFailed}, "0 1 3 4"},
	{"expired", store.DeadFilter{Status: store.StatusExpired}, "2 5"},
	{"message", store.DeadFilter{Message: "connection refused"}, "0"},
	{"part of it", store.DeadFilter{Message: "onnection ref"}, "0 4"},
	{"no pattern", store.DeadFilter{Message: "%"}, "2"},
	{"nor this", store.DeadFilter{Message: "e_b"}, "2"},
	{"a quote", store.DeadFilter{Message: "'far'"}, "2"},
	{"all at once", store.DeadFilter{Type: "OTHER", Queue: "mail", Entity: "event:1", TenantID: "acme", Message: "refused", Status: store.StatusFailed}, "4"},
	{"none", store.DeadFilter{Type: "OTHER", Queue: "mail", Status: store.StatusExpired}, ""},
	{"no such type", store.DeadFilter{Type: "NO_SUCH"}, ""},
	{"the oldest", store.DeadFilter{Limit: 2}, "0 1"},
	{"the oldest of a type", store.DeadFilter{Type: "OTHER", Limit: 1}, "2"},
	{"the greatest limit", store.DeadFilter{Limit: 10000}, "0 1 2 3 4 5"},
	{"that ended since", store.DeadFilter{FinishedFrom: farSecond(3)}, "3 4 5"},
	{"that ended before", store.DeadFilter{FinishedTo: farSecond(3)}, "0 1 2"},
	{"that ended between", store.DeadFilter{FinishedFrom: farSecond(1), FinishedTo: farSecond(4), Type: "TEST"}, "1 3"},
	{"archived", store.DeadFilter{Archived: true}, ""},
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
		b.make(kind, kind)
	}
	for _, c := range deadFilters {
		rows, err := b.tasks.DeadLetters(b.ctx, b.pool, c.filter)
		if err != nil || ids(rows) != c.ids {
			t.Errorf("%s: %s instead of %s, %v", c.name, ids(rows), c.ids, err)
		}
	}
	rows, err := b.tasks.DeadLetters(b.ctx, b.pool, store.DeadFilter{Type: "OTHER"})
	b.check(err)
	for _, row := range rows {
		same(b, "row", row, *b.get(row.ID))
	}
	counts, err := b.tasks.DeadCounts(b.ctx, b.pool)
	b.check(err)
	same(b, "counts", counts, []store.DeadCount{{"OTHER", "EXPIRED", 1}, {"OTHER", "FAILED", 1}, {"TEST", "EXPIRED", 1}, {"TEST", "FAILED", 3}})

	// Of one time by their ids.
	b.asEngine(func(tx pgx.Tx) {
		b.exec(tx, `UPDATE tasktable.scheduled_tasks SET finished_at = '2099-01-01Z' WHERE id IN ('5', '3', '4')`)
	})
	rows, err = b.tasks.DeadLetters(b.ctx, b.pool, store.DeadFilter{Limit: 4})
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
	_, err := b.tasks.ScheduleMany(b.ctx, b.pool, tasks)
	b.check(err)
	b.exec(b.pool, `UPDATE tasktable.scheduled_tasks SET status = 'FAILED', finished_at = clock_timestamp() - id::int * interval '1 second'`)
	b.asEngine(func(tx pgx.Tx) {
		b.exec(tx, `UPDATE tasktable.scheduled_tasks SET finished_at = '2020-01-01Z'::timestamptz - id::int * interval '1 second'`)
	})
	rows, err := b.tasks.DeadLetters(b.ctx, b.pool, store.DeadFilter{})
	if err != nil || len(rows) != 100 || rows[0].ID != "119" || rows[99].ID != "020" {
		t.Errorf("%d listed, %v: %s", len(rows), err, ids(rows))
	}
	for _, want := range []int{100, 20, 0} {
		receipts, err := b.tasks.RetryDead(b.ctx, b.pool, store.DeadFilter{})
		if err != nil || len(receipts) != want {
			t.Errorf("%d retried instead of %d, %v", len(receipts), want, err)
		}
	}
}

// expectRetried is a dead letter as Retry leaves it.
func (b *bench) expectRetried(id string, before state, from time.Time) {
	b.Helper()
	after := b.wholeState(id)
	w := &want{b: b, before: before.Row, row: *before.Row, found: after.Row, from: from, until: b.now()}
	w.row.Attempt = 0
	w.row.RunNowAt = w.during("run_now_at", after.Row.RunNowAt)
	w.row.ArchivedAt, w.row.ArchivedNote = nil, nil
	w.become(store.StatusQueued)
	w.row.NextAttemptAt = w.row.RunNowAt
	b.checkWhole(before, after, &w.row, "retry", "queued", service)
}

func TestRetryOfDeadLetters(t *testing.T) {
	t.Parallel()
	for _, c := range deadFilters {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.dead()
			_, err := b.tasks.Archive(b.ctx, b.pool, "1", "") // archived ones are not retried with the rest
			b.check(err)
			before := map[string]state{}
			for i := range 6 {
				before[fmt.Sprint(i)] = b.wholeState(fmt.Sprint(i))
			}
			wanted := strings.Fields(strings.Replace(" "+c.ids, " 1", "", 1))
			switch c.name {
			case "the oldest":
				wanted = []string{"0", "2"}
			case "archived":
				wanted = []string{"1"}
			}
			from := b.now()
			receipts, err := b.tasks.RetryDead(b.ctx, b.pool, c.filter)
			b.check(err)
			if len(receipts) != len(wanted) {
				b.Fatalf("%v instead of %v", outcomes(receipts), wanted)
			}
			for i, id := range wanted {
				same(b, "receipt", receipts[i], store.Receipt{ID: id, Outcome: store.Queued, Revision: b.get(id).Revision})
				b.expectRetried(id, before[id], from)
				delete(before, id)
			}
			for id, state := range before {
				same(b, "left alone: "+id, b.wholeState(id), state)
			}
		})
	}
}

func TestArchive(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	kinds := append([]string{"recurring FAILED"}, rowKinds...)
	for _, kind := range kinds {
		b.each(kind, func(b *bench) {
			if kind == "recurring FAILED" {
				b.makeRecurring(kind, "FAILED")
			} else {
				b.make(kind, kind)
			}
			before, from := b.wholeState(kind), b.now()
			receipt, err := b.tasks.Archive(b.ctx, b.pool, kind, "refunded\nby hand")
			b.check(err)
			after := b.wholeState(kind)
			switch {
			case before.Row == nil:
				same(b, "receipt", receipt, store.Receipt{ID: kind, Outcome: store.Absent})
				same(b, "task", after, before)
				return
			case before.Row.Status != "FAILED" && before.Row.Status != "EXPIRED":
				same(b, "receipt", receipt, store.Receipt{ID: kind, Outcome: store.Unchanged, Revision: before.Row.Revision})
				same(b, "task", after, before)
				return
			}
			same(b, "receipt", receipt, store.Receipt{ID: kind, Outcome: store.Archived, Revision: after.Row.Revision})
			w := &want{b: b, before: before.Row, row: *before.Row, found: after.Row, from: from, until: b.now()}
			w.row.ArchivedAt, w.row.ArchivedNote, w.row.Revision = w.during("archived_at", after.Row.ArchivedAt), pointerTo("refunded\nby hand"), after.Row.Revision
			b.checkWhole(before, after, &w.row, "archive", "archived", service)
			if after.Row.Revision <= before.Row.Revision {
				b.Errorf("revision %d after %d", after.Row.Revision, before.Row.Revision)
			}

			receipt, err = b.tasks.Archive(b.ctx, b.pool, kind, "another note")
			b.check(err)
			same(b, "receipt", receipt, store.Receipt{ID: kind, Outcome: store.Unchanged, Revision: after.Row.Revision})
			same(b, "archived again", b.wholeState(kind), after)
		})
	}
}

// What is archived is listed and counted no more, but it is there, and whoever runs it again makes it a task like any other.
func TestWhatBecomesOfAnArchivedTask(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, c := range map[string]struct {
		verb    string
		outcome store.Outcome
		stays   bool
	}{
		"moved": {"other_time", store.Rearmed, false}, "retried": {"retry", store.Queued, false}, "run now": {"run_now", store.Queued, false},
		"the same again": {"identical", store.Finished, true}, "cancelled": {"cancel", store.Finished, true}, "kept": {"keep_time", store.Finished, true},
	} {
		b.make(name, "FAILED")
		_, err := b.tasks.Archive(b.ctx, b.pool, name, "done with")
		b.check(err)
		if receipt := b.do(c.verb, name); receipt.Outcome != c.outcome {
			t.Errorf("%s: %+v", name, receipt)
		}
		row := b.get(name)
		if archived := row.ArchivedAt != nil && row.ArchivedNote != nil && *row.ArchivedNote == "done with"; archived != c.stays || c.stays != (row.Status == "FAILED") {
			t.Errorf("%s: %s", name, pretty(row))
		}
		if !c.stays && (row.ArchivedAt != nil || row.ArchivedNote != nil) {
			t.Errorf("%s: a mark is left: %s", name, pretty(row))
		}
	}
	rows, err := b.tasks.DeadLetters(b.ctx, b.pool, store.DeadFilter{})
	if err != nil || len(rows) != 0 {
		t.Errorf("listed: %s, %v", ids(rows), err)
	}
	counts, err := b.tasks.DeadCounts(b.ctx, b.pool)
	if err != nil || len(counts) != 0 {
		t.Errorf("counted: %v, %v", counts, err)
	}
	view := one[string](b, b.pool, `SELECT string_agg(concat_ws(' ', id, status, archived_at IS NOT NULL, archived_note, message), ', ' ORDER BY id) FROM tasktable.dead_letters`)
	same(b, "view", view, "cancelled FAILED t done with it was so, kept FAILED t done with it was so, the same again FAILED t done with it was so")
	b.make("failed again", "FAILED")
	_, err = b.tasks.Archive(b.ctx, b.pool, "failed again", "")
	b.check(err)
	b.do("retry", "failed again")
	b.exec(b.pool, `UPDATE tasktable.scheduled_tasks SET status = 'FAILED' WHERE id = 'failed again'`)
	if rows, err = b.tasks.DeadLetters(b.ctx, b.pool, store.DeadFilter{}); err != nil || ids(rows) != "failed again" {
		t.Errorf("that failed once more: %s, %v", ids(rows), err)
	}
}

func TestBadDeadFiltersAreRefusedBeforeTheDatabase(t *testing.T) {
	t.Parallel()
	b := benchOn(t, nil)
	for rule, filters := range map[string][]store.DeadFilter{
		"limit must be between 1 and 10000": {{Limit: -1}, {Limit: 10001}},
		"status must be FAILED or EXPIRED":  {{Status: "QUEUED"}, {Status: "failed"}, {Status: "\x00"}},
		"type must be at most":              {{Type: "a\x00"}}, "queue must be at most": {{Queue: "\xff"}}, "entity must be at most": {{Entity: strings.Repeat("x", 513)}},
		"tenant_id must be at most": {{TenantID: "a\nb"}}, "message must be UTF-8": {{Message: "a\x00b"}, {Message: "\xff"}},
		"finished from must be in the years":  {{FinishedFrom: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}},
		"after must be a task that has ended": {{After: &store.Row{ID: "one"}}}, "after must be at most": {{After: &store.Row{ID: "a\x00", FinishedAt: &time.Time{}}}},
	} {
		for _, filter := range filters {
			_, listed := b.tasks.DeadLetters(b.ctx, noDB{b}, filter)
			_, retried := b.tasks.RetryDead(b.ctx, noDB{b}, filter)
			_, archived := b.tasks.ArchiveDead(b.ctx, noDB{b}, filter, "")
			for _, err := range []error{listed, retried, archived} {
				if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), rule) {
					t.Errorf("%v does not say %s", err, rule)
				}
			}
		}
	}
	for _, filter := range []store.DeadFilter{{Status: "QUEUED"}, {Message: "\xff"}, {FinishedTo: time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)}} {
		_, counted := b.tasks.CountDead(b.ctx, noDB{b}, filter)
		_, grouped := b.tasks.DeadGroups(b.ctx, noDB{b}, filter)
		if !errors.Is(counted, store.ErrInvalid) || !errors.Is(grouped, store.ErrInvalid) {
			t.Errorf("%+v: %v, %v", filter, counted, grouped)
		}
	}
	if _, err := b.tasks.ArchiveDead(b.ctx, noDB{b}, store.DeadFilter{}, "\xff"); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a bad note: %v", err)
	}
	for _, bad := range [][2]string{{"", "x"}, {"a\x00", "x"}, {"one", "a\x00b"}, {"one", "\xff"}} {
		if _, err := b.tasks.Archive(b.ctx, noDB{b}, bad[0], bad[1]); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("archive %q: %v", bad, err)
		}
	}
}
