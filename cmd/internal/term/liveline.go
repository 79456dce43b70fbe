package term

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// LiveLine rewrites the last line of a terminal in place. Other lines stay above it. Without a terminal all lines stay.
type LiveLine struct {
	to       io.Writer
	Rewrites bool // to is a terminal

	mu   sync.Mutex
	last string
}

// NewLiveLine writes to a file or another writer.
func NewLiveLine(ctx context.Context, to io.Writer) *LiveLine {
	return &LiveLine{to: to, Rewrites: IsTerminal(ctx, to)}
}

// The first erases the line. The second writes a line without wrapping it, because only one row can be erased.
const (
	eraseLine = "\r\x1b[2K"
	fitLine   = "\x1b[?7l%s\x1b[?7h"
)

// Show replaces the last line.
func (l *LiveLine) Show(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.Rewrites {
		fmt.Fprintln(l.to, line)
		return
	}
	l.last = line
	fmt.Fprintf(l.to, eraseLine+fitLine, line)
}

// Say prints a line that stays.
func (l *LiveLine) Say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.Rewrites {
		fmt.Fprintf(l.to, format+"\n", args...)
		return
	}
	fmt.Fprintf(l.to, eraseLine+format+"\n", args...)
	fmt.Fprintf(l.to, fitLine, l.last)
}

// End leaves the line as it is, and the cursor below it.
func (l *LiveLine) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != "" {
		l.last = ""
		fmt.Fprintln(l.to)
	}
}
