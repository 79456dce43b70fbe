package cmd

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
)

// client is what the commands share with which people and scripts look at tasks, dead letters, queues and so on, and
// change them: which database, how to log, who it is, and how to print. A command embeds it:
//
//	type deadList struct {
//		*client
//		filter store.DeadFilter
//	}
//
//	func (p *program) deadListCommand() *cobra.Command {
//		d := &deadList{client: p.client()}
//		options := []option{
//			{flag: "type", value: "type", set: taskType(&d.filter.Type), complete: d.types, usage: "…"},
//		}
//		return p.bind(&cobra.Command{Use: "list", …}, append(options, d.options()...), d.opened(d.print))
//	}
//
//	func (d *deadList) print(ctx context.Context) error {
//		rows, err := d.tasks.DeadLetters(ctx, d.pool, d.filter)
//		if err != nil {
//			return err
//		}
//		t := newTable("ID", "STATUS", "ATTEMPTS", "FINISHED AT", "MESSAGE")
//		for _, row := range rows {
//			t.add(row.ID, row.Status, row.Attempt, d.when(row.FinishedAt), row.Message)
//		}
//		return d.list(rows, t, "There are no dead letters.")
//	}
//
// The other parts: output.go prints a list or one thing as a table or as JSON, table.go aligns and paints, times.go
// tells and reads times, confirm.go asks before many are changed, receipts.go tells what verbs came to, arguments.go
// takes ids, complete.go has what the shell completes.
type client struct {
	*program
	database databaseSettings
	log      logSettings
	printing printSettings
	by       string

	// From here on only once opened.
	term.Printer
	pool  *pgxpool.Pool
	tasks *store.Store
}

func (p *program) client() *client { return &client{program: p} }

// options are those of every command of a client; its own come before them.
func (c *client) options() []options.Option {
	opts := append(c.printing.options(), options.Option{Flag: "by", Variable: "TASKTABLE_BY", Kind: "name",
		Set:   options.Text(&c.by, store.MaxIDBytes),
		Usage: "who the history says has changed a task (default tasktable and the user's name, as tasktable:ann)"})
	opts = append(opts, c.database.options()...)
	return append(opts, c.log.quietOptions()...)
}

// opened opens the database, sees that it is migrated, and runs the command on it. The checks come first: what is
// wrong with the command line is told without a database.
func (c *client) opened(run func(context.Context) error, checks ...func() error) func(*cobra.Command) error {
	return func(command *cobra.Command) (err error) {
		for _, check := range checks {
			if err := check(); err != nil {
				return err
			}
		}
		logger := c.log.logger(c.stderr)
		c.WarnUnknown(logger)
		ctx := command.Context()
		d, err := c.database.open(ctx, logger)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.close()) }()
		if err := c.database.check(ctx, d.pool); err != nil {
			return err
		}
		c.pool, c.tasks = d.pool, store.New(store.Config{Service: c.author(), Schema: c.database.schema})
		now, err := c.time(ctx)
		if err != nil {
			return err
		}
		c.Printer = c.printing.printer(ctx, c.program, now)
		if c.database.url == "" { // a list that is empty should not surprise
			c.Note("There is no DATABASE_URL: this is the private Postgres of this machine.")
		}
		return run(ctx)
	}
}

// time is the database's, by which all tasks go.
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

// author is who the history names. It is not TASKTABLE_SERVICE: in a pod that says who its node is, and what a person
// does there would be told as the application's own doing.
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
