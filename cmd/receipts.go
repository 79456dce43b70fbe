package cmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
)

// receipts prints the outcome of a verb for each task. It returns an error if some tasks have one of the outcomes in
// undone, so that the exit code is 1. Other outcomes, such as unchanged, are as the user asked.
func (c *client) receipts(receipts []store.Receipt, none string, undone ...store.Outcome) error {
	t := term.NewTable("ID", "OUTCOME")
	for _, receipt := range receipts {
		t.Add(receipt.ID, receipt.Outcome)
	}
	if err := c.List(receipts, t, none); err != nil {
		return err
	}
	var missed []string
	for _, outcome := range undone {
		count := 0
		for _, receipt := range receipts {
			if receipt.Outcome == outcome {
				count++
			}
		}
		if count > 0 {
			missed = append(missed, fmt.Sprintf("%d %s", count, said(outcome, count)))
		}
	}
	switch {
	case len(missed) == 0:
		return nil
	case len(receipts) == 1:
		return fmt.Errorf("of 1 task %s", missed[0])
	}
	return fmt.Errorf("of %d tasks %s", len(receipts), strings.Join(missed, ", "))
}

// each applies a verb to tasks in one transaction, and prints the receipts in the order given. It goes in the order of
// the ids, so that two transactions cannot deadlock.
func (c *client) each(ctx context.Context, ids []string, do func(pgx.Tx, string) (store.Receipt, error),
	undone ...store.Outcome) error {
	done := map[string]store.Receipt{}
	err := pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		for _, id := range slices.Sorted(slices.Values(ids)) {
			receipt, err := do(tx, id)
			if err != nil {
				return err
			}
			done[id] = receipt
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.receipts(inOrder(slices.Collect(maps.Values(done)), ids), "", undone...)
}

// inOrder returns the receipts in the order of the ids.
func inOrder(receipts []store.Receipt, ids []string) []store.Receipt {
	return slices.SortedFunc(slices.Values(receipts), func(a, b store.Receipt) int {
		return slices.Index(ids, a.ID) - slices.Index(ids, b.ID)
	})
}

// noteCancelled prints how to run the tasks that a retry leaves alone because they are cancelled.
func (c *client) noteCancelled(ctx context.Context, ids []string) {
	var cancelled []string
	for _, id := range ids {
		if row, err := c.tasks.Get(ctx, c.pool, id); err == nil && row.Status == store.StatusCancelled {
			cancelled = append(cancelled, id)
		}
	}
	if len(cancelled) > 0 {
		c.Note("CANCELLED tasks are not retried; to run them all the same: tasktable tasks run-now %s",
			term.Printable(strings.Join(cancelled, " ")))
	}
}

func said(outcome store.Outcome, count int) string {
	switch {
	case outcome == store.Absent && count == 1:
		return "does not exist"
	case outcome == store.Absent:
		return "do not exist"
	case outcome == store.Running && count == 1:
		return "is running, and stays as it is"
	case outcome == store.Running:
		return "are running, and stay as they are"
	}
	return string(outcome)
}
