package pg

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
		err := Isolate(IsDataError, items, func(some []int) error {
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

// If a step takes too long, the next step is smaller. An item that takes too long alone is given up, so that the others
// get on.
func TestStep(t *testing.T) {
	t.Parallel()
	refused, canceled := &pgconn.PgError{Code: "22003"}, &pgconn.PgError{Code: "57014"}
	for name, test := range map[string]struct {
		do   func(some []int) error
		want string // of each step: how many are taken, how many are done, and which are given up
	}{
		"all is well": {func([]int) error { return nil }, "8 8 [], 8 8 [], 8 8 [], 8 8 [], 8 8 []"},
		"one takes too long": {func(some []int) error {
			if slices.Contains(some, 0) {
				return canceled
			}
			return nil
		}, "8 0 [], 4 0 [], 2 0 [], 1 0 [0], 1 1 []"},
		"one is refused": {func(some []int) error {
			if slices.Contains(some, 5) {
				return refused
			}
			return nil
		}, "8 7 [5], 8 8 [], 8 8 [], 8 8 [], 8 8 []"},
		"one is refused, and each try takes long": {func(some []int) error {
			time.Sleep(time.Duration(len(some)) * 200 * time.Millisecond)
			if slices.Contains(some, 3) {
				return refused
			}
			return nil
		}, "8 0 [], 4 2 [], 2 1 [3], 4 4 [], 8 8 []"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				size, steps := NewSize(1, 8), []string{}
				left := make([]int, 100)
				for i := range left {
					left[i] = i
				}
				for range 5 {
					items := slices.Clone(left[:size.Now()])
					done, gone := 0, []int{}
					take := func(some ...int) {
						left = slices.DeleteFunc(left, func(i int) bool { return slices.Contains(some, i) })
					}
					err := Step(size, items, func(some []int) error {
						err := test.do(some)
						if err == nil {
							done += len(some)
							take(some...)
						}
						return err
					}, func(item int, _ error) error {
						gone = append(gone, item)
						take(item)
						return nil
					})
					if err != nil && !errors.Is(err, canceled) {
						t.Error(err)
					}
					steps = append(steps, fmt.Sprint(len(items), " ", done, " ", gone))
				}
				if got := strings.Join(steps, ", "); got != test.want {
					t.Errorf("steps %s, want %s", got, test.want)
				}
			})
		})
	}
}
