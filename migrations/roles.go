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

// Roles has the names of the roles to which PrintRoles gives rights. An empty name means the schema's name and the
// kind of the role, for example tasktable_engine. The schema's name is in it because roles belong to the whole
// server, and two schemas of one server seldom share roles.
type Roles struct {
	Owner       string
	Engine      string
	Application string
	Auditor     string
	// Tenant is the role that the HTTP API takes for a call whose key belongs to a tenant.
	Tenant string
	// Services restricts the application role to the tasks of these services, which are the tasks that have one of
	// them in scheduled_by (see store.Config.Service). If Services is empty, the role has the tasks of all services.
	Services []string
}

// roleName allows names that need no escape within quotation marks. They may have dots, dashes and an @, because
// cloud providers make such names.
var roleName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}$`)

// PrintRoles writes the SQL that creates the roles that do not exist, and gives the five roles their rights. Run the
// SQL after each migration. It may run any number of times. PrintRoles returns an error that wraps store.ErrInvalid
// for a name that is not allowed. It refuses the schema public, because the rights would then apply to other people's
// objects, too.
func PrintRoles(w io.Writer, schema string, roles Roles) error {
	name, err := store.NewSchema(schema)
	if err != nil {
		return err
	}
	if name.String() == "public" {
		return fmt.Errorf("%w: schema must be Tasktable's alone for roles with rights of their own, not public",
			store.ErrInvalid)
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

// rewrite replaces the names of the default schema's roles in the script, as identifiers and as texts.
func (r Roles) rewrite(schema store.Schema) (*strings.Replacer, error) {
	var pairs, taken []string
	for _, role := range []struct{ kind, name string }{
		{"owner", r.Owner}, {"engine", r.Engine}, {"application", r.Application}, {"auditor", r.Auditor},
		{"tenant", r.Tenant},
	} {
		name := role.name
		if name == "" {
			name = schema.String() + "_" + role.kind
		}
		if err := checkRole(role.kind, name); err != nil {
			return nil, err
		}
		if slices.Contains(taken, name) {
			return nil, fmt.Errorf("%w: role of the %s must be another than the other four, got %q", store.ErrInvalid,
				role.kind, name)
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
		services = []string{quoted("")} // it stands for all services
	}
	pairs = append(pairs, `ARRAY['']`, `ARRAY[`+strings.Join(services, ", ")+`]`)
	return strings.NewReplacer(pairs...), nil
}

func checkRole(kind, name string) error {
	if !roleName.MatchString(name) {
		return fmt.Errorf("%w: role of the %s must be 1 to 63 of letters, digits and _.@-, not beginning with .@-, "+
			"got %q", store.ErrInvalid, kind, name)
	}
	if name == "public" || name == "none" || strings.HasPrefix(name, "pg_") {
		return fmt.Errorf("%w: role of the %s must not be public, none or begin with pg_, got %q", store.ErrInvalid,
			kind, name)
	}
	return nil
}

// quoted returns a text as an SQL literal.
func quoted(text string) string { return `'` + strings.ReplaceAll(text, `'`, `''`) + `'` }
