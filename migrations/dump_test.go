package migrations_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// dumpSQL lists all that is in a schema, from the catalogs: unlike pg_dump's, its answer is the same in all versions of
// Postgres, and does without the program. NOT NULL is told with the columns, since Postgres 18 alone has
// constraints for it.
const dumpSQL = `
WITH relations AS (
    SELECT c.*, c.relname::text AS name FROM pg_class AS c WHERE c.relnamespace = $1::regnamespace
)
SELECT o.* FROM (
SELECT 'table' AS kind, r.name, coalesce(array_to_string(r.reloptions, ', '), '') AS definition,
    coalesce(obj_description(r.oid, 'pg_class'), '') AS comment
FROM relations AS r WHERE r.relkind = 'r'
UNION ALL
SELECT 'column', r.name || '.' || a.attname, concat_ws(' ', lpad(a.attnum::text, 2),
    format_type(a.atttypid, a.atttypmod),
        CASE WHEN a.attnotnull THEN 'NOT NULL' END, CASE a.attidentity WHEN 'a' THEN 'ALWAYS AS IDENTITY'
        WHEN 'd' THEN 'BY DEFAULT AS IDENTITY' END,
        CASE WHEN a.attgenerated = 's' THEN 'GENERATED' WHEN d.oid IS NOT NULL THEN 'DEFAULT' END,
        pg_get_expr(d.adbin, d.adrelid)),
    coalesce(col_description(r.oid, a.attnum), '')
FROM relations AS r JOIN pg_attribute AS a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef AS d ON d.adrelid = r.oid AND d.adnum = a.attnum
WHERE r.relkind IN ('r', 'v', 'c')
UNION ALL
SELECT 'view', r.name, pg_get_viewdef(r.oid), coalesce(obj_description(r.oid, 'pg_class'), '') FROM relations AS r
    WHERE r.relkind = 'v'
UNION ALL
SELECT 'index', r.name, pg_get_indexdef(r.oid), coalesce(obj_description(r.oid, 'pg_class'), '') FROM relations AS r
    WHERE r.relkind = 'i'
UNION ALL
SELECT 'sequence', r.name, concat_ws(' ', format_type(s.seqtypid, NULL), s.seqstart, s.seqincrement, s.seqmin, s.seqmax,
    s.seqcycle),
    coalesce(obj_description(r.oid, 'pg_class'), '')
FROM relations AS r JOIN pg_sequence AS s ON s.seqrelid = r.oid
UNION ALL
SELECT 'constraint', r.name || '.' || k.conname, pg_get_constraintdef(k.oid),
    coalesce(obj_description(k.oid, 'pg_constraint'), '')
FROM relations AS r JOIN pg_constraint AS k ON k.conrelid = r.oid WHERE k.contype <> 'n'
UNION ALL
SELECT 'trigger', r.name || '.' || t.tgname, pg_get_triggerdef(t.oid),
    coalesce(obj_description(t.oid, 'pg_trigger'), '')
FROM relations AS r JOIN pg_trigger AS t ON t.tgrelid = r.oid WHERE NOT t.tgisinternal
UNION ALL
SELECT CASE t.typtype WHEN 'd' THEN 'domain' WHEN 'e' THEN 'enum' ELSE 'composite type' END, t.typname::text,
    CASE t.typtype WHEN 'd' THEN format_type(t.typbasetype, t.typtypmod) WHEN 'e'
        THEN (SELECT string_agg(e.enumlabel, ', ' ORDER BY e.enumsortorder) FROM pg_enum AS e WHERE e.enumtypid = t.oid)
        ELSE '' END,
    coalesce(obj_description(t.oid, 'pg_type'), '')
FROM pg_type AS t WHERE t.typnamespace = $1::regnamespace
    AND (t.typtype IN ('d', 'e') OR EXISTS (SELECT 1 FROM relations AS r WHERE r.oid = t.typrelid AND r.relkind = 'c'))
UNION ALL
SELECT 'domain rule', t.typname || '.' || k.conname, pg_get_constraintdef(k.oid), ''
FROM pg_type AS t JOIN pg_constraint AS k ON k.contypid = t.oid WHERE t.typnamespace = $1::regnamespace
    AND k.contype <> 'n'
UNION ALL
SELECT 'function', p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')', pg_get_functiondef(p.oid),
    coalesce(obj_description(p.oid, 'pg_proc'), '')
FROM pg_proc AS p WHERE p.pronamespace = $1::regnamespace
) AS o ORDER BY o.kind COLLATE "C", o.name COLLATE "C"`

type object struct{ Kind, Name, Definition, Comment string }

// others are objects that are not Tasktable's own: River's, and goose's table of versions.
var others = regexp.MustCompile(`^(river|goose)_`)

// viewAlias: before Postgres 16 a view of one table names it before each column.
var viewAlias = regexp.MustCompile(`\b[a-z]\.`)

func objects(ctx context.Context, t *testing.T, pool *pgxpool.Pool, schema string) []object {
	t.Helper()
	var found []object
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		for _, setting := range []string{
			"search_path = ''", "TimeZone = 'UTC'", "DateStyle = 'ISO'", "IntervalStyle = 'postgres'",
		} {
			if _, err := tx.Exec(ctx, "SET LOCAL "+setting); err != nil {
				return err
			}
		}
		rows, err := tx.Query(ctx, dumpSQL, schema)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, pgx.RowToStructByName[object])
		return err
	})
	check(t, err)
	for i := range found {
		if found[i].Kind == "view" {
			found[i].Definition = viewAlias.ReplaceAllString(found[i].Definition, "")
		}
	}
	return found
}

// dump is a schema as text, River's and goose's objects included or not, under the name tasktable.
func dump(ctx context.Context, t *testing.T, pool *pgxpool.Pool, schema string, all bool) string {
	t.Helper()
	var out strings.Builder
	for _, object := range objects(ctx, t, pool, schema) {
		if !all && others.MatchString(object.Name) {
			continue
		}
		fmt.Fprintf(&out, "%s %s", object.Kind, object.Name)
		if definition := strings.TrimSpace(object.Definition); strings.Contains(definition, "\n") {
			fmt.Fprintf(&out, ":\n%s", definition)
		} else if definition != "" {
			fmt.Fprintf(&out, ": %s", definition)
		}
		if object.Comment != "" {
			fmt.Fprintf(&out, "\n    -- %s", object.Comment)
		}
		out.WriteString("\n")
	}
	text := regexp.MustCompile(`\b`+schema+`\.`).ReplaceAllString(out.String(), "tasktable.")
	// Postgres 18 leaves out the name of a query's only source, and earlier versions write it.
	return strings.ReplaceAll(text, " lane.", " ")
}

// same compares two dumps and tells the lines that are in one only.
func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	count := map[string]int{}
	for line := range strings.Lines(got) {
		count[line]++
	}
	for line := range strings.Lines(want) {
		count[line]--
	}
	var out strings.Builder
	for line := range strings.Lines(got + "\n" + want) {
		if n := count[line]; n > 0 {
			out.WriteString("got  " + line)
		} else if n < 0 {
			out.WriteString("want " + line)
		}
		delete(count, line)
	}
	t.Errorf("%s differs:\n%s", what, out.String())
}
