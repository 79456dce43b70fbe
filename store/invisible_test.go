package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// scheduling is each way to schedule one task.
func (b *bench) scheduling(task store.Task) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Schedule": func(ctx context.Context) error {
			_, err := b.Tasks.Schedule(ctx, b.Pool, task)
			return err
		},
		"ScheduleMany": func(ctx context.Context) error {
			tasks := make([]store.Task, 25)
			for i := range tasks {
				tasks[i] = base(task.ID + string(rune('a'+i)))
			}
			tasks[3] = task
			_, err := b.Tasks.ScheduleMany(ctx, b.Pool, tasks)
			return err
		},
		"Sync": func(ctx context.Context) error {
			synced := task // the ways run side by side
			synced.Entity = ""
			_, err := b.Tasks.Sync(ctx, b.Pool, "event:1", synced)
			return err
		},
	}
}

// endsWith expects each way to end soon, with an error that names the task and says what may be the cause.
func (b *bench) endsWith(task store.Task) {
	for name, schedule := range b.scheduling(task) {
		b.each(name, func(b *bench) {
			ctx, cancel := context.WithTimeout(b.Ctx, 10*time.Second)
			defer cancel()
			err := schedule(ctx)
			// Postgres 15.20 refuses an ON CONFLICT DO UPDATE that meets a hidden row, and names no task.
			if refused := new(pgconn.PgError); name == "ScheduleMany" && errors.As(err, &refused) && refused.Code == "42501" &&
				strings.Contains(refused.Message, "row-level security policy") {
				return
			}
			for _, part := range []string{
				`task "` + task.ID + `" can neither be read nor inserted`, "row level security", "trigger",
			} {
				if err == nil || !strings.Contains(err.Error(), part) {
					b.Errorf("got %v, not an error that says %q", err, part)
				}
			}
		})
	}
}

// An application's trigger that leaves an insert out leaves no row to find.
func TestScheduleWhereATriggerLeavesTheInsertOut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Exec(b.Pool, `CREATE FUNCTION left_out() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$`)
	b.Exec(b.Pool, `CREATE TRIGGER left_out BEFORE INSERT ON tasktable.scheduled_tasks
		FOR EACH ROW WHEN (NEW.id = 'gone') EXECUTE FUNCTION left_out()`)
	b.endsWith(store.Task{ID: "gone", Payload: payload(1), At: far(0)})
}

// A row that a policy hides is in the way of the insert, and cannot be read.
func TestScheduleWhereAPolicyHidesTheRow(t *testing.T) {
	t.Parallel()
	role := storetest.Role(t)
	b := newBench(t)
	b.Schedule(store.Task{ID: "theirs", Payload: payload(1), At: far(0), TenantID: "other"})
	b.Exec(
		b.Pool, `GRANT USAGE ON SCHEMA tasktable TO `+role+`; GRANT ALL ON ALL TABLES IN SCHEMA tasktable TO `+role+`;
		GRANT ALL ON ALL SEQUENCES IN SCHEMA tasktable TO `+role+
			`; ALTER TABLE tasktable.scheduled_tasks ENABLE ROW LEVEL SECURITY;
		CREATE POLICY by_tenant ON tasktable.scheduled_tasks TO `+role+` USING (tenant_id = 'acme')`,
	)
	config := b.Pool.Config()
	config.ConnConfig.RuntimeParams["role"] = role
	config.MinConns = 0
	pool, err := pgxpool.NewWithConfig(b.Ctx, config)
	b.Check(err)
	t.Cleanup(pool.Close)
	before := b.state("theirs")
	t.Run("all", func(t *testing.T) {
		own := benchOn(t, pool)
		own.endsWith(store.Task{ID: "theirs", Payload: payload(1), At: far(0), TenantID: "acme"})
	})
	b = benchOn(t, b.Pool)
	same(b, "the other tenant's task", b.state("theirs"), before)
}
