package maintenance

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/sanitize"
)

// removeEach removes the rows of a page, and counts in the batch those that cannot be removed.
func (r *Retention) removeEach(
	ctx context.Context, tx pgx.Tx, at Place, remove func(from, to string) error, batch *Retained,
) error {
	var items []int
	for item := 1; item < maxItem; item++ {
		items = append(items, item)
	}
	var refused Retained
	var first string
	err := pg.Isolate(pg.IsDataErrorOrTimeout, items, func(some []int) error {
		return remove(tid(at.page, some[0]), tid(at.page, some[len(some)-1]+1))
	}, func(item int, err error) error {
		if refused.Refused++; refused.Refused == 1 {
			first, refused.Why = tid(at.page, item), sanitize.Text(err.Error())
		}
		return nil
	})
	if err != nil || refused.Refused == 0 {
		return err
	}
	refused.Task, err = pg.QueryOne[string](ctx, tx, "read which task cannot be removed",
		r.config.Statements.Schema.SQL(retainTables[at.table].taskAt), first)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) { // somebody else may have removed it just now
		return err
	}
	batch.add(refused)
	return nil
}
