package cmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/store"
)

// engineSettings are the parts of scheduled.Config that are options. A test checks that their bounds are those of the
// Config.
type engineSettings struct {
	service         string
	role            string
	queues          map[string]int
	shareSlots      bool
	strictQueues    []string
	typeSlots       map[string]int
	paused          []store.Scope
	retention       time.Duration
	defaults        store.Defaults
	retentionByType map[string]time.Duration
	pollInterval    time.Duration
	lookAhead       time.Duration
	startAllowance  time.Duration
	shutdownTimeout time.Duration
	engineConns     int
}

// executable is the name that the engine takes if no service is given.
func executable() string {
	path, err := os.Executable()
	if err != nil {
		return "tasktable"
	}
	return filepath.Base(path)
}

func (s *engineSettings) options() []options.Option {
	return []options.Option{
		{Flag: "service", Variable: "TASKTABLE_SERVICE", Kind: "name", Set: options.Text(&s.service, store.MaxIDBytes),
			DefaultText: executable(), Usage: "this program's name among the nodes (default the executable's)"},
		{Flag: "role", Variable: "TASKTABLE_ROLE", Kind: "role", Default: string(scheduled.RoleBoth),
			Set: options.OneOf(&s.role, string(scheduled.RoleWorker), string(scheduled.RoleLeader),
				string(scheduled.RoleBoth)),
			Complete: options.Words("worker", "leader", "both"),
			Usage: "a worker never leads, and a leader runs no tasks, whatever --queue says. Some node must lead, " +
				"and some node must run tasks"},
		{Flag: "queue", Variable: "TASKTABLE_QUEUES", Kind: "name=slots", Repeatable: true, Set: queues(&s.queues),
			Default: fmt.Sprintf("%s=%d", store.DefaultQueue, scheduled.DefaultSlots),
			Usage:   "a queue to work, and how many of its tasks run at once; may be repeated, or separated by commas"},
		{Flag: "share-slots", Variable: "TASKTABLE_SHARE_SLOTS", Set: options.Bool(&s.shareSlots),
			Usage: "idle slots of one queue serve the others: the slots of --queue become weights"},
		{Flag: "strict-queues", Variable: "TASKTABLE_STRICT_QUEUES", Kind: "queues",
			Set: strictQueues(&s.strictQueues),
			Usage: "queues of --queue, separated by commas, such as critical,default,low: all queues share their " +
				"slots, and a queue gets one only if no earlier queue can use it; queues that are not in the list " +
				"come last"},
		{Flag: "type-slots", Variable: "TASKTABLE_TYPE_SLOTS", Kind: "type=slots", Repeatable: true,
			Set: typeSlots(&s.typeSlots),
			Usage: "how many tasks of a type run at once on this node, in all its queues together, such as " +
				"HTTP_REQUEST=20, so that others have slots while its handlers are slow (default no limit); may be " +
				"repeated, or separated by commas"},
		{Flag: "pause", Variable: "TASKTABLE_PAUSED", Kind: "scope", Repeatable: true, Set: scopes(&s.paused),
			Usage: "a scope that this node does not work: all, queue:NAME or type:NAME; may be repeated, or " +
				"separated by commas. Other nodes still work it. To pause it on all nodes: SELECT " +
				"tasktable.pause_scope('queue', 'NAME')"},
		{Flag: "default-queue", Variable: "TASKTABLE_DEFAULT_QUEUE", Kind: "name", Set: queueName(&s.defaults.Queue),
			Usage: "the queue of tasks that name none, of all types; give all nodes the same (default " +
				store.DefaultQueue + "); to take it back: tasktable types remove '*'"},
		{Flag: "max-attempts", Variable: "TASKTABLE_MAX_ATTEMPTS", Kind: "number",
			Set: options.Int(&s.defaults.MaxAttempts, 1, store.MaxMaxAttempts),
			Usage: "how many attempts a task may have that does not say it, of all types; give all nodes the same " +
				"(default " + strconv.Itoa(store.DefaultMaxAttempts) + ")"},
		{Flag: "retention", Variable: "TASKTABLE_RETENTION", Kind: "period", Set: options.Period(&s.retention),
			Default: fmt.Sprintf("%.0fh", scheduled.DefaultRetention.Hours()),
			Usage: "how long finished tasks and their history are kept; off: for ever. The leader removes them, " +
				"so give all nodes the same value"},
		{Flag: "retention-type", Variable: "TASKTABLE_RETENTION_TYPES", Kind: "type=period", Repeatable: true,
			Set: periods(&s.retentionByType),
			Usage: "the same for the tasks of one type, such as LOG=24h or SEND_EMAIL=off; may be repeated, or " +
				"separated by commas"},
		{Flag: "poll-interval", Variable: "TASKTABLE_POLL_INTERVAL", Kind: "duration",
			Set:     options.Duration(&s.pollInterval, time.Second, time.Hour),
			Default: scheduled.DefaultPollInterval.String(),
			Usage:   "how often the leader looks at everything, even if it knows of no change"},
		{Flag: "look-ahead", Variable: "TASKTABLE_LOOK_AHEAD", Kind: "duration",
			Set:     options.DurationOrOff(&s.lookAhead, 10*time.Second),
			Default: scheduled.DefaultLookAhead.String(),
			Usage: "how long before its time the leader may claim a task, so that it starts on the millisecond; " +
				"0: not before its time"},
		{Flag: "start-allowance", Variable: "TASKTABLE_START_ALLOWANCE", Kind: "duration",
			Set:     options.Duration(&s.startAllowance, time.Second, time.Hour),
			Default: scheduled.DefaultStartAllowance.String(),
			Usage: "how long a claimed task may wait for a slot, in addition to its expected execution time, before " +
				"its lease ends"},
		{Flag: "shutdown-timeout", Variable: "TASKTABLE_SHUTDOWN_TIMEOUT", Kind: "duration",
			Set:     options.DurationOrOff(&s.shutdownTimeout, 24*time.Hour),
			Default: scheduled.DefaultShutdownTimeout.String(),
			Usage: "how long running tasks may go on after a signal, before the node interrupts them and queues " +
				"them again; 0: it interrupts them at once"},
		{Flag: "engine-conns", Variable: "TASKTABLE_ENGINE_CONNS", Kind: "number",
			Set:     options.Int(&s.engineConns, 3, 100),
			Default: strconv.Itoa(scheduled.DefaultEngineConns),
			Usage:   "how many connections the engine's own pool has; the engine uses up to three more beside it"},
	}
}

// apply sets the fields of config that these options are.
func (s *engineSettings) apply(config *scheduled.Config) {
	config.Service = s.service
	config.Role = scheduled.Role(s.role)
	config.Queues = s.queues
	config.ShareSlots = s.shareSlots
	config.StrictQueues = s.strictQueues
	config.TypeSlots = s.typeSlots
	config.Paused = s.paused
	config.Defaults = s.defaults
	config.Retention = s.retention
	config.RetentionByType = s.retentionByType
	config.PollInterval = s.pollInterval
	config.LookAhead = s.lookAhead
	config.StartAllowance = s.startAllowance
	config.ShutdownTimeout = s.shutdownTimeout
	config.EngineConns = s.engineConns
}

// checkQueues refuses a strict order of queues that the node does not work. A misspelled queue would come last.
func (s *engineSettings) checkQueues() error {
	for _, queue := range s.strictQueues {
		if s.queues[queue] == 0 {
			return options.Usage("--strict-queues (TASKTABLE_STRICT_QUEUES) must name queues that this node works "+
				"(--queue), which are %s, got %q", strings.Join(sortedKeys(s.queues), ", "), queue)
		}
	}
	return nil
}

// checkTypes refuses limits for types that the node does not run. A misspelled type would have no limit.
func (s *engineSettings) checkTypes(registry *handlers.Registry) error {
	for kind := range s.typeSlots {
		if registry.Variant(kind) == nil {
			return options.Usage("--type-slots (TASKTABLE_TYPE_SLOTS) must name types that this node runs, which are "+
				"%s, got %q", strings.Join(registry.Types(), ", "), kind)
		}
	}
	return nil
}

// pausedNames are the scopes that this node does not run, for the log.
func (s *engineSettings) pausedNames() []string {
	names := make([]string, len(s.paused))
	for i, scope := range s.paused {
		names[i] = scope.String()
	}
	return names
}

var errQueues = errors.New("must be name=slots, or several separated by commas: each name once, of 1 to 64 of a-z, " +
	"0-9, inner - or _, " +
	"with 1 to 10000 slots")

var errTypeSlots = errors.New("must be TYPE=slots, or several separated by commas: each type once, with 1 to 10000 " +
	"slots")

var errStrictQueues = errors.New("must be names of queues separated by commas, each once, such as critical,default,low")

func strictQueues(into *[]string) func(string) error {
	return func(given string) error {
		var found []string
		for item := range strings.SplitSeq(given, ",") {
			name := strings.TrimSpace(item)
			if slices.Contains(found, name) || store.CheckQueue(name) != nil {
				return errStrictQueues
			}
			found = append(found, name)
		}
		*into = found
		return nil
	}
}

func queues(into *map[string]int) func(string) error { return slots(into, store.CheckQueue, errQueues) }

func typeSlots(into *map[string]int) func(string) error {
	return slots(into, store.CheckType, errTypeSlots)
}

// slots reads numbers of slots by name.
func slots(into *map[string]int, check func(name string) error, wrong error) func(string) error {
	return func(given string) error {
		found := map[string]int{}
		for item := range strings.SplitSeq(given, ",") {
			name, slots, _ := strings.Cut(strings.TrimSpace(item), "=")
			var number int
			if _, twice := found[name]; twice || check(name) != nil ||
				options.Int(&number, 1, 10000)(slots) != nil {
				return wrong
			}
			found[name] = number
		}
		*into = found
		return nil
	}
}

func scopes(into *[]store.Scope) func(string) error {
	return func(given string) error {
		var found []store.Scope
		for item := range strings.SplitSeq(given, ",") {
			scope, err := store.ParseScope(strings.TrimSpace(item))
			if err != nil {
				return errors.New("must be all, queue:NAME or type:NAME, or several separated by commas")
			}
			found = append(found, scope)
		}
		*into = found
		return nil
	}
}

// periods reads the periods by type. A type's name has neither a comma nor an equals sign.
func periods(into *map[string]time.Duration) func(string) error {
	return func(given string) error {
		found := map[string]time.Duration{}
		for item := range strings.SplitSeq(given, ",") {
			name, text, _ := strings.Cut(strings.TrimSpace(item), "=")
			var length time.Duration
			if _, twice := found[name]; twice || store.CheckType(name) != nil || options.Period(&length)(text) != nil {
				return fmt.Errorf("must be TYPE=period, or several separated by commas: each type once, with off or "+
					"%s", options.PeriodRule)
			}
			found[name] = length
		}
		*into = found
		return nil
	}
}
