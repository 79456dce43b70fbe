package cmd

import (
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/store"
)

func TestFlagWinsOverVariableOverDefault(t *testing.T) {
	for _, test := range []struct {
		name      string
		args      []string
		variables []string
		want      time.Duration
	}{
		{"default", nil, nil, time.Minute},
		{"variable", nil, []string{"TASKTABLE_POLL_INTERVAL=2s"}, 2 * time.Second},
		{"last of two variables", nil, []string{"TASKTABLE_POLL_INTERVAL=2s", "TASKTABLE_POLL_INTERVAL=4s"},
			4 * time.Second},
		{"empty variable", nil, []string{"TASKTABLE_POLL_INTERVAL="}, time.Minute},
		{"flag", []string{"--poll-interval", "3s"}, nil, 3 * time.Second},
		{"flag and variable", []string{"--poll-interval=3s"}, []string{"TASKTABLE_POLL_INTERVAL=2s"}, 3 * time.Second},
		{"last of two flags", []string{"--poll-interval=3s", "--poll-interval=5s"}, nil, 5 * time.Second},
		{"empty flag", []string{"--poll-interval="}, []string{"TASKTABLE_POLL_INTERVAL=2s"}, time.Minute},
		{"wrong variable hidden by a flag", []string{"--poll-interval=3s"}, []string{"TASKTABLE_POLL_INTERVAL=soon"},
			3 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			var settings engineSettings
			resolveArgs(t, settings.options(), test.variables, test.args)
			if settings.pollInterval != test.want {
				t.Errorf("got %s, want %s", settings.pollInterval, test.want)
			}
		})
	}
}

func TestQueuesAreRepeatedOrSeparatedByCommas(t *testing.T) {
	both := map[string]int{"default": 5, "mail": 2}
	for _, test := range []struct {
		name      string
		args      []string
		variables []string
		want      map[string]int
	}{
		{"default", nil, nil, map[string]int{"default": 100}},
		{"variable", nil, []string{"TASKTABLE_QUEUES=default=5, mail=2"}, both},
		{"flags", []string{"--queue", "default=5", "--queue", "mail=2"}, []string{"TASKTABLE_QUEUES=other=9"}, both},
		{"one flag", []string{"--queue=default=5,mail=2"}, nil, both},
	} {
		t.Run(test.name, func(t *testing.T) {
			var settings engineSettings
			resolveArgs(t, settings.options(), test.variables, test.args)
			if !maps.Equal(settings.queues, test.want) {
				t.Errorf("got %v, want %v", settings.queues, test.want)
			}
		})
	}
}

func TestZeroTurnsOff(t *testing.T) {
	var settings engineSettings
	resolveArgs(t, settings.options(), []string{"TASKTABLE_LOOK_AHEAD=0"}, []string{"--shutdown-timeout=0s"})
	if settings.lookAhead != -1 || settings.shutdownTimeout != -1 {
		t.Errorf("got %d and %d, want -1, which is off for scheduled.Config", settings.lookAhead,
			settings.shutdownTimeout)
	}
}

func TestPausesAreRepeatedOrSeparatedByCommas(t *testing.T) {
	both := []store.Scope{store.Queue("mail"), store.Type("SEND:EMAIL")}
	for _, test := range []struct {
		name      string
		args      []string
		variables []string
		want      []store.Scope
	}{
		{"default", nil, nil, nil},
		{"variable", nil, []string{"TASKTABLE_PAUSED=queue:mail, type:SEND:EMAIL"}, both},
		{"flags", []string{"--pause", "queue:mail", "--pause", "type:SEND:EMAIL"}, []string{"TASKTABLE_PAUSED=all"},
			both},
		{"empty flag", []string{"--pause="}, []string{"TASKTABLE_PAUSED=all"}, nil},
		{"everything", []string{"--pause=all"}, nil, []store.Scope{store.Everything()}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var settings engineSettings
			resolveArgs(t, settings.options(), test.variables, test.args)
			if !slices.Equal(settings.paused, test.want) {
				t.Errorf("got %v, want %v", settings.paused, test.want)
			}
		})
	}
}

func TestRoleAndStrictQueuesAreThoseOfTheConfig(t *testing.T) {
	for _, test := range []struct {
		name      string
		args      []string
		variables []string
		role      scheduled.Role
		strict    []string
	}{
		{"default", nil, nil, scheduled.RoleBoth, nil},
		{"variables", nil, []string{"TASKTABLE_ROLE=worker", "TASKTABLE_STRICT_QUEUES=critical, default"},
			scheduled.RoleWorker, []string{"critical", "default"}},
		{"flags", []string{"--role=leader", "--strict-queues=low"}, []string{"TASKTABLE_ROLE=worker"},
			scheduled.RoleLeader, []string{"low"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var settings engineSettings
			resolveArgs(t, settings.options(), test.variables, test.args)
			var config scheduled.Config
			settings.apply(&config)
			if config.Role != test.role || !slices.Equal(config.StrictQueues, test.strict) {
				t.Errorf("got %s and %v", config.Role, config.StrictQueues)
			}
		})
	}
}

func TestRetentionIsAPeriodOrOff(t *testing.T) {
	for _, test := range []struct {
		name      string
		args      []string
		variables []string
		want      time.Duration
		byType    map[string]time.Duration
	}{
		{"default", nil, nil, 90 * term.Day, nil},
		{"variables", nil, []string{"TASKTABLE_RETENTION=720h", "TASKTABLE_RETENTION_TYPES=LOG=24h, SEND_EMAIL=off"},
			30 * term.Day,
			map[string]time.Duration{"LOG": term.Day, "SEND_EMAIL": -1}},
		{"flags", []string{"--retention=off", "--retention-type=LOG=24h", "--retention-type", "SEND_EMAIL=off"},
			nil, -1,
			map[string]time.Duration{"LOG": term.Day, "SEND_EMAIL": -1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var settings engineSettings
			resolveArgs(t, settings.options(), test.variables, test.args)
			var config scheduled.Config
			settings.apply(&config)
			if config.Retention != test.want || !maps.Equal(config.RetentionByType, test.byType) {
				t.Errorf("got %s and %v, want %s and %v", config.Retention, config.RetentionByType, test.want,
					test.byType)
			}
		})
	}
}

func TestHelpOfEachFlagShowsItsVariable(t *testing.T) {
	p := newProgram(nil, io.Discard, io.Discard)
	withoutVariable := map[string]bool{"help": true, "version": true, "yes": true, "example": true}
	// What these commands are about is said on the command line alone: a variable that somebody has forgotten would
	// change it.
	aboutTasks := map[string]bool{"tasks": true, "dead": true, "recurring": true, "queues": true, "nodes": true, "limits": true, "types": true,
		"calendars": true,
		"stats":     true, "why": true, "keys": true, "notices": true, "metrics": true}
	seen := 0
	p.eachFlag(func(command *cobra.Command, flag *pflag.Flag) {
		o, ok := options.Of(flag)
		if withoutVariable[flag.Name] || ok && o.Variable == "" &&
			aboutTasks[strings.Fields(command.CommandPath() + " -")[1]] {
			return
		}
		if !ok || !strings.HasSuffix(flag.Usage, "[$"+o.Variable+"]") {
			t.Errorf("%s: the help of --%s does not end with its variable: %s", command.CommandPath(), flag.Name,
				flag.Usage)
		} else if name := o.Variable; name != "DATABASE_URL" && !strings.HasPrefix(name, "TASKTABLE_") {
			t.Errorf("%s: --%s: the variable %s lacks the prefix", command.CommandPath(), flag.Name, name)
		}
		seen++
	})
	if seen < 55 {
		t.Errorf("saw %d flags only", seen)
	}
}

func TestEachCommandHasAnExample(t *testing.T) {
	newProgram(nil, io.Discard, io.Discard).eachCommand(func(command *cobra.Command) {
		if name := command.Name(); !command.HasExample() && name != "help" && name != "completion" {
			t.Errorf("%s has no example", command.CommandPath())
		}
	})
}

func (p *program) eachCommand(do func(*cobra.Command)) {
	var visit func(*cobra.Command)
	visit = func(command *cobra.Command) {
		do(command)
		for _, sub := range command.Commands() {
			visit(sub)
		}
	}
	visit(p.rootCommand())
}

func (p *program) eachFlag(do func(*cobra.Command, *pflag.Flag)) {
	p.eachCommand(func(command *cobra.Command) {
		command.Flags().VisitAll(func(flag *pflag.Flag) { do(command, flag) })
	})
}

// resolveArgs makes a command of the options and runs it.
func resolveArgs(t *testing.T, opts []options.Option, variables, args []string) {
	t.Helper()
	p := newProgram(variables, io.Discard, io.Discard)
	ran := false
	command := p.Bind(&cobra.Command{Use: "test"}, opts, func(*cobra.Command) error { ran = true; return nil })
	command.SetArgs(append([]string{}, args...))
	if err := command.Execute(); err != nil || !ran {
		t.Fatalf("ran: %t, error: %v", ran, err)
	}
}
