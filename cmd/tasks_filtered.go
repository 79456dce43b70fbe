package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// verbBatch is how many tasks one transaction changes. It is bounded because the transaction locks each of them until
// its end.
const verbBatch = 1000

// toFiltered applies the verb to the tasks that the filter selects, after the user has confirmed it.
func (v *tasksVerb) toFiltered(ctx context.Context) error {
	filter, err := v.filter.resolved(v.Clock)
	if err != nil {
		return err
	}
	none := noTask
	filter.Order, filter.Limit = inspect.ByID, v.limit
	if v.verb.dead {
		none, filter.Order = noDead(&v.filter, false), inspect.ByFinished
	}
	names, isMore, filter, err := v.inspector.Choose(ctx, v.pool, v.verb.Verb, filter)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return v.receipts(nil, none)
	}
	more := 0
	if isMore {
		total, err := v.inspector.Count(ctx, v.pool, filter)
		if err != nil {
			return err
		}
		more = max(0, total.Count-len(names))
	}
	if err := v.confirm(ctx, v.program, v.verb.Does+" "+v.verb.counted(names, more)); err != nil {
		return err
	}
	receipts, changed, err := v.toBatches(ctx, names, filter)
	if err != nil && len(receipts) == 0 {
		return err
	}
	if changed > 0 {
		v.Note("%d of them had changed meanwhile, and were left alone.", changed)
	}
	if more > 0 {
		v.Note("There are %d more: run it again.", more)
	}
	printed := v.receipts(receipts, none, undone...)
	if err != nil {
		return fmt.Errorf("%d were done before an error: %w", len(receipts), err)
	}
	return printed
}

// toBatches applies the action to one batch of tasks after the other. Each batch has its share of the time over which
// they are spread. changed is the number of tasks that the filter no longer selected.
func (v *tasksVerb) toBatches(
	ctx context.Context, names []inspect.Name, filter inspect.Filter,
) (done []store.Receipt, changed int, err error) {
	action := v.action
	step := action.Over / time.Duration(len(names))
	for batch := range slices.Chunk(names, verbBatch) {
		action.Over = step * time.Duration(len(batch))
		ids := make([]string, len(batch))
		for i, name := range batch {
			ids[i] = name.ID
		}
		batch, err := v.inspector.Do(ctx, v.pool, action, inspect.Targets{IDs: ids, Filter: &filter})
		if err != nil {
			return done, changed, err
		}
		done, changed = append(done, batch.Receipts...), changed+len(ids)-len(batch.Receipts)
		action.After += action.Over
	}
	return done, changed, nil
}

// counted returns how many tasks there are of each kind, such as "3 tasks (2 QUEUED of LOG; 1 FAILED of MAIL)".
// For dead letters it adds the patterns of their errors.
func (v taskVerb) counted(names []inspect.Name, more int) string {
	counts := map[string]int{}
	for _, name := range names {
		kind := string(name.Status) + " of " + name.Type
		if name.Pattern != "" && slices.Contains(inspect.DeadLetters().Statuses, name.Status) {
			kind += fmt.Sprintf(": %q", name.Pattern)
		}
		counts[kind]++
	}
	kinds := make([]string, 0, len(counts))
	for kind := range counts {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	const maxKinds = 5
	parts := make([]string, 0, maxKinds+1)
	for _, kind := range kinds[:min(len(kinds), maxKinds)] {
		parts = append(parts, fmt.Sprintf("%d %s", counts[kind], kind))
	}
	if len(kinds) > maxKinds {
		parts = append(parts, "…")
	}
	return v.amount(len(names), more) + " (" + strings.Join(parts, "; ") + ")"
}

// amount returns a text such as "1 task", "3 tasks", or "2 of 5 dead letters, the oldest".
func (v taskVerb) amount(chosen, more int) string {
	noun, first := "task", "the first by id"
	if v.dead {
		noun, first = "dead letter", "the oldest"
	}
	if chosen+more != 1 {
		noun += "s"
	}
	if more > 0 {
		return fmt.Sprintf("%d of %d %s, %s", chosen, chosen+more, noun, first)
	}
	return fmt.Sprintf("%d %s", chosen, noun)
}
