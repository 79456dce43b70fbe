package store_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/tasktable/tasktable/store"
)

// The program's outcomes of attempts are the words that the table takes.
func TestOutcomesOfAttempts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	rule := one[string](b, b.Pool, `SELECT pg_get_constraintdef(oid) FROM pg_constraint
		WHERE conrelid = 'tasktable.scheduled_task_executions'::regclass AND contype = 'c'`)
	var words []store.AttemptOutcome
	for _, found := range regexp.MustCompile(`'([A-Z]+)'`).FindAllStringSubmatch(rule, -1) {
		words = append(words, store.AttemptOutcome(found[1]))
	}
	same(b, "the outcomes", slices.Sorted(slices.Values(store.AttemptOutcomes())), slices.Sorted(slices.Values(words)))
}
