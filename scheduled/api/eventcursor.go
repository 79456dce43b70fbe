package api

import (
	"slices"
	"strconv"
	"strings"
)

// place is a line of the history. Numbers come from one sequence, so no two lines have the same one.
type place struct {
	Tx     int64 // the transaction that wrote the line
	Number int64
}

// cursor says which lines a client has, by their transactions: all lines of those below the last place, and of the last
// place's own transaction the lines up to its number. The places before it are transactions that had not ended when
// the client's lines were read. Of these it has the lines up to their numbers, which is none as long as they are open.
//
// It does not go by numbers or times alone, because a transaction draws these before it commits: a line with a lower
// number may appear after one with a higher number.
type cursor []place

// maxOpen is how many open transactions a cursor steps over. If there are more, the stream waits at the youngest that
// does not fit, so that the id of an event has a bound.
const maxOpen = 32

var errOtherStream = invalid("Last-Event-ID must be the id of an event of this stream")

// String is the cursor as the id of an event: its places, oldest first, such as 812-900.4711.
func (c cursor) String() string {
	parts := make([]string, len(c))
	for i, at := range c {
		parts[i] = strconv.FormatInt(at.Tx, 10)
		if at.Number != 0 {
			parts[i] += "." + strconv.FormatInt(at.Number, 10)
		}
	}
	return strings.Join(parts, "-")
}

func parseCursor(text string) (c cursor, err error) {
	for part := range strings.SplitSeq(text, "-") {
		var at place
		tx, number, _ := strings.Cut(part, ".")
		if at.Tx, err = strconv.ParseInt(tx, 10, 64); err == nil && number != "" {
			at.Number, err = strconv.ParseInt(number, 10, 64)
		}
		if err != nil || at.Tx <= c.head().Tx || at.Number < 0 {
			return nil, errOtherStream
		}
		c = append(c, at)
	}
	if len(c) > maxOpen+1 || c.String() != text {
		return nil, errOtherStream
	}
	return c, nil
}

// cursorOf is the cursor of a client that has all lines that a snapshot shows. open has the transactions that had not
// ended, oldest first, and next is the transaction that had not begun.
func cursorOf(open []int64, next int64) (c cursor) {
	for _, tx := range append(open, next)[:min(len(open), maxOpen)+1] {
		c = append(c, place{Tx: tx})
	}
	return c
}

func (c cursor) head() place {
	if len(c) == 0 {
		return place{}
	}
	return c[len(c)-1]
}

// open has the transactions that the cursor steps over.
func (c cursor) open() []int64 {
	open := make([]int64, 0, len(c))
	for _, at := range c[:len(c)-1] {
		open = append(open, at.Tx)
	}
	return open
}

// span is a part of the history: the lines behind a place, of transactions below another.
type span struct {
	from  place
	below int64
	late  bool // it is one transaction, which the cursor has stepped over
}

// rest reports whether the span is what a client lacks of a transaction of which it has some lines.
func (s span) rest() bool { return s.from.Number != 0 && s.below == s.from.Tx+1 }

// next returns the part of the history that a client with this cursor lacks and gets next. First come the transactions
// that the cursor has stepped over and that have ended since, then the rest of its last transaction, and then at most
// `most` transactions behind the cursor. There is none if the client has all lines of the transactions that had ended
// by now.
func (c cursor) next(now cursor, most int64) (s span, found bool) {
	head := c.head()
	if head.Tx > now.head().Tx { // now was asked for before the cursor
		return s, false
	}
	for _, at := range c[:len(c)-1] {
		if !slices.Contains(now.open(), at.Tx) {
			return span{from: at, below: at.Tx + 1, late: true}, true
		}
	}
	if head.Number != 0 {
		most = 1
	}
	return span{from: head, below: min(now.head().Tx, head.Tx+most)}, head.Tx < now.head().Tx
}

// after is the cursor of a client that has got the lines of a span up to a place.
func (c cursor) after(s span, at place, now cursor) (behind cursor) {
	if s.late {
		for _, one := range c {
			switch {
			case one.Tx != s.from.Tx:
				behind = append(behind, one)
			case at.Tx < s.below: // it has more lines, perhaps
				behind = append(behind, at)
			}
		}
		return behind
	}
	for _, tx := range now.open() {
		if tx < at.Tx {
			behind = append(behind, place{Tx: tx})
		}
	}
	return append(behind, at)
}

// end is the cursor of a client that has got all lines of a span.
func (c cursor) end(s span, now cursor) cursor { return c.after(s, place{Tx: s.below}, now) }
