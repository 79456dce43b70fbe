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
	b.exec(b.pool, `CREATE SCHEMA empty`)
	for _, schema := range []string{"missing", "empty"} {
		tasks := store.New(store.Config{Schema: schema})
		_, scheduled := tasks.Schedule(b.ctx, b.pool, base("one"))
		_, many := tasks.ScheduleMany(b.ctx, store.SQL(b.openSQL("postgres")), []store.Task{base("one")})
		_, read := tasks.Get(b.ctx, b.pool, "one")
		for name, err := range map[string]error{"Schedule": scheduled, "ScheduleMany": many, "Get": read} {
			if !errors.Is(err, store.ErrUnmigrated) || !strings.Contains(err.Error(), "tasktable migrate") {
				t.Errorf("schema %s: %s: %v", schema, name, err)
			}
		}
	}
}
