package cmd

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/migrations"
)

const rolesHelp = `Prints the SQL that gives five database roles their rights, and makes the roles that are missing:

  owner        owns the schema and everything in it, and migrates it
  engine       for nodes, also those embedded in services, and for operators
  application  for programs that only schedule: it calls the functions and reads, and writes to no table
  auditor      reads everything
  tenant       what the HTTP API becomes for a call whose key belongs to a tenant: it has this tenant's tasks alone

Run the SQL after each migration, because a function that was created again has lost its rights. You may run it any
number of times. The first run needs a superuser, or a role with CREATEROLE that owns the objects. Later the owner
suffices. The new roles cannot log in until you allow it: ALTER ROLE tasktable_engine LOGIN PASSWORD '…', or GRANT
tasktable_engine TO a role that can log in.

With --application-service the application role may read and change only the tasks of these services. The service of a
task is the service in the store.Config that scheduled it. Run the command once for each application role. The other
roles may stay the same.`

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
		role("tenant-role", "TASKTABLE_TENANT_ROLE", &r.names.Tenant, "the role of calls for a tenant"),
		{Flag: "application-service", Variable: "TASKTABLE_APPLICATION_SERVICES", Kind: "service", Repeatable: true,
			Set: services(&r.names.Services),
			Usage: "a service whose tasks the application role may read and change; may be repeated, or separated " +
				"by commas (default all services)"},
	}
	return r.Bind(&cobra.Command{
		Use:   "roles",
		Short: "Prints the SQL for roles with no more rights than they need",
		Long:  rolesHelp,
		Example: `  tasktable migrate && tasktable migrate roles | psql -v ON_ERROR_STOP=1 "$DATABASE_URL"
  tasktable migrate roles --schema jobs --owner-role deploy --engine-role jobs_node
  tasktable migrate roles --application-role events_api --application-service events-api   # its own tasks alone`,
	}, opts, func(*cobra.Command) error { return migrations.PrintRoles(r.stdout, r.database.schema, r.names) })
}

func services(into *[]string) func(string) error {
	return options.Each(into, func(one string) (string, error) {
		if one == "" {
			return "", errors.New("must be a service, or several separated by commas")
		}
		return one, nil
	})
}
