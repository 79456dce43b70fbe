package cmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tasktable/tasktable/store"
)

// undoneError is a verb that was not done to some tasks. It ends with exit code 1, after the receipts of all have been printed.
type undoneError struct {
	tasks   int
	reasons []string
}

func (e *undoneError) Error() string {
	of := "1 task"
	if e.tasks != 1 {
		of = fmt.Sprintf("%d tasks", e.tasks)
	}
	return "of " + of + " " + strings.Join(e.reasons, ", ")
}

// receipts prints what a verb came to for each task, and returns an error if it was not done to some: with these outcomes. What is
// not among them, such as unchanged, is as was asked.
func (c *client) receipts(receipts []store.Receipt, none string, undone ...store.Outcome) error {
	t := newTable("ID", "OUTCOME")
	for _, receipt := range receipts {
		t.add(receipt.ID, receipt.Outcome)
	}
	if err := c.list(receipts, t, none); err != nil {
		return err
	}
	missed := &undoneError{tasks: len(receipts)}
	for _, outcome := range undone {
		if count := len(slices.DeleteFunc(slices.Clone(receipts), func(r store.Receipt) bool { return r.Outcome != outcome })); count > 0 {
			missed.reasons = append(missed.reasons, fmt.Sprintf("%d %s", count, said(outcome, count)))
		}
	}
	if len(missed.reasons) > 0 {
		return missed
	}
	return nil
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
