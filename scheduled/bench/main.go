// Command bench measures the engine: go run ./scheduled/bench NAME. Each bench makes a database of its own on the
// server of DATABASE_URL, works there as a service would, verifies the result by SQL, prints its figures and drops
// the database. Without DATABASE_URL it uses the private Postgres of the program tasktable. Comparisons run in turns,
// because on a machine with other work only such ratios mean something.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/throwaway"
	"github.com/tasktable/tasktable/store/localpg"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := func() error { return runBench(ctx, os.Args[1:], os.Stdout, os.Stderr) }
	if throwaway.IsProcess() {
		run = func() error { return runChild(ctx, os.Stdout) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // nothing is left to stop
	}
}

const usage = `Usage: go run ./scheduled/bench NAME [-n TASKS] [-rounds N] [-json]

The server is that of DATABASE_URL. Its role must be able to create a database. The benches:
`

// runBench runs the bench that the arguments name. Figures go to stdout, and progress goes to stderr.
func runBench(ctx context.Context, arguments []string, stdout, stderr io.Writer) (err error) {
	var name string
	if len(arguments) > 0 {
		name, arguments = arguments[0], arguments[1:]
	}
	i := slices.IndexFunc(All, func(b Bench) bool { return b.Name == name })
	if i < 0 {
		fmt.Fprint(stderr, usage)
		for _, one := range All {
			fmt.Fprintf(stderr, "  %-9s %s\n", one.Name, one.Short)
		}
		return fmt.Errorf("there is no bench %q", name)
	}
	one, config := All[i], Config{}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&config.Tasks, "n", one.Default, "how many tasks; idle has none")
	flags.IntVar(&config.Rounds, "rounds", defaultRounds, "how often comparisons are made; their medians count")
	asJSON := flags.Bool("json", false, "print one JSON object a line instead of a table")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if config.Tasks < 0 || config.Rounds < 1 || flags.NArg() > 0 {
		return errors.New("-n must not be negative, -rounds must be at least 1, and nothing may follow them")
	}
	server, stop, err := openServer(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	config.Server = server
	config.Say = func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) }
	config.Say("%s: %s", one.Name, one.Long)
	began := time.Now()
	result, err := one.Run(ctx, config)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	config.Say("verified: %s; took %s", result.Verified, time.Since(began).Round(time.Second))
	if *asJSON {
		return printJSON(stdout, result)
	}
	return printTable(stdout, result)
}

// openServer returns the settings of the server of DATABASE_URL, or of the private Postgres. The caller must call stop.
func openServer(ctx context.Context) (server *pgx.ConnConfig, stop func() error, err error) {
	url, stop := os.Getenv("DATABASE_URL"), func() error { return nil }
	if url == "" {
		private, err := localpg.Start(ctx, localpg.Config{})
		if err != nil {
			return nil, nil, fmt.Errorf("there is no DATABASE_URL, and a private Postgres does not start: %w", err)
		}
		url, stop = private.URL(), private.Stop
	}
	if server, err = pgx.ParseConfig(url); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("DATABASE_URL: %w", err), stop())
	}
	return server, stop, nil
}

// printJSON writes an object with the bench's name and its figures, on one line.
func printJSON(to io.Writer, result Result) error {
	object := map[string]any{"bench": result.Bench}
	for _, figure := range result.Figures {
		object[figure.Name] = figure.Value
	}
	if err := json.NewEncoder(to).Encode(object); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func printTable(to io.Writer, result Result) error {
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
