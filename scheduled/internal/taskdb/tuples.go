package taskdb

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// Tuple is the place of a row in its table's file.
type Tuple struct {
	Page int64
	Item int // from 1; 0 is before the first
}

// String writes a tuple as Postgres writes a ctid.
func (t Tuple) String() string { return fmt.Sprintf("(%d,%d)", t.Page, t.Item) }

// Before reports whether the tuple lies before the other one.
func (t Tuple) Before(other Tuple) bool {
	return t.Page < other.Page || t.Page == other.Page && t.Item < other.Item
}

// maxItem is more than the rows that a page of the largest size, 32 KiB, has room for.
const maxItem = 2048

// TupleRange is a range of rows. It begins with from and ends before to.
type TupleRange struct{ From, To Tuple }

// halves cuts a range in two, between pages if it can. ok is false if the range is one row and cannot be cut.
func (r TupleRange) halves() (first, second TupleRange, ok bool) {
	low, high := r.From.Page+1, r.To.Page // the pages that begin within the range
	if r.To.Item == 0 {
		high--
	}
	middle := Tuple{Page: (low + high) / 2}
	if low > high {
		end := r.To.Item
		if r.To.Page > r.From.Page {
			end = maxItem
		}
		if end-r.From.Item <= 1 {
			return r, r, false
		}
		middle = Tuple{r.From.Page, (r.From.Item + end) / 2}
	}
	return TupleRange{r.From, middle}, TupleRange{middle, r.To}, true
}

const pagesSQL = `SELECT pg_relation_size($1::text::regclass) / current_setting('block_size')::bigint`

// PagesOf is how many pages a table has.
func (s Queries) PagesOf(ctx context.Context, q pg.DB, table string) (int64, error) {
	return pg.QueryOne[int64](ctx, q, "measure "+table, pagesSQL, s.Schema.SQL(table))
}

// Refusal is a row for which an action failed, and its error.
type Refusal struct {
	At  Tuple
	Err error
}

// PastRefusals applies do to the rows of a range, and skips the rows that refuse it. It tries the whole range, then
// its halves, down to single rows. It stops when it has met this many refusals, so that its transaction ends. next is
// where to go on. It is the end of the range unless PastRefusals stopped early. An error that is not about a row ends
// it.
func PastRefusals(
	ctx context.Context, tx pgx.Tx, within TupleRange, most int, do func(savepoint pgx.Tx, r TupleRange) error,
) (next Tuple, refused []Refusal, err error) {
	next = within.From
	var try func(r TupleRange) error
	try = func(r TupleRange) error {
		if len(refused) >= most {
			return nil
		}
		err := pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error { return do(savepoint, r) })
		if err != nil && !pg.IsDataError(err) && !pg.IsTimeout(err) {
			return err
		}
		first, second, more := r.halves()
		if err == nil || !more {
			if err != nil {
				refused = append(refused, Refusal{r.From, err})
			}
			next = r.To
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

// PagesAtOnce is how many pages of a table a walk reads at once: 16 MB.
const PagesAtOnce = 2000
