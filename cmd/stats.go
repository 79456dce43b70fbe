package cmd

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/scheduled/doctor"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

const statsHelp = `Prints statistics of all types or of one:

  - How many tasks there are of each type and status. If the table is larger than 128 MB, it reads 128 MB at random,
    so that the numbers are estimates, unless --exact is given.
  - The outcomes of the attempts that ended within --since, by type: how many completed, FAILED for good, were RETRIED
    after a failure, were LOST, EXPIRED before they began, or ended in another way. FAILURES is the share of the
    attempts that failed or were lost, among those that ran. DELAY is the time from when an attempt was due until its
    handler started. TOOK is the time from then until its end. P50, P95 and P99 mean that 50, 95 or 99 of 100 took no
    longer. If there were more than 100000 attempts, it reads the newest of them, and prints how far back they reach,
    unless --exact is given.
  - The next fires, and what needs a person, of all types, as on the overview of the dashboard.

With --output json it prints an object. Durations are in nanoseconds.`

// nextFires is how many coming fires are shown.
const nextFires = 5

// stats is the command stats.
type stats struct {
	*client
	taskType string
	since    time.Duration
	exact    bool
}

func (p *program) statsCommand() *cobra.Command {
	s := &stats{client: p.client()}
	opts := []options.Option{
		{Flag: "since", Kind: "duration", Default: "1h",
			Set:   options.Duration(&s.since, time.Second, inspect.MaxStatsWindow),
			Usage: "how far back it looks at attempts, such as 15m, 12h or 7d"},
		{Flag: "type", Kind: "type", Set: taskType(&s.taskType), Complete: s.types, Usage: "only this type"},
		{Flag: "exact", Set: options.Bool(&s.exact),
			Usage: "counts all tasks and all attempts, however long that takes"},
	}
	return p.Bind(&cobra.Command{
		Use:   "stats",
		Short: "Prints statistics: tasks by status, throughput, delays and failures by type",
		Long:  statsHelp,
		Example: `  tasktable stats
  tasktable stats --since 7d --type SEND_EMAIL
  tasktable stats --since 15m --output json | jq '.attempts[] | select(.failure_rate > 0.1)'`,
	}, append(opts, s.options()...), s.opened(s.run))
}

// statistics is the output of the command.
type statistics struct {
	Tasks          []inspect.TaskCount  `json:"tasks"`
	TasksEstimated bool                 `json:"tasks_estimated"`
	Since          time.Time            `json:"since"`
	Until          time.Time            `json:"until"`
	Bounded        bool                 `json:"bounded"` // since is later than the user asked for
	Attempts       []inspect.TypeStats  `json:"attempts"`
	NextFires      []inspect.ComingFire `json:"next_fires"`
	Attention      []inspect.Finding    `json:"attention"`
}

func (s *stats) run(ctx context.Context) error {
	found, err := s.collect(ctx)
	if err != nil {
		return err
	}
	if s.JSON {
		return s.Document(found)
	}
	for _, part := range []func(*statistics) error{s.printTasks, s.printAttempts, s.printFires, s.printAttention} {
		if err := part(found); err != nil {
			return err
		}
	}
	return nil
}

func (s *stats) collect(ctx context.Context) (*statistics, error) {
	counts, err := s.inspector.TaskCounts(ctx, s.pool, s.taskType, s.exact)
	if err != nil {
		return nil, err
	}
	filter := inspect.StatsFilter{Type: s.taskType, Window: s.since}
	if s.exact {
		filter.Most = -1
	}
	throughput, err := s.inspector.Throughput(ctx, s.pool, filter)
	if err != nil {
		return nil, err
	}
	fires, err := s.inspector.ComingFires(ctx, s.pool, s.taskType, nextFires)
	if err != nil {
		return nil, err
	}
	attention, err := s.inspector.Attention(ctx, s.pool)
	return &statistics{Tasks: counts.Counts, TasksEstimated: counts.Estimated, Since: throughput.Since,
		Until: throughput.Until, Bounded: throughput.Bounded, Attempts: throughput.Types, NextFires: fires,
		Attention: append([]inspect.Finding{}, attention...)}, err
}

// title prints the heading of a part.
func (s *stats) title(format string, args ...any) {
	fmt.Fprintln(s.Data, term.Paint(term.Printable(fmt.Sprintf(format, args...)), term.Bold, s.Colors))
}

// printTasks prints a line for each type, with a column for each status.
func (s *stats) printTasks(found *statistics) error {
	estimated := ""
	if found.TasksEstimated {
		estimated = ", estimated by a part of the table"
	}
	s.title("Tasks by type and status%s", estimated)
	headings, byType := []string{"TYPE"}, map[string]map[store.Status]int64{}
	for _, status := range store.Statuses() {
		headings = append(headings, string(status))
	}
	for _, count := range found.Tasks {
		if byType[count.Type] == nil {
			byType[count.Type] = map[store.Status]int64{}
		}
		byType[count.Type][count.Status] = count.Count
	}
	t := term.NewTable(headings...)
	for _, name := range sortedKeys(byType) {
		row := []any{name}
		for _, status := range store.Statuses() {
			count := term.Cell{Number: true} // printed as "-", which is easier to look past than 0
			if n := byType[name][status]; n > 0 {
				count = term.Cell{Text: strconv.FormatInt(n, 10), Number: true,
					Color: term.StatusColors[string(status)]}
			}
			row = append(row, count)
		}
		t.Add(row...)
	}
	return s.orNone(t, "none")
}

func (s *stats) orNone(t *term.Table, none string) error {
	if t.IsEmpty() {
		_, err := fmt.Fprintln(s.Data, none)
		return err
	}
	return t.Print(s.Data, s.Colors, 0)
}

func (s *stats) printAttempts(found *statistics) error {
	fmt.Fprintln(s.Data)
	bounded := ""
	if found.Bounded {
		bounded = fmt.Sprintf(", which is as far as the newest %d claims reach", inspect.DefaultStatsMost)
	}
	s.title("Attempts that ended since %s%s", s.When(&found.Since), bounded)
	t := term.NewTable("TYPE", "COMPLETED", "A MINUTE", "FAILED", "RETRIED", "LOST", "EXPIRED", "OTHER", "FAILURES",
		"DELAY P50", "P95", "P99", "TOOK P50", "P95", "P99")
	minutes := found.Until.Sub(found.Since).Minutes()
	for _, of := range found.Attempts {
		row := []any{of.Type, of.Completed, numberCell(strconv.FormatFloat(float64(of.Completed)/minutes, 'f', 1, 64)),
			nonzero(of.Failed, term.Red), nonzero(of.Retried, term.Yellow), nonzero(of.Lost, term.Red),
			nonzero(of.Expired, term.Red), nonzero(of.Other, term.Plain),
			failures(of.FailureRate)}
		for _, d := range []*time.Duration{of.DelayP50, of.DelayP95, of.DelayP99, of.TookP50, of.TookP95, of.TookP99} {
			text := ""
			if d != nil {
				text = term.Took(*d)
			}
			row = append(row, numberCell(text))
		}
		t.Add(row...)
	}
	return s.orNone(t, "none")
}

func numberCell(text string) term.Cell { return term.Cell{Text: text, Number: true} }

func nonzero(count int64, color term.Color) term.Cell {
	c := term.CellOf(count)
	if count > 0 {
		c.Color = color
	}
	return c
}

func failures(rate *float64) term.Cell {
	if rate == nil {
		return numberCell("")
	}
	c := numberCell(strconv.FormatFloat(*rate*100, 'f', 1, 64) + " %")
	if *rate > 0 {
		c.Color = term.Yellow
	}
	return c
}

func (s *stats) printFires(found *statistics) error {
	if len(found.NextFires) == 0 {
		return nil
	}
	fmt.Fprintln(s.Data)
	s.title("Next fires")
	t := term.NewTable("FIRES AT", "ID", "TYPE", "QUEUE")
	for _, fire := range found.NextFires {
		t.Add(s.When(&fire.At), fire.ID, fire.Type, fire.Queue)
	}
	return t.Print(s.Data, s.Colors, s.Width)
}

func (s *stats) printAttention(found *statistics) error {
	fmt.Fprintln(s.Data)
	s.title("What needs a person")
	t := term.NewTable("LEVEL", "FOUND")
	for _, one := range found.Attention {
		t.Add(term.Cell{Text: string(one.Level), Color: levelColors[doctor.Level(one.Level)]}, one.Found)
	}
	return s.orNone(t, "nothing")
}
