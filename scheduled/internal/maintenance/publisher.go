package maintenance

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/internal/loop"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Publisher writes the defaults that a node's code has for its types to the database, once a process. So
// SQL clients and the HTTP API use them, too. Of two versions of a service the one whose node started last decides.
// There is no set of a whole service, as the declarer has, because the processes of a service may have different
// handlers.
type Publisher struct {
	config    PublisherConfig
	published bool
}

// PublisherConfig is the configuration of Publisher.
type PublisherConfig struct {
	Pool       *pgxpool.Pool
	Statements taskdb.Queries
	Service    string
	Defaults   []store.Defaults
	Types      []string      // the types of the node
	Every      time.Duration // the pause before it tries again, by default 30 s
	Log        *slog.Logger
}

// NewPublisher makes a publisher. It writes nothing before Run.
func NewPublisher(config PublisherConfig) *Publisher {
	config.Every = cmp.Or(config.Every, declareEvery)
	return &Publisher{config: config}
}

// Run works until the defaults are published, or until ctx is done.
func (p *Publisher) Run(ctx context.Context) {
	ctx, done := context.WithCancel(ctx)
	defer done()
	if p.published { // before the node has lost its session
		return
	}
	loop.Repeat(ctx, 0, func() time.Duration {
		if err := p.runOnce(ctx); err == nil {
			p.published = true
			done()
		} else if ctx.Err() == nil {
			p.config.Log.Warn("the defaults of types could not be published; the node tries again", "error", err)
		}
		return p.config.Every
	})
}

// The lock is that of set_defaults. It is taken first, so that no two nodes deadlock or overwrite each other.
const lockDefaultsSQL = `SELECT pg_advisory_xact_lock(hashtextextended('tasktable.task_defaults', 0))`

// withdrawDefaultsSQL removes the defaults that an earlier version of the service has published.
const withdrawDefaultsSQL = `
DELETE FROM tasktable.task_defaults AS d WHERE d.declared_by = $1 AND d.type = ANY ($2::text[]) RETURNING d.type::text`

const othersDefaultsSQL = `
SELECT d.type::text FROM tasktable.task_defaults AS d
WHERE d.type = ANY ($2::text[]) AND d.declared_by IS DISTINCT FROM $1 ORDER BY d.type`

// runOnce publishes the defaults. It leaves those that somebody has set, or another service declares, and logs them.
func (p *Publisher) runOnce(ctx context.Context) error {
	names := []string{}
	for _, one := range p.config.Defaults {
		names = append(names, one.Type)
	}
	without := slices.DeleteFunc(slices.Clone(p.config.Types),
		func(name string) bool { return slices.Contains(names, name) })
	sql := p.config.Statements.Schema.SQL
	return pgx.BeginFunc(ctx, p.config.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sql(lockDefaultsSQL)); err != nil {
			return fmt.Errorf("wait for other nodes: %w", err)
		}
		removed, err := pg.CollectColumn[string](ctx, tx, "withdraw defaults", sql(withdrawDefaultsSQL),
			p.config.Service, without)
		if err != nil {
			return err
		}
		for _, name := range removed {
			p.config.Log.Info("the code has no defaults for the type any more; removed", "type", name)
		}
		others, err := pg.CollectColumn[string](ctx, tx, "look for defaults of others", sql(othersDefaultsSQL),
			p.config.Service, names)
		if err != nil {
			return err
		}
		return p.set(ctx, tx, others)
	})
}

func (p *Publisher) set(ctx context.Context, tx pgx.Tx, others []string) error {
	tasks := store.New(store.Config{Schema: p.config.Statements.Schema.String(), Service: p.config.Service})
	for _, one := range p.config.Defaults {
		if slices.Contains(others, one.Type) {
			p.config.Log.Warn("the code has defaults for a type, but somebody has set others, or another service "+
				"declares some; remove those first", "type", one.Type)
			continue
		}
		one.DeclaredBy = p.config.Service
		outcome, err := tasks.SetDefaults(ctx, tx, one)
		if err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		if outcome != store.Unchanged {
			p.config.Log.Info("defaults published", "type", one.Type, "outcome", outcome)
		}
	}
	return nil
}
