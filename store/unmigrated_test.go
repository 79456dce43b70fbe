package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store"
)

// A program that runs before its migration is told what to do, and not only what Postgres misses.
func TestAnUnmigratedSchemaIsNamed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Exec(b.Pool, `CREATE SCHEMA empty`)
	for _, schema := range []string{"missing", "empty"} {
		tasks := store.New(store.Config{Schema: schema})
		_, scheduled := tasks.Schedule(b.Ctx, b.Pool, base("one"))
		_, many := tasks.ScheduleMany(b.Ctx, store.SQL(b.OpenSQL("postgres")), []store.Task{base("one")})
		_, read := tasks.Get(b.Ctx, b.Pool, "one")
		for name, err := range map[string]error{"Schedule": scheduled, "ScheduleMany": many, "Get": read} {
			if !errors.Is(err, store.ErrUnmigrated) || !strings.Contains(err.Error(), "tasktable migrate") {
				t.Errorf("schema %s: %s: %v", schema, name, err)
			}
		}
	}
}
