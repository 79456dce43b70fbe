package migrations_test

import (
	"context"
	"errors"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/store/storetest"
)

// What a DBA runs makes the same schema as Up, and leaves Up nothing to do.
func TestPrintedSQLMakesTheSameSchema(t *testing.T) {
	t.Parallel()
	psql, _ := exec.LookPath("psql")
	for _, c := range []struct {
		name, schema string
		run          func(ctx context.Context, t *testing.T, database, sql string)
	}{
		{"by psql", "", byPsql(psql)}, {"by psql in another schema", "jobs", byPsql(psql)},
		{"by statements", "", byStatements},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := c.schema
			t.Parallel()
			ctx := deadline(t)
			var printed strings.Builder
			check(t, migrations.Print(&printed, name))
			for _, left := range []string{"+goose", "TEMPLATE", "-- +"} {
				if strings.Contains(printed.String(), left) {
					t.Errorf("%q is left in the SQL", left)
				}
			}
			database := storetest.EmptyURL(t)
			c.run(ctx, t, database, printed.String())

			pool := poolOn(ctx, t, database, 2)
			schema := name
			if name == "" {
				schema = "tasktable"
			}
			migrated(ctx, t, pool, name)
			made := dump(ctx, t, pool, schema, true)
			same(t, "schema", made, dump(ctx, t, storetest.Pool(t), "tasktable", true))
			check(t, migrations.Up(ctx, pool, name))
			same(t, "schema after up", dump(ctx, t, pool, schema, true), made)
			check(t, migrations.Down(ctx, pool, name))
			check(t, migrations.Up(ctx, pool, name))
			same(t, "schema after down and up", dump(ctx, t, pool, schema, true), made)
		})
	}
}

// byPsql runs SQL as a DBA does; where there is no psql, byStatements stands in.
func byPsql(psql string) func(ctx context.Context, t *testing.T, database, sql string) {
	if psql == "" {
		return byStatements
	}
	return func(ctx context.Context, t *testing.T, database, sql string) {
		t.Helper()
		command := exec.CommandContext(ctx, psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", "-", database)
		command.Stdin = strings.NewReader(sql)
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("psql: %v\n%s", err, out)
		}
	}
}

// byStatements runs SQL one statement, and transaction, after the other.
func byStatements(ctx context.Context, t *testing.T, database, sql string) {
	t.Helper()
	conn, err := pgconn.Connect(ctx, database)
	check(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, statement := range statements(sql) {
		if _, err := conn.Exec(ctx, statement).ReadAll(); err != nil {
			t.Fatalf("%v in %s", err, statement)
		}
	}
}

// token is what may hide a semicolon, or is one.
var token = regexp.MustCompile(`(?s)'(?:[^']|'')*'|"[^"]*"|--[^\n]*|/\*.*?\*/|\$\$.*?\$\$|\$body\$.*?\$body\$|;`)

// statements splits SQL where psql would.
func statements(sql string) []string {
	var split []string
	begin := 0
	for _, at := range token.FindAllStringIndex(sql, -1) {
		if sql[at[0]:at[1]] == ";" {
			split = append(split, sql[begin:at[1]])
			begin = at[1]
		}
	}
	return append(split, sql[begin:])
}

type fullDisk struct{}

var errFull = errors.New("disk full")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestPrintTellsThatItCouldNotWrite(t *testing.T) {
	t.Parallel()
	if err := migrations.Print(fullDisk{}, ""); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
}
