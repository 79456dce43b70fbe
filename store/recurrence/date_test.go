package recurrence

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestDate(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"2027-12-24", "2028-02-29", "2000-02-29", "0001-01-01", "9999-12-31"} {
		date, err := ParseDate(text)
		if err != nil || date.String() != text || dateOf(date.number()) != date || !date.exists() {
			t.Errorf("%s: got %s, %v", text, date, err)
		}
	}
	for _, text := range []string{
		"", "2027-02-29", "2100-02-29", "2027-04-31", "2027-13-01", "2027-00-10", "2027-01-00", "0000-01-01", "10000-01-01",
		"2027-1-5", "27-01-05", "2027-01-05T00:00:00Z", "2027-01-05 ", "05.01.2027", "-001-01-01", "tomorrow",
	} {
		if date, err := ParseDate(text); !errors.Is(err, ErrInvalid) || !date.IsZero() ||
			!strings.Contains(err.Error(), "date must be a day that exists") {
			t.Errorf("%q: got %s, %v", text, date, err)
		}
	}
	for _, date := range []Date{{}, {2027, 2, 29}, {2027, 13, 1}, {10000, 1, 1}, {-1, 1, 1}, {2027, 1, 32}} {
		if date.exists() {
			t.Errorf("%+v exists", date)
		}
	}
}

func TestDateJSON(t *testing.T) {
	t.Parallel()
	span := Span{Date{2027, time.December, 24}, Date{2027, time.December, 31}, "closed"}
	text, err := json.Marshal([]any{span, Date{}})
	if want := `[{"from":"2027-12-24","to":"2027-12-31","note":"closed"},""]`; err != nil || string(text) != want {
		t.Errorf("got %s, %v", text, err)
	}
	var back Span
	if err := json.Unmarshal([]byte(`{"from":"2027-12-24","to":"2027-12-31","note":"closed"}`), &back); err != nil || back != span {
		t.Errorf("got %+v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`{"from":"2027-02-30"}`), &back); !errors.Is(err, ErrInvalid) {
		t.Errorf("got %v", err)
	}
	if err := json.Unmarshal([]byte(`{"from":""}`), &back); err != nil || !back.From.IsZero() {
		t.Errorf("got %+v, %v", back, err)
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"2027-12-24", "2027-12-24..2028-01-06", "2027-01-01..2036-12-31"} {
		if span, err := ParseSpan(text); err != nil || span.String() != text {
			t.Errorf("%s: got %s, %v", text, span, err)
		}
	}
	if span, err := ParseSpan("2027-12-24..2027-12-24"); err != nil || span.String() != "2027-12-24" {
		t.Errorf("got %s, %v", span, err)
	}
	for text, want := range map[string]string{
		"":                         `date must be a day that exists`,
		"2027-12-24..":             `date must be a day that exists, such as 2027-12-24, got ""`,
		"..2027-12-24":             `date must be a day that exists`,
		"2027-12-24 .. 2027-12-31": `date must be a day that exists, such as 2027-12-24, got "2027-12-24 "`,
		"2027-12-24..2027-12-32":   `date must be a day that exists`,
		"2027-12-24..2027-12-23":   `days must not end before they begin, got "2027-12-24..2027-12-23"`,
		"2027-01-01..2037-01-02":   `days must be at most 3653 days (ten years) in one span`,
	} {
		if _, err := ParseSpan(text); !errors.Is(err, ErrInvalid) || !strings.HasPrefix(err.Error(), "invalid: "+want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestCalendarDays(t *testing.T) {
	t.Parallel()
	spans := []Span{
		spanOf(t, "2027-12-30..2028-01-02", ""), spanOf(t, "2027-12-24..2027-12-26", "closed"), spanOf(t, "2027-12-25", "Christmas"),
		spanOf(t, "2027-12-27", ""), spanOf(t, "2028-01-01", "New Year"), spanOf(t, "2028-02-29", ""),
	}
	days, err := NewDays(spans)
	if err != nil {
		t.Fatal(err)
	}
	spans[0] = Span{} // the set keeps its own
	if len(days.runs) != 3 {
		t.Errorf("the runs are %v", days.runs)
	}
	var has []string
	for day := (Date{2027, time.December, 1}).number(); day < (Date{2028, time.April, 1}).number(); day++ {
		if date := dateOf(day); days.Has(date) {
			has = append(has, strings.TrimSuffix(date.String()+" "+days.Note(date), " "))
		} else if note := days.Note(date); note != "" {
			t.Errorf("%s has the note %s", date, note)
		}
	}
	if want := []string{
		"2027-12-24 closed", "2027-12-25 closed", "2027-12-26 closed", "2027-12-27", "2027-12-30", "2027-12-31",
		"2028-01-01 New Year", "2028-01-02", "2028-02-29",
	}; !reflect.DeepEqual(has, want) {
		t.Errorf("got %q", has)
	}
	if (Days{}).Has(Date{2027, time.December, 24}) {
		t.Error("the zero Days has a day")
	}
	if days, err := NewDays(nil); err != nil || days.Has(Date{2027, time.December, 24}) {
		t.Error("no spans have a day", err)
	}
}

func TestDaysRefused(t *testing.T) {
	t.Parallel()
	good := spanOf(t, "2027-12-24", "")
	many := make([]Span, MaxSpans+1)
	for i := range many {
		many[i] = good
	}
	if _, err := NewDays(many[:MaxSpans]); err != nil {
		t.Error(err)
	}
	for want, spans := range map[string][]Span{
		`days must be at most 5000 spans, got "5001"`:       many,
		`days[1] must not end before they begin`:            {good, {From: good.From, To: Date{2027, 12, 23}}},
		`days[0] must be days that exist`:                   {{}},
		`days[2] must be days that exist`:                   {good, good, {From: Date{2027, 2, 29}, To: Date{2027, 3, 1}}},
		`days[0] must be at most 3653 days`:                 {{From: Date{2027, 1, 1}, To: Date{2037, 1, 1}}},
		`days[0] must have a note of at most 200 printable`: {spanOf(t, "2027-12-24", strings.Repeat("ä", 201))},
		`days[1] must have a note of`:                       {good, spanOf(t, "2027-12-24", "two\nlines")},
	} {
		if _, err := NewDays(spans); !errors.Is(err, ErrInvalid) || !strings.HasPrefix(err.Error(), "invalid: "+want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := NewDays([]Span{spanOf(t, "2027-12-24", strings.Repeat("ä", 200))}); err != nil {
		t.Error(err)
	}
}

func spanOf(t testing.TB, text, note string) Span {
	t.Helper()
	span, err := ParseSpan(text)
	if err != nil {
		t.Fatal(err)
	}
	span.Note = note
	return span
}

func TestCalendarName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"company": true, "a": true, "de-by_2027": true, "workdays-x": true, "workdays": false, "": false, "1a": false, "-a": false,
		"A": false, "ä": false, "a b": false, "a,b": false, "a\n": false, strings.Repeat("a", 63): true, strings.Repeat("a", 64): false,
	} {
		if IsCalendarName(name) != want {
			t.Errorf("%q: got %t", name, !want)
		}
	}
}
