package dashboard

import (
	"unicode"
	"unicode/utf8"

	"github.com/tasktable/tasktable/scheduled/dashboard/internal/words"
)

// upper returns a text with a capital letter at its beginning.
func upper(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

// sentence makes a sentence of an error's text.
func sentence(err error) string {
	return upper(err.Error()) + "."
}

// amount is a number of things, such as 1 task or 1 204 tasks.
func amount(number int, one, several string) string {
	if number == 1 {
		return "1 " + one
	}
	return words.Count(number, false) + " " + several
}
