package contract_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/handlers/community/contract"
	"github.com/tasktable/tasktable/store"
)

// source is the package's own code, without its tests.
func source(t *testing.T) []*ast.File {
	t.Helper()
	names, err := fs.Glob(os.DirFS("."), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// variants names the types that have a method TaskType, and those of other contracts that this one takes
// over by an alias.
func variants(files []*ast.File) []string {
	var names []string
	for _, file := range files {
		for _, declaration := range file.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil && d.Name.Name == "TaskType" {
					names = append(names, receiver(d.Recv.List[0].Type))
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if alias, ok := spec.(*ast.TypeSpec); ok && alias.Assign.IsValid() {
						names = append(names, alias.Name.Name)
					}
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

func receiver(expression ast.Expr) string {
	if pointer, ok := expression.(*ast.StarExpr); ok {
		expression = pointer.X
	}
	return expression.(*ast.Ident).Name
}

func listed() []string {
	var names []string
	for _, payload := range contract.All() {
		names = append(names, reflect.TypeOf(payload).Name())
	}
	slices.Sort(names)
	return names
}

func TestAllListsEachVariant(t *testing.T) {
	t.Parallel()
	if declared := variants(source(t)); !slices.Equal(declared, listed()) {
		t.Errorf("declared are %q, but All lists %q", declared, listed())
	}
}

// Producers compile this package in: it must not bring handlers, an SMTP client or the engine.
func TestItImportsNothingButTheStore(t *testing.T) {
	t.Parallel()
	allowed := []string{
		"github.com/tasktable/tasktable/store", "github.com/tasktable/tasktable/handlers/email/contract",
	}
	for _, file := range source(t) {
		for _, imported := range file.Imports {
			path, err := strconv.Unquote(imported.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(allowed, path) {
				t.Errorf("it imports %s", path)
			}
		}
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		payload store.Payload
		want    string // "": a new one each time
	}{
		{contract.PublishEvent{EventID: "42"}, "task-PUBLISH_EVENT-42"},
		{contract.PublishScheduledPost{ScheduledPostID: "7"}, "task-PUBLISH_SCHEDULED_POST-7"},
		{contract.SendEventReminder{EventID: "42"}, "task-SEND_EVENT_REMINDER-42"},
		{contract.WelcomeMember{MembershipID: "3"}, "task-WELCOME_MEMBER-3"},
		{contract.SendDirectMessage{From: "1", To: "2", Text: "hi"}, ""},
		{contract.SendEmail{Email: "member-2@example.org", Subject: "hi", Body: "hi"}, ""},
		{contract.LogActivity{MemberID: "1", ActivityType: "login"}, ""},
		{contract.TokenCleanup{}, ""},
	} {
		if got := store.IDOf(test.payload); got != test.want {
			t.Errorf("%T: id %q, want %q", test.payload, got, test.want)
		}
		if err := (store.Task{Payload: test.payload}).Check(); err != nil {
			t.Errorf("%T: %v", test.payload, err)
		}
	}
}
