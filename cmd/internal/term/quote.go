package term

import (
	"regexp"
	"strings"
)

var needsNoQuotes = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// Quote is a word as a POSIX shell takes it.
func Quote(word string) string {
	if needsNoQuotes.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
