package cmd

import (
	"errors"
	"fmt"
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
	pollInterval    time.Duration
	lookAhead       time.Duration
	startAllowance  time.Duration
	shutdownTimeout time.Duration
	engineConns     int
}

func (s *engineSettings) options() []option {
	return []option{
		{flag: "service", variable: "TASKTABLE_SERVICE", value: "name", set: text(&s.service, store.MaxIDBytes),
			usage: "this program's name among the nodes (default the executable's)"},
		{flag: "queue", variable: "TASKTABLE_QUEUES", value: "name=slots", many: true, set: queues(&s.queues),
			fallback: fmt.Sprintf("%s=%d", store.DefaultQueue, scheduled.DefaultSlots),
			usage:    "a queue to work, and how many of its tasks run at once; may be repeated, or separated by commas"},
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
	config.PollInterval = s.pollInterval
	config.LookAhead = s.lookAhead
	config.StartAllowance = s.startAllowance
	config.ShutdownTimeout = s.shutdownTimeout
	config.EngineConns = s.engineConns
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
