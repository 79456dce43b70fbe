package scheduled

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/notice/rules"
	"github.com/tasktable/tasktable/scheduled/internal/outcome"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
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

// Config is the configuration of a node. Pool and Handlers are required. Every other field has a default.
type Config struct {
	// Pool gives transactional handlers their transactions. The engine learns the database's address from it. The
	// engine's own connections are not part of it, so handlers that use up the pool do not stop the engine.
	Pool *pgxpool.Pool
	// Handlers lists the handlers that this node has. Tasks of other types are left to other nodes.
	Handlers *handlers.Registry
	// Service is the program's name in the nodes table and in follow-up tasks. The default is the executable's name.
	Service string
	// Version is the program's version in the nodes table. The default is "unknown".
	Version string
	// Schema is the Postgres schema of the tables. The default is "tasktable".
	Schema string
	// Role is RoleBoth, RoleWorker or RoleLeader. A worker never leads, so some other node must. A leader runs no tasks
	// and has no slots: it ignores Queues and the other settings about slots. The default is RoleBoth.
	Role Role
	// Queues are the queues that this node works. The value of each is its slots, which is how many of its handlers
	// run at once: 1 to 10000. Too many slots for the machine slow every handler. Too few leave due tasks waiting.
	// The default is {"default": 100}.
	Queues map[string]int
	// ShareSlots lets idle slots of one queue serve the other queues. The numbers in Queues are then weights: with
	// {"critical": 60, "default": 30, "low": 10}, any one queue can run 100 handlers while the others have nothing to
	// do. A queue that wants its own slots back gets the next slots that become free. Until then it waits for
	// handlers of other queues.
	ShareSlots bool
	// StrictQueues are queues of Queues in a strict order, such as {"critical", "default", "low"}. All queues of the
	// node then share their slots. A free slot goes to a due task of the first queue, whatever the priorities. It goes
	// to the second queue only if the first one has no due task that can use the slot, and so on. Queues that are not
	// in the list come last. A later queue waits for as long as the earlier ones have work for all slots.
	//
	// The order also holds for tasks that compete for a limit. The leader joins the orders of all nodes. It ignores an
	// order that contradicts those of nodes that started later. The default is that no queue comes first.
	StrictQueues []string
	// TypeSlots limits how many handlers of a type run at once on this node, in all its queues together: 1 to 10000.
	// The other slots stay free for other types, so that a type whose handlers wait for a slow server does not hold
	// all of them. Each name must be a type of Handlers. A type without an entry may use all slots, which is the
	// default.
	TypeSlots map[string]int
	// Paused lists the scopes that this node does not work, even if Queues and Handlers have them. A scope is a queue,
	// a type or everything. The node may still lead, and other nodes work these scopes. To pause a scope on all nodes
	// at once, without a deployment, see store.PauseScope.
	Paused []store.Scope
	// Recurring are the recurring tasks that the code declares. Each needs a Recurrence. The node makes the service's
	// Recurring tasks agree with this list. It updates tasks that have changed, which does not fire them, and cancels
	// tasks that are no longer declared. A task that somebody cancelled stays cancelled.
	//
	// While two versions of the service run side by side, the version whose first node started later decides. After a
	// deployment that is the newer version. When its last node is gone, the other version's list holds again.
	//
	// Nil declares nothing, and does not touch the tasks that other nodes of the service declare. An empty list that
	// is not nil declares that there are no recurring tasks.
	Recurring []store.Task
	// Notices are the rules of notices that the code declares, as Recurring are the recurring tasks. The node makes the
	// service's rules agree with this list. A rule whose recipients do not exist yet is tried again twice a minute. To
	// send notices, a node also needs the handlers of package notice and its recurring task.
	//
	// Nil declares nothing, and an empty list that is not nil declares that there are no rules.
	Notices []rules.Rule
	// Limits are the limits that the code declares, as Recurring are the recurring tasks. The node makes the service's
	// limits agree with this list. If somebody has changed one, the next node of the service that starts sets it again.
	// A limit that somebody has set, or another service declares, is not taken over, and the log says so.
	//
	// Nil declares nothing, and an empty list that is not nil declares that there are no limits.
	Limits []store.Limit
	// Calendars are the general calendars that the code declares, as Limits are the limits. A calendar that rules of
	// tasks still name is not removed when the code declares it no longer, and the log says so.
	//
	// Nil declares nothing, and an empty list that is not nil declares that there are no calendars.
	Calendars []store.Calendar
	// Defaults are the defaults of all types, see store.Defaults. Those of a type are methods of its payload. Their
	// Type must be empty. A process writes them to the database when its node starts, so give all nodes the same.
	// Without Defaults it writes nothing, and removes nothing.
	Defaults store.Defaults
	// OnDead is called for each task that becomes FAILED or EXPIRED, and therefore does not run again by itself. The
	// node that ran the task calls it after the outcome is recorded. For a task that the leader finds, the first node
	// that has the type and a hook calls it. Therefore give OnDead and OnLost to all nodes of the service.
	//
	// OnDead must not block for long, and must return when its context ends. At most 1,000 calls of both hooks wait in
	// line. Calls beyond that are left out, and the log names them. A call may also be missed when a node dies. So use
	// OnDead for work that may be missed, such as a metric. For work that must follow each death, such as a
	// compensation, use store.Task.IfDead.
	OnDead func(ctx context.Context, dead Failure)
	// OnLost is called, in the same way as OnDead, for each attempt whose node died or whose lease ended, if the task
	// runs again. If it was the last attempt, OnDead is called instead.
	OnLost func(ctx context.Context, lost Failure)
	// Retention is how long finished tasks and their history are kept. A task's own retention and RetentionByType
	// override it. It must be at least a minute. The default is 90 days. -1 keeps them for ever.
	Retention time.Duration
	// RetentionByType overrides Retention for the tasks of a type. -1 keeps them for ever.
	RetentionByType map[string]time.Duration
	// Connect opens the session connection. It must connect to Postgres itself. A pooler in transaction mode is
	// refused, because its clients would share the advisory locks. The default is to connect with the Pool's
	// settings.
	//
	// If Connect is set, the engine's own pool calls it, too, before each new connection. The pool takes the settings
	// of the connection that Connect returns, closes that connection, and opens its own with the settings. Therefore
	// Connect may give a password that is valid only for a short time.
	Connect func(ctx context.Context) (*pgx.Conn, error)
	// PollInterval is how often the leader looks at everything, whatever it knows. It is the safety net under the
	// leader's exact timers. It must be between 1 s and 1 h. The default is one minute.
	PollInterval time.Duration
	// LookAhead is how long before its time a task may be claimed, so that it can start on the millisecond. It must
	// be at most 10 s, because an edit that moves a claimed task to an earlier time must wait until the holder has
	// released the task. -1 turns it off, at the cost of some milliseconds. The default is 1 s.
	LookAhead time.Duration
	// StartAllowance is added to the lease of a claim. It covers the wait for a slot, and it lets the lease outlive
	// the handler's context. It does not change how long a handler may take. A short allowance costs extra statements
	// for tasks that wait, but never loses a task. It must be between 1 s and 1 h. The default is one minute.
	StartAllowance time.Duration
	// ShutdownTimeout is how long a stop waits for running handlers before it interrupts them. An interrupted task is
	// queued again and loses no attempt. It must be at most 24 h. -1 interrupts at once. The default is 30 s.
	ShutdownTimeout time.Duration
	// Backoff is the wait before each retry, for types that have no backoff of their own. The default is
	// DefaultBackoff.
	Backoff handlers.Backoff
	// EngineConns is the size of the engine's own pool, which includes River's connections. It must be between 3 and
	// 100. The node also has a session and a listener, and one more connection while it leads. So it needs at most
	// EngineConns + 3 connections, and those of Pool. A small pool makes settling slower. The default is 6.
	EngineConns int
	// Metrics is where the node registers its metrics while it runs; monitoring/README.md lists them. They have no
	// label for the node. Two nodes in one process each need a prometheus.WrapRegistererWith of their own, or the
	// second does not start. Nil means no metrics.
	Metrics prometheus.Registerer
	// Codec decodes the payloads that were scheduled with a codec (store.Config.Codec). It encodes the payloads of
	// follow-ups and of Recurring. A node without the codec, or without the key, fails the attempt, which is tried
	// again. Therefore give it to all nodes before anything is scheduled with it. It does not touch payloads that are
	// not encoded. Nil means that no payload is encoded.
	Codec store.Codec
	// Logger gets one line an event, and never a payload. The default is slog.Default().
	Logger *slog.Logger
	// LogErrors says whether the log line of a failed attempt has the text of its error. That text is one line of at
	// most 1,000 bytes, without control characters. At level debug, the log also has the stack of a panic. Errors are
	// the texts of your own handlers, so they may contain parts of a payload. The default is true, unless there is a
	// Codec.
	LogErrors *bool
	// Tracer makes an OpenTelemetry span of each attempt. The span is a root of its own, of kind consumer, and is
	// named after the type. It links to the span in which the task was scheduled. Spans that the handler starts with
	// its context are its children, and tasks that the handler schedules link to it. The attributes are the task's
	// id, type, queue, revision and attempt, the node, the delay and the outcome. They never have a payload or the
	// text of an error. Nil means no spans. The handler's context then has the span in which the task was scheduled,
	// unless the task is an occurrence.
	Tracer trace.TracerProvider

	declareEvery   time.Duration // for tests; 0: declareEvery
	zones          *taskdb.Zones // for tests; nil: the machine's
	censusEvery    time.Duration // for tests; 0: censusEvery
	abandonedAfter time.Duration // for tests; 0: abandonedAfter
	hungAfter      time.Duration // for tests; 0: worker.HungAfter
}

func (c Config) withDefaults() Config {
	if path, err := os.Executable(); err == nil {
		c.Service = cmp.Or(c.Service, filepath.Base(path))
	}
	c.Service, c.Version = cmp.Or(c.Service, "tasktable"), cmp.Or(c.Version, "unknown")
	c.Schema = cmp.Or(c.Schema, store.DefaultSchema)
	if c.Queues == nil {
		c.Queues = map[string]int{store.DefaultQueue: DefaultSlots}
	}
	c.Role = cmp.Or(c.Role, RoleBoth)
	c.Queues, c.TypeSlots = maps.Clone(c.Queues), maps.Clone(c.TypeSlots)
	c.StrictQueues = slices.Clone(c.StrictQueues)
	c.ShareSlots = c.ShareSlots || len(c.StrictQueues) > 0
	c.PollInterval = cmp.Or(c.PollInterval, DefaultPollInterval)
	c.LookAhead = cmp.Or(c.LookAhead, DefaultLookAhead)
	c.StartAllowance = cmp.Or(c.StartAllowance, DefaultStartAllowance)
	c.ShutdownTimeout = cmp.Or(c.ShutdownTimeout, DefaultShutdownTimeout)
	c.Retention = cmp.Or(c.Retention, DefaultRetention)
	c.RetentionByType = maps.Clone(c.RetentionByType)
	c.Paused, c.Recurring = slices.Clone(c.Paused), slices.Clone(c.Recurring)
	c.Notices = slices.Clone(c.Notices)
	c.Limits, c.Calendars = slices.Clone(c.Limits), slices.Clone(c.Calendars)
	if c.Backoff == nil {
		c.Backoff = DefaultBackoff
	}
	c.EngineConns = cmp.Or(c.EngineConns, DefaultEngineConns)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.LogErrors == nil { // who encrypts payloads does not want a handler's error to bring parts of them into the log
		c.LogErrors = new(c.Codec == nil)
	}
	return c
}

// validate returns an error that names every wrong field, not only the first.
func (c Config) validate() error {
	_, schemaErr := store.NewSchema(c.Schema)
	errs := []error{
		must(c.Pool != nil, "Pool is required"),
		must(c.Handlers != nil, "Handlers is required"),
		pg.Annotate(schemaErr, "Schema"),
		pg.Annotate(store.Config{Codec: c.Codec}.Check(), "Codec"),
		must(len(c.Service) <= store.MaxIDBytes,
			"Service must be at most %d bytes, got %d", store.MaxIDBytes, len(c.Service)),
		c.checkRole(),
		must(len(c.Queues) > 0, "Queues must name at least one queue"),
		between("PollInterval", c.PollInterval, time.Second, time.Hour),
		betweenOrOff("LookAhead", c.LookAhead, 0, 10*time.Second),
		between("StartAllowance", c.StartAllowance, time.Second, time.Hour),
		betweenOrOff("ShutdownTimeout", c.ShutdownTimeout, 0, 24*time.Hour),
		betweenOrOff("Retention", c.Retention, time.Minute, store.MaxRetention),
		between("EngineConns", c.EngineConns, 3, 100),
	}
	for queue, slots := range c.Queues {
		errs = append(errs, pg.Annotate(store.CheckQueue(queue), "Queues"),
			between(fmt.Sprintf("Queues: slots of %q", queue), slots, 1, 10000))
	}
	errs = append(errs, c.checkStrictQueues()...)
	for name, slots := range c.TypeSlots {
		errs = append(errs, between(fmt.Sprintf("TypeSlots: slots of %q", name), slots, 1, 10000),
			must(c.Handlers == nil || c.Handlers.Variant(name) != nil,
				"TypeSlots: the node must have a handler of each type, and has none of %q", name))
	}
	for name, period := range c.RetentionByType {
		errs = append(errs, pg.Annotate(store.CheckType(name), "RetentionByType"),
			betweenOrOff("RetentionByType["+name+"]", period, time.Minute, store.MaxRetention))
	}
	for i, scope := range c.Paused {
		errs = append(errs, pg.Annotate(scope.Check(), fmt.Sprintf("Paused[%d]", i)))
	}
	for i, rule := range c.Notices {
		errs = append(errs, pg.Annotate(rule.Check(), fmt.Sprintf("Notices[%d]", i)))
	}
	errs = append(errs, c.checkLimits()...)
	errs = append(errs, c.checkCalendars()...)
	every := c.Defaults
	every.Type = store.AllTypes
	errs = append(errs, pg.Annotate(every.Check(), "Defaults"),
		must(c.Defaults.Type == "", "Defaults must have no Type, got %q", c.Defaults.Type))
	ids := map[string]bool{}
	for i, task := range c.Recurring {
		if err := task.Check(); err != nil {
			errs = append(errs, fmt.Errorf("Recurring[%d]: %w", i, err))
			continue
		}
		id := taskdb.IDOf(task)
		errs = append(errs, must(task.Recurrence != nil, "Recurring[%d] needs a Recurrence", i),
			must(!ids[id], "Recurring[%d]: id must differ from those before it, got %q again", i, id))
		ids[id] = true
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("scheduled.Config: %w: %w", store.ErrInvalid, err)
	}
	return nil
}

// must returns the error of a rule that does not hold.
func must(holds bool, rule string, args ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf(rule, args...)
}

func between[T cmp.Ordered](field string, value, least, most T) error {
	return must(value >= least && value <= most, "%s must be between %v and %v, got %v", field, least, most, value)
}

// betweenOrOff is between for a field that -1 turns off.
func betweenOrOff(field string, value, least, most time.Duration) error {
	if value == -1 {
		return nil
	}
	return between(field, value, least, most)
}

// works is the queues, with their slots, and the types of which the node takes tasks. A leader takes none.
func (c Config) works() (queues map[string]int, types []string) {
	if c.Role == RoleLeader {
		return map[string]int{}, []string{}
	}
	paused := func(queue, kind string) bool {
		return slices.ContainsFunc(c.Paused, func(scope store.Scope) bool { return scope.Has(queue, kind) })
	}
	queues = maps.Clone(c.Queues)
	maps.DeleteFunc(queues, func(queue string, _ int) bool { return paused(queue, "") })
	types = slices.DeleteFunc(slices.Clone(c.Handlers.Types()), func(kind string) bool { return paused("", kind) })
	return queues, types
}

// workingSlots is the slots of the queues that the node works. If they are shared, each queue has the slots of all.
func (c Config) workingSlots() map[string]int {
	queues, _ := c.works()
	if c.ShareSlots {
		taskdb.ShareSlots(queues)
	}
	return queues
}

// places is how many transactional handlers run at once. Two connections of Pool are left for other uses.
func (c Config) places() int { return max(1, int(c.Pool.Config().MaxConns)-2) }

// transactional lists the types whose handlers take a transaction.
func (c Config) transactional() []string {
	return slices.DeleteFunc(slices.Clone(c.Handlers.Types()), func(kind string) bool {
		return c.Handlers.Variant(kind).Kind == handlers.KindPlain
	})
}

// registration is the entry of the nodes table for a node.
func (c Config) registration(quiet bool) session.Registration {
	slots, types := c.works()
	queues, _ := json.Marshal(slots)                               // texts and numbers always encode
	limits, _ := json.Marshal(maps.Collect(maps.All(c.TypeSlots))) // {} instead of null
	defaults, _ := json.Marshal(c.Defaults)
	return session.Registration{
		Service: c.Service, Version: c.Version, Queues: string(queues), Types: types, Quiet: quiet,
		MayLead: c.Role != RoleWorker, ShareSlots: c.ShareSlots, StrictQueues: c.strictQueues(),
		TypeSlots: string(limits), Defaults: string(defaults),
		DeclarationHash:  c.declaration().Hash(),
		ReceivesFailures: c.OnDead != nil || c.OnLost != nil, Transactional: c.transactional(), Places: c.places(),
	}
}

// DefaultBackoff returns the wait after a failed attempt. The first attempt has the number 1. The wait is 10 s × 3ⁿ⁻¹
// for attempt n, at most an hour, plus a random part of up to a quarter, so that tasks that failed together do not
// come back together. It ignores the error.
func DefaultBackoff(attempt int, err error) time.Duration {
	return outcome.DefaultBackoff(attempt, err)
}
