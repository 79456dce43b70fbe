package store

import (
	"sync/atomic"
	"time"

	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

// Config configures a Store. The zero value works.
type Config struct {
	// Service is recorded as the author of each change, and in the column scheduled_by of each task. It has at most
	// 512 bytes. "" means the name of the database role.
	Service string
	// Schema is the Postgres schema of the tables. If the name is wrong, every call fails. "" means tasktable.
	Schema string
	// NoNotify keeps scheduling from waking the leader by NOTIFY. Tasks that are due at once then start within about
	// a second instead of some milliseconds. Resume, and verbs on a running task, still notify the node that runs the
	// task.
	NoNotify bool
	// Codec encodes the payloads that are scheduled. Package seal has a Codec that encrypts them. The nodes need the
	// same Codec. Nil means that payloads are stored unencoded.
	//
	// Schedule compares encoded payloads with the stored ones. After the first Codec is set, each waiting or running
	// task is therefore Rescheduled once, as an edit of its payload, when the application schedules it again. After a
	// change to a Rotated Codec, such as one with another key, only waiting tasks are, and keep their idempotency keys.
	Codec Codec
}

// wakeEvery is the least time between two notifications by one process. NOTIFY takes a lock that all committing
// notifiers share. If this limit or a rollback drops a notification, the leader finds the task at most a second
// later, because it looks at the table each second. It is less than the 20 ms after which the leader looks a second
// time, so that this second look also finds a task whose commit takes a little longer than the notified one's.
const wakeEvery = 10 * time.Millisecond

// started has a monotonic reading. If the machine's clock were asked, nobody would notify for as long as it was set
// back.
var started = time.Now()

// Store schedules tasks and reads them. It holds no connection. It is safe for concurrent use.
type Store struct {
	config   Config
	source   query.Source // each call returns its Err, so that New needs no error and fits in a package variable
	tenant   string       // whose calendars it is about; see ForTenant
	lastWake atomic.Int64 // nanoseconds since started, and wakeEvery
}

// New returns a Store. It does not report a malformed configuration. The first call on the Store does.
func New(config Config) *Store {
	schema, _ := NewSchema(config.Schema)
	return &Store{config: config, source: query.Source{Schema: schema, Err: config.Check()}}
}

// Check returns the error, wrapping ErrInvalid, with which each call of a Store fails that has this Config. It returns
// nil if the Config is good.
func (c Config) Check() error {
	if _, err := NewSchema(c.Schema); err != nil {
		return err
	}
	if err := check.Text("service", c.Service); err != nil {
		return err
	}
	return checkCodec(c.Codec)
}

// author returns the service, or nil, which stands for the database role.
func (s *Store) author() *string {
	if s.config.Service == "" {
		return nil
	}
	return &s.config.Service
}

// wake returns whether this call may notify, as text, because every driver can bind text. Only a call that is likely
// to notify counts towards wakeEvery. If calls for tasks of the far future counted, a busy application's calls for
// tasks that are due now would seldom wake the leader.
func (s *Store) wake(likely bool) string {
	if s.config.NoNotify {
		return "false"
	}
	if !likely {
		return "true" // the SQL function decides again, by the database's clock
	}
	now, last := int64(time.Since(started)+wakeEvery), s.lastWake.Load()
	if now-last < int64(wakeEvery) || !s.lastWake.CompareAndSwap(last, now) {
		return "false"
	}
	return "true"
}

// soon guesses, by this machine's clock, whether the engine has to act on the task within the next minute. A
// recurring task counts, because the leader has to plan its first fire.
func soon(task Task) bool {
	due := time.Until(task.At)
	if task.At.IsZero() {
		due = task.In
	}
	return task.Recurrence != nil || due < time.Minute
}
