package migrations_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store/storetest"
)

// Schema N serves the library of N and of N-1: a deployment migrates first, and a program that is rolled back finds
// the newer schema. So each release leaves the statements that it sends in testdata/statements, and each is prepared
// here on the newest schema, and on one that is newer still: what it takes and what it gives must be as it was. Until
// there is a release, unreleased.golden stands for one:
//
//	go test ./migrations -run TestStatements -update
//
// writes it anew, which is due after a migration that was edited in place; with -release v1.0.0 it writes that
// release's, and which migrations it has (released_test.go). From the first release on, that is all.
const statementsFolder = "testdata/statements"

var release = flag.String("release", "unreleased", "the release whose statements -update writes")

// statement is what a library sends, and what the server says about it.
type statement struct {
	name, sql    string
	takes, gives string
}

func TestStatementsOfReleases(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	if *update {
		var text strings.Builder
		for _, one := range described(ctx, t, storetest.Pool(t), collected(t)) {
			fmt.Fprintf(&text, "=== %s\n%s\n--- takes %s\n--- gives %s\n\n", one.name, one.sql, one.takes, one.gives)
		}
		check(t, os.WriteFile(filepath.Join(statementsFolder, *release+".golden"), []byte(text.String()), 0o644))
		if *release != "unreleased" {
			check(
				t,
				os.WriteFile(filepath.Join(statementsFolder, *release+".migrations"), []byte(migrationFiles(t)), 0o644),
			)
		}
	}
	files, err := filepath.Glob(filepath.Join(statementsFolder, "*.golden"))
	check(t, err)
	if len(files) == 0 {
		t.Fatal("there is not one release")
	}
	for name, pool := range map[string]*pgxpool.Pool{
		"the newest schema": storetest.Pool(t), "a newer schema": newer(ctx, t, "newer"),
		"functions with more arguments": newer(ctx, t, "newer", "remade"),
	} {
		for _, file := range files {
			want := recorded(t, file)
			for i, got := range described(ctx, t, pool, want) {
				if got.takes != want[i].takes || got.gives != want[i].gives {
					t.Errorf(
						"%s: on %s %s\n takes %s\n gives %s\nwhich the library does not expect. It expects\n"+
							" takes %s\n gives %s",
						filepath.Base(file), name, got.name, got.takes, got.gives, want[i].takes, want[i].gives)
				}
			}
		}
	}
}

// The library as it is works on a newer schema: a column more in a table, an argument more of a function changes none
// of its statements.
func TestStatementsOnANewerSchema(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	statements := collected(t)
	var names []string
	for _, one := range statements {
		names = append(names, one.name)
	}
	for _, name := range []string{
		"scheduled/internal/taskdb.claimSQL", "scheduled/internal/taskdb.gateSQL",
		"scheduled/internal/taskdb.settleSQL", "store.compareSQL", "store.getSQL", "store.scheduleSQL",
	} {
		if !slices.Contains(names, name) {
			t.Errorf("%s was not found", name)
		}
	}
	now, then := described(ctx, t, storetest.Pool(t), statements), described(
		ctx, t, newer(ctx, t, "newer", "remade"), statements,
	)
	for i, one := range now {
		if one != then[i] {
			t.Errorf(
				"%s takes %s and gives %s, but on a newer schema\n takes %s\n gives %s", one.name, one.takes, one.gives,
				then[i].takes, then[i].gives,
			)
		}
	}
}

// What newer.sql does can be taken back: the tests that do so again and again rely on it.
func TestNewerSchemaIsUndone(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	pool := newer(ctx, t, "newer", "remade")
	changed := dump(ctx, t, pool, "tasktable", true)
	step(ctx, t, pool, "testdata/remade_undone.sql")
	step(ctx, t, pool, "testdata/newer_undone.sql")
	// Comments of what was made anew are not put back.
	comment := regexp.MustCompile(`\n    -- .*`)
	plain := func(pool *pgxpool.Pool) string {
		return comment.ReplaceAllString(dump(ctx, t, pool, "tasktable", true), "")
	}
	same(t, "schema", withoutViews(plain(pool)), withoutViews(plain(storetest.Pool(t))))
	for _, more := range []string{
		"column scheduled_tasks.newer_note", "column dead_letters.newer_note", "newer_note text DEFAULT NULL",
	} {
		if !strings.Contains(changed, more) {
			t.Errorf("a newer schema lacks %q", more)
		}
	}
}

// withoutViews: a view that was made of what it was may have another text.
func withoutViews(dump string) string {
	return regexp.MustCompile(`(?ms)^view .*?;$`).ReplaceAllString(dump, "")
}

// newer is a database of a later release, by these scripts.
func newer(ctx context.Context, t *testing.T, scripts ...string) *pgxpool.Pool {
	t.Helper()
	pool := storetest.Pool(t)
	for _, script := range scripts {
		step(ctx, t, pool, "testdata/"+script+".sql")
	}
	return pool
}

// step applies a script, each step by itself, with functions that call others which come later.
func step(ctx context.Context, t *testing.T, pool *pgxpool.Pool, path string) {
	t.Helper()
	conn, err := pool.Acquire(ctx)
	check(t, err)
	defer conn.Release()
	for _, sql := range append(
		[]string{"SET check_function_bodies = off"}, strings.Split(read(t, path), "-- step\n")...,
	) {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatalf("%v: %s", err, sql)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	check(t, err)
	return string(content)
}

// described prepares each statement, and adds what it takes and gives.
func described(ctx context.Context, t *testing.T, pool *pgxpool.Pool, statements []statement) []statement {
	t.Helper()
	types := map[uint32]string{}
	rows, err := pool.Query(ctx, `SELECT oid, format_type(oid, NULL) FROM pg_type`)
	check(t, err)
	var oid uint32
	var name string
	succeeds(t)(pgx.ForEachRow(rows, []any{&oid, &name}, func() error { types[oid] = name; return nil }))
	conn, err := pool.Acquire(ctx)
	check(t, err)
	defer conn.Release()
	statements = slices.Clone(statements)
	for i, one := range statements {
		prepared, err := conn.Conn().Prepare(ctx, "", one.sql)
		if err != nil {
			t.Errorf("%s: %v\n%s", one.name, err, one.sql)
			continue
		}
		var takes, gives []string
		for _, oid := range prepared.ParamOIDs {
			takes = append(takes, types[oid])
		}
		for _, field := range prepared.Fields {
			gives = append(gives, field.Name+" "+types[field.DataTypeOID])
		}
		statements[i].takes, statements[i].gives = orNothing(takes), orNothing(gives)
	}
	return statements
}

func orNothing(list []string) string { return cmp.Or(strings.Join(list, ", "), "nothing") }

var recordedStatement = regexp.MustCompile(`(?s)=== (\S+)\n(.*?)\n--- takes ([^\n]*)\n--- gives ([^\n]*)\n`)

func recorded(t *testing.T, file string) (statements []statement) {
	t.Helper()
	for _, found := range recordedStatement.FindAllStringSubmatch(read(t, file), -1) {
		statements = append(statements, statement{found[1], found[2], found[3], found[4]})
	}
	if len(statements) < 50 {
		t.Errorf("%s has %d statements", file, len(statements))
	}
	return statements
}

// collected is what the packages store, inspect and scheduled send: each constant text in them that is a statement
// about tables or functions.
func collected(t *testing.T) (statements []statement) {
	t.Helper()
	shared := collector{constants: map[string]ast.Expr{}}
	for _, folder := range []string{"store/internal/query", "scheduled/internal/taskdb", "scheduled/internal/pg"} {
		shared.files = append(shared.files, parsed(t, folder)...)
	}
	shared.collect()
	for _, folder := range []string{
		"store", "store/inspect", "scheduled", "scheduled/api/keys", "scheduled/internal/leader",
		"scheduled/internal/maintenance", "scheduled/internal/metrics", "scheduled/internal/riverjobs",
		"scheduled/internal/session", "scheduled/internal/taskdb", "scheduled/internal/worker",
	} {
		c := collector{folder: folder, files: parsed(t, folder), constants: map[string]ast.Expr{}, shared: &shared}
		statements = append(statements, c.collect()...)
	}
	return statements
}

// parsed are the files of a package.
func parsed(t *testing.T, folder string) (files []*ast.File) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", folder, "*.go"))
	check(t, err)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(gotoken.NewFileSet(), path, nil, parser.SkipObjectResolution)
		check(t, err)
		files = append(files, file)
	}
	return files
}

// collector finds the constant texts of one package that are statements.
type collector struct {
	folder     string
	files      []*ast.File
	constants  map[string]ast.Expr
	shared     *collector // the package whose constants this one uses; nil: none
	statements []statement
}

func (c *collector) collect() []statement {
	for _, file := range c.files {
		ast.Inspect(file, func(node ast.Node) bool {
			if spec, ok := node.(*ast.ValueSpec); ok {
				for i, value := range spec.Values {
					c.constants[spec.Names[i].Name] = value
				}
			}
			return true
		})
	}
	// Package inspect writes the conditions of the fields that are set. Joined by AND, all of them at once would make
	// columns constant, and then Postgres plans a statement in another way.
	if conditions := c.values("condition"); len(conditions) > 0 {
		c.constants["filterSQL"] = quoted("(" + strings.Join(conditions, " OR ") + ")")
		for _, call := range c.values("call") {
			text, _ := c.text(ast.NewIdent("doSQL"))
			c.add("verbs", text+call+" AS done")
		}
	}
	named, parts := map[ast.Expr]string{}, c.parts()
	for name, value := range c.constants {
		named[value] = name
	}
	for _, file := range c.files {
		within := ""
		ast.Inspect(file, func(node ast.Node) bool {
			switch declared := node.(type) {
			case *ast.FuncDecl:
				within = declared.Name.Name
			case *ast.ValueSpec:
				within = declared.Names[0].Name
			}
			expression, ok := node.(ast.Expr)
			if !ok {
				return true
			}
			text, ok := c.text(expression)
			if !ok {
				return true
			}
			if _, use := expression.(*ast.Ident); !use && !parts[named[expression]] {
				c.add(cmp.Or(named[expression], within), text)
			}
			return false
		})
	}
	slices.SortFunc(c.statements, func(a, b statement) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.sql, b.sql))
	})
	return c.statements
}

// values are the constant texts of a field in the tables of the package, such as that of verbs.
func (c *collector) values(field string) (texts []string) {
	for _, file := range c.files {
		ast.Inspect(file, func(node ast.Node) bool {
			if pair, ok := node.(*ast.KeyValueExpr); ok {
				if name, ok := pair.Key.(*ast.Ident); ok && name.Name == field {
					if text, known := c.text(pair.Value); known {
						texts = append(texts, text)
					}
				}
			}
			return true
		})
	}
	return texts
}

func quoted(text string) ast.Expr {
	return &ast.BasicLit{Kind: gotoken.STRING, Value: strconv.Quote(text)}
}

// parts are the constants that are put together with others: the beginning of some statements is none.
func (c *collector) parts() map[string]bool {
	parts := map[string]bool{}
	for _, file := range c.files {
		ast.Inspect(file, func(node ast.Node) bool {
			if sum, ok := node.(*ast.BinaryExpr); ok {
				for _, part := range []ast.Expr{sum.X, sum.Y} {
					if name, ok := part.(*ast.Ident); ok {
						parts[name.Name] = true
					}
				}
			}
			return true
		})
	}
	return parts
}

// text is the value of a constant text; what is not known without running the program is none.
func (c *collector) text(expression ast.Expr) (string, bool) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, e.Kind == gotoken.STRING && err == nil
	case *ast.Ident:
		if value, ok := c.constants[e.Name]; ok {
			return c.text(value)
		}
	case *ast.SelectorExpr:
		if c.shared != nil && c.shared.constants[e.Sel.Name] != nil {
			return c.shared.text(e.Sel)
		}
	case *ast.BinaryExpr:
		left, known := c.text(e.X)
		right, alsoKnown := c.text(e.Y)
		return left + right, e.Op == gotoken.ADD && known && alsoKnown
	}
	return "", false
}

var (
	aboutTables = regexp.MustCompile(
		`(?s)^\s*(?:DECLARE \w+ NO SCROLL CURSOR FOR\s+)?((?:SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH)\s.*)$`,
	)
	placeholder = regexp.MustCompile(`\{(\w+)\}`)
	argument    = regexp.MustCompile(`@[a-z_]+`)
)

// numbered writes named arguments as package inspect sends them.
func numbered(sql string) string {
	var names []string
	return argument.ReplaceAllStringFunc(sql, func(name string) string {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		return fmt.Sprintf("$%d::text", slices.Index(names, name)+1)
	})
}

// add keeps a statement about tables or functions. What Reconcile fills in is filled in by a query that is
// as short as can be.
func (c *collector) add(name, text string) {
	found := aboutTables.FindStringSubmatch(text)
	if found == nil {
		return
	}
	sql := placeholder.ReplaceAllStringFunc(strings.TrimSpace(found[1]), func(place string) string {
		switch place {
		case "{query}":
			return "(SELECT ''::text AS id, now() AS scheduled_at)"
		case "{columns}":
			return "q.id, q.scheduled_at"
		case "{envelope}":
			return "NULL::text"
		}
		return "t." + strings.Trim(place, "{}")
	})
	c.statements = append(c.statements, statement{name: c.folder + "." + name, sql: numbered(sql)})
}
