package recurrence

import (
	"io"
	"iter"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// ReadICS reads the days of the events of an iCalendar file (RFC 5545). An event is a Span from the day of its DTSTART
// to the day before its DTEND, or for its DURATION. If an event has times of the day, its days are those that the
// file writes, whatever their zone. SUMMARY is the note, cut to MaxNote characters. Cancelled events are left out.
//
// An event may return each year, or each nth: FREQ=YEARLY with INTERVAL, COUNT and UNTIL. BYMONTH and BYMONTHDAY may
// repeat the event's own day. Without an end it returns until 2100. ReadICS refuses all other rules, and EXDATE and
// RDATE, because to leave out what it does not understand would give wrong days.
//
// There are at most MaxSpans spans in at most MaxFileBytes. Errors wrap ErrInvalid, except for those of the reader, and
// name the line.
func ReadICS(r io.Reader) ([]Span, error) {
	text, err := readFile(r)
	if err != nil {
		return nil, err
	}
	var file icsFile
	for number, line := range unfolded(text) {
		if err := file.read(number, line); err != nil {
			return nil, err
		}
		if len(file.spans) > MaxSpans {
			return nil, invalidLine(number, tooManySpans, line)
		}
	}
	if open := len(file.within); open > 0 {
		name := file.within[open-1]
		return nil, invalid("file", "must have an END for each BEGIN", name)
	}
	if len(file.spans) == 0 {
		return nil, invalid("file", "must be an iCalendar file with an event (BEGIN:VEVENT)", text)
	}
	return file.spans, nil
}

// unfolded returns the lines with their numbers. A line that begins with a space or a tab continues the one before.
func unfolded(text string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		var whole strings.Builder
		first, number := 0, 0
		for line := range strings.Lines(text) {
			number++
			line = strings.TrimRight(line, "\r\n")
			if strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") {
				whole.WriteString(line[1:])
				continue
			}
			if whole.Len() > 0 && !yield(first, whole.String()) {
				return
			}
			first = number
			whole.Reset()
			whole.WriteString(line)
		}
		if whole.Len() > 0 {
			yield(first, whole.String())
		}
	}
}

// icsFile has the events that were read so far.
type icsFile struct {
	within []string // the components that are open
	event  icsEvent
	spans  []Span
}

// icsEvent is an event until its END. The times are wall times.
type icsEvent struct {
	start, end int64
	startLine  int // 0 if it has no DTSTART
	endLine    int // 0 if it has no DTEND
	duration   int64
	rule       string
	ruleLine   int // 0 if it has no RRULE
	note       string
	cancelled  bool
}

func (f *icsFile) read(number int, line string) error {
	name, value, ok := property(line)
	if !ok {
		return invalidLine(number, "must be a name, a colon and a value, as in an iCalendar file", line)
	}
	switch name {
	case "BEGIN":
		if f.within = append(f.within, strings.ToUpper(value)); f.inEvent() {
			f.event = icsEvent{}
		}
		return nil
	case "END":
		open := len(f.within) - 1
		if open < 0 || f.within[open] != strings.ToUpper(value) {
			return invalidLine(number, "must not be an END without its BEGIN", line)
		}
		defer func() { f.within = f.within[:open] }()
		if !f.inEvent() {
			return nil
		}
		spans, err := f.event.spans(number)
		f.spans = append(f.spans, spans...)
		return err
	}
	if !f.inEvent() { // the zones and alarms of a file have times and rules, too
		return nil
	}
	return f.event.read(number, name, value)
}

func (f *icsFile) inEvent() bool { return len(f.within) > 0 && f.within[len(f.within)-1] == "VEVENT" }

// property divides a line. The parameters after the name are left out. They may have a colon in quotes.
func property(line string) (name, value string, ok bool) {
	quoted := false
	for i, r := range line {
		switch {
		case r == '"':
			quoted = !quoted
		case r == ':' && !quoted:
			name, _, _ = strings.Cut(line[:i], ";")
			return strings.ToUpper(name), line[i+1:], name != ""
		}
	}
	return "", "", false
}

func (e *icsEvent) read(number int, name, value string) (err error) {
	switch name {
	case "DTSTART":
		e.start, err = readICSTime(number, value)
		e.startLine = number
	case "DTEND":
		e.end, err = readICSTime(number, value)
		e.endLine = number
	case "DURATION":
		e.duration, err = readICSDuration(number, value)
	case "SUMMARY":
		e.note = cleanNote(escapes.Replace(value))
	case "STATUS":
		e.cancelled = strings.EqualFold(value, "CANCELLED")
	case "RRULE":
		if e.ruleLine > 0 {
			return invalidLine(number, "must not be a second RRULE of an event", value)
		}
		e.rule, e.ruleLine = value, number
	case "RDATE", "EXDATE", "EXRULE", "RECURRENCE-ID":
		return invalidLine(number, "must not be "+name+", which is not understood: write an event for each day", value)
	}
	return err
}

var escapes = strings.NewReplacer(`\n`, " ", `\N`, " ", `\\`, `\`, `\,`, ",", `\;`, ";")

func readICSTime(number int, value string) (wall int64, err error) {
	const clock = "20060102T150405"
	layout, text := clock, strings.TrimSuffix(value, "Z")
	if len(text) == len("20060102") {
		layout = clock[:len(text)]
	}
	at, err := time.Parse(layout, text)
	if err != nil || at.Year() < 1 {
		return 0, invalidLine(number, "must be a day or a time that exists, as 20271224 or 20271224T090000", value)
	}
	return at.Unix(), nil
}

var durationSyntax = regexp.MustCompile(
	`^\+?P(?:(\d{1,3})W|(?:(\d{1,4})D)?(?:T(?:(\d{1,5})H)?(?:(\d{1,7})M)?(?:(\d{1,8})S)?)?)$`)

func readICSDuration(number int, value string) (seconds int64, err error) {
	parts := durationSyntax.FindStringSubmatch(value)
	if parts == nil {
		return 0, invalidLine(number, "must be a duration such as P1D, P2W or PT8H", value)
	}
	for i, unit := range []int64{7 * daySeconds, daySeconds, 3600, 60, 1} {
		count, _ := strconv.ParseInt("0"+parts[i+1], 10, 64)
		seconds += count * unit
	}
	return seconds, nil
}

// spans returns the event's days when it ends in a line of the file.
func (e *icsEvent) spans(line int) ([]Span, error) {
	if e.startLine == 0 {
		return nil, invalidLine(line, "must end an event that has a DTSTART", "END:VEVENT")
	}
	if e.cancelled {
		return nil, nil
	}
	first := dayOf(e.start)
	last := max(first, dayOf(e.start+e.duration-1))
	if e.endLine > 0 {
		if last = dayOf(e.end - 1); e.end == e.start {
			last = first
		}
	}
	span := Span{dateOf(first), dateOf(last), e.note}
	if rule := span.fault(); rule != "" {
		return nil, invalidLine(max(e.startLine, e.endLine), rule, span.String())
	}
	if e.ruleLine == 0 {
		return []Span{span}, nil
	}
	rule, err := readYearly(e.rule, span.From)
	if err != nil {
		return nil, atLine(e.ruleLine, err)
	}
	return rule.expand(span), nil
}
