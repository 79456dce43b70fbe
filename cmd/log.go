package cmd

import (
	"context"
	"io"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/tasktable/tasktable/cmd/internal/options"
)

// logSettings say how the program logs. Each library gets a logger as an argument, because there is no global one.
type logSettings struct {
	format string
	level  string
}

func (s *logSettings) options() []options.Option {
	return []options.Option{
		{Flag: "log-format", Variable: "TASKTABLE_LOG_FORMAT", Kind: "format", Default: "text",
			Usage: "text or json", Set: options.OneOf(&s.format, "text", "json")},
		{Flag: "log-level", Variable: "TASKTABLE_LOG_LEVEL", Kind: "level", Default: "info",
			Usage: "debug, info, warn or error", Set: options.OneOf(&s.level, "debug", "info", "warn", "error")},
	}
}

// quietOptions are the options of a command that a person calls for a list. Its level is warn, because the person did
// not ask how the database was found.
func (s *logSettings) quietOptions() []options.Option {
	opts := s.options()
	for i := range opts {
		if opts[i].Flag == "log-level" {
			opts[i].Default = "warn"
		}
	}
	return opts
}

func (s *logSettings) logger(w io.Writer) *slog.Logger {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn,
		"error": slog.LevelError}
	opts := &slog.HandlerOptions{Level: levels[s.level]}
	if s.format == "json" {
		return slog.New(tracedLog{slog.NewJSONHandler(w, opts)})
	}
	return slog.New(tracedLog{slog.NewTextHandler(w, opts)})
}

// tracedLog adds to each line the span in which it was logged, if there is one.
type tracedLog struct{ slog.Handler }

func (l tracedLog) Handle(ctx context.Context, record slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		record = record.Clone() // its attributes may be another handler's, too
		record.AddAttrs(slog.String("trace_id", span.TraceID().String()),
			slog.String("span_id", span.SpanID().String()))
	}
	return l.Handler.Handle(ctx, record)
}

func (l tracedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return tracedLog{l.Handler.WithAttrs(attrs)}
}
func (l tracedLog) WithGroup(name string) slog.Handler { return tracedLog{l.Handler.WithGroup(name)} }
