package api

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// answerBytes is how much one query of a reading call reads at most, so that an answer has a bound, whatever the
// payloads are. A task with the largest payload and the largest result is much smaller.
const answerBytes = 4 << 20

// tooLargeError is the error of a query that has read more than its bound.
type tooLargeError struct {
	rows  int // that fit
	bytes int
}

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("the answer would be larger than %d bytes; ask for less, for example by a lower limit", e.bytes)
}

// bounded is a DB whose queries fail as soon as they have read more than a number of bytes.
type bounded struct {
	store.DB

	bytes int
}

// Query runs a query. Its rows end with a tooLargeError if they are too large together.
func (b bounded) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := b.DB.Query(ctx, sql, args...)
	if err != nil {
		return nil, err //nolint:wrapcheck // it passes the query on
	}
	return &boundedRows{Rows: rows, most: b.bytes}, nil
}

// boundedRows counts what it reads.
type boundedRows struct {
	pgx.Rows

	most, read, rows int
	err              error
}

// Next reads the next row, of which the first always fits.
func (r *boundedRows) Next() bool {
	if r.err != nil || !r.Rows.Next() {
		return false
	}
	for _, value := range r.RawValues() {
		r.read += len(value)
	}
	if r.read > r.most && r.rows > 0 {
		r.err = &tooLargeError{rows: r.rows, bytes: r.most}
		r.Close() // it reads the rest without keeping it
		return false
	}
	r.rows++
	return true
}

// Err is the error with which the rows have ended.
func (r *boundedRows) Err() error {
	if r.err != nil {
		return r.err
	}
	return r.Rows.Err() //nolint:wrapcheck // it passes the query on
}

// fitting reads with a limit of rows. If they are too large together, it reads fewer, and shortened is true.
func fitting[T any](limit int, read func(limit int) (T, error)) (found T, shortened bool, err error) {
	for {
		found, err = read(limit)
		tooLarge := new(tooLargeError)
		if !errors.As(err, &tooLarge) || tooLarge.rows >= limit {
			return found, shortened, err
		}
		limit, shortened = tooLarge.rows, true
	}
}
