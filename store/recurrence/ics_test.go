package recurrence

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// event wraps the lines of an event in a calendar. The first of them is line 3.
func event(lines ...string) string {
	all := append([]string{"BEGIN:VCALENDAR", "BEGIN:VEVENT"}, lines...)
	return strings.Join(append(all, "END:VEVENT", "END:VCALENDAR", ""), "\r\n")
}

// holidays is a file such as countries publish.
const holidays = "\ufeffBEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Example//Holidays//EN\r\n" +
	"BEGIN:VTIMEZONE\r\nTZID:Europe/Berlin\r\nBEGIN:DAYLIGHT\r\nDTSTART:19700329T020000\r\n" +
	"RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU\r\nEND:DAYLIGHT\r\nEND:VTIMEZONE\r\n" +
	"BEGIN:VEVENT\r\nUID:1\r\nDTSTART;VALUE=DATE:20271225\r\nDTEND;VALUE=DATE:20271227\r\nSUMMARY;LANGUAGE=en:Christmas\\, both\r\n" +
	"  days\r\nBEGIN:VALARM\r\nTRIGGER:-P1D\r\nDURATION:PT1H\r\nSUMMARY:wake up\r\nEND:VALARM\r\nEND:VEVENT\r\n" +
	"BEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20280101\r\nSUMMARY:New Year\r\nEND:VEVENT\r\n" +
	"BEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20280102\r\nSTATUS:CANCELLED\r\nEND:VEVENT\r\n" +
	"BEGIN:VTODO\r\nDTSTART:20280103T090000\r\nEND:VTODO\r\nEND:VCALENDAR\r\n"

// writeSpans writes each span with its note.
func writeSpans(spans []Span) string {
	var all []string
	for _, span := range spans {
		all = append(all, strings.TrimSpace(span.String()+" "+span.Note))
	}
	return strings.Join(all, ", ")
}

func TestReadICS(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		holidays:                                  "2027-12-25..2027-12-26 Christmas, both days, 2028-01-01 New Year",
		strings.ReplaceAll(holidays, "\r", ""):    "2027-12-25..2027-12-26 Christmas, both days, 2028-01-01 New Year",
		event("DTSTART:20271224"):                 "2027-12-24",
		event("DTSTART:20271224", "DURATION:P3D"): "2027-12-24..2027-12-26",
		event("DTSTART:20271224", "DURATION:P2W"): "2027-12-24..2028-01-06",
		// The end is not included, and an event of some hours takes its days.
		event("DTSTART:20271224T220000Z", "DTEND:20271225T000000Z"):                    "2027-12-24",
		event("DTSTART:20271224T220000", "DTEND:20271225T000001"):                      "2027-12-24..2027-12-25",
		event("DTSTART:20271224T220000", "DURATION:PT8H"):                              "2027-12-24..2027-12-25",
		event("DTSTART:20271224T220000", "DURATION:P1DT2H"):                            "2027-12-24..2027-12-25",
		event("DTSTART:20271224T220000"):                                               "2027-12-24",
		event("DTSTART:20271224", "DTEND:20271224"):                                    "2027-12-24",
		event(`DTSTART;TZID="a:b;c":20271224T090000`, `summary:a\nb\\c\;d`+"\t\u0007"): `2027-12-24 a b\c;d`,
		event("DTSTART:20271224", "SUMMARY:"+strings.Repeat("ä", 300)):                 "2027-12-24 " + strings.Repeat("ä", 200),
		// Yearly.
		event("DTSTART:20971225", "RRULE:FREQ=YEARLY"):                                                     "2097-12-25, 2098-12-25, 2099-12-25, 2100-12-25",
		event("DTSTART:20271231", "DTEND:20280102", "RRULE:FREQ=YEARLY;COUNT=2;WKST=MO", "SUMMARY:closed"): "2027-12-31..2028-01-01 closed, 2028-12-31..2029-01-01 closed",
		event("DTSTART:20271225", "RRULE:FREQ=YEARLY;UNTIL=20291225T000000Z;BYMONTH=12;BYMONTHDAY=25"):     "2027-12-25, 2028-12-25, 2029-12-25",
		event("DTSTART:20271225", "RRULE:interval=3;freq=yearly;until=20331224"):                           "2027-12-25, 2030-12-25",
		event("DTSTART:20880229", "RRULE:FREQ=YEARLY"):                                                     "2088-02-29, 2092-02-29, 2096-02-29",
		event("DTSTART:20280229", "RRULE:FREQ=YEARLY;COUNT=2"):                                             "2028-02-29, 2032-02-29",
		event("DTSTART:21500101", "RRULE:FREQ=YEARLY"):                                                     "2150-01-01",
	} {
		if spans, err := ReadICS(strings.NewReader(text)); err != nil || writeSpans(spans) != want {
			t.Errorf("%s\ngot %s, %v, want %s", text, writeSpans(spans), err, want)
		}
	}
	spans, err := ReadICS(strings.NewReader(holidays))
	if _, errDays := NewDays(spans); err != nil || errDays != nil {
		t.Error(err, errDays)
	}
}

func TestReadICSRefuses(t *testing.T) {
	t.Parallel()
	const yearly = "RRULE must be FREQ=YEARLY, with no more than INTERVAL (1 to 1000), COUNT (1 to 1000), UNTIL, and BYMONTH"
	var many strings.Builder
	for range 70 {
		many.WriteString("BEGIN:VEVENT\nDTSTART:20270101\nRRULE:FREQ=YEARLY\nEND:VEVENT\n")
	}
	for text, want := range map[string]string{
		"":                                 `file must be an iCalendar file with an event (BEGIN:VEVENT)`,
		"BEGIN:VCALENDAR\nEND:VCALENDAR\n": `file must be an iCalendar file with an event`,
		"day,note\n2027-12-24,closed\n":    `line 1 must be a name, a colon and a value, as in an iCalendar file, got "day,note"`,
		"BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20271224\n":                             `file must have an END for each BEGIN, got "VEVENT"`,
		"BEGIN:VCALENDAR\nEND:VEVENT\n":                                                 `line 2 must not be an END without its BEGIN`,
		event("SUMMARY:Christmas"):                                                      `line 4 must end an event that has a DTSTART`,
		event("UID:1", "DTSTART:20270229"):                                              `line 4 must be a day or a time that exists, as 20271224 or 20271224T090000, got "20270229"`,
		event("DTSTART:20271224T250000"):                                                `line 3 must be a day or a time that exists`,
		event("DTSTART:2027-12-24"):                                                     `line 3 must be a day or a time that exists`,
		event("DTSTART:00001224"):                                                       `line 3 must be a day or a time that exists`,
		event("DTSTART:20271224", "DTEND:20271220"):                                     `line 4 must not end before they begin, got "2027-12-24..2027-12-19"`,
		event("DTSTART:20271224", "DTEND:20471224"):                                     `line 4 must be at most 3653 days`,
		event("DTSTART:20271224", "DURATION:-P1D"):                                      `line 4 must be a duration such as P1D, P2W or PT8H, got "-P1D"`,
		event("DTSTART:20271224", "DURATION:1D"):                                        `line 4 must be a duration`,
		event("DTSTART:20271224", "EXDATE:20281224"):                                    `line 4 must not be EXDATE, which is not understood: write an event for each day`,
		event("DTSTART:20271224", "RDATE:20281224"):                                     `line 4 must not be RDATE`,
		event("RECURRENCE-ID:20271224", "DTSTART:20271224"):                             `line 3 must not be RECURRENCE-ID`,
		event("DTSTART:20271224", "RRULE:FREQ=WEEKLY"):                                  `line 4: ` + yearly,
		event("RRULE:FREQ=YEARLY;\r\n BYDAY=1MO", "SUMMARY:folded", "DTSTART:20271224"): `line 3: ` + yearly + ` and BYMONTHDAY of the event's first day: write an event for each day, got "BYDAY=1MO"`,
		event("DTSTART:20271224", "RRULE:FREQ=YEARLY;BYMONTH=11"):                       `line 4: ` + yearly,
		event("DTSTART:20271224", "RRULE:FREQ=YEARLY;BYMONTHDAY=-1"):                    `line 4: ` + yearly,
		event("DTSTART:20271224", "RRULE:FREQ=YEARLY;INTERVAL=0"):                       `line 4: ` + yearly,
		event("DTSTART:20271224", "RRULE:FREQ=YEARLY;COUNT=x"):                          `line 4: ` + yearly,
		event("DTSTART:20271224", "RRULE:FREQ=YEARLY;UNTIL=2030"):                       `line 4: ` + yearly,
		event("DTSTART:20271224", "RRULE:COUNT=3"):                                      `line 4: ` + yearly,
		event("DTSTART:20271224", "RRULE:"):                                             `line 4: ` + yearly,
		event("DTSTART:20271224", "RRULE:FREQ=YEARLY", "RRULE:FREQ=YEARLY"):             `line 5 must not be a second RRULE of an event`,
		"BEGIN:VCALENDAR\n" + many.String() + "END:VCALENDAR\n":                         `line 273 must be the end, because there are at most 5000 spans`,
		strings.Repeat(" ", MaxFileBytes+1):                                             `file must be at most 4194304 bytes`,
	} {
		spans, err := ReadICS(strings.NewReader(text))
		if !errors.Is(err, ErrInvalid) || !strings.HasPrefix(err.Error(), "invalid: "+want) || spans != nil {
			t.Errorf("%.300s\ngot %v, want %s", text, err, want)
		}
	}
	if _, err := ReadICS(iotest.ErrReader(io.ErrClosedPipe)); !errors.Is(err, io.ErrClosedPipe) || errors.Is(err, ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestReadCSV(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2027-12-24": "2027-12-24",
		"\ufeffFrom,To,Note\r\n2027-12-24,2027-12-31,closed\r\n\r\n# a remark\r\n2028-01-01,,\"New Year, a holiday\"\r\n": "2027-12-24..2027-12-31 closed, 2028-01-01 New Year, a holiday",
		"day,note\n2027-12-24..2027-12-31,closed\n2028-01-01, New Year\n":                                                 "2027-12-24..2027-12-31 closed, 2028-01-01 New Year",
		"2027-12-24, 2027-12-26\n2027-12-28,\n2027-12-30,,\n":                                                             "2027-12-24..2027-12-26, 2027-12-28, 2027-12-30",
		"date\n2027-12-24,\"two\nlines\"\n":                                                                               "2027-12-24 two lines",
		"2027-12-24," + strings.Repeat("x", 300):                                                                          "2027-12-24 " + strings.Repeat("x", 200),
	} {
		if spans, err := ReadCSV(strings.NewReader(text)); err != nil || writeSpans(spans) != want {
			t.Errorf("%s\ngot %s, %v, want %s", text, writeSpans(spans), err, want)
		}
	}
	for text, want := range map[string]string{
		"":                                   `file must have a day, got ""`,
		"from,to,note\n":                     `file must have a day`,
		"when,note\n2027-12-24,a\n":          `line 1: date must be a day that exists, such as 2027-12-24, got "when"`,
		"2027-12-24\n\n2027-12-32,closed\n":  `line 3: date must be a day that exists, such as 2027-12-24, got "2027-12-32"`,
		"2027-12-24,2027-12-23\n":            `line 1: days must not end before they begin, got "2027-12-24..2027-12-23"`,
		"2027-12-24..2027-12-23\n":           `line 1: days must not end before they begin`,
		"2027-12-24,2047-12-23\n":            `line 1: days must be at most 3653 days`,
		"2027-12-24,2027-12-25,a,b\n":        `line 1: columns must be the first day, the last day and a note, got "2027-12-24,2027-12-25,a,b"`,
		"2027-12-24,a,b\n":                   `line 1: columns must be`,
		"# a remark\n2027-12-24,a \"b\" c\n": `line 2 must be a line of CSV, got "bare \" in non-quoted-field"`,
		strings.Repeat("2027-12-24\n", 5001): `line 5001 must be the end, because there are at most 5000 spans`,
	} {
		spans, err := ReadCSV(strings.NewReader(text))
		if !errors.Is(err, ErrInvalid) || !strings.HasPrefix(err.Error(), "invalid: "+want) || spans != nil {
			t.Errorf("%.300s\ngot %v, want %s", text, err, want)
		}
	}
	if _, err := ReadCSV(iotest.ErrReader(io.ErrClosedPipe)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
	if spans, err := ReadCSV(strings.NewReader(strings.Repeat("2027-12-24\n", MaxSpans))); err != nil || len(spans) != MaxSpans {
		t.Error(len(spans), fmt.Sprint(err))
	}
}

// TestLargeFiles: a file that is as large as it may be is read soon, whatever its lines.
func TestLargeFiles(t *testing.T) {
	t.Parallel()
	began := time.Now()
	for _, line := range []string{" x\n", "BEGIN:VEVENT\n", "X:\n", "\n", "a,b,c\n", "\"", ","} {
		text := strings.Repeat(line, MaxFileBytes/len(line))
		for _, read := range []func(io.Reader) ([]Span, error){ReadICS, ReadCSV} {
			if _, err := read(strings.NewReader(text)); !errors.Is(err, ErrInvalid) {
				t.Errorf("%q: got %v", line, err)
			}
		}
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
}
