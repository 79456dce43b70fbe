package command

import (
	"strings"
	"unicode/utf8"
)

// tail keeps the end of what is written to it. Its memory is bounded, however much is written.
type tail struct {
	keep    int    // how many bytes of the end are wanted
	before  int    // how many bytes before these are held, so that a secret that begins there is seen as a whole
	held    []byte // at most twice what is wanted
	written int64
}

func newTail(keep int, hidden secrets) *tail { return &tail{keep: keep, before: hidden.longest()} }

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.written += int64(len(p))
	most := t.keep + t.before
	if len(p) > most {
		t.held = t.held[:0] // nothing before p is wanted
		t.held = append(t.held, p[len(p)-most:]...)
		return len(p), nil
	}
	t.held = append(t.held, p...)
	if len(t.held) > 2*most { // rarely, so that many small writes do not each move the bytes
		t.held = append(t.held[:0], t.held[len(t.held)-most:]...)
	}
	return len(p), nil
}

// text returns the end as text that Postgres can store, without secrets.
func (t *tail) text(hidden secrets) string {
	if t.keep == 0 {
		return ""
	}
	held := string(t.held[max(0, len(t.held)-t.keep-t.before):])
	if t.written > int64(t.keep) {
		held = held[hidden.after(held, max(0, len(held)-t.keep)):]
		for i := 0; i < utf8.UTFMax-1 && held != "" && !utf8.RuneStart(held[0]); i++ {
			held = held[1:] // the rest of a character
		}
	}
	held = hidden.hide(held)
	return strings.ReplaceAll(strings.ToValidUTF8(held, "\uFFFD"), "\x00", "\uFFFD")
}
