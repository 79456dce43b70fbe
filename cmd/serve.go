package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/logging"
	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/store"
)

const serveHelp = `Runs a node. It takes part in claiming due tasks, and runs tasks of the types it has handlers for:
always LOG and HTTP_REQUEST, with --smtp-host also SEND_EMAIL, with --commands also EXEC and RUN_SQL, and with --notices
or --notice-target also NOTICE, which tells people what happened to tasks (tasktable notices). Tasks of other types wait
for other nodes. To run types of your own, write a program around the package scheduled.

HTTP_REQUEST sends requests to public addresses, unless --webhook-allow and --webhook-deny say otherwise. A node with
--pause type:HTTP_REQUEST sends none.

EXEC runs programs, and RUN_SQL runs SQL statements, but only those that the file of --commands names.

With --api the program also serves the HTTP API on --http-addr, without TLS, to callers with a key. Its page /docs lists
the calls.

With --dashboard the program also serves the dashboard on --http-addr, to people who sign in with a key that has the
scope read. The dashboard shows tasks, tells why they do or do not run, and acts on them if the key allows it.

A node needs the connections of the handlers' pool (--max-conns), those of the engine's (--engine-conns) and up to three
more. The API and the dashboard need their own (--api-conns, --dashboard-conns). Run as many nodes as you like.

If OTEL_EXPORTER_OTLP_ENDPOINT is set, for example to http://localhost:4318, the node sends a span of each attempt there
by OTLP over HTTP. It reads the other standard variables of OpenTelemetry, too. There are no flags for them.

At SIGINT or SIGTERM the node claims no more and lets running tasks end within --shutdown-timeout. Then it interrupts
them and queues them again. At SIGTSTP it becomes quiet: it claims and starts nothing new, returns claimed tasks that
have not begun, and lets running tasks end, however long that takes. SIGCONT ends that. Ctrl-Z sends SIGTSTP, so it
makes the node quiet instead of stopping the process.`

// serve is one node.
type serve struct {
	*program
	database databaseSettings
	engine   engineSettings
	mail     mailSettings
	webhook  webhookSettings
	commands commandSettings
	http     httpSettings
	api      apiSettings
	board    dashboardSettings
	notices  noticeSettings
	named    environmentSettings
	log      logSettings
	metrics  *metrics

	migrate bool
}

// options are also the options that the command config prints.
func (s *serve) options() []options.Option {
	opts := append(s.database.options(), s.database.maxConnsOption(),
		options.Option{Flag: "migrate", Variable: "TASKTABLE_MIGRATE",
			Usage: "first brings the schema to this program's version", Set: options.Bool(&s.migrate)})
	opts = append(opts, s.engine.options()...)
	opts = append(opts, s.mail.options()...)
	opts = append(opts, s.webhook.options()...)
	opts = append(opts, s.commands.options()...)
	opts = append(opts, s.notices.options()...)
	opts = append(opts, s.http.options()...)
	opts = append(opts, s.api.options()...)
	opts = append(opts, s.board.options()...)
	opts = append(opts, s.named.options()...)
	return append(opts, s.log.options()...)
}

func (p *program) serveCommand() *cobra.Command {
	s := &serve{program: p, metrics: newMetrics()}
	return p.Bind(&cobra.Command{
		Use:   "serve",
		Short: "Runs tasks when they are due, until a signal",
		Long:  serveHelp,
		Example: `  tasktable serve --migrate                 # on a private Postgres, for a first look
  DATABASE_URL=postgres://user@host/db tasktable serve --queue default=50 --queue mail=5
  tasktable serve --dashboard --http-addr 127.0.0.1:8080
  TASKTABLE_QUEUES=default=50,mail=5 TASKTABLE_LOG_FORMAT=json tasktable serve
  tasktable serve --queue critical=60 --queue default=30 --queue low=10 --share-slots    # weights of 6:3:1
  tasktable serve --queue critical=20 --queue default=20 --strict-queues critical,default
  tasktable serve --role worker    # beside nodes with --role leader`,
	}, s.options(), func(command *cobra.Command) error { return s.run(command.Context()) })
}

func (s *serve) run(ctx context.Context) (err error) {
	signals, release := quietSignals()
	defer release()
	logger := s.named.logger(s.log.logger(s.stderr))
	s.WarnUnknown(logger)
	s.named.register(s.metrics, s.engine.Service)
	registry, err := s.registry(logger) // before the database, so that a wrong option does not start one
	if err != nil {
		return err
	}
	tracer, flush, err := s.tracer(ctx, s.engine.Service, logger)
	if err != nil {
		return err
	}
	defer flush()
	calls, pages, err := s.handlers()
	if err != nil {
		return err
	}
	proxies := slices.Concat(s.api.proxies, s.board.proxies)
	// It answers until everything else has ended.
	probed, err := s.http.listen(ctx, s.metrics.metricsHandler(), calls, pages, proxies, logger)
	if err != nil {
		return err
	}
	defer probed.close()
	d, err := s.database.open(ctx, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := s.prepare(ctx, d); err != nil {
		return err
	}
	if s.api.on {
		stop, err := s.api.start(ctx, d, s.database.inSchema(), calls, tracer, s.metrics,
			doubtsOf(registry, s.webhook.config.Secrets, s.webhook.most()), logger)
		if err != nil {
			return err
		}
		defer stop()
	}
	if s.board.on {
		s.board.targets = s.notices.targetNames()
		stop, err := s.board.start(ctx, d, s.database.inSchema(), s.api.tenantRole, s.named, proxies, pages, logger)
		if err != nil {
			return err
		}
		defer stop()
	}
	node, err := s.node(d, registry, tracer, logger)
	if err != nil {
		return err
	}
	probed.node.Store(node)
	go followSignals(ctx, signals, node.Quiet, node.Unquiet)
	return s.serve(ctx, node, logger)
}

// handlers returns the handlers of the API and of the dashboard. A handler is nil if the program is not asked to serve
// it.
func (s *serve) handlers() (calls, pages *startingHandler, err error) {
	if s.api.on {
		if s.http.address == "" {
			return nil, nil, options.Usage("--api (TASKTABLE_API) needs --http-addr (TASKTABLE_HTTP_ADDR)")
		}
		calls = newStartingHandler(refuseCall)
	}
	if s.board.on {
		if err := s.board.check(s.http.address); err != nil {
			return nil, nil, err
		}
		pages, s.http.local = newStartingHandler(refusePage), s.board.open
	}
	return calls, pages, nil
}

// registry holds the handlers of this program.
func (s *serve) registry(logger *slog.Logger) (*handlers.Registry, error) {
	requests, err := s.webhook.variant(logger, s.metrics)
	if err != nil {
		return nil, err
	}
	named, err := s.commands.variants(logger)
	if err != nil {
		return nil, err
	}
	parts := append([]handlers.Part{logging.Variant(logger), requests}, named...)
	mail, err := s.mail.variant()
	if err != nil {
		return nil, err
	}
	if mail != nil {
		parts = append(parts, mail)
	}
	notices, err := s.notices.variants(s.webhook.config, s.mail.server(), s.database.inSchema(), s.named.name)
	if err != nil {
		return nil, err
	}
	parts = append(parts, notices...)
	registry, err := handlers.NewRegistry(parts...)
	if err != nil {
		return nil, err
	}
	return registry, errors.Join(s.engine.checkTypes(registry), s.engine.checkQueues())
}

// prepare migrates if asked to, and refuses a database that is not migrated.
func (s *serve) prepare(ctx context.Context, d *database) error {
	if s.migrate {
		if err := s.database.migrate(ctx, d.direct); err != nil {
			return err
		}
	}
	if d.direct != d.pool {
		defer d.direct.Reset() // what follows needs its settings alone, and no idle connection beside its own
	}
	err := s.database.check(ctx, d.direct)
	if !errors.Is(err, migrations.ErrUnmigrated) {
		return err
	}
	return fmt.Errorf("%w, or serve with --migrate (TASKTABLE_MIGRATE=true)", err)
}

func (s *serve) node(d *database, registry *handlers.Registry, tracer trace.TracerProvider,
	logger *slog.Logger) (*scheduled.Node, error) {
	config := s.engine.Config
	config.Pool, config.Connect, config.Schema = d.pool, d.session, s.database.schema
	config.Handlers, config.Version, config.Logger = registry, version(), logger
	config.Metrics, config.Tracer = s.metrics.registry, tracer
	if registry.Variant("NOTICE_WATCH") != nil {
		s.notices.pool.opened.Store(d.pool)
		config.Recurring = append(config.Recurring, s.notices.recurring()...)
		config.Queues = s.notices.queues(config.Queues)
		if len(config.StrictQueues) > 0 && len(config.Queues) > len(s.engine.Queues) { // notices must tell of a backlog
			config.StrictQueues = slices.Insert(slices.Clone(config.StrictQueues), 0, noticeQueue)
		}
	}
	node, err := scheduled.New(config)
	if err != nil {
		return nil, err
	}
	logger.Info("serving", "database", address(d.pool.Config().ConnConfig), "schema", s.database.schema, "types",
		registry.Types(),
		"role", config.Role, "queues", config.Queues, "paused", textsOf(config.Paused, store.Scope.String),
		"version", version())
	return node, nil
}

// serve runs the node until ctx is done and it has stopped.
func (s *serve) serve(ctx context.Context, node *scheduled.Node, logger *slog.Logger) error {
	stopping := sync.OnceFunc(func() {
		logger.Info("stopping; a second signal ends it at once", "reason", context.Cause(ctx))
	})
	defer context.AfterFunc(ctx, stopping)()
	err := node.Run(ctx)
	if ctx.Err() != nil {
		stopping() // before "stopped", should the node have been faster
	}
	if err != nil && (ctx.Err() == nil || !errors.Is(err, context.Canceled)) { // canceled: a signal while it began
		return fmt.Errorf("serve: %w", err)
	}
	logger.Info("stopped")
	return nil
}
