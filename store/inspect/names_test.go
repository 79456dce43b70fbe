package inspect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

func TestNames(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{
		"b", "a-2", "a-10", "a_", "a%", "A", "ä", "a\U0010ffff", "a\U0010ffffz", "\ud7ff", "\ue000",
	} {
		b.Schedule(store.Task{ID: id, Payload: payload(1), At: far(0)})
	}
	b.must(b.Tasks.Pause(b.Ctx, b.Pool, "a-10"))
	for name, db := range b.Readers() {
		for _, c := range []struct {
			filter inspect.Filter
			want   string
		}{
			{inspect.Filter{}, "A a% a-10 a-2 a_ a\U0010ffff a\U0010ffffz b ä \ud7ff \ue000"},
			{inspect.Filter{IDPrefix: "a"}, "a% a-10 a-2 a_ a\U0010ffff a\U0010ffffz"},
			{inspect.Filter{IDPrefix: "a-"}, "a-10 a-2"},
			{inspect.Filter{IDPrefix: "a%"}, "a%"},
			{inspect.Filter{IDPrefix: "a_"}, "a_"},
			{inspect.Filter{IDPrefix: "a\U0010ffff"}, "a\U0010ffff a\U0010ffffz"},
			{inspect.Filter{IDPrefix: "\U0010ffff"}, ""},
			{inspect.Filter{IDPrefix: "\ud7ff"}, "\ud7ff"},
			{inspect.Filter{Limit: 2}, "A a%"},
			{inspect.Filter{Limit: 2, After: &store.Row{ID: "a%"}}, "a-10 a-2"},
			{inspect.Filter{Limit: 2, After: &store.Row{ID: "a-10"}, LatestFirst: true}, "a% A"},
			{inspect.Filter{Statuses: []store.Status{store.StatusPaused}}, "a-10"},
		} {
			c.filter.Order = inspect.ByID
			names, err := b.Inspector.Names(b.Ctx, db, c.filter)
			b.Check(err)
			var ids []string
			for _, one := range names {
				ids = append(ids, one.ID)
			}
			if got := strings.Join(ids, " "); got != c.want {
				t.Errorf("%s: %+v: got %q, want %q", name, c.filter, got, c.want)
			}
		}
		paused, err := b.Inspector.Names(b.Ctx, db, inspect.Filter{IDPrefix: "a-10"})
		b.Check(err)
		same(b, name, paused, []inspect.Name{{ID: "a-10", Type: "TEST", Status: store.StatusPaused,
			Revision: b.Get("a-10").Revision}})
	}
}

// A shell asks while somebody types: with many tasks the index must do.
func TestNamesByPrefixReadNoMoreThanTheyList(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Exec(b.Pool, `INSERT INTO tasktable.scheduled_tasks (id, payload) SELECT 'task-' || n, '{"type": "TEST"}'
		FROM generate_series(1, 5000) AS n`)
	b.Exec(b.Pool, `ANALYZE tasktable.scheduled_tasks`)
	tx := b.Begin(pgx.TxOptions{})
	names, err := b.Inspector.Names(b.Ctx, tx, inspect.Filter{IDPrefix: "task-49", Order: inspect.ByID, Limit: 10})
	b.Check(err)
	read := one[int64](b, tx, `SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)
		FROM pg_stat_xact_user_tables WHERE relname = 'scheduled_tasks'`)
	if len(names) != 10 || read > 100 {
		t.Errorf("%d names, %d rows read", len(names), read)
	}
}

func TestTypesAndQueuesInUse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, db := range b.Readers() {
		types, err := b.Inspector.Types(b.Ctx, db)
		b.Check(err)
		queues, err := b.Inspector.Queues(b.Ctx, db)
		b.Check(err)
		if len(types)+len(queues) > 0 {
			t.Errorf("%s: of an empty table: %v, %v", name, types, queues)
		}
	}
	for i, one := range []struct {
		kind, queue string
	}{{"MAIL", "mail"}, {"LOG", "default"}, {"LOG", "mail"}, {"bb", "a"}} {
		b.Schedule(store.Task{ID: fmt.Sprint(i), Payload: typed(one.kind), Queue: one.queue, At: far(i)})
	}
	b.Schedule(store.Task{
		ID: "r", Payload: typed("CRON"), Queue: "nightly", Recurrence: &store.Recurrence{Cron: "@daily"},
	})
	b.Schedule(store.Task{ID: "gone", Payload: typed("GONE"), Queue: "gone", At: far(0)})
	b.must(b.Tasks.Cancel(b.Ctx, b.Pool, "gone"))
	b.Exec(b.Pool, `INSERT INTO tasktable.nodes (service, version, host, queues, types, dead_at) VALUES
		('s', 'v', 'h', '{"mail": 1, "node": 2}', '{NODE,LOG}', NULL), ('s', 'v', 'h', '{"dead": 2}', '{DEAD}', now())`)
	for name, db := range b.Readers() {
		types, err := b.Inspector.Types(b.Ctx, db)
		b.Check(err)
		queues, err := b.Inspector.Queues(b.Ctx, db)
		b.Check(err)
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
	for name, db := range b.Readers() {
		before := b.Now()
		got, err := b.Tasks.Now(b.Ctx, db)
		b.Check(err)
		if after := b.Now(); got.Before(before) || got.After(after) {
			t.Errorf("%s: %s is not between %s and %s", name, got, before, after)
		}
	}
}

// To compute the pattern of a message takes longer than to read its row. So a long list, or a tenant's, computes those
// of its page alone.
func TestPatternsOfThePageAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 50 {
		b.Schedule(store.Task{ID: fmt.Sprint(i), Payload: payload(1), At: far(i)})
	}
	b.Exec(b.Pool, `CREATE SEQUENCE public.patterns`)
	b.Exec(b.Pool, `CREATE OR REPLACE FUNCTION tasktable.message_pattern(message text) RETURNS text
		LANGUAGE plpgsql IMMUTABLE COST 1 AS $$ BEGIN RETURN nextval('public.patterns'); END $$`)
	names, err := inspect.Limited(b.Inspector, 3, 3).Names(b.Ctx, b.Pool, inspect.Filter{Limit: 5})
	b.Check(err)
	patterns := one[int](b, b.Pool, `SELECT last_value FROM public.patterns`)
	if len(names) != 5 || patterns != 5 {
		t.Errorf("%d patterns were computed for %d tasks", patterns, len(names))
	}
}
