package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/store/internal/query"
)

// ErrConflict is wrapped by Reconcile's error when another transaction changed what was compared before it could be
// mended. Nothing was changed: try again, in a new transaction.
var ErrConflict = errors.New("changed by another transaction meanwhile")

// DefaultReconcileExamples is what zero Examples stand for.
const DefaultReconcileExamples = 5

const (
	reconcileBatch = 1000     // rows read, and tasks mended, at a time
	reconcileBytes = 16 << 20 // of payloads mended at a time, about
)

// ReconcileConfig says which tasks ought to exist.
type ReconcileConfig struct {
	// Type is the type of the tasks; those of other types are left alone.
	Type string
	// Query is one SELECT without parameters that yields each task that ought to exist: those that wait, and those
	// that are done, as long as it likes. It must only read. Its columns:
	//
	//	id                       or key, for the id task-{Type}-{key}
	//	scheduled_at             timestamptz
	//	payload                  jsonb; its type is filled in. Null: an object of nothing but the type
	//	entity, tenant_id, queue, priority, expiration, expected_execution_time, max_attempts:
	//	                         as in a Task, null for the default
	//
	// A column that it does not have is not compared: an existing task keeps what it has, a new one gets the default.
	// Payloads that are encoded can be compared only by a Store that has their Codec; Reconcile refuses to,
	// otherwise.
	Query string
	// EntityColumn is what the query calls the column of the entity; "": entity.
	EntityColumn string
	// Apply mends what differs, except tasks that have ended: those run again only with Rearm.
	Apply bool
	// Rearm makes Apply also run tasks again that have ended at another time than the query says, at once if that
	// time has passed.
	Rearm bool
	// Examples is how many tasks of each kind are named; 0: 5, below 0: none.
	Examples int
	// Timeout is the statement_timeout of each statement, the first of which does most of the work; 0: as the
	// transaction has it.
	Timeout time.Duration
}

// ReconcileReport is what Reconcile found, and did.
type ReconcileReport struct {
	Type string `json:"type"`
	// Agree is how many tasks wait, or run, as the query says.
	Agree int `json:"agree"`
	// Finished is how many have ended, other than by a cancel, at the time that the query says: they do not run again.
	Finished int `json:"finished"`
	// Missing do not exist.
	Missing ReconcileFinding `json:"missing"`
	// Cancelled were cancelled: they have not run, and Apply queues them again.
	Cancelled ReconcileFinding `json:"cancelled"`
	// Ended have ended, other than by a cancel, at another time than the query says: Schedule would run them again.
	Ended ReconcileFinding `json:"ended"`
	// WrongTime wait for another time, whatever else differs.
	WrongTime ReconcileFinding `json:"wrong_time"`
	// OtherContent wait for the right time, but differ in another field.
	OtherContent ReconcileFinding `json:"other_content"`
	// Orphaned wait, or run, although the query does not yield them. Recurring tasks and their occurrences never
	// count as such.
	Orphaned ReconcileFinding `json:"orphaned"`
	// Applied is whether the differences were mended, and Done what that came to.
	Applied bool            `json:"applied"`
	Done    map[Outcome]int `json:"done,omitempty"`
	// Left is how many of Ended Apply left as they are, because Rearm was not set.
	Left int `json:"left,omitempty"`
}

// Drift is how many tasks are not as the query says; after Apply, were not.
func (r ReconcileReport) Drift() int {
	return r.Missing.Count + r.Cancelled.Count + r.Ended.Count + r.WrongTime.Count + r.OtherContent.Count +
		r.Orphaned.Count
}

// ReconcileFinding is how many tasks differ in one way, and the first of them by id.
type ReconcileFinding struct {
	Count    int                `json:"count"`
	Examples []ReconcileExample `json:"examples,omitempty"`
}

// ReconcileExample is one task that differs.
type ReconcileExample struct {
	ID     string     `json:"id"`
	Status Status     `json:"status,omitempty"` // "" where there is no task
	At     *time.Time `json:"at,omitempty"`     // of the task
	Wanted *time.Time `json:"wanted,omitempty"` // by the query
	Fields string     `json:"fields,omitempty"` // other than the time that differ: "payload, queue"
}

// Reconcile compares the tasks of a type with those that a query yields, and mends the differences if asked to: it
// schedules what is missing or differs, as Schedule would, and cancels the orphans. All is compared as of one
// instant, in bounded memory: the server sorts on disk, this process holds some 1,000 rows (each payload at most 256
// KiB), however many there are.
//
// It runs in a savepoint of tx: an error leaves nothing changed and the transaction usable, and the query itself
// always runs READ ONLY. Without Apply a read-only transaction will do.
//
// Others may schedule meanwhile. What they changed after the comparison is never overwritten: the error wraps
// ErrConflict, in READ COMMITTED as in REPEATABLE READ. What agreed when compared is not locked. One race is left, to
// the next run: whoever cancels a task that does not exist leaves no trace, so a missing task is created although it
// was called off just now.
//
// It returns an error wrapping ErrInvalid for a query that is not as it must be, or yields what Schedule would
// refuse.
func (s *Store) Reconcile(ctx context.Context, tx pgx.Tx, config ReconcileConfig) (ReconcileReport, error) {
	r := &reconciliation{store: s, config: config, missing: map[string]bool{}}
	r.report = ReconcileReport{Type: config.Type, Applied: config.Apply, Done: map[Outcome]int{}}
	if config.Examples == 0 {
		r.config.Examples = DefaultReconcileExamples
	}
	if err := s.source.Err; err != nil {
		return ReconcileReport{}, fmt.Errorf("reconcile: %w", err)
	}
	if err := CheckType(config.Type); err != nil {
		return ReconcileReport{}, fmt.Errorf("reconcile: %w", err)
	}
	if err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return r.run(ctx, tx) }); err != nil {
		return ReconcileReport{}, fmt.Errorf("reconcile type %s: %w", config.Type, conflict(err))
	}
	return r.report, nil
}

// conflict marks what a new transaction would not meet.
func conflict(err error) error {
	var refused *pgconn.PgError
	// serialization_failure, deadlock_detected
	if errors.As(err, &refused) && (refused.Code == "40001" || refused.Code == "40P01") {
		return fmt.Errorf("%w: %w", ErrConflict, err)
	}
	return err
}

// reconciliation is one call of Reconcile.
type reconciliation struct {
	store    *Store
	config   ReconcileConfig
	report   ReconcileReport
	tx       pgx.Tx
	last     string // the id that the query yielded before
	payloads bool   // the query yields payloads
	todo     []repair
	bytes    int             // of the payloads in todo
	missing  map[string]bool // ids in todo that did not exist
}

// repair is a task to schedule, or an orphan to cancel.
type repair struct {
	id       string
	revision *int64 // as compared; nil: there was no task
	task     *Task  // nil: an orphan
	bytes    int    // of the payload
}

const (
	getTimeoutSQL = `SELECT current_setting('statement_timeout')`
	setTimeoutSQL = `SELECT set_config('statement_timeout', $1::text, true)`
)

func (r *reconciliation) run(ctx context.Context, tx pgx.Tx) error {
	r.tx = tx
	if r.config.Timeout <= 0 {
		return r.walk(ctx)
	}
	before, err := query.Value[string](ctx, r.store.source, tx, "read statement_timeout", getTimeoutSQL)
	if err != nil {
		return err
	}
	// Rounded up: 0 would be no timeout.
	limit := strconv.FormatInt((r.config.Timeout+time.Millisecond-1).Milliseconds(), 10) + "ms"
	if _, err := query.Value[string](ctx, r.store.source, tx, "set statement_timeout", setTimeoutSQL,
		limit); err != nil {
		return err
	}
	if err := r.walk(ctx); err != nil {
		return err // the rollback sets it back
	}
	_, err = query.Value[string](ctx, r.store.source, tx, "set statement_timeout back", setTimeoutSQL, before)
	return err
}

const closeSQL = `CLOSE tasktable_reconcile`

// walk goes through all pairs of what ought to be and what is, in the order of their ids, and mends on the way.
func (r *reconciliation) walk(ctx context.Context) error {
	if err := r.declare(ctx); err != nil {
		return err
	}
	for {
		pairs, err := r.fetch(ctx)
		if err != nil {
			return err
		}
		for _, pair := range pairs {
			if err := r.take(ctx, pair); err != nil {
				return err
			}
		}
		if last := len(pairs) == 0; last || len(r.todo) >= reconcileBatch || r.bytes >= reconcileBytes {
			if err := r.mend(ctx); err != nil {
				return err
			}
			if last {
				_, err := r.tx.Exec(ctx, closeSQL)
				return err
			}
		}
	}
}

// mend does what was found to do, in the order of the ids, as every bulk call does: so they do not deadlock.
func (r *reconciliation) mend(ctx context.Context) error {
	if err := r.lock(ctx); err != nil {
		return err
	}
	var tasks []Task
	var orphans []string
	bytes := 0
	for i, repair := range r.todo {
		if repair.task == nil {
			orphans = append(orphans, repair.id)
		} else {
			tasks = append(tasks, *repair.task)
			bytes += repair.bytes
		}
		if i+1 == len(r.todo) || len(tasks)+len(orphans) >= reconcileBatch || bytes >= reconcileBytes {
			if err := r.schedule(ctx, tasks); err != nil {
				return err
			}
			if err := r.cancel(ctx, orphans); err != nil {
				return err
			}
			tasks, orphans, bytes = nil, nil, 0
		}
	}
	r.todo, r.bytes = nil, 0
	return nil
}

const lockComparedSQL = `
SELECT t.id::text AS id, t.revision FROM tasktable.scheduled_tasks AS t
WHERE t.id = ANY (ARRAY(SELECT jsonb_array_elements_text($1::text::jsonb))) ORDER BY t.id::text COLLATE "C" FOR UPDATE`

// lock makes sure that the tasks are still what was compared. In REPEATABLE READ the lock itself fails where they are
// not. What the engine did meanwhile draws no revision: the verbs know what to do about that.
func (r *reconciliation) lock(ctx context.Context) error {
	var ids []string
	for _, repair := range r.todo {
		if repair.revision != nil {
			ids = append(ids, repair.id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return fmt.Errorf("encode ids: %w", err)
	}
	type lockedRow struct {
		ID       string
		Revision int64
	}
	rows, err := query.Collect[lockedRow](ctx, r.store.source, r.tx, "lock what was compared", lockComparedSQL,
		string(list))
	if err != nil {
		return err
	}
	now := make(map[string]int64, len(rows))
	for _, row := range rows {
		now[row.ID] = row.Revision
	}
	for _, repair := range r.todo {
		if repair.revision != nil && now[repair.id] != *repair.revision {
			return fmt.Errorf("task %s: %w", repair.id, ErrConflict)
		}
	}
	return nil
}

func (r *reconciliation) schedule(ctx context.Context, tasks []Task) error {
	receipts, err := r.store.scheduleMany(ctx, r.tx, tasks, "reconcile")
	if err != nil {
		return err
	}
	for _, receipt := range receipts {
		// One that did not exist cannot be locked: only now it shows that somebody else has made it meanwhile.
		if r.missing[receipt.ID] && receipt.Outcome != Created {
			return fmt.Errorf("task %s: %w", receipt.ID, ErrConflict)
		}
		delete(r.missing, receipt.ID)
		r.report.Done[receipt.Outcome]++
	}
	return nil
}

const cancelManySQL = `
SELECT done.id, done.revision, done.outcome
FROM jsonb_array_elements_text($1::text::jsonb) AS orphan CROSS JOIN LATERAL tasktable.cancel(orphan, $2::text) AS done`

func (r *reconciliation) cancel(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return fmt.Errorf("encode ids: %w", err)
	}
	receipts, err := r.store.call(ctx, r.tx, fmt.Sprintf("cancel %d orphans", len(ids)), cancelManySQL, string(list),
		r.store.author())
	for _, receipt := range receipts {
		r.report.Done[Outcome(receipt.Outcome)]++
	}
	return err
}
