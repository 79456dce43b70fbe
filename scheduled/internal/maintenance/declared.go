package maintenance

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers/notice/rules"
	"github.com/tasktable/tasktable/scheduled/internal/loop"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Declaration has the lists that the code of a program declares. A nil list declares nothing of its kind.
type Declaration struct {
	Recurring []store.Task
	Notices   []rules.Rule
	Limits    []store.Limit
	Calendars []store.Calendar
	Defaults  []store.Defaults // of the types of Recurring, and of all types
}

// Hash is a hash of the declaration. It is "" if the program declares nothing.
func (d Declaration) Hash() string {
	if d.Recurring == nil && d.Notices == nil && d.Limits == nil && d.Calendars == nil {
		return ""
	}
	hash := sha256.New()
	for _, task := range d.Recurring {
		// Config.validate has checked the task, and an interface that does not encode does not get here.
		encoded, _ := json.Marshal(task)
		fmt.Fprintf(hash, "%s %s %s\n", taskdb.IDOf(task), task.Payload.TaskType(), encoded)
	}
	if d.Recurring != nil && len(d.Defaults) > 0 { // the recurring tasks are declared again with others
		fmt.Fprintf(hash, "defaults %v\n", d.Defaults)
	}
	if d.Notices != nil {
		encoded, _ := json.Marshal(d.Notices) // texts and numbers always encode
		fmt.Fprintf(hash, "notices %s\n", encoded)
	}
	if d.Limits != nil {
		fmt.Fprintf(hash, "limits %v\n", d.Limits)
	}
	if d.Calendars != nil {
		fmt.Fprintf(hash, "calendars %v\n", d.Calendars)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16]
}

// Declarer makes a service's recurring tasks, notice rules, limits and calendars agree with those that its code
// declares.
type Declarer struct {
	config DeclarerConfig

	hash   string // of the declaration
	holds  bool   // this node's set was applied and still holds
	others int64  // the newest node that declared another set when this set was applied
}

// DeclarerConfig is the configuration of Declarer.
type DeclarerConfig struct {
	Pool       *pgxpool.Pool
	Statements taskdb.Queries
	Service    string
	Codec      store.Codec
	Every      time.Duration // the pause between two looks; 0: 30 s
	Publisher  *Publisher    // runs first, because recurring tasks have defaults
	Log        *slog.Logger

	Declaration
}

// NewDeclarer makes a declarer. It schedules nothing before Run.
func NewDeclarer(config DeclarerConfig) *Declarer {
	config.Every = cmp.Or(config.Every, declareEvery)
	return &Declarer{config: config, hash: config.Hash()}
}

const declareEvery = 30 * time.Second

// Run works until ctx is done.
func (d *Declarer) Run(ctx context.Context) {
	if d.config.Publisher != nil {
		d.config.Publisher.Run(ctx)
	}
	if d.hash == "" {
		return
	}
	loop.Repeat(ctx, 0, func() time.Duration {
		if err := d.runOnce(ctx); err != nil && ctx.Err() == nil {
			d.config.Log.Warn("what the code declares could not be applied; the node tries again", "error", err)
		}
		return d.config.Every
	})
}

// Several live nodes of the service may declare different sets. The set that holds is the one whose first node
// started last. Versions have no order that a program could read, but deployments have one. A set that was rolled
// back holds again when the last node of the newer set is gone. The column others is the newest node, dead or alive,
// that has another set than $2.
const newestSetSQL = `
SELECT live.declaration_hash, (SELECT coalesce(max(n.number), 0) FROM tasktable.nodes AS n
	WHERE n.service = $1 AND n.declaration_hash <> $2) AS others
FROM (SELECT DISTINCT n.declaration_hash FROM tasktable.nodes AS n WHERE n.service = $1 AND n.dead_at IS NULL
	AND n.declaration_hash IS NOT NULL) AS live
ORDER BY (SELECT min(n.number) FROM tasktable.nodes AS n
	WHERE n.service = $1 AND n.declaration_hash = live.declaration_hash) DESC LIMIT 1`

type newestSet struct {
	DeclarationHash string
	Others          int64
}

const declaredSQL = `
SELECT t.id::text AS id, t.status::text AS status FROM tasktable.scheduled_tasks AS t
WHERE t.declared_by = $1 AND t.cron IS NOT NULL FOR NO KEY UPDATE`

type declaredRow struct {
	ID     string
	Status store.Status
}

// markDeclaredSQL marks the tasks that are declared, and unmarks those that are no longer.
const markDeclaredSQL = `
UPDATE tasktable.scheduled_tasks SET declared_by = CASE WHEN id = ANY ($1::text[]) THEN $3 END
WHERE id = ANY ($1::text[]) AND declared_by IS DISTINCT FROM $3 OR id = ANY ($2::text[])`

// runOnce applies the set if it is the service's newest and was not applied yet. It also applies the set again if
// another set may have been applied since, by a node that came and went between two looks.
func (d *Declarer) runOnce(ctx context.Context) error {
	newest, err := d.newest(ctx, d.config.Pool)
	if err != nil {
		return err
	}
	d.holds = d.holds && newest.DeclarationHash == d.hash && newest.Others == d.others
	if d.holds || newest.DeclarationHash != d.hash {
		return nil
	}
	var refused error
	err = pgx.BeginFunc(ctx, d.config.Pool, func(tx pgx.Tx) (err error) {
		lock := pg.LockClass(d.config.Statements.Schema.String(), "declare")
		if _, err := tx.Exec(
			ctx, "SELECT pg_advisory_xact_lock($1, hashtext($2))", lock, d.config.Service,
		); err != nil {
			return fmt.Errorf("wait for other nodes: %w", err)
		}
		// Another node, for which this one waited, may have declared a newer set.
		if newest, err = d.newest(ctx, tx); err != nil || newest.DeclarationHash != d.hash {
			return err
		}
		// A rule may name a recipient that nobody has made yet, and that must not keep recurring tasks from being
		// declared.
		calendars, limits := d.calendars(), d.limits()
		for _, apply := range []func(context.Context, pgx.Tx) error{
			calendars.apply, d.applyTasks, d.applyRules, limits.apply, limits.removeFormer,
			calendars.removeFormer, // after the tasks, because those that are no longer declared may name them
		} {
			refused = errors.Join(refused, pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
				return apply(ctx, savepoint)
			}))
		}
		return nil
	})
	err = errors.Join(err, refused)
	d.holds, d.others = err == nil && newest.DeclarationHash == d.hash, newest.Others
	return err
}

// newest is the set that holds for the service. It is the zero newestSet if no live node declares a set.
func (d *Declarer) newest(ctx context.Context, q pg.DB) (newest newestSet, err error) {
	found, err := pg.CollectRows[newestSet](ctx, q, "find the service's newest set",
		d.config.Statements.Schema.SQL(newestSetSQL), d.config.Service, d.hash)
	if len(found) > 0 {
		newest = found[0]
	}
	return newest, err
}

// applyRules makes the notice rules agree with the declared ones.
func (d *Declarer) applyRules(ctx context.Context, tx pgx.Tx) error {
	if d.config.Notices == nil {
		return nil
	}
	all := rules.New(rules.Config{Schema: d.config.Statements.Schema})
	return all.Declare(ctx, tx, d.config.Service, d.config.Notices)
}

// applyTasks makes the recurring tasks agree with the declared ones.
func (d *Declarer) applyTasks(ctx context.Context, tx pgx.Tx) error {
	if d.config.Recurring == nil {
		return nil
	}
	known, err := pg.CollectRows[declaredRow](
		ctx, tx, "read declared tasks", d.config.Statements.Schema.SQL(declaredSQL), d.config.Service,
	)
	if err != nil {
		return err
	}
	left := map[string]store.Status{} // of the tasks that are no longer declared
	for _, k := range known {
		left[k.ID] = k.Status
	}
	var wanted []store.Task
	ids, removed := []string{}, []string{}
	for _, task := range d.config.Recurring {
		id := taskdb.IDOf(task)
		ids = append(ids, id)
		if left[id] == store.StatusCancelled {
			d.config.Log.Info("declared recurring task stays cancelled, because somebody cancelled it", "task", id)
		} else {
			task.Replace = true // what the code declares recurs, whatever had the id before
			wanted = append(wanted, task)
		}
		delete(left, id)
	}
	tasks := d.store()
	done, err := tasks.ScheduleMany(ctx, tx, wanted)
	if err != nil {
		return err
	}
	for _, receipt := range done {
		if receipt.Outcome != store.Unchanged && receipt.Outcome != store.Finished {
			d.config.Log.Info("recurring task declared",
				"task", receipt.ID, "revision", receipt.Revision, "outcome", receipt.Outcome)
		}
	}
	for id, status := range left {
		if status == store.StatusCancelled {
			continue // somebody cancelled it, and it stays so if a version that declares it comes back
		}
		removed = append(removed, id)
		receipt, err := tasks.Cancel(ctx, tx, id)
		if err != nil {
			return err
		}
		d.config.Log.Info("recurring task no longer declared",
			"task", id, "revision", receipt.Revision, "outcome", receipt.Outcome)
	}
	_, err = tx.Exec(ctx, d.config.Statements.Schema.SQL(markDeclaredSQL), ids, removed, d.config.Service)
	return pg.Annotate(err, "mark declared tasks")
}

func (d *Declarer) store() *store.Store {
	return store.New(store.Config{
		Schema: d.config.Statements.Schema.String(), Service: d.config.Service, Codec: d.config.Codec,
	})
}
