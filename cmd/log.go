package cmd

import (
	"io"
	"log/slog"
)

// logSettings say how the program logs. Libraries get the logger given; there is no global one.
type logSettings struct {
	format string
	level  string
}

func (s *logSettings) options() []option {
	return []option{
		{flag: "log-format", variable: "TASKTABLE_LOG_FORMAT", value: "format", fallback: "text",
			usage: "text or json", set: choice(&s.format, "text", "json")},
		{flag: "log-level", variable: "TASKTABLE_LOG_LEVEL", value: "level", fallback: "info",
			usage: "debug, info, warn or error", set: choice(&s.level, "debug", "info", "warn", "error")},
	}
}

func (s *logSettings) logger(w io.Writer) *slog.Logger {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	options := &slog.HandlerOptions{Level: levels[s.level]}
	if s.format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
