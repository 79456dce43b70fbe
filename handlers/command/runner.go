package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/command/contract"
)

// Runner runs tasks of type EXEC. It is safe for concurrent use.
type Runner struct{ commands map[string]*known }

// Variant makes a Runner and returns its Run as an argument of handlers.NewRegistry. It returns the errors of New. The
// handler also has the type EXEC:NAME for each command, so that the leader knows which nodes have the command.
func Variant(config Config, options ...handlers.Option) (handlers.Part, error) {
	runner, err := New(config)
	if err != nil {
		return nil, err
	}
	var types []string
	for _, name := range runner.names() {
		types = append(types, contract.Type+":"+name)
	}
	return handlers.Handle(runner.Run, append(options, handlers.Alias(types...))...), nil
}

func (r *Runner) names() []string { return slices.Sorted(maps.Keys(r.commands)) }

// Run runs one command to its end. The documentation of the package says which errors are permanent.
func (r *Runner) Run(ctx context.Context, t *handlers.Task[contract.Exec]) error {
	if err := t.Payload.Check(); err != nil {
		return handlers.Permanent(err)
	}
	command := r.commands[t.Payload.Command]
	if command == nil {
		has := "; it has " + strings.Join(r.names(), ", ")
		if t.TenantID != "" { // a tenant must not learn the other names, which the node logs when it starts
			has = ""
		}
		return handlers.Permanent(fmt.Errorf("this node has no command %s%s", t.Payload.Command, has))
	}
	if err := command.run(ctx, t); err != nil {
		return fmt.Errorf("command %s: %w", command.name, err)
	}
	return nil
}

func (k *known) run(ctx context.Context, t *handlers.Task[contract.Exec]) error {
	if err := k.checkArgs(t.Payload.Args); err != nil {
		return handlers.Permanent(err)
	}
	timeout := t.Payload.TimeoutAtMost(k.Timeout)
	// Without this, the task's ExpectedExecutionTime would end a command that may take longer.
	if end, bounded := ctx.Deadline(); !bounded || time.Until(end) < timeout+k.Grace {
		if err := t.Extend(ctx, timeout+k.Grace); err != nil {
			return fmt.Errorf("extend the task's lease: %w", err)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, timeoutError{timeout})
	defer cancel()
	deadline, _ := ctx.Deadline()
	variables, hidden, err := k.environment(ctx, t.Execution, deadline)
	if err != nil {
		return err
	}
	p := &process{
		path: k.Path, args: slices.Concat(k.Args, t.Payload.Args), environment: variables, directory: k.Directory,
		grace: k.Grace, stdout: newTail(k.Output, hidden), stderr: newTail(k.Output, hidden),
	}
	began := time.Now()
	if err := p.run(ctx); err != nil {
		return err // it has not begun
	}
	if err := k.outcome(ctx, p, hidden); err != nil {
		return err
	}
	took := time.Since(began).Round(time.Millisecond)
	t.Result(contract.Result{
		ExitCode: p.state.ExitCode(), Seconds: took.Seconds(),
		Stdout: p.stdout.text(hidden), StdoutBytes: p.stdout.written,
		Stderr: p.stderr.text(hidden), StderrBytes: p.stderr.written,
	})
	t.Note("%s ended with exit code %d after %s", k.name, p.state.ExitCode(), took)
	return nil
}

// checkArgs applies the rule for the arguments of tasks.
func (k *known) checkArgs(args []string) error {
	rule := k.ExtraArgs
	if len(args) > rule.Max {
		return fmt.Errorf("payload field args must be at most %d: the configuration of the node allows no more",
			rule.Max)
	}
	for i, arg := range args {
		if strings.HasPrefix(arg, "-") && !rule.Options {
			return fmt.Errorf("payload field args must not begin with -: number %d does, and the configuration of the "+
				"node allows no options", i+1)
		}
		if !k.pattern.MatchString(arg) {
			return fmt.Errorf("payload field args must match the pattern of the node's configuration: number %d "+
				"does not", i+1)
		}
	}
	return nil
}

// timeoutError ends a command that takes too long.
type timeoutError struct{ after time.Duration }

func (e timeoutError) Error() string { return fmt.Sprintf("it took longer than %s", e.after) }
func (e timeoutError) Timeout() bool { return true }

// outcome returns nil for an exit code that completes the task.
func (k *known) outcome(ctx context.Context, p *process, hidden secrets) error {
	code := p.state.ExitCode()
	switch {
	case p.stopped:
		return withOutput(fmt.Errorf("%w; it was ended by signal", context.Cause(ctx)), p, hidden)
	case code < 0:
		return withOutput(errors.New(p.state.String()), p, hidden) // such as "signal: killed"
	case slices.Contains(k.Success, code):
		return nil
	}
	err := withOutput(fmt.Errorf("exit code %d", code), p, hidden)
	if slices.Contains(k.Permanent, code) {
		return handlers.Permanent(err)
	}
	if delay, given := k.RetryAfter[code]; given {
		return handlers.RetryAfter(delay, err)
	}
	return err
}

const (
	maxErrorLine   = 200
	maxErrorOutput = 2 << 10
)

// withOutput adds the end of the output to an error: of stderr, or of stdout if there is none. The last line comes
// first, because many places show one line only.
func withOutput(err error, p *process, hidden secrets) error {
	output := strings.TrimSpace(p.stderr.text(hidden))
	if output == "" {
		output = strings.TrimSpace(p.stdout.text(hidden))
	}
	if output == "" {
		return err
	}
	last := output[strings.LastIndexByte(output, '\n')+1:]
	if last == output && len(last) <= maxErrorLine {
		return fmt.Errorf("%w: %s", err, last)
	}
	if len(last) > maxErrorLine {
		last = strings.ToValidUTF8(last[:maxErrorLine], "") + "…"
	}
	if len(output) > maxErrorOutput {
		output = "…" + strings.ToValidUTF8(output[len(output)-maxErrorOutput:], "")
	}
	return fmt.Errorf("%w: %s\n%s", err, last, output)
}
