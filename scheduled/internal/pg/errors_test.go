package pg

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestPoolAnswered(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"an answer":                    {nil, true},
		"an error of the server":       {fmt.Errorf("settle: %w", &pgconn.PgError{Code: "23505"}), true},
		"no connection left":           {&pgconn.PgError{Code: "53300"}, true},
		"a standby":                    {ErrReadOnly, false},
		"a password that is no longer": {&pgconn.PgError{Code: "28P01"}, false},
		"silence":                      {context.DeadlineExceeded, false},
	} {
		if got := PoolAnswered(test.err); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A broken index or a full disk is no fault of the row that met it, so the row's task must not fail for it. A row that
// is too large for an application's index is at fault.
func TestIsDataError(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]bool{
		"XX001": false, "XX002": false, "58030": false, "53100": false, "57014": false, "55P03": false, "40P01": false,
		"42501": false, "42P01": false, "23505": true, "22P02": true, "P0001": true, "54000": true,
	} {
		if got := IsDataError(fmt.Errorf("settle: %w", &pgconn.PgError{Code: code})); got != want {
			t.Errorf("%s: %t", code, got)
		}
	}
}

// The function insert_notice must repeat a settle after the same errors as the engine. Otherwise a fault of Postgres
// would lose a notice, or an error that comes again would keep a task from being settled.
func TestNoticesKnowTheSameErrors(t *testing.T) {
	t.Parallel()
	migration, err := os.ReadFile("../../../migrations/00007_notices.sql")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`IF left\(SQLSTATE, 2\) IN \(([^)]*)\)`).FindAllSubmatch(migration, -1)
	if len(list) != 1 {
		t.Fatalf("00007_notices.sql has %d lists of classes", len(list))
	}
	noticed := []string{"08"} // the named difference
	for _, class := range regexp.MustCompile(`'(..)'`).FindAllSubmatch(list[0][1], -1) {
		noticed = append(noticed, string(class[1]))
	}
	refused := []string{"28", "3D", "3F", "42"} // a missing right or table is no fault of Postgres
	const signs = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for _, first := range signs {
		for _, second := range signs {
			class := string(first) + string(second)
			fault := !IsDataError(&pgconn.PgError{Code: class + "000"}) && !slices.Contains(refused, class)
			if fault != slices.Contains(noticed, class) {
				t.Errorf("class %s: the engine says %t that it is a fault of Postgres, insert_notice the contrary", class, fault)
			}
		}
	}
}
