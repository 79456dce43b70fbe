package scheduled

import (
	"fmt"
	"testing"
)

// Halves meet, lie within the range, and lead to single rows.
func TestHalvesOfARange(t *testing.T) {
	t.Parallel()
	for text, want := range map[tupleRange]string{
		wholePages(0, 2000):                            "(0,0)-(1000,0)-(2000,0)",
		wholePages(3, 5):                               "(3,0)-(4,0)-(5,0)",
		wholePages(3, 4):                               "(3,0)-(3,1024)-(4,0)",
		{tuple{3, 7}, tuple{page: 5}}:                  "(3,7)-(4,0)-(5,0)",
		{tuple{3, 7}, tuple{4, 9}}:                     "(3,7)-(4,0)-(4,9)",
		{tuple{page: 4}, tuple{4, 9}}:                  "(4,0)-(4,4)-(4,9)",
		{tuple{4, 2046}, tuple{page: 5}}:               "(4,2046)-(4,2047)-(5,0)",
		{tuple{4, 2047}, tuple{page: 5}}:               "no halves",
		{tuple{4, 8}, tuple{4, 9}}:                     "no halves",
		{tuple{4, 9}, tuple{4, 9}}:                     "no halves",
		{tuple{page: 1 << 32}, tuple{page: 1<<32 + 2}}: "(4294967296,0)-(4294967297,0)-(4294967298,0)",
	} {
		got := "no halves"
		if first, second, ok := text.halves(); ok {
			if first.to != second.from {
				t.Errorf("%v: the halves %v and %v do not meet", text, first, second)
			}
			got = fmt.Sprint(first.from, "-", first.to, "-", second.to)
		}
		if got != want {
			t.Errorf("%v: %s, want %s", text, got, want)
		}
	}
}
