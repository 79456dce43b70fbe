// Package demo plays the example community live on a node of its own, and audits by SQL that everything happened as
// it should.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/community"
	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// Schema is the schema of the demo. It is a schema of its own, so that other nodes on the database do not run the
// demo's tasks, and the demo does not run theirs.
const Schema = "tasktable_demo"

// MinLength is some seconds longer than the script.
const MinLength = 20 * time.Second

// Config says where the demo plays, and for how long. All fields but Stay and Began must be set.
type Config struct {
	Pool    *pgxpool.Pool
	Direct  *pgxpool.Pool                            // past any pooler; may be Pool
	Connect func(context.Context) (*pgx.Conn, error) // opens the session of the node
	Length  time.Duration                            // before the audit; at least MinLength
	Stay    bool                                     // run the node on after the audit, until the context ends
	Began   func()                                   // it is called when the script begins
	Out     io.Writer
	Logger  *slog.Logger
	Version string // of the node
}

// demo is one run of the script.
type demo struct {
	Config
	tasks     *store.Store
	inspector *inspect.Inspector
	app       *community.App
	run       string      // ends the ids of this run, so that they differ from those of earlier runs
	start     time.Time   // by the database's clock
	began     time.Time   // the same instant by this process's clock
	paper     atomic.Bool // in the printer
}

func newDemo(config Config) *demo {
	own := store.Config{Service: "demo", Schema: Schema}
	tasks := store.New(own)
	return &demo{Config: config, tasks: tasks, inspector: inspect.New(own), app: community.New(tasks)}
}

// Play migrates the demo's schemas, plays the script and audits it. Its error says which answers of the audit are not
// as they should be.
func Play(ctx context.Context, config Config) error {
	d := newDemo(config)
	if err := d.migrate(ctx); err != nil {
		return err
	}
	if err := d.clear(ctx); err != nil {
		return err
	}
	if err := d.clock(ctx); err != nil { // before the node, because handlers go by it
		return err
	}
	stop, err := d.serve(ctx)
	if err != nil {
		return err
	}
	if d.Began != nil {
		d.Began()
	}
	err = d.playScript(ctx)
	if err = errors.Join(err, stop()); err != nil || ctx.Err() != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	err = d.audit(ctx)
	if d.Stay {
		err = errors.Join(err, d.stay(ctx))
	}
	return err
}

// stay runs a node until the context ends.
func (d *demo) stay(ctx context.Context) error {
	stop, err := d.serve(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(d.Out, "\nThe node runs on. Ctrl-C ends it.")
	<-ctx.Done()
	return stop()
}

func (d *demo) migrate(ctx context.Context) error {
	if err := migrations.Up(ctx, d.Direct, Schema); err != nil {
		return err
	}
	return community.Migrate(ctx, d.Direct)
}

// serve runs a node beside the script. The returned function stops it.
func (d *demo) serve(ctx context.Context) (stop func() error, err error) {
	registry, err := handlers.NewRegistry(append(community.Variants(d.app, community.Outbox()), d.variants()...)...)
	if err != nil {
		return nil, err
	}
	node, err := scheduled.New(scheduled.Config{
		Pool: d.Pool, Connect: d.Connect, Handlers: registry, Schema: Schema, Service: "demo", Version: d.Version,
		Queues:    map[string]int{store.DefaultQueue: scheduled.DefaultSlots, letters: 1},
		Recurring: community.Recurring(),
		Logger:    d.Logger,
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

// clock sets the demo's beginning by the database's clock. All times of the script count from it. It is a whole
// second, because recurring tasks fire at whole seconds, and it leaves the node a moment to start.
func (d *demo) clock(ctx context.Context) error {
	now, err := d.now(ctx)
	if err != nil {
		return err
	}
	d.start = now.Add(2 * time.Second).Truncate(time.Second)
	d.began = time.Now().Add(d.start.Sub(now))
	d.run = strconv.FormatInt(d.start.Unix(), 36)
	return nil
}

// now is the time of the database.
func (d *demo) now(ctx context.Context) (now time.Time, err error) {
	if err := d.Pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return now, fmt.Errorf("ask the database's time: %w", err)
	}
	return now, nil
}

// at is an instant of the script.
func (d *demo) at(seconds float64) time.Time {
	return d.start.Add(time.Duration(seconds * float64(time.Second))).Truncate(time.Microsecond)
}
