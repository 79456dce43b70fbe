package cmd

import (
	"cmp"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/scheduled/dashboard"
	"github.com/tasktable/tasktable/store"
)

// environmentSettings name the environment that the program works for, so that nobody takes staging for production.
type environmentSettings struct {
	name  string
	color string
}

func (s *environmentSettings) options() []options.Option {
	colors := dashboard.EnvironmentColors()
	return []options.Option{
		{Flag: "environment", Variable: "TASKTABLE_ENVIRONMENT", Kind: "name",
			Set: options.Checked(&s.name, store.CheckEnvironment,
				"must be 1 to 64 letters, digits, inner spaces or inner ._-"),
			Usage: "the name of this environment, such as production, which the dashboard, notices, logs and metrics " +
				"show (default none)"},
		{Flag: "environment-color", Variable: "TASKTABLE_ENVIRONMENT_COLOR", Kind: "color", Default: colors[0],
			Set: options.OneOf(&s.color, colors...), Usage: "the color of that name in the dashboard"},
	}
}

// logger returns a logger whose lines have the environment.
func (s *environmentSettings) logger(logger *slog.Logger) *slog.Logger {
	if s.name == "" {
		return logger
	}
	return logger.With("environment", s.name)
}

// register adds the metric target_info, by which queries join the environment to the other metrics.
func (s *environmentSettings) register(metrics *metrics, service string) {
	if s.name == "" {
		return
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "target_info", Help: "The environment and the service of this process.",
		ConstLabels: prometheus.Labels{"environment": s.name, "service": cmp.Or(service, executable())},
	})
	info.Set(1)
	metrics.registry.MustRegister(info)
}
