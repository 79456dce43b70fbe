package store

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

// Config of a Store. The zero value works.
type Config struct {
	// Service is recorded with each change as its author, and in scheduled_by; at most 512 bytes. "": the database
	// role.
	Service string
	// Schema is the Postgres schema of the tables. A wrong one makes every call fail. "": tasktable.
	Schema string
	// NoNotify keeps scheduling from waking the leader by NOTIFY. Tasks due at once then start within about a second
	// instead of some milliseconds. Verbs on a running task, and Resume, still tell its node.
	NoNotify bool
	// Codec encodes the payloads that are scheduled, as package seal does to encrypt them; nodes need it, too.
	// Schedule compares what is stored: with a Codec, or a key, that is new, each task that waits, or runs, is
	// Rescheduled once. Nil: they are stored as they are.
	Codec Codec
}

// wakeEvery bounds how often one process notifies: NOTIFY takes a lock that all committing notifiers share. A
// notification that this, or a rollback, swallows costs at most the second between two of the leader's own looks.
const wakeEvery = 20 * time.Millisecond

// Store schedules tasks and reads them. It holds no connection, and may be used by many goroutines.
type Store struct {
	config   Config
	source   query.Source // each call returns its Err, so that New fits in a package variable
	lastWake atomic.Int64
}

// New makes a Store. A malformed configuration is reported by the first call.
func New(config Config) *Store {
	schema, err := NewSchema(config.Schema)
	if err == nil {
		err = check.Text("service", config.Service)
	}
	return &Store{config: config, source: query.Source{Schema: schema, Err: err}}
}

// call runs a statement that returns receipts.
func (s *Store) call(ctx context.Context, db DB, doing, statement string, args ...any) ([]receiptRow, error) {
	rows, err := s.source.Rows(ctx, db, doing, statement, args...)
	if err != nil {
		return nil, err
	}
	receipts, err := pgx.CollectRows(rows, pgx.RowToStructByNameLax[receiptRow])
	return receipts, query.Annotate(err, doing)
}

func (s *Store) callOne(ctx context.Context, db DB, doing, statement string, args ...any) (Receipt, error) {
	receipts, err := s.call(ctx, db, doing, statement, args...)
	if err != nil {
		return Receipt{}, err
	}
	if len(receipts) != 1 {
		return Receipt{}, fmt.Errorf("%s: %d answers instead of one", doing, len(receipts))
	}
	return receipts[0].receipt(), nil
}

// author is the service, or nil for the database role.
func (s *Store) author() *string {
	if s.config.Service == "" {
		return nil
	}
	return &s.config.Service
}

// wake says whether this call may notify. Only one that is likely to do so uses up the debounce: were far tasks to do
// it, a busy application's near ones would seldom wake anybody. The text is for binding: text goes through every
// driver.
func (s *Store) wake(likely bool) string {
	if s.config.NoNotify {
		return "false"
	}
	if !likely {
		return "true" // the database, whose clock counts, knows better
	}
	now, last := time.Now().UnixNano(), s.lastWake.Load()
	if now-last < int64(wakeEvery) || !s.lastWake.CompareAndSwap(last, now) {
		return "false"
	}
	return "true"
}

// soon is a guess, by this machine's clock, whether there is something to do about a task within the next seconds. A
// recurring one is to be planned.
func soon(task Task) bool {
	return task.Recurrence != nil || task.At.IsZero() || time.Until(task.At) < time.Minute
}
