package pg

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestIsolate(t *testing.T) {
	t.Parallel()
	refused := &pgconn.PgError{Code: "22003"} // a number out of range
	away := errors.New("the connection is closed")
	for _, test := range []struct {
		what       string
		items      int
		bad        []int // get a data error each time
		once       []int // get a data error the first time that they are alone
		ends       int   // gets another error
		unfit      bool  // giveUp cannot do its work
		done, gone string
		err        error
	}{
		{what: "nothing", ends: -1, done: "[]", gone: "[]"},
		{what: "all are good", items: 5, ends: -1, done: "[0 1 2 3 4]", gone: "[]"},
		{what: "one is bad", items: 5, bad: []int{3}, ends: -1, done: "[0 1 2 4]", gone: "[3]"},
		{what: "a single one is bad", items: 1, bad: []int{0}, ends: -1, done: "[]", gone: "[0]"},
		{what: "all are bad", items: 4, bad: []int{0, 1, 2, 3}, ends: -1, done: "[]", gone: "[0 1 2 3]"},
		{what: "an error came only once", items: 4, once: []int{1, 2}, ends: -1, done: "[0 1 2 3]", gone: "[]"},
		{what: "another error ends it", items: 5, bad: []int{0}, ends: 1, done: "[]", gone: "[0]", err: away},
		{
			what:  "a bad one that cannot be dealt with ends it",
			items: 4, bad: []int{2}, ends: -1, unfit: true, done: "[0 1]", gone: "[]", err: away,
		},
	} {
		done, gone, alone := []int{}, []int{}, map[int]bool{}
		items := make([]int, test.items)
		for i := range items {
			items[i] = i
		}
		err := Isolate(items, func(some []int) error {
			for _, item := range some {
				if slices.Contains(test.bad, item) || slices.Contains(test.once, item) && !alone[item] {
					if len(some) == 1 {
						alone[item] = true
					}
					return fmt.Errorf("do: %w", refused)
				}
			}
			if slices.Contains(some, test.ends) {
				return away
			}
			done = append(done, some...)
			return nil
		}, func(item int, err error) error {
			if !errors.Is(err, refused) || !alone[item] {
				t.Errorf("%s: %d is broken by %v, without a try by itself", test.what, item, err)
			}
			if test.unfit {
				return away
			}
			gone = append(gone, item)
			return nil
		})
		if fmt.Sprint(done) != test.done || fmt.Sprint(gone) != test.gone || !errors.Is(err, test.err) {
			t.Errorf("%s: done %v, broken %v, %v; want %s, %s, %v",
				test.what, done, gone, err, test.done, test.gone, test.err)
		}
	}
}
