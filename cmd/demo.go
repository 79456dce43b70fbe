package cmd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/demo"
	"github.com/tasktable/tasktable/cmd/internal/options"
)

const demoHelp = `Plays the example community live. Members join. Posts and events are published at their time.
Members get reminders. An event is moved, and its reminder moves too. Another event is edited while its reminder runs.
One event is deleted, one reminder comes too late, and one mail fails and is retried.

Then it plays the operators. A recurring head count skips a fire while an earlier one takes too long. A message is
paused until a time, and a queue until somebody resumes it. Badges that could not be printed are retried when there is
paper, and one is archived. Events that somebody edited without the application are reconciled. The community's own
recurring tasks run.

It prints the events as they happen, from the table and its history. At the end it audits them by SQL, and prints the
queries.

With --dashboard it also serves the dashboard, without a key, on --http-addr. After the audit the node runs on, so that
the pages live, until a signal.

It makes the schemas ` + demo.Schema + ` and community. The exit code is 0 if everything happened as it
should, and 1 if not.`

// demoRun is the command demo.
type demoRun struct {
	*program
	database databaseSettings
	log      logSettings
	http     httpSettings
	board    dashboardSettings
	length   time.Duration
}

func (p *program) demoCommand() *cobra.Command {
	d := &demoRun{program: p, board: dashboardSettings{open: true, conns: defaultDashboardConns}}
	// The demo has a schema of its own.
	opts := slices.DeleteFunc(d.database.options(), func(o options.Option) bool { return o.Flag == "schema" })
	opts = append(opts, options.Option{Flag: "for", Variable: "TASKTABLE_DEMO_FOR", Kind: "duration", Default: "30s",
		Usage: "how long it plays before the audit", Set: options.Duration(&d.length, demo.MinLength, time.Hour)},
		options.Option{Flag: "dashboard", Variable: "TASKTABLE_DEMO_DASHBOARD", Set: options.Bool(&d.board.on),
			Usage: "also serve the dashboard, until a signal"},
		options.Option{Flag: "http-addr", Variable: "TASKTABLE_HTTP_ADDR", Kind: "address", Default: "127.0.0.1:8080",
			Set:   listenAddress(&d.http.address),
			Usage: "where the dashboard is; only an address of this machine alone, because it needs no key"})
	d.log.level = "warn"
	return p.Bind(&cobra.Command{
		Use:   "demo",
		Short: "Plays the example community live, and audits it by SQL",
		Long:  demoHelp,
		Example: "  tasktable demo --for 30s\n  DATABASE_URL=postgres://user@host/db tasktable demo\n" +
			"  tasktable demo --dashboard",
	}, opts, func(command *cobra.Command) error { return d.play(command.Context()) })
}

func (d *demoRun) play(ctx context.Context) (err error) {
	logger := d.log.logger(d.stderr)
	d.WarnUnknown(logger)
	d.database.schema = demo.Schema
	var pages *startingHandler
	if d.board.on {
		if err := d.board.check(d.http.address); err != nil {
			return err
		}
		pages, d.http.local = newStartingHandler(refusePage), d.board.open
		answering, err := d.http.listen(ctx, http.NotFoundHandler(), nil, pages, nil, logger)
		if err != nil {
			return err
		}
		defer answering.close()
	}
	open, err := d.database.open(ctx, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, open.close()) }()
	if d.database.url == "" { // a private server, whose password is no secret on this machine
		fmt.Fprintf(d.stdout, "No DATABASE_URL: on a private Postgres. To look into it:\n  psql '%s'\n\n",
			open.pool.Config().ConnString())
	}
	config := demo.Config{
		Pool: open.pool, Direct: open.direct, Connect: open.session, Length: d.length, Out: d.stdout,
		Logger: logger, Version: version(),
	}
	if d.board.on {
		stop, err := d.board.start(ctx, open, d.database.inSchema(), "", environmentSettings{}, nil, pages, logger)
		if err != nil {
			return err
		}
		defer stop()
		config.Stay = true
		config.Began = func() {
			fmt.Fprintf(d.stdout, "The dashboard is at http://%s/\n\n", reachable(d.http.address))
		}
	}
	return demo.Play(ctx, config)
}
