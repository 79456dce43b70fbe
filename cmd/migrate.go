package cmd

import (
	"context"
	"fmt"
	"log/slog"
	"text/tabwriter"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/migrations"
)

// migrate holds the options that the migrate commands share.
type migrate struct {
	*program
	database databaseSettings
	log      logSettings
	yes      bool
}

func (p *program) migrateCommand() *cobra.Command {
	up := (&migrate{program: p}).upCommand()
	up.Use, up.Example = "migrate", `  tasktable migrate                    # the same as tasktable migrate up
  tasktable migrate status
  tasktable migrate print > schema.sql # for the DBA
  tasktable migrate roles | psql -v ON_ERROR_STOP=1 "$DATABASE_URL"`
	up.AddCommand(
		(&migrate{program: p}).upCommand(),
		(&migrate{program: p}).downCommand(),
		(&migrate{program: p}).statusCommand(),
		(&migrate{program: p}).printCommand(),
		p.rolesCommand(),
	)
	return up
}

func (m *migrate) upCommand() *cobra.Command {
	return m.Bind(&cobra.Command{
		Use:   "up",
		Short: "Brings the database's schema to this program's version",
		Long: `Creates the schema, or brings it to this program's version: Tasktable's tables, functions and views, and
those of River, in one Postgres schema. It does nothing if the schema is up to date or newer. Several processes may run
it at once. The role must own the schema, or must be able to create it. It need not be a superuser.

On the private Postgres it also runs the SQL of tasktable migrate roles.`,
		Example: `  tasktable migrate up
  DATABASE_URL=postgres://owner@host/db tasktable migrate up --schema jobs`,
	}, m.options(), m.withDatabase(m.up))
}

func (m *migrate) downCommand() *cobra.Command {
	opts := append(m.options(), options.Option{Flag: "yes", Usage: "confirms that all tasks and their history may go",
		Set: options.Bool(&m.yes)})
	return m.Bind(&cobra.Command{
		Use:   "down",
		Short: "Removes the tables with all tasks and their history",
		Long: `Removes everything that migrate made, with all tasks and their history. The empty schema itself stays.
The command refuses while nodes are running. It does not take back single migrations, because a newer schema serves an
older program.`,
		Example: `  tasktable migrate down --yes`,
	}, opts, func(command *cobra.Command) error {
		if !m.yes {
			return options.Usage("this removes all tasks and their history from schema %s: confirm it by --yes",
				m.database.schema)
		}
		return m.withDatabase(m.down)(command)
	})
}

func (m *migrate) statusCommand() *cobra.Command {
	return m.Bind(&cobra.Command{
		Use:     "status",
		Short:   "Lists the migrations, and which of them the database has",
		Example: `  tasktable migrate status`,
	}, m.options(), m.withDatabase(m.status))
}

// printCommand needs no database.
func (m *migrate) printCommand() *cobra.Command {
	opts := []options.Option{m.database.schemaOption()}
	return m.Bind(&cobra.Command{
		Use:   "print",
		Short: "Prints the SQL of all migrations",
		Long: `Prints the SQL of migrate up, River's included, for teams whose DBAs run it. It is for a database without
Tasktable. It records the versions, so that serve and later migrations accept the schema.`,
		Example: `  tasktable migrate print --schema jobs > schema.sql
  psql -v ON_ERROR_STOP=1 -f schema.sql`,
	}, opts, func(*cobra.Command) error { return migrations.Print(m.stdout, m.database.schema) })
}

func (m *migrate) options() []options.Option {
	return append(m.database.options(), m.log.options()...)
}

// withDatabase runs do on the database itself, because behind a pooler the lock of migrations would not hold.
func (m *migrate) withDatabase(do func(context.Context, *pgxpool.Pool) error) func(*cobra.Command) error {
	return func(command *cobra.Command) error {
		ctx := command.Context()
		return m.onDatabase(ctx, &m.database, &m.log, func(d *database, _ *slog.Logger) error {
			return do(ctx, d.direct)
		})
	}
}

func (m *migrate) up(ctx context.Context, pool *pgxpool.Pool) error {
	before := migrations.Check(ctx, pool, m.database.schema) // only for what to say: Up finds every fault itself
	if err := m.database.migrate(ctx, pool); err != nil {
		return err
	}
	did := "is migrated"
	if before == nil {
		did = "was up to date"
	}
	_, err := fmt.Fprintf(m.stdout, "Schema %s of %s %s.\n", m.database.schema, address(pool.Config().ConnConfig), did)
	return err
}

func (m *migrate) down(ctx context.Context, pool *pgxpool.Pool) error {
	if err := migrations.Down(ctx, pool, m.database.schema); err != nil {
		return err
	}
	_, err := fmt.Fprintf(m.stdout, "Removed all tables from schema %s of %s.\n", m.database.schema,
		address(pool.Config().ConnConfig))
	return err
}

func (m *migrate) status(ctx context.Context, pool *pgxpool.Pool) error {
	versions, err := migrations.Status(ctx, pool, m.database.schema)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(m.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SOURCE\tNUMBER\tSTATE\tNAME")
	for _, version := range versions {
		state := "pending"
		if version.Applied {
			state = "applied"
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\n", version.Source, version.Number, state, version.Name)
	}
	return table.Flush()
}
