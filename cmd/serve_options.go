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
type engineSettings struct{ scheduled.Config }

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
		{Flag: "service", Variable: "TASKTABLE_SERVICE", Kind: "name", Set: options.Text(&s.Service, store.MaxIDBytes),
			DefaultText: executable(), Usage: "this program's name among the nodes (default the executable's)"},
		{Flag: "role", Variable: "TASKTABLE_ROLE", Kind: "role", Default: string(scheduled.RoleBoth),
			Set:      options.OneOf(&s.Role, scheduled.RoleWorker, scheduled.RoleLeader, scheduled.RoleBoth),
			Complete: options.Words(scheduled.RoleWorker, scheduled.RoleLeader, scheduled.RoleBoth),
			Usage: "a worker never leads, and a leader runs no tasks, whatever --queue says. Some node must lead, " +
				"and some node must run tasks"},
		{Flag: "queue", Variable: "TASKTABLE_QUEUES", Kind: "name=slots", Repeatable: true,
			Set:     options.EachNamed(&s.Queues, store.CheckQueue, slots, queuesRule),
			Default: fmt.Sprintf("%s=%d", store.DefaultQueue, scheduled.DefaultSlots),
			Usage:   "a queue to work, and how many of its tasks run at once; may be repeated, or separated by commas"},
		{Flag: "share-slots", Variable: "TASKTABLE_SHARE_SLOTS", Set: options.Bool(&s.ShareSlots),
			Usage: "idle slots of one queue serve the others: the slots of --queue become weights"},
		{Flag: "strict-queues", Variable: "TASKTABLE_STRICT_QUEUES", Kind: "queues",
			Set: strictQueues(&s.StrictQueues),
			Usage: "queues of --queue, separated by commas, such as critical,default,low: all queues share their " +
				"slots, and a queue gets one only if no earlier queue can use it; queues that are not in the list " +
				"come last"},
		{Flag: "type-slots", Variable: "TASKTABLE_TYPE_SLOTS", Kind: "type=slots", Repeatable: true,
			Set: options.EachNamed(&s.TypeSlots, store.CheckType, slots, typeSlotsRule),
			Usage: "how many tasks of a type run at once on this node, in all its queues together, such as " +
				"HTTP_REQUEST=20, so that others have slots while its handlers are slow (default no limit); may be " +
				"repeated, or separated by commas"},
		{Flag: "pause", Variable: "TASKTABLE_PAUSED", Kind: "scope", Repeatable: true, Set: scopes(&s.Paused),
			Usage: "a scope that this node does not work: all, queue:NAME or type:NAME; may be repeated, or " +
				"separated by commas. Other nodes still work it. To pause it on all nodes: SELECT " +
				"tasktable.pause_scope('queue', 'NAME')"},
		{Flag: "default-queue", Variable: "TASKTABLE_DEFAULT_QUEUE", Kind: "name", Set: queueName(&s.Defaults.Queue),
			Usage: "the queue of tasks that name none, of all types; give all nodes the same (default " +
				store.DefaultQueue + "); to take it back: tasktable types remove '*'"},
		{Flag: "max-attempts", Variable: "TASKTABLE_MAX_ATTEMPTS", Kind: "number",
			Set: options.Int(&s.Defaults.MaxAttempts, 1, store.MaxMaxAttempts),
			Usage: "how many attempts a task may have that does not say it, of all types; give all nodes the same " +
				"(default " + strconv.Itoa(store.DefaultMaxAttempts) + ")"},
		{Flag: "retention", Variable: "TASKTABLE_RETENTION", Kind: "period", Set: options.Period(&s.Retention),
			Default: fmt.Sprintf("%.0fh", scheduled.DefaultRetention.Hours()),
			Usage: "how long finished tasks and their history are kept; off: for ever. The leader removes them, " +
				"so give all nodes the same value"},
		{Flag: "retention-type", Variable: "TASKTABLE_RETENTION_TYPES", Kind: "type=period", Repeatable: true,
			Set: options.EachNamed(&s.RetentionByType, store.CheckType, options.Period, periodsRule),
			Usage: "the same for the tasks of one type, such as LOG=24h or SEND_EMAIL=off; may be repeated, or " +
				"separated by commas"},
		{Flag: "poll-interval", Variable: "TASKTABLE_POLL_INTERVAL", Kind: "duration",
			Set:     options.Duration(&s.PollInterval, time.Second, time.Hour),
			Default: scheduled.DefaultPollInterval.String(),
			Usage:   "how often the leader looks at everything, even if it knows of no change"},
		{Flag: "look-ahead", Variable: "TASKTABLE_LOOK_AHEAD", Kind: "duration",
			Set:     options.DurationOrOff(&s.LookAhead, 10*time.Second),
			Default: scheduled.DefaultLookAhead.String(),
			Usage: "how long before its time the leader may claim a task, so that it starts on the millisecond; " +
				"0: not before its time"},
		{Flag: "start-allowance", Variable: "TASKTABLE_START_ALLOWANCE", Kind: "duration",
			Set:     options.Duration(&s.StartAllowance, time.Second, time.Hour),
			Default: scheduled.DefaultStartAllowance.String(),
			Usage: "how long a claimed task may wait for a slot, in addition to its expected execution time, before " +
				"its lease ends"},
		{Flag: "shutdown-timeout", Variable: "TASKTABLE_SHUTDOWN_TIMEOUT", Kind: "duration",
			Set:     options.DurationOrOff(&s.ShutdownTimeout, 24*time.Hour),
			Default: scheduled.DefaultShutdownTimeout.String(),
			Usage: "how long running tasks may go on after a signal, before the node interrupts them and queues " +
				"them again; 0: it interrupts them at once"},
		{Flag: "engine-conns", Variable: "TASKTABLE_ENGINE_CONNS", Kind: "number",
			Set:     options.Int(&s.EngineConns, 3, 100),
			Default: strconv.Itoa(scheduled.DefaultEngineConns),
			Usage:   "how many connections the engine's own pool has; the engine uses up to three more beside it"},
	}
}

// checkQueues refuses a strict order of queues that the node does not work. A misspelled queue would come last.
func (s *engineSettings) checkQueues() error {
	for _, queue := range s.StrictQueues {
		if s.Queues[queue] == 0 {
			return options.Usage("--strict-queues (TASKTABLE_STRICT_QUEUES) must name queues that this node works "+
				"(--queue), which are %s, got %q", strings.Join(sortedKeys(s.Queues), ", "), queue)
		}
	}
	return nil
}

// checkTypes refuses limits for types that the node does not run. A misspelled type would have no limit.
func (s *engineSettings) checkTypes(registry *handlers.Registry) error {
	for kind := range s.TypeSlots {
		if registry.Variant(kind) == nil {
			return options.Usage("--type-slots (TASKTABLE_TYPE_SLOTS) must name types that this node runs, which are "+
				"%s, got %q", strings.Join(registry.Types(), ", "), kind)
		}
	}
	return nil
}

const (
	queuesRule = "must be name=slots, or several separated by commas: each name once, of 1 to 64 of a-z, 0-9, " +
		"inner - or _, with 1 to 10000 slots"
	typeSlotsRule    = "must be TYPE=slots, or several separated by commas: each type once, with 1 to 10000 slots"
	strictQueuesRule = "must be names of queues separated by commas, each once, such as critical,default,low"
	periodsRule      = "must be TYPE=period, or several separated by commas: each type once, with off or " +
		options.PeriodRule
)

func slots(into *int) func(string) error { return options.Int(into, 1, 10000) }

func strictQueues(into *[]string) func(string) error {
	set := options.Each(into, func(name string) (string, error) { return name, store.CheckQueue(name) })
	return func(given string) error {
		if set(given) != nil || len(slices.Compact(slices.Sorted(slices.Values(*into)))) < len(*into) {
			return errors.New(strictQueuesRule)
		}
		return nil
	}
}

func scopes(into *[]store.Scope) func(string) error {
	return options.Each(into, func(item string) (store.Scope, error) {
		scope, err := store.ParseScope(item)
		if err != nil {
			return scope, errors.New("must be all, queue:NAME or type:NAME, or several separated by commas")
		}
		return scope, nil
	})
}
