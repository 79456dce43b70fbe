package cmd

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
)

const reconcileHelp = `Compares the tasks of a type with those that a query yields, and with --apply mends the
differences in one transaction. It schedules tasks that are missing or differ, and cancels orphans, which the query
does not yield. It leaves tasks that have ended as they are, unless --rearm is given, too. A second run then finds
that all others agree.

The query is one SELECT that yields each task that ought to exist. It always runs READ ONLY. Its columns:

  id or key        the task's id, or what follows task-{TYPE}- in it
  scheduled_at     timestamptz
  payload          jsonb; the type is filled in, and null is a payload of nothing else
  entity, tenant_id, group_key, queue, priority, expiration, expected_execution_time, max_attempts
                   as in a task; null for the default

Another column is an error. A column that is missing is not compared: an existing task keeps its value, and a new one
gets the default.

A task that the query does not yield is an orphan even when its time has come, and while it runs. So let the query yield
what is not done yet, rather than what is still to come. A task that has ended at the time of the query counts as
finished. One that has ended at another time runs again only with --rearm, and then at once if the time of the query has
passed. A cancelled task has not run, so --apply queues it again. Retention removes finished tasks. Do not yield
anything older than that, because it would run once more. Recurring tasks and their occurrences are never orphans.

It compares everything as of one instant (REPEATABLE READ). Services may schedule meanwhile, and never wait for the
comparison. For a task that is being mended they wait until the end. Their changes between the two are never
overwritten, because then it compares everything anew, up to 5 times. Any number of tasks needs little memory here,
because the server sorts on its disk.

It ends with exit code 5 if something differs and --apply was not given, so it can guard a deployment.`

const reconcileExample = `  # reminders.sql: one reminder an hour before each event, until the event begins
  #   SELECT id AS key, jsonb_build_object('event_id', id) AS payload, 'event:' || id AS entity, tenant_id,
  #          starts_at - interval '1 hour' AS scheduled_at, interval '1 hour' AS expiration,
  #          'default' AS queue, 0 AS priority, 10 AS max_attempts, interval '5 minutes' AS expected_execution_time
  #   FROM events WHERE status = 'published' AND starts_at > now()

  # leaving cron: look first, then make the tasks of all events that there are
  tasktable reconcile --type SEND_EVENT_REMINDER --query reminders.sql
  tasktable reconcile --type SEND_EVENT_REMINDER --query reminders.sql --apply

  # drift detection in CI or monitoring: exit code 5 where code forgot to schedule, or to cancel
  tasktable reconcile --type SEND_EVENT_REMINDER --query reminders.sql --examples 20 --timeout 2m

  # a type that is no more: all its waiting tasks are orphans
  echo "SELECT '' AS key, now() AS scheduled_at WHERE false" | tasktable reconcile --type OLD_TYPE --query - --apply`

const (
	reconcileTries = 5 // the help says so
	longestTimeout = 24 * time.Hour
)

// reconcile is the command reconcile.
type reconcile struct {
	*program
	database databaseSettings
	log      logSettings
	service  string
	source   string // of the query
	config   store.ReconcileConfig
}

func (p *program) reconcileCommand() *cobra.Command {
	r := &reconcile{program: p}
	opts := []options.Option{
		{Flag: "type", Variable: "TASKTABLE_RECONCILE_TYPE", Kind: "type", Set: taskType(&r.config.Type),
			Usage: "the type of the tasks, such as SEND_EVENT_REMINDER; tasks of other types stay as they are"},
		{Flag: "query", Variable: "TASKTABLE_RECONCILE_QUERY", Kind: "file", Set: options.Text(&r.source, 4096),
			Usage: "the file with the query, or - for the standard input"},
		{Flag: "apply", Variable: "TASKTABLE_RECONCILE_APPLY", Set: options.Bool(&r.config.Apply),
			Usage: "mends what differs, except tasks that have ended"},
		{Flag: "rearm", Variable: "TASKTABLE_RECONCILE_REARM", Set: options.Bool(&r.config.Rearm),
			Usage: "with --apply, also runs tasks again that have ended at another time than the query says"},
		{Flag: "examples", Variable: "TASKTABLE_RECONCILE_EXAMPLES", Kind: "number",
			Set:     options.Int(&r.config.Examples, 0, 1000),
			Default: strconv.Itoa(store.DefaultReconcileExamples), Usage: "how many tasks of each kind are named"},
		{Flag: "entity-column", Variable: "TASKTABLE_RECONCILE_ENTITY_COLUMN", Kind: "name",
			Set:   options.Text(&r.config.EntityColumn, 63),
			Usage: "the query's column for the entity (default entity)"},
		{Flag: "timeout", Variable: "TASKTABLE_RECONCILE_TIMEOUT", Kind: "duration",
			Set:   options.Duration(&r.config.Timeout, time.Millisecond, longestTimeout),
			Usage: "the statement_timeout of the query, and of each statement that mends (default the server's)"},
		{Flag: "service", Variable: "TASKTABLE_SERVICE", Kind: "name", Set: options.Text(&r.service, store.MaxIDBytes),
			Usage: "the author of the changes in the history (default the database role)"},
	}
	opts = append(opts, r.database.options()...)
	opts = append(opts, r.log.options()...)
	return p.Bind(&cobra.Command{
		Use:     "reconcile",
		Short:   "Compares the tasks of a type with the result of a query, and mends them",
		Long:    reconcileHelp,
		Example: reconcileExample,
	}, opts, r.run)
}

func taskType(into *string) func(string) error {
	return options.Checked(into, store.CheckType, "must be 2 to 127 letters, digits or _-[]<>/.·:+")
}

func (r *reconcile) run(command *cobra.Command) (err error) {
	if r.config.Type == "" {
		return options.Usage("--type (TASKTABLE_RECONCILE_TYPE) is missing")
	}
	if r.config.Query, err = r.query(command.InOrStdin()); err != nil {
		return err
	}
	if r.config.Examples == 0 {
		r.config.Examples = -1 // none; 0 would be the default of the library
	}
	ctx := command.Context()
	return r.onDatabase(ctx, &r.database, &r.log, func(d *database, logger *slog.Logger) error {
		if err := r.database.check(ctx, d.pool); err != nil {
			return err
		}
		report, err := r.reconcile(ctx, d.pool, logger)
		if err != nil {
			return err
		}
		if err := term.PrintReconcile(r.stdout, report); err != nil {
			return err
		}
		if drift := report.Drift(); drift > 0 && !report.Applied {
			return &driftError{drift, report.Ended.Count}
		}
		return nil
	})
}

// query reads the query, up to one byte more than the store allows.
func (r *reconcile) query(stdin io.Reader) (string, error) {
	const name = "--query (TASKTABLE_RECONCILE_QUERY)"
	from := stdin
	switch r.source {
	case "":
		return "", options.Usage("%s is missing", name)
	case "-":
	default:
		file, err := os.Open(r.source)
		if err != nil {
			return "", options.Usage("%s: %w", name, err)
		}
		defer func() { _ = file.Close() }()
		from = file
	}
	content, err := io.ReadAll(io.LimitReader(from, store.MaxReconcileQueryBytes+1))
	if err != nil {
		return "", options.Usage("%s: %w", name, err)
	}
	return string(content), nil
}

// reconcile compares in a transaction, which is read-only without --apply. After a conflict it compares again.
func (r *reconcile) reconcile(ctx context.Context, pool *pgxpool.Pool,
	logger *slog.Logger) (report store.ReconcileReport, err error) {
	tasks := store.New(store.Config{Service: r.service, Schema: r.database.schema})
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead}
	if !r.config.Apply {
		opts.AccessMode = pgx.ReadOnly
	}
	for try := 1; ; try++ {
		err = pgx.BeginTxFunc(ctx, pool, opts, func(tx pgx.Tx) (err error) {
			report, err = tasks.Reconcile(ctx, tx, r.config)
			return err
		})
		if !errors.Is(err, store.ErrConflict) || try == reconcileTries {
			return report, err
		}
		logger.Info("compares anew: a task was changed meanwhile", "try", try, "error", err)
	}
}
