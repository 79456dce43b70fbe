package cmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// documentedImports are the packages that a block may name without importing them.
var documentedImports = map[string]string{
	"context": "context", "errors": "errors", "fmt": "fmt", "log": "log", "slog": "log/slog", "sql": "database/sql",
	"os": "os", "http": "net/http",
	"signal": "os/signal", "syscall": "syscall", "testing": "testing", "time": "time", "json": "encoding/json",
	"gorm": "gorm.io/gorm", "postgres": "gorm.io/driver/postgres", "stdlib": "github.com/jackc/pgx/v5/stdlib",
	"pgx": "github.com/jackc/pgx/v5", "pgxpool": "github.com/jackc/pgx/v5/pgxpool",
	"river": "github.com/riverqueue/river", "riverpgxv5": "github.com/riverqueue/river/riverdriver/riverpgxv5",
	"rivertype":     "github.com/riverqueue/river/rivertype",
	"contract":      "github.com/tasktable/tasktable/cmd/testdata/docs/contract",
	"handlers":      "github.com/tasktable/tasktable/handlers",
	"logging":       "github.com/tasktable/tasktable/handlers/logging",
	"email":         "github.com/tasktable/tasktable/handlers/email",
	"webhook":       "github.com/tasktable/tasktable/handlers/webhook",
	"command":       "github.com/tasktable/tasktable/handlers/command",
	"statement":     "github.com/tasktable/tasktable/handlers/statement",
	"notice":        "github.com/tasktable/tasktable/handlers/notice",
	"rules":         "github.com/tasktable/tasktable/handlers/notice/rules",
	"community":     "github.com/tasktable/tasktable/handlers/community",
	"migrations":    "github.com/tasktable/tasktable/migrations",
	"api":           "github.com/tasktable/tasktable/scheduled/api",
	"keys":          "github.com/tasktable/tasktable/scheduled/api/keys",
	"dashboard":     "github.com/tasktable/tasktable/scheduled/dashboard",
	"scheduled":     "github.com/tasktable/tasktable/scheduled",
	"scheduledtest": "github.com/tasktable/tasktable/scheduled/scheduledtest",
	"store":         "github.com/tasktable/tasktable/store",
	"storetest":     "github.com/tasktable/tasktable/store/storetest",
	"leaks":         "github.com/tasktable/tasktable/store/storetest/leaks",
	"inspect":       "github.com/tasktable/tasktable/store/inspect",
	"seal":          "github.com/tasktable/tasktable/store/seal",
	"prometheus":    "github.com/prometheus/client_golang/prometheus",
	"recurrence":    "github.com/tasktable/tasktable/store/recurrence",
	"localpg":       "github.com/tasktable/tasktable/store/localpg",
}

// foreign are packages of other libraries, which this module does not know: a block that names one has to be Go, and
// no more can be said.
var foreign = []string{"asynq", "cron", "promhttp", "otel"}

// Each block of Go compiles: as a file, as declarations or as the body of a function, with what the reader has
// (testdata/docs/reader.go).
func TestGoBlocks(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("go")
	if err != nil {
		t.Skip("needs go in PATH: ", err)
	}
	folder := t.TempDir()
	overlay, where := map[string]string{}, map[string]string{}
	var packages []string
	for i, b := range allBlocks(t, "go") {
		made, err := compilable(t, b.text)
		if err != nil {
			t.Errorf("%s: %v\n%s", b.where, err, b.text)
			continue
		}
		if made == nil { // another library's
			continue
		}
		name := fmt.Sprintf("docs%03d", i)
		where[name] = b.where
		packages = append(packages, "./cmd/"+name)
		for file, content := range made {
			path := filepath.Join(folder, name+file)
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			overlay[filepath.Join(repository, "cmd", name, file)] = path
		}
	}
	encoded, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	replaced := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(replaced, encoded, 0o600); err != nil {
		t.Fatal(err)
	}
	if len(packages) < 10 {
		t.Fatalf("only %d blocks", len(packages))
	}
	cmd := exec.CommandContext(t.Context(), program, append([]string{"build", "-overlay", replaced}, packages...)...)
	cmd.Dir = repository
	if output, err := cmd.CombinedOutput(); err != nil {
		said := string(output)
		for name, place := range where {
			said = strings.ReplaceAll(said, "cmd/"+name, place)
		}
		t.Errorf("blocks of Go do not compile: %v\n%s", err, said)
	}
}

// compilable makes the files of a package of a block: block.go, and what the reader has. Nil: the block is another
// library's.
func compilable(t *testing.T, text string) (files map[string][]byte, err error) {
	t.Helper()
	fileset := token.NewFileSet()
	if strings.HasPrefix(text, "package ") {
		_, err := parser.ParseFile(fileset, "", text, parser.SkipObjectResolution)
		return map[string][]byte{"block.go": []byte(text)}, err
	}
	code := "package docs\n" + text
	file, err := parser.ParseFile(fileset, "", code, parser.SkipObjectResolution)
	if err != nil {
		declarations, statements := apart(text)
		code = "package docs\n" + declarations + "\nfunc block() {\n" + statements + "\n}\n"
		if file, err = parser.ParseFile(fileset, "", code, parser.SkipObjectResolution); err != nil {
			return nil, err
		}
		code = strings.TrimSuffix(code, "}\n") + uses(file) + "}\n"
	}
	if isForeign(file) {
		_, err := format.Source([]byte(code))
		return nil, err
	}
	reader, err := readerWithout(declared(file))
	if err != nil {
		return nil, err
	}
	code = strings.Replace(code, "package docs\n", "package docs\n"+imports(file), 1)
	return map[string][]byte{"block.go": []byte(code), "reader.go": reader}, nil
}

// apart tells declarations from statements, which a block may have both of, by paragraphs.
func apart(text string) (declarations, statements string) {
	if _, err := parser.ParseFile(token.NewFileSet(), "", "package docs\nfunc block() {\n"+text+"\n}\n",
		parser.SkipObjectResolution); err == nil {
		return "", text
	}
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if _, err := parser.ParseFile(token.NewFileSet(), "", "package docs\n"+paragraph,
			parser.SkipObjectResolution); err == nil {
			declarations += paragraph + "\n"
		} else {
			statements += paragraph + "\n"
		}
	}
	return declarations, statements
}

func isForeign(file *ast.File) bool {
	found := false
	selectors(file, func(name string) { found = found || slices.Contains(foreign, name) })
	return found
}

// selectors calls do with what stands before each dot.
func selectors(node ast.Node, do func(name string)) {
	ast.Inspect(node, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			if root, ok := selector.X.(*ast.Ident); ok {
				do(root.Name)
			}
		}
		return true
	})
}

// imports are those that a block needs and does not have.
func imports(file *ast.File) string {
	needed := map[string]bool{}
	selectors(file, func(name string) {
		if path, known := documentedImports[name]; known {
			needed[path] = true
		}
	})
	for _, given := range file.Imports {
		path, _ := strconv.Unquote(given.Path.Value)
		delete(needed, path)
	}
	var text strings.Builder
	for _, path := range slices.Sorted(maps.Keys(needed)) {
		fmt.Fprintf(&text, "import %q\n", path)
	}
	return text.String()
}

// uses makes the compiler content with variables that a block declares for the reader.
func uses(file *ast.File) string {
	body := file.Decls[len(file.Decls)-1].(*ast.FuncDecl).Body
	var names []string
	for _, statement := range body.List {
		switch s := statement.(type) {
		case *ast.AssignStmt:
			for _, left := range s.Lhs {
				if name, ok := left.(*ast.Ident); ok && s.Tok == token.DEFINE && name.Name != "_" {
					names = append(names, name.Name)
				}
			}
		case *ast.DeclStmt:
			for _, spec := range s.Decl.(*ast.GenDecl).Specs {
				if values, ok := spec.(*ast.ValueSpec); ok {
					for _, name := range values.Names {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	var text strings.Builder
	for _, name := range names {
		text.WriteString("_ = " + name + "\n")
	}
	return text.String()
}

// declared are the names that a block declares itself.
func declared(file *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				names[d.Name.Name] = true
			} else {
				names[receiver(d)+"."+d.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					names[s.Name.Name] = true
				case *ast.ValueSpec:
					for _, name := range s.Names {
						names[name.Name] = true
					}
				}
			}
		}
	}
	return names
}

func receiver(function *ast.FuncDecl) string {
	kind := function.Recv.List[0].Type
	if pointer, ok := kind.(*ast.StarExpr); ok {
		kind = pointer.X
	}
	return kind.(*ast.Ident).Name
}

// readerWithout is the reader's own code without what a block declares.
func readerWithout(names map[string]bool) ([]byte, error) {
	fileset := token.NewFileSet()
	file, err := parser.ParseFile(fileset, filepath.Join(repository, "cmd", "testdata", "docs", "reader.go"), nil,
		parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	file.Decls = slices.DeleteFunc(file.Decls, func(declaration ast.Decl) bool {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			return names[d.Name.Name] && d.Recv == nil || d.Recv != nil && names[receiver(d)+"."+d.Name.Name]
		case *ast.GenDecl:
			d.Specs = slices.DeleteFunc(d.Specs, func(spec ast.Spec) bool { return without(spec, names) })
			return len(d.Specs) == 0 && d.Tok != token.IMPORT
		}
		return false
	})
	for _, used := range file.Imports { // so that none is unused, whatever has gone
		used.Name = ast.NewIdent("_")
	}
	needed := imports(&ast.File{Name: file.Name, Decls: file.Decls})
	var code bytes.Buffer
	if err := format.Node(&code, fileset, file); err != nil {
		return nil, err
	}
	return bytes.Replace(code.Bytes(), []byte("package docs\n"), []byte("package docs\n"+needed), 1), nil
}

// without reports whether nothing of a declaration is left without these names.
func without(spec ast.Spec, names map[string]bool) bool {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		return names[s.Name.Name]
	case *ast.ValueSpec:
		if len(s.Values) > 0 {
			return names[s.Names[0].Name]
		}
		s.Names = slices.DeleteFunc(s.Names, func(name *ast.Ident) bool { return names[name.Name] })
		return len(s.Names) == 0
	}
	return false
}
