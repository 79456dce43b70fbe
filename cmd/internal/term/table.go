package term

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tasktable/tasktable/store"
)

// Table is aligned rows under headings. It knows nothing of terminals. Print is told whether to use colors, and the
// width.
type Table struct {
	headings []string // nil: newFields
	rows     [][]Cell
}

// Cell is a text with a color. A number is aligned to the right.
type Cell struct {
	Text   string
	Color  Color
	Number bool // aligned to the right
}

// Color is the parameter of a terminal's escape sequence.
type Color string

// The colors of tables. Plain is no color.
const (
	Plain  Color = ""
	Bold   Color = "1"
	Faint  Color = "2"
	Red    Color = "31"
	Green  Color = "32"
	Yellow Color = "33"
	Blue   Color = "34"
)

// StatusColors are the colors of statuses, of the outcomes of attempts, and of the outcomes of verbs. Red needs
// attention, and yellow may.
var StatusColors = map[string]Color{
	"QUEUED": Plain, "EXECUTING": Blue, "COMPLETED": Green, "FAILED": Red, "EXPIRED": Red,
	"CANCELLED": Faint, "PAUSED": Yellow, "SKIPPED": Faint,
	"RETRIED": Yellow, "LOST": Red, "SUPERSEDED": Faint, "SNOOZED": Plain, "INTERRUPTED": Yellow, "RELEASED": Faint,
	string(store.Created): Green, string(store.Rescheduled): Green, string(store.Rearmed): Green,
	string(store.Cancelled): Green,
	string(store.Paused):    Green, string(store.Queued): Green, string(store.Deleted): Green,
	string(store.Archived): Green, string(store.RunsAgain): Green,
	"resumed": Green, string(store.Unchanged): Faint, string(store.Finished): Faint,
	string(store.Running): Yellow,
	string(store.Absent):  Red,
}

// minLastColumn is the width that the last column keeps on a narrow terminal, whose lines then wrap.
const minLastColumn = 16

// NewTable returns a table with headings.
func NewTable(headings ...string) *Table { return &Table{headings: headings} }

// NewFields returns a table of one thing. Each row is a name and a value.
func NewFields() *Table { return &Table{} }

// Drop takes away the columns with these headings.
func (t *Table) Drop(headings ...string) {
	for _, heading := range headings {
		at := slices.Index(t.headings, heading)
		t.headings = slices.Delete(t.headings, at, at+1)
		for i, row := range t.rows {
			t.rows[i] = slices.Delete(row, at, at+1)
		}
	}
}

// DropEmpty takes away those of these columns that have no value in any row.
func (t *Table) DropEmpty(headings ...string) {
	for _, heading := range headings {
		at := slices.Index(t.headings, heading)
		if !slices.ContainsFunc(t.rows, func(row []Cell) bool { return row[at].Text != "" }) {
			t.Drop(heading)
		}
	}
}

// IsEmpty reports whether the table has no rows.
func (t *Table) IsEmpty() bool { return len(t.rows) == 0 }

// Add adds a row. A value may be a text, a number, a status, an outcome, a Cell, or a pointer to one of these. nil and
// "" are shown as "-".
func (t *Table) Add(values ...any) {
	row := make([]Cell, len(values))
	for i, value := range values {
		row[i] = CellOf(value)
	}
	t.rows = append(t.rows, row)
}

// Painted is a text in the color of the status or outcome that it names.
func Painted(word string) Cell { return Cell{Text: word, Color: StatusColors[word]} }

// CellOf is the cell of a value that Add takes.
func CellOf(value any) Cell {
	switch v := value.(type) {
	case nil:
		return Cell{}
	case Cell:
		return v
	case store.Status:
		return Painted(string(v))
	case store.Outcome:
		return Painted(string(v))
	case int:
		return Cell{Text: strconv.Itoa(v), Number: true}
	case int64:
		return Cell{Text: strconv.FormatInt(v, 10), Number: true}
	}
	if pointer := reflect.ValueOf(value); pointer.Kind() == reflect.Pointer {
		if pointer.IsNil() {
			return Cell{}
		}
		return CellOf(pointer.Elem().Interface())
	}
	return Cell{Text: fmt.Sprint(value)}
}

// Print writes the table. The last column is cut where a terminal's width is given, so that a long message does not
// wrap.
func (t *Table) Print(w io.Writer, colors bool, width int) error {
	rows := t.rows
	if t.headings != nil {
		headings := make([]Cell, len(t.headings))
		for i, heading := range t.headings {
			headings[i] = Cell{Text: heading, Color: Bold}
		}
		rows = append([][]Cell{headings}, rows...)
	}
	widths, numbers := measure(rows, t.headings != nil)
	var out strings.Builder
	for _, row := range rows {
		used := 0
		for i, c := range row {
			text, last := c.shown(), i == len(row)-1
			if last && width > 0 {
				text = Cut(text, max(width-used, minLastColumn))
			}
			padding := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(text)))
			switch painted := Paint(text, c.Color, colors); {
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
func measure(rows [][]Cell, headed bool) (widths []int, numbers []bool) {
	if len(rows) == 0 {
		return nil, nil
	}
	texts := make([]bool, len(rows[0]))
	widths, numbers = make([]int, len(texts)), make([]bool, len(texts))
	for place, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.shown()))
			if c.Text == "" || headed && place == 0 {
				continue
			}
			texts[i], numbers[i] = texts[i] || !c.Number, numbers[i] || c.Number
		}
	}
	for i := range numbers {
		numbers[i] = numbers[i] && !texts[i]
	}
	return widths, numbers
}

func (c Cell) shown() string {
	if c.Text == "" {
		return "-"
	}
	return Printable(c.Text)
}

// Printable is the text on one line, without control sequences. Anybody can write ids and messages, so a terminal must
// not obey them.
func Printable(text string) string {
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

// Join is the words with the separator between them.
func Join[T ~string](words []T, separator string) string {
	texts := make([]string, len(words))
	for i, word := range words {
		texts[i] = string(word)
	}
	return strings.Join(texts, separator)
}

// Cut shortens the text to room characters. It ends with … if something was cut.
func Cut(text string, room int) string {
	if utf8.RuneCountInString(text) <= room {
		return text
	}
	return string([]rune(text)[:room-1]) + "…"
}

// Paint puts the text between escape sequences, if colors is set.
func Paint(text string, color Color, colors bool) string {
	if !colors || color == Plain {
		return text
	}
	return "\x1b[" + string(color) + "m" + text + "\x1b[0m"
}
