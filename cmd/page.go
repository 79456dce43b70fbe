package cmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/store"
)

// pager holds the options of a list that is read a page at a time.
type pager struct {
	limit int
	after string
}

func (p *pager) pageOptions(limit string, complete options.Completion) []options.Option {
	return []options.Option{
		{Flag: "limit", Kind: "number", Default: "100", Set: options.Int(&p.limit, 1, 5000), Usage: limit},
		{Flag: "after", Kind: "place", Set: options.Text(&p.after, 1024), Complete: complete,
			Usage: "the next page: the place that the previous page printed, or the id of its last task"},
	}
}

// place is the task after which the page begins, or nil for the first page. If that task has gone, its id and the
// list's time are enough.
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

// noteNext prints the command for the next page. The command works even if the last task has gone meanwhile.
func (p *pager) noteNext(c *client, at time.Time, id string) {
	c.Note("There are more: %s", options.CommandLine(c.command, "after", at.UTC().Format(time.RFC3339Nano)+"/"+id))
}

// onePage takes away the row beyond the page, which was read to see whether there are more.
func onePage[T any](rows []T, limit int) (page []T, more bool) {
	return rows[:min(len(rows), limit)], len(rows) > limit
}
