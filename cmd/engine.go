package cmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/store"
)

// engineSettings are the parts of scheduled.Config that are options. Their bounds are the Config's own, which a test compares.
type engineSettings struct {
	service         string
	queues          map[string]int
	shareSlots      bool
	paused          []store.Scope
	retention       time.Duration
	retentionByType map[string]time.Duration
	pollInterval    time.Duration
	lookAhead       time.Duration
	startAllowance  time.Duration
	shutdownTimeout time.Duration
	engineConns     int
}

// executable is what the engine takes for the service where nobody says one.
func executable() string {
	path, err := os.Executable()
	if err != nil {
		return "tasktable"
	}
	return filepath.Base(path)
}

func (s *engineSettings) options() []option {
	return []option{
		{flag: "service", variable: "TASKTABLE_SERVICE", value: "name", set: text(&s.service, store.MaxIDBytes),
			unsaid: executable(), usage: "this program's name among the nodes (default the executable's)"},
		{flag: "queue", variable: "TASKTABLE_QUEUES", value: "name=slots", many: true, set: queues(&s.queues),
			fallback: fmt.Sprintf("%s=%d", store.DefaultQueue, scheduled.DefaultSlots),
			usage:    "a queue to work, and how many of its tasks run at once; may be repeated, or separated by commas"},
		{flag: "share-slots", variable: "TASKTABLE_SHARE_SLOTS", set: toggle(&s.shareSlots),
			usage: "idle slots of one queue serve the others: the slots of --queue become weights"},
		{flag: "pause", variable: "TASKTABLE_PAUSED", value: "scope", many: true, set: scopes(&s.paused),
			usage: "what this node does not work: all, queue:NAME or type:NAME; may be repeated, or separated by commas. Other nodes work it; to pause it on all of them: SELECT tasktable.pause_scope('queue', 'NAME')"},
		{flag: "retention", variable: "TASKTABLE_RETENTION", value: "period", set: period(&s.retention),
			fallback: fmt.Sprintf("%.0fh", scheduled.DefaultRetention.Hours()),
			usage:    "how long finished tasks and their history are kept; off: for ever. The leader removes them, so give all nodes the same"},
		{flag: "retention-type", variable: "TASKTABLE_RETENTION_TYPES", value: "type=period", many: true, set: periods(&s.retentionByType),
			usage: "the same for the tasks of a type, as LOG=24h or SEND_EMAIL=off; may be repeated, or separated by commas"},
		{flag: "poll-interval", variable: "TASKTABLE_POLL_INTERVAL", value: "duration", set: duration(&s.pollInterval, time.Second, time.Hour),
			fallback: scheduled.DefaultPollInterval.String(),
			usage:    "how often the leader looks at everything, whatever it knows"},
		{flag: "look-ahead", variable: "TASKTABLE_LOOK_AHEAD", value: "duration", set: durationOrOff(&s.lookAhead, 10*time.Second),
			fallback: scheduled.DefaultLookAhead.String(),
			usage:    "how long before its time a task may be claimed, to start on the millisecond; 0: not before"},
		{flag: "start-allowance", variable: "TASKTABLE_START_ALLOWANCE", value: "duration", set: duration(&s.startAllowance, time.Second, time.Hour),
			fallback: scheduled.DefaultStartAllowance.String(),
			usage:    "how much longer than its expected time a claimed task is left alone, for the wait for a slot"},
		{flag: "shutdown-timeout", variable: "TASKTABLE_SHUTDOWN_TIMEOUT", value: "duration", set: durationOrOff(&s.shutdownTimeout, 24*time.Hour),
			fallback: scheduled.DefaultShutdownTimeout.String(),
			usage:    "how long running tasks may go on after a signal, before they are interrupted and queued again; 0: not at all"},
		{flag: "engine-conns", variable: "TASKTABLE_ENGINE_CONNS", value: "number", set: whole(&s.engineConns, 3, 100),
			fallback: strconv.Itoa(scheduled.DefaultEngineConns),
			usage:    "the connections of the engine's own pool, beside which it has two more"},
	}
}

// apply sets the fields of config that these options are.
func (s *engineSettings) apply(config *scheduled.Config) {
	config.Service = s.service
	config.Queues = s.queues
	config.ShareSlots = s.shareSlots
	config.Paused = s.paused
	config.Retention = s.retention
	config.RetentionByType = s.retentionByType
	config.PollInterval = s.pollInterval
	config.LookAhead = s.lookAhead
	config.StartAllowance = s.startAllowance
	config.ShutdownTimeout = s.shutdownTimeout
	config.EngineConns = s.engineConns
}

// pausedNames is what this node does not work, for the log.
func (s *engineSettings) pausedNames() []string {
	names := make([]string, len(s.paused))
	for i, scope := range s.paused {
		names[i] = scope.String()
	}
	return names
}

var errQueues = errors.New("must be name=slots, or several separated by commas: each name once, of 1 to 64 of a-z, 0-9, inner - or _, " +
	"with 1 to 10000 slots")

func queues(into *map[string]int) func(string) error {
	return func(given string) error {
		found := map[string]int{}
		for item := range strings.SplitSeq(given, ",") {
			name, slots, _ := strings.Cut(strings.TrimSpace(item), "=")
			var number int
			if _, twice := found[name]; twice || store.CheckQueue(name) != nil || whole(&number, 1, 10000)(slots) != nil {
				return errQueues
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
			if _, twice := found[name]; twice || store.CheckType(name) != nil || period(&length)(text) != nil {
				return fmt.Errorf("must be TYPE=period, or several separated by commas: each type once, with off or %s", periodRule)
			}
			found[name] = length
		}
		*into = found
		return nil
	}
}
