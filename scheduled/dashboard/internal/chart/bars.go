package chart

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// Part is a part of each bar, such as the attempts that failed.
type Part struct {
	Name   string
	Class  string
	Values []int64 // one for each bucket
}

// Bars draws a bar for each bucket, with the parts one upon the other. The first part is at the bottom.
func Bars(axis Axis, summary string, parts ...Part) template.HTML {
	greatest := int64(0)
	for bucket := range axis.Count {
		sum := int64(0)
		for _, part := range parts {
			sum += part.Values[bucket]
		}
		greatest = max(greatest, sum)
	}
	ceiling := roundUp(float64(greatest))
	y := func(value float64) float64 { return place(value / ceiling) }
	var d drawing
	d.begin(summary)
	d.axes(axis, countTicks(ceiling), y)
	for bucket := range axis.Count {
		d.bar(axis, bucket, parts, y)
	}
	return d.end()
}

// bar draws the parts of a bucket. A browser shows the title when the mouse is over the bucket.
func (d *drawing) bar(axis Axis, bucket int, parts []Part, y func(float64) float64) {
	from, to := axis.x(float64(bucket)), axis.x(float64(bucket+1))
	gap := min(1, (to-from)/6)
	var drawn drawing
	var told []string
	below := int64(0)
	for _, part := range parts {
		value := part.Values[bucket]
		if value <= 0 {
			continue
		}
		low, high := y(float64(below)), y(float64(below+value))
		high = min(high, low-1) // a few among thousands must be seen, too
		drawn.add(`<rect class="%s" x="%s" y="%s" width="%s" height="%s"/>`, escape(part.Class), number(from+gap/2),
			number(high), number(to-from-gap), number(low-high))
		told = append(told, strconv.FormatInt(value, 10)+" "+part.Name)
		below += value
	}
	if len(told) > 0 {
		d.add(`<g><title>%s</title>%s</g>`, escape(axis.Span(bucket)+": "+strings.Join(told, ", ")), drawn.String())
	}
}

// roundUp returns the next 1, 2, 4, 5 or 8 times a power of ten. It is at least 4, so that half of it is whole.
func roundUp(value float64) float64 {
	for power := 1.0; power < math.MaxFloat64/100; power *= 10 {
		for _, digit := range []float64{1, 2, 4, 5, 8} {
			if digit*power >= max(value, 4) {
				return digit * power
			}
		}
	}
	return value
}

func countTicks(ceiling float64) (ticks []tick) {
	for _, share := range []float64{0, 0.5, 1} {
		ticks = append(ticks, tick{ceiling * share, shortCount(ceiling * share)})
	}
	return ticks
}

// shortCount writes 1500 as 1.5k, so that the label has room.
func shortCount(value float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if value >= unit.size {
			return strconv.FormatFloat(value/unit.size, 'f', -1, 64) + unit.name
		}
	}
	return fmt.Sprint(value)
}
