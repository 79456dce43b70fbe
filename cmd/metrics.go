package cmd

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/scheduled/monitoring"
)

// metricsCommand prints alert rules and a dashboard. It needs no database.
func (p *program) metricsCommand() *cobra.Command {
	group := &cobra.Command{
		Use:   "metrics",
		Short: "Prints alert rules and a dashboard for the metrics of nodes",
		Long: `Prints alert rules for Prometheus and a dashboard for Grafana 10 or later, which watch the metrics of
nodes. Fit the thresholds of the rules to your tasks.`,
		Example: `  tasktable metrics alerts > /etc/prometheus/rules/tasktable.yaml
  tasktable metrics dashboard > tasktable.json   # Grafana: Dashboards, New, Import`,
		Args: options.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	print := func(use, short, example, text string) {
		group.AddCommand(p.Bind(&cobra.Command{Use: use, Short: short, Long: short + ".", Example: example}, nil,
			func(*cobra.Command) error { _, err := io.WriteString(p.stdout, text); return err }))
	}
	print("alerts", "Prints a rule file for Prometheus",
		`  tasktable metrics alerts > tasktable.yaml && promtool check rules tasktable.yaml`, monitoring.Alerts)
	print("dashboard", "Prints a dashboard for Grafana", `  tasktable metrics dashboard > tasktable.json`,
		monitoring.Dashboard)
	return group
}
