package keys

import (
	"errors"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store"
)

// The error has the command as it is to be run.
func TestTheCommandThatMakesTheRole(t *testing.T) {
	t.Parallel()
	for command, config := range map[string]struct{ schema, role string }{
		"tasktable migrate roles":                                  {"", ""},
		"tasktable migrate roles --schema jobs":                    {"jobs", ""},
		"tasktable migrate roles --tenant-role customers":          {"", "customers"},
		"tasktable migrate roles --schema jobs --tenant-role cust": {"jobs", "cust"},
	} {
		schema, err := store.NewSchema(config.schema)
		if err != nil {
			t.Fatal(err)
		}
		err = New(Config{Schema: schema, TenantRole: config.role}).noTenantRole(errors.New("it does not exist"))
		if want := "run " + command + ` | psql -v ON_ERROR_STOP=1 "$DATABASE_URL"`; !errors.Is(err, ErrNoTenantRole) ||
			!strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
