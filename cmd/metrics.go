package cmd

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/scheduled/monitoring"
	"github.com/tasktable/tasktable/store/when"
)

// metricsCommand prints alert rules and a dashboard. It needs no database.
func (p *program) metricsCommand() *cobra.Command {
	const dashboard = "Prints a dashboard for Grafana"
	return group(&cobra.Command{
		Use:   "metrics",
		Short: "Prints alert rules and a dashboard for the metrics of nodes",
		Long: `Prints alert rules for Prometheus and a dashboard for Grafana 10 or later, which watch the metrics of
nodes. The options of the rules fit their thresholds to your tasks.`,
		Example: `  tasktable metrics alerts > /etc/prometheus/rules/tasktable.yaml
  tasktable metrics dashboard > tasktable.json   # Grafana: Dashboards, New, Import`,
	}, p.alertsCommand(), p.Bind(&cobra.Command{
		Use: "dashboard", Short: dashboard, Long: dashboard + ".",
		Example: `  tasktable metrics dashboard > tasktable.json`,
	}, nil, func(*cobra.Command) error { return p.print(monitoring.Dashboard) }))
}

func (p *program) print(text string) error {
	_, err := io.WriteString(p.stdout, text)
	return err
}

const alertsHelp = `Prints a rule file for Prometheus: alerts, and recording rules of three service level objectives.

The objectives are that attempts begin within a time, that tasks succeed, and that the HTTP API does not answer with
5xx. Their alerts fire while the error budget of 30 days is spent too fast. A task that FAILED or EXPIRED and an attempt
that was LOST count as bad. A cancelled task does not count.`

func (p *program) alertsCommand() *cobra.Command {
	t := monitoring.DefaultThresholds()
	return p.Bind(&cobra.Command{
		Use: "alerts", Short: "Prints a rule file for Prometheus", Long: alertsHelp,
		Example: `  tasktable metrics alerts > tasktable.yaml && promtool check rules tasktable.yaml
  tasktable metrics alerts --late-after 15m --slo-start-within 30s --slo-success-ratio 0.999`,
	}, alertOptions(&t), func(*cobra.Command) error {
		text, err := monitoring.AlertsWith(t)
		if err != nil {
			return err
		}
		return p.print(text)
	})
}

// alertOptions are the options that set thresholds.
func alertOptions(t *monitoring.Thresholds) []options.Option {
	const day = 24 * time.Hour
	duration := func(flag string, into *time.Duration, usage string) options.Option {
		return options.Option{Flag: flag, Kind: "duration", Default: when.LengthText(*into), Usage: usage,
			Set: options.Duration(into, time.Second, 365*day)}
	}
	number := func(flag string, into *int, minimum, maximum int, usage string) options.Option {
		return options.Option{Flag: flag, Kind: "number", Default: strconv.Itoa(*into), Usage: usage,
			Set: options.Int(into, minimum, maximum)}
	}
	ratio := func(flag string, into *float64, minimum, maximum float64, usage string) options.Option {
		return options.Option{Flag: flag, Kind: "ratio", Default: strconv.FormatFloat(*into, 'g', -1, 64), Usage: usage,
			Set: ratioBetween(into, minimum, maximum)}
	}
	return []options.Option{
		duration("no-node-after", &t.NoNodeAfter, "how long a task is due that no node has the queue and the type of"),
		duration("late-after", &t.LateAfter, "how long a task is due and not claimed"),
		number("queue-depth", &t.QueueDepth, 0, 1e9, "more than so many due tasks wait in a queue for ten minutes"),
		duration("starts-late-after", &t.StartsLateAfter, "how late 1 of 100 attempts of a type begins"),
		number("dead-letters", &t.DeadLetters, 0, 1e9, "more than so many dead letters of a type within an hour"),
		ratio("failure-ratio", &t.FailureRatio, 0.001, 0.999, "the part of a type's attempts that fail"),
		number("claims-lost", &t.ClaimsLost, 0, 1e9, "more than so many lost claims of a type within half an hour"),
		duration("slow-after", &t.SlowAfter, "how long 1 of 10 passes of the leader, or records of outcomes, takes"),
		duration("paused-for", &t.PausedFor, "how long something is paused"),
		number("recurring-intervals", &t.RecurringIntervals, 1, 10,
			"how many intervals a recurring task has not succeeded for"),
		{Flag: "slo-start-within", Kind: "duration", Default: when.LengthText(t.StartWithin),
			Set:   startBucket(&t.StartWithin),
			Usage: "the time within which attempts begin; a bound of the histogram start_delay_seconds"},
		ratio("slo-start-ratio", &t.StartRatio, monitoring.MinRatio, monitoring.MaxRatio,
			"the part of the attempts that begins within this time"),
		ratio("slo-success-ratio", &t.SuccessRatio, monitoring.MinRatio, monitoring.MaxRatio,
			"the part of the tasks that succeeds"),
		ratio("slo-api-ratio", &t.APIRatio, monitoring.MinRatio, monitoring.MaxRatio,
			"the part of the HTTP API's calls that is not answered with 5xx"),
		number("slo-min-bad", &t.MinBad, 1, 1e9, "fewer bad tasks or calls raise no alert of an objective"),
	}
}

func ratioBetween(into *float64, minimum, maximum float64) func(string) error {
	return func(given string) error {
		value, err := strconv.ParseFloat(given, 64)
		if err != nil || !(value >= minimum && value <= maximum) {
			return fmt.Errorf("must be a number between %g and %g", minimum, maximum)
		}
		*into = value
		return nil
	}
}

func startBucket(into *time.Duration) func(string) error {
	return func(given string) error {
		value, err := time.ParseDuration(given)
		if err != nil || !slices.Contains(monitoring.StartBuckets(), value) {
			buckets := textsOf(monitoring.StartBuckets(), when.LengthText)
			return errors.New("must be one of " + strings.Join(buckets, ", "))
		}
		*into = value
		return nil
	}
}
