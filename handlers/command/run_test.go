//go:build unix

package command_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/command"
	"github.com/tasktable/tasktable/handlers/command/contract"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		script    string
		change    func(*command.Command)
		want      string // of the error; "": it completes
		permanent bool
		delay     time.Duration
	}{
		"success":         {script: "exit 0"},
		"failure":         {script: "exit 1", want: "command test: exit code 1"},
		"EX_TEMPFAIL":     {script: "exit 75", want: "exit code 75"},
		"another success": {script: "exit 3", change: func(c *command.Command) { c.Success = []int{0, 3} }},
		"0 is no success": {script: "exit 0", change: func(c *command.Command) { c.Success = []int{3} }, want: "exit code 0"},
		"permanent": {script: "exit 2", change: func(c *command.Command) { c.Permanent = []int{1, 2} },
			want: "exit code 2", permanent: true},
		"after": {script: "exit 75", change: func(c *command.Command) {
			c.RetryAfter = map[int]time.Duration{75: 5 * time.Minute}
		}, want: "exit code 75", delay: 5 * time.Minute},
		"signal":     {script: "kill -9 $$", want: "command test: signal: killed"},
		"last words": {script: "echo one >&2; echo two >&2; exit 1", want: "exit code 1: two\none\ntwo"},
		"one line":   {script: "echo alas >&2; exit 1", want: "command test: exit code 1: alas"},
		"stdout":     {script: "echo alas; exit 1", want: "command test: exit code 1: alas"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := shell(test.script)
			if test.change != nil {
				test.change(&c)
			}
			_, err := run(t.Context(), c, contract.Exec{})
			if (err == nil) != (test.want == "") || err != nil && !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			var after *handlers.RetryAfterError
			if permanent(err) != test.permanent || errors.As(err, &after) != (test.delay != 0) ||
				after != nil && after.Delay != test.delay {
				t.Errorf("got %#v", err)
			}
		})
	}
}

func TestResult(t *testing.T) {
	t.Parallel()
	got, err := run(t.Context(), shell("printf 'gr\\303\\274n \\377\\000.'; echo two >&2"), contract.Exec{})
	got.Seconds = 0
	if want := (contract.Result{Stdout: "grün \uFFFD\uFFFD.", Stderr: "two\n", StdoutBytes: 9, StderrBytes: 4}); err != nil ||
		got != want {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Arguments arrive as they are, whatever a shell would make of them.
func TestArguments(t *testing.T) {
	t.Parallel()
	odd := []string{"", " ", "*", "$HOME", "`id`", "$(id)", "a;b", "a|b", `"'\`, "a\nb", "ü", "%s"}
	c := command.Command{Path: "/usr/bin/printf", Args: []string{"<%s>"},
		ExtraArgs: command.ExtraArgs{Max: 100, Pattern: `(?s).*`}}
	got, err := run(t.Context(), c, contract.Exec{Args: odd})
	if want := "<" + strings.Join(odd, "><") + ">"; err != nil || got.Stdout != want {
		t.Errorf("got %q, %v", got.Stdout, err)
	}
}

func TestExtraArguments(t *testing.T) {
	t.Parallel()
	letters := command.ExtraArgs{Max: 2, Pattern: "[a-z-]+|x\ny"}
	options := letters
	options.Options = true
	for _, test := range []struct {
		rule command.ExtraArgs
		args []string
		want string
	}{
		{command.ExtraArgs{}, nil, ""},
		{command.ExtraArgs{}, []string{"a"}, "payload field args must be at most 0"},
		{letters, []string{"a", "bc"}, ""},
		{letters, []string{"a", "b", "c"}, "payload field args must be at most 2"},
		{letters, []string{"a", "B"}, "payload field args must match the pattern of the node's configuration: number 2"},
		{letters, []string{"a\n"}, "number 1 does not"},
		{letters, []string{"a\nb"}, "number 1 does not"},
		{letters, []string{"x\ny"}, ""},
		{letters, []string{""}, "number 1 does not"},
		{letters, []string{"a", "-rf"}, "payload field args must not begin with -: number 2 does"},
		{letters, []string{"--"}, "must not begin with -"},
		{options, []string{"-rf", "--"}, ""},
		{options, []string{"-RF"}, "number 1 does not"},
	} {
		c := shell("exit 0")
		c.ExtraArgs = test.rule
		_, err := run(t.Context(), c, contract.Exec{Args: test.args})
		if (err == nil) != (test.want == "") || err != nil && (!strings.Contains(err.Error(), test.want) || !permanent(err)) {
			t.Errorf("%+v, %q: %v, want %q", test.rule, test.args, err, test.want)
		}
	}
}

// The environment is what the configuration names, and what the handler sets.
func TestEnvironment(t *testing.T) {
	t.Setenv("COMMAND_TEST_PASSED", "p=1")
	t.Setenv("COMMAND_TEST_KEPT", "secret")
	c := command.Command{
		Path: "/usr/bin/env", Environment: map[string]string{"GREETING": "$HOME and *", "EMPTY": ""},
		Pass:    []string{"COMMAND_TEST_PASSED", "COMMAND_TEST_NOT_THERE"},
		Secrets: map[string]string{"TOKEN": written(t, "t0ken\r\n")},
	}
	got, err := run(t.Context(), c, contract.Exec{})
	lines := slices.Sorted(strings.Lines(got.Stdout))
	deadline := ""
	lines = slices.DeleteFunc(lines, func(line string) bool {
		value, is := strings.CutPrefix(line, "TASKTABLE_DEADLINE=")
		if is {
			deadline = strings.TrimSpace(value)
		}
		return is
	})
	want := "COMMAND_TEST_PASSED=p=1\nEMPTY=\nGREETING=$HOME and *\nTASKTABLE_ATTEMPT=2\n" +
		"TASKTABLE_IDEMPOTENCY_KEY=task-7:31\nTASKTABLE_REVISION=32\nTASKTABLE_TASK_ID=task-7\nTOKEN=[TOKEN]\n"
	if at, parseErr := time.Parse(time.RFC3339, deadline); err != nil || strings.Join(lines, "") != want ||
		parseErr != nil || time.Until(at) > command.DefaultTimeout || time.Until(at) < time.Minute {
		t.Errorf("got %q, deadline %q, %v", lines, deadline, err)
	}
}

func TestDirectory(t *testing.T) {
	t.Parallel()
	folder, err := os.MkdirTemp("/tmp", "command")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	for given, want := range map[string]string{"": "/\n", folder: folder + "\n"} {
		c := command.Command{Path: "/bin/pwd", Args: []string{"-P"}, Directory: given}
		if got, err := run(t.Context(), c, contract.Exec{}); err != nil || got.Stdout != want {
			t.Errorf("%q: %q, %v", given, got.Stdout, err)
		}
	}
}

func TestItCannotBeStarted(t *testing.T) {
	t.Parallel()
	path := written(t, "#!/nowhere/interpreter\n")
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := run(t.Context(), command.Command{Path: path}, contract.Exec{})
	if err == nil || !strings.Contains(err.Error(), "command test: it cannot be started: fork/exec "+path) ||
		permanent(err) {
		t.Errorf("got %v", err)
	}
}

// Standard input is empty, so a program that asks gets no answer and does not wait for one.
func TestStandardInput(t *testing.T) {
	t.Parallel()
	if got, err := run(t.Context(), command.Command{Path: "/bin/cat"}, contract.Exec{}); err != nil || got.Stdout != "" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestAnUnknownCommand(t *testing.T) {
	t.Parallel()
	registry, err := newRegistry(map[string]command.Command{"backup": shell(""), "report": shell("")})
	if err != nil {
		t.Fatal(err)
	}
	for payload, want := range map[string]string{
		`{"type": "EXEC", "command": "restore"}`: "this node has no command restore; it has backup, report",
		`{"type": "EXEC"}`:                       "payload field command must be a name of",
		`{"type": "EXEC", "command": "/bin/sh"}`: "payload field command must be a name of",
	} {
		if err := registry.Variant("EXEC").Run(t.Context(), attempt(payload)); err == nil || !permanent(err) ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", payload, err)
		}
	}
	tenants := attempt(`{"type": "EXEC", "command": "restore"}`)
	tenants.TenantID = "acme"
	if err := registry.Variant("EXEC").Run(t.Context(), tenants); err == nil ||
		err.Error() != "this node has no command restore" {
		t.Errorf("a tenant is told: %v", err)
	}
	if types := registry.Types(); !slices.Equal(types, []string{"EXEC", "EXEC:backup", "EXEC:report"}) {
		t.Errorf("types %q", types)
	}
	if err := registry.Variant("EXEC:backup").Run(t.Context(), attempt(`{"type": "EXEC:backup"}`)); err != nil {
		t.Error(err)
	}
}
