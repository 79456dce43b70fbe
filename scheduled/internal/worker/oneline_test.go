package worker

import (
	"strings"
	"testing"
)

func TestOneLine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, line, stack string }{
		"plain":            {"421 try later", "421 try later", ""},
		"empty":            {"", "", ""},
		"of several lines": {" no mail\r\n\tno pigeon\n", "no mail   no pigeon", ""},
		"terminal codes":   {"\x1b[31mred\x07\x00", "\uFFFD[31mred\uFFFD\uFFFD", ""},
		"broken UTF-8":     {"a\xffb", "a\uFFFDb", ""},
		"a panic": {
			"handler panicked: oops\ngoroutine 7 [running]:\nmain.main()\n", "handler panicked: oops",
			"7 [running]:\nmain.main()\n",
		},
		"as long as may be": {strings.Repeat("x", maxLoggedError), strings.Repeat("x", maxLoggedError), ""},
		"too long":          {strings.Repeat("ü", maxLoggedError), strings.Repeat("ü", maxLoggedError/2) + "…", ""},
		"cut in a character": {
			"x" + strings.Repeat("ü", maxLoggedError), "x" + strings.Repeat("ü", maxLoggedError/2-1) + "…", "",
		},
	} {
		if line, stack := oneLine(test.text); line != test.line || stack != test.stack {
			t.Errorf("%s: %q and %q, want %q and %q", name, line, stack, test.line, test.stack)
		}
	}
}
