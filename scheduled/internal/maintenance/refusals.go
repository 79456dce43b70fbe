package maintenance

import (
	"errors"
	"fmt"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// tuple is the place of a row in its table's file.
type tuple struct {
	page int64
	item int // from 1; 0 is before the first
}

// String writes a tuple as Postgres writes a ctid.
func (t tuple) String() string { return fmt.Sprintf("(%d,%d)", t.page, t.item) }

const pagesSQL = `SELECT pg_relation_size($1::text::regclass) / current_setting('block_size')::bigint`

// maxItem is more than the rows that a page of the largest size, 32 KiB, has room for.
const maxItem = 2048

// refusal is a row for which an action failed, and its error.
type refusal struct {
	at  tuple
	err error
}

var errManyRefusals = errors.New("many rows refuse")

// pastRefusals applies do to the rows from one on until the page end, and skips the rows that refuse it. It stops when
// it has met retainRefusals of them, so that its transaction ends. next is where to go on. An error that is not about a
// row ends it.
func pastRefusals(from, end tuple, do func(from, to tuple) error) (next tuple, refused []refusal, err error) {
	next = from
	try := func(from, to tuple) error {
		err := do(from, to)
		if err == nil {
			next = to
		}
		return err
	}
	row := func(at tuple, err error) error {
		next, refused = tuple{at.page, at.item + 1}, append(refused, refusal{at, err})
		if len(refused) == retainRefusals {
			return errManyRefusals
		}
		return nil
	}
	var pages []tuple
	for at := from; at.page < end.page; at = (tuple{page: at.page + 1}) {
		pages = append(pages, at)
	}
	err = pg.IsolateLocked(pages, func(some []tuple) error {
		return try(some[0], tuple{page: some[len(some)-1].page + 1})
	}, func(page tuple, _ error) error {
		var rows []tuple
		for item := max(page.item, 1); item < maxItem; item++ {
			rows = append(rows, tuple{page.page, item})
		}
		err := pg.IsolateLocked(rows, func(some []tuple) error {
			return try(some[0], tuple{page.page, some[len(some)-1].item + 1})
		}, row)
		if err == nil {
			next = tuple{page: page.page + 1}
		}
		return err
	})
	if errors.Is(err, errManyRefusals) {
		err = nil
	}
	return next, refused, err
}
