package cmd

import (
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tasktable/tasktable/store"
)

// table is rows under headings, aligned. It knows nothing of terminals: whoever prints it says whether there are colors, and how
// much room.
type table struct {
	headings []string // nil: newFields
	rows     [][]cell
}

type cell struct {
	text   string
	color  color
	number bool // aligned to the right
}

// color is what stands in the escape sequence.
type color string

const (
	plain  color = ""
	bold   color = "1"
	faint  color = "2"
	red    color = "31"
	green  color = "32"
	yellow color = "33"
	blue   color = "34"
)

// colors are those of statuses, of the outcomes of attempts, and of verbs: red wants somebody's attention, yellow may.
var colors = map[string]color{
	"QUEUED": plain, "EXECUTING": blue, "COMPLETED": green, "FAILED": red, "EXPIRED": red,
	"CANCELLED": faint, "PAUSED": yellow, "SKIPPED": faint,
	"RETRIED": yellow, "LOST": red, "SUPERSEDED": faint, "SNOOZED": plain, "INTERRUPTED": yellow, "RELEASED": faint,
	string(store.Created): green, string(store.Rescheduled): green, string(store.Rearmed): green, string(store.Cancelled): green,
	string(store.Paused): green, string(store.Queued): green, string(store.Deleted): green, string(store.Archived): green,
	string(resumed): green, string(store.Unchanged): faint, string(store.Finished): faint, string(store.Running): yellow, string(store.Absent): red,
}

// leastRoom is what the last column keeps on a narrow terminal, whose lines then wrap.
const leastRoom = 16

func newTable(headings ...string) *table { return &table{headings: headings} }

// newFields is a table of one thing: its rows are a name and a value.
func newFields() *table { return &table{} }

// headingIf adds a heading that only some tables have.
func (t *table) headingIf(has bool, heading string) {
	if has {
		t.headings = append(t.headings, heading)
	}
}

// add adds a row of texts, numbers, statuses, outcomes, cells, and pointers to any of these; nil and "" are shown as "-".
func (t *table) add(values ...any) {
	row := make([]cell, len(values))
	for i, value := range values {
		row[i] = cellOf(value)
	}
	t.rows = append(t.rows, row)
}

// painted is a text in the color of a status or an outcome.
func painted(word string) cell { return cell{text: word, color: colors[word]} }

func cellOf(value any) cell {
	switch v := value.(type) {
	case nil:
		return cell{}
	case cell:
		return v
	case store.Status:
		return painted(string(v))
	case store.Outcome:
		return painted(string(v))
	case int:
		return cell{text: strconv.Itoa(v), number: true}
	case int64:
		return cell{text: strconv.FormatInt(v, 10), number: true}
	}
	if pointer := reflect.ValueOf(value); pointer.Kind() == reflect.Pointer {
		if pointer.IsNil() {
			return cell{}
		}
		return cellOf(pointer.Elem().Interface())
	}
	return cell{text: fmt.Sprint(value)}
}

// print writes the table. The last column is cut where a terminal's width is given, so that a long message does not wrap.
func (t *table) print(w io.Writer, colors bool, width int) error {
	rows := t.rows
	if t.headings != nil {
		headings := make([]cell, len(t.headings))
		for i, heading := range t.headings {
			headings[i] = cell{text: heading, color: bold}
		}
		rows = append([][]cell{headings}, rows...)
	}
	widths, numbers := measure(rows, t.headings != nil)
	var out strings.Builder
	for _, row := range rows {
		used := 0
		for i, c := range row {
			text, last := c.shown(), i == len(row)-1
			if last && width > 0 {
				text = cut(text, max(width-used, leastRoom))
			}
			padding := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(text)))
			switch painted := paint(text, c.color, colors); {
			case numbers[i]:
				out.WriteString(padding + painted)
			case last:
				out.WriteString(painted)
			default:
				out.WriteString(painted + padding)
			}
			if !last {
				out.WriteString("  ")
			}
			used += widths[i] + 2
		}
		out.WriteString("\n")
	}
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// measure is how wide each column is, and whether it is one of numbers.
func measure(rows [][]cell, headed bool) (widths []int, numbers []bool) {
	if len(rows) == 0 {
		return nil, nil
	}
	texts := make([]bool, len(rows[0]))
	widths, numbers = make([]int, len(texts)), make([]bool, len(texts))
	for place, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.shown()))
			if c.text == "" || headed && place == 0 {
				continue
			}
			texts[i], numbers[i] = texts[i] || !c.number, numbers[i] || c.number
		}
	}
	for i := range numbers {
		numbers[i] = numbers[i] && !texts[i]
	}
	return widths, numbers
}

func (c cell) shown() string {
	if c.text == "" {
		return "-"
	}
	return printable(c.text)
}

// printable is a text on one line, and without what a terminal would obey: messages and ids are whatever somebody has written.
func printable(text string) string {
	var out strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			out.WriteByte(' ')
		case unicode.IsPrint(r):
			out.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			out.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return out.String()
}

func cut(text string, room int) string {
	if utf8.RuneCountInString(text) <= room {
		return text
	}
	return string([]rune(text)[:room-1]) + "…"
}

func paint(text string, color color, colors bool) string {
	if !colors || color == plain {
		return text
	}
	return "\x1b[" + string(color) + "m" + text + "\x1b[0m"
}
