package scheduled

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

// Defaults of Config.
const (
	DefaultSlots           = 100
	DefaultPollInterval    = time.Minute
	DefaultLookAhead       = time.Second
	DefaultStartAllowance  = time.Minute
	DefaultShutdownTimeout = 30 * time.Second
	DefaultEngineConns     = 6
	DefaultRetention       = 90 * 24 * time.Hour
)

// Config of a node. Pool and Handlers are required; every other field has a default.
type Config struct {
	// Pool is where transactional handlers get their transactions, and where the engine learns the database's address. The
	// engine's own connections are apart from it, so handlers that use up the pool do not stop the engine.
	Pool *pgxpool.Pool
	// Handlers is the union this node can run. Tasks of other types are left to other nodes.
	Handlers *handlers.Registry
	// Service is the program's name in the nodes table and in follow-up tasks. "": the executable's name.
	Service string
	// Version is the program's version in the nodes table. "": unknown.
	Version string
	// Schema is the Postgres schema of the tables. "": tasktable.
	Schema string
	// Queues are the queues this node works, each with its slots: how many handlers run at once. Nil: {"default": 100}. Slots
	// are 1 to 10000; too many for the machine slow every handler, too few leave due tasks waiting.
	Queues map[string]int
	// ShareSlots lets idle slots of one queue serve the others, so that the numbers in Queues are weights: {"critical": 60,
	// "default": 30, "low": 10} runs 100 handlers of any queue while the others have nothing to do. A queue that wants its own slots
	// back gets those that fall free first; until then it waits for handlers of other queues.
	ShareSlots bool
	// Paused is what this node does not work, whatever its Queues and Handlers: a queue, a type or everything. It may still lead,
	// and others work what it does not. To pause something on all nodes at once, without a deployment, see store.PauseScope.
	Paused []store.Scope
	// Recurring are the recurring tasks declared in code; each needs a Recurrence. They are reconciled for the Service: changed
	// ones are updated, which does not fire them, and those no longer declared are cancelled. While two versions of the service run
	// side by side, the version whose first node started later decides, which after a deployment is the newer one. When its last node
	// is gone, the other version's list holds again. A task that somebody cancelled stays cancelled. Nil says nothing, and leaves what
	// other nodes of the service declare; an empty list that is not nil declares that there are none.
	Recurring []store.Task
	// OnDead is called for each task that becomes FAILED or EXPIRED, and so does not run again by itself. The node that ran the task
	// calls it after the outcome is recorded. For tasks that the leader finds, it is the first node that has the type and a hook: so
	// give OnDead and OnLost to all nodes of the service.
	//
	// It must not block for long. At most 1,000 calls of both hooks wait in line; the log names a call that is left out beyond that. It must
	// return when its context ends. A call may also be missed when a node dies, so look into the table for what must not be missed.
	OnDead func(ctx context.Context, dead Dead)
	// OnLost is called, as OnDead is, for each attempt whose node died or whose lease ended, and whose task runs again. Where it was the
	// last attempt, OnDead is called instead.
	OnLost func(ctx context.Context, lost Lost)
	// Retention is how long finished tasks and their history are kept, for types not in RetentionByType and tasks without one of
	// their own; at least a minute. 0: 90 days; -1: for ever.
	Retention time.Duration
	// RetentionByType overrides Retention for the tasks of a type; -1: for ever.
	RetentionByType map[string]time.Duration
	// Connect opens the session connection, which must be one to Postgres itself: a pooler in transaction mode is refused,
	// because it would share the advisory locks. Each new connection of the engine's own pool then asks Connect, too: the pool takes
	// the settings of the connection that Connect returns, closes it, and opens its own with them. So Connect may give a password of a
	// short life. Nil: with the Pool's settings.
	Connect func(ctx context.Context) (*pgx.Conn, error)
	// PollInterval is how often the leader looks at everything, whatever it knows: the safety net under its exact timers. 1 s
	// to 1 h. 0: one minute.
	PollInterval time.Duration
	// LookAhead is how long before its time a task may be claimed, to start on the millisecond; -1 turns it off, at the cost
	// of some milliseconds. At most 10 s: an edit to an earlier time within it waits for the holder to let go. 0: 1 s.
	LookAhead time.Duration
	// StartAllowance is added to a claim's lease for the wait for a slot, and so that the lease outlives the handler's context. It does
	// not change how long a handler may take. Too short a one costs extra statements for tasks that wait, never a lost task. 1 s to
	// 1 h. 0: one minute.
	StartAllowance time.Duration
	// ShutdownTimeout is how long a stop lets running handlers end before it interrupts them. An interrupted task is queued
	// again and loses no attempt. 0: 30 s; -1: interrupts at once.
	ShutdownTimeout time.Duration
	// Backoff is the wait before each retry, for types without one of their own. Nil: DefaultBackoff.
	Backoff handlers.Backoff
	// EngineConns is the size of the engine's own pool, River's connections included; 3 to 100. Beside it a node has a session
	// and a listener, so that it needs EngineConns + 2 connections besides those of Pool, and never more. Fewer make settling slower. 0: 6.
	EngineConns int
	// Metrics is where the node registers its metrics while it runs; monitoring/README.md lists them. They have no label for the node: of two
	// nodes in one process each needs a prometheus.WrapRegistererWith of its own, or the second does not start. Nil: there are none.
	Metrics prometheus.Registerer
	// Codec decodes the payloads that were scheduled with one (store.Config.Codec), and encodes those of follow-ups and of Recurring. A
	// node without it, or without the key, fails the attempt, which is tried again: give it to all nodes before anything is scheduled with
	// it. Payloads that are not encoded it takes as they are. Nil: none are encoded.
	Codec store.Codec
	// Logger gets one line an event, never a payload. Nil: slog.Default().
	Logger *slog.Logger
	// LogErrors says whether the log line of an attempt that failed has the text of its error: one line of at most 1,000 bytes, without
	// control characters, and at level debug the stack of a panic. Errors are your handlers' own texts, so that they may contain what a
	// payload does. Nil: true, unless there is a Codec.
	LogErrors *bool
	// Tracer makes an OpenTelemetry span of each attempt: a root of its own, of kind consumer, named by the type, that links to the
	// span in which the task was scheduled. What the handler calls with its context are its children; what it schedules links to it.
	// The attributes have the task's id, type, queue, revision and attempt, the node, the delay and the outcome; never a payload, nor
	// the text of an error. Nil: no spans.
	Tracer trace.TracerProvider

	directConnect  bool          // Connect was given
	declareEvery   time.Duration // for tests; 0: declareEvery
	zones          *zones        // for tests; nil: the machine's
	zonesEvery     time.Duration // for tests; 0: zonesEvery
	censusEvery    time.Duration // for tests; 0: censusEvery
	abandonedAfter time.Duration // for tests; 0: abandonedAfter
}

func (c Config) withDefaults() Config {
	if c.Service == "" {
		c.Service = "tasktable"
		if path, err := os.Executable(); err == nil {
			c.Service = baseName(path)
		}
	}
	if c.Version == "" {
		c.Version = "unknown"
	}
	if c.Schema == "" {
		c.Schema = store.DefaultSchema
	}
	if c.Queues == nil {
		c.Queues = map[string]int{store.DefaultQueue: DefaultSlots}
	}
	c.Queues = maps.Clone(c.Queues)
	if c.PollInterval == 0 {
		c.PollInterval = DefaultPollInterval
	}
	if c.LookAhead == 0 {
		c.LookAhead = DefaultLookAhead
	}
	if c.StartAllowance == 0 {
		c.StartAllowance = DefaultStartAllowance
	}
	if c.ShutdownTimeout == 0 {
		c.ShutdownTimeout = DefaultShutdownTimeout
	}
	if c.Retention == 0 {
		c.Retention = DefaultRetention
	}
	c.RetentionByType = maps.Clone(c.RetentionByType)
	c.Paused, c.Recurring = slices.Clone(c.Paused), slices.Clone(c.Recurring)
	if c.Backoff == nil {
		c.Backoff = DefaultBackoff
	}
	if c.EngineConns == 0 {
		c.EngineConns = DefaultEngineConns
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.directConnect = c.directConnect || c.Connect != nil
	if c.Connect == nil && c.Pool != nil {
		pool := c.Pool.Config()
		c.Connect = func(ctx context.Context) (*pgx.Conn, error) {
			settings := pool.ConnConfig.Copy()
			settings.OnNotification = nil  // the service's own: the listener would hear nothing
			if pool.BeforeConnect != nil { // where passwords of a short life come from
				if err := pool.BeforeConnect(ctx, settings); err != nil {
					return nil, err
				}
			}
			return pgx.ConnectConfig(ctx, settings)
		}
	}
	return c
}

// validate names every field that is wrong, not just the first.
func (c Config) validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	between := func(field string, value, least, most time.Duration) {
		if value < least || value > most {
			wrong("%s must be between %s and %s, got %s", field, least, most, value)
		}
	}
	if c.Pool == nil {
		wrong("Pool is required")
	}
	if c.Handlers == nil {
		wrong("Handlers is required")
	}
	if _, err := store.NewSchema(c.Schema); err != nil {
		wrong("Schema: %w", err)
	}
	if len(c.Service) > store.MaxIDBytes {
		wrong("Service must be at most %d bytes, got %d", store.MaxIDBytes, len(c.Service))
	}
	if len(c.Queues) == 0 {
		wrong("Queues must name at least one queue")
	}
	for queue, slots := range c.Queues {
		if err := store.CheckQueue(queue); err != nil {
			wrong("Queues: %w", err)
		}
		if slots < 1 || slots > 10000 {
			wrong("Queues: slots of %q must be between 1 and 10000, got %d", queue, slots)
		}
	}
	between("PollInterval", c.PollInterval, time.Second, time.Hour)
	if c.LookAhead != -1 {
		between("LookAhead", c.LookAhead, 0, 10*time.Second)
	}
	between("StartAllowance", c.StartAllowance, time.Second, time.Hour)
	if c.ShutdownTimeout != -1 {
		between("ShutdownTimeout", c.ShutdownTimeout, 0, 24*time.Hour)
	}
	if c.Retention != -1 {
		between("Retention", c.Retention, time.Minute, store.MaxRetention)
	}
	for name, period := range c.RetentionByType {
		if err := store.CheckType(name); err != nil {
			wrong("RetentionByType: %w", err)
		}
		if period != -1 {
			between("RetentionByType["+name+"]", period, time.Minute, store.MaxRetention)
		}
	}
	for i, scope := range c.Paused {
		if err := scope.Check(); err != nil {
			wrong("Paused[%d]: %w", i, err)
		}
	}
	ids := map[string]bool{}
	for i, task := range c.Recurring {
		if err := task.Check(); err != nil {
			wrong("Recurring[%d]: %w", i, err)
			continue
		}
		if task.Recurrence == nil {
			wrong("Recurring[%d] needs a Recurrence", i)
		} else if id := idOf(task); ids[id] {
			wrong("Recurring[%d]: id must be another's than those before it, got %q again", i, id)
		} else {
			ids[id] = true
		}
	}
	if c.EngineConns < 3 || c.EngineConns > 100 {
		wrong("EngineConns must be between 3 and 100, got %d", c.EngineConns)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("scheduled.Config: %w: %w", store.ErrInvalid, err)
	}
	return nil
}

// works is the queues, with their slots, and the types that the node takes tasks of.
func (c Config) works() (queues map[string]int, types []string) {
	paused := func(queue, kind string) bool {
		return slices.ContainsFunc(c.Paused, func(scope store.Scope) bool { return scope.Has(queue, kind) })
	}
	queues = maps.Clone(c.Queues)
	maps.DeleteFunc(queues, func(queue string, _ int) bool { return paused(queue, "") })
	types = slices.DeleteFunc(slices.Clone(c.Handlers.Types()), func(kind string) bool { return paused("", kind) })
	return queues, types
}

// workingSlots is the slots of the queues that the node works: shared, each queue has those of all.
func (c Config) workingSlots() map[string]int {
	queues, _ := c.works()
	if c.ShareSlots {
		shareSlots(queues)
	}
	return queues
}

// places is how many transactional handlers run at once. Two connections of the service's pool are left to others.
func (c Config) places() int { return max(1, int(c.Pool.Config().MaxConns)-2) }

// transactional lists the types whose handlers take a transaction.
func (c Config) transactional() []string {
	return slices.DeleteFunc(slices.Clone(c.Handlers.Types()), func(kind string) bool {
		return c.Handlers.Variant(kind).Kind == handlers.KindPlain
	})
}
