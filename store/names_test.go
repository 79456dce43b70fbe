package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

func TestNames(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"b", "a-2", "a-10", "a_", "a%", "A", "ä", "a\U0010ffff", "a\U0010ffffz", "\ud7ff", "\ue000"} {
		b.schedule(store.Task{ID: id, Payload: payload(1), At: far(0)})
	}
	_, err := b.tasks.Pause(b.ctx, b.pool, "a-10")
	b.check(err)
	for name, db := range b.readers() {
		for _, c := range []struct {
			filter store.Filter
			want   string
		}{
			{store.Filter{}, "A a% a-10 a-2 a_ a\U0010ffff a\U0010ffffz b ä \ud7ff \ue000"},
			{store.Filter{IDPrefix: "a"}, "a% a-10 a-2 a_ a\U0010ffff a\U0010ffffz"},
			{store.Filter{IDPrefix: "a-"}, "a-10 a-2"},
			{store.Filter{IDPrefix: "a%"}, "a%"},
			{store.Filter{IDPrefix: "a_"}, "a_"},
			{store.Filter{IDPrefix: "a\U0010ffff"}, "a\U0010ffff a\U0010ffffz"},
			{store.Filter{IDPrefix: "\U0010ffff"}, ""},
			{store.Filter{IDPrefix: "\ud7ff"}, "\ud7ff"},
			{store.Filter{Limit: 2}, "A a%"},
			{store.Filter{Limit: 2, After: &store.Row{ID: "a%"}}, "a-10 a-2"},
			{store.Filter{Status: store.StatusPaused}, "a-10"},
		} {
			names, err := b.tasks.Names(b.ctx, db, c.filter)
			b.check(err)
			var ids []string
			for _, one := range names {
				ids = append(ids, one.ID)
			}
			if got := strings.Join(ids, " "); got != c.want {
				t.Errorf("%s: %+v: got %q, want %q", name, c.filter, got, c.want)
			}
		}
		paused, err := b.tasks.Names(b.ctx, db, store.Filter{IDPrefix: "a-10"})
		b.check(err)
		same(b, name, paused, []store.Name{{ID: "a-10", Type: "TEST", Status: store.StatusPaused}})
	}
}

// A shell asks while somebody types: with many tasks the index must do.
func TestNamesByPrefixReadNoMoreThanTheyList(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.exec(b.pool, `INSERT INTO tasktable.scheduled_tasks (id, payload) SELECT 'task-' || n, '{"type": "TEST"}' FROM generate_series(1, 5000) AS n`)
	b.exec(b.pool, `ANALYZE tasktable.scheduled_tasks`)
	tx := b.begin(pgx.TxOptions{})
	names, err := b.tasks.Names(b.ctx, tx, store.Filter{IDPrefix: "task-49", Limit: 10})
	b.check(err)
	read := one[int64](b, tx, `SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables WHERE relname = 'scheduled_tasks'`)
	if len(names) != 10 || read > 100 {
		t.Errorf("%d names, %d rows read", len(names), read)
	}
}

func TestTypesAndQueuesInUse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, db := range b.readers() {
		types, err := b.tasks.Types(b.ctx, db)
		b.check(err)
		queues, err := b.tasks.Queues(b.ctx, db)
		b.check(err)
		if len(types)+len(queues) > 0 {
			t.Errorf("%s: of an empty table: %v, %v", name, types, queues)
		}
	}
	for i, one := range []struct{ kind, queue string }{{"MAIL", "mail"}, {"LOG", "default"}, {"LOG", "mail"}, {"bb", "a"}} {
		b.schedule(store.Task{ID: fmt.Sprint(i), Payload: typed(one.kind), Queue: one.queue, At: far(i)})
	}
	b.schedule(store.Task{ID: "r", Payload: typed("CRON"), Queue: "nightly", Recurrence: &store.Recurrence{Cron: "@daily"}})
	b.schedule(store.Task{ID: "gone", Payload: typed("GONE"), Queue: "gone", At: far(0)})
	_, err := b.tasks.Cancel(b.ctx, b.pool, "gone")
	b.check(err)
	b.exec(b.pool, `INSERT INTO tasktable.nodes (service, version, host, queues, types, dead_at) VALUES
		('s', 'v', 'h', '{"mail": 1, "node": 2}', '{NODE,LOG}', NULL), ('s', 'v', 'h', '{"dead": 2}', '{DEAD}', now())`)
	for name, db := range b.readers() {
		types, err := b.tasks.Types(b.ctx, db)
		b.check(err)
		queues, err := b.tasks.Queues(b.ctx, db)
		b.check(err)
		if want := []string{"CRON", "LOG", "MAIL", "NODE", "bb"}; !slices.Equal(types, want) {
			t.Errorf("%s: types %v, want %v", name, types, want)
		}
		if want := []string{"a", "default", "mail", "nightly", "node"}; !slices.Equal(queues, want) {
			t.Errorf("%s: queues %v, want %v", name, queues, want)
		}
	}
}

func TestNowIsTheDatabases(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, db := range b.readers() {
		before := b.now()
		got, err := b.tasks.Now(b.ctx, db)
		b.check(err)
		if after := b.now(); got.Before(before) || got.After(after) {
			t.Errorf("%s: %s is not between %s and %s", name, got, before, after)
		}
	}
}
