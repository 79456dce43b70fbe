//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store"
)

// writer is an application that schedules tasks and changes its mind. It has its own network, and its own
// idea of the time.
type writer struct {
	name   string
	pool   *pgxpool.Pool
	tasks  *store.Store
	opLog  *opLog
	random *rand.Rand
	work   *dice
	chores *dice
	clock  time.Duration     // how far its clock is ahead
	hosts  map[string]string // the receivers of HTTP requests, by their behaviour
	settings

	made        int
	known       []string          // the ids it edits
	ids         map[string]string // and their types
	hasSchedule bool              // it has scheduled the task of lockSchedule
	longs       []store.Task      // the last of its long tasks, of which some may run yet
}

const (
	opLimit   = 4 * time.Second // a transaction that takes longer is given up
	knownMost = 60
)

// openWriter connects a writer through its wire.
func openWriter(ctx context.Context, name, url string, l *opLog, s settings, random *rand.Rand) (*writer, error) {
	settings, err := writerPool(url, name)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("open the pool of %s: %w", name, err)
	}
	w := newWriter(name, l, s, random)
	w.pool, w.tasks = pool, store.New(store.Config{Service: name})
	return w, nil
}

// newWriter makes a writer that has no connection.
func newWriter(name string, l *opLog, s settings, random *rand.Rand) *writer {
	return &writer{
		name: name, opLog: l, random: random, ids: map[string]string{}, settings: s, work: newDice(allWork, s.Work),
		chores: newDice(allChores, s.Chores),
	}
}

// writerPool configures the connections of a writer.
func writerPool(url, name string) (*pgxpool.Config, error) {
	settings, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("parse URL: %w", err)
	}
	settings.MaxConns = 4
	settings.ConnConfig.ConnectTimeout = 2 * time.Second
	settings.ConnConfig.RuntimeParams["application_name"] = name
	// As an application would: its locks do not outlive its interest.
	settings.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "10000"
	settings.ConnConfig.RuntimeParams["lock_timeout"] = "3000"
	return settings, nil
}

// run works until ctx is done.
func (w *writer) run(ctx context.Context) {
	w.pace(ctx, func() { w.step(w.work.roll(w.random)) })
}

// pace does something again and again, at the writer's pace, until ctx is done.
func (w *writer) pace(ctx context.Context, do func()) {
	ticker := time.NewTicker(w.Pace)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		do()
	}
}

// change is what a transaction does: verbs by a store, in tx.
type change func(ctx context.Context, tx pgx.Tx) ([]deed, error)

// scheduling is the change that schedules a task.
func (w *writer) scheduling(task store.Task) change {
	return func(ctx context.Context, tx pgx.Tx) ([]deed, error) {
		receipt, err := w.tasks.Schedule(ctx, tx, task)
		return deedsOf([]store.Task{task}, []store.Receipt{receipt}), err
	}
}

// did is what a verb did to a task, as the receipt says.
func did(verb, id string, receipt store.Receipt) deed {
	return deed{Verb: verb, ID: id, Outcome: string(receipt.Outcome), Revision: receipt.Revision}
}

var errChangedMind = errors.New("the application has changed its mind")

const opsSQL = `
INSERT INTO torture.ops (op, task_id, verb, outcome, revision)
SELECT $1, * FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[])`

// transact runs a change in a transaction that also writes a row of the application's for each deed. linger keeps the
// transaction open for a while, with its locks; rollback makes nothing of it. ids are the tasks that it may touch.
func (w *writer) transact(ids []string, linger time.Duration, rollback bool, do change) answer {
	return w.transactAs(&entry{IDs: ids}, linger, rollback, do)
}

// transactAs is transact with more in its entry of the log.
func (w *writer) transactAs(e *entry, linger time.Duration, rollback bool, do change) answer {
	ctx, cancel := context.WithTimeout(context.Background(), opLimit)
	defer cancel()
	e.Op, e.Writer, e.Began, e.Answer = w.opLog.op(), w.name, time.Now(), refused
	committing := false
	err := func() error {
		tx, err := w.pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { e.Closed = tx.Rollback(ctx) == nil }()
		if e.Deeds, err = do(ctx, tx); err != nil {
			return err
		}
		if err := writeOps(ctx, tx, e); err != nil {
			return err
		}
		if err := wait(ctx, linger); err != nil {
			return err
		}
		if rollback {
			return errChangedMind
		}
		committing = true
		return tx.Commit(ctx)
	}()
	e.Ended = time.Now()
	var said *pgconn.PgError
	switch {
	case err == nil:
		e.Answer = acknowledged
	case committing && !errors.Is(err, pgx.ErrTxCommitRollback) && (!errors.As(err, &said) || said.Severity != "ERROR"):
		e.Answer = unknown // FATAL, too: the session was ended, perhaps after it had committed
	}
	w.opLog.add(e)
	return e.Answer
}

func writeOps(ctx context.Context, tx pgx.Tx, e *entry) error {
	n := len(e.Deeds)
	ids, verbs, outcomes, revisions := make([]string, n), make([]string, n), make([]string, n), make([]int64, n)
	for i, d := range e.Deeds {
		ids[i], verbs[i], outcomes[i], revisions[i] = d.ID, d.Verb, d.Outcome, d.Revision
	}
	_, err := tx.Exec(ctx, opsSQL, e.Op, ids, verbs, outcomes, revisions)
	return err
}

// now is the time by the writer's clock.
func (w *writer) now() time.Time { return time.Now().Add(w.clock) }

// newID makes an id that nobody else uses.
func (w *writer) newID(kind string) string {
	w.made++
	return fmt.Sprintf("%s/%s/%d", w.name, kind, w.made)
}

// remember keeps an id to edit it later.
func (w *writer) remember(id, kind string) {
	w.ids[id] = kind
	if w.known = append(w.known, id); len(w.known) > knownMost {
		i := w.random.IntN(len(w.known) / 2)
		w.known = append(w.known[:i], w.known[i+1:]...)
	}
}

// dice chooses among things by their weights.
type dice struct {
	names   []string
	weights []int
	total   int
}

// newDice has all of a list of weights, or those that are given instead of it.
func newDice(all []weighted, given map[string]int) *dice {
	d := &dice{}
	for _, one := range all {
		weight := one.weight
		if given != nil {
			weight = given[one.name]
		}
		d.names, d.weights, d.total = append(d.names, one.name), append(d.weights, weight), d.total+weight
	}
	return d
}

type weighted struct {
	name   string
	weight int
}

// weight is how often a thing is chosen, of the total.
func (d *dice) weight(name string) int {
	for i, one := range d.names {
		if one == name {
			return d.weights[i]
		}
	}
	return 0
}

// deck deals all things in some order, first each once, then each as often as it weighs, and then again: none is left
// out for long.
type deck struct {
	*dice
	left  []string
	dealt bool // each once
}

func (d *deck) deal(random *rand.Rand) string {
	if len(d.left) == 0 {
		for i, name := range d.names {
			times := d.weights[i]
			if !d.dealt {
				times = min(times, 1)
			}
			for range times {
				d.left = append(d.left, name)
			}
		}
		d.dealt = true
		random.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	name := d.left[0]
	d.left = d.left[1:]
	return name
}

func (d *dice) roll(random *rand.Rand) string {
	if d.total == 0 {
		return ""
	}
	n := random.IntN(d.total)
	for i, weight := range d.weights {
		if n -= weight; n < 0 {
			return d.names[i]
		}
	}
	return ""
}
