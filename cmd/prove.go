package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/scheduled/prove"
)

// proveNode is how the program calls itself for a process that prove kills.
const proveNode = "node"

const proveHelp = `Shows on this machine that no task is lost when nodes die.

It makes a database of its own on the given server, for which its role must be able to create one. It starts three
nodes, each a process of its own, and schedules tasks for the next seconds. Their handlers take 10 to 90 ms and write a
row halfway. Every other one does that by HandleTx, in the transaction that completes the task. Some tasks are cancelled
when they are about to start, and some expire. On a terminal press k to kill a node that is within a handler (SIGKILL;
every third time the leader), and q to end early. Without a terminal a node is killed every 3 seconds. Another node
replaces it after a second.

When all tasks have ended, it prints whether each promise was kept, and the SQL that counts it. To run that SQL
yourself, give --keep, which leaves the database there. It ends with exit code 6 if a promise was broken.`

// proof is one run of prove.
type proof struct {
	*program
	database databaseSettings
	log      logSettings
	seconds  int
	tasks    int
	every    time.Duration // -1: as there is a terminal
	keep     bool
	json     bool
}

func (p *program) proveCommand() *cobra.Command {
	v := &proof{program: p, every: -1}
	opts := []options.Option{
		{Flag: "seconds", Variable: "TASKTABLE_PROVE_SECONDS", Kind: "number", Default: "20",
			Set: options.Int(&v.seconds, 1, 3600), Usage: "over how long the tasks are spread, and nodes are killed"},
		{Flag: "tasks", Short: "n", Variable: "TASKTABLE_PROVE_TASKS", Kind: "number", Default: "5000",
			Set: options.Int(&v.tasks, 1, 200_000), Usage: "how many tasks"},
		{Flag: "kill-every", Variable: "TASKTABLE_PROVE_KILL_EVERY", Kind: "duration",
			Set:   options.Duration(&v.every, 0, time.Hour),
			Usage: "the time between kills; 0: it kills only when k is pressed (default 0 on a terminal, 3s without)"},
		{Flag: "keep", Variable: "TASKTABLE_PROVE_KEEP", Set: options.Bool(&v.keep),
			Usage: "leaves the database there, and says how to open it"},
		{Flag: "json", Variable: "TASKTABLE_PROVE_JSON", Set: options.Bool(&v.json),
			Usage: "prints one JSON object instead of tables"},
	}
	for _, o := range v.database.options() {
		if o.Flag == "database-url" || o.Flag == "data-dir" { // it makes a database of its own, without a pooler
			opts = append(opts, o)
		}
	}
	opts = append(opts, v.log.options()...)
	command := p.Bind(&cobra.Command{
		Use:   "prove",
		Short: "Kills nodes, and shows that no task is lost",
		Long:  proveHelp,
		Example: `  tasktable prove --seconds 20
  tasktable prove --seconds 60 --kill-every 2s --keep
  DATABASE_URL=postgres://user@host/db tasktable prove --json`,
	}, opts, func(command *cobra.Command) error { return v.run(command.Context()) })
	command.AddCommand(&cobra.Command{
		Use: proveNode, Hidden: true, Args: options.NoArguments,
		Short:   "Is killed by prove",
		Example: "  tasktable prove",
		RunE: func(command *cobra.Command, _ []string) error {
			return prove.Child(command.Context(), p.stdout, p.stderr)
		},
	})
	return command
}

func (v *proof) run(ctx context.Context) (err error) {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	logger := v.log.logger(v.stderr)
	v.WarnUnknown(logger)
	d, err := v.database.open(ctx, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	config := prove.Config{
		Server: d.direct.Config().ConnConfig, Tasks: v.tasks, Over: time.Duration(v.seconds) * time.Second,
		KillEvery: v.every, Keep: v.keep, Program: program, Arguments: []string{"prove", proveNode}, Every: time.Second,
	}
	screen := term.NewLiveLine(ctx, v.stderr)
	config.Say, config.Show = screen.Say, func(s prove.Standing) { screen.Show(s.String()) }
	restore, err := v.listen(ctx, screen, &config)
	if err != nil {
		return err
	}
	defer func() { _ = restore() }() // also after a panic
	result, err := prove.Run(ctx, config)
	screen.End()
	err = errors.Join(err, restore())
	if err != nil && !errors.Is(err, prove.ErrBroken) {
		return errors.Join(err, ctx.Err())
	}
	return errors.Join(v.print(result), v.psql(result, d), err)
}

// listen has keys kill nodes and end it early, where there is a terminal. restore also ends listening.
func (v *proof) listen(ctx context.Context, screen *term.LiveLine, config *prove.Config) (restore func() error,
	err error) {
	interactive := screen.Rewrites && term.IsTerminal(ctx, v.stdin)
	if screen.Rewrites {
		config.Every = 250 * time.Millisecond
	}
	if config.KillEvery < 0 {
		config.KillEvery = 3 * time.Second
		if interactive {
			config.KillEvery = 0
		}
	}
	if !interactive {
		return func() error { return nil }, nil
	}
	terminal, err := term.Open(ctx, v.stdin)
	if err != nil {
		return nil, err
	}
	reset := func() { _ = terminal.Restore() }
	v.restoreTerminal.Store(&reset)
	screen.Say("press k to kill a node, q to end early")
	kill, end := make(chan struct{}, 1), make(chan struct{}, 1)
	config.Kill, config.End = kill, end
	listening, cancel := context.WithCancel(ctx)
	var keys sync.WaitGroup
	keys.Go(func() {
		terminal.Keys(listening, func(key byte) {
			into := map[byte]chan struct{}{'k': kill, 'q': end}[key]
			select {
			case into <- struct{}{}: // of another key there is no channel
			default: // one is on its way
			}
		})
	})
	return sync.OnceValue(func() error {
		cancel()
		keys.Wait()
		v.restoreTerminal.Store(nil)
		return terminal.Restore()
	}), nil
}

func (v *proof) print(result prove.Result) error {
	if v.json {
		if err := json.NewEncoder(v.stdout).Encode(result); err != nil {
			return fmt.Errorf("print: %w", err)
		}
		return nil
	}
	return printProof(v.stdout, result)
}

func printProof(to io.Writer, result prove.Result) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PROMISE\tFOUND\tVERDICT")
	for _, verdict := range result.Verdicts {
		word := "OK"
		if !verdict.Held {
			word = "FAILED"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", verdict.Promise, verdict, word)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	k, d := result.Kills, result.Delays
	fmt.Fprintf(to, "\n%d nodes killed (%d of them led) within %d handlers; %d claims taken back\n",
		k.Nodes, k.Leaders, k.CutOff, k.TakenBack)
	fmt.Fprintf(to, "from a kill until what it cut off began again on another node: p99 %.1f s, max %.1f s\n", k.P99,
		k.Max)
	fmt.Fprintf(to, "from when an attempt was due to its start: p50 %s, p99 %s, max %s\n",
		prove.Millis(d.P50), prove.Millis(d.P99), prove.Millis(d.Max))
	fmt.Fprintf(to, "\nThe SQL of these verdicts, for the database %s. What the last column counts breaks the "+
		"promise.\n",
		result.Database)
	for _, verdict := range result.Verdicts {
		fmt.Fprintf(to, "\n-- %s\n%s;\n", verdict.Promise, verdict.SQL)
	}
	return nil
}

// psql says how to open the database, without the password. It is no data, and goes where the progress does.
func (v *proof) psql(result prove.Result, d *database) error {
	if !result.Kept {
		fmt.Fprintf(v.stderr, "\nThe database %s is dropped; --keep leaves it there.\n", result.Database)
		return nil
	}
	if v.database.url == "" {
		fmt.Fprintf(v.stderr, "\nThe database %s is on the private Postgres, which stops with the last command that "+
			"uses it.\n"+
			"To look into it run \"tasktable serve --migrate\", and take the psql line it prints with this "+
			"database's name.\n",
			result.Database)
		return nil
	}
	server := d.direct.Config().ConnConfig
	query := url.Values{
		"host": {server.Host}, "port": {strconv.Itoa(int(server.Port))}, "user": {server.User},
		"dbname": {result.Database},
	}
	fmt.Fprintf(v.stderr, "\nTo look into it: psql 'postgresql:///?%s'\n", query.Encode())
	return nil
}
