package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/demo"
	"github.com/tasktable/tasktable/cmd/internal/options"
)

const demoHelp = `Plays the example community live: members join, posts and events are published at their time,
reminders go out; an event is moved and its reminder moves along; another is edited while its reminder runs; one is
deleted, one reminder comes too late, one mail fails and is retried.

Then its operators: a recurring head count skips a turn while one takes too long; a message is paused until a time, a
queue until somebody resumes it; badges that could not be printed are retried when there is paper, and one is archived;
events that were edited behind the application's back are reconciled; the community's own recurring tasks run.

It prints what happens as it happens, from the table and its history, and at the end the audit by SQL with the queries.

It makes the schemas ` + demo.Schema + ` and community. It exits with 0 if all happened that should
have, and with 1 if not.`

// demoRun is the command demo.
type demoRun struct {
	*program
	database databaseSettings
	log      logSettings
	length   time.Duration
}

func (p *program) demoCommand() *cobra.Command {
	d := &demoRun{program: p}
	// The demo has a schema of its own.
	opts := slices.DeleteFunc(d.database.options(), func(o options.Option) bool { return o.Flag == "schema" })
	opts = append(opts, options.Option{Flag: "for", Variable: "TASKTABLE_DEMO_FOR", Kind: "duration", Default: "30s",
		Usage: "how long it plays before the audit", Set: options.Duration(&d.length, demo.MinLength, time.Hour)})
	d.log.level = "warn"
	return p.Bind(&cobra.Command{
		Use:     "demo",
		Short:   "Plays the example community live, and audits it by SQL",
		Long:    demoHelp,
		Example: "  tasktable demo --for 30s\n  DATABASE_URL=postgres://user@host/db tasktable demo",
	}, opts, func(command *cobra.Command) error { return d.play(command.Context()) })
}

func (d *demoRun) play(ctx context.Context) (err error) {
	logger := d.log.logger(d.stderr)
	d.WarnUnknown(logger)
	d.database.schema = demo.Schema
	open, err := d.database.open(ctx, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, open.close()) }()
	if d.database.url == "" { // a private server, whose password is no secret on this machine
		fmt.Fprintf(d.stdout, "No DATABASE_URL: on a private Postgres. To look into it:\n  psql '%s'\n\n",
			open.pool.Config().ConnString())
	}
	return demo.Play(ctx, demo.Config{
		Pool: open.pool, Direct: open.direct, Connect: open.session, Length: d.length, Out: d.stdout, Logger: logger,
		Version: version(),
	})
}
