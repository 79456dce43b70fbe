package store_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// Two bulk calls share three tasks and name them in crossed orders. The middle one is kept locked until both wait:
// had they taken the outer ones each in its own order, each would then wait for the other.
func TestBulkCallsWithCrossedIDsDoNotDeadlock(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	type bulk func(b *bench, on *pgxpool.Conn, entity string, ids ...string) ([]store.Receipt, error)
	many := func(b *bench, on *pgxpool.Conn, entity string, ids ...string) ([]store.Receipt, error) {
		return b.Tasks.ScheduleMany(b.Ctx, on, moved(ids, entity))
	}
	sync := func(b *bench, on *pgxpool.Conn, entity string, ids ...string) ([]store.Receipt, error) {
		return b.Tasks.Sync(b.Ctx, on, entity, moved(ids, entity)...)
	}
	for _, pair := range []struct {
		name          string
		first, second bulk
	}{{"many, many", many, many}, {"many, sync", many, sync}, {"sync, many", sync, many}, {"sync, sync", sync, sync}} {
		b.each(pair.name, func(b *bench) {
			outer, middle, last := pair.name+" a", pair.name+" m", pair.name+" z"
			mine, others := "event:"+pair.name, "other:"+pair.name
			for id, entity := range map[string]string{outer: others, middle: others, last: mine} {
				task := base(id)
				task.Entity = entity
				b.Schedule(task)
			}
			tx := b.Begin(pgx.TxOptions{})
			b.Exec(tx, `SELECT 1 FROM tasktable.scheduled_tasks WHERE id = $1 FOR UPDATE`, middle)
			first := start(b, func(conn *pgxpool.Conn) ([]store.Receipt, error) {
				return pair.first(b, conn, others, last, middle, outer)
			}).blocked()
			second := start(b, func(conn *pgxpool.Conn) ([]store.Receipt, error) {
				return pair.second(b, conn, mine, outer, middle)
			}).blocked()
			b.Check(tx.Rollback(b.Ctx))
			for _, call := range []*later[[]store.Receipt]{first, second} {
				receipts, err := call.result()
				b.Check(err)
				for _, receipt := range receipts {
					if receipt.Outcome != store.Rescheduled {
						b.Errorf("got %+v", receipt)
					}
				}
			}
		})
	}
}

// moved are the tasks of those ids, at another time than base's and of an entity.
func moved(ids []string, entity string) []store.Task {
	var tasks []store.Task
	for _, id := range ids {
		task := base(id)
		task.At, task.Entity, task.Replace = far(5), entity, true
		tasks = append(tasks, task)
	}
	return tasks
}

// waiting lists the ids of an entity's tasks that wait.
func (b *bench) waiting(entity string) []string {
	b.Helper()
	rows, err := b.Inspector.List(b.Ctx, b.Pool, inspect.Filter{
		Entity: entity, Statuses: []store.Status{store.StatusQueued},
	})
	b.Check(err)
	var ids []string
	for _, row := range rows {
		ids = append(ids, row.ID)
	}
	return ids
}

func TestTheSecondSyncOfAnEntitySeesTheFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, end := range []string{"commit", "rollback"} {
		b.each(end, func(b *bench) {
			entity := "event:" + end
			tx := b.Begin(pgx.TxOptions{})
			b.succeeds(b.Tasks.Sync(b.Ctx, tx, entity, of(end+" a"), of(end+" b")))
			second := start(b, func(conn *pgxpool.Conn) ([]store.Receipt, error) {
				return b.Tasks.Sync(b.Ctx, conn, entity, of(end+" c"), of(end+" b"))
			}).blocked()
			// Another entity's has no part in it.
			b.succeeds(b.Tasks.Sync(b.Ctx, b.Pool, "other:"+end, of(end+" x")))
			want := []string{end + " c created", end + " b created"}
			if end == "commit" {
				b.Check(tx.Commit(b.Ctx))
				want = []string{end + " c created", end + " b unchanged", end + " a cancelled"}
			} else {
				b.Check(tx.Rollback(b.Ctx))
			}
			receipts, err := second.result()
			b.Check(err)
			same(b, "receipts", outcomes(receipts), want)
			same(b, "waiting", b.waiting(entity), []string{end + " b", end + " c"})
		})
	}
}

func TestSyncsOfOneEntityAtOnceEndInOneOfTheSets(t *testing.T) {
	t.Parallel()
	b := crowd(t)
	sets := make([][]string, racers)
	for racer := range sets {
		for i := range 3 {
			sets[racer] = append(sets[racer], string(rune('a'+(racer+i*7)%26)))
		}
		slices.Sort(sets[racer])
	}
	race(b, func(racer int) ([]store.Receipt, error) {
		return b.Tasks.Sync(b.Ctx, b.Pool, "event:1", of(sets[racer][2]), of(sets[racer][0]), of(sets[racer][1]))
	})
	left := b.waiting("event:1")
	if !slices.ContainsFunc(sets, func(set []string) bool { return slices.Equal(set, left) }) {
		t.Errorf("left are %v, which nobody asked for", left)
	}
}
