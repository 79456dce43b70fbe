package worker

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxLoggedError bounds the text of an error in a log line, in bytes. The history has more of the text.
const maxLoggedError = 1000

// oneLine makes an attempt's error fit for a log line. It returns the text as one bounded line without control
// characters. It returns the stack of a panic apart.
func oneLine(text string) (line, stack string) {
	text, stack, _ = strings.Cut(text, "\ngoroutine ") // the text of debug.Stack begins so
	line = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), r == utf8.RuneError:
			return '\uFFFD'
		}
		return r
	}, strings.TrimSpace(text))
	if len(line) <= maxLoggedError {
		return line, stack
	}
	return strings.ToValidUTF8(line[:maxLoggedError], "") + "…", stack // the cut may fall within a character
}
