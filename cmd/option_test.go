package cmd

import (
	"bytes"
	"io"
	"log/slog"
	"reflect"
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

// Flags and variables of serve set the fields of the node's Config.
func TestOptionsOfANode(t *testing.T) {
	both := map[string]int{"default": 5, "mail": 2}
	pauses := []store.Scope{store.Queue("mail"), store.Type("SEND:EMAIL")}
	byType := map[string]time.Duration{"LOG": term.Day, "SEND_EMAIL": -1}
	for _, test := range []struct {
		variables []string
		args      string
		change    func(*scheduled.Config) // of the defaults
	}{
		{nil, "", func(*scheduled.Config) {}},
		{[]string{"TASKTABLE_QUEUES=default=5, mail=2"}, "", func(c *scheduled.Config) { c.Queues = both }},
		{[]string{"TASKTABLE_QUEUES=other=9"}, "--queue default=5 --queue mail=2",
			func(c *scheduled.Config) { c.Queues = both }},
		{nil, "--queue=default=5,mail=2", func(c *scheduled.Config) { c.Queues = both }},
		// off, of which 0 would be the default of the Config
		{[]string{"TASKTABLE_LOOK_AHEAD=0"}, "--shutdown-timeout=0s",
			func(c *scheduled.Config) { c.LookAhead, c.ShutdownTimeout = -1, -1 }},
		{[]string{"TASKTABLE_PAUSED=queue:mail, type:SEND:EMAIL"}, "", func(c *scheduled.Config) { c.Paused = pauses }},
		{[]string{"TASKTABLE_PAUSED=all"}, "--pause queue:mail --pause type:SEND:EMAIL",
			func(c *scheduled.Config) { c.Paused = pauses }},
		{[]string{"TASKTABLE_PAUSED=all"}, "--pause=", func(*scheduled.Config) {}},
		{nil, "--pause=all", func(c *scheduled.Config) { c.Paused = []store.Scope{store.Everything()} }},
		{[]string{"TASKTABLE_ROLE=worker", "TASKTABLE_STRICT_QUEUES=critical, default"}, "", func(c *scheduled.Config) {
			c.Role, c.StrictQueues = scheduled.RoleWorker, []string{"critical", "default"}
		}},
		{[]string{"TASKTABLE_ROLE=worker"}, "--role=leader --strict-queues=low", func(c *scheduled.Config) {
			c.Role, c.StrictQueues = scheduled.RoleLeader, []string{"low"}
		}},
		{[]string{"TASKTABLE_RETENTION=720h", "TASKTABLE_RETENTION_TYPES=LOG=24h, SEND_EMAIL=off"}, "",
			func(c *scheduled.Config) { c.Retention, c.RetentionByType = 30*term.Day, byType }},
		{nil, "--retention=off --retention-type=LOG=24h --retention-type SEND_EMAIL=off",
			func(c *scheduled.Config) { c.Retention, c.RetentionByType = -1, byType }},
		{nil, "--share-slots --type-slots=LOG=2",
			func(c *scheduled.Config) { c.ShareSlots, c.TypeSlots = true, map[string]int{"LOG": 2} }},
		{[]string{"TASKTABLE_SHARE_SLOTS=1"}, "", func(c *scheduled.Config) { c.ShareSlots = true }},
		{[]string{"TASKTABLE_SHARE_SLOTS=false"}, "", func(*scheduled.Config) {}},
		{[]string{"TASKTABLE_SHARE_SLOTS=true"}, "--share-slots=false", func(*scheduled.Config) {}},
		{[]string{"TASKTABLE_DEFAULT_QUEUE=mail", "TASKTABLE_SERVICE=shop"}, "--max-attempts=3", func(c *scheduled.Config) {
			c.Service, c.Defaults.Queue, c.Defaults.MaxAttempts = "shop", "mail", 3
		}},
	} {
		t.Run(strings.Join(append(test.variables, test.args), " "), func(t *testing.T) {
			want := scheduled.Config{Role: scheduled.RoleBoth, Queues: map[string]int{"default": 100},
				Retention: 90 * term.Day, PollInterval: time.Minute, LookAhead: scheduled.DefaultLookAhead,
				StartAllowance: scheduled.DefaultStartAllowance, ShutdownTimeout: scheduled.DefaultShutdownTimeout,
				EngineConns: scheduled.DefaultEngineConns}
			test.change(&want)
			var settings engineSettings
			resolveArgs(t, settings.options(), test.variables, strings.Fields(test.args))
			if !reflect.DeepEqual(settings.Config, want) {
				t.Errorf("got\n%+v\nwant\n%+v", settings.Config, want)
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

func TestUnknownVariablesAreWarnedOf(t *testing.T) {
	for _, test := range []struct {
		entry string
		want  string // in the warning; "" if there is no warning
	}{
		{"TASKTABLE_POL_INTERVAL=5s", "variable=TASKTABLE_POL_INTERVAL did_you_mean=TASKTABLE_POLL_INTERVAL"},
		{"TASKTABLE_QUEUE=a=1", "did_you_mean=TASKTABLE_QUEUES"},
		{"TASKTABLE_SMTP_PASWORD=secret", "did_you_mean=TASKTABLE_SMTP_PASSWORD"},
		{"TASKTABLE_ZZZZZZZZZZZZZZZZZ=1", `did_you_mean=""`},
		{"TASKTABLE_POLL_INTERVAL=5s", ""},
		{"TASKTABLE_POL_INTERVAL=", ""},
		{"OTHER_POL_INTERVAL=5s", ""},
		{"TASKTABLE_TEST_DATABASE_URL=x", ""},
		{"TASKTABLE_SERVICE_HOST=10.0.0.1", ""}, // Kubernetes sets these
		{"TASKTABLE_SERVICE_PORT_HTTP=80", ""},
		{"TASKTABLE_PORT_80_TCP_ADDR=10.0.0.1", ""},
	} {
		t.Run(test.entry, func(t *testing.T) {
			var log bytes.Buffer
			p := newProgram([]string{test.entry}, io.Discard, io.Discard)
			p.rootCommand()
			p.WarnUnknown(slog.New(slog.NewTextHandler(&log, nil)))
			switch {
			case test.want == "" && log.Len() > 0:
				t.Errorf("warned: %s", log.String())
			case !strings.Contains(log.String(), test.want):
				t.Errorf("got %q, want %q in it", log.String(), test.want)
			case strings.Contains(log.String(), "secret"):
				t.Errorf("shows the value: %s", log.String())
			}
		})
	}
}
