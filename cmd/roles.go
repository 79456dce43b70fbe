package cmd

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/migrations"
)

const rolesHelp = `Prints the SQL that gives four database roles their rights, and makes those that are missing:

  owner        owns the schema and all that is in it, and migrates it
  engine       for nodes, also those embedded in services, and for operators
  application  for what only schedules: it calls the functions and reads, and writes to no table
  auditor      reads everything

Run it after each migration, since a function that was made anew has lost what it is given here; it may run any number
of times. The first time a superuser runs it, or a role with CREATEROLE that owns what is there; from then on the
owner will do. The new roles cannot log in until you allow it: ALTER ROLE tasktable_engine LOGIN PASSWORD '…', or
GRANT tasktable_engine TO a role that can.

With --application-service the application has the tasks of these services only, which are those scheduled with such a
service in store.Config: it reads no others, and changes none. Run it once for each application role; the other roles
may stay the same.`

// roles holds the options of migrate roles.
type roles struct {
	*program
	database databaseSettings
	names    migrations.Roles
}

// rolesCommand needs no database.
func (p *program) rolesCommand() *cobra.Command {
	r := &roles{program: p}
	role := func(flag, variable string, into *string, usage string) options.Option {
		return options.Option{Flag: flag, Variable: variable, Kind: "name", Set: options.Text(into, 63),
			Usage: usage + " (default the schema's name and _" + strings.TrimSuffix(flag, "-role") + ")"}
	}
	opts := []options.Option{
		r.database.schemaOption(),
		role("owner-role", "TASKTABLE_OWNER_ROLE", &r.names.Owner, "the role that owns the schema"),
		role("engine-role", "TASKTABLE_ENGINE_ROLE", &r.names.Engine, "the role of nodes and operators"),
		role("application-role", "TASKTABLE_APPLICATION_ROLE", &r.names.Application, "the role that schedules"),
		role("auditor-role", "TASKTABLE_AUDITOR_ROLE", &r.names.Auditor, "the role that reads"),
		{Flag: "application-service", Variable: "TASKTABLE_APPLICATION_SERVICES", Kind: "service", Repeatable: true,
			Set: services(&r.names.Services),
			Usage: "a service whose tasks the application role has; may be repeated, or separated by commas " +
				"(default those of all)"},
	}
	return r.Bind(&cobra.Command{
		Use:   "roles",
		Short: "Prints the SQL of roles with no more rights than they need",
		Long:  rolesHelp,
		Example: `  tasktable migrate && tasktable migrate roles | psql -v ON_ERROR_STOP=1 "$DATABASE_URL"
  tasktable migrate roles --schema jobs --owner-role deploy --engine-role jobs_node
  tasktable migrate roles --application-role events_api --application-service events-api   # its own tasks alone`,
	}, opts, func(*cobra.Command) error { return migrations.PrintRoles(r.stdout, r.database.schema, r.names) })
}

func services(into *[]string) func(string) error {
	return func(given string) error {
		*into = nil
		for one := range strings.SplitSeq(given, ",") {
			if one = strings.TrimSpace(one); one == "" {
				return errors.New("must be a service, or several separated by commas")
			}
			*into = append(*into, one)
		}
		return nil
	}
}
