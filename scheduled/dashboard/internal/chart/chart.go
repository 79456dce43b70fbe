// Package chart draws charts as SVG. It has pure functions alone. Their text is escaped, and has classes instead of
// styles, because the content policy of the dashboard forbids styles.
package chart

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
)

// The size of a chart in its own units. The page scales it. Room for the labels of the axes is at the left and below.
const (
	width, height            = 480.0, 170.0
	left, right, top, bottom = 58.0, 6.0, 8.0, 22.0
)

// Axis is the time that a chart shows. The first bucket begins at From, and each is Bucket long.
type Axis struct {
	From   time.Time
	Bucket time.Duration
	Count  int            // of buckets
	Zone   *time.Location // of the labels
}

// x returns the place at which a bucket begins.
func (a Axis) x(bucket float64) float64 {
	return left + (width-left-right)*bucket/float64(max(a.Count, 1))
}

// begin returns the time at which a bucket begins.
func (a Axis) begin(bucket int) time.Time { return a.From.Add(time.Duration(bucket) * a.Bucket) }

// Span names a bucket, such as 12:00 – 12:05. If the chart is longer than a day, it names the day, too.
func (a Axis) Span(bucket int) string {
	from, to := a.begin(bucket).In(a.Zone), a.begin(bucket+1).In(a.Zone)
	layout := "15:04"
	if time.Duration(a.Count)*a.Bucket > 24*time.Hour {
		layout = "Mon 2 Jan 15:04"
	}
	return from.Format(layout) + " – " + to.Format("15:04")
}

// steps are the distances of labels in time.
var steps = []time.Duration{
	5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour,
	6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour, 7 * 24 * time.Hour,
}

const maxLabels = 7 // of times

// labels returns the times at which the axis has labels: full hours, days or the like in the zone.
func (a Axis) labels() (at []time.Time, layout string) {
	whole := time.Duration(a.Count) * a.Bucket
	step := steps[len(steps)-1]
	for _, one := range steps {
		if whole/one <= maxLabels {
			step = one
			break
		}
	}
	layout = "15:04"
	if step >= 24*time.Hour {
		layout = "Mon 2"
	}
	// The wall clock is counted in steps from midnight, because zones differ by quarters of an hour, and days have 23
	// to 25 hours.
	local := a.From.In(a.Zone)
	midnight := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, a.Zone)
	for i := 0; i < 1000; i++ {
		days, rest := i*int(step/time.Minute)/(24*60), i*int(step/time.Minute)%(24*60)
		one := time.Date(midnight.Year(), midnight.Month(), midnight.Day()+days, 0, rest, 0, 0, a.Zone)
		if one.After(a.begin(a.Count)) {
			break
		}
		// In spring, 02:00 and 03:00 are the same time.
		if !one.Before(a.From) && (len(at) == 0 || one.After(at[len(at)-1])) {
			at = append(at, one)
		}
	}
	return at, layout
}

// drawing is an SVG that grows.
type drawing struct{ strings.Builder }

func (d *drawing) add(format string, args ...any) { fmt.Fprintf(d, format, args...) }

// number writes a place with one decimal at most.
func number(at float64) string { return strconv.FormatFloat(float64(int(at*10+0.5))/10, 'f', -1, 64) }

func escape(text string) string { return template.HTMLEscapeString(text) }

// begin opens the SVG. The summary says for those who do not see the chart what it shows.
func (d *drawing) begin(summary string) {
	d.add(`<svg class="chart" viewBox="0 0 %s %s" role="img" aria-label="%s">`, number(width), number(height),
		escape(summary))
}

func (d *drawing) end() template.HTML {
	d.add(`</svg>`)
	return template.HTML(d.String()) //nolint:gosec // all text of others is escaped
}

// tick is a label of the axis of values.
type tick struct {
	value float64
	text  string
}

// axes draws the lines and the labels. y returns the place of a value.
func (d *drawing) axes(axis Axis, ticks []tick, y func(float64) float64) {
	for _, one := range ticks {
		d.add(`<path class="axis" d="M%s %sH%s"/>`, number(left), number(y(one.value)), number(width-right))
		d.add(`<text x="%s" y="%s" text-anchor="end">%s</text>`, number(left-5), number(y(one.value)+4),
			escape(one.text))
	}
	labels, layout := axis.labels()
	for _, at := range labels {
		x := axis.x(float64(at.Sub(axis.From)) / float64(axis.Bucket))
		d.add(`<path class="axis" d="M%s %sv4"/>`, number(x), number(height-bottom))
		if x <= width-right-16 { // beyond, half of the label would be cut off
			d.add(`<text x="%s" y="%s" text-anchor="middle">%s</text>`, number(x), number(height-bottom+16),
				at.Format(layout))
		}
	}
}

// place returns the height of a share of the axis of values: 0 is the bottom, 1 the top.
func place(share float64) float64 { return height - bottom - (height-top-bottom)*share }
