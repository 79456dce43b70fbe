package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/form"
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

// together does something for each of several things in one transaction.
func together[T, R any](ctx context.Context, pool *pgxpool.Pool, things []T, do func(pgx.Tx, T) (R, error)) (
	done []R, err error,
) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		for _, thing := range things {
			result, err := do(tx, thing)
			if err != nil {
				return err
			}
			done = append(done, result)
		}
		return nil
	})
	return done, err
}

// nameOutcome is the outcome for one thing that is no task, such as a limit.
type nameOutcome struct {
	kind, name string // kind is the key of the name in JSON: name, type or scope
	outcome    store.Outcome
}

// MarshalJSON writes an object such as {"type": "MAIL", "outcome": "created"}.
func (n nameOutcome) MarshalJSON() ([]byte, error) {
	name, err := form.Encode(n.name, "")
	return fmt.Appendf(nil, `{%q: %s, "outcome": %q}`, n.kind, name, n.outcome), err
}

// outcomes prints the outcome for each of at least one thing.
func (c *client) outcomes(done []nameOutcome, err error) error {
	if err != nil {
		return err
	}
	t := term.NewTable(strings.ToUpper(done[0].kind), "OUTCOME")
	for _, one := range done {
		t.Add(one.name, one.outcome)
	}
	return c.List(done, t, "")
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
