package recurrence

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// MaxFileBytes is the greatest length of what ReadICS and ReadCSV read.
const MaxFileBytes = 4 << 20

// ReadCSV reads days, one span in each line. The first column is a day, or a span such as 2027-12-24..2027-12-31. The
// next column may be the last day of the span. The column after it may be the note, which is cut to MaxNote
// characters. The first line may have names of columns, of which the first is from, date, day or days. Empty lines
// and lines that begin with # are left out. There are at most MaxSpans spans in at most MaxFileBytes. Errors wrap
// ErrInvalid, except for those of the reader, and name the line.
func ReadCSV(r io.Reader) ([]Span, error) {
	text, err := readFile(r)
	if err != nil {
		return nil, err
	}
	reader := csv.NewReader(strings.NewReader(text))
	reader.FieldsPerRecord, reader.Comment, reader.TrimLeadingSpace = -1, '#', true
	var spans []Span
	for first := true; ; first = false {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, invalidCSV(err)
		}
		if first && slices.Contains(firstColumns, strings.ToLower(strings.TrimSpace(record[0]))) {
			continue
		}
		line, _ := reader.FieldPos(0)
		span, err := readRecord(record)
		if err != nil {
			return nil, atLine(line, err)
		}
		if spans = append(spans, span); len(spans) > MaxSpans {
			return nil, invalidLine(line, tooManySpans, span.String())
		}
	}
	if len(spans) == 0 {
		return nil, invalid("file", "must have a day", text)
	}
	return spans, nil
}

// firstColumns are the names that the first column may have in the first line.
var firstColumns = []string{"from", "date", "day", "days"}

// readRecord reads the columns of a line.
func readRecord(record []string) (Span, error) {
	for i, column := range record {
		record[i] = strings.TrimSpace(column)
	}
	span, err := ParseSpan(record[0])
	if err != nil {
		return Span{}, err
	}
	rest := record[1:]
	if len(rest) > 0 && !strings.Contains(record[0], "..") {
		if last, err := ParseDate(rest[0]); err == nil || rest[0] == "" {
			if err == nil {
				span.To = last
			}
			rest = rest[1:]
		}
	}
	if len(rest) > 0 {
		span.Note, rest = cleanNote(rest[0]), rest[1:]
	}
	if len(rest) > 0 {
		return Span{}, invalid("columns", "must be the first day, the last day and a note", strings.Join(record, ","))
	}
	if rule := span.fault(); rule != "" {
		return Span{}, invalid("days", rule, span.String())
	}
	return span, nil
}

var tooManySpans = fmt.Sprintf("must be the end, because there are at most %d spans", MaxSpans)

// readFile reads a text, and leaves out the mark that some programs write before it.
func readFile(r io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxFileBytes+1))
	if err != nil {
		return "", fmt.Errorf("read days: %w", err)
	}
	if len(text) > MaxFileBytes {
		return "", invalid("file", fmt.Sprintf("must be at most %d bytes", MaxFileBytes), string(text[:100]))
	}
	return strings.TrimPrefix(string(text), "\ufeff"), nil
}

// cleanNote makes a text a note.
func cleanNote(text string) string {
	words := strings.FieldsFunc(strings.ToValidUTF8(text, "?"), func(r rune) bool { return r == ' ' || unprintable(r) })
	note := []rune(strings.Join(words, " "))
	return strings.TrimSpace(string(note[:min(len(note), MaxNote)]))
}

func invalidCSV(err error) error {
	line := 0
	if parse := (*csv.ParseError)(nil); errors.As(err, &parse) {
		line, err = parse.Line, parse.Err
	}
	return invalidLine(line, "must be a line of CSV", err.Error())
}

func invalidLine(line int, rule, got string) error {
	return invalid(fmt.Sprintf("line %d", line), rule, got)
}

// atLine adds the line to an error that wraps ErrInvalid.
func atLine(line int, err error) error {
	text := strings.TrimPrefix(err.Error(), ErrInvalid.Error()+": ")
	return fmt.Errorf("%w: line %d: %s", ErrInvalid, line, text)
}
