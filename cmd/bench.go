package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/scheduled/bench"
)

const benchHelp = `Measures the engine. Each bench makes a database of its own on the given server, for which its role
must be able to create one. It says what it does, verifies its result by SQL, prints its figures and drops the
database. Without a database URL it uses the private Postgres, with Postgres's default settings.

Comparisons run side by side, in turns, and their medians count. On a machine that also does other work, only the ratios
mean something. It ends with exit code 1 if the result is wrong, whatever the figures.`

// benchNode is how the program calls itself for a process that a bench kills.
const benchNode = "node"

// benchmark is one run of a bench.
type benchmark struct {
	*program
	database databaseSettings
	log      logSettings
	tasks    int
	rounds   int
	json     bool
}

func (p *program) benchCommand() *cobra.Command {
	parent := &cobra.Command{
		Use:   "bench",
		Short: "Measures the engine, beside River alone",
		Long:  benchHelp,
		Example: `  tasktable bench drain -n 100000
  tasktable bench precise --json
  DATABASE_URL=postgres://user@host/db tasktable bench scale -n 500000`,
		Args: options.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	for _, one := range bench.All {
		parent.AddCommand(p.oneBenchCommand(one))
	}
	parent.AddCommand(&cobra.Command{
		Use: benchNode, Hidden: true, Args: options.NoArguments,
		Short:   "Is killed by the bench recover",
		Example: "  tasktable bench recover",
		RunE:    func(command *cobra.Command, _ []string) error { return bench.Child(command.Context(), p.stdout) },
	})
	return parent
}

func (p *program) oneBenchCommand(one bench.Bench) *cobra.Command {
	b := &benchmark{program: p}
	var opts []options.Option
	if one.Default > 0 {
		opts = append(opts, options.Option{Flag: "tasks", Short: "n", Variable: "TASKTABLE_BENCH_TASKS",
			Kind: "number", Default: strconv.Itoa(one.Default), Set: options.Int(&b.tasks, 1, 50_000_000),
			Usage: "how many tasks"})
	}
	opts = append(opts,
		options.Option{Flag: "rounds", Variable: "TASKTABLE_BENCH_ROUNDS", Kind: "number", Default: "3",
			Set: options.Int(&b.rounds, 1, 100), Usage: "how often comparisons are made; their medians count"},
		options.Option{Flag: "json", Variable: "TASKTABLE_BENCH_JSON", Set: options.Bool(&b.json),
			Usage: "prints one JSON object a line instead of a table"})
	for _, o := range b.database.options() {
		// The bench makes a database and a schema of its own, and connects without a pooler. So it needs no others.
		if o.Flag == "database-url" || o.Flag == "data-dir" {
			opts = append(opts, o)
		}
	}
	opts = append(opts, b.log.options()...)
	return p.Bind(&cobra.Command{
		Use:     one.Name,
		Short:   one.Short,
		Long:    one.Long,
		Example: "  tasktable bench " + one.Name,
	}, opts, func(command *cobra.Command) error { return b.run(command.Context(), one) })
}

func (b *benchmark) run(ctx context.Context, one bench.Bench) (err error) {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	logger := b.log.logger(b.stderr)
	b.WarnUnknown(logger)
	d, err := b.database.open(ctx, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	say := func(format string, args ...any) { fmt.Fprintf(b.stderr, format+"\n", args...) }
	say("%s: %s", one.Name, one.Long)
	began := time.Now()
	result, err := one.Run(ctx, bench.Config{
		Server: d.direct.Config().ConnConfig, Tasks: b.tasks, Rounds: b.rounds, Program: program,
		Arguments: []string{"bench", benchNode}, Say: say,
	})
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	say("verified: %s; took %s", result.Verified, time.Since(began).Round(time.Second))
	if b.json {
		return printJSON(b.stdout, result)
	}
	return printTable(b.stdout, result)
}

// printJSON writes an object with the bench's name and its figures, on one line.
func printJSON(to io.Writer, result bench.Result) error {
	object := map[string]any{"bench": result.Bench}
	for _, figure := range result.Figures {
		object[figure.Name] = figure.Value
	}
	if err := json.NewEncoder(to).Encode(object); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func printTable(to io.Writer, result bench.Result) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, figure := range result.Figures {
		fmt.Fprintf(table, "%s\t%s\t%s\n", figure.Name, rounded(figure.Value), figure.Meaning)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// rounded shows three or more digits that count.
func rounded(value float64) string {
	switch {
	case value >= 100 || value == float64(int64(value)):
		return strconv.FormatFloat(value, 'f', 0, 64)
	case value >= 10:
		return strconv.FormatFloat(value, 'f', 1, 64)
	default:
		return strconv.FormatFloat(value, 'f', 2, 64)
	}
}
