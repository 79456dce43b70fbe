// Package logging is the variant LOG: a task that writes its message to a log. It serves as the smoke test of an
// installation, because it needs only a node, and because the log shows when each attempt ran.
//
//	registry, err := handlers.NewRegistry(logging.Variant(logger))
//	tasks.Schedule(ctx, db, store.Task{Payload: logging.Log{Message: "hi"}, At: inAMinute})
package logging

import (
	"context"
	"log/slog"

	"github.com/tasktable/tasktable/handlers"
)

// Log is the payload, {"type":"LOG","message":"hi"}. It has no key, so each Schedule makes a task of its own.
type Log struct {
	// Message is the line to write. It may be empty. Put no secrets in it, because it appears in logs, unlike other
	// payloads.
	Message string `json:"message"`
}

// TaskType is LOG.
func (Log) TaskType() string { return "LOG" }

// Variant makes a handler that writes each task's message to the logger, at level info, with the attributes task_id,
// type, revision and attempt. If logger is nil, the handler uses slog.Default() at the time when the task runs. The
// handler never fails.
func Variant(logger *slog.Logger, options ...handlers.Option) handlers.Part {
	write := func(ctx context.Context, t *handlers.Task[Log]) error {
		to := logger
		if to == nil {
			to = slog.Default()
		}
		to.LogAttrs(ctx, slog.LevelInfo, t.Payload.Message, slog.String("task_id", t.ID), slog.String("type", t.Type),
			slog.Int64("revision", t.Revision), slog.Int("attempt", t.Attempt))
		return nil
	}
	return handlers.Handle(write, options...)
}
