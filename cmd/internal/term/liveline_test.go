package term

import (
	"bytes"
	"testing"
)

// A line is rewritten where it stands, and what is said stays above it.
func TestLiveLine(t *testing.T) {
	t.Parallel()
	for rewrites, want := range map[bool]string{
		false: "a\nb\nc\n",
		true:  "\r\x1b[2K\x1b[?7la\x1b[?7h\r\x1b[2Kb\n\x1b[?7la\x1b[?7h\r\x1b[2K\x1b[?7lc\x1b[?7h\n",
	} {
		var out bytes.Buffer
		l := &LiveLine{to: &out, Rewrites: rewrites}
		l.Show("a")
		l.Say("%s", "b")
		l.Show("c")
		l.End()
		l.End()
		if out.String() != want {
			t.Errorf("rewrites %t: %q, want %q", rewrites, out.String(), want)
		}
	}
}
