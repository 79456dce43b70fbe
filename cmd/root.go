// Package cmd is the program tasktable. It holds the commands with their options, signals, logs and exit codes. No
// other package knows any of these.
package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
)

const rootHelp = `Tasktable schedules tasks in a Postgres table and runs them at their time.

Without DATABASE_URL the commands use a private Postgres on this machine. It keeps its data between runs, and stops with
the last command that uses it.

An option can be given as a flag, or as the environment variable shown in brackets. The flag wins over the variable, and
the variable over the default. An empty value counts as not given. Data goes to stdout, logs and errors to stderr.
Shells complete commands, options, ids, types and queues: tasktable completion --help.
SIGINT, SIGTERM and SIGHUP stop a command gracefully, and a second one stops it at once. SIGTSTP makes serve quiet.

` + exitCodes

const rootExample = `  tasktable serve --migrate                          # on the private Postgres
  DATABASE_URL=postgres://user@host/db tasktable migrate
  DATABASE_URL=postgres://user@host/db tasktable serve --queue default=50 --queue mail=5
  tasktable tasks list --status FAILED --finished-from -1d
  source <(tasktable completion bash)`

// Execute runs the command the process was started with, and returns its exit code.
func Execute() int {
	// Only net/http's client uses the global logger. It prints what a server sends unasked, which may repeat a secret
	// of a request.
	log.SetOutput(io.Discard)
	p := newProgram(os.Environ(), os.Stdout, os.Stderr)
	p.stdin = os.Stdin
	ctx, release := untilSignal(context.Background(), sameSignal, func() {
		if restore := p.restoreTerminal.Load(); restore != nil {
			(*restore)()
		}
		fmt.Fprintln(p.stderr, "tasktable: a second signal: ends at once")
		os.Exit(exitInterrupted)
	})
	defer release()
	return p.run(ctx, os.Args[1:])
}

// insufficientPrivilege is Postgres's code for a right that the role lacks.
const insufficientPrivilege = "42501"

// run runs one command until it has ended, or ctx has and the command has stopped.
func (p *program) run(ctx context.Context, args []string) int {
	root := p.rootCommand()
	root.SetArgs(args)
	ran, err := root.ExecuteContextC(ctx)
	err = explained(err)
	code := exitCode(ctx, err)
	switch code {
	case exitOK:
	case exitInterrupted:
		fmt.Fprintf(p.stderr, "tasktable: interrupted: %v\n", context.Cause(ctx))
	case exitUsage:
		fmt.Fprintf(p.stderr, "tasktable: %v\nSee \"%s --help\".\n", err, ran.CommandPath())
	default:
		fmt.Fprintf(p.stderr, "tasktable: %v\n", err)
		if refused := new(pgconn.PgError); errors.As(err, &refused) && refused.Code == insufficientPrivilege {
			fmt.Fprintln(p.stderr,
				"The database role lacks this right: see tasktable migrate roles --help, and tasktable doctor "+
					"--check permissions.")
		}
	}
	return code
}

// group makes a command whose only use is that it has others.
func group(command *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	command.Args = options.NoArguments
	command.RunE = func(command *cobra.Command, _ []string) error { return command.Help() }
	command.AddCommand(commands...)
	return command
}

func (p *program) rootCommand() *cobra.Command {
	root := group(&cobra.Command{
		Use:           "tasktable",
		Short:         "Schedules tasks in a Postgres table and runs them at their time",
		Long:          rootHelp,
		Example:       rootExample,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}, p.migrateCommand(), p.serveCommand(), p.configCommand(), p.tasksCommand(), p.whyCommand(),
		p.deadCommand(), p.recurringCommand(), p.calendarsCommand(), p.queuesCommand(), p.limitsCommand(),
		p.typesCommand(), p.keysCommand(), p.noticesCommand(), p.nodesCommand(), p.statsCommand(),
		p.reconcileCommand(), p.doctorCommand(), p.healthCommand(), p.metricsCommand(),
		p.proveCommand(), p.demoCommand())
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetFlagErrorFunc(options.FlagError)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 110"))
	return root
}

// program is one run of the program. Tests make their own, with buffers and an environment.
type program struct {
	*options.Catalog
	stdin           *os.File // nil: none
	stdout          io.Writer
	stderr          io.Writer
	now             time.Time              // tables count from this time; the zero value is the database's time
	restoreTerminal atomic.Pointer[func()] // called before the process exits at once; it may be nil
}

// newProgram returns a program without stdin. environ has the form of os.Environ.
func newProgram(environ []string, stdout, stderr io.Writer) *program {
	return &program{Catalog: options.NewCatalog(environ), stdout: stdout, stderr: stderr}
}

// release is set by -ldflags "-X", because a build from a folder without .git does not know its version.
var release string

// version names the source of the binary. It is a tag for `go install …@v1.2.3`, and a commit for a checkout.
func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
