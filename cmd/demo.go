package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/community"
	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/store"
)

// The demo has a schema of its own: other nodes on the database do not run its tasks, and it does not run theirs.
const demoSchema = "tasktable_demo"

const demoHelp = `Plays the example community live: members join, posts and events are published at their time, reminders go out; an
event is moved and its reminder moves along; another is edited while its reminder runs; one is deleted, one reminder
comes too late, one mail fails and is retried.

Then its operators: a recurring head count skips a turn while one takes too long; a message is paused until a time, a
queue until somebody resumes it; badges that could not be printed are retried when there is paper, and one is archived;
events that were edited behind the application's back are reconciled; the community's own recurring tasks run.

It prints what happens as it happens, from the table and its history, and at the end the audit by SQL with the queries.

It makes the schemas ` + demoSchema + ` and community. It exits with 0 if all happened that should have, and with 1 if not.`

// demoLeast is when the last event of the script has happened, with some seconds to spare.
const demoLeast = 20 * time.Second

// demo is one run of the script.
type demo struct {
	*program
	database databaseSettings
	log      logSettings
	length   time.Duration

	d     *database
	tasks *store.Store
	app   *community.App
	run   string      // tells this run's events from those of earlier ones
	start time.Time   // by the database's clock
	began time.Time   // the same instant by ours
	paper atomic.Bool // in the printer
}

func (p *program) demoCommand() *cobra.Command {
	d := &demo{program: p}
	// Not the schema: the demo has its own.
	opts := slices.DeleteFunc(d.database.options(), func(o options.Option) bool { return o.Flag == "schema" })
	opts = append(opts, options.Option{Flag: "for", Variable: "TASKTABLE_DEMO_FOR", Kind: "duration", Default: "30s",
		Usage: "how long it plays before the audit", Set: options.Duration(&d.length, demoLeast, time.Hour)})
	d.log.level = "warn"
	return p.Bind(&cobra.Command{
		Use:     "demo",
		Short:   "Plays the example community live, and audits it by SQL",
		Long:    demoHelp,
		Example: "  tasktable demo --for 30s\n  DATABASE_URL=postgres://user@host/db tasktable demo",
	}, opts, func(command *cobra.Command) error { return d.play(command.Context()) })
}

func (d *demo) play(ctx context.Context) (err error) {
	logger := d.log.logger(d.stderr)
	d.WarnUnknown(logger)
	d.database.schema = demoSchema
	if d.d, err = d.database.open(ctx, logger); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.d.close()) }()
	if d.database.url == "" { // a private server, whose password is no secret on this machine
		fmt.Fprintf(d.stdout, "No DATABASE_URL: on a private Postgres. To look into it:\n  psql '%s'\n\n", d.d.pool.Config().ConnString())
	}
	if err := d.migrate(ctx); err != nil {
		return err
	}
	d.tasks = store.New(store.Config{Service: "demo", Schema: demoSchema})
	d.app = community.New(d.tasks)
	if err := d.clear(ctx); err != nil {
		return err
	}
	if err := d.clock(ctx); err != nil { // before the node: handlers go by it
		return err
	}
	stop, err := d.serve(ctx)
	if err != nil {
		return err
	}
	err = d.playScript(ctx)
	if err = errors.Join(err, stop()); err != nil || ctx.Err() != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return d.audit(ctx)
}

func (d *demo) migrate(ctx context.Context) error {
	if err := migrations.Up(ctx, d.d.direct, demoSchema); err != nil {
		return err
	}
	return community.Migrate(ctx, d.d.direct)
}

// serve runs a node beside the script. The returned function stops it.
func (d *demo) serve(ctx context.Context) (stop func() error, err error) {
	registry, err := handlers.NewRegistry(append(community.Variants(d.app, community.Outbox()), d.variants()...)...)
	if err != nil {
		return nil, err
	}
	node, err := scheduled.New(scheduled.Config{
		Pool: d.d.pool, Connect: d.d.session, Handlers: registry, Schema: demoSchema, Service: "demo", Version: version(),
		Queues:    map[string]int{store.DefaultQueue: scheduled.DefaultSlots, letters: 1},
		Recurring: community.Recurring(),
		Logger:    d.log.logger(d.stderr),
		Backoff:   func(int, error) time.Duration { return 2 * time.Second }, // the default, 10 s, is long in a demo
	})
	if err != nil {
		return nil, err
	}
	nodeCtx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- node.Run(nodeCtx) }()
	return func() error { cancel(); return <-done }, nil
}

func (d *demo) eventID(name string) string { return name + "-" + d.run }

func (d *demo) reminderOf(name string) string { return "task-SEND_EVENT_REMINDER-" + d.eventID(name) }

// clock fixes the demo's beginning, by the database's clock: all times of the script count from it. It is a whole second, since
// those are what recurring tasks fire at, and leaves the node a moment to come up.
func (d *demo) clock(ctx context.Context) error {
	var now time.Time
	if err := d.d.pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return fmt.Errorf("ask the database's time: %w", err)
	}
	d.start = now.Add(2 * time.Second).Truncate(time.Second)
	d.began = time.Now().Add(d.start.Sub(now))
	d.run = strconv.FormatInt(d.start.Unix(), 36)
	return nil
}

// at is an instant of the script.
func (d *demo) at(seconds float64) time.Time {
	return d.start.Add(time.Duration(seconds * float64(time.Second))).Truncate(time.Microsecond)
}
