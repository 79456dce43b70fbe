package command

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/handlers/command/contract"
	"github.com/tasktable/tasktable/store"
)

// The defaults of a Command.
const (
	DefaultTimeout = 5 * time.Minute
	DefaultGrace   = 10 * time.Second
	DefaultOutput  = 8 << 10
)

const (
	minTimeout  = 100 * time.Millisecond
	maxTimeout  = 7 * 24 * time.Hour
	maxGrace    = 5 * time.Minute
	maxOutput   = 64 << 10
	maxCommands = 500
	maxRetry    = 24 * time.Hour
	maxSecret   = 64 << 10
)

// Config has the commands that tasks may choose, by their names. A name has 1 to 64 of a-z, 0-9 and inner . _ -. At
// least one is required, and at most 500 are allowed.
type Config struct {
	Commands map[string]Command
}

// Command is a program with everything that it gets. Only Path is required. The names in the tags are those of the file
// that the program tasktable reads.
type Command struct {
	// Path is the program's file, with its whole path. It must be executable.
	Path string `yaml:"path"`
	// Args are its arguments. No shell reads them, so $VARIABLES, quotes, pipes and * have no meaning.
	Args []string `yaml:"args"`
	// ExtraArgs says which arguments a task may add after Args. Default: none.
	ExtraArgs ExtraArgs `yaml:"extra-args"`
	// Environment are variables and their values. Beside these, Pass and Secrets, the program gets only the variables
	// that the documentation of the package lists: nothing else of the node's environment.
	Environment map[string]string `yaml:"environment"`
	// Pass are the names of variables that the program gets from the node's environment, as they are. A variable that
	// the node does not have is left out.
	Pass []string `yaml:"pass"`
	// Secrets are variables whose values are in files. The handler reads a file at each attempt, without the newline at
	// its end. In kept output it replaces the value by the variable's name in brackets.
	Secrets map[string]string `yaml:"secrets"`
	// Directory is the working directory, with its whole path. Default (""): /, as the node's own may be removed.
	Directory string `yaml:"directory"`
	// Timeout is how long the program may run, from 100 ms to 7 days. The task's lease is extended accordingly. Default
	// (0): 5 minutes.
	Timeout time.Duration `yaml:"timeout"`
	// Grace is how long the program has between SIGTERM and SIGKILL, up to 5 minutes. Default (0): 10 s.
	Grace time.Duration `yaml:"grace"`
	// Success are the exit codes that complete the task. Default (none): 0.
	Success []int `yaml:"success"`
	// Permanent are the exit codes that fail the task at once. Every other exit code is retried. Default: none.
	Permanent []int `yaml:"permanent"`
	// RetryAfter are exit codes with the delay before the next attempt, up to 24 hours. The delay replaces the backoff.
	RetryAfter map[int]time.Duration `yaml:"retry-after"`
	// Output is how many bytes of the end of stdout are kept, and as many of stderr, up to 64 KiB. -1 keeps none, also
	// in errors. Default (0): 8 KiB.
	Output int `yaml:"output"`
}

// ExtraArgs are a rule for the arguments that a task adds.
type ExtraArgs struct {
	// Max is how many are allowed, up to 100.
	Max int `yaml:"max"`
	// Pattern is a regular expression (https://pkg.go.dev/regexp/syntax) that each of them must match as a whole. It is
	// required.
	Pattern string `yaml:"pattern"`
	// Options allows arguments that begin with "-". Without it they are refused, even if they match, because the
	// program would take them for options.
	Options bool `yaml:"options"`
}

func (c Command) withDefaults() Command {
	c.Directory = cmp.Or(c.Directory, rootDirectory)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.Grace = cmp.Or(c.Grace, DefaultGrace)
	c.Output = max(cmp.Or(c.Output, DefaultOutput), 0)
	if len(c.Success) == 0 {
		c.Success = []int{0}
	}
	return c
}

// known is a checked Command.
type known struct {
	Command

	name    string
	pattern *regexp.Regexp // of extra arguments
}

// New checks the configuration. The error wraps store.ErrInvalid and names each bad field.
func New(config Config) (*Runner, error) {
	r := &Runner{commands: map[string]*known{}}
	var errs []error
	if n := len(config.Commands); n == 0 || n > maxCommands {
		errs = append(errs, fmt.Errorf("commands must be 1 to %d", maxCommands))
	}
	for _, name := range slices.Sorted(maps.Keys(config.Commands)) {
		command := config.Commands[name]
		if err := contract.CheckName(name); err != nil {
			errs = append(errs, fmt.Errorf("commands: %q %w", name, err))
		}
		for _, problem := range command.problems() {
			errs = append(errs, fmt.Errorf("commands.%s.%s", name, problem))
		}
		pattern, err := regexp.Compile(`^(?:` + command.ExtraArgs.Pattern + `)$`)
		if err != nil {
			errs = append(errs, fmt.Errorf("commands.%s.extra-args.pattern must be a regular expression", name))
		}
		r.commands[name] = &known{Command: command.withDefaults(), name: name, pattern: pattern}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("command.Config: %w: %w", store.ErrInvalid, err)
	}
	return r, nil
}

// variableSyntax is the syntax of the names of environment variables.
var variableSyntax = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// problems are the rules that the command breaks, each after its field.
func (c Command) problems() (found []string) {
	broken := func(breaks bool, format string, args ...any) {
		if breaks {
			found = append(found, fmt.Sprintf(format, args...))
		}
	}
	if err := checkProgram(c.Path); err != nil {
		broken(true, "path %v", err)
	}
	if info, err := os.Stat(c.Directory); c.Directory != "" {
		broken(!filepath.IsAbs(c.Directory) || err != nil || !info.IsDir(),
			"directory must be the whole path of a folder that exists")
	}
	broken(hasNUL(c.Args...), "args must not have a NUL")
	broken(c.Timeout != 0 && (c.Timeout < minTimeout || c.Timeout > maxTimeout),
		"timeout must be from %s to %s", minTimeout, maxTimeout)
	broken(c.Grace < 0 || c.Grace > maxGrace, "grace must be from 0 to %s", maxGrace)
	broken(c.Output < -1 || c.Output > maxOutput, "output must be -1 or from 0 to %d bytes", maxOutput)
	broken(c.ExtraArgs.Max < 0 || c.ExtraArgs.Max > 100, "extra-args.max must be from 0 to 100")
	broken(c.ExtraArgs.Max > 0 && c.ExtraArgs.Pattern == "", "extra-args.pattern is missing: it says which are allowed")
	broken(c.ExtraArgs.Max == 0 && (c.ExtraArgs.Pattern != "" || c.ExtraArgs.Options),
		"extra-args.max is missing: it says how many are allowed")
	return slices.Concat(found, c.exitCodeProblems(), c.environmentProblems())
}

// checkProgram returns the rule that the path of a program breaks.
func checkProgram(path string) error {
	info, err := os.Stat(path)
	switch {
	case !filepath.IsAbs(path):
		return errors.New("must be the whole path of a program, such as /usr/bin/pg_dump")
	case err != nil:
		return fmt.Errorf("must be a file that exists: %w", err)
	case !info.Mode().IsRegular() || !executable(info):
		return errors.New("must be an executable file")
	}
	return checkWriters(info)
}

// checkWriters refuses a file that everybody may write to, because such a person would run programs as the node's user.
func checkWriters(info fs.FileInfo) error {
	if mode := info.Mode().Perm(); mode&0o002 != 0 && runtime.GOOS != "windows" { // where a mode says nothing
		return fmt.Errorf("must not be writable by everybody, but has mode %#o", mode)
	}
	return nil
}

func hasNUL(texts ...string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, "\x00") })
}

func (c Command) exitCodeProblems() (found []string) {
	seen := map[int]bool{}
	for _, one := range []struct {
		field string
		codes []int
	}{{"success", c.Success}, {"permanent", c.Permanent}, {"retry-after", slices.Sorted(maps.Keys(c.RetryAfter))}} {
		for _, code := range one.codes {
			if code < 0 || code > 255 || seen[code] {
				found = append(found, one.field+" must have exit codes from 0 to 255, each in one place only")
				break
			}
			seen[code] = true
		}
	}
	for _, delay := range c.RetryAfter {
		if delay < 0 || delay > maxRetry {
			return append(found, fmt.Sprintf("retry-after must have delays from 0s to %s", maxRetry))
		}
	}
	return found
}

func (c Command) environmentProblems() (found []string) {
	seen := map[string]bool{}
	for _, one := range []struct {
		field string
		names []string
	}{
		{"environment", slices.Sorted(maps.Keys(c.Environment))}, {"pass", c.Pass},
		{"secrets", slices.Sorted(maps.Keys(c.Secrets))},
	} {
		for _, name := range one.names {
			switch {
			case !variableSyntax.MatchString(name):
				found = append(found, one.field+" must have names of letters, digits and _")
			case slices.Contains(ownVariables, name):
				found = append(found, fmt.Sprintf("%s must not have %s, which the handler sets", one.field, name))
			case seen[name]:
				found = append(found, fmt.Sprintf("%s must not have %s, which is there already", one.field, name))
			}
			seen[name] = true
		}
	}
	if hasNUL(slices.Collect(maps.Values(c.Environment))...) {
		found = append(found, "environment must not have a NUL")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Secrets)) {
		if _, err := readSecret(c.Secrets[name]); err != nil {
			found = append(found, fmt.Sprintf("secrets.%s %v", name, err))
		}
	}
	return found
}
