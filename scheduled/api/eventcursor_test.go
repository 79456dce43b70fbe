package api

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// Whatever the order in which transactions commit, and wherever a client breaks off and goes on with the id of its last
// event, it gets each line once.
func TestCursorSkipsAndRepeatsNoLine(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 24))
		var lines []place // committed
		open := map[int64][]place{}
		next, number := int64(1), int64(0)
		now := func() cursor {
			var txs []int64
			for tx := range open {
				txs = append(txs, tx)
			}
			slices.Sort(txs)
			return cursorOf(txs, next)
		}
		seen := map[place]int{}
		at, asked := now(), now()
		read := func() {
			for reads := 0; ; reads++ {
				s, found := at.next(asked, 1+random.Int64N(20))
				if !found {
					return
				}
				if reads > 10000 {
					t.Fatalf("seed %d: the cursor %s gets nowhere", seed, at)
				}
				var page []place
				for _, one := range lines {
					if one.Tx >= s.from.Tx && one.Tx < s.below && !slices.Contains(asked.open(), one.Tx) &&
						(one.Tx > s.from.Tx || one.Number > s.from.Number) {
						page = append(page, one)
					}
				}
				slices.SortFunc(page, func(a, b place) int { return int((a.Tx-b.Tx)*1e6 + a.Number - b.Number) })
				most := 1 + random.IntN(4)
				last := at.end(s, asked)
				for i, one := range page {
					if i == most {
						break
					}
					seen[one]++
					last = at.after(s, one, asked)
				}
				if len(page) <= most {
					last = at.end(s, asked)
				}
				at = last
				if random.IntN(3) == 0 { // the client comes back
					parsed, err := parseCursor(at.String())
					if err != nil {
						t.Fatalf("seed %d: %s: %v", seed, at, err)
					}
					at = parsed
					if random.IntN(2) == 0 {
						return
					}
				}
			}
		}
		end := func(tx int64, commit bool) {
			if commit {
				lines = append(lines, open[tx]...)
			}
			delete(open, tx)
		}
		any := func() (tx int64) {
			for one := range open {
				tx = max(tx, one)
				if random.IntN(3) == 0 {
					return one
				}
			}
			return tx
		}
		for range 60 + random.IntN(200) {
			switch tx := any(); {
			case random.IntN(3) == 0 || tx == 0 && random.IntN(2) == 0:
				open[next], next = nil, next+1
			case tx != 0 && random.IntN(2) == 0:
				number++
				open[tx] = append(open[tx], place{tx, number})
			case tx != 0 && random.IntN(4) != 0:
				end(tx, random.IntN(5) > 0)
			case random.IntN(2) == 0:
				asked = now()
			default:
				read()
			}
		}
		for tx := range open {
			end(tx, true)
		}
		asked = now()
		for more := true; more; _, more = at.next(asked, 1000) {
			read()
		}
		for _, one := range lines {
			if seen[one] != 1 {
				t.Fatalf("seed %d: line %v was sent %d times", seed, one, seen[one])
			}
		}
		if len(seen) != len(lines) {
			t.Fatalf("seed %d: %d lines were sent, and %d committed", seed, len(seen), len(lines))
		}
	}
}

// However many transactions are open, the id of an event has a bound.
func TestCursorStepsOverAFewTransactions(t *testing.T) {
	t.Parallel()
	var open []int64
	for tx := range int64(100) {
		open = append(open, 9e18+tx)
	}
	c := cursorOf(open, 9e18+100)
	if len(c) != maxOpen+1 || c.head().Tx != open[maxOpen] || len(c.String()) > maxEventID/2 {
		t.Errorf("%d places, %d bytes, to %d", len(c), len(c.String()), c.head().Tx)
	}
	if got := fmt.Sprint(cursorOf(nil, 7), cursorOf([]int64{3, 5}, 7)); got != "7 3-5-7" {
		t.Error(got)
	}
}
