package taskdb

import (
	"fmt"
	"testing"
)

// Halves meet, lie within the range, and lead to single rows.
func TestHalvesOfARange(t *testing.T) {
	t.Parallel()
	for text, want := range map[TupleRange]string{
		{Tuple{Page: 0}, Tuple{Page: 2000}}:            "(0,0)-(1000,0)-(2000,0)",
		{Tuple{Page: 3}, Tuple{Page: 5}}:               "(3,0)-(4,0)-(5,0)",
		{Tuple{Page: 3}, Tuple{Page: 4}}:               "(3,0)-(3,1024)-(4,0)",
		{Tuple{3, 7}, Tuple{Page: 5}}:                  "(3,7)-(4,0)-(5,0)",
		{Tuple{3, 7}, Tuple{4, 9}}:                     "(3,7)-(4,0)-(4,9)",
		{Tuple{Page: 4}, Tuple{4, 9}}:                  "(4,0)-(4,4)-(4,9)",
		{Tuple{4, 2046}, Tuple{Page: 5}}:               "(4,2046)-(4,2047)-(5,0)",
		{Tuple{4, 2047}, Tuple{Page: 5}}:               "no halves",
		{Tuple{4, 8}, Tuple{4, 9}}:                     "no halves",
		{Tuple{4, 9}, Tuple{4, 9}}:                     "no halves",
		{Tuple{Page: 1 << 32}, Tuple{Page: 1<<32 + 2}}: "(4294967296,0)-(4294967297,0)-(4294967298,0)",
	} {
		got := "no halves"
		if first, second, ok := text.halves(); ok {
			if first.To != second.From {
				t.Errorf("%v: the halves %v and %v do not meet", text, first, second)
			}
			got = fmt.Sprint(first.From, "-", first.To, "-", second.To)
		}
		if got != want {
			t.Errorf("%v: %s, want %s", text, got, want)
		}
	}
}
