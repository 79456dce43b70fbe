package scheduled

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// tuple is the place of a row in its table's file.
type tuple struct {
	page int64
	item int // from 1; 0 is before the first
}

// String writes a tuple as Postgres writes a ctid.
func (t tuple) String() string { return fmt.Sprintf("(%d,%d)", t.page, t.item) }

func (t tuple) before(other tuple) bool {
	return t.page < other.page || t.page == other.page && t.item < other.item
}

// maxItem is more than the rows that a page of the largest size, 32 KiB, has room for.
const maxItem = 2048

// tupleRange is a range of rows. It begins with from and ends before to.
type tupleRange struct{ from, to tuple }

// wholePages is a range of whole pages.
func wholePages(from, to int64) tupleRange { return tupleRange{tuple{page: from}, tuple{page: to}} }

// halves cuts a range in two, between pages if it can. ok is false if the range is one row and cannot be cut.
func (r tupleRange) halves() (first, second tupleRange, ok bool) {
	low, high := r.from.page+1, r.to.page // the pages that begin within the range
	if r.to.item == 0 {
		high--
	}
	middle := tuple{page: (low + high) / 2}
	if low > high {
		end := r.to.item
		if r.to.page > r.from.page {
			end = maxItem
		}
		if end-r.from.item <= 1 {
			return r, r, false
		}
		middle = tuple{r.from.page, (r.from.item + end) / 2}
	}
	return tupleRange{r.from, middle}, tupleRange{middle, r.to}, true
}

const pagesSQL = `SELECT pg_relation_size($1::text::regclass) / current_setting('block_size')::bigint`

// pagesOf is how many pages a table has.
func (s statements) pagesOf(ctx context.Context, q querier, table string) (int64, error) {
	return one[int64](ctx, q, "measure "+table, pagesSQL, s.schema.SQL(table))
}

// refusal is a row for which an action failed, and its error.
type refusal struct {
	at  tuple
	err error
}

// pastRefusals applies do to the rows of a range, and skips the rows that refuse it. It tries the whole range, then
// its halves, down to single rows. It stops when it has met this many refusals, so that its transaction ends. next is
// where to go on. It is the end of the range unless pastRefusals stopped early. An error that is not about a row ends
// it.
func pastRefusals(
	ctx context.Context, tx pgx.Tx, within tupleRange, most int, do func(savepoint pgx.Tx, r tupleRange) error,
) (next tuple, refused []refusal, err error) {
	next = within.from
	var try func(r tupleRange) error
	try = func(r tupleRange) error {
		if len(refused) >= most {
			return nil
		}
		err := pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error { return do(savepoint, r) })
		if err != nil && !isDataError(err) && !isTimeout(err) {
			return err
		}
		first, second, more := r.halves()
		if err == nil || !more {
			if err != nil {
				refused = append(refused, refusal{r.from, err})
			}
			next = r.to
			return nil
		}
		if err := try(first); err != nil {
			return err
		}
		return try(second)
	}
	err = try(within)
	return next, refused, err
}
