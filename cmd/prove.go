package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/scheduled/prove"
)

const proveHelp = `For anybody who doubts: shows on this machine that no task is lost when nodes die.

It makes a database of its own on the given server (its role must be able to create one), starts three nodes, each a process
of its own, and schedules tasks for the next seconds. Their handlers take 10 to 90 ms and write a row halfway; of every other
one, by HandleTx, in the transaction that completes the task. Some tasks are cancelled when they are about to start, some
expire. On a terminal press k to kill a node that is within a handler (SIGKILL; every third time the one that leads) and q
to end early; without one it is killed every 3 seconds. Another comes in its place after a second.

When all tasks have ended it says what became of each promise, and prints the SQL that counts it: run it yourself with
--keep, which leaves the database there. It ends with exit code 6 if a promise was broken.`

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
	options := []option{
		{flag: "seconds", variable: "TASKTABLE_PROVE_SECONDS", value: "number", fallback: "20",
			set: whole(&v.seconds, 1, 3600), usage: "over how long the tasks are spread, and nodes are killed"},
		{flag: "tasks", short: "n", variable: "TASKTABLE_PROVE_TASKS", value: "number", fallback: "5000",
			set: whole(&v.tasks, 1, 200_000), usage: "how many tasks"},
		{flag: "kill-every", variable: "TASKTABLE_PROVE_KILL_EVERY", value: "duration", set: duration(&v.every, 0, time.Hour),
			usage: "kills a node by itself so often; 0: only when k is pressed (default 0 on a terminal, 3s without)"},
		{flag: "keep", variable: "TASKTABLE_PROVE_KEEP", set: toggle(&v.keep),
			usage: "leaves the database there, and says how to open it"},
		{flag: "json", variable: "TASKTABLE_PROVE_JSON", set: toggle(&v.json), usage: "prints one JSON object instead of tables"},
	}
	for _, o := range v.database.options() {
		if o.flag == "database-url" || o.flag == "data-dir" { // as bench
			options = append(options, o)
		}
	}
	options = append(options, v.log.options()...)
	command := p.bind(&cobra.Command{
		Use:   "prove",
		Short: "Kills nodes, and shows that no task is lost",
		Long:  proveHelp,
		Example: `  tasktable prove --seconds 20
  tasktable prove --seconds 60 --kill-every 2s --keep
  DATABASE_URL=postgres://user@host/db tasktable prove --json`,
	}, options, func(command *cobra.Command) error { return v.run(command.Context()) })
	command.AddCommand(&cobra.Command{
		Use: benchNode, Hidden: true, Args: noArguments,
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
	v.environment.warnUnknown(v.variables, logger)
	d, err := v.database.open(ctx, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	config := prove.Config{
		Server: d.direct.Config().ConnConfig, Tasks: v.tasks, Over: time.Duration(v.seconds) * time.Second,
		KillEvery: v.every, Keep: v.keep, Program: program, Arguments: []string{"prove", benchNode}, Every: time.Second,
	}
	screen := &liveLine{to: v.stderr, rewrites: isTerminal(ctx, v.stderr)}
	config.Say, config.Show = screen.say, func(s prove.Standing) { screen.show(s.String()) }
	restore, err := v.listen(ctx, screen, &config)
	if err != nil {
		return err
	}
	defer func() { _ = restore() }() // also after a panic
	result, err := prove.Run(ctx, config)
	screen.end()
	err = errors.Join(err, restore())
	if err != nil && !errors.Is(err, prove.ErrBroken) {
		return errors.Join(err, ctx.Err())
	}
	return errors.Join(v.print(result), v.psql(result, d), err)
}

// listen has keys kill nodes and end it early, where there is a terminal. restore also ends listening.
func (v *proof) listen(ctx context.Context, screen *liveLine, config *prove.Config) (restore func() error, err error) {
	interactive := screen.rewrites && isTerminal(ctx, v.stdin)
	if screen.rewrites {
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
	terminal, err := openTerminal(ctx, v.stdin)
	if err != nil {
		return nil, err
	}
	tidy := func() { _ = terminal.restore() }
	v.tidy.Store(&tidy)
	screen.say("press k to kill a node, q to end early")
	kill, end := make(chan struct{}, 1), make(chan struct{}, 1)
	config.Kill, config.End = kill, end
	listening, cancel := context.WithCancel(ctx)
	var keys sync.WaitGroup
	keys.Go(func() {
		terminal.keys(listening, func(key byte) {
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
		v.tidy.Store(nil)
		return terminal.restore()
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
