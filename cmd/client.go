package cmd

import (
	"context"
	"fmt"
	"log/slog"
	"os/user"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// client is shared by the commands that show or change tasks, dead letters, queues and so on. It opens the database,
// logs, prints, and knows who changes something. A command embeds it, as the command nodes does.
//
// The package term prints, and the package options takes options and arguments. confirm.go asks before a command
// changes many tasks, receipts.go prints the outcomes of verbs, and complete.go completes words for the shell.
type client struct {
	*program
	database databaseSettings
	log      logSettings
	printing printSettings
	by       string
	command  *cobra.Command // as the user called it

	// From here on only once opened.
	term.Printer
	pool      *pgxpool.Pool
	tasks     *store.Store
	inspector *inspect.Inspector
}

func (p *program) client() *client { return &client{program: p} }

// options are those of every command of a client. The command's own options come before them.
func (c *client) options() []options.Option {
	opts := append(c.printing.options(), options.Option{Flag: "by", Variable: "TASKTABLE_BY", Kind: "name",
		Set:   options.Text(&c.by, store.MaxIDBytes),
		Usage: "the author of changes in the history (default tasktable: and the user's name, such as tasktable:ann)"})
	opts = append(opts, c.database.options()...)
	return append(opts, c.log.quietOptions()...)
}

// opened opens the database, checks that it is migrated, and runs the command on it. The checks run first, so that a
// wrong command line is reported without a database.
func (c *client) opened(run func(context.Context) error, checks ...func() error) func(*cobra.Command) error {
	return func(command *cobra.Command) error {
		c.command = command
		for _, check := range checks {
			if err := check(); err != nil {
				return err
			}
		}
		ctx := command.Context()
		return c.onDatabase(ctx, &c.database, &c.log, func(d *database, _ *slog.Logger) error {
			if err := c.database.check(ctx, d.pool); err != nil {
				return err
			}
			config := store.Config{Service: c.author(), Schema: c.database.schema}
			c.pool, c.tasks, c.inspector = d.pool, store.New(config), inspect.New(config)
			now, err := c.time(ctx)
			if err != nil {
				return err
			}
			c.Printer = c.printing.printer(ctx, c.program, now)
			if c.database.url == "" { // so that an empty list does not surprise
				c.Note("There is no DATABASE_URL: this is the private Postgres of this machine.")
			}
			return run(ctx)
		})
	}
}

// time returns the time of the database, because all tasks go by it.
func (c *client) time(ctx context.Context) (time.Time, error) {
	if !c.now.IsZero() {
		return c.now, nil
	}
	now, err := c.tasks.Now(ctx, c.pool)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask the database's time: %w", err)
	}
	return now, nil
}

// pauseEnd reads --until. It refuses a time that has passed, as the API and the dashboard do, because the pause would
// hold nothing back.
func (c *client) pauseEnd(given term.Moment) (until time.Time, err error) {
	until, err = options.Instant(c.Clock, "until", given)
	if err == nil && !until.IsZero() && !until.After(c.Now) {
		err = options.Usage("--until must be a time to come, got %q", string(given))
	}
	return until, err
}

// author is the name in the history. It is not TASKTABLE_SERVICE, because in a pod that names the node's service, and
// the history would show a person's edits as the application's.
func (c *client) author() string {
	if c.by != "" {
		return c.by
	}
	const program = "tasktable"
	one, err := user.Current()
	if err != nil || one.Username == "" {
		return program
	}
	return program + ":" + one.Username
}
