package worker

import (
	"context"
	"log/slog"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// maxLoggedError bounds the text of an error in a log line, in bytes. The history has more of the text.
const maxLoggedError = 1000

// oneLine makes an attempt's error fit for a log line. It returns the text as one bounded line without control
// characters. It returns the stack of a panic apart.
func oneLine(text string) (line, stack string) {
	text, stack, _ = strings.Cut(text, "\ngoroutine ") // the text of debug.Stack begins so
	line = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), r == utf8.RuneError:
			return '\uFFFD'
		}
		return r
	}, strings.TrimSpace(text))
	if len(line) <= maxLoggedError {
		return line, stack
	}
	end := maxLoggedError
	for !utf8.RuneStart(line[end]) {
		end--
	}
	return line[:end] + "…", stack
}

// sayOutdated is the line about an attempt that ended SUPERSEDED.
const sayOutdated = "task was edited or cancelled meanwhile; the outcome does not count"

// logEnd writes the log line of an attempt's end, with the outcome that the history has and with the error. At level
// debug it also writes the stack of a panic.
func (w *Worker) logEnd(ctx context.Context, level slog.Level, say string, s taskdb.Settlement, outcome string) {
	if !w.config.Log.Enabled(ctx, level) {
		return // saves the memory of the attributes
	}
	attributes := []any{"task", s.ID, "type", s.Type, "revision", s.Revision, "attempt", s.Attempt, "outcome", outcome}
	if s.Error == nil || !w.config.LogErrors {
		w.config.Log.Log(ctx, level, say, attributes...)
		return
	}
	line, stack := oneLine(*s.Error)
	w.config.Log.Log(ctx, level, say, append(attributes, "error", line)...)
	if stack != "" {
		w.config.Log.DebugContext(ctx, "the stack of the panic", "task", s.ID, "type", s.Type,
			"revision", s.Revision, "attempt", s.Attempt, "stack", stack)
	}
}
