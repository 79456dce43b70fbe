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

// Publisher writes the defaults that a node's code has for its types to the database, once, when the node starts. So
// SQL clients and the HTTP API use them, too. Of two versions of a service the one whose node started last decides.
// There is no set of a whole service, as the declarer has, because the processes of a service may have different
// handlers.
type Publisher struct {
	config PublisherConfig
}

// PublisherConfig is the configuration of Publisher.
type PublisherConfig struct {
	Pool       *pgxpool.Pool
	Statements taskdb.Queries
	Service    string
	Defaults   []store.Defaults
	Types      []string      // the types of the node
	Every      time.Duration // the pause before it tries again; 0: 30 s
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
	loop.Repeat(ctx, 0, func() time.Duration {
		if err := p.runOnce(ctx); err == nil {
			done()
		} else if ctx.Err() == nil {
			p.config.Log.Warn("the defaults of types could not be published; the node tries again", "error", err)
		}
		return p.config.Every
	})
}

// withdrawDefaultsSQL removes the defaults that an earlier version of the service has published. The lock is that of
// set_defaults. It is taken first, so that no two nodes deadlock.
const withdrawDefaultsSQL = `
DELETE FROM tasktable.task_defaults AS d
USING (SELECT pg_advisory_xact_lock(hashtextextended('tasktable.task_defaults', 0)) OFFSET 0) AS locked
WHERE d.declared_by = $1 AND d.type = ANY ($2::text[]) RETURNING d.type::text`

const othersDefaultsSQL = `
SELECT d.type::text FROM tasktable.task_defaults AS d
WHERE d.type = ANY ($2::text[]) AND d.declared_by IS DISTINCT FROM $1 ORDER BY d.type`

const markDefaultsSQL = `
UPDATE tasktable.task_defaults SET declared_by = $1 WHERE type = ANY ($2::text[]) AND declared_by IS DISTINCT FROM $1`

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
		if err := p.set(ctx, tx, others); err != nil {
			return err
		}
		own := slices.DeleteFunc(names, func(name string) bool { return slices.Contains(others, name) })
		_, err = tx.Exec(ctx, sql(markDefaultsSQL), p.config.Service, own)
		return pg.Annotate(err, "mark published defaults")
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
