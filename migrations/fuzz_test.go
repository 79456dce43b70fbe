package migrations_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/store"
)

// FuzzRoles: no name gets out of its quotation marks: the script has the same statements whatever the
// names, or is refused.
func FuzzRoles(f *testing.F) {
	for _, seed := range []struct{ schema, role, service string }{
		{"tasktable", "tasktable_engine", "events-api"}, {"jobs", "node@project.iam", `it's`}, {"", `a"b`, `';--`},
		{"x", "a;b", `\'; DROP TABLE x; --`},
		{"_", "A.b-c", "$$; $$"}, {"", "public", "a\nb"}, {"", "", "/* "}, {"", "x", `"tasktable_owner"`},
		{"", "x", "'tasktable_owner' ARRAY['']"},
	} {
		f.Add(seed.schema, seed.role, seed.service)
	}
	var plain strings.Builder
	if err := migrations.PrintRoles(&plain, "", migrations.Roles{}); err != nil {
		f.Fatal(err)
	}
	want := len(statements(plain.String()))
	f.Fuzz(func(t *testing.T, schema, role, service string) {
		var printed strings.Builder
		roles := migrations.Roles{Owner: role, Application: role + "_app", Services: []string{service, "another"}}
		if err := migrations.PrintRoles(&printed, schema, roles); err != nil {
			if !errors.Is(err, store.ErrInvalid) || printed.Len() > 0 {
				t.Errorf("%v, after %d bytes", err, printed.Len())
			}
			return
		}
		if got := len(statements(printed.String())); got != want {
			t.Errorf("%d statements, want %d", got, want)
		}
		if n := strings.Count(printed.String(), `'`+strings.ReplaceAll(service, `'`, `''`)+`'`); n < 2 {
			t.Errorf("the service is in it %d times", n)
		}
	})
}
