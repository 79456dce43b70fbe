package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC) // a Saturday, the day before the clocks change in Europe

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	found, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestLabelsOfTimes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from   time.Time
		bucket time.Duration
		count  int
		zone   string
		want   string
	}{
		"an hour":   {noon.Add(7 * time.Minute), time.Minute, 60, "UTC", "12:10 12:20 12:30 12:40 12:50 13:00"},
		"six hours": {noon, 5 * time.Minute, 72, "UTC", "12:00 13:00 14:00 15:00 16:00 17:00 18:00"},
		"a zone of 45 minutes": {noon, 5 * time.Minute, 72, "Asia/Kathmandu",
			"18:00 19:00 20:00 21:00 22:00 23:00"},
		"a spring night": {noon.Add(11 * time.Hour), 5 * time.Minute, 72, "Europe/Berlin",
			"00:00 01:00 03:00 04:00 05:00 06:00 07:00"},
		"a day":  {noon, 15 * time.Minute, 96, "UTC", "12:00 18:00 00:00 06:00 12:00"},
		"a week": {noon, 2 * time.Hour, 84, "Europe/Berlin", "Sun 29 Mon 30 Tue 31 Wed 1 Thu 2 Fri 3 Sat 4"},
	} {
		at, layout := Axis{c.from, c.bucket, c.count, zone(t, c.zone)}.labels()
		var got []string
		for _, one := range at {
			got = append(got, one.Format(layout))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
}

func TestLabelsOfValues(t *testing.T) {
	t.Parallel()
	texts := func(ticks []tick) string {
		var all []string
		for _, one := range ticks {
			all = append(all, one.text)
		}
		return strings.Join(all, ", ")
	}
	for most, want := range map[float64]string{
		0: "0, 2, 4", 4: "0, 2, 4", 9: "0, 5, 10", 1100: "0, 1k, 2k", 2999: "0, 2k, 4k", 7e6: "0, 4M, 8M",
	} {
		if got := texts(countTicks(roundUp(most))); got != want {
			t.Errorf("%v attempts: %s, want %s", most, got, want)
		}
	}
	for name, c := range map[string]struct {
		values []time.Duration
		want   string
	}{
		"nothing":      {nil, "0, 2 ms, 4 ms"},
		"alike":        {[]time.Duration{30 * time.Millisecond, 90 * time.Millisecond}, "0, 50 ms, 100 ms"},
		"some seconds": {[]time.Duration{2 * time.Second, 3 * time.Second}, "0, 2 s, 4 s"},
		"hours":        {[]time.Duration{2 * time.Hour}, "0, 1 h, 2 h"},
		"days":         {[]time.Duration{70 * time.Hour}, "0, 2 d, 4 d"},
		"far apart":    {[]time.Duration{3 * time.Millisecond, 5 * time.Minute}, "1 ms, 10 ms, 100 ms, 1 s, 10 s, 1 min, 10 min"},
		"a clock was wrong": {[]time.Duration{-time.Hour, 15 * time.Second},
			"1 ms, 10 ms, 100 ms, 1 s, 10 s, 1 min"},
	} {
		var values []*time.Duration
		for _, value := range c.values {
			values = append(values, &value)
		}
		ticks, y := durationAxis([]Line{{Values: values}})
		if got := texts(ticks); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		for _, value := range c.values {
			if at := y(value.Seconds()); at < top || at > height-bottom {
				t.Errorf("%s: %v is drawn at %v", name, value, at)
			}
		}
		if !slices.IsSortedFunc(ticks, func(a, b tick) int { return int(y(b.value) - y(a.value)) }) {
			t.Errorf("%s: the axis does not rise", name)
		}
	}
}

// wellFormed fails if a chart is no XML, or has a style, which the content policy forbids.
func wellFormed(t *testing.T, svg string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
	}
	if strings.Contains(svg, "style=") {
		t.Errorf("a style in %s", svg)
	}
}

func contains(t *testing.T, svg string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(svg, part) {
			t.Errorf("no %s in %s", part, svg)
		}
	}
}

func TestBars(t *testing.T) {
	t.Parallel()
	axis := Axis{noon, time.Hour, 3, time.UTC}
	svg := string(Bars(axis, `3 <good> & "others"`,
		Part{"good", "good", []int64{4, 0, 10000}}, Part{"b<d", "bad", []int64{4, 0, 1}}))
	wellFormed(t, svg)
	contains(t, svg, `role="img" aria-label="3 &lt;good&gt; &amp; &#34;others&#34;"`,
		"<title>12:00 – 13:00: 4 good, 4 b&lt;d</title>", "<title>14:00 – 15:00: 10000 good, 1 b&lt;d</title>", ">20k</text>",
		// one among thousands has a height that is seen
		`<rect class="bad" x="335.8" y="77" width="137.7" height="1"/>`)
	if strings.Contains(svg, "13:00 – 14:00") {
		t.Errorf("an empty bucket is drawn: %s", svg)
	}
	wellFormed(t, string(Bars(Axis{noon, time.Hour, 0, time.UTC}, "nothing")))
}

func TestLines(t *testing.T) {
	t.Parallel()
	some := func(d time.Duration) *time.Duration { return &d }
	svg := string(Lines(Axis{noon, time.Hour, 4, time.UTC}, "delays",
		Line{"half", "line", []*time.Duration{some(time.Second), some(2 * time.Second), nil, some(0)}},
		Line{"most", "line second", make([]*time.Duration, 4)}))
	wellFormed(t, svg)
	contains(t, svg, `d="M110 43L214 32.5"`, `<circle class="line" cx="422" cy="148" r="2"/>`, "<title>13:00 – 14:00: half 2 s</title>")
	if strings.Contains(svg, "second") {
		t.Errorf("a line without values is drawn: %s", svg)
	}
}
