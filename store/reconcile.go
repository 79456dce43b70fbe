package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

// ErrConflict is wrapped by the error of Reconcile if another transaction changed a task between the comparison and
// the repair. Reconcile has changed nothing. The application can try again in a new transaction.
var ErrConflict = errors.New("changed by another transaction meanwhile")

// DefaultReconcileExamples is used if ReconcileConfig.Examples is 0.
const DefaultReconcileExamples = 5

const (
	reconcileBatch = 1000     // rows read, and tasks repaired, at a time
	reconcileBytes = 16 << 20 // of payloads repaired at a time, approximately
)

// ReconcileConfig tells Reconcile which tasks ought to exist.
type ReconcileConfig struct {
	// Type is the type of the tasks. Reconcile leaves tasks of other types alone.
	Type string
	// Query is one SELECT without parameters. It yields each task that ought to exist. These are the tasks that have
	// to wait, and as many of the finished ones as the query likes. The query must only read. Its columns:
	//
	//	id                       or key, for the id task-{Type}-{key}
	//	scheduled_at             timestamptz
	//	payload                  jsonb; Reconcile fills in the type; null is an object with only the type
	//	entity, tenant_id, group_key, queue, priority, expiration, expected_execution_time, max_attempts:
	//	                         as in a Task; null for the default
	//
	// Reconcile does not compare a column that the query does not have. An existing task keeps its value, and a new
	// task gets the default. Only a Store that has the Codec of encoded payloads can compare them. Without it
	// Reconcile returns an error.
	Query string
	// EntityColumn is the query's name for the column of the entity. "" means entity.
	EntityColumn string
	// Apply makes Reconcile repair the differences. Tasks that have ended run again only with Rearm.
	Apply bool
	// Rearm makes Apply also run tasks again that have ended at another time than the query yields. They run at once
	// if the query's time has passed.
	Rearm bool
	// Examples is the number of tasks of each kind that the report names. 0 means 5. A negative number means none.
	Examples int
	// Timeout is the statement_timeout of each statement. The first statement does most of the work. 0 means the
	// transaction's own statement_timeout.
	Timeout time.Duration
}

// ReconcileReport tells what Reconcile found and did.
type ReconcileReport struct {
	Type string `json:"type"`
	// Agree is the number of tasks that wait or run as the query yields them.
	Agree int `json:"agree"`
	// Finished is the number of tasks that have ended, other than by a cancel, at the time that the query yields.
	// They do not run again.
	Finished int `json:"finished"`
	// Missing tasks do not exist.
	Missing ReconcileFinding `json:"missing"`
	// Cancelled tasks have not run because they were cancelled. Apply queues them again.
	Cancelled ReconcileFinding `json:"cancelled"`
	// Ended tasks have ended, other than by a cancel, at another time than the query yields. Schedule would run them
	// again.
	Ended ReconcileFinding `json:"ended"`
	// WrongTime tasks wait for another time than the query yields. Other fields may differ, too.
	WrongTime ReconcileFinding `json:"wrong_time"`
	// OtherContent tasks wait for the right time, but differ in another field.
	OtherContent ReconcileFinding `json:"other_content"`
	// Orphaned tasks wait or run although the query does not yield them. Recurring tasks and their occurrences never
	// count as orphaned.
	Orphaned ReconcileFinding `json:"orphaned"`
	// Applied tells whether Reconcile repaired the differences. Done counts the outcomes of the repairs.
	Applied bool            `json:"applied"`
	Done    map[Outcome]int `json:"done,omitempty"`
	// Left is the number of Ended tasks that Apply left as they are, because Rearm was not set.
	Left int `json:"left,omitempty"`
}

// Drift returns the number of tasks that differed from the query when Reconcile compared them, even if it then
// repaired them.
func (r ReconcileReport) Drift() int {
	return r.Missing.Count + r.Cancelled.Count + r.Ended.Count + r.WrongTime.Count + r.OtherContent.Count +
		r.Orphaned.Count
}

// ReconcileFinding counts the tasks that differ in one way. Examples has the first of them by id.
type ReconcileFinding struct {
	Count    int                `json:"count"`
	Examples []ReconcileExample `json:"examples,omitempty"`
}

// ReconcileExample is one task that differs.
type ReconcileExample struct {
	ID     string     `json:"id"`
	Status Status     `json:"status,omitempty"` // "" if the task does not exist
	At     *time.Time `json:"at,omitempty"`     // the task's time
	Wanted *time.Time `json:"wanted,omitempty"` // the time that the query yields
	Fields string     `json:"fields,omitempty"` // the fields that differ besides the time, as "payload, queue"
}

// Reconcile compares the tasks of a type with the tasks that a query yields. If Apply is set, it repairs the
// differences: it schedules missing and differing tasks as Schedule would, and cancels orphaned ones. It compares all
// tasks as of one instant, in bounded memory. However many tasks there are, Postgres sorts them on its disk, and this
// process holds about 1,000 rows at a time, each with a payload of at most 256 KiB.
//
// Reconcile runs in a savepoint of tx. After an error nothing is changed, and the transaction is still usable. The
// query itself always runs READ ONLY. Without Apply, tx may be a read-only transaction.
//
// Other transactions may schedule tasks meanwhile. Reconcile never overwrites a change that they made after the
// comparison. Instead it returns an error that wraps ErrConflict, in READ COMMITTED as well as in REPEATABLE READ. It
// does not lock tasks that agreed when it compared them. One race remains, which the next run repairs: cancelling a
// task that does not exist leaves no trace, therefore Reconcile creates a missing task although the application has
// just called it off.
//
// The error wraps ErrInvalid if the query breaks one of the rules above, or yields a task that Schedule would refuse.
func (s *Store) Reconcile(ctx context.Context, tx pgx.Tx, config ReconcileConfig) (ReconcileReport, error) {
	r := &reconciliation{store: s, config: config, missing: map[string]bool{}}
	r.report = ReconcileReport{Type: config.Type, Applied: config.Apply, Done: map[Outcome]int{}}
	if config.Examples == 0 {
		r.config.Examples = DefaultReconcileExamples
	}
	if err := s.source.Err; err != nil {
		return ReconcileReport{}, fmt.Errorf("reconcile: %w", err)
	}
	if err := cmp.Or(check.DB(tx), CheckType(config.Type)); err != nil {
		return ReconcileReport{}, fmt.Errorf("reconcile: %w", err)
	}
	if err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return r.run(ctx, tx) }); err != nil {
		return ReconcileReport{}, fmt.Errorf("reconcile type %s: %w", config.Type, conflict(err))
	}
	return r.report, nil
}

// conflict marks an error that a new transaction would not meet.
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
	last     string // the id of the query's previous row
	payloads bool   // whether the query has a column payload
	todo     []repair
	bytes    int             // of the payloads in todo
	missing  map[string]bool // ids in todo that did not exist
}

// repair is a task to schedule, or an orphan to cancel.
type repair struct {
	id       string
	revision *int64 // when compared; nil: there was no task
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
	// Rounded up, because 0 would mean no timeout.
	limit := strconv.FormatInt((r.config.Timeout+time.Millisecond-1).Milliseconds(), 10) + "ms"
	if _, err := query.Value[string](ctx, r.store.source, tx, "set statement_timeout", setTimeoutSQL,
		limit); err != nil {
		return err
	}
	if err := r.walk(ctx); err != nil {
		return err // the rollback of the savepoint restores the setting
	}
	_, err = query.Value[string](ctx, r.store.source, tx, "set statement_timeout back", setTimeoutSQL, before)
	return err
}

const closeSQL = `CLOSE tasktable_reconcile`

// walk reads all pairs of a wanted and a stored task in the order of their ids, and repairs the differences on the
// way.
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

// mend makes the repairs in todo. It locks the rows in the order in which every bulk call does, so that such calls do
// not deadlock.
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
WHERE t.id = ANY (ARRAY(SELECT jsonb_array_elements_text($1::text::jsonb))) ORDER BY t.id || '~' FOR NO KEY UPDATE`

// lock locks the stored tasks and makes sure that they are still as compared. In REPEATABLE READ the lock itself
// fails if they are not. Changes by the engine do not change the revision, so lock does not see them. The verbs
// handle these changes.
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
		// A task that did not exist cannot be locked. Only the outcome shows that somebody else has created it
		// meanwhile.
		if r.missing[receipt.ID] && receipt.Outcome != Created {
			return fmt.Errorf("task %s: %w", receipt.ID, ErrConflict)
		}
		delete(r.missing, receipt.ID)
		r.report.Done[receipt.Outcome]++
	}
	return nil
}

const cancelManySQL = `
SELECT done.id, coalesce(done.revision, 0) AS revision, done.outcome
FROM jsonb_array_elements_text($1::text::jsonb) AS orphan CROSS JOIN LATERAL tasktable.cancel(orphan, $2::text) AS done`

func (r *reconciliation) cancel(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return fmt.Errorf("encode ids: %w", err)
	}
	receipts, err := query.Collect[Receipt](ctx, r.store.source, r.tx, fmt.Sprintf("cancel %d orphans", len(ids)),
		cancelManySQL, string(list), r.store.author())
	for _, receipt := range receipts {
		r.report.Done[receipt.Outcome]++
	}
	return err
}
