package migrations

import (
	_ "embed"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

//go:embed roles.sql
var rolesSQL string

// Roles names the roles that PrintRoles gives their rights. A name left empty is the schema's with what the role is behind it,
// as tasktable_engine: roles belong to the whole server, and two schemas on it seldom mean the same ones.
type Roles struct {
	Owner       string
	Engine      string
	Application string
	Auditor     string
	// Services binds the application role to the tasks of these services: those with one of them in scheduled_by, which is
	// store.Config's Service. None: it has the tasks of all services.
	Services []string
}

// roleName allows what needs no escape within quotation marks: also names with dots, dashes and an @, as clouds make them.
var roleName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}$`)

// PrintRoles writes the SQL that gives four roles their rights, and makes those that are missing. It is to be run after each
// migration, and may run any number of times. It returns an error wrapping store.ErrInvalid for a name that will not do, and for
// the schema public, where the rights would be on other people's objects, too.
func PrintRoles(w io.Writer, schema string, roles Roles) error {
	name, err := store.NewSchema(schema)
	if err != nil {
		return err
	}
	if name.String() == "public" {
		return fmt.Errorf("%w: schema must be Tasktable's alone for roles with rights of their own, not public", store.ErrInvalid)
	}
	rewrite, err := roles.rewrite(name)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, rewrite.Replace(name.SQL(rolesSQL))); err != nil {
		return fmt.Errorf("print roles: %w", err)
	}
	return nil
}

// rewrite puts the names where the script has those of the default schema, as identifiers and as texts.
func (r Roles) rewrite(schema store.Schema) (*strings.Replacer, error) {
	var pairs, taken []string
	for _, role := range []struct{ kind, name string }{
		{"owner", r.Owner}, {"engine", r.Engine}, {"application", r.Application}, {"auditor", r.Auditor},
	} {
		name := role.name
		if name == "" {
			name = schema.String() + "_" + role.kind
		}
		if err := checkRole(role.kind, name); err != nil {
			return nil, err
		}
		if slices.Contains(taken, name) {
			return nil, fmt.Errorf("%w: role of the %s must be another than the other three, got %q", store.ErrInvalid, role.kind, name)
		}
		taken = append(taken, name)
		written := "tasktable_" + role.kind
		pairs = append(pairs, `"`+written+`"`, pgx.Identifier{name}.Sanitize(), `'`+written+`'`, quoted(name))
	}
	var services []string
	for _, service := range r.Services {
		if service == "" || len(service) > store.MaxIDBytes || strings.ContainsFunc(service, unicode.IsControl) {
			return nil, fmt.Errorf("%w: service must be 1 to %d bytes without control characters, got %q",
				store.ErrInvalid, store.MaxIDBytes, service)
		}
		services = append(services, quoted(service))
	}
	if len(services) == 0 {
		services = []string{quoted("")} // all of them
	}
	pairs = append(pairs, `ARRAY['']`, `ARRAY[`+strings.Join(services, ", ")+`]`)
	return strings.NewReplacer(pairs...), nil
}

func checkRole(kind, name string) error {
	if !roleName.MatchString(name) {
		return fmt.Errorf("%w: role of the %s must be 1 to 63 of letters, digits and _.@-, not beginning with .@-, got %q",
			store.ErrInvalid, kind, name)
	}
	if name == "public" || name == "none" || strings.HasPrefix(name, "pg_") {
		return fmt.Errorf("%w: role of the %s must not be public, none or begin with pg_, got %q", store.ErrInvalid, kind, name)
	}
	return nil
}

// quoted is a text as SQL writes it.
func quoted(text string) string { return `'` + strings.ReplaceAll(text, `'`, `''`) + `'` }
