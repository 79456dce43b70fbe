package pg

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestAnswered(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err           error
		pool, session bool
	}{
		"an answer":                    {nil, true, true},
		"an error of the server":       {fmt.Errorf("settle: %w", &pgconn.PgError{Code: "23505"}), true, true},
		"no connection left":           {&pgconn.PgError{Code: "53300"}, true, true},
		"a standby":                    {ErrReadOnly, true, false},
		"a password that is no longer": {&pgconn.PgError{Code: "28P01"}, false, true},
		"silence":                      {context.DeadlineExceeded, false, false},
	} {
		if got := PoolAnswered(test.err); got != test.pool {
			t.Errorf("%s on the pool: %t", name, got)
		}
		if got := SessionAnswered(test.err); got != test.session {
			t.Errorf("%s on the session: %t", name, got)
		}
	}
}
