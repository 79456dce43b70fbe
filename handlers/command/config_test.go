//go:build unix

package command_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers/command"
	"github.com/tasktable/tasktable/handlers/command/contract"
	"github.com/tasktable/tasktable/store"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	plain, secret, open := written(t, "no program"), written(t, "s3cret"), written(t, "everybody's")
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		change func(*command.Command)
		want   string
	}{
		{func(c *command.Command) { c.Path = "" }, "path must be the whole path of a program"},
		{func(c *command.Command) { c.Path = "sh" }, "path must be the whole path of a program"},
		{func(c *command.Command) { c.Path = "/nowhere/sh" }, "path must be a file that exists: stat /nowhere/sh: no such"},
		{func(c *command.Command) { c.Path = "/bin" }, "path must be an executable file"},
		{func(c *command.Command) { c.Path = plain }, "path must be an executable file"},
		{func(c *command.Command) { c.Args = []string{"\x00"} }, "args must not have a NUL"},
		{func(c *command.Command) { c.Directory = "tmp" }, "directory must be the whole path of a folder"},
		{func(c *command.Command) { c.Directory = "/nowhere" }, "directory must be the whole path of a folder"},
		{func(c *command.Command) { c.Timeout = time.Millisecond }, "timeout must be from 100ms to 168h0m0s"},
		{func(c *command.Command) { c.Grace = time.Hour }, "grace must be from 0 to 5m0s"},
		{func(c *command.Command) { c.Output = 1 << 20 }, "output must be -1 or from 0 to 65536 bytes"},
		{func(c *command.Command) { c.ExtraArgs.Max = 1 }, "extra-args.pattern is missing"},
		{func(c *command.Command) { c.ExtraArgs = command.ExtraArgs{Max: 101, Pattern: "a"} }, "extra-args.max must be from 0 to 100"},
		{func(c *command.Command) { c.ExtraArgs.Pattern = "a" }, "extra-args.max is missing"},
		{func(c *command.Command) { c.ExtraArgs = command.ExtraArgs{Max: 1, Pattern: "("} },
			"extra-args.pattern must be a regular expression"},
		{func(c *command.Command) { c.Success = []int{256} }, "success must have exit codes from 0 to 255"},
		{func(c *command.Command) { c.Success, c.Permanent = []int{1}, []int{1} }, "permanent must have exit codes"},
		{func(c *command.Command) { c.RetryAfter = map[int]time.Duration{75: -1} }, "retry-after must have delays"},
		{func(c *command.Command) { c.Environment = map[string]string{"A-B": ""} },
			"environment must have names of letters, digits and _"},
		{func(c *command.Command) { c.Environment = map[string]string{"A": "\x00"} }, "environment must not have a NUL"},
		{func(c *command.Command) { c.Pass = []string{"TRACEPARENT"} }, "pass must not have TRACEPARENT, which"},
		{func(c *command.Command) { c.Pass = []string{"HOME", "HOME"} }, "pass must not have HOME, which is there already"},
		{func(c *command.Command) { c.Pass, c.Secrets = []string{"A"}, map[string]string{"A": secret} },
			"secrets must not have A, which is there already"},
		{func(c *command.Command) { c.Secrets = map[string]string{"A": "/nowhere/a"} },
			"secrets.A must be a file that can be read: open /nowhere/a: no such"},
		{func(c *command.Command) { c.Secrets = map[string]string{"A": written(t, "\n")} },
			"secrets.A must be a file of 1 to 65536 bytes"},
		{func(c *command.Command) { c.Secrets = map[string]string{"A": "s3cret"} }, "secrets.A must be the whole path"},
		{func(c *command.Command) { c.Path = open }, "path must not be writable by everybody, but has mode 0777"},
		{func(c *command.Command) { c.Secrets = map[string]string{"A": open} },
			"secrets.A must not be writable by everybody, but has mode 0777"},
	} {
		c := shell("")
		test.change(&c)
		_, err := command.New(command.Config{Commands: map[string]command.Command{"test": c}})
		if err == nil || !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), ": commands.test."+test.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
	for name, config := range map[string]command.Config{
		"commands must be 1 to 500":         {},
		`commands: "Backup" must be a name`: {Commands: map[string]command.Command{"Backup": shell("")}},
	} {
		if _, err := command.New(config); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %s", err, name)
		}
	}
}

func TestCheckJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"type": "EXEC", "command": "backup"}`:                              "",
		`{"type": "EXEC:backup", "args": ["a"], "timeout": 2.5}`:             "",
		`{"type": "EXEC:backup", "command": "backup"}`:                       "",
		`{"type": "EXEC:backup", "command": "other"}`:                        "payload field command must be absent or",
		`{"type": "EXEC:"}`:                                                  "payload field command must be a name",
		`{"type": "EXEC"}`:                                                   "payload field command must be a name",
		`{"command": "a b"}`:                                                 "payload field command must be a name",
		`{"command": 7}`:                                                     "payload field command must not be a JSON number",
		`{"command": "a", "args": "b"}`:                                      "payload field args must not be a JSON string",
		`{"command": "a", "args": ["\u0000"]}`:                               "payload field args must not have a NUL",
		`{"command": "a", "args": ["` + strings.Repeat("b", 64<<10) + `c"]}`: "payload field args must be at most 100",
		`{"command": "a", "args": [""` + strings.Repeat(`,""`, 100) + `]}`:   "payload field args must be at most 100",
		`{"command": "a", "timeout": "1ms"}`:                                 "payload field timeout must be a duration",
		`{"command": "a", "timeout": "soon"}`:                                "payload field timeout must be a duration",
		`{"command": "a", "environment": {}}`:                                `payload field "environment" is not known; the fields are args, command, timeout`,
		`[]`:                                                                 "payload must be a JSON object",
	} {
		if err := contract.CheckJSON([]byte(text)); (err == nil) != (want == "") ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
	if e := (contract.Exec{Timeout: "2h"}); e.TimeoutAtMost(time.Hour) != time.Hour ||
		e.TimeoutAtMost(3*time.Hour) != 2*time.Hour {
		t.Error("a payload's timeout is to shorten the configuration's, and nothing else")
	}
}

func TestScheduleRefusesABadPayload(t *testing.T) {
	t.Parallel()
	task := store.Task{Payload: contract.Exec{Command: "rm -rf"}}
	if err := task.Check(); !errors.Is(err, store.ErrInvalid) ||
		!strings.Contains(err.Error(), "payload field command must be a name") {
		t.Errorf("got %v", err)
	}
}
