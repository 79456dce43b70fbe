package migrations_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/store/storetest"
)

var update = flag.Bool("update", false, "write testdata/schema.golden anew")

const golden = "testdata/schema.golden"

// The schema is what the golden file says, so that a change of a migration shows in a review as what it
// changes. After one,
//
//	go test ./migrations -run TestSchemaIsAsInTheGoldenFile -update
//
// writes the file; read its diff before it is committed. Any version of Postgres from 14 on gives the same.
func TestSchemaIsAsInTheGoldenFile(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	pool := emptyPool(ctx, t)
	check(t, migrations.Up(ctx, pool, ""))
	got := dump(ctx, t, pool, "tasktable", false)
	if *update {
		check(t, os.WriteFile(golden, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(golden)
	check(t, err)
	same(t, "schema", got, string(want))
}

// Who looks at the database with psql finds an explanation at everything.
func TestEveryObjectHasAComment(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	kinds := map[string]int{}
	for _, object := range objects(ctx, t, storetest.Pool(t), "tasktable") {
		if others.MatchString(object.Name) || explainedElsewhere(object) {
			continue
		}
		kinds[object.Kind]++
		if strings.TrimSpace(object.Comment) == "" {
			t.Errorf("no comment on %s %s", object.Kind, object.Name)
		}
	}
	for _, kind := range []string{
		"table", "column", "view", "index", "sequence", "trigger", "domain", "composite type", "function",
	} {
		if kinds[kind] == 0 {
			t.Errorf("not one %s was looked at", kind)
		}
	}
}

// explainedElsewhere: a rule's name is what it says; a key's index and an identity's sequence come with the column; the
// columns of views and results bear the names of those they are taken from.
func explainedElsewhere(object object) bool {
	table, _, _ := strings.Cut(object.Name, ".")
	switch object.Kind {
	case "constraint", "domain rule":
		return true
	case "index":
		return strings.HasSuffix(object.Name, "_pkey")
	case "sequence":
		return strings.HasSuffix(object.Name, "_number_seq")
	case "column":
		return table != "scheduled_tasks" && table != "scheduled_task_executions" &&
			table != "scheduled_task_changes" && table != "nodes" &&
			!strings.HasPrefix(table, "api_") && !strings.HasPrefix(table, "notice_")
	default:
		return false
	}
}

func TestUpDownUpGivesTheSameSchema(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	pool := emptyPool(ctx, t)
	check(t, migrations.Up(ctx, pool, ""))
	first := dump(ctx, t, pool, "tasktable", true)
	apply(ctx, t, pool, `SELECT tasktable.schedule('{"type": "TEST"}')`)

	check(t, migrations.Down(ctx, pool, ""))
	if left := dump(ctx, t, pool, "tasktable", false); left != "" {
		t.Errorf("left after down:\n%s", left)
	}
	for _, object := range objects(ctx, t, pool, "tasktable") {
		if !strings.HasPrefix(object.Name, "goose_") {
			t.Errorf("left after down: %s %s", object.Kind, object.Name)
		}
	}
	check(t, migrations.Down(ctx, pool, "")) // a second time there is nothing to do

	check(t, migrations.Up(ctx, pool, ""))
	same(t, "schema after up, down and up", dump(ctx, t, pool, "tasktable", true), first)
	migrated(ctx, t, pool, "")
	apply(ctx, t, pool, `SELECT tasktable.schedule('{"type": "TEST"}')`)
}
