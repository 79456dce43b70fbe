package cmd

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tasktable/tasktable/store"
)

// pager is what a list of tasks in the order of a time has, to be read a page at a time.
type pager struct {
	limit   int
	after   string
	command *cobra.Command // as it was called, for the next page
}

func (p *pager) pageOptions(limit string, complete completion) []option {
	return []option{
		{flag: "limit", value: "number", fallback: "100", set: whole(&p.limit, 1, 5000), usage: limit},
		{flag: "after", value: "place", set: text(&p.after, 1024), complete: complete,
			usage: "the next page: the place that the page before has told, or the id of its last task"},
	}
}

// place is the task after which the page begins; nil: the first page. Of a task that has gone there is its id and the list's time, whichever
// that is.
func (p *pager) place(ctx context.Context, c *client) (*store.Row, error) {
	if p.after == "" {
		return nil, nil
	}
	if when, id, both := strings.Cut(p.after, "/"); both {
		if at, err := time.Parse(time.RFC3339Nano, when); err == nil {
			return &store.Row{ID: id, ScheduledAt: at, FinishedAt: &at}, nil
		}
	}
	row, err := c.tasks.Get(ctx, c.pool, p.after)
	if err != nil {
		return nil, fmt.Errorf("--after: %w", err)
	}
	return &row, nil
}

// noteNext says how the list goes on after its last task. That holds also when the task has gone.
func (p *pager) noteNext(c *client, at time.Time, id string) {
	c.note("There are more: %s", again(p.command, at.UTC().Format(time.RFC3339Nano)+"/"+id))
}

// onePage takes away the one that was asked for beyond the page, to see whether there are more.
func onePage[T any](rows []T, limit int) (page []T, more bool) {
	return rows[:min(len(rows), limit)], len(rows) > limit
}

// again is the command line once more, after a place: the next page. What came from variables still does.
func again(command *cobra.Command, place string) string {
	line := []string{command.CommandPath()}
	command.Flags().Visit(func(flag *pflag.Flag) {
		if value, ok := flag.Value.(*rawValue); ok && !value.option.secret && flag.Name != "after" {
			line = append(line, quoted("--"+flag.Name+"="+value.joined()))
		}
	})
	return printable(strings.Join(append(line, quoted("--after="+place)), " "))
}

var needsNoQuotes = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quoted is a word as a POSIX shell takes it.
func quoted(word string) string {
	if needsNoQuotes.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
