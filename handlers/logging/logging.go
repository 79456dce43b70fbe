// Package logging is the variant LOG: a task that writes its message to a log. It is the smoke test of an installation, as
// it needs nothing but a node, and shows when each attempt ran.
//
//	registry, err := handlers.NewRegistry(logging.Variant(logger))
//	tasks.Schedule(ctx, db, store.Task{Payload: logging.Log{Message: "hi"}, At: inAMinute})
package logging

import (
	"context"
	"log/slog"

	"github.com/tasktable/tasktable/handlers"
)

// Log is the payload, {"type":"LOG","message":"hi"}. It has no key: each one scheduled is a task of its own.
type Log struct {
	// Message is the line to write; it may be empty. Unlike other payloads it is meant to be seen in logs: no secrets.
	Message string `json:"message"`
}

// TaskType is LOG.
func (Log) TaskType() string { return "LOG" }

// Variant writes each task's message to the logger, at level info, with the attributes task_id, type, revision and attempt.
// Nil: slog.Default(), as it is when the task runs. It never fails.
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
